//! The command line: types only. What a verb does is in `cmd/`.

pub mod capture;
pub mod compare;
pub mod jitlat;
pub mod lab;
pub mod path;
pub mod sim;
pub mod sim_import;
pub mod sim_paper;
pub mod sim_sweep;
pub mod sim_trace;
pub mod study;
pub mod sync;
pub mod sync_bench;
pub mod sync_compensate;
pub mod tune;

use crate::quantity::{self, Period, Rate};
use crate::threshold::{self, FailIf};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use quaver_abi::stamp::Layer;
use quaver_analysis::rtp::VideoTold;
use quaver_measure::probe::profile::ProfileName;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Finds where jitter comes from, says how much each source costs, and takes it away.
#[derive(Debug, Parser)]
#[command(name = "quaver", version, max_term_width = 100, propagate_version = true)]
#[command(
    after_help = "Start with `quaver doctor` (what this machine lets us measure), then `quaver chase`.\n\n\
    Exit status: 0 done, 1 a --fail-if held, 2 usage, 3 not permitted or not supported here, 4 the peer refused or\n\
    vanished, 5 bad input file, 6 output or resources failed, 70 a bug, 130 interrupted (the run is kept)."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// One verb for each job.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Tell what this machine lets us measure, what is missing, and the command that mends it
    Doctor(DoctorArgs),
    /// Receive a constant-rate packet stream and name the source of every late packet
    Chase(ChaseArgs),
    /// Measure what interrupts a busy loop on chosen CPUs, without any network
    Noise(NoiseArgs),
    /// Send a constant-rate packet stream
    Source(SourceArgs),
    /// Receive a packet stream with one timestamp a packet
    Sink(SinkArgs),
    /// Capture packets with every stamp that this machine gives, to pcapng
    Capture(Box<capture::CaptureArgs>),
    /// Measure the path to a host that runs `quaver serve`: delay, its variation, loss, order
    Probe(path::ProbeArgs),
    /// Wait for `quaver probe` and measure with it
    Serve(path::ServeArgs),
    /// Be Jitlat: its options, its console page, its log file, its protocol
    Jitlat(jitlat::JitlatArgs),
    /// Analyse a run again (also one that was cut short), a capture, or a log of Jitlat
    Analyze(AnalyzeArgs),
    /// Find what is set so that it makes packets late, set it otherwise, and put it back
    Tune(tune::TuneArgs),
    /// Prove what each source of lateness costs: restore one at a time against a baseline, and rank them
    Study(study::StudyArgs),
    /// Labs to try things in: what each needs, and how to get it
    Lab(lab::LabArgs),
    /// Run a threaded program and tell what waking its threads up costs
    Sync(sync::SyncArgs),
    /// Simulate a chip that runs traced programs
    Sim(sim::SimArgs),
    /// Draw the HTML report of a run again
    Report(ReportArgs),
    /// Convert a run for another program
    Export(ExportArgs),
    /// Print completions for a shell
    Completions(CompletionsArgs),
    /// Print the manual pages
    #[command(hide = true)]
    Man(ManArgs),
}

/// `quaver doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Doctor only reads. It changes nothing on this machine.")]
pub struct DoctorArgs {
    /// Print JSON instead of a page
    #[arg(long)]
    pub json: bool,
}

/// How the sink waits for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReceiveMode {
    /// Ask again and again without ever sleeping (the paper's sink)
    Poll,
    /// Sleep in the receive call
    Block,
    /// Sleep in epoll
    Epoll,
    /// Sleep in the receive call, the kernel polls the device first (SO_BUSY_POLL)
    BusyPoll,
}

/// How the source waits for the next deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PaceMode {
    /// Watch the clock without ever sleeping: most exact, one CPU
    Spin,
    /// Sleep until the deadline
    Sleep,
    /// Sleep until shortly before it, then watch the clock
    Hybrid,
    /// Let the queueing discipline send at the deadline (needs etf or fq)
    Txtime,
}

/// What the stream looks like.
#[derive(Clone, Debug, Args)]
pub struct StreamArgs {
    /// Time between packets [default: 7.41us]
    #[arg(long, value_parser = quantity::period, value_name = "TIME", conflicts_with_all = ["rate", "profile"])]
    pub period: Option<Period>,
    /// Packets or payload bits a second, for example 135kpps or 1.5Gbit/s
    #[arg(long, value_parser = quantity::rate, value_name = "RATE", conflicts_with = "profile")]
    pub rate: Option<Rate>,
    /// UDP payload in octets [default: 1428]
    #[arg(long, value_name = "OCTETS", conflicts_with = "profile")]
    pub size: Option<usize>,
    /// A stream of a standard: fixes period, size and headers
    #[arg(long, value_parser = profile_names(), value_name = "NAME")]
    pub profile: Option<ProfileName>,
    /// How the source waits for each deadline
    #[arg(long, value_enum, default_value = "spin", value_name = "HOW")]
    pub pace: PaceMode,
    /// DSCP of the packets
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..64), value_name = "0..63")]
    pub dscp: u8,
    /// Let the source catch up with a burst after it was late (it skips slots otherwise)
    #[arg(long)]
    pub catch_up: bool,
}

/// The profiles' names, for completions and errors.
fn profile_names() -> impl TypedValueParser<Value = ProfileName> {
    PossibleValuesParser::new(ProfileName::ALL.map(ProfileName::name))
        .map(|name| name.parse().expect("the parser accepts the profiles' names only"))
}

/// `quaver chase`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver chase                            ten seconds of an ST 2022-6-like stream made here
  quaver chase --period 1ms --receive block --fifo 50
  quaver chase --from 192.0.2.1           the same from another host, where `quaver serve` runs
  quaver chase --listen 239.1.1.1:5004    somebody's RTP or UDP stream
  quaver chase --pid 4711                 a receiver that already runs, untouched
  quaver chase --fail-if 'lateness.packets > 100'

A packet is late when it reaches the application later than its schedule plus the typical way says, by more than
the threshold. Each late microsecond is given to the one thing that ran instead, or left unexplained.")]
pub struct ChaseArgs {
    /// How long to measure
    #[arg(long = "for", value_parser = quantity::duration, default_value = "10s", value_name = "TIME")]
    pub duration: Duration,
    /// Receive a stream that `quaver serve` on this host sends for as long as it is measured
    #[arg(long, value_name = "HOST[:PORT]", group = "origin", value_parser = far_host)]
    pub from: Option<FarHost>,
    /// Receive somebody's RTP or UDP stream, unicast or multicast
    #[arg(long, value_name = "ADDR:PORT", group = "origin")]
    pub listen: Option<SocketAddr>,
    /// Observe a receiver that already runs
    #[arg(long, value_name = "PID", group = "origin")]
    pub pid: Option<u32>,
    /// Local interface for multicast
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// UDP port here for --from (0: the system's choice)
    #[arg(long, default_value_t = 2670, value_name = "PORT")]
    pub port: u16,
    /// Share the key in this file with the server of --from
    #[arg(long, value_name = "FILE", env = "QUAVER_KEY_FILE")]
    pub key_file: Option<PathBuf>,
    /// The stream made here
    #[command(flatten)]
    pub stream: StreamArgs,
    /// How the sink waits for packets
    #[arg(long, value_enum, default_value = "poll", value_name = "HOW")]
    pub receive: ReceiveMode,
    /// CPU of the sink [default: the last one allowed]
    #[arg(long, value_name = "CPU")]
    pub sink_cpu: Option<u16>,
    /// CPU of the source made here [default: the first one allowed]
    #[arg(long, value_name = "CPU")]
    pub source_cpu: Option<u16>,
    /// Run the sink under SCHED_FIFO with this priority
    #[arg(long, value_name = "1..99", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub fifo: Option<u8>,
    /// A packet is late beyond this [default: half a period, at least 5us, at most 100us]
    #[arg(long, value_parser = quantity::duration, value_name = "TIME")]
    pub late: Option<Duration>,
    /// Send the stream made here over this
    #[arg(long, value_parser = host_labs(), value_name = "WHERE")]
    pub lab: Option<LabKind>,
    /// Let the kernel process packets on the sink's CPU (RPS; netns lab only)
    #[arg(long)]
    pub rps: bool,
    /// Use this tier of tracing, and no better one
    #[arg(long, value_enum, value_name = "TIER")]
    pub tier: Option<TierName>,
    /// Skip the alternating blocks that measure our own cost
    #[arg(long)]
    pub no_cost: bool,
    /// Output
    #[command(flatten)]
    pub output: OutputArgs,
}

/// A host that runs `quaver serve`, and the TCP port of its control connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FarHost {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// `HOST`, `HOST:PORT`, `[IPv6]:PORT` or an IPv6 address.
fn far_host(text: &str) -> Result<FarHost, String> {
    let all = |host: &str| FarHost { host: host.to_owned(), port: quaver_abi::wire::jitlat::CONTROL_PORT };
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => return Ok(all(host)),
        Some((host, port)) => (host, port.strip_prefix(':').unwrap_or(port)),
        None if text.matches(':').count() > 1 => return Ok(all(text)),
        None => match text.split_once(':') {
            Some(parts) => parts,
            None if text.is_empty() => return Err("name a host".to_owned()),
            None => return Ok(all(text)),
        },
    };
    let port = port.parse().ok().filter(|port| *port != 0);
    let port = port.ok_or_else(|| "a port is a number from 1 to 65535".to_owned())?;
    Ok(FarHost { host: host.to_owned(), port })
}

/// Where the stream made here travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LabKind {
    /// Two network namespaces of our own, joined by a veth pair
    Netns,
    /// The loopback interface
    Loopback,
    /// A machine that QEMU emulates, in virtual time
    Qemu,
}

/// The labs in which a chase works.
fn host_labs() -> impl TypedValueParser<Value = LabKind> {
    let labs = [LabKind::Netns, LabKind::Loopback];
    let values = labs.iter().filter_map(ValueEnum::to_possible_value);
    PossibleValuesParser::new(values)
        .map(|name| LabKind::from_str(&name, false).expect("the parser accepts the labs' names only"))
}

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

/// `quaver noise`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver noise                  the last CPU for ten seconds: each gap of 1 us and more, by cause
  quaver noise --cpus 2-5 --threshold 500ns
  quaver noise --dummy          the paper's program: a timestamp each 7.41 us against absolute deadlines")]
pub struct NoiseArgs {
    /// CPUs to loop on [default: the last one allowed]
    #[arg(long, value_parser = quantity::cpu_list, value_name = "LIST")]
    pub cpus: Option<CpuList>,
    /// How long to measure
    #[arg(long = "for", value_parser = quantity::duration, default_value = "10s", value_name = "TIME")]
    pub duration: Duration,
    /// Report every gap of at least this
    #[arg(long, value_parser = quantity::duration, default_value = "1us", value_name = "TIME")]
    pub threshold: Duration,
    /// Run the paper's dummy program instead of the tight loop
    #[arg(long)]
    pub dummy: bool,
    /// Period of the dummy program
    #[arg(long, value_parser = quantity::period, default_value = "7.41us", value_name = "TIME", requires = "dummy")]
    pub period: Period,
    /// Run the loops under SCHED_FIFO with this priority
    #[arg(long, value_name = "1..99", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub fifo: Option<u8>,
    /// Use this tier of tracing, and no better one
    #[arg(long, value_enum, value_name = "TIER")]
    pub tier: Option<TierName>,
    /// Output
    #[command(flatten)]
    pub output: OutputArgs,
}

/// CPUs, in order.
pub type CpuList = Vec<u16>;

/// `quaver source`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver source 192.0.2.7:2670 --period 1ms --for 60s
  quaver source 239.1.1.1:5004 --profile st2022-6 --cpu 3 --fifo 50

The source never catches up with a burst unless asked: it skips the slots that it missed and says how many.")]
pub struct SourceArgs {
    /// Where to send
    #[arg(value_name = "ADDR:PORT")]
    pub destination: SocketAddr,
    /// The stream
    #[command(flatten)]
    pub stream: StreamArgs,
    /// How long to send
    #[arg(long = "for", value_parser = quantity::duration, value_name = "TIME", conflicts_with = "count")]
    pub duration: Option<Duration>,
    /// How many packets to send
    #[arg(long, value_name = "PACKETS")]
    pub count: Option<u64>,
    /// CPU to run on
    #[arg(long, value_name = "CPU")]
    pub cpu: Option<u16>,
    /// Run under SCHED_FIFO with this priority
    #[arg(long, value_name = "1..99", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub fifo: Option<u8>,
    /// Local interface for multicast
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// Print JSON instead of a page
    #[arg(long)]
    pub json: bool,
    /// No progress line
    #[arg(short, long)]
    pub quiet: bool,
}

/// `quaver sink`.
#[derive(Debug, Args)]
pub struct SinkArgs {
    /// Where to listen; a multicast address is joined
    #[arg(value_name = "ADDR:PORT")]
    pub listen: SocketAddr,
    /// How the sink waits for packets
    #[arg(long, value_enum, default_value = "poll", value_name = "HOW")]
    pub receive: ReceiveMode,
    /// How long to receive
    #[arg(long = "for", value_parser = quantity::duration, default_value = "10s", value_name = "TIME")]
    pub duration: Duration,
    /// Stop after this many packets
    #[arg(long, value_name = "PACKETS")]
    pub count: Option<u64>,
    /// CPU to run on
    #[arg(long, value_name = "CPU")]
    pub cpu: Option<u16>,
    /// Run under SCHED_FIFO with this priority
    #[arg(long, value_name = "1..99", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub fifo: Option<u8>,
    /// Take the application's stamp only, not the kernel's
    #[arg(long)]
    pub no_kernel_stamps: bool,
    /// Local interface for multicast
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// Period of the stream [default: learned]
    #[arg(long, value_parser = quantity::period, value_name = "TIME")]
    pub period: Option<Period>,
    /// Format of ST 2110-20 video: lines, scanning, frames (not fields) a second [default: learned]
    #[arg(long, value_parser = VideoTold::format, value_name = "1080p59.94")]
    pub video: Option<VideoTold>,
    /// TROFF that the sender of ST 2110-20 video signals [default: TRO_DEFAULT of ST 2110-21]
    #[arg(long, value_parser = quantity::duration, value_name = "TIME")]
    pub troff: Option<Duration>,
    /// Output
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The layers that stamp captured packets, by their names.
fn stamp_layer() -> impl TypedValueParser<Value = Layer> {
    let names = Layer::ALL.map(Layer::name);
    let of_name = |name: String| Layer::ALL.into_iter().find(|layer| layer.name() == name);
    PossibleValuesParser::new(names).try_map(move |name| of_name(name).ok_or("no such layer"))
}

/// `quaver analyze`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver analyze runs/chase-20261120T165800Z-7f3a
  quaver analyze capture.pcapng
  quaver analyze capture.pcapng --layer application --json
  tcpdump -i eth0 --time-stamp-precision=nano -w capture.pcap udp && quaver analyze capture.pcap

Of a capture, of quaver, tcpdump, Wireshark or anybody: which flows there are, their rate and
delta T; what was lost, came twice or out of order by the senders' own numbers (RTP, STAMP, quaver
and Jitlat); delay and its variation where packets say when they were sent; RFC 3550, ST 2022-6
and ST 2110-21 for RTP. Captures of `quaver capture` carry a stamp for each layer with its error
bound: --layer takes times from one of them, and the page tells the time between layers.")]
pub struct AnalyzeArgs {
    /// Run directory, capture (pcapng or pcap), or log of Jitlat
    #[arg(value_name = "RUN|FILE")]
    pub run: PathBuf,
    /// Take times of a capture from this layer's stamps [default: each packet's own time]
    #[arg(long, value_name = "LAYER", value_parser = stamp_layer())]
    pub layer: Option<Layer>,
    /// A packet is late beyond this [default: as when it was measured]
    #[arg(long, value_parser = quantity::duration, value_name = "TIME")]
    pub late: Option<Duration>,
    /// Print the summary as JSON instead of a page
    #[arg(long)]
    pub json: bool,
    /// Exit with 1 if this holds (a path into summary.json; repeatable)
    #[arg(long, value_parser = threshold::parse, value_name = "METRIC OP VALUE")]
    pub fail_if: Vec<FailIf>,
}

/// `quaver report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Run directory
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Where to write [default: report.html in the run directory]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `quaver export`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("format").required(true))]
#[command(after_help = "\
Examples:
  quaver export RUN --perfetto
  quaver export RUN --late-csv -o - | sort -t, -k2,2nr | head
  quaver export RUN --jitlat-log --direction up -o up.log

A timeline of a run with more than 400 000 packets and events together shows the time around the worst packet only:
a viewer holds all of it in memory. --late-csv writes one line for each piece of each late packet:
  seq,lateness_ns,start_ns,end_ns,cpu,source,name,part,place
source is empty and part is `unexplained` where nothing recorded explains the time.

--packets-csv writes direction,tx_seq,sent_ns,received_ns,flags: what was recorded, in order of arrival. Of two directions
--jitlat-log writes two files, whose names end with .up and .down.")]
pub struct ExportArgs {
    /// Run directory
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// A timeline for ui.perfetto.dev
    #[arg(long, group = "format")]
    pub perfetto: bool,
    /// The late packets, piece by piece, as comma-separated values
    #[arg(long, group = "format")]
    pub late_csv: bool,
    /// Of a path: a log of Jitlat for each direction, which `quaver jitlat -f` reads too
    #[arg(long, group = "format")]
    pub jitlat_log: bool,
    /// Of a path: a line a packet, as comma-separated values
    #[arg(long, group = "format")]
    pub packets_csv: bool,
    /// Of a path: data and a script for gnuplot, in a directory with one for each direction
    #[arg(long, group = "format")]
    pub gnuplot: bool,
    /// Of a path: this direction only, up or down
    #[arg(long, value_enum, value_name = "WAY", default_value = "both", hide_default_value = true)]
    #[arg(hide_possible_values = true)]
    pub direction: path::DirectionName,
    /// A packet is late beyond this [default: as when it was measured]
    #[arg(long, value_parser = quantity::duration, value_name = "TIME")]
    pub late: Option<Duration>,
    /// Where to write, - for standard output [default: timeline.perfetto-trace, late.csv, jitlat.log.up and .down,
    /// packets.csv, gnuplot/ in the run directory]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `quaver completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// `quaver man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write a file for each page into this directory [default: print them all, one after the other]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn a_far_host_has_a_port_or_the_usual_one() {
        let of = |text| far_host(text).map(|far| (far.host, far.port));
        let is = |host: &str, port| Ok((host.to_owned(), port));
        assert_eq!(of("192.0.2.1"), is("192.0.2.1", 2666));
        assert_eq!(of("studio:99"), is("studio", 99));
        assert_eq!(of("2001:db8::1"), is("2001:db8::1", 2666));
        assert_eq!(of("[2001:db8::1]"), is("2001:db8::1", 2666));
        assert_eq!(of("[2001:db8::1]:99"), is("2001:db8::1", 99));
        for wrong in ["", "studio:", "studio:0", "studio:65536", "[::1]x", "studio:port"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
