//! A histogram with bins of one width, up to a limit, as Jitlat draws.

use serde::Serialize;
use std::num::NonZeroU32;

/// Bins of figures 7, 16 and 17 of Jitlat's document. Figure 10 has 186 and figure 13 has 500; how the number is
/// found is not told, so it is a parameter.
pub const DEFAULT_BINS: NonZeroU32 = NonZeroU32::new(70).expect("not zero");

/// Counts of values in bins of one width from the smallest value to a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Histogram {
    /// Where the first bin begins: the smallest value.
    pub min_ns: i64,
    /// Largest value that is in a bin.
    pub limit_ns: i64,
    /// Width of a bin in whole nanoseconds.
    pub bin_ns: u64,
    /// Values per bin; bin i holds `min_ns + i·bin_ns` up to, but without, `min_ns + (i+1)·bin_ns`.
    pub counts: Vec<u64>,
    /// Values above the limit, in no bin.
    pub above: u64,
}

impl Histogram {
    /// Counts `values_ns` into `bins` bins up to `limit_ns`, for Jitlat the 99th percentile. None for no values.
    ///
    /// The width is (limit - min) / bins rounded down, plus one nanosecond. That gives the 2.572 us of figure 7
    /// (180.0 us in 70 bins are 2571.4 ns) and the modes 78.21 us of figure 16 and 56.15 us of figure 7, which
    /// widths without rounding miss; and the limit always lies inside a bin.
    pub fn new(values_ns: &[i64], bins: NonZeroU32, limit_ns: i64) -> Option<Self> {
        let min_ns = *values_ns.iter().min()?;
        let limit_ns = limit_ns.max(min_ns);
        let bin_ns = limit_ns.abs_diff(min_ns) / u64::from(bins.get()) + 1;
        let mut counts = vec![0; bins.get() as usize];
        let mut above = 0;
        for &value in values_ns {
            if value > limit_ns {
                above += 1;
            } else {
                counts[(value.abs_diff(min_ns) / bin_ns) as usize] += 1;
            }
        }
        Some(Self { min_ns, limit_ns, bin_ns, counts, above })
    }

    /// Values, those above the limit too.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.above
    }

    /// Centre of bin `index` in nanoseconds.
    pub fn centre_ns(&self, index: usize) -> f64 {
        self.min_ns as f64 + (index as f64 + 0.5) * self.bin_ns as f64
    }

    /// The mode: the centre of the fullest bin in nanoseconds, of equally full ones the first.
    pub fn mode_ns(&self) -> f64 {
        let fullest = self.counts.iter().copied().max().unwrap_or(0);
        self.centre_ns(self.counts.iter().position(|&c| c == fullest).unwrap_or(0))
    }

    /// Share of all values at or below the end of each bin: the last is 1 only if none lies above the limit.
    pub fn cumulative(&self) -> Vec<f64> {
        let total = self.total() as f64;
        let mut sum = 0;
        let share = |&count: &u64| {
            sum += count;
            sum as f64 / total
        };
        self.counts.iter().map(share).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bins(count: u32) -> NonZeroU32 {
        NonZeroU32::new(count).expect("not zero")
    }

    /// A histogram over this range with one value in bin `fullest`, and its mode.
    fn mode_of(min_ns: i64, limit_ns: i64, count: u32, fullest: i64) -> (u64, f64) {
        let bin_ns = (limit_ns - min_ns) / i64::from(count) + 1;
        let inside = min_ns + fullest * bin_ns + 1;
        let histogram =
            Histogram::new(&[min_ns, inside, inside, limit_ns], bins(count), limit_ns).expect("values");
        (histogram.bin_ns, histogram.mode_ns())
    }

    #[test]
    fn bin_widths_and_modes_of_the_figures() {
        assert_eq!(mode_of(42_000, 222_000, 70, 5), (2_572, 56_146.0)); // 7: 2.572 us, 56.15 us
        assert_eq!(mode_of(0, 267_000, 70, 20), (3_815, 78_207.5)); // 16: 78.21 us
        assert_eq!(mode_of(0, 269_000, 70, 23), (3_843, 90_310.5)); // 17: 90.31 us
        let (bin_ns, mode_ns) = mode_of(1_615_000_000, 6_512_000_000, 186, 0);
        assert_eq!((bin_ns, mode_ns), (26_327_957, 1_628_163_978.5)); // 10: 26.33 ms, 1.628 s
        let (bin_ns, mode_ns) = mode_of(1_615_000_000, 1_717_200_000, 500, 0);
        assert_eq!((bin_ns, mode_ns), (204_401, 1_615_102_200.5)); // 13: 204.4 us, 1.615 s
    }

    #[test]
    fn one_value_and_none() {
        let histogram = Histogram::new(&[5, 5, 5], bins(3), 5).expect("values");
        assert_eq!((histogram.bin_ns, &histogram.counts[..], histogram.above), (1, &[3, 0, 0][..], 0));
        assert_eq!(histogram.mode_ns(), 5.5);
        assert_eq!(histogram.cumulative(), [1.0, 1.0, 1.0]);
        assert_eq!(Histogram::new(&[], bins(3), 5), None);
    }

    #[test]
    fn a_limit_below_all_values_leaves_the_smallest() {
        let histogram = Histogram::new(&[5, 6], bins(2), 1).expect("values");
        assert_eq!((&histogram.counts[..], histogram.above), (&[1, 0][..], 1));
    }

    proptest! {
        #[test]
        fn every_value_is_in_the_bin_whose_bounds_hold_it(
            values in prop::collection::vec(any::<i64>(), 1..50),
            count in 1u32..40,
            limit in any::<i64>(),
        ) {
            let histogram = Histogram::new(&values, bins(count), limit).expect("values");
            let edge = |i: usize| i128::from(histogram.min_ns) + i as i128 * i128::from(histogram.bin_ns);
            let within = |v: i64| v <= histogram.limit_ns;
            for (i, &counted) in histogram.counts.iter().enumerate() {
                let slow = values.iter().filter(|&&v| within(v) && (edge(i)..edge(i + 1)).contains(&i128::from(v)));
                prop_assert_eq!(counted, slow.count() as u64);
            }
            prop_assert_eq!(histogram.total(), values.len() as u64);
            prop_assert!(histogram.mode_ns().is_finite());
        }
    }
}
