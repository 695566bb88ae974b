//! How far CLOCK_REALTIME is ahead of CLOCK_MONOTONIC, to a few nanoseconds.
//!
//! Both clocks are the kernel's one timekeeper plus a constant, which only a step changes (clock_settime, a leap second):
//! the rate of both is steered together. So each reading of one between two of the other narrows down the same number,
//! and the overlap of all readings is what is left of it.

use quaver_clock::{monotonic_ns, realtime_ns};
use quaver_host::root::HostRoot;
use quaver_host::timens::monotonic_ahead_ns;

/// Each clock is read in whole nanoseconds, cut off.
const QUANTUM_NS: i64 = 1;
/// What the kernel's lock-free reading of CLOCK_MONOTONIC, which BPF programs use, may differ from the exact one while
/// the timekeeper is being updated (kernel/time/timekeeping.c).
const FAST_READING_NS: i64 = 10;

/// The difference, as known so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MonotonicOffset {
    /// It is not less.
    low_ns: i64,
    /// It is not more.
    high_ns: i64,
    /// Whether it changed between the last two readings, so that instants from between belong to neither.
    stepped: bool,
    /// How far our CLOCK_MONOTONIC is ahead of that of BPF programs, which know no time namespaces; none if unknown.
    ahead_ns: Option<i64>,
}

impl MonotonicOffset {
    pub(super) fn read() -> Self {
        let mut offset = Self::between(monotonic_ns(), realtime_ns(), monotonic_ns());
        offset.ahead_ns = monotonic_ahead_ns(&HostRoot::system());
        for _ in 0..8 {
            offset.narrow();
        }
        offset
    }

    fn between(before_ns: i64, realtime_ns: i64, after_ns: i64) -> Self {
        let low_ns = realtime_ns - after_ns - QUANTUM_NS;
        Self { low_ns, high_ns: realtime_ns - before_ns + QUANTUM_NS, stepped: false, ahead_ns: Some(0) }
    }

    /// Reads once more.
    pub(super) fn narrow(&mut self) {
        self.take(Self::between(monotonic_ns(), realtime_ns(), monotonic_ns()));
    }

    fn take(&mut self, reading: Self) {
        let (low_ns, high_ns) = (self.low_ns.max(reading.low_ns), self.high_ns.min(reading.high_ns));
        let ahead_ns = self.ahead_ns;
        *self = if low_ns <= high_ns {
            Self { low_ns, high_ns, stepped: false, ahead_ns }
        } else {
            Self { stepped: true, ahead_ns, ..reading }
        };
    }

    /// CLOCK_REALTIME of an instant of CLOCK_MONOTONIC that was read in BPF since the reading before the last, and its
    /// bound; after a step, or in a time namespace that is not told, that is unknown (`u32::MAX`).
    pub(super) fn realtime(&self, monotonic_ns: u64) -> (i64, u32) {
        let middle_ns = self.low_ns + (self.high_ns - self.low_ns) / 2;
        let half_ns = (self.high_ns - self.low_ns + 1) / 2;
        let bound_ns = u32::try_from(half_ns + QUANTUM_NS + FAST_READING_NS).unwrap_or(u32::MAX);
        let ours_ns = (monotonic_ns as i64).wrapping_add(self.ahead_ns.unwrap_or(0));
        let known = !self.stepped && self.ahead_ns.is_some();
        (ours_ns.wrapping_add(middle_ns), if known { bound_ns } else { u32::MAX })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_narrow_it_down_and_a_step_begins_anew() {
        let mut offset = MonotonicOffset::between(1_000, 501_020, 1_040);
        assert_eq!((offset.low_ns, offset.high_ns), (499_979, 500_021));
        offset.take(MonotonicOffset::between(2_000, 502_005, 2_030));
        assert_eq!((offset.low_ns, offset.high_ns), (499_979, 500_006));
        offset.take(MonotonicOffset::between(3_000, 503_030, 3_031));
        assert_eq!(offset.realtime(7), (7 + 500_002, 4 + 11));
        offset.take(MonotonicOffset::between(4_000, 904_010, 4_030));
        assert_eq!(offset.realtime(7).1, u32::MAX);
        offset.take(MonotonicOffset::between(5_000, 905_010, 5_020));
        assert_eq!(offset.realtime(0), (900_000, 11 + 11));
    }

    #[test]
    fn a_time_namespace_is_taken_off_and_one_that_is_not_told_leaves_no_bound() {
        let ahead_ns = Some(864_000_000_000_000);
        let mut offset = MonotonicOffset { ahead_ns, ..MonotonicOffset::between(1_000, 501_020, 1_040) };
        assert_eq!(offset.realtime(7), (864_000_000_000_007 + 500_000, 21 + 11));
        offset.take(MonotonicOffset::between(4_000, 904_010, 4_030));
        assert_eq!(offset.ahead_ns, ahead_ns);
        let unknown = MonotonicOffset { ahead_ns: None, ..MonotonicOffset::between(1_000, 501_020, 1_040) };
        assert_eq!(unknown.realtime(7), (7 + 500_000, u32::MAX));
    }

    #[test]
    fn this_machines_is_known_to_a_few_nanoseconds() {
        let mut offset = MonotonicOffset::read();
        for _ in 0..1_000 {
            offset.narrow();
        }
        let before_ns = realtime_ns();
        let (middle_ns, bound_ns) = offset.realtime(monotonic_ns() as u64);
        let after_ns = realtime_ns();
        assert!(before_ns - i64::from(bound_ns) <= middle_ns && middle_ns <= after_ns + i64::from(bound_ns));
    }
}
