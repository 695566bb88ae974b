//! Second levels that keep the kernel's lines and the application's apart, on the whole machine.

use quaver_dvfs::dvfs::ControllerConfig;
use quaver_sim::config::Config;
use quaver_sim::cure::{CacheKind, Cure, CureCache, CureConfig, CureResults, Evictions, Library};
use quaver_sim::inject::{Duration, Epoch, InjectionConfig};
use quaver_sim::machine::Machine;
use quaver_sim::statistics::Results;
use quaver_sync_analysis::sync::SyncClass;
use quaver_trace::block::{Block, Class, Dictionary, Instruction, Registers};
use quaver_trace::step::{Access, Step, Steps, Sync, Thread, TraceError};
use std::collections::BTreeMap;

/// One load or store of the application.
const WORK: u32 = 0;
/// One of the kernel.
const KERNEL: u32 = 1;
/// Where the kernel's own addresses begin.
const KERNELS: u64 = 0xffff_8880_0000_0000;

fn dictionary() -> Dictionary {
    let access = Instruction {
        octets: 4,
        class: Class::Integer,
        loads: true,
        stores: true,
        reads: Registers::of(0),
        writes: Registers::of(1),
    };
    let block = |pc| Block { pc, instructions: vec![access] };
    Dictionary { blocks: vec![block(0x40_0000), block(0xffff_ffff_8100_0000)] }
}

/// Caches of 128 sets and 32 sets.
fn machine() -> Config {
    let text = "chip.cores = 4\nmemory.latency = '100 ns'\nl1.kib = 4\nl2.kib = 32";
    Config::from_toml(text).unwrap()
}

#[derive(Clone, Copy, Debug)]
enum Do {
    Access(u64, bool),
    Sync(Sync),
}

#[derive(Clone, Debug, Default)]
struct Script {
    before: Vec<Do>,
    round: Vec<Do>,
    rounds: usize,
    after: Vec<Do>,
    next: usize,
}

impl Steps for Script {
    fn append(&mut self, accesses: &mut Vec<Access>) -> Result<Step, TraceError> {
        let at = self.next;
        self.next += 1;
        let (before, middle) = (self.before.len(), self.round.len() * self.rounds);
        let what = match at {
            at if at < before => self.before.get(at),
            at if at < before + middle => self.round.get((at - before) % self.round.len()),
            at => self.after.get(at - before - middle),
        };
        Ok(match what {
            None => Step::End,
            Some(Do::Sync(sync)) => Step::Sync(*sync),
            Some(Do::Access(address, write)) => {
                accesses.push(access(*address, *write));
                Step::Block { number: WORK }
            }
        })
    }
}

fn access(address: u64, write: bool) -> Access {
    Access { address, instruction: 0, octets: 8, write }
}

/// So many threads that do their round, meet, and so on.
fn program(threads: u32, rounds: usize, round: impl Fn(u32) -> Vec<Do>) -> Vec<Script> {
    let script = |id: u32| {
        let others = |sync: fn(Thread) -> Sync| -> Vec<Do> {
            (1..threads).filter(|_| id == 0).map(|other| Do::Sync(sync(Thread(other)))).collect()
        };
        let mut round = round(id);
        round.push(Do::Sync(Sync::Barrier { object: 0x500, parties: threads }));
        Script {
            before: others(|thread| Sync::Create { thread }),
            round,
            rounds,
            after: others(|thread| Sync::Join { thread }),
            next: 0,
        }
    };
    (0..threads).map(script).collect()
}

/// An epoch of the kernel that touches these addresses.
fn epoch(addresses: impl IntoIterator<Item = (u64, bool)>) -> Epoch {
    let each = addresses.into_iter();
    let blocks: Vec<_> =
        each.map(|(address, write)| (KERNEL, vec![access(address, write)].into_boxed_slice())).collect();
    Epoch { blocks: blocks.into(), ..Epoch::default() }
}

/// At each barrier who waited runs one of these epochs: that which takes as long as was drawn.
fn at_barriers(seed: u64, epochs: &[Epoch], sigma: f64) -> InjectionConfig {
    let library = Library::timed(&machine(), &dictionary(), epochs.to_vec()).unwrap();
    let mean_ns = library.durations_fs().sum::<u64>() as f64 / 1e6 / library.len() as f64;
    let duration = Duration::Exceedance { probability: 1.0, over_ns: 0.0, mean_ns, sigma };
    InjectionConfig {
        seed,
        classes: BTreeMap::from([(SyncClass::BroadcastWait, duration)]),
        ..InjectionConfig::default()
    }
}

fn small(kind: CacheKind) -> CureCache {
    CureCache { os_cache_kib: 8, ..CureCache::of(kind) }
}

fn run(cure: CureConfig, epochs: &[Epoch], program: Vec<Script>, window_fs: u64) -> (Results, CureResults) {
    let (config, dictionary) = (machine(), dictionary());
    let library = Library::timed(&config, &dictionary, epochs.to_vec()).unwrap();
    let mut cure = Cure::new(cure, &config, library).unwrap();
    let mut machine = Machine::with_hooks(&config, &dictionary, program, &mut cure).with_window_fs(window_fs);
    assert!(machine.run(u64::MAX).unwrap());
    let results = machine.results();
    drop(machine);
    let end_fs = results.duration_fs;
    (results, cure.finish(end_fs))
}

/// Lines next to each other.
fn lines(from: u64, count: u64, write: bool) -> impl Iterator<Item = (u64, bool)> {
    (0..count).map(move |line| (from + 64 * line, write))
}

fn does(accesses: impl Iterator<Item = (u64, bool)>) -> Vec<Do> {
    accesses.map(|(address, write)| Do::Access(address, write)).collect()
}

/// Own lines of each thread, lines that all write, and lines that the kernel touches too.
fn mixed() -> (Vec<Script>, Vec<Epoch>) {
    let program = program(4, 40, |id| {
        let own = (1 + u64::from(id)) << 32;
        let mut round =
            does(lines(own, 60, id % 2 == 0).chain(lines(0x10_0000 + 640 * u64::from(id), 30, true)));
        round.extend(does(lines(0x20_0000, 20, false).chain(lines(own, 400, false))));
        round
    });
    let epochs = (0..5).map(|at| {
        let own = lines(KERNELS + 0x8000 * at, 90 + 20 * at, at % 2 == 0);
        epoch(own.chain(lines(0x20_0000, 10, true)).chain(lines(KERNELS + 0x100_0000, 30, true)))
    });
    (program, epochs.collect())
}

/// Says where they differ, and not all that is the same.
fn same(one: &impl std::fmt::Debug, other: &impl std::fmt::Debug, words: &str) {
    let [one, other] = [format!("{one:#?}"), format!("{other:#?}")];
    let differ = one.lines().zip(other.lines()).enumerate().filter(|(_, (one, other))| one != other);
    let differ: Vec<_> = differ.take(20).collect();
    assert!(one == other, "{words}: {differ:#?}");
}

#[test]
fn results_are_the_same_however_far_cores_run_ahead() {
    let (program, epochs) = mixed();
    for kind in CacheKind::ALL {
        let cure = CureConfig {
            injection: Some(at_barriers(3, &epochs, 0.4)),
            evictions: Some(Evictions::default()),
            dvfs: Some(ControllerConfig::default()),
            cache: small(kind),
            ..CureConfig::default()
        };
        let whole = run(cure.clone(), &epochs, program.clone(), u64::MAX);
        for window_fs in [1, 700_000, 50_000_000] {
            let other = run(cure.clone(), &epochs, program.clone(), window_fs);
            same(&other.0, &whole.0, &format!("{kind:?} with windows of {window_fs} fs"));
            same(&other.1, &whole.1, &format!("{kind:?} with windows of {window_fs} fs"));
        }
        let counts = whole.0.second_level.unwrap();
        assert!(counts.hits[0] > 0 && counts.evicted_by_kernel > 0, "{kind:?}: {counts:?}");
        assert_eq!(counts.evicted_by_kernel, whole.1.evicted_lines, "{kind:?}");
        let says = match kind {
            CacheKind::Unified => 1,
            CacheKind::OsCache => counts.lent[0].min(counts.hits[1]).min(counts.other_hits[0]),
            CacheKind::Prefetch => counts.prefetched,
            CacheKind::Pinned => counts.pinned,
        };
        assert!(says > 0, "{kind:?}: {counts:?}");
    }
}

#[test]
fn without_injection_the_os_cache_costs_nothing_and_its_room_is_a_gain_that_is_told_apart() {
    // 36 KiB are more than the second level has and less than both.
    let program = program(4, 12, |id| does(lines((1 + u64::from(id)) << 32, 576, id == 1)));
    let (plain, _) = run(CureConfig::default(), &[], program.clone(), u64::MAX);
    assert_eq!(plain.second_level, None);
    let cure = |sharing| CureConfig {
        evictions: Some(Evictions::default()),
        dvfs: Some(ControllerConfig::default()),
        cache: CureCache { os_cache_sharing: sharing, ..small(CacheKind::OsCache) },
        ..CureConfig::default()
    };
    let (alone, found) = run(cure(false), &[], program.clone(), u64::MAX);
    assert_eq!(alone.duration_fs, plain.duration_fs, "not one femtosecond, where 0.1 % would do");
    assert_eq!(found.units.sync.late.count, 0);
    for core in &found.residency {
        let away = core.active_fs.iter().enumerate().filter(|(point, _)| *point != found.table.rest);
        assert_eq!((core.changes, away.map(|(_, fs)| *fs).sum::<u64>()), (0, 0), "the controller rests");
    }
    let (shared, _) = run(cure(true), &[], program, u64::MAX);
    let counts = shared.second_level.unwrap();
    assert!(shared.duration_fs < plain.duration_fs, "{counts:?}");
    assert!(counts.other_hits[0] > 0 && counts.lent[0] > 0);
}

/// Three of four ways hold what the application uses over and over; the kernel streams through one more each time.
fn streaming_kernel() -> (Vec<Script>, Vec<Epoch>) {
    let program = program(2, 60, |id| {
        let own = (1 + u64::from(id)) << 32;
        does(lines(own, 384, false).chain(lines(own, 384, false)))
    });
    let epochs = (0..8).map(|at| epoch(lines(KERNELS + 0x8000 * at, 114 + 4 * at, false)));
    (program, epochs.collect())
}

#[test]
fn pinning_is_no_better_than_unified_and_prefetching_within_one_percent() {
    let (program, epochs) = streaming_kernel();
    let of = |kind| {
        let cure = CureConfig {
            injection: Some(at_barriers(1, &epochs, 0.1)),
            evictions: Some(Evictions::default()),
            cache: small(kind),
            ..CureConfig::default()
        };
        run(cure, &epochs, program.clone(), u64::MAX).0
    };
    let [unified, os, prefetch, pinned] = CacheKind::ALL.map(of);
    let over = |results: &Results| results.duration_fs as f64 / unified.duration_fs as f64;
    let lost = |results: &Results| results.second_level.unwrap().evicted_by_kernel;
    assert!(over(&pinned) > 1.01, "{}: {} lines, {}", over(&pinned), lost(&pinned), lost(&unified));
    assert!((over(&prefetch) - 1.0).abs() < 0.01, "{}", over(&prefetch));
    assert!(over(&os) < 1.0, "{}", over(&os));
    assert!(lost(&os) < lost(&unified) && lost(&unified) < lost(&pinned));
}

#[test]
fn exactly_the_lines_of_the_application_that_the_kernel_took_are_counted() {
    // The application fills 3 ways of each set. The kernel takes the free way, then two of the application's.
    let program = program(2, 2, |id| does(lines((1 + u64::from(id)) << 32, 384, false)));
    let kernel = [epoch(lines(KERNELS, 384, false))];
    let cure = CureConfig {
        injection: Some(at_barriers(1, &kernel, 0.0)),
        evictions: Some(Evictions::default()),
        ..CureConfig::default()
    };
    let (results, found) = run(cure, &kernel, program, u64::MAX);
    let counts = results.second_level.unwrap();
    assert_eq!(counts.evicted_by_kernel, found.evicted_lines);
    let epochs = found.injected[&SyncClass::BroadcastWait].injected;
    assert_eq!(epochs, 2);
    // One thread waits at each of two barriers; code, and what lies in its sets, make some lines of difference.
    let each = counts.evicted_by_kernel as f64 / epochs as f64;
    assert!((each - 256.0).abs() <= 3.0, "{each}");
}
