//! The prefetch buffer (F.1): active lines that the other side evicted come back shortly before their side runs again.

use super::super::epochs::{DurationPredictor, Privilege};
use super::level::{Level, LevelLine};
use std::collections::VecDeque;

/// Its numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PrefetchConfig {
    /// Sets of the second level, a power of two.
    pub(super) sets: usize,
    /// Its ways.
    pub(super) ways: usize,
    /// Lines that the buffer holds for each side (our choice; the paper says nothing).
    pub(super) entries: usize,
    /// τ: which part of the expected epoch before its end lines come back.
    pub(super) lead: f64,
    /// N: a line is active for so many mean intervals between uses of the cache after it was used.
    pub(super) active_intervals: u64,
}

impl Default for PrefetchConfig {
    fn default() -> Self {
        Self { sets: 1024, ways: 4, entries: 256, lead: 0.1, active_intervals: 256 }
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PrefetchCounts {
    /// Hits, by who asked: application, kernel.
    pub(super) hits: [u64; 2],
    /// Misses.
    pub(super) misses: [u64; 2],
    /// Active lines of the one who does not run that were evicted, and put into the buffer.
    pub(super) kept: u64,
    /// Of these, dirty ones, which were written to memory.
    pub(super) written_back: u64,
    /// Lines that came back before a switch.
    pub(super) prefetched: u64,
    /// Lines that did not, for they would have evicted an active line of the code that ran.
    pub(super) held_back: u64,
    /// Lines that found no room in the buffer; the oldest goes.
    pub(super) forgotten: u64,
}

/// A second level with a prefetch buffer.
#[derive(Clone, Debug)]
pub(super) struct Prefetching {
    config: PrefetchConfig,
    level: Level,
    predictor: DurationPredictor,
    running: Privilege,
    buffers: [VecDeque<u64>; 2],
    /// The buffer of this epoch has been asked for already.
    asked: bool,
    uses: u64,
    /// What happened.
    pub(super) counts: PrefetchCounts,
}

impl Prefetching {
    /// Empty; the application runs.
    pub(super) fn new(config: &PrefetchConfig) -> Self {
        Self {
            config: *config,
            level: Level::new(config.sets, config.ways),
            predictor: DurationPredictor::default(),
            running: Privilege::Application,
            buffers: [VecDeque::new(), VecDeque::new()],
            asked: false,
            uses: 0,
            counts: PrefetchCounts::default(),
        }
    }

    /// N in cycles: so many mean intervals.
    fn active_for(&self, now: u64) -> u64 {
        self.config.active_intervals * (now / self.uses.max(1))
    }

    fn is_active(&self, line: &LevelLine, now: u64) -> bool {
        line.used + self.active_for(now) >= now
    }

    /// Who runs uses a line at this cycle; whether it was there.
    pub(super) fn access(&mut self, line: u64, write: bool, now: u64) -> bool {
        self.bring_back(now);
        self.uses += 1;
        let side = self.running as usize;
        if self.level.hit(line, self.running, now, write) {
            self.counts.hits[side] += 1;
            return true;
        }
        self.counts.misses[side] += 1;
        self.buffers[side].retain(|kept| *kept != line);
        let new = LevelLine { line, owner: self.running, used: now, order: 0, dirty: write };
        if let Some(gone) = self.level.insert(new, |slot| slot.order) {
            self.evicted(&gone, now);
        }
        false
    }

    fn evicted(&mut self, gone: &LevelLine, now: u64) {
        if gone.owner == self.running || !self.is_active(gone, now) {
            return;
        }
        self.counts.kept += 1;
        self.counts.written_back += u64::from(gone.dirty);
        let buffer = &mut self.buffers[gone.owner as usize];
        if self.config.entries == 0 {
            self.counts.forgotten += 1;
            return;
        }
        if buffer.len() >= self.config.entries && buffer.pop_front().is_some() {
            self.counts.forgotten += 1;
        }
        buffer.push_back(gone.line);
    }

    /// τ before the expected end of the epoch the lines of the other side come back, each where it evicts no active line
    /// of the code that runs.
    fn bring_back(&mut self, now: u64) {
        let near = self.predictor.part(self.running, now).is_some_and(|part| part >= 1.0 - self.config.lead);
        if self.asked || !near {
            return;
        }
        self.asked = true;
        let other = self.running.other();
        for line in std::mem::take(&mut self.buffers[other as usize]) {
            let Some(place) = self.level.victim(line, |slot| slot.order) else { continue };
            let there = self.level.at(place);
            if there.is_some_and(|slot| slot.owner == self.running && self.is_active(slot, now)) {
                self.counts.held_back += 1;
                continue;
            }
            if self.level.peek(line).is_none() {
                let new = LevelLine { line, owner: other, used: now, order: 0, dirty: false };
                self.level.insert(new, |slot| slot.order);
                self.counts.prefetched += 1;
            }
        }
    }

    /// The other one runs from this cycle on.
    pub(super) fn switch(&mut self, now: u64) {
        self.predictor.switch(self.running, now);
        self.running = self.running.other();
        self.asked = false;
    }

    /// Its lines.
    pub(super) fn level(&self) -> &Level {
        &self.level
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> PrefetchConfig {
        PrefetchConfig { sets: 1, ways: 4, entries: 4, ..PrefetchConfig::default() }
    }

    #[test]
    fn lines_that_the_kernel_evicted_come_back_before_it_ends() {
        let mut level = Prefetching::new(&small());
        let mut now = 0;
        let mut misses_after_return = Vec::new();
        for epoch in 0..4 {
            let before = level.counts.misses[0];
            for _ in 0..25 {
                for line in [10, 11, 12, 13] {
                    now += 1;
                    level.access(line, false, now);
                }
            }
            misses_after_return.push(level.counts.misses[0] - before);
            level.switch(now);
            // The kernel uses two lines once each, then works on in its registers for a while.
            for line in [20 + 2 * epoch, 21 + 2 * epoch] {
                now += 1;
                level.access(line, false, now);
            }
            now += 500_000;
            level.access(21 + 2 * epoch, false, now);
            level.switch(now);
        }
        assert_eq!(misses_after_return[0], 4);
        assert!(level.counts.kept >= 2 && level.counts.prefetched > 0, "{:?}", level.counts);
        let without = PrefetchConfig { entries: 0, ..small() };
        assert_eq!(Prefetching::new(&without).counts, PrefetchCounts::default());
    }

    #[test]
    fn an_active_line_of_the_code_that_runs_is_never_evicted_for_it() {
        let mut level = Prefetching::new(&small());
        for now in 1..=4 {
            level.access(9 + now, true, now);
        }
        level.switch(100);
        for now in 101..=104 {
            level.access(now - 81, false, now);
        }
        assert_eq!((level.counts.kept, level.counts.written_back), (4, 4));
        level.switch(200);
        for line in 10..14 {
            level.access(line, false, 201);
        }
        level.switch(300);
        // The kernel's epoch of 100 cycles is nearly over, but its own four lines are active.
        for now in [301, 350, 395] {
            for line in 20..24 {
                level.access(line, false, now);
            }
        }
        assert_eq!(level.counts.prefetched, 0, "{:?}", level.counts);
        assert!(level.counts.held_back > 0);
        assert!(level.level().lines().all(|line| line.owner == Privilege::Kernel));
    }

    #[test]
    fn without_switches_it_is_a_plain_cache() {
        let mut level = Prefetching::new(&PrefetchConfig { sets: 2, ways: 2, ..PrefetchConfig::default() });
        let mut plain: Vec<Vec<u64>> = vec![Vec::new(); 2];
        for step in 0..5_000u64 {
            let line = step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61;
            let set = &mut plain[(line % 2) as usize];
            let hit = set.iter().position(|other| *other == line);
            assert_eq!(level.access(line, step % 3 == 0, step), hit.is_some());
            match hit {
                Some(place) => drop(set.remove(place)),
                None if set.len() == 2 => drop(set.remove(0)),
                None => {}
            }
            set.push(line);
        }
        assert_eq!(level.counts.kept + level.counts.prefetched, 0);
    }
}
