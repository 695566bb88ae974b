//! The protocol between the caches: one writer or many readers, a directory that knows, and data that are the last written.

mod coherence_checks;

use coherence_checks::{Oracle, operations};
use quaver_sim::cache::LineState;
use quaver_sim::coherence::Purpose;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// Small enough that everything happens often: evictions from both levels, and recalls by the directory.
const SMALL: &str = "l1.kib = 1\nl2.kib = 4\ndirectory.entries = 256";

#[test]
fn ten_million_random_operations_read_what_was_written_last() {
    let mut oracle = Oracle::new(SMALL);
    let mut random = Pcg64Mcg::seed_from_u64(0x7a11);
    for operation in 0..10_000_000_u64 {
        let word = random.next_u64();
        let core = (word & 15) as usize;
        // A few lines that all want, and many that few do.
        let line = if word >> 4 & 1 == 0 { word >> 8 & 15 } else { word >> 8 & 1023 };
        let purpose = match word >> 5 & 7 {
            0..=2 => Purpose::Store,
            3 => Purpose::Fetch,
            _ => Purpose::Load,
        };
        oracle.access(core, line, purpose);
        if operation.is_multiple_of(100_000) {
            oracle.check_all();
        }
    }
    oracle.check_all();
    let counts = oracle.chip.counts;
    let least = [counts.invalidations, counts.downgrades, counts.recalls, counts.written_back];
    assert!(least.iter().all(|count| *count > 10_000), "everything was tried: {counts:?}");
}

#[test]
fn every_transition_of_the_protocol_is_the_one_of_mesi() {
    use LineState::{Exclusive, Modified, Shared};
    use Purpose::{Load, Store};
    let after = |accesses: &[(usize, Purpose)]| {
        let mut oracle = Oracle::new("chip.cores = 3");
        accesses.iter().for_each(|&(core, purpose)| oracle.access(core, 9, purpose));
        let line = oracle.chip.second_line(9);
        [0, 1, 2].map(|core| oracle.chip.cores[core].state(line))
    };
    for (accesses, states) in [
        (&[(0, Load)][..], [Some(Exclusive), None, None]),
        (&[(0, Store)], [Some(Modified), None, None]),
        (&[(0, Load), (0, Store)], [Some(Modified), None, None]),
        (&[(0, Load), (1, Load)], [Some(Shared), Some(Shared), None]),
        (&[(0, Store), (1, Load)], [Some(Shared), Some(Shared), None]),
        (&[(0, Store), (1, Store)], [None, Some(Modified), None]),
        (&[(0, Load), (1, Store)], [None, Some(Modified), None]),
        (&[(0, Load), (1, Load), (0, Store)], [Some(Modified), None, None]),
        (&[(0, Load), (1, Load), (2, Store)], [None, None, Some(Modified)]),
        (&[(0, Store), (1, Load), (2, Load)], [Some(Shared), Some(Shared), Some(Shared)]),
        (&[(0, Store), (1, Load), (0, Load)], [Some(Shared), Some(Shared), None]),
    ] {
        assert_eq!(after(accesses), states, "{accesses:?}");
    }
}

#[test]
fn a_directory_with_fewer_entries_than_lines_recalls_them() {
    let mut oracle = Oracle::new("directory.entries = 16\ndirectory.ways = 16");
    (0..17).for_each(|line| oracle.access(0, line * 2, Purpose::Store));
    assert_eq!((oracle.chip.counts.recalls, oracle.chip.counts.written_back), (1, 1));
    oracle.check_all();
    assert_eq!(oracle.chip.cores[0].state(0), None, "the oldest had to leave");
}

#[test]
fn random_octets_are_operations_on_machines_of_few_lines() {
    let mut random = Pcg64Mcg::seed_from_u64(0xc0de);
    for input in 0..3000_u64 {
        let mut octets = vec![input as u8];
        // Few lines, or many.
        let mask = if input & 8 == 0 { 0x1f_07_ff } else { 0xff_ff_ff };
        (0..200).for_each(|_| octets.extend(&(random.next_u32() & mask).to_le_bytes()[..3]));
        assert_eq!(operations(&octets), 200);
    }
    assert_eq!(operations(&[]), 0);
}
