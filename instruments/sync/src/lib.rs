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

use args::{SyncArgs, SyncCommand};
use quaver_instrument::exit_code::ExitCode;
use quaver_instrument::registry::Instrument;
use quaver_instrument::verb;

/// The instrument, as the program takes it.
pub static INSTRUMENT: Instrument = Instrument {
    verbs: &[verb!(
        "sync",
        "Run a threaded program and tell what waking its threads up costs",
        SyncArgs,
        run
    )],
    kinds: &[&runs::SyncRuns, &runs::BenchRuns],
    files: &[],
    tables: &[&quaver_sync_store::PACKED_TABLE],
    status: |_| None,
};

fn run(args: &SyncArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Some(SyncCommand::Bench(bench)) => bench::run(bench),
        Some(SyncCommand::WhatIf(what_if)) => what_if::run(what_if),
        None => verb::run(args),
    }
}
