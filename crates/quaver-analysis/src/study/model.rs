//! What a study is given: its arms, and what each cell measured.

use super::figures::{Figures, LayerFigures, Metric};
use serde::{Deserialize, Serialize};

/// Classes of sources (Chasing, section V).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    },
}

/// One arm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    /// Short name.
    pub id: String,
    /// What it changes, in words.
    pub words: String,
    /// What it is for.
    #[serde(flatten)]
    pub role: Role,
}

/// What was planned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyFacts {
    /// The arms, in the order of the plan.
    pub arms: Vec<Arm>,
    /// Blocks.
    pub blocks: u32,
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

/// What one arm did in one block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// What else is to be known.
    pub notes: Vec<String>,
}
