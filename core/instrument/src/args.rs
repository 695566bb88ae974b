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

/// Takes `HOST`, `HOST:PORT`, `[IPv6]:PORT` or an IPv6 address apart.
///
/// # Errors
/// A sentence: there is no host, or the port is none.
pub fn host_and_port(text: &str) -> Result<(&str, Option<u16>), String> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => return Ok((host, None)),
        Some((host, port)) => (host, port.strip_prefix(':').unwrap_or(port)),
        None if text.matches(':').count() > 1 => return Ok((text, None)),
        None => match text.split_once(':') {
            Some(parts) => parts,
            None if text.is_empty() => return Err("name a host".to_owned()),
            None => return Ok((text, None)),
        },
    };
    let port = port.parse().ok().filter(|port| *port != 0);
    Ok((host, Some(port.ok_or_else(|| "a port is a number from 1 to 65535".to_owned())?)))
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
