//! The paper's own results, to be printed beside ours.

use schemars::JsonSchema;
use serde::Serialize;

/// Overhead of one method in the paper.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PaperOverhead {
    /// Mean, nanoseconds.
    pub mean_ns: f64,
    /// Variance; the paper labels it ns, we read ns².
    pub variance_ns2: f64,
}

/// The paper's table for one pattern.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Paper {
    /// `I` or `II`.
    pub table: &'static str,
    /// Generic kernel time.
    pub ktime: PaperOverhead,
    /// Raw cycles, converted by threads.
    pub raw: PaperOverhead,
}

impl Paper {
    /// The table for the pattern of that name.
    pub fn of(pattern: &str) -> Option<Self> {
        let overhead = |mean_ns, variance_ns2| PaperOverhead { mean_ns, variance_ns2 };
        match pattern {
            "1" => Some(Self {
                table: "I",
                ktime: overhead(195.2762, 176.0954),
                raw: overhead(73.49326, 3.793385),
            }),
            "2" => Some(Self {
                table: "II",
                ktime: overhead(173.3606, 177.1197),
                raw: overhead(70.84912, 8.197374),
            }),
            _ => None,
        }
    }

    /// Kernel time over raw cycles: means.
    pub fn mean_ratio(&self) -> f64 {
        self.ktime.mean_ns / self.raw.mean_ns
    }

    /// Kernel time over raw cycles: variances.
    pub fn variance_ratio(&self) -> f64 {
        self.ktime.variance_ns2 / self.raw.variance_ns2
    }
}
