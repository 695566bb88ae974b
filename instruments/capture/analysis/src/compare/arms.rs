//! What is said of every arm alike, be it in user space or in the kernel: overheads, and how they go on from packet to
//! packet.

use super::density::{Density, LogDensity};
use super::model::{CompareFacts, CompareTable, Context, PatternFacts};
use super::series::{Correlation, autocorrelation, correlation};
use quaver_analysis::moments::Moments;
use quaver_analysis::rounds::{Interval, Rounds, Sums, interval_over_starts};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Range;

/// Lags of the autocorrelation.
const LAGS: usize = 20;
/// Overheads below this come from the instruction cache, says the paper.
const CACHED_NS: f64 = 25.0;

/// Overheads of one arm.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Overheads {
    /// The arm's name.
    pub name: String,
    /// Overheads, the checkpoints' mean taken off.
    pub overhead: Moments,
    /// 95 % interval of the mean.
    pub mean_interval: Option<Interval>,
    /// That of the trimmed mean.
    pub trimmed_mean_interval: Option<Interval>,
    /// That of the variance.
    pub variance_interval: Option<Interval>,
    /// That of the trimmed variance.
    pub trimmed_variance_interval: Option<Interval>,
    /// Trimmed variance less that of the checkpoints, ns²: what the stamp adds, as far as the two do not depend on each
    /// other. Negative where the checkpoints alone varied more. None without checkpoints.
    pub added_variance_ns2: Option<f64>,
    /// Its 95 % interval.
    pub added_variance_interval: Option<Interval>,
    /// Why the overhead is no result: negative, or not distinguishable from nothing.
    pub refused: Option<&'static str>,
    /// Stamps with an overhead below 25 ns, which the paper puts down to the instruction cache.
    pub below_25_ns: u64,
    /// Autocorrelation of the overheads at the lags 1, 2, …
    pub autocorrelation: Vec<f64>,
    /// Overhead against the time since the packet before: as stamped in user space, by the first checkpoint in the
    /// kernel.
    pub with_interarrival: Option<Correlation>,
    /// That time, less the period.
    pub interarrival: Option<Moments>,
    /// Density of the overheads (figures 2 and 4).
    pub density: LogDensity,
    /// Density of the times between packets, less the period (figures 3 and 5).
    pub interarrival_density: Density,
}

/// Rows of one arm.
#[derive(Default)]
pub(super) struct Rows {
    /// (round, nanoseconds between the checkpoints).
    pub(super) values: Vec<(usize, f64)>,
    /// The same, of the one and of the other half of its blocks.
    pub(super) halves: [Vec<(usize, f64)>; 2],
    /// The same, by block.
    runs: Vec<Vec<f64>>,
    /// Block of the last of these.
    run_block: Option<u32>,
    /// (nanoseconds between the checkpoints, time since the packet before less the period).
    pairs: Vec<(f64, f64)>,
    /// Bounds of the stamps.
    pub(super) bounds: Vec<u32>,
}

impl Rows {
    /// Nanoseconds between the checkpoints.
    pub(super) fn between_ns(&self) -> Vec<f64> {
        self.values.iter().map(|(_, ns)| *ns).collect()
    }

    fn keep(&mut self, block: u32, (round, half): (usize, usize), ns: f64) {
        self.values.push((round, ns));
        self.halves[half].push((round, ns));
        if self.run_block.replace(block) != Some(block) {
            self.runs.push(Vec::new());
        }
        if let Some(run) = self.runs.last_mut() {
            run.push(ns);
        }
    }
}

/// All arms of one pattern in one context.
pub(super) struct Arms {
    /// By arm.
    pub(super) rows: Vec<Rows>,
    /// Their rounds.
    pub(super) by_round: Vec<Rounds>,
    /// What each arm costs after the hot path, by round; nothing between tracepoints.
    pub(super) later: Vec<Vec<Sums>>,
    /// The checkpoints alone.
    pub(super) checkpoints: Moments,
    pub(super) names: Vec<String>,
    pub(super) checkpoint: Option<usize>,
    /// Rounds of the checkpoints, as many as of the arms; all empty where there are none.
    pub(super) own: Vec<Sums>,
    /// Rounds of each start of the program.
    pub(super) starts: Vec<Range<usize>>,
    interarrivals: Vec<Vec<f64>>,
    densities: Vec<Density>,
}

impl Arms {
    /// Of these arms, of which that named `checkpoint` has nothing between the checkpoints.
    pub(super) fn of(
        table: &CompareTable,
        facts: &CompareFacts,
        which: (u16, Context),
        names: &[&str],
        checkpoint: &str,
    ) -> Self {
        let (rows, starts) = rows(table, facts, which, names.len());
        let rounds = starts.last().map_or(0, |last| last.end);
        let checkpoint = names.iter().position(|name| *name == checkpoint);
        let by_round: Vec<Rounds> = rows.iter().map(|rows| Rounds::of(&rows.values, rounds)).collect();
        let interarrivals: Vec<Vec<f64>> =
            rows.iter().map(|rows| rows.pairs.iter().map(|(_, ns)| *ns).collect()).collect();
        let pattern = &facts.patterns[usize::from(which.0)];
        let converting = match which.1 {
            Context::User => &pattern.user[..],
            Context::Kernel => &[],
            Context::Module => &pattern.module_arms,
        };
        let later = (0..names.len()).map(|arm| {
            let of_start =
                |start: usize| converting.get(arm).and_then(|arm| arm.later_ns.get(start)).copied();
            let values: Vec<(usize, f64)> = (starts.iter().enumerate())
                .flat_map(|(at, rounds)| {
                    rounds.clone().map(move |round| (round, of_start(at).unwrap_or(0.0)))
                })
                .collect();
            Rounds::of(&values, rounds).all
        });
        Self {
            later: later.collect(),
            starts,
            checkpoints: checkpoint
                .map_or_else(Moments::default, |arm| Moments::of(&mut rows[arm].between_ns(), 0.0)),
            own: checkpoint
                .map_or_else(|| vec![Sums::default(); rounds], |arm| by_round[arm].trimmed.clone()),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            densities: Density::of_all(&interarrivals),
            interarrivals,
            checkpoint,
            by_round,
            rows,
        }
    }

    /// The interval of a statistic of arms, over starts.
    pub(super) fn interval(&self, arms: &[&[Sums]], statistic: impl Fn(&[Sums]) -> f64) -> Option<Interval> {
        interval_over_starts(arms, &self.starts, statistic)
    }

    /// Index of the arm of that name.
    pub(super) fn index(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|one| one == name)
    }

    /// Arms but the checkpoints.
    pub(super) fn stamping(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.names.len()).filter(|arm| Some(*arm) != self.checkpoint)
    }

    /// Nanoseconds between the checkpoints less what these take. One interruption among the checkpoints would be taken
    /// off from every arm, so that it is their trimmed mean.
    pub(super) fn overheads_ns(&self, arm: usize) -> Vec<f64> {
        let offset_ns = self.checkpoints.trimmed_mean_ns;
        self.rows[arm].values.iter().map(|(_, ns)| ns - offset_ns).collect()
    }

    /// What is said of one arm.
    pub(super) fn overheads(&self, arm: usize) -> Overheads {
        let (rows, rounds) = (&self.rows[arm], &self.by_round[arm]);
        let mut overheads = self.overheads_ns(arm);
        let less_own = |sums: &[Sums]| sums[0].mean() - mean_or_0(&sums[1]);
        let variance = |sums: &[Sums]| sums[0].variance();
        let added = |sums: &[Sums]| sums[0].variance() - sums[1].variance();
        let sides: [&[Sums]; 2] = [&rounds.trimmed, &self.own];
        let trimmed_mean_interval = self.interval(&sides, less_own);
        Overheads {
            refused: refused(less_own(&sides.map(Sums::total)), trimmed_mean_interval),
            name: self.names[arm].clone(),
            density: LogDensity::of(&overheads),
            below_25_ns: overheads.iter().filter(|ns| **ns < CACHED_NS).count() as u64,
            overhead: Moments::of(&mut overheads, 0.0),
            mean_interval: self.interval(&[&rounds.all, &self.own], less_own),
            trimmed_mean_interval,
            variance_interval: self.interval(&[&rounds.all], variance),
            trimmed_variance_interval: self.interval(&[&rounds.trimmed], variance),
            added_variance_ns2: Some(added(&sides.map(Sums::total))).filter(|ns2| ns2.is_finite()),
            added_variance_interval: self.interval(&sides, added),
            autocorrelation: autocorrelation(&rows.runs, LAGS),
            with_interarrival: correlation(&rows.pairs),
            interarrival: (!self.interarrivals[arm].is_empty())
                .then(|| Moments::of(&mut self.interarrivals[arm].clone(), 0.0)),
            interarrival_density: self.densities[arm].clone(),
        }
    }
}

/// Why a stamp's cost, which cannot be negative, is no result.
fn refused(ns: f64, interval: Option<Interval>) -> Option<&'static str> {
    match interval {
        Some(found) if found.high < 0.0 => Some("less than the checkpoints alone: impossible"),
        Some(found) if found.low <= 0.0 => Some("not distinguishable from the checkpoints alone"),
        None if ns < 0.0 => Some("less than the checkpoints alone: impossible"),
        _ => None,
    }
}

/// Rows of each arm of a context, without those in which a block settles; and the rounds of each start.
fn rows(
    table: &CompareTable,
    facts: &CompareFacts,
    which: (u16, Context),
    arms: usize,
) -> (Vec<Rows>, Vec<Range<usize>>) {
    let pattern = &facts.patterns[usize::from(which.0)];
    let ns_per_cycle = 1e9 / facts.cycles_per_second.max(1.0);
    let mut all: Vec<Rows> = (0..arms).map(|_| Rows::default()).collect();
    let places = Places::of(table, which, &pattern_blocks(pattern, which.1), 2 * arms);
    let mut before: Option<usize> = None;
    for row in in_order(table, which) {
        let Some(arm) = all.get_mut(usize::from(table.arm[row])) else { continue };
        let last = before.replace(row).filter(|last| table.block[*last] == table.block[row]);
        if table.position[row] < pattern.settle {
            continue;
        }
        let ns = table.between_cycles[row] as f64 * ns_per_cycle;
        arm.keep(table.block[row], places.of_block[&table.block[row]], ns);
        if table.stamp_ns[row] != 0 {
            arm.bounds.push(table.bound_ns[row]);
        }
        let since_ns = last.and_then(|last| match which.1 {
            Context::User => stamped_apart_ns(table, last, row),
            Context::Kernel | Context::Module => {
                Some(table.before_cycles[row].abs_diff(table.before_cycles[last]) as f64 * ns_per_cycle)
            }
        });
        if let Some(since_ns) = since_ns {
            arm.pairs.push((ns, since_ns - pattern.period_ns));
        }
    }
    (all, places.starts)
}

fn pattern_blocks(pattern: &PatternFacts, context: Context) -> Vec<u32> {
    match context {
        Context::User => pattern.user_blocks.clone(),
        Context::Kernel => pattern.kernel_blocks.clone(),
        Context::Module => pattern.module_blocks.clone(),
    }
}

/// Round and half of each block.
struct Places {
    of_block: BTreeMap<u32, (usize, usize)>,
    starts: Vec<Range<usize>>,
}

impl Places {
    /// Of blocks that each start has so many of, and each round `per_round`. The first block of an arm in a round is in the
    /// one half and the second in the other; in every second round the other way round, lest halves differ by their age.
    fn of(
        table: &CompareTable,
        (pattern, context): (u16, Context),
        starts: &[u32],
        per_round: usize,
    ) -> Self {
        let rows = (0..table.len())
            .filter(|row| table.pattern[*row] == pattern && table.context[*row] == context.number());
        let arm_of: BTreeMap<u32, u16> = rows.map(|row| (table.block[row], table.arm[row])).collect();
        let mut found = Self { of_block: BTreeMap::new(), starts: Vec::new() };
        let per_round = per_round.max(1) as u32;
        // A recording without starts is one start.
        let last = arm_of.last_key_value().map_or(0, |(block, _)| block + 1);
        let known: u32 = starts.iter().sum();
        let rest = last.saturating_sub(known);
        let (mut from, mut round) = (0u32, 0usize);
        for blocks in starts.iter().copied().chain((rest > 0).then_some(rest)) {
            let began = round;
            for first in (from..from + blocks).step_by(per_round as usize) {
                let mut seen = Vec::new();
                for (block, arm) in arm_of.range(first..(first + per_round).min(from + blocks)) {
                    let half = usize::from(seen.contains(arm)) ^ (round % 2);
                    seen.push(*arm);
                    found.of_block.insert(*block, (round, half));
                }
                // A round that was cut short is none.
                if !seen.is_empty() {
                    round += 1;
                }
            }
            if round > began {
                found.starts.push(began..round);
            }
            from += blocks;
        }
        found
    }
}

/// Rows of a pattern in a context in the order in which its packets came. The kernel's rings are read one CPU after the
/// other: there the first checkpoints tell the order within a block.
fn in_order(table: &CompareTable, (pattern, context): (u16, Context)) -> Vec<usize> {
    let wanted = |row: &usize| table.pattern[*row] == pattern && table.context[*row] == context.number();
    let mut order: Vec<usize> = (0..table.len()).filter(wanted).collect();
    if context != Context::User {
        order.sort_by_key(|row| (table.block[*row], table.before_cycles[*row]));
    }
    order
}

/// Time between the stamps of two packets, if these are neighbours in the stream and the first has a stamp.
fn stamped_apart_ns(table: &CompareTable, last: usize, row: usize) -> Option<f64> {
    let neighbours = table.seq[last].checked_add(1) == Some(table.seq[row]) && table.stamp_ns[last] != 0;
    neighbours.then(|| (table.stamp_ns[row] - table.stamp_ns[last]) as f64)
}

pub(super) fn mean_or_0(sums: &Sums) -> f64 {
    Some(sums.mean()).filter(|mean| mean.is_finite()).unwrap_or(0.0)
}
