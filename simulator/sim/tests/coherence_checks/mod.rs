//! Checks of the protocol between the caches, for the ordinary tests and for fuzzers.

#![allow(unreachable_pub, reason = "fuzz/ uses it from another crate")]
#![allow(dead_code, reason = "each user takes its part")]

use quaver_sim::cache::LineState;
use quaver_sim::coherence::{Chip, Local, Observer, Purpose, SecondLevel, bits};
use quaver_sim::config::Config;
use std::collections::HashMap;

/// What each cache and memory hold of each line: the number of the last write that they know.
#[derive(Default)]
pub struct Values {
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

/// The caches, and what each read must give.
pub struct Oracle {
    /// The caches and the directory.
    pub chip: Chip<Values>,
    last: HashMap<u64, u64>,
    writes: u64,
}

impl Oracle {
    /// Empty caches of this machine.
    pub fn new(text: &str) -> Self {
        Self::with_second_level(text, &SecondLevel::default())
    }

    /// The same with another second level.
    pub fn with_second_level(text: &str, level: &SecondLevel) -> Self {
        // Time stands still here, so nothing may queue.
        let config = Config::from_toml(&format!("machine = 'paper'\n{text}")).expect("a machine that can be");
        let chip = Chip::new(&config, 1, Values::default()).with_second_level(level, &config);
        Self { chip, last: HashMap::new(), writes: 0 }
    }

    /// One access, whole before the next begins: what it reads must be what was written last by anybody.
    pub fn access(&mut self, core: usize, first_line: u64, purpose: Purpose) {
        self.access_as(core, first_line, purpose, (false, 0));
    }

    /// The same by the kernel or not, at a time in femtoseconds.
    pub fn access_as(
        &mut self,
        core: usize,
        first_line: u64,
        purpose: Purpose,
        (supervisor, at_fs): (bool, u64),
    ) {
        let line = self.chip.second_line(first_line);
        if self.chip.cores[core].look_as(first_line, purpose, at_fs, supervisor) == Local::Ask {
            self.chip.cores[core].request(supervisor, at_fs);
            self.chip.transact(core, first_line, purpose, at_fs);
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
        let states: Vec<(usize, LineState)> = (self.chip.cores.iter().enumerate())
            .filter_map(|(core, caches)| caches.state(line).map(|state| (core, state)))
            .collect();
        let holders = self.chip.directory().peek(line);
        let known: Vec<usize> = holders.map_or(Vec::new(), |holders| bits(holders.cores()).collect());
        assert_eq!(known, states.iter().map(|(core, _)| *core).collect::<Vec<_>>(), "line {line}");
        let writers = states.iter().filter(|(_, state)| *state != LineState::Shared).count();
        assert!(writers == 0 || (writers == 1 && states.len() == 1), "line {line}: {states:?}");
        assert_eq!(holders.and_then(|holders| holders.owning()).is_some(), writers == 1, "line {line}");
    }

    /// The same of all lines, and that the second level holds what the first holds.
    pub fn check_all(&self) {
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
        let known: u32 = self.chip.directory().iter().map(|(_, holders)| holders.cores().count_ones()).sum();
        assert_eq!(known, held, "the directory knows the caches, and nothing else");
        assert_eq!(self.chip.observer.caches.len() as u32, held);
    }
}

/// Machines of few lines, in each of which something else happens all the time.
const MACHINES: [&str; 6] = [
    "chip.cores = 4\nl1.kib = 1\nl1.ways = 1\nl2.kib = 1\nl2.ways = 1\ndirectory.entries = 16\ndirectory.ways = 4",
    "chip.cores = 3\nl1.kib = 1\nl2.kib = 1\ndirectory.entries = 4\ndirectory.ways = 2",
    "chip.cores = 16\nl1.kib = 1\nl2.kib = 2\ndirectory.entries = 64",
    "chip.cores = 32\nl1.kib = 1\nl1.line_octets = 64\nl2.kib = 1\ndirectory.entries = 128\ndirectory.ways = 8",
    "chip.cores = 2\nl1.kib = 1\nl1.ways = 4\nl2.kib = 2\nl2.ways = 8\nl2.line_octets = 128\ndirectory.entries = 8\ndirectory.ways = 8",
    "chip.cores = 8\nl1.kib = 2\nl2.kib = 2\ndirectory.entries = 1\ndirectory.ways = 1",
];

/// Carries out operations that the bytes say: the first names the machine, then three an operation. After each, one may
/// write and nobody else has the line, or any number may read it, and what is read is what was written last; after each
/// sixteen, all lines of all caches and of the directory are looked at. How many operations there were.
pub fn operations(octets: &[u8]) -> usize {
    let Some((machine, operations)) = octets.split_first() else { return 0 };
    let mut oracle = Oracle::new(MACHINES[usize::from(*machine) % MACHINES.len()]);
    let cores = oracle.chip.cores.len();
    let mut count = 0;
    for operation in operations.chunks_exact(3) {
        let [who, how, line] = [0, 1, 2].map(|at| u64::from(operation[at]));
        let purpose = match how & 3 {
            0 | 1 => Purpose::Load,
            2 => Purpose::Store,
            _ => Purpose::Fetch,
        };
        oracle.access(who as usize % cores, (how >> 2 & 7) << 8 | line, purpose);
        count += 1;
        if count % 16 == 0 {
            oracle.check_all();
        }
    }
    oracle.check_all();
    count
}
