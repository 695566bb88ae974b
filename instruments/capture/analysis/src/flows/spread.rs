//! How a quantity is spread, in memory that does not grow with the number of its values.

use super::figures::SpreadFigures;
use quaver_arrivals::path::rolling::SignedHistogram;

/// Values in nanoseconds. Percentiles are right to 0.1 % of themselves; the rest is exact.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    histogram: SignedHistogram,
    min_ns: i64,
    max_ns: i64,
    sum_ns: i128,
    square_sum: u128,
}

impl Spread {
    pub(super) fn new() -> Self {
        Self {
            histogram: SignedHistogram::growing(),
            min_ns: i64::MAX,
            max_ns: i64::MIN,
            sum_ns: 0,
            square_sum: 0,
        }
    }

    pub(super) fn record(&mut self, value_ns: i64) {
        self.histogram.record(i128::from(value_ns));
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
        self.sum_ns += i128::from(value_ns);
        let size = u128::from(value_ns.unsigned_abs());
        self.square_sum = self.square_sum.saturating_add(size * size);
    }

    /// None without values.
    pub(super) fn figures(&self) -> Option<SpreadFigures> {
        let count = self.histogram.count();
        if count == 0 {
            return None;
        }
        let quantile = |q| {
            let value = self.histogram.quantile(q).unwrap_or(0);
            i64::try_from(value).unwrap_or(i64::MAX).clamp(self.min_ns, self.max_ns)
        };
        let mean_ns = self.sum_ns as f64 / count as f64;
        let variance = self.square_sum as f64 / count as f64 - mean_ns * mean_ns;
        Some(SpreadFigures {
            count,
            min_ns: self.min_ns,
            mean_ns,
            sd_ns: variance.max(0.0).sqrt(),
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            p99_9_ns: quantile(0.999),
            max_ns: self.max_ns,
        })
    }
}
