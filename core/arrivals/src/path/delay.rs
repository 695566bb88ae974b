//! Statistics of one-way delay.

use serde::Serialize;

/// Moments of one-way delay, or of any other quantity in nanoseconds.
///
/// The lost packets have no part in them: RFC 7679, section 5, has no mean, and with losses as infinite delays there
/// could be none. The same losses do have a part in [`super::percentile`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DelayStatistics {
    /// Packets.
    pub count: u64,
    /// Smallest (RFC 7679, section 5.3).
    pub min_ns: i64,
    /// Largest.
    pub max_ns: i64,
    /// Sum, exact.
    #[serde(skip)]
    pub sum_ns: i128,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation of the population, that is divided by n.
    ///
    /// Jitlat's figures do not tell n from n - 1: in figure 17 the same spread is 76.93 us as latency and 76.94 us
    /// as PDV, which neither explains, while sums of squares in 64-bit floating point do (see
    /// [`super::jitlat_figures`]).
    pub sd_ns: f64,
    /// Standard deviation of the sample, that is divided by n - 1. None for one packet.
    pub sample_sd_ns: Option<f64>,
    /// Median: the mean of the two central values where the number is even (RFC 7679, section 5.2). Jitlat's is
    /// the same: its 122.5 us in figure 17 comes from stamps in whole microseconds.
    pub median_ns: f64,
}

/// The statistics of `delays_ns`, which are left in another order. None for none.
///
/// Sums are integers, so that no order of the delays and no offset of the clocks changes a digit.
pub fn delay_statistics(delays_ns: &mut [i64]) -> Option<DelayStatistics> {
    let count = delays_ns.len();
    let min_ns = *delays_ns.iter().min()?;
    let max_ns = *delays_ns.iter().max()?;
    let sum_ns: i128 = delays_ns.iter().map(|&x| i128::from(x)).sum();
    let squares = square_deviations(delays_ns, sum_ns);
    Some(DelayStatistics {
        count: count as u64,
        min_ns,
        max_ns,
        sum_ns,
        mean_ns: sum_ns as f64 / count as f64,
        sd_ns: (squares / count as f64).sqrt(),
        sample_sd_ns: (count > 1).then(|| (squares / (count - 1) as f64).sqrt()),
        median_ns: median_ns(delays_ns)?,
    })
}

/// The median of `delays_ns`, which are left in another order: of an even number the mean of the two central ones.
pub fn median_ns(delays_ns: &mut [i64]) -> Option<f64> {
    if delays_ns.is_empty() {
        return None;
    }
    let middle = delays_ns.len() / 2;
    let even = delays_ns.len().is_multiple_of(2);
    let (below, &mut upper, _) = delays_ns.select_nth_unstable(middle);
    if !even {
        return Some(upper as f64);
    }
    let lower = *below.iter().max()?;
    Some((i128::from(lower) + i128::from(upper)) as f64 / 2.0)
}

/// Sum of (x - mean)². With q the mean rounded down and r what is left, it is the sum of (x - q)² less r²/n, both
/// exact; only where the sum would overflow 128 bits (deviations of months) are the squares floating point.
fn square_deviations(delays_ns: &[i64], sum_ns: i128) -> f64 {
    let count = delays_ns.len() as i128;
    let (quotient, rest) = (sum_ns.div_euclid(count), sum_ns.rem_euclid(count));
    let exact = delays_ns.iter().try_fold(0u128, |sum, &x| {
        let deviation = (i128::from(x) - quotient).unsigned_abs();
        sum.checked_add(deviation.checked_mul(deviation)?)
    });
    let about_quotient = match exact {
        Some(sum) => sum as f64,
        None => delays_ns.iter().map(|&x| ((i128::from(x) - quotient) as f64).powi(2)).sum(),
    };
    let correction = rest as f64 * (rest as f64 / count as f64);
    (about_quotient - correction).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn jitlats_sample_rows() {
        let s = delay_statistics(&mut [113_800, 99_000, 293_800]).expect("three");
        assert_eq!((s.count, s.min_ns, s.max_ns, s.sum_ns), (3, 99_000, 293_800, 506_600));
        assert_eq!(s.median_ns, 113_800.0);
        assert_eq!(s.mean_ns, 506_600.0 / 3.0);
    }

    #[test]
    fn both_standard_deviations() {
        // 2, 4, 4, 4, 5, 5, 7, 9: mean 5, population 2, sample √(32/7).
        let s = delay_statistics(&mut [9, 2, 4, 4, 4, 5, 5, 7]).expect("eight");
        assert_eq!((s.mean_ns, s.sd_ns), (5.0, 2.0));
        assert_eq!(s.sample_sd_ns, Some((32.0f64 / 7.0).sqrt()));
        assert_eq!(s.median_ns, 4.5);
    }

    #[test]
    fn none_and_one() {
        assert_eq!(delay_statistics(&mut []), None);
        let s = delay_statistics(&mut [-7]).expect("one");
        assert_eq!((s.mean_ns, s.sd_ns, s.sample_sd_ns, s.median_ns), (-7.0, 0.0, None, -7.0));
    }

    #[test]
    fn the_whole_range_of_64_bits() {
        let s = delay_statistics(&mut [i64::MIN, i64::MAX, i64::MIN, i64::MAX]).expect("four");
        assert_eq!((s.mean_ns, s.median_ns), (-0.5, -0.5));
        assert!((s.sd_ns / 2f64.powi(63) - 1.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn an_offset_of_the_clocks_changes_no_digit(
            delays in prop::collection::vec(-1_000_000_000i64..1_000_000_000, 1..200),
            offset in -1_700_000_000_000_000_000i64..1_700_000_000_000_000_000,
        ) {
            let plain = delay_statistics(&mut delays.clone()).expect("some");
            let mut moved: Vec<i64> = delays.iter().map(|d| d + offset).collect();
            let moved = delay_statistics(&mut moved).expect("some");
            prop_assert_eq!(plain.sd_ns, moved.sd_ns);
            prop_assert_eq!(plain.sample_sd_ns, moved.sample_sd_ns);
            prop_assert_eq!(plain.sum_ns + i128::from(offset) * i128::from(plain.count), moved.sum_ns);
        }

        #[test]
        fn agrees_with_the_definition(delays in prop::collection::vec(-1000i64..1000, 1..100)) {
            let n = delays.len() as i64;
            let s = delay_statistics(&mut delays.clone()).expect("some");
            // n² · variance in whole numbers.
            let sum: i64 = delays.iter().sum();
            let scaled: i64 = delays.iter().map(|d| (n * d - sum).pow(2)).sum::<i64>() / n;
            prop_assert!((s.sd_ns - (scaled as f64).sqrt() / n as f64).abs() < 1e-9);
            let mut sorted = delays.clone();
            sorted.sort_unstable();
            let middle = sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2];
            prop_assert_eq!(s.median_ns, middle as f64 / 2.0);
        }
    }
}
