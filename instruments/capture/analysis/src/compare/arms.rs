//! What is said of every arm alike, be it in user space or in the kernel: overheads, how they go on from packet to
//! packet, and the ratio of two.

use super::density::{Density, LogDensity};
use super::model::{CompareFacts, CompareTable, Context};
use super::series::{Correlation, autocorrelation, correlation};
use quaver_analysis::moments::Moments;
use quaver_analysis::rounds::{Interval, Rounds, Sums, Verdict, interval};
use serde::Serialize;

/// Lags of the autocorrelation.
const LAGS: usize = 20;
/// Overheads below this come from the instruction cache, says the paper.
const CACHED_NS: f64 = 25.0;

/// Overheads of one arm.
#[derive(Clone, Debug, PartialEq, Serialize)]
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

/// How many times the overhead of another is that of one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The one above the line.
    pub of: String,
    /// The one below.
    pub to: String,
    /// Means of all overheads.
    pub mean: f64,
    /// Its 95 % interval.
    pub mean_interval: Option<Interval>,
    /// Trimmed variances.
    pub trimmed_variance: f64,
    /// Its 95 % interval.
    pub trimmed_variance_interval: Option<Interval>,
    /// What the interval of the means says.
    pub verdict: Verdict,
    /// What the interval of the variances says.
    pub variance_verdict: Verdict,
}

/// Rows of one arm.
#[derive(Default)]
pub(super) struct Rows {
    /// (round, nanoseconds between the checkpoints).
    pub(super) values: Vec<(usize, f64)>,
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

    fn keep(&mut self, block: u32, round: usize, ns: f64) {
        self.values.push((round, ns));
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
    /// The checkpoints alone.
    pub(super) checkpoints: Moments,
    names: Vec<String>,
    checkpoint: Option<usize>,
    /// Rounds of the checkpoints, as many as of the arms; all empty where there are none.
    own: Vec<Sums>,
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
        let (rows, rounds) = rows(table, facts, which, names.len());
        let checkpoint = names.iter().position(|name| *name == checkpoint);
        let by_round: Vec<Rounds> = rows.iter().map(|rows| Rounds::of(&rows.values, rounds)).collect();
        let interarrivals: Vec<Vec<f64>> =
            rows.iter().map(|rows| rows.pairs.iter().map(|(_, ns)| *ns).collect()).collect();
        Self {
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
        Overheads {
            name: self.names[arm].clone(),
            density: LogDensity::of(&overheads),
            below_25_ns: overheads.iter().filter(|ns| **ns < CACHED_NS).count() as u64,
            overhead: Moments::of(&mut overheads, 0.0),
            mean_interval: interval(&[&rounds.all, &self.own], less_own),
            trimmed_mean_interval: interval(&sides, less_own),
            variance_interval: interval(&[&rounds.all], variance),
            trimmed_variance_interval: interval(&[&rounds.trimmed], variance),
            added_variance_ns2: Some(added(&sides.map(Sums::total))).filter(|ns2| ns2.is_finite()),
            added_variance_interval: interval(&sides, added),
            autocorrelation: autocorrelation(&rows.runs, LAGS),
            with_interarrival: correlation(&rows.pairs),
            interarrival: (!self.interarrivals[arm].is_empty())
                .then(|| Moments::of(&mut self.interarrivals[arm].clone(), 0.0)),
            interarrival_density: self.densities[arm].clone(),
        }
    }

    /// How many times the overhead of the second arm that of the first is.
    pub(super) fn ratio(&self, of: usize, to: usize) -> Ratio {
        let (first, second, own) = (&self.by_round[of], &self.by_round[to], &self.own[..]);
        let mean = |sums: &[Sums]| {
            let own = mean_or_0(&sums[2]);
            (sums[0].mean() - own) / (sums[1].mean() - own)
        };
        let variance = |sums: &[Sums]| sums[0].variance() / sums[1].variance();
        let whole = |parts: [&[Sums]; 3]| parts.map(Sums::total);
        let mean_interval = interval(&[&first.all, &second.all, own], mean);
        let variance_interval = interval(&[&first.trimmed, &second.trimmed], variance);
        Ratio {
            of: self.names[of].clone(),
            to: self.names[to].clone(),
            mean: mean(&whole([&first.all, &second.all, own])),
            mean_interval,
            trimmed_variance: variance(&whole([&first.trimmed, &second.trimmed, own])),
            trimmed_variance_interval: variance_interval,
            verdict: Verdict::of(mean_interval, 1.0),
            variance_verdict: Verdict::of(variance_interval, 1.0),
        }
    }
}

/// Rows of each arm of a context, without those in which a block settles; and how many rounds there are.
fn rows(
    table: &CompareTable,
    facts: &CompareFacts,
    which: (u16, Context),
    arms: usize,
) -> (Vec<Rows>, usize) {
    let pattern = &facts.patterns[usize::from(which.0)];
    let ns_per_cycle = 1e9 / facts.cycles_per_second.max(1.0);
    let mut all: Vec<Rows> = (0..arms).map(|_| Rows::default()).collect();
    let mut rounds = 0;
    let mut before: Option<usize> = None;
    for row in in_order(table, which) {
        let Some(arm) = all.get_mut(usize::from(table.arm[row])) else { continue };
        let round = table.block[row] as usize / arms.max(1);
        rounds = rounds.max(round + 1);
        let last = before.replace(row).filter(|last| table.block[*last] == table.block[row]);
        if table.position[row] < pattern.settle {
            continue;
        }
        let ns = table.between_cycles[row] as f64 * ns_per_cycle;
        arm.keep(table.block[row], round, ns);
        if table.stamp_ns[row] != 0 {
            arm.bounds.push(table.bound_ns[row]);
        }
        let since_ns = last.and_then(|last| match which.1 {
            Context::User => stamped_apart_ns(table, last, row),
            Context::Kernel => {
                Some(table.before_cycles[row].abs_diff(table.before_cycles[last]) as f64 * ns_per_cycle)
            }
        });
        if let Some(since_ns) = since_ns {
            arm.pairs.push((ns, since_ns - pattern.period_ns));
        }
    }
    (all, rounds)
}

/// Rows of a pattern in a context in the order in which its packets came. The kernel's rings are read one CPU after the
/// other: there the first checkpoints tell the order within a block.
fn in_order(table: &CompareTable, (pattern, context): (u16, Context)) -> Vec<usize> {
    let wanted = |row: &usize| table.pattern[*row] == pattern && table.context[*row] == context.number();
    let mut order: Vec<usize> = (0..table.len()).filter(wanted).collect();
    if context == Context::Kernel {
        order.sort_by_key(|row| (table.block[*row], table.before_cycles[*row]));
    }
    order
}

/// Time between the stamps of two packets, if these are neighbours in the stream and the first has a stamp.
fn stamped_apart_ns(table: &CompareTable, last: usize, row: usize) -> Option<f64> {
    let neighbours = table.seq[last].checked_add(1) == Some(table.seq[row]) && table.stamp_ns[last] != 0;
    neighbours.then(|| (table.stamp_ns[row] - table.stamp_ns[last]) as f64)
}

fn mean_or_0(sums: &Sums) -> f64 {
    Some(sums.mean()).filter(|mean| mean.is_finite()).unwrap_or(0.0)
}
