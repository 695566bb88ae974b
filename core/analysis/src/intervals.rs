//! What differences of few blocks say: intervals, exact tests, effect sizes.

use crate::order::below;
use crate::rounds::Interval;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

const SEED: u64 = 0x7374_7564_7921;
/// Times that blocks are drawn.
const DRAWS: usize = 4_000;
/// Up to so many blocks all signs are tried.
const MOST_EXACT: usize = 16;
/// Signs that are tried beyond that.
const FLIPS: u32 = 50_000;

/// The mean; not a number of no values.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The 95 % interval of the mean by drawing whole blocks anew: the *expanded* percentile bootstrap (T. Hesterberg, "What
/// teachers should know about the bootstrap", 2015, section 5.3.3). The plain one is too narrow for few blocks; this one
/// takes percentiles so far out that for a normal distribution it is as wide as Student's t. None of fewer than 3.
pub fn interval(differences: &[f64]) -> Option<Interval> {
    let blocks = differences.len();
    if blocks < 3 {
        return None;
    }
    let mut random = Pcg64Mcg::seed_from_u64(SEED);
    let mut means: Vec<f64> = (0..DRAWS)
        .map(|_| (0..blocks).map(|_| differences[below(&mut random, blocks)]).sum::<f64>() / blocks as f64)
        .collect();
    let tail = normal_tail(student_t(blocks - 1) * (blocks as f64 / (blocks - 1) as f64).sqrt());
    let rank = ((tail * DRAWS as f64) as usize).min(DRAWS / 2);
    means.sort_unstable_by(f64::total_cmp);
    Some(Interval { low: means[rank], high: means[DRAWS - 1 - rank] })
}

/// The 97.5th percentile of Student's t.
fn student_t(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    TABLE.get(freedom.max(1) - 1).copied().unwrap_or(1.96 + 2.4 / freedom as f64)
}

/// Probability that a standard normal exceeds `z` > 0 (Abramowitz and Stegun, 26.2.17; wrong by less than 7.5e-8).
pub fn normal_tail(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let terms = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let sum = terms.iter().rev().fold(0.0, |sum, term| (sum + term) * t);
    (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * sum
}

/// Two-sided p of the hypothesis that an arm is as the baseline. The order in a block was drawn, so under it each
/// difference could as well have had the other sign: p is the share of all sign patterns whose sum is as far from 0 (R. A.
/// Fisher, "The Design of Experiments", 1935, section 21). Exact up to 16 blocks, and never below 2/2ⁿ; beyond, 50 000
/// patterns are drawn. 1 of no differences.
pub fn sign_flip_p(differences: &[f64]) -> f64 {
    let observed = differences.iter().sum::<f64>().abs();
    // Sums of the same numbers in another order differ by rounding.
    let as_far = observed - 1e-9 * differences.iter().map(|value| value.abs()).sum::<f64>();
    let far = |pattern: u64| {
        let signed = |(at, value): (usize, &f64)| if pattern >> (at % 64) & 1 == 1 { -value } else { *value };
        differences.iter().enumerate().map(signed).sum::<f64>().abs() >= as_far
    };
    let blocks = differences.len();
    if blocks == 0 {
        return 1.0;
    }
    if blocks <= MOST_EXACT {
        // A pattern and its opposite are as far, so the last sign need not change.
        let patterns = 1u64 << (blocks - 1);
        return (0..patterns).filter(|&pattern| far(pattern)).count() as f64 / patterns as f64;
    }
    let mut random = Pcg64Mcg::seed_from_u64(SEED);
    let count = (0..FLIPS).filter(|_| far(random.next_u64())).count();
    (count + 1) as f64 / f64::from(FLIPS + 1)
}

/// p values corrected for their number (S. Holm, 1979): the chance of one false finding among all stays below the level,
/// however they depend on each other.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let (mut corrected, mut so_far) = (vec![0.0; p.len()], 0.0f64);
    for (rank, &at) in order.iter().enumerate() {
        so_far = so_far.max(p[at] * (p.len() - rank) as f64).min(1.0);
        corrected[at] = so_far;
    }
    corrected
}

/// Mean difference in standard deviations of the differences, less the bias of few blocks (L. V. Hedges, 1981). None of
/// fewer than 2, or where all are alike.
pub fn effect_size(differences: &[f64]) -> Option<f64> {
    let blocks = differences.len();
    if blocks < 2 {
        return None;
    }
    let centre = mean(differences);
    let squares: f64 = differences.iter().map(|value| (value - centre).powi(2)).sum();
    let sd = (squares / (blocks - 1) as f64).sqrt();
    let bias = 1.0 - 3.0 / (4.0 * (blocks - 1) as f64 - 1.0);
    (sd > centre.abs() * 1e-12).then(|| centre / sd * bias)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        let near =
            |found: f64, expected: f64, within: f64| assert!((found - expected).abs() < within, "{found}");
        assert_eq!([1, 10, 30].map(student_t), [12.706, 2.228, 2.042]);
        near(student_t(31), 2.0395, 0.003);
        near(student_t(60), 2.0003, 0.003);
        near(student_t(120), 1.9799, 0.003);
        for (z, tail) in
            [(0.5, 0.308_537_539), (1.0, 0.158_655_254), (1.96, 0.024_997_895), (3.0, 0.001_349_898)]
        {
            near(normal_tail(z), tail, 7.5e-8);
        }
    }
}
