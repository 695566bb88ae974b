//! `quaver sync bench`: the threaded programs that come with Quaver, recorded and unrecorded in turns, and the paper's tables of
//! this machine.

pub mod view;

mod once;
mod programs;

use crate::args::bench::{BarrierKind, SyncBenchArgs};
use anyhow::Context;
use once::{RunOutput, Runner};
use programs::BenchProgram;
use quaver_clock::realtime_ns;
use quaver_host::facts::HostFacts;
use quaver_host::root::HostRoot;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::host_state::allowed_cpus;
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_instrument::results::{self, Found};
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use quaver_sync_analysis::bench::paper::Suite;
use quaver_sync_analysis::bench::{BenchSummary, ProgramFigures, RunFigures, correlations, mean_sync_share};
use quaver_sync_analysis::sync::Settings;
use quaver_view::Document;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What the manifest calls a run of it.
pub const KIND: &str = "sync-bench";

/// Where recordings go that are not kept: memory, so that no disk writes beside the program.
const IN_MEMORY: &str = "/dev/shm";
/// Runs of each program with the kernel's side, for tables 4 and 5.
const WATCHED_RUNS: u32 = 2;

/// Runs, stores, prints.
pub(super) fn run(args: &SyncBenchArgs) -> anyhow::Result<ExitCode> {
    if args.list {
        results::to_stdout(view::list().as_bytes())?;
        return Ok(ExitCode::Done);
    }
    let cpus = allowed_cpus().context("finding the CPUs that we may use")?.len() as u32;
    let threads = args.threads.unwrap_or(cpus);
    let found = programs::all(args, threads)?;
    let recorder = crate::record::recorder()?;
    let interrupt = Interrupt::catch()?;
    let (run, mut manifest) = begin(args, threads)?;
    let mut bench = Bench {
        args,
        recorder,
        settings: Settings {
            threshold_ns: args.threshold.as_nanos() as u64,
            count_all: args.count_all,
            cpus: Some(cpus),
            ..Settings::default()
        },
        interrupt: &interrupt,
        progress: Progress::timed(Duration::from_secs(1), args.quiet),
        recordings: Recordings::of(args, &run)?,
        blind: blind(args),
        measured: found.into_iter().map(Measured::new).collect(),
    };
    bench.measure()?;
    let summary = bench.summary(threads, cpus);
    drop(bench);
    let cut_short = interrupt.requested().then(|| "interrupted by the user".to_owned());
    manifest.end(realtime_ns(), cut_short);
    run.write_manifest(&manifest)?;
    run.write_summary(&summary)?;
    let page = document(&run, &summary)?;
    results::store_report(&run, &page)?;
    let value = serde_json::to_value(&summary)?;
    let found = Found::of_run(&value, &run).ended(interrupt.requested().then_some(ExitCode::Interrupted));
    results::print(&found, || results::with_report(page, &run), args.json, &args.fail_if)
}

/// What a person sees of it.
pub(crate) fn document(run: &RunDir, summary: &BenchSummary) -> anyhow::Result<Document> {
    let mut facts = quaver_instrument::facts::run_facts(run, &run.read_manifest()?);
    facts.facts.retain(|(name, _)| name != "events lost");
    Ok(view::document(summary, &facts))
}

fn begin(args: &SyncBenchArgs, threads: u32) -> anyhow::Result<(RunDir, Manifest)> {
    let host = serde_json::to_value(HostFacts::read(&HostRoot::system()))?;
    let run = RunDir::create(&args.output, KIND)?;
    let asked = serde_json::json!({
        "command": quaver_instrument::recording::command_line(),
        "threads": threads,
        "runs": args.runs,
        "seed": args.seed,
        "size": args.size,
        "commands": args.commands,
    });
    let manifest = Manifest::begin(env!("CARGO_PKG_VERSION"), KIND, asked, host, realtime_ns());
    run.write_manifest(&manifest)?;
    Ok((run, manifest))
}

/// Why the kernel's side is not looked at.
fn blind(args: &SyncBenchArgs) -> Option<String> {
    if args.no_kernel {
        return Some("--no-kernel was given".to_owned());
    }
    (!rustix::process::geteuid().is_root()).then(|| "only root may look at the kernel".to_owned())
}

/// Where recordings are written.
struct Recordings {
    directory: PathBuf,
    /// Removes the directory when the bench ends, where nothing is to be kept.
    _temporary: Option<tempfile::TempDir>,
}

impl Recordings {
    fn of(args: &SyncBenchArgs, run: &RunDir) -> anyhow::Result<Self> {
        if args.keep {
            return Ok(Self { directory: run.path().join("recordings"), _temporary: None });
        }
        let prefix = "quaver-sync-bench-";
        let made = tempfile::Builder::new().prefix(prefix).tempdir_in(IN_MEMORY);
        let made = made.or_else(|_| tempfile::Builder::new().prefix(prefix).tempdir());
        let made = made.context("making a directory for recordings")?;
        Ok(Self { directory: made.path().to_owned(), _temporary: Some(made) })
    }
}

/// What was measured of a program so far.
struct Measured {
    found: BenchProgram,
    /// What it printed when it was first run, unrecorded.
    line: String,
    /// How long that took.
    took: Duration,
    runs: Vec<RunFigures>,
    watched: Vec<RunFigures>,
    pairs_ns: Vec<(u64, u64)>,
    starts_ns: Vec<(i64, i64)>,
}

impl Measured {
    fn new(found: BenchProgram) -> Self {
        Self {
            found,
            line: String::new(),
            took: Duration::ZERO,
            runs: Vec::new(),
            watched: Vec::new(),
            pairs_ns: Vec::new(),
            starts_ns: Vec::new(),
        }
    }

    /// A program prints the same however it is run; if not, recording disturbs more than its time.
    fn check(&self, ran: &RunOutput) -> anyhow::Result<()> {
        if ran.line == self.line {
            return Ok(());
        }
        Err(failure(
            ExitCode::Bug,
            format!(
                "{} printed `{}` and before that `{}`: the recorder must not change what a program does; please report this",
                self.found.path.display(),
                ran.line.trim(),
                self.line.trim()
            ),
        ))
    }
}

struct Bench<'a> {
    args: &'a SyncBenchArgs,
    recorder: PathBuf,
    settings: Settings,
    interrupt: &'a Interrupt,
    progress: Progress,
    recordings: Recordings,
    blind: Option<String>,
    measured: Vec<Measured>,
}

impl Bench<'_> {
    /// All rounds; in each of them all programs, so that what was measured until an interruption is of all alike.
    fn measure(&mut self) -> anyhow::Result<()> {
        if !self.warm_up()? {
            return Ok(());
        }
        let pass: Duration = self.measured.iter().map(|one| one.took).sum();
        let watched = if self.blind.is_some() { 0 } else { WATCHED_RUNS.min(self.args.runs) };
        // Reading a recording takes about as long as the run.
        let expected = pass * (3 * self.args.runs + 3 * watched);
        self.progress = Progress::timed(expected, self.args.quiet);
        let started = Instant::now();
        for round in 0..self.args.runs {
            for at in 0..self.measured.len() {
                let look = round < watched;
                self.say(started, expected, round, at);
                if !self.pair(round, at)? || (look && !self.watch(round, at)?) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn say(&self, started: Instant, expected: Duration, round: u32, at: usize) {
        let pass: Duration = self.measured.iter().map(|one| one.took).sum();
        let elapsed = started.elapsed();
        // What is left goes as fast as what was done; before there is enough of that, as expected.
        let done = (f64::from(round) + at as f64 / self.measured.len() as f64) / f64::from(self.args.runs);
        let left = match elapsed > pass.max(Duration::from_secs(3)) && done > 0.0 {
            true => elapsed.mul_f64((1.0 - done) / done),
            false => expected.saturating_sub(elapsed),
        };
        let name = &self.measured[at].found.name;
        let (round, runs) = (round + 1, self.args.runs);
        let message = format!("round {round} of {runs}: {name}; about {} s left", left.as_secs().max(1));
        self.progress.show(expected.mul_f64(done), message);
    }

    fn runner<'b>(&'b self, at: usize) -> Runner<'b> {
        Runner {
            name: &self.measured[at].found.name,
            program: &self.measured[at].found.path,
            arguments: &self.measured[at].found.arguments,
            silent: self.measured[at].found.suite == Suite::Own,
            recorder: &self.recorder,
            settings: self.settings,
            interrupt: self.interrupt,
        }
    }

    /// Each program once, so that the times that count find it in memory. False where we were asked to end.
    fn warm_up(&mut self) -> anyhow::Result<bool> {
        for at in 0..self.measured.len() {
            self.progress.say(format!("trying {}", self.measured[at].found.name));
            let Some(ran) = self.runner(at).unrecorded()? else { return Ok(false) };
            self.measured[at].took = Duration::from_nanos(ran.took_ns);
            self.measured[at].line = ran.line;
            if self.interrupt.requested() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A run with and one without the recorder; which comes first changes from round to round and program to program.
    fn pair(&mut self, round: u32, at: usize) -> anyhow::Result<bool> {
        let directory = self.directory(at, &round.to_string());
        let runner = self.runner(at);
        let first = (round as usize + at).is_multiple_of(2);
        let before = if first { runner.unrecorded()? } else { None };
        if first && before.is_none() {
            return Ok(false);
        }
        let Some((recorded, figures)) = runner.recorded(&directory)? else { return Ok(false) };
        let Some(unrecorded) = (if first { before } else { runner.unrecorded()? }) else { return Ok(false) };
        self.forget(&directory);
        let one = &mut self.measured[at];
        one.check(&unrecorded)?;
        one.check(&recorded)?;
        one.pairs_ns.push((unrecorded.took_ns, recorded.took_ns));
        one.starts_ns.push((unrecorded.started_ns, recorded.started_ns));
        one.runs.push(figures);
        Ok(!self.interrupt.requested())
    }

    /// A run with the kernel's side. Where that cannot be had, the bench goes on without and says so.
    fn watch(&mut self, round: u32, at: usize) -> anyhow::Result<bool> {
        if self.blind.is_some() {
            return Ok(true);
        }
        let directory = self.directory(at, &format!("{round}-watched"));
        let figures = self.runner(at).watched(&directory);
        self.forget(&directory);
        match figures {
            Ok(Some(figures)) if figures.kernel_side => self.measured[at].watched.push(figures),
            Ok(Some(_)) => self.blind = Some("quaver sync could not look at the kernel here".to_owned()),
            Ok(None) => return Ok(!self.interrupt.requested()),
            Err(error) => self.blind = Some(quaver_instrument::exit_code::sentence(&error)),
        }
        Ok(!self.interrupt.requested())
    }

    fn directory(&self, at: usize, which: &str) -> PathBuf {
        self.recordings.directory.join(format!("{}-{which}", self.measured[at].found.file))
    }

    /// Room in memory is scarce: a recording that is not kept goes as soon as it was read.
    fn forget(&self, directory: &Path) {
        if !self.args.keep {
            // What is left is removed with the directory above.
            let _ = std::fs::remove_dir_all(directory);
        }
    }

    fn summary(&mut self, threads: u32, cpus: u32) -> BenchSummary {
        let obstacles: Vec<String> =
            self.measured.iter().flat_map(|one| one.found.obstacles.iter().cloned()).collect();
        let programs: Vec<ProgramFigures> = std::mem::take(&mut self.measured)
            .into_iter()
            .map(|one| ProgramFigures {
                starts_ns: one.starts_ns,
                ..ProgramFigures::of(&one.found.name, one.found.suite, one.runs, one.watched, one.pairs_ns)
            })
            .collect();
        BenchSummary {
            schema: BenchSummary::SCHEMA.to_owned(),
            complete: !self.interrupt.requested(),
            threads,
            cpus,
            threshold_ns: self.settings.threshold_ns,
            count_all: self.settings.count_all,
            barrier: match self.args.barrier {
                BarrierKind::Cond => "condition variable",
                BarrierKind::Posix => "pthread_barrier_t",
            }
            .to_owned(),
            correlations: Suite::ALL.map(|suite| correlations(&programs, suite)),
            mean_sync_share: Suite::ALL.map(|suite| mean_sync_share(&programs, suite)),
            own_correlations: correlations(&programs, Suite::Own),
            own_mean_sync_share: mean_sync_share(&programs, Suite::Own),
            blind: self.blind.take(),
            warnings: warnings(threads, cpus, &programs).into_iter().chain(obstacles).collect(),
            programs,
        }
    }
}

fn warnings(threads: u32, cpus: u32, programs: &[ProgramFigures]) -> Vec<String> {
    let mut said = Vec::new();
    if threads > cpus {
        said.push(format!(
            "{threads} threads on {cpus} CPUs: threads wait for a CPU rather than for each other, and that swamps sync jitter; \
             take --threads {cpus}"
        ));
    }
    let lost: u64 = programs.iter().flat_map(|one| &one.runs).map(|run| run.lost).sum();
    if lost > 0 {
        said.push(format!(
            "{lost} records found no room and are missing; give --output a file system with more room"
        ));
    }
    said
}
