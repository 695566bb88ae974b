//! The OS cache beside the second level (the paper's 4.2, appendix C.1): lines of the kernel have a place of their own, and
//! the two caches lend each other room.
//!
//! ```text
//!                supervisor and not shared?
//!   request ──────────┬───────── no ──> application cache 256 KiB, 12 cycles ──┐ overflow bit: might it be
//!                     └───────── yes ─> OS cache 64 KiB, 3 cycles ─────────────┘ in the other one?
//!   evicted line ─────> the other cache, as an alien, if fewer than half of its set's ways are aliens
//! ```
//! A line is in one of them at most, so that the directory sees one cache. What is kept of a line is its state; who holds
//! what beyond this core is the directory's business.

use super::super::side::{Side, Stamp};
use crate::cache::LineState;

/// Sizes of both, and whether they lend each other room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OsCacheConfig {
    /// Sets of the application cache, a power of two.
    pub(super) application_sets: usize,
    /// Its ways.
    pub(super) application_ways: usize,
    /// Cycles of a hit in it.
    pub(super) application_cycles: u64,
    /// Sets of the OS cache, a power of two.
    pub(super) os_sets: usize,
    /// Its ways.
    pub(super) os_ways: usize,
    /// Cycles of a hit in it.
    pub(super) os_cycles: u64,
    /// Whether evicted lines may go to the other cache.
    pub(super) sharing: bool,
}

impl Default for OsCacheConfig {
    /// Table 2: 256 KiB with 12 cycles and 64 KiB with 3, both of 4 ways and lines of 64 bytes.
    fn default() -> Self {
        Self {
            application_sets: 1024,
            application_ways: 4,
            application_cycles: 12,
            os_sets: 256,
            os_ways: 4,
            os_cycles: 3,
            sharing: true,
        }
    }
}

/// A line and what may be done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    line: u64,
    state: LineState,
    /// It belongs to the other cache.
    alien: bool,
    /// When it was used last, in requests.
    used: u64,
}

#[derive(Clone, Debug)]
struct Cache {
    slots: Vec<Option<Slot>>,
    ways: usize,
    mask: usize,
    /// By set: a line that belongs here might be in the other cache.
    overflow: Vec<bool>,
}

impl Cache {
    fn new(sets: usize, ways: usize) -> Self {
        assert!(sets.is_power_of_two() && ways > 0, "configurations are checked when read");
        Self { slots: vec![None; sets * ways], ways, mask: sets - 1, overflow: vec![false; sets] }
    }

    fn set_of(&self, line: u64) -> usize {
        line as usize & self.mask
    }

    fn places(&self, line: u64) -> std::ops::Range<usize> {
        let start = self.set_of(line) * self.ways;
        start..start + self.ways
    }

    fn find(&self, line: u64) -> Option<usize> {
        self.places(line).find(|place| self.slots[*place].is_some_and(|slot| slot.line == line))
    }

    fn aliens(&self, line: u64) -> usize {
        self.places(line).filter(|place| self.slots[*place].is_some_and(|slot| slot.alien)).count()
    }

    /// Where a line that comes in goes: a free place, else the alien that was not used for longest, else the native.
    fn room(&self, line: u64) -> usize {
        let rank = |place: &usize| self.slots[*place].map(|slot| (!slot.alien, slot.used));
        self.places(line).min_by_key(rank).unwrap_or(0)
    }
}

/// A line that left both caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Gone {
    /// The line.
    pub(super) line: u64,
    /// Memory has not got what was in it.
    pub(super) dirty: bool,
}

/// What taking in a line led to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Consequences {
    /// Lines that are here no more.
    pub(super) gone: Vec<Gone>,
    /// A dirty line that went to the other cache: a copy of it goes to memory too.
    pub(super) copied: Option<u64>,
}

/// Where a line was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    /// In which cache.
    pub(super) side: Side,
    /// Cycles until it is there, the look into its own cache included where it was in the other.
    pub(super) cycles: u64,
}

/// What happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OsCacheCounts {
    /// Hits where the line belongs: application cache, OS cache.
    pub(super) home_hits: [u64; 2],
    /// Hits in the other cache, by where the line belongs.
    pub(super) other_hits: [u64; 2],
    /// Looks into the other cache that found nothing: what an overflow bit costs.
    pub(super) other_looks_in_vain: u64,
    /// Misses, by where the line belongs.
    pub(super) misses: [u64; 2],
    /// Evicted lines that the other cache took in, by where they belong.
    pub(super) lent: [u64; 2],
    /// Evicted lines that it did not, for half of the set were aliens.
    pub(super) refused: u64,
    /// Copies to memory of dirty lines that went to the other cache.
    pub(super) copied: u64,
    /// Flushes of the OS cache.
    pub(super) flushes: u64,
}

/// Both caches of a core.
#[derive(Clone, Debug)]
pub(super) struct OsCache {
    config: OsCacheConfig,
    application: Cache,
    os: Cache,
    now: u64,
    /// What happened.
    pub(super) counts: OsCacheCounts,
}

impl OsCache {
    /// Both empty.
    pub(super) fn new(config: &OsCacheConfig) -> Self {
        Self {
            config: *config,
            application: Cache::new(config.application_sets, config.application_ways),
            os: Cache::new(config.os_sets, config.os_ways),
            now: 0,
            counts: OsCacheCounts::default(),
        }
    }

    fn cache(&self, side: Side) -> &Cache {
        match side {
            Side::Application => &self.application,
            Side::Os => &self.os,
        }
    }

    fn cache_mut(&mut self, side: Side) -> &mut Cache {
        match side {
            Side::Application => &mut self.application,
            Side::Os => &mut self.os,
        }
    }

    fn cycles(&self, side: Side) -> u64 {
        match side {
            Side::Application => self.config.application_cycles,
            Side::Os => self.config.os_cycles,
        }
    }

    fn use_line(&mut self, side: Side, place: usize) {
        self.now += 1;
        let now = self.now;
        if let Some(slot) = &mut self.cache_mut(side).slots[place] {
            slot.used = now;
        }
    }

    /// Looks for a line as the hardware does: where it belongs, and in the other cache if the overflow bit of its set
    /// says that it might be there. Found, it becomes the one used last where it is.
    pub(super) fn look(&mut self, line: u64, stamp: Stamp) -> Option<Hit> {
        let home = stamp.home();
        let cycles = self.cycles(home);
        if let Some(place) = self.cache(home).find(line) {
            self.use_line(home, place);
            self.counts.home_hits[home as usize] += 1;
            return Some(Hit { side: home, cycles });
        }
        let set = self.cache(home).set_of(line);
        if self.cache(home).overflow[set] {
            let other = home.other();
            if let Some(place) = self.cache(other).find(line) {
                self.use_line(other, place);
                self.counts.other_hits[home as usize] += 1;
                return Some(Hit { side: other, cycles: cycles + self.cycles(other) });
            }
            self.counts.other_looks_in_vain += 1;
        }
        self.counts.misses[home as usize] += 1;
        None
    }

    /// Where the line is, wherever it belongs: what the directory's messages ask.
    pub(super) fn side_of(&self, line: u64) -> Option<Side> {
        [Side::Application, Side::Os].into_iter().find(|side| self.cache(*side).find(line).is_some())
    }

    /// The state of a line; none if it is not here.
    pub(super) fn state(&self, line: u64) -> Option<LineState> {
        let cache = self.cache(self.side_of(line)?);
        cache.slots[cache.find(line)?].map(|slot| slot.state)
    }

    /// The line has this state from now on; nothing happens if it is not here.
    pub(super) fn set_state(&mut self, line: u64, state: LineState) {
        let Some(side) = self.side_of(line) else { return };
        let cache = self.cache_mut(side);
        if let Some(place) = cache.find(line)
            && let Some(slot) = &mut cache.slots[place]
        {
            slot.state = state;
        }
    }

    /// The line leaves, by the directory's order; none if it was not here.
    pub(super) fn remove(&mut self, line: u64) -> Option<Gone> {
        let side = self.side_of(line)?;
        let cache = self.cache_mut(side);
        let place = cache.find(line)?;
        cache.slots[place].take().map(|slot| gone(&slot))
    }

    /// Takes in a line that is in neither cache, where it belongs. What has to go for it goes to the other cache, where
    /// there is room for an alien; what has to go there leaves.
    pub(super) fn fill(&mut self, line: u64, stamp: Stamp, state: LineState) -> Consequences {
        debug_assert!(self.side_of(line).is_none(), "a line is in one cache at most");
        let mut consequences = Consequences::default();
        let home = stamp.home();
        let victim = self.put(home, Slot { line, state, alien: false, used: 0 });
        let Some(victim) = victim else { return consequences };
        if victim.alien || !self.config.sharing {
            consequences.gone.push(gone(&victim));
            return consequences;
        }
        let other = home.other();
        if self.cache(other).aliens(victim.line) >= self.cache(other).ways / 2 {
            self.counts.refused += 1;
            consequences.gone.push(gone(&victim));
            return consequences;
        }
        // Memory has a copy of what was dirty, so that the other cache may let go of it without writing it back.
        let clean = if victim.state == LineState::Modified { LineState::Exclusive } else { victim.state };
        if victim.state == LineState::Modified {
            self.counts.copied += 1;
            consequences.copied = Some(victim.line);
        }
        self.counts.lent[home as usize] += 1;
        let set = self.cache(home).set_of(victim.line);
        self.cache_mut(home).overflow[set] = true;
        let displaced = self.put(other, Slot { alien: true, state: clean, ..victim });
        consequences.gone.extend(displaced.as_ref().map(gone));
        consequences
    }

    fn put(&mut self, side: Side, slot: Slot) -> Option<Slot> {
        self.now += 1;
        let used = self.now;
        let cache = self.cache_mut(side);
        let place = cache.room(slot.line);
        cache.slots[place].replace(Slot { used, ..slot })
    }

    /// The application changes: the OS cache is emptied, and with it all that the application cache had lent, so that its
    /// overflow bits are cleared at once. The kernel's lines in the application cache stay, and so do the OS cache's bits.
    pub(super) fn flush(&mut self) -> Vec<Gone> {
        self.counts.flushes += 1;
        self.application.overflow.fill(false);
        self.os.slots.iter_mut().filter_map(Option::take).map(|slot| gone(&slot)).collect()
    }

    /// Lines of a cache, and whether they are aliens there.
    pub(super) fn lines(&self, side: Side) -> impl Iterator<Item = (u64, LineState, bool)> {
        self.cache(side).slots.iter().flatten().map(|slot| (slot.line, slot.state, slot.alien))
    }

    /// Sets of a cache with their overflow bit on.
    pub(super) fn overflowed_sets(&self, side: Side) -> usize {
        self.cache(side).overflow.iter().filter(|bit| **bit).count()
    }
}

fn gone(slot: &Slot) -> Gone {
    Gone { line: slot.line, dirty: slot.state == LineState::Modified }
}

#[cfg(test)]
mod tests;
