//! The comparison of ways to stamp packets, as the timestamping paper makes it: overheads with mean and variance
//! (its tables I and II), densities (figures 2 to 5), autocorrelation, loss (figure 6), and how sure all that is.
//!
//! An overhead is the time between two checkpoints around a stamp, less what the checkpoints themselves take, which
//! blocks without a stamp tell. Blocks of all arms alternate in a random order. Intervals are drawn from starts of the
//! program and rounds within them: where code and data lie differs from start to start, and so do results. Each arm
//! takes part twice; where its halves differ, nothing that it is compared with is a result.

mod arms;
mod conversion;
mod density;
mod kernel;
mod losses;
mod model;
mod paper;
mod peers;
mod ratio;
mod series;
mod summary;
mod ways;

pub use arms::Overheads;
pub use conversion::{Conversion, Cost};
pub use density::{Density, LogDensity};
pub use kernel::{Difference, KernelSummary};
pub use losses::{LossDifference, LossSummary, LossTotal};
pub use model::{
    CompareFacts, CompareTable, Context, LossPoint, PatternFacts, PeerPoint, Placement, Sweep, UserArmFacts,
};
pub use paper::{Paper, PaperOverhead};
pub use peers::PeerTotal;
pub use quaver_analysis::moments::{Moments, TRIMMED_SHARE};
pub use quaver_analysis::rounds::{Interval, Verdict};
pub use ratio::{Comparison, Ratio, Same};
pub use series::Correlation;
pub use summary::{ArmSummary, CompareSummary, PatternSummary, SCHEMA, summarize};
pub use ways::Way;

#[cfg(test)]
mod tests;
