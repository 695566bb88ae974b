//! Everything that a comparison says.

use super::arms::{Arms, Overheads};
use super::conversion::{Conversion, conversions};
use super::kernel::{KernelSummary, OURS, STOCK, kernel_summary};
use super::losses::LossSummary;
use super::model::{CompareFacts, CompareTable, Context, PatternFacts};
use super::paper::Paper;
use super::peers::{self, PeerTotal};
use super::ratio::{Compared, Ratio, Same};
use super::ways::{Way, ways};
use quaver_analysis::moments::Moments;
use schemars::JsonSchema;
use serde::Serialize;

/// Version of the summary's shape.
pub const SCHEMA: &str = "quaver.capture-compare.2";
/// The arm with nothing between the checkpoints.
const CHECKPOINTS: &str = "checkpoints";
/// The arm that others are compared with.
const GENERIC: &str = "inline-clock";

/// A comparison's results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PatternSummary {
    /// The pattern and how it ran.
    #[serde(flatten)]
    pub facts: PatternFacts,
    /// Arms in user space, without the checkpoints.
    pub user: Vec<ArmSummary>,
    /// What the checkpoints take in user space; it is taken off from every arm.
    pub checkpoints: Moments,
    /// Half of each arm's blocks against the other half, the checkpoints first.
    pub same: Vec<Same>,
    /// Each arm's overhead against that of the kernel's clock asked inline.
    pub ratios: Vec<Ratio>,
    /// Ways to convert raw cycles, held against each other.
    pub conversions: Vec<Conversion>,
    /// The kernel's own stamp.
    pub kernel: Option<KernelSummary>,
    /// Stamps of our module, interrupts off: the paper's comparison.
    pub module: Option<KernelSummary>,
    /// Ways to stamp, each against its own checkpoints.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ways: Vec<Way>,
    /// The paper's table for this pattern.
    pub paper: Option<Paper>,
}

/// One arm in user space.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ArmSummary {
    /// Its overheads, and how they go on.
    #[serde(flatten)]
    pub figures: Overheads,
    /// Median bound of the stamps, nanoseconds; none for the checkpoints alone.
    pub bound_p50_ns: Option<u32>,
    /// What resolving took afterwards, nanoseconds a stamp.
    pub resolve_ns: f64,
    /// What converter threads took on other CPUs, nanoseconds a stamp.
    pub converter_ns: f64,
    /// Stamps that found a ring full.
    pub ring_full: u64,
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

fn pattern_summary(
    table: &CompareTable,
    facts: &CompareFacts,
    at: u16,
    pattern: &PatternFacts,
) -> PatternSummary {
    let names: Vec<&str> = pattern.user.iter().map(|arm| arm.name.as_str()).collect();
    let arms = Arms::of(table, facts, (at, Context::User), &names, CHECKPOINTS);
    let compared = Compared::of(&arms);
    let user = arms.stamping().map(|arm| {
        let mut bounds = arms.rows[arm].bounds.clone();
        bounds.sort_unstable();
        ArmSummary {
            figures: arms.overheads(arm),
            bound_p50_ns: bounds.get(bounds.len() / 2).copied(),
            resolve_ns: pattern.user[arm].resolve_ns,
            converter_ns: pattern.user[arm].converter_ns,
            ring_full: pattern.user[arm].ring_full,
        }
    });
    let ratios = arms.index(GENERIC).map_or_else(Vec::new, |generic| {
        arms.stamping().filter(|arm| *arm != generic).map(|arm| compared.ratio(generic, arm, true)).collect()
    });
    let user: Vec<ArmSummary> = user.collect();
    let kernel = kernel_summary(table, facts, at, pattern, &STOCK);
    let module = kernel_summary(table, facts, at, pattern, &OURS);
    let stamped: Vec<(&Overheads, f64)> =
        user.iter().map(|arm| (&arm.figures, arm.resolve_ns + arm.converter_ns)).collect();
    let ways = ways(facts, pattern, &stamped, [&kernel, &module].map(Option::as_ref));
    PatternSummary {
        facts: pattern.clone(),
        ways,
        user,
        checkpoints: arms.checkpoints,
        same: compared.same.clone(),
        ratios,
        conversions: conversions(pattern, &arms, &compared),
        kernel,
        module,
        paper: Paper::of(&pattern.name),
    }
}
