//! All contact with the operating system: clocks, packets, tracing, host facts.
//!
//! A folder per instrument. Nothing here knows of files' formats beyond the raw segments, or of reports.

pub mod bpf;
pub mod clock;
pub mod emulator;
pub mod host;
pub mod lab;
pub mod path;
#[cfg(test)]
#[path = "../../quaver-testbed/src/privileged.rs"]
#[allow(unreachable_pub, reason = "it is a module of the testbed, which imports this crate")]
mod privileged;
pub mod probe;
pub mod segment;
pub mod stamp;
pub mod sync;
pub mod tune;
pub mod waiting;
