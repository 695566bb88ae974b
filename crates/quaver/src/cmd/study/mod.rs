//! `quaver study`: a baseline, each source of lateness restored against it, and what each costs.

pub(in crate::cmd) mod asked;
pub(in crate::cmd) mod cell;
mod keep;
pub(in crate::cmd) mod lab;
mod neighbours;
pub(in crate::cmd) mod plan;
mod priority;
pub(in crate::cmd) mod settings;
mod tuned;

use crate::cli::LabKind;
use crate::cli::study::{StudyAction, StudyArgs, StudyRunArgs};
use crate::digest;
use crate::exit_code::{ExitCode, failure};
use crate::host_state::keep_off;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::report::units;
use anyhow::Context;
use asked::Asked;
use clap::ValueEnum;
use lab::{Lab, Order};
use plan::StudyPlan;
use quaver_analysis::study::block_order;
use quaver_measure::host::facts::HostFacts;
use quaver_measure::host::root::HostRoot;
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};
use tuned::Tuned;

/// Does what is asked for.
pub fn run(args: &StudyArgs) -> anyhow::Result<ExitCode> {
    match &args.action {
        StudyAction::Run(args) if args.print_plan => {
            super::results::to_stdout(plan::BUILT_IN.as_bytes())?;
            Ok(ExitCode::Done)
        }
        StudyAction::Run(args) => study(args),
    }
}

fn study(args: &StudyRunArgs) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::catch()?;
    let earlier = args.resume.as_deref().map(earlier).transpose()?;
    let asked = match &earlier {
        Some((_, _, asked)) => serde_json::from_value(asked.clone())?,
        None => Asked::of(args)?,
    };
    let kind = LabKind::from_str(&asked.lab, false).map_err(|error| failure(ExitCode::BadInput, error))?;
    let mut lab = lab::open(kind)?;
    let plan = asked.plan(&lab.cpus()?)?;
    check(&plan, lab.as_ref())?;
    let busy = plan.settings.iter().map(|one| one.sink_cpu).collect();
    keep_off(&busy).context("leaving the sink's CPU to the sink")?;
    let priority = priority::raise();
    let (run, mut manifest) = match earlier {
        Some((run, manifest, _)) => (run, manifest),
        None => begin(args, &asked, &plan, &lab.words(), &priority)?,
    };
    let _lock = keep::lock(&run)?;
    let cut_short = cells(&run, &plan, &asked, lab.as_mut(), &interrupt, args.output.quiet)?;
    manifest.end(quaver_measure::clock::realtime_ns(), cut_short);
    run.write_manifest(&manifest)?;
    let digest = digest::study::analyze(&run)?;
    digest.store(&run)?;
    let summary = serde_json::to_value(&digest.summary)?;
    let report = run.report().display().to_string();
    let page = || digest.page(Some(&report));
    let code = super::results::print(&summary, page, args.output.json, &args.output.fail_if)?;
    Ok(super::results::ended_early(&manifest, interrupt.requested()).unwrap_or(code))
}

/// A run to go on with.
fn earlier(path: &Path) -> anyhow::Result<(RunDir, Manifest, serde_json::Value)> {
    let run = RunDir::open(path)?;
    let manifest = run.read_manifest()?;
    let asked = manifest.asked.get("study").cloned().filter(|_| manifest.verb == "study");
    let asked = asked.ok_or_else(|| {
        failure(ExitCode::BadInput, format!("{} is a run of {}, not of study", path.display(), manifest.verb))
    })?;
    Ok((run, manifest, asked))
}

/// Refuses what cannot be done before anything is made.
fn check(plan: &StudyPlan, lab: &dyn Lab) -> anyhow::Result<()> {
    for (arm, settings) in plan.facts.arms.iter().zip(&plan.settings) {
        if let Some(reason) = lab.refuses(settings) {
            return Err(failure(ExitCode::Usage, format!("{}: {reason}", arm.id)));
        }
        if let Some(row) = Tuned::unknown(&settings.tune) {
            let message = format!("{}: tune: {row}: no such source; quaver tune audit lists them", arm.id);
            return Err(failure(ExitCode::BadInput, message));
        }
    }
    Ok(())
}

fn begin(
    args: &StudyRunArgs,
    asked: &Asked,
    plan: &StudyPlan,
    place: &str,
    priority: &str,
) -> anyhow::Result<(RunDir, Manifest)> {
    let host = HostFacts::read(&HostRoot::system());
    let run = RunDir::create(&args.output.output, "study")?;
    let stream = format!(
        "{} octets each {}, made here {place}",
        plan.payload_bytes,
        units::duration_f64(plan.facts.period_ns)
    );
    let asked = json!({
        "command": super::chase::command_line(),
        "stream": stream,
        "priority": priority,
        "study": asked,
        "facts": plan.facts,
    });
    let now_ns = quaver_measure::clock::realtime_ns();
    let manifest =
        Manifest::begin(env!("CARGO_PKG_VERSION"), "study", asked, serde_json::to_value(&host)?, now_ns);
    run.write_manifest(&manifest)?;
    Ok((run, manifest))
}

/// Measures the cells that are missing. Why it ended early, if it did.
fn cells(
    run: &RunDir,
    plan: &StudyPlan,
    asked: &Asked,
    lab: &mut dyn Lab,
    interrupt: &Interrupt,
    quiet: bool,
) -> anyhow::Result<Option<String>> {
    let directory = keep::directory(run);
    let arms = plan.facts.arms.len();
    let length = (plan.warm_up + plan.measured) * arms as u32 * plan.facts.blocks;
    let mut measuring = Measuring {
        run,
        plan,
        asked,
        lab,
        directory: &directory,
        interrupt,
        progress: Progress::timed(length, quiet),
        start: Instant::now(),
        measured: 0,
    };
    for block in 0..plan.facts.blocks {
        let order = block_order(plan.facts.seed, block, arms);
        let mut again = Vec::new();
        for (position, &arm) in order.iter().enumerate() {
            if measuring.cell(block, position as u32, arm)? {
                again.push(arm);
            }
        }
        // Whether a cell counts is judged by its sender, not by what the arm did: it gets a second chance in its block.
        for (extra, &arm) in again.iter().enumerate() {
            measuring.cell(block, (arms + extra) as u32, arm)?;
        }
        if interrupt.requested() {
            return Ok(Some("interrupted by the user".to_owned()));
        }
    }
    Ok(None)
}

/// A study under way.
struct Measuring<'a> {
    run: &'a RunDir,
    plan: &'a StudyPlan,
    asked: &'a Asked,
    lab: &'a mut dyn Lab,
    directory: &'a Path,
    interrupt: &'a Interrupt,
    progress: Progress,
    start: Instant,
    /// Cells measured by this process.
    measured: u32,
}

impl Measuring<'_> {
    /// Measures a cell, unless it is there already or the user has had enough. Whether it is there and does not count.
    fn cell(&mut self, block: u32, position: u32, arm: usize) -> anyhow::Result<bool> {
        if let Some(cell) = keep::read(self.run, block, position)? {
            return Ok(cell.discarded.is_some());
        }
        if self.interrupt.requested() {
            return Ok(false);
        }
        self.tell(block, position, arm);
        let (plan, asked, directory) = (self.plan, self.asked, self.directory);
        let order = Order { plan, asked, block, position, arm, directory };
        let Some(measured) = self.lab.measure(&order, self.interrupt)? else { return Ok(false) };
        keep::keep(self.run, &measured, plan.keep_stamps)?;
        self.measured += 1;
        Ok(measured.cell.discarded.is_some())
    }

    fn tell(&self, block: u32, position: u32, arm: usize) {
        let (facts, one) = (&self.plan.facts, self.plan.warm_up + self.plan.measured);
        let arms = facts.arms.len() as u32;
        let done = block * arms + position.min(arms);
        let each = if self.measured == 0 { one } else { self.start.elapsed() / self.measured };
        let left_s = (each * (arms * facts.blocks).saturating_sub(done)).as_secs();
        let words = format!(
            "block {} of {} · {} · {} left",
            block + 1,
            facts.blocks,
            facts.arms[arm].id,
            humantime::format_duration(Duration::from_secs(left_s))
        );
        self.progress.show(one * done, words);
    }
}
