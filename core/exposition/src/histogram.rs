//! Times counted by length, between bounds that both forms of `/metrics` can be summed from.
//!
//! The text has bounds by 1, 2, 5. Native histograms have powers of two of a second (schema 0 of
//! <https://prometheus.io/docs/specs/native_histograms/>). Times are counted between the bounds of both, so that neither form is
//! an estimate.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Upper bounds of the buckets of the text and of views, microseconds.
pub const BOUNDS_US: [u64; 14] =
    [10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 1_000_000];
/// The least power of two of a second among the bounds; the largest is the second.
const LEAST_EXPONENT: i32 = -17;
const BOUNDS: usize = 31;
/// One more than there are bounds.
pub const BUCKETS: usize = BOUNDS + 1;
/// Upper bounds of what is counted, nanoseconds: those of the text, and the powers of two.
pub const BOUNDS_NS: [u64; BOUNDS] = merged();

/// 2 to the `exponent` (-29 to 0) of a second in whole nanoseconds, rounded down: a time of whole nanoseconds is above both or above
/// neither.
pub const fn power_ns(exponent: i32) -> u64 {
    1_000_000_000 >> -exponent
}

const fn merged() -> [u64; BOUNDS] {
    let mut bounds = [0; BOUNDS];
    let (mut bucket, mut decimal, mut exponent) = (0, 0, LEAST_EXPONENT);
    while bucket < BOUNDS {
        let decimal_ns = BOUNDS_US[decimal] * 1_000;
        let binary_ns = power_ns(exponent);
        bounds[bucket] = if decimal_ns < binary_ns { decimal_ns } else { binary_ns };
        // The last of both is the second.
        decimal += (decimal_ns == bounds[bucket] && decimal + 1 < BOUNDS_US.len()) as usize;
        exponent += (binary_ns == bounds[bucket] && exponent < 0) as i32;
        bucket += 1;
    }
    bounds
}

/// An incident that is an example of what is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exemplar {
    /// Name of its run.
    pub incident: String,
    /// When its trigger was.
    pub realtime_ns: i64,
}

/// Counts between powers of two of a second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Powers {
    /// The first count is of times up to 2 to this power. Each further bound is twice as large.
    pub least_exponent: i32,
    /// The last one is of times above all bounds.
    pub counts: Vec<u64>,
}

/// Counts in buckets, the last one above all bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// Between [`BOUNDS_NS`].
    pub counts: [u64; BUCKETS],
    /// All times together.
    pub sum_ns: u64,
    /// By bucket of the text the latest time that was counted in it and made an incident.
    #[serde(skip)]
    pub exemplars: BTreeMap<usize, (u64, Exemplar)>,
}

impl Histogram {
    /// Counts a time.
    pub fn add(&mut self, ns: u64) {
        self.counts[BOUNDS_NS.partition_point(|bound_ns| *bound_ns < ns)] += 1;
        self.sum_ns += ns;
    }

    /// The bucket of the text that a time is counted in.
    fn text_bucket(ns: u64) -> usize {
        BOUNDS_US.partition_point(|bound_us| bound_us * 1_000 < ns)
    }

    /// Notes the incident that a time, which was counted, has made.
    pub fn exemplify(&mut self, ns: u64, exemplar: Exemplar) {
        self.exemplars.insert(Self::text_bucket(ns), (ns, exemplar));
    }

    /// What was counted since an earlier state.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        since
            .counts
            .iter_mut()
            .zip(&earlier.counts)
            .for_each(|(count, before)| *count -= (*before).min(*count));
        since.sum_ns -= earlier.sum_ns.min(since.sum_ns);
        since
    }

    /// Each count with the upper bound of its times.
    fn bounded(&self) -> impl Iterator<Item = (u64, u64)> {
        BOUNDS_NS.into_iter().chain([u64::MAX]).zip(self.counts)
    }

    /// Counts between the bounds of the text.
    pub fn in_text(&self) -> [u64; BOUNDS_US.len() + 1] {
        let mut counts = [0; BOUNDS_US.len() + 1];
        self.bounded().for_each(|(bound_ns, count)| counts[Self::text_bucket(bound_ns)] += count);
        counts
    }

    /// Counts between powers of two of a second.
    pub fn by_powers(&self) -> Powers {
        let exponents = LEAST_EXPONENT..=0;
        let mut counts = vec![0; exponents.clone().count() + 1];
        for (bound_ns, count) in self.bounded() {
            counts[exponents.clone().filter(|exponent| power_ns(*exponent) < bound_ns).count()] += count;
        }
        Powers { least_exponent: LEAST_EXPONENT, counts }
    }

    /// The bucket of the text that holds the `quantile` (0 to 1) of all; none without any.
    pub fn bucket(&self, quantile: f64) -> Option<usize> {
        let all: u64 = self.counts.iter().sum();
        let rank = ((all as f64 * quantile).ceil() as u64).clamp(1, all.max(1));
        let mut so_far = 0;
        self.in_text().iter().position(|count| {
            so_far += count;
            so_far >= rank
        })
    }

    /// Adds another.
    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self.sum_ns += other.sum_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_counted_has_the_bounds_of_both_forms_once_each() {
        assert!(BOUNDS_NS.is_sorted_by(|lower, upper| lower < upper), "{BOUNDS_NS:?}");
        let decimals = BOUNDS_US.iter().map(|us| us * 1_000);
        let mut both: Vec<u64> = decimals.chain((LEAST_EXPONENT..=0).map(power_ns)).collect();
        both.sort_unstable();
        both.dedup();
        assert_eq!(both, BOUNDS_NS);
        // 2^-17 s are 7,629.39 ns.
        assert_eq!((BOUNDS_NS[0], BOUNDS_NS[30], power_ns(-9)), (7_629, 1_000_000_000, 1_953_125));
    }

    proptest! {
        #[test]
        fn each_time_is_counted_once_in_either_form_and_between_its_bounds(
            times in proptest::collection::vec(0u64..40, 0..200),
            near in -2i64..3
        ) {
            // At, right below and right above the bounds, and far from them.
            let bound = |place: u64| BOUNDS_NS.get(place as usize).copied().unwrap_or(place * 1_000_000_000);
            let times: Vec<u64> = times.into_iter().map(|place| bound(place).saturating_add_signed(near)).collect();
            let mut histogram = Histogram::default();
            times.iter().for_each(|ns| histogram.add(*ns));
            prop_assert_eq!(histogram.sum_ns, times.iter().sum::<u64>());
            let within = |least_ns: f64, most_ns: f64| {
                times.iter().filter(|ns| (**ns as f64) > least_ns && (**ns as f64) <= most_ns).count() as u64
            };
            let text = histogram.in_text();
            let mut below_ns = -1.0;
            for (bound_us, count) in BOUNDS_US.iter().zip(text) {
                let bound_ns = *bound_us as f64 * 1e3;
                prop_assert_eq!(count, within(below_ns, bound_ns));
                below_ns = bound_ns;
            }
            prop_assert_eq!(text[14], within(below_ns, f64::INFINITY));
            // The bounds as Prometheus has them, which are no whole nanoseconds.
            let Powers { least_exponent, counts } = histogram.by_powers();
            prop_assert_eq!((least_exponent, counts.len()), (-17, 19));
            let mut below_ns = -1.0;
            for (exponent, count) in (-17..=0).zip(&counts) {
                let bound_ns = 2f64.powi(exponent) * 1e9;
                prop_assert_eq!(*count, within(below_ns, bound_ns));
                below_ns = bound_ns;
            }
            prop_assert_eq!(counts[18], within(below_ns, f64::INFINITY));
        }
    }
}
