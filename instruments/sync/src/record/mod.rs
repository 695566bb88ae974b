//! Synchronisation of a threaded program: what the kernel did to its threads, and what its addresses are called.
//!
//! The recorder is a library of its own (`quaver-preload`) that the dynamic loader puts before the C library. It writes a
//! segment into a directory that it is told; nothing here reads that segment.

mod demangling;
pub mod java;
pub mod kernel;
pub mod maps;
pub mod runtimes;
pub mod source;
pub mod spins;
pub mod symbols;
pub mod unwind;

use quaver_instrument::exit_code::{ExitCode, failure};
use std::path::PathBuf;

/// Where the recorder is.
///
/// # Errors
/// It is not installed (status 3).
pub fn recorder() -> anyhow::Result<PathBuf> {
    quaver_launch::recorder::installed().map_err(|error| failure(ExitCode::Unsupported, error.to_string()))
}
