//! What a path did to the packets sent along it: delay, its variation, loss, order, and the two ends' clocks.
//!
//! Every figure starts from [`Arrival`]s, which [`arrival`] makes from the receiver's records.

pub mod advice;
pub mod arrival;
pub mod burstiness;
pub mod bursts;
pub mod clocks;
pub mod delay;
pub mod density;
pub mod direction;
pub mod duplication;
pub mod edge;
pub mod following;
pub mod gilbert;
pub mod histogram;
pub mod jitlat_figures;
pub mod loss_pattern;
pub mod offset;
pub mod percentile;
pub mod playout;
pub mod reordering;
pub mod rolling;
pub mod skew;
pub mod steps;
pub mod summary;
pub mod variation;
pub mod voice;

pub use arrival::{Arrival, Counts};

#[cfg(test)]
mod simulated;
