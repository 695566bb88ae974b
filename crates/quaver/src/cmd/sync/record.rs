//! A program run under the recorder.

use super::kernel::KernelWatch;
use crate::cli::sync::SyncArgs;
use crate::digest::sync::{self, SyncFacts};
use crate::exit_code::{ExitCode, failure, sentence};
use crate::host_state::allowed_cpus;
use anyhow::Context;
use quaver_abi::record::AnchorRecord;
use quaver_measure::clock::{AnchorKeeper, CounterSupport};
use quaver_measure::segment::SegmentAppender;
use quaver_measure::sync::kernel::Followed;
use quaver_measure::sync::launch::{Launch, LaunchError, Launched, shell_status};
use quaver_measure::sync::program::{self, Obstacle, Program};
use quaver_measure::sync::recorder::{PRELOAD_VARIABLE, preload};
use quaver_measure::sync::signals::Signals;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// Time between looks at the kernel's memory.
const TICK: Duration = Duration::from_millis(20);
/// The same where nothing is to be read: the clock is looked at as often.
const IDLE_TICK: Duration = Duration::from_millis(100);

/// Runs it, then tells. The answer is the program's status as a shell would show it.
pub(super) fn run(args: &SyncArgs) -> anyhow::Result<u8> {
    let signals = Signals::take().context("holding back signals for the program")?;
    let program = look_at(args)?;
    let preloaded = preloaded(&program)?;
    let facts = facts(args, &program);
    if !args.quiet {
        facts.obstacles.iter().for_each(|sentence| eprintln!("quaver: {sentence}"));
    }
    let (run, mut manifest) = super::begin(args, &facts)?;
    let directory = sync::directory(&run);
    std::fs::create_dir(&directory).with_context(|| format!("making directory {}", directory.display()))?;
    let directory = std::path::absolute(&directory).unwrap_or(directory);
    let mut watch = KernelWatch::start(args, Followed::Children, &sync::kernel_segment(&run))?;
    let launch = Launch {
        words: &args.program,
        preload: preloaded.as_deref(),
        directory: &directory,
        signals: Some(&signals),
    };
    let launched = Launched::start(&launch).map_err(|error| not_started(error, &run))?;
    let mut facts = SyncFacts { pid: launched.pid(), started_ns: now_ns(), ..facts };
    let mut clock = Clockwork::start(&sync::anchors_segment(&directory))?;
    let (status, signalled) = tend(launched, &signals, &mut watch, &mut clock)?;
    clock.finish()?;
    // From here on Ctrl-C is ours again.
    drop(signals);
    facts.ended_ns = now_ns();
    facts.status = Some(status);
    facts.kernel = watch.finish();
    manifest.lost.events = facts.kernel.lost;
    sync::set_facts(&mut manifest, &facts)?;
    let cut_short = signalled.then(|| "interrupted by the user".to_owned());
    manifest.end(quaver_measure::clock::realtime_ns(), cut_short);
    let told =
        sync::conclude(&run, manifest, args.quiet).and_then(|digest| super::print(args, &digest, &run));
    match told {
        Ok(()) => Ok(status),
        // What the program has to say by its status goes before our own troubles.
        Err(error) if status != 0 => {
            eprintln!("quaver: {}", sentence(&error));
            Ok(status)
        }
        Err(error) => Err(error),
    }
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
    let recorder = super::recorder()?;
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
        count_all: args.count_all,
        call_sites: args.call_sites,
        ..SyncFacts::default()
    }
}

/// A run directory in which nothing was measured is of no use.
fn not_started(error: LaunchError, run: &quaver_store::run::RunDir) -> anyhow::Error {
    let _ = std::fs::remove_dir_all(run.path());
    let code = match error {
        LaunchError::NotFound(_) => ExitCode::Usage,
        LaunchError::NotPermitted(_) => ExitCode::Unsupported,
        LaunchError::Os { .. } => ExitCode::Output,
    };
    failure(code, error.to_string())
}

/// Waits for the program, passes signals on, and reads the kernel's memory meanwhile. The answer is its status and whether
/// somebody asked it to end.
fn tend(
    mut launched: Launched,
    signals: &Signals,
    watch: &mut KernelWatch,
    clock: &mut Clockwork,
) -> anyhow::Result<(u8, bool)> {
    let tick = if watch.is_looking() { TICK } else { IDLE_TICK };
    let mut signalled = false;
    loop {
        let ended = launched.wait(tick, Some(signals)).context("waiting for the program")?;
        while let Some(sent) = signals.next() {
            signalled |= ![libc::SIGUSR1, libc::SIGUSR2].contains(&sent.number);
            if !sent.by_terminal {
                launched.signal(sent.number);
            }
        }
        watch.drain();
        clock.tick();
        if let Some(status) = ended {
            return Ok((shell_status(status), signalled));
        }
    }
}

pub(super) fn now_ns() -> u64 {
    quaver_measure::clock::monotonic_ns().cast_unsigned()
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

    fn finish(mut self) -> anyhow::Result<()> {
        self.anchors.append(&self.keeper.take())?;
        self.anchors.finish()?;
        Ok(())
    }
}
