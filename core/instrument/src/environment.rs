//! Variables of the environment that stand for options.

use clap::Command;
use clap::builder::Resettable;
use std::ffi::OsStr;

/// The same command, in which a variable of the environment that is empty counts as one that is not set, in all subcommands.
pub fn without_empty_variables(command: Command) -> Command {
    let is_empty = |name: &OsStr| std::env::vars_os().any(|(other, value)| other == name && value.is_empty());
    let command = command.mut_args(|argument| match argument.get_env() {
        Some(name) if is_empty(name) => argument.env(Resettable::Reset),
        _ => argument,
    });
    command.mut_subcommands(without_empty_variables)
}
