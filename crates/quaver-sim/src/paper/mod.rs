//! The jitter-unit paper's own numbers, and what arithmetic makes of them. Its tables 4 to 7 are data of
//! `quaver_analysis::sync_bench::paper`.

mod slips;
mod tables;

pub use slips::{Slip, slips};
pub use tables::{
    Correlations, OVERHEAD_WITH_BOTH_PERCENT, SHARES_PERCENT, UNIFIED_PERCENT, correlations,
    mean_slowdown_percent, product_error, sync_share_percent, table_8,
};
