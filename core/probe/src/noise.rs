//! Noise of the machine itself, without any network: busy loops that notice when they are kept from running.
//!
//! Two programs. [`NoisePlan::Paced`] is the dummy program of Chasing: it waits busily for absolute deadlines
//! and takes a timestamp at each. [`NoisePlan::Tight`] does nothing but read the counter, and records each turn
//! that took longer than a threshold.
//!
//! The start has two phases, because a tracer must know the threads before they run: [`NoiseRun::prepare`]
//! makes the threads ready and reports them, [`NoiseRun::go`] starts the loops.

mod turns;

pub use turns::{LoopProgress, LoopStatistics};

use crate::thread::{PreparedThread, SettingRefused, ThreadSettings, ThreadUsage};
use quaver_abi::record::GapRecord;
use quaver_clock::{Counter, HardwareCounter, MonotonicCounter, nominal_scale};
use quaver_host::segment::{SegmentProgress, SegmentSummary, SegmentWriteError, SegmentWriter};
use quaver_waiting as waiting;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use turns::{PacedLimits, TightLimits, paced_loop, tight_loop};

/// Period of the paper's dummy program: that of its video packets.
pub const PAPER_PERIOD_NS: u64 = 7_410;
/// Timestamps that the dummy program takes.
pub const PAPER_COUNT: u64 = 1_000_000;

/// Which loop to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoisePlan {
    /// One record a deadline: [`GapRecord::before_cycles`] is the deadline, `after_cycles` the stamp. Deadlines
    /// that passed while the thread was kept from running are stamped at once, one after the other: each is late.
    Paced {
        /// Distance of deadlines, nanoseconds, at least 1.
        period_ns: u64,
        /// Deadlines, at least 1.
        count: u64,
    },
    /// One record for each turn that took at least the threshold.
    Tight {
        /// Shortest turn that is recorded, nanoseconds, at least 1. A turn that nothing disturbs takes some tens.
        threshold_ns: u64,
        /// How long.
        duration: Duration,
        /// Room for records of each thread. What finds none is counted, in number and time.
        records: u64,
    },
}

impl NoisePlan {
    /// The paper's dummy program.
    pub const PAPER: Self = Self::Paced { period_ns: PAPER_PERIOD_NS, count: PAPER_COUNT };

    fn records(&self) -> u64 {
        match self {
            Self::Paced { count, .. } => *count,
            Self::Tight { records, .. } => *records,
        }
    }

    fn check(&self) -> Result<(), NoiseError> {
        let wrong = match self {
            Self::Paced { period_ns: 0, .. } => "the period must be at least 1 ns",
            Self::Paced { count: 0, .. } => "the count must be at least 1",
            Self::Paced { period_ns, count }
                if period_ns.checked_mul(*count).is_none_or(|ns| ns >= 1 << 62) =>
            {
                "period times count is longer than a clock can count"
            }
            Self::Tight { threshold_ns: 0, .. } => "the threshold must be at least 1 ns",
            Self::Tight { duration, .. } if duration.as_nanos() >= 1 << 62 => {
                "the duration is longer than a clock can count"
            }
            _ => return Ok(()),
        };
        Err(NoiseError::Plan(wrong))
    }
}

/// What a noise measurement is asked to do.
#[derive(Clone, Debug)]
pub struct NoiseOptions {
    /// Which loop.
    pub plan: NoisePlan,
    /// What each thread asks for; the length of this list is the count of threads, one CPU each as a rule.
    pub threads: Vec<ThreadSettings>,
    /// What to stamp with ([`quaver_clock::CounterSupport`]).
    pub counter: Counter,
    /// Directory for the segments `noise-<n>.seg`, n the thread's place in `threads`.
    pub directory: PathBuf,
}

/// A noise measurement could not be made.
#[derive(Debug, thiserror::Error)]
pub enum NoiseError {
    /// The options make no sense.
    #[error("noise measurement: {0}")]
    Plan(&'static str),
    /// A segment.
    #[error(transparent)]
    Segment(#[from] SegmentWriteError),
    /// A thread did not get what it must have.
    #[error(transparent)]
    Thread(#[from] SettingRefused),
    /// The system gave no thread.
    #[error("start noise thread: {0}; raise the limit of processes (ulimit -u) or lower the number of CPUs")]
    Spawn(#[source] std::io::Error),
    /// The process was asked to end, and a thread is not let run.
    #[error("noise thread: {0}")]
    NotLetRun(#[source] std::io::Error),
    /// A thread ended without a result, which is a fault of ours.
    #[error("noise thread {0} ended without a result; please report this as a bug")]
    Died(usize),
}

/// What the threads are called when they are waited for.
const THREAD: &str = "quaver-noise";

/// A thread that is ready, or running.
#[derive(Debug)]
pub struct NoiseThread {
    /// Kernel's number of it.
    pub tid: u32,
    /// CPU that it is pinned to.
    pub cpu: Option<u16>,
    /// Settings that it asked for and did not get.
    pub refused: Vec<SettingRefused>,
    /// Its records.
    pub segment: PathBuf,
    /// Records written and lost so far.
    pub written: Arc<SegmentProgress>,
    /// Turns made so far.
    pub turns: Arc<LoopProgress>,
    go: mpsc::Sender<()>,
    handle: JoinHandle<Finished>,
}

struct Finished {
    statistics: LoopStatistics,
    usage: ThreadUsage,
    writer: SegmentWriter<GapRecord>,
}

/// What one thread measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoiseResult {
    /// Kernel's number of the thread.
    pub tid: u32,
    /// CPU that it was pinned to.
    pub cpu: Option<u16>,
    /// Counts of the loop.
    pub statistics: LoopStatistics,
    /// What the kernel counted for the thread within the loop.
    pub usage: ThreadUsage,
    /// Its records.
    pub segment: SegmentSummary,
}

/// A noise measurement whose threads are ready. Dropped before [`NoiseRun::go`], its threads end and leave empty
/// segments; dropped later, they end at their next look at the stop flag.
#[derive(Debug)]
pub struct NoiseRun {
    threads: Vec<NoiseThread>,
    stop: Arc<AtomicBool>,
}

impl NoiseRun {
    /// Makes segments and threads, applies the settings and waits until every thread is ready.
    ///
    /// # Errors
    /// When the options make no sense, a segment cannot be made, or a thread is refused what it requires.
    pub fn prepare(options: &NoiseOptions) -> Result<Self, NoiseError> {
        options.plan.check()?;
        if options.threads.is_empty() {
            return Err(NoiseError::Plan("name at least one CPU"));
        }
        // Here rather than in the threads, where it would come between them.
        nominal_scale(options.counter);
        let mut run = Self { threads: Vec::new(), stop: Arc::default() };
        for (index, settings) in options.threads.iter().enumerate() {
            let segment = options.directory.join(format!("noise-{index}.seg"));
            run.threads.push(prepare_thread(options, settings, &segment, index, &run.stop)?);
        }
        Ok(run)
    }

    /// The threads, in the order of the options.
    pub fn threads(&self) -> &[NoiseThread] {
        &self.threads
    }

    /// Starts the loops.
    pub fn go(&self) {
        for thread in &self.threads {
            // A thread that is gone is reported by `wait`.
            let _ = thread.go.send(());
        }
    }

    /// Asks the loops to end early: within some microseconds, or at the next deadline.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether every loop has ended.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(|thread| thread.handle.is_finished())
    }

    /// Waits for the loops to end and finishes their segments. Loops that were never started end at once.
    ///
    /// # Errors
    /// The first segment that could not be finished; its records are in the file nevertheless.
    pub fn wait(mut self) -> Result<Vec<NoiseResult>, NoiseError> {
        let mut results = Vec::new();
        for (index, thread) in std::mem::take(&mut self.threads).into_iter().enumerate() {
            let NoiseThread { tid, cpu, go, handle, .. } = thread;
            drop(go);
            let ended = waiting::join(THREAD, handle).map_err(NoiseError::NotLetRun)?;
            let finished = ended.map_err(|_| NoiseError::Died(index))?;
            results.push((tid, cpu, finished));
        }
        let finish = |(tid, cpu, finished): (u32, Option<u16>, Finished)| {
            let Finished { statistics, usage, writer } = finished;
            Ok(NoiseResult { tid, cpu, statistics, usage, segment: writer.finish()? })
        };
        results.into_iter().map(finish).collect()
    }
}

impl Drop for NoiseRun {
    fn drop(&mut self) {
        self.stop();
        for thread in std::mem::take(&mut self.threads) {
            drop(thread.go);
            // Nothing is left to do with its result.
            let _ = waiting::join(THREAD, thread.handle);
        }
    }
}

fn prepare_thread(
    options: &NoiseOptions,
    settings: &ThreadSettings,
    segment: &Path,
    index: usize,
    stop: &Arc<AtomicBool>,
) -> Result<NoiseThread, NoiseError> {
    let writer = SegmentWriter::create(segment, options.plan.records())?;
    let written = writer.progress();
    let turns = Arc::<LoopProgress>::default();
    let (go, wait_for_go) = mpsc::channel();
    let (ready, wait_until_ready) = mpsc::channel();
    let job = Job {
        plan: options.plan.clone(),
        settings: settings.clone(),
        counter: options.counter,
        writer,
        turns: Arc::clone(&turns),
        stop: Arc::clone(stop),
    };
    let handle = std::thread::Builder::new()
        .name(format!("quaver-noise{index}"))
        .spawn(move || job.run(&ready, &wait_for_go))
        .map_err(NoiseError::Spawn)?;
    let prepared = waiting::hear(THREAD, &wait_until_ready).map_err(NoiseError::NotLetRun)?;
    let prepared = prepared.ok_or(NoiseError::Died(index))?;
    match prepared {
        Ok(PreparedThread { tid, cpu, refused, .. }) => {
            Ok(NoiseThread { tid, cpu, refused, segment: segment.to_owned(), written, turns, go, handle })
        }
        Err(refused) => {
            let _ = waiting::join(THREAD, handle);
            Err(refused.into())
        }
    }
}

/// What a thread takes along.
struct Job {
    plan: NoisePlan,
    settings: ThreadSettings,
    counter: Counter,
    writer: SegmentWriter<GapRecord>,
    turns: Arc<LoopProgress>,
    stop: Arc<AtomicBool>,
}

impl Job {
    fn run(
        self,
        ready: &mpsc::Sender<Result<PreparedThread, SettingRefused>>,
        wait_for_go: &mpsc::Receiver<()>,
    ) -> Finished {
        let Self { plan, settings, counter, mut writer, turns, stop } = self;
        let prepared = settings.prepare();
        let may_run = prepared.is_ok();
        let _ = ready.send(prepared);
        if !may_run || wait_for_go.recv().is_err() {
            return Finished { statistics: LoopStatistics::default(), usage: ThreadUsage::default(), writer };
        }
        let before = ThreadUsage::now();
        let scale = nominal_scale(counter);
        let statistics = match plan {
            NoisePlan::Paced { period_ns, count } => {
                let limits = PacedLimits::new(period_ns, count, scale);
                match counter {
                    Counter::Hardware => paced_loop(HardwareCounter, &limits, &mut writer, &turns, &stop),
                    Counter::MonotonicClock => {
                        paced_loop(MonotonicCounter, &limits, &mut writer, &turns, &stop)
                    }
                }
            }
            NoisePlan::Tight { threshold_ns, duration, .. } => {
                let limits = TightLimits {
                    threshold: scale.cycles(threshold_ns),
                    duration: scale.cycles(duration.as_nanos() as u64),
                };
                match counter {
                    Counter::Hardware => tight_loop(HardwareCounter, &limits, &mut writer, &turns, &stop),
                    Counter::MonotonicClock => {
                        tight_loop(MonotonicCounter, &limits, &mut writer, &turns, &stop)
                    }
                }
            }
        };
        let usage = ThreadUsage::now().since(&before);
        Finished { statistics, usage, writer }
    }
}

#[cfg(test)]
mod tests;
