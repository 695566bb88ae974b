//! An out-of-order core by the interval model (Genbrugge, Eyerman and Eeckhout, HPCA 2010): it dispatches as many instructions a
//! cycle as it is wide, until something is in the way.
//!
//! ```text
//! dispatch   |||||||||||||||||||············|||||||    the buffer is full: its oldest waits for memory
//! load A           ├───────────────────────┤           loads within the buffer wait at the same time,
//! load B             ├───────────────────────┤         unless one needs what the other brings
//! ```
//! - An instruction is dispatched when the one that many before it as the buffer has entries has retired.
//! - It executes when its operands are there, and retires once all before it have.
//! - After a misprediction the next one is dispatched when the jump has executed and the front end is filled again.
//!
//! Caches are asked in the order of dispatch. A load that misses asks the directory when it is dispatched, in the order of
//! things, but its question leaves when its address is there. So all that follows knows when its data come.

use super::run::Stopped;
use super::{Asked, Core, Doing, NO_BLOCK, Question, Stage};
use crate::coherence::{Found, Local, PrivateCaches, Purpose};
use crate::config::{Config, MOST_MISSES, Pipeline};
use crate::feed::{Ahead, Next};
use crate::store_buffer::Room;
use crate::timing::{Blocks, Flow};
use quaver_trace::step::Access;

/// Why an instruction could not retire earlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    #[default]
    Result,
    SecondLevel,
    Remote,
    Memory,
}

impl Cause {
    fn of(found: Found) -> Self {
        match found {
            Found::Here => Self::SecondLevel,
            Found::Upgrade | Found::Remote => Self::Remote,
            Found::Memory => Self::Memory,
        }
    }
}

/// When something is done, and what it waited for.
type Done = (u64, Cause);

/// A line on its way to a load.
#[derive(Clone, Copy, Debug, Default)]
struct Miss {
    second_line: u64,
    done: Done,
}

#[derive(Clone, Copy, Debug, Default)]
struct WindowState {
    /// Instructions so far.
    dispatched: u64,
    /// When the last of them retires.
    retired: Done,
    /// When the last one has executed: if it is a jump, its target is known then.
    executed_fs: u64,
    /// The instruction of the block that is next, and whether it was dispatched and its accesses are under way.
    at: usize,
    begun: bool,
    /// When its operands are there, and the data of its loads so far.
    operands_fs: u64,
    data: Done,
    misses: [Miss; MOST_MISSES],
    next_miss: usize,
    last_data_fs: u64,
}

/// The reorder buffer; empty in a core that issues in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    /// When each of the last instructions retires, by its number modulo their count.
    retired: Box<[Done]>,
    most_misses: usize,
    state: WindowState,
    kept: WindowState,
    /// What was in `retired` before, since it was kept.
    old: Vec<Done>,
}

impl Window {
    pub(super) fn new(config: &Config) -> Self {
        let used = config.core.pipeline == Pipeline::OutOfOrder;
        let entries = if used { config.core.rob_entries } else { 0 };
        Self {
            retired: vec![Done::default(); entries].into(),
            most_misses: config.core.load_misses,
            ..Self::default()
        }
    }

    #[inline]
    pub(super) fn is_used(&self) -> bool {
        !self.retired.is_empty()
    }

    /// From here on old values are kept.
    #[inline]
    pub(super) fn keep(&mut self) {
        if self.is_used() {
            self.old.clear();
            self.kept = self.state;
        }
    }

    /// Everything is as it was at the last [`keep`](Self::keep).
    pub(super) fn go_back(&mut self) {
        if !self.is_used() {
            return;
        }
        while let Some(old) = self.old.pop() {
            self.state.dispatched -= 1;
            let place = self.place();
            self.retired[place] = old;
        }
        self.state = self.kept;
    }

    fn place(&self) -> usize {
        (self.state.dispatched % self.retired.len() as u64) as usize
    }

    /// An instruction retires when this is done and all before it have.
    fn retire(&mut self, done: Done) {
        let (place, retired) = (self.place(), self.state.retired.max(done));
        self.old.push(self.retired[place]);
        self.retired[place] = retired;
        self.state.retired = retired;
        self.state.dispatched += 1;
    }

    fn brings(&mut self, second_line: u64, done: Done) {
        self.state.misses[self.state.next_miss] = Miss { second_line, done };
        self.state.next_miss = (self.state.next_miss + 1) % self.most_misses;
        self.state.last_data_fs = self.state.last_data_fs.max(done.0);
    }

    /// When data come that are here at `data` if their line is.
    fn data_of(&self, second_line: u64, data: Done) -> Done {
        if self.state.last_data_fs <= data.0 {
            return data;
        }
        let same = self.state.misses.iter().filter(|miss| miss.second_line == second_line);
        same.map(|miss| miss.done).max().map_or(data, |done| done.max(data))
    }
}

impl Core {
    /// Begins the next step, if there is one.
    pub(super) fn begin_in_window(&mut self, feed: &mut Ahead, blocks: &Blocks) -> Stopped {
        let (number, accesses) = match feed.next(self.state.now_fs) {
            Next::Empty => return Stopped::Empty,
            Next::Special(step) => {
                // It passes nothing before it.
                self.stall_until(self.window.state.retired);
                self.special(step);
                return Stopped::Here;
            }
            Next::Block { number, accesses } => (number, accesses),
        };
        if self.state.jumped_from != NO_BLOCK {
            self.state.counts.jumps += 1;
            if !self.predictor.follow(self.state.jumped_from, number) {
                self.state.counts.mispredicted += 1;
                let filled_fs =
                    self.window.state.executed_fs + self.cycles_fs(self.numbers.mispredict_cycles);
                let lost_fs = filled_fs.saturating_sub(self.state.now_fs);
                self.state.counts.stalls.mispredicted_fs += lost_fs;
                self.state.now_fs += lost_fs;
            }
            self.state.jumped_from = NO_BLOCK;
        }
        self.state.block = number;
        self.state.accesses = accesses;
        self.state.start_fs = self.state.now_fs;
        (self.window.state.at, self.window.state.begun) = (0, false);
        self.state.stage = Stage::Fetch { line: blocks.head(number).code_lines.0 };
        Stopped::Here
    }

    fn stall_until(&mut self, (at_fs, cause): Done) {
        let lost_fs = at_fs.saturating_sub(self.state.now_fs);
        let stalls = &mut self.state.counts.stalls;
        match cause {
            Cause::Result => stalls.operands_fs += lost_fs,
            Cause::SecondLevel => stalls.second_level_fs += lost_fs,
            Cause::Remote => stalls.remote_fs += lost_fs,
            Cause::Memory => stalls.memory_fs += lost_fs,
        }
        self.state.now_fs += lost_fs;
    }

    /// Goes on with a block whose instructions were fetched, up to a limit or a question.
    pub(super) fn flow(&mut self, until_fs: u64, caches: &mut PrivateCaches, feed: &Ahead, blocks: &Blocks) {
        let flows = blocks.flows(self.state.block);
        loop {
            let Stage::Accesses { next, second_half } = self.state.stage else { return };
            if self.state.now_fs >= until_fs.min(self.questions.first_fs()) {
                return;
            }
            let at = self.window.state.at;
            let flow = flows.get(at);
            let accesses = next < self.state.accesses.1;
            match flow {
                Some(flow) if !self.window.state.begun => self.dispatch(flow),
                // Accesses that name no instruction of the block come last.
                _ if accesses && (flow.is_none() || usize::from(feed.access(next).instruction) <= at) => {
                    if !self.look(&feed.access(next), second_half, caches, blocks) {
                        return;
                    }
                    self.passes(next, second_half, feed);
                }
                Some(flow) => self.execute(flow),
                None => return self.end_in_window(flows.len(), blocks),
            }
        }
    }

    /// The instruction has an entry of the buffer from now on.
    fn dispatch(&mut self, flow: &Flow) {
        let room = self.window.retired[self.window.place()];
        self.stall_until(if flow.serialises { self.window.state.retired } else { room });
        let operands = flow.reads.iter().map(|register| self.ready_fs[usize::from(register)]);
        let operands_fs = operands.fold(self.state.now_fs, u64::max);
        let state = &mut self.window.state;
        (state.begun, state.operands_fs, state.data) = (true, operands_fs, (operands_fs, Cause::Result));
        if flow.loads {
            state.data.0 += self.numbers.first_cycles * self.numbers.width * self.state.slot_fs;
        }
    }

    /// All its accesses are under way: when it has executed is known.
    fn execute(&mut self, flow: &Flow) {
        let (data_fs, cause) = self.window.state.data;
        let executed_fs = data_fs + self.cycles_fs(flow.cycles);
        for register in flow.writes.iter() {
            self.ready_fs[usize::from(register)] = executed_fs;
        }
        self.state.latest_fs = self.state.latest_fs.max(executed_fs);
        self.window.retire((executed_fs, cause));
        self.window.state.executed_fs = executed_fs;
        (self.window.state.at, self.window.state.begun) = (self.window.state.at + 1, false);
        self.state.now_fs += self.state.slot_fs;
        if flow.serialises {
            self.stall_until(self.window.state.retired);
        }
    }

    fn end_in_window(&mut self, slots: usize, blocks: &Blocks) {
        let head = blocks.head(self.state.block);
        self.state.jumped_from = if head.jumps { self.state.block } else { NO_BLOCK };
        self.state.stage = Stage::Next;
        let counts = &mut self.state.counts;
        counts.blocks += 1;
        counts.instructions += slots as u64;
        counts.issue_slots += slots as u64;
        counts.issue_fs += slots as u64 * self.state.slot_fs;
    }

    /// An access asks the caches; whether it need not wait for an answer.
    fn look(
        &mut self,
        access: &Access,
        second_half: bool,
        caches: &mut PrivateCaches,
        blocks: &Blocks,
    ) -> bool {
        let (first_line, last_line) = self.lines(access);
        let line = if second_half { last_line } else { first_line };
        let purpose = if access.write { Purpose::Store } else { Purpose::Load };
        let supervisor = blocks.head(self.state.block).kernel;
        let found = caches.look_as(line, purpose, self.state.now_fs, supervisor);
        let cycles = if found == Local::First { self.numbers.first_cycles } else { caches.looked_cycles() };
        match (found, purpose) {
            (Local::Ask, Purpose::Store) => return self.store_in_window(line, cycles, supervisor),
            (Local::Ask, _) => {
                self.state.doing = Doing::WaitsForLine { since_fs: self.state.now_fs, purpose };
                self.ask_in_window(line, Purpose::Load, cycles, supervisor);
                return false;
            }
            (_, Purpose::Store) => self.state.counts.store_misses += u64::from(found == Local::Second),
            (_, _) => {
                self.state.counts.load_misses += u64::from(found == Local::Second);
                let cause = if found == Local::Second { Cause::SecondLevel } else { Cause::Result };
                let mut data = (self.window.state.operands_fs + self.cycles_fs(cycles), cause);
                if found == Local::Second {
                    let source = self.source(access.instruction);
                    data.0 += self.used_fetched(line, source, (self.state.now_fs, data.0));
                }
                let data = self.window.data_of(self.second_line(line), data);
                self.window.state.data = self.window.state.data.max(data);
            }
        }
        self.tell(self.state.now_fs, access.address, access.write);
        true
    }

    /// A store that missed goes on its way when there is room.
    fn store_in_window(&mut self, line: u64, cycles: u64, supervisor: bool) -> bool {
        loop {
            match self.stores.take(self.second_line(line), self.state.now_fs) {
                Room::Joined => return true,
                Room::Taken => {
                    self.state.counts.store_misses += 1;
                    self.ask_in_window(line, Purpose::Store, cycles, supervisor);
                    return true;
                }
                Room::From(room_fs) => {
                    self.state.counts.stalls.store_buffer_fs += room_fs - self.state.now_fs;
                    self.state.now_fs = room_fs;
                }
                Room::Full => {
                    self.state.doing = Doing::WaitsForStore { since_fs: self.state.now_fs };
                    return false;
                }
            }
        }
    }

    /// Asks the directory now; the question leaves when the address is there and the caches have been looked at.
    fn ask_in_window(&mut self, first_line: u64, purpose: Purpose, cycles: u64, supervisor: bool) {
        let state = &self.window.state;
        let mut leaves_fs = state.operands_fs;
        if purpose == Purpose::Load {
            leaves_fs = leaves_fs.max(state.misses[state.next_miss].done.0);
        }
        let at_fs = self.state.now_fs;
        let late_fs = leaves_fs.max(at_fs) + self.cycles_fs(cycles) - at_fs;
        self.questions.ask(Question {
            at_fs,
            late_fs,
            what: Asked::Line { first_line, purpose, supervisor },
        });
    }

    /// The line of a load that waited is here at `done_fs`.
    pub(super) fn load_answered(
        &mut self,
        question: &Question,
        first_line: u64,
        (found, done_fs): (Found, u64),
        feed: &Ahead,
    ) {
        self.state.doing = Doing::Runs;
        let Stage::Accesses { next, second_half } = self.state.stage else { return };
        self.state.counts.load_misses += 1;
        self.tell(question.at_fs, feed.access(next).address, false);
        let done = (done_fs, Cause::of(found));
        self.window.brings(self.second_line(first_line), done);
        self.window.state.data = self.window.state.data.max(done);
        self.passes(next, second_half, feed);
    }

    /// The access is counted; the one that follows is next.
    fn passes(&mut self, next: u32, second_half: bool, feed: &Ahead) {
        let (next, second_half) = self.count(next, second_half, feed);
        self.state.stage = Stage::Accesses { next, second_half };
    }
}
