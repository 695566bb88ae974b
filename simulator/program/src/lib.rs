//! `quaver sim`: programs traced, and run on a simulated chip.

pub mod args;
pub mod digest;
pub mod emulator;
pub mod intervals;
pub mod perfetto;
mod runs;
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
mod recording;
mod run;
pub mod sweep;
mod trace;

use crate::args::{SimArgs, SimCommand};
use quaver_instrument::environment::without_empty_variables;
use quaver_instrument::exit_code::ExitCode;
use quaver_instrument::help_text::flowing;

/// Does what is asked.
pub fn run(args: &SimArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        SimCommand::Run(args) => run::run(args),
        SimCommand::Trace(args) => trace::run(args),
        SimCommand::Paper(args) => paper::run(args),
        SimCommand::Import(args) => import::run(args),
        SimCommand::Sweep(args) => sweep::run(args),
        SimCommand::Config(args) => config::run(args),
        SimCommand::Guest => trace::guest::run(),
    }
}

use clap::{ArgMatches, Args, Command, FromArgMatches};
use quaver_instrument::program::{Program, Shell};
use quaver_instrument::registry::RunKind;
use quaver_instrument::stored::Stored;
use quaver_lab_guests::GuestError;

/// All that the program takes and writes.
const INTERFACE: &str = include_str!("../../../docs/interface.txt");

/// Runs the program with the process's arguments and says how it ended.
pub fn main() -> ExitCode {
    let program = Program { command, run: dispatch, interface: INTERFACE, status: &[exit_status] };
    quaver_instrument::program::main(&program)
}

/// The whole command line, as `quaver sim` has it. Verbs on stored runs are hidden: `quaver` hands these over.
pub fn command() -> Command {
    let own = SimArgs::augment_args(Command::new("quaver-sim").bin_name("quaver sim"));
    let own = own
        .version(env!("CARGO_PKG_VERSION"))
        .about("Simulate a chip that runs traced programs")
        .long_about(None)
        .max_term_width(100)
        .propagate_version(true)
        .subcommands(Stored::commands().map(|verb| verb.hide(true)))
        .subcommands(Shell::commands().map(|verb| verb.hide(true)));
    without_empty_variables(flowing(own))
}

fn dispatch(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    let kinds: Vec<&'static dyn RunKind> = vec![&runs::SimulationRuns, &runs::PaperRuns, &runs::SweepRuns];
    let stored = Stored { kinds, files: Vec::new(), tables: vec![&intervals::TABLE], interface: INTERFACE };
    let asked = matches.subcommand();
    let done = asked.and_then(|(name, matches)| {
        stored
            .run(name, matches, command)
            .or_else(|| Shell { program: "quaver-sim", command }.run(name, matches))
    });
    done.unwrap_or_else(|| run(&SimArgs::from_arg_matches(matches)?))
}

/// How an error of a guest that could not be had ends the process.
fn exit_status(error: &(dyn std::error::Error + 'static)) -> Option<ExitCode> {
    Some(match error.downcast_ref()? {
        GuestError::Missing { .. } => ExitCode::Unsupported,
        _ => ExitCode::Output,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_well_formed() {
        super::command().debug_assert();
    }
}
