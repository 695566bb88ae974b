//! The command line of `quaver sync`: types only.

pub mod bench;
pub mod compensation;

use bench::SyncBenchArgs;
use clap::{Args, Subcommand};
use compensation::{CompensateArgs, WhatIfArgs};
use quaver_instrument::args::TierName;
use quaver_instrument::quantity;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// `quaver sync`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
Examples:
  quaver sync -- ./solver input.dat        run it, then tell what waking threads up cost
  quaver sync -o /dev/shm/runs -- xz -T4 -k big.tar
  quaver sync --count-all --threshold 1us --call-sites -- ./solver
  quaver sync --pid 4711 --for 10s         the futex calls of a program that runs (as root)
  quaver sync --pid 4711 --for 10s --uprobes   its calls of conditions and barriers, too
  quaver sync what-if RUN                  what raising the CPUs' frequency would have given back
  sudo quaver sync --compensate -- ./solver input.dat     the same while it runs, for real
  quaver analyze RUN, quaver report RUN, quaver export RUN --perfetto

The program runs as it is, unmodified: a recorder is put before its C library (LD_PRELOAD) and
notes each contended lock, wait, signal, broadcast, barrier, creation and join. Its input and
output are its own: the page goes to standard error, the JSON of --json to standard output after
the program's own. The status is the program's (128 + signal).

Six classes of sync jitter, of the paper on jitter units:
  sw  from a signal (or post) to the return of the wait that it ended
  s   the call of signal itself
  bw  from a broadcast (or the last arrival at a barrier) to that return
  b   the call of broadcast itself
  lu  from an unlock to the return of the lock that waited for it
  u   the call of unlock itself
An operation that takes longer than the threshold N is late, by T - N; --count-all counts T.

As root it also tells why each long wait was long, from the kernel: who was late, who ran instead,
on which CPU.

Static and setuid programs and those for musl cannot be recorded and are told; of Go, only its
kernel side is seen.")]
pub struct SyncArgs {
    /// Something else than to record a program
    #[command(subcommand)]
    pub command: Option<SyncCommand>,
    /// The program to run, and its arguments
    #[arg(
        trailing_var_arg = true,
        value_name = "PROGRAM",
        required_unless_present = "pid",
        conflicts_with = "pid"
    )]
    pub program: Vec<OsString>,
    /// Look at the futex calls of a process that already runs, and of those that it makes
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Also stop it at its calls of conditions and barriers (uprobes): they are told as they are and not as futex calls, but each
    /// stop costs the process about a microsecond, which is measured and told
    #[arg(long, requires = "pid")]
    pub uprobes: bool,
    /// How long to look at it [default: until it ends or Ctrl-C]
    #[arg(long = "for", value_parser = quantity::duration, value_name = "TIME", requires = "pid")]
    pub duration: Option<Duration>,
    /// What an operation may take without being late
    #[arg(long, value_parser = quantity::duration, default_value = "10us", value_name = "TIME")]
    pub threshold: Duration,
    /// System calls that sleep for longer are other jitter; not those that only wait (sleep, poll)
    #[arg(long, value_parser = quantity::duration, default_value = "10us", value_name = "TIME")]
    pub system_call_threshold: Duration,
    /// Share of its speed that a CPU is taken to lose while it is throttled, per cent
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=100), value_name = "PERCENT")]
    pub throttled_loses: u8,
    /// Count the whole time of late operations, not what exceeds the threshold
    #[arg(long)]
    pub count_all: bool,
    /// Show the calls that were late, by the function that made them
    #[arg(long)]
    pub call_sites: bool,
    /// Do not look at the kernel, even as root
    #[arg(long, conflicts_with = "tier")]
    pub no_kernel: bool,
    /// Look at the kernel by this, and nothing better
    #[arg(long, value_enum, value_name = "TIER")]
    pub tier: Option<TierName>,
    /// Directory in which the run directory is made; one in memory (/dev/shm) disturbs the program least
    #[arg(short, long, default_value = "runs", env = "QUAVER_RUNS", value_name = "DIR")]
    pub output: PathBuf,
    /// Print the summary as JSON instead of a page
    #[arg(long)]
    pub json: bool,
    /// No words of ours but the page
    #[arg(short, long)]
    pub quiet: bool,
    /// Giving lost time back by speed
    #[command(flatten)]
    pub compensation: CompensateArgs,
}

/// What `quaver sync` does besides.
#[derive(Debug, Subcommand)]
pub enum SyncCommand {
    /// Run the threaded programs that come with Quaver with and without the recorder, and print the paper's tables 4 to 8
    Bench(Box<SyncBenchArgs>),
    /// What a controller of the CPUs' frequency would have made of a recorded program: the compensation curve
    WhatIf(Box<WhatIfArgs>),
}
