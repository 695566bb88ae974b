//! Marks of a guest: how the first process of an emulated machine talks to the plugin in its emulator.
//!
//! A mark is a `cpuid` instruction of a leaf that no processor has; the emulator answers as to any such leaf, the plugin sees it:
//!
//! ```text
//! register  eax                  ecx
//! mark      MARK_LEAF + moment   a word
//! ```

use strum::FromRepr;

/// First leaf of marks.
pub const MARK_LEAF: u32 = 0x5156_5300;

/// Name of the thread by which the plugin finds where the kernel keeps names of tasks.
pub const CALIBRATING_TASK: &str = "qv-calibrating";
/// Names of all tasks of the guest's programs begin so, but that of [`FIRST_TASK`]; all others are the kernel's own.
pub const TASK_PREFIX: &str = "qv-";
/// The first process.
pub const FIRST_TASK: &str = "init";
/// Names of tasks that stand for an idle processor begin so.
pub const IDLE_PREFIX: &str = "swapper/";

/// What a mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromRepr)]
#[repr(u8)]
pub enum GuestMoment {
    /// The word is the lower half of an address.
    Low = 1,
    /// The word is its upper half.
    High = 2,
    /// At that address there are so many octets: lines of `/proc/kallsyms`, those that are worth knowing.
    Symbols = 3,
    /// From now on activity is kept.
    Begin = 4,
}

impl GuestMoment {
    /// The leaf of its mark.
    pub const fn leaf(self) -> u32 {
        MARK_LEAF + self as u32
    }

    /// What a leaf says; none where it is no mark.
    pub fn of(leaf: u32) -> Option<Self> {
        Self::from_repr(u8::try_from(leaf.wrapping_sub(MARK_LEAF)).ok()?)
    }
}

/// Whether a symbol of the kernel is worth knowing.
pub fn is_wanted(symbol: &str) -> bool {
    const NAMES: [&str; 5] =
        ["entry_SYSCALL_64", "irq_entries_start", "__switch_to_asm", "handle_softirqs", "__do_softirq"];
    NAMES.contains(&symbol) || symbol.starts_with("asm_exc_") || symbol.starts_with("asm_sysvec_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_leaves_and_back() {
        let all = [GuestMoment::Low, GuestMoment::High, GuestMoment::Symbols, GuestMoment::Begin];
        for moment in all {
            assert_eq!(GuestMoment::of(moment.leaf()), Some(moment));
        }
        assert_eq!([0, 7, MARK_LEAF, MARK_LEAF + 5].map(GuestMoment::of), [None; 4]);
        assert!(is_wanted("asm_exc_page_fault") && !is_wanted("entry_SYSCALL_64_safe_stack"));
    }
}
