//! `quaver sim paper`: the tables and figures of the jitter-unit paper, made again on the simulated chip.

pub mod args;
pub mod digest;
pub mod view;

mod kernel;
mod programs;
mod work;

use crate::paper::args::SimPaperArgs;
use crate::paper::digest as stored;
use crate::paper::digest::PaperDigest;
use anyhow::Context;
use kernel::Activity;
use programs::Traces;
use quaver_clock::realtime_ns;
use quaver_host::facts::HostFacts;
use quaver_host::root::HostRoot;
use quaver_instrument::exit_code::{ExitCode, failure, status_of};
use quaver_instrument::host_state::allowed_cpus;
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::recording;
use quaver_instrument::{results, rights};
use quaver_sim::paper::Calibration;
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use quaver_sync_analysis::bench::BenchSummary;
use std::path::Path;
use work::{Plan, Work};

/// What the manifest of a run of `quaver sync bench` calls it.
const BENCH: &str = "sync-bench";
/// Seeds, and length of a run without jitter in microseconds: whole, and with `--quick`.
const WHOLE: (u64, u64) = (10, 12_000);
const QUICK: (u64, u64) = (2, 1_500);

/// Runs, stores, prints.
pub(super) fn run(args: &SimPaperArgs) -> anyhow::Result<ExitCode> {
    let usual = if args.quick { QUICK } else { WHOLE };
    let seeds: Vec<u64> = (1..=args.seeds.unwrap_or(usual.0)).collect();
    let length_us = args.length.map_or(usual.1, |length| length.as_micros().max(1) as u64);
    let jobs = match args.jobs {
        Some(jobs) => usize::from(jobs),
        None => allowed_cpus().context("finding the CPUs that we may use")?.len().max(1),
    };
    let calibration = calibration(args)?;
    let bench = args.sync.as_deref().map(bench).transpose()?;
    let wanted = programs::wanted(&args.programs)?;
    let activity = Activity::of(args)?;
    let interrupt = Interrupt::catch()?;
    let (run, mut manifest) = begin(args, &seeds, length_us, &activity.words)?;
    let traces = Traces::gather(&wanted, args, &run.path().join("traces"), &interrupt)?;
    // All programs are traced; what is left reads, computes and writes.
    rights::keep(&[Path::new("/")], &[run.path()]);
    let plan = Plan {
        args,
        run: &run,
        interrupt: &interrupt,
        jobs,
        length_us,
        seeds: &seeds,
        activity: &activity,
        traces: &traces,
    };
    let mut work = Work::new(plan, calibration);
    let finished = work.all(&wanted);
    let summary = work.summary(!interrupt.requested() && finished.is_ok());
    if finished.is_err() && summary.programs.is_empty() {
        // There is nothing in it that was worth its while.
        let _ = std::fs::remove_dir_all(run.path());
        finished?;
        return Ok(ExitCode::Output);
    }
    let reason = match &finished {
        Err(error) => Some(quaver_instrument::exit_code::sentence(error)),
        Ok(()) => interrupt.requested().then(|| "interrupted by the user".to_owned()),
    };
    manifest.end(realtime_ns(), reason);
    run.write_manifest(&manifest)?;
    let digest = PaperDigest::new(&run, &manifest, summary, bench);
    digest.store(&run)?;
    let value = stored::json(&digest.summary)?;
    let stopped = finished.as_ref().err().map(|error| status_of(error, &[]));
    let ended = stopped.or(interrupt.requested().then_some(ExitCode::Interrupted));
    let found = results::Found::of_run(&value, &run).ended(ended);
    let code = results::print(
        &found,
        || results::with_report(digest.document(), &run),
        args.output.json,
        &args.output.fail_if,
    )?;
    finished?;
    Ok(code)
}

fn calibration(args: &SimPaperArgs) -> anyhow::Result<(Calibration, String)> {
    let Some(path) = &args.calibration else {
        let words = if args.calibrate { "fitted in this run" } else { "the one that comes with Quaver" };
        return Ok((Calibration::bundled(), words.to_owned()));
    };
    let bad = |reason: String| {
        failure(ExitCode::BadInput, format!("read the fits of {}: {reason}", path.display()))
    };
    let text = std::fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
    let read = Calibration::from_toml(&text).map_err(|error| bad(error.trim_end().to_owned()))?;
    Ok((read, path.display().to_string()))
}

/// The figures of a run of `quaver sync bench`.
fn bench(path: &Path) -> anyhow::Result<BenchSummary> {
    let run = quaver_store::listing::open(path)?;
    if run.read_manifest()?.verb != BENCH {
        let message = format!("{} is no run of `quaver sync bench`; name one with --sync", path.display());
        return Err(failure(ExitCode::BadInput, message));
    }
    Ok(run.read_summary()?)
}

fn begin(
    args: &SimPaperArgs,
    seeds: &[u64],
    length_us: u64,
    kernel: &str,
) -> anyhow::Result<(RunDir, Manifest)> {
    let host = serde_json::to_value(HostFacts::read(&HostRoot::system()))?;
    let run = RunDir::create(&args.output.output, stored::VERB)?;
    let asked = serde_json::json!({
        "command": recording::command_line(),
        "seeds": seeds,
        "length_us": length_us,
        "kernel": kernel,
        "calibrate": args.calibrate,
    });
    let manifest = Manifest::begin(env!("CARGO_PKG_VERSION"), stored::VERB, asked, host, realtime_ns());
    run.write_manifest(&manifest)?;
    Ok((run, manifest))
}
