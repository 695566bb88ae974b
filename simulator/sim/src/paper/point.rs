//! One run of one program in one arm, and what of it goes into tables and figures.

use super::arms::Arm;
use super::calibration::{Knobs, Occasions};
use super::program::{Program, Rounds};
use crate::config::Config;
use crate::cure::{Cure, CureResults, Library, Refills};
use crate::error::SimulationError;
use crate::frames::{Ended, FrameConfig, Progress, SlowDown, WarmUp};
use crate::hooks::Hooks;
use crate::machine::Machine;
use crate::statistics::Results;
use quaver_dvfs::dvfs::deadline::{Deadlines, FrameWork, run_frames};
use quaver_dvfs::dvfs::{ControllerConfig, Kind};
use quaver_dvfs::power::{MODELS, PowerModel};
use quaver_sync_analysis::sync::{Bin, SyncClass};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The paper's example of a deadline: a WiMax packet, 5 ms (its introduction).
pub const DEADLINE_NS: u64 = 5_000_000;
/// The work of a packet at rest without jitter; our choice, nine tenths of its time.
pub const PACKET_WORK_NS: u64 = 4_500_000;
/// Subframes of figures 11 and 12.
const SUBFRAMES_DRAWN: usize = 30;

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// How.
    pub arm: Arm,
    /// Seed of the injection; 0 where nothing is injected.
    pub seed: u64,
}

/// What a program is run with.
#[derive(Clone, Copy, Debug)]
pub struct Bench<'a> {
    /// The program, with the kernel's blocks behind its own.
    pub program: &'a Program,
    /// So many rounds of it.
    pub rounds: u32,
    /// What the kernel does for injected jitter.
    pub library: &'a Library,
    /// The chip.
    pub machine: &'a Config,
}

/// Why a run could not be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PointError {
    /// The simulation cannot go on.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// The cure cannot be built on this chip.
    #[error("{0}: {1}")]
    Cure(&'static str, &'static str),
}

/// The run without jitter that others are compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct Ideal {
    progress: Progress,
    duration_fs: u64,
}

impl Ideal {
    /// How long its warm-up is.
    pub fn warm_up(&self) -> WarmUp {
        FrameConfig::default().warm_up(self.duration_fs)
    }

    /// From its first step to its last, nanoseconds.
    pub fn duration_ns(&self) -> f64 {
        self.duration_fs as f64 / 1e6
    }
}

/// A subframe of figures 11 and 12.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubframePoint {
    /// When it ended, microseconds.
    pub at_us: f64,
    /// Its frequency over rest.
    pub factor: f64,
    /// What was lost in it, microseconds.
    pub lost_us: f64,
}

/// Packets against their deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Packets {
    /// Packets.
    pub packets: u64,
    /// Late ones.
    pub missed: u64,
    /// Mean time left, microseconds.
    pub mean_slack_us: f64,
    /// Least time left, microseconds.
    pub least_slack_us: f64,
}

/// What the units did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnitWork {
    /// Transactions of all units.
    pub transactions: u64,
    /// Part of the time in which a unit was busy, mean over the units, 0 to 1.
    pub busy_share: f64,
    /// Messages.
    pub messages: u64,
    /// Messages in 10 us, all units together (appendix E.1).
    pub messages_in_10_us: f64,
    /// Most entries in use in one wait buffer, and in one lock buffer.
    pub most_entries: [u32; 2],
    /// Entries dropped, for a buffer was full.
    pub overflows: u64,
    /// Operations in another slot than the offline books have.
    pub slots_differ: u64,
}

/// What goes into tables and figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PointFigures {
    /// From the first step to the last, nanoseconds.
    pub duration_ns: f64,
    /// How much longer the same instructions took than without jitter on the unified cache, after the warm-up, in parts.
    pub slow_down: Option<f64>,
    /// Late operations a millisecond, all threads together.
    pub events_per_ms: f64,
    /// Mean of them, microseconds; none without any.
    pub mean_us: Option<f64>,
    /// Jitter, microseconds a millisecond.
    pub late_us_per_ms: f64,
    /// How often operations may have found the kernel busy.
    pub occasions: Occasions,
    /// Time of late operations by class, nanoseconds.
    pub classes_ns: [u64; 6],
    /// Sync jitter over all jitter, 0 to 1.
    pub sync_share: Option<f64>,
    /// Late operations by size.
    pub bins: Vec<Bin>,
    /// Mean power of a core by each of the [models](MODELS), over that of a busy one at rest.
    pub power: Vec<f64>,
    /// Mean frequency of cores with a thread, over rest.
    pub mean_factor: f64,
    /// Changes of a core's frequency.
    pub changes: u64,
    /// What barriers made a thread owe beyond the rule of slack, mean over the threads, microseconds.
    #[serde(default)]
    pub beyond_slack_us: f64,
    /// Parts of the critical path, microseconds: work of threads, kernel activity that held them up, wake-ups in flight.
    #[serde(default)]
    pub path_us: Option<[f64; 3]>,
    /// Subframes that ended in time, and that were forced to.
    pub subframes: (u64, u64),
    /// Lines that kernel activity brought in.
    pub kernel_lines: u64,
    /// What lines cost that had to come back.
    #[serde(default)]
    pub refills: Refills,
    /// What the units did.
    pub units: UnitWork,
    /// The first subframes of the thread that lost most.
    pub drawn: Vec<SubframePoint>,
    /// Packets at rest, with the controller, and with the one that learns.
    pub packets: [Packets; 3],
}

/// Runs a program in an arm; none where `goes_on` said that it is enough. The run of [`Arm::Ideal`] gives what others need.
///
/// # Errors
/// When the trace is wrong, or the arm cannot be built on the chip.
pub fn run_point(
    bench: &Bench<'_>,
    point: Point,
    knobs: &Knobs,
    ideal: Option<&Ideal>,
    goes_on: &dyn Fn() -> bool,
) -> Result<Option<(PointFigures, Ideal)>, PointError> {
    let Bench { program, rounds, library, machine: config } = *bench;
    if point.arm == Arm::Plain {
        let mut machine = Machine::new(config, &program.dictionary, program.steps(rounds));
        if !drive(&mut machine, goes_on)? {
            return Ok(None);
        }
        let duration_fs = machine.results().duration_fs;
        let figures = PointFigures { duration_ns: duration_fs as f64 / 1e6, ..PointFigures::default() };
        return Ok(Some((figures, Ideal { progress: Progress::default(), duration_fs })));
    }
    let cure = point.arm.cure(knobs, point.seed);
    let mut cure = Cure::new(cure, config, library.clone())
        .map_err(|(name, expected)| PointError::Cure(name, expected))?;
    let mut machine = Machine::with_hooks(config, &program.dictionary, program.steps(rounds), &mut cure);
    if !drive(&mut machine, goes_on)? {
        return Ok(None);
    }
    let results = machine.results();
    drop(machine);
    let cure = cure.finish(results.duration_fs);
    let figures = figures(point.arm, &results, &cure, ideal);
    Ok(Some((figures, Ideal { progress: cure.progress, duration_fs: results.duration_fs })))
}

fn drive<H: Hooks>(
    machine: &mut Machine<Rounds, H>,
    goes_on: &dyn Fn() -> bool,
) -> Result<bool, SimulationError> {
    while !machine.run(16)? {
        if !goes_on() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn figures(arm: Arm, results: &Results, cure: &CureResults, ideal: Option<&Ideal>) -> PointFigures {
    let sync = &cure.units.sync;
    let duration_ns = results.duration_fs as f64 / 1e6;
    let duration_ms = (duration_ns / 1e6).max(1e-9);
    let mut classes_ns = [0; 6];
    for class in &sync.classes {
        classes_ns[class.class as usize] = class.late.total_ns;
    }
    let slow_down = ideal.and_then(|ideal| {
        let run = (&cure.progress, results.duration_fs);
        SlowDown::of(&FrameConfig::default(), run, (&ideal.progress, ideal.duration_fs)).slow_down
    });
    let late = (sync.late.count as f64, sync.late.total_ns as f64 / 1e3);
    let timed_per_ms = |classes: [SyncClass; 2]| -> f64 {
        classes.iter().map(|class| sync.classes[*class as usize].timed.count as f64).sum::<f64>()
            / duration_ms
    };
    let bins = sync.classes.iter().flat_map(|class| class.bins.iter().copied());
    let power = MODELS.map(|model: PowerModel| model.mean(&cure.table, &cure.residency).unwrap_or(0.0));
    PointFigures {
        duration_ns,
        slow_down,
        events_per_ms: late.0 / duration_ms,
        mean_us: (late.0 > 0.0).then(|| late.1 / late.0),
        late_us_per_ms: late.1 / duration_ms,
        occasions: Occasions {
            waits_per_ms: timed_per_ms([SyncClass::SignalWait, SyncClass::BroadcastWait]),
            locks_per_ms: timed_per_ms([SyncClass::LockUnlock, SyncClass::Unlock]),
        },
        classes_ns,
        sync_share: sync.sync_share.threads_total,
        bins: if arm == Arm::Unified { merged(bins) } else { Vec::new() },
        power: power.to_vec(),
        mean_factor: mean_factor(cure),
        changes: cure.residency.iter().map(|core| core.changes).sum(),
        beyond_slack_us: cure.mean_beyond_slack_fs() / 1e9,
        path_us: Some(results.critical_path.parts_fs().map(|fs| fs as f64 / 1e9)),
        subframes: cure.subframes,
        kernel_lines: results.kernel.iter().map(|core| core.from_memory + core.from_remote).sum(),
        refills: Refills::of(results, &cure.activities),
        units: unit_work(cure, duration_ns),
        drawn: if arm.controller().is_some() { most_lost(cure) } else { Vec::new() },
        packets: if arm == Arm::Unified { packets(results, cure) } else { <[Packets; 3]>::default() },
    }
}

/// Bins of several distributions, those of one size as one.
pub(super) fn merged(bins: impl Iterator<Item = Bin>) -> Vec<Bin> {
    let mut all: Vec<Bin> = bins.collect();
    all.sort_by(|one, other| one.from_ns.total_cmp(&other.from_ns));
    all.dedup_by(|later, first| {
        let same = later.from_ns == first.from_ns;
        first.count += if same { later.count } else { 0 };
        same
    });
    all
}

fn mean_factor(cure: &CureResults) -> f64 {
    let (mut weighted, mut time) = (0.0, 0.0);
    for core in &cure.residency {
        for (point, own_fs) in core.active_fs.iter().enumerate() {
            weighted += cure.table.factor(point) * *own_fs as f64;
            time += *own_fs as f64;
        }
    }
    if time > 0.0 { weighted / time } else { 1.0 }
}

fn unit_work(cure: &CureResults, duration_ns: f64) -> UnitWork {
    let (hardware, units) = (&cure.units.hardware, &cure.units.sync.units);
    let cores = cure.residency.len().max(1) as f64;
    let messages = hardware.messages.total();
    UnitWork {
        transactions: hardware.transactions,
        busy_share: hardware.busy_fs as f64 / 1e6 / cores / duration_ns.max(1e-9),
        messages,
        messages_in_10_us: messages as f64 / (duration_ns / 1e4).max(1e-9),
        most_entries: [units.wait_most, units.lock_most],
        overflows: cure.units.overflows,
        slots_differ: hardware.slots_differ,
    }
}

/// By thread: its subframes that were kept.
fn by_thread(cure: &CureResults) -> BTreeMap<u32, Vec<SubframePoint>> {
    let mut threads: BTreeMap<u32, Vec<SubframePoint>> = BTreeMap::new();
    for one in cure.kept.iter().filter(|one| one.why == Ended::InTime) {
        let drawn = SubframePoint {
            at_us: one.at_fs as f64 / 1e9,
            factor: one.factor,
            lost_us: one.lost_fs as f64 / 1e9,
        };
        threads.entry(one.thread).or_default().push(drawn);
    }
    threads
}

/// The first subframes of the thread that lost most, the first of several.
fn most_lost(cure: &CureResults) -> Vec<SubframePoint> {
    let lost = |subframes: &[SubframePoint]| {
        subframes.iter().take(SUBFRAMES_DRAWN).map(|one| one.lost_us).sum::<f64>()
    };
    let most = by_thread(cure)
        .into_values()
        .reduce(|best, next| if lost(&next) > lost(&best) { next } else { best });
    let mut most = most.unwrap_or_default();
    most.truncate(SUBFRAMES_DRAWN);
    most
}

/// Packets that lose what the threads of this run lost, subframe by subframe.
fn packets(results: &Results, cure: &CureResults) -> [Packets; 3] {
    let config = ControllerConfig::default();
    let subframes = (DEADLINE_NS / config.subframe_ns).max(1) as usize;
    let (unpaced, busy) = results.cores.iter().fold((0, 0), |sum, core| {
        let stalls = &core.stalls;
        let unpaced = stalls.memory_fs + stalls.remote_fs + stalls.fetch_fs + stalls.store_buffer_fs;
        (sum.0 + unpaced, sum.1 + core.busy_fs)
    });
    let unpaced_share = unpaced as f64 / (busy as f64).max(1.0);
    let threads = by_thread(cure);
    let work: Vec<FrameWork> = threads
        .values()
        .flat_map(|thread| thread.chunks_exact(subframes))
        .map(|chunk| {
            let lost_ns = chunk.iter().map(|one| (one.lost_us * 1e3).round() as u64).chain([0]).collect();
            FrameWork { work_ns: PACKET_WORK_NS, unpaced_share, lost_ns }
        })
        .collect();
    let against = |kind: Option<Kind>| -> Packets {
        let config = ControllerConfig { kind: kind.unwrap_or_default(), ..config.clone() };
        let seen: Deadlines = run_frames(&config, work.iter(), DEADLINE_NS, kind.is_some());
        Packets {
            packets: seen.frames,
            missed: seen.missed,
            mean_slack_us: seen.mean_slack_ns / 1e3,
            least_slack_us: seen.least_slack_ns / 1e3,
        }
    };
    [against(None), against(Some(Kind::Reactive)), against(Some(Kind::Predictive))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cure::{CoreResidency, SubframeRecord};
    use crate::unit::{MessageCounts, UnitConfig, Units};
    use quaver_dvfs::dvfs::Table;

    fn cure(residency: Vec<CoreResidency>, kept: Vec<SubframeRecord>) -> CureResults {
        CureResults {
            units: Units::new(&UnitConfig::new(1), 2).finish(1),
            recorded: None,
            injected: BTreeMap::new(),
            timer: Default::default(),
            activities: BTreeMap::new(),
            subframes: (0, 0),
            kept,
            table: Table::default(),
            residency,
            owed_fs: Vec::new(),
            owed_after_dummies_fs: Vec::new(),
            beyond_slack_fs: Vec::new(),
            evicted_lines: 0,
            progress: Progress::default(),
        }
    }

    /// A core that was busy for these times at rest and at 1.2.
    fn core(rest_fs: u64, highest_fs: u64) -> CoreResidency {
        let active_fs = vec![0, 0, 0, 0, rest_fs, 0, 0, 0, highest_fs];
        CoreResidency { active_fs, idle_fs: vec![1_000; 9], changes: 1 }
    }

    #[test]
    fn the_mean_factor_is_weighted_by_busy_time() {
        let mean = mean_factor(&cure(vec![core(300, 0), core(0, 100)], vec![]));
        assert!((mean - 1.05).abs() < 1e-12, "(300 + 120) / 400: {mean}");
        assert_eq!(mean_factor(&cure(vec![core(0, 0)], vec![])), 1.0);
    }

    #[test]
    fn units_are_busy_for_their_part_of_the_time_of_all_cores() {
        let mut cure = cure(vec![core(0, 0), core(0, 0)], vec![]);
        let hardware = &mut cure.units.hardware;
        (hardware.transactions, hardware.busy_fs, hardware.slots_differ) = (7, 3_000_000_000, 2);
        hardware.messages = MessageCounts { releases: 5, swaps: 1, ..MessageCounts::default() };
        cure.units.overflows = 4;
        // 3 us busy in 2 units over 30 us; six messages in three times 10 us.
        let work = unit_work(&cure, 30_000.0);
        assert!((work.busy_share - 0.05).abs() < 1e-12 && (work.messages_in_10_us - 2.0).abs() < 1e-12);
        assert_eq!((work.transactions, work.messages, work.overflows, work.slots_differ), (7, 6, 4, 2));
    }

    #[test]
    fn the_first_of_the_threads_that_lost_most_is_drawn_by_subframes_that_ended_in_time() {
        let record = |thread, lost_fs, why| SubframeRecord {
            thread,
            at_fs: 2_000_000_000,
            why,
            factor: 1.1,
            lost_fs,
            owed_fs: 0,
            instructions: 1,
        };
        let forced = [Ended::AtExit].map(|why| record(1, 90_000_000_000, why));
        let in_time = [(1, 5_000_000_000), (2, 6_000_000_000), (3, 6_000_000_000), (3, 0)];
        let in_time = in_time.map(|(thread, lost_fs)| record(thread, lost_fs, Ended::InTime));
        let cure = cure(vec![], [&forced[..], &in_time[..]].concat());
        assert_eq!(by_thread(&cure).values().map(Vec::len).collect::<Vec<_>>(), [1, 1, 2]);
        let drawn = most_lost(&cure);
        assert_eq!(
            drawn,
            [SubframePoint { at_us: 2.0, factor: 1.1, lost_us: 6.0 }],
            "the first of two that lost the same"
        );
        assert_eq!(most_lost(&self::cure(vec![], vec![])), []);
    }
}
