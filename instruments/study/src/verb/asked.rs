//! What was asked for: the plan's text and what the command line says over it. The manifest keeps it, and a run goes on
//! from it; a guest of a lab reads its plan from it.

use super::paper;
use super::plan::{self, Overrides, StudyPlan};
use crate::args::{StudyPaperArgs, StudyRunArgs};
use anyhow::Context;
use clap::ValueEnum;
use quaver_host::root::HostRoot;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_study_analysis::PaperArm;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StudyRequest {
    /// The plan, in TOML.
    pub(crate) plan: String,
    /// Name of the lab.
    pub(crate) lab: String,
    /// Number of blocks, over the plan's.
    pub(crate) blocks: Option<u32>,
    /// Measured time of a cell, over the plan's, nanoseconds.
    pub(crate) measured_ns: Option<u64>,
    /// Seed of the order, over the plan's.
    pub(crate) seed: Option<u64>,
    /// How many pairs of leading factors are to be measured once the ranking is known.
    #[serde(default)]
    pub(crate) interactions: u32,
    /// Pairs that were chosen from the ranking; measured after all else.
    #[serde(default)]
    pub(crate) chosen: Vec<[String; 2]>,
    /// The paper's experiments, of `study paper`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) paper: Vec<PaperArm>,
    /// Turns of the paper's dummy program.
    #[serde(default)]
    pub(crate) dummy_turns: u64,
    /// Packets of each block of the paper's figure 8, where it takes a longer period than the others.
    #[serde(default)]
    pub(crate) wake_up_samples: u64,
}

impl StudyRequest {
    /// Of a command line.
    pub(super) fn of(args: &StudyRunArgs) -> anyhow::Result<Self> {
        let plan = match &args.plan {
            None => plan::built_in(args.lab).to_owned(),
            Some(path) => std::fs::read_to_string(path)
                .with_context(|| format!("reading the plan {}", path.display()))?,
        };
        Ok(Self {
            plan,
            lab: args.lab.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default(),
            blocks: args.blocks,
            measured_ns: args.duration.map(|time| time.as_nanos() as u64),
            seed: args.seed,
            interactions: args.interactions,
            ..Self::default()
        })
    }

    /// Of `study paper`, in a lab with these CPUs.
    pub(super) fn of_paper(args: &StudyPaperArgs, cpus: Vec<u16>, root: &HostRoot) -> Self {
        let here = paper::Here::look(args.lab, cpus, root);
        let made = paper::plan(&here, args.samples.unwrap_or(paper::samples(args.lab)));
        Self {
            plan: made.text,
            lab: args.lab.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default(),
            blocks: args.blocks,
            seed: args.seed,
            paper: made.arms,
            dummy_turns: made.samples,
            wake_up_samples: made.wake_up_samples,
            ..Self::default()
        }
    }

    /// The plan that was asked for, on these CPUs. The same text gives the same plan on every machine.
    ///
    /// # Errors
    /// What is wrong with it, in a sentence.
    pub fn plan(&self, cpus: &[u16]) -> anyhow::Result<StudyPlan> {
        let overrides = Overrides {
            blocks: self.blocks,
            duration: self.measured_ns.map(Duration::from_nanos),
            seed: self.seed,
        };
        plan::read(&self.plan, overrides, cpus, &self.chosen)
            .map_err(|error| failure(ExitCode::BadInput, format!("the plan: {error}")))
    }
}
