//! Jitter and its cure: what several runs of one program come to.

use super::recorded::RecordedFigures;
use crate::recording::Recorded;
use quaver_dvfs::dvfs::Table;
use quaver_dvfs::power::{PowerModel, Run, sensitivity};
use quaver_sim::coherence::SecondLevelCounts;
use quaver_sim::cure::{ActivityCounts, CureConfig, CureResults, InjectedCounts, Refills, SubframeRecord};
use quaver_sim::frames::SlowDown;
use quaver_sim::inject::Spread;
use quaver_sync_analysis::sync::SyncClass;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Slices of time of a drawing.
const SLICES: usize = 200;
/// Threads whose debt is drawn, and points of each.
const DEBTS: (usize, usize) = (32, 100);
/// Name of timer interrupts among what is injected.
pub const TIMER: &str = "timer";

/// One simulation: how long it took on the chip, and what its units and controllers saw.
#[derive(Clone, Debug)]
pub struct OneRun {
    /// Simulated time, femtoseconds.
    pub duration_fs: u64,
    /// All else.
    pub cure: CureResults,
    /// What lines cost that had to come back; of threads all their stalls for lines.
    pub refills: Refills,
}

/// The runs of one seed that came to their ends.
#[derive(Clone, Debug)]
pub struct SeedRuns {
    /// The seed.
    pub seed: u64,
    /// As configured.
    pub cured: Option<OneRun>,
    /// With the same jitter, on a plain chip whose cores stay at rest.
    pub disturbed: Option<OneRun>,
}

/// All runs of a program.
#[derive(Clone, Debug)]
pub struct CureRuns {
    /// What was asked for.
    pub config: CureConfig,
    /// Epochs of kernel activity that could be run; none: only time passed.
    pub kernel_epochs: Option<u64>,
    /// The recording that was injected.
    pub recorded: Option<Recorded>,
    /// On a plain chip, without jitter and cure.
    pub ideal: Option<OneRun>,
    /// With the caches of the cure, without jitter.
    pub ideal_in_cache: Option<OneRun>,
    /// By seed. The first is the run that all else on the page is of.
    pub seeds: Vec<SeedRuns>,
    /// Of the first.
    pub second_level: Option<SecondLevelCounts>,
}

/// What they come to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CureSummary {
    /// What was asked for.
    pub config: CureConfig,
    /// Epochs of kernel activity that could be run; none: only time passed.
    pub kernel_epochs: Option<u64>,
    /// From when on the ideal run was measured, femtoseconds; none where there is none.
    pub warm_up_fs: Option<u64>,
    /// The run was too short for the whole number of warm-up subframes.
    pub warm_up_shortened: bool,
    /// The ideal run, whole, femtoseconds.
    pub ideal_fs: Option<u64>,
    /// How much shorter the ideal run was with the caches of the cure, in parts of it; negative where it was longer.
    pub cache_gain: Option<f64>,
    /// By seed.
    pub seeds: Vec<SeedFigures>,
    /// How much longer than the ideal run, in parts of it, over the seeds: with the cure, and without.
    pub slow_down: Option<Spread>,
    /// See `slow_down`.
    pub slow_down_without: Option<Spread>,
    /// Injected at waits in all seeds of which both runs have ended, femtoseconds: with the cure, and without. Who waits can be
    /// late, and that is not the same in both.
    #[serde(default)]
    pub injected_fs: [u64; 2],
    /// The same of timer interrupts, which come without waits.
    #[serde(default)]
    pub timer_fs: [u64; 2],
    /// Power over that without the cure, in parts of it.
    pub power_overhead: Option<Spread>,
    /// The same of the first seed under other assumptions.
    pub power: Vec<PowerFigures>,
    /// Of the first seed: what was injected and found, by class.
    pub classes: Vec<ClassFigures>,
    /// Of the first seed: what was injected from a recording; none without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<RecordedFigures>,
    /// Of the first seed, without the cure: what injected activity touched and waited for, by class.
    #[serde(default)]
    pub activities: BTreeMap<String, ActivityCounts>,
    /// Of the first seed: what of the cost of injected activity lines were that had to come back.
    #[serde(default)]
    pub refill: Option<RefillFigures>,
    /// Of the first seed: what the units did.
    pub units: UnitFigures,
    /// Of the first seed: where the cores' time went, by operating point.
    pub points: Vec<PointFigures>,
    /// Changes of frequency.
    pub changes: u64,
    /// Subframes that ended in time, and that were forced to end.
    pub subframes: [u64; 2],
    /// What all threads together owed at their ends, and after the dummy subframes, femtoseconds.
    pub owed_fs: [i64; 2],
    /// What barriers made a thread owe beyond the rule of slack, mean over the threads, femtoseconds.
    #[serde(default)]
    pub beyond_slack_fs: f64,
    /// Lines of the application that the kernel evicted, where that was asked for.
    pub evicted_lines: u64,
    /// What happened in the second levels, where they are not plain.
    pub second_level: Option<SecondLevelCounts>,
    /// Subframes over time: with the cure, and without.
    pub over_time: Vec<TimeSlice>,
    /// See `over_time`.
    pub over_time_without: Vec<TimeSlice>,
    /// What each of the first threads owed over time, with the cure.
    #[serde(default)]
    pub debts: Vec<ThreadDebt>,
}

/// What of the cost of injected activity lines were that had to come back, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RefillFigures {
    /// Cost of an event on the unified cache, femtoseconds: its time, and stalls of threads for lines beyond the ideal run.
    pub event_fs: f64,
    /// Part that a cache of the core's own could remove at most, and prefetching.
    pub removable: [f64; 2],
    /// Part that went with the cure; negative where an event costs more.
    pub removed: Option<f64>,
}

/// What a thread owed over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadDebt {
    /// The thread.
    pub thread: u32,
    /// Ends of its subframes and what it owed then, femtoseconds; of many subframes those with the largest debts.
    pub points: Vec<(u64, i64)>,
}

/// One seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SeedFigures {
    /// The seed.
    pub seed: u64,
    /// With the cure, femtoseconds; none where it did not come to its end.
    pub cured_fs: Option<u64>,
    /// Without.
    pub disturbed_fs: Option<u64>,
    /// How much longer than the ideal run after the warm-up, in parts of it: with the cure.
    pub slow_down: Option<f64>,
    /// Without.
    pub slow_down_without: Option<f64>,
    /// Jitter that the units found without the cure, all threads together, nanoseconds.
    pub lost_ns: Option<u64>,
    /// Power over that without the cure.
    pub power_overhead: Option<f64>,
}

/// One class of what was injected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassFigures {
    /// Its name; `timer` for timer interrupts.
    pub class: String,
    /// Occasions at which a duration was drawn.
    pub drawn: u64,
    /// Of these, with one above 0.
    pub injected: u64,
    /// All of them, femtoseconds.
    pub injected_fs: u64,
    /// Late operations that the units found.
    pub found: u64,
    /// Their time, nanoseconds.
    pub found_ns: u64,
}

/// What the units did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnitFigures {
    /// Waits and locks that were dropped, for a buffer was full.
    pub overflows: u64,
    /// Messages over the cycles of the run: what they cost the network.
    pub message_share: Option<f64>,
    /// Messages of all kinds.
    pub messages: u64,
    /// Transactions.
    pub transactions: u64,
    /// Most requests that were latched in one unit at once.
    pub most_latched: u32,
}

/// One operating point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PointFigures {
    /// Its frequency, GHz.
    pub ghz: f64,
    /// Over that at rest.
    pub factor: f64,
    /// Share of the time in which cores had a thread.
    pub active_share: f64,
    /// Share of the time in which they had none.
    pub idle_share: f64,
}

/// Power under one set of assumptions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PowerFigures {
    /// What was assumed.
    pub model: PowerModel,
    /// Over that without the cure.
    pub overhead: Option<f64>,
}

/// The subframes that ended in a slice of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeSlice {
    /// Its end, femtoseconds.
    pub end_fs: u64,
    /// How many ended.
    pub subframes: u64,
    /// Their jitter together, femtoseconds.
    pub lost_fs: u64,
    /// The largest, femtoseconds.
    pub most_lost_fs: u64,
    /// Mean of their frequencies over rest; 0 where none ended.
    pub factor: f64,
}

impl CureRuns {
    /// What they come to.
    pub fn summarize(&self) -> CureSummary {
        let frames = &self.config.frames;
        let slow_down = |run: &OneRun| {
            let ideal = self.ideal.as_ref()?;
            Some(SlowDown::of(frames, measured(run), measured(ideal)))
        };
        let warm_up = self.ideal.as_ref().map(|ideal| frames.warm_up(ideal.duration_fs));
        let gain = self.ideal_in_cache.as_ref().and_then(slow_down).and_then(|one| one.slow_down);
        let seeds: Vec<SeedFigures> = self.seeds.iter().map(|runs| seed_figures(runs, &slow_down)).collect();
        // Means with and without the cure are of the same seeds, also where an interrupted run has one of a seed's two.
        let both = |one: &&SeedFigures| one.slow_down.is_some() && one.slow_down_without.is_some();
        let spread = |of: fn(&SeedFigures) -> Option<f64>| {
            Spread::of(&seeds.iter().filter(both).filter_map(of).collect::<Vec<f64>>())
        };
        let first = self.seeds.first();
        let cured = first.and_then(|first| first.cured.as_ref());
        let disturbed = first.and_then(|first| first.disturbed.as_ref());
        let sums = |of: fn(&CureResults) -> i64| cured.map_or(0, |run| of(&run.cure));
        CureSummary {
            config: self.config.clone(),
            kernel_epochs: self.kernel_epochs,
            warm_up_fs: warm_up.map(|warm_up| warm_up.until_fs),
            warm_up_shortened: warm_up.is_some_and(|warm_up| warm_up.shortened),
            ideal_fs: self.ideal.as_ref().map(|ideal| ideal.duration_fs),
            cache_gain: gain.map(|slow_down| -slow_down),
            slow_down: spread(|one| one.slow_down),
            slow_down_without: spread(|one| one.slow_down_without),
            injected_fs: self.of_both(|run| run.cure.injected.values().map(|counts| counts.total_fs).sum()),
            timer_fs: self.of_both(|run| run.cure.timer.total_fs),
            power_overhead: spread(|one| one.power_overhead),
            power: power(cured, disturbed),
            classes: cured.map(|run| classes(&run.cure)).unwrap_or_default(),
            recorded: self
                .recorded
                .as_ref()
                .zip(cured)
                .and_then(|(recorded, run)| RecordedFigures::of(recorded, &run.cure, run.duration_fs)),
            activities: disturbed.or(cured).map(activities).unwrap_or_default(),
            refill: self.refill(disturbed, cured),
            units: cured.map(|run| units(&run.cure)).unwrap_or_default(),
            points: cured.map(|run| points(&run.cure)).unwrap_or_default(),
            changes: cured.map_or(0, |run| run.cure.residency.iter().map(|core| core.changes).sum()),
            subframes: cured.map_or([0; 2], |run| run.cure.subframes.into()),
            owed_fs: [
                sums(|cure| cure.owed_fs.iter().sum()),
                sums(|cure| cure.owed_after_dummies_fs.iter().sum()),
            ],
            beyond_slack_fs: cured.map_or(0.0, |run| run.cure.mean_beyond_slack_fs()),
            evicted_lines: cured.map_or(0, |run| run.cure.evicted_lines),
            second_level: self.second_level,
            over_time: cured.map(over_time).unwrap_or_default(),
            over_time_without: disturbed.map(over_time).unwrap_or_default(),
            debts: cured.map(debts).unwrap_or_default(),
            seeds,
        }
    }

    /// A sum over all seeds of which both runs have ended: with the cure, and without.
    fn of_both(&self, of: fn(&OneRun) -> u64) -> [u64; 2] {
        let both = self.seeds.iter().filter_map(|one| Some([one.cured.as_ref()?, one.disturbed.as_ref()?]));
        both.fold([0, 0], |sum, [cured, disturbed]| [sum[0] + of(cured), sum[1] + of(disturbed)])
    }

    fn refill(&self, disturbed: Option<&OneRun>, cured: Option<&OneRun>) -> Option<RefillFigures> {
        let ideal = self.ideal.as_ref()?.refills;
        let plain = disturbed?.refills.beyond(&ideal);
        let removed = cured.and_then(|run| {
            let ideal = self.ideal_in_cache.as_ref().map_or(ideal, |run| run.refills);
            plain.removed_in(&run.refills.beyond(&ideal))
        });
        Some(RefillFigures { event_fs: plain.per_event_fs()?, removable: plain.removable()?, removed })
    }
}

fn activities(run: &OneRun) -> BTreeMap<String, ActivityCounts> {
    run.cure.activities.iter().map(|(class, counts)| ((*class).to_owned(), *counts)).collect()
}

fn measured(run: &OneRun) -> (&quaver_sim::frames::Progress, u64) {
    (&run.cure.progress, run.duration_fs)
}

fn seed_figures(runs: &SeedRuns, slow_down: &dyn Fn(&OneRun) -> Option<SlowDown>) -> SeedFigures {
    let (cured, disturbed) = (runs.cured.as_ref(), runs.disturbed.as_ref());
    let slower = |run: Option<&OneRun>| run.and_then(slow_down).and_then(|one| one.slow_down);
    SeedFigures {
        seed: runs.seed,
        cured_fs: cured.map(|run| run.duration_fs),
        disturbed_fs: disturbed.map(|run| run.duration_fs),
        slow_down: slower(cured),
        slow_down_without: slower(disturbed),
        lost_ns: disturbed.map(|run| run.cure.units.sync.late.total_ns),
        power_overhead: power(cured, disturbed).first().and_then(|one| one.overhead),
    }
}

fn power(cured: Option<&OneRun>, disturbed: Option<&OneRun>) -> Vec<PowerFigures> {
    let (Some(cured), Some(disturbed)) = (cured, disturbed) else { return Vec::new() };
    fn run(one: &OneRun) -> Run<'_> {
        (&one.cure.table, &one.cure.residency)
    }
    let each = sensitivity(run(cured), run(disturbed)).into_iter();
    each.map(|one| PowerFigures { model: one.model, overhead: one.overhead }).collect()
}

fn classes(cure: &CureResults) -> Vec<ClassFigures> {
    let figures = |name: &str, counts: InjectedCounts, found: u64, found_ns: u64| ClassFigures {
        class: name.to_owned(),
        drawn: counts.drawn,
        injected: counts.injected,
        injected_fs: counts.total_fs,
        found,
        found_ns,
    };
    let class = |class: SyncClass| {
        let counts = cure.injected.get(&class).copied().unwrap_or_default();
        let late = cure.units.sync.classes.iter().find(|one| one.class == class).map(|one| one.late);
        figures(class.name(), counts, late.map_or(0, |late| late.count), late.map_or(0, |late| late.total_ns))
    };
    let mut found: Vec<ClassFigures> = SyncClass::ALL.into_iter().map(class).collect();
    let timer = cure.units.sync.others.iter().find(|other| other.class.name() == TIMER).map(|one| one.lost);
    found.push(figures(
        TIMER,
        cure.timer,
        timer.map_or(0, |lost| lost.count),
        timer.map_or(0, |lost| lost.total_ns),
    ));
    found.retain(|one| one.drawn > 0 || one.found > 0);
    found
}

fn units(cure: &CureResults) -> UnitFigures {
    let hardware = &cure.units.hardware;
    UnitFigures {
        overflows: cure.units.overflows,
        message_share: cure.units.message_share,
        messages: hardware.messages.total(),
        transactions: hardware.transactions,
        most_latched: hardware.most_latched,
    }
}

fn points(cure: &CureResults) -> Vec<PointFigures> {
    let table: &Table = &cure.table;
    let sum = |point: usize, idle: bool| -> u64 {
        let times = cure.residency.iter().map(|core| if idle { &core.idle_fs } else { &core.active_fs });
        times.filter_map(|times| times.get(point)).sum()
    };
    let whole = |idle: bool| (0..table.points.len()).map(|point| sum(point, idle)).sum::<u64>().max(1) as f64;
    let (active, idle) = (whole(false), whole(true));
    let point = |(point, own): (usize, &quaver_dvfs::dvfs::OperatingPoint)| PointFigures {
        ghz: own.frequency_ghz,
        factor: table.factor(point),
        active_share: sum(point, false) as f64 / active,
        idle_share: sum(point, true) as f64 / idle,
    };
    table.points.iter().enumerate().map(point).collect()
}

/// What threads owed at the ends of the subframes that were kept; nothing without a controller.
fn debts(run: &OneRun) -> Vec<ThreadDebt> {
    if run.cure.table.points.len() < 2 {
        return Vec::new();
    }
    let (most_threads, most_points) = DEBTS;
    let mut threads: BTreeMap<u32, Vec<(u64, i64)>> = BTreeMap::new();
    for record in &run.cure.kept {
        threads.entry(record.thread).or_default().push((record.at_fs, record.owed_fs));
    }
    let thin = |points: Vec<(u64, i64)>| -> Vec<(u64, i64)> {
        let chunks = points.chunks(points.len().div_ceil(most_points).max(1));
        chunks.filter_map(|chunk| chunk.iter().copied().max_by_key(|point| point.1.unsigned_abs())).collect()
    };
    let lines = threads.into_iter().take(most_threads);
    lines.map(|(thread, points)| ThreadDebt { thread, points: thin(points) }).collect()
}

/// The subframes that were kept, in slices of the run.
fn over_time(run: &OneRun) -> Vec<TimeSlice> {
    let records = &run.cure.kept;
    if records.is_empty() || run.duration_fs == 0 {
        return Vec::new();
    }
    let count = SLICES.min(records.len());
    let end_fs = |slice: usize| (u128::from(run.duration_fs) * (slice as u128 + 1) / count as u128) as u64;
    let mut slices: Vec<TimeSlice> =
        (0..count).map(|slice| TimeSlice { end_fs: end_fs(slice), ..TimeSlice::default() }).collect();
    let of = |record: &SubframeRecord| {
        let slice = u128::from(record.at_fs) * count as u128 / u128::from(run.duration_fs);
        (slice as usize).min(count - 1)
    };
    for record in records {
        let slice = &mut slices[of(record)];
        slice.subframes += 1;
        slice.lost_fs += record.lost_fs;
        slice.most_lost_fs = slice.most_lost_fs.max(record.lost_fs);
        slice.factor += record.factor;
    }
    for slice in &mut slices {
        slice.factor /= slice.subframes.max(1) as f64;
    }
    slices
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_sim::frames::{Ended, Progress};
    use quaver_sim::unit::{UnitConfig, Units};

    fn one_run(duration_fs: u64) -> OneRun {
        let mut progress = Progress::default();
        progress.add(duration_fs, 1000);
        let cure = CureResults {
            units: Units::new(&UnitConfig::new(1), 2).finish(1),
            recorded: None,
            injected: BTreeMap::new(),
            timer: InjectedCounts::default(),
            activities: BTreeMap::new(),
            subframes: (0, 0),
            kept: Vec::new(),
            table: Table::default(),
            residency: Vec::new(),
            owed_fs: Vec::new(),
            owed_after_dummies_fs: Vec::new(),
            beyond_slack_fs: Vec::new(),
            evicted_lines: 0,
            progress,
        };
        OneRun { duration_fs, cure, refills: Refills::default() }
    }

    #[test]
    fn means_with_and_without_the_cure_are_of_the_same_seeds() {
        let frames = quaver_sim::frames::FrameConfig { warm_up_subframes: 0, ..Default::default() };
        let late = |duration_fs: u64, timer_fs: u64| {
            let mut run = one_run(duration_fs);
            run.cure.timer = InjectedCounts { drawn: 1, injected: 1, total_fs: timer_fs };
            Some(run)
        };
        let seed = |seed, cured, disturbed| SeedRuns { seed, cured, disturbed };
        let summary = CureRuns {
            config: CureConfig { frames, ..CureConfig::default() },
            kernel_epochs: None,
            recorded: None,
            ideal: late(1000, 0),
            ideal_in_cache: None,
            seeds: vec![
                seed(1, late(1250, 0), late(1500, 0)),
                seed(2, late(1750, 2), late(2000, 3)),
                seed(3, late(9000, 7), None),
            ],
            second_level: None,
        }
        .summarize();
        let mean = |spread: Option<Spread>| spread.map(|one| (one.runs, one.mean));
        assert_eq!(mean(summary.slow_down), Some((2, 0.5)), "seed 3 has no run without the cure");
        assert_eq!(mean(summary.slow_down_without), Some((2, 0.75)));
        assert_eq!(summary.timer_fs, [2, 3]);
        assert_eq!(summary.seeds[2].slow_down, Some(8.0), "its own row keeps what there is");
    }

    #[test]
    fn the_debt_of_each_thread_is_thinned_to_its_largest_values() {
        let record = |(at, owed_fs): (u64, i64)| SubframeRecord {
            thread: (at % 2) as u32,
            at_fs: at,
            why: Ended::InTime,
            factor: 1.0,
            lost_fs: 0,
            owed_fs,
            instructions: 1,
        };
        // 150 subframes of each thread: every second one is shown, the one with the larger debt.
        let kept = (0..300).zip([5, 1, -7, 9].into_iter().cycle()).map(record).collect();
        let mut run = one_run(300);
        run.cure = CureResults { kept, beyond_slack_fs: vec![2, 4], ..run.cure };
        let lines = debts(&run);
        assert_eq!(
            lines.iter().map(|line| (line.thread, line.points.len())).collect::<Vec<_>>(),
            [(0, 75), (1, 75)]
        );
        assert_eq!((lines[0].points[..2].to_vec(), lines[1].points[0]), (vec![(2, -7), (6, -7)], (3, 9)));
        assert!((run.cure.mean_beyond_slack_fs() - 3.0).abs() < 1e-12);
        run.cure.table.points.truncate(1);
        assert_eq!(debts(&run), [], "without a controller nobody keeps books");
    }
}
