//! A file per verb.

pub mod analyze;
pub mod export;
pub mod report;
pub mod shell;

use crate::cli::Verb;
use quaver_instrument::exit_code::{ExitCode, StatusJudge};

/// How instruments judge errors of their own.
pub const STATUS_JUDGES: &[StatusJudge] = &[quaver_path::exit_status, quaver_lab::exit_status];

/// Does what the command line asks.
pub fn run(verb: Verb) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::Doctor(args) => quaver_doctor::run(&args),
        Verb::Capture(args) => quaver_capture::run(&args),
        Verb::Chase(args) => quaver_chase::chase::run(&args),
        Verb::Jitlat(args) => quaver_path::jitlat::run(&args),
        Verb::Noise(args) => quaver_noise::record::run(&args),
        Verb::Probe(args) => quaver_path::probe::run(&args),
        Verb::Serve(args) => quaver_path::serve::run(&args),
        Verb::Sink(args) => quaver_chase::sink::run(&args),
        Verb::Source(args) => quaver_chase::source::run(&args),
        Verb::Analyze(args) => analyze::run(&args),
        Verb::Lab(args) => quaver_lab::run(&args),
        Verb::Sim(args) => quaver_sim_program::run(&args),
        Verb::Study(args) => quaver_study::verb::run(&args),
        Verb::Sync(args) => quaver_sync::verb::run(&args),
        Verb::Tune(args) => quaver_tune::verb::run(&args),
        Verb::Report(args) => report::run(&args),
        Verb::Export(args) => export::run(&args),
        Verb::Completions(args) => shell::completions(&args),
        Verb::Man(args) => shell::manual(&args),
    }
}
