//! Stacks that a thread has written: each is named by its number from then on.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Stacks of a thread that are remembered.
const REMEMBERED: usize = 32;

/// What a thread knows of its stacks, all zero when it begins.
#[repr(C)]
pub(crate) struct Stacks {
    /// An address above all frames of the thread's own stack; 0 where that is not known.
    pub(crate) top: AtomicUsize,
    /// Stacks so far.
    taken: AtomicU32,
    unused: u32,
    /// The last ones, in a ring: the hash of each with its number in the low 16 bits.
    known: [AtomicU64; REMEMBERED],
}

impl Stacks {
    /// A new recording of the thread, whose stack lies below this address.
    pub(crate) fn begin(&self, top: usize) {
        self.top.store(top, Ordering::Relaxed);
        self.known.iter().for_each(|known| known.store(0, Ordering::Relaxed));
    }

    /// The number of the stack with this hash, and whether it is new.
    pub(crate) fn number(&self, hash: u64) -> Option<(u32, bool)> {
        let mut all = self.known.iter().map(|known| known.load(Ordering::Relaxed));
        if let Some(known) = all.find(|known| *known != 0 && (known ^ hash) >> 16 == 0) {
            return Some(((known & 0xffff) as u32, false));
        }
        let taken = self.taken.fetch_add(1, Ordering::Relaxed);
        let known = hash & !0xffff | u64::from(taken & 0xffff);
        self.known.get(taken as usize % REMEMBERED)?.store(known, Ordering::Relaxed);
        Some((taken & 0xffff, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_stacks_keep_their_numbers_and_the_oldest_gives_way() {
        // SAFETY: all zero is how a thread begins.
        let stacks: Stacks = unsafe { std::mem::zeroed() };
        // As of two stacks that differ in their low bits or in their high ones alone.
        let hash = |at: u64| 1 << 63 | (at % 2) << 40 | (at / 2) << 16;
        let count = REMEMBERED as u64;
        for at in 0..count {
            assert_eq!(stacks.number(hash(at)), Some((at as u32, true)));
        }
        for at in (0..count).rev() {
            assert_eq!(stacks.number(hash(at)), Some((at as u32, false)));
        }
        assert_eq!(stacks.number(hash(count)), Some((count as u32, true)));
        assert_eq!(stacks.number(hash(1)), Some((1, false)));
        assert_eq!(stacks.number(hash(0)), Some((count as u32 + 1, true)));
        stacks.begin(0);
        assert_eq!(stacks.number(hash(5)), Some((count as u32 + 2, true)));
    }
}
