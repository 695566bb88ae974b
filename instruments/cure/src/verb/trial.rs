//! Blocks with and without remedies, in random order, by one turn at the journal.

use super::choice::Candidate;
use super::site::Site;
use anyhow::Context;
use quaver_cure_analysis::{Block, BlockFigures, Guard, block_order, gross_harm};
use quaver_host::settings::contact;
use quaver_host::settings::journal::{Fate, Outcome, Session, Undone};
use quaver_host::settings::knob::Change;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use std::time::{Duration, Instant};

/// What was set for a block, and what each setting said then.
type InForce = Vec<(Change, Vec<u8>)>;

/// Remedies being tried.
pub(super) struct Trial<'a> {
    pub(super) site: &'a Site<'a>,
    pub(super) session: &'a mut Session,
    /// Blocks without a remedy so far, those before the trial included.
    pub(super) bare: Vec<BlockFigures>,
    pub(super) interrupt: &'a Interrupt,
    pub(super) progress: &'a Progress,
    pub(super) began: Instant,
}

/// An arm of a trial: settings that are tried together.
#[derive(Clone, Debug, Default)]
pub(super) struct Arm {
    pub(super) name: String,
    pub(super) changes: Vec<Change>,
    /// The guard that it harmed grossly.
    pub(super) harmed: Option<Guard>,
    /// Why it is tried no more.
    pub(super) withdrawn: Option<String>,
}

impl Arm {
    pub(super) fn of(candidate: &Candidate) -> Self {
        Self { name: candidate.remedy.id.clone(), changes: candidate.changes.clone(), ..Self::default() }
    }
}

impl Trial<'_> {
    /// Goes through all rounds, and says whether the user let it. Void blocks stay in the list. Without an arm left it ends.
    /// Nothing of it is in force afterwards.
    pub(super) fn rounds(
        &mut self,
        arms: &mut [Arm],
        (rounds, length, seed): (u32, Duration, u64),
    ) -> anyhow::Result<(Vec<Block>, bool)> {
        let mut blocks: Vec<Block> = Vec::new();
        for round in 0..rounds {
            if arms.iter().all(|arm| arm.withdrawn.is_some()) {
                break;
            }
            for arm in block_order(seed, round, arms.len() + 1) {
                let name = arm.checked_sub(1).map_or("no remedy", |at| &arms[at].name);
                let words = format!("round {} of {rounds} · {name}", round + 1);
                self.progress.show(self.began.elapsed(), words);
                let Some(at) = arm.checked_sub(1) else {
                    let Some(figures) = self.site.block(length)? else { return Ok((blocks, false)) };
                    self.bare.push(figures);
                    blocks.push(Block { round, arm, figures: Some(figures), void: None });
                    continue;
                };
                if arms[at].withdrawn.is_some() {
                    continue;
                }
                let Some(block) = self.one(&mut arms[at], (round, arm), length)? else {
                    return Ok((blocks, false));
                };
                blocks.push(block);
            }
        }
        Ok((blocks, true))
    }

    /// One block of an arm; none where the user ended it. Its settings are in force for the block alone.
    fn one(
        &mut self,
        arm: &mut Arm,
        (round, number): (u32, usize),
        length: Duration,
    ) -> anyhow::Result<Option<Block>> {
        let void = |reason: String| Block { round, arm: number, figures: None, void: Some(reason) };
        let (in_force, refused) = self.set(&arm.changes)?;
        if let Some(reason) = refused {
            self.put_back()?;
            arm.withdrawn = Some(reason.clone());
            return Ok(Some(void(reason)));
        }
        let measured = self.site.block(length);
        let changed = self.changed_by_others(&in_force)?;
        let undone = self.put_back()?;
        let foreign = undone
            .iter()
            .find(|one| matches!(one.fate, Fate::Foreign { .. }))
            .map(|one| one.knob.to_string());
        let Some(figures) = measured? else { return Ok(None) };
        if let Some(knob) = changed.or(foreign) {
            let reason = format!("somebody else changed {knob} meanwhile, so it is left alone from then on");
            arm.withdrawn = Some(reason.clone());
            return Ok(Some(void(reason)));
        }
        if let Some(guard) = gross_harm(&self.bare, &figures) {
            arm.harmed = Some(guard);
            arm.withdrawn = Some(format!("it harmed {}, and was taken back at once", guard.words()));
        }
        Ok(Some(Block { round, arm: number, figures: Some(figures), void: None }))
    }

    /// Sets everything, and says what was refused.
    pub(super) fn set(&mut self, changes: &[Change]) -> anyhow::Result<(InForce, Option<String>)> {
        let (site, session) = (self.site, &mut *self.session);
        site.within(|| {
            let mut in_force = Vec::new();
            for change in changes {
                match session.apply(change) {
                    Ok(applied) if matches!(applied.outcome, Outcome::NotTaken) => {
                        return Ok((in_force, Some(format!("{}: the write changed nothing", change.knob))));
                    }
                    Ok(_) => {
                        let says = contact::read(session.contact(), &change.knob)?;
                        in_force.push((change.clone(), says));
                    }
                    Err(error) if session.is_broken() => return Err(error.into()),
                    Err(error) => return Ok((in_force, Some(error.to_string()))),
                }
            }
            Ok((in_force, None))
        })?
    }

    /// The first setting that no longer says what it said when it was set.
    fn changed_by_others(&self, in_force: &InForce) -> anyhow::Result<Option<String>> {
        let (site, session) = (self.site, &*self.session);
        site.within(|| {
            let differs = |(change, said): &&(Change, Vec<u8>)| {
                contact::read(session.contact(), &change.knob)
                    .map_or(true, |says| !change.knob.same(&says, said))
            };
            in_force.iter().find(differs).map(|(change, _)| change.knob.to_string())
        })
    }

    /// Puts back what is in force.
    pub(super) fn put_back(&mut self) -> anyhow::Result<Vec<Undone>> {
        let (site, session) = (self.site, &mut *self.session);
        let undone = site.within(|| session.put_back())?.context("putting settings back")?;
        match undone.iter().find(|one| matches!(one.fate, Fate::Pending { .. })) {
            Some(left) => {
                let message = format!("{} is not as it was; see quaver tune status", left.knob);
                Err(failure(ExitCode::Output, message))
            }
            None => Ok(undone),
        }
    }

    /// Ends it where the user asked for that.
    pub(super) fn interrupted(&self) -> bool {
        self.interrupt.requested()
    }
}
