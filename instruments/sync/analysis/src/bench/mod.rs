//! Tables of many programs: rows of the jitter-unit paper's tables 4 to 7 from runs, the correlations of its table 8, and
//! what recording costs a program.

pub mod paper;
#[cfg(test)]
mod tests;

use crate::sync::{Bin, Sums, SyncClass, SyncResults};
use paper::{PaperProgram, Suite};
use quaver_analysis::rounds::Interval;
use quaver_analysis::shift::{shift, shift_interval};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a recorded run of a program showed, as far as the tables need it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunFigures {
    /// From its first event to its last, nanoseconds.
    pub duration_ns: u64,
    /// Late operations of the six classes.
    pub late: Sums,
    /// Time of late operations by class, in the order of [`SyncClass::ALL`].
    pub classes_ns: [u64; 6],
    /// Sync jitter over all jitter of all threads, 0 to 1.
    pub sync_share: Option<f64>,
    /// Sync and other jitter on the critical path, nanoseconds.
    pub path_lost_ns: u64,
    /// What is left of the critical path: the program's own work.
    pub path_execution_ns: u64,
    /// Events of the thread library.
    pub events: u64,
    /// Records that were lost.
    pub lost: u64,
    /// Returns from waits.
    pub wake_ups: u64,
    /// Of these, with a known waker.
    pub matched: u64,
    /// Part of the run with more runnable threads than CPUs.
    pub crowded_share: Option<f64>,
    /// Threads.
    pub threads: u64,
    /// Whether the kernel's side was recorded, without which other jitter is little more than starts and joins.
    pub kernel_side: bool,
    /// Late operations of the six classes by size; summed up in [`ProgramFigures::distribution`].
    #[serde(skip)]
    pub bins: Vec<Bin>,
}

impl RunFigures {
    /// What of an analysis goes into the tables.
    pub fn of(results: &SyncResults) -> Self {
        let path = &results.critical_path;
        let mut classes_ns = [0; 6];
        for figures in &results.classes {
            classes_ns[figures.class as usize] = figures.late.total_ns;
        }
        Self {
            duration_ns: results.duration_ns(),
            late: results.late,
            classes_ns,
            sync_share: results.sync_share.threads_total,
            path_lost_ns: path.sync_jitter_ns + path.other_ns,
            path_execution_ns: path.execution_ns,
            events: results.counts.events,
            lost: results.counts.lost_records,
            wake_ups: results.coverage.wake_ups,
            matched: results.coverage.matched,
            crowded_share: results.oversubscription.crowded_share,
            threads: results.counts.threads,
            kernel_side: results.counts.kernel_events > 0,
            bins: merged(results.classes.iter().flat_map(|figures| &figures.bins)),
        }
    }
}

/// A row of table 6 or 7.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TableRow {
    /// Jitter events a millisecond, all threads together.
    pub events_per_ms: f64,
    /// Mean of them, microseconds; none without events.
    pub mean_us: Option<f64>,
    /// Jitter, microseconds a millisecond: the product of the two.
    pub late_us_per_ms: f64,
    /// How much longer the critical path is for the jitter on it, percent. The paper's is its simulator's.
    pub slowdown_percent: Option<f64>,
}

impl TableRow {
    /// Of all runs of a program together. None of no runs, or of runs that took no time.
    pub fn of(runs: &[RunFigures]) -> Option<Self> {
        let sum = |of: fn(&RunFigures) -> u64| runs.iter().map(of).sum::<u64>();
        let milliseconds = sum(|run| run.duration_ns) as f64 / 1e6;
        let (count, total_us) = (sum(|run| run.late.count) as f64, sum(|run| run.late.total_ns) as f64 / 1e3);
        let (lost, execution) = (sum(|run| run.path_lost_ns), sum(|run| run.path_execution_ns));
        (milliseconds > 0.0).then(|| Self {
            events_per_ms: count / milliseconds,
            mean_us: (count > 0.0).then(|| total_us / count),
            late_us_per_ms: total_us / milliseconds,
            slowdown_percent: (execution > 0).then(|| 100.0 * lost as f64 / execution as f64),
        })
    }
}

/// Whether recording costs a program more than is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CostVerdict {
    /// The whole interval is within the limit.
    Within,
    /// The whole interval is above it.
    Above,
    /// Too few runs, or they scatter too much, to tell.
    Undecided,
}

/// What recording costs: runs with and without, one after the other in pairs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Pairs.
    pub pairs: u64,
    /// Median of the unrecorded times, nanoseconds.
    pub unrecorded_ns: u64,
    /// Median of the recorded times.
    pub recorded_ns: u64,
    /// By how much the pairs' ratios shift ([`shift`] of their logarithms): 0.01 is one per cent longer.
    pub overhead: f64,
    /// Its 95 % interval by the signed-rank test; none of fewer than six.
    pub interval: Option<Interval>,
    /// Judged by the limit.
    pub verdict: CostVerdict,
}

impl Cost {
    /// Largest overhead that is allowed.
    pub const LIMIT: f64 = 0.03;

    /// Of pairs of an unrecorded and a recorded time. None of no pairs, or where a time is zero.
    pub fn of(pairs: &[(u64, u64)]) -> Option<Self> {
        if pairs.is_empty() || pairs.iter().any(|(without, with)| *without == 0 || *with == 0) {
            return None;
        }
        let ratios: Vec<f64> =
            pairs.iter().map(|(without, with)| (*with as f64 / *without as f64).ln()).collect();
        let interval = shift_interval(&ratios)
            .map(|found| Interval { low: found.low.exp() - 1.0, high: found.high.exp() - 1.0 });
        let verdict = match interval {
            Some(found) if found.high <= Self::LIMIT => CostVerdict::Within,
            Some(found) if found.low > Self::LIMIT => CostVerdict::Above,
            _ => CostVerdict::Undecided,
        };
        Some(Self {
            pairs: pairs.len() as u64,
            unrecorded_ns: middle(pairs.iter().map(|pair| pair.0)),
            recorded_ns: middle(pairs.iter().map(|pair| pair.1)),
            overhead: shift(&ratios)?.exp() - 1.0,
            interval,
            verdict,
        })
    }
}

/// Median: of an even count the lower of the two in the middle.
fn middle(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

/// Pearson's correlation coefficient. None of fewer than three pairs, or where one side does not vary.
pub fn pearson(pairs: &[(f64, f64)]) -> Option<f64> {
    let count = pairs.len() as f64;
    let mean = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0 / count, sum.1 + pair.1 / count));
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (x, y) in pairs {
        xx += (x - mean.0) * (x - mean.0);
        yy += (y - mean.1) * (y - mean.1);
        xy += (x - mean.0) * (y - mean.1);
    }
    (pairs.len() >= 3 && xx > 0.0 && yy > 0.0).then(|| (xy / (xx * yy).sqrt()).clamp(-1.0, 1.0))
}

/// All that was found of one program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramFigures {
    /// Its name.
    pub program: String,
    /// Suite that it is like.
    pub suite: Suite,
    /// Its recorded runs.
    pub runs: Vec<RunFigures>,
    /// Recorded runs with the kernel's side, for tables 4 and 5; slower, so that no time of theirs is compared.
    pub watched: Vec<RunFigures>,
    /// Times of the pairs, nanoseconds: unrecorded, recorded.
    pub pairs_ns: Vec<(u64, u64)>,
    /// When each of these began, CLOCK_MONOTONIC nanoseconds; empty in runs of earlier versions.
    #[serde(default)]
    pub starts_ns: Vec<(i64, i64)>,
    /// Row of table 6 or 7.
    pub row: Option<TableRow>,
    /// Sync jitter over all jitter, 0 to 1 (table 4 or 5): mean of the runs that saw the kernel's side.
    pub sync_share: Option<f64>,
    /// Part of the jitter by class, 0 to 1, in the order of [`SyncClass::ALL`] (figure 9).
    pub class_shares: Option<[f64; 6]>,
    /// Late operations of the six classes and of all recorded runs by size (figures 7 and 8), ten bins a decade, empty ones
    /// left out.
    #[serde(default)]
    pub distribution: Vec<Bin>,
    /// What recording costs.
    pub cost: Option<Cost>,
}

impl ProgramFigures {
    /// Sums up the runs of a program.
    pub fn of(
        program: &str,
        suite: Suite,
        runs: Vec<RunFigures>,
        watched: Vec<RunFigures>,
        pairs_ns: Vec<(u64, u64)>,
    ) -> Self {
        let shares: Vec<f64> =
            watched.iter().filter(|run| run.kernel_side).filter_map(|run| run.sync_share).collect();
        Self {
            program: program.to_owned(),
            suite,
            row: TableRow::of(&runs),
            sync_share: (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64),
            class_shares: class_shares(&runs),
            distribution: merged(runs.iter().flat_map(|run| &run.bins)),
            cost: Cost::of(&pairs_ns),
            runs,
            watched,
            pairs_ns,
            starts_ns: Vec::new(),
        }
    }

    /// The paper's program that this one is like; none of a program of the user's own.
    pub fn of_paper(&self) -> Option<&'static PaperProgram> {
        (self.suite != Suite::Own).then(|| paper::program(&self.program)).flatten()
    }

    /// Waits with a known waker over all, 0 to 1, of all recorded runs.
    pub fn coverage(&self) -> Option<f64> {
        let (matched, all) =
            self.runs.iter().fold((0, 0), |sum, run| (sum.0 + run.matched, sum.1 + run.wake_ups));
        (all > 0).then(|| matched as f64 / all as f64)
    }
}

/// Bins of one grid, those of equal bounds as one, in their order.
fn merged<'a>(bins: impl Iterator<Item = &'a Bin>) -> Vec<Bin> {
    let mut all: Vec<Bin> = bins.copied().collect();
    all.sort_by(|a, b| a.from_ns.total_cmp(&b.from_ns));
    all.dedup_by(|later, first| {
        let same = later.from_ns == first.from_ns;
        first.count += if same { later.count } else { 0 };
        same
    });
    all
}

fn class_shares(runs: &[RunFigures]) -> Option<[f64; 6]> {
    let mut sums = [0_u64; 6];
    for class in SyncClass::ALL {
        sums[class as usize] = runs.iter().map(|run| run.classes_ns[class as usize]).sum();
    }
    let whole: u64 = sums.iter().sum();
    (whole > 0).then(|| sums.map(|part| part as f64 / whole as f64))
}

/// Table 8 for one suite: correlation of the slowdown with columns 1 to 3, without the programs that the paper leaves out.
pub fn correlations(programs: &[ProgramFigures], suite: Suite) -> [Option<f64>; 3] {
    let rows: Vec<TableRow> = programs
        .iter()
        .filter(|found| found.suite == suite)
        .filter(|found| !found.of_paper().is_some_and(|program| program.left_out))
        .filter_map(|found| found.row)
        .collect();
    let columns: [fn(&TableRow) -> Option<f64>; 3] =
        [|row| Some(row.events_per_ms), |row| row.mean_us, |row| Some(row.late_us_per_ms)];
    columns.map(|column| {
        let pairs: Vec<(f64, f64)> =
            rows.iter().filter_map(|row| Some((row.slowdown_percent?, column(row)?))).collect();
        pearson(&pairs)
    })
}

/// What a bench says: `summary.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchSummary {
    /// [`BenchSummary::SCHEMA`].
    pub schema: String,
    /// All runs that were asked for were made.
    pub complete: bool,
    /// Threads of each program.
    pub threads: u32,
    /// CPUs that the programs may use.
    pub cpus: u32,
    /// N: what an operation may take without being late, nanoseconds.
    pub threshold_ns: u64,
    /// Late operations count with their whole time.
    pub count_all: bool,
    /// How the programs make barriers.
    pub barrier: String,
    /// Programs, in the paper's order.
    pub programs: Vec<ProgramFigures>,
    /// Table 8, by suite in the order of [`Suite::ALL`].
    pub correlations: [[Option<f64>; 3]; 2],
    /// Mean of the sync shares by suite (tables 4 and 5), Splash-2 without the programs that the paper leaves out.
    pub mean_sync_share: [Option<f64>; 2],
    /// The same of table 8 for the user's own programs, where there are any.
    #[serde(default)]
    pub own_correlations: [Option<f64>; 3],
    /// And the mean of their sync shares.
    #[serde(default)]
    pub own_mean_sync_share: Option<f64>,
    /// Why the kernel's side was not looked at; none where it was.
    pub blind: Option<String>,
    /// What to know before believing the numbers.
    pub warnings: Vec<String>,
}

impl BenchSummary {
    /// Schema of the summary.
    pub const SCHEMA: &str = "quaver.sync-bench/1";
}

/// Mean of the sync shares of a suite, without the programs that the paper leaves out.
pub fn mean_sync_share(programs: &[ProgramFigures], suite: Suite) -> Option<f64> {
    let left_out = |found: &ProgramFigures| found.of_paper().is_some_and(|one| one.left_out);
    let of_suite = programs.iter().filter(|found| found.suite == suite && !left_out(found));
    let shares: Vec<f64> = of_suite.filter_map(|found| found.sync_share).collect();
    (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
}
