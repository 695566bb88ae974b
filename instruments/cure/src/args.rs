//! The command line of `quaver cure`.

use crate::objective::Objective;
use clap::{Args, ValueEnum};
use quaver_chase::args::ChaseArgs;
use quaver_instrument::args::CpuList;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What follows the options in the help.
pub(crate) const HELP: &str = "\
Examples:
  quaver cure --dry-run                  what would be tried on a stream made here; sets nothing
  sudo quaver cure                       asks before the first setting is changed
  sudo quaver cure --listen 239.1.1.1:5004 --interface eth0 --for 5min
  sudo quaver cure --pid 4711 --interface eth0 --allow host --yes
  sudo quaver cure noise 2-3 --allow host --yes
  sudo quaver cure -- ./solver input.dat    what makes a run of it shorter
  sudo quaver cure --keep-for 8h         puts back what it kept after eight hours
  sudo quaver cure --persist             the next boot sets it again
  sudo quaver tune revert                takes back what was kept

How it goes: measure; choose remedies for what was found; say the plan; try each remedy in blocks of random
order; prove all that helped together by fresh blocks, against none; keep them, or take everything back.

What is safe: a setting's old value is on disk before it is changed. Ctrl-C takes everything back. After kill -9
or a crash, `quaver tune revert` does. What somebody else changes meanwhile is left alone.

The run's profile.toml has the settings that were kept. `quaver tune apply FILE` applies them again, on any host that has them.

Exit status: 0 the cure went to its end, whether or not anything was kept; 1 --fail-if holds; 2 usage, or nobody
could confirm; 3 not permitted or not supported here; 6 a setting could not be put back, what was kept
could not be made to persist, or another verb is changing settings; 130 interrupted, and everything was put back.";

/// Options of streams, which loops do not have.
const OF_STREAMS: [&str; 18] = [
    "from",
    "listen",
    "pid",
    "interface",
    "port",
    "period",
    "rate",
    "size",
    "profile",
    "pace",
    "dscp",
    "catch_up",
    "receive",
    "sink_cpu",
    "source_cpu",
    "late",
    "lab",
    "deadline",
];

/// `quaver cure`.
#[derive(Debug, Args)]
pub struct CureArgs {
    /// What keeps busy loops on these CPUs from running, in place of a stream
    #[arg(value_names = ["noise", "CPUS"], num_args = 2, conflicts_with_all = OF_STREAMS)]
    pub loops: Vec<String>,
    /// A program and its arguments, run again and again in place of a stream. Its input and output are empty
    #[arg(last = true, value_name = "PROGRAM", conflicts_with_all = OF_STREAMS, conflicts_with = "loops")]
    pub program: Vec<OsString>,
    /// Whose settings may be tried
    #[arg(long, value_enum, default_value = "receiver", value_name = "WHOSE")]
    pub allow: Allow,
    /// What is to become smaller [default: late-share; of loops noise-share; of a program run-time]
    #[arg(long, value_enum, value_name = "FIGURE")]
    pub objective: Option<Objective>,
    /// Lateness from which on a packet misses its deadline, for --objective deadline-misses
    #[arg(long, value_parser = quantity::duration, conflicts_with = "late", value_name = "TIME")]
    pub deadline: Option<Duration>,
    /// Try these sources' remedies only, also those that are tried only when named (`quaver tune audit` lists them). Of
    /// single threads are receiver-class, which gives those of --pid SCHED_FIFO, and others-elsewhere, which moves those that
    /// ran instead
    #[arg(long, value_delimiter = ',', value_name = "ID,...")]
    pub only: Vec<String>,
    /// Do not try these
    #[arg(long, value_delimiter = ',', value_name = "ID,...")]
    pub except: Vec<String>,
    /// Measure and say the plan; set nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Go on without asking
    #[arg(long, short)]
    pub yes: bool,
    /// Put back what is kept after this time. The process stays until then, and Ctrl-C puts it back at once
    #[arg(long, value_parser = quantity::duration, value_name = "TIME")]
    pub keep_for: Option<Duration>,
    /// Set what is kept at each boot: writes a profile to /etc/quaver and a unit of systemd, and a profile of tuned where
    /// tuned is
    #[arg(long, conflicts_with_all = ["keep_for", "dry_run"])]
    pub persist: bool,
    /// Directory that holds that etc
    #[arg(long, hide = true, default_value = "/", value_name = "DIR", requires = "persist")]
    pub persist_below: PathBuf,
    /// Seed of the random order [default: from the clock; printed]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// Directory of the journal
    #[arg(long, hide = true, env = "QUAVER_TUNE_JOURNAL", value_name = "DIR")]
    pub journal: Option<PathBuf>,
    /// The stream and its receiver
    #[command(flatten)]
    pub chase: ChaseArgs,
}

/// Whose settings may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Allow {
    /// Those of the receiver's CPU and of its interface
    Receiver,
    /// Those of the whole host, which others feel too
    Host,
}

impl CureArgs {
    /// CPUs of busy loops; none of a stream.
    ///
    /// # Errors
    /// The words are not `noise CPUS` (status 2).
    pub fn noise(&self) -> anyhow::Result<Option<CpuList>> {
        let usage = |message: String| failure(ExitCode::Usage, message);
        match self.loops.as_slice() {
            [] => Ok(None),
            [word, cpus] if word == "noise" => match quantity::cpu_list(cpus) {
                Ok(cpus) => Ok(Some(cpus)),
                Err(error) => Err(usage(format!("noise {cpus}: {error}"))),
            },
            words => Err(usage(format!("{}: unknown; the only words are noise CPUS", words.join(" ")))),
        }
    }

    /// What is to become smaller.
    pub fn objective(&self) -> Objective {
        let usual = match (self.loops.is_empty(), self.program.is_empty()) {
            (false, _) => Objective::NoiseShare,
            (true, false) => Objective::RunTime,
            (true, true) => Objective::LateShare,
        };
        self.objective.unwrap_or(usual)
    }
}
