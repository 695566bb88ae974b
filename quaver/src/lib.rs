//! The `quaver` program: its command line and its instruments. A library only so that tests and examples can reach it.

pub mod cli;
mod registry;
mod simulator;

use quaver_instrument::exit_code::ExitCode;
use quaver_instrument::program::{self, Program};

/// Runs the program with the process's arguments and says how it ended.
pub fn main() -> ExitCode {
    let interface = registry::INTERFACE;
    let status = &registry::status_judges();
    program::main(&Program { command: cli::command, run: cli::run, interface, status })
}
