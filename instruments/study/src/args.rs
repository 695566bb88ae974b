//! The command line of `quaver study`.

use clap::{Args, Subcommand};
use quaver_chase::args::LabKind;
use quaver_instrument::args::OutputArgs;
use quaver_instrument::quantity;
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
    /// Measure the matrix of the paper "Chasing Linux Jitter Sources for Uncompressed Video", as far as this host can vary it,
    /// and show each figure beside what the paper saw
    Paper(StudyPaperArgs),
}

/// `quaver study run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo quaver study run                          the built-in plan: eight factors between two namespaces of this host
  sudo quaver study run plan.toml --for 2s
  sudo quaver study run --resume runs/study-...  go on after Ctrl-C, a crash or a reboot
  sudo quaver study run --interactions 2         and then the two leading pairs of factors together
  quaver study run --print-plan > plan.toml      the built-in plan, to begin a plan of one's own

A block runs every arm once, in an order drawn from the seed: the baseline, the baseline again (the control, A/A, which must
come out null), each factor, and each pair that the plan names. An effect is the mean difference to the baseline of the same
block. Few blocks cannot tell anything from chance, however large an effect: the default is as many as the number of factors
needs, and fewer are refused; a plan that has fewer gets its cells measured, and no verdict. What the labels of figures mean: T is the period; lt.5T is the share of packets that came less than half of it after the
one before, in a bunch; gt1.5T the share that came later than one and a half. The ranking goes by lt.5T unless the plan names another.

Namespaces and what is set in them go when the process ends, in whatever way; settings of the host (tune = [...]) are in the
journal of quaver tune.

Arms may want another command line of the kernel (boot = [\"idle=poll\"]). A block then holds one group of arms for each boot, and
the order of boots is drawn as well. Where the next arm wants another boot the study tells its command line (or writes it for
GRUB, with --install) and ends with status 3; boot, and go on with --resume. A cell under the wrong command line is refused.

Exit status: 3 the next cells want another boot; 130 interrupted. What was measured is kept, and --resume goes on.")]
pub struct StudyRunArgs {
    /// Baseline and factors, in TOML [default: the built-in plan]
    #[arg(value_name = "PLAN", conflicts_with = "resume")]
    pub plan: Option<PathBuf>,
    /// Where the stream travels
    #[arg(long, value_enum, default_value = "netns", value_name = "WHERE")]
    pub lab: LabKind,
    /// Blocks, at least as many as the factors need [default: as the plan says, else that many]
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
    /// Where reboots are needed: put the options of the next boot where GRUB finds them, through the journal of quaver tune
    #[arg(long)]
    pub install: bool,
    /// Directory of the journal
    #[arg(long, hide = true, env = "QUAVER_TUNE_JOURNAL", value_name = "DIR")]
    pub journal: Option<PathBuf>,
    /// Another root for /proc/cmdline and /etc: a copy of a machine's files
    #[arg(long, hide = true, value_name = "DIR", requires = "journal")]
    pub root: Option<PathBuf>,
    /// Output
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `quaver study paper`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo quaver study paper                        a million samples of each arm in each block: some ten minutes
  sudo quaver study paper --samples 100000
  quaver study paper --lab qemu                  20,000 samples, four seconds of the guest's time a cell, which take the
                                                 host several times as long; --samples 2000 for a first look

Each experiment of the paper is an arm in randomised blocks, as of `study run`. What this host cannot vary is not measured, and
the report says why; what stands in for something else (idle=poll, a NIC's throttle) is told as emulated. The generator is
judged first: by its standard deviation against the paper's 0.6 us. Go on with `quaver study run --resume RUN`.")]
pub struct StudyPaperArgs {
    /// Where the stream travels
    #[arg(long, value_enum, default_value = "netns", value_name = "WHERE")]
    pub lab: LabKind,
    /// Samples of each arm in each block [default: 1000000, as in the paper; 20000 in the QEMU lab]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    pub samples: Option<u64>,
    /// Blocks, at least 5 [default: as many as the arms need]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(5..=1000))]
    pub blocks: Option<u32>,
    /// Seed of the order [default: 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Output
    #[command(flatten)]
    pub output: OutputArgs,
}
