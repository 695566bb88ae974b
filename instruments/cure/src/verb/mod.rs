//! `quaver cure`: measure, choose, try, prove, keep.

mod burden;
mod choice;
mod keep;
mod of_program;
mod of_threads;
mod program;
#[cfg(test)]
mod simulated;
mod site;
mod trial;

use crate::args::CureArgs;
use crate::objective::Objective;
use crate::runs::CureDigest;
use crate::summary::{CURE_SCHEMA, CureSummary, NotTried, Proof, Remedy};
use crate::view;
use anyhow::Context;
use choice::Candidate;
use of_threads::{OTHERS_ELSEWHERE, RECEIVER_CLASS};
use quaver_cure_analysis::{
    BlockFigures, Harm, Settled, TrialPlan, TrialVerdict, judge, judge_proof, least_time, more_rounds, plan,
    plan_runs, smallest_detectable,
};
use quaver_host::facts::HostFacts;
use quaver_host::root::HostRoot;
use quaver_host::settings::journal::{DIRECTORY, Session};
use quaver_host::settings::knob::Knob;
use quaver_host::settings::{Journal, JournalPlace};
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::facts::run_facts;
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_instrument::registry::Analyzed;
use quaver_instrument::results;
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use quaver_tune::profile;
use quaver_tune::verb::lease;
use quaver_view::Cell;
use serde_json::json;
use site::{Found, Site};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};
use trial::{Arm, BlockEnd, Limit, Place, Rounds, RoundsEnd, Trial};

/// Bare blocks before the plan is made: they show how blocks differ and how long one takes.
const BARE_BLOCKS: u32 = 5;
/// Their length.
const BARE_LENGTH: Duration = Duration::from_millis(500);
/// The proof draws its order from another seed.
const PROOF: u64 = 0x7072_6f6f_6600;

/// Does what is asked for.
pub fn run(args: &CureArgs) -> anyhow::Result<ExitCode> {
    check(args)?;
    let interrupt = Interrupt::catch()?;
    let place = JournalPlace::at(args.journal.as_deref().unwrap_or(Path::new(DIRECTORY)), HostRoot::system());
    // From here to the end no other verb can change settings, so that a second cure ends at once.
    let session = (!args.dry_run)
        .then(|| Journal::open(&place).session("cure"))
        .transpose()
        .context("changing settings")?;
    let (run, mut manifest) = begin(args)?;
    let began = Instant::now();
    let progress = Progress::timed(args.chase.duration, args.chase.output.quiet);
    let directory = run.path().join("measured");
    let cure = Cure {
        args,
        site: Site::open(args, &directory, &interrupt)?,
        interrupt: &interrupt,
        progress: &progress,
        began,
        run: &run,
    };
    let (mut summary, kept) = cure.all(&place, session)?;
    summary.warnings.extend(cure.site.remarks());
    drop(cure);
    drop(progress);
    let interrupted = interrupt.requested();
    manifest.end(quaver_clock::realtime_ns(), interrupted.then(|| "interrupted by the user".to_owned()));
    run.write_manifest(&manifest)?;
    let digest = CureDigest { facts: run_facts(&run, &manifest), summary };
    digest.store(&run)?;
    let output = &args.chase.output;
    let value = digest.summary()?;
    let page = digest.page(&run)?;
    let found = results::Found::of_run(&value, &run).ended(interrupted.then_some(ExitCode::Interrupted));
    let status = results::print(&found, || page, output.json, &output.fail_if)?;
    if args.persist && digest.summary.persisted.is_none() && !digest.summary.kept.is_empty() {
        return Ok(ExitCode::Output);
    }
    match args.keep_for {
        Some(time) => Ok(lease::end(&place, kept, time, &interrupt)?.unwrap_or(status)),
        None => Ok(status),
    }
}

/// Refuses what cannot be done before anything is measured.
fn check(args: &CureArgs) -> anyhow::Result<()> {
    let unknown = |id: &&String| {
        let of_threads = [RECEIVER_CLASS, OTHERS_ELSEWHERE].contains(&id.as_str());
        let of_program = of_program::ALL.contains(&id.as_str());
        !of_threads && !of_program && quaver_tune::catalogue::row(id).is_none()
    };
    if let Some(id) = args.only.iter().chain(&args.except).find(unknown) {
        let message = format!("{id}: unknown source; quaver tune audit lists them");
        return Err(failure(ExitCode::Usage, message));
    }
    let objective = args.objective();
    if args.noise()?.is_some() != objective.is_of_loops() {
        let message =
            "--objective noise-share is of loops (quaver cure noise CPUS), and every other one of a stream";
        return Err(failure(ExitCode::Usage, message));
    }
    if args.program.is_empty() == objective.is_of_program() {
        let message = "--objective run-time and sync-share are of programs (quaver cure -- PROGRAM), and no other one is";
        return Err(failure(ExitCode::Usage, message));
    }
    if (objective == Objective::DeadlineMisses) != args.deadline.is_some() {
        let message = "--objective deadline-misses and --deadline TIME need each other";
        return Err(failure(ExitCode::Usage, message));
    }
    if args.persist {
        profile::check_host(&args.persist_below)?;
    }
    if !args.dry_run && !args.yes && !std::io::stdin().is_terminal() {
        let message = "there is no terminal to confirm the plan at: add --yes to go on without asking, or --dry-run to \
                       see the plan";
        return Err(failure(ExitCode::Usage, message));
    }
    Ok(())
}

fn begin(args: &CureArgs) -> anyhow::Result<(RunDir, Manifest)> {
    let host = HostFacts::read(&HostRoot::system());
    let run = RunDir::create(&args.chase.output.output, "cure")?;
    let asked = json!({ "command": quaver_instrument::recording::command_line() });
    let host = serde_json::to_value(&host)?;
    let manifest =
        Manifest::begin(env!("CARGO_PKG_VERSION"), "cure", asked, host, quaver_clock::realtime_ns());
    run.write_manifest(&manifest)?;
    Ok((run, manifest))
}

/// How the time is spent, blocks without a remedy before it, and what a block takes beside what it measures.
type Planned = (TrialPlan, Vec<BlockFigures>, Duration);

/// A cure under way.
struct Cure<'a, P> {
    args: &'a CureArgs,
    site: P,
    interrupt: &'a Interrupt,
    progress: &'a Progress,
    began: Instant,
    run: &'a RunDir,
}

/// What a cure found and did, and the settings that it kept.
type Cured = (CureSummary, BTreeSet<Knob>);

impl Cure<'_, Site<'_>> {
    fn all(&self, place: &JournalPlace, session: Option<Session>) -> anyhow::Result<Cured> {
        let length =
            (self.args.chase.duration / 16).clamp(Duration::from_millis(500), Duration::from_secs(20));
        self.progress.say("finding causes");
        let found = self.site.find_causes(length)?;
        let mut summary = self.summary(&found);
        if self.interrupt.requested() {
            return Ok(ended(summary, "it was interrupted before anything was set"));
        }
        let mut candidates = self.choose(place, &found, &mut summary)?;
        let Some(planned) = self.plan(&mut candidates, &mut summary)? else { return Ok(unchanged(summary)) };
        summary.complete = true;
        if self.args.dry_run {
            return Ok(ended(summary, "this was a dry run, so nothing was set"));
        }
        if !self.confirmed(&summary)? {
            return Ok(ended(summary, "the plan was not confirmed, so nothing was set"));
        }
        let Some(session) = session else { return Ok(unchanged(summary)) };
        self.try_and_prove(session, planned, &candidates, summary)
    }

    fn choose(
        &self,
        place: &JournalPlace,
        found: &Found,
        summary: &mut CureSummary,
    ) -> anyhow::Result<Vec<Candidate>> {
        let of_program = self.site.launcher().zip(found.studied.as_ref());
        let choice = self.site.within(|| {
            if let Some((launcher, studied)) = of_program {
                return of_program::choose(self.args, place.contact(), launcher, &found.target, studied);
            }
            let mut choice = choice::choose(self.args, place.contact(), &found.target, &found.costs);
            of_threads::add(self.args, place.contact(), &found.target, &found.involved, &mut choice);
            choice
        })?;
        summary.not_tried = choice.not_tried;
        left_out(std::iter::empty(), summary);
        Ok(choice.candidates)
    }

    /// Plans the rest of the time; none where there is nothing to try.
    fn plan(
        &self,
        candidates: &mut Vec<Candidate>,
        summary: &mut CureSummary,
    ) -> anyhow::Result<Option<Planned>> {
        if candidates.is_empty() {
            summary.complete = true;
            summary.outcome = "no remedy for what was found is permitted here".to_owned();
            return Ok(None);
        }
        let (bare, overhead) = match self.bare_blocks()? {
            Some(measured) => measured,
            None => {
                summary.outcome = "it was interrupted before anything was set".to_owned();
                return Ok(None);
            }
        };
        let left = self.args.chase.duration.saturating_sub(self.began.elapsed());
        // Where several may help together, time is left to try them beside each other.
        let first = if candidates.len() > 1 { left * 2 / 3 } else { left };
        let of_program = !self.args.program.is_empty();
        let plan_of = if of_program { plan_runs } else { plan };
        let plan = plan_of(candidates.len(), first, overhead).or_else(|| plan_of(1, left, overhead));
        let Some(plan) = plan else {
            summary.complete = true;
            let least = self.began.elapsed() + least_time(overhead);
            left_out(candidates.drain(..), summary);
            let (what, beside) = if of_program { ("run", "") } else { ("block", " beside what it measures") };
            summary.outcome = format!(
                "the time does not suffice to try one remedy and prove it, since a {what} takes {} here{beside}: --for {}s is \
                 the least",
                Cell::Duration(i64::try_from(overhead.as_nanos()).unwrap_or(i64::MAX)),
                (least.as_secs_f64() * 1.2).ceil()
            );
            return Ok(None);
        };
        left_out(candidates.drain(plan.remedies..), summary);
        // A longer block differs less; a run is a run.
        let longer = if of_program { 1.0 } else { BARE_LENGTH.as_nanos() as f64 / plan.block_ns as f64 };
        let sd = deviation(&bare.iter().map(|one| one.objective).collect::<Vec<_>>()) * longer.sqrt();
        let overhead = if of_program { Duration::ZERO } else { overhead };
        summary.smallest_detectable = smallest_detectable(sd, plan.rounds, plan.remedies);
        summary.plan = Some(plan);
        summary.remedies = candidates.iter().map(|one| one.remedy.clone()).collect();
        Ok(Some((plan, bare, overhead)))
    }

    /// Objectives of bare blocks, and the time that a block takes beside what it measures.
    fn bare_blocks(&self) -> anyhow::Result<Option<(Vec<BlockFigures>, Duration)>> {
        self.progress.say("learning how blocks differ");
        self.site.ready()?;
        let began = Instant::now();
        let mut bare: Vec<BlockFigures> = Vec::new();
        // A run of a program is as long as it is.
        let measured = if self.args.program.is_empty() { BARE_LENGTH } else { Duration::ZERO };
        let mut void = None;
        for done in 0..BARE_BLOCKS {
            // On a busy host two tell that the time does not suffice.
            if done > 1 && self.began.elapsed() > self.args.chase.duration {
                return Ok(Some((bare, (began.elapsed() / done).saturating_sub(measured))));
            }
            match self.site.block(BARE_LENGTH)? {
                BlockEnd::Measured(figures) => bare.push(figures),
                BlockEnd::Void(reason) => void = Some(reason),
                BlockEnd::Interrupted => return Ok(None),
            }
        }
        if let Some(reason) = void.filter(|_| bare.is_empty()) {
            return Err(failure(ExitCode::Peer, format!("no block could be measured: {reason}")));
        }
        let overhead = (began.elapsed() / BARE_BLOCKS).saturating_sub(measured);
        Ok(Some((bare, overhead)))
    }

    /// Says the plan, and asks unless told not to.
    fn confirmed(&self, summary: &CureSummary) -> anyhow::Result<bool> {
        let mut err = std::io::stderr().lock();
        if !self.args.chase.output.quiet {
            write!(err, "{}", view::plan_text(summary)).context("writing to standard error")?;
        }
        if self.args.yes {
            return Ok(true);
        }
        write!(err, "Try these settings now? [y/N] ").and_then(|()| err.flush()).context("asking")?;
        let mut answer = String::new();
        std::io::stdin().lock().read_line(&mut answer).context("reading the answer")?;
        Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
    }
}

impl<P: Place> Cure<'_, P> {
    fn summary(&self, found: &Found) -> CureSummary {
        let seed = self.args.seed.unwrap_or_else(|| quaver_clock::realtime_ns().unsigned_abs() & 0xffff_ffff);
        CureSummary {
            schema: CURE_SCHEMA.to_owned(),
            objective: self.args.objective(),
            allow: self.args.allow,
            seed,
            cpus: found.target.cpus.clone(),
            interface: found.target.interface.clone(),
            interface_of_ours: self.site.interface_of_ours(),
            measured: found.measured.clone(),
            causes: found.causes.clone(),
            plan: None,
            smallest_detectable: None,
            remedies: Vec::new(),
            not_tried: Vec::new(),
            proof: None,
            kept: Vec::new(),
            persisted: None,
            program: self.args.program.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            command: None,
            advice: found.studied.as_ref().map_or_else(Vec::new, |studied| studied.advice.clone()),
            outcome: String::new(),
            complete: false,
            trial_blocks: Vec::new(),
            proof_blocks: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn try_and_prove(
        &self,
        mut session: Session,
        (plan, bare, overhead): Planned,
        candidates: &[Candidate],
        mut summary: CureSummary,
    ) -> anyhow::Result<Cured> {
        let length = Duration::from_nanos(plan.block_ns);
        let (site, interrupt, progress, began) = (&self.site, self.interrupt, self.progress, self.began);
        let base = Vec::new();
        let left_alone = BTreeMap::new();
        let mut trial =
            Trial { site, session: &mut session, bare, base, left_alone, interrupt, progress, began };
        summary.complete = false;
        let Some(helping) = self.choose_by_trial(&mut trial, (plan, overhead), candidates, &mut summary)?
        else {
            return Ok(ended(summary, "it was interrupted, and every setting was put back"));
        };
        if helping.is_empty() {
            summary.complete = true;
            // What harms and does not even help is one more that does not help.
            let helps = |one: &Remedy| one.effect.is_some_and(|effect| effect.difference < 0.0);
            let harmful = summary.remedies.iter().find(|one| one.harm.is_some() && helps(one));
            let outcome = harmful.map_or_else(
                || "no remedy was found to help, so none is set".to_owned(),
                |one| {
                    format!(
                        "no remedy helps without harm. Of {}: {}",
                        one.id,
                        one.withdrawn.as_deref().unwrap_or_default()
                    )
                },
            );
            return Ok(ended(summary, &outcome));
        }
        let helping: Vec<&Candidate> = helping.into_iter().map(|at| &candidates[at]).collect();
        trial.base.clear();
        let changes: Vec<_> = helping.iter().flat_map(|one| one.changes.clone()).collect();
        let mut together = [Arm { name: "all that helped".to_owned(), changes, ..Arm::default() }];
        let design =
            Rounds { first: 0, count: plan.proof_rounds, length, seed: summary.seed ^ PROOF, limit: None };
        let (blocks, end) = trial.rounds(&mut together, design)?;
        let (effect, verdict, harm) = judge_proof(&blocks, together[0].harmed.take());
        summary.proof_blocks = blocks;
        if end == RoundsEnd::Interrupted {
            return Ok(ended(summary, "it was interrupted, and every setting was put back"));
        }
        let harmed = harm.as_ref().map(Harm::words);
        summary.proof = Some(Proof { effect, verdict, harm });
        summary.complete = true;
        if let Some(reason) = &together[0].withdrawn {
            return Ok(ended(summary, &format!("what helped in the trial was not proven, since {reason}")));
        }
        if let Some(harmed) = harmed {
            let outcome = format!("what helped in the trial harmed {harmed}; all of it was taken back");
            return Ok(ended(summary, &outcome));
        }
        if verdict != TrialVerdict::Helps || trial.interrupted() {
            return Ok(ended(summary, "what helped in the trial was not proven afterwards, so none is set"));
        }
        self.keep(session, &helping, summary)
    }

    /// Tries all remedies; then, beside those that helped, again those that did not, as long as the time suffices: one cause may
    /// have hidden another. None where the user ended it.
    fn choose_by_trial(
        &self,
        trial: &mut Trial<'_, P>,
        (plan, overhead): (TrialPlan, Duration),
        candidates: &[Candidate],
        summary: &mut CureSummary,
    ) -> anyhow::Result<Option<Vec<usize>>> {
        let mut arms: Vec<Arm> = candidates.iter().map(Arm::of).collect();
        let mut helping: Vec<usize> = Vec::new();
        let length = Duration::from_nanos(plan.block_ns);
        let (mut first, mut rounds) = (0, Some(plan.rounds));
        while let Some(count) = rounds {
            let limit = Limit { given: self.args.chase.duration, proof_blocks: 2 * plan.proof_rounds };
            let design = Rounds { first, count, length, seed: summary.seed, limit: Some(limit) };
            let tried: Vec<bool> = arms.iter().map(Arm::is_tried).collect();
            let (blocks, end) = trial.rounds(&mut arms, design)?;
            let whole = end != RoundsEnd::Interrupted;
            let harmed: Vec<_> = arms.iter().map(|arm| arm.harmed.as_ref().map(|harm| harm.guard)).collect();
            let mut again = 0;
            let before = helping.len();
            for (at, (effect, verdict)) in judge(&blocks, &harmed).into_iter().enumerate() {
                let (arm, remedy) = (&mut arms[at], &mut summary.remedies[at]);
                if !tried[at] {
                    continue;
                }
                (remedy.effect, remedy.verdict) = (effect, whole.then_some(verdict));
                remedy.settled = arm.settled;
                remedy.harm.clone_from(&arm.harmed);
                match verdict {
                    TrialVerdict::Helps if arm.withdrawn.is_none() => {
                        trial.base.extend(arm.changes.clone());
                        arm.settled = Some(Settled::ForUse);
                        helping.push(at);
                    }
                    TrialVerdict::NoEffect if arm.withdrawn.is_none() => {
                        arm.settled = None;
                        again += 1;
                    }
                    _ => arm.settled = Some(Settled::ForFutility),
                }
            }
            summary.trial_blocks.extend(blocks);
            if !whole {
                return Ok(None);
            }
            // What was found before and somebody else wrote since helps no more.
            helping.retain(|at| arms[*at].withdrawn.is_none());
            for (arm, remedy) in arms.iter().zip(&mut summary.remedies) {
                remedy.withdrawn.clone_from(&arm.withdrawn);
            }
            if let RoundsEnd::TimeOver(done) = end {
                summary.warnings.push(format!(
                    "the trial ended after {done} of {count} rounds, since its blocks took longer than planned and the rest of \
                     the time is the proof's"
                ));
                break;
            }
            first += count;
            let left = self.args.chase.duration.saturating_sub(self.began.elapsed());
            rounds = more_rounds(&plan, again, left, overhead).filter(|_| helping.len() > before);
        }
        Ok(Some(helping))
    }
}

fn ended(summary: CureSummary, outcome: &str) -> Cured {
    unchanged(CureSummary { outcome: outcome.to_owned(), ..summary })
}

const fn unchanged(summary: CureSummary) -> Cured {
    (summary, BTreeSet::new())
}

/// Lists what finds no time among what is not tried, what costs most first.
fn left_out(candidates: impl Iterator<Item = Candidate>, summary: &mut CureSummary) {
    summary.not_tried.extend(candidates.map(|Candidate { remedy, .. }| NotTried {
        id: remedy.id,
        why: "the time does not suffice".to_owned(),
        how: "a longer --for, or --only".to_owned(),
        cause_share: remedy.cause_share,
    }));
    let share = |one: &NotTried| std::cmp::Reverse(one.cause_share.map(f64::to_bits));
    summary.not_tried.sort_by_key(share);
}

/// Standard deviation of a few values.
fn deviation(values: &[f64]) -> f64 {
    let mean = quaver_analysis::intervals::mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len().max(2) - 1) as f64).sqrt()
}
