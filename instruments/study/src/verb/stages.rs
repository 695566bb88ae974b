//! The stages of a study: what is measured besides, the planned blocks, and the pairs that these make worth a look.

use super::asked::StudyRequest;
use super::blocks::{Ended, Measuring};
use super::cell::Order;
use super::keep;
use super::lab::Lab;
use super::paper;
use super::plan::StudyPlan;
use crate::stamps::write_study_stamps;
use crate::view::generator_words;
use quaver_host::root::HostRoot;
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use quaver_study_analysis::{StampTable, block_order, generator, leading_pairs};
use serde_json::json;
use std::path::Path;

/// A study with its run.
pub(super) struct Stages<'a> {
    pub(super) run: &'a RunDir,
    pub(super) directory: &'a Path,
    pub(super) manifest: Manifest,
    pub(super) asked: StudyRequest,
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

    /// The generator, what tracing costs, the dummy program, and waking up; each once a run.
    fn besides(&mut self, lab: &mut dyn Lab, progress: &Progress) -> anyhow::Result<()> {
        let order = Order {
            plan: &self.plan,
            asked: &self.asked,
            // After all blocks: a lab that measures cells of a block together then measures this one alone.
            block: self.plan.facts.blocks + self.plan.facts.further_blocks,
            position: 0,
            arm: 0,
            directory: self.directory,
        };
        if !self.asked.paper.is_empty() {
            self.generator(&order, lab, progress)?;
        }
        if self.plan.trace && !keep::beside(self.run, keep::COST).exists() && !self.interrupt.requested() {
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
        let wake_up = keep::beside(self.run, keep::WAKE_UP[1]);
        if self.asked.wake_up_samples > 0 && !wake_up.exists() {
            self.wake_up(lab, progress)?;
        }
        Ok(())
    }

    /// Judges the generator by a stream of the baseline's, and says at once what it is good for.
    fn generator(&self, order: &Order<'_>, lab: &mut dyn Lab, progress: &Progress) -> anyhow::Result<()> {
        let file = keep::beside(self.run, keep::GENERATOR);
        if file.exists() {
            return Ok(());
        }
        progress.say("judging the generator");
        let Some(mut measured) = lab.measure(order, self.interrupt)? else { return Ok(()) };
        let judge = |stamps: &StampTable| generator(&stamps.sender_deltas(), self.plan.facts.period_ns);
        let mut judged = judge(&measured.stamps);
        if judged.is_none() {
            // Its sender had no CPU all the while: as a cell of which that is so, it gets a second chance.
            let Some(again) = lab.measure(&Order { position: 1, ..*order }, self.interrupt)? else {
                return Ok(());
            };
            judged = judge(&again.stamps);
            measured = again;
        }
        write_study_stamps(&file, &measured.stamps)?;
        match judged {
            None => progress.tell("Generator: no two packets in a row arrived; it cannot be judged."),
            Some(judged) => {
                progress.tell(&format!("Generator: {}.", generator_words(&judged)));
                judged.conclusions.iter().for_each(|sentence| progress.tell(sentence));
            }
        }
        Ok(())
    }

    /// Packets far apart (figure 8), in turn to a core that idles between them and to one that does not.
    fn wake_up(&self, lab: &mut dyn Lab, progress: &Progress) -> anyhow::Result<()> {
        let asked = StudyRequest {
            plan: paper::wake_up_plan(self.asked.wake_up_samples, self.plan.settings.first()),
            lab: self.asked.lab.clone(),
            seed: self.asked.seed,
            ..StudyRequest::default()
        };
        let plan = StudyPlan { journal: self.plan.journal.clone(), ..asked.plan(&lab.cpus()?)? };
        let mut tables = [StampTable::default(), StampTable::default()];
        progress.say("waking the sink up");
        for block in 0..plan.facts.blocks {
            // Awake is the baseline, idle the only factor: those two of each block, in its order.
            let arms = block_order(plan.facts.seed, block, plan.facts.arms.len());
            for (position, arm) in (0..).zip(arms.into_iter().filter(|arm| *arm != 1)) {
                let order =
                    Order { plan: &plan, asked: &asked, block, position, arm, directory: self.directory };
                let Some(measured) = lab.measure(&order, self.interrupt)? else { return Ok(()) };
                tables[usize::from(arm == 0)].append(measured.stamps);
            }
        }
        for (name, table) in keep::WAKE_UP.iter().zip(&tables) {
            write_study_stamps(&keep::beside(self.run, name), table)?;
        }
        Ok(())
    }

    /// Chooses pairs from the ranking and makes them part of the plan; the manifest keeps them before any is measured.
    fn choose(&mut self, lab: &dyn Lab) -> anyhow::Result<()> {
        let cells = crate::digest::read_cells(self.run)?;
        let cpus = lab.cpus()?;
        let with = |pairs: Vec<[String; 2]>| StudyRequest { chosen: pairs, ..self.asked.clone() };
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
