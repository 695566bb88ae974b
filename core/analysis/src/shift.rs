//! How much later one of two is than the other, by pairs of which some were disturbed.

use crate::rounds::Interval;

/// Up to so many pairs the distribution of the signed-rank sum is counted out; beyond, it is normal for all purposes.
const MOST_EXACT: usize = 100;
/// The least number of pairs of which an interval can be 95 % sure: all six signs alike have p = 2/64.
const FEWEST: usize = 6;

/// The shift of `differences` of pairs: the median of all means of two of them, each also with itself (J. L. Hodges and E. L.
/// Lehmann, 1963), in their unit. Of a normal distribution it is nearly as good as the mean, and a few runs that something
/// else held up hardly move it. None of no differences.
pub fn shift(differences: &[f64]) -> Option<f64> {
    let means = means_of_two(differences);
    let upper = *means.get(means.len() / 2)?;
    let lower = means[(means.len() - 1) / 2];
    Some((lower + upper) / 2.0)
}

/// The interval that holds the shift of a symmetric distribution with a probability of at least 95 %: what the signed-rank test
/// (F. Wilcoxon, 1945) does not refuse. None of fewer than 6.
pub fn shift_interval(differences: &[f64]) -> Option<Interval> {
    let pairs = differences.len();
    if pairs < FEWEST {
        return None;
    }
    let means = means_of_two(differences);
    let cut = cut_off(pairs);
    Some(Interval { low: means[cut], high: means[means.len() - 1 - cut] })
}

/// All means of two, each also with itself, from the least to the largest.
fn means_of_two(differences: &[f64]) -> Vec<f64> {
    let mut means: Vec<f64> = differences
        .iter()
        .enumerate()
        .flat_map(|(at, one)| differences[at..].iter().map(move |other| (one + other) / 2.0))
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    means
}

/// How many means at each end lie outside: the largest k with P(rank sum < k) of at most 2.5 %.
fn cut_off(pairs: usize) -> usize {
    let most = pairs * (pairs + 1) / 2;
    if pairs > MOST_EXACT {
        let mean = most as f64 / 2.0;
        let sd = (most as f64 * (2 * pairs + 1) as f64 / 12.0).sqrt();
        return (mean - 1.96 * sd).floor() as usize;
    }
    // How likely each sum of ranks is, were each rank taken or left by the toss of a coin.
    let mut likely = vec![0.0f64; most + 1];
    likely[0] = 1.0;
    for rank in 1..=pairs {
        for sum in (0..=most).rev() {
            let taken = if sum >= rank { likely[sum - rank] } else { 0.0 };
            likely[sum] = (likely[sum] + taken) / 2.0;
        }
    }
    let mut below = 0.0;
    let refused = |chance: &&f64| {
        below += **chance;
        below <= 0.025
    };
    likely.iter().take_while(refused).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::below;
    use rand_pcg::Pcg64Mcg;
    use rand_pcg::rand_core::{Rng, SeedableRng};

    /// Critical values of the signed-rank test (two-sided 5 %) as printed in tables of statistics: the largest sum that is
    /// refused, so one less than the first mean inside counts.
    #[test]
    fn as_many_are_cut_off_as_tables_of_the_test_say() {
        for (pairs, critical) in
            [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (12, 13), (15, 25), (20, 52), (25, 89), (30, 137)]
        {
            assert_eq!(cut_off(pairs), critical + 1, "{pairs} pairs");
        }
    }

    #[test]
    fn counted_out_and_normal_meet() {
        let most = MOST_EXACT * (MOST_EXACT + 1) / 2;
        let sd = (most as f64 * (2 * MOST_EXACT + 1) as f64 / 12.0).sqrt();
        let normal = (most as f64 / 2.0 - 1.96 * sd).floor();
        assert!((cut_off(MOST_EXACT) as f64 - normal).abs() <= 2.0, "{} and {normal}", cut_off(MOST_EXACT));
    }

    #[test]
    fn by_hand() {
        // Means of two of 1, 2, 6: 1, 1.5, 2, 3.5, 4, 6.
        assert_eq!(shift(&[6.0, 1.0, 2.0]), Some(2.75));
        assert_eq!(shift(&[]), None);
        assert_eq!(shift_interval(&[1.0; 5]), None);
        let six = shift_interval(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).expect("six pairs");
        assert_eq!((six.low, six.high), (1.5, 5.5));
    }

    /// A tenth of all pairs is held up by much, to either side: the interval still holds the truth, and is narrower than that of
    /// the mean.
    #[test]
    fn disturbed_pairs_hardly_move_it() {
        let mut random = Pcg64Mcg::seed_from_u64(7);
        let (mut held, mut width, mut plain) = (0, 0.0, 0.0);
        for _ in 0..400 {
            let one = |random: &mut Pcg64Mcg| {
                let sum: f64 = (0..12).map(|_| (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64).sum();
                let far = below(random, 10) == 0;
                0.02 + (sum - 6.0) * if far { 0.3 } else { 0.03 }
            };
            let differences: Vec<f64> = (0..40).map(|_| one(&mut random)).collect();
            let found = shift_interval(&differences).expect("forty");
            held += u32::from((found.low..=found.high).contains(&0.02));
            width += found.high - found.low;
            let mean = crate::intervals::interval(&differences).expect("forty");
            plain += mean.high - mean.low;
        }
        assert!((372..=394).contains(&held), "{held} of 400 hold the truth");
        assert!(width < 0.6 * plain, "{width} against {plain}");
    }

    #[test]
    fn cut_offs_are_those_of_the_tables_of_the_signed_rank_test() {
        // One above the critical values at 5 %, two-sided, of Wilcoxon's table: 0, 8, 25 and 52.
        assert_eq!([6, 10, 15, 20].map(cut_off), [1, 9, 26, 53]);
        // By the normal approximation: 5151 / 2 - 1.96 * sqrt(5151 * 203 / 12) is 1996.9.
        assert_eq!(cut_off(101), 1_996);
    }
}
