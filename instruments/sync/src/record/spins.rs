//! Loops that wait for others without sleeping: those with the instruction that is there for them (`pause` of x86-64). Runtimes
//! and locks have it, whatever they are called and whether or not they have symbols.

/// Bytes of code before and behind a place that are looked at.
pub const AROUND: usize = 256;
/// The longest loop.
const LONGEST: usize = 256;

/// Whether a place of some code is in a loop with a `pause`. On other machines than x86-64 no place is.
pub fn is_in_spin(code: &[u8], at: usize) -> bool {
    let pauses =
        code.windows(2).enumerate().filter(|(_, bytes)| *bytes == [0xf3, 0x90]).map(|(place, _)| place);
    cfg!(target_arch = "x86_64")
        && pauses.into_iter().any(|pause| {
            let behind = pause + 2..code.len().min(pause + LONGEST);
            behind.into_iter().any(|jump| {
                jumps_back(code, jump).is_some_and(|(target, end)| {
                    target <= pause && target <= at && at < end && end - target <= LONGEST
                })
            })
        })
}

/// Where a jump backwards goes to, and where its instruction ends.
fn jumps_back(code: &[u8], at: usize) -> Option<(usize, usize)> {
    let (bytes, distance) = match code.get(at..)? {
        [0x70..=0x7f | 0xeb, distance, ..] => (2, i64::from(distance.cast_signed())),
        [0xe9, a, b, c, d, ..] => (5, i64::from(i32::from_le_bytes([*a, *b, *c, *d]))),
        [0x0f, 0x80..=0x8f, a, b, c, d, ..] => (6, i64::from(i32::from_le_bytes([*a, *b, *c, *d]))),
        _ => return None,
    };
    let end = at + bytes;
    let target = usize::try_from(end as i64 + distance).ok()?;
    (distance < 0).then_some((target, end))
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn a_loop_with_a_pause_spins_and_no_other() {
        // nop; 1: pause; mov eax, [rdi]; cmp eax, esi; je 1b; ret; 2: inc eax; jmp 2b
        let code = [0x90, 0xf3, 0x90, 0x8b, 0x07, 0x39, 0xf0, 0x74, 0xf8, 0xc3, 0xff, 0xc0, 0xeb, 0xfc];
        let found: Vec<usize> = (0..code.len()).filter(|at| is_in_spin(&code, *at)).collect();
        assert_eq!(found, (1..9).collect::<Vec<_>>());
        // With far jumps: 1: pause; jne 1b; 2: jmp 2b.
        let far = [0xf3, 0x90, 0x0f, 0x85, 0xf8, 0xff, 0xff, 0xff, 0xe9, 0xfb, 0xff, 0xff, 0xff];
        let found: Vec<usize> = (0..far.len()).filter(|at| is_in_spin(&far, *at)).collect();
        assert_eq!(found, (0..8).collect::<Vec<_>>());
        assert!(!is_in_spin(&[], 0) && !is_in_spin(&[0xf3, 0x90], 0) && !is_in_spin(&[0xf3, 0x90, 0xeb], 1));
        // A jump forwards makes no loop, nor does one before the code.
        assert!(!is_in_spin(&[0xf3, 0x90, 0xeb, 0x05, 0x90], 0));
        assert!(!is_in_spin(&[0xf3, 0x90, 0xeb, 0x80], 0));
    }
}
