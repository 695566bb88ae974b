//! The command lines of the verbs that work on stored runs.

use crate::args::DirectionName;
use crate::quantity;
use crate::shard::ShardWanted;
use crate::threshold::{self, FailIf};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use quaver_abi::stamp::Layer;
use std::path::PathBuf;
use std::time::Duration;

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
  cyclictest -q -m -p 90 -h 200 -l 100000 --json=before.json && quaver analyze before.json
  quaver analyze runs/ --shard 1/4
  sbatch --array=1-16 --wrap 'quaver analyze /shared/runs --shard auto'

Of many runs (several, or a directory with runs below), each is analysed and stored as by itself. --shard takes
every n-th of them in the order of their paths. auto takes the part from SLURM_ARRAY_TASK_ID, _COUNT, _MIN and _STEP,
or from JOB_COMPLETION_INDEX and JOB_COMPLETIONS of Kubernetes. A run that cannot be analysed is named, and the
others are done.

Of a capture, of quaver, tcpdump, Wireshark or anybody: which flows there are, their rate and
delta T; what was lost, came twice or out of order by the senders' own numbers (RTP, STAMP, quaver
and Jitlat); delay and its variation where packets say when they were sent; RFC 3550, ST 2022-6
and ST 2110-21 for RTP. Captures of `quaver capture` carry a stamp for each layer with its error
bound: --layer takes times from one of them, and the page tells the time between layers.

Of results of other tools: each quantity by its own name, and what the file leaves unknown. They are
cyclictest (histogram or --json), rtla timerlat and osnoise (hist or top), irtt (JSON), iperf3 (JSON of UDP),
flent (.flent.gz), and full logs of sockperf.")]
pub struct AnalyzeArgs {
    /// Run directory, directory with runs below, capture (pcapng or pcap), log of Jitlat, or results of another tool
    #[arg(value_name = "RUN|FILE")]
    pub run: PathBuf,
    /// More runs, and directories with runs below
    #[arg(value_name = "RUN")]
    pub more: Vec<PathBuf>,
    /// Analyse one part of many runs only: i/n (from 1/n to n/n), auto, or auto/n
    #[arg(long, value_name = "PART")]
    pub shard: Option<ShardWanted>,
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
  quaver export RUN --csv events
  quaver export RUN --openmetrics -o /var/lib/node_exporter/quaver.prom

A timeline of a run with more than 400 000 packets and events together shows the time around the worst packet only,
since a viewer holds all of it in memory.

--late-csv writes one line for each piece of each late packet:
  seq,lateness_ns,start_ns,end_ns,cpu,source,name,part,place,certainty
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
    /// A table of any run (samples, events, numbers, sync/sync-1-2-0, ...) as comma-separated values
    #[arg(long, group = "format", value_name = "TABLE")]
    pub csv: Option<String>,
    /// A table of any run, an object a line
    #[arg(long, group = "format", value_name = "TABLE")]
    pub json_lines: Option<String>,
    /// The numbers of any run's summary as OpenMetrics
    #[arg(long, group = "format")]
    pub openmetrics: bool,
    /// The times of any run that has some as an HdrHistogram log, in nanoseconds
    #[arg(long, group = "format")]
    pub hdr: bool,
    /// Of a path: a log of Jitlat for each direction, which `quaver jitlat -f` reads too
    #[arg(long, group = "format")]
    pub jitlat_log: bool,
    /// Of a path: a line a packet, as comma-separated values
    #[arg(long, group = "format")]
    pub packets_csv: bool,
    /// The drawings of any run's report as a script for gnuplot, with their data
    #[arg(long, group = "format")]
    pub gnuplot: bool,
    /// Of a path: this direction only, up or down
    #[arg(long, value_enum, value_name = "WAY", default_value = "both", hide_default_value = true)]
    #[arg(hide_possible_values = true)]
    pub direction: DirectionName,
    /// A packet is late beyond this [default: as when it was measured]
    #[arg(long, value_parser = quantity::duration, value_name = "TIME")]
    pub late: Option<Duration>,
    /// Where to write, - for standard output [default: timeline.perfetto-trace, late.csv, jitlat.log.up and .down,
    /// packets.csv, plots.gp, TABLE.csv, TABLE.jsonl, metrics.txt, histograms.hlog in the run directory]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
