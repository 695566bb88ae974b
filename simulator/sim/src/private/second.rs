//! A second level that knows of each line whose it is and when it was used, and the OS cache beside it.
//!
//! Everything lies behind the caches' own words, so that going back costs nothing more:
//! ```text
//! words   … │ second level │ OS cache │ a mark for each place of both │ an overflow bit for each set of both │ counts of looks
//! mark    when it was used last, femtoseconds << 3 │ the application has used it (ts) │ the kernel used it last │ alien
//! ```
//! What only a transaction at the directory changes is no part of the words: those are in order, and never taken back. A look
//! that leads to a question changes nothing, since a core may look again before it asks.
//! The models in `private/tests/` are the oracles of what is done here.

use super::epochs::{DurationPredictor, Privilege};
use super::side::{Side, Stamp};
use super::{Local, Part, PrivateCaches, Purpose};
use crate::cache::LineState;
use crate::config::{CacheConfig, Config};
use crate::cure_cache::{CacheKind, CureCache};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::VecDeque;

/// It belongs to the other cache.
pub(super) const ALIEN: u64 = 1;
/// The kernel used it last.
pub(super) const KERNEL: u64 = 2;
/// The application has used it since it came: the paper's ts bit.
pub(super) const SENSITIVE: u64 = 4;
/// Above these: when it was used last.
pub(super) const USED_SHIFT: u32 = 3;

/// What hooks want of the second level.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SecondLevel {
    /// What stands beside or in place of the plain one.
    pub cache: CureCache,
    /// Whether lines of the application that the kernel evicts are counted, also in a plain one.
    pub counts_evictions: bool,
}

/// What happened in a second level, over its life. Where there are two: of the application or its cache, then of the kernel
/// or the OS cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize, JsonSchema)]
pub struct SecondLevelCounts {
    /// Hits where the line belongs, or, with one cache for both, by who asked.
    pub hits: [u64; 2],
    /// Hits in the other cache, by where the line belongs.
    pub other_hits: [u64; 2],
    /// Looks into the other cache that found nothing: what overflow bits cost.
    pub other_looks_in_vain: u64,
    /// Misses, by where the line belongs, or by who asked.
    pub misses: [u64; 2],
    /// Evicted lines that the other cache took in, by where they belong.
    pub lent: [u64; 2],
    /// Evicted lines that it did not, for half of the set were aliens.
    pub refused: u64,
    /// Copies to memory of dirty lines that went to the other cache.
    pub copied: u64,
    /// Flushes of the OS cache.
    pub flushes: u64,
    /// Sets whose overflow bit is on at the end.
    pub overflowed_sets: [u64; 2],
    /// Active lines of the other side that went into the prefetch buffer.
    pub kept: u64,
    /// Lines that came back from it.
    pub prefetched: u64,
    /// Lines that did not, for they would have evicted an active line of the code that ran.
    pub held_back: u64,
    /// Lines that the buffer had no room for any more.
    pub forgotten: u64,
    /// Evictions that pinning turned to another line than the one that was not used for longest.
    pub pinned: u64,
    /// Lines of the application that the kernel evicted.
    pub evicted_by_kernel: u64,
}

impl SecondLevelCounts {
    /// Adds what happened on another core.
    pub fn add(&mut self, other: &Self) {
        for at in 0..2 {
            self.hits[at] += other.hits[at];
            self.other_hits[at] += other.other_hits[at];
            self.misses[at] += other.misses[at];
            self.lent[at] += other.lent[at];
            self.overflowed_sets[at] += other.overflowed_sets[at];
        }
        self.other_looks_in_vain += other.other_looks_in_vain;
        self.refused += other.refused;
        self.copied += other.copied;
        self.flushes += other.flushes;
        self.kept += other.kept;
        self.prefetched += other.prefetched;
        self.held_back += other.held_back;
        self.forgotten += other.forgotten;
        self.pinned += other.pinned;
        self.evicted_by_kernel += other.evicted_by_kernel;
    }
}

/// Where things lie among the words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) second: Part,
    pub(super) os: Option<Part>,
    marks: usize,
    /// Of each cache's sets, by [`Side`].
    overflow: [usize; 2],
    counts: usize,
}

/// Places among the counts of looks.
const HITS: usize = 0;
const OTHER_HITS: usize = 2;
const MISSES: usize = 4;
const IN_VAIN: usize = 6;
const USES: usize = 7;
const COUNTS: usize = 8;

impl Layout {
    fn new(second: Part, os: Option<Part>) -> Self {
        let marks = os.map_or(second.end(), |os| os.end());
        let overflow = 2 * marks - second.start;
        let beyond = overflow + second.set_mask + 1;
        let counts = beyond + os.map_or(0, |os| os.set_mask + 1);
        Self { second, os, marks, overflow: [overflow, beyond], counts }
    }

    /// Where the mark of a place is.
    pub(super) fn mark(&self, place: usize) -> usize {
        self.marks + place - self.second.start
    }

    pub(super) fn part(&self, side: Side) -> Part {
        match (side, self.os) {
            (Side::Os, Some(os)) => os,
            _ => self.second,
        }
    }

    /// Where the overflow bit of the line's set is.
    pub(super) fn overflow(&self, side: Side, line: u64) -> usize {
        self.overflow[side as usize] + (line as usize & self.part(side).set_mask)
    }
}

/// Who asks the directory, and when.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Request {
    pub(super) supervisor: bool,
    pub(super) at_fs: u64,
    /// The prefetch buffer asks, not the code that runs.
    pub(super) brings_back: bool,
}

/// What a second level has that is not plain.
#[derive(Clone, Debug)]
pub(super) struct Marked {
    pub(super) config: CureCache,
    pub(super) layout: Layout,
    /// Cycles of a hit, by [`Side`].
    cycles: [u64; 2],
    /// Which bit of a line's number says that its address is in the kernel's half.
    kernel_bit: u32,
    pub(super) request: Request,
    /// A dirty line that went to the other cache: a copy of it goes to memory.
    pub(super) copied: Option<u64>,
    /// What transactions did; looks are counted among the words.
    pub(super) counts: SecondLevelCounts,
    predictor: DurationPredictor,
    running: Privilege,
    pub(super) buffers: [VecDeque<u64>; 2],
}

impl Marked {
    pub(super) fn kind(&self) -> CacheKind {
        self.config.kind
    }

    /// Where a line belongs: a page that kernel code reaches in the lower half of the addresses is one that it shares with
    /// the program.
    pub(super) fn home(&self, line: u64, supervisor: bool) -> Side {
        let shared = line >> self.kernel_bit & 1 == 0;
        if self.config.kind == CacheKind::OsCache {
            Stamp { supervisor, shared }.home()
        } else {
            Side::Application
        }
    }

    /// Whose lines stay under selective pinning. Before an epoch of the side that runs has ended, its own.
    pub(super) fn favours_kernel(&self, now_fs: u64) -> bool {
        let part = self.predictor.part(self.running, now_fs).unwrap_or(0.0);
        let own = part < self.config.pinned_until;
        (self.running == Privilege::Kernel) == own
    }

    /// When lines come back from the prefetch buffer in this epoch; `u64::MAX` where they do not.
    fn due_fs(&self, since_fs: u64) -> u64 {
        let expected = self.predictor.expected(self.running);
        let Some(expected_fs) = expected.filter(|_| self.config.kind == CacheKind::Prefetch) else {
            return u64::MAX;
        };
        since_fs + (expected_fs.max(1) as f64 * (1.0 - self.config.prefetch_lead)).ceil() as u64
    }
}

/// Which of a pair of counts: by where the line belongs, or, with one cache for both, by who asks.
fn asker(layout: &Layout, home: Side, supervisor: bool) -> usize {
    if layout.os.is_none() { usize::from(supervisor) } else { home as usize }
}

/// The mark of a line that is used now.
pub(super) fn used(mark: u64, supervisor: bool, now_fs: u64) -> u64 {
    let owner = if supervisor { KERNEL } else { SENSITIVE };
    now_fs << USED_SHIFT | mark & (ALIEN | SENSITIVE) | owner
}

impl PrivateCaches {
    /// From now on the second level is this one; it is empty still.
    pub fn set_second_level(&mut self, level: &SecondLevel, config: &Config) {
        if level.cache.kind == CacheKind::Unified && !level.counts_evictions {
            return;
        }
        let cache = &level.cache;
        let os = (cache.kind == CacheKind::OsCache).then(|| {
            let line_octets = config.l2.line_octets;
            let (kib, ways) = (cache.os_cache_kib, cache.os_cache_ways);
            let os = CacheConfig { kib, ways, line_octets, hit_cycles: cache.os_cache_hit_cycles };
            Part::new(self.second.end(), &os)
        });
        let layout = Layout::new(self.second, os);
        self.words.resize(layout.counts + COUNTS, 0);
        self.marked = Some(Box::new(Marked {
            config: *cache,
            layout,
            cycles: [config.l2.hit_cycles, cache.os_cache_hit_cycles],
            kernel_bit: 63 - config.l2.line_octets.trailing_zeros(),
            request: Request::default(),
            copied: None,
            counts: SecondLevelCounts::default(),
            predictor: DurationPredictor::default(),
            running: Privilege::Application,
            buffers: [VecDeque::new(), VecDeque::new()],
        }));
    }

    /// Who asks the directory next, and when the question is there.
    pub fn request(&mut self, supervisor: bool, at_fs: u64) {
        if let Some(marked) = &mut self.marked {
            marked.request = Request { supervisor, at_fs, brings_back: false };
        }
    }

    /// A line that is in the OS cache.
    pub(super) fn find_in_os(&self, line: u64) -> Option<usize> {
        self.find(self.marked.as_ref()?.layout.os?, line)
    }

    fn count(&mut self, layout: &Layout, which: usize) {
        let place = layout.counts + which;
        let count = self.words[place] + 1;
        self.put(place, count);
    }

    /// The line at a place, with its mark, goes to the front of its set.
    fn use_at(&mut self, layout: &Layout, set: usize, place: usize, mark: u64) {
        let word = self.words[place];
        self.make_room(layout, set, place);
        self.put(set, word);
        self.put(layout.mark(set), mark);
    }

    /// All before a place move one on, over what was there.
    pub(super) fn make_room(&mut self, layout: &Layout, set: usize, place: usize) {
        for at in (set + 1..=place).rev() {
            self.put(at, self.words[at - 1]);
            self.put(layout.mark(at), self.words[layout.mark(at - 1)]);
        }
    }

    /// Looks beyond the first level, as [`look_further`](Self::look_further) does, where lines have marks.
    pub(super) fn look_marked(
        &mut self,
        first_line: u64,
        purpose: Purpose,
        now_fs: u64,
        supervisor: bool,
    ) -> Local {
        let Some(marked) = &self.marked else { return Local::Ask };
        let (layout, cycles) = (marked.layout, marked.cycles);
        let line = first_line >> self.shift;
        let home = marked.home(line, supervisor);
        if purpose == Purpose::Store && self.find(self.data, first_line).is_some() {
            // It may not be written, and that is known where it lies.
            let away = self.find(layout.part(home), line).is_none();
            self.looked_cycles = if away { cycles[0] + cycles[1] } else { cycles[home as usize] };
            return Local::Ask;
        }
        let asker = asker(&layout, home, supervisor);
        self.looked_cycles = cycles[home as usize];
        let mut found = self.find(layout.part(home), line).map(|place| (home, place, HITS));
        if found.is_none() && self.words[layout.overflow(home, line)] != 0 {
            let other = home.other();
            self.looked_cycles += cycles[other as usize];
            found = self.find(layout.part(other), line).map(|place| (other, place, OTHER_HITS));
        }
        let Some((side, place, which)) = found else { return Local::Ask };
        if purpose == Purpose::Store && self.words[place] & 3 == LineState::Shared as u64 {
            return Local::Ask;
        }
        self.count(&layout, USES);
        self.count(&layout, which + asker);
        let mark = used(self.words[layout.mark(place)], supervisor, now_fs);
        let set = layout.part(side).set(line);
        self.use_at(&layout, set, place, mark);
        self.let_in(first_line, purpose, set, now_fs)
    }

    /// Counts a question that the directory answers, for a line that is here or not: once for each, while a core may look for
    /// what it has not several times before it asks.
    pub(super) fn count_asked(&mut self, line: u64, is_here: bool) {
        let Some(marked) = &self.marked else { return };
        let (layout, request) = (marked.layout, marked.request);
        if request.brings_back {
            return;
        }
        let home = marked.home(line, request.supervisor);
        self.count(&layout, USES);
        self.count(&layout, if is_here { HITS } else { MISSES } + asker(&layout, home, request.supervisor));
        if !is_here && self.words[layout.overflow(home, line)] != 0 {
            self.count(&layout, IN_VAIN);
        }
    }

    /// As [`raise_second`](Self::raise_second).
    pub(super) fn raise_marked(&mut self, line: u64, least: LineState) -> LineState {
        let Some(marked) = &self.marked else { return least };
        let (layout, request) = (marked.layout, marked.request);
        let Some(place) = self.find_second(line) else { return least };
        self.count_asked(line, true);
        let side = if place < layout.second.end() { Side::Application } else { Side::Os };
        let now = super::state(self.words[place]).max(least);
        let mark = used(self.words[layout.mark(place)], request.supervisor, request.at_fs);
        let set = layout.part(side).set(line);
        self.use_at(&layout, set, place, mark);
        self.put(set, super::word(line, now));
        now
    }

    /// As [`remove`](Self::remove), from where the line is in the second level.
    pub(super) fn remove_marked(&mut self, line: u64) -> u64 {
        let Some(layout) = self.marked.as_ref().map(|marked| marked.layout) else { return 0 };
        let Some(place) = self.find_second(line) else { return 0 };
        let part = if place < layout.second.end() { layout.second } else { layout.part(Side::Os) };
        let gone = self.words[place];
        let last = part.set(line) + part.ways - 1;
        for at in place..last {
            self.put(at, self.words[at + 1]);
            self.put(layout.mark(at), self.words[layout.mark(at + 1)]);
        }
        self.put(last, 0);
        self.put(layout.mark(last), 0);
        gone
    }

    /// Another side runs from `now_fs` on; when lines come back from the prefetch buffer in its epoch, `u64::MAX` for never.
    pub fn switch(&mut self, to_kernel: bool, now_fs: u64) -> u64 {
        let Some(marked) = &mut self.marked else { return u64::MAX };
        if (marked.running == Privilege::Kernel) != to_kernel {
            marked.predictor.switch(marked.running, now_fs);
            marked.running = marked.running.other();
        }
        marked.due_fs(now_fs)
    }

    /// Whether the side that runs uses the line often enough to keep it: N mean intervals.
    pub(super) fn is_active(&self, marked: &Marked, mark: u64, now_fs: u64) -> bool {
        let uses = self.words[marked.layout.counts + USES];
        let active_fs = marked.config.prefetch_active_intervals.saturating_mul(now_fs / uses.max(1));
        (mark >> USED_SHIFT).saturating_add(active_fs) >= now_fs
    }

    /// What the prefetch buffer holds of the side that does not run, oldest first. It is empty afterwards.
    pub fn take_buffer(&mut self) -> VecDeque<u64> {
        let Some(marked) = &mut self.marked else { return VecDeque::new() };
        let other = marked.running.other();
        std::mem::take(&mut marked.buffers[other as usize])
    }

    /// Whether a line may come back at `now_fs`: it is not here, and would evict no active line of the code that runs. The
    /// next question to the directory is the buffer's.
    pub fn may_come_back(&mut self, line: u64, now_fs: u64) -> bool {
        let Some(marked) = &self.marked else { return false };
        let kernel_runs = marked.running == Privilege::Kernel;
        let place = self.victim(self.second, line, |_| false);
        let mark = self.words[marked.layout.mark(place)];
        let own = (mark & KERNEL != 0) == kernel_runs;
        let held_back = self.words[place] != 0 && own && self.is_active(marked, mark, now_fs);
        let comes = !held_back && self.find_second(line).is_none();
        if let Some(marked) = &mut self.marked {
            marked.counts.held_back += u64::from(held_back);
            marked.counts.prefetched += u64::from(comes);
            marked.request = Request { supervisor: !kernel_runs, at_fs: now_fs, brings_back: true };
        }
        comes
    }

    /// Where a line goes: a free place, else the oldest of which `stays` does not hold, else the oldest.
    pub(super) fn victim(&self, part: Part, line: u64, stays: impl Fn(u64) -> bool) -> usize {
        let set = part.set(line);
        let last = set + part.ways - 1;
        if let Some(free) = (set..=last).find(|place| self.words[*place] == 0) {
            return free;
        }
        let Some(marked) = &self.marked else { return last };
        let goes = |place: &usize| !stays(self.words[marked.layout.mark(*place)]);
        (set..=last).rev().find(goes).unwrap_or(last)
    }

    /// What happened; none in a plain second level.
    pub fn second_level_counts(&self) -> Option<SecondLevelCounts> {
        let marked = self.marked.as_ref()?;
        let layout = &marked.layout;
        let word = |at: usize| self.words[layout.counts + at];
        let on = |from: usize, part: Part| {
            self.words[from..=from + part.set_mask].iter().filter(|bit| **bit != 0).count() as u64
        };
        Some(SecondLevelCounts {
            hits: [word(HITS), word(HITS + 1)],
            other_hits: [word(OTHER_HITS), word(OTHER_HITS + 1)],
            misses: [word(MISSES), word(MISSES + 1)],
            other_looks_in_vain: word(IN_VAIN),
            overflowed_sets: [
                on(layout.overflow[0], layout.second),
                layout.os.map_or(0, |os| on(layout.overflow[1], os)),
            ],
            ..marked.counts
        })
    }

    /// Lines of the application that the kernel evicted so far, where they are counted.
    pub(crate) fn evicted_by_kernel(&self) -> u64 {
        self.marked.as_ref().map_or(0, |marked| marked.counts.evicted_by_kernel)
    }

    /// Lines of the OS cache and whether they are aliens there; those of the second level for [`Side::Application`].
    pub fn marked_lines(&self, side: Side) -> Vec<(u64, LineState, bool)> {
        let Some(marked) = &self.marked else { return Vec::new() };
        let part = match (side, marked.layout.os) {
            (Side::Application, _) => self.second,
            (Side::Os, Some(os)) => os,
            (Side::Os, None) => return Vec::new(),
        };
        let places = (part.start..part.end()).filter(|place| self.words[*place] != 0);
        let line = |place: usize| {
            let word = self.words[place];
            (word >> 2, super::state(word), self.words[marked.layout.mark(place)] & ALIEN != 0)
        };
        places.map(line).collect()
    }

    /// Whether no line is in both caches, and every first-level line in one.
    #[cfg(test)]
    pub(super) fn is_sound(&self) -> bool {
        let [application, os] = [Side::Application, Side::Os].map(|side| self.marked_lines(side));
        let twice = application.iter().any(|(line, ..)| os.iter().any(|(other, ..)| other == line));
        let firsts = self.all(self.data).chain(self.all(self.instructions));
        !twice && firsts.into_iter().all(|(first, _)| self.find_second(first >> self.shift).is_some())
    }
}
