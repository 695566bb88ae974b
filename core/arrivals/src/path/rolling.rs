//! Figures of a test that may run for days, in memory that does not grow.
//!
//! Delays and their variation go into HDR histograms, whose percentiles are wrong by at most 0.1 % of what they hold.
//! A histogram's error grows with the value, and two clocks may be seconds apart, so delays are held as their distance
//! from a reference: the smallest of the first [`CALIBRATION`] delays. So a percentile of delay or PDV is wrong by at
//! most 0.1 % of its distance from that reference, which for every packet at or above it is at most 0.1 % of its PDV.
//!
//! Which numbers have arrived is remembered for the newest [`Rolling::window`] numbers. A packet that comes when its
//! number has left the window was counted as lost, or was there already: nobody can tell any more, so it is counted
//! apart and enters nothing else.

mod histogram;
mod summary;

use super::arrival::Arrival;
pub use histogram::SignedHistogram;
use serde::Serialize;
pub use summary::RollingSummary;

/// Delays from which the reference is taken.
pub const CALIBRATION: usize = 1_024;

/// Numbers that are remembered unless somebody asks for another window.
pub const WINDOW: usize = 8_192;

/// Figures of a stretch of a test. Those of two stretches with one reference add up exactly.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    reference_ns: i64,
    counts: RollingCounts,
    delays: SignedHistogram,
    ipdv: SignedHistogram,
    min_delay_ns: i64,
    max_delay_ns: i64,
    sum_ns: i128,
    square_sum: u128,
}

/// How many packets there were of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RollingCounts {
    /// First copies.
    pub unique: u64,
    /// Further copies, while the first was remembered.
    pub duplicate: u64,
    /// First copies that came after a packet with a larger number (RFC 4737, section 3.3).
    pub reordered: u64,
    /// Numbers that left the window, or that the end of the test found, without a packet.
    pub lost: u64,
    /// Packets whose number had left the window: lost before, or copies.
    pub beyond_window: u64,
    /// Loss periods that began (RFC 3357).
    pub loss_periods: u64,
    /// Length of the longest loss period known, in packets.
    pub longest_loss_period: u64,
}

/// Two stretches have different references, so their histograms do not add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DifferentReference;

impl std::fmt::Display for DifferentReference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("merging figures of two tests: their delays have different references; merge stretches of one test")
    }
}

impl std::error::Error for DifferentReference {}

impl Figures {
    fn new(reference_ns: i64) -> Figures {
        Figures {
            reference_ns,
            counts: RollingCounts::default(),
            delays: SignedHistogram::new(),
            ipdv: SignedHistogram::new(),
            min_delay_ns: i64::MAX,
            max_delay_ns: i64::MIN,
            sum_ns: 0,
            square_sum: 0,
        }
    }

    fn record_delay(&mut self, delay_ns: i64) {
        self.min_delay_ns = self.min_delay_ns.min(delay_ns);
        self.max_delay_ns = self.max_delay_ns.max(delay_ns);
        let distance_ns = i128::from(delay_ns) - i128::from(self.reference_ns);
        self.delays.record(distance_ns);
        self.sum_ns += distance_ns;
        let square = distance_ns.unsigned_abs().saturating_mul(distance_ns.unsigned_abs());
        self.square_sum = self.square_sum.saturating_add(square);
    }

    /// Adds another stretch of the same test: as if its packets had been in this one.
    pub fn merge(&mut self, other: &Figures) -> Result<(), DifferentReference> {
        if self.reference_ns != other.reference_ns {
            return Err(DifferentReference);
        }
        let (mine, theirs) = (&mut self.counts, &other.counts);
        mine.unique += theirs.unique;
        mine.duplicate += theirs.duplicate;
        mine.reordered += theirs.reordered;
        mine.lost += theirs.lost;
        mine.beyond_window += theirs.beyond_window;
        mine.loss_periods += theirs.loss_periods;
        mine.longest_loss_period = mine.longest_loss_period.max(theirs.longest_loss_period);
        self.delays.add(&other.delays);
        self.ipdv.add(&other.ipdv);
        self.min_delay_ns = self.min_delay_ns.min(other.min_delay_ns);
        self.max_delay_ns = self.max_delay_ns.max(other.max_delay_ns);
        self.sum_ns += other.sum_ns;
        self.square_sum = self.square_sum.saturating_add(other.square_sum);
        Ok(())
    }

    /// Packets by kind.
    pub fn counts(&self) -> RollingCounts {
        self.counts
    }

    /// Smallest delay, exact; none without packets.
    pub fn min_delay_ns(&self) -> Option<i64> {
        (self.counts.unique > 0).then_some(self.min_delay_ns)
    }

    /// Largest delay, exact.
    pub fn max_delay_ns(&self) -> Option<i64> {
        (self.counts.unique > 0).then_some(self.max_delay_ns)
    }

    /// Mean delay, exact but for the last rounding.
    pub fn mean_delay_ns(&self) -> Option<f64> {
        let count = self.counts.unique as f64;
        (self.counts.unique > 0).then(|| self.reference_ns as f64 + self.sum_ns as f64 / count)
    }

    /// Standard deviation of the delay, of the population.
    pub fn sd_delay_ns(&self) -> Option<f64> {
        let count = self.counts.unique as f64;
        let mean = self.sum_ns as f64 / count;
        (self.counts.unique > 0).then(|| (self.square_sum as f64 / count - mean * mean).max(0.0).sqrt())
    }

    /// The delay that this part of the packets received does not exceed.
    pub fn delay_quantile_ns(&self, quantile: f64) -> Option<i64> {
        let delay_ns = i128::from(self.reference_ns) + self.delays.quantile(quantile)?;
        Some(clamped(delay_ns).clamp(self.min_delay_ns, self.max_delay_ns))
    }

    /// The PDV (RFC 5481, section 4.2) that this part of the packets received does not exceed, over the smallest delay
    /// of this stretch.
    pub fn pdv_quantile_ns(&self, quantile: f64) -> Option<u64> {
        Some(self.delay_quantile_ns(quantile)?.abs_diff(self.min_delay_ns))
    }

    /// How many of the packets received have a PDV up to the first of these limits, from there up to each next one, and
    /// above the last. Limits grow; a packet within 0.1 % of a limit may stand on its other side.
    pub fn pdv_histogram(&self, limits_ns: &[u64]) -> Vec<u64> {
        let mut counts = vec![0; limits_ns.len() + 1];
        self.delays.for_each(|distance_ns, packets| {
            let delay_ns = clamped(i128::from(self.reference_ns) + distance_ns);
            let pdv_ns = delay_ns.clamp(self.min_delay_ns, self.max_delay_ns).abs_diff(self.min_delay_ns);
            counts[limits_ns.partition_point(|limit_ns| *limit_ns < pdv_ns)] += packets;
        });
        counts
    }

    /// The IPDV (RFC 5481, section 4.1) that this part of the pairs does not exceed. Pairs beside a loss have none.
    pub fn ipdv_quantile_ns(&self, quantile: f64) -> Option<i64> {
        self.ipdv.quantile(quantile).map(clamped)
    }

    /// Values too large for the histograms, which stand at their end: an hour.
    pub fn clipped(&self) -> u64 {
        self.delays.clipped() + self.ipdv.clipped()
    }

    /// Bytes that the histograms hold.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Figures>() + self.delays.memory_bytes() + self.ipdv.memory_bytes()
    }
}

fn clamped(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

/// A first copy that is remembered.
#[derive(Debug, Clone, Copy)]
struct FirstCopy {
    sequence: u64,
    delay_ns: i64,
}

/// Takes packets one by one. Numbers begin with 0.
#[derive(Debug)]
pub struct Rolling {
    seen: Vec<Option<FirstCopy>>,
    /// One more than the largest number that came.
    next: u64,
    /// Numbers below this have been counted as received or lost.
    settled: u64,
    open_loss_period: u64,
    calibration: Vec<i64>,
    total: Option<Figures>,
    interval: Option<Figures>,
    counts_before_reference: RollingCounts,
    ipdv_before_reference: Vec<i128>,
    before_delay_ns: Option<i64>,
    interarrival_jitter_ns: f64,
}

impl Rolling {
    /// Remembers the newest `window` numbers, at least 2.
    pub fn new(window: usize) -> Rolling {
        Rolling {
            seen: vec![None; window.max(2)],
            next: 0,
            settled: 0,
            open_loss_period: 0,
            calibration: Vec::with_capacity(CALIBRATION),
            total: None,
            interval: None,
            counts_before_reference: RollingCounts::default(),
            ipdv_before_reference: Vec::with_capacity(2 * CALIBRATION),
            before_delay_ns: None,
            interarrival_jitter_ns: 0.0,
        }
    }

    /// Numbers that are remembered.
    pub fn window(&self) -> usize {
        self.seen.len()
    }

    /// Takes the next packet that arrived, first copy or not.
    pub fn push(&mut self, arrival: &Arrival) {
        let number = arrival.sequence;
        let Some(after) = number.checked_add(1).filter(|_| number >= self.settled) else {
            self.count(|counts| counts.beyond_window += 1);
            return;
        };
        if self.remembered(number).is_some() {
            self.count(|counts| counts.duplicate += 1);
            return;
        }
        let in_order = number >= self.next;
        if in_order {
            self.settle_up_to(after.saturating_sub(self.seen.len() as u64));
            self.next = after;
        }
        self.count(|counts| {
            counts.unique += 1;
            counts.reordered += u64::from(!in_order);
        });
        let delay_ns = arrival.delay_ns();
        let slot = self.slot(number);
        self.seen[slot] = Some(FirstCopy { sequence: number, delay_ns });
        self.record_ipdv(number, delay_ns);
        self.smooth(delay_ns);
        self.record_delay(delay_ns);
    }

    /// Ends the test: every number below `sent` that is not there is lost. Where nobody knows how many were sent, give
    /// none: the largest number that came was the last.
    pub fn finish(&mut self, sent: Option<u64>) {
        let end = sent.unwrap_or(self.next).max(self.next);
        self.settle_up_to(end);
        self.next = end;
        self.fix_reference();
    }

    /// The figures of all packets so far; none before the first.
    pub fn total(&mut self) -> Option<&Figures> {
        self.fix_reference();
        self.total.as_ref()
    }

    /// The figures since the last call, and begins anew. Losses count in the stretch in which they became certain.
    pub fn take_interval(&mut self) -> Option<Figures> {
        self.fix_reference();
        let reference_ns = self.interval.as_ref()?.reference_ns;
        self.interval.replace(Figures::new(reference_ns))
    }

    /// RFC 3550, section 6.4.1, over first copies in order of arrival; 0 before the second.
    pub fn interarrival_jitter_ns(&self) -> f64 {
        self.interarrival_jitter_ns
    }

    /// Bytes held; the same for the first packet and for the last of a week.
    pub fn memory_bytes(&self) -> usize {
        let figures = |figures: &Option<Figures>| figures.as_ref().map_or(0, Figures::memory_bytes);
        size_of::<Rolling>()
            + self.seen.capacity() * size_of::<Option<FirstCopy>>()
            + self.calibration.capacity() * size_of::<i64>()
            + self.ipdv_before_reference.capacity() * size_of::<i128>()
            + figures(&self.total)
            + figures(&self.interval)
    }

    fn slot(&self, number: u64) -> usize {
        (number % self.seen.len() as u64) as usize
    }

    fn remembered(&self, number: u64) -> Option<FirstCopy> {
        self.seen[self.slot(number)].filter(|seen| seen.sequence == number)
    }

    /// Counts the numbers from `settled` to `end` as received or lost, in their order.
    fn settle_up_to(&mut self, end: u64) {
        while self.settled < end.min(self.next) {
            if self.remembered(self.settled).is_some() {
                self.open_loss_period = 0;
            } else {
                self.lose(1);
            }
            self.settled += 1;
        }
        // Numbers beyond the largest that came need no looking up, however many they are.
        if self.settled < end {
            self.lose(end - self.settled);
            self.settled = end;
        }
    }

    fn lose(&mut self, packets: u64) {
        let begins = self.open_loss_period == 0;
        self.open_loss_period += packets;
        let length = self.open_loss_period;
        self.count(|counts| {
            counts.lost += packets;
            counts.loss_periods += u64::from(begins);
            counts.longest_loss_period = counts.longest_loss_period.max(length);
        });
    }

    fn count(&mut self, change: impl Fn(&mut RollingCounts)) {
        match (&mut self.total, &mut self.interval) {
            (Some(total), Some(interval)) => {
                change(&mut total.counts);
                change(&mut interval.counts);
            }
            _ => change(&mut self.counts_before_reference),
        }
    }

    /// A packet closes up to two pairs: with the one sent before it and the one sent after it.
    fn record_ipdv(&mut self, number: u64, delay_ns: i64) {
        let earlier = number.checked_sub(1).and_then(|before| self.remembered(before));
        let later = self.remembered(number + 1);
        let with_earlier = earlier.map(|seen| i128::from(delay_ns) - i128::from(seen.delay_ns));
        let with_later = later.map(|seen| i128::from(seen.delay_ns) - i128::from(delay_ns));
        for ipdv_ns in with_earlier.into_iter().chain(with_later) {
            match (&mut self.total, &mut self.interval) {
                (Some(total), Some(interval)) => {
                    total.ipdv.record(ipdv_ns);
                    interval.ipdv.record(ipdv_ns);
                }
                _ => self.ipdv_before_reference.push(ipdv_ns),
            }
        }
    }

    fn smooth(&mut self, delay_ns: i64) {
        if let Some(before_ns) = self.before_delay_ns.replace(delay_ns) {
            let difference_ns = delay_ns.abs_diff(before_ns) as f64;
            self.interarrival_jitter_ns += (difference_ns - self.interarrival_jitter_ns) / 16.0;
        }
    }

    fn record_delay(&mut self, delay_ns: i64) {
        if let (Some(total), Some(interval)) = (&mut self.total, &mut self.interval) {
            total.record_delay(delay_ns);
            interval.record_delay(delay_ns);
            return;
        }
        self.calibration.push(delay_ns);
        if self.calibration.len() == CALIBRATION {
            self.fix_reference();
        }
    }

    /// Chooses the reference from the delays so far and gives them their place. Nothing is chosen without a delay.
    fn fix_reference(&mut self) {
        let (None, Some(&reference_ns)) = (&self.total, self.calibration.iter().min()) else { return };
        let mut figures = Figures::new(reference_ns);
        figures.counts = self.counts_before_reference;
        self.calibration.drain(..).for_each(|delay_ns| figures.record_delay(delay_ns));
        self.ipdv_before_reference.drain(..).for_each(|ipdv_ns| figures.ipdv.record(ipdv_ns));
        self.interval = Some(figures.clone());
        self.total = Some(figures);
    }
}

#[cfg(test)]
mod tests;
