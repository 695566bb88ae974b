//! Effects of arms against the baseline of the same block.

use super::figures::{Metric, StudyLayer};
use super::model::{Cell, SourceClass};
use quaver_analysis::intervals::{effect_size, interval, mean, sign_flip_p};
use quaver_analysis::rounds::Interval;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What a corrected p says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StudyVerdict {
    /// The arm is worse than the baseline.
    Worse,
    /// It is better.
    Better,
    /// It could not be told from the baseline.
    NoDifference,
    /// No number of this few blocks could tell.
    TooFewBlocks,
    /// It differs, but by less than the sender itself is off: not concluded.
    Sender,
}

impl StudyVerdict {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Better => "better",
            Self::NoDifference => "no difference found",
            Self::TooFewBlocks => "too few blocks to tell",
            Self::Sender => "not concluded: the sender itself is off by more",
        }
    }
}

/// Difference of one figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Contrast {
    /// Where.
    pub layer: StudyLayer,
    /// Which figure.
    pub metric: Metric,
    /// Blocks that have both arms.
    pub blocks: u32,
    /// Mean of the baseline over these.
    pub baseline: f64,
    /// Mean of the arm over these.
    pub arm: f64,
    /// Mean of the differences; nanoseconds or a share.
    pub difference: f64,
    /// Its 95 % interval, for this one figure alone.
    pub interval: Option<Interval>,
    /// In standard deviations of the differences (Hedges' g of pairs).
    pub effect_size: Option<f64>,
    /// Two-sided p of the sign-flip test, not corrected.
    pub p: f64,
}

/// What one factor, or the control, does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    /// Arm.
    pub arm: String,
    /// What it changes, in words.
    pub words: String,
    /// Class; none of the control.
    pub class: Option<SourceClass>,
    /// The figure that the ranking goes by, at the application.
    pub ranked: Contrast,
    /// Its p, corrected for the number of factors (Holm); of the control its own.
    pub p_corrected: f64,
    /// What that says.
    pub verdict: StudyVerdict,
    /// How far the ranked figure of the sender's own ΔT is from that of a constant stream, in the baseline: the median over
    /// its cells. (In an arm the factor itself may hold the sender up, where the stack runs on its CPU.) None without a
    /// sender's figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_off: Option<f64>,
    /// All figures at all layers.
    pub contrasts: Vec<Contrast>,
}

/// How far two factors at once differ from the sum of both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interaction {
    /// The two.
    pub of: [String; 2],
    /// Blocks that have all four arms.
    pub blocks: u32,
    /// Effect of both at once on the ranked figure.
    pub both: f64,
    /// Sum of their own effects.
    pub sum: f64,
    /// Mean of both − first − second + baseline.
    pub difference: f64,
    /// Its 95 % interval.
    pub interval: Option<Interval>,
    /// Two-sided p, corrected for the number of pairs (Holm).
    pub p_corrected: f64,
}

/// A figure of one arm in one block, if the cell counts.
pub(super) fn value(cells: &[Cell], arm: &str, block: u32, layer: StudyLayer, metric: Metric) -> Option<f64> {
    let cell = cells.iter().find(|c| c.block == block && c.arm == arm && c.discarded.is_none())?;
    let found = cell.layers.iter().find(|one| one.layer == layer)?;
    Some(metric.of(&found.figures))
}

/// The contrast of an arm; none without a block that has both.
pub(super) fn contrast(
    cells: &[Cell],
    blocks: u32,
    baseline: &str,
    arm: &str,
    layer: StudyLayer,
    metric: Metric,
) -> Option<Contrast> {
    let pair = |block| {
        let of = |arm| value(cells, arm, block, layer, metric);
        of(baseline).zip(of(arm))
    };
    let pairs: Vec<(f64, f64)> = (0..blocks).filter_map(pair).collect();
    if pairs.is_empty() {
        return None;
    }
    let differences: Vec<f64> = pairs.iter().map(|(baseline, arm)| arm - baseline).collect();
    let (befores, afters): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
    Some(Contrast {
        layer,
        metric,
        blocks: differences.len() as u32,
        baseline: mean(&befores),
        arm: mean(&afters),
        difference: mean(&differences),
        interval: interval(&differences),
        effect_size: effect_size(&differences),
        p: sign_flip_p(&differences),
    })
}

/// The interaction of two factors, its p not yet corrected; none without a block that has all four.
pub(super) fn interaction(
    cells: &[Cell],
    blocks: Range<u32>,
    baseline: &str,
    pair: &str,
    of: &[String; 2],
    metric: Metric,
) -> Option<Interaction> {
    let four = |block| {
        let of_arm = |arm| value(cells, arm, block, StudyLayer::Application, metric);
        Some([of_arm(baseline)?, of_arm(&of[0])?, of_arm(&of[1])?, of_arm(pair)?])
    };
    let found: Vec<[f64; 4]> = blocks.filter_map(four).collect();
    if found.is_empty() {
        return None;
    }
    let over = |value: &dyn Fn(&[f64; 4]) -> f64| found.iter().map(value).collect::<Vec<f64>>();
    let differences = over(&|[none, first, second, both]| both - first - second + none);
    Some(Interaction {
        of: of.clone(),
        blocks: found.len() as u32,
        both: mean(&over(&|[none, _, _, both]| both - none)),
        sum: mean(&over(&|[none, first, second, _]| first + second - 2.0 * none)),
        difference: mean(&differences),
        interval: interval(&differences),
        p_corrected: sign_flip_p(&differences),
    })
}
