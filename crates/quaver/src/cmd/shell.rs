//! What a shell and a reader of manuals want of the command line.

use crate::cli::{Cli, CompletionsArgs};
use crate::exit_code::ExitCode;
use clap::CommandFactory;
use std::io::Write;

/// Prints completions.
pub fn completions(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "quaver", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::Done)
}

/// Prints the manual page.
pub fn manual() -> anyhow::Result<ExitCode> {
    clap_mangen::Man::new(Cli::command()).render(&mut std::io::stdout())?;
    Ok(ExitCode::Done)
}
