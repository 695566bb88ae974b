//! The command line: types only. What a verb does is in `cmd/`.

pub mod capture;
pub mod chase;
pub mod compare;
pub mod doctor;
pub mod jitlat;
pub mod lab;
pub mod noise;
pub mod path;
pub mod runs;
pub mod shared;
pub mod sim;
pub mod sim_import;
pub mod sim_paper;
pub mod sim_sweep;
pub mod sim_trace;
pub mod study;
pub mod sync;
pub mod sync_bench;
pub mod sync_compensate;
pub mod tune;

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
    Doctor(doctor::DoctorArgs),
    /// Receive a constant-rate packet stream and name the source of every late packet
    Chase(chase::ChaseArgs),
    /// Measure what interrupts a busy loop on chosen CPUs, without any network
    Noise(noise::NoiseArgs),
    /// Send a constant-rate packet stream
    Source(chase::SourceArgs),
    /// Receive a packet stream with one timestamp a packet
    Sink(chase::SinkArgs),
    /// Capture packets with every stamp that this machine gives, to pcapng
    Capture(Box<capture::CaptureArgs>),
    /// Measure the path to a host that runs `quaver serve`: delay, its variation, loss, order
    Probe(path::ProbeArgs),
    /// Wait for `quaver probe` and measure with it
    Serve(path::ServeArgs),
    /// Be Jitlat: its options, its console page, its log file, its protocol
    Jitlat(jitlat::JitlatArgs),
    /// Analyse a run again (also one that was cut short), a capture, or a log of Jitlat
    Analyze(runs::AnalyzeArgs),
    /// Find what is set so that it makes packets late, set it otherwise, and put it back
    Tune(tune::TuneArgs),
    /// Prove what each source of lateness costs: restore one at a time against a baseline, and rank them
    Study(study::StudyArgs),
    /// Labs to try things in: what each needs, and how to get it
    Lab(lab::LabArgs),
    /// Run a threaded program and tell what waking its threads up costs
    Sync(sync::SyncArgs),
    /// Simulate a chip that runs traced programs
    Sim(sim::SimArgs),
    /// Draw the HTML report of a run again
    Report(runs::ReportArgs),
    /// Convert a run for another program
    Export(runs::ExportArgs),
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
