//! `quaver analyze`: the results of a stored run, computed again. Raw segments of a run that was cut short are read
//! as they are and left as they are, for the run may still be recording. A file is a capture or a log of Jitlat.

use quaver_chase::chase;
use quaver_instrument::digest;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::results;
use quaver_instrument::runs::AnalyzeArgs;
use quaver_page::table::Style;
use quaver_path::jitlat;
use quaver_store::run::RunDir;
use quaver_sync::verb as sync;

/// What a run holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// Packets of a stream.
    Packets,
    /// Gaps of noise loops.
    Gaps,
    /// Test packets of a path.
    Path,
    /// Packets stamped in each way, between checkpoints.
    Comparison,
    /// Cells of a study.
    Cells,
    /// Synchronisation of a threaded program.
    Sync,
    /// A trace on the simulated chip.
    Simulation,
}

/// Analyses, stores and prints.
pub fn run(args: &AnalyzeArgs) -> anyhow::Result<ExitCode> {
    if args.run.is_file() {
        return if quaver_capture::digest::is_capture(&args.run)? {
            capture(args)
        } else {
            jitlat::log::analyze(args)
        };
    }
    if args.layer.is_some() {
        let message = "--layer is for captures, whose packets are stamped at several layers";
        return Err(failure(ExitCode::Usage, message));
    }
    let run = RunDir::open(&args.run)?;
    if run.read_manifest()?.verb == sync::BENCH {
        return sync::bench_again(&run, args.json, &args.fail_if);
    }
    if run.read_manifest()?.verb == quaver_sim_program::paper::digest::VERB {
        return quaver_sim_program::paper::again(&run, args.json, &args.fail_if);
    }
    if run.read_manifest()?.verb == quaver_sim_program::sweep::VERB {
        return quaver_sim_program::sweep::again(&run, args.json, &args.fail_if);
    }
    match holds(&run)? {
        Holds::Packets => {
            let digest = digest::analyze(&run, args.late)?;
            digest.store(&run)?;
            chase::print_results(&digest, &run, args.json, &args.fail_if)
        }
        Holds::Gaps => {
            if args.late.is_some() {
                let message =
                    "--late is for packets; the threshold of a noise run holds from its recording on";
                return Err(failure(ExitCode::Usage, message));
            }
            let digest = quaver_noise::digest::analyze(&run)?;
            digest.store(&run)?;
            let summary = serde_json::to_value(&digest.analysis.summary)?;
            results::print(&summary, || digest.page(&run), args.json, &args.fail_if)
        }
        Holds::Comparison => {
            if args.late.is_some() {
                let message = "--late is for received streams; a comparison has no threshold of lateness";
                return Err(failure(ExitCode::Usage, message));
            }
            let digest = quaver_capture::compare::digest::analyze(&run)?;
            digest.store(&run)?;
            let summary = serde_json::to_value(&digest.summary)?;
            let report = run.report().display().to_string();
            results::print(&summary, || digest.page(Some(&report)), args.json, &args.fail_if)
        }
        Holds::Cells => {
            if args.late.is_some() {
                let message =
                    "--late is for received streams; the figures of a study hold from its recording on";
                return Err(failure(ExitCode::Usage, message));
            }
            let digest = quaver_study::digest::analyze(&run)?;
            digest.store(&run)?;
            let summary = serde_json::to_value(&digest.summary)?;
            let report = run.report().display().to_string();
            results::print(&summary, || digest.page(Some(&report)), args.json, &args.fail_if)
        }
        Holds::Sync => {
            if args.late.is_some() {
                let message =
                    "--late is for received streams; the threshold of a sync run holds from its recording on";
                return Err(failure(ExitCode::Usage, message));
            }
            let digest = quaver_sync::digest::analyze(&run)?;
            sync::store(&run, &digest)?;
            let summary = serde_json::to_value(&digest.summary)?;
            let page = || sync::page(&run, &digest, quaver_instrument::terminal::style());
            results::print(&summary, page, args.json, &args.fail_if)
        }
        Holds::Simulation => simulation(args, &run),
        Holds::Path => {
            if args.late.is_some() {
                let message = "--late is for received streams; a path has no threshold of lateness";
                return Err(failure(ExitCode::Usage, message));
            }
            let digest = quaver_path::digest::analyze(&run)?;
            digest.store(&run)?;
            let summary = serde_json::to_value(&digest.summary)?;
            let report = run.report().display().to_string();
            results::print(&summary, || digest.page(Some(&report)), args.json, &args.fail_if)
        }
    }
}

/// A simulated run, whose figures are drawn again.
fn simulation(args: &AnalyzeArgs, run: &RunDir) -> anyhow::Result<ExitCode> {
    if args.late.is_some() {
        let message = "--late is for received streams; simulated threads have no schedule to be late for";
        return Err(failure(ExitCode::Usage, message));
    }
    let digest = quaver_sim_program::digest::analyze(run)?;
    digest.store(run)?;
    let summary = serde_json::to_value(&digest.summary)?;
    let report = run.report().display().to_string();
    let page = || digest.page(Some(&report), Style::of_stdout());
    results::print(&summary, page, args.json, &args.fail_if)
}

/// A capture, which is left as it is.
fn capture(args: &AnalyzeArgs) -> anyhow::Result<ExitCode> {
    if args.late.is_some() {
        let message = "--late is for runs of chase and sink; a capture tells no schedule to be late for";
        return Err(failure(ExitCode::Usage, message));
    }
    let digest = quaver_capture::digest::analyze(&args.run, args.layer)?;
    let summary = serde_json::to_value(&digest.summary)?;
    results::print(&summary, || digest.page(), args.json, &args.fail_if)
}

/// What the run holds, by the verb that made it.
pub(super) fn holds(run: &RunDir) -> anyhow::Result<Holds> {
    match run.read_manifest()?.verb.as_str() {
        "chase" | "sink" => Ok(Holds::Packets),
        "noise" => Ok(Holds::Gaps),
        "probe" => Ok(Holds::Path),
        "capture-compare" => Ok(Holds::Comparison),
        "study" => Ok(Holds::Cells),
        "sync" => Ok(Holds::Sync),
        "sim" => Ok(Holds::Simulation),
        other => {
            let message =
                format!("read {}: a run of verb {other:?} is not known here", run.manifest().display());
            Err(failure(ExitCode::BadInput, message))
        }
    }
}
