//! Goes through the blocks of a study, cell by cell, and measures what is missing.

use super::asked::StudyRequest;
use super::cell::Order;
use super::keep;
use super::lab::{Boots, Lab};
use super::plan::StudyPlan;
use quaver_host::root::HostRoot;
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_store::run::RunDir;
use quaver_study_analysis::boot_order;
use quaver_tune::boot::{ManagedOptions, command_line};
use std::path::Path;
use std::time::{Duration, Instant};

/// How going through blocks ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Every cell is there.
    Done,
    /// The user had enough.
    Interrupted,
    /// This host has to be booted otherwise for the next cells.
    Reboot {
        /// Words of the command line that these want.
        wanted: Vec<String>,
        /// Cells that are still to be measured.
        cells_left: u32,
    },
}

/// A study under way.
pub(super) struct Measuring<'a> {
    run: &'a RunDir,
    plan: &'a StudyPlan,
    asked: &'a StudyRequest,
    lab: &'a mut dyn Lab,
    directory: &'a Path,
    interrupt: &'a Interrupt,
    progress: &'a Progress,
    /// What is booted here, where this host boots for the study.
    booted: Option<Booted>,
    start: Instant,
    /// Cells measured by this process.
    measured: u32,
    /// Cells that are there, whoever measured them.
    done: u32,
}

struct Booted {
    root: HostRoot,
    managed: ManagedOptions,
}

impl Booted {
    fn fits(&self, wanted: &[String]) -> bool {
        command_line(&self.root).is_some_and(|line| self.managed.fit(&line, wanted))
    }
}

/// What became of a cell.
#[derive(PartialEq, Eq)]
enum Became {
    Counts,
    Discarded,
    Stopped,
}

/// Boot options of a plan; none where no arm wants any.
pub(super) fn managed(plan: &StudyPlan) -> ManagedOptions {
    ManagedOptions::new(plan.settings.iter().flat_map(|settings| &settings.boot))
}

impl<'a> Measuring<'a> {
    pub(super) fn new(
        (run, directory): (&'a RunDir, &'a Path),
        plan: &'a StudyPlan,
        asked: &'a StudyRequest,
        lab: &'a mut dyn Lab,
        root: &HostRoot,
        interrupt: &'a Interrupt,
        progress: &'a Progress,
    ) -> Self {
        let managed = managed(plan);
        let booted = (lab.boots() == Boots::Host && !managed.is_empty())
            .then(|| Booted { root: root.clone(), managed });
        let start = Instant::now();
        Self { run, plan, asked, lab, directory, interrupt, progress, booted, start, measured: 0, done: 0 }
    }

    /// Measures what is missing of blocks `from..to`, which hold these arms.
    pub(super) fn blocks(&mut self, from: u32, to: u32, arms: &[usize]) -> anyhow::Result<Ended> {
        let boots = boots(self.plan, arms);
        for block in from..to {
            let mut position = 0;
            let mut extra = arms.len() as u32;
            for group in boot_order(self.plan.facts.seed, block, &boots) {
                let mut again = Vec::new();
                for at in group {
                    match self.cell(block, position, arms[at])? {
                        Became::Counts => {}
                        Became::Discarded => again.push(arms[at]),
                        Became::Stopped => return self.ended(arms[at]),
                    }
                    position += 1;
                }
                // Whether a cell counts is judged by its sender, not by what the arm did: it gets a second chance in its
                // block, and in the same boot.
                for arm in again {
                    if self.cell(block, extra, arm)? == Became::Stopped {
                        return self.ended(arm);
                    }
                    extra += 1;
                }
            }
        }
        Ok(Ended::Done)
    }

    fn ended(&self, arm: usize) -> anyhow::Result<Ended> {
        if self.interrupt.requested() {
            return Ok(Ended::Interrupted);
        }
        let cells_left = self.plan.facts.cells_planned().saturating_sub(self.done);
        Ok(Ended::Reboot { wanted: self.plan.settings[arm].boot.clone(), cells_left })
    }

    /// Measures a cell, unless it is there already, the user has had enough, or it wants another boot.
    fn cell(&mut self, block: u32, position: u32, arm: usize) -> anyhow::Result<Became> {
        let became = |discarded: bool| if discarded { Became::Discarded } else { Became::Counts };
        if let Some(cell) = keep::read(self.run, block, position)? {
            self.done += 1;
            return Ok(became(cell.discarded.is_some()));
        }
        let wanted = &self.plan.settings[arm].boot;
        if self.interrupt.requested() || self.booted.as_ref().is_some_and(|booted| !booted.fits(wanted)) {
            return Ok(Became::Stopped);
        }
        self.tell(block, arm);
        let (plan, asked, directory) = (self.plan, self.asked, self.directory);
        let order = Order { plan, asked, block, position, arm, directory };
        let Some(mut measured) = self.lab.measure(&order, self.interrupt)? else {
            return Ok(Became::Stopped);
        };
        if let Some(booted) = &self.booted {
            measured.cell.boot =
                command_line(&booted.root).map_or_else(Vec::new, |line| booted.managed.of(&line));
        }
        keep::keep(self.run, &measured, plan.keep_stamps)?;
        self.measured += 1;
        self.done += 1;
        Ok(became(measured.cell.discarded.is_some()))
    }

    fn tell(&self, block: u32, arm: usize) {
        let (facts, one) = (&self.plan.facts, self.plan.warm_up + self.plan.measured);
        let each = if self.measured == 0 { one } else { self.start.elapsed() / self.measured };
        let left_s = (each * facts.cells_planned().saturating_sub(self.done)).as_secs();
        let words = format!(
            "block {} of {} · {} · {} left",
            block + 1,
            facts.blocks + facts.further_blocks,
            facts.arms[arm].id,
            humantime::format_duration(Duration::from_secs(left_s))
        );
        self.progress.show(one * self.done, words);
    }
}

/// A number for each arm's boot: the same where they want the same options.
fn boots(plan: &StudyPlan, arms: &[usize]) -> Vec<usize> {
    let mut known: Vec<&Vec<String>> = Vec::new();
    let mut number = |words| match known.iter().position(|one| *one == words) {
        Some(at) => at,
        None => {
            known.push(words);
            known.len() - 1
        }
    };
    arms.iter().map(|arm| number(&plan.settings[*arm].boot)).collect()
}
