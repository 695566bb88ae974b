//! `quaver noise`: what interrupts a busy loop.

pub mod args;
pub mod digest;
pub mod record;
mod runs;
pub mod view;

use quaver_instrument::registry::Instrument;
use quaver_instrument::verb;

/// The instrument, as the program takes it.
pub static INSTRUMENT: Instrument = Instrument {
    verbs: &[verb!(
        "noise",
        "Measure what interrupts a busy loop on chosen CPUs, without any network",
        args::NoiseArgs,
        record::run
    )],
    kinds: &[&runs::GapRuns],
    files: &[],
    tables: &[],
    status: |_| None,
};
