//! The command line of `quaver sim import`: types only.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Whose trace it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ImportFormat {
    /// DynamoRIO's drmemtrace, post-processed: a file for each thread, or one
    Drmemtrace,
    /// ChampSim: a file for each core
    Champsim,
    /// Events of SynchroTrace as text: sigil.events.out-1 and so on, and sigil.pthread.out
    Synchrotrace,
    /// What valgrind --tool=lackey --trace-mem=yes prints
    Lackey,
}

/// `quaver sim import`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver sim import --from drmemtrace -o ocean.qtrace drmemtrace.ocean.*.dir/trace/
  xz -dc 600.perlbench_s.champsimtrace.xz | quaver sim import --from champsim -o perl.qtrace -
  quaver sim import --from synchrotrace -o fft.qtrace sigil.events.out-* sigil.pthread.out
  valgrind --tool=lackey --trace-mem=yes --log-fd=9 ./fft 9>&1 >/dev/null |
    quaver sim import --from lackey -o fft.qtrace -

Inputs packed by gzip or zstd, and zip archives, are unpacked. What a format lacks (registers,
program counters, how threads wait for each other) is printed, and kept in the trace.

Exit status: 0 done, 5 an input is none of its format, or damaged (the message says where).")]
pub struct SimImportArgs {
    /// Whose trace it is
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub from: ImportFormat,
    /// Write our trace here; - is standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Print what was imported as JSON
    #[arg(long)]
    pub json: bool,
    /// No progress line
    #[arg(short, long)]
    pub quiet: bool,
    /// Files of the trace, or directories with them; - is standard input
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,
}
