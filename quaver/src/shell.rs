//! What a shell and a reader of manuals want of the command line.

use crate::cli::{CompletionsArgs, ManArgs, command};
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::results::to_stdout;

/// Prints completions.
pub(crate) fn completions(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "quaver", &mut script);
    to_stdout(&script)?;
    Ok(ExitCode::Done)
}

/// Prints the manual pages: that of the program, then one for each verb.
pub(crate) fn manual(args: &ManArgs) -> anyhow::Result<ExitCode> {
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
