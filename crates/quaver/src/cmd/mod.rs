//! A file per verb.

pub mod analyze;
pub mod capture;
pub mod chase;
pub mod deliver;
pub mod doctor;
pub mod export;
mod far_source;
pub mod jitlat;
pub mod lab;
pub mod noise;
pub mod probe;
pub mod report;
pub mod results;
pub mod serve;
pub mod shell;
pub mod sim;
pub mod sink;
pub mod source;
pub mod study;
pub mod sync;
pub mod tune;

use crate::cli::Verb;
use crate::exit_code::ExitCode;

/// Does what the command line asks.
pub fn run(verb: Verb) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::Doctor(args) => doctor::run(&args),
        Verb::Capture(args) => capture::run(&args),
        Verb::Chase(args) => chase::run(&args),
        Verb::Jitlat(args) => jitlat::run(&args),
        Verb::Noise(args) => noise::run(&args),
        Verb::Probe(args) => probe::run(&args),
        Verb::Serve(args) => serve::run(&args),
        Verb::Sink(args) => sink::run(&args),
        Verb::Source(args) => source::run(&args),
        Verb::Analyze(args) => analyze::run(&args),
        Verb::Lab(args) => lab::run(&args),
        Verb::Sim(args) => sim::run(&args),
        Verb::Study(args) => study::run(&args),
        Verb::Sync(args) => sync::run(&args),
        Verb::Tune(args) => tune::run(&args),
        Verb::Report(args) => report::run(&args),
        Verb::Export(args) => export::run(&args),
        Verb::Completions(args) => shell::completions(&args),
        Verb::Man(args) => shell::manual(&args),
    }
}
