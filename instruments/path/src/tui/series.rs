//! A path over time, in constant memory: stretches of equally many packet numbers, the newest of them.
//!
//! Stretches are of numbers and not of clock time, so a late packet still counts where it belongs, and a flow whose
//! packets are told only at its end looks as it was.

use std::collections::VecDeque;
use std::time::Duration;

/// Stretches that are kept.
pub const KEPT: usize = 240;
/// Stretches that a whole test makes, where it is short.
const SHORT_TEST: u64 = 30;
/// Length of a stretch, nanoseconds: at least, at most.
const LENGTH_NS: (u64, u64) = (100_000_000, 1_000_000_000);

/// The newest stretches of a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Packet numbers in a stretch, at least 1.
    packets: u64,
    period_ns: u64,
    /// Which stretch the first one kept is.
    first: u64,
    stretches: VecDeque<Stretch>,
    highest: Option<u64>,
    min_delay_ns: i64,
}

/// What came of the numbers of a stretch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stretch {
    /// First copies.
    received: u64,
    max_delay_ns: Option<i64>,
}

/// What is drawn of a stretch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Largest delay over the smallest of the whole test so far; none where nothing came.
    pub max_pdv_ns: Option<u64>,
    /// Part of its numbers that have not come, 0 to 1. Of the newest stretch only those up to the highest number count.
    pub not_arrived: f64,
}

impl Series {
    /// For a flow with a packet each `period_ns` that lasts so long, if that is known.
    pub fn new(period_ns: u64, length: Option<Duration>) -> Self {
        let period_ns = period_ns.max(1);
        let whole_ns = length.map_or(u64::MAX, |length| u64::try_from(length.as_nanos()).unwrap_or(u64::MAX));
        let stretch_ns = (whole_ns / SHORT_TEST).clamp(LENGTH_NS.0, LENGTH_NS.1);
        Self {
            packets: ((stretch_ns + period_ns / 2) / period_ns).max(1),
            period_ns,
            first: 0,
            stretches: VecDeque::new(),
            highest: None,
            min_delay_ns: i64::MAX,
        }
    }

    /// Packet numbers in a stretch.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// How long a stretch is by the schedule, nanoseconds.
    pub fn stretch_ns(&self) -> u64 {
        self.packets.saturating_mul(self.period_ns)
    }

    /// Takes a first copy.
    pub fn take(&mut self, sequence: u64, delay_ns: i64) {
        let at = sequence / self.packets;
        self.make_room(at);
        self.highest = self.highest.max(Some(sequence));
        self.min_delay_ns = self.min_delay_ns.min(delay_ns);
        // One from before the first that is kept came too late to be drawn.
        let place = at.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        if let Some(stretch) = place.and_then(|place| self.stretches.get_mut(place)) {
            stretch.received += 1;
            stretch.max_delay_ns = stretch.max_delay_ns.max(Some(delay_ns));
        }
    }

    fn make_room(&mut self, at: u64) {
        let end = self.first + self.stretches.len() as u64;
        if at < end {
            return;
        }
        if at - end >= KEPT as u64 {
            self.stretches.clear();
            self.first = at - (KEPT as u64 - 1);
        }
        while self.first + self.stretches.len() as u64 <= at {
            self.stretches.push_back(Stretch::default());
        }
        while self.stretches.len() > KEPT {
            self.stretches.pop_front();
            self.first += 1;
        }
    }

    /// The newest `most` stretches, oldest first.
    pub fn points(&self, most: usize) -> Vec<Point> {
        let Some(highest) = self.highest else { return Vec::new() };
        let skipped = self.stretches.len().saturating_sub(most);
        let stretches = self.stretches.iter().enumerate().skip(skipped);
        let point = |(at, stretch): (usize, &Stretch)| {
            let begin = (self.first + at as u64) * self.packets;
            let due = (highest + 1).saturating_sub(begin).clamp(1, self.packets);
            Point {
                max_pdv_ns: stretch.max_delay_ns.map(|delay_ns| delay_ns.abs_diff(self.min_delay_ns)),
                not_arrived: due.saturating_sub(stretch.received) as f64 / due as f64,
            }
        };
        stretches.map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn second() -> Option<Duration> {
        Some(Duration::from_secs(1))
    }

    #[test]
    fn a_stretch_is_a_thirtieth_of_a_short_test_and_at_most_a_second() {
        let packets = |period_ns, seconds: Option<u64>| {
            Series::new(period_ns, seconds.map(Duration::from_secs)).packets()
        };
        assert_eq!(packets(MS, Some(1)), 100);
        assert_eq!(packets(MS, Some(15)), 500);
        assert_eq!(packets(20 * MS, Some(20)), 33);
        assert_eq!(packets(MS, Some(86_400)), 1_000);
        assert_eq!(packets(MS, None), 1_000);
        assert_eq!(packets(5_000 * MS, None), 1);
        assert_eq!(Series::new(20 * MS, Some(Duration::from_secs(20))).stretch_ns(), 660 * MS);
    }

    #[test]
    fn what_has_not_arrived_counts_where_its_number_is() {
        let mut series = Series::new(MS, second());
        (0..250).filter(|number| !(90..110).contains(number)).for_each(|number| series.take(number, 1_000));
        let absent: Vec<f64> = series.points(80).iter().map(|point| point.not_arrived).collect();
        assert_eq!(absent, [0.1, 0.1, 0.0]);
        // Late ones are received ones.
        (90..100).for_each(|number| series.take(number, 5_000));
        assert_eq!(series.points(80)[0], Point { max_pdv_ns: Some(4_000), not_arrived: 0.0 });
        assert_eq!(series.points(80)[1], Point { max_pdv_ns: Some(0), not_arrived: 0.1 });
        assert_eq!(series.points(1).len(), 1);
    }

    #[test]
    fn a_smaller_delay_later_raises_what_came_before() {
        let mut series = Series::new(MS, second());
        series.take(0, 7_000);
        series.take(100, -2_000);
        let pdv: Vec<Option<u64>> = series.points(9).iter().map(|point| point.max_pdv_ns).collect();
        assert_eq!(pdv, [Some(9_000), Some(0)]);
    }

    #[test]
    fn memory_does_not_grow_and_gaps_show() {
        let mut series = Series::new(MS, second());
        (0..100_000).for_each(|number| series.take(number, 1));
        assert_eq!(series.points(usize::MAX).len(), KEPT);
        assert!(series.points(usize::MAX).iter().all(|point| point.not_arrived == 0.0));
        series.take(100_350, 1);
        let points = series.points(4);
        assert_eq!(points[0].not_arrived, 1.0);
        assert_eq!(points[3].not_arrived, 50.0 / 51.0);
        series.take(1 << 40, 1);
        assert_eq!(series.points(usize::MAX).len(), KEPT);
        assert_eq!(series.points(usize::MAX)[0], Point { max_pdv_ns: None, not_arrived: 1.0 });
        series.take(3, 1);
        assert_eq!(series.points(usize::MAX).len(), KEPT);
    }
}
