//! The command line of `quaver serve` and `quaver probe`: types only.

use clap::{Args, ValueEnum};
use quaver_instrument::args::{DirectionName, OutputArgs};
use quaver_instrument::quantity;
use quaver_instrument::quantity::{Period, Rate};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// `quaver serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver serve                              wait for `quaver probe` on TCP and UDP
  quaver serve --key-file path.key          serve only those who know the key
  quaver serve --stamp 862                  also reflect for any STAMP or TWAMP-Light sender
  quaver serve --legacy                     also serve programs that speak Jitlat word for word

The server sends test packets only to the address that holds the control connection and has answered from its test
port. It needs no privilege. A unit for systemd is in packaging/quaver-serve.service. Make a key with:
  head -c 32 /dev/urandom | base64 > path.key")]
pub struct ServeArgs {
    /// Address to listen on [default: all, IPv4 and IPv6]
    #[arg(long, value_name = "ADDR")]
    pub bind: Option<IpAddr>,
    /// TCP port of the control connection
    #[arg(long, default_value_t = 2666, value_name = "PORT")]
    pub port: u16,
    /// Port of test packets, UDP and TCP [default: 2667]
    #[arg(long, value_name = "PORT")]
    pub test_port: Option<u16>,
    /// Serve peers that speak Jitlat word for word too: they cannot prove their address, so they are capped
    #[arg(long)]
    pub legacy: bool,
    /// Reflect STAMP (RFC 8762) packets on this UDP port too
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "862")]
    pub stamp: Option<u16>,
    /// Serve only those who know the key in this file
    #[arg(long, value_name = "FILE", env = "QUAVER_KEY_FILE")]
    pub key_file: Option<PathBuf>,
    /// Most packets a second of a test
    #[arg(long, default_value_t = 250_000, value_name = "PACKETS")]
    pub max_rate: u64,
    /// Longest test
    #[arg(long, default_value = "25h", value_parser = quantity::duration, value_name = "TIME")]
    pub max_duration: Duration,
    /// Most packets a second of a test whose packets nobody keeps, so that they are told while it runs
    #[arg(long, default_value_t = 5_000, value_name = "PACKETS")]
    pub max_rolling_rate: u64,
    /// Most STAMP packets a second that are reflected for a host
    #[arg(long, default_value_t = 20_000, value_name = "PACKETS", requires = "stamp")]
    pub max_stamp_rate: u32,
    /// Print a JSON line for each event instead of a sentence
    #[arg(long)]
    pub json: bool,
}

/// When test packets are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScheduleName {
    /// At equal distances from a random start (RFC 3432)
    Periodic,
    /// At random distances, exponentially distributed (RFC 2330)
    Poisson,
}

/// `quaver probe`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver probe 192.0.2.7                          1000 packets of 80 octets each way, 20 ms apart: a telephone call
  quaver probe 192.0.2.7 --period 1ms --size 1316 --for 60s --direction up
  quaver probe 192.0.2.7 --for 24h                figures in constant memory, as of all tests above an hour
  quaver probe 192.0.2.7 --for 5m --live          watch it in the terminal; q ends it and keeps what was measured
  quaver probe 192.0.2.7 --stamp                  any STAMP reflector instead of `quaver serve`
  quaver probe 192.0.2.7 --fail-if 'up.loss.share > 0.01'

Delay between two hosts is as good as their clocks. Both the values as measured and those corrected by the estimated
clock error are shown, and the bounds of that estimate.")]
pub struct ProbeArgs {
    /// Host that runs `quaver serve`
    #[arg(value_name = "HOST")]
    pub host: String,
    /// TCP port of its control connection
    #[arg(long, default_value_t = 2666, value_name = "PORT")]
    pub port: u16,
    /// Which way test packets go
    #[arg(long, value_enum, default_value = "both", value_name = "WAY")]
    pub direction: DirectionName,
    /// Time between packets [default: 20ms]
    #[arg(long, value_parser = quantity::period, value_name = "TIME", conflicts_with = "rate")]
    pub period: Option<Period>,
    /// Packets or payload bits a second, for example 50pps or 2Mbit/s
    #[arg(long, value_parser = quantity::rate, value_name = "RATE")]
    pub rate: Option<Rate>,
    /// Payload in octets
    #[arg(long, default_value_t = 80, value_name = "OCTETS", value_parser = clap::value_parser!(u32).range(12..=65_000))]
    pub size: u32,
    /// How many packets in each direction [default: 1000]
    #[arg(long, value_name = "PACKETS", conflicts_with = "duration")]
    pub count: Option<u64>,
    /// How long to send in each direction
    #[arg(long = "for", value_parser = quantity::duration, value_name = "TIME")]
    pub duration: Option<Duration>,
    /// When packets are sent
    #[arg(long, value_enum, default_value = "periodic", value_name = "HOW", conflicts_with = "trace")]
    pub schedule: ScheduleName,
    /// Send at the times in this file: nanoseconds after the start, one a line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["period", "rate", "count", "duration"])]
    pub trace: Option<PathBuf>,
    /// Send test packets by TCP
    #[arg(long)]
    pub tcp: bool,
    /// DSCP of the test packets
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..64), value_name = "0..63")]
    pub dscp: u8,
    /// Port here that test packets come from and go to [default: the system's choice]
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "PORT")]
    pub source_port: u16,
    /// Round trips measured before the test
    #[arg(long, default_value_t = 5, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rtt_probes: u32,
    /// Time between these round trips
    #[arg(long, value_parser = quantity::duration, default_value = "200ms", value_name = "TIME")]
    pub rtt_interval: Duration,
    /// How long to wait for the connection and for each answer
    #[arg(long, value_parser = quantity::duration, default_value = "30s", value_name = "TIME")]
    pub timeout: Duration,
    /// Share the key in this file with the server
    #[arg(long, value_name = "FILE", env = "QUAVER_KEY_FILE")]
    pub key_file: Option<PathBuf>,
    /// Speak Jitlat word for word
    #[arg(long, conflicts_with_all = ["key_file", "stamp"])]
    pub legacy: bool,
    /// Talk to a STAMP reflector (RFC 8762) on this UDP port instead
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "862")]
    pub stamp: Option<u16>,
    /// Keep figures instead of packets: constant memory [default: yes where --for is more than an hour]
    #[arg(long, value_name = "YES", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub rolling: Option<bool>,
    /// Print figures of each interval as JSON lines on standard output while the test runs
    #[arg(long)]
    pub json_lines: bool,
    /// Show figures and plots in the terminal while the test runs (q ends it, ? explains)
    #[arg(long, conflicts_with_all = ["json_lines", "quiet"])]
    pub live: bool,
    /// Print plots below the page: delay, PDV, burstiness, and lengths of losses, copies and displacements
    #[arg(long, conflicts_with_all = ["rolling", "json_lines", "json"])]
    pub plots: bool,
    /// Write the data of these plots and a script for gnuplot into a directory, DIR/up and DIR/down
    #[arg(long, value_name = "DIR", conflicts_with = "rolling")]
    pub gnuplot: Option<PathBuf>,
    /// Write a log of Jitlat, which `quaver jitlat -f` and `quaver analyze` read; of two directions two: FILE.up, FILE.down
    #[arg(long, value_name = "FILE", conflicts_with = "rolling")]
    pub log: Option<PathBuf>,
    /// Output
    #[command(flatten)]
    pub output: OutputArgs,
}
