//! From the simulator's counts to figures for people.

use super::facts::SimFacts;
use super::summary::{
    ChipFigures, CoreFigures, LevelFigures, PARTS, PathFigures, PathThread, RUNNING_PARTS, SCHEMA,
    SimSummary, ThreadFigures, TimePart, TrafficFigures,
};
use quaver_sim::statistics::{CoreCounts, Results, ThreadTimes, TimeStack, WaitKind};
use serde_json::Value;

/// What a run comes to. `complete` says that all threads ended.
pub(crate) fn summarize(facts: SimFacts, results: &Results, complete: bool) -> SimSummary {
    let duration_fs = if complete { results.duration_fs } else { reached_fs(results) };
    let cores = cores(results, duration_fs);
    let whole = |part: usize| cores.iter().map(|core| core.parts_fs[part]).sum::<u64>();
    let time = TimePart::all(PARTS.iter().enumerate().map(|(part, (name, _))| (*name, whole(part))));
    SimSummary {
        schema: SCHEMA.to_owned(),
        complete,
        chip: chip(results, &cores, duration_fs),
        time,
        levels: levels(&results.cores),
        traffic: traffic(results, duration_fs, facts.machine.l2.line_octets),
        threads: threads(results, duration_fs),
        critical_path: path(results),
        cure: None,
        counts: counts(results),
        warnings: warnings(&facts, results),
        facts,
        cores,
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The counts without the intervals, which have a table of their own.
fn counts(results: &Results) -> Value {
    let mut counts = serde_json::to_value(results).unwrap_or_default();
    if let Some(counts) = counts.as_object_mut() {
        counts.shift_remove("intervals");
        counts.shift_remove("intervals_dropped");
    }
    counts
}

/// How far a simulation that was ended early had come: cores do not stop at the same time.
fn reached_fs(results: &Results) -> u64 {
    let busy = results.stacks.iter().map(|stack| running_fs(stack).iter().sum::<u64>() + stack.kernel_fs);
    let ends = results.intervals.iter().map(|interval| interval.end_fs);
    // What runs now is in neither of them yet; the way to where it is has its time.
    let reached = [results.duration_fs, results.critical_path.total_fs()];
    busy.chain(ends).chain(reached).max().unwrap_or(0)
}

fn chip(results: &Results, cores: &[CoreFigures], duration_fs: u64) -> ChipFigures {
    let instructions = results.instructions();
    let cycle_fs = results.cycle_fs.max(1);
    let busy_fs: u64 = cores.iter().map(|core| core.busy_fs).sum();
    ChipFigures {
        duration_fs,
        cycle_fs: results.cycle_fs,
        cycles: duration_fs / cycle_fs,
        instructions,
        cpi: share(busy_fs, instructions).map(|fs| fs / cycle_fs as f64),
        chip_ipc: share(instructions, duration_fs).map(|each_fs| each_fs * cycle_fs as f64),
        busy_share: share(busy_fs, duration_fs * cores.len() as u64),
        cores_used: cores.iter().filter(|core| core.instructions > 0).count() as u64,
    }
}

fn cores(results: &Results, duration_fs: u64) -> Vec<CoreFigures> {
    let each = results.cores.iter().zip(&results.stacks).enumerate();
    each.map(|(core, (counts, stack))| {
        let alive_fs = alive_fs(results, core, duration_fs);
        core_figures(core, counts, stack, (alive_fs, duration_fs), results.cycle_fs)
    })
    .collect()
}

/// The parts of a core's time in which a thread ran, in the order of [`PARTS`].
pub(crate) fn running_fs(stack: &TimeStack) -> [u64; RUNNING_PARTS] {
    let stalls = &stack.stalls;
    [
        stack.issue_fs,
        stalls.operands_fs,
        stalls.mispredicted_fs,
        stalls.fetch_fs,
        stalls.second_level_fs,
        stalls.remote_fs,
        stalls.memory_fs,
        stalls.store_buffer_fs,
        stalls.port_fs,
        stalls.sync_fs,
        stalls.frequency_fs,
    ]
}

/// `alive_fs` is how long the core had a thread.
fn core_figures(
    core: usize,
    counts: &CoreCounts,
    stack: &TimeStack,
    (alive_fs, duration_fs): (u64, u64),
    cycle_fs: u64,
) -> CoreFigures {
    let mut parts_fs = running_fs(stack).to_vec();
    let busy_fs: u64 = parts_fs.iter().sum();
    let idle_fs = duration_fs.saturating_sub(busy_fs + stack.kernel_fs);
    let waiting_fs = alive_fs.saturating_sub(busy_fs + stack.kernel_fs).min(idle_fs);
    parts_fs.extend([stack.kernel_fs, waiting_fs, idle_fs - waiting_fs]);
    CoreFigures {
        core: core as u32,
        instructions: counts.instructions,
        busy_fs,
        cpi: share(busy_fs, counts.instructions).map(|fs| fs / cycle_fs.max(1) as f64),
        parts_fs,
        jumps: counts.jumps,
        mispredicted: counts.mispredicted,
        data_looks: counts.loads + counts.stores,
        data_misses: counts.load_misses + counts.store_misses,
        fetches: counts.fetches,
        fetch_misses: counts.fetch_misses,
        from_remote: counts.from_remote,
        from_memory: counts.from_memory,
        upgrades: counts.upgrades,
    }
}

/// Whether a thread was ever started: all but the first are after something.
fn started(thread: usize, times: &ThreadTimes) -> bool {
    thread == 0 || times.start_fs > 0
}

/// From its start to its end, or to that of the run.
fn life_fs(times: &ThreadTimes, duration_fs: u64) -> (u64, u64) {
    let end_fs = if times.end_fs > 0 { times.end_fs } else { duration_fs };
    (times.start_fs, end_fs.max(times.start_fs))
}

/// How long at least one thread of a core was alive.
fn alive_fs(results: &Results, core: usize, duration_fs: u64) -> u64 {
    let cores = results.cores.len().max(1);
    let of_core = results
        .threads
        .iter()
        .enumerate()
        .filter(|(thread, times)| thread % cores == core && started(*thread, times));
    let mut lives: Vec<(u64, u64)> = of_core.map(|(_, times)| life_fs(times, duration_fs)).collect();
    lives.sort_unstable();
    let mut reached_fs = 0;
    let mut alive_fs = 0;
    for (start_fs, end_fs) in lives {
        alive_fs += end_fs.saturating_sub(start_fs.max(reached_fs));
        reached_fs = reached_fs.max(end_fs);
    }
    alive_fs
}

fn levels(cores: &[CoreCounts]) -> Vec<LevelFigures> {
    let sum = |of: fn(&CoreCounts) -> u64| cores.iter().map(of).sum::<u64>();
    let instructions = sum(|core| core.instructions);
    let level = |name: &str, looks: u64, misses: u64| LevelFigures {
        level: name.to_owned(),
        looks,
        misses,
        miss_ratio: share(misses, looks),
        misses_per_1000: share(misses, instructions).map(|each| each * 1e3),
    };
    // Of the program alone at each level, as its instructions are: the kernel activity has counts of its own.
    let second = sum(|core| core.fetch_misses + core.load_misses + core.store_misses);
    vec![
        level("L1 instructions", sum(|core| core.fetches), sum(|core| core.fetch_misses)),
        level("L1 data, reads", sum(|core| core.loads), sum(|core| core.load_misses)),
        level("L1 data, writes", sum(|core| core.stores), sum(|core| core.store_misses)),
        level("L2", second, sum(|core| core.from_memory + core.from_remote + core.upgrades)),
    ]
}

fn traffic(results: &Results, duration_fs: u64, line_octets: u64) -> TrafficFigures {
    let sum = |of: fn(&CoreCounts) -> u64| results.cores.iter().map(of).sum::<u64>();
    let lines = results.memory_reads + results.memory_writes;
    let octets = lines as f64 * line_octets as f64;
    TrafficFigures {
        from_remote: sum(|core| core.from_remote),
        from_memory: sum(|core| core.from_memory),
        upgrades: sum(|core| core.upgrades),
        invalidations: results.coherence.invalidations,
        downgrades: results.coherence.downgrades,
        recalls: results.coherence.recalls,
        memory_reads: results.memory_reads,
        memory_writes: results.memory_writes,
        memory_gb_per_s: if lines == 0 { 0.0 } else { octets * 1e6 / duration_fs.max(1) as f64 },
    }
}

fn threads(results: &Results, duration_fs: u64) -> Vec<ThreadFigures> {
    let cores = results.cores.len().max(1);
    let figures = |(thread, times): (usize, &ThreadTimes)| {
        let begun = started(thread, times);
        let (start_fs, end_fs) = life_fs(times, duration_fs);
        let waited = |kind: WaitKind| times.waited_for_fs[kind as usize];
        ThreadFigures {
            thread: thread as u32,
            core: (thread % cores) as u32,
            instructions: times.instructions,
            start_fs: begun.then_some(start_fs),
            end_fs: (times.end_fs > 0).then_some(times.end_fs),
            lived_fs: if begun { end_fs - start_fs } else { 0 },
            ran_fs: times.busy_fs,
            queued_fs: times.queued_fs,
            waited_fs: [WaitKind::Lock, WaitKind::Wakeup, WaitKind::Barrier, WaitKind::Join].map(waited),
            from_memory: times.from_memory,
            from_remote: times.from_remote,
        }
    };
    results.threads.iter().enumerate().map(figures).collect()
}

/// Names of [`WaitKind::ALL`].
const KINDS: [&str; 5] = ["lock", "condition", "barrier", "join", "create"];

fn path(results: &Results) -> Option<PathFigures> {
    let path = &results.critical_path;
    let length_fs = path.total_fs();
    if length_fs == 0 {
        return None;
    }
    let [work_fs, kernel_fs, _] = path.parts_fs();
    let mut parts = vec![("in threads".to_owned(), work_fs)];
    if kernel_fs > 0 {
        parts.push(("kernel activity".to_owned(), kernel_fs));
    }
    parts.extend(KINDS.iter().zip(path.edges_fs).map(|(kind, fs)| (format!("{kind}, on the way"), fs)));
    let part = |(thread, fs): (usize, &u64)| PathThread {
        thread: thread as u32,
        time_fs: *fs,
        share: *fs as f64 / length_fs as f64,
    };
    let mut threads: Vec<PathThread> = path.threads_fs.iter().enumerate().map(part).collect();
    threads.retain(|thread| thread.time_fs > 0);
    threads.sort_by_key(|thread| (std::cmp::Reverse(thread.time_fs), thread.thread));
    Some(PathFigures {
        length_fs,
        hand_overs: path.edges.iter().sum(),
        parts: TimePart::all(parts),
        hand_overs_by_kind: KINDS.iter().map(|kind| (*kind).to_owned()).zip(path.edges).collect(),
        threads,
    })
}

fn warnings(facts: &SimFacts, results: &Results) -> Vec<String> {
    let mut warnings = Vec::new();
    if facts.cut_short {
        warnings.push(
            "the trace has no end: whoever wrote it was stopped, so steps may be missing and threads end where theirs do"
                .to_owned(),
        );
    }
    if !facts.lacks.is_empty() {
        warnings.push(format!(
            "the trace does not tell {}, so what depends on it is not simulated; a trace of `quaver sim trace` does",
            facts.lacks.join(", ")
        ));
    }
    let never = results.threads.iter().enumerate().filter(|(thread, times)| !started(*thread, times)).count();
    match never {
        0 => {}
        1 => warnings.push("a thread of the trace was never started, and its steps not simulated".to_owned()),
        _ => warnings
            .push(format!("{never} threads of the trace were never started, and their steps not simulated")),
    }
    if results.lent_locks > 0 {
        warnings.push(format!(
            "{} times nobody could go on, since the holder of a lock waited for one who waited for it: in the recording it got the \
             lock later; it lent the lock",
            results.lent_locks
        ));
    }
    if results.intervals_dropped > 0 {
        warnings.push(format!(
            "the time line ends early: {} intervals found no room; all other figures are of the whole run",
            results.intervals_dropped
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_level_has_the_lookups_that_missed_the_first() {
        let core = CoreCounts {
            instructions: 500,
            fetches: 100,
            fetch_misses: 2,
            loads: 60,
            load_misses: 5,
            stores: 40,
            store_misses: 3,
            from_memory: 4,
            from_remote: 1,
            upgrades: 1,
            ..CoreCounts::default()
        };
        let found = levels(&[core, CoreCounts::default(), core]);
        let rows: Vec<_> = found.iter().map(|level| (&*level.level, level.looks, level.misses)).collect();
        let wanted = [
            ("L1 instructions", 200, 4),
            ("L1 data, reads", 120, 10),
            ("L1 data, writes", 80, 6),
            ("L2", 20, 12),
        ];
        assert_eq!(rows, wanted);
        assert_eq!((found[3].miss_ratio, found[3].misses_per_1000), (Some(0.6), Some(12.0)));
    }
}
