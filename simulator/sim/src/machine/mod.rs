//! The whole chip, driven in the exact order of its questions to the directory.
//!
//! A core's own hits concern nobody else, so each core runs on, through its hits, to its next question. The earliest question
//! of all is answered first: nothing can come before it any more. Where the answer changes the caches of a core that is ahead
//! of it, and what that core did since depends on the change, the core goes back and does that part again.
//!
//! ```text
//! core 0   ──hits──────────q          q: question at the directory, answered in the order of time over all cores
//! core 1   ──hits──q ← earliest
//! core 2   ──hits──┊─────────────q    takes a line from core 0: goes back to ┊ if it used the line after ┊, else loses it now
//! ```
//! So the order is exact, and the same however far cores may be ahead: a test holds windows of all lengths together.

mod answers;
mod places;

use crate::coherence::{Chip, PrivateCaches, SecondLevelCounts};
use crate::config::Config;
use crate::core::{Core, Doing, Limits};
use crate::error::SimulationError;
use crate::feed::Feed;
use crate::hooks::{Hooks, NoHooks};
use crate::prefetcher::Prefetcher;
use crate::record::Record;
use crate::statistics::{CriticalPath, Results, TimeStack, levels};
use crate::threads::Threads;
use crate::timing::Blocks;
use places::CoreContext;
use quaver_trace::block::Dictionary;
use quaver_trace::step::Steps;

pub use crate::core::Performed;

/// Femtoseconds in a second.
const FS_PER_S: f64 = 1e15;

/// Events of a slice of [`Machine::run`].
const EVENTS_OF_SLICE: u64 = 4096;

/// The chip with its program.
pub struct Machine<S: Steps, H: Hooks = NoHooks> {
    blocks: Blocks,
    chip: Chip,
    cores: Vec<Core>,
    places: Vec<CoreContext<H::Kernel>>,
    feeds: Vec<Feed<S>>,
    prefetchers: Vec<Prefetcher>,
    threads: Threads,
    record: Record,
    hooks: H,
    /// When something of each core must be looked at; `u64::MAX` where nothing comes by itself.
    next_fs: Vec<u64>,
    /// How far each core may be ahead of the event before it is looked at: less for a while where it had to go back.
    lead_fs: Vec<u64>,
    /// Cores that may go on after this event, a bit each.
    going_on: u32,
    /// How often a core had to go back.
    went_back: u64,
    /// The event that is under way.
    now_fs: u64,
    width: u64,
    cycle_fs: u64,
    remote_fs: u64,
    quantum_fs: u64,
    window_fs: u64,
}

impl<S: Steps> Machine<S> {
    /// The chip of `config` at time 0; thread `i` does `steps[i]` on core `i` modulo the cores, and thread 0 runs.
    pub fn new(config: &Config, dictionary: &Dictionary, steps: Vec<S>) -> Self {
        Self::with_hooks(config, dictionary, steps, NoHooks)
    }
}

impl<S: Steps, H: Hooks> Machine<S, H> {
    /// As `Machine::new`, with hooks. Blocks of the kernel activity that hooks order stand in `dictionary` behind those of the
    /// program.
    pub fn with_hooks(config: &Config, dictionary: &Dictionary, steps: Vec<S>, hooks: H) -> Self {
        let width = config.core.issue_width;
        let rest_fs = slot_fs(config.chip.frequency_ghz, width);
        let cycle_fs = rest_fs * width;
        let count = config.chip.cores;
        let mut machine = Self {
            blocks: Blocks::new(dictionary, config),
            chip: Chip::new(config, cycle_fs, ()).with_second_level(&hooks.second_level(), config),
            cores: (0..count).map(|index| Core::new(config, index, rest_fs, H::WATCHES)).collect(),
            places: (0..count).map(|core| CoreContext::new(hooks.first_alarm_fs(core))).collect(),
            prefetchers: vec![Prefetcher::new(config.prefetch.kind, config.prefetch.lines); count],
            threads: Threads::new(steps.len()),
            record: Record::new(steps.len()),
            feeds: steps.into_iter().map(Feed::new).collect(),
            hooks,
            next_fs: vec![u64::MAX; count],
            lead_fs: vec![u64::MAX; count],
            going_on: 0,
            went_back: 0,
            now_fs: 0,
            width,
            cycle_fs,
            remote_fs: config.chip.remote_cycles * cycle_fs,
            quantum_fs: config.chip.quantum_us * 1_000_000_000,
            window_fs: u64::MAX,
        };
        if !machine.feeds.is_empty() {
            machine.begin();
        }
        machine
    }

    /// As it is, with no core more than this many femtoseconds ahead of the earliest event. The results are the same: a test
    /// holds them together.
    pub fn with_window_fs(mut self, window_fs: u64) -> Self {
        self.window_fs = window_fs.max(1);
        self
    }

    /// As it is, keeping at most so many [intervals](crate::statistics::Interval) for a time line.
    pub fn with_intervals(mut self, most: usize) -> Self {
        self.record.keep_intervals(most);
        self
    }

    /// What was done while it ran.
    pub fn hooks(&self) -> &H {
        &self.hooks
    }

    /// How often a core had run too far ahead and went back. It says how fast the simulation is, not what it gives.
    pub fn went_back(&self) -> u64 {
        self.went_back
    }

    /// Simulated time of the event that is under way, femtoseconds.
    pub fn now_fs(&self) -> u64 {
        self.now_fs
    }

    /// Runs until all threads have ended, or for so many slices of a few thousand events; whether all have ended.
    ///
    /// # Errors
    /// When the trace is wrong, or the threads wait for each other.
    pub fn run(&mut self, slices: u64) -> Result<bool, SimulationError> {
        for _ in 0..slices {
            for _ in 0..EVENTS_OF_SLICE {
                self.go_on()?;
                let Some((core, at_fs)) = self.earliest() else {
                    if self.threads.all_ended() {
                        return Ok(true);
                    }
                    match self.threads.lend(self.now_fs) {
                        Some((lender, woken)) => self.wake(lender, &woken)?,
                        None => return Err(self.threads.stuck(self.now_fs)),
                    }
                    continue;
                };
                self.now_fs = at_fs;
                self.happens(core)?;
            }
        }
        Ok(false)
    }

    /// The core whose turn it is, and when; at equal times the first.
    #[inline]
    fn earliest(&self) -> Option<(usize, u64)> {
        let mut first = (0, u64::MAX);
        for (core, &at_fs) in self.next_fs.iter().enumerate() {
            if at_fs < first.1 {
                first = (core, at_fs);
            }
        }
        if first.1 == u64::MAX {
            return None;
        }
        if H::ACTIVE {
            for (core, place) in self.places.iter().enumerate() {
                let alarm_fs = place.alarm_fs.max(self.now_fs);
                let idles = self.cores[core].doing() == Doing::Idles;
                if idles && (alarm_fs, core) < (first.1, first.0) {
                    first = (core, alarm_fs);
                }
            }
        }
        Some(first)
    }

    /// The earliest event: a question, or a core at one of its limits.
    fn happens(&mut self, index: usize) -> Result<(), SimulationError> {
        self.going_on |= 1 << index;
        if self.cores[index].questions.first_fs() > self.now_fs {
            return self.at_limit(index);
        }
        match self.cores[index].questions.take() {
            Some(question) => self.answer(index, question),
            None => Ok(()),
        }
    }

    /// All cores that the event concerned run on to their next question.
    #[inline]
    fn go_on(&mut self) -> Result<(), SimulationError> {
        while self.going_on != 0 {
            let index = self.going_on.trailing_zeros() as usize;
            self.going_on &= self.going_on - 1;
            self.run_on(index)?;
        }
        Ok(())
    }

    fn run_on(&mut self, index: usize) -> Result<(), SimulationError> {
        if H::ACTIVE {
            self.start_kernel(index)?;
        }
        let core = &mut self.cores[index];
        let (place, caches) = (&mut self.places[index], &mut self.chip.cores[index]);
        let until_fs = self.now_fs.saturating_add(self.window_fs.min(self.lead_fs[index]));
        self.lead_fs[index] = self.lead_fs[index].saturating_mul(2);
        let stop_fs = place.stop_fs(self.quantum_fs);
        let limits = Limits { until_fs, stop_fs };
        match (&mut place.kernel, place.thread) {
            (Some(kernel), _) => ahead(core, limits, caches, &mut kernel.feed, &self.blocks)?,
            (None, Some(thread)) => ahead(core, limits, caches, &mut self.feeds[thread], &self.blocks)?,
            (None, None) => core.keep(caches, None),
        }
        if H::WATCHES {
            // What was kept is certain now; the rest may still be taken back.
            for performed in core.performed.drain(..core.certain()) {
                self.hooks.performed(performed);
            }
            core.forget_certain();
        }
        self.next_fs[index] = core.next_fs();
        Ok(())
    }

    fn critical_path(&self) -> CriticalPath {
        let mut path = if self.threads.all_ended() {
            self.record.longest().clone()
        } else {
            self.record.so_far(self.threads.under_way(self.now_fs))
        };
        path.threads_fs.resize(self.threads.times.len(), 0);
        path
    }

    /// What was counted.
    pub fn results(&self) -> Results {
        let duration_fs = self.record.last_fs();
        let critical_path = self.critical_path();
        let (cores, threads) = self.so_far(duration_fs.max(critical_path.total_fs()));
        let kernel: Vec<_> =
            self.cores.iter().zip(&self.places).map(|(core, place)| place.kernel_counts(core)).collect();
        let stacks = cores.iter().zip(&self.places).map(|(counts, place)| TimeStack {
            issue_fs: counts.issue_fs,
            stalls: counts.stalls,
            kernel_fs: place.kernel_fs,
            idle_fs: duration_fs.saturating_sub(counts.busy_fs + place.kernel_fs),
        });
        let (intervals, intervals_dropped) = self.record.intervals();
        Results {
            schema: "quaver.sim/1",
            duration_fs,
            cycle_fs: self.cycle_fs,
            stacks: stacks.collect(),
            levels: levels(&cores, &kernel, self.chip.memory.reads),
            cores,
            kernel,
            threads,
            coherence: self.chip.counts,
            memory_reads: self.chip.memory.reads,
            memory_writes: self.chip.memory.writes,
            network: self.chip.network.counts(),
            critical_path,
            lent_locks: self.threads.lent,
            second_level: self.second_level_counts(),
            intervals: intervals.to_vec(),
            intervals_dropped,
        }
    }
}

impl<S: Steps, H: Hooks> Machine<S, H> {
    /// What happened in the second levels of all cores; none where they are plain.
    fn second_level_counts(&self) -> Option<SecondLevelCounts> {
        let each = self.chip.cores.iter().filter_map(PrivateCaches::second_level_counts);
        each.reduce(|mut sum, counts| {
            sum.add(&counts);
            sum
        })
    }
}

/// A slot at this frequency, femtoseconds.
fn slot_fs(ghz: f64, width: u64) -> u64 {
    (FS_PER_S / (ghz * 1e9 * width as f64)).round() as u64
}

/// Reads steps ahead if there are few, and runs on; what is done from here on may be taken back.
#[inline]
fn ahead<S: Steps>(
    core: &mut Core,
    limits: Limits,
    caches: &mut PrivateCaches,
    feed: &mut Feed<S>,
    blocks: &Blocks,
) -> Result<(), SimulationError> {
    if core.between_steps() && core.doing() == Doing::Runs {
        feed.fill()?;
    }
    core.keep(caches, Some(&mut **feed));
    core.run(limits, caches, feed, blocks);
    Ok(())
}
