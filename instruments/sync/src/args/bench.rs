//! The command line of `quaver sync bench`: types only.

use clap::{Args, ValueEnum};
use quaver_instrument::quantity;
use quaver_instrument::threshold;
use quaver_instrument::threshold::FailIf;
use std::path::PathBuf;
use std::time::Duration;

/// How the programs make barriers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum BarrierKind {
    /// A mutex and a condition variable that is broadcast, as the programs of the paper have them
    #[default]
    Cond,
    /// pthread_barrier_t
    Posix,
}

/// `quaver sync bench`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver sync bench                          all programs on all CPUs, two minutes
  quaver sync bench --only ocean,vips -r 20  two of them, more closely
  quaver sync bench --list                   what they are
  quaver sync bench --command 'xz -T4 -kf big.tar' --command 'pigz -kf big.tar'
                                             programs of one's own, in the same tables

Each program runs in pairs, with the recorder and without, in turns. Printed beside the figures of the paper on jitter
units: sync jitter over all jitter (tables 4 and 5; as root, since other jitter is the kernel's to tell), events, mean,
jitter and slowdown (tables 6 and 7), correlations (table 8), and what recording costs each program.

The programs are small ones of our own that synchronise as those of the Splash-2 and Parsec suites do; `make -C kernels`
builds them. They are looked for in QUAVER_LIBDIR/kernels, beside this program, and in ../lib/quaver/kernels.
Ctrl-C ends after the run under way; what was measured is kept and printed.")]
pub struct SyncBenchArgs {
    /// Only these programs
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    pub only: Vec<String>,
    /// A program of your own, in the words that a shell is given (may be repeated); those that come with Quaver then run only
    /// where --only names them. It must do the same each time: nothing is read from its input, its output goes nowhere
    #[arg(long = "command", value_name = "COMMAND")]
    pub commands: Vec<String>,
    /// Name the programs and end
    #[arg(long)]
    pub list: bool,
    /// Pairs of a recorded and an unrecorded run, of each program
    #[arg(short, long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000), value_name = "N")]
    pub runs: u32,
    /// Threads of each program [default: one a CPU that we may use]
    #[arg(short = 'p', long, value_parser = clap::value_parser!(u32).range(1..=256), value_name = "N")]
    pub threads: Option<u32>,
    /// Size of what the programs work on, in what `PROGRAM -h` says [default: each one's own]
    #[arg(long, value_name = "N")]
    pub size: Option<u32>,
    /// Seed of the programs' random numbers
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// How the programs make barriers
    #[arg(long, value_enum, default_value = "cond", value_name = "HOW")]
    pub barrier: BarrierKind,
    /// What an operation may take without being late
    #[arg(long, value_parser = quantity::duration, default_value = "10us", value_name = "TIME")]
    pub threshold: Duration,
    /// Count the whole time of late operations, not what exceeds the threshold
    #[arg(long)]
    pub count_all: bool,
    /// Do not look at the kernel, even as root: no tables 4 and 5
    #[arg(long)]
    pub no_kernel: bool,
    /// Directory with the programs
    #[arg(long, value_name = "DIR")]
    pub kernels: Option<PathBuf>,
    /// Directory in which the run directory is made
    #[arg(short, long, default_value = "runs", env = "QUAVER_RUNS", value_name = "DIR")]
    pub output: PathBuf,
    /// Keep the recordings in the run directory
    #[arg(long)]
    pub keep: bool,
    /// Print the summary as JSON instead of a page
    #[arg(long)]
    pub json: bool,
    /// No progress line
    #[arg(short, long)]
    pub quiet: bool,
    /// Fail (status 1) if this holds of the summary, for example 'programs.0.cost.overhead > 0.03'
    #[arg(long, value_parser = threshold::parse, value_name = "CONDITION")]
    pub fail_if: Vec<FailIf>,
}
