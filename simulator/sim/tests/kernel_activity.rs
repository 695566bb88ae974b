//! The library of kernel activity that comes along, run on the machine: it takes as long as was drawn, it takes the caches from the
//! program, and where nothing is injected it is not there.

mod listed;

use listed::{Listed, dictionary};
use quaver_sim::config::Config;
use quaver_sim::cure::{Cure, CureConfig, CureResults, Library};
use quaver_sim::inject::{Draw, Duration, InjectionConfig, KernelData, bundled};
use quaver_sim::machine::Machine;
use quaver_sim::statistics::Results;
use quaver_sync_analysis::sync::SyncClass;
use quaver_trace::block::Dictionary;
use quaver_trace::step::{Access, Step, Steps, Sync, Thread};
use std::collections::BTreeSet;

const THREADS: u32 = 4;
const ROUNDS: u64 = 8;
/// Lines of each thread: three quarters of its second-level cache.
const LINES: u64 = 192 * 1024 / 64;

/// Threads that meet after each walk over their own lines, which their caches hold.
fn program() -> Vec<Listed> {
    let each = (0..THREADS).map(|thread| {
        let mut steps = Listed::default();
        if thread == 0 {
            (1..THREADS).for_each(|other| steps.sync(Sync::Create { thread: Thread(other) }));
        }
        for _ in 0..ROUNDS {
            (0..LINES).for_each(|line| steps.load(((u64::from(thread) + 1) << 32) | (line * 64)));
            steps.sync(Sync::Barrier { object: 0x500, parties: THREADS });
        }
        if thread == 0 {
            (1..THREADS).for_each(|other| steps.sync(Sync::Join { thread: Thread(other) }));
        }
        steps
    });
    each.collect()
}

fn config() -> Config {
    Config::from_toml(&format!("chip.cores = {THREADS}")).unwrap()
}

/// The program's blocks with the library's behind them, and the library, timed.
fn library(config: &Config) -> (Dictionary, Library) {
    let (kernel, epochs) = bundled().unwrap();
    let mut all = dictionary();
    let before = all.blocks.len() as u32;
    all.blocks.extend(kernel.blocks);
    let library =
        Library::timed(config, &all, epochs.iter().map(|epoch| epoch.behind(before)).collect()).unwrap();
    (all, library)
}

/// Each who waited at a barrier is held up for so long.
fn cure(duration: Option<Duration>) -> CureConfig {
    let injection = duration.map(|duration| InjectionConfig {
        seed: 7,
        classes: [(SyncClass::BroadcastWait, duration)].into(),
        ..InjectionConfig::default()
    });
    CureConfig { injection, ..CureConfig::default() }
}

fn run(
    config: &Config,
    cure: CureConfig,
    dictionary: &Dictionary,
    library: Library,
) -> (Results, CureResults) {
    let mut cure = Cure::new(cure, config, library).unwrap();
    let mut machine = Machine::with_hooks(config, dictionary, program(), &mut cure);
    while !machine.run(u64::MAX).unwrap() {}
    let results = machine.results();
    drop(machine);
    let end_fs = results.duration_fs;
    (results, cure.finish(end_fs))
}

fn of_steps(library: &Library, duration_fs: u64, tie: u64) -> Vec<(u32, usize)> {
    let mut steps = library.steps(&Draw { duration_fs, tie }).unwrap();
    let mut accesses: Vec<Access> = Vec::new();
    std::iter::from_fn(|| match steps.step(&mut accesses).unwrap() {
        Step::Block { number } => Some((number, accesses.len())),
        _ => None,
    })
    .collect()
}

#[test]
fn it_has_all_kinds_of_activity_and_durations() {
    let (dictionary, epochs) = bundled().unwrap();
    assert!(epochs.len() >= 80, "{}", epochs.len());
    assert!(dictionary.blocks.iter().all(quaver_trace::block::Block::in_kernel));
    let config = config();
    let (_, library) = library(&config);
    assert_eq!(library.len(), epochs.len());
    let powers: BTreeSet<u32> = library.durations_fs().map(|fs| (fs / 1_000_000).max(1).ilog2()).collect();
    assert!((8..=16).all(|power| powers.contains(&power)), "256 ns to 131 us, each: {powers:?}");
    // The same whenever it is timed.
    let again: Vec<u64> = self::library(&config).1.durations_fs().collect();
    assert_eq!(library.durations_fs().collect::<Vec<_>>(), again);
}

#[test]
fn draws_are_met_by_what_is_nearest_and_long_ones_by_several() {
    let config = config();
    let (all, library) = library(&config);
    let longest_fs = library.durations_fs().max().unwrap();
    // What a draw gives, timed as the library was, is about as long as was drawn.
    let take = |fs: u64| {
        let blocks = of_steps(&library, fs, 3);
        assert!(!blocks.is_empty());
        blocks.iter().map(|(block, _)| all.blocks[*block as usize].instructions.len() as u64).sum::<u64>()
    };
    let (one, three) = (take(longest_fs), take(3 * longest_fs));
    assert!((2.9..3.1).contains(&(three as f64 / one as f64)), "{one} and {three} instructions");
    assert!(take(1_000_000) < take(100_000_000) && take(100_000_000) < one);
    assert_eq!(of_steps(&library, 20_000_000_000, 5), of_steps(&library, 20_000_000_000, 5));
}

#[test]
fn the_kernel_takes_the_caches_from_the_program() {
    let config = config();
    let (all, kernel) = library(&config);
    let alone = {
        let mut machine = Machine::new(&config, &dictionary(), program());
        while !machine.run(u64::MAX).unwrap() {}
        machine.results()
    };
    // A library that nobody asks for changes nothing, to the last count.
    let (off, none) = run(&config, cure(None), &all, kernel.clone());
    assert_eq!((off.duration_fs, &off.cores, &off.levels), (alone.duration_fs, &alone.cores, &alone.levels));
    assert!(off.kernel.iter().all(|core| core.instructions == 0) && none.injected.is_empty());
    let draws = Duration::Exceedance { probability: 1.0, over_ns: 0.0, mean_ns: 60_000.0, sigma: 0.6 };
    // Only time passes: the program's misses are what they were.
    let (time, _) = run(&config, cure(Some(draws.clone())), &all, Library::default());
    let (with, cured) = run(&config, cure(Some(draws.clone())), &all, kernel.clone());
    let from_memory = |results: &Results| results.cores.iter().map(|core| core.from_memory).sum::<u64>();
    assert_eq!(from_memory(&time), from_memory(&off));
    assert!(from_memory(&with) > from_memory(&off) * 5 / 4, "{} {}", from_memory(&with), from_memory(&off));
    assert!(with.kernel.iter().map(|core| core.from_memory).sum::<u64>() > 0);
    assert_eq!(with.instructions(), off.instructions(), "the program's own are told apart");
    // As long as was drawn, as far as caches that the program shares let it.
    let counts = cured.injected[&SyncClass::BroadcastWait];
    assert_eq!((counts.drawn, counts.injected), (u64::from(THREADS - 1) * ROUNDS, counts.drawn));
    let took_fs: u64 = with.stacks.iter().map(|stack| stack.kernel_fs).sum();
    let share = took_fs as f64 / counts.total_fs as f64;
    println!("the kernel took {share:.2} of what was drawn");
    assert!((0.7..1.6).contains(&share), "{share}");
    // Where all cores touch the same addresses, they take the lines from each other.
    let common = CureConfig { kernel_data: KernelData::Same, ..cure(Some(draws.clone())) };
    let (without, _) = run(&config, common, &all, kernel.clone());
    let taken = |results: &Results| {
        let kernel = results.kernel.iter();
        kernel.fold((0, 0), |sum, core| (sum.0 + core.upgrades, sum.1 + core.stalls.remote_fs))
    };
    let (own, common) = (taken(&with), taken(&without));
    println!("upgrades, and stalls for other cores' data: {own:?} and {common:?}");
    assert!(own.0 * 2 < common.0 && own.1 * 5 < common.1 * 4);
    let lines: u64 = cured.activities.values().flat_map(|counts| counts.lines).sum();
    let events: u64 = cured.activities.values().map(|counts| counts.events).sum();
    let total_fs: u64 = cured.activities.values().map(|counts| counts.total_fs).sum();
    assert_eq!((events, total_fs), (counts.injected, took_fs));
    assert!(cured.activities.values().all(|one| one.refill_fs() < one.total_fs && one.again < lines));
    // The same again.
    let (again, same) = run(&config, cure(Some(draws)), &all, kernel);
    assert_eq!((again, same), (with, cured));
}
