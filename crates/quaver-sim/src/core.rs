//! One core: runs the blocks of its thread until it must ask the directory, or until a given time.
//!
//! ```text
//! step ──> fetch its lines ──> its accesses, each at its slot ──> results ──> step …
//!             │ miss                │ load misses: wait             a store that misses goes on its way
//!             └ wait                └ buffer full: wait
//! ```

use crate::branch::Predictor;
use crate::coherence::{Local, PrivateCaches, Purpose};
use crate::config::Config;
use crate::error::SimulationError;
use crate::statistics::CoreCounts;
use crate::store_buffer::{Room, StoreBuffer};
use crate::timing::BlockTiming;
use quaver_trace::block::Registers;
use quaver_trace::step::{Access, Step, Steps, Sync};

/// What a core asks of the rest of the chip, and when the question is at the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// When it is at the directory.
    pub at_fs: u64,
    /// What is asked.
    pub what: Asked,
}

/// See [`Question`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A line, by the first level's line size.
    Line {
        /// The line.
        first_line: u64,
        /// What for.
        purpose: Purpose,
    },
    /// A step of synchronisation.
    Sync(Sync),
    /// The thread has ended.
    End,
}

/// What a core is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It runs its thread.
    Runs,
    /// It waits for a line of instructions or data since this time.
    WaitsForLine {
        /// Simulated time, femtoseconds.
        since_fs: u64,
        /// What for.
        purpose: Purpose,
    },
    /// Its store buffer is full and the directory has not answered.
    WaitsForStore {
        /// Simulated time, femtoseconds.
        since_fs: u64,
    },
    /// Its thread's step of synchronisation is at the directory.
    WaitsForSync,
    /// It has no thread.
    Idles,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Next,
    Fetch { line: u64 },
    Accesses { next: usize, second_half: bool },
}

/// Numbers of the configuration, as cores use them.
#[derive(Clone, Copy, Debug)]
pub struct CoreNumbers {
    width: u64,
    first_cycles: u64,
    second_cycles: u64,
    mispredict_cycles: u64,
    first_shift: u32,
    second_shift: u32,
}

impl CoreNumbers {
    /// Those of this configuration.
    pub fn new(config: &Config) -> Self {
        Self {
            width: config.core.issue_width,
            first_cycles: config.l1.hit_cycles,
            second_cycles: config.l2.hit_cycles,
            mispredict_cycles: config.core.mispredict_cycles,
            first_shift: config.l1.line_octets.trailing_zeros(),
            second_shift: config.l2.line_octets.trailing_zeros(),
        }
    }
}

/// A core.
#[derive(Clone, Debug)]
pub struct Core {
    /// Simulated time of what it does next, femtoseconds.
    pub now_fs: u64,
    /// A slot at its frequency, femtoseconds.
    pub slot_fs: u64,
    /// What it is doing.
    pub doing: Doing,
    /// What it has done.
    pub counts: CoreCounts,
    numbers: CoreNumbers,
    stage: Stage,
    block: u32,
    /// When slot 0 of the block would have been, given all waiting since.
    start_fs: u64,
    /// Accesses of the same instruction so far, and which instruction.
    repeated: (u16, u8),
    ready_fs: [u64; Registers::COUNT],
    predictor: Predictor,
    stores: StoreBuffer,
    accesses: Vec<Access>,
    /// The block before, if it ended with a jump.
    jumped_from: Option<u32>,
}

impl Core {
    /// An idle core at time 0.
    pub fn new(config: &Config, slot_fs: u64) -> Self {
        Self {
            now_fs: 0,
            slot_fs,
            doing: Doing::Idles,
            counts: CoreCounts::default(),
            numbers: CoreNumbers::new(config),
            stage: Stage::Next,
            block: 0,
            start_fs: 0,
            repeated: (0, 0),
            ready_fs: [0; Registers::COUNT],
            predictor: Predictor::default(),
            stores: StoreBuffer::new(config.core.store_buffer_entries),
            accesses: Vec::new(),
            jumped_from: None,
        }
    }

    fn cycles_fs(&self, cycles: u64) -> u64 {
        cycles * self.numbers.width * self.slot_fs
    }

    /// Whether it is between two steps, so that another thread may run here.
    pub fn between_steps(&self) -> bool {
        self.stage == Stage::Next
    }

    /// Another thread runs here from `at_fs` on.
    pub fn switch(&mut self, at_fs: u64) {
        debug_assert!(self.between_steps());
        self.now_fs = self.now_fs.max(at_fs);
        self.doing = Doing::Runs;
        self.jumped_from = None;
    }

    /// Runs all that comes before `until_fs`, or up to the first step after `slice_end_fs`, or up to a question that must be
    /// answered first. Every question goes to `ask`.
    pub fn run<S: Steps>(
        &mut self,
        (until_fs, slice_end_fs): (u64, u64),
        caches: &mut PrivateCaches,
        steps: &mut S,
        blocks: &[BlockTiming],
        ask: &mut impl FnMut(Question),
    ) -> Result<(), SimulationError> {
        while self.doing == Doing::Runs && self.now_fs < until_fs {
            match self.stage {
                Stage::Next if self.now_fs >= slice_end_fs => return Ok(()),
                Stage::Next => self.next(steps, blocks, ask)?,
                Stage::Fetch { line } => self.fetch(line, caches, blocks, ask),
                Stage::Accesses { next, second_half } => {
                    self.access(next, second_half, until_fs, caches, blocks, ask);
                }
            }
        }
        Ok(())
    }

    fn next<S: Steps>(
        &mut self,
        steps: &mut S,
        blocks: &[BlockTiming],
        ask: &mut impl FnMut(Question),
    ) -> Result<(), SimulationError> {
        // A step that is no block must not pass the stores before it.
        let at_fs = self.now_fs + self.cycles_fs(self.numbers.second_cycles);
        match steps.step(&mut self.accesses)? {
            Step::Block { number } => self.enter(number, blocks),
            Step::Sync(sync) => {
                self.doing = Doing::WaitsForSync;
                self.counts.sync_steps += 1;
                ask(Question { at_fs, what: Asked::Sync(sync) });
            }
            Step::End => {
                self.doing = Doing::WaitsForSync;
                ask(Question { at_fs, what: Asked::End });
            }
        }
        Ok(())
    }

    fn enter(&mut self, number: u32, blocks: &[BlockTiming]) {
        let timing = &blocks[number as usize];
        let mut start_fs = self.now_fs;
        if let Some(from) = self.jumped_from.take() {
            self.counts.jumps += 1;
            if !self.predictor.follow(from, number) {
                self.counts.mispredicted += 1;
                let lost_fs = self.cycles_fs(self.numbers.mispredict_cycles);
                self.counts.stalls.mispredicted_fs += lost_fs;
                start_fs += lost_fs;
            }
        }
        let mut dependent_fs = start_fs;
        for used in &timing.uses {
            let ready_fs = self.ready_fs[usize::from(used.register)];
            dependent_fs = dependent_fs.max(ready_fs.saturating_sub(u64::from(used.slot) * self.slot_fs));
        }
        self.counts.stalls.operands_fs += dependent_fs - start_fs;
        self.start_fs = dependent_fs;
        self.now_fs = dependent_fs;
        self.block = number;
        self.repeated = (0, 0);
        self.stage = Stage::Fetch { line: timing.code_lines.0 };
    }

    fn fetch(
        &mut self,
        line: u64,
        caches: &mut PrivateCaches,
        blocks: &[BlockTiming],
        ask: &mut impl FnMut(Question),
    ) {
        self.counts.fetches += 1;
        match caches.look(line, Purpose::Fetch) {
            Local::First => {}
            Local::Second => {
                self.counts.fetch_misses += 1;
                let lost_fs = self.cycles_fs(self.numbers.second_cycles);
                self.counts.stalls.fetch_fs += lost_fs;
                self.delay(lost_fs);
            }
            Local::Ask => {
                self.counts.fetch_misses += 1;
                return self.ask_line(line, Purpose::Fetch, ask);
            }
        }
        self.after_fetch(line, blocks);
    }

    fn after_fetch(&mut self, line: u64, blocks: &[BlockTiming]) {
        if line < blocks[self.block as usize].code_lines.1 {
            self.stage = Stage::Fetch { line: line + 1 };
        } else {
            self.turn_to(0, false, blocks);
        }
    }

    fn delay(&mut self, by_fs: u64) {
        self.start_fs += by_fs;
        self.now_fs += by_fs;
    }

    /// Gets ready for this access: its time becomes the core's; after the last, the block is done.
    #[inline]
    fn turn_to(&mut self, next: usize, second_half: bool, blocks: &[BlockTiming]) {
        let timing = &blocks[self.block as usize];
        let Some(access) = self.accesses.get(next) else { return self.leave(timing) };
        self.stage = Stage::Accesses { next, second_half };
        let instruction = usize::from(access.instruction);
        let slot = timing.issue.get(instruction).copied().unwrap_or(timing.length);
        if second_half || (next > 0 && self.accesses[next - 1].instruction == access.instruction) {
            // The port takes one access a cycle; what the schedule has no room for makes all that follows later.
            self.repeated.1 = self.repeated.1.saturating_add(1);
            if self.repeated.1 >= timing.accesses.get(instruction).copied().unwrap_or(1) {
                self.start_fs += self.cycles_fs(1);
                self.counts.stalls.port_fs += self.cycles_fs(1);
            }
        } else {
            self.repeated = (access.instruction, 0);
        }
        self.now_fs = self.now_fs.max(self.start_fs + u64::from(slot) * self.slot_fs);
    }

    #[inline]
    fn access(
        &mut self,
        mut next: usize,
        mut second_half: bool,
        until_fs: u64,
        caches: &mut PrivateCaches,
        blocks: &[BlockTiming],
        ask: &mut impl FnMut(Question),
    ) {
        loop {
            let access = self.accesses[next];
            let first_line = access.address >> self.numbers.first_shift;
            let last_line =
                access.address.wrapping_add(u64::from(access.octets.max(1)) - 1) >> self.numbers.first_shift;
            let line = if second_half { last_line } else { first_line };
            let purpose = if access.write { Purpose::Store } else { Purpose::Load };
            match caches.look(line, purpose) {
                Local::First => {}
                Local::Second => self.second_level(purpose),
                Local::Ask if access.write => {
                    if !self.store_misses(line, ask) {
                        return;
                    }
                }
                Local::Ask => return self.ask_line(line, Purpose::Load, ask),
            }
            self.count(access.write);
            (next, second_half) = self.following(next, second_half, first_line != last_line);
            self.turn_to(next, second_half, blocks);
            if !matches!(self.stage, Stage::Accesses { .. }) || self.now_fs >= until_fs {
                return;
            }
        }
    }

    fn following(&self, next: usize, second_half: bool, split: bool) -> (usize, bool) {
        if split && !second_half { (next, true) } else { (next + 1, false) }
    }

    fn count(&mut self, write: bool) {
        if write {
            self.counts.stores += 1;
        } else {
            self.counts.loads += 1;
        }
    }

    fn second_level(&mut self, purpose: Purpose) {
        if purpose == Purpose::Store {
            self.counts.store_misses += 1;
            return;
        }
        self.counts.load_misses += 1;
        let lost_fs = self.cycles_fs(self.numbers.second_cycles - self.numbers.first_cycles);
        self.counts.stalls.second_level_fs += lost_fs;
        self.delay(lost_fs);
    }

    /// Whether the store could go on its way; if not, the core waits and tries again.
    fn store_misses(&mut self, line: u64, ask: &mut impl FnMut(Question)) -> bool {
        let second_line = line >> (self.numbers.second_shift - self.numbers.first_shift);
        loop {
            match self.stores.take(second_line, self.now_fs) {
                Room::Joined => return true,
                Room::Taken => {
                    self.counts.store_misses += 1;
                    let at_fs = self.now_fs + self.cycles_fs(self.numbers.second_cycles);
                    let what = Asked::Line { first_line: line, purpose: Purpose::Store };
                    ask(Question { at_fs, what });
                    return true;
                }
                Room::From(room_fs) => {
                    self.counts.stalls.store_buffer_fs += room_fs - self.now_fs;
                    self.delay(room_fs - self.now_fs);
                }
                Room::Full => {
                    self.doing = Doing::WaitsForStore { since_fs: self.now_fs };
                    return false;
                }
            }
        }
    }

    fn ask_line(&mut self, first_line: u64, purpose: Purpose, ask: &mut impl FnMut(Question)) {
        self.doing = Doing::WaitsForLine { since_fs: self.now_fs, purpose };
        let at_fs = self.now_fs + self.cycles_fs(self.numbers.second_cycles);
        ask(Question { at_fs, what: Asked::Line { first_line, purpose } });
    }

    /// The line that a store asked for is here at `done_fs`.
    pub fn store_answered(&mut self, first_line: u64, done_fs: u64) {
        let second_line = first_line >> (self.numbers.second_shift - self.numbers.first_shift);
        self.stores.answer(second_line, done_fs);
        if let Doing::WaitsForStore { .. } = self.doing {
            self.doing = Doing::Runs;
        }
    }

    /// When the line that another question of this core brings is here, if it is still on its way at `now_fs`.
    pub fn arriving(&self, first_line: u64, now_fs: u64) -> Option<u64> {
        self.stores.arrival(first_line >> (self.numbers.second_shift - self.numbers.first_shift), now_fs)
    }

    /// The line that the core waits for is here at `done_fs`. How long it waited is given back.
    pub fn line_answered(&mut self, first_line: u64, done_fs: u64, blocks: &[BlockTiming]) -> u64 {
        let Doing::WaitsForLine { since_fs, purpose } = self.doing else { return 0 };
        self.doing = Doing::Runs;
        let hidden_fs = if purpose == Purpose::Fetch { 0 } else { self.cycles_fs(self.numbers.first_cycles) };
        let lost_fs = done_fs.saturating_sub(since_fs + hidden_fs);
        self.delay(lost_fs);
        match self.stage {
            Stage::Accesses { next, second_half } => {
                self.counts.load_misses += 1;
                self.count(false);
                let access = self.accesses[next];
                let last = access.address.wrapping_add(u64::from(access.octets.max(1)) - 1);
                let split = access.address >> self.numbers.first_shift != last >> self.numbers.first_shift;
                let (next, second_half) = self.following(next, second_half, split);
                self.turn_to(next, second_half, blocks);
            }
            Stage::Fetch { .. } => self.after_fetch(first_line, blocks),
            Stage::Next => {}
        }
        lost_fs
    }

    /// The step of synchronisation that the core waited for was taken at `at_fs`.
    pub fn sync_answered(&mut self, at_fs: u64) {
        self.counts.stalls.sync_fs += at_fs - self.now_fs;
        self.now_fs = at_fs;
        self.doing = Doing::Runs;
    }

    /// When all stores that are on their way are done; none if the directory has not answered all.
    pub fn stores_done_fs(&self, now_fs: u64) -> Option<u64> {
        self.stores.drained(now_fs)
    }

    fn leave(&mut self, timing: &BlockTiming) {
        let end_fs = self.start_fs + u64::from(timing.length) * self.slot_fs;
        for result in &timing.results {
            self.ready_fs[usize::from(result.register)] = end_fs + u64::from(result.slot) * self.slot_fs;
        }
        self.counts.instructions += timing.issue.len() as u64;
        self.counts.blocks += 1;
        self.counts.issue_slots += u64::from(timing.length);
        self.now_fs = self.now_fs.max(end_fs);
        self.jumped_from = timing.jumps.then_some(self.block);
        self.stage = Stage::Next;
    }
}
