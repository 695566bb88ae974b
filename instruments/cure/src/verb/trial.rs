//! Blocks with and without remedies, in random order, by one turn at the journal.

use super::choice::Candidate;
use anyhow::Context;
use quaver_cure_analysis::{
    Block, BlockFigures, Guard, Harm, Settled, block_order, gross_harm, harm_so_far, settled,
};
use quaver_host::root::HostRoot;
use quaver_host::settings::journal::{Fate, Outcome, Session, Undone};
use quaver_host::settings::knob::{Change, Knob};
use quaver_host::settings::writers::{Writer, Writers};
use quaver_host::settings::{TuneError, contact};
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What was set for a block, and what each setting said then.
type InForce = Vec<(Change, Vec<u8>)>;

/// Where blocks are measured.
pub(super) trait Place {
    /// Runs `body` where the receiver's interface is to be seen.
    fn within<T: Send>(&self, body: impl FnOnce() -> T + Send) -> anyhow::Result<T>;

    /// Measures one block.
    fn block(&self, length: Duration) -> anyhow::Result<BlockEnd>;

    /// The thread whose CPUs and class a program inherits that it starts.
    fn launcher(&self) -> Option<u32> {
        None
    }

    /// What a reader has to know of all blocks together.
    fn remarks(&self) -> Option<String> {
        None
    }

    /// Whether the receiver's interface goes when this does.
    fn interface_of_ours(&self) -> bool;
}

/// How a block ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum BlockEnd {
    /// With figures.
    Measured(BlockFigures),
    /// Without, for a reason that is none of its remedy's.
    Void(String),
    /// The user ended it.
    Interrupted,
}

/// Remedies being tried.
pub(super) struct Trial<'a, P> {
    pub(super) site: &'a P,
    pub(super) session: &'a mut Session,
    /// Blocks without a remedy so far, those before the trial included.
    pub(super) bare: Vec<BlockFigures>,
    /// Settings that are in force in each block: those of the remedies that were found before.
    pub(super) base: Vec<Change>,
    /// What somebody else wrote during a block, which is set no more, and in what words that is said.
    pub(super) left_alone: BTreeMap<Knob, String>,
    pub(super) interrupt: &'a Interrupt,
    pub(super) progress: &'a Progress,
    pub(super) began: Instant,
}

/// An arm of a trial: settings that are tried together.
#[derive(Clone, Debug, Default)]
pub(super) struct Arm {
    pub(super) name: String,
    pub(super) changes: Vec<Change>,
    /// The guard that one of its blocks broke grossly.
    pub(super) broke: Option<Guard>,
    /// The guard that it harmed: grossly in two blocks, or evidently over the rounds of its trial.
    pub(super) harmed: Option<Harm>,
    /// Why it is tried no more, and not kept.
    pub(super) withdrawn: Option<String>,
    /// Why its trial ended before the last round.
    pub(super) settled: Option<Settled>,
}

/// How rounds go.
#[derive(Clone, Copy)]
pub(super) struct Rounds {
    /// Number of the first.
    pub(super) first: u32,
    pub(super) count: u32,
    pub(super) length: Duration,
    pub(super) seed: u64,
    /// What ends them before the last. None of a proof, which has all its rounds.
    pub(super) limit: Option<Limit>,
}

/// A trial ends a remedy once enough is known of it, and all of them where only the time for the proof is left: what it has found
/// by then is as valid, since e-values may be looked at after each round.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    /// The time given, from the cure's begin.
    pub(super) given: Duration,
    pub(super) proof_blocks: u32,
}

impl Limit {
    /// Whether the proof needs what is left, after so many blocks of a trial that took `spent`.
    pub(super) fn is_reached(self, elapsed: Duration, spent: Duration, blocks: usize) -> bool {
        let block = spent / u32::try_from(blocks.max(1)).unwrap_or(u32::MAX);
        elapsed + block * self.proof_blocks > self.given
    }
}

/// How rounds ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoundsEnd {
    /// After the last, or without an arm left.
    Whole,
    /// By their limit, after so many.
    TimeOver(u32),
    /// By the user.
    Interrupted,
}

impl Arm {
    pub(super) fn of(candidate: &Candidate) -> Self {
        Self { name: candidate.remedy.id.clone(), changes: candidate.changes.clone(), ..Self::default() }
    }

    pub(super) const fn is_tried(&self) -> bool {
        self.withdrawn.is_none() && self.settled.is_none()
    }

    /// Withdraws it for harm.
    fn take_back(&mut self, harm: Harm) {
        self.withdrawn = Some(format!("it harmed {}; it was taken back at once", harm.words()));
        self.harmed = Some(harm);
    }

    /// Withdraws it where it sets what somebody else wrote.
    fn leave_alone(&mut self, left_alone: &BTreeMap<Knob, String>) {
        let mut written = self.changes.iter().filter_map(|change| left_alone.get(&change.knob));
        if let Some(reason) = written.next() {
            self.withdrawn.get_or_insert_with(|| reason.clone());
        }
    }
}

impl<P: Place> Trial<'_, P> {
    /// Goes through all rounds, unless something ends them before. Void blocks stay in the list. Nothing of it is in force
    /// afterwards.
    pub(super) fn rounds(
        &mut self,
        arms: &mut [Arm],
        design: Rounds,
    ) -> anyhow::Result<(Vec<Block>, RoundsEnd)> {
        let Rounds { first, count: rounds, length, seed, limit } = design;
        let started = Instant::now();
        let mut blocks: Vec<Block> = Vec::new();
        let mut none = Arm { name: "no remedy".to_owned(), ..Arm::default() };
        // Watched once: the kernel takes its time to let go of a watch.
        let all = self.base.iter().chain(arms.iter().flat_map(|arm| &arm.changes));
        let mut writers = self.watch(all.cloned().collect())?;
        for round in 0..rounds {
            if !arms.iter().any(Arm::is_tried) || !none.is_tried() {
                break;
            }
            let over = |limit: Limit| limit.is_reached(self.began.elapsed(), started.elapsed(), blocks.len());
            if limit.is_some_and(over) {
                return Ok((blocks, RoundsEnd::TimeOver(round)));
            }
            let (begun, base) = (blocks.len(), self.base.len());
            for number in block_order(seed, first + round, arms.len() + 1) {
                let arm = number.checked_sub(1).map_or(&mut none, |at| &mut arms[at]);
                let words = format!("round {} of {rounds} · {}", round + 1, arm.name);
                self.progress.show(self.began.elapsed(), words);
                if !arm.is_tried() {
                    continue;
                }
                let place = (first + round, number);
                let Some(block) = self.one(arm, place, length, writers.as_mut())? else {
                    return Ok((blocks, RoundsEnd::Interrupted));
                };
                blocks.push(block);
                arms.iter_mut().for_each(|arm| arm.leave_alone(&self.left_alone));
                if self.base.len() < base {
                    // Its blocks have no longer the same beside them.
                    void_all(&mut blocks[begun..]);
                    break;
                }
            }
            let remedies = arms.len();
            for (at, arm) in arms.iter_mut().enumerate().filter(|(_, arm)| limit.is_some() && arm.is_tried())
            {
                if let Some(harm) = harm_so_far(&blocks, at + 1) {
                    arm.take_back(harm);
                    continue;
                }
                arm.settled = settled(&blocks, at + 1, remedies, rounds - round - 1);
            }
        }
        Ok((blocks, RoundsEnd::Whole))
    }

    /// One block of an arm; none where the user ended it. Its settings are in force for the block alone.
    fn one(
        &mut self,
        arm: &mut Arm,
        (round, number): (u32, usize),
        length: Duration,
        mut writers: Option<&mut Writers>,
    ) -> anyhow::Result<Option<Block>> {
        let void = |reason: String| Block { round, arm: number, figures: None, void: Some(reason) };
        let changes = [&self.base[..], &arm.changes].concat();
        // What was written before is no matter of this block.
        let mut heard = || writers.as_mut().and_then(|writers| writers.others().ok());
        heard();
        let (in_force, refused) = self.set(&changes)?;
        if let Some(reason) = refused {
            self.put_back()?;
            arm.withdrawn = Some(reason.clone());
            return Ok(Some(void(reason)));
        }
        let measured = self.site.block(length);
        let paths = self.paths(&changes);
        let others = heard().map(|mut others| {
            others.retain(|writer| paths.contains(&writer.path));
            others
        });
        let changed = self.changed_by_others(&in_force)?;
        let undone = self.put_back()?;
        let forgotten = |one: &Undone| matches!(one.fate, Fate::Forgotten { .. });
        let foreign = undone.into_iter().find(forgotten).map(|one| one.knob);
        let theirs = written(changed.or(foreign), others, &changes, self.session.contact().root());
        let measured = measured?;
        if let Some((knob, reason)) = theirs {
            self.leave_alone(knob, &reason);
            return Ok(Some(void(reason)));
        }
        let figures = match measured {
            BlockEnd::Measured(figures) => figures,
            BlockEnd::Void(reason) => return Ok(Some(void(reason))),
            BlockEnd::Interrupted => return Ok(None),
        };
        if number == 0 {
            self.bare.push(figures.clone());
        }
        let gross = gross_harm(&self.bare, &figures);
        // One block alone may have had another reason than its remedy.
        if let Some(harm) = gross.filter(|harm| arm.broke.replace(harm.guard) == Some(harm.guard)) {
            arm.take_back(harm);
        }
        Ok(Some(Block { round, arm: number, figures: Some(figures), void: None }))
    }

    /// Sets a knob no more, nor what was found to help by it.
    fn leave_alone(&mut self, knob: Knob, reason: &str) {
        let row = self.base.iter().find(|change| change.knob == knob).map(|change| change.row.clone());
        if let Some(row) = row {
            self.base.retain(|change| change.row != row);
        }
        self.left_alone.insert(knob, reason.to_owned());
    }

    /// Sets everything, and says what was refused.
    pub(super) fn set(&mut self, changes: &[Change]) -> anyhow::Result<(InForce, Option<String>)> {
        let (site, session) = (self.site, &mut *self.session);
        site.within(|| set_all(session, changes))?
    }

    /// Watches who else writes the files of these settings; none where the host does not let that be seen.
    fn watch(&self, changes: Vec<Change>) -> anyhow::Result<Option<Writers>> {
        let paths = self.paths(&changes);
        self.site.within(|| Writers::watch(paths).ok())
    }

    /// Files of these settings.
    fn paths(&self, changes: &[Change]) -> Vec<PathBuf> {
        let root = self.session.contact().root();
        changes.iter().filter_map(|change| change.knob.path()).map(|path| root.path(&path)).collect()
    }

    /// The first setting that no longer says what it said when it was set.
    fn changed_by_others(&self, in_force: &InForce) -> anyhow::Result<Option<Knob>> {
        let (site, session) = (self.site, &*self.session);
        site.within(|| changed(session, in_force))
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

/// Sets all of this. Threads that have ended have nothing to be set.
fn set_all(session: &mut Session, changes: &[Change]) -> anyhow::Result<(InForce, Option<String>)> {
    let mut in_force = Vec::new();
    for change in changes {
        match session.apply(change) {
            Ok(applied) if matches!(applied.outcome, Outcome::NotTaken) => {
                return Ok((in_force, Some(format!("{}: the write changed nothing", change.knob))));
            }
            Ok(_) => match contact::read(session.contact(), &change.knob) {
                Ok(says) => in_force.push((change.clone(), says)),
                Err(error) if has_ended(change, &error) => {}
                Err(error) => return Err(error.into()),
            },
            Err(error) if session.is_broken() => return Err(error.into()),
            Err(error) if has_ended(change, &error) => {}
            Err(error) => return Ok((in_force, Some(error.to_string()))),
        }
    }
    let nothing = in_force.is_empty() && !changes.is_empty();
    Ok((in_force, nothing.then(|| "none of the threads that it changes is left".to_owned())))
}

/// The first of these settings that somebody else changed.
fn changed(session: &Session, in_force: &InForce) -> Option<Knob> {
    let differs = |(change, said): &&(Change, Vec<u8>)| match contact::read(session.contact(), &change.knob) {
        Ok(says) => !change.knob.same(&says, said),
        Err(error) => !has_ended(change, &error),
    };
    in_force.iter().find(differs).map(|(change, _)| change.knob.clone())
}

/// Makes each of these blocks void for the reason of the last.
fn void_all(blocks: &mut [Block]) {
    let reason = blocks.last().and_then(|block| block.void.clone());
    for block in blocks {
        block.figures = None;
        block.void.clone_from(&reason);
    }
}

/// The setting that somebody else wrote during a block, and what to say of it. `others` is none where nobody could watch.
fn written(
    changed: Option<Knob>,
    others: Option<Vec<Writer>>,
    changes: &[Change],
    root: &HostRoot,
) -> Option<(Knob, String)> {
    let end = "so it is left alone from then on";
    let others = others.unwrap_or_default();
    let path_of = |knob: &Knob| knob.path().map(|path| root.path(&path));
    let Some(knob) = changed else {
        let writer = others.first()?;
        let of_writer = |change: &&Change| path_of(&change.knob).as_ref() == Some(&writer.path);
        let knob = changes.iter().find(of_writer)?.knob.clone();
        let reason = format!("{writer} wrote {knob} meanwhile, {end}");
        return Some((knob, reason));
    };
    let path = path_of(&knob);
    let who = others.iter().find(|writer| Some(&writer.path) == path.as_ref());
    let reason = match who {
        Some(writer) => format!("{writer} changed {knob} meanwhile, {end}"),
        None => format!("somebody else changed {knob} meanwhile (by whom is not known), {end}"),
    };
    Some((knob, reason))
}

/// Whether this is a setting of a thread that is no more.
fn has_ended(change: &Change, error: &TuneError) -> bool {
    let of_thread = matches!(change.knob, Knob::Thread { .. } | Knob::Class { .. });
    of_thread && matches!(error, TuneError::Vanished { .. })
}

#[cfg(test)]
mod killed;

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_host::settings::Journal;
    use quaver_host::settings::fake::FakeMachine;

    const FILE: &str = "proc/sys/vm/compaction_proactiveness";

    fn machine() -> FakeMachine {
        let machine = FakeMachine::new(&[("sys/devices/system/cpu/online", "0-1\n"), (FILE, "20\n")]);
        for tid in [80, 81] {
            machine.file(&format!("proc/{tid}/status"), "Name:\tit\nCpus_allowed_list:\t0-1\n");
            machine.file(&format!("proc/{tid}/stat"), &format!("{tid} (it) S 1 {tid} 0 0 0 0 0 0 0 0 0 0\n"));
        }
        machine
    }

    fn elsewhere(tid: u32) -> Change {
        Change::new(Knob::Thread { tid }, "0")
    }

    #[test]
    fn a_thread_that_has_ended_hinders_no_remedy_and_is_nobodys_write() {
        let machine = machine();
        let mut session = Journal::open(&machine.place()).session("cure").unwrap();
        machine.remove("proc/80");
        let (in_force, refused) = set_all(&mut session, &[elsewhere(80), elsewhere(81)]).unwrap();
        assert_eq!((in_force.len(), refused), (1, None));
        assert_eq!(changed(&session, &in_force), None);
        machine.remove("proc/81");
        assert_eq!(changed(&session, &in_force), None);
        let (_, refused) = set_all(&mut session, &[elsewhere(80), elsewhere(81)]).unwrap();
        assert_eq!(refused.as_deref(), Some("none of the threads that it changes is left"));
    }

    #[test]
    fn a_write_by_somebody_else_is_seen_and_so_is_a_file_that_went() {
        let machine = machine();
        let mut session = Journal::open(&machine.place()).session("cure").unwrap();
        let change = Change::new(Knob::file(format!("/{FILE}")), "0");
        let (in_force, refused) = set_all(&mut session, &[change]).unwrap();
        assert_eq!((refused, changed(&session, &in_force)), (None, None));
        machine.file(FILE, "50\n");
        let knob = in_force[0].0.knob.clone();
        assert_eq!(changed(&session, &in_force), Some(knob.clone()));
        let root = machine.root();
        let of = |path: &str, command: Option<&str>| {
            let (path, command) = (root.path(path), command.map(str::to_owned));
            Some(vec![Writer { path, process: 9, command }])
        };
        let changes: Vec<Change> = in_force.iter().map(|(change, _)| change.clone()).collect();
        let said = |changed: Option<&Knob>, others| {
            let theirs = written(changed.cloned(), others, &changes, &root);
            theirs.map_or_else(
                String::new,
                |(theirs, reason)| if theirs == knob { reason } else { theirs.to_string() },
            )
        };
        assert_eq!(
            said(Some(&knob), of(FILE, Some("tuned"))),
            format!("tuned (process 9) changed {knob} meanwhile, so it is left alone from then on")
        );
        // Who wrote another file need not have changed this one.
        for others in [of("proc/sys/vm/swappiness", Some("tuned")), Some(Vec::new()), None] {
            assert!(
                said(Some(&knob), others).starts_with(&format!("somebody else changed {knob} meanwhile (by"))
            );
        }
        assert!(said(None, of(FILE, None)).starts_with("process 9 (which has ended) wrote vm."));
        assert_eq!(said(None, Some(Vec::new())), "");
        machine.remove(FILE);
        assert_eq!(changed(&session, &in_force), Some(knob));
    }
}
