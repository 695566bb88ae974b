//! The command line: the verbs of all instruments, those on stored runs, and those for shells.

use crate::{registry, runs};
use clap::{ArgMatches, Args, Command};
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::registry::Verb;
use quaver_instrument::results::to_stdout;
use quaver_instrument::runs::{AnalyzeArgs, ExportArgs, ReportArgs};
use quaver_instrument::verb;
use std::path::PathBuf;

/// Verbs on stored runs, and for shells.
static OWN: &[Verb] = &[
    verb!(
        "analyze",
        "Analyse a run again (also one that was cut short), a capture, or a log of Jitlat",
        AnalyzeArgs,
        runs::analyze
    ),
    verb!("report", "Draw the HTML report of a run again", ReportArgs, runs::report),
    verb!("export", "Convert a run for another program", ExportArgs, runs::export),
    verb!("completions", "Print completions for a shell", CompletionsArgs, completions),
    verb!("man", "Print the manual pages", ManArgs, manual),
];

/// The whole command line.
pub fn command() -> Command {
    let verbs = all().map(|verb| (verb.command)()).map(|command| {
        let hidden = command.get_name() == "man";
        command.hide(hidden)
    });
    Command::new("quaver")
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
        .subcommands(verbs)
}

fn all() -> impl Iterator<Item = &'static Verb> {
    registry::verbs().chain(OWN)
}

/// Does what the command line asks.
pub(crate) fn run(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    let (name, matches) = matches.subcommand().expect("clap demands a subcommand");
    let verb = all().find(|verb| (verb.command)().get_name() == name).expect("clap knows these verbs only");
    (verb.run)(matches)
}

/// `quaver completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// `quaver man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write a file for each page into this directory [default: print them all, one after the other]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// Prints completions.
fn completions(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "quaver", &mut script);
    to_stdout(&script)?;
    Ok(ExitCode::Done)
}

/// Prints the manual pages: that of the program, then one for each verb.
fn manual(args: &ManArgs) -> anyhow::Result<ExitCode> {
    let mut program = command().disable_help_subcommand(true);
    program.build();
    if let Some(directory) = &args.output {
        let named = || format!("writing manual pages into {}", directory.display());
        std::fs::create_dir_all(directory)
            .and_then(|()| clap_mangen::generate_to(program, directory))
            .map_err(|error| failure(ExitCode::Output, format!("{}: {error}", named())))?;
        return Ok(ExitCode::Done);
    }
    let mut out = Vec::new();
    let verbs: Vec<_> = program.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned().collect();
    clap_mangen::Man::new(program).render(&mut out)?;
    for verb in verbs {
        clap_mangen::Man::new(verb).render(&mut out)?;
    }
    to_stdout(&out)?;
    Ok(ExitCode::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }
}
