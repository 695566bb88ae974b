//! Parts of command lines that several verbs share.

use crate::threshold::{self, FailIf};
use clap::{Args, Parser, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// Tier of tracing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TierName {
    /// BPF programs
    Bpf,
    /// A tracefs instance
    Tracefs,
    /// Nothing but user space
    User,
}

/// Where results go.
#[derive(Clone, Debug, Args)]
pub struct OutputArgs {
    /// Directory in which the run directory is made
    #[arg(short, long, default_value = "runs", env = "QUAVER_RUNS", value_name = "DIR")]
    pub output: PathBuf,
    /// Print the summary as JSON instead of a page
    #[arg(long)]
    pub json: bool,
    /// Exit with 1 if this holds, for example 'lateness.packets > 0' (a path into summary.json; repeatable)
    #[arg(long, value_parser = threshold::parse, value_name = "METRIC OP VALUE")]
    pub fail_if: Vec<FailIf>,
    /// No progress line
    #[arg(short, long)]
    pub quiet: bool,
}

/// CPUs, in order.
pub type CpuList = Vec<u16>;

/// Which way test packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DirectionName {
    /// From here to the server
    Up,
    /// From the server to here
    Down,
    /// First up, then down
    Both,
}

/// Reads the arguments of one verb; the first of `words` is the verb's name.
///
/// # Errors
/// Those of the command line.
pub fn parse<T: Args>(
    words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<T, clap::Error> {
    Ok(OneVerb::try_parse_from(words)?.args)
}

#[derive(Parser)]
struct OneVerb<T: Args> {
    #[command(flatten)]
    args: T,
}
