//! Autocorrelation and correlation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How two series go together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Correlation {
    /// Pairs.
    pub pairs: u64,
    /// Pearson's r.
    pub pearson: f64,
    /// Spearman's rank correlation: not moved by a few extreme values.
    pub spearman: f64,
    /// 95 % interval of Spearman's by Fisher's transformation, whose standard error here is 1.03/√(n-3).
    pub spearman_interval: (f64, f64),
}

/// Autocorrelation at the lags 1 to `most`: of values in runs that must not be joined. Values beyond the 1st and 99th
/// percentile are moved to these, as a single interruption would else decide alone. Empty where nothing varies.
pub(super) fn autocorrelation(runs: &[Vec<f64>], most: usize) -> Vec<f64> {
    let mut sorted: Vec<f64> = runs.iter().flatten().copied().collect();
    sorted.sort_by(f64::total_cmp);
    let kept = quaver_analysis::moments::trimmed(&sorted);
    let Some((least, largest)) = kept.first().copied().zip(kept.last().copied()) else { return Vec::new() };
    let moved = |value: &f64| value.clamp(least, largest);
    let mean = runs.iter().flatten().map(moved).sum::<f64>() / sorted.len() as f64;
    let variance =
        runs.iter().flatten().map(|value| (moved(value) - mean).powi(2)).sum::<f64>() / sorted.len() as f64;
    if variance <= 0.0 {
        return Vec::new();
    }
    (1..=most)
        .map_while(|lag| {
            let products = runs.iter().flat_map(|run| {
                run.iter().zip(run.iter().skip(lag)).map(|(a, b)| (moved(a) - mean) * (moved(b) - mean))
            });
            let (count, sum) = products.fold((0u64, 0.0), |(count, sum), product| (count + 1, sum + product));
            (count > 0).then(|| sum / count as f64 / variance)
        })
        .collect()
}

/// Of these pairs; none for fewer than ten, or where one of the two does not vary.
pub(super) fn correlation(pairs: &[(f64, f64)]) -> Option<Correlation> {
    if pairs.len() < 10 {
        return None;
    }
    let (x, y): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let spearman = pearson(&ranks(&x), &ranks(&y))?;
    let half = 1.96 * 1.03 / (pairs.len() as f64 - 3.0).sqrt();
    let z = spearman.clamp(-0.999_999, 0.999_999).atanh();
    Some(Correlation {
        pairs: pairs.len() as u64,
        pearson: pearson(&x, &y)?,
        spearman,
        spearman_interval: ((z - half).tanh(), (z + half).tanh()),
    })
}

fn pearson(x: &[f64], y: &[f64]) -> Option<f64> {
    let count = x.len() as f64;
    let (mean_x, mean_y) = (x.iter().sum::<f64>() / count, y.iter().sum::<f64>() / count);
    let sums = x.iter().zip(y).fold((0.0, 0.0, 0.0), |(xx, yy, xy), (x, y)| {
        let (x, y) = (x - mean_x, y - mean_y);
        (xx + x * x, yy + y * y, xy + x * y)
    });
    (sums.0 > 0.0 && sums.1 > 0.0).then(|| sums.2 / (sums.0 * sums.1).sqrt())
}

/// Ranks from 1; equal values share the mean of theirs.
pub(super) fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let equal = order[start..].iter().take_while(|at| values[**at] == values[order[start]]).count();
        let rank = start as f64 + (equal as f64 + 1.0) / 2.0;
        order[start..start + equal].iter().for_each(|at| ranks[*at] = rank);
        start += equal;
    }
    ranks
}
