//! `quaver capture`: packets with every stamp that this machine gives.

pub mod args;
#[cfg(feature = "bpf")]
pub mod bpf;
pub mod capture;
pub mod compare;
pub mod digest;
mod files;
pub mod frames;
pub mod page;
pub mod pipeline;
pub mod record;

use quaver_instrument::registry::Instrument;
use quaver_instrument::verb;

/// The instrument, as the program takes it.
pub static INSTRUMENT: Instrument = Instrument {
    verbs: &[verb!(
        "capture",
        "Capture packets with every stamp that this machine gives, to pcapng",
        args::CaptureArgs,
        capture::run
    )],
    kinds: &[&compare::runs::ComparisonRuns],
    files: &[&files::Captures],
    status: |_| None,
};
