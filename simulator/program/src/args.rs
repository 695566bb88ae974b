//! The command line of `quaver sim`: types only.

use crate::import::args::SimImportArgs;
use crate::paper::args::SimPaperArgs;
use crate::sweep::args::SimSweepArgs;
use crate::trace::args::SimTraceArgs;
use clap::{Args, Subcommand};
use quaver_instrument::args::OutputArgs;
use std::path::PathBuf;

/// `quaver sim`.
#[derive(Debug, Args)]
pub struct SimArgs {
    /// What to do
    #[command(subcommand)]
    pub command: SimCommand,
}

/// What there is to do with the simulated chip.
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Run a trace on the simulated chip and tell where the time went
    Run(Box<SimRunArgs>),
    /// Trace a program in QEMU, or tell what is in a trace
    Trace(SimTraceArgs),
    /// Make the tables and figures of the jitter-unit paper again
    Paper(Box<SimPaperArgs>),
    /// Make a trace of one that another tool wrote
    Import(SimImportArgs),
    /// Simulate grids of machines, cures and seeds, on all CPUs or on a cluster
    Sweep(Box<SimSweepArgs>),
    /// Print the simulated machine with every number explained, or check another one
    Config(SimConfigArgs),
    /// What a guest of `quaver sim trace --system` runs
    #[command(hide = true)]
    Guest,
}

/// `quaver sim run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver sim run ocean.qtrace
  quaver sim run simulator/sim/traces/ocean.qtrace.txt    one of those that come with Quaver
  quaver sim run ocean.qtrace --set l2.kib=512 --set core.pipeline=out-of-order
  quaver sim run ocean.qtrace --set machine=paper         fixed times in place of queues
  quaver sim run ocean.qtrace --config machine.toml --json
  quaver sim run ocean.qtrace --fail-if 'chip.cpi > 2'
  quaver sim config --cure > cure.toml
  quaver sim run ocean.qtrace --cure cure.toml --seeds 10 --fail-if 'cure.slow_down.max > 0.03'
  quaver report RUN, quaver export RUN --perfetto

The chip has cores with two levels of caches each, kept coherent by a directory (MESI) over a mesh; all
of it can be set (`quaver sim config`). Threads wait for each other as they did when the trace was
recorded: a wait ends with the signal that ended it then, and a lock goes to whoever asks first in
simulated time. The same trace on the same machine gives the same numbers, byte by byte.

--cure injects jitter, lets a jitter unit in each core find it, and gives it back: by frequency
(DVFS), and by caches that keep the kernel's lines from the program's. The program is simulated as
the file says, with the same jitter and no cure, and without either; what is compared begins after
the warm-up, which is printed. With --seeds N that is done for N seeds, on all cores of this host,
and the least, mean and largest slow-down are printed; the rest of the page is of the first.

A file with recorded = \"RUN\" injects what that run of `quaver sync` recorded: each thread is late as
often and as long as there, and who was late together after a broadcast is late together here.

The trace is read as it is simulated. Ctrl-C keeps what was simulated until then.

Exit status: 0 done, 5 the trace is none, is damaged, or cannot be replayed to its end (what was
simulated is kept, and the message says where it ended and who waits for what), 130 interrupted.")]
pub struct SimRunArgs {
    /// The trace, of `quaver sim trace`; also as text
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// Simulate this machine (`quaver sim config` prints the default)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Set a number of the machine, for example l2.kib=512 (repeatable)
    #[arg(long, value_parser = setting, value_name = "KEY=VALUE")]
    pub set: Vec<(String, String)>,
    /// Inject jitter and cure it as this file says (`quaver sim config --cure` prints one)
    #[arg(long, value_name = "FILE")]
    pub cure: Option<PathBuf>,
    /// Do so with this many seeds, from the file's on
    #[arg(long, value_name = "N", default_value_t = 1, requires = "cure",
          value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: u64,
    /// Output
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `quaver sim config`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver sim config > machine.toml         the default, to be edited
  quaver sim config --check machine.toml   whether it can be simulated, and where it differs
  quaver sim config --cure > cure.toml     jitter and its cure, for `quaver sim run --cure`

A file needs to hold only what differs from the default.")]
pub struct SimConfigArgs {
    /// Check this file instead of printing the default
    #[arg(long, value_name = "FILE")]
    pub check: Option<PathBuf>,
    /// Print jitter and its cure with every number explained; with --check, check such a file
    #[arg(long)]
    pub cure: bool,
}

/// Reads `KEY=VALUE`.
fn setting(text: &str) -> Result<(String, String), String> {
    let (key, value) =
        text.split_once('=').ok_or_else(|| format!("`{text}` has no `=`: write for example l2.kib=512"))?;
    let (key, value) = (key.trim(), value.trim());
    if key.is_empty() || value.is_empty() || key.split('.').any(str::is_empty) {
        return Err(format!("`{text}` names nothing or gives nothing: write for example l2.kib=512"));
    }
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_has_a_name_and_a_value() {
        let pair = |key: &str, value: &str| Ok((key.to_owned(), value.to_owned()));
        assert_eq!(setting("l2.kib=512"), pair("l2.kib", "512"));
        assert_eq!(setting("memory.latency = 100 ns"), pair("memory.latency", "100 ns"));
        for wrong in ["l2.kib", "=5", "l2.kib=", "l2..kib=5", ".=1"] {
            assert!(setting(wrong).is_err(), "{wrong}");
        }
    }
}
