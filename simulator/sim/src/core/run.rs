//! How a core runs.

use super::{Asked, Core, Doing, NO_BLOCK, Question, Stage};
use crate::coherence::{Local, PrivateCaches, Purpose};
use crate::feed::{Ahead, Next};
use crate::store_buffer::Room;
use crate::timing::{Blocks, Head};
use quaver_trace::step::{Access, Step};

/// How far a core may run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Nothing is done at this time or later.
    pub(crate) until_fs: u64,
    /// No step is begun at this time or later.
    pub(crate) stop_fs: u64,
}

/// Counted while blocks hit, and added up afterwards.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    instructions: u64,
    blocks: u64,
    slots: u64,
    jumps: u64,
    fetches: u64,
    accesses: u64,
    stores: u64,
}

/// Why the blocks that hit came to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// At a limit, or at something that is not done in passing.
    Here,
    /// There are no more steps.
    Empty,
}

/// Where a block's accesses stand.
#[derive(Clone, Copy, Debug)]
struct Passage {
    /// When slot 0 of the block would have been.
    start_fs: u64,
    end_fs: u64,
    repeated: u8,
    instruction: u16,
}

impl Core {
    /// Runs up to a limit, to a question that must be answered first, or to the end of what is read ahead.
    pub(crate) fn run(
        &mut self,
        limits: Limits,
        caches: &mut PrivateCaches,
        feed: &mut Ahead,
        blocks: &Blocks,
    ) {
        loop {
            let until_fs = limits.until_fs.min(self.questions.first_fs());
            if self.state.doing != Doing::Runs || self.state.now_fs >= until_fs {
                return;
            }
            match self.state.stage {
                Stage::Next if self.state.now_fs >= limits.stop_fs => return,
                Stage::Next => {
                    self.change_frequency();
                    let limits = Limits { until_fs, ..limits };
                    let stopped = if self.window.is_used() {
                        self.begin_in_window(feed, blocks)
                    } else {
                        self.pass(limits, caches, feed, blocks)
                    };
                    if stopped == Stopped::Empty {
                        return;
                    }
                }
                Stage::Fetch { line } => self.fetch(line, caches, feed, blocks),
                Stage::Accesses { .. } if self.window.is_used() => {
                    self.flow(limits.until_fs, caches, feed, blocks);
                }
                Stage::Accesses { next, second_half } => {
                    self.access(next, second_half, limits.until_fs, caches, feed, blocks);
                }
            }
        }
    }

    fn change_frequency(&mut self) {
        self.state.slot_fs = self.state.next_slot_fs;
        if self.state.change_fs > 0 {
            self.state.counts.stalls.frequency_fs += self.state.change_fs;
            self.state.now_fs += self.state.change_fs;
            self.state.change_fs = 0;
        }
    }

    /// Runs blocks as long as they hit; leaves one that does not where the slow way goes on.
    fn pass(
        &mut self,
        limits: Limits,
        caches: &mut PrivateCaches,
        feed: &mut Ahead,
        blocks: &Blocks,
    ) -> Stopped {
        let least_fs = limits.until_fs.min(limits.stop_fs);
        let fast_until_fs = if self.watches { 0 } else { limits.until_fs };
        let slot_fs = self.state.slot_fs;
        let mut tally = Tally::default();
        let stopped = loop {
            if self.state.now_fs >= least_fs {
                break Stopped::Here;
            }
            let (number, places) = match feed.next(self.state.now_fs) {
                Next::Block { number, accesses } => (number, accesses),
                Next::Special(step) => {
                    self.special(step);
                    break Stopped::Here;
                }
                Next::Empty => break Stopped::Empty,
            };
            let head = blocks.head(number);
            let start_fs = self.begin(number, head, blocks, &mut tally);
            self.state.block = number;
            self.state.accesses = places;
            let end_fs = start_fs + u64::from(head.length) * slot_fs;
            let mut passage = Passage { start_fs, end_fs, repeated: 0, instruction: u16::MAX };
            let fetched = end_fs <= fast_until_fs;
            let unfetched =
                if fetched { fetch_all(head, caches, &mut tally) } else { Some(head.code_lines.0) };
            if let Some(line) = unfetched {
                self.state.start_fs = start_fs;
                self.state.now_fs = start_fs;
                self.state.repeated = (0, 0);
                self.state.stage = Stage::Fetch { line };
                break Stopped::Here;
            }
            let accesses = feed.accesses(places);
            if let Some((index, second_half)) =
                self.access_all(accesses, &mut passage, fast_until_fs, caches, blocks, &mut tally)
            {
                let slot = blocks.slot(number, accesses[index].instruction);
                self.state.start_fs = passage.start_fs;
                self.state.now_fs = passage.start_fs + u64::from(slot) * slot_fs;
                self.state.repeated = (passage.instruction, passage.repeated);
                self.state.stage = Stage::Accesses { next: places.0 + index as u32, second_half };
                break Stopped::Here;
            }
            self.end(number, head, passage.end_fs, blocks);
            tally.blocks += 1;
            tally.instructions += u64::from(head.instructions);
            tally.slots += u64::from(head.length);
        };
        self.add(&tally);
        stopped
    }

    fn add(&mut self, tally: &Tally) {
        let counts = &mut self.state.counts;
        counts.instructions += tally.instructions;
        counts.blocks += tally.blocks;
        counts.issue_slots += tally.slots;
        counts.issue_fs += tally.slots * self.state.slot_fs;
        counts.jumps += tally.jumps;
        counts.fetches += tally.fetches;
        counts.loads += tally.accesses - tally.stores;
        counts.stores += tally.stores;
    }

    /// A step that is no block must not pass the stores before it.
    pub(super) fn special(&mut self, step: Step) {
        self.state.doing = Doing::WaitsForSync;
        self.state.counts.sync_steps += u64::from(step != Step::End);
        let at_fs = self.state.now_fs + self.way_fs();
        self.questions.ask(Question { at_fs, late_fs: 0, what: Asked::Special });
    }

    /// How long a step that is no block takes to the directory, femtoseconds.
    pub(crate) fn way_fs(&self) -> u64 {
        self.cycles_fs(self.numbers.second_cycles)
    }

    /// When slot 0 of the block is, given the jump to it and the operands that it needs.
    #[inline]
    fn begin(&mut self, number: u32, head: &Head, blocks: &Blocks, tally: &mut Tally) -> u64 {
        let mut start_fs = self.state.now_fs;
        if self.state.jumped_from != NO_BLOCK {
            tally.jumps += 1;
            if !self.predictor.follow(self.state.jumped_from, number) {
                self.state.counts.mispredicted += 1;
                let lost_fs = self.cycles_fs(self.numbers.mispredict_cycles);
                self.state.counts.stalls.mispredicted_fs += lost_fs;
                start_fs += lost_fs;
            }
            self.state.jumped_from = NO_BLOCK;
        }
        if self.state.latest_fs <= start_fs {
            return start_fs;
        }
        let mut dependent_fs = start_fs;
        for used in blocks.uses(head) {
            let ready_fs = self.ready_fs[usize::from(used.register)];
            let from_fs = ready_fs.saturating_sub(u64::from(used.slot) * self.state.slot_fs);
            dependent_fs = dependent_fs.max(from_fs);
        }
        self.state.counts.stalls.operands_fs += dependent_fs - start_fs;
        dependent_fs
    }

    /// Carries out accesses as long as the own caches have their lines; where one does not, or it is time to stop, which one,
    /// and whether its second half.
    #[inline]
    fn access_all(
        &mut self,
        accesses: &[Access],
        passage: &mut Passage,
        until_fs: u64,
        caches: &mut PrivateCaches,
        blocks: &Blocks,
        tally: &mut Tally,
    ) -> Option<(usize, bool)> {
        let shift = self.numbers.first_shift;
        for (index, access) in accesses.iter().enumerate() {
            let first_line = access.address >> shift;
            let last_line = access.address.wrapping_add(u64::from(access.octets.max(1)) - 1) >> shift;
            if index > 0 && access.instruction == passage.instruction {
                self.repeats(passage, blocks);
            } else {
                (passage.instruction, passage.repeated) = (access.instruction, 0);
            }
            if passage.end_fs > until_fs
                || !(hits(caches, first_line, access.write)
                    || self.hits_second(first_line, access, passage, caches, blocks))
            {
                return Some((index, false));
            }
            tally.accesses += 1;
            tally.stores += u64::from(access.write);
            if last_line == first_line {
                continue;
            }
            self.repeats(passage, blocks);
            if passage.end_fs > until_fs
                || !(hits(caches, last_line, access.write)
                    || self.hits_second(last_line, access, passage, caches, blocks))
            {
                return Some((index, true));
            }
            tally.accesses += 1;
            tally.stores += u64::from(access.write);
        }
        None
    }

    /// Whether the second level has what the first has not; what follows is so much later then.
    fn hits_second(
        &mut self,
        first_line: u64,
        access: &Access,
        passage: &mut Passage,
        caches: &mut PrivateCaches,
        blocks: &Blocks,
    ) -> bool {
        let purpose = if access.write { Purpose::Store } else { Purpose::Load };
        // Its first use is a question, which is not asked in passing.
        if self.fetched.has(self.second_line(first_line)) {
            return false;
        }
        let slot = blocks.slot(self.state.block, access.instruction);
        let at_fs = passage.start_fs + u64::from(slot) * self.state.slot_fs;
        let supervisor = blocks.head(self.state.block).kernel;
        if caches.look_further(first_line, purpose, at_fs, supervisor) == Local::Ask {
            return false;
        }
        let lost_fs = self.second_level(purpose, caches.looked_cycles());
        passage.start_fs += lost_fs;
        passage.end_fs += lost_fs;
        true
    }

    /// One more access of the same instruction. The port takes one a cycle; what the schedule has no room for makes all that
    /// follows later.
    #[inline]
    fn repeats(&mut self, passage: &mut Passage, blocks: &Blocks) {
        passage.repeated = passage.repeated.saturating_add(1);
        if passage.repeated >= blocks.room(self.state.block, passage.instruction) {
            let cycle_fs = self.cycles_fs(1);
            passage.start_fs += cycle_fs;
            passage.end_fs += cycle_fs;
            self.state.counts.stalls.port_fs += cycle_fs;
        }
    }

    /// The block is done.
    #[inline]
    fn end(&mut self, number: u32, head: &Head, end_fs: u64, blocks: &Blocks) {
        for result in blocks.results(head) {
            let ready_fs = end_fs + u64::from(result.slot) * self.state.slot_fs;
            self.ready_fs[usize::from(result.register)] = ready_fs;
            self.state.latest_fs = self.state.latest_fs.max(ready_fs);
        }
        self.state.now_fs = end_fs;
        self.state.jumped_from = if head.jumps { number } else { NO_BLOCK };
        self.state.stage = Stage::Next;
    }

    fn leave(&mut self, blocks: &Blocks) {
        let head = blocks.head(self.state.block);
        let end_fs = self.state.start_fs + u64::from(head.length) * self.state.slot_fs;
        let end_fs = end_fs.max(self.state.now_fs);
        self.end(self.state.block, head, end_fs, blocks);
        let tally = Tally {
            instructions: u64::from(head.instructions),
            blocks: 1,
            slots: u64::from(head.length),
            ..Tally::default()
        };
        self.add(&tally);
    }

    fn fetch(&mut self, line: u64, caches: &mut PrivateCaches, feed: &Ahead, blocks: &Blocks) {
        self.state.counts.fetches += 1;
        let supervisor = blocks.head(self.state.block).kernel;
        match caches.look_as(line, Purpose::Fetch, self.state.now_fs, supervisor) {
            Local::First => {}
            Local::Second => {
                self.state.counts.fetch_misses += 1;
                let lost_fs = self.cycles_fs(caches.looked_cycles());
                self.state.counts.stalls.fetch_fs += lost_fs;
                self.delay(lost_fs);
            }
            Local::Ask => {
                self.state.counts.fetch_misses += 1;
                return self.ask_line(line, Purpose::Fetch, caches.looked_cycles(), blocks);
            }
        }
        self.after_fetch(line, feed, blocks);
    }

    pub(super) fn after_fetch(&mut self, line: u64, feed: &Ahead, blocks: &Blocks) {
        if line < blocks.head(self.state.block).code_lines.1 {
            self.state.stage = Stage::Fetch { line: line + 1 };
        } else if self.window.is_used() {
            self.state.stage = Stage::Accesses { next: self.state.accesses.0, second_half: false };
        } else {
            self.turn_to(self.state.accesses.0, false, feed, blocks);
        }
    }

    pub(super) fn delay(&mut self, by_fs: u64) {
        self.state.start_fs += by_fs;
        self.state.now_fs += by_fs;
    }

    /// Gets ready for this access: its time becomes the core's; after the last, the block is done.
    fn turn_to(&mut self, next: u32, second_half: bool, feed: &Ahead, blocks: &Blocks) {
        let (first, end) = self.state.accesses;
        if next >= end {
            return self.leave(blocks);
        }
        self.state.stage = Stage::Accesses { next, second_half };
        let instruction = feed.access(next).instruction;
        if second_half || (next > first && feed.access(next - 1).instruction == instruction) {
            self.state.repeated.1 = self.state.repeated.1.saturating_add(1);
            if self.state.repeated.1 >= blocks.room(self.state.block, instruction) {
                self.state.start_fs += self.cycles_fs(1);
                self.state.counts.stalls.port_fs += self.cycles_fs(1);
            }
        } else {
            self.state.repeated = (instruction, 0);
        }
        let slot = blocks.slot(self.state.block, instruction);
        let at_fs = self.state.start_fs + u64::from(slot) * self.state.slot_fs;
        self.state.now_fs = self.state.now_fs.max(at_fs);
    }

    fn access(
        &mut self,
        mut next: u32,
        mut second_half: bool,
        until_fs: u64,
        caches: &mut PrivateCaches,
        feed: &Ahead,
        blocks: &Blocks,
    ) {
        let supervisor = blocks.head(self.state.block).kernel;
        loop {
            let access = feed.access(next);
            let (first_line, last_line) = self.lines(&access);
            let line = if second_half { last_line } else { first_line };
            let purpose = if access.write { Purpose::Store } else { Purpose::Load };
            match caches.look_as(line, purpose, self.state.now_fs, supervisor) {
                Local::First => self.tell(self.state.now_fs, access.address, access.write),
                Local::Second => {
                    self.tell(self.state.now_fs, access.address, access.write);
                    let mut lost_fs = self.second_level(purpose, caches.looked_cycles());
                    if purpose == Purpose::Load {
                        lost_fs +=
                            self.waits_for_fetched(line, access.instruction, self.state.now_fs, lost_fs);
                    }
                    self.delay(lost_fs);
                }
                Local::Ask if access.write => {
                    if !self.store_misses(line, caches.looked_cycles(), blocks) {
                        return;
                    }
                }
                Local::Ask => {
                    return self.ask_line(line, Purpose::Load, caches.looked_cycles(), blocks);
                }
            }
            (next, second_half) = self.done_with(next, second_half, feed, blocks);
            let until_fs = until_fs.min(self.questions.first_fs());
            if self.state.stage == Stage::Next || self.state.now_fs >= until_fs {
                return;
            }
        }
    }

    #[inline]
    pub(super) fn lines(&self, access: &Access) -> (u64, u64) {
        let last = access.address.wrapping_add(u64::from(access.octets.max(1)) - 1);
        (access.address >> self.numbers.first_shift, last >> self.numbers.first_shift)
    }

    /// The access is done and counted; turns to the one that follows, which is given back.
    pub(super) fn done_with(
        &mut self,
        next: u32,
        second_half: bool,
        feed: &Ahead,
        blocks: &Blocks,
    ) -> (u32, bool) {
        let (next, second_half) = self.count(next, second_half, feed);
        self.turn_to(next, second_half, feed, blocks);
        (next, second_half)
    }

    /// Counts an access; gives the one that follows.
    pub(super) fn count(&mut self, next: u32, second_half: bool, feed: &Ahead) -> (u32, bool) {
        let access = feed.access(next);
        if access.write {
            self.state.counts.stores += 1;
        } else {
            self.state.counts.loads += 1;
        }
        let (first_line, last_line) = self.lines(&access);
        let split = first_line != last_line && !second_half;
        if split { (next, true) } else { (next + 1, false) }
    }

    /// The second level had it after so many cycles; how long that takes.
    fn second_level(&mut self, purpose: Purpose, cycles: u64) -> u64 {
        if purpose == Purpose::Store {
            self.state.counts.store_misses += 1;
            return 0;
        }
        self.state.counts.load_misses += 1;
        let lost_fs = self.cycles_fs(cycles - self.numbers.first_cycles);
        self.state.counts.stalls.second_level_fs += lost_fs;
        lost_fs
    }

    /// How much longer a load takes than the second level does, if its line was prefetched and is still on its way.
    fn waits_for_fetched(&mut self, first_line: u64, instruction: u16, at_fs: u64, lost_fs: u64) -> u64 {
        let data_fs = at_fs + lost_fs + self.cycles_fs(self.numbers.first_cycles);
        let more_fs = self.used_fetched(first_line, self.source(instruction), (at_fs, data_fs));
        self.state.counts.stalls.second_level_fs += more_fs;
        more_fs
    }

    /// Whether the store could go on its way; if not, the core waits and tries again.
    fn store_misses(&mut self, line: u64, cycles: u64, blocks: &Blocks) -> bool {
        let second_line = self.second_line(line);
        loop {
            match self.stores.take(second_line, self.state.now_fs) {
                Room::Joined => return true,
                Room::Taken => {
                    self.state.counts.store_misses += 1;
                    self.ask(line, Purpose::Store, cycles, blocks);
                    return true;
                }
                Room::From(room_fs) => {
                    self.state.counts.stalls.store_buffer_fs += room_fs - self.state.now_fs;
                    self.delay(room_fs - self.state.now_fs);
                }
                Room::Full => {
                    self.state.doing = Doing::WaitsForStore { since_fs: self.state.now_fs };
                    return false;
                }
            }
        }
    }

    fn ask_line(&mut self, first_line: u64, purpose: Purpose, cycles: u64, blocks: &Blocks) {
        self.state.doing = Doing::WaitsForLine { since_fs: self.state.now_fs, purpose };
        self.ask(first_line, purpose, cycles, blocks);
    }

    /// Asks the directory, after the cycles of the look that found nothing.
    fn ask(&mut self, first_line: u64, purpose: Purpose, cycles: u64, blocks: &Blocks) {
        let at_fs = self.state.now_fs + self.cycles_fs(cycles);
        let supervisor = blocks.head(self.state.block).kernel;
        self.questions.ask(Question {
            at_fs,
            late_fs: 0,
            what: Asked::Line { first_line, purpose, supervisor },
        });
    }
}

#[inline]
fn hits(caches: &mut PrivateCaches, first_line: u64, write: bool) -> bool {
    if write { caches.hits_store(first_line) } else { caches.hits_load(first_line) }
}

/// Fetches the block's lines as long as they hit; the first that does not.
#[inline]
fn fetch_all(head: &Head, caches: &mut PrivateCaches, tally: &mut Tally) -> Option<u64> {
    let (first, last) = head.code_lines;
    for line in first..=last {
        if !caches.hits_fetch(line) {
            return Some(line);
        }
        tally.fetches += 1;
    }
    None
}
