//! A program of Quaver from its first to its last word: arguments, exit status, completions and manual pages.

use crate::exit_code::{ExitCode, StatusJudge, failure, is_broken_pipe, sentence, status_of};
use crate::known_keys;
use crate::results::to_stdout;
use anyhow::Context;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use std::error::Error;
use std::path::PathBuf;

/// What is said when it is our fault.
const BUG: &str = "This is a bug in Quaver. Please report it with the command line.";

/// What stands in place of the standard library's words about a number.
const NO_NUMBER: &str = "give a whole number without a sign";

/// A program.
pub struct Program<'a> {
    /// Its command line.
    pub command: fn() -> Command,
    /// Does what the command line asks.
    pub run: fn(&ArgMatches) -> anyhow::Result<ExitCode>,
    /// `docs/interface.txt`.
    pub interface: &'a str,
    /// How errors of its parts end the process.
    pub status: &'a [StatusJudge],
}

/// Runs a program with the process's arguments and says how it ended.
pub fn main(program: &Program<'_>) -> ExitCode {
    let matches = match (program.command)().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => {
            let code = if error.use_stderr() { ExitCode::Usage } else { ExitCode::Done };
            if error.source().is_some_and(|source| source.is::<std::num::ParseIntError>()) {
                let said = error.render().to_string().replace("invalid digit found in string", NO_NUMBER);
                crate::tell!("{}", said.trim_end());
                return code;
            }
            // A reader that went away while help was printed is no failure.
            return match error.print() {
                Err(print) if print.kind() != std::io::ErrorKind::BrokenPipe => {
                    crate::tell!("quaver: writing to standard output: {print}");
                    ExitCode::Output
                }
                _ => code,
            };
        }
    };
    silence_contained_panics();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        known_keys::check(program.interface, &matches)?;
        (program.run)(&matches)
    }));
    match outcome {
        Err(_) => {
            // The panic's own message was printed already.
            crate::tell!("{BUG}");
            ExitCode::Bug
        }
        Ok(Ok(code)) => code,
        Ok(Err(error)) if is_broken_pipe(&error) => ExitCode::Done,
        Ok(Err(error)) => {
            let code = status_of(&error, program.status);
            crate::tell!("quaver: {}", sentence(&error));
            if code == ExitCode::Bug {
                crate::tell!("{BUG}");
            }
            code
        }
    }
}

/// Panics over a damaged file become an error that says so; their own message would look like a bug of ours.
fn silence_contained_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !quaver_store::containment::is_containing() {
            before(panic);
        }
    }));
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

/// Verbs for shells and readers of manuals.
#[derive(Clone, Copy)]
pub struct Shell {
    /// Name of the program's file.
    pub program: &'static str,
    /// The command line that is completed and described.
    pub command: fn() -> Command,
}

impl Shell {
    /// The verbs. Few need the manual pages, so that verb is hidden.
    pub fn commands() -> impl Iterator<Item = Command> {
        let completions = CompletionsArgs::augment_args(Command::new("completions"));
        let manual = ManArgs::augment_args(Command::new("man")).hide(true);
        let all =
            [completions.about("Print completions for a shell"), manual.about("Print the manual pages")];
        all.map(|verb| verb.long_about(None)).into_iter()
    }

    /// Does what is asked, where it is one of these verbs.
    pub fn run(self, verb: &str, matches: &ArgMatches) -> Option<anyhow::Result<ExitCode>> {
        match verb {
            "completions" => Some(self.completions(matches)),
            "man" => Some(self.manual(matches)),
            _ => None,
        }
    }

    fn completions(self, matches: &ArgMatches) -> anyhow::Result<ExitCode> {
        let asked = CompletionsArgs::from_arg_matches(matches)?;
        let mut script = Vec::new();
        let mut command = (self.command)().bin_name(self.program);
        clap_complete::generate(asked.shell, &mut command, self.program, &mut script);
        to_stdout(&script)?;
        Ok(ExitCode::Done)
    }

    /// Prints the manual pages: that of the program, then one for each verb.
    fn manual(self, matches: &ArgMatches) -> anyhow::Result<ExitCode> {
        let asked = ManArgs::from_arg_matches(matches)?;
        let mut program = (self.command)().disable_help_subcommand(true);
        program.build();
        if let Some(directory) = &asked.output {
            std::fs::create_dir_all(directory)
                .and_then(|()| clap_mangen::generate_to(program, directory))
                .with_context(|| format!("writing manual pages into {}", directory.display()))
                .map_err(|error| failure(ExitCode::Output, sentence(&error)))?;
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
}
