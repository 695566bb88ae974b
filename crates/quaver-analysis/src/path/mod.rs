//! What a path did to the packets sent along it: delay, its variation, loss, order, and the two ends' clocks.
//!
//! Every figure starts from [`Arrival`]s, which [`arrival`] makes from the receiver's records.

pub mod arrival;
pub mod burstiness;
pub mod bursts;
pub mod clocks;
pub mod delay;
pub mod duplication;
pub mod histogram;
pub mod jitlat_figures;
pub mod loss_pattern;
pub mod percentile;
pub mod variation;

pub use arrival::{Arrival, Counts};
