//! The whole chip, driven in the exact order of its questions to the directory.
//!
//! ```text
//! window        start ──────────────────────────── end = start + the least way from a core to the directory
//! questions            q1        q2                     asked in earlier windows, in the order of time
//! cores 0…n     ──────┤ those whose caches q1 may change run up to q1, then q1 happens, …, then all run to the end
//! ```
//! What a core asks within a window is at the directory after its end, so that no question can come before one that was
//! answered: the order is exact, and the same whatever the window's length.

use crate::coherence::{Chip, Found, Purpose, bits};
use crate::config::Config;
use crate::core::{Asked, Core, Doing, Question};
use crate::error::SimulationError;
use crate::statistics::Results;
use crate::threads::Threads;
use crate::timing::BlockTiming;
use quaver_trace::block::Dictionary;
use quaver_trace::step::{Steps, Sync, Thread};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Femtoseconds in a second.
const FS_PER_S: f64 = 1e15;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    at_fs: u64,
    core: usize,
    number: u64,
}

/// A thread that may run on a core from `ready_fs` on.
#[derive(Clone, Copy, Debug)]
struct Ready {
    ready_fs: u64,
    thread: usize,
}

/// What happens on a core besides its own steps.
#[derive(Clone, Debug)]
struct Place {
    thread: Option<usize>,
    since_fs: u64,
    queue: VecDeque<Ready>,
}

impl Place {
    /// When the running thread must let another one run: not before that one is ready.
    fn slice_end_fs(&self, quantum_fs: u64) -> u64 {
        let earliest = self.queue.iter().map(|ready| ready.ready_fs).min();
        earliest.map_or(u64::MAX, |ready_fs| ready_fs.max(self.since_fs + quantum_fs))
    }
}

/// The chip with its program.
pub struct Machine<S> {
    blocks: Vec<BlockTiming>,
    chip: Chip,
    cores: Vec<Core>,
    places: Vec<Place>,
    steps: Vec<S>,
    threads: Threads,
    questions: BinaryHeap<Reverse<(Key, QuestionSlot)>>,
    asked: u64,
    cycle_fs: u64,
    remote_fs: u64,
    quantum_fs: u64,
    window_fs: u64,
    end_fs: u64,
}

/// What is asked, beside its key; equal for the heap, which orders by keys alone.
#[derive(Clone, Copy, Debug)]
struct QuestionSlot(Asked);

impl PartialEq for QuestionSlot {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for QuestionSlot {}

impl PartialOrd for QuestionSlot {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for QuestionSlot {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl<S: Steps> Machine<S> {
    /// The chip of `config` at time 0; thread `i` does `steps[i]` on core `i` modulo the cores, and thread 0 runs.
    pub fn new(config: &Config, dictionary: &Dictionary, steps: Vec<S>) -> Self {
        let width = config.core.issue_width;
        let slot_fs = |ghz: f64| (FS_PER_S / (ghz * 1e9 * width as f64)).round() as u64;
        let rest_fs = slot_fs(config.chip.frequency_ghz);
        let cycle_fs = rest_fs * width;
        let cores = vec![Core::new(config, rest_fs); config.chip.cores];
        let place = Place { thread: None, since_fs: 0, queue: VecDeque::new() };
        let mut machine = Self {
            blocks: dictionary.blocks.iter().map(|block| BlockTiming::new(block, config)).collect(),
            chip: Chip::new(config, cycle_fs, ()),
            places: vec![place; cores.len()],
            cores,
            threads: Threads::new(steps.len()),
            steps,
            questions: BinaryHeap::new(),
            asked: 0,
            cycle_fs,
            remote_fs: config.chip.remote_cycles * cycle_fs,
            quantum_fs: config.chip.quantum_us * 1_000_000_000,
            window_fs: slot_fs(config.chip.peak_frequency_ghz) * width * config.l2.hit_cycles,
            end_fs: 0,
        };
        if !machine.steps.is_empty() {
            machine.ready(0, 0);
        }
        machine
    }

    /// As it is, with windows of at most this many femtoseconds. The results are the same: a test holds them together.
    pub fn with_window_fs(mut self, window_fs: u64) -> Self {
        self.window_fs = self.window_fs.min(window_fs).max(1);
        self
    }

    /// Runs until all threads have ended or `windows` windows have gone by; whether all have ended.
    pub fn run(&mut self, windows: u64) -> Result<bool, SimulationError> {
        for _ in 0..windows {
            let Some(start_fs) = self.next_fs() else {
                if self.threads.all_ended() {
                    return Ok(true);
                }
                return Err(self.threads.stuck(self.end_fs));
            };
            self.window(start_fs + self.window_fs)?;
        }
        Ok(false)
    }

    /// When the next thing happens.
    fn next_fs(&self) -> Option<u64> {
        let running = self.cores.iter().filter(|core| core.doing == Doing::Runs).map(|core| core.now_fs);
        let asked = self.questions.peek().map(|Reverse((key, _))| key.at_fs);
        running.chain(asked).min()
    }

    fn window(&mut self, end_fs: u64) -> Result<(), SimulationError> {
        while let Some(&Reverse((key, QuestionSlot(asked)))) = self.questions.peek() {
            if key.at_fs >= end_fs {
                break;
            }
            self.questions.pop();
            self.answer(key, asked)?;
        }
        for core in 0..self.cores.len() {
            self.advance(core, end_fs)?;
        }
        Ok(())
    }

    /// Runs a core up to `until_fs`, or up to a question that must be answered first.
    #[inline]
    fn advance(&mut self, index: usize, until_fs: u64) -> Result<(), SimulationError> {
        loop {
            let core = &mut self.cores[index];
            if core.doing != Doing::Runs || core.now_fs >= until_fs {
                return Ok(());
            }
            let place = &self.places[index];
            let Some(thread) = place.thread else { return Ok(()) };
            let slice_end_fs = place.slice_end_fs(self.quantum_fs);
            if core.between_steps() && core.now_fs >= slice_end_fs {
                self.preempt(index, thread);
                continue;
            }
            let (questions, asked) = (&mut self.questions, &mut self.asked);
            let mut ask = |question: Question| {
                *asked += 1;
                let key = Key { at_fs: question.at_fs, core: index, number: *asked };
                questions.push(Reverse((key, QuestionSlot(question.what))));
            };
            let caches = &mut self.chip.cores[index];
            core.run((until_fs, slice_end_fs), caches, &mut self.steps[thread], &self.blocks, &mut ask)?;
        }
    }

    /// The thread had its time; another one runs now.
    fn preempt(&mut self, index: usize, thread: usize) {
        let now_fs = self.cores[index].now_fs;
        self.places[index].queue.push_back(Ready { ready_fs: now_fs, thread });
        self.stop(index, now_fs);
    }

    fn answer(&mut self, key: Key, asked: Asked) -> Result<(), SimulationError> {
        match asked {
            Asked::Line { first_line, purpose } => self.answer_line(key, first_line, purpose),
            Asked::Sync(sync) => self.answer_sync(key, sync),
            Asked::End => {
                let Some(thread) = self.places[key.core].thread else { return Ok(()) };
                self.cores[key.core].sync_answered(key.at_fs);
                self.end_fs = self.end_fs.max(key.at_fs);
                let woken = self.threads.end(Thread(thread as u32), key.at_fs);
                self.stop(key.core, key.at_fs);
                self.wake(&woken, key.at_fs);
                Ok(())
            }
        }
    }

    fn answer_line(&mut self, key: Key, first_line: u64, purpose: Purpose) -> Result<(), SimulationError> {
        let second_line = self.chip.second_line(first_line);
        for other in bits(self.chip.touched_by(second_line) | 1 << key.core) {
            self.advance(other, key.at_fs)?;
        }
        let core = &mut self.cores[key.core];
        let found = self.chip.transact(key.core, first_line, purpose, key.at_fs);
        let done_fs = match found {
            Found::Here => core.arriving(first_line, key.at_fs).unwrap_or(key.at_fs),
            Found::Upgrade | Found::Remote => key.at_fs + self.remote_fs,
            Found::Memory { at_fs } => at_fs,
        };
        if purpose == Purpose::Store {
            core.store_answered(first_line, done_fs);
        }
        let lost_fs = match purpose {
            Purpose::Store => 0,
            Purpose::Load | Purpose::Fetch => core.line_answered(first_line, done_fs, &self.blocks),
        };
        let (counts, stalls) = (&mut core.counts, lost_fs);
        match found {
            Found::Here => counts.asked_here += 1,
            Found::Upgrade => counts.upgrades += 1,
            Found::Remote => counts.from_remote += 1,
            Found::Memory { .. } => counts.from_memory += 1,
        }
        match (purpose, found) {
            (Purpose::Fetch, _) => counts.stalls.fetch_fs += stalls,
            (_, Found::Here) => counts.stalls.second_level_fs += stalls,
            (_, Found::Upgrade | Found::Remote) => counts.stalls.remote_fs += stalls,
            (_, Found::Memory { .. }) => counts.stalls.memory_fs += stalls,
        }
        Ok(())
    }

    fn answer_sync(&mut self, key: Key, sync: Sync) -> Result<(), SimulationError> {
        let core = &self.cores[key.core];
        // A step of synchronisation is seen by others after all stores before it.
        match core.stores_done_fs(key.at_fs) {
            Some(done_fs) if done_fs <= key.at_fs => {}
            done => {
                let again_fs = done.unwrap_or(key.at_fs + self.cycle_fs);
                self.asked += 1;
                let again = Key { at_fs: again_fs, number: self.asked, ..key };
                self.questions.push(Reverse((again, QuestionSlot(Asked::Sync(sync)))));
                return Ok(());
            }
        }
        let Some(thread) = self.places[key.core].thread else { return Ok(()) };
        let consequences = self.threads.step(Thread(thread as u32), sync, key.at_fs)?;
        self.cores[key.core].sync_answered(key.at_fs);
        if !consequences.goes_on {
            self.stop(key.core, key.at_fs);
        }
        self.wake(&consequences.woken, key.at_fs);
        Ok(())
    }

    fn wake(&mut self, woken: &[Thread], at_fs: u64) {
        for thread in woken {
            self.ready(thread.0 as usize, at_fs + self.remote_fs);
        }
    }

    fn ready(&mut self, thread: usize, ready_fs: u64) {
        let index = thread % self.cores.len();
        self.places[index].queue.push_back(Ready { ready_fs, thread });
        if self.places[index].thread.is_none() {
            self.start_next(index, 0);
        }
    }

    /// The thread on this core does not run any more.
    fn stop(&mut self, index: usize, at_fs: u64) {
        let place = &mut self.places[index];
        self.cores[index].counts.busy_fs += at_fs.saturating_sub(place.since_fs);
        place.thread = None;
        self.cores[index].doing = Doing::Idles;
        self.start_next(index, at_fs);
    }

    fn start_next(&mut self, index: usize, at_fs: u64) {
        let place = &mut self.places[index];
        let first = place.queue.iter().enumerate().min_by_key(|(at, ready)| (ready.ready_fs.max(at_fs), *at));
        let Some((at, _)) = first else { return };
        let Some(next) = place.queue.remove(at) else { return };
        let start_fs = next.ready_fs.max(at_fs);
        place.thread = Some(next.thread);
        place.since_fs = start_fs;
        self.threads.times[next.thread].queued_fs += start_fs - next.ready_fs;
        self.cores[index].switch(start_fs);
    }

    /// What was counted.
    pub fn results(&self) -> Results {
        Results {
            schema: "quaver.sim/1",
            duration_fs: self.end_fs,
            cycle_fs: self.cycle_fs,
            cores: self.cores.iter().map(|core| core.counts).collect(),
            threads: self.threads.times.clone(),
            coherence: self.chip.counts,
            memory_reads: self.chip.memory.reads,
            memory_writes: self.chip.memory.writes,
        }
    }
}
