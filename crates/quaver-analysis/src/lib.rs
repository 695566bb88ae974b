//! Analysis of measured runs: pure functions from samples and events to numbers.
//!
//! No I/O, no clock, no randomness without a seed, no unsafe.
#![forbid(unsafe_code)]

pub mod model;
pub mod summary;
