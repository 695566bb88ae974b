//! Samples of locks that are free when they are asked for: which lock it was, and how long it was held. The first [`EACH`] of a
//! thread are all recorded, the next as many are one in two, and so on to one in 2^[`FEWEST`]. The gaps are drawn, so that no lock
//! hides between two samples.

use crate::arch;
use quaver_abi::sync::MOST_INITIALISED;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Samples from one halving of their rate to the next.
const EACH: u64 = 512;
/// The binary logarithm of the largest mean gap between two samples.
const FEWEST: u64 = 10;

/// What a thread knows of its samples, all zero when it begins.
#[repr(C)]
pub(crate) struct Samples {
    /// Free locks until the next sample.
    left: AtomicU64,
    /// Samples so far.
    taken: AtomicU64,
    /// State of the draw.
    drawn: AtomicU64,
    /// The lock that is held and timed; 0 for none.
    held: AtomicUsize,
    /// Objects that it initialised.
    initialised: AtomicU64,
}

impl Samples {
    /// A new recording of the thread.
    pub(crate) fn begin(&self) {
        self.left.store(1, Ordering::Relaxed);
        self.taken.store(0, Ordering::Relaxed);
        self.drawn.store(arch::cycles() | 1, Ordering::Relaxed);
        self.held.store(0, Ordering::Relaxed);
        self.initialised.store(0, Ordering::Relaxed);
    }

    /// Whether one more initialisation is recorded.
    pub(crate) fn may_initialise(&self) -> bool {
        let before = self.initialised.load(Ordering::Relaxed);
        self.initialised.store(before.saturating_add(1), Ordering::Relaxed);
        before < MOST_INITIALISED
    }

    /// Whether this free lock is a sample.
    #[inline(always)]
    pub(crate) fn are_due(&self) -> bool {
        arch::runs_out(&self.left)
    }

    /// Whether this lock, which is about to be given back, is timed.
    #[inline(always)]
    pub(crate) fn time(&self, address: usize) -> bool {
        self.held.load(Ordering::Relaxed) == address
    }

    /// The lock is timed from now on, unless another one is; whether it is.
    pub(crate) fn begin_time(&self, address: usize) -> bool {
        let is_free = self.held.load(Ordering::Relaxed) == 0;
        if is_free {
            self.held.store(address, Ordering::Relaxed);
        }
        is_free
    }

    /// No lock is timed any more.
    pub(crate) fn end_time(&self) {
        self.held.store(0, Ordering::Relaxed);
    }

    /// The mean gap of the latest sample, and draws the next one.
    pub(crate) fn draw(&self) -> u32 {
        let mean_gap = |taken: u64| 1_u64 << (taken / EACH).min(FEWEST);
        let taken = self.taken.load(Ordering::Relaxed);
        self.taken.store(taken.wrapping_add(1), Ordering::Relaxed);
        let next = mean_gap(taken.wrapping_add(1));
        // xorshift64 (Marsaglia, 2003).
        let mut drawn = self.drawn.load(Ordering::Relaxed);
        drawn ^= drawn << 13;
        drawn ^= drawn >> 7;
        drawn ^= drawn << 17;
        self.drawn.store(drawn, Ordering::Relaxed);
        // From 1 to twice the mean less 1.
        let gap = drawn.checked_rem(next.wrapping_mul(2).wrapping_sub(1)).unwrap_or(0).wrapping_add(1);
        self.left.store(gap, Ordering::Relaxed);
        mean_gap(taken) as u32
    }
}
