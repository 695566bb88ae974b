//! Second levels with marks, held against the models of this folder on random streams.

mod level;
mod os_cache;
mod pinning;
mod prefetch;

use super::side::{Side, Stamp};
use super::*;
use crate::cure::{CacheKind, CureCache};
use os_cache::{OsCache, OsCacheConfig};
use pinning::{Pinning, PinningConfig};
use prefetch::{PrefetchConfig, Prefetching};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// A second level of 16 sets of 4, and an OS cache of 4 sets of 4.
fn machine() -> Config {
    Config::from_toml("l1.kib = 1\nl2.kib = 4\nl1.line_octets = 64").unwrap()
}

fn caches(cache: CureCache) -> PrivateCaches {
    let mut caches = PrivateCaches::new(&machine());
    caches.set_second_level(&SecondLevel { cache, counts_evictions: true }, &machine());
    caches
}

fn small(kind: CacheKind) -> CureCache {
    CureCache { os_cache_kib: 1, prefetch_entries: 6, ..CureCache::of(kind) }
}

/// A line of the kernel's half, or of the lower one.
fn line(number: u64, kernels: bool) -> u64 {
    number | u64::from(kernels) << 57
}

/// What an access led to.
struct Accessed {
    hit: bool,
    cycles: u64,
    gone: Option<(u64, LineState)>,
    copied: Option<u64>,
}

/// An access that the first level does not have, with the directory's part in it.
fn access(caches: &mut PrivateCaches, line: u64, write: bool, supervisor: bool, now_fs: u64) -> Accessed {
    caches.forget_first(line);
    let purpose = if write { Purpose::Store } else { Purpose::Load };
    let hit = caches.look_as(line, purpose, now_fs, supervisor) == Local::Second;
    let cycles = caches.looked_cycles();
    let mut gone = None;
    if !hit {
        assert_eq!(caches.state(line), None, "all lines are exclusive here, so nothing else asks");
        caches.request(supervisor, now_fs);
        let new = if write { LineState::Modified } else { LineState::Exclusive };
        gone = caches.fill_second(line, new);
        caches.fill_first(line, purpose, new);
    }
    Accessed { hit, cycles, gone, copied: caches.take_copied() }
}

#[test]
fn the_os_cache_equals_its_model_on_random_streams() {
    for (seed, sharing) in [(1, true), (2, false), (3, true)] {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut own = caches(CureCache { os_cache_sharing: sharing, ..small(CacheKind::OsCache) });
        let sizes = OsCacheConfig { application_sets: 16, os_sets: 4, sharing, ..OsCacheConfig::default() };
        let mut model = OsCache::new(&sizes);
        let (mut evicted, mut sensitive) = (0, std::collections::HashSet::new());
        for step in 1..=60_000u64 {
            match random.next_u64() % 1_000 {
                0 => {
                    let mut flushed: Vec<u64> = own.flush().into_iter().map(|(line, _)| line).collect();
                    let mut expected: Vec<u64> = model.flush().into_iter().map(|gone| gone.line).collect();
                    flushed.sort_unstable();
                    expected.sort_unstable();
                    assert_eq!(flushed, expected);
                    sensitive.retain(|line| !flushed.contains(line));
                }
                1..40 => {
                    let any = line(random.next_u64() % 120, random.next_u64() % 3 == 0);
                    assert_eq!(own.invalidate(any), model.remove(any).is_some_and(|gone| gone.dirty));
                    sensitive.remove(&any);
                }
                what => {
                    let supervisor = what % 2 == 0;
                    let any = line(random.next_u64() % 120, supervisor && what % 3 != 0);
                    let write = what % 5 == 0;
                    let stamp = Stamp { supervisor, shared: any >> 57 == 0 };
                    let found = access(&mut own, any, write, supervisor, step);
                    let hit = model.look(any, stamp);
                    assert_eq!(found.hit, hit.is_some(), "step {step}");
                    if let Some(hit) = hit {
                        assert_eq!(found.cycles, hit.cycles, "step {step}");
                        if write {
                            model.set_state(any, LineState::Modified);
                        }
                    } else {
                        let new = if write { LineState::Modified } else { LineState::Exclusive };
                        let led = model.fill(any, stamp, new);
                        let gone: Vec<_> = led.gone.iter().map(|gone| (gone.line, gone.dirty)).collect();
                        let own_gone = found.gone.map(|(line, state)| (line, state == LineState::Modified));
                        assert_eq!(own_gone.into_iter().collect::<Vec<_>>(), gone, "step {step}");
                        assert_eq!(found.copied, led.copied);
                        for (line, _) in gone {
                            evicted += u64::from(sensitive.remove(&line) && supervisor);
                        }
                    }
                    if !supervisor {
                        sensitive.insert(any);
                    }
                }
            }
            if step % 97 == 0 {
                same_lines(&own, &model);
            }
        }
        let counts = own.second_level_counts().unwrap();
        let expected = model.counts;
        assert_eq!((counts.hits, counts.misses), (expected.home_hits, expected.misses));
        assert_eq!(
            (counts.other_hits, counts.other_looks_in_vain),
            (expected.other_hits, expected.other_looks_in_vain)
        );
        assert_eq!((counts.lent, counts.refused), (expected.lent, expected.refused));
        assert_eq!((counts.copied, counts.flushes), (expected.copied, expected.flushes));
        let sets = [Side::Application, Side::Os].map(|side| model.overflowed_sets(side) as u64);
        assert_eq!((counts.overflowed_sets, counts.evicted_by_kernel), (sets, evicted));
        assert!(evicted > 100 && (counts.lent[0] > 100) == sharing, "{counts:?}");
    }
}

fn same_lines(own: &PrivateCaches, model: &OsCache) {
    assert!(own.is_sound());
    for side in [Side::Application, Side::Os] {
        let mut lines = own.marked_lines(side);
        let mut expected: Vec<_> = model.lines(side).collect();
        lines.sort_unstable();
        expected.sort_unstable();
        assert_eq!(lines, expected);
    }
}

/// Epochs of the application and of the kernel in turn, each a stretch of accesses to lines of its own and of both.
fn epochs(seed: u64, mut each: impl FnMut(Happens)) {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut now = 1_000;
    for epoch in 0..400 {
        let kernel = epoch % 2 == 1;
        let (mean, own) = if kernel { (300, 40) } else { (900, 70) };
        let end = now + mean / 2 + random.next_u64() % mean;
        while now < end {
            now += 1 + random.next_u64() % 9;
            let numbers = random.next_u64();
            let of_kernel = if numbers % 8 == 0 { !kernel } else { kernel };
            let line = line((numbers >> 8) % own, of_kernel);
            each(Happens::Access { line, write: numbers % 3 == 0, kernel, now });
        }
        each(Happens::Switch { to_kernel: !kernel, now });
    }
}

enum Happens {
    Access { line: u64, write: bool, kernel: bool, now: u64 },
    Switch { to_kernel: bool, now: u64 },
}

#[test]
fn selective_pinning_equals_its_model_on_random_streams() {
    let mut own = caches(small(CacheKind::Pinned));
    let mut model = Pinning::new(&PinningConfig { sets: 16, ..PinningConfig::default() });
    epochs(5, |happens| match happens {
        Happens::Access { line, write, kernel, now } => {
            let found = access(&mut own, line, write, kernel, now);
            assert_eq!(found.hit, model.access(line, write, now), "{line} at {now}");
        }
        Happens::Switch { to_kernel, now } => {
            model.switch(now);
            assert_eq!(own.switch(to_kernel, now), u64::MAX);
        }
    });
    let counts = own.second_level_counts().unwrap();
    assert_eq!((counts.hits, counts.misses), (model.counts.hits, model.counts.misses));
    assert_eq!(counts.pinned, model.counts.pinned);
    assert!(counts.pinned > 100 && counts.evicted_by_kernel > 100, "{counts:?}");
}

#[test]
fn the_prefetch_buffer_equals_its_model_on_random_streams() {
    let mut own = caches(small(CacheKind::Prefetch));
    let sizes = PrefetchConfig { sets: 16, entries: 6, ..PrefetchConfig::default() };
    let mut model = Prefetching::new(&sizes);
    let mut due = u64::MAX;
    epochs(6, |happens| match happens {
        Happens::Access { line, write, kernel, now } => {
            if now >= due {
                due = u64::MAX;
                for back in own.take_buffer() {
                    if own.may_come_back(back, now) {
                        own.fill_second(back, LineState::Exclusive);
                    }
                }
            }
            let found = access(&mut own, line, write, kernel, now);
            assert_eq!(found.hit, model.access(line, write, now), "{line} at {now}");
        }
        Happens::Switch { to_kernel, now } => {
            model.switch(now);
            due = own.switch(to_kernel, now);
        }
    });
    let (counts, expected) = (own.second_level_counts().unwrap(), model.counts);
    assert_eq!((counts.hits, counts.misses), (expected.hits, expected.misses));
    assert_eq!((counts.kept, counts.prefetched), (expected.kept, expected.prefetched));
    assert_eq!((counts.held_back, counts.forgotten), (expected.held_back, expected.forgotten));
    assert!(counts.prefetched > 100 && counts.held_back > 0, "{counts:?}");
}

#[test]
fn going_back_takes_every_look_back() {
    for kind in CacheKind::ALL {
        let mut random = Pcg64Mcg::seed_from_u64(9);
        let mut own = caches(small(kind));
        for round in 1..500u64 {
            own.keep();
            let (words, counts) = (own.words.clone(), own.second_level_counts());
            for step in 0..20 {
                let supervisor = random.next_u64() % 2 == 0;
                let any = line(random.next_u64() % 90, supervisor);
                let purpose = [Purpose::Load, Purpose::Store, Purpose::Fetch][step % 3];
                own.look_as(any, purpose, round * 100 + step as u64, supervisor);
            }
            own.go_back();
            assert_eq!((&own.words, own.second_level_counts()), (&words, counts), "{kind:?}");
            // Then something happens that stays.
            let supervisor = round % 3 == 0;
            let any = line(random.next_u64() % 90, supervisor);
            access(&mut own, any, round % 2 == 0, supervisor, round * 100 + 50);
            assert!(own.is_sound(), "{kind:?}");
        }
    }
}

#[test]
fn a_line_that_is_lent_clean_and_written_again_is_dirty_when_it_leaves() {
    let mut own = caches(small(CacheKind::OsCache));
    let set = |number: u64| line(number * 16, false);
    for number in 0..5 {
        access(&mut own, set(number), number == 0, false, number);
    }
    assert_eq!(own.state(set(0)), Some(LineState::Exclusive), "memory has a copy");
    assert_eq!(own.marked_lines(Side::Os), [(set(0), LineState::Exclusive, true)]);
    assert!(own.look(set(0), Purpose::Store, 9) != Local::Ask);
    assert_eq!(own.state(set(0)), Some(LineState::Modified));
    assert!(own.invalidate(set(0)), "dirty again");
}
