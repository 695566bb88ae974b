//! From cells to the ranking.

use super::carry_over::{self, CarryOver, Placed};
use super::design::{LEVEL, blocks_needed};
use super::effects::{Contrast, Effect, Interaction, StudyVerdict, contrast, interaction};
use super::figures::{Figures, LayerFigures, Metric, StudyLayer};
use super::model::{Arm, Cell, Role, SourceClass, StudyFacts};
use super::paper::PaperReport;
use quaver_analysis::intervals::holm;
use quaver_analysis::summary::ProbeCost;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Version of the shape, in the `schema` field.
pub const SCHEMA: &str = "quaver.study/1";

/// A cell that does not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Discarded {
    /// Block, from 0.
    pub block: u32,
    /// Arm.
    pub arm: String,
    /// Why.
    pub reason: String,
}

/// What one arm measured over all blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArmSummary {
    /// The arm.
    #[serde(flatten)]
    pub arm: Arm,
    /// Cells that count.
    pub cells: u32,
    /// Layers: medians over cells, histograms added up, the time series of the first cell.
    pub layers: Vec<LayerFigures>,
    /// The sender's own ΔT, medians over cells.
    pub sender: Option<Figures>,
    /// Times that the sink's CPU was taken from it, over all cells.
    pub sink_involuntary: u64,
    /// Times that the source's CPU was taken from it.
    pub source_involuntary: u64,
    /// Packets sent, over all cells.
    pub sent: u64,
    /// Packets received.
    pub received: u64,
}

/// One class with its factors, the costliest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassRanking {
    /// Which.
    pub class: SourceClass,
    /// Factors by their ids, with their place among all.
    pub factors: Vec<(u32, String)>,
}

/// What a study says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StudySummary {
    /// Name and version of this shape.
    pub schema: String,
    /// Whether every arm was measured in every block.
    pub complete: bool,
    /// What was planned.
    pub facts: StudyFacts,
    /// Cells measured, with those that were measured again since the first did not count.
    pub cells: u32,
    /// Cells planned.
    pub cells_planned: u32,
    /// Cells that do not count.
    pub discarded: Vec<Discarded>,
    /// Blocks with which a factor can be told from chance at all.
    pub blocks_needed: u32,
    /// Factors, the costliest first.
    pub ranking: Vec<Effect>,
    /// The same in the paper's classes.
    pub classes: Vec<ClassRanking>,
    /// The baseline against itself.
    pub controls: Vec<Effect>,
    /// Pairs of factors.
    pub interactions: Vec<Interaction>,
    /// Whether what ran before shows.
    pub carry_over: Option<CarryOver>,
    /// What tracing adds to a packet's way, where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_cost: Option<ProbeCost>,
    /// The paper's figures beside what was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<Box<PaperReport>>,
    /// Each arm.
    pub arms: Vec<ArmSummary>,
    /// What to know before believing it.
    pub warnings: Vec<String>,
}

/// Computes everything from what was planned and what the cells measured.
pub fn summarize(facts: &StudyFacts, cells: &[Cell]) -> StudySummary {
    let factors = facts.factors();
    let (ranking, controls) = effects(facts, cells, factors);
    let planned = facts.cells_planned();
    // A cell that does not count is measured once more.
    let measured: BTreeSet<(u32, &str)> = cells.iter().map(|cell| (cell.block, cell.arm.as_str())).collect();
    let discarded = cells.iter().filter_map(|cell| {
        let reason = cell.discarded.clone()?;
        Some(Discarded { block: cell.block, arm: cell.arm.clone(), reason })
    });
    StudySummary {
        schema: SCHEMA.to_owned(),
        complete: measured.len() as u32 == planned,
        cells: cells.len() as u32,
        cells_planned: planned,
        discarded: discarded.collect(),
        blocks_needed: blocks_needed(factors),
        classes: classes(&ranking),
        ranking,
        controls,
        interactions: interactions(facts, cells),
        carry_over: carry_over::check(&placed(facts, cells)),
        probe_cost: None,
        paper: None,
        arms: facts.arms.iter().map(|arm| arm_summary(arm, cells)).collect(),
        warnings: Vec::new(),
        facts: facts.clone(),
    }
}

fn baseline(facts: &StudyFacts) -> &str {
    let found = facts.arms.iter().find(|arm| arm.role == Role::Baseline);
    found.map_or("", |arm| arm.id.as_str())
}

fn effects(facts: &StudyFacts, cells: &[Cell], factors: usize) -> (Vec<Effect>, Vec<Effect>) {
    let (mut ranking, mut controls) = (Vec::new(), Vec::new());
    for arm in &facts.arms {
        let class = match &arm.role {
            Role::Factor { class } => Some(*class),
            Role::Control => None,
            _ => continue,
        };
        let Some(effect) = effect(facts, cells, arm, class) else { continue };
        if class.is_some() { ranking.push(effect) } else { controls.push(effect) }
    }
    // Factors without a single block count as well: to leave them out would flatter the rest.
    let mut p: Vec<f64> = ranking.iter().map(|effect| effect.ranked.p).collect();
    p.resize(factors.max(p.len()), 1.0);
    for (effect, p) in ranking.iter_mut().zip(holm(&p)) {
        effect.p_corrected = p;
        effect.verdict = match verdict(&effect.ranked, p, factors) {
            StudyVerdict::Worse | StudyVerdict::Better
                if effect.sender_off.is_some_and(|off| off > effect.ranked.difference.abs()) =>
            {
                StudyVerdict::Sender
            }
            other => other,
        };
    }
    for effect in &mut controls {
        effect.verdict = verdict(&effect.ranked, effect.p_corrected, 1);
    }
    ranking.sort_by(|a, b| b.ranked.difference.total_cmp(&a.ranked.difference));
    (ranking, controls)
}

fn effect(facts: &StudyFacts, cells: &[Cell], arm: &Arm, class: Option<SourceClass>) -> Option<Effect> {
    let base = baseline(facts);
    let of = |layer, metric| contrast(cells, facts.blocks, base, &arm.id, layer, metric);
    let ranked = of(StudyLayer::Application, facts.rank_by)?;
    let contrasts = StudyLayer::ALL.iter().flat_map(|&layer| Metric::ALL.map(|metric| of(layer, metric)));
    Some(Effect {
        arm: arm.id.clone(),
        words: arm.words.clone(),
        class,
        p_corrected: ranked.p,
        verdict: StudyVerdict::NoDifference,
        sender_off: sender_off(facts, cells, base),
        ranked,
        contrasts: contrasts.flatten().collect(),
    })
}

/// How far the sender of an arm is off by the ranked figure: the median over its cells that count.
fn sender_off(facts: &StudyFacts, cells: &[Cell], arm: &str) -> Option<f64> {
    let own = cells.iter().filter(|cell| cell.arm == arm && cell.discarded.is_none());
    let senders: Vec<&Figures> = own.filter_map(|cell| cell.sender.as_ref()).collect();
    Some(facts.rank_by.off(&Figures::median(&senders)?, facts.period_ns))
}

fn verdict(ranked: &Contrast, p: f64, tests: usize) -> StudyVerdict {
    let least = 2.0 * 0.5f64.powi(ranked.blocks as i32) * tests as f64;
    match p <= LEVEL {
        true if ranked.difference > 0.0 => StudyVerdict::Worse,
        true => StudyVerdict::Better,
        false if least > LEVEL => StudyVerdict::TooFewBlocks,
        false => StudyVerdict::NoDifference,
    }
}

fn classes(ranking: &[Effect]) -> Vec<ClassRanking> {
    let of = |class| {
        let own = ranking.iter().enumerate().filter(|(_, effect)| effect.class == Some(class));
        let factors = own.map(|(at, effect)| (at as u32 + 1, effect.arm.clone())).collect();
        ClassRanking { class, factors }
    };
    SourceClass::ALL.map(of).into_iter().filter(|one| !one.factors.is_empty()).collect()
}

fn interactions(facts: &StudyFacts, cells: &[Cell]) -> Vec<Interaction> {
    let of = |arm: &Arm| match &arm.role {
        Role::Pair { of, chosen } => {
            // A pair that was chosen is judged by its own blocks alone.
            let blocks =
                if *chosen { facts.blocks..facts.blocks + facts.further_blocks } else { 0..facts.blocks };
            interaction(cells, blocks, baseline(facts), &arm.id, of, facts.rank_by)
        }
        _ => None,
    };
    let mut found: Vec<Interaction> = facts.arms.iter().filter_map(of).collect();
    let p: Vec<f64> = found.iter().map(|one| one.p_corrected).collect();
    found.iter_mut().zip(holm(&p)).for_each(|(one, p)| one.p_corrected = p);
    found
}

/// Pairs of the costliest factors, the leading ones first: of the first and the second, then of each with the third, and so
/// on. Pairs that the plan has already are left out, and those that `fits` refuses.
pub fn leading_pairs(
    facts: &StudyFacts,
    cells: &[Cell],
    count: usize,
    fits: impl Fn(&[String; 2]) -> bool,
) -> Vec<[String; 2]> {
    let factors = facts.arms.iter().filter(|arm| matches!(arm.role, Role::Factor { .. })).count();
    let (mut ranking, _) = effects(facts, cells, factors);
    // A factor that makes things better leads as well.
    ranking.sort_by(|a, b| b.ranked.difference.abs().total_cmp(&a.ranked.difference.abs()));
    let known = |pair: &[String; 2]| {
        let same = |of: &[String; 2]| of.iter().all(|id| pair.contains(id));
        facts.arms.iter().any(|arm| matches!(&arm.role, Role::Pair { of, .. } if same(of)))
    };
    let mut found = Vec::new();
    for later in 1..ranking.len() {
        for earlier in 0..later {
            let pair = [ranking[earlier].arm.clone(), ranking[later].arm.clone()];
            if !known(&pair) && fits(&pair) {
                found.push(pair);
            }
        }
    }
    found.truncate(count);
    found
}

pub(super) fn placed(facts: &StudyFacts, cells: &[Cell]) -> Vec<Placed> {
    let mut boots: Vec<&Vec<String>> = facts.arms.iter().map(|arm| &arm.boot).collect();
    boots.sort_unstable();
    boots.dedup();
    let first = facts.first_arms().len() as u32;
    let of = |cell: &Cell| {
        let arm = facts.arms.iter().position(|arm| arm.id == cell.arm)?;
        // Where a block takes several boots, a cell that was measured again has not the place that it ran at.
        if cell.block >= facts.blocks || (boots.len() > 1 && cell.position >= first) {
            return None;
        }
        let boot = boots.iter().position(|boot| **boot == facts.arms[arm].boot)?;
        let found = cell.layers.iter().find(|one| one.layer == StudyLayer::Application)?;
        let value = facts.rank_by.of(&found.figures);
        cell.discarded.is_none().then_some(Placed {
            block: cell.block,
            position: cell.position,
            arm,
            boot,
            value,
        })
    };
    cells.iter().filter_map(of).collect()
}

fn arm_summary(arm: &Arm, cells: &[Cell]) -> ArmSummary {
    let own: Vec<&Cell> = cells.iter().filter(|c| c.arm == arm.id && c.discarded.is_none()).collect();
    let layer = |layer| {
        let found: Vec<&LayerFigures> =
            own.iter().flat_map(|cell| &cell.layers).filter(|one| one.layer == layer).collect();
        let figures = Figures::median(&found.iter().map(|one| &one.figures).collect::<Vec<_>>())?;
        let mut bins = BTreeMap::new();
        for (bin, count) in found.iter().flat_map(|one| &one.bins) {
            *bins.entry(*bin).or_insert(0) += count;
        }
        Some(LayerFigures {
            layer,
            figures,
            bins: bins.into_iter().collect(),
            series: found[0].series.clone(),
        })
    };
    let senders: Vec<&Figures> = own.iter().filter_map(|cell| cell.sender.as_ref()).collect();
    ArmSummary {
        arm: arm.clone(),
        cells: own.len() as u32,
        layers: StudyLayer::ALL.into_iter().filter_map(layer).collect(),
        sender: Figures::median(&senders),
        sink_involuntary: own.iter().map(|cell| cell.sink_involuntary).sum(),
        source_involuntary: own.iter().map(|cell| cell.source_involuntary).sum(),
        sent: own.iter().map(|cell| cell.sent).sum(),
        received: own.iter().map(|cell| cell.received).sum(),
    }
}
