//! Densities, for the paper's figures 2 to 5.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bins of each tenfold.
const BINS_PER_DECADE: f64 = 24.0;

/// Shares of overheads in bins of equal ratio.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogDensity {
    /// Share of values of 0 or less: the clock's own unsteadiness can make an overhead of nothing negative.
    pub not_positive: f64,
    /// Lower end of each bin that is not empty, and its share. The upper end is 10^(1/24) times the lower.
    pub bins: Vec<(f64, f64)>,
}

impl LogDensity {
    /// Of these values, nanoseconds.
    pub fn of(values: &[f64]) -> Self {
        let mut counts = std::collections::BTreeMap::<i32, u64>::new();
        let mut not_positive = 0u64;
        for value in values {
            if *value <= 0.0 {
                not_positive += 1;
            } else {
                *counts.entry((value.log10() * BINS_PER_DECADE).floor() as i32).or_default() += 1;
            }
        }
        let share = |count: u64| count as f64 / values.len().max(1) as f64;
        Self {
            not_positive: share(not_positive),
            bins: counts
                .into_iter()
                .map(|(bin, count)| (10f64.powf(f64::from(bin) / BINS_PER_DECADE), share(count)))
                .collect(),
        }
    }
}

/// Bins of equal width over the middle 99 % of all arms together.
const BINS: usize = 100;

/// Shares in bins of equal width.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Density {
    /// Lower end of the first bin.
    pub from_ns: f64,
    /// Width of a bin.
    pub bin_ns: f64,
    /// Share in each bin.
    pub shares: Vec<f64>,
    /// Share below the first bin.
    pub below: f64,
    /// Share above the last.
    pub above: f64,
}

impl Density {
    /// Of each of several sets of values, on common bins.
    pub fn of_all(sets: &[Vec<f64>]) -> Vec<Self> {
        let mut all: Vec<f64> = sets.iter().flatten().copied().collect();
        all.sort_by(f64::total_cmp);
        if all.is_empty() {
            return vec![Self::default(); sets.len()];
        }
        let at = |share: f64| all[((all.len() - 1) as f64 * share).round() as usize];
        let (from_ns, to_ns) = (at(0.005).floor(), at(0.995).ceil());
        let bin_ns = ((to_ns - from_ns) / BINS as f64).max(1.0);
        sets.iter().map(|values| Self::of(values, from_ns, bin_ns)).collect()
    }

    fn of(values: &[f64], from_ns: f64, bin_ns: f64) -> Self {
        let mut shares = vec![0.0; BINS];
        let (mut below, mut above) = (0.0, 0.0);
        let one = 1.0 / values.len().max(1) as f64;
        for value in values {
            let bin = ((value - from_ns) / bin_ns).floor();
            match bin {
                bin if bin < 0.0 => below += one,
                bin if bin >= BINS as f64 => above += one,
                bin => shares[bin as usize] += one,
            }
        }
        Self { from_ns, bin_ns, shares, below, above }
    }
}
