//! The command line: types only. What a verb does is in `cmd/`.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Finds where jitter comes from, says how much each source costs, and takes it away.
#[derive(Debug, Parser)]
#[command(name = "quaver", version, max_term_width = 100, propagate_version = true)]
#[command(
    after_help = "Start with `quaver doctor` (what this machine lets us measure), then `quaver chase`.\n\n\
    Exit status: 0 done, 1 a --fail-if held, 2 usage, 3 not permitted or not supported here, 4 the peer refused or\n\
    vanished, 5 bad input file, 6 output or resources failed, 70 a bug, 130 interrupted (the run is kept)."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// One verb for each job.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Tell what this machine lets us measure, what is missing, and the command that mends it
    Doctor(quaver_doctor::args::DoctorArgs),
    /// Receive a constant-rate packet stream and name the source of every late packet
    Chase(quaver_chase::args::ChaseArgs),
    /// Measure what interrupts a busy loop on chosen CPUs, without any network
    Noise(quaver_noise::args::NoiseArgs),
    /// Send a constant-rate packet stream
    Source(quaver_chase::args::SourceArgs),
    /// Receive a packet stream with one timestamp a packet
    Sink(quaver_chase::args::SinkArgs),
    /// Capture packets with every stamp that this machine gives, to pcapng
    Capture(Box<quaver_capture::args::CaptureArgs>),
    /// Measure the path to a host that runs `quaver serve`: delay, its variation, loss, order
    Probe(quaver_path::args::ProbeArgs),
    /// Wait for `quaver probe` and measure with it
    Serve(quaver_path::args::ServeArgs),
    /// Be Jitlat: its options, its console page, its log file, its protocol
    Jitlat(quaver_path::jitlat::args::JitlatArgs),
    /// Analyse a run again (also one that was cut short), a capture, or a log of Jitlat
    Analyze(quaver_instrument::runs::AnalyzeArgs),
    /// Find what is set so that it makes packets late, set it otherwise, and put it back
    Tune(quaver_tune::args::TuneArgs),
    /// Prove what each source of lateness costs: restore one at a time against a baseline, and rank them
    Study(quaver_study::args::StudyArgs),
    /// Labs to try things in: what each needs, and how to get it
    Lab(quaver_lab::args::LabArgs),
    /// Run a threaded program and tell what waking its threads up costs
    Sync(quaver_sync::args::SyncArgs),
    /// Simulate a chip that runs traced programs
    Sim(quaver_sim_program::args::SimArgs),
    /// Draw the HTML report of a run again
    Report(quaver_instrument::runs::ReportArgs),
    /// Convert a run for another program
    Export(quaver_instrument::runs::ExportArgs),
    /// Print completions for a shell
    Completions(CompletionsArgs),
    /// Print the manual pages
    #[command(hide = true)]
    Man(ManArgs),
}

/// `quaver completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// `quaver man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write a file for each page into this directory [default: print them all, one after the other]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
