//! A file per verb.

pub mod chase;
pub mod doctor;
pub mod shell;

use crate::cli::Verb;
use crate::exit_code::ExitCode;

/// Does what the command line asks.
pub fn run(verb: Verb) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::Doctor(args) => doctor::run(&args),
        Verb::Chase(args) => chase::run(&args),
        Verb::Completions(args) => shell::completions(&args),
        Verb::Man => shell::manual(),
        _ => unreachable!("slices follow"),
    }
}
