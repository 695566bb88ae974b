//! `quaver sim`: programs traced, and run on a simulated chip.

pub mod args;
pub mod digest;
pub mod emulator;
pub mod intervals;
pub mod perfetto;
mod runs;
pub mod shard;
pub mod stored;
pub mod view;

mod config;
mod cure;
mod cure_file;
mod cured;
mod file;
mod head;
mod import;
mod kernel_activity;
mod machine_file;
pub mod paper;
mod run;
pub mod sweep;
mod trace;

use crate::args::{SimArgs, SimCommand};
use quaver_instrument::exit_code::ExitCode;

/// Does what is asked.
pub fn run(args: &SimArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        SimCommand::Run(args) => run::run(args),
        SimCommand::Trace(args) => trace::run(args),
        SimCommand::Paper(args) => paper::run(args),
        SimCommand::Import(args) => import::run(args),
        SimCommand::Sweep(args) => sweep::run(args),
        SimCommand::Config(args) => config::run(args),
    }
}

use quaver_instrument::registry::Instrument;
use quaver_instrument::verb;

/// The instrument, as the program takes it.
pub static INSTRUMENT: Instrument = Instrument {
    verbs: &[verb!("sim", "Simulate a chip that runs traced programs", args::SimArgs, run)],
    kinds: &[&runs::SimulationRuns, &runs::PaperRuns, &runs::SweepRuns],
    files: &[],
    status: |_| None,
};
