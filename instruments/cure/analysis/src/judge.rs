//! Effects of remedies on the objective.

use crate::LEVEL;
use crate::evidence::{Evidence, Settled, e_bh};
use crate::guard::{BlockFigures, Guard, Harm, harm};
use quaver_analysis::intervals::{interval, mean, sign_flip_p};
use quaver_analysis::rounds::Interval;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One block of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Block {
    /// Round, from 0.
    pub round: u32,
    /// 0 is no remedy; remedy n is n from 1.
    pub arm: usize,
    /// Its figures; none where the block is void.
    pub figures: Option<BlockFigures>,
    /// Why it is void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub void: Option<String>,
}

/// What a remedy does to the objective.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    /// Rounds that have both blocks.
    pub rounds: u32,
    /// Mean without it, over these.
    pub without: f64,
    /// Mean with it.
    pub with: f64,
    /// Mean of the differences; below zero it helps.
    pub difference: f64,
    /// 95 % interval of the difference, for this remedy alone.
    pub interval: Option<Interval>,
    /// Evidence of a trial that it helps, an e-value: 20 of one remedy are as rare as one time of twenty without an effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e: Option<f64>,
    /// Two-sided p of the sign-flip test over the rounds of a proof.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
}

/// What became of a remedy in its trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum TrialVerdict {
    /// It helps.
    Helps,
    /// No effect was found.
    NoEffect,
    /// It makes the objective worse.
    Worse,
    /// It harms what is guarded.
    Harms {
        /// What.
        guard: Guard,
    },
}

/// Pairs of figures, without and with a remedy, of the rounds that have both.
fn pairs(blocks: &[Block], arm: usize) -> Vec<(&BlockFigures, &BlockFigures)> {
    let of = |round: u32, arm: usize| {
        blocks.iter().find(|block| block.round == round && block.arm == arm)?.figures.as_ref()
    };
    let rounds = blocks.iter().map(|block| block.round + 1).max().unwrap_or(0);
    (0..rounds).filter_map(|round| of(round, 0).zip(of(round, arm))).collect()
}

fn differences(blocks: &[Block], arm: usize) -> Vec<f64> {
    pairs(blocks, arm).iter().map(|(without, with)| with.objective - without.objective).collect()
}

/// The effect of one remedy, without what it proves; none without a whole round.
fn effect(blocks: &[Block], arm: usize) -> Option<Effect> {
    let pairs = pairs(blocks, arm);
    (!pairs.is_empty()).then(|| Effect {
        rounds: pairs.len() as u32,
        without: mean(&pairs.iter().map(|(without, _)| without.objective).collect::<Vec<_>>()),
        with: mean(&pairs.iter().map(|(_, with)| with.objective).collect::<Vec<_>>()),
        difference: mean(&differences(blocks, arm)),
        interval: None,
        e: None,
        p: None,
    })
}

/// Whether gains are, after any look, more than chance.
fn is_evident(gains: &[f64]) -> bool {
    Evidence::of(gains.iter().copied()).e() >= 1.0 / LEVEL
}

/// The evidence that a remedy helps.
fn evidence(blocks: &[Block], arm: usize) -> Evidence {
    Evidence::of(differences(blocks, arm).into_iter().map(|difference| -difference))
}

/// Whether a remedy of so many need be tried no more, of which `more` rounds are left. Valid after each round. One that helps
/// goes on while it may harm.
pub fn settled(blocks: &[Block], arm: usize, remedies: usize, more: u32) -> Option<Settled> {
    let settled = evidence(blocks, arm).settles(remedies, more)?;
    let may_harm = || harm(&pairs(blocks, arm), |_| true).is_some();
    (settled == Settled::ForFutility || !may_harm()).then_some(settled)
}

/// The guard that a remedy harms, as far as is known. Valid after each round.
pub fn harm_so_far(blocks: &[Block], arm: usize) -> Option<Harm> {
    harm(&pairs(blocks, arm), is_evident)
}

/// Judges all remedies of a trial, in their order. `withdrawn` has the guard that one harmed grossly. A remedy without a whole
/// round has no effect and is not kept, yet counts among those that were tried.
pub fn judge(blocks: &[Block], withdrawn: &[Option<Guard>]) -> Vec<(Option<Effect>, TrialVerdict)> {
    let mut judged = verdicts(blocks, withdrawn);
    for (at, (effect, _)) in judged.iter_mut().enumerate() {
        if let Some(effect) = effect {
            effect.interval = interval(&differences(blocks, at + 1));
        }
    }
    judged
}

/// The same without intervals, which decide nothing.
pub(crate) fn verdicts(blocks: &[Block], withdrawn: &[Option<Guard>]) -> Vec<(Option<Effect>, TrialVerdict)> {
    let e: Vec<f64> = (1..=withdrawn.len()).map(|arm| evidence(blocks, arm).e()).collect();
    let of = |((at, withdrawn), helps): ((usize, &Option<Guard>), bool)| {
        let (arm, e) = (at + 1, e[at]);
        let effect = effect(blocks, arm).map(|effect| Effect { e: Some(e), ..effect });
        let verdict = match withdrawn.or_else(|| harm_so_far(blocks, arm).map(|harm| harm.guard)) {
            Some(guard) => TrialVerdict::Harms { guard },
            None if helps => TrialVerdict::Helps,
            None if is_evident(&differences(blocks, arm)) => TrialVerdict::Worse,
            None => TrialVerdict::NoEffect,
        };
        (effect, verdict)
    };
    withdrawn.iter().enumerate().zip(e_bh(&e)).map(of).collect()
}

/// Judges a proof, all of whose rounds were planned before the first: arm 1 against none, which `withdrawn` says to have harmed
/// something grossly. The harm that it does comes last.
pub fn judge_proof(
    blocks: &[Block],
    withdrawn: Option<Harm>,
) -> (Option<Effect>, TrialVerdict, Option<Harm>) {
    let differences = differences(blocks, 1);
    let p = sign_flip_p(&differences);
    let effect =
        effect(blocks, 1).map(|effect| Effect { p: Some(p), interval: interval(&differences), ..effect });
    let harm = withdrawn.or_else(|| harm(&pairs(blocks, 1), |excess| sign_flip_p(excess) <= LEVEL));
    let verdict = match (&harm, effect) {
        (Some(harm), _) => TrialVerdict::Harms { guard: harm.guard },
        (None, Some(effect)) if p <= LEVEL && effect.difference < 0.0 => TrialVerdict::Helps,
        (None, Some(effect)) if p <= LEVEL && effect.difference > 0.0 => TrialVerdict::Worse,
        _ => TrialVerdict::NoEffect,
    };
    (effect, verdict, harm)
}
