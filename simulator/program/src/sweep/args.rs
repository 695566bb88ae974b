//! The command line of `quaver sim sweep`: types only.

use clap::{Args, Subcommand};
use quaver_instrument::quantity;
use quaver_instrument::shard::ShardWanted;
use std::path::PathBuf;
use std::time::Duration;

/// `quaver sim sweep`.
#[derive(Debug, Args)]
#[command(after_help = "\
A plan (docs/sweeps.md) names traces, a machine, what is injected and how it is cured, and axes:
keys of the machine or the cure with the values that they take. Every combination, once for each
seed, is a point.

  [sweep]
  traces = [\"ocean.qtrace\"]
  seeds = 10                         only where something is injected
  cure = \"cure.toml\"                 as `quaver sim run --cure` takes it
  [[axis]]
  key = \"machine.l2.kib\"
  values = [128, 256, 512]
  [[axis]]
  key = \"cure.dvfs.reactivity\"
  from = 1
  to = 4
  factor = 2

  quaver sim sweep expand plan.toml       what would be run
  quaver sim sweep run plan.toml          on all CPUs of this machine; again, to go on after a kill
  quaver sim sweep submit plan.toml       on a cluster of Slurm")]
pub struct SimSweepArgs {
    /// What to do
    #[command(subcommand)]
    pub command: SimSweepCommand,
}

/// What there is to do with a sweep.
#[derive(Debug, Subcommand)]
pub enum SimSweepCommand {
    /// Check a plan and print its points; nothing is simulated
    Expand(SweepExpandArgs),
    /// Simulate the points that are not done yet, on all CPUs of this machine
    Run(SweepRunArgs),
    /// Tell how much of a sweep is done, and how long the rest takes
    Status(SweepStatusArgs),
    /// Gather points that several processes or machines did, into one table
    Merge(SweepMergeArgs),
    /// Write an array job for Slurm and submit it
    Submit(SweepSubmitArgs),
}

/// `quaver sim sweep expand`.
#[derive(Debug, Args)]
pub struct SweepExpandArgs {
    /// The plan, or the directory of a sweep
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
    /// Print JSON (quaver.sim.sweep.plan/1) instead of a page
    #[arg(long)]
    pub json: bool,
}

/// Where a sweep is kept.
#[derive(Clone, Debug, Args)]
pub struct SweepPlaceArgs {
    /// The plan, or the directory of a sweep that was begun
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
    /// Directory in which that of the sweep is made: sweep-NAME
    #[arg(short, long, default_value = "runs", env = "QUAVER_RUNS", value_name = "DIR")]
    pub output: PathBuf,
}

/// `quaver sim sweep run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver sim sweep run plan.toml
  quaver sim sweep run plan.toml --jobs 4 --json
  quaver sim sweep run plan.toml --shard 2/8      the second eighth; then `quaver sim sweep merge`

Each point that is done is kept at once (sweep-NAME/points), so that a sweep goes on where it was
after Ctrl-C, kill -9 or loss of power: give the same command again. Points are known by what they
are (trace, machine, cure, seed), so those of a plan that was extended are not done twice.

One simulation is one thread. --shard auto takes the part from SLURM_ARRAY_TASK_ID, _COUNT, _MIN
and _STEP of Slurm, or from JOB_COMPLETION_INDEX of Kubernetes, which does not tell how many there
are: say auto/N, or set JOB_COMPLETIONS.

The table (points.parquet) and summary.json are the same bytes however the sweep was run.

Exit status: 0 all asked points are done, 5 a trace or the plan is wrong or a point cannot be
simulated (the others are done), 6 the sweep is being run by another process, 130 interrupted.")]
pub struct SweepRunArgs {
    /// Plan and place
    #[command(flatten)]
    pub place: SweepPlaceArgs,
    /// Simulations at the same time [default: the CPUs that this process may use]
    #[arg(short, long, value_parser = clap::value_parser!(u32).range(1..=4096), value_name = "NUMBER")]
    pub jobs: Option<u32>,
    /// Do one part only: i/n (from 1/n to n/n), auto, or auto/n
    #[arg(long, value_name = "PART")]
    pub shard: Option<ShardWanted>,
    /// Print the summary as JSON instead of a page
    #[arg(long)]
    pub json: bool,
    /// No progress line and no closing words of a part
    #[arg(short, long)]
    pub quiet: bool,
}

/// `quaver sim sweep status`.
#[derive(Debug, Args)]
pub struct SweepStatusArgs {
    /// Plan and place
    #[command(flatten)]
    pub place: SweepPlaceArgs,
    /// Print JSON (quaver.sim.sweep.status/1) instead of a page
    #[arg(long)]
    pub json: bool,
}

/// `quaver sim sweep merge`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver sim sweep merge runs/sweep-l2                  where all tasks wrote to one file system
  quaver sim sweep merge a/sweep-l2 b/sweep-l2 -o all   directories that were brought together
  quaver sim sweep merge runs/sweep-l2 --partial        what there is; the rest is counted

Refused, each with the points' names: points that are missing (but with --partial), that are none
of the sweep's, that are in two of the directories, and directories of another plan or version.")]
pub struct SweepMergeArgs {
    /// Directories of one sweep
    #[arg(required = true, value_name = "DIR")]
    pub directories: Vec<PathBuf>,
    /// Directory in which sweep-NAME is made [default: the one directory that was given]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Points may be missing
    #[arg(long)]
    pub partial: bool,
    /// Print the summary as JSON instead of a page
    #[arg(long)]
    pub json: bool,
}

/// `quaver sim sweep submit`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver sim sweep submit plan.toml --dry-run
  quaver sim sweep submit plan.toml --chunk 10m -- --partition=short --account=physics

One point is simulated here first (it counts), to tell how long they take; then each task of the
array gets points for about --chunk. A task that is killed or requeued goes on where it was. The
directory of the sweep, the traces and this program must be on a file system that the nodes share.")]
pub struct SweepSubmitArgs {
    /// Plan and place
    #[command(flatten)]
    pub place: SweepPlaceArgs,
    /// Work for each task, by the point that was measured: a task costs Slurm about a second
    #[arg(long, value_parser = quantity::duration, default_value = "1m", value_name = "TIME")]
    pub chunk: Duration,
    /// Tasks at most; clusters refuse more than their MaxArraySize
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000), default_value = "1000", value_name = "NUMBER")]
    pub max_tasks: u32,
    /// So many tasks exactly; nothing is measured
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000), value_name = "NUMBER", conflicts_with_all = ["chunk", "max_tasks"])]
    pub tasks: Option<u32>,
    /// CPUs of each task, and so simulations at the same time
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4096), default_value = "1", value_name = "NUMBER")]
    pub cpus: u32,
    /// Print the script and submit nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Options for sbatch, put into the script
    #[arg(last = true, value_name = "OPTION")]
    pub sbatch: Vec<String>,
}
