//! `quaver watch`: receivers watched all the time; what a trigger finds is kept as an incident, a run like any other.

mod args;
mod board;
mod config;
mod daemon;
mod incident;
mod judge;
mod receiver;
mod serve;
mod top;

use quaver_instrument::registry::Instrument;
use quaver_instrument::verb;

/// The instrument, as the program takes it. Incidents are runs of packets, which `chase` reads.
pub static INSTRUMENT: Instrument = Instrument::of(&[
    verb!(
        "watch",
        "Watch receivers all the time and keep an incident of each glitch, with its cause",
        args::WatchArgs,
        args::run
    ),
    verb!("top", "Show live what a running watch sees", top::TopArgs, top::run),
]);

/// What is wrong with the text of a file for `--config`; none where a watch can run by it.
pub fn settings_fault(text: &str) -> Option<String> {
    config::Settings::parse(text).err()
}
