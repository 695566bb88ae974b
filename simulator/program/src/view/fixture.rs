//! A small simulated run with round numbers.

use crate::digest::{
    ChipFigures, CoreFigures, Difference, LevelFigures, PARTS, PathFigures, PathThread, SCHEMA, SimFacts,
    SimLanes, SimSummary, ThreadFigures, TimePart, TrafficFigures,
};
use crate::intervals::{SimInterval, SimState};
use quaver_instrument::facts::RunFacts;
use quaver_sim::config::Config;

/// A nanosecond in femtoseconds.
const NS: u64 = 1_000_000;
/// A thousand nanoseconds were simulated.
const DURATION_FS: u64 = 1_000 * NS;

/// What a core's time went to, in nanoseconds; the rest it was unused.
fn core(number: u32, instructions: u64, parts_ns: &[(usize, u64)]) -> CoreFigures {
    let mut parts_fs = vec![0; PARTS.len()];
    parts_ns.iter().for_each(|(part, ns)| parts_fs[*part] = ns * NS);
    let busy_fs: u64 = parts_fs[..11].iter().sum();
    parts_fs[13] = DURATION_FS - parts_fs.iter().sum::<u64>();
    CoreFigures {
        core: number,
        instructions,
        busy_fs,
        cpi: (instructions > 0).then(|| busy_fs as f64 / 333_333.0 / instructions as f64),
        parts_fs,
        jumps: instructions / 10,
        mispredicted: instructions / 200,
        data_looks: instructions / 4,
        data_misses: instructions / 80,
        fetches: instructions / 8,
        fetch_misses: instructions / 800,
        from_remote: instructions / 500,
        from_memory: instructions / 200,
        upgrades: instructions / 1_000,
    }
}

fn level(name: &str, looks: u64, misses: u64) -> LevelFigures {
    LevelFigures {
        level: name.to_owned(),
        looks,
        misses,
        miss_ratio: Some(misses as f64 / looks as f64),
        misses_per_1000: Some(misses as f64 * 1e3 / 4_000.0),
    }
}

fn thread(number: u32, ran_ns: u64, lock_ns: u64, barrier_ns: u64) -> ThreadFigures {
    ThreadFigures {
        thread: number,
        core: number % 2,
        instructions: 2_000,
        start_fs: Some(u64::from(number) * 10 * NS),
        end_fs: Some(DURATION_FS),
        lived_fs: DURATION_FS - u64::from(number) * 10 * NS,
        ran_fs: ran_ns * NS,
        queued_fs: 0,
        waited_fs: [lock_ns * NS, 0, barrier_ns * NS, 0],
        from_memory: 10,
        from_remote: 4,
    }
}

/// Two threads on two of four cores.
pub(crate) fn summary() -> SimSummary {
    let machine = Config::from_toml("chip.cores = 4\nl2.kib = 512").unwrap();
    let cores = vec![
        core(0, 2_000, &[(0, 350), (2, 20), (4, 30), (5, 60), (6, 400), (9, 10), (12, 130)]),
        core(1, 2_000, &[(0, 350), (2, 35), (4, 25), (5, 40), (6, 290), (9, 10), (12, 240)]),
        core(2, 0, &[]),
        core(3, 0, &[]),
    ];
    let whole = |part: usize| cores.iter().map(|core| core.parts_fs[part]).sum::<u64>();
    let time = |(part, (name, _)): (usize, &(&str, &str))| TimePart {
        part: (*name).to_owned(),
        time_fs: whole(part),
        share: whole(part) as f64 / (4 * DURATION_FS) as f64,
    };
    let part = |name: &str, ns: u64| TimePart {
        part: name.to_owned(),
        time_fs: ns * NS,
        share: ns as f64 / 1_000.0,
    };
    SimSummary {
        schema: SCHEMA.to_owned(),
        complete: true,
        facts: SimFacts {
            trace: "pair.qtrace".to_owned(),
            program: vec!["./pair".to_owned(), "-n2".to_owned()],
            tool: "quaver 0.1.0".to_owned(),
            architecture: "x86-64".to_owned(),
            threads: 2,
            steps: 300,
            octets: 4_096,
            differences: vec![Difference {
                key: "l2.kib".to_owned(),
                value: "512".to_owned(),
                default: "256".to_owned(),
            }],
            machine,
            ..SimFacts::default()
        },
        chip: ChipFigures {
            duration_fs: DURATION_FS,
            cycle_fs: 333_333,
            cycles: 3_000,
            instructions: 4_000,
            cpi: Some(1.215),
            chip_ipc: Some(1.33),
            busy_share: Some(0.405),
            cores_used: 2,
        },
        time: PARTS.iter().enumerate().map(time).collect(),
        cores,
        levels: vec![
            level("L1 instructions", 500, 5),
            level("L1 data, reads", 800, 40),
            level("L1 data, writes", 200, 10),
            level("L2", 55, 32),
        ],
        traffic: TrafficFigures {
            from_remote: 8,
            from_memory: 20,
            upgrades: 4,
            invalidations: 6,
            downgrades: 3,
            recalls: 1,
            memory_reads: 20,
            memory_writes: 5,
            memory_gb_per_s: 1.6,
        },
        threads: vec![thread(0, 870, 100, 30), thread(1, 750, 0, 240)],
        critical_path: Some(PathFigures {
            length_fs: DURATION_FS,
            hand_overs: 3,
            parts: vec![
                part("in threads", 970),
                part("lock, on the way", 20),
                part("barrier, on the way", 10),
            ],
            hand_overs_by_kind: vec![("lock".to_owned(), 2), ("barrier".to_owned(), 1)],
            threads: vec![
                PathThread { thread: 0, time_fs: 700 * NS, share: 0.7 },
                PathThread { thread: 1, time_fs: 270 * NS, share: 0.27 },
            ],
        }),
        cure: None,
        counts: serde_json::Value::Null,
        warnings: Vec::new(),
    }
}

/// Where it is.
pub(crate) fn facts() -> RunFacts {
    RunFacts {
        name: "sim-20261121T213000Z-0a1b".to_owned(),
        verb: "sim".to_owned(),
        directory: "runs/sim-20261121T213000Z-0a1b".to_owned(),
        command: "quaver sim run pair.qtrace".to_owned(),
        started: "2026-11-21T21:30:00Z".to_owned(),
        version: "0.1.0".to_owned(),
        host: "Linux 6.12".to_owned(),
        ..RunFacts::default()
    }
}

/// Its two threads over time.
pub(crate) fn lanes() -> SimLanes {
    let interval = |thread, state, from_ns: u64, to_ns: u64, woken_by| SimInterval {
        thread: Some(thread),
        core: (state == SimState::Runs).then_some(thread),
        state,
        start_fs: from_ns * NS,
        end_fs: to_ns * NS,
        object: (state != SimState::Runs).then_some(0x40),
        woken_by,
    };
    let mut lanes = SimLanes::default();
    lanes.push(interval(0, SimState::Runs, 0, 400, None));
    lanes.push(interval(0, SimState::Lock, 400, 500, Some(1)));
    lanes.push(interval(1, SimState::Runs, 10, 760, None));
    lanes.push(interval(0, SimState::Runs, 500, 970, None));
    lanes.push(interval(1, SimState::Barrier, 760, 1_000, Some(0)));
    lanes.push(interval(0, SimState::Runs, 970, 1_000, None));
    lanes
}
