//! Analysis of synchronisation between threads. No I/O, no clock, no unsafe.
#![forbid(unsafe_code)]

pub mod bench;
pub mod futex;
pub mod lanes;
pub mod replay;
pub mod subframes;
pub mod sync;
