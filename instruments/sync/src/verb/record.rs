//! A program run under the recorder.

use super::kernel::{self, KernelWatch, now_ns};
use crate::args::SyncArgs;
use crate::compensate;
use crate::compensate::Prepared;
use crate::digest as sync;
use crate::digest::SyncFacts;
use crate::record::kernel::{Followed, KernelChoice};
use anyhow::Context;
use quaver_abi::record::AnchorRecord;
use quaver_clock::{AnchorKeeper, CounterSupport};
use quaver_host::root::HostRoot;
use quaver_host::segment::SegmentAppender;
use quaver_instrument::exit_code::{ExitCode, failure, sentence};
use quaver_instrument::host_state::allowed_cpus;
use quaver_launch::launch::{Launch, LaunchError, Launched, shell_status, sleeps_of_children};
use quaver_launch::program;
use quaver_launch::program::{Obstacle, Program};
use quaver_launch::recorder::{PRELOAD_VARIABLE, preload};
use quaver_launch::signals::Signals;
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time between looks at the kernel's memory.
const TICK: Duration = Duration::from_millis(20);
/// The same where nothing is to be read: the clock is looked at as often.
const IDLE_TICK: Duration = Duration::from_millis(100);

/// Runs it, then tells. The answer is the program's status as a shell would show it, whatever becomes of the recording: what
/// cannot be done is refused before the program starts, and once it has started nothing of ours takes its status' place.
pub(super) fn run(args: &SyncArgs) -> anyhow::Result<u8> {
    let signals = Signals::take().context("holding back signals for the program")?;
    let program = look_at(args)?;
    let preloaded = preloaded(&program)?;
    let looking = kernel::choose(args, Followed::Children)?;
    let facts = facts(args, &program);
    let compensation = compensate::prepare(args, sync::settings(&facts))?;
    if !args.quiet {
        facts.obstacles.iter().for_each(|sentence| say(sentence));
    }
    match Recording::begin(args, facts, looking) {
        Ok(recording) => recording.run(args, signals, preloaded.as_deref(), compensation),
        Err(error) => {
            let name = args.program[0].display();
            say(&format!("{name} runs unrecorded, for the run cannot be kept: {}", sentence(&error)));
            unrecorded(args, &signals)
        }
    }
}

/// Threads of this process. The kernel numbers them, so that nobody else's is among them whatever it is called.
fn own_threads() -> Vec<u32> {
    HostRoot::system().names("proc/self/task").iter().filter_map(|thread| thread.parse().ok()).collect()
}

/// A sentence for the user. Where standard error takes none, the program goes on all the same.
fn say(sentence: &str) {
    let _ = writeln!(std::io::stderr().lock(), "quaver: {sentence}");
}

/// What a recorded program needs beside it: made before it starts, so that it never starts in vain.
struct Recording {
    run: RunDir,
    manifest: Manifest,
    facts: SyncFacts,
    directory: PathBuf,
    watch: KernelWatch,
    clock: Clockwork,
}

impl Recording {
    fn begin(args: &SyncArgs, facts: SyncFacts, looking: KernelChoice) -> anyhow::Result<Self> {
        let (run, manifest) = super::begin(args, &facts)?;
        let begun = Self::beside(&run, looking, super::kernel::throttled_permille(args));
        match begun {
            Ok((directory, watch, clock)) => Ok(Self { run, manifest, facts, directory, watch, clock }),
            Err(error) => {
                discard(&run);
                Err(error)
            }
        }
    }

    fn beside(
        run: &RunDir,
        looking: KernelChoice,
        throttled_permille: u32,
    ) -> anyhow::Result<(PathBuf, KernelWatch, Clockwork)> {
        let directory = sync::directory(run);
        std::fs::create_dir(&directory)
            .with_context(|| format!("making directory {}", directory.display()))?;
        let directory = std::path::absolute(&directory).unwrap_or(directory);
        let watch = KernelWatch::begin(looking, &sync::kernel_segment(run), throttled_permille)?;
        let clock = Clockwork::start(&sync::anchors_segment(&directory))?;
        Ok((directory, watch, clock))
    }

    /// Runs the program to its end.
    fn run(
        mut self,
        args: &SyncArgs,
        signals: Signals,
        preload: Option<&OsStr>,
        compensation: Option<Prepared>,
    ) -> anyhow::Result<u8> {
        let directory = &self.directory;
        let log = sync::compensation_segment(&self.run);
        let compensating = compensation.map(|prepared| prepared.start(directory, &log)).transpose();
        let compensating = compensating.inspect_err(|_| discard(&self.run))?;
        let launch = Launch { words: &args.program, preload, directory, signals: Some(&signals) };
        let slept = sleeps_of_children();
        let launched = Launched::start(&launch).map_err(|error| {
            discard(&self.run);
            not_started(error)
        })?;
        (self.facts.pid, self.facts.started_ns) = (launched.pid(), now_ns());
        let tick = if self.watch.is_looking() { TICK } else { IDLE_TICK };
        let (status, signalled) = tend(launched, &signals, tick, || {
            self.watch.drain();
            self.clock.tick();
        })?;
        self.facts.own_threads = own_threads();
        self.facts.sleeps = Some(sleeps_of_children().saturating_sub(slept));
        self.facts.compensation = compensating.and_then(compensate::Running::finish);
        // From here on Ctrl-C is ours again.
        drop(signals);
        (self.facts.status, self.facts.ended_ns) = (Some(status), now_ns());
        if let Err(error) = self.tell(args, signalled) {
            say(&sentence(&error));
        }
        Ok(status)
    }

    /// Analyses, stores and prints what was recorded.
    fn tell(self, args: &SyncArgs, signalled: bool) -> anyhow::Result<()> {
        let Self { run, mut manifest, watch, clock, .. } = self;
        clock.finish();
        let facts = SyncFacts { kernel: watch.finish(), ..self.facts };
        manifest.lost.events = facts.kernel.lost;
        sync::set_facts(&mut manifest, &facts)?;
        let cut_short = signalled.then(|| "interrupted by the user".to_owned());
        manifest.end(quaver_clock::realtime_ns(), cut_short);
        let digest = super::conclude(&run, manifest, args.quiet)?;
        super::print(args, &digest, &run, facts.status.unwrap_or_default())
    }
}

/// A run directory in which nothing was measured is of no use.
fn discard(run: &RunDir) {
    let _ = std::fs::remove_dir_all(run.path());
}

/// Runs the program as if we were not there.
fn unrecorded(args: &SyncArgs, signals: &Signals) -> anyhow::Result<u8> {
    let launch =
        Launch { words: &args.program, preload: None, directory: Path::new("/"), signals: Some(signals) };
    let launched = Launched::start(&launch).map_err(not_started)?;
    Ok(tend(launched, signals, IDLE_TICK, || ())?.0)
}

/// Finds the program and looks at what it is.
fn look_at(args: &SyncArgs) -> anyhow::Result<Program> {
    let search = std::env::var_os("PATH");
    let name = &args.program[0];
    let path = program::find(name, search.as_deref());
    let path =
        path.ok_or_else(|| failure(ExitCode::Usage, LaunchError::NotFound(name.clone()).to_string()))?;
    Ok(program::inspect(&path, search.as_deref()))
}

/// The value of `LD_PRELOAD`; none where the recorder must not be offered.
fn preloaded(program: &Program) -> anyhow::Result<Option<OsString>> {
    let recorder = crate::record::recorder()?;
    if program.obstacles.iter().any(Obstacle::forbids_preload) {
        return Ok(None);
    }
    Ok(Some(preload(&recorder, std::env::var_os(PRELOAD_VARIABLE).as_deref())))
}

fn facts(args: &SyncArgs, program: &Program) -> SyncFacts {
    let seen = program.interpreter.as_deref().unwrap_or(&program.path);
    SyncFacts {
        program: args.program.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        path: seen.display().to_string(),
        obstacles: program.obstacles.iter().map(|obstacle| obstacle.sentence(seen)).collect(),
        kept_out: program.obstacles.iter().any(Obstacle::keeps_out),
        cpus: allowed_cpus().ok().map(|cpus| cpus.len() as u32),
        threshold_ns: args.threshold.as_nanos() as u64,
        system_call_threshold_ns: args.system_call_threshold.as_nanos() as u64,
        count_all: args.count_all,
        call_sites: args.call_sites,
        ..SyncFacts::default()
    }
}

fn not_started(error: LaunchError) -> anyhow::Error {
    let code = match error {
        LaunchError::NotFound(_) => ExitCode::Usage,
        LaunchError::NotPermitted(_) => ExitCode::Unsupported,
        LaunchError::Os { .. } => ExitCode::Output,
    };
    failure(code, sentence(&anyhow::Error::new(error)))
}

/// Waits for the program, passes signals on, and does `each` at each tick and at the end. The answer is its status and whether
/// somebody asked it to end.
fn tend(
    mut launched: Launched,
    signals: &Signals,
    tick: Duration,
    mut each: impl FnMut(),
) -> anyhow::Result<(u8, bool)> {
    let mut signalled = false;
    loop {
        let ended = launched.wait(tick, Some(signals)).context("waiting for the program")?;
        while let Some(sent) = signals.next() {
            signalled |= ![libc::SIGUSR1, libc::SIGUSR2].contains(&sent.number);
            if !sent.by_terminal {
                launched.signal(sent.number);
            }
        }
        each();
        if let Some(status) = ended {
            return Ok((shell_status(status), signalled));
        }
    }
}

/// Ties the recorders' cycles to the kernel's clock: a program that is killed cannot do that at its own end. Where keeping
/// an anchor fails, those of the recorders have to do.
struct Clockwork {
    keeper: AnchorKeeper,
    anchors: SegmentAppender<AnchorRecord>,
}

impl Clockwork {
    fn start(path: &Path) -> anyhow::Result<Self> {
        let keeper = AnchorKeeper::start(CounterSupport::detect(Path::new("/")).counter);
        let mut anchors = SegmentAppender::create(path)?;
        for anchor in keeper.anchors() {
            anchors.append(anchor)?;
        }
        Ok(Self { keeper, anchors })
    }

    fn tick(&mut self) {
        if let Some(anchor) = self.keeper.tick() {
            let _ = self.anchors.append(&anchor);
        }
    }

    fn finish(mut self) {
        let _ = self.anchors.append(&self.keeper.take()).and_then(|()| self.anchors.finish());
    }
}
