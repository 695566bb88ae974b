//! Effects of remedies on the objective, and harm to what is guarded.

use crate::LEVEL;
use crate::evidence::{Evidence, Settled, e_bh};
use quaver_analysis::intervals::{interval, mean, sign_flip_p};
use quaver_analysis::rounds::Interval;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Figures of one block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockFigures {
    /// What is to become smaller: a share, or nanoseconds.
    pub objective: f64,
    /// Packets that did not arrive, as a share of those expected.
    pub lost_share: f64,
    /// Packets received, or runs of a program, a second.
    pub received_per_s: f64,
    /// What the host bore meanwhile.
    #[serde(flatten)]
    pub burden: Burden,
}

/// What the host and others on it bore during a block. None: not readable there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Burden {
    /// Time that all CPUs of the host were busy, over the block's time. Of a program, CPU time of a run over the time of the first
    /// one: CPUs that it is given make no run dearer.
    pub busy_cpus: f64,
    /// Threads of other programs with UDP sockets that waited for a CPU, in the mean. None for a block below 100 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_waiting: Option<f64>,
    /// Power of all packages of CPUs, watts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_w: Option<f64>,
    /// Hottest sensor of a CPU at the block's end, degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hottest_c: Option<f64>,
}

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

/// What must not become worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Guard {
    /// Packets that did not arrive.
    Losses,
    /// Packets received a second.
    Throughput,
    /// Time that the host's CPUs were busy.
    CpuTime,
    /// Waits of other receivers for a CPU.
    Others,
    /// Power of the CPUs.
    Power,
    /// Temperature of the CPUs.
    Heat,
}

impl Guard {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Losses, Self::Throughput, Self::CpuTime, Self::Others, Self::Power, Self::Heat];

    /// In words, after "it harms".
    pub const fn words(self) -> &'static str {
        match self {
            Self::Losses => "delivery: more packets were lost",
            Self::Throughput => "throughput: fewer packets or runs a second",
            Self::CpuTime => "CPU time: the host's CPUs were busier",
            Self::Others => "other receivers: they waited longer for a CPU",
            Self::Power => "power: the CPUs took more",
            Self::Heat => "temperature: the CPUs grew hotter",
        }
    }

    /// Its name and unit.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Losses => "packets lost",
            Self::Throughput => "packets or runs a second",
            Self::CpuTime => "busy CPUs",
            Self::Others => "threads of other receivers that wait for a CPU",
            Self::Power => "power of the CPUs, W",
            Self::Heat => "hottest CPU, °C",
        }
    }

    /// The most that is accepted.
    pub const fn limit(self) -> &'static str {
        match self {
            Self::Losses => "0.1 % of all packets more",
            Self::Throughput => "1 % less",
            Self::CpuTime => "0.25 more",
            Self::Others => "0.01 more, or 2 % where that is more",
            Self::Power => "a quarter more",
            Self::Heat => "5 more",
        }
    }

    /// What a block says of it; none where that could not be read.
    pub const fn value(self, block: &BlockFigures) -> Option<f64> {
        match self {
            Self::Losses => Some(block.lost_share),
            Self::Throughput => Some(block.received_per_s),
            Self::CpuTime => Some(block.burden.busy_cpus),
            Self::Others => block.burden.others_waiting,
            Self::Power => block.burden.power_w,
            Self::Heat => block.burden.hottest_c,
        }
    }

    /// How much worse `with` is than `without`: 1 is the most that is accepted. 0 where it is not known.
    fn excess(self, without: &BlockFigures, with: &BlockFigures) -> f64 {
        let Some((with, without)) = self.value(with).zip(self.value(without)) else { return 0.0 };
        let (rise, accepted) = match self {
            Self::Losses => (with - without, 0.001),
            Self::Throughput => (without - with, 0.01 * without.max(1.0)),
            Self::CpuTime => (with - without, 0.25),
            Self::Others => (with - without, (0.02 * without).max(0.01)),
            Self::Power => (with - without, 0.25 * without.max(1.0)),
            Self::Heat => (with - without, 5.0),
        };
        rise / accepted
    }
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
fn pairs(blocks: &[Block], arm: usize) -> Vec<(BlockFigures, BlockFigures)> {
    let of = |round: u32, arm: usize| {
        blocks.iter().find(|block| block.round == round && block.arm == arm)?.figures
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

/// The guard that a remedy harms: worse by more than is accepted in the mean, and not by chance. The guards are not
/// corrected for their number: a needless refusal costs less than harm.
fn guard_harm(blocks: &[Block], arm: usize, is_certain: fn(&[f64]) -> bool) -> Option<Guard> {
    let pairs = pairs(blocks, arm);
    Guard::ALL.into_iter().find(|guard| {
        let excess: Vec<f64> = pairs.iter().map(|(without, with)| guard.excess(without, with)).collect();
        !excess.is_empty() && mean(&excess) > 1.0 && is_certain(&excess)
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

/// Whether a remedy of so many need be tried no more, of which `more` rounds are left. Valid after each round.
pub fn settled(blocks: &[Block], arm: usize, remedies: usize, more: u32) -> Option<Settled> {
    evidence(blocks, arm).settles(remedies, more)
}

/// The guard that one block breaks grossly, of which a second one ends its remedy's trial: worse than every bare block so far by
/// fifty times what is accepted (of waits so much as they were), or by two whole CPUs, three times the power, 20 degrees.
pub fn gross_harm(bare: &[BlockFigures], with: &BlockFigures) -> Option<Guard> {
    let beyond = |guard: Guard| {
        let limit = match guard {
            Guard::CpuTime | Guard::Power => 8.0,
            Guard::Heat => 4.0,
            Guard::Losses | Guard::Throughput | Guard::Others => 50.0,
        };
        !bare.is_empty() && bare.iter().all(|without| guard.excess(without, with) > limit)
    };
    Guard::ALL.into_iter().find(|guard| beyond(*guard))
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
        let verdict = match withdrawn.or_else(|| guard_harm(blocks, arm, is_evident)) {
            Some(guard) => TrialVerdict::Harms { guard },
            None if helps => TrialVerdict::Helps,
            None if is_evident(&differences(blocks, arm)) => TrialVerdict::Worse,
            None => TrialVerdict::NoEffect,
        };
        (effect, verdict)
    };
    withdrawn.iter().enumerate().zip(e_bh(&e)).map(of).collect()
}

/// Judges a proof, all of whose rounds were planned before the first: arm 1 against none.
pub fn judge_proof(blocks: &[Block], withdrawn: Option<Guard>) -> (Option<Effect>, TrialVerdict) {
    let differences = differences(blocks, 1);
    let p = sign_flip_p(&differences);
    let effect =
        effect(blocks, 1).map(|effect| Effect { p: Some(p), interval: interval(&differences), ..effect });
    let harm = withdrawn.or_else(|| guard_harm(blocks, 1, |excess| sign_flip_p(excess) <= LEVEL));
    let verdict = match (harm, effect) {
        (Some(guard), _) => TrialVerdict::Harms { guard },
        (None, Some(effect)) if p <= LEVEL && effect.difference < 0.0 => TrialVerdict::Helps,
        (None, Some(effect)) if p <= LEVEL && effect.difference > 0.0 => TrialVerdict::Worse,
        _ => TrialVerdict::NoEffect,
    };
    (effect, verdict)
}
