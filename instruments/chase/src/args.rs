//! The command lines of `quaver chase`, `quaver source` and `quaver sink`.

use crate::endpoint::{Endpoint, destination, listening};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use quaver_arrivals::gapped::SenderType;
use quaver_arrivals::rtp::VideoTold;
use quaver_instrument::args::{OutputArgs, TierName, host_and_port};
use quaver_instrument::quantity;
use quaver_instrument::quantity::{Period, Rate};
use quaver_probe::profile::ProfileName;
use std::path::PathBuf;
use std::time::Duration;

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
    /// UDP payload in bytes [default: 1428]
    #[arg(long, value_name = "OCTETS", conflicts_with = "profile")]
    pub size: Option<usize>,
    /// A stream of a standard: fixes period, size and headers
    #[arg(long, value_parser = profile_names(), value_name = "NAME")]
    pub profile: Option<ProfileName>,
    /// How the source waits for each deadline [default: spin; of `quaver source` hybrid for periods from 200us]
    #[arg(long, value_enum, value_name = "HOW")]
    pub pace: Option<PaceMode>,
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

/// Options of a stream made here or by the server of --from, which has no use for them where somebody else sends.
const OF_A_SENDER: [&str; 7] = ["period", "rate", "size", "profile", "pace", "dscp", "catch_up"];
/// Options of a source in this process.
const OF_A_SOURCE_HERE: [&str; 3] = ["source_cpu", "lab", "rps"];
/// Options of a sink in this process.
const OF_A_SINK_HERE: [&str; 4] = ["receive", "sink_cpu", "fifo", "port"];

/// `quaver chase`.
#[derive(Clone, Debug, Args)]
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
    #[arg(long, value_name = "HOST[:PORT]", group = "origin", value_parser = far_host,
          conflicts_with_all = OF_A_SOURCE_HERE)]
    pub from: Option<FarHost>,
    /// Receive somebody's RTP or UDP stream, unicast or multicast
    #[arg(long, value_name = "[HOST:]PORT", group = "origin", value_parser = listening,
          conflicts_with_all = OF_A_SENDER, conflicts_with_all = OF_A_SOURCE_HERE, conflicts_with = "port")]
    pub listen: Option<Endpoint>,
    /// Observe a receiver that already runs
    #[arg(long, value_name = "PID", group = "origin",
          conflicts_with_all = OF_A_SENDER, conflicts_with_all = OF_A_SOURCE_HERE, conflicts_with_all = OF_A_SINK_HERE)]
    pub pid: Option<u32>,
    /// Local interface for multicast
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// UDP port here for --from (0: the system's choice)
    #[arg(long, default_value_t = 2670, value_name = "PORT", requires = "from")]
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
    /// A packet is late beyond this, and PASS or FAIL says whether any was, or was lost
    /// [default: half a period, at least 5us, at most 100us]
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
pub fn far_host(text: &str) -> Result<FarHost, String> {
    let (host, port) = host_and_port(text)?;
    Ok(FarHost { host: host.to_owned(), port: port.unwrap_or(quaver_abi::wire::jitlat::CONTROL_PORT) })
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

/// `quaver source`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver source 192.0.2.7:2670 --period 1ms --for 60s
  quaver source 239.1.1.1:5004 --profile st2022-6 --cpu 3 --fifo 50

The source never catches up with a burst unless asked: it skips the slots that it missed and says how many.")]
pub struct SourceArgs {
    /// Where to send
    #[arg(value_name = "HOST:PORT", value_parser = destination)]
    pub destination: Endpoint,
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
    /// Where to listen, at any address if only a port is given; a multicast address is joined
    #[arg(value_name = "[HOST:]PORT", value_parser = listening)]
    pub listen: Endpoint,
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
    /// Type of sender that ST 2110-20 video signals; PASS or FAIL says whether it keeps the limits of ST 2110-21
    #[arg(long, value_parser = SenderType::of_sdp, value_name = "2110TPN")]
    pub tp: Option<SenderType>,
    /// Output
    #[command(flatten)]
    pub output: OutputArgs,
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_instrument::args::parse;

    #[test]
    fn an_option_without_effect_is_refused() {
        let accepted = |line: &str| parse::<ChaseArgs>(format!("chase {line}").split_whitespace()).is_ok();
        let sender = "--period=1ms --rate=1kpps --size=100 --profile=g711 --pace=spin --dscp=5 --catch-up";
        let sink = "--receive=block --sink-cpu=0 --fifo=5";
        for (options, origins) in [
            (sender, ["", "--from=192.0.2.1"].as_slice()),
            (sink, &["", "--from=192.0.2.1", "--listen=5004"]),
            ("--port=5", &["--from=192.0.2.1"]),
            ("--source-cpu=0 --lab=netns --rps", &[""]),
        ] {
            for option in options.split_whitespace() {
                for origin in ["", "--from=192.0.2.1", "--listen=5004", "--pid=70"] {
                    let line = format!("{origin} {option}");
                    assert_eq!(accepted(&line), origins.contains(&origin), "{line}");
                }
            }
        }
    }

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
}
