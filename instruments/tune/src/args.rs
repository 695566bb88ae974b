//! The command line of `quaver tune`.

use clap::{Args, Subcommand};
use quaver_instrument::args::CpuList;
use quaver_instrument::quantity;
use std::path::PathBuf;
use std::time::Duration;

/// `quaver tune`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver tune audit --cpu 3 --interface eth0   what would make packets late on CPU 3
  quaver tune audit --run runs/chase-...       the same, with what each source cost in that run
  quaver tune plan --cpu 3 --interface eth0    what would be set, in which order, at what risk
  sudo quaver tune apply --cpu 3 --interface eth0
  sudo quaver tune apply profile.toml          what `quaver cure` proved and kept in a run
  sudo quaver tune revert                      everything as it was, byte for byte

How it stays safe: before a setting is written, its old value is on disk (/var/lib/quaver).
After a crash, kill -9 or a power cut `quaver tune revert` puts everything back; the unit
packaging/quaver-tune-revert.service clears up at boot. What somebody else changed after us is
said and left alone.

A source is one row of the catalogue, named as in the results of `chase` and `noise`;
quaver tune audit lists them all.")]
pub struct TuneArgs {
    /// What to do
    #[command(subcommand)]
    pub action: TuneAction,
    /// Directory of the journal
    #[arg(long, global = true, hide = true, env = "QUAVER_TUNE_JOURNAL", value_name = "DIR")]
    pub journal: Option<PathBuf>,
    /// Another root for /proc and /sys: a copy of a machine's files
    #[arg(long, global = true, hide = true, value_name = "DIR", requires = "journal")]
    pub root: Option<PathBuf>,
}

/// What `quaver tune` does.
#[derive(Debug, Subcommand)]
pub enum TuneAction {
    /// Hold every known source of lateness against this machine; never writes
    Audit(AuditArgs),
    /// Show what would be set, in which order and at what risk, and what only a boot changes; never writes
    Plan(PlanArgs),
    /// Set it, read it back, and tell what did not take
    Apply(ApplyArgs),
    /// Put every changed setting back as it was
    Revert(RevertArgs),
    /// Tell what is changed now, by which verb, and whether it still says what was written; never writes
    Status(StatusArgs),
}

/// For whom.
#[derive(Clone, Debug, Args)]
pub struct TargetArgs {
    /// CPUs of the receiver [default: the last one online]
    #[arg(long, visible_alias = "cpus", value_parser = quantity::cpu_list, value_name = "LIST")]
    pub cpu: Option<CpuList>,
    /// Network interface of the receiver; without it, what belongs to interfaces is left out
    #[arg(long, short, value_name = "NAME")]
    pub interface: Option<String>,
}

/// Which sources.
#[derive(Clone, Debug, Default, Args)]
pub struct SelectionArgs {
    /// Only these sources, also those that are set only when named
    #[arg(long, value_delimiter = ',', value_name = "ID,...")]
    pub only: Vec<String>,
    /// Not these sources
    #[arg(long, value_delimiter = ',', value_name = "ID,...")]
    pub except: Vec<String>,
}

/// `quaver tune audit`.
#[derive(Debug, Args)]
#[command(after_help = "\
good: as it should be. hurts: set so, counted just now, or found in the run. unknown: cannot be
told from here; a run of `chase` or `noise` tells. not applicable: not on this machine.")]
pub struct AuditArgs {
    /// For whom
    #[command(flatten)]
    pub target: TargetArgs,
    /// Show what each source cost in this run of `chase` or `noise`
    #[arg(long, value_name = "RUN")]
    pub run: Option<PathBuf>,
    /// How long to watch the counters of interrupts and the like
    #[arg(long, value_parser = quantity::duration, default_value = "1s", value_name = "TIME")]
    pub watch: Duration,
    /// Watch nothing; counters are since boot
    #[arg(long, conflicts_with = "watch")]
    pub no_watch: bool,
    /// Which sources
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// Print JSON instead of a page
    #[arg(long)]
    pub json: bool,
}

/// `quaver tune plan`.
#[derive(Debug, Args)]
#[command(after_help = "\
Sources whose remedy costs much elsewhere (half of the CPUs, no swap, no error log) are left out
until they are named:
  quaver tune plan --only smt,cstate")]
pub struct PlanArgs {
    /// For whom
    #[command(flatten)]
    pub target: TargetArgs,
    /// Which sources
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// Print JSON instead of a page
    #[arg(long)]
    pub json: bool,
}

/// `quaver tune apply`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit status: 0 all is as asked for; 3 not permitted, or the kernel did not take some of it (the
page says which and why); 5 the journal is damaged, or the profile is none; 6 somebody else changed a
setting after us, or another quaver is changing settings; 130 interrupted, and put back. What took
stays until `quaver tune revert`, also where something else did not take.")]
pub struct ApplyArgs {
    /// A profile of settings, such as the profile.toml of a run of `quaver cure`: set this, and no row of the catalogue
    #[arg(value_name = "PROFILE", conflicts_with_all = ["cpu", "interface", "only", "except", "dry_run"])]
    pub profile: Option<PathBuf>,
    /// For whom
    #[command(flatten)]
    pub target: TargetArgs,
    /// Which sources
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// Change nothing; show the plan
    #[arg(long)]
    pub dry_run: bool,
    /// Put it back after this time. The process stays until then, and Ctrl-C puts it back at once
    #[arg(long = "for", value_parser = quantity::duration, conflicts_with = "dry_run", value_name = "TIME")]
    pub lease: Option<Duration>,
    /// Also set what somebody else changed after us
    #[arg(long)]
    pub force: bool,
    /// Print JSON instead of a page
    #[arg(long)]
    pub json: bool,
}

/// `quaver tune revert`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit status: 0 nothing of ours is left; 3 not permitted; 5 the journal is damaged; 6 something is
left: somebody else changed it, or it cannot be reached now (a CPU that is offline, another network
namespace). It stays in the journal.")]
pub struct RevertArgs {
    /// Put back the sources of this profile alone
    #[arg(value_name = "PROFILE", conflicts_with_all = ["only", "except", "at_boot"])]
    pub profile: Option<PathBuf>,
    /// Which sources
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// Change nothing; show what is changed now
    #[arg(long)]
    pub dry_run: bool,
    /// Also put back what somebody else changed after us
    #[arg(long, conflicts_with = "forget")]
    pub force: bool,
    /// Leave what somebody else changed as it is, and forget it
    #[arg(long)]
    pub forget: bool,
    /// For the boot unit: put back what killed processes left, let go of what went with the last boot, leave what was applied
    #[arg(long, conflicts_with_all = ["force", "forget", "only", "except", "dry_run"])]
    pub at_boot: bool,
    /// Print JSON instead of a page
    #[arg(long)]
    pub json: bool,
}

/// `quaver tune status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print JSON instead of a page
    #[arg(long)]
    pub json: bool,
}
