//! Traces of programs: which blocks of instructions each thread ran, where they read and wrote, and how the threads
//! waited for each other.
//!
//! Pure: no I/O of its own, no clock, no unsafe. The QEMU plugin writes what is here and the simulator reads it.
#![forbid(unsafe_code)]

pub mod block;
pub mod step;
