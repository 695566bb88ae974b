//! Jitter and its cure on the machine: without jitter nothing changes, barriers add the largest of their draws, speed gives
//! back what it can and no more.

use quaver_dvfs::dvfs::{ControllerConfig, Kind, Policy};
use quaver_dvfs::normal::mean_of_largest;
use quaver_dvfs::power::sensitivity;
use quaver_sim::config::Config;
use quaver_sim::cure::{Cure, CureConfig, CureResults, Evictions, Library};
use quaver_sim::frames::Ended;
use quaver_sim::inject::{Duration, Epoch, InjectionConfig, TimerConfig};
use quaver_sim::machine::Machine;
use quaver_sim::statistics::Results;
use quaver_sync_analysis::sync::SyncClass;
use quaver_trace::block::{Block, Class, Dictionary, Instruction, Registers};
use quaver_trace::step::{Access, Step, Steps, Sync, Thread, TraceError, Wakeup};
use std::collections::BTreeMap;

/// 64 divisions, each of what the one before gave: about 1,280 cycles.
const LONG: u32 = 0;
/// One load.
const LOAD: u32 = 1;
/// What the kernel does: 16 divisions.
const KERNEL: u32 = 2;

fn dictionary() -> Dictionary {
    let divide = Instruction {
        octets: 1,
        class: Class::Divide,
        loads: false,
        stores: false,
        reads: Registers::of(0),
        writes: Registers::of(0),
    };
    let load = Instruction { class: Class::Integer, loads: true, ..divide };
    let branch = Instruction {
        class: Class::Branch,
        reads: Registers::default(),
        writes: Registers::default(),
        ..divide
    };
    let block = |pc, instructions| Block { pc, instructions };
    let mut long = vec![divide; 64];
    long.push(branch);
    Dictionary {
        blocks: vec![
            block(0x40_0000, long),
            block(0x40_0100, vec![load]),
            block(1 << 63 | 0x1000, vec![divide; 16]),
        ],
    }
}

/// Steps that are done once, then some over and over, then some once.
#[derive(Clone, Debug, Default)]
struct Script {
    before: Vec<Step>,
    round: Vec<Step>,
    rounds: usize,
    after: Vec<Step>,
    next: usize,
    address: u64,
}

impl Steps for Script {
    fn append(&mut self, accesses: &mut Vec<Access>) -> Result<Step, TraceError> {
        let at = self.next;
        self.next += 1;
        let (before, middle) = (self.before.len(), self.round.len() * self.rounds);
        let step = if at < before {
            self.before[at]
        } else if at < before + middle {
            self.round[(at - before) % self.round.len()]
        } else {
            self.after.get(at - before - middle).copied().unwrap_or(Step::End)
        };
        if step == (Step::Block { number: LOAD }) {
            self.address += 64;
            accesses.push(Access { address: self.address, instruction: 0, octets: 8, write: false });
        }
        Ok(step)
    }
}

fn long(times: usize) -> Vec<Step> {
    vec![Step::Block { number: LONG }; times]
}

/// So many threads of which each does these rounds; the first starts and joins the others.
fn program(threads: u32, rounds: usize, round: &dyn Fn(u32) -> Vec<Step>) -> Vec<Script> {
    let script = |id: u32| {
        let others = |sync: fn(Thread) -> Sync| -> Vec<Step> {
            (1..threads).filter(|_| id == 0).map(|other| Step::Sync(sync(Thread(other)))).collect()
        };
        Script {
            before: others(|thread| Sync::Create { thread }),
            round: round(id),
            rounds,
            after: others(|thread| Sync::Join { thread }),
            next: 0,
            address: u64::from(id + 1) << 32,
        }
    };
    (0..threads).map(script).collect()
}

fn meet(parties: u32) -> Step {
    Step::Sync(Sync::Barrier { object: 0x500, parties })
}

fn machine_config(cores: usize) -> Config {
    Config::from_toml(&format!("chip.cores = {cores}\nmemory.latency = '100 ns'")).unwrap()
}

fn run(config: &Config, cure: CureConfig, library: Library, program: Vec<Script>) -> (Results, CureResults) {
    let mut cure = Cure::new(cure, config, library).unwrap();
    let mut machine = Machine::with_hooks(config, &dictionary(), program, &mut cure).with_window_fs(u64::MAX);
    assert!(machine.run(u64::MAX).unwrap());
    let results = machine.results();
    drop(machine);
    let end_fs = results.duration_fs;
    (results, cure.finish(end_fs))
}

fn whole(config: &Config, cure: CureConfig, program: Vec<Script>) -> (Results, CureResults) {
    run(config, cure, Library::default(), program)
}

fn log_normal(mean_us: f64, sigma: f64) -> Duration {
    Duration::Exceedance { probability: 1.0, over_ns: 0.0, mean_ns: mean_us * 1e3, sigma }
}

fn at_barriers(seed: u64, duration: Duration) -> CureConfig {
    let classes = BTreeMap::from([(SyncClass::BroadcastWait, duration)]);
    CureConfig {
        injection: Some(InjectionConfig { seed, classes, ..InjectionConfig::default() }),
        ..CureConfig::default()
    }
}

fn with_dvfs(cure: CureConfig) -> CureConfig {
    CureConfig { dvfs: Some(ControllerConfig::default()), ..cure }
}

/// Threads that work, take turns, wake each other and meet.
fn mixed(threads: u32, rounds: usize) -> Vec<Script> {
    program(threads, rounds, &|id| {
        let mut round = long(3 + id as usize);
        round.extend([Step::Block { number: LOAD }; 20]);
        round.push(Step::Sync(Sync::Lock { object: 0x100 }));
        round.extend(long(1));
        round.push(Step::Sync(Sync::Unlock { object: 0x100 }));
        round.push(meet(threads));
        round
    })
}

#[test]
fn n_barriers_add_n_times_the_largest_of_fifteen() {
    let config = machine_config(16);
    let barriers = 12_000;
    let program = program(16, barriers, &|_| vec![meet(16)]);
    let (ideal, _) = whole(&config, CureConfig::default(), program.clone());
    for (sigma, largest_us) in [(0.6, 251.0), (1.0, 406.0)] {
        let (with, cure) = whole(&config, at_barriers(7, log_normal(100.0, sigma)), program.clone());
        let added_us = (with.duration_fs - ideal.duration_fs) as f64 / 1e9 / barriers as f64;
        assert!((added_us / largest_us - 1.0).abs() < 0.02, "σ {sigma}: {added_us} us a barrier");
        assert!((mean_of_largest(100.0, sigma, 15) / largest_us - 1.0).abs() < 0.002);
        let on_path_us = with.critical_path.kernel_fs as f64 / 1e9 / barriers as f64;
        assert!(
            (on_path_us / added_us - 1.0).abs() < 0.001,
            "all that is added is on the path: {on_path_us}"
        );
        assert_eq!(ideal.critical_path.kernel_fs, 0);
        let counts = cure.injected[&SyncClass::BroadcastWait];
        assert_eq!((counts.drawn, counts.injected), (15 * barriers as u64, 15 * barriers as u64));
        assert!((counts.total_fs as f64 / counts.injected as f64 / 1e11 - 1.0).abs() < 0.02, "mean 100 us");
        // What the units count is what was drawn beyond N, and the way of a wake-up.
        let late = cure.units.sync.classes[SyncClass::BroadcastWait as usize].timed;
        let expected_ns = counts.total_fs / 1_000_000 + late.count * 10;
        assert!(late.total_ns.abs_diff(expected_ns) <= 2 * late.count, "{} {expected_ns}", late.total_ns);
        assert_eq!(
            (cure.units.overflows, cure.units.hardware.slots_differ, cure.units.hardware.times_differ),
            (0, 0, 0)
        );
    }
}

#[test]
fn without_injection_nothing_changes_and_the_controllers_rest() {
    unchanged_without_injection(mixed(4, 250));
}

/// Three cores have two threads each: these wait for each other's turns when they start, meet, get the lock and end, and lose a core
/// that they still need.
#[test]
fn turns_that_threads_take_are_no_lateness() {
    let mut turns = mixed(7, 40);
    for thread in &mut turns {
        thread.after.splice(0..0, long(26_000));
    }
    unchanged_without_injection(turns);
}

fn unchanged_without_injection(program: Vec<Script>) {
    let config = machine_config(4);
    let mut plain = Machine::new(&config, &dictionary(), program.clone());
    assert!(plain.run(u64::MAX).unwrap());
    let plain = plain.results();
    for (policy, kind) in [(Policy::Nominal, Kind::Reactive), (Policy::Aggressive, Kind::Predictive)] {
        let dvfs = Some(ControllerConfig { policy, kind, ..ControllerConfig::default() });
        let cure = CureConfig { dvfs, evictions: Some(Evictions::default()), ..CureConfig::default() };
        let (with, cure) = whole(&config, cure, program.clone());
        let change = with.duration_fs as f64 / plain.duration_fs as f64 - 1.0;
        assert!(change.abs() < 0.001, "{change}");
        assert_eq!(with.duration_fs, plain.duration_fs, "not one femtosecond");
        assert_eq!(cure.units.sync.late.count, 0, "jitter is exactly 0");
        let others = &cure.units.sync.others;
        assert_eq!(others.iter().map(|other| other.lost.count).sum::<u64>(), 0, "{others:?}");
        assert!(cure.subframes.0 > 4, "{:?}", cure.subframes);
        for core in &cure.residency {
            let elsewhere = core.active_fs.iter().enumerate().filter(|(point, _)| *point != 4);
            assert_eq!((core.changes, elsewhere.map(|(_, own_fs)| own_fs).sum::<u64>()), (0, 0));
        }
        assert!(cure.owed_fs.iter().all(|owed_fs| *owed_fs == 0));
        let times: u64 =
            cure.residency.iter().flat_map(|core| core.active_fs.iter().chain(&core.idle_fs)).sum();
        assert_eq!(times, 4 * with.duration_fs, "every core is somewhere all the time");
    }
}

#[test]
fn speed_gives_back_what_it_can_and_no_more() {
    let config = machine_config(4);
    let program = program(4, 120, &|_| {
        let mut round = long(400);
        round.push(meet(4));
        round
    });
    let (ideal, _) = whole(&config, CureConfig::default(), program.clone());
    let over_ideal = |results: &Results| results.duration_fs as f64 / ideal.duration_fs as f64;
    for (mean_us, seed) in [(6.0, 1), (12.0, 2), (60.0, 3)] {
        let disturbed = CureConfig { threshold_ns: 0, ..at_barriers(seed, log_normal(mean_us, 0.6)) };
        let (slow, at_rest) = whole(&config, disturbed.clone(), program.clone());
        let lost_share = over_ideal(&slow) - 1.0;
        let mut last = f64::INFINITY;
        for reactivity in [4, 2, 1] {
            let dvfs = Some(ControllerConfig { reactivity, ..ControllerConfig::default() });
            let (cured, cure) = whole(&config, CureConfig { dvfs, ..disturbed.clone() }, program.clone());
            let cured = over_ideal(&cured);
            assert!(cured < over_ideal(&slow), "mean {mean_us} us, k = {reactivity}: {cured}");
            assert!(cured >= 1.0 / 1.2 + lost_share, "no clock makes the kernel's time shorter: {cured}");
            assert!(cured >= (1.0 + lost_share) / 1.2);
            assert!(cured <= last + 0.02, "a lower k gives back sooner: {cured} after {last}");
            last = cured;
            assert!(cure.residency.iter().any(|core| core.changes > 0));
            for one in sensitivity((&cure.table, &cure.residency), (&at_rest.table, &at_rest.residency)) {
                let overhead = one.overhead.unwrap();
                assert!(overhead > 0.0 && overhead < 0.728, "{one:?}");
            }
            assert_eq!(cure.units.hardware.slots_differ, 0);
        }
        // What scales with the clock is bounded by the table alone.
        let scaled = with_dvfs(CureConfig { kernel_scales: true, ..disturbed });
        let (scaled, _) = whole(&config, scaled, program.clone());
        assert!(over_ideal(&scaled) >= (1.0 + lost_share) / 1.2);
    }
}

#[test]
fn timer_interrupts_hit_the_first_two_cores_only() {
    let config = machine_config(4);
    let program = program(4, 1, &|_| long(3_000));
    let timer = Some(TimerConfig { period_us: 100, cores: vec![0, 1], duration: log_normal(5.0, 0.3) });
    let injection = Some(InjectionConfig { seed: 1, timer, ..InjectionConfig::default() });
    let (results, cure) = whole(&config, CureConfig { injection, ..CureConfig::default() }, program);
    let timer = cure.units.sync.others.iter().find(|other| other.class.name() == "timer").unwrap();
    assert!((20..=30).contains(&timer.lost.count), "{timer:?} in {} us", results.duration_fs / 1_000_000_000);
    assert_eq!((timer.lost.count, cure.timer.drawn), (cure.timer.injected, cure.timer.injected));
    assert!(timer.lost.total_ns.abs_diff(cure.timer.total_fs / 1_000_000) <= 2 * timer.lost.count);
    let by_core: Vec<bool> = cure.units.sync.cores.iter().map(|core| core.other.count > 0).collect();
    assert_eq!(by_core, [true, true, false, false]);
}

#[test]
fn a_child_starts_with_what_its_parent_owes() {
    let config = machine_config(4);
    let mut program = program(2, 1, &|id| long(if id == 0 { 10 } else { 900 }));
    // The parent works before it creates the child.
    let mut before = long(2_000);
    before.append(&mut program[0].before);
    program[0].before = before;
    let timer = Some(TimerConfig { period_us: 200, cores: vec![0], duration: log_normal(60.0, 0.1) });
    let injection = Some(InjectionConfig { seed: 2, timer, ..InjectionConfig::default() });
    let dvfs = Some(ControllerConfig { reactivity: 4, ..ControllerConfig::default() });
    let (_, cure) =
        whole(&config, CureConfig { injection, dvfs, kept_subframes: 100, ..CureConfig::default() }, program);
    let of =
        |thread: u32, why: Ended| cure.kept.iter().filter(move |one| (one.thread, one.why) == (thread, why));
    let parent = of(0, Ended::AtCreate).next().unwrap();
    assert!(parent.owed_fs > 0 && parent.factor > 1.0, "{parent:?}");
    let child = of(1, Ended::InTime).next().unwrap();
    assert_eq!(
        (child.owed_fs, child.factor, child.lost_fs),
        (parent.owed_fs, 1.0, 0),
        "at rest it gives nothing back yet"
    );
    let (ended, joined) = (of(1, Ended::AtExit).next().unwrap(), of(0, Ended::AtJoin).next().unwrap());
    assert_eq!(joined.owed_fs, ended.owed_fs, "the larger of both");
}

#[test]
fn traced_kernel_activity_runs_on_the_core_that_it_holds_up() {
    let config = machine_config(4);
    let program = program(4, 40, &|_| {
        let mut round = long(40);
        round.push(meet(4));
        round
    });
    let kernel =
        |blocks: usize| Epoch { blocks: vec![(KERNEL, Box::default()); blocks].into(), ..Epoch::default() };
    let library = Library::timed(&config, &dictionary(), [100, 300, 900].map(kernel).to_vec()).unwrap();
    let durations: Vec<u64> = library.durations_fs().collect();
    assert!(
        durations[0] > 10_000_000_000 && durations.windows(2).all(|two| two[1] > 2 * two[0]),
        "{durations:?}"
    );
    let cure = at_barriers(5, log_normal(40.0, 0.6));
    let (ideal, _) = whole(&config, CureConfig::default(), program.clone());
    let (with, cure) = run(&config, cure, library, program);
    assert!(with.duration_fs > ideal.duration_fs);
    assert_eq!(with.instructions(), ideal.instructions(), "the program's own are told apart");
    let kernel: u64 = with.kernel.iter().map(|core| core.instructions).sum();
    assert!(kernel >= 16 * 100, "{kernel}");
    let counts = cure.injected[&SyncClass::BroadcastWait];
    assert_eq!(counts.drawn, 3 * 40);
    let late = &cure.units.sync.classes[SyncClass::BroadcastWait as usize];
    assert_eq!(late.timed.count, 3 * 40);
    assert!(late.late.count > 0 && cure.units.sync.counts.exits_alone == 0);
}

#[test]
fn another_seed_is_another_run() {
    let config = machine_config(4);
    let exceedance =
        Duration::Exceedance { probability: 0.3, over_ns: 10_000.0, mean_ns: 60_000.0, sigma: 0.6 };
    let seeded =
        |seed| with_dvfs(CureConfig { kept_subframes: 1_000, ..at_barriers(seed, exceedance.clone()) });
    let (results, first) = whole(&config, seeded(3), mixed(4, 150));
    assert!(first.kept.iter().any(|subframe| subframe.factor > 1.0), "{:?}", first.kept);
    let (other, _) = whole(&config, seeded(4), mixed(4, 150));
    assert_ne!(other.duration_fs, results.duration_fs);
}

#[test]
fn waits_with_a_mutex_are_told_as_the_library_would() {
    let config = machine_config(4);
    let rounds = 20;
    let program = program(4, 1, &|id| {
        let mut steps = Vec::new();
        for number in 0..rounds {
            let (object, mutex, wakeup) = (0x300, 0x100, Wakeup(number));
            steps.push(Step::Sync(Sync::Lock { object: mutex }));
            if id == 0 {
                steps.push(Step::Sync(Sync::Unlock { object: mutex }));
                steps.extend(long(50));
                steps.push(Step::Sync(Sync::Lock { object: mutex }));
                steps.push(Step::Sync(Sync::Broadcast { object, wakeup }));
                steps.extend(long(30));
            } else {
                steps.push(Step::Sync(Sync::Wait { object, mutex, by: Some(wakeup) }));
                steps.extend(long(1));
            }
            steps.push(Step::Sync(Sync::Unlock { object: mutex }));
            steps.push(meet(4));
        }
        steps
    });
    let (_, cure) = whole(&config, CureConfig::default(), program);
    let timed = |class: SyncClass| cure.units.sync.classes[class as usize].timed.count;
    assert_eq!(timed(SyncClass::BroadcastWait), 2 * 3 * rounds, "at the condition, and at the barrier");
    assert!(timed(SyncClass::LockUnlock) >= 3 * rounds, "who is woken waits for the mutex");
    assert_eq!(cure.units.sync.late.count, 0, "the mutex was held by the program, not by the kernel");
    assert_eq!(cure.units.sync.coverage.share(), Some(1.0));
    assert_eq!((cure.units.sync.counts.exits_alone, cure.units.sync.counts.entries_alone), (0, 0));
}
