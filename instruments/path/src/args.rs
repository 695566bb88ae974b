//! The command line of `quaver serve` and `quaver probe`: types only.

use crate::metrics::MetricsArgs;
use clap::builder::NonEmptyStringValueParser;
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
  quaver serve --key-file path.key          require the key
  quaver serve --stamp 862                  also reflect for any STAMP or TWAMP-Light sender
  quaver serve --twamp --owamp              also serve twping, owping and other clients of these protocols
  quaver serve --max-tests 1                one test at a time, the next ones wait
  quaver serve --legacy                     also serve unmodified Jitlat clients

The server sends test packets only to the address that holds the control connection and has answered from its test
port. No privilege needed. A unit for systemd is in packaging/quaver-serve.service. Make a key with:
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
    /// Also serve legacy Jitlat peers, which cannot prove their address; caps apply
    #[arg(long)]
    pub legacy: bool,
    /// Also reflect STAMP (RFC 8762) packets on this UDP port
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "862")]
    pub stamp: Option<u16>,
    /// Also serve TWAMP-Control (RFC 5357) clients on this TCP port, in unauthenticated mode
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "862", conflicts_with = "key_file")]
    pub twamp: Option<u16>,
    /// Also serve OWAMP-Control (RFC 4656) clients on this TCP port, in unauthenticated mode
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "861", conflicts_with = "key_file")]
    pub owamp: Option<u16>,
    /// Require the key in this file
    #[arg(long, value_name = "FILE", env = "QUAVER_KEY_FILE")]
    pub key_file: Option<PathBuf>,
    /// Maximum packet rate of a test
    #[arg(long, default_value_t = 500_000, value_name = "PACKETS", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_rate: u64,
    /// Maximum packet rate of all tests that run at a time, of which one peer has half [default: twice --max-rate]
    #[arg(long, value_name = "PACKETS")]
    pub max_total_rate: Option<u64>,
    /// Maximum number of tests at a time; more wait for their turn [default: 32; 1 with --pace spin]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub max_tests: Option<u16>,
    /// Maximum duration of a test
    #[arg(long, default_value = "25h", value_parser = quantity::duration, value_name = "TIME")]
    pub max_duration: Duration,
    /// Maximum packet rate of a rolling test, whose samples are returned while it runs
    #[arg(long, default_value_t = 5_000, value_name = "PACKETS")]
    pub max_rolling_rate: u64,
    /// Maximum STAMP packet rate per host, and TWAMP packet rate per session
    #[arg(long, default_value_t = 20_000, value_name = "PACKETS")]
    pub max_stamp_rate: u32,
    /// Also reflect packets of 14 to 40 bytes (TWAMP Light) from these hosts, though replies have 41 bytes
    #[arg(long, value_name = "ADDR", value_delimiter = ',', requires = "stamp", conflicts_with = "key_file")]
    pub stamp_short_from: Vec<IpAddr>,
    /// Threads of test packets
    #[command(flatten)]
    pub thread: ThreadArgs,
    /// Figures for Prometheus
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Log events as JSON lines
    #[arg(long)]
    pub json: bool,
}

/// How the threads that test packets go through run, at this end.
#[derive(Clone, Copy, Debug, Args)]
pub struct ThreadArgs {
    /// How the sender waits for each deadline
    #[arg(long, value_enum, default_value = "hybrid", value_name = "HOW")]
    pub pace: PaceName,
    /// CPU of the thread that sends or receives test packets [default: any]
    #[arg(long, value_name = "CPU")]
    pub cpu: Option<u16>,
    /// Run that thread under SCHED_FIFO with this priority
    #[arg(long, value_name = "1..99", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub fifo: Option<u8>,
}

/// How a sender waits for the next deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PaceName {
    /// Watch the clock without ever sleeping: one CPU
    Spin,
    /// Sleep until the deadline; from 40,000 packets/s on, wake up once for all of 100 µs
    Sleep,
    /// Sleep until shortly before it, then watch the clock
    Hybrid,
}

/// What becomes of packets whose time has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LateName {
    /// Skip each slot whose successor is due as well; the mean period grows
    Skip,
    /// Send every slot, late ones half a period apart; the mean period is kept
    SendLate,
    /// Send every slot, all that are due at once
    Burst,
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
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  quaver probe 192.0.2.7                          a telephone call: 1000 packets of 80 bytes each way, 20 ms apart
  quaver probe 192.0.2.7 --period 1ms --size 1316 --for 60s --direction up
  quaver probe 192.0.2.7 --at-once --for 60s      up and down at the same time
  quaver probe 192.0.2.7 --for 24h                figures in constant memory, as for all tests over an hour
  quaver probe 192.0.2.7 --rate 500kpps --for 10s  in trains, if the rate needs them (see --max-rate of `quaver serve`)
  quaver probe 192.0.2.7 --for 5m --live          watch it in the terminal; q stops and keeps the results
  quaver probe 192.0.2.7 --stamp                  any STAMP reflector instead of `quaver serve`
  quaver probe 192.0.2.7 --twamp                  any TWAMP server, such as a router or twampd
  quaver probe 192.0.2.7 --owamp --direction down  any OWAMP server, such as owampd
  quaver probe 192.0.2.7 --dscp ef,af41,be        a test of each class, at the same time
  quaver probe --mesh hosts.toml --every 5m       test after test to the hosts of a file, until Ctrl-C
  quaver probe --mesh hosts.toml --every 5m --metrics 127.0.0.1:9470  the same, with figures for Prometheus
  quaver probe 192.0.2.7 --fail-if 'up.loss.share > 0.01'

A file of hosts has a table for each: [[host]] with name, and if needed address, port and key_file. All hosts can share
one file: each leaves itself out. Results of several are put together by --join.

One-way delay is only as accurate as the two clocks. The page shows values as measured and corrected by the estimated
clock offset, with the bound of that estimate.")]
pub struct ProbeArgs {
    /// Host that runs `quaver serve`, or the reflector of --stamp
    #[arg(value_name = "HOST[:PORT]", required_unless_present = "mesh", value_parser = NonEmptyStringValueParser::new())]
    pub host: Option<String>,
    /// Measure to each host of this file, one after the other
    #[arg(long, value_name = "FILE", conflicts_with = "host")]
    pub mesh: Option<PathBuf>,
    /// How many times to measure to each host; 0: only --join [default: 1; with --every until Ctrl-C]
    #[arg(long, value_name = "COUNT", requires = "mesh")]
    pub rounds: Option<u64>,
    /// Time from the start of a round to that of the next
    #[arg(long, value_parser = quantity::duration, value_name = "TIME", requires = "mesh")]
    pub every: Option<Duration>,
    /// This host's name in the file [default: the host name without its domain]
    #[arg(long, value_name = "NAME", requires = "mesh")]
    pub here: Option<String>,
    /// Add the pairs of a mesh that another host measured (repeatable)
    #[arg(long, value_name = "RUN", requires = "mesh")]
    pub join: Vec<PathBuf>,
    /// Figures for Prometheus
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// TCP port of its control connection, if HOST names none
    #[arg(long, default_value_t = 2666, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Which way test packets go
    #[arg(long, value_enum, default_value = "both", value_name = "WAY")]
    pub direction: DirectionName,
    /// Measure both directions at the same time, in place of one after the other
    #[arg(long, conflicts_with_all = ["legacy", "source_port"])]
    pub at_once: bool,
    /// Time between packets [default: 20ms]
    #[arg(long, value_parser = quantity::period, value_name = "TIME", conflicts_with = "rate")]
    pub period: Option<Period>,
    /// Packets or payload bits per second, for example 50pps or 2Mbit/s
    #[arg(long, value_parser = quantity::rate, value_name = "RATE")]
    pub rate: Option<Rate>,
    /// Payload in bytes
    #[arg(long, default_value_t = 80, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(12..=65_000))]
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
    /// Send at the times in this file (nanoseconds after the start, one per line)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["period", "rate", "count", "duration"])]
    pub trace: Option<PathBuf>,
    /// What becomes of packets whose time has passed [default: send-late; burst for random and recorded schedules, and
    /// periods below 20us]
    #[arg(long, value_enum, value_name = "HOW")]
    pub late: Option<LateName>,
    /// Packets that a sender gives its kernel at once, 1 for none [default: the fewest that reach a rate above 50kpps]
    #[arg(long, value_name = "PACKETS", value_parser = clap::value_parser!(u16).range(1..=64), conflicts_with = "tcp")]
    pub train: Option<u16>,
    /// Send test packets by TCP
    #[arg(long)]
    pub tcp: bool,
    /// DSCP of the test packets, a number or a name such as af41; of several, a test of each at the same time
    #[arg(long, default_value = "0", value_parser = crate::dscp::parse, value_delimiter = ',', value_name = "DSCP")]
    pub dscp: Vec<u8>,
    /// Local test port [default: ephemeral]
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
    /// Use the unmodified Jitlat protocol
    #[arg(long, conflicts_with_all = ["key_file", "stamp"])]
    pub legacy: bool,
    /// Talk to a STAMP reflector (RFC 8762) instead, on this UDP port if HOST names none
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "862")]
    pub stamp: Option<u16>,
    /// Talk to a TWAMP server (RFC 5357) instead, unauthenticated, on this TCP port if HOST names none
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "862",
        conflicts_with_all = ["key_file", "stamp", "legacy"])]
    pub twamp: Option<u16>,
    /// Talk to an OWAMP server (RFC 4656) instead, unauthenticated, on this TCP port if HOST names none
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "861",
        conflicts_with_all = ["key_file", "stamp", "legacy", "twamp", "tcp", "trace"])]
    pub owamp: Option<u16>,
    /// Rolling test: keep figures, not packets, in constant memory [default: for tests over an hour]
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
    /// Write a Jitlat log, readable by `quaver jitlat -f` and `quaver analyze`; two directions give FILE.up and FILE.down
    #[arg(long, value_name = "FILE", conflicts_with = "rolling")]
    pub log: Option<PathBuf>,
    /// Threads of test packets
    #[command(flatten)]
    pub thread: ThreadArgs,
    /// Output
    #[command(flatten)]
    pub output: OutputArgs,
}
