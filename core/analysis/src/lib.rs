//! Analysis of measured runs: pure functions from samples and events to numbers.
//!
//! No I/O, no clock, no randomness without a seed, no unsafe.
#![forbid(unsafe_code)]

pub mod moments;
pub mod order;
pub mod rounds;
pub mod shift;

pub mod attribution;
pub mod catalogue;
pub mod compare;
pub mod intervals;
pub mod losses;
pub mod model;
pub mod nesting;
mod pace;
pub mod paced;
pub mod probe_cost;
pub mod series;
pub mod summary;
