//! `quaver capture`: packets with every stamp that this machine gives.

pub mod args;
#[cfg(feature = "bpf")]
pub mod bpf;
pub mod capture;
pub mod compare;
pub mod digest;
pub mod frames;
pub mod page;
pub mod pipeline;
pub mod record;
pub mod summary;

use args::CaptureArgs;
use quaver_instrument::exit_code::ExitCode;

/// Captures packets, or compares what each way to stamp them costs.
///
/// # Errors
/// What was asked for makes no sense or cannot be had here, or a file cannot be written.
pub fn run(args: &CaptureArgs) -> anyhow::Result<ExitCode> {
    if args.compare.compare { compare::run(args) } else { capture::run(args) }
}
