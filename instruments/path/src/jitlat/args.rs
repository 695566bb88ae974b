//! The command line of `quaver jitlat`: Jitlat's own options, and a few of ours with long names. Types only.

use clap::Args;
use quaver_abi::wire::jitlat;
use quaver_instrument::quantity;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

/// `quaver jitlat`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver jitlat                        server: runs until interrupted
  quaver jitlat -n 10000 janus         10000 packets to the host janus, which runs the server
  quaver jitlat -R -r 100 janus        100 packets per second from janus to this host
  quaver jitlat -f jitlat.Kda4Ib -C    re-analyse a log, corrected by the estimated clock error

Jitlat (DRDC Ottawa TM 2011-047) is client or server \"depending on how the executable is
started\"; here no HOST and no -f make a server. It speaks the unmodified Jitlat protocol, in which
peers cannot prove their address. The server therefore sends only to the host of the control
connection, within caps; `quaver serve` and `quaver probe` do more.

Units are Jitlat's: -p takes nanoseconds, -r packets per second. Latencies are shown as measured,
and with -C corrected. The page is that of figures 16 and 17 of the document, with --v1 that of
figures 7, 10 and 13. The document does not give the number of histogram bins: 70 in figures 7, 16
and 17, 186 in figure 10, 500 in figure 13 (--bins). The receive period is the time from the first
to the last arrival divided by all packets, as the document has it, so it is short by one part in n.")]
pub struct JitlatArgs {
    /// Host that runs the server [default: act as server]
    #[arg(value_name = "HOST", conflicts_with = "file")]
    pub host: Option<String>,
    /// Packets to send
    #[arg(short = 'n', default_value_t = jitlat::DEFAULT_NPKTS, value_name = "NPKTS", value_parser = clap::value_parser!(u32).range(1..=2_147_483_647))]
    pub npkts: u32,
    /// Payload per packet in bytes
    #[arg(short = 'l', default_value_t = jitlat::DEFAULT_PKTLEN, value_name = "PKTLEN", value_parser = clap::value_parser!(u32).range(12..=65_507))]
    pub pktlen: u32,
    /// Send test packets by TCP
    #[arg(short = 't')]
    pub tcp: bool,
    /// Nanoseconds between packets
    #[arg(short = 'p', default_value_t = jitlat::DEFAULT_PERIOD_NS, value_name = "PERIOD", value_parser = clap::value_parser!(u64).range(1..=3_600_000_000_000))]
    pub period_ns: u64,
    /// Packets per second, instead of -p
    #[arg(short = 'r', value_name = "RATE", value_parser = rate, conflicts_with = "period_ns")]
    pub rate: Option<f64>,
    /// Reverse: the server sends
    #[arg(short = 'R')]
    pub reverse: bool,
    /// Port that test packets come from [default: ephemeral]
    #[arg(short = 's', default_value_t = 0, hide_default_value = true, value_name = "SRC_PORT")]
    pub src_port: u16,
    /// Port that test packets go to
    #[arg(short = 'd', default_value_t = jitlat::TEST_PORT, value_name = "DST_PORT")]
    pub dst_port: u16,
    /// DSCP of the test packets
    #[arg(short = 'D', default_value_t = 0, value_name = "DSCP", value_parser = clap::value_parser!(u8).range(0..64))]
    pub dscp: u8,
    /// Re-analyse this log
    #[arg(short = 'f', value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Show latencies corrected by the estimated relative clock error
    #[arg(short = 'C')]
    pub corrected: bool,
    /// Plot the distribution of corrected latencies instead of that of the PDV
    #[arg(short = 'L')]
    pub latency_plot: bool,
    /// The page of version one of Jitlat, and its log
    #[arg(long)]
    pub v1: bool,
    /// Histogram bins (they define the mode)
    #[arg(long, default_value = "70", value_name = "COUNT", value_parser = bins)]
    pub bins: NonZeroU32,
    /// Draw the plots below the page too
    #[arg(long)]
    pub plots: bool,
    /// Write the plots for gnuplot into this directory: data and plots.gp
    #[arg(long, value_name = "DIR")]
    pub gnuplot: Option<PathBuf>,
    /// Directory for the log
    #[arg(long, default_value = ".", value_name = "DIR")]
    pub log_dir: PathBuf,
    /// Log only: no page
    #[arg(long, conflicts_with_all = ["file", "plots", "gnuplot"])]
    pub no_analysis: bool,
    /// Port of the control connection
    #[arg(long, default_value_t = jitlat::CONTROL_PORT, value_name = "PORT")]
    pub control_port: u16,
    /// Server: address to listen on [default: all of this host]
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["host", "file"])]
    pub bind: Option<IpAddr>,
    /// Round trips of the control connection measured before the test
    #[arg(long, default_value_t = 5, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rtt_probes: u32,
    /// Interval between round trips
    #[arg(long, value_parser = quantity::duration, default_value = "1s", value_name = "TIME")]
    pub rtt_interval: Duration,
    /// Server response timeout
    #[arg(long, value_parser = quantity::duration, default_value = "30s", value_name = "TIME")]
    pub timeout: Duration,
    /// No progress line
    #[arg(short, long)]
    pub quiet: bool,
}

impl JitlatArgs {
    /// Nanoseconds between packets, by `-p` or `-r`.
    pub fn period_ns(&self) -> u64 {
        self.rate.map_or(self.period_ns, |rate| (1e9 / rate).round() as u64)
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && (1e-3..=1e9).contains(&rate) => Ok(rate),
        _ => Err("packets per second, from 0.001 to 1e9".into()),
    }
}

fn bins(text: &str) -> Result<NonZeroU32, String> {
    let bins: Option<NonZeroU32> = text.parse().ok();
    bins.filter(|bins| bins.get() <= 100_000).ok_or_else(|| "a number from 1 to 100000".into())
}
