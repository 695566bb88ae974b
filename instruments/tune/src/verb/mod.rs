//! `quaver tune`: what makes threads and packets late on this machine, and setting it otherwise so that it can be undone.

pub mod costs;
mod document;
pub mod lease;

use crate::args::{
    ApplyArgs, AuditArgs, PlanArgs, RevertArgs, SelectionArgs, StatusArgs, TargetArgs, TuneAction, TuneArgs,
};
use crate::audit::{Audited, audit, signs, unplaced};
use crate::catalogue;
use crate::plan::{Plan, Selection, Step, StepResult, apply, plan};
use crate::profile::Profile;
use crate::survey::{Snapshot, Target, View};
use crate::view as shown;
use anyhow::Context;
use costs::Costs;
use quaver_host::root::HostRoot;
use quaver_host::settings::journal::{DIRECTORY, Others};
use quaver_host::settings::{Journal, JournalPlace, TuneError};
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::results::{self, Found};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Does what is asked for.
pub fn run(args: &TuneArgs) -> anyhow::Result<ExitCode> {
    let directory = args.journal.as_deref().unwrap_or(Path::new(DIRECTORY));
    let root = args.root.as_ref().map_or_else(HostRoot::system, HostRoot::at);
    let place = JournalPlace::at(directory, root);
    match &args.action {
        TuneAction::Audit(args) => run_audit(&place, args),
        TuneAction::Plan(args) => run_plan(&place, args),
        TuneAction::Apply(args) if args.dry_run => {
            let ApplyArgs { target, selection, json, .. } = args;
            let args = PlanArgs { target: target.clone(), selection: selection.clone(), json: *json };
            run_plan(&place, &args)
        }
        TuneAction::Apply(args) => run_apply(&place, args),
        TuneAction::Revert(args) if args.dry_run => run_status(&place, &StatusArgs { json: args.json }),
        TuneAction::Revert(args) => run_revert(&place, args),
        TuneAction::Status(args) => run_status(&place, args),
    }
}

fn print(
    summary: &Value,
    page: impl FnOnce() -> quaver_view::Document,
    json: bool,
    ended: Option<ExitCode>,
) -> anyhow::Result<ExitCode> {
    results::print(&Found::new(summary).ended(ended), page, json, &[])
}

/// Checks the target against the machine.
fn target(place: &JournalPlace, args: &TargetArgs) -> anyhow::Result<Target> {
    let root = place.contact().root();
    let online = root.cpu_list("/sys/devices/system/cpu/online");
    let cpus = match &args.cpu {
        Some(cpus) => cpus.clone(),
        None => online.last().copied().into_iter().collect(),
    };
    if let Some(cpu) = cpus.iter().find(|cpu| !online.contains(cpu)) {
        return Err(failure(ExitCode::Usage, format!("--cpu {cpu}: not online (online: {online:?})")));
    }
    if cpus.is_empty() {
        return Err(failure(ExitCode::Unsupported, "the kernel lists no CPUs; name one with --cpu"));
    }
    if let Some(name) = &args.interface
        && !root.exists(&format!("/sys/class/net/{name}"))
    {
        let names = root.names("/sys/class/net").join(", ");
        return Err(failure(
            ExitCode::Usage,
            format!("--interface {name}: unknown interface; available: {names}"),
        ));
    }
    Ok(Target { cpus, interface: args.interface.clone(), process: None })
}

fn selection(args: &SelectionArgs) -> anyhow::Result<Selection> {
    let selection = Selection { only: args.only.clone(), except: args.except.clone() };
    match selection.unknown() {
        None => Ok(selection),
        Some(id) => {
            let near: Vec<&str> = catalogue::rows()
                .iter()
                .map(|row| row.id.as_str())
                .filter(|known| known.chars().take(2).eq(id.chars().take(2)))
                .collect();
            let hint =
                if near.is_empty() { String::new() } else { format!(" (did you mean {}?)", near.join(", ")) };
            Err(failure(ExitCode::Usage, format!("{id}: unknown source{hint}; quaver tune audit lists them")))
        }
    }
}

/// Looks at the machine, twice where there is something to watch.
fn look(view: &View<'_>, watch: Duration, costs: Option<&Costs>) -> Vec<Audited> {
    let first = Snapshot::take(view, &signs());
    let later = (!watch.is_zero()).then(|| {
        std::thread::sleep(watch);
        Snapshot::take(view, &signs())
    });
    audit(view, &first, later.as_ref(), costs)
}

fn run_audit(place: &JournalPlace, args: &AuditArgs) -> anyhow::Result<ExitCode> {
    let target = target(place, &args.target)?;
    let selection = selection(&args.selection)?;
    let view = View::new(place.contact(), &target);
    let watch = if args.no_watch { Duration::ZERO } else { args.watch };
    let costs = args.run.as_deref().map(costs::of_run).transpose()?;
    let mut audited = look(&view, watch, costs.as_ref());
    audited.retain(|one| match selection.only.is_empty() {
        true => !selection.except.contains(&one.row.id),
        false => selection.only.contains(&one.row.id),
    });
    let rest = costs.as_ref().map(unplaced).unwrap_or_default();
    let run = args.run.as_deref().map(|path| shown::RunCosts { path, rest: &rest });
    print(
        &document::audit(&target, &audited, watch, &rest),
        || shown::audit(&target, &audited, run),
        args.json,
        None,
    )
}

fn planned(place: &JournalPlace, target: &Target, args: &SelectionArgs) -> anyhow::Result<Plan> {
    let selection = selection(args)?;
    let view = View::new(place.contact(), target);
    Ok(plan(&look(&view, Duration::ZERO, None), &selection))
}

fn run_plan(place: &JournalPlace, args: &PlanArgs) -> anyhow::Result<ExitCode> {
    let target = target(place, &args.target)?;
    let plan = planned(place, &target, &args.selection)?;
    print(&document::plan(&target, &plan), || shown::plan(&target, &plan), args.json, None)
}

fn run_apply(place: &JournalPlace, args: &ApplyArgs) -> anyhow::Result<ExitCode> {
    let profile = args.profile.as_deref().map(Profile::read).transpose()?;
    let target = if profile.is_some() { None } else { Some(target(place, &args.target)?) };
    let interrupt = Interrupt::catch()?;
    let mut session = Journal::open(place).session("tune apply").context("changing settings")?;
    // What a killed verb left has just been put back, so the plan is made now and not before.
    let changes = match (&profile, &target) {
        (Some(profile), _) => profile.changes(),
        (None, Some(target)) => planned(place, target, &args.selection)?.changes(),
        (None, None) => Vec::new(),
    };
    let recovered = session.recovered().to_vec();
    let steps = apply(&mut session, &changes, args.force, &|| !interrupt.requested())?;
    if interrupt.requested() {
        session.revert().context("restoring settings")?;
        return Err(failure(ExitCode::Interrupted, "interrupted: settings restored"));
    }
    session.keep().context("keeping the settings")?;
    let whom = match &args.profile {
        Some(path) => shown::Whom::Profile(path),
        None => shown::Whom::Receiver(target.as_ref()),
    };
    let summary = document::applied(whom, &recovered, &steps);
    let status = print(&summary, || shown::applied(whom, &recovered, &steps), args.json, status_of(&steps))?;
    let changed = steps.iter().filter(|step| step.changed()).map(|step| step.knob.clone()).collect();
    match args.lease {
        Some(time) => Ok(lease::end(place, changed, time, &interrupt)?.unwrap_or(status)),
        None => Ok(status),
    }
}

/// The kernel's refusals weigh more than somebody else's changes: the user can do something about them.
fn status_of(steps: &[Step]) -> Option<ExitCode> {
    let foreign = |step: &&Step| matches!(&step.result, StepResult::Failed { foreign: true, .. });
    let left = steps.iter().filter(|step| !step.took());
    match (left.clone().find(|step| !foreign(step)), left.clone().next()) {
        (Some(_), _) => Some(ExitCode::Unsupported),
        (None, Some(_)) => Some(ExitCode::Output),
        (None, None) => None,
    }
}

fn run_revert(place: &JournalPlace, args: &RevertArgs) -> anyhow::Result<ExitCode> {
    let mut selection = selection(&args.selection)?;
    if let Some(path) = &args.profile {
        selection.only = Profile::read(path)?.settings.into_iter().map(|setting| setting.row).collect();
        if selection.only.is_empty() {
            return Err(failure(
                ExitCode::BadInput,
                format!("{}: the profile has no setting", path.display()),
            ));
        }
    }
    let others = match (args.force, args.forget) {
        (true, _) => Others::Overwrite,
        (_, true) => Others::Forget,
        _ => Others::Leave,
    };
    // Everything, unless some rows are named.
    let which = |row: Option<&str>| {
        let named = |list: &[String]| row.is_some_and(|row| list.iter().any(|id| id == row));
        !named(&selection.except) && (selection.only.is_empty() || named(&selection.only))
    };
    let journal = Journal::open(place);
    let undone = match args.at_boot {
        true => journal.after_boot(),
        false => journal.revert(others, &|_, row| which(row)),
    };
    let undone = undone.context("restoring settings")?;
    let left = undone.iter().any(|one| !one.fate.is_final()).then_some(ExitCode::Output);
    print(&document::reverted(&undone), || shown::reverted(&undone), args.json, left)
}

fn run_status(place: &JournalPlace, args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let status = Journal::open(place).status().map_err(|error: TuneError| anyhow::Error::new(error))?;
    print(&document::status(&status), || shown::status(&status), args.json, None)
}
