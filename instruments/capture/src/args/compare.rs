//! Options of `quaver capture --compare`.

use clap::{Args, ValueEnum};
use quaver_chase::args::{FarHost, far_host};
use std::path::PathBuf;

/// `quaver capture --compare`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Comparison of stamps")]
pub struct CompareArgs {
    /// Compare the cost of timestamping methods on a local stream, instead of capturing
    #[arg(long, conflicts_with_all = ["interface", "output", "filter", "expression", "qos"])]
    pub compare: bool,
    /// Use a stream from `quaver serve` on this host instead of a local namespace
    #[arg(long, value_name = "HOST[:PORT]", value_parser = far_host, requires = "compare")]
    pub from: Option<FarHost>,
    /// Share the key in this file with the server of --from
    #[arg(long, value_name = "FILE", env = "QUAVER_KEY_FILE")]
    pub key_file: Option<PathBuf>,
    /// Traffic: 1 (paper: 140 bytes every 20 ms), 2 (paper: 1368 bytes every 1.368 ms), 100kpps (140 bytes every 10 us), or all
    #[arg(long, value_enum, default_value = "all", value_name = "PATTERN", requires = "compare")]
    pub pattern: WantedPattern,
    /// Packets per method and pattern [default: 400, 2000 and 50000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(10..=10_000_000), requires = "compare")]
    pub packets: Option<u32>,
    /// Starts of the program that packets and rounds are spread over; intervals need at least 5
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000), requires = "compare")]
    pub starts: u32,
    /// Rounds; each has two blocks per method [default: 10, 20 and 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), requires = "compare")]
    pub rounds: Option<u32>,
    /// Quick: a quarter of the packets, a tenth of the loss sweeps
    #[arg(long, requires = "compare")]
    pub quick: bool,
    /// Skip kernel checkpoints
    #[arg(long, requires = "compare")]
    pub no_kernel: bool,
    /// Skip the loss sweeps
    #[arg(long, requires = "compare")]
    pub no_loss: bool,
    /// Seed of the block order [default: from the clock]
    #[arg(long, value_name = "NUMBER", requires = "compare")]
    pub seed: Option<u64>,
    /// What the comparison calls this program with, as the libpcap program beside our own capture
    #[arg(long, value_name = "PORT@NAME", value_parser = libpcap_stream, requires = "compare", hide = true)]
    pub count_by_libpcap: Option<LibpcapStream>,
    /// Directory in which the run directory is made
    #[arg(long, default_value = "runs", env = "QUAVER_RUNS", value_name = "DIR")]
    pub runs: PathBuf,
}

/// A stream of UDP that arrives at an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibpcapStream {
    /// Where it goes.
    pub port: u16,
    /// Interface.
    pub interface: String,
}

fn libpcap_stream(text: &str) -> Result<LibpcapStream, String> {
    let (port, interface) = text.split_once('@').ok_or("write PORT@NAME")?;
    let port = port.parse().map_err(|_| "a port is a number from 0 to 65535".to_owned())?;
    Ok(LibpcapStream { port, interface: interface.to_owned() })
}

/// Traffic patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WantedPattern {
    /// The paper's first
    #[value(name = "1")]
    One,
    /// The paper's second
    #[value(name = "2")]
    Two,
    /// 100,000 packets per second
    #[value(name = "100kpps")]
    Fast,
    /// All three
    All,
}
