//! The stages of a study: what is measured besides, the planned blocks, and the pairs that these make worth a look.

use super::asked::Asked;
use super::blocks::{Ended, Measuring};
use super::keep;
use super::lab::{Lab, Order};
use super::plan::StudyPlan;
use crate::digest;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use quaver_analysis::study::leading_pairs;
use quaver_measure::host::root::HostRoot;
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use quaver_store::study_stamps::write_study_stamps;
use serde_json::json;
use std::path::Path;

/// A study with its run.
pub(super) struct Stages<'a> {
    pub(super) run: &'a RunDir,
    pub(super) directory: &'a Path,
    pub(super) manifest: Manifest,
    pub(super) asked: Asked,
    pub(super) plan: StudyPlan,
    pub(super) interrupt: &'a Interrupt,
}

impl Stages<'_> {
    /// Goes through all of them, as far as they were not done before.
    pub(super) fn all(
        &mut self,
        lab: &mut dyn Lab,
        root: &HostRoot,
        progress: &Progress,
    ) -> anyhow::Result<Ended> {
        self.besides(lab, progress)?;
        let ended = self.blocks(lab, root, progress, false)?;
        if ended != Ended::Done {
            return Ok(ended);
        }
        if self.asked.chosen.is_empty() && self.asked.interactions > 0 {
            self.choose(lab)?;
        }
        if self.plan.facts.further_blocks == 0 {
            return Ok(Ended::Done);
        }
        self.blocks(lab, root, progress, true)
    }

    fn blocks(
        &self,
        lab: &mut dyn Lab,
        root: &HostRoot,
        progress: &Progress,
        further: bool,
    ) -> anyhow::Result<Ended> {
        let facts = &self.plan.facts;
        let place = (self.run, self.directory);
        let mut measuring =
            Measuring::new(place, &self.plan, &self.asked, lab, root, self.interrupt, progress);
        if further {
            let last = facts.blocks + facts.further_blocks;
            return measuring.blocks(facts.blocks, last, &facts.further_arms());
        }
        measuring.blocks(0, facts.blocks, &facts.first_arms())
    }

    /// What tracing costs, and the dummy program; once a run.
    fn besides(&mut self, lab: &mut dyn Lab, progress: &Progress) -> anyhow::Result<()> {
        let order = Order {
            plan: &self.plan,
            asked: &self.asked,
            block: 0,
            position: 0,
            arm: 0,
            directory: self.directory,
        };
        if self.plan.trace && !keep::beside(self.run, keep::COST).exists() {
            progress.say("measuring what tracing costs");
            let cost = lab.cost(&order, self.interrupt)?;
            if !self.interrupt.requested() {
                keep::keep_cost(self.run, cost.as_ref())?;
            }
        }
        let dummy = keep::beside(self.run, keep::DUMMY);
        if self.asked.dummy_turns > 0 && !dummy.exists() && !self.interrupt.requested() {
            progress.say("running the dummy program");
            if let Some(stamps) = lab.dummy(&order, self.asked.dummy_turns, self.interrupt)? {
                write_study_stamps(&dummy, &stamps)?;
            }
        }
        Ok(())
    }

    /// Chooses pairs from the ranking and makes them part of the plan; the manifest keeps them before any is measured.
    fn choose(&mut self, lab: &dyn Lab) -> anyhow::Result<()> {
        let cells = digest::study::read_cells(self.run)?;
        let cpus = lab.cpus()?;
        let with = |pairs: Vec<[String; 2]>| Asked { chosen: pairs, ..self.asked.clone() };
        // Two factors that set the same key cannot be had together.
        let fits = |pair: &[String; 2]| {
            let plan = with(vec![pair.clone()]).plan(&cpus);
            plan.is_ok_and(|plan| plan.settings.last().is_some_and(|both| lab.refuses(both).is_none()))
        };
        let chosen = leading_pairs(&self.plan.facts, &cells, self.asked.interactions as usize, fits);
        self.asked = with(chosen);
        self.plan = StudyPlan { journal: self.plan.journal.take(), ..self.asked.plan(&cpus)? };
        if let Some(asked) = self.manifest.asked.as_object_mut() {
            asked.insert("study".to_owned(), json!(self.asked));
            asked.insert("facts".to_owned(), json!(self.plan.facts));
        }
        Ok(self.run.write_manifest(&self.manifest)?)
    }
}
