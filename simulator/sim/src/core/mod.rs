//! One core: runs the blocks of its thread until it must ask the directory, or until a given time, and can go back to where
//! it was before.
//!
//! ```text
//! step ──> fetch its lines ──> its accesses, each at its slot ──> results ──> step …
//!             │ miss                │ load misses: wait             a store that misses goes on its way
//!             └ wait                └ buffer full: wait
//! ```
//! `run` has the way of blocks that hit (nearly all), and that of the rest, access by access; both give the same.

mod fetched;
mod question;
mod run;
mod window;

pub use question::{Asked, Question};
pub(crate) use run::Limits;

use crate::branch::Predictor;
use crate::coherence::{Disturbance, Found, PrivateCaches, Purpose};
use crate::config::{Config, PrefetchKind};
use crate::feed::{Ahead, FeedPosition};
use crate::statistics::CoreCounts;
use crate::store_buffer::StoreBuffer;
use crate::timing::Blocks;
use quaver_trace::block::Registers;
use quaver_trace::step::Access;
use question::Questions;

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
    Accesses { next: u32, second_half: bool },
}

/// Numbers of the configuration, as cores use them.
#[derive(Clone, Copy, Debug)]
struct CoreNumbers {
    width: u64,
    first_cycles: u64,
    second_cycles: u64,
    mispredict_cycles: u64,
    first_shift: u32,
    second_shift: u32,
}

impl CoreNumbers {
    fn new(config: &Config) -> Self {
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

/// No block has this number.
const NO_BLOCK: u32 = u32::MAX;

/// What a core takes with it when it goes back, besides the times of its registers and its stores: these are much, and seldom needed.
#[derive(Clone, Copy, Debug)]
struct CoreState {
    now_fs: u64,
    /// A slot at its frequency, and at the one that it gets at its next step, for which it then stands still.
    slot_fs: u64,
    next_slot_fs: u64,
    change_fs: u64,
    doing: Doing,
    stage: Stage,
    block: u32,
    /// Where the accesses of the block are.
    accesses: (u32, u32),
    /// When slot 0 of the block would have been, given all waiting since.
    start_fs: u64,
    /// Accesses of the same instruction so far, and which instruction.
    repeated: (u16, u8),
    /// The latest of the times of its registers.
    latest_fs: u64,
    /// The block before, if it ended with a jump, or `NO_BLOCK`.
    jumped_from: u32,
    counts: CoreCounts,
}

impl CoreState {
    /// The access that is next within a block, and whether only its second half is; none between two steps.
    fn access_at(&self) -> Option<(u32, bool)> {
        match self.stage {
            Stage::Next => None,
            Stage::Fetch { .. } => Some((self.accesses.0, false)),
            Stage::Accesses { next, second_half } => Some((next, second_half)),
        }
    }
}

/// An access that was carried out, for those who want to see each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Performed {
    /// When others could see it, femtoseconds.
    pub at_fs: u64,
    /// The core.
    pub core: usize,
    /// First byte, or the line's of the second part of an access over the end of a line.
    pub address: u64,
    /// Whether it wrote.
    pub write: bool,
}

/// What another core's transaction did to the caches here.
#[derive(Clone, Copy, Debug)]
struct Disturbed {
    at_fs: u64,
    line: u64,
    loses: bool,
}

/// Where a core goes back to.
#[derive(Clone, Debug)]
struct Checkpoint {
    state: CoreState,
    /// As they were, if any was still to come; else none of them matters any more.
    ready_fs: [u64; Registers::COUNT],
    stores: StoreBuffer,
    place: FeedPosition,
    fetched: fetched::Fetched,
    questions: usize,
    performed: usize,
    disturbed: Vec<Disturbed>,
}

/// A core.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    index: usize,
    state: CoreState,
    /// When the value of each register is there.
    ready_fs: [u64; Registers::COUNT],
    stores: StoreBuffer,
    numbers: CoreNumbers,
    pub(crate) questions: Questions,
    predictor: Predictor,
    window: window::Window,
    fetched: fetched::Fetched,
    prefetches: bool,
    kept: Checkpoint,
    /// Whether each access is told.
    watches: bool,
    pub(crate) performed: Vec<Performed>,
}

impl Core {
    /// An idle core at time 0.
    pub(crate) fn new(config: &Config, index: usize, slot_fs: u64, watches: bool) -> Self {
        let state = CoreState {
            now_fs: 0,
            slot_fs,
            next_slot_fs: slot_fs,
            change_fs: 0,
            doing: Doing::Idles,
            stage: Stage::Next,
            block: 0,
            accesses: (0, 0),
            start_fs: 0,
            repeated: (0, 0),
            latest_fs: 0,
            jumped_from: NO_BLOCK,
            counts: CoreCounts::default(),
        };
        let ready_fs = [0; Registers::COUNT];
        let stores = StoreBuffer::new(config.core.store_buffer_entries);
        let kept = Checkpoint {
            state,
            ready_fs,
            stores,
            place: FeedPosition::default(),
            fetched: fetched::Fetched::default(),
            questions: 0,
            performed: 0,
            disturbed: Vec::new(),
        };
        Self {
            index,
            state,
            ready_fs,
            stores,
            numbers: CoreNumbers::new(config),
            questions: Questions::default(),
            predictor: Predictor::default(),
            window: window::Window::new(config),
            fetched: fetched::Fetched::default(),
            prefetches: config.prefetch.kind != PrefetchKind::None,
            kept,
            watches,
            performed: Vec::new(),
        }
    }

    fn cycles_fs(&self, cycles: u64) -> u64 {
        cycles * self.numbers.width * self.state.slot_fs
    }

    /// A cycle at its frequency, femtoseconds.
    pub(crate) fn cycle_fs(&self) -> u64 {
        self.cycles_fs(1)
    }

    /// Simulated time of what it does next, femtoseconds.
    #[inline]
    pub(crate) fn now_fs(&self) -> u64 {
        self.state.now_fs
    }

    /// What it is doing.
    #[inline]
    pub(crate) fn doing(&self) -> Doing {
        self.state.doing
    }

    /// What it has done.
    pub(crate) fn counts(&self) -> &CoreCounts {
        &self.state.counts
    }

    /// See [`Core::counts`].
    pub(crate) fn counts_mut(&mut self) -> &mut CoreCounts {
        &mut self.state.counts
    }

    /// Whether it is between two steps, so that another thread may run here.
    #[inline]
    pub(crate) fn between_steps(&self) -> bool {
        self.state.stage == Stage::Next
    }

    /// From its next step on a slot takes so long; it stands still for a while before.
    pub(crate) fn change_slot(&mut self, slot_fs: u64, stall_fs: u64) {
        self.state.next_slot_fs = slot_fs;
        self.state.change_fs += stall_fs;
    }

    /// Another thread runs here from `at_fs` on.
    pub(crate) fn switch(&mut self, at_fs: u64) {
        debug_assert!(self.between_steps());
        self.state.now_fs = self.state.now_fs.max(at_fs);
        self.state.doing = Doing::Runs;
        self.state.jumped_from = NO_BLOCK;
    }

    /// It has no thread any more.
    pub(crate) fn idle(&mut self) {
        self.state.doing = Doing::Idles;
    }

    /// When the next thing of this core must be looked at; `u64::MAX` if nothing of it comes by itself.
    #[inline]
    pub(crate) fn next_fs(&self) -> u64 {
        let asked_fs = self.questions.first_fs();
        if self.state.doing == Doing::Runs { asked_fs.min(self.state.now_fs) } else { asked_fs }
    }

    /// What it does from here on may be taken back, to here.
    #[inline]
    pub(crate) fn keep(&mut self, caches: &mut PrivateCaches, feed: Option<&mut Ahead>) {
        caches.keep();
        self.predictor.keep();
        self.window.keep();
        if self.prefetches {
            self.kept.fetched = self.fetched;
        }
        self.kept.state = self.state;
        if self.state.latest_fs > self.state.now_fs {
            self.kept.ready_fs = self.ready_fs;
        }
        self.kept.stores.copy_from(&self.stores);
        self.kept.place = feed.map(Ahead::keep).unwrap_or_default();
        self.kept.questions = self.questions.len();
        self.kept.performed = self.performed.len();
        self.kept.disturbed.clear();
    }

    /// Whether what it did at `since_fs` or later might have gone otherwise, had it been disturbed so at that time.
    pub(crate) fn is_ahead_of(
        &self,
        since_fs: u64,
        disturbance: Disturbance,
        caches: &PrivateCaches,
        feed: &Ahead,
        blocks: &Blocks,
    ) -> bool {
        if self.state.now_fs < since_fs {
            return false;
        }
        let shift = self.numbers.second_shift;
        // What was done before it was kept is certain, and what is still to be done was not done.
        let from = self.kept.state.access_at().map_or_else(|| feed.kept_access(), |(next, _)| next);
        let to = self.state.access_at();
        let to = to.map_or_else(|| feed.next_access(), |(next, half)| next + u32::from(half));
        let touches = |access: &Access, line: u64| {
            let last = access.address.wrapping_add(u64::from(access.octets.max(1)) - 1);
            access.address >> shift == line || last >> shift == line
        };
        match disturbance {
            Disturbance::None => false,
            Disturbance::Shares { line, .. } => {
                let (_, accesses) = feed.since(since_fs, (from, to));
                accesses.iter().any(|access| access.write && touches(access, line))
            }
            Disturbance::Loses { line, .. } => caches.may_matter(line, since_fs).unwrap_or_else(|| {
                let (mut numbers, accesses) = feed.since(since_fs, (from, to));
                let smaller = shift - self.numbers.first_shift;
                accesses.iter().any(|access| touches(access, line))
                    || numbers.any(|number| {
                        let (first, last) = blocks.code_lines(number);
                        (first >> smaller..=last >> smaller).contains(&line)
                    })
            }),
        }
    }

    /// It was disturbed so, at a time that no access of this line comes after.
    pub(crate) fn disturbed(&mut self, at_fs: u64, disturbance: Disturbance) {
        let disturbed = match disturbance {
            Disturbance::None => return,
            Disturbance::Loses { line, .. } => Disturbed { at_fs, line, loses: true },
            Disturbance::Shares { line, .. } => Disturbed { at_fs, line, loses: false },
        };
        self.kept.disturbed.push(disturbed);
    }

    /// It goes back to where it was and does again what it did before `to_fs`, with what disturbed it in between.
    pub(crate) fn go_back(
        &mut self,
        to_fs: u64,
        stop_fs: u64,
        caches: &mut PrivateCaches,
        feed: &mut Ahead,
        blocks: &Blocks,
    ) {
        caches.go_back();
        self.predictor.go_back();
        self.window.go_back();
        self.fetched = self.kept.fetched;
        self.state = self.kept.state;
        if self.state.latest_fs > self.state.now_fs {
            self.ready_fs = self.kept.ready_fs;
        } else {
            self.ready_fs = [0; Registers::COUNT];
        }
        self.stores.copy_from(&self.kept.stores);
        feed.go_back(self.kept.place);
        self.questions.go_back(self.kept.questions);
        self.performed.truncate(self.kept.performed);
        let mut all = std::mem::take(&mut self.kept.disturbed);
        for disturbed in &all {
            self.run(Limits { until_fs: disturbed.at_fs, stop_fs }, caches, feed, blocks);
            if disturbed.loses {
                caches.invalidate(disturbed.line);
            } else {
                caches.downgrade(disturbed.line);
            }
        }
        self.run(Limits { until_fs: to_fs, stop_fs }, caches, feed, blocks);
        // Its room is used again.
        all.clear();
        self.kept.disturbed = all;
        self.keep(caches, Some(feed));
    }

    /// How many of the accesses that were carried out will not be taken back.
    pub(crate) fn certain(&self) -> usize {
        self.kept.performed
    }

    /// Those were taken away.
    pub(crate) fn forget_certain(&mut self) {
        self.kept.performed = 0;
    }

    /// The line that a store asked for is here at `done_fs`.
    pub(crate) fn store_answered(&mut self, question: &Question, first_line: u64, done_fs: u64) {
        self.stores.answer(self.second_line(first_line), done_fs);
        if let Doing::WaitsForStore { .. } = self.state.doing {
            self.state.doing = Doing::Runs;
        }
        self.tell(question.at_fs, first_line << self.numbers.first_shift, true);
    }

    #[inline]
    fn second_line(&self, first_line: u64) -> u64 {
        first_line >> (self.numbers.second_shift - self.numbers.first_shift)
    }

    #[inline]
    fn tell(&mut self, at_fs: u64, address: u64, write: bool) {
        if self.watches {
            self.performed.push(Performed { at_fs, core: self.index, address, write });
        }
    }

    /// When the line that another question of this core brings is here, if it is still on its way at `now_fs`.
    pub(crate) fn arriving(&self, first_line: u64, now_fs: u64) -> Option<u64> {
        self.stores.arrival(self.second_line(first_line), now_fs)
    }

    /// The line that the core waits for is here at `done_fs`. How long it waited is given back.
    pub(crate) fn line_answered(
        &mut self,
        question: &Question,
        first_line: u64,
        (found, done_fs): (Found, u64),
        feed: &Ahead,
        blocks: &Blocks,
    ) -> u64 {
        let Doing::WaitsForLine { since_fs, purpose } = self.state.doing else { return 0 };
        if self.window.is_used() && purpose == Purpose::Load {
            self.load_answered(question, first_line, (found, done_fs), feed);
            return 0;
        }
        self.state.doing = Doing::Runs;
        let hidden_fs = if purpose == Purpose::Fetch { 0 } else { self.cycles_fs(self.numbers.first_cycles) };
        let lost_fs = done_fs.saturating_sub(since_fs + hidden_fs);
        self.delay(lost_fs);
        match self.state.stage {
            Stage::Accesses { next, second_half } => {
                self.state.counts.load_misses += 1;
                self.tell(question.at_fs, feed.access(next).address, false);
                self.done_with(next, second_half, feed, blocks);
            }
            Stage::Fetch { .. } => self.after_fetch(first_line, feed, blocks),
            Stage::Next => {}
        }
        lost_fs
    }

    /// The instruction whose load the core waits for.
    pub(crate) fn load_source(&self, feed: &Ahead) -> Option<u64> {
        let Stage::Accesses { next, .. } = self.state.stage else { return None };
        Some(self.source(feed.access(next).instruction))
    }

    /// The step of synchronisation that the core waited for was taken at `at_fs`.
    pub(crate) fn sync_answered(&mut self, at_fs: u64) {
        self.state.counts.stalls.sync_fs += at_fs - self.state.now_fs;
        self.state.now_fs = at_fs;
        self.state.doing = Doing::Runs;
    }

    /// When all stores that are on their way are done; none if the directory has not answered all.
    pub(crate) fn stores_done_fs(&self, now_fs: u64) -> Option<u64> {
        self.stores.drained(now_fs)
    }
}
