//! Options of `quaver capture --compare`.

use clap::{Args, ValueEnum};
use quaver_chase::args::{FarHost, far_host};
use std::path::PathBuf;

/// `quaver capture --compare`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Comparison of stamps")]
pub struct CompareArgs {
    /// Instead of capturing, compare what each way to stamp a packet costs, on a stream of our own
    #[arg(long, conflicts_with_all = ["interface", "output", "filter", "expression", "qos"])]
    pub compare: bool,
    /// Take the stream from `quaver serve` on this host, not from a namespace of our own
    #[arg(long, value_name = "HOST[:PORT]", value_parser = far_host, requires = "compare")]
    pub from: Option<FarHost>,
    /// Share the key in this file with the server of --from
    #[arg(long, value_name = "FILE", env = "QUAVER_KEY_FILE")]
    pub key_file: Option<PathBuf>,
    /// Traffic: the paper's 1 (140 octets each 20 ms) and 2 (1368 octets each 1.368 ms), 140 octets each 10 us, or all
    #[arg(long, value_enum, default_value = "all", value_name = "PATTERN", requires = "compare")]
    pub pattern: WantedPattern,
    /// Packets of each way to stamp and pattern [default: 400, 2000 and 50000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(10..=10_000_000), requires = "compare")]
    pub packets: Option<u32>,
    /// Rounds, in each of which every way to stamp has a block of packets [default: 10, 20 and 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), requires = "compare")]
    pub rounds: Option<u32>,
    /// A quarter of the packets, and of the loss sweeps a tenth
    #[arg(long, requires = "compare")]
    pub quick: bool,
    /// Leave out the checkpoints in the kernel
    #[arg(long, requires = "compare")]
    pub no_kernel: bool,
    /// Leave out loss against packet size and gap
    #[arg(long, requires = "compare")]
    pub no_loss: bool,
    /// Order of the blocks [default: by the clock]
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
    /// 100,000 packets a second
    #[value(name = "100kpps")]
    Fast,
    /// All three
    All,
}
