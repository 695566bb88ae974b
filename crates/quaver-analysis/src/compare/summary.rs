//! Everything that a comparison says.

use super::conversion::{Conversion, conversions};
use super::density::{Density, LogDensity};
use super::losses::LossSummary;
use super::model::{CompareFacts, CompareTable, PatternFacts};
use super::moments::Moments;
use super::paper::Paper;
use super::peers::{self, PeerTotal};
use super::rounds::{Interval, Rounds, Sums, Verdict, interval};
use super::series::{Correlation, autocorrelation, correlation};
use serde::Serialize;

/// Version of the summary's shape.
const SCHEMA: &str = "quaver.capture-compare.1";
/// Lags of the autocorrelation.
const LAGS: usize = 20;
/// Overheads below this come from the instruction cache, says the paper.
const CACHED_NS: f64 = 25.0;
/// The arm that others are compared with.
const GENERIC: &str = "inline-clock";

/// A comparison's results.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CompareSummary {
    /// Shape and version of this summary.
    pub schema: &'static str,
    /// Whether the run went its full length.
    pub complete: bool,
    /// CPUs, in words.
    pub cores: String,
    /// The host whose server sent the streams; none where they were made here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// By pattern.
    pub patterns: Vec<PatternSummary>,
    /// The loss sweeps.
    pub loss: LossSummary,
    /// Whole captures, by our own program and by others.
    pub peers: Vec<PeerTotal>,
    /// What could not be done here.
    pub cannot: Vec<String>,
    /// What to know before believing the numbers.
    pub warnings: Vec<String>,
}

/// Results for one traffic pattern.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PatternSummary {
    /// The pattern and how it ran.
    #[serde(flatten)]
    pub facts: PatternFacts,
    /// Arms in user space, without the checkpoints.
    pub user: Vec<ArmSummary>,
    /// What the checkpoints take in user space; it is taken off from every arm.
    pub checkpoints: Moments,
    /// Each arm's overhead against that of the kernel's clock asked inline.
    pub ratios: Vec<Ratio>,
    /// Ways to convert raw cycles, held against each other.
    pub conversions: Vec<Conversion>,
    /// The kernel's own stamp.
    pub kernel: Option<KernelSummary>,
    /// The paper's table for this pattern.
    pub paper: Option<Paper>,
}

/// One arm.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArmSummary {
    /// Its name.
    pub name: String,
    /// Overheads, the checkpoints' mean taken off.
    pub overhead: Moments,
    /// 95 % interval of the mean.
    pub mean_interval: Option<Interval>,
    /// Stamps with an overhead below 25 ns, which the paper puts down to the instruction cache.
    pub below_25_ns: u64,
    /// Autocorrelation of the overheads at the lags 1, 2, …
    pub autocorrelation: Vec<f64>,
    /// Overhead against the time since the packet before, as stamped.
    pub with_interarrival: Option<Correlation>,
    /// Time between two packets as stamped, less the period.
    pub interarrival: Option<Moments>,
    /// Density of the overheads (figures 2 and 4).
    pub density: LogDensity,
    /// Density of the times between packets, less the period (figures 3 and 5).
    pub interarrival_density: Density,
    /// Median bound of the stamps, nanoseconds; none for the checkpoints alone.
    pub bound_p50_ns: Option<u32>,
    /// What resolving took afterwards, nanoseconds a stamp.
    pub resolve_ns: f64,
    /// Stamps that found a ring full.
    pub ring_full: u64,
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

/// The kernel's own stamp.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelSummary {
    /// Time between the checkpoints, by arm, nothing taken off.
    pub between: Vec<(String, Moments)>,
    /// Differences of trimmed means.
    pub differences: Vec<Difference>,
    /// Part of the checkpoints that found interrupts off.
    pub interrupts_off_share: f64,
}

/// What one arm in the kernel takes more than another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// What it is the cost of.
    pub what: &'static str,
    /// The one.
    pub of: String,
    /// The other.
    pub to: String,
    /// Trimmed mean of the one less that of the other, nanoseconds.
    pub ns: f64,
    /// Its 95 % interval.
    pub interval: Option<Interval>,
    /// What it says.
    pub verdict: Verdict,
}

/// Computes all results. `complete` and `warnings` are for the caller to fill in.
pub fn summarize(table: &CompareTable, facts: &CompareFacts) -> CompareSummary {
    let patterns = facts.patterns.iter().enumerate();
    CompareSummary {
        schema: SCHEMA,
        complete: true,
        cores: facts.cores.clone(),
        from: facts.from.clone(),
        patterns: patterns.map(|(at, pattern)| pattern_summary(table, facts, at as u16, pattern)).collect(),
        loss: LossSummary::of(&facts.loss),
        peers: peers::totals(&facts.peers),
        cannot: facts.cannot.clone(),
        warnings: Vec::new(),
    }
}

/// Rows of one arm.
#[derive(Default)]
struct Rows {
    /// (round, nanoseconds between the checkpoints).
    values: Vec<(usize, f64)>,
    /// The same, by block.
    runs: Vec<Vec<f64>>,
    /// (nanoseconds between the checkpoints, time since the packet before less the period).
    pairs: Vec<(f64, f64)>,
    bounds: Vec<u32>,
}

/// Rows of each arm of a context, without those in which a block settles.
fn rows(table: &CompareTable, facts: &CompareFacts, which: (u16, u16), arms: usize) -> (Vec<Rows>, usize) {
    let (pattern, context) = which;
    let settle = facts.patterns[usize::from(pattern)].settle;
    let period_ns = facts.patterns[usize::from(pattern)].period_ns;
    let ns_per_cycle = 1e9 / facts.cycles_per_second.max(1.0);
    let mut all: Vec<Rows> = (0..arms).map(|_| Rows::default()).collect();
    let mut rounds = 0;
    let mut before: Option<usize> = None;
    for row in 0..table.len() {
        let wanted = table.pattern[row] == pattern && table.context[row] == context;
        let Some(arm) = all.get_mut(usize::from(table.arm[row])).filter(|_| wanted) else { continue };
        let round = table.block[row] as usize / arms.max(1);
        rounds = rounds.max(round + 1);
        let last = before.replace(row).filter(|last| table.block[*last] == table.block[row]);
        if table.position[row] < settle {
            continue;
        }
        let ns = table.between_cycles[row] as f64 * ns_per_cycle;
        arm.values.push((round, ns));
        let new_run = table.position[row] == settle || last.is_none() || arm.runs.is_empty();
        if new_run {
            arm.runs.push(Vec::new());
        }
        if let Some(run) = arm.runs.last_mut() {
            run.push(ns);
        }
        if table.stamp_ns[row] != 0 {
            arm.bounds.push(table.bound_ns[row]);
        }
        let neighbour = |last: &usize| {
            table.seq[*last].checked_add(1) == Some(table.seq[row]) && table.stamp_ns[*last] != 0
        };
        if let Some(last) = last.filter(neighbour) {
            arm.pairs.push((ns, (table.stamp_ns[row] - table.stamp_ns[last]) as f64 - period_ns));
        }
    }
    (all, rounds)
}

fn pattern_summary(
    table: &CompareTable,
    facts: &CompareFacts,
    at: u16,
    pattern: &PatternFacts,
) -> PatternSummary {
    let (rows, rounds) = rows(table, facts, (at, 0), pattern.user.len());
    let values = |rows: &Rows| rows.values.iter().map(|(_, ns)| *ns).collect::<Vec<f64>>();
    let checkpoint = pattern.user.iter().position(|arm| arm.name == "checkpoints");
    let checkpoints =
        checkpoint.map_or_else(Moments::default, |arm| Moments::of(&mut values(&rows[arm]), 0.0));
    // One interruption among the checkpoints would be taken off from every arm.
    let offset_ns = checkpoints.trimmed_mean_ns;
    let interarrivals: Vec<Vec<f64>> =
        rows.iter().map(|rows| rows.pairs.iter().map(|(_, ns)| *ns).collect()).collect();
    let densities = Density::of_all(&interarrivals);
    let by_round: Vec<Rounds> = rows.iter().map(|rows| Rounds::of(&rows.values, rounds)).collect();
    let zero = vec![Sums::default(); rounds];
    let own = checkpoint.map_or(&zero, |arm| &by_round[arm].trimmed);
    let arms = pattern.user.iter().enumerate().filter(|(arm, _)| Some(*arm) != checkpoint);
    let user: Vec<ArmSummary> = arms
        .clone()
        .map(|(arm, named)| {
            let mut overheads: Vec<f64> = values(&rows[arm]).iter().map(|ns| ns - offset_ns).collect();
            let mut bounds = rows[arm].bounds.clone();
            bounds.sort_unstable();
            ArmSummary {
                name: named.name.clone(),
                density: LogDensity::of(&overheads),
                below_25_ns: overheads.iter().filter(|ns| **ns < CACHED_NS).count() as u64,
                overhead: Moments::of(&mut overheads, 0.0),
                mean_interval: interval(&[&by_round[arm].all, own], |sums| {
                    sums[0].mean() - mean_or_0(&sums[1])
                }),
                autocorrelation: autocorrelation(&rows[arm].runs, LAGS),
                with_interarrival: correlation(&rows[arm].pairs),
                interarrival: (!interarrivals[arm].is_empty())
                    .then(|| Moments::of(&mut interarrivals[arm].clone(), 0.0)),
                interarrival_density: densities[arm].clone(),
                bound_p50_ns: bounds.get(bounds.len() / 2).copied(),
                resolve_ns: named.resolve_ns,
                ring_full: named.ring_full,
            }
        })
        .collect();
    let generic = pattern.user.iter().position(|arm| arm.name == GENERIC);
    let ratios = generic.map_or_else(Vec::new, |generic| {
        arms.filter(|(arm, _)| *arm != generic)
            .map(|(arm, _)| ratio(pattern, (generic, arm), &by_round, own))
            .collect()
    });
    PatternSummary {
        facts: pattern.clone(),
        user,
        checkpoints,
        ratios,
        conversions: conversions(pattern, &by_round),
        kernel: kernel_summary(table, facts, at, pattern),
        paper: Paper::of(&pattern.name),
    }
}

fn mean_or_0(sums: &Sums) -> f64 {
    Some(sums.mean()).filter(|mean| mean.is_finite()).unwrap_or(0.0)
}

fn ratio(pattern: &PatternFacts, arms: (usize, usize), by_round: &[Rounds], own: &[Sums]) -> Ratio {
    let (of, to) = (&by_round[arms.0], &by_round[arms.1]);
    let mean = |sums: &[Sums]| {
        let own = mean_or_0(&sums[2]);
        (sums[0].mean() - own) / (sums[1].mean() - own)
    };
    let variance = |sums: &[Sums]| sums[0].variance() / sums[1].variance();
    let whole = |parts: [&[Sums]; 3]| parts.map(Sums::total);
    let mean_interval = interval(&[&of.all, &to.all, own], mean);
    let variance_interval = interval(&[&of.trimmed, &to.trimmed], variance);
    Ratio {
        of: pattern.user[arms.0].name.clone(),
        to: pattern.user[arms.1].name.clone(),
        mean: mean(&whole([&of.all, &to.all, own])),
        mean_interval,
        trimmed_variance: variance(&whole([&of.trimmed, &to.trimmed, own])),
        trimmed_variance_interval: variance_interval,
        verdict: Verdict::of(mean_interval, 1.0),
        variance_verdict: Verdict::of(variance_interval, 1.0),
    }
}

/// What is compared in the kernel, and what the difference is the cost of.
const KERNEL_DIFFERENCES: [(&str, &str, &str); 3] = [
    ("the kernel's receive stamp (CLOCK_REALTIME)", "stamping", "off"),
    ("a trace record in raw cycles", "second-cycles", "off"),
    ("conversion of a trace record's cycles to nanoseconds", "second-mono", "second-cycles"),
];

fn kernel_summary(
    table: &CompareTable,
    facts: &CompareFacts,
    at: u16,
    pattern: &PatternFacts,
) -> Option<KernelSummary> {
    let (rows, rounds) = rows(table, facts, (at, 1), pattern.kernel.len());
    if rows.iter().all(|rows| rows.values.is_empty()) {
        return None;
    }
    let by_round: Vec<Rounds> = rows.iter().map(|rows| Rounds::of(&rows.values, rounds)).collect();
    let index = |name: &str| pattern.kernel.iter().position(|arm| arm == name);
    let differences = KERNEL_DIFFERENCES.iter().filter_map(|(what, of, to)| {
        let (first, second) = (&by_round[index(of)?].trimmed, &by_round[index(to)?].trimmed);
        let difference = |sums: &[Sums]| sums[0].mean() - sums[1].mean();
        let found = interval(&[first, second], difference);
        let ns = difference(&[Sums::total(first), Sums::total(second)]);
        ns.is_finite().then(|| Difference {
            what,
            of: (*of).to_owned(),
            to: (*to).to_owned(),
            ns,
            interval: found,
            verdict: Verdict::of(found, 0.0),
        })
    });
    let in_kernel = (0..table.len()).filter(|row| table.context[*row] == 1 && table.pattern[*row] == at);
    let (all, off) =
        in_kernel.fold((0u64, 0u64), |(all, off), row| (all + 1, off + u64::from(table.interrupts_off[row])));
    let between = pattern.kernel.iter().zip(&rows).map(|(name, rows)| {
        (name.clone(), Moments::of(&mut rows.values.iter().map(|(_, ns)| *ns).collect::<Vec<_>>(), 0.0))
    });
    Some(KernelSummary {
        between: between.collect(),
        differences: differences.collect(),
        interrupts_off_share: off as f64 / all.max(1) as f64,
    })
}
