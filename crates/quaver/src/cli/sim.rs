//! The command line of `quaver sim`: types only.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `quaver sim`.
#[derive(Debug, Args)]
pub struct SimArgs {
    /// What to do
    #[command(subcommand)]
    pub command: SimCommand,
}

/// What there is to do with the simulated chip.
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Print the simulated machine with every number explained, or check another one
    Config(SimConfigArgs),
}

/// `quaver sim config`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver sim config > machine.toml         the default, to be edited
  quaver sim config --check machine.toml   whether it can be simulated, and where it differs

A file needs to hold only what differs from the default.")]
pub struct SimConfigArgs {
    /// Check this file instead of printing the default
    #[arg(long, value_name = "FILE")]
    pub check: Option<PathBuf>,
}
