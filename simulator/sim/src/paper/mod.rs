//! The jitter-unit paper again: its own numbers and what arithmetic makes of them, and the runs that make its tables and
//! figures from 4 to 19. Its tables 4 to 7 are data of `quaver_analysis::sync_bench::paper`.
//!
//! ```text
//! traces ── Program, in rounds ─┐
//! kernel activity ── Library ───┼─ run_point(arm, seed) ── PointFigures ── ProgramRuns ── PaperSummary ── claims
//! calibration ── Knobs ─────────┘
//! ```

mod arms;
mod bundled;
mod calibration;
mod claims;
mod exhibits;
mod kernel_activity;
mod point;
mod program;
mod slips;
mod summary;
mod tables;

pub use arms::{Arm, injection};
pub use bundled::BUNDLED;
pub use calibration::{Calibration, Fitted, HELD_OUT, Knobs, Occasions, Shown, fit, predicted, target};
pub use claims::{Claim, Kind, SHAPE_PERCENT, Undecided, claims};
pub use exhibits::{EXHIBITS, Exhibit, arms_of, exhibit_named};
pub use kernel_activity::MadeActivity;
pub use point::{
    Bench, DEADLINE_NS, Ideal, PACKET_WORK_NS, Packets, Point, PointError, PointFigures, SubframePoint,
    UnitWork, run_point,
};
pub use program::{OnlyOnce, Program, Rounds};
pub use slips::{Slip, slips};
pub use summary::{ArmSummary, HowRun, OfSeed, PaperSummary, ProgramRuns, ProgramSummary};
pub use tables::{
    Correlations, OVERHEAD_WITH_BOTH_PERCENT, SHARES_PERCENT, UNIFIED_PERCENT, correlations,
    mean_slowdown_percent, product_error, sync_share_percent, table_8,
};
