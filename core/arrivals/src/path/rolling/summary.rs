//! What one line of a live view or of JSON says about a stretch.

use super::{Figures, RollingCounts};
use serde::Serialize;

/// A stretch in a few numbers. None without packets. Percentiles are right to 0.1 % as the module says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RollingSummary {
    /// Packets by kind.
    pub counts: RollingCounts,
    /// Smallest delay, exact.
    pub min_delay_ns: Option<i64>,
    /// Mean delay.
    pub mean_delay_ns: Option<f64>,
    /// Standard deviation of the delay, of the population.
    pub sd_delay_ns: Option<f64>,
    /// Median delay.
    pub p50_delay_ns: Option<i64>,
    /// Largest delay, exact.
    pub max_delay_ns: Option<i64>,
    /// Median PDV (RFC 5481, section 4.2).
    pub p50_pdv_ns: Option<u64>,
    /// 99th percentile of PDV.
    pub p99_pdv_ns: Option<u64>,
    /// 99.9th percentile of PDV.
    pub p99_9_pdv_ns: Option<u64>,
    /// Largest PDV, exact.
    pub max_pdv_ns: Option<u64>,
    /// 1st percentile of IPDV (RFC 5481, section 4.1).
    pub p1_ipdv_ns: Option<i64>,
    /// Median IPDV.
    pub p50_ipdv_ns: Option<i64>,
    /// 99th percentile of IPDV.
    pub p99_ipdv_ns: Option<i64>,
    /// Values that were too large for the histograms.
    pub clipped: u64,
}

impl Figures {
    /// The stretch in a few numbers.
    pub fn summary(&self) -> RollingSummary {
        RollingSummary {
            counts: self.counts(),
            min_delay_ns: self.min_delay_ns(),
            mean_delay_ns: self.mean_delay_ns(),
            sd_delay_ns: self.sd_delay_ns(),
            p50_delay_ns: self.delay_quantile_ns(0.5),
            max_delay_ns: self.max_delay_ns(),
            p50_pdv_ns: self.pdv_quantile_ns(0.5),
            p99_pdv_ns: self.pdv_quantile_ns(0.99),
            p99_9_pdv_ns: self.pdv_quantile_ns(0.999),
            max_pdv_ns: self.min_delay_ns().zip(self.max_delay_ns()).map(|(min, max)| max.abs_diff(min)),
            p1_ipdv_ns: self.ipdv_quantile_ns(0.01),
            p50_ipdv_ns: self.ipdv_quantile_ns(0.5),
            p99_ipdv_ns: self.ipdv_quantile_ns(0.99),
            clipped: self.clipped(),
        }
    }
}
