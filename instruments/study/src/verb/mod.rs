//! `quaver study`: a baseline, each source of lateness restored against it, and what each costs.

pub mod asked;
mod blocks;
pub mod cell;
mod keep;
pub mod lab;
pub mod neighbours;
mod paper;
pub(crate) mod plan;
mod priority;
mod reboot;
pub mod request;
pub mod settings;
mod stages;

use crate::args::{StudyAction, StudyArgs, StudyPaperArgs, StudyRunArgs};
use anyhow::Context;
use asked::StudyRequest;
use blocks::Ended;
use clap::ValueEnum;
use lab::Lab;
use plan::StudyPlan;
use quaver_chase::args::LabKind;
use quaver_host::facts::HostFacts;
use quaver_host::root::HostRoot;
use quaver_host::settings::JournalPlace;
use quaver_host::settings::journal::DIRECTORY;
use quaver_instrument::args::OutputArgs;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::host_state::keep_off;
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_instrument::results;
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use quaver_view::Cell;
use reboot::Reboot;
use serde_json::json;
use stages::Stages;
use std::path::{Path, PathBuf};

/// Does what is asked for.
pub fn run(args: &StudyArgs) -> anyhow::Result<ExitCode> {
    match &args.action {
        StudyAction::Run(args) if args.print_plan => {
            results::to_stdout(plan::built_in(args.lab).as_bytes())?;
            Ok(ExitCode::Done)
        }
        StudyAction::Run(args) => study_run(args),
        StudyAction::Paper(args) => study_paper(args),
    }
}

fn study_run(args: &StudyRunArgs) -> anyhow::Result<ExitCode> {
    let journal = args.journal.as_deref().unwrap_or(Path::new(DIRECTORY));
    let root = args.root.as_ref().map_or_else(HostRoot::system, HostRoot::at);
    let reboot = Reboot { place: JournalPlace::at(journal, root.clone()), root, install: args.install };
    let earlier = args.resume.as_deref().map(earlier).transpose()?;
    let asked = match &earlier {
        Some((_, _, asked)) => serde_json::from_value(asked.clone())?,
        None => StudyRequest::of(args)?,
    };
    let lab = open(&asked)?;
    if earlier.is_none() && args.blocks.is_some() {
        refuse_few_blocks(&asked, lab.as_ref())?;
    }
    study(
        Study {
            asked,
            earlier: earlier.map(|(run, manifest, _)| (run, manifest)),
            lab,
            reboot,
            journal: args.journal.clone(),
        },
        &args.output,
    )
}

fn study_paper(args: &StudyPaperArgs) -> anyhow::Result<ExitCode> {
    let root = HostRoot::system();
    let lab = lab::open(args.lab)?;
    let asked = StudyRequest::of_paper(args, lab.cpus()?, &root);
    let reboot = Reboot { place: JournalPlace::system(), root, install: false };
    study(Study { asked, earlier: None, lab, reboot, journal: None }, &args.output)
}

fn open(asked: &StudyRequest) -> anyhow::Result<Box<dyn Lab>> {
    lab::open(LabKind::from_str(&asked.lab, false).map_err(|error| failure(ExitCode::BadInput, error))?)
}

/// What is to be done.
struct Study {
    asked: StudyRequest,
    earlier: Option<(RunDir, Manifest)>,
    lab: Box<dyn Lab>,
    reboot: Reboot,
    /// Directory of the journal, where another was asked for.
    journal: Option<PathBuf>,
}

fn study(study: Study, output: &OutputArgs) -> anyhow::Result<ExitCode> {
    let Study { asked, earlier, mut lab, reboot, journal } = study;
    let interrupt = Interrupt::catch()?;
    let plan = StudyPlan { journal, ..asked.plan(&lab.cpus()?)? };
    check(&plan, lab.as_ref())?;
    reboot.check(&plan, lab.as_ref())?;
    let busy = plan.settings.iter().map(|one| one.sink_cpu).collect();
    keep_off(&busy).context("leaving the sink's CPU to the sink")?;
    let priority = priority::raise();
    let (run, manifest) = match earlier {
        Some(earlier) => earlier,
        None => begin(output, &asked, &plan, lab.as_ref(), &priority)?,
    };
    let _lock = keep::lock(&run)?;
    let length = (plan.warm_up + plan.measured) * plan.facts.cells_planned();
    let progress = Progress::timed(length, output.quiet);
    if let Some(reason) = plan.facts.too_few_blocks() {
        progress.tell(&format!("quaver: {reason} (Ctrl-C ends it)"));
    }
    let directory = keep::directory(&run);
    let mut stages =
        Stages { run: &run, directory: &directory, manifest, asked, plan, interrupt: &interrupt };
    let ended = stages.all(lab.as_mut(), &reboot.root, &progress)?;
    drop(progress);
    let (mut manifest, plan) = (stages.manifest, stages.plan);
    manifest.end(
        quaver_clock::realtime_ns(),
        match &ended {
            Ended::Done => None,
            Ended::Interrupted => Some("interrupted by the user".to_owned()),
            Ended::Reboot { .. } => Some("the next cells want another boot".to_owned()),
        },
    );
    run.write_manifest(&manifest)?;
    if let Ended::Reboot { wanted, cells_left } = &ended {
        return Err(reboot.plan(&plan, wanted, *cells_left, run.path())?);
    }
    if ended == Ended::Done {
        reboot.clear(&plan)?;
    }
    if ended == Ended::Interrupted && crate::digest::read_cells(&run)?.is_empty() {
        let path = run.path().display();
        let message = format!(
            "interrupted before the first cell was measured; the run is kept: go on with quaver study run --resume {path}"
        );
        return Err(failure(ExitCode::Interrupted, message));
    }
    let digest = crate::digest::analyze(&run)?;
    digest.store(&run)?;
    let summary = serde_json::to_value(&digest.summary)?;
    let page = || results::with_report(digest.document(), &run);
    let ended = results::ended_early(&manifest, interrupt.requested());
    let found = results::Found::of_run(&summary, &run).ended(ended);
    results::print(&found, page, output.json, &output.fail_if)
}

/// Refuses a number on the command line by which nothing can be told, before it costs the time. A plan that has that number
/// was written for its cells, not for a verdict.
fn refuse_few_blocks(asked: &StudyRequest, lab: &dyn Lab) -> anyhow::Result<()> {
    match asked.plan(&lab.cpus()?)?.facts.too_few_blocks() {
        None => Ok(()),
        Some(reason) => {
            let remedy = "write the number into a plan (blocks = N) to measure its cells alone";
            Err(failure(ExitCode::Usage, format!("--blocks: {reason}, or {remedy}")))
        }
    }
}

/// A run to go on with.
fn earlier(path: &Path) -> anyhow::Result<(RunDir, Manifest, serde_json::Value)> {
    let run = quaver_store::listing::open(path)?;
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
        if let Some(row) = cell::Tuned::unknown(&settings.tune) {
            let message = format!("{}: tune: {row}: unknown source; quaver tune audit lists them", arm.id);
            return Err(failure(ExitCode::BadInput, message));
        }
    }
    Ok(())
}

fn begin(
    output: &OutputArgs,
    asked: &StudyRequest,
    plan: &StudyPlan,
    lab: &dyn Lab,
    priority: &str,
) -> anyhow::Result<(RunDir, Manifest)> {
    let host = HostFacts::read(&HostRoot::system());
    let run = RunDir::create(&output.output, "study")?;
    let stream = format!(
        "{} bytes every {}, local {}",
        plan.payload_bytes,
        Cell::FineDuration(plan.facts.period_ns),
        lab.words()
    );
    let asked = json!({
        "command": quaver_instrument::recording::command_line(),
        "stream": stream,
        "priority": priority,
        "lab_warnings": lab.warnings(),
        "study": asked,
        "facts": plan.facts,
    });
    let now_ns = quaver_clock::realtime_ns();
    let manifest =
        Manifest::begin(env!("CARGO_PKG_VERSION"), "study", asked, serde_json::to_value(&host)?, now_ns);
    run.write_manifest(&manifest)?;
    Ok((run, manifest))
}

/// What is wrong with the text of a plan on a host of two CPUs; none where it can be carried out.
pub fn plan_fault(text: &str) -> Option<String> {
    plan::read(text, plan::Overrides::default(), &[0, 1], &[]).err()
}
