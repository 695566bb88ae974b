//! Mean and variance, as they are and trimmed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Part left out at each end where values are trimmed: an interruption of microseconds would else outweigh thousands
/// of stamps.
pub const TRIMMED_SHARE: f64 = 0.01;

/// Mean, variance and quantiles of overheads. Variances are the population's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Moments {
    /// Values.
    pub count: u64,
    /// Mean of all, nanoseconds.
    pub mean_ns: f64,
    /// Variance of all, square nanoseconds.
    pub variance_ns2: f64,
    /// Mean without the lowest and the highest 1 %.
    pub trimmed_mean_ns: f64,
    /// Variance without these.
    pub trimmed_variance_ns2: f64,
    /// Least.
    pub min_ns: f64,
    /// Median (the smallest value x with F(x) >= 1/2).
    pub p50_ns: f64,
    /// 99th percentile.
    pub p99_ns: f64,
    /// Largest.
    pub max_ns: f64,
}

impl Moments {
    /// Of these values, each less `offset`; zero for none. Sorts.
    pub fn of(values: &mut [f64], offset: f64) -> Self {
        values.sort_by(f64::total_cmp);
        let Some((first, last)) = values.first().zip(values.last()) else { return Self::default() };
        let (mean, variance) = mean_and_variance(values);
        let (trimmed_mean, trimmed_variance) = mean_and_variance(trimmed(values));
        let quantile =
            |share: f64| values[((values.len() as f64 * share).ceil() as usize).max(1) - 1] - offset;
        Self {
            count: values.len() as u64,
            mean_ns: mean - offset,
            variance_ns2: variance,
            trimmed_mean_ns: trimmed_mean - offset,
            trimmed_variance_ns2: trimmed_variance,
            min_ns: first - offset,
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            max_ns: last - offset,
        }
    }
}

/// Sorted values without 1 % at each end.
pub fn trimmed(sorted: &[f64]) -> &[f64] {
    let cut = (sorted.len() as f64 * TRIMMED_SHARE) as usize;
    &sorted[cut..sorted.len() - cut]
}

/// Both 0 for no values.
pub fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    if values.is_empty() {
        return (0.0, 0.0);
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count)
}
