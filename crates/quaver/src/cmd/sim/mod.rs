//! `quaver sim`: programs traced, and run on a simulated chip.

mod config;
mod cure;
mod cure_file;
mod cured;
mod file;
mod import;
pub(super) mod paper;
mod run;
pub(in crate::cmd) mod sweep;
mod timed;
mod trace;

use crate::cli::sim::{SimArgs, SimCommand};
use crate::exit_code::ExitCode;

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
