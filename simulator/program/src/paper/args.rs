//! The command line of `quaver sim paper`: types only.

use clap::Args;
use quaver_instrument::args::OutputArgs;
use quaver_instrument::quantity;
use std::path::PathBuf;
use std::time::Duration;

/// `quaver sim paper`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver sim paper --quick                     a small try: short runs, two seeds
  quaver sim paper                             everything, ten seeds
  quaver sim paper --only table6,figure10      what these two need
  quaver sim paper --programs ocean,fmm --seeds 3
  quaver sim paper --sync runs/sync-bench-...  tables 4 to 8 of this machine beside the paper's
  quaver sim paper --traces traces/            NAME.qtrace of your own, by `quaver sim trace`
  quaver sim paper --traces runs/sim-paper-.../traces    those of another run
  quaver sim paper --no-tracing                the small traces that come with Quaver
  quaver report RUN

Each program is run on the simulated chip without jitter, and with it on a unified cache, with
the OS cache, with prefetching and with pinning; with DVFS and without; k = 1, 2 and 4; with a
controller that learns, and with debt at joins alone or by slack; with a power budget that is
spent by debt, Booster's SYNC, criticality stacks or stalls. Every table and figure is
printed beside the paper's, with the distance, and every statement of the paper is judged, where
the runs can decide it. Nothing is fitted to look right: the injection of six
programs is fitted to table 6 (in advance; --calibrate does it anew), that of the others is
predicted from it.

Programs are traced first, in QEMU (`quaver sim trace`), which takes some seconds in all. Where
QEMU or the programs are missing, and with --no-tracing, the eight of the Splash kind are small
traces that come with Quaver, the others are left out, and the page says so. What threads do
together is simulated, in so many rounds that a run is as long as --length. The traces are kept:
--traces RUN/traces gives the same figures again; programs traced anew differ a little.

Ctrl-C keeps what was done, and draws it.")]
pub struct SimPaperArgs {
    /// A small try: runs of 1.5 ms and two seeds
    #[arg(long)]
    pub quick: bool,
    /// Only what these tables and figures need (table4 to table8, figure4 to figure19, budget)
    #[arg(long, value_delimiter = ',', value_parser = exhibit, value_name = "WHAT,...")]
    pub only: Vec<String>,
    /// Only these programs
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    pub programs: Vec<String>,
    /// Seeds of the injection [default: 10; 2 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1000), value_name = "N")]
    pub seeds: Option<u64>,
    /// How long a run without jitter is to be at least, in simulated time [default: 12ms; 1.5ms with --quick]
    #[arg(long, value_parser = quantity::duration, value_name = "TIME")]
    pub length: Option<Duration>,
    /// Directory with traces (NAME.qtrace or NAME.qtrace.txt): programs of which there is one are not traced
    #[arg(long, value_name = "DIR")]
    pub traces: Option<PathBuf>,
    /// Directory with the programs, to trace them [default: where they were built or installed]
    #[arg(long, value_name = "DIR")]
    pub kernels: Option<PathBuf>,
    /// Trace nothing: small traces that come with Quaver, and without programs of which there is none
    #[arg(long)]
    pub no_tracing: bool,
    /// Kernel activity to run for injected jitter, by `quaver sim trace --system` [default: what comes with Quaver]
    #[arg(long, value_name = "FILE")]
    pub kernel: Option<PathBuf>,
    /// Make kernel activity up, from a seed, instead of running traced one
    #[arg(long, conflicts_with = "kernel")]
    pub made_up: bool,
    /// Inject by these fits instead of those that come with Quaver
    #[arg(long, value_name = "FILE")]
    pub calibration: Option<PathBuf>,
    /// Fit the injection anew, by six programs, into calibration.toml of the run
    #[arg(long, conflicts_with = "calibration")]
    pub calibrate: bool,
    /// A run of `quaver sync bench`, whose figures stand beside the paper's in tables 4 to 8
    #[arg(long, value_name = "RUN")]
    pub sync: Option<PathBuf>,
    /// Simulations at the same time [default: one a CPU that we may use]
    #[arg(short, long, value_parser = clap::value_parser!(u16).range(1..=1024), value_name = "N")]
    pub jobs: Option<u16>,
    /// Output
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Reads `table6`.
fn exhibit(text: &str) -> Result<String, String> {
    let found = quaver_sim::paper::exhibit_named(text);
    found.map(|one| one.name.to_owned()).ok_or_else(|| {
        format!("`{text}` is none of the paper's; write table4 to table8, figure4 to figure19, or budget")
    })
}
