//! `quaver capture`: packets with every stamp that this machine gives.

pub mod args;
#[cfg(feature = "bpf")]
pub mod bpf;
pub mod capture;
pub mod compare;
pub mod digest;
pub mod extcap;
mod files;
pub mod frames;
pub mod pipeline;
pub mod record;
pub mod summary;
pub mod view;

use args::CaptureArgs;
use quaver_instrument::exit_code::ExitCode;
use quaver_instrument::registry::Instrument;
use quaver_instrument::verb;

/// The instrument, as the program takes it.
pub static INSTRUMENT: Instrument = Instrument {
    verbs: &[
        verb!(
            "capture",
            "Capture packets with every stamp that this machine gives, to pcapng",
            CaptureArgs,
            run
        ),
        verb!("extcap", "Let Wireshark and tshark capture by Quaver", extcap::ExtcapArgs, extcap::run),
    ],
    kinds: &[&compare::runs::ComparisonRuns],
    files: &[&files::Captures],
    tables: &[&compare::samples::TABLE],
    status: |_| None,
};

/// Captures packets, or compares what each way to stamp them costs.
///
/// # Errors
/// What was asked for makes no sense or cannot be had here, or a file cannot be written.
pub fn run(args: &CaptureArgs) -> anyhow::Result<ExitCode> {
    if args.compare.compare { compare::run(args) } else { capture::run(args) }
}
