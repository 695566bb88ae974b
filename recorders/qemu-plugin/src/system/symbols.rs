//! Places of the kernel where epochs begin and end, by its symbols.

use quaver_trace::epochs::Activity;
use std::collections::HashMap;
use std::ops::Range;

/// Stubs of interrupts: each pushes its vector (Linux, arch/x86/include/asm/idtentry.h).
const STUBS: u64 = 256 - 32;
/// Bytes of a stub, at most.
const STUB_OCTETS: u64 = 16;
/// Marks where jumps may go to; stubs of kernels that check that begin so.
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
/// Pushes a byte.
const PUSH: u8 = 0x6a;

/// What a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// The entry of system calls.
    SystemCall,
    /// Another entry.
    Entry(Activity),
    /// The change of tasks.
    Change,
    /// Softirqs are served.
    Softirqs,
}

/// The places of a kernel.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    points: HashMap<u64, Point>,
    stubs: Range<u64>,
}

impl Symbols {
    /// Those in lines of `/proc/kallsyms`.
    ///
    /// # Errors
    /// The name of one that is missing.
    pub(crate) fn of(text: &str) -> Result<Self, &'static str> {
        let mut symbols = Self::default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(_), Some(name)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let Ok(address) = u64::from_str_radix(address, 16) else { continue };
            if name == "irq_entries_start" {
                symbols.stubs = address..address + STUBS * STUB_OCTETS;
            } else if let Some(point) = point(name) {
                symbols.points.insert(address, point);
            }
        }
        let has = |point: Point| symbols.points.values().any(|one| *one == point);
        match () {
            () if !has(Point::SystemCall) => Err("entry_SYSCALL_64"),
            () if !has(Point::Change) => Err("__switch_to_asm"),
            () if !has(Point::Entry(Activity::Timer)) => Err("asm_sysvec_apic_timer_interrupt"),
            () if symbols.stubs.is_empty() => Err("irq_entries_start"),
            () => Ok(symbols),
        }
    }

    /// What the block at this address is, whose instructions are these.
    pub(crate) fn point(&self, pc: u64, octets: &[Vec<u8>]) -> Option<Point> {
        if self.stubs.contains(&pc) {
            let pushes = octets.iter().find(|octets| octets.as_slice() != ENDBR64)?;
            if let [PUSH, vector] = pushes[..] {
                return Some(Point::Entry(Activity::Interrupt(vector)));
            }
        }
        self.points.get(&pc).copied()
    }
}

fn point(name: &str) -> Option<Point> {
    Some(match name {
        "entry_SYSCALL_64" => Point::SystemCall,
        "__switch_to_asm" => Point::Change,
        "handle_softirqs" | "__do_softirq" => Point::Softirqs,
        "asm_sysvec_apic_timer_interrupt" => Point::Entry(Activity::Timer),
        "asm_exc_page_fault" => Point::Entry(Activity::PageFault),
        _ if name.starts_with("asm_sysvec_") => Point::Entry(Activity::Call),
        _ if name.starts_with("asm_exc_") => Point::Entry(Activity::Exception),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "ffffffff82000080 T entry_SYSCALL_64\n\
        ffffffff82001000 T asm_exc_page_fault\nffffffff82001020 t asm_exc_int3\n\
        ffffffff82001a00 T asm_sysvec_apic_timer_interrupt\nffffffff82001a20 T asm_sysvec_reschedule_ipi\n\
        ffffffff82000200 T irq_entries_start\nffffffff81c0aaaa T __switch_to_asm\nffffffff810b0000 t handle_softirqs\n\
        ffffffffc0000000 t other\t[e1000e]\nnonsense\n";

    #[test]
    fn places_are_known_by_their_symbols() {
        let symbols = Symbols::of(TEXT).unwrap();
        let at = |pc| symbols.point(pc, &[vec![0x90]]);
        assert_eq!(at(0xffff_ffff_8200_0080), Some(Point::SystemCall));
        assert_eq!(at(0xffff_ffff_8200_1000), Some(Point::Entry(Activity::PageFault)));
        assert_eq!(at(0xffff_ffff_8200_1020), Some(Point::Entry(Activity::Exception)));
        assert_eq!(at(0xffff_ffff_8200_1a00), Some(Point::Entry(Activity::Timer)));
        assert_eq!(at(0xffff_ffff_8200_1a20), Some(Point::Entry(Activity::Call)));
        assert_eq!(at(0xffff_ffff_81c0_aaaa), Some(Point::Change));
        assert_eq!(at(0xffff_ffff_810b_0000), Some(Point::Softirqs));
        assert_eq!(at(0xffff_ffff_c000_0000), None);
        let stub = [ENDBR64.to_vec(), vec![PUSH, 0x23], vec![0xe9, 0, 0, 0, 0]];
        assert_eq!(
            symbols.point(0xffff_ffff_8200_0210, &stub),
            Some(Point::Entry(Activity::Interrupt(0x23)))
        );
        assert_eq!(symbols.point(0xffff_ffff_8200_0210, &stub[2..]), None);
        assert_eq!(symbols.point(0xffff_ffff_8210_0210, &stub), None);
    }

    #[test]
    fn a_kernel_without_one_of_them_is_refused() {
        assert_eq!(Symbols::of(&TEXT.replace("__switch_to_asm", "other")).unwrap_err(), "__switch_to_asm");
        assert_eq!(Symbols::of("").unwrap_err(), "entry_SYSCALL_64");
    }
}
