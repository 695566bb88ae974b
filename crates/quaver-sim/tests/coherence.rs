//! The protocol between the caches: one writer or many readers, a directory that knows, and data that are the last written.

use quaver_sim::cache::State;
use quaver_sim::coherence::{Chip, Local, Observer, Purpose, bits};
use quaver_sim::config::Config;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use std::collections::HashMap;

/// What each cache and memory hold of each line: the number of the last write that they know.
#[derive(Default)]
struct Values {
    memory: HashMap<u64, u64>,
    caches: HashMap<(usize, u64), u64>,
}

impl Observer for Values {
    fn copied(&mut self, line: u64, from: Option<usize>, to: Option<usize>) {
        let value = match from {
            Some(core) => *self.caches.get(&(core, line)).expect("a core gives what it holds"),
            None => self.memory.get(&line).copied().unwrap_or(0),
        };
        match to {
            Some(core) => self.caches.insert((core, line), value),
            None => self.memory.insert(line, value),
        };
    }

    fn dropped(&mut self, line: u64, core: usize) {
        self.caches.remove(&(core, line)).expect("a core drops what it holds");
    }
}

/// Small enough that everything happens often: evictions from both levels, and recalls by the directory.
const SMALL: &str = "l1.kib = 1\nl2.kib = 4\ndirectory.entries = 256";

struct Oracle {
    chip: Chip<Values>,
    last: HashMap<u64, u64>,
    writes: u64,
}

impl Oracle {
    fn new(text: &str) -> Self {
        let config = Config::from_toml(text).unwrap();
        Self { chip: Chip::new(&config, 1, Values::default()), last: HashMap::new(), writes: 0 }
    }

    /// One access, whole before the next begins: what it reads must be what was written last by anybody.
    fn access(&mut self, core: usize, first_line: u64, purpose: Purpose) {
        let line = self.chip.second_line(first_line);
        if self.chip.cores[core].look(first_line, purpose, 0) == Local::Ask {
            self.chip.transact(core, first_line, purpose, 0);
        }
        let held = self.chip.observer.caches.get_mut(&(core, line)).expect("it holds the line now");
        let last = self.last.entry(line).or_default();
        assert_eq!(held, last, "core {core} sees an old value of line {line}");
        if purpose == Purpose::Store {
            self.writes += 1;
            *held = self.writes;
            *last = self.writes;
        }
        self.check(line);
    }

    /// One that may write and nobody else, or any number that may read; the directory knows exactly who.
    fn check(&self, line: u64) {
        let states: Vec<(usize, State)> = (self.chip.cores.iter().enumerate())
            .filter_map(|(core, caches)| caches.state(line).map(|state| (core, state)))
            .collect();
        let holders = self.chip.directory().peek(line);
        let known: Vec<usize> = holders.map_or(Vec::new(), |holders| bits(holders.cores()).collect());
        assert_eq!(known, states.iter().map(|(core, _)| *core).collect::<Vec<_>>(), "line {line}");
        let writers = states.iter().filter(|(_, state)| *state != State::Shared).count();
        assert!(writers == 0 || (writers == 1 && states.len() == 1), "line {line}: {states:?}");
        assert_eq!(holders.and_then(|holders| holders.owning()).is_some(), writers == 1, "line {line}");
    }

    /// The same of all lines, and that the second level holds what the first holds.
    fn check_all(&self) {
        let mut held = 0;
        for caches in &self.chip.cores {
            for (line, _) in caches.lines() {
                self.check(line);
                held += 1;
            }
            for (first, state) in caches.data_lines() {
                let second =
                    caches.state(self.chip.second_line(first)).expect("the second level holds it too");
                assert!(state <= second, "line {first} may do more in the first level than in the second");
            }
        }
        let known: u32 = self.chip.directory().iter().map(|holders| holders.cores().count_ones()).sum();
        assert_eq!(known, held, "the directory knows the caches, and nothing else");
        assert_eq!(self.chip.observer.caches.len() as u32, held);
    }
}

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
    use Purpose::{Load, Store};
    use State::{Exclusive, Modified, Shared};
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
