//! What arrivals of packets tell: the RFCs' metrics of a path, RTP, and how times are distributed.
//!
//! No I/O, no clock, no randomness without a seed, no unsafe.
#![forbid(unsafe_code)]

pub mod distribution;
pub mod gapped;
pub mod path;
pub mod rtp;
