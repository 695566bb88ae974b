use super::*;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};

const USER: Stamp = Stamp { supervisor: false, shared: false };
const KERNEL: Stamp = Stamp { supervisor: true, shared: false };
const BOTH: Stamp = Stamp { supervisor: true, shared: true };

fn small(sharing: bool) -> OsCacheConfig {
    OsCacheConfig {
        application_sets: 4,
        application_ways: 4,
        os_sets: 2,
        os_ways: 4,
        sharing,
        ..OsCacheConfig::default()
    }
}

/// Everything about a line, kept in one list for both caches.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Known {
    side: Side,
    home: Side,
    dirty: bool,
    used: u64,
}

/// The rules as searches through all lines.
struct Twin {
    config: OsCacheConfig,
    lines: BTreeMap<u64, Known>,
    /// (home, set): a line of it went to the other cache since the last clearing.
    lent: BTreeSet<(u8, u64)>,
    now: u64,
}

impl Twin {
    fn new(config: OsCacheConfig) -> Self {
        Self { config, lines: BTreeMap::new(), lent: BTreeSet::new(), now: 0 }
    }

    fn sets(&self, side: Side) -> u64 {
        if side == Side::Os { self.config.os_sets as u64 } else { self.config.application_sets as u64 }
    }

    fn ways(&self, side: Side) -> usize {
        if side == Side::Os { self.config.os_ways } else { self.config.application_ways }
    }

    fn in_set(&self, side: Side, line: u64) -> Vec<(u64, Known)> {
        let sets = self.sets(side);
        let same =
            self.lines.iter().filter(|(other, known)| known.side == side && **other % sets == line % sets);
        same.map(|(line, known)| (*line, *known)).collect()
    }

    fn look(&mut self, line: u64, home: Side) -> Option<Side> {
        let known = self.lines.get(&line)?;
        if known.side != home && !self.lent.contains(&(home as u8, line % self.sets(home))) {
            return None;
        }
        self.now += 1;
        let now = self.now;
        self.lines.get_mut(&line).map(|known| {
            known.used = now;
            known.side
        })
    }

    /// Makes room in the set; who had to go.
    fn make_room(&mut self, side: Side, line: u64) -> Option<(u64, Known)> {
        let there = self.in_set(side, line);
        if there.len() < self.ways(side) {
            return None;
        }
        let victim = there.into_iter().min_by_key(|(_, known)| (known.home == side, known.used))?;
        self.lines.remove(&victim.0);
        Some(victim)
    }

    fn fill(&mut self, line: u64, home: Side, dirty: bool) -> (Vec<Gone>, Option<u64>) {
        let victim = self.make_room(home, line);
        self.now += 1;
        self.lines.insert(line, Known { side: home, home, dirty, used: self.now });
        let Some((old, known)) = victim else { return (vec![], None) };
        let other = home.other();
        let aliens = self.in_set(other, old).iter().filter(|(_, known)| known.home != other).count();
        if known.home != home || !self.config.sharing || aliens >= self.ways(other) / 2 {
            return (vec![Gone { line: old, dirty: known.dirty }], None);
        }
        let displaced = self.make_room(other, old);
        self.now += 1;
        self.lines.insert(old, Known { side: other, home, dirty: false, used: self.now });
        self.lent.insert((home as u8, old % self.sets(home)));
        let gone = displaced.map(|(line, known)| Gone { line, dirty: known.dirty });
        (gone.into_iter().collect(), known.dirty.then_some(old))
    }
}

/// What always holds.
fn check(cache: &OsCache, config: &OsCacheConfig) {
    let application: Vec<_> = cache.lines(Side::Application).collect();
    let os: Vec<_> = cache.lines(Side::Os).collect();
    let mut seen = BTreeSet::new();
    for (line, ..) in application.iter().chain(&os) {
        assert!(seen.insert(*line), "line {line} is in both caches, or twice in one");
    }
    for (lines, sets, ways) in [
        (&application, config.application_sets, config.application_ways),
        (&os, config.os_sets, config.os_ways),
    ] {
        for set in 0..sets as u64 {
            let aliens = lines.iter().filter(|(line, _, alien)| line % sets as u64 == set && *alien).count();
            assert!(aliens <= ways / 2, "{aliens} aliens in a set");
        }
    }
}

#[test]
fn equals_its_twin_on_random_requests() {
    for (seed, sharing) in [(1, true), (2, true), (3, false), (4, true)] {
        let config = small(sharing);
        let (mut cache, mut twin) = (OsCache::new(&config), Twin::new(config));
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        for step in 0..60_000 {
            let word = random.next_u64();
            // The upper half is the kernel's: where a line belongs does not change.
            let line = word >> 8 & 63;
            let home = if line & 32 != 0 { Side::Os } else { Side::Application };
            let stamp = match home {
                Side::Os => KERNEL,
                Side::Application => [USER, BOTH][(word >> 20 & 1) as usize],
            };
            assert_eq!(stamp.home(), home);
            match word & 31 {
                0 => {
                    let mut ours = cache.flush();
                    let mut theirs: Vec<Gone> = twin
                        .lines
                        .iter()
                        .filter(|(_, known)| known.side == Side::Os)
                        .map(|(line, known)| Gone { line: *line, dirty: known.dirty })
                        .collect();
                    twin.lines.retain(|_, known| known.side != Side::Os);
                    twin.lent.retain(|(home, _)| *home != Side::Application as u8);
                    ours.sort_unstable();
                    theirs.sort_unstable();
                    assert_eq!(ours, theirs);
                }
                1 => {
                    let known = twin.lines.remove(&line);
                    assert_eq!(cache.remove(line), known.map(|known| Gone { line, dirty: known.dirty }));
                }
                2 => {
                    cache.set_state(line, LineState::Shared);
                    if let Some(known) = twin.lines.get_mut(&line) {
                        known.dirty = false;
                    }
                }
                request => {
                    let write = request < 10;
                    let found = cache.look(line, stamp);
                    assert_eq!(found.map(|hit| hit.side), twin.look(line, home), "step {step}");
                    if found.is_none() {
                        let state = if write { LineState::Modified } else { LineState::Exclusive };
                        let ours = cache.fill(line, stamp, state);
                        assert_eq!((ours.gone, ours.copied), twin.fill(line, home, write), "step {step}");
                    } else if write {
                        cache.set_state(line, LineState::Modified);
                        twin.lines.entry(line).and_modify(|known| known.dirty = true);
                    }
                }
            }
            check(&cache, &config);
        }
        let lent = cache.counts.lent;
        assert_eq!(lent.iter().all(|count| *count > 1_000), sharing, "{lent:?}");
        assert_eq!(twin.lines.len(), cache.lines(Side::Application).count() + cache.lines(Side::Os).count());
    }
}

#[test]
fn without_the_kernel_and_without_sharing_it_is_the_second_level_as_it_was() {
    let config = OsCacheConfig { sharing: false, ..small(false) };
    let mut cache = OsCache::new(&config);
    let mut plain: Vec<Vec<u64>> = vec![Vec::new(); 4];
    let mut random = Pcg64Mcg::seed_from_u64(9);
    for _ in 0..20_000 {
        let line = random.next_u64() >> 40 & 31;
        let set = &mut plain[(line % 4) as usize];
        let hit = set.iter().position(|other| *other == line);
        assert_eq!(cache.look(line, USER).map(|hit| hit.cycles), hit.map(|_| 12));
        match hit {
            Some(place) => drop(set.remove(place)),
            None => {
                let gone = if set.len() == 4 { vec![set.remove(0)] } else { vec![] };
                let ours = cache.fill(line, USER, LineState::Exclusive);
                assert_eq!(ours.gone.iter().map(|gone| gone.line).collect::<Vec<_>>(), gone);
            }
        }
        set.push(line);
    }
    assert_eq!(cache.lines(Side::Os).count(), 0);
}

#[test]
fn hits_cost_where_the_line_is_and_where_it_was_looked_for() {
    let mut cache = OsCache::new(&small(true));
    cache.fill(1, KERNEL, LineState::Exclusive);
    assert_eq!(cache.look(1, KERNEL), Some(Hit { side: Side::Os, cycles: 3 }));
    // Five lines of the kernel in one set of four: the oldest goes to the application cache.
    for line in [3, 5, 7] {
        cache.fill(line, KERNEL, LineState::Exclusive);
    }
    let ours = cache.fill(9, KERNEL, LineState::Modified);
    assert_eq!(ours, Consequences::default());
    assert_eq!(cache.look(1, KERNEL), Some(Hit { side: Side::Application, cycles: 15 }));
    assert_eq!((cache.counts.lent, cache.overflowed_sets(Side::Os)), ([0, 1], 1));
    assert_eq!(cache.look(11, KERNEL), None);
    assert_eq!(cache.counts.other_looks_in_vain, 1, "what the overflow bit costs");
}

#[test]
fn a_dirty_line_that_is_lent_is_copied_to_memory_and_is_clean_then() {
    let mut cache = OsCache::new(&small(true));
    for line in [1, 3, 5, 7] {
        cache.fill(line, KERNEL, LineState::Modified);
    }
    let ours = cache.fill(9, KERNEL, LineState::Exclusive);
    assert_eq!((ours.copied, cache.state(1), cache.counts.copied), (Some(1), Some(LineState::Exclusive), 1));
    assert_eq!(cache.remove(1), Some(Gone { line: 1, dirty: false }));
    assert_eq!(cache.remove(1), None);
}

#[test]
fn the_default_is_table_2() {
    let config = OsCacheConfig::default();
    assert_eq!(config.application_sets * config.application_ways * 64, 256 * 1024);
    assert_eq!(config.os_sets * config.os_ways * 64, 64 * 1024);
}
