//! The command line of `quaver study`.

use super::{LabKind, OutputArgs};
use crate::quantity;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// `quaver study`.
#[derive(Debug, Args)]
pub struct StudyArgs {
    /// What to do
    #[command(subcommand)]
    pub action: StudyAction,
}

/// What `quaver study` does.
#[derive(Debug, Subcommand)]
pub enum StudyAction {
    /// Measure a baseline and each source restored against it, in randomised blocks, and rank what they cost
    Run(StudyRunArgs),
}

/// `quaver study run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo quaver study run                          the built-in plan: eight factors between two namespaces of this host
  sudo quaver study run plan.toml --for 2s
  sudo quaver study run --resume runs/study-...  go on after Ctrl-C, a crash or a reboot
  quaver study run --print-plan > plan.toml      the built-in plan, to begin a plan of one's own

A block runs every arm once, in an order drawn from the seed: the baseline, the baseline again (the control, A/A, which must
come out null), each factor, and each pair that the plan names. An effect is the mean difference to the baseline of the same
block. Few blocks cannot tell anything from chance, however large an effect: the default is as many as the number of factors
needs. What the labels of figures mean: T is the period; lt.5T is the share of packets that came less than half of it after the
one before, in a bunch; gt1.5T the share that came later than one and a half. The ranking goes by lt.5T unless the plan names another.

Namespaces and what is set in them go when the process ends, in whatever way; settings of the host (tune = [...]) are in the
journal of quaver tune. Exit status: 130 interrupted; what was measured is kept, and --resume goes on.")]
pub struct StudyRunArgs {
    /// Baseline and factors, in TOML [default: the built-in plan]
    #[arg(value_name = "PLAN", conflicts_with = "resume")]
    pub plan: Option<PathBuf>,
    /// Where the stream travels
    #[arg(long, value_enum, default_value = "netns", value_name = "WHERE")]
    pub lab: LabKind,
    /// Blocks, at least 5 [default: as the plan says, else as many as the factors need]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(5..=1000), conflicts_with = "resume")]
    pub blocks: Option<u32>,
    /// How long to measure each arm in each block [default: as the plan says, else 1s]
    #[arg(long = "for", value_parser = quantity::duration, value_name = "TIME", conflicts_with = "resume")]
    pub duration: Option<Duration>,
    /// Seed of the order [default: as the plan says, else 1]
    #[arg(long, value_name = "N", conflicts_with = "resume")]
    pub seed: Option<u64>,
    /// When all is measured, measure this many pairs of the costliest factors together, for their interactions
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u32).range(0..=20), conflicts_with = "resume")]
    pub interactions: u32,
    /// Go on with this run: cells that it has are not measured again
    #[arg(long, value_name = "RUN")]
    pub resume: Option<PathBuf>,
    /// Print the built-in plan and measure nothing
    #[arg(long, conflicts_with_all = ["plan", "resume"])]
    pub print_plan: bool,
    /// Output
    #[command(flatten)]
    pub output: OutputArgs,
}
