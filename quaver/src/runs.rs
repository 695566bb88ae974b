//! `quaver analyze`, `quaver report` and `quaver export`: stored runs again, of whatever instrument.

use crate::registry;
use quaver_instrument::deliver::{deliver, say_written};
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::registry::{Analyzed, RunKind};
use quaver_instrument::results;
use quaver_instrument::runs::{AnalyzeArgs, ExportArgs, ReportArgs};
use quaver_store::run::RunDir;
use std::time::Duration;

/// Analyses a run, stores its results and prints them. Raw segments of a run that was cut short are read as they are and left
/// as they are, for the run may still be recording. A file is of one of the kinds that instruments read.
pub(crate) fn analyze(args: &AnalyzeArgs) -> anyhow::Result<ExitCode> {
    if args.run.is_file() {
        return analyze_file(args);
    }
    if args.layer.is_some() {
        let message = "--layer is for captures, whose packets are stamped at several layers";
        return Err(failure(ExitCode::Usage, message));
    }
    let run = RunDir::open(&args.run)?;
    let results = analyzed(registry::kind_of(&run)?, &run, args.late)?;
    results.store(&run)?;
    results::print(&results.summary()?, || results.page(&run), args.json, &args.fail_if)
}

fn analyze_file(args: &AnalyzeArgs) -> anyhow::Result<ExitCode> {
    for kind in registry::file_kinds() {
        if kind.recognizes(&args.run)? {
            return kind.analyze(args);
        }
    }
    let names: Vec<&str> = registry::file_kinds().map(|kind| kind.missing()).collect();
    let message = format!("read {}: not a run directory, {}", args.run.display(), names.join(", and "));
    Err(failure(ExitCode::BadInput, message))
}

fn analyzed(kind: &dyn RunKind, run: &RunDir, late: Option<Duration>) -> anyhow::Result<Box<dyn Analyzed>> {
    match kind.no_late() {
        Some(message) if late.is_some() => Err(failure(ExitCode::Usage, message)),
        _ => kind.analyze(run, late),
    }
}

/// Draws the HTML report again.
pub(crate) fn report(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let run = RunDir::open(&args.run)?;
    let target = args.output.clone().unwrap_or_else(|| run.report());
    let results = registry::kind_of(&run)?.analyze(&run, None)?;
    deliver(&target, |out| results.write_html(&run, out))?;
    say_written(&target);
    Ok(ExitCode::Done)
}

/// Converts a run for another program.
pub(crate) fn export(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let run = RunDir::open(&args.run)?;
    analyzed(registry::kind_of(&run)?, &run, args.late)?.export(&run, args)?;
    Ok(ExitCode::Done)
}
