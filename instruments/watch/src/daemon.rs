//! The service: threads that watch, the thread that writes incidents, signals, and the watch's own cost.

use crate::board::Board;
use crate::config::{Settings, make_directory};
use crate::cpus;
use crate::incident::{Hook, Keeper};
use crate::outbox::Outbox;
use crate::paths::PathWatch;
use crate::receiver::Watchman;
use crate::serve;
use crate::threads::ThreadsWatch;
use anyhow::Context;
use quaver_exposition::{Access, ProcessMeter};
use quaver_host::confinement::WATCH;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::Interrupt;
use rustix::fs::{FlockOperation, flock};
use signal_hook::consts::{SIGHUP, SIGUSR1};
use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(100);
/// Time that frozen windows get to be written once the watch is asked to end.
const LAST_INCIDENTS: Duration = Duration::from_secs(60);
/// Time over which the CPU share is taken, and between two looks at the CPU time.
const COST: Duration = Duration::from_secs(10);
const COST_LOOK: Duration = Duration::from_secs(1);

/// Watches until SIGTERM or Ctrl-C.
pub(crate) fn run(file: &Path) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    let mut settings = Arc::new(Settings::read(file)?);
    let access = Access::read(&settings.metrics_access)?;
    let interrupt = Interrupt::catch_but_hangup()?;
    let (reload, trigger) = (flag(SIGHUP)?, flag(SIGUSR1)?);
    make_directory(&settings.directory)?;
    let _lock = lock(&settings.directory)?;
    let hook = Hook::start(settings.hook.clone())?;
    give_up_rights();
    let board = Arc::new(Board::default());
    let keeper = Keeper::open(&settings.directory, settings.limits.clone(), Arc::clone(&board), hook)?;
    let _socket = serve::listen_here(&settings.socket, &board)?;
    settings.metrics.map_or(Ok(()), |address| serve::listen_at(address, access, &board))?;
    let outbox = Arc::new(Outbox::new(Arc::clone(&board), settings.limits.waiting_bytes()));
    let (orders, ordered) = channel();
    let writer = start_writer(keeper, &outbox, ordered)?;
    let mut team = Team::start(&settings, &board, &outbox)?;
    let mut cost = CostWatch::start(began, &board);
    while !interrupt.requested() {
        std::thread::sleep(TICK);
        if trigger.swap(false, Ordering::Relaxed) {
            let asked = board.ask(None);
            asked
                .err()
                .into_iter()
                .for_each(|error| quaver_instrument::tell!("quaver watch: SIGUSR1: {error}"));
        }
        cost.tick(&board, settings.limits.cpu_percent);
        outbox.look();
        if !reload.swap(false, Ordering::Relaxed) {
            continue;
        }
        match Settings::read(file).and_then(|new| check_reload(&settings, new)) {
            Err(error) => quaver_instrument::tell!("quaver watch: the settings stay as they were: {error:#}"),
            Ok(new) if new == *settings => {
                quaver_instrument::tell!("quaver watch: the settings are the same")
            }
            Ok(new) => {
                team.end()?;
                settings = Arc::new(new);
                // The writer takes them before its next incident: it may be held up by a slow disk.
                let _ = orders.send(Arc::clone(&settings));
                outbox.set_most(settings.limits.waiting_bytes());
                team = Team::start(&settings, &board, &outbox)?;
                quaver_instrument::tell!("quaver watch: new settings are in force");
            }
        }
    }
    team.end()?;
    outbox.end();
    // Frozen windows are still analysed and kept. Supervisors wait longer than this (systemd: 90 s).
    let asked = Instant::now();
    while !writer.is_finished() && asked.elapsed() < LAST_INCIDENTS {
        std::thread::sleep(TICK);
    }
    let lost = if writer.is_finished() {
        0
    } else {
        outbox.give_up("it was not written within a minute of the end")
    };
    if writer.is_finished() && quaver_waiting::join("the writer of incidents", writer)?.is_err() {
        quaver_instrument::tell!("quaver watch: the writer of incidents ended by a bug");
    }
    cost.measure(&board);
    quaver_instrument::results::to_stdout(serve::last_words(&board).as_bytes())?;
    Ok(if lost > 0 { ExitCode::Output } else { ExitCode::Done })
}

/// Before the first packet is followed: all rights but those to trace, and to read what other processes are. Landlock has to
/// stay out: whom it holds may not read the memory maps of others.
fn give_up_rights() {
    WATCH.keep(None);
}

fn flag(signal: i32) -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal, Arc::clone(&flag)).context("catching signals")?;
    Ok(flag)
}

/// Sockets and the directory stay for as long as the process lives.
fn check_reload(old: &Settings, new: Settings) -> anyhow::Result<Settings> {
    let fixed = |settings: &Settings| {
        let Settings { directory, socket, metrics, metrics_access, .. } = settings.clone();
        (directory, socket, metrics, metrics_access)
    };
    if fixed(old) != fixed(&new) {
        let message = "directory, socket, metrics and metrics_access change by a restart only";
        return Err(failure(ExitCode::Usage, message));
    }
    // Its thread has to be there before the watch gives up the right to start programs.
    let starts = |settings: &Settings| settings.hook.as_ref().is_some_and(|hook| !hook.command.is_empty());
    if starts(old) != starts(&new) {
        return Err(failure(ExitCode::Usage, "the command of a hook comes and goes by a restart only"));
    }
    Ok(new)
}

/// Keeps another watch from this directory for as long as it lives.
fn lock(directory: &Path) -> anyhow::Result<File> {
    let path = directory.join("lock");
    let file = File::create(&path).with_context(|| format!("make {}", path.display()))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        failure(
            ExitCode::Usage,
            format!(
                "another watch keeps its incidents in {}; end it, or give this one another directory",
                directory.display()
            ),
        )
    })?;
    Ok(file)
}

fn start_writer(
    mut keeper: Keeper,
    outbox: &Arc<Outbox>,
    ordered: Receiver<Arc<Settings>>,
) -> anyhow::Result<JoinHandle<()>> {
    let outbox = Arc::clone(outbox);
    let writer = quaver_waiting::start("watch-incidents", move || {
        // The analysis is in no hurry; what is watched may be.
        let _ = rustix::process::nice(10);
        while let Some(frozen) = outbox.take() {
            ordered.try_iter().for_each(|new| keeper.set(new.limits.clone(), new.hook.clone()));
            keeper.keep(frozen);
            give_memory_back();
        }
        keeper.finish();
    })?;
    Ok(writer)
}

/// Returns to the system what the allocator has free. An analysis takes tens of MiB, which the allocator would keep for the next one.
fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) is thread-safe, takes no pointer, and touches no memory that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// The threads of all receivers and paths, and the one that watches threads.
struct Team {
    end: Interrupt,
    threads: Vec<JoinHandle<()>>,
}

impl Team {
    fn start(settings: &Arc<Settings>, board: &Arc<Board>, outbox: &Arc<Outbox>) -> anyhow::Result<Self> {
        let receivers = settings.receivers.iter().map(|receiver| receiver.name.as_str()).collect();
        let tables = settings.threads.iter().map(|table| table.name.as_str()).collect();
        board.retain(&receivers, &tables, &settings.paths.iter().map(|path| path.name.as_str()).collect());
        let end = Interrupt::default();
        let start = |receiver: &crate::config::ReceiverSettings| {
            let watchman = Watchman {
                settings: receiver.clone(),
                all: Arc::clone(settings),
                board: Arc::clone(board),
                outbox: Arc::clone(outbox),
                end: end.clone(),
            };
            quaver_waiting::start("watch-receiver", move || watchman.run())
        };
        let mut threads = settings.receivers.iter().map(start).collect::<Result<Vec<_>, _>>()?;
        for path in settings.paths.clone() {
            let watch = PathWatch {
                settings: path,
                all: Arc::clone(settings),
                board: Arc::clone(board),
                outbox: Arc::clone(outbox),
                end: end.clone(),
            };
            threads.push(quaver_waiting::start("watch-path", move || watch.run())?);
        }
        if !settings.threads.is_empty() {
            let watch = ThreadsWatch {
                all: Arc::clone(settings),
                board: Arc::clone(board),
                outbox: Arc::clone(outbox),
                end: end.clone(),
            };
            threads.push(quaver_waiting::start("watch-threads", move || watch.run())?);
        }
        if let Some(cpus) = settings.cpus.clone() {
            let (board, end) = (Arc::clone(board), end.clone());
            threads.push(quaver_waiting::start("watch-cpus", move || {
                let publish = |last: &_, now: &_| board.cpus(|sums| cpus::add_since(sums, last, now));
                cpus::run(&cpus, &publish, &end);
            })?);
        }
        Ok(Self { end, threads })
    }

    fn end(self) -> anyhow::Result<()> {
        self.end.request();
        for thread in self.threads {
            if quaver_waiting::join("a watching thread", thread)?.is_err() {
                quaver_instrument::tell!("quaver watch: a watching thread ended by a bug");
            }
        }
        Ok(())
    }
}

/// CPU time and memory of this process.
struct CostWatch {
    /// CPU time at the latest instants, the oldest first.
    looks: VecDeque<(Instant, u64)>,
    meter: ProcessMeter,
    /// When it was last compared with the limit.
    judged: Instant,
    above: bool,
}

impl CostWatch {
    /// `began` is when the program did.
    fn start(began: Instant, board: &Board) -> Self {
        let mut watch = Self {
            looks: VecDeque::from([(began, 0)]),
            meter: ProcessMeter::open(),
            judged: began,
            above: false,
        };
        watch.measure(board);
        watch
    }

    fn tick(&mut self, board: &Board, most_percent: f64) {
        if self.looks.back().is_some_and(|(at, _)| at.elapsed() < COST_LOOK) {
            return;
        }
        let percent = self.measure(board);
        if self.judged.elapsed() < COST {
            return;
        }
        self.judged = Instant::now();
        let above = percent > most_percent;
        if above && !self.above {
            let seconds = COST.as_secs();
            quaver_instrument::tell!(
                "quaver watch: its own CPU time was {percent:.1} % in {seconds} s, above the {most_percent} % of limits.cpu_percent"
            );
        }
        self.above = above;
    }

    /// Publishes the cost up to now; the answer is the share of a CPU.
    fn measure(&mut self, board: &Board) -> f64 {
        let (now, spent) = (Instant::now(), self.meter.read());
        self.looks.push_back((now, spent.cpu_ns));
        while self.looks.len() > 2 && self.looks[1].0.elapsed() >= COST {
            self.looks.pop_front();
        }
        let (since, since_ns) = self.looks[0];
        let elapsed_ns = now.duration_since(since).as_nanos().max(1);
        let percent = (spent.cpu_ns - since_ns) as f64 / elapsed_ns as f64 * 100.0;
        board.set_cost(|cost| {
            (cost.cpu_ns, cost.cpu_percent, cost.resident_bytes) =
                (spent.cpu_ns, percent, spent.resident_bytes);
        });
        percent
    }
}
