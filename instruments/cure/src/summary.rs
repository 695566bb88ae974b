//! `summary.json` of a cure.

use crate::args::Allow;
use crate::objective::Objective;
use quaver_cure_analysis::{Block, Effect, Harm, Settled, TrialPlan, TrialVerdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the summary's shape.
pub const CURE_SCHEMA: &str = "quaver.cure/1";

/// What a cure found and did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CureSummary {
    /// [`CURE_SCHEMA`].
    pub schema: String,
    /// What was to become smaller: a share, or nanoseconds.
    pub objective: Objective,
    /// Whose settings could be tried.
    pub allow: Allow,
    /// Seed of the order.
    pub seed: u64,
    /// CPUs of the receiver.
    pub cpus: Vec<u16>,
    /// Its interface, where it is known.
    pub interface: Option<String>,
    /// Whether the interface was made for the cure and went with it.
    pub interface_of_ours: bool,
    /// The run that found the causes, below the run directory.
    pub measured: String,
    /// Causes that it found, the largest first.
    pub causes: Vec<FoundCause>,
    /// How the time was spent; none where nothing could be tried.
    pub plan: Option<TrialPlan>,
    /// Smallest effect that the trial could find, in the objective's unit; none where bare blocks did not differ.
    pub smallest_detectable: Option<f64>,
    /// Remedies that were planned, in the order of the ranking.
    pub remedies: Vec<Remedy>,
    /// What could not be tried.
    pub not_tried: Vec<NotTried>,
    /// The proof of all that helped against none.
    pub proof: Option<Proof>,
    /// Sources whose remedies were kept.
    pub kept: Vec<String>,
    /// What the next boot sets again; none unless that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persisted: Option<Persisted>,
    /// The program that was run and its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub program: Vec<String>,
    /// How to run it from now on, by what was proven of its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What a change of its code would gain, that of the largest gain first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<CodeAdvice>,
    /// Why what helped was not kept, or why nothing was tried.
    pub outcome: String,
    /// Whether it went to its end.
    pub complete: bool,
    /// Blocks of the trial.
    pub trial_blocks: Vec<Block>,
    /// Blocks of the proof; arm 1 is all that helped together.
    pub proof_blocks: Vec<Block>,
    /// Sentences that a reader has to know.
    pub warnings: Vec<String>,
}

/// A cause that the first measurement found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FoundCause {
    /// Source.
    pub source: String,
    /// Name.
    pub name: String,
    /// Share of the late time.
    pub share: f64,
}

/// A change of a program's code, as `quaver sync` advises it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CodeAdvice {
    /// What kind of change, in one word.
    pub kind: String,
    /// What to do.
    pub change: String,
    /// Part of the run's time that it gains, where that was replayed.
    pub gain: Option<f64>,
    /// The gain is an estimate from above.
    pub at_most: bool,
}

/// A remedy that was planned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Remedy {
    /// Source that it removes: its row of the catalogue.
    pub id: String,
    /// What happens there.
    pub mechanism: String,
    /// What setting it otherwise may cost.
    pub risk: String,
    /// What is set, to what.
    pub changes: Vec<String>,
    /// Share of the late time that the source cost when it was measured; none where it cost nothing that was seen.
    pub cause_share: Option<f64>,
    /// What the trial found; none before it.
    pub effect: Option<Effect>,
    /// What that says; none before it.
    pub verdict: Option<TrialVerdict>,
    /// Why its trial ended before the last round; none where it did not.
    #[serde(default)]
    pub settled: Option<Settled>,
    /// Why it was withdrawn during the trial.
    pub withdrawn: Option<String>,
    /// What it harmed, for which it was withdrawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harm: Option<Harm>,
}

/// A remedy that was not tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NotTried {
    /// Source.
    pub id: String,
    /// Why not.
    pub why: String,
    /// How a person can.
    pub how: String,
    /// Share of the late time that the source cost when it was measured; none where it cost nothing that was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause_share: Option<f64>,
}

/// A fresh comparison of all that helped with none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Proof {
    /// Effect of all together.
    pub effect: Option<Effect>,
    /// What that says.
    pub verdict: TrialVerdict,
    /// What all together harmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harm: Option<Harm>,
}

/// Files that apply the kept settings at each boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Persisted {
    /// The profile of settings.
    pub profile: String,
    /// The unit of systemd.
    pub unit: String,
    /// The profile of tuned, where tuned has a directory.
    pub tuned: Option<String>,
}
