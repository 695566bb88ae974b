//! Selective pinning (the paper's F.2): for most of an epoch lines of the level that runs stay, towards its end the others.

use super::super::epochs::{DurationPredictor, Privilege};
use super::level::{Level, LevelLine};

/// Its numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PinningConfig {
    /// Sets of the second level, a power of two.
    pub(super) sets: usize,
    /// Its ways.
    pub(super) ways: usize,
    /// Up to this part of the expected epoch lines of the level that runs have the higher priority, 0 to 1.
    pub(super) own_until: f64,
}

impl Default for PinningConfig {
    fn default() -> Self {
        Self { sets: 1024, ways: 4, own_until: 0.95 }
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PinningCounts {
    /// Hits, by who asked: application, kernel.
    pub(super) hits: [u64; 2],
    /// Misses.
    pub(super) misses: [u64; 2],
    /// Evictions that took another line than the one that was not used for longest.
    pub(super) pinned: u64,
}

/// A second level with selective pinning: each line has a bit for its level.
#[derive(Clone, Debug)]
pub(super) struct Pinning {
    config: PinningConfig,
    level: Level,
    predictor: DurationPredictor,
    running: Privilege,
    /// What happened.
    pub(super) counts: PinningCounts,
}

impl Pinning {
    /// Empty; the application runs.
    pub(super) fn new(config: &PinningConfig) -> Self {
        Self {
            config: *config,
            level: Level::new(config.sets, config.ways),
            predictor: DurationPredictor::default(),
            running: Privilege::Application,
            counts: PinningCounts::default(),
        }
    }

    /// Whose lines stay at this cycle. Before an epoch of the level that runs has ended, its own.
    fn favoured(&self, now: u64) -> Privilege {
        let part = self.predictor.part(self.running, now).unwrap_or(0.0);
        if part < self.config.own_until { self.running } else { self.running.other() }
    }

    /// Who runs uses a line at this cycle; whether it was there.
    pub(super) fn access(&mut self, line: u64, write: bool, now: u64) -> bool {
        let side = self.running as usize;
        if self.level.hit(line, self.running, now, write) {
            self.counts.hits[side] += 1;
            return true;
        }
        self.counts.misses[side] += 1;
        let favoured = self.favoured(now);
        let oldest = self.level.victim(line, |slot| slot.order);
        let chosen = self.level.victim(line, |slot| (slot.owner == favoured, slot.order));
        self.counts.pinned += u64::from(oldest != chosen);
        let new = LevelLine { line, owner: self.running, used: now, order: 0, dirty: write };
        self.level.insert(new, |slot| (slot.owner == favoured, slot.order));
        false
    }

    /// The other one runs from this cycle on.
    pub(super) fn switch(&mut self, now: u64) {
        self.predictor.switch(self.running, now);
        self.running = self.running.other();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled() -> Pinning {
        let mut level = Pinning::new(&PinningConfig { sets: 1, ways: 2, ..PinningConfig::default() });
        level.access(1, false, 0);
        level.switch(1_000);
        level.access(2, false, 1_001);
        level.switch(1_100);
        level
    }

    #[test]
    fn early_in_an_epoch_the_others_line_goes_though_it_is_younger() {
        let mut level = filled();
        level.access(3, false, 1_200);
        assert!(level.access(1, false, 1_201), "the older line is the application's own");
        assert!(!level.access(2, false, 1_202));
        assert_eq!(level.counts.pinned, 1);
    }

    #[test]
    fn late_in_it_the_own_line_goes_though_it_is_younger() {
        let mut level = filled();
        level.access(1, false, 1_200);
        // 950 of the 1,000 cycles that are expected have gone by.
        level.access(3, false, 2_050);
        assert!(level.access(2, false, 2_051), "the kernel's line stays for the kernel");
        assert!(!level.access(1, false, 2_052));
    }

    #[test]
    fn without_switches_it_is_a_plain_cache() {
        let mut level = Pinning::new(&PinningConfig { sets: 1, ways: 3, own_until: 0.95 });
        let mut plain: Vec<u64> = Vec::new();
        for step in 0..2_000u64 {
            let line = step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61;
            let hit = plain.iter().position(|other| *other == line);
            assert_eq!(level.access(line, false, step), hit.is_some());
            match hit {
                Some(place) => drop(plain.remove(place)),
                None if plain.len() == 3 => drop(plain.remove(0)),
                None => {}
            }
            plain.push(line);
        }
        assert_eq!(level.counts.pinned, 0);
    }
}
