//! `quaver sim`: programs traced, and run on a simulated chip.

mod config;

use crate::cli::sim::{SimArgs, SimCommand};
use crate::exit_code::ExitCode;

/// Does what is asked.
pub fn run(args: &SimArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        SimCommand::Config(args) => config::run(args),
    }
}
