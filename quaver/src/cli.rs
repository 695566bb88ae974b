//! The command line: the verbs of all instruments, those on stored runs, and those for shells.

use crate::{registry, simulator};
use clap::{ArgMatches, Command};
use quaver_instrument::environment::without_empty_variables;
use quaver_instrument::exit_code::ExitCode;
use quaver_instrument::help_text::flowing;
use quaver_instrument::program::Shell;
use quaver_instrument::stored::Stored;
use std::path::PathBuf;

/// The whole command line.
pub fn command() -> Command {
    let own = Command::new("quaver")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Finds where jitter comes from, says how much each source costs, and takes it away")
        .max_term_width(100)
        .propagate_version(true)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .after_help(
            "Start with `quaver doctor` (what this machine lets us measure), then `quaver chase`.\n\n\
             Exit status: 0 done, 1 a --fail-if held, 2 usage, 3 not permitted or not supported here, 4 the peer refused or\n\
             vanished, 5 bad input file, 6 output or resources failed, 70 a bug, 130 interrupted (the run is kept).",
        )
        .subcommands(registry::verbs().map(|verb| (verb.command)()))
        .subcommands(Stored::commands())
        .subcommands(Shell::commands());
    without_empty_variables(flowing(own))
}

/// Does what the command line asks.
pub(crate) fn run(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    let (name, matches) = matches.subcommand().expect("clap demands a subcommand");
    if let Some(verb) = registry::verbs().find(|verb| (verb.command)().get_name() == name) {
        return (verb.run)(matches);
    }
    if let Some(done) = (Shell { program: "quaver", command }).run(name, matches) {
        return done;
    }
    // All that is left are verbs on stored runs. Those that name one may be the simulator's.
    if let Ok(Some(run)) = matches.try_get_one::<PathBuf>("run") {
        simulator::take_over(run)?;
    }
    if let Ok(Some(words)) = matches.try_get_many::<String>("of") {
        simulator::describe(words.map(String::as_str))?;
    }
    registry::STORED.run(name, matches, command).expect("clap knows these verbs only")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }
}
