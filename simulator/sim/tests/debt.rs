//! How debt passes where threads meet, held against the rule written down once more, and against an independent model.

mod listed;

use listed::Listed;
use quaver_dvfs::dvfs::{ControllerConfig, CriticalPath, Table};
use quaver_sim::config::Config;
use quaver_sim::cure::{Cure, CureConfig, CureResults, Library};
use quaver_sim::inject::{Duration, Injection, InjectionConfig};
use quaver_sim::machine::Machine;
use quaver_sync_analysis::sync::SyncClass;
use quaver_trace::block::{Block, Class, Dictionary, Instruction, Registers};
use quaver_trace::step::{Sync, Thread};
use std::collections::BTreeMap;

const THREADS: u32 = 16;
const BARRIER: u64 = 0x500;
/// N of the units, nanoseconds; what is injected takes as much, and more.
const OVER_NS: u64 = 10_000;
/// Seeds of every mean.
const SEEDS: u64 = 5;
const FS_PER_US: f64 = 1e9;

/// One block of 1,500 divisions, each of what the one before gave: about 10 us that only the clock paces.
fn dictionary() -> Dictionary {
    let divide = Instruction {
        octets: 1,
        class: Class::Divide,
        loads: false,
        stores: false,
        reads: Registers::of(0),
        writes: Registers::of(0),
    };
    Dictionary { blocks: vec![Block { pc: 0x40_0000, instructions: vec![divide; 1_500] }] }
}

/// Threads that meet at a barrier after so many blocks each: `blocks(thread, round)`.
fn meetings(rounds: usize, blocks: &dyn Fn(u32, usize) -> usize) -> Vec<Listed> {
    let thread = |id: u32| {
        let mut listed = Listed::default();
        let others = || (1..THREADS).filter(|_| id == 0).map(Thread);
        others().for_each(|thread| listed.sync(Sync::Create { thread }));
        for round in 0..rounds {
            (0..blocks(id, round)).for_each(|_| listed.block(0, Vec::new()));
            listed.sync(Sync::Barrier { object: BARRIER, parties: THREADS });
        }
        others().for_each(|thread| listed.sync(Sync::Join { thread }));
        listed
    };
    (0..THREADS).map(thread).collect()
}

fn run(cure: CureConfig, program: &[Listed]) -> (u64, CureResults) {
    let config = Config::from_toml(&format!("chip.cores = {THREADS}")).unwrap();
    let mut cure = Cure::new(cure, &config, Library::default()).unwrap();
    let mut machine = Machine::with_hooks(&config, &dictionary(), program.to_vec(), &mut cure);
    assert!(machine.run(u64::MAX).unwrap());
    let duration_fs = machine.results().duration_fs;
    drop(machine);
    (duration_fs, cure.finish(duration_fs))
}

fn late(seed: u64, probability: f64, over_ns: u64, together: f64) -> CureConfig {
    let duration =
        Duration::Exceedance { probability, over_ns: over_ns as f64, mean_ns: 100_000.0, sigma: 0.8 };
    let classes = BTreeMap::from([(SyncClass::BroadcastWait, duration)]);
    let injection = Some(InjectionConfig { seed, classes, together, ..InjectionConfig::default() });
    CureConfig { injection, threshold_ns: over_ns, ..CureConfig::default() }
}

fn with_dvfs(cure: CureConfig, critical_path: CriticalPath, table: Table) -> CureConfig {
    CureConfig {
        dvfs: Some(ControllerConfig { critical_path, table, ..ControllerConfig::default() }),
        ..cure
    }
}

/// Cores that cannot change their frequency, so that nothing is given back.
fn at_rest() -> Table {
    let points = vec![Table::default().points[Table::default().rest]];
    Table { points, rest: 0, ..Table::default() }
}

/// The rule once more: what each thread owes at its end if nothing is ever given back, microseconds.
struct Oracle {
    rule: CriticalPath,
    now_us: Vec<f64>,
    owed_us: Vec<f64>,
}

impl Oracle {
    /// All are at the barrier: who comes last wakes the others, and some of these are late by what `draw` says.
    fn meet(&mut self, mut draw: impl FnMut(usize) -> f64) {
        let end_us = self.now_us.iter().copied().fold(0.0, f64::max);
        let last = self.now_us.iter().position(|now_us| *now_us == end_us).unwrap();
        let most_us = self.owed_us.iter().copied().fold(f64::MIN, f64::max);
        let most_each_us =
            (0..self.now_us.len()).map(|thread| self.owed_us[thread] + end_us - self.now_us[thread]);
        let least_us = most_each_us.fold(f64::MAX, f64::min);
        for thread in 0..self.now_us.len() {
            match self.rule {
                CriticalPath::Join => {}
                CriticalPath::Max => self.owed_us[thread] = most_us,
                CriticalPath::Slack => self.owed_us[thread] = least_us,
            }
            let late_us = if thread == last { 0.0 } else { draw(thread) };
            self.now_us[thread] = end_us + late_us;
            self.owed_us[thread] += late_us;
        }
    }
}

#[test]
fn what_sixteen_threads_owe_at_barriers_is_what_the_rule_says() {
    let rounds = 60;
    // No two have the same work, and not the same one has most.
    let blocks = |id: u32, round: usize| 6 + (id as usize * 7 + round * 5) % 16;
    let program = meetings(rounds, &blocks);
    let one = |blocks: usize| run(CureConfig::default(), &meetings(1, &|_, _| blocks)).0 as f64 / FS_PER_US;
    let block_us = (one(101) - one(1)) / 100.0;
    let mut ends = Vec::new();
    for (seed, rule) in [1, 2, 3].into_iter().flat_map(|seed| CriticalPath::ALL.map(|rule| (seed, rule))) {
        let cure = late(seed, 0.05, OVER_NS, 0.0);
        let (duration_fs, seen) = run(with_dvfs(cure.clone(), rule, at_rest()), &program);
        ends.push((seed, duration_fs));
        let mut injection = Injection::new(cure.injection.as_ref().unwrap(), THREADS as usize);
        (1..THREADS).for_each(|_| injection.enters(0)); // It creates the others.
        let all = THREADS as usize;
        let mut oracle = Oracle { rule, now_us: vec![0.0; all], owed_us: vec![0.0; all] };
        for round in 0..rounds {
            for id in 0..THREADS {
                oracle.now_us[id as usize] += blocks(id, round) as f64 * block_us;
                injection.enters(id);
            }
            oracle.meet(|thread| {
                let draw = injection.draw(thread as u32, SyncClass::BroadcastWait, None);
                draw.duration_fs as f64 / FS_PER_US
            });
        }
        for (thread, (owed_fs, owed_us)) in seen.owed_fs.iter().zip(&oracle.owed_us).enumerate().skip(1) {
            let far_us = (*owed_fs as f64 / FS_PER_US - owed_us).abs();
            // A wake-up takes 10 ns of T, and a wait is known to a block's beginning.
            assert!(far_us < 0.1 * rounds as f64, "{rule:?} {seed} {thread}: {owed_fs} fs, {owed_us} us");
        }
        assert!(oracle.owed_us.iter().any(|owed_us| *owed_us > 100.0), "{:?}", oracle.owed_us);
        assert_eq!(seen.beyond_slack_fs.iter().any(|beyond_fs| *beyond_fs > 0), rule == CriticalPath::Max);
    }
    ends.dedup();
    assert_eq!(ends.len(), 3, "without speed the rule is bookkeeping only: {ends:?}");
}

#[test]
fn debt_by_slack_is_how_much_later_the_program_ends() {
    // All have the same work, so that only lateness decides who comes last.
    let program = meetings(60, &|_, _| 8);
    let (ideal_fs, _) = run(CureConfig::default(), &program);
    for seed in 1..=3 {
        let cure = with_dvfs(late(seed, 0.05, OVER_NS, 0.0), CriticalPath::Slack, at_rest());
        let (late_fs, seen) = run(cure, &program);
        // Whoever ends last has the whole of it, and all others no more.
        let most_fs = seen.owed_fs[1..].iter().copied().max().unwrap();
        let later_fs = (late_fs - ideal_fs) as i64;
        assert!(later_fs > 500 * FS_PER_US as i64, "{later_fs}");
        assert!(most_fs.abs_diff(later_fs) < 6 * FS_PER_US as u64, "seed {seed}: {most_fs} {later_fs}");
    }
}

/// Mean and largest distance from the mean over seeds, in percent.
fn slow_downs(program: &[Listed], of: &dyn Fn(u64) -> CureConfig) -> (f64, f64) {
    let (ideal_fs, _) = run(CureConfig::default(), program);
    let each: Vec<f64> =
        (1..=SEEDS).map(|seed| (run(of(seed), program).0 as f64 / ideal_fs as f64 - 1.0) * 100.0).collect();
    let mean = each.iter().sum::<f64>() / each.len() as f64;
    (mean, each.iter().map(|one| (one - mean).abs()).fold(0.0, f64::max))
}

/// From the least to the largest.
type Range = (f64, f64);

/// Least and largest slow-down over 40 seeds of an independent model of sixteen threads at barriers (30 ms, percent): barrier
/// each so many microseconds, probability of lateness (100 us, σ 0.8); without DVFS, debt at joins alone, largest debt at barriers.
const MODEL: [(usize, f64, [Range; 3]); 3] = [
    (100, 0.0100, [(7.49, 22.62), (9.01, 25.54), (0.02, 7.24)]),
    (330, 0.0330, [(9.03, 19.23), (6.48, 14.94), (0.06, 4.05)]),
    (1_000, 0.1000, [(6.46, 18.1), (1.69, 8.62), (0.05, 3.93)]),
];

#[test]
fn the_machine_meets_an_independent_model_within_the_spread_of_seeds() {
    // The model's voltage needs no time.
    let table = || Table { ramp_us: 0.0, ..Table::default() };
    for (each_us, probability, [without, join, max]) in MODEL {
        let program = meetings(30_000 / each_us, &|_, _| each_us / 10);
        // All of what is drawn counts.
        let late = |seed| late(seed, probability, 0, 0.0);
        let bare = slow_downs(&program, &late);
        let joins = slow_downs(&program, &|seed| with_dvfs(late(seed), CriticalPath::Join, table()));
        let largest = slow_downs(&program, &|seed| with_dvfs(late(seed), CriticalPath::Max, table()));
        let slack = slow_downs(&program, &|seed| with_dvfs(late(seed), CriticalPath::Slack, table()));
        let near = |(mean, _): (f64, f64), (least, most): (f64, f64), what: &str| {
            assert!((least..=most).contains(&mean), "{each_us} us, {what}: {mean}, model {least} to {most}");
        };
        near(bare, without, "no DVFS");
        near(joins, join, "join");
        near(largest, max, "max");
        near(slack, max, "slack");
        assert!(
            largest.0 < joins.0 && joins.0 < 1.2 * bare.0,
            "{each_us} us: {largest:?} {joins:?} {bare:?}"
        );
        // (1 + J) / 1.2 - 1: no clock of the table can do better.
        assert!(largest.0 > (100.0 + bare.0) / 1.2 - 100.0);
    }
}

#[test]
fn with_debt_at_barriers_a_smaller_k_is_never_worse() {
    for (each_us, probability, _) in MODEL {
        let program = meetings(30_000 / each_us, &|_, _| each_us / 10);
        let with = |reactivity| {
            let of = |seed| {
                let dvfs = Some(ControllerConfig { reactivity, ..ControllerConfig::default() });
                CureConfig { dvfs, ..late(seed, probability, OVER_NS, 0.0) }
            };
            slow_downs(&program, &of).0
        };
        let [one, two, four] = [1, 2, 4].map(with);
        assert!(one <= two && two <= four, "{each_us} us: {one} {two} {four}");
    }
}

#[test]
fn without_lateness_no_rule_changes_a_femtosecond() {
    let program = meetings(60, &|id, round| 20 + (id as usize * 7 + round * 5) % 11);
    let (ideal_fs, _) = run(CureConfig::default(), &program);
    for rule in CriticalPath::ALL {
        let (with_fs, seen) = run(with_dvfs(CureConfig::default(), rule, Table::default()), &program);
        assert_eq!(with_fs, ideal_fs, "{rule:?}");
        assert!(seen.owed_fs.iter().all(|owed_fs| *owed_fs == 0), "{rule:?}: {:?}", seen.owed_fs);
        assert_eq!(seen.beyond_slack_fs, vec![0; THREADS as usize]);
    }
}

/// Two threads that take turns: a lock or a wait passes what the one that was late owes.
#[test]
fn a_lock_passes_the_debt_of_its_holder_to_who_waited_for_it() {
    let program = || {
        let mut threads = meetings(1, &|_, _| 1);
        for (id, thread) in threads.iter_mut().enumerate().skip(1) {
            *thread = Listed::default();
            thread.sync(Sync::Barrier { object: BARRIER, parties: THREADS });
            if id <= 2 {
                // The second comes while the first holds the lock, unless that is late by more.
                (0..30 * (id - 1)).for_each(|_| thread.block(0, Vec::new()));
                thread.sync(Sync::Lock { object: 0x900 });
                (0..40).for_each(|_| thread.block(0, Vec::new()));
                thread.sync(Sync::Unlock { object: 0x900 });
            }
        }
        threads
    };
    // All fifteen that wait at the barrier are late by their own luck; the second waits for the first in any case but one.
    let owed = |rule, seed| {
        let cure = with_dvfs(late(seed, 0.5, OVER_NS, 0.0), rule, at_rest());
        let seen = run(cure, &program()).1;
        (seen.owed_fs[1], seen.owed_fs[2])
    };
    let mut passed = 0;
    for seed in 1..=20 {
        let (first, second) = owed(CriticalPath::Join, seed);
        for rule in [CriticalPath::Max, CriticalPath::Slack] {
            let (holder, waiter) = owed(rule, seed);
            let most = first.max(second);
            // Whichever had the lock first passes on; the other had nothing from it.
            assert!(
                (holder, waiter) == (first, most) || (holder, waiter) == (most, second),
                "{rule:?} {seed}"
            );
            passed += u64::from((holder, waiter) != (first, second));
        }
    }
    assert!(passed >= 4, "it happens: {passed}");
}
