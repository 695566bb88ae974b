//! One run of a program: unrecorded, recorded, or recorded with the kernel's side.

use anyhow::Context;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::Interrupt;
use quaver_launch::recorder::{OUTPUT_VARIABLE, PRELOAD_VARIABLE, preload};
use quaver_sync_analysis::bench::RunFigures;
use quaver_sync_analysis::sync::{Settings, SyncResults};
use quaver_waiting::end_program;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time between looks at whether we were asked to end.
const LOOK: Duration = Duration::from_millis(500);

/// What a run took and printed.
pub(super) struct RunOutput {
    /// Just before it was started, CLOCK_MONOTONIC.
    pub(super) started_ns: i64,
    pub(super) took_ns: u64,
    pub(super) line: String,
}

/// A program with its arguments, and what it is recorded with.
pub(super) struct Runner<'a> {
    pub(super) name: &'a str,
    pub(super) program: &'a Path,
    pub(super) arguments: &'a [OsString],
    /// It is the user's: what it prints is nobody's business, and may be much.
    pub(super) silent: bool,
    pub(super) recorder: &'a Path,
    pub(super) settings: Settings,
    pub(super) interrupt: &'a Interrupt,
}

impl Runner<'_> {
    /// As it is. None where we were asked to end meanwhile.
    pub(super) fn unrecorded(&self) -> anyhow::Result<Option<RunOutput>> {
        self.time(Command::new(self.program).args(self.arguments))
    }

    /// Under the recorder, which writes into a directory that is made for it.
    pub(super) fn recorded(&self, directory: &Path) -> anyhow::Result<Option<(RunOutput, RunFigures)>> {
        make(directory)?;
        let preloaded = preload(self.recorder, std::env::var_os(PRELOAD_VARIABLE).as_deref());
        let mut command = Command::new(self.program);
        command.args(self.arguments).env(PRELOAD_VARIABLE, preloaded).env(OUTPUT_VARIABLE, directory);
        let Some(ran) = self.time(&mut command)? else { return Ok(None) };
        let results = crate::digest::results_of(directory, &self.settings)?;
        if results.counts.events == 0 {
            let reason = said_by_the_recorder(directory).unwrap_or_else(|| "it wrote nothing".to_owned());
            return Err(failure(
                ExitCode::Unsupported,
                format!("the recorder saw nothing of {}: {reason}", self.name),
            ));
        }
        Ok(Some((ran, RunFigures::of(&results))))
    }

    /// By `quaver sync`, which looks at the kernel as well. The answer has no time that could be compared.
    pub(super) fn watched(&self, directory: &Path) -> anyhow::Result<Option<RunFigures>> {
        make(directory)?;
        let ourselves = std::env::current_exe().context("finding this program's own path")?;
        let mut command = Command::new(ourselves);
        command.args(["sync", "--quiet", "--output"]).arg(directory);
        command.args(["--threshold", &format!("{}ns", self.settings.threshold_ns)]);
        if self.settings.count_all {
            command.arg("--count-all");
        }
        command.arg("--").arg(self.program).args(self.arguments);
        if self.time(&mut command)?.is_none() {
            return Ok(None);
        }
        let run = std::fs::read_dir(directory)
            .with_context(|| format!("listing {}", directory.display()))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.join("summary.json").is_file());
        let Some(run) = run else { return Ok(None) };
        #[derive(serde::Deserialize)]
        struct Summary {
            results: SyncResults,
        }
        let summary: Summary = quaver_store::run::RunDir::open(&run)?.read_summary()?;
        Ok(Some(RunFigures::of(&summary.results)))
    }

    /// Runs a command to its end and takes its time, from before it is started until it is gone.
    fn time(&self, command: &mut Command) -> anyhow::Result<Option<RunOutput>> {
        let stream = || if self.silent { Stdio::null() } else { Stdio::piped() };
        command.stdin(Stdio::null()).stdout(stream()).stderr(stream());
        let (started_ns, started) = (quaver_clock::monotonic_ns(), Instant::now());
        let child = command.spawn().with_context(|| format!("starting {}", self.program.display()))?;
        let Some((child, took)) = self.wait(child, started)? else { return Ok(None) };
        let (line, told) = output(child)?;
        let Some(line) = line else {
            if self.interrupt.requested() {
                return Ok(None);
            }
            return Err(failure(ExitCode::Output, format!("{} failed: {}", self.name, told.trim())));
        };
        Ok(Some(RunOutput { started_ns, took_ns: took.as_nanos() as u64, line }))
    }

    /// Waits for its end; it is ended when we are asked to end.
    fn wait(&self, mut child: Child, started: Instant) -> anyhow::Result<Option<(Child, Duration)>> {
        let gone =
            pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).context("watching the program")?;
        let look = Timespec::try_from(LOOK).ok();
        loop {
            let ready = poll(&mut [PollFd::new(&gone, PollFlags::IN)], look.as_ref());
            let took = started.elapsed();
            match ready {
                Ok(1..) => return Ok(Some((child, took))),
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(std::io::Error::from(error)).context("waiting for the program"),
            }
            if self.interrupt.requested() {
                // `quaver sync` passes the signal on to its program.
                end_program(&mut child).context("waiting for the program")?;
                return Ok(None);
            }
        }
    }
}

/// What it printed, where it ended with status 0; and what it said on standard error. Both are a line or two, which the pipes
/// have room for, so that they can be read when all is over.
fn output(mut child: Child) -> anyhow::Result<(Option<String>, String)> {
    let (mut line, mut told) = (String::new(), String::new());
    if let Some(mut pipe) = child.stdout.take() {
        pipe.read_to_string(&mut line).context("reading what the program printed")?;
    }
    if let Some(mut pipe) = child.stderr.take() {
        pipe.read_to_string(&mut told).context("reading what the program said")?;
    }
    let status = child.wait().context("waiting for the program")?;
    if told.trim().is_empty() {
        told = format!("{status} {line}");
    }
    Ok((status.success().then_some(line), told))
}

fn make(directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory).with_context(|| format!("making directory {}", directory.display()))
}

/// Why the recorder could not start, in its own words.
fn said_by_the_recorder(directory: &Path) -> Option<String> {
    let failed = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "failed");
    let path =
        std::fs::read_dir(directory).ok()?.filter_map(|entry| Some(entry.ok()?.path())).find(failed)?;
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}
