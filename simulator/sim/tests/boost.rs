//! Who runs faster under a budget: no rule spends more than it, and each finds the thread that a program was written to wait for.

mod listed;

use listed::{Listed, dictionary};
use quaver_dvfs::dvfs::ControllerConfig;
use quaver_sim::config::Config;
use quaver_sim::cure::{BoostConfig, BoostRule, Cure, CureConfig, Library};
use quaver_sim::error::SimulationError;
use quaver_sim::hooks::{Event, Hooks, Moment, Orders, Woken};
use quaver_sim::inject::{Duration, EpochSteps, InjectionConfig};
use quaver_sim::machine::Machine;
use quaver_sim::private::SecondLevel;
use quaver_sync_analysis::sync::SyncClass;
use quaver_trace::step::{Sync, Thread};
use std::collections::BTreeMap;

const THREADS: u32 = 4;
const REST_GHZ: f64 = 3.0;

/// Passes all on, and counts the cores above rest.
struct Watched<'a> {
    cure: &'a mut Cure,
    ghz: Vec<f64>,
    most: usize,
}

impl Hooks for Watched<'_> {
    type Kernel = EpochSteps;

    fn second_level(&self) -> SecondLevel {
        self.cure.second_level()
    }

    fn first_alarm_fs(&self, core: usize) -> u64 {
        self.cure.first_alarm_fs(core)
    }

    fn passes_fs(kernel: &EpochSteps) -> u64 {
        kernel.passes_fs()
    }

    fn wakes_late(&mut self, woken: Woken<'_>) -> bool {
        Hooks::wakes_late(&mut self.cure, woken)
    }

    fn event(
        &mut self,
        moment: &Moment<'_>,
        event: Event,
        orders: &mut Orders<EpochSteps>,
    ) -> Result<(), SimulationError> {
        Hooks::event(&mut self.cure, moment, event, orders)?;
        orders.frequencies.iter().for_each(|change| self.ghz[change.core] = change.ghz);
        self.most = self.most.max(self.ghz.iter().filter(|ghz| **ghz > REST_GHZ).count());
        Ok(())
    }
}

/// Duration, femtoseconds, and how many cores were above rest at most.
fn run(cure: CureConfig, program: &[Listed]) -> (u64, usize) {
    let config = Config::from_toml(&format!("chip.cores = {THREADS}")).unwrap();
    let mut cure = Cure::new(cure, &config, Library::default()).unwrap();
    let watched = Watched { cure: &mut cure, ghz: vec![REST_GHZ; THREADS as usize], most: 0 };
    let mut machine = Machine::with_hooks(&config, &dictionary(), program.to_vec(), watched);
    assert!(machine.run(u64::MAX).unwrap());
    let most = machine.hooks().most;
    (machine.results().duration_fs, most)
}

fn boosted(rule: BoostRule, cores: u32) -> CureConfig {
    let dvfs = (rule == BoostRule::Debt)
        .then(|| ControllerConfig { table: BoostConfig::table(), ..ControllerConfig::default() });
    CureConfig { boost: Some(BoostConfig { cores, ..BoostConfig::new(rule) }), dvfs, ..CureConfig::default() }
}

/// Threads that meet at a barrier after what each does: `round(thread, steps)`.
fn meetings(rounds: usize, round: &dyn Fn(u32, &mut Listed)) -> Vec<Listed> {
    let thread = |id: u32| {
        let mut listed = Listed::default();
        let others = || (1..THREADS).filter(|_| id == 0).map(Thread);
        others().for_each(|thread| listed.sync(Sync::Create { thread }));
        for _ in 0..rounds {
            round(id, &mut listed);
            listed.sync(Sync::Barrier { object: 0x500, parties: THREADS });
        }
        others().for_each(|thread| listed.sync(Sync::Join { thread }));
        listed
    };
    (0..THREADS).map(thread).collect()
}

/// The last thread works twice as long as the others: 540,000 instructions a round.
fn lopsided() -> Vec<Listed> {
    meetings(20, &|id, listed| listed.work(if id + 1 == THREADS { 60_000 } else { 30_000 }))
}

fn late(cure: CureConfig) -> CureConfig {
    let duration =
        Duration::Exceedance { probability: 0.3, over_ns: 10_000.0, mean_ns: 50_000.0, sigma: 0.8 };
    let classes = BTreeMap::from([(SyncClass::BroadcastWait, duration)]);
    CureConfig { injection: Some(InjectionConfig { seed: 3, classes, ..InjectionConfig::default() }), ..cure }
}

#[test]
fn no_rule_has_more_cores_above_rest_than_the_budget_says() {
    for rule in BoostRule::ALL {
        for cores in 1..=3 {
            let (_, most) = run(late(boosted(rule, cores)), &lopsided());
            assert!(most <= cores as usize, "{rule:?}: {most} of {cores}");
            assert!(most > 0, "{rule:?}");
            assert!(rule != BoostRule::Sync || most == cores as usize, "four threads run at first");
        }
    }
}

#[test]
fn without_lateness_debt_spends_nothing() {
    let (ideal_fs, _) = run(CureConfig::default(), &lopsided());
    assert_eq!(run(boosted(BoostRule::Debt, 1), &lopsided()), (ideal_fs, 0));
}

#[test]
fn the_thread_that_others_wait_for_is_found() {
    let (ideal_fs, _) = run(CureConfig::default(), &lopsided());
    let share = |rule, cores| run(boosted(rule, cores), &lopsided()).0 as f64 / ideal_fs as f64;
    // While all run each has its turn: a quarter of the first half, then all of the second. With a budget for all it has both.
    let turns = (0.25 / 1.2 + 0.75) * 0.5 + 0.5 / 1.2;
    assert!((share(BoostRule::Sync, 1) - turns).abs() < 0.03, "{} {turns}", share(BoostRule::Sync, 1));
    assert!((share(BoostRule::Sync, THREADS) - 1.0 / 1.2).abs() < 0.002);
    // It is known after the first of eleven subframes, which ends at the first event then, and stays alone above the mean.
    let known = share(BoostRule::Stack, 1);
    assert!((1.0 / 1.2..0.87).contains(&known), "{known}");
}

#[test]
fn stalls_choose_the_thread_that_misses() {
    let missing = |who: Option<u32>| {
        meetings(10, &|id, listed| {
            (0..200).filter(|_| Some(id) == who).for_each(|line| listed.load(0x7000_0000 + line * 4096));
            listed.work(20_000);
        })
    };
    let share = |who| {
        let program = missing(who);
        let (ideal_fs, _) = run(CureConfig::default(), &program);
        run(boosted(BoostRule::Stalls, 1), &program).0 as f64 / ideal_fs as f64
    };
    // Nobody misses more than another, so that the first of all has it and the barrier waits for the others.
    let [none, one] = [None, Some(2)].map(share);
    assert!(none > 0.98 && one < 0.93, "{none} {one}");
}

#[test]
fn who_holds_a_lock_goes_first() {
    let lock = |listed: &mut Listed, work| {
        listed.sync(Sync::Lock { object: 0x100 });
        listed.work(work);
        listed.sync(Sync::Unlock { object: 0x100 });
    };
    // The last thread has the lock all the time, so that it has the whole budget though four threads run.
    let program = meetings(5, &|id, listed| match id + 1 == THREADS {
        true => lock(listed, 40_000),
        false => listed.work(38_000),
    });
    let (ideal_fs, _) = run(CureConfig::default(), &program);
    let (sync_fs, _) = run(boosted(BoostRule::Sync, 1), &program);
    let share = sync_fs as f64 / ideal_fs as f64;
    assert!((share - 38.0 / 40.0).abs() < 0.01, "the others are the last now: {share}");
}
