//! `quaver study`: what each source of lateness costs.

pub mod args;
pub mod digest;
mod runs;
pub mod stamps;
pub mod verb;
pub mod view;

use quaver_instrument::registry::Instrument;
use quaver_instrument::verb;

/// The instrument, as the program takes it.
pub static INSTRUMENT: Instrument = Instrument {
    verbs: &[verb!(
        "study",
        "Prove what each source of lateness costs: restore one at a time against a baseline, and rank them",
        args::StudyArgs,
        verb::run
    )],
    kinds: &[&runs::CellRuns],
    files: &[],
    tables: &[&stamps::TABLE],
    status: |_| None,
};
