//! The schedule that a source achieved.

use crate::thread::ThreadUsage;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a running source, for other threads to read at any time.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct SourceLive {
    sent: AtomicU64,
    misses: AtomicU64,
}

impl SourceLive {
    /// Packets that the kernel took so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Slots skipped so far.
    pub fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// There is one writer, so plain stores do.
    #[inline(always)]
    pub(super) fn set(&self, sent: u64, misses: u64) {
        self.sent.store(sent, Ordering::Relaxed);
        self.misses.store(misses, Ordering::Relaxed);
    }
}

/// What a source did. Lateness is the instant right before the send call less the deadline (with
/// [`super::Pace::Txtime`], the hand-over to the queueing discipline, so negative).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceReport {
    /// Sequence numbers used.
    pub packets: u64,
    /// Packets that the kernel took.
    pub sent: u64,
    /// Sends that failed, by error number. Their sequence numbers are used up.
    pub failed: BTreeMap<i32, u64>,
    /// Refusals by an earlier packet's destination (`ECONNREFUSED`); the packet at hand was then sent again.
    pub refused: u64,
    /// Slots skipped because the source was late by more than a slot.
    pub misses: u64,
    /// First deadline, CLOCK_MONOTONIC nanoseconds.
    pub start_ns: i64,
    /// Last deadline used; 0 if there was none.
    pub last_deadline_ns: i64,
    /// Slope of lateness over deadline by least squares, parts per million; none for fewer than 2 packets.
    pub drift_ppm: Option<f64>,
    /// Mean lateness, nanoseconds; none without packets.
    pub mean_lateness_ns: Option<f64>,
    /// Greatest lateness, nanoseconds.
    pub worst_lateness_ns: i64,
    /// What the kernel counted for the thread from go to end.
    pub usage: ThreadUsage,
}

/// Exact sums for a straight line through (deadline, lateness): right for 10^10 packets over 10^14 ns, a day at more
/// than 100,000 a second. Products of sums would not fit, so the slope is worked out in floating point; what is
/// subtracted there are numbers of different size, so that nothing cancels.
#[derive(Clone, Copy, Debug, Default)]
pub struct Line {
    count: i128,
    x: i128,
    y: i128,
    xx: i128,
    xy: i128,
}

impl Line {
    /// Takes a point in.
    #[inline(always)]
    pub fn add(&mut self, x: i64, y: i64) {
        let (x, y) = (i128::from(x), i128::from(y));
        self.count += 1;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.xy += x * y;
    }

    /// Least-squares slope, in parts per million.
    pub fn slope_ppm(&self) -> Option<f64> {
        let (count, x) = (self.count as f64, self.x as f64);
        let spread = self.xx as f64 - x * (x / count);
        if self.count < 2 || spread <= 0.0 {
            return None;
        }
        Some((self.xy as f64 - x * (self.y as f64 / count)) / spread * 1e6)
    }

    /// Mean of y; none without points.
    pub fn mean_y(&self) -> Option<f64> {
        (self.count > 0).then(|| self.y as f64 / self.count as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slope_of_a_line() {
        let mut line = Line::default();
        assert_eq!((line.slope_ppm(), line.mean_y()), (None, None));
        line.add(5, 7);
        assert_eq!((line.slope_ppm(), line.mean_y()), (None, Some(7.0)));
        let mut line = Line::default();
        for packet in 0..60_000i64 {
            let deadline = packet * 1_000_000;
            line.add(deadline, 80 + deadline / 1_000_000 * 3);
        }
        assert!((line.slope_ppm().unwrap() - 3.0).abs() < 1e-12);
        assert_eq!(line.mean_y(), Some(80.0 + 3.0 * 59_999.0 / 2.0));
    }

    #[test]
    fn slope_of_a_long_line() {
        let mut line = Line::default();
        // 1000 packets a second for 10 days, thinned out to every 10,000th.
        for packet in 0..86_400i64 {
            let deadline = packet * 10_000_000_000;
            line.add(deadline, 1_000 + deadline / 1_000_000 * 7);
        }
        assert!((line.slope_ppm().unwrap() - 7.0).abs() < 1e-9);
    }
}
