//! What a study is given: its arms, and what each cell measured.

use super::design::blocks_needed;
use super::figures::{Figures, LayerFigures, Metric};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Classes of sources (Chasing, section V).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SourceClass {
    /// Between the wire and the interrupt handler, such as interrupt throttling.
    Hardware,
    /// From the interrupt to the application, such as waking it.
    NetworkStack,
    /// Whatever else takes the CPU.
    NetworkIndependent,
}

impl SourceClass {
    /// In the paper's order.
    pub const ALL: [Self; 3] = [Self::Hardware, Self::NetworkStack, Self::NetworkIndependent];

    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Hardware => "hardware",
            Self::NetworkStack => "network stack",
            Self::NetworkIndependent => "network-independent",
        }
    }
}

/// What an arm is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "role")]
pub enum Role {
    /// What all others are held against.
    Baseline,
    /// The baseline again (A/A): must come out as no effect.
    Control,
    /// One source restored.
    Factor {
        /// Its class.
        class: SourceClass,
    },
    /// Two factors at once.
    Pair {
        /// Which.
        of: [String; 2],
        /// Chosen from the ranking, and measured in further blocks of their own with the baseline and both factors anew: what
        /// made them lead by chance is not there again.
        #[serde(default)]
        chosen: bool,
    },
}

/// One arm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Arm {
    /// Short name.
    pub id: String,
    /// What it changes, in words.
    pub words: String,
    /// What it is for.
    #[serde(flatten)]
    pub role: Role,
    /// Words of the kernel's command line that it wants; all others that any arm wants must be absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub boot: Vec<String>,
}

/// What was planned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StudyFacts {
    /// The arms, in the order of the plan.
    pub arms: Vec<Arm>,
    /// Blocks.
    pub blocks: u32,
    /// Further blocks after these, for pairs that were chosen from the ranking.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub further_blocks: u32,
    /// Seed of the order.
    pub seed: u64,
    /// Period of the stream, nanoseconds.
    pub period_ns: f64,
    /// ΔT beyond this is a spike, nanoseconds.
    pub spike_ns: i64,
    /// What the ranking goes by.
    pub rank_by: Metric,
    /// Measured time of a cell, nanoseconds.
    pub measured_ns: u64,
    /// Time before it that is dropped, nanoseconds.
    pub warm_up_ns: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl StudyFacts {
    /// How many factors are restored one at a time.
    pub fn factors(&self) -> usize {
        self.arms.iter().filter(|arm| matches!(arm.role, Role::Factor { .. })).count()
    }

    /// Why so few blocks cannot tell any factor from chance; none where they can.
    pub fn too_few_blocks(&self) -> Option<String> {
        let (blocks, factors) = (self.blocks, self.factors());
        let needed = blocks_needed(factors);
        (blocks < needed).then(|| {
            format!(
                "{blocks} blocks cannot tell any of {factors} factors from chance, however large its effect: the smallest p of \
                 {blocks} blocks is 2/2^{blocks}, times {factors} factors; use --blocks {needed} or more"
            )
        })
    }

    /// Arms of the first blocks, by their places.
    pub fn first_arms(&self) -> Vec<usize> {
        let chosen = |arm: &Arm| matches!(arm.role, Role::Pair { chosen: true, .. });
        (0..self.arms.len()).filter(|at| !chosen(&self.arms[*at])).collect()
    }

    /// Arms of the further blocks: the baseline, the chosen pairs, and the factors of these.
    pub fn further_arms(&self) -> Vec<usize> {
        let pairs: Vec<&[String; 2]> = self
            .arms
            .iter()
            .filter_map(|arm| match &arm.role {
                Role::Pair { of, chosen: true } => Some(of),
                _ => None,
            })
            .collect();
        let wanted = |arm: &Arm| match &arm.role {
            Role::Baseline => !pairs.is_empty(),
            Role::Pair { chosen, .. } => *chosen,
            Role::Factor { .. } => pairs.iter().any(|of| of.contains(&arm.id)),
            Role::Control => false,
        };
        (0..self.arms.len()).filter(|at| wanted(&self.arms[*at])).collect()
    }

    /// Cells that are planned.
    pub fn cells_planned(&self) -> u32 {
        self.blocks * self.first_arms().len() as u32 + self.further_blocks * self.further_arms().len() as u32
    }
}

/// What one arm did in one block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Block, from 0.
    pub block: u32,
    /// Place in the block's order, from 0.
    pub position: u32,
    /// Arm, by its id.
    pub arm: String,
    /// Why it does not count; none: it does.
    pub discarded: Option<String>,
    /// ΔT at each layer that was stamped.
    pub layers: Vec<LayerFigures>,
    /// ΔT of the sender's own send calls.
    pub sender: Option<Figures>,
    /// Packets sent and received in the measured time.
    pub sent: u64,
    /// Packets received.
    pub received: u64,
    /// Slots that the sender was too late for, warm-up included.
    pub slots_missed: u64,
    /// Times that the sink's CPU was taken from it.
    pub sink_involuntary: u64,
    /// Times that the source's CPU was taken from it.
    pub source_involuntary: u64,
    /// Tier of tracing that ran: `bpf`, or `user` where there was none.
    #[serde(default)]
    pub tier: String,
    /// Words of the kernel's command line that were in force, of those that any arm wants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub boot: Vec<String>,
    /// What else is to be known.
    pub notes: Vec<String>,
}
