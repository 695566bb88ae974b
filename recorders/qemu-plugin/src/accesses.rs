//! Accesses of a block, as QEMU tells them and as a trace has them.

use libc::c_void;
use quaver_trace::frame::MOST_ACCESSES;
use quaver_trace::step::Access;

/// Most bytes of one access in a trace.
const MOST_OCTETS: u8 = 64;

/// What the callback of an access knows of its instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accessing {
    /// Its number in the block.
    pub(crate) instruction: u16,
    /// Whether it reads and writes the same memory.
    pub(crate) changes_memory: bool,
}

impl Accessing {
    const CHANGES: usize = 1 << 16;

    pub(crate) fn packed(self) -> *mut c_void {
        let changes = if self.changes_memory { Self::CHANGES } else { 0 };
        std::ptr::without_provenance_mut(usize::from(self.instruction) | changes)
    }

    pub(crate) fn unpacked(data: *mut c_void) -> Self {
        let word = data.addr();
        Self { instruction: word as u16, changes_memory: word & Self::CHANGES != 0 }
    }
}

/// Takes in an access of the block whose accesses begin at `from`.
#[inline]
pub(crate) fn take_in(
    accesses: &mut Vec<Access>,
    from: usize,
    address: u64,
    octets: u8,
    write: bool,
    what: Accessing,
) {
    let instruction = what.instruction;
    if write && what.changes_memory && !has_read(&accesses[from..], address, instruction) {
        push(accesses, from, Access { address, instruction, octets, write: false });
    }
    push(accesses, from, Access { address, instruction, octets, write });
}

fn has_read(accesses: &[Access], address: u64, instruction: u16) -> bool {
    let same = accesses.iter().rev().take_while(|access| access.instruction == instruction);
    same.into_iter().any(|access| {
        !access.write
            && (access.address..access.address.saturating_add(u64::from(access.octets))).contains(&address)
    })
}

/// QEMU cuts long accesses into pieces; what lies side by side is one.
#[inline]
fn push(accesses: &mut Vec<Access>, from: usize, access: Access) {
    if let Some(last) = accesses[from..].last_mut() {
        let follows = last.address.wrapping_add(u64::from(last.octets)) == access.address;
        let same = last.instruction == access.instruction && last.write == access.write;
        if same && follows && last.octets + access.octets <= MOST_OCTETS {
            last.octets += access.octets;
            return;
        }
    }
    if accesses.len() - from < MOST_ACCESSES {
        accesses.push(access);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGES: Accessing = Accessing { instruction: 3, changes_memory: true };
    const PLAIN: Accessing = Accessing { instruction: 3, changes_memory: false };

    fn accesses(each: &[(u64, bool, Accessing)]) -> Vec<(u64, u8, bool)> {
        // What is of the block before is left alone.
        let mut all = vec![Access { address: 56, instruction: 3, octets: 8, write: false }];
        each.iter().for_each(|(address, write, what)| take_in(&mut all, 1, *address, 8, *write, *what));
        all[1..].iter().map(|access| (access.address, access.octets, access.write)).collect()
    }

    #[test]
    fn pieces_of_one_access_are_put_together() {
        let other = Accessing { instruction: 4, ..PLAIN };
        let found = accesses(&[(64, false, PLAIN), (72, false, PLAIN), (80, true, PLAIN), (88, true, other)]);
        assert_eq!(found, [(64, 16, false), (80, 8, true), (88, 8, true)]);
        let pieces: Vec<_> = (0..10).map(|piece| (piece * 8, false, PLAIN)).collect();
        assert_eq!(accesses(&pieces), [(0, 64, false), (64, 16, false)]);
    }

    #[test]
    fn what_changes_memory_at_once_reads_it_too() {
        assert_eq!(accesses(&[(64, true, CHANGES)]), [(64, 8, false), (64, 8, true)]);
        let in_two = accesses(&[(64, false, CHANGES), (64, true, CHANGES)]);
        assert_eq!(in_two, [(64, 8, false), (64, 8, true)]);
        assert_eq!(accesses(&[(64, true, PLAIN)]), [(64, 8, true)]);
    }

    #[test]
    fn what_an_access_needs_fits_into_a_word() {
        for instruction in [0, 1, 511, u16::MAX] {
            for changes_memory in [false, true] {
                let accessing = Accessing { instruction, changes_memory };
                assert_eq!(Accessing::unpacked(accessing.packed()), accessing);
            }
        }
    }
}
