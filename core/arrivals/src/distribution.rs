//! Exact moments and percentiles.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Moments and percentiles of one quantity. Percentiles are the smallest sample x with F(x) >= p (RFC 2330,
/// section 11.3), exact, not interpolated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// Count of samples.
    pub count: u64,
    /// Smallest.
    pub min_ns: i64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation, of the population.
    pub sd_ns: f64,
    /// Median.
    pub p50_ns: i64,
    /// 90th percentile.
    pub p90_ns: i64,
    /// 99th percentile.
    pub p99_ns: i64,
    /// 99.9th percentile.
    pub p99_9_ns: i64,
    /// 99.99th percentile.
    pub p99_99_ns: i64,
    /// 99.999th percentile.
    pub p99_999_ns: i64,
    /// Largest.
    pub max_ns: i64,
}

/// Moments and exact percentiles of `samples`, which are left in another order. All zero for no samples.
///
/// A percentile is the smallest sample x with F(x) >= p (RFC 2330, section 11.3): of n sorted samples the one
/// with rank ⌈p·n⌉, never an interpolated value. The standard deviation is the population's. Takes linear time.
pub fn distribution(samples: &mut [i64]) -> Distribution {
    if samples.is_empty() {
        return Distribution::default();
    }
    let count = samples.len();
    let sum: i128 = samples.iter().map(|&x| i128::from(x)).sum();
    let mean = sum as f64 / count as f64;
    let square_sum: f64 = samples.iter().map(|&x| (x as f64 - mean) * (x as f64 - mean)).sum();
    let mut ranks = Ranks { samples, from: 0 };
    let p50_ns = ranks.percentile(50_000);
    let p90_ns = ranks.percentile(90_000);
    let p99_ns = ranks.percentile(99_000);
    let p99_9_ns = ranks.percentile(99_900);
    let p99_99_ns = ranks.percentile(99_990);
    let p99_999_ns = ranks.percentile(99_999);
    Distribution {
        count: count as u64,
        min_ns: samples.iter().copied().min().unwrap_or_default(),
        mean_ns: mean,
        sd_ns: (square_sum / count as f64).sqrt(),
        p50_ns,
        p90_ns,
        p99_ns,
        p99_9_ns,
        p99_99_ns,
        p99_999_ns,
        max_ns: samples.iter().copied().max().unwrap_or_default(),
    }
}

/// Selects ascending ranks; everything before `from` is known to be no larger than what follows.
struct Ranks<'a> {
    samples: &'a mut [i64],
    from: usize,
}

impl Ranks<'_> {
    fn percentile(&mut self, per_100_000: u128) -> i64 {
        let rank = (self.samples.len() as u128 * per_100_000).div_ceil(100_000) as usize;
        let index = rank.max(1) - 1;
        let (_, &mut value, _) = self.samples[self.from..].select_nth_unstable(index - self.from);
        self.from = index;
        value
    }
}

/// The lower median: the smallest sample x with F(x) >= 1/2. Reorders `samples`; none for no samples.
pub fn median(samples: &mut [i64]) -> Option<i64> {
    if samples.is_empty() {
        return None;
    }
    let index = samples.len().div_ceil(2) - 1;
    Some(*samples.select_nth_unstable(index).1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_to_a_hundred() {
        let mut samples: Vec<i64> = (1..=100).rev().collect();
        let d = distribution(&mut samples);
        assert_eq!((d.count, d.min_ns, d.max_ns), (100, 1, 100));
        assert_eq!((d.p50_ns, d.p90_ns, d.p99_ns, d.p99_9_ns, d.p99_999_ns), (50, 90, 99, 100, 100));
        assert_eq!(d.mean_ns, 50.5);
        assert!((d.sd_ns - 28.866_070_047_722_12).abs() < 1e-12);
    }

    #[test]
    fn rfc_2330_example_of_the_empirical_distribution() {
        // RFC 2330, section 11.3: -2, 7, 7, 4, 18, -5; the 50th percentile is 4 and the 25th is -2.
        let mut samples = [-2, 7, 7, 4, 18, -5];
        assert_eq!(median(&mut samples), Some(4));
        let mut ranks = Ranks { samples: &mut [-2, 7, 7, 4, 18, -5], from: 0 };
        assert_eq!(ranks.percentile(25_000), -2);
    }

    #[test]
    fn nothing_and_one_sample() {
        assert_eq!(distribution(&mut []), Distribution::default());
        let d = distribution(&mut [-7]);
        assert_eq!((d.min_ns, d.p50_ns, d.p99_999_ns, d.max_ns, d.sd_ns), (-7, -7, -7, -7, 0.0));
    }

    proptest! {
        #[test]
        fn agrees_with_counting(mut samples in prop::collection::vec(-1000i64..1000, 1..300)) {
            let all = samples.clone();
            let d = distribution(&mut samples);
            let brute = |p: f64| {
                let mut candidates = all.clone();
                candidates.sort_unstable();
                *candidates
                    .iter()
                    .find(|&&x| all.iter().filter(|&&y| y <= x).count() as f64 >= p * all.len() as f64 - 1e-9)
                    .expect("F(max) is 1")
            };
            prop_assert_eq!(d.p50_ns, brute(0.5));
            prop_assert_eq!(d.p90_ns, brute(0.9));
            prop_assert_eq!(d.p99_ns, brute(0.99));
            prop_assert_eq!(d.p99_9_ns, brute(0.999));
            prop_assert_eq!(d.p99_99_ns, brute(0.9999));
            prop_assert_eq!(d.p99_999_ns, brute(0.99999));
        }
    }
}
