//! Analysis of measured runs: pure functions from samples and events to numbers.
//!
//! No I/O, no clock, no randomness without a seed, no unsafe.
#![forbid(unsafe_code)]

pub mod attribution;
pub mod capture;
pub mod catalogue;
pub mod compare;
pub mod decimate;
pub mod distribution;
pub mod futex;
pub mod gapped;
pub mod lanes;
pub mod losses;
pub mod model;
pub mod nesting;
pub mod paced;
pub mod path;
pub mod probe_cost;
pub mod rtp;
pub mod series;
pub mod study;
pub mod subframes;
pub mod summary;
pub mod sync;
pub mod sync_bench;
