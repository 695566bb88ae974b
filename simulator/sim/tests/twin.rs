//! The caches beside a brute-force twin: lists of lines with the time of their last use.

use quaver_sim::coherence::{Chip, Local, Purpose};
use quaver_sim::config::Config;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// A cache as a list; nothing is clever here.
struct Naive {
    lines: Vec<(u64, u64)>,
    sets: u64,
    ways: usize,
}

impl Naive {
    fn use_line(&mut self, line: u64, now: u64) -> bool {
        match self.lines.iter_mut().find(|(other, _)| *other == line) {
            Some((_, used)) => {
                *used = now;
                true
            }
            None => false,
        }
    }

    /// Takes the line in; gives back the one that had to go.
    fn take(&mut self, line: u64, now: u64) -> Option<u64> {
        let (sets, ways) = (self.sets, self.ways);
        let same_set: Vec<(u64, u64)> =
            self.lines.iter().copied().filter(|(other, _)| other % sets == line % sets).collect();
        let oldest = same_set.iter().min_by_key(|(_, used)| *used).map(|(line, _)| *line);
        let gone = oldest.filter(|_| same_set.len() == ways);
        self.lines.retain(|(other, _)| Some(*other) != gone);
        self.lines.push((line, now));
        gone
    }
}

fn twins(text: &str, spread: u64, seed: u64) {
    let config = Config::from_toml(&format!("machine = 'paper'\n{text}")).unwrap();
    let mut chip = Chip::new(&config, 1, ());
    let naive = |cache: &quaver_sim::config::CacheConfig| Naive {
        lines: Vec::new(),
        sets: cache.sets(),
        ways: cache.ways,
    };
    let (mut first, mut second) = (naive(&config.l1), naive(&config.l2));
    let halves = config.l2.line_octets / config.l1.line_octets;
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    for now in 0..60_000 {
        let line = random.next_u64() % spread;
        let purpose = if random.next_u64().is_multiple_of(4) { Purpose::Store } else { Purpose::Load };
        let found = chip.cores[0].look(line, purpose, 0);
        let expected =
            match (first.use_line(line, now), second.lines.iter().any(|(l, _)| *l == line / halves)) {
                (true, _) => Local::First,
                (false, true) => Local::Second,
                (false, false) => Local::Ask,
            };
        assert_eq!(found, expected, "access {now} to line {line}, seed {seed}");
        if expected == Local::First {
            continue;
        }
        if !second.use_line(line / halves, now) {
            chip.transact(0, line, purpose, now);
            if let Some(gone) = second.take(line / halves, now) {
                first.lines.retain(|(other, _)| other / halves != gone);
            }
        }
        first.take(line, now);
    }
}

#[test]
fn both_levels_equal_the_twin_access_by_access() {
    twins("l1.kib = 1\nl2.kib = 4", 600, 1);
    twins("l1.kib = 1\nl1.ways = 4\nl2.kib = 8\nl2.ways = 8", 700, 2);
    twins("l1.kib = 2\nl1.ways = 1\nl2.kib = 4\nl2.ways = 2\nl2.line_octets = 128", 500, 3);
}
