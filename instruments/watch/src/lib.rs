//! `quaver watch`: receivers, threads and paths watched all the time; what a trigger finds is kept as an incident, a run like any other.

mod args;
mod board;
mod config;
mod cpus;
mod daemon;
mod flight;
mod frozen;
mod incident;
mod judge;
mod outbox;
mod paths;
mod receiver;
mod serve;
mod threads;
mod top;
mod wait_run;

use quaver_instrument::registry::Instrument;
use quaver_instrument::verb;

/// The instrument, as the program takes it. Incidents of receivers are runs of packets, which `chase` reads.
pub static INSTRUMENT: Instrument = Instrument {
    verbs: &[
        verb!(
            "watch",
            "Watch receivers, threads and paths; keep an incident of each glitch, with its cause",
            args::WatchArgs,
            args::run
        ),
        verb!("top", "Show live what a running watch sees", top::TopArgs, top::run),
    ],
    kinds: &[&wait_run::WaitRuns],
    files: &[],
    tables: &[],
    status: |_| None,
};

/// What is wrong with the text of a file for `--config`; none where a watch can run by it.
pub fn settings_fault(text: &str) -> Option<String> {
    config::Settings::parse(text).err()
}
