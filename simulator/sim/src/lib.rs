//! A chip of in-order cores with private caches, simulated from traces of programs.
//!
//! Pure and deterministic: no I/O, no clock, no unsafe. One run is one thread; the same configuration, trace and seed give
//! the same numbers, byte by byte. Choices where the paper is silent are in `docs/methodology/simulator.md`.
#![forbid(unsafe_code)]

pub mod branch;
pub mod cache;
pub mod coherence;
pub mod config;
pub mod core;
pub mod cure;
mod cure_cache;
pub mod directory;
pub mod error;
mod feed;
pub mod frames;
pub mod hooks;
pub mod inject;
pub mod machine;
pub mod memory;
pub mod network;
pub mod paper;
pub mod prefetcher;
pub mod private;
mod record;
pub mod statistics;
pub mod store_buffer;
pub mod threads;
pub mod timing;
pub mod unit;
