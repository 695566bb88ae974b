//! What DVFS gives back, and what it cannot: where debt passes to all that meet, a smaller k gives back sooner. Where only the
//! late thread owes, every change makes it worse once all meet more often than subframes end.

mod listed;

use listed::Listed;
use quaver_dvfs::dvfs::{ControllerConfig, CriticalPath, Table};
use quaver_sim::config::Config;
use quaver_sim::cure::{Cure, CureConfig, CureResults, Library};
use quaver_sim::frames::FrameConfig;
use quaver_sim::inject::{Duration, InjectionConfig};
use quaver_sim::machine::Machine;
use quaver_sync_analysis::sync::SyncClass;
use quaver_trace::block::{Block, Class, Dictionary, Instruction, Registers};
use quaver_trace::step::{Sync, Thread};
use std::collections::BTreeMap;

const THREADS: u32 = 16;
/// A subframe, femtoseconds.
const SUBFRAME_FS: u64 = 330_000_000_000;
/// Seeds of every statement.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=10;

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

/// Threads that all do so many blocks, meet at a barrier, and again.
fn meetings(rounds: usize, blocks: usize) -> Vec<Listed> {
    let thread = |id: u32| {
        let mut listed = Listed::default();
        let others = || (1..THREADS).filter(|_| id == 0).map(Thread);
        others().for_each(|thread| listed.sync(Sync::Create { thread }));
        for _ in 0..rounds {
            (0..blocks).for_each(|_| listed.block(0, Vec::new()));
            listed.sync(Sync::Barrier { object: 0x500, parties: THREADS });
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

/// Who waits at a barrier is late with this probability, by a log-normal time: all of them or none (`together` 1), or each by
/// his own luck (0).
struct Lateness {
    probability: f64,
    mean_us: f64,
    sigma: f64,
    together: f64,
}

impl Lateness {
    fn cure(&self, seed: u64) -> CureConfig {
        let Self { probability, mean_us, sigma, together } = *self;
        let duration = Duration::Exceedance { probability, over_ns: 0.0, mean_ns: mean_us * 1e3, sigma };
        let classes = BTreeMap::from([(SyncClass::BroadcastWait, duration)]);
        let injection = Some(InjectionConfig { seed, classes, together, ..InjectionConfig::default() });
        let frames = FrameConfig { dummy_subframes: 4, ..FrameConfig::default() };
        // All of it counts, so that what is owed is what was drawn.
        CureConfig { injection, threshold_ns: 0, frames, ..CureConfig::default() }
    }
}

fn with_dvfs(cure: CureConfig, rule: CriticalPath, reactivity: u32, pll_lock_us: f64) -> CureConfig {
    let table = Table { pll_lock_us, ..Table::default() };
    let config = ControllerConfig { reactivity, table, critical_path: rule, ..ControllerConfig::default() };
    CureConfig { dvfs: Some(config), ..cure }
}

/// Slow-downs of a program, seed by seed.
struct SlowDowns {
    /// How many subframes the program takes without jitter.
    subframes: u64,
    without: Vec<f64>,
    /// With k = 1, 2 and 4.
    with: [Vec<f64>; 3],
    /// Owed by all threads of all seeds at their ends, and after four dummy subframes, femtoseconds; what was given back too
    /// much counts as well.
    owed_fs: [(u64, u64); 3],
    /// k = 1, if a change of frequency took no time.
    at_once: Vec<f64>,
}

const REACTIVITIES: [u32; 3] = [1, 2, 4];
/// A change of frequency, microseconds.
const PLL_US: f64 = 10.0;

impl SlowDowns {
    fn of(program: &[Listed], late: &Lateness, rule: CriticalPath) -> Self {
        let (ideal_fs, _) = run(CureConfig::default(), program);
        let over = |cured_fs: u64| cured_fs as f64 / ideal_fs as f64 - 1.0;
        let owed = |owed_fs: &[i64]| owed_fs.iter().map(|one| one.unsigned_abs()).sum::<u64>();
        let mut found = Self {
            subframes: ideal_fs / SUBFRAME_FS,
            without: Vec::new(),
            with: Default::default(),
            owed_fs: Default::default(),
            at_once: Vec::new(),
        };
        for seed in SEEDS {
            found.without.push(over(run(late.cure(seed), program).0));
            for (place, k) in REACTIVITIES.into_iter().enumerate() {
                let (cured_fs, cure) = run(with_dvfs(late.cure(seed), rule, k, PLL_US), program);
                found.with[place].push(over(cured_fs));
                found.owed_fs[place].0 += owed(&cure.owed_fs);
                found.owed_fs[place].1 += owed(&cure.owed_after_dummies_fs);
            }
            found.at_once.push(over(run(with_dvfs(late.cure(seed), rule, 1, 0.0), program).0));
        }
        found
    }

    fn means(&self) -> [f64; 3] {
        [0, 1, 2].map(|place| mean(&self.with[place]))
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// All are late by about 100 us at every other meeting, and have two subframes until the next: who gives back sooner is done
/// with it when they meet again.
#[test]
fn what_all_lose_together_is_given_back_sooner_with_a_smaller_k() {
    let late = Lateness { probability: 0.5, mean_us: 100.0, sigma: 0.3, together: 1.0 };
    let found = SlowDowns::of(&meetings(50, 80), &late, CriticalPath::Max);
    assert!(found.subframes >= 100, "{}", found.subframes);
    let [one, two, four] = found.means();
    let without = mean(&found.without);
    assert!(one <= two && two <= four, "{one} {two} {four}");
    assert!(four < 0.6 * without, "without it {without}, at k = 4 {four}");
    for (seed, without) in found.without.iter().enumerate() {
        for with in &found.with {
            // What is injected passes at any frequency; only the work becomes shorter, by 1.2 at most.
            assert!(with[seed] < *without && 1.0 + with[seed] >= 1.0 / 1.2 + without, "seed {seed}");
        }
    }
    for (place, (end_fs, after_fs)) in found.owed_fs.into_iter().enumerate() {
        assert!(after_fs < end_fs, "k = {}: {end_fs}, and {after_fs} after dummies", REACTIVITIES[place]);
    }
    let left = found.owed_fs.map(|(_, after_fs)| after_fs);
    assert!(left.is_sorted(), "a larger k leaves more: {left:?}");
}

/// The same lateness where all meet more often than subframes end. Where debt passes at joins alone nothing is given back before
/// they meet again, and k = 1 only changes its frequency more; where all that meet owe it, k = 1 is best here, too.
#[test]
fn where_all_meet_more_often_than_subframes_end_a_smaller_k_is_better_only_if_debt_passes() {
    let late = Lateness { probability: 0.2, mean_us: 100.0, sigma: 0.6, together: 1.0 };
    let program = meetings(200, 20);
    let joins = SlowDowns::of(&program, &late, CriticalPath::Join);
    let [one, two, four] = joins.means();
    assert!(one > two && two > four, "{one} {two} {four}");
    assert!(one < mean(&joins.without));
    assert!(mean(&joins.at_once) < one, "a part of it is what changes take");
    let all = SlowDowns::of(&program, &late, CriticalPath::Max);
    let [best, two, four] = all.means();
    assert!(best <= two && two <= four, "{best} {two} {four}");
    assert!(four < one / 3.0, "{four} {one}");
}

/// One thread at a time is late, by less than a change of frequency takes. Others wait for it at the next barrier, long before
/// its subframe ends. If it alone owes, it then runs faster for nobody: even a change that takes no time wins nothing, and one
/// that takes 10 us lets all others wait again. If all owe, all win it back.
#[test]
fn what_single_threads_lose_between_barriers_is_won_back_only_if_all_owe_it() {
    let late = Lateness { probability: 0.005, mean_us: 8.0, sigma: 0.0, together: 0.0 };
    let program = meetings(1_000, 4);
    let found = SlowDowns::of(&program, &late, CriticalPath::Join);
    for (seed, without) in found.without.iter().enumerate() {
        for (with, k) in found.with.iter().zip(REACTIVITIES) {
            assert!(with[seed] > *without, "k = {k}, seed {seed}: {} instead of {without}", with[seed]);
        }
        assert!(
            (found.at_once[seed] - without).abs() < 0.1 * without,
            "seed {seed}: {}",
            found.at_once[seed]
        );
    }
    let all = SlowDowns::of(&program, &late, CriticalPath::Max);
    for (seed, without) in all.without.iter().enumerate() {
        assert!(all.with[0][seed] < 0.5 * without, "seed {seed}: {} of {without}", all.with[0][seed]);
    }
}
