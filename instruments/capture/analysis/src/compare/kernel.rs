//! Stamps in the kernel, between its tracepoints and by our module: the figures of user space, and what arms take more than each
//! other.

use super::arms::{Arms, Overheads};
use super::density::Density;
use super::model::{CompareFacts, CompareTable, Context, PatternFacts};
use super::ratio::{Compared, Ratio, Same};
use quaver_analysis::moments::Moments;
use quaver_analysis::rounds::{Interval, Sums, Verdict};
use schemars::JsonSchema;
use serde::Serialize;

/// The arm with nothing between the checkpoints.
const CHECKPOINTS: &str = "off";

/// What is compared in one context.
pub(super) struct Contest {
    context: Context,
    /// What a difference is the cost of, and of which two arms it is.
    differences: &'static [(&'static str, &'static str, &'static str)],
    /// Kernel time over raw cycles, as the paper divides.
    ratios: &'static [(&'static str, &'static str)],
}

/// Between the kernel's tracepoints: ratios of two whole trace records, and of the kernel's bare stamp over such a record,
/// for a stock kernel has no bare stamp in raw cycles.
pub(super) const STOCK: Contest = Contest {
    context: Context::Kernel,
    differences: &[
        ("the kernel's receive stamp (CLOCK_REALTIME)", "stamping", "off"),
        ("a trace record in raw cycles", "second-cycles", "off"),
        ("conversion of a trace record's cycles to nanoseconds", "second-mono", "second-cycles"),
        ("CLOCK_MONOTONIC read by BPF (bpf_ktime_get_ns)", "bpf-ktime", "bpf"),
        ("raw cycles read by BPF (bpf_get_cpu_time_counter)", "bpf-cycles", "bpf"),
    ],
    ratios: &[("second-mono", "second-cycles"), ("stamping", "second-cycles"), ("bpf-ktime", "bpf-cycles")],
};

/// By our module: the paper's two.
pub(super) const OURS: Contest = Contest {
    context: Context::Module,
    differences: &[
        ("the kernel's clock (CLOCK_REALTIME)", "module-clock", "off"),
        ("raw cycles", "module-raw", "off"),
        ("conversion in the kernel", "module-clock", "module-raw"),
    ],
    ratios: &[("module-clock", "module-raw")],
};

/// Stamps in the kernel, of one pair of checkpoints.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct KernelSummary {
    /// Time between the checkpoints, by arm, nothing taken off.
    pub between: Vec<(String, Moments)>,
    /// Arms but the checkpoints alone, these taken off.
    pub arms: Vec<Overheads>,
    /// Half of each arm's blocks against the other half, the checkpoints first.
    pub same: Vec<Same>,
    /// Kernel time against raw cycles.
    pub ratios: Vec<Ratio>,
    /// Differences of trimmed means.
    pub differences: Vec<Difference>,
    /// Density of the overheads in bins of equal width, by arm, the checkpoints alone among them: around their mean, half
    /// of a stamp's overheads may be negative.
    pub densities: Vec<(String, Density)>,
    /// Part of the checkpoints that found interrupts off.
    pub interrupts_off_share: f64,
}

/// What one arm in the kernel takes more than another.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Difference {
    /// What it is the cost of.
    pub what: &'static str,
    /// The one.
    pub of: String,
    /// The other.
    pub to: String,
    /// Trimmed mean of the one less that of the other, nanoseconds. None where it is below zero: the one does all that
    /// the other does, so that a negative cost is an error of the measurement.
    pub ns: Option<f64>,
    /// Its 95 % interval.
    pub interval: Option<Interval>,
    /// What it says.
    pub verdict: Verdict,
    /// Why it is no result, in sentences: an arm that differs from itself.
    pub refusals: Vec<String>,
}

/// Of one pattern; none where no packet passed the checkpoints.
pub(super) fn kernel_summary(
    table: &CompareTable,
    facts: &CompareFacts,
    at: u16,
    pattern: &PatternFacts,
    contest: &Contest,
) -> Option<KernelSummary> {
    let Contest { context, differences, ratios } = *contest;
    let ours = context == Context::Module;
    let names: Vec<&str> = match context {
        Context::Module => pattern.module_arms.iter().map(|arm| arm.name.as_str()).collect(),
        _ => pattern.kernel.iter().map(String::as_str).collect(),
    };
    let arms = Arms::of(table, facts, (at, context), &names, CHECKPOINTS);
    if arms.rows.iter().all(|rows| rows.values.is_empty()) {
        return None;
    }
    let compared = Compared::of(&arms);
    let measured = |name: &str| arms.index(name).filter(|arm| !arms.rows[*arm].values.is_empty());
    let ratios =
        ratios.iter().filter_map(|(of, to)| Some(compared.ratio(measured(of)?, measured(to)?, ours)));
    let overheads: Vec<Vec<f64>> = (0..names.len()).map(|arm| arms.overheads_ns(arm)).collect();
    let between =
        names.iter().zip(&arms.rows).map(|(name, rows)| (*name, Moments::of(&mut rows.between_ns(), 0.0)));
    Some(KernelSummary {
        between: between.map(|(name, moments)| (name.to_owned(), moments)).collect(),
        arms: arms.stamping().map(|arm| arms.overheads(arm)).collect(),
        same: compared.same.clone(),
        ratios: ratios.collect(),
        differences: differences.iter().filter_map(|one| difference(&arms, &compared, one)).collect(),
        densities: arms.names.iter().cloned().zip(Density::of_all(&overheads)).collect(),
        interrupts_off_share: interrupts_off_share(table, at, context),
    })
}

fn difference(
    arms: &Arms,
    compared: &Compared<'_>,
    (what, of, to): &(&'static str, &str, &str),
) -> Option<Difference> {
    let pair = [arms.index(of)?, arms.index(to)?];
    let sides = pair.map(|arm| &arms.by_round[arm].trimmed[..]);
    let less = |sums: &[Sums]| sums[0].mean() - sums[1].mean();
    let found = arms.interval(&sides, less);
    let verdict = Verdict::of(found, 0.0);
    let ns = less(&sides.map(Sums::total));
    ns.is_finite().then(|| Difference {
        what,
        of: (*of).to_owned(),
        to: (*to).to_owned(),
        ns: Some(ns).filter(|ns| *ns >= 0.0),
        interval: found,
        verdict,
        refusals: compared.differ(pair),
    })
}

fn interrupts_off_share(table: &CompareTable, at: u16, context: Context) -> f64 {
    let kernel = context.number();
    let ours = (0..table.len()).filter(|row| table.context[*row] == kernel && table.pattern[*row] == at);
    let (all, off) =
        ours.fold((0u64, 0u64), |(all, off), row| (all + 1, off + u64::from(table.interrupts_off[row])));
    off as f64 / all.max(1) as f64
}
