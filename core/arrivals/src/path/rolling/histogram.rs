//! An HDR histogram for values of either sign.

use hdrhistogram::Histogram;

/// Values of larger size stand at the end: an hour in nanoseconds.
const LARGEST: u64 = 3_600_000_000_000;

/// Significant digits: a value is known to 1 part in 1,000.
const DIGITS: u8 = 3;

/// Two HDR histograms back to back, one for sizes of negative values. The memory of [`SignedHistogram::new`] never grows.
#[derive(Debug, Clone, PartialEq)]
pub struct SignedHistogram {
    below: Histogram<u64>,
    from_zero: Histogram<u64>,
    clipped: u64,
}

impl SignedHistogram {
    pub(super) fn new() -> SignedHistogram {
        let empty = || Histogram::new_with_bounds(1, LARGEST, DIGITS).expect("these bounds are in order");
        SignedHistogram { below: empty(), from_zero: empty(), clipped: 0 }
    }

    /// One that takes memory as its values grow, up to that of [`SignedHistogram::new`].
    pub fn growing() -> SignedHistogram {
        let empty = || {
            let mut empty = Histogram::new(DIGITS).expect("so many digits are allowed");
            empty.auto(true);
            empty
        };
        SignedHistogram { below: empty(), from_zero: empty(), clipped: 0 }
    }

    /// Takes a value in, nanoseconds.
    pub fn record(&mut self, value: i128) {
        let size = u64::try_from(value.unsigned_abs()).unwrap_or(u64::MAX);
        self.clipped += u64::from(size > LARGEST);
        let side = if value < 0 { &mut self.below } else { &mut self.from_zero };
        side.record(size.min(LARGEST)).expect("it is within the bounds, or the histogram grows");
    }

    pub(super) fn add(&mut self, other: &SignedHistogram) {
        self.below.add(&other.below).expect("both have the same bounds");
        self.from_zero.add(&other.from_zero).expect("both have the same bounds");
        self.clipped += other.clipped;
    }

    /// Values held.
    pub fn count(&self) -> u64 {
        self.below.len() + self.from_zero.len()
    }

    /// Values too large, held at the end.
    pub fn clipped(&self) -> u64 {
        self.clipped
    }

    /// The smallest value x with F(x) >= quantile (RFC 2330, section 11.3), to 0.1 % of itself. None without values.
    pub fn quantile(&self, quantile: f64) -> Option<i128> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = ((quantile.clamp(0.0, 1.0) * count as f64).ceil() as u64).clamp(1, count);
        Some(match rank.checked_sub(self.below.len()) {
            None | Some(0) => -i128::from(at_rank(&self.below, self.below.len() - rank + 1)),
            Some(rank) => i128::from(at_rank(&self.from_zero, rank)),
        })
    }

    /// Gives each value that there is, to 0.1 % of itself, with how often it is there; in no order.
    pub(super) fn for_each(&self, mut take: impl FnMut(i128, u64)) {
        for bin in self.below.iter_recorded() {
            take(-i128::from(self.below.median_equivalent(bin.value_iterated_to())), bin.count_at_value());
        }
        for bin in self.from_zero.iter_recorded() {
            take(i128::from(self.from_zero.median_equivalent(bin.value_iterated_to())), bin.count_at_value());
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        (self.below.distinct_values() + self.from_zero.distinct_values()) * size_of::<u64>()
    }
}

/// The middle of the bin with the value of this rank, counted from 1.
fn at_rank(histogram: &Histogram<u64>, rank: u64) -> u64 {
    let mut passed = 0;
    for bin in histogram.iter_recorded() {
        passed += bin.count_at_value();
        if passed >= rank {
            return histogram.median_equivalent(bin.value_iterated_to());
        }
    }
    histogram.max()
}
