//! A program that is run again and again. It inherits CPUs and class of the thread that starts it, so the journal changes those
//! of that thread, and they go with it.

use super::burden::Bystanders;
use super::trial::BlockEnd;
use crate::objective::{Measured, Objective, ProgramRun};
use crate::summary::{CodeAdvice, FoundCause};
use anyhow::Context;
use quaver_cure_analysis::Burden;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::Interrupt;
use quaver_launch::launch::{cpu_of_children, shell_status};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::Deserialize;
use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Time between looks at whether we were asked to end.
const LOOK: Duration = Duration::from_millis(100);

/// A program with its arguments.
pub(super) struct Program<'a> {
    words: Vec<OsString>,
    objective: Objective,
    /// Where its recordings are made.
    directory: PathBuf,
    /// Time of its first run, seconds.
    first_s: Cell<Option<f64>>,
    interrupt: &'a Interrupt,
}

/// What the first run showed.
#[derive(Clone, Debug, Default)]
pub(super) struct Studied {
    /// Parts of the threads' time, the largest first.
    pub(super) parts: Vec<FoundCause>,
    pub(super) advice: Vec<CodeAdvice>,
    /// Part of the threads' time in run queues behind each other.
    pub(super) crowded: f64,
    /// The same behind others.
    pub(super) behind_others: f64,
    /// Its directory.
    pub(super) run: String,
}

/// What is read of `summary.json` of `quaver sync`.
#[derive(Deserialize)]
struct Recorded {
    facts: Facts,
    results: Results,
    contention: Contention,
    advice: Vec<CodeAdvice>,
}

#[derive(Deserialize)]
struct Facts {
    started_ns: u64,
    ended_ns: u64,
}

#[derive(Deserialize)]
struct Results {
    late: Late,
}

#[derive(Deserialize)]
struct Late {
    total_ns: u64,
}

#[derive(Deserialize)]
struct Contention {
    crowded_ns: u64,
    threads: Vec<Thread>,
}

#[derive(Deserialize)]
struct Thread {
    first_ns: u64,
    last_ns: u64,
    lock_ns: u64,
    condition_ns: u64,
    semaphore_ns: u64,
    barrier_ns: u64,
    join_ns: u64,
    futex_ns: u64,
    run_queue_ns: u64,
    spin_ns: u64,
    #[serde(default)]
    quota_ns: u64,
}

/// A part of a thread's time: its name, in words, and its nanoseconds.
type Part = (&'static str, &'static str, fn(&Thread) -> u64);

/// Those that are shown.
const PARTS: [Part; 9] = [
    ("lock", "waits for locks", |one| one.lock_ns),
    ("condition", "waits for conditions", |one| one.condition_ns),
    ("semaphore", "waits for semaphores", |one| one.semaphore_ns),
    ("barrier", "waits at barriers", |one| one.barrier_ns),
    ("join", "waits for the end of threads", |one| one.join_ns),
    ("futex", "futex calls of its own", |one| one.futex_ns),
    ("run-queue", "could run and did not", |one| one.run_queue_ns),
    ("spin", "loops that wait for others", |one| one.spin_ns),
    ("quota", "CPU quota of its control group", |one| one.quota_ns),
];

impl Recorded {
    fn lived_ns(&self) -> f64 {
        let lived = self.contention.threads.iter().map(|one| one.last_ns - one.first_ns);
        lived.sum::<u64>().max(1) as f64
    }

    fn run(&self) -> ProgramRun {
        ProgramRun {
            took_ns: self.facts.ended_ns - self.facts.started_ns,
            sync_share: Some(self.results.late.total_ns as f64 / self.lived_ns()),
        }
    }

    fn studied(self, run: &Path) -> Studied {
        let lived_ns = self.lived_ns();
        let threads = &self.contention.threads;
        let part = |&(source, name, of): &Part| FoundCause {
            source: source.to_owned(),
            name: name.to_owned(),
            share: threads.iter().map(of).sum::<u64>() as f64 / lived_ns,
        };
        let mut parts: Vec<FoundCause> = PARTS.iter().map(part).filter(|one| one.share > 0.0).collect();
        parts.sort_by(|one, other| other.share.total_cmp(&one.share));
        let queued_ns: u64 = threads.iter().map(|one| one.run_queue_ns).sum();
        let crowded_ns = self.contention.crowded_ns;
        Studied {
            parts,
            advice: self.advice,
            crowded: crowded_ns as f64 / lived_ns,
            behind_others: queued_ns.saturating_sub(crowded_ns) as f64 / lived_ns,
            run: run.display().to_string(),
        }
    }
}

impl<'a> Program<'a> {
    pub(super) fn new(
        words: &[OsString],
        objective: Objective,
        directory: &Path,
        interrupt: &'a Interrupt,
    ) -> Self {
        let (words, directory) = (words.to_vec(), directory.to_owned());
        Self { words, objective, directory, first_s: Cell::new(None), interrupt }
    }

    /// Runs it under `quaver sync`, which sees where its threads' time goes. Nothing where the user ended it.
    pub(super) fn study(&self) -> anyhow::Result<Studied> {
        let Some((run, recorded)) = self.recorded(&[])? else { return Ok(Studied::default()) };
        Ok(recorded.studied(&run))
    }

    /// One run as a block.
    pub(super) fn block(&self, bystanders: &Bystanders) -> anyhow::Result<BlockEnd> {
        let before = bystanders.counters();
        let before_s = cpu_of_children().as_secs_f64();
        let run = if self.objective == Objective::SyncShare {
            let Some((run, recorded)) = self.recorded(&[OsStr::new("--no-kernel")])? else {
                return Ok(BlockEnd::Interrupted);
            };
            std::fs::remove_dir_all(&run).with_context(|| format!("removing {}", run.display()))?;
            recorded.run()
        } else {
            let mut command = Command::new(&self.words[0]);
            command.args(&self.words[1..]).stderr(Stdio::null());
            let began = Instant::now();
            let Some(status) = self.wait(command)? else { return Ok(BlockEnd::Interrupted) };
            let took_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.check(status)?;
            ProgramRun { took_ns, sync_share: None }
        };
        let took_s = run.took_ns.max(1) as f64 / 1e9;
        let first_s = self.first_s.get().unwrap_or(took_s);
        self.first_s.set(Some(first_s));
        let borne = bystanders.since(&before);
        // A run that takes the same time and energy in a shorter time is not dearer.
        let burden = Burden {
            busy_cpus: (cpu_of_children().as_secs_f64() - before_s) / first_s,
            power_w: borne.power_w.map(|watts| watts * took_s / first_s),
            ..borne
        };
        let figures = self.objective.figures(Measured::Program(run), took_s, burden);
        figures.map(BlockEnd::Measured).context("a run of the program measured nothing")
    }

    /// A run under `quaver sync`, and what it says. None where the user ended it.
    fn recorded(&self, options: &[&OsStr]) -> anyhow::Result<Option<(PathBuf, Recorded)>> {
        std::fs::create_dir_all(&self.directory)
            .with_context(|| format!("making {}", self.directory.display()))?;
        let said = self.directory.join("sync.txt");
        let ourselves = std::env::current_exe().context("finding this program's own path")?;
        let mut command = Command::new(ourselves);
        command.args(["sync", "--quiet", "--output"]).arg(&self.directory).args(options);
        command.arg("--").args(&self.words);
        command.stderr(std::fs::File::create(&said).with_context(|| format!("making {}", said.display()))?);
        let Some(status) = self.wait(command)? else { return Ok(None) };
        let runs = std::fs::read_dir(&self.directory)
            .with_context(|| format!("listing {}", self.directory.display()))?;
        let mut runs: Vec<PathBuf> = runs
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.join("summary.json").is_file())
            .collect();
        runs.sort();
        let Some(run) = runs.pop() else {
            let why = std::fs::read_to_string(&said).unwrap_or_default();
            let message = format!("{} cannot be recorded: {}", self.words[0].display(), why.trim());
            let is_usage = status.code() == Some(ExitCode::Usage as i32);
            return Err(failure(if is_usage { ExitCode::Usage } else { ExitCode::Unsupported }, message));
        };
        self.check(status)?;
        let recorded = quaver_store::run::RunDir::open(&run)?.read_summary()?;
        Ok(Some((run, recorded)))
    }

    /// A program that fails does not do its work, and the time of that is no figure.
    fn check(&self, status: ExitStatus) -> anyhow::Result<()> {
        if status.success() {
            return Ok(());
        }
        let message = format!(
            "{} ended with status {}: a run that fails measures nothing; see that it succeeds again and again",
            self.words[0].display(),
            shell_status(status)
        );
        Err(failure(ExitCode::Peer, message))
    }

    /// Starts it and waits for its end. None where it was ended, since the user ended us.
    fn wait(&self, mut command: Command) -> anyhow::Result<Option<ExitStatus>> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.spawn().map_err(|error| {
            let name = self.words[0].display();
            failure(ExitCode::Usage, format!("starting {name}: {error}; check its name and PATH"))
        })?;
        self.until_it_ends(&mut child).context("waiting for the program")
    }

    fn until_it_ends(&self, child: &mut Child) -> std::io::Result<Option<ExitStatus>> {
        let gone = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
        let look = Timespec::try_from(LOOK).ok();
        loop {
            match poll(&mut [PollFd::new(&gone, PollFlags::IN)], look.as_ref()) {
                Ok(1..) => return child.wait().map(|status| (!self.interrupt.requested()).then_some(status)),
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if self.interrupt.requested() {
                quaver_waiting::end_program(child)?;
                return Ok(None);
            }
        }
    }
}
