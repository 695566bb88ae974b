//! `quaver sim run`: a trace on the simulated chip.

use super::cure::{self, End, Reached, Setup, SimOutcome};
use super::cure_file::{self, CureFile};
use super::cured::{self, CuredOutcome, CuredSetup};
use super::file::{self, Trace};
use super::kernel_activity::{KernelActivity, TimedActivity};
use super::machine_file;
use crate::args::SimRunArgs;
use crate::digest::{CureRuns, SimFacts, SimSpeed, differences};
use crate::stored::{self, SimDigest};
use anyhow::Context;
use quaver_host::facts::HostFacts;
use quaver_host::root::HostRoot;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_instrument::recording;
use quaver_instrument::{results, rights};
use quaver_sim::config::Config;
use quaver_sim::error::SimulationError;
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use quaver_view::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time between two changes of the progress line.
const SHOWN_EACH: Duration = Duration::from_millis(200);
/// Intervals that are kept for the time line: 40 MB.
const MOST_INTERVALS: usize = 1_000_000;

/// What was simulated: the run that is told of, and what others it is compared with.
struct Simulated {
    outcome: SimOutcome,
    cure: Option<CureRuns>,
    /// The user wanted it to end before all of it was done.
    interrupted: bool,
}

/// A cure with the kernel activity that it names.
struct Cure {
    file: CureFile,
    kernel: Option<KernelActivity>,
}

/// Subframes that are kept for drawings where the file of the cure says nothing.
const MOST_SUBFRAMES: usize = 20_000;

/// Simulates, stores and prints.
pub(super) fn run(args: &SimRunArgs) -> anyhow::Result<ExitCode> {
    rights::keep_files();
    let machine = machine_file::read(args.config.as_deref(), &args.set)?;
    let cure = args.cure.as_deref().map(cure_of).transpose()?;
    let trace = file::open(&args.trace)?;
    let interrupt = Interrupt::catch()?;
    let facts = facts(args, &trace, machine, &interrupt)?;
    let (run, mut manifest) = begin(args, &facts, cure.as_ref())?;
    rights::keep(&[&args.trace], &[&args.output.output]);
    let simulated = match &cure {
        None => watched(&trace, &facts.machine, args.output.quiet, &interrupt),
        Some(cure) => cured(args, (&trace, &facts.machine), cure, &interrupt),
    };
    // Where nothing was simulated there is nothing to keep.
    let discarded = |error: anyhow::Error| {
        let _ = std::fs::remove_dir_all(run.path());
        error
    };
    let Simulated { outcome, cure, interrupted } = simulated.map_err(discarded)?;
    let SimOutcome { results, end, elapsed, .. } = outcome;
    let speed = SimSpeed { elapsed_ns: elapsed.as_nanos() as u64, instructions: results.instructions() };
    if let End::Stopped(error) = &end
        && results.instructions() == 0
    {
        return Err(discarded(stopped(args, error)));
    }
    let reason = end.reason().or_else(|| interrupted.then(|| End::Interrupted.reason()).flatten());
    manifest.end(quaver_clock::realtime_ns(), reason);
    let whole = matches!(end, End::Whole) && !interrupted;
    let cure = cure.map(|runs| runs.summarize());
    let digest = stored::conclude(&run, manifest, (facts, cure), &results, speed, whole)?;
    let ended = match &end {
        End::Stopped(_) => Some(ExitCode::BadInput),
        End::Interrupted => Some(ExitCode::Interrupted),
        End::Whole => interrupted.then_some(ExitCode::Interrupted),
    };
    let code = print(args, &digest, &run, ended)?;
    match end {
        End::Stopped(error) => Err(stopped(args, &error)),
        End::Interrupted | End::Whole => Ok(code),
    }
}

/// Reads the file of `--cure` and the kernel activity that it names.
fn cure_of(path: &Path) -> anyhow::Result<Cure> {
    let mut file = cure_file::read(path)?;
    if file.config.kept_subframes == 0 {
        file.config.kept_subframes = MOST_SUBFRAMES;
    }
    let kernel = file.library.as_deref().map(cure_file::kernel_activity).transpose()?;
    Ok(Cure { file, kernel })
}

/// A simulation that could not go on, in a sentence.
fn stopped(args: &SimRunArgs, error: &SimulationError) -> anyhow::Error {
    failure(ExitCode::BadInput, format!("{}: {error}", args.trace.display()))
}

fn facts(
    args: &SimRunArgs,
    trace: &Trace,
    machine: Config,
    interrupt: &Interrupt,
) -> anyhow::Result<SimFacts> {
    let reader = &trace.reader;
    let threads = reader.threads().count() as u64;
    if threads == 0 {
        let message =
            format!("{}: there are no steps in it, so there is nothing to simulate", args.trace.display());
        return Err(failure(ExitCode::BadInput, message));
    }
    let meetings = trace.meetings(&mut || !interrupt.requested());
    Ok(SimFacts {
        trace: args.trace.display().to_string(),
        program: reader.facts.program.clone(),
        tool: reader.facts.tool.clone(),
        architecture: reader.facts.architecture.clone(),
        lacks: reader.facts.lacks.clone(),
        threads,
        steps: reader.step_count(),
        octets: reader.octets,
        cut_short: reader.cut_short,
        condition_barriers: [meetings.barriers() as u64, meetings.rounds() as u64],
        differences: differences(&machine),
        machine,
    })
}

/// A run directory with its manifest and the machine.
fn begin(args: &SimRunArgs, facts: &SimFacts, cure: Option<&Cure>) -> anyhow::Result<(RunDir, Manifest)> {
    let host = serde_json::to_value(HostFacts::read(&HostRoot::system()))?;
    let run = RunDir::create(&args.output.output, "sim")?;
    let asked = serde_json::json!({ "command": recording::command_line(), "facts": facts });
    let now_ns = quaver_clock::realtime_ns();
    let manifest = Manifest::begin(env!("CARGO_PKG_VERSION"), "sim", asked, host, now_ns);
    let written = run.write_manifest(&manifest).map_err(anyhow::Error::new);
    let written = written.and_then(|()| write_asked(&run, facts, cure));
    if let Err(error) = written {
        // It has nothing in it.
        let _ = std::fs::remove_dir_all(run.path());
        return Err(error);
    }
    Ok((run, manifest))
}

/// The machine and the cure, as they can be asked for again.
fn write_asked(run: &RunDir, facts: &SimFacts, cure: Option<&Cure>) -> anyhow::Result<()> {
    let write = |path: &Path, text: String| {
        std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    };
    write(&stored::machine_file(run), toml::to_string(&facts.machine)?)?;
    let Some(cure) = cure else { return Ok(()) };
    let mut text = String::new();
    if let Some(library) = &cure.file.library {
        let bundled = library == Path::new(cure_file::BUNDLED);
        let whole =
            std::fs::canonicalize(library).ok().filter(|_| !bundled).unwrap_or_else(|| library.clone());
        let name = toml::Value::String(whole.display().to_string());
        text.push_str(&format!("library = {name}\n"));
    }
    if let Some(recorded) = &cure.file.recorded {
        let whole = std::fs::canonicalize(&recorded.path).unwrap_or_else(|_| recorded.path.clone());
        text.push_str(&format!("recorded = {}\n", toml::Value::String(whole.display().to_string())));
    }
    text.push_str(&toml::to_string(&cure.file.config)?);
    write(&stored::cure_file(run), text)
}

/// All runs that a cure is judged by.
fn cured(
    args: &SimRunArgs,
    (trace, machine): (&Trace, &Config),
    cure: &Cure,
    interrupt: &Interrupt,
) -> anyhow::Result<Simulated> {
    let meetings = trace.meetings(&mut || !interrupt.requested());
    let line = Progress::shares(args.output.quiet);
    let kernel = cure.kernel.as_ref().map(TimedActivity::new);
    let setup = CuredSetup {
        trace: &args.trace,
        meetings: &meetings,
        machine,
        file: &cure.file,
        kernel: kernel.as_ref(),
        seeds: args.seeds,
        intervals: MOST_INTERVALS,
    };
    let said = |reached: Reached| words(reached.share, reached.instructions, reached.elapsed);
    let CuredOutcome { first, runs, interrupted } = cured::run(&setup, interrupt, &line, &said)?;
    Ok(Simulated { outcome: first, cure: Some(runs), interrupted })
}

fn watched(trace: &Trace, machine: &Config, quiet: bool, interrupt: &Interrupt) -> anyhow::Result<Simulated> {
    let line = Progress::shares(quiet);
    let mut last = Instant::now();
    let setup = Setup { intervals: MOST_INTERVALS, ..Setup::plain(trace, machine) };
    let outcome = cure::simulate(&setup, &mut |reached| {
        if last.elapsed() >= SHOWN_EACH {
            last = Instant::now();
            line.reach(reached.share, words(reached.share, reached.instructions, reached.elapsed));
        }
        !interrupt.requested()
    })?;
    Ok(Simulated { outcome, cure: None, interrupted: false })
}

/// `42 % · 1,234 million instructions · 63.1 MIPS · 35.0 s left`
fn words(share: f64, instructions: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(1e-9);
    let millions = instructions as f64 / 1e6;
    let mut words = format!(
        "{:.0} % · {} million instructions · {} MIPS",
        share.min(1.0) * 100.0,
        Cell::Count(millions as u64),
        Cell::Figure(millions / seconds)
    );
    // Frames are read whole, so that the share says little before some of them were.
    if share > 0.02 {
        let left_ns = seconds * (1.0 / share.min(1.0) - 1.0) * 1e9;
        words.push_str(&format!(" · {} left", Cell::Duration(left_ns as i64)));
    }
    words
}

fn print(
    args: &SimRunArgs,
    digest: &SimDigest,
    run: &RunDir,
    ended: Option<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let summary = serde_json::to_value(&digest.summary)?;
    let found = results::Found::of_run(&summary, run).ended(ended);
    results::print(
        &found,
        || results::with_report(digest.document(), run),
        args.output.json,
        &args.output.fail_if,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_line_tells_share_speed_and_time_left() {
        let said = words(0.25, 150_000_000, Duration::from_secs(3));
        assert_eq!(said, "25 % · 150 million instructions · 50.00 MIPS · 9.00 s left");
        let early = words(0.01, 1_000_000, Duration::from_millis(20));
        assert_eq!(early, "1 % · 1 million instructions · 50.00 MIPS");
    }
}
