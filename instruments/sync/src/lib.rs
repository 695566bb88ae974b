//! `quaver sync`: what a threaded program loses waking its threads up.

pub mod args;
pub mod bench;
pub mod compensate;
pub mod digest;
mod drawing;
mod head;
pub mod record;
mod runs;
pub mod verb;
pub mod view;
pub mod what_if;

use quaver_instrument::registry::Instrument;
use quaver_instrument::verb;

/// The instrument, as the program takes it.
pub static INSTRUMENT: Instrument = Instrument {
    verbs: &[verb!(
        "sync",
        "Run a threaded program and tell what waking its threads up costs",
        args::SyncArgs,
        verb::run
    )],
    kinds: &[&runs::SyncRuns, &runs::BenchRuns],
    files: &[],
    status: |_| None,
};
