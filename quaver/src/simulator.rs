//! The simulator is a program of its own, `quaver-sim`, which takes the place of this process: for `quaver sim`, and for
//! runs that it made.

use clap::{Arg, ArgAction, ArgMatches, Command};
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::registry::Verb;
use quaver_instrument::schema::SIMULATOR;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;

/// Name of its file.
const PROGRAM: &str = "quaver-sim";

/// `quaver sim`, with whatever words it takes.
pub(crate) static VERB: Verb = Verb { command, run };

fn command() -> Command {
    let words = Arg::new("words").value_name("COMMAND").action(ArgAction::Append).trailing_var_arg(true);
    Command::new("sim")
        .about("Simulate a chip that runs traced programs")
        .disable_help_flag(true)
        .disable_version_flag(true)
        .arg(words.num_args(0..).allow_hyphen_values(true).value_parser(clap::value_parser!(OsString)))
}

fn run(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    Err(become_it(matches.get_many::<OsString>("words").into_iter().flatten()))
}

/// Hands a verb on a stored run over where the simulator made that run; comes back where it did not.
pub(crate) fn take_over(run: &Path) -> anyhow::Result<()> {
    // What is wrong with the run is said by the verb.
    let manifest = quaver_store::listing::open(run).ok().and_then(|run| run.read_manifest().ok());
    match manifest.filter(|manifest| manifest.verb.split('-').next() == Some(SIMULATOR)) {
        Some(_) => Err(become_it(&own_words())),
        None => Ok(()),
    }
}

/// Hands `quaver schema` over where it is asked for a verb of the simulator; comes back where it is not.
pub(crate) fn describe<'a>(mut words: impl Iterator<Item = &'a str>) -> anyhow::Result<()> {
    let is_its = words.next().and_then(|first| first.split('-').next()) == Some(SIMULATOR);
    if is_its { Err(become_it(&own_words())) } else { Ok(()) }
}

fn own_words() -> Vec<OsString> {
    std::env::args_os().skip(1).collect()
}

/// Runs the simulator in this process: the one beside this program, or the first in PATH. Comes back only with an error.
fn become_it<'a>(words: impl IntoIterator<Item = &'a OsString>) -> anyhow::Error {
    let executable = std::env::current_exe().unwrap_or_default();
    let beside = executable.with_file_name(PROGRAM);
    let path = if beside.is_file() { beside.as_path() } else { Path::new(PROGRAM) };
    let error = std::process::Command::new(path).arg0(PROGRAM).args(words).exec();
    let place = executable.parent().unwrap_or(Path::new("/")).display();
    let message = match error.kind() {
        std::io::ErrorKind::NotFound => format!(
            "the simulator {PROGRAM} is neither in {place} nor in PATH; `make build` in the source directory builds it, \
             and it belongs beside quaver"
        ),
        _ => format!("start {}: {error}", path.display()),
    };
    failure(ExitCode::Unsupported, message)
}
