//! Coherence with second levels that are not plain: the same checks after every operation, and no line in two caches.

mod coherence_checks;

use coherence_checks::Oracle;
use quaver_sim::coherence::{Purpose, SecondLevel};
use quaver_sim::cure::{CacheKind, CureCache};
use quaver_sim::private::Side;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// 16 sets of 4 in the second level, 4 of 4 in the OS cache.
const SMALL: &str = "chip.cores = 6\nl1.kib = 1\nl2.kib = 4\ndirectory.entries = 256";
/// First-level lines of the kernel's half of the addresses.
const KERNELS: u64 = 1 << 58;

fn random_operations(kind: CacheKind, operations: u64, sharing: bool) -> Oracle {
    let cache =
        CureCache { os_cache_kib: 1, os_cache_sharing: sharing, prefetch_entries: 8, ..CureCache::of(kind) };
    let level = SecondLevel { cache, counts_evictions: true };
    let mut oracle = Oracle::with_second_level(SMALL, &level);
    let mut random = Pcg64Mcg::seed_from_u64(0x05ca);
    let mut kernel_runs = [false; 6];
    for at in 0..operations {
        let word = random.next_u64();
        let core = (word & 0xff) as usize % 6;
        match word >> 8 & 0xff {
            0 => oracle.chip.flush(core, at),
            1..6 => {
                kernel_runs[core] = !kernel_runs[core];
                oracle.chip.cores[core].switch(kernel_runs[core], at);
            }
            6..9 => {
                for line in oracle.chip.cores[core].take_buffer() {
                    if oracle.chip.cores[core].may_come_back(line, at) {
                        oracle.chip.bring_back(core, line, at);
                    }
                }
            }
            what => {
                // A store that the application asked for may be answered while the kernel runs, and code of programs reach
                // lines of the kernel's half: whatever comes, a line is in one cache.
                let supervisor = kernel_runs[core] ^ (what == 9);
                let number = if word >> 16 & 1 == 0 { word >> 24 & 15 } else { word >> 24 & 511 };
                let half = if word >> 17 & 3 == 0 { !supervisor } else { supervisor };
                let purpose =
                    [Purpose::Load, Purpose::Store, Purpose::Fetch][(word >> 20 & 7).min(2) as usize];
                oracle.access_as(core, number | (KERNELS * u64::from(half)), purpose, (supervisor, at));
            }
        }
        let [mut one, other] =
            [Side::Application, Side::Os].map(|side| oracle.chip.cores[core].marked_lines(side));
        one.retain(|(line, ..)| other.iter().any(|(same, ..)| same == line));
        assert!(one.is_empty(), "in both caches of core {core}: {one:?}");
        if at.is_multiple_of(5_000) {
            oracle.check_all();
        }
    }
    oracle.check_all();
    oracle
}

#[test]
fn a_line_is_never_in_both_caches_and_the_directory_sees_one() {
    for sharing in [true, false] {
        let oracle = random_operations(CacheKind::OsCache, 300_000, sharing);
        let counts = oracle.chip.cores[1].second_level_counts().unwrap();
        assert!(counts.hits[1] > 1_000 && counts.evicted_by_kernel > 500, "{counts:?}");
        let lends = [counts.lent[0], counts.lent[1], counts.refused, counts.copied, counts.other_hits[0]];
        assert!(lends.iter().all(|count| (*count > 100) == sharing), "{counts:?}");
    }
}

#[test]
fn data_are_the_last_written_with_prefetching_and_pinning() {
    for kind in [CacheKind::Unified, CacheKind::Prefetch, CacheKind::Pinned] {
        let oracle = random_operations(kind, 300_000, false);
        let counts = oracle.chip.cores[1].second_level_counts().unwrap();
        let says = match kind {
            CacheKind::Prefetch => counts.prefetched,
            CacheKind::Pinned => counts.pinned,
            CacheKind::Unified | CacheKind::OsCache => counts.evicted_by_kernel,
        };
        assert!(says > 100, "{kind:?}: {counts:?}");
    }
}
