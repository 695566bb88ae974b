//! What a person sees of `quaver tune`.

use crate::audit::{Audited, Cost};
use crate::catalogue::{Class, Row};
use crate::plan::{Plan, PlannedChange, PlannedOption, Step, StepResult};
use crate::survey::{Target, Verdict};
use quaver_host::settings::journal::{Fate, Is, Outcome, Status, Undone};
use quaver_view::{Block, Cell, Document, Finding, Section, Table, Text, Tone, text};
use std::path::Path;

/// Title of pages about what was changed before.
const TITLE: &str = "settings of this host";

/// The verdict where nothing was.
const UNCHANGED: &str = "No setting is changed by Quaver.";

fn document(action: &str, title: impl Into<String>) -> Document {
    let mut document = Document::new(format!("quaver tune {action}"), title);
    document.version = env!("CARGO_PKG_VERSION").into();
    document
}

fn whom(target: &Target) -> String {
    let cpus: Vec<String> = target.cpus.iter().map(u16::to_string).collect();
    let interface = target.interface.as_ref().map_or_else(String::new, |name| format!(", interface {name}"));
    format!("receiver on CPU {}{interface}", cpus.join(","))
}

/// What settings were made for.
#[derive(Clone, Copy, Debug)]
pub enum Whom<'a> {
    /// A receiver.
    Receiver(Option<&'a Target>),
    /// Whatever a profile was made for.
    Profile(&'a Path),
}

/// A section of so many items, unless there are none.
fn counted(document: &mut Document, id: &str, title: &str, number: usize, block: impl Into<Block>) {
    if number > 0 {
        document.section(Section::new(id, format!("{title} ({number})")).with(block));
    }
}

fn next(document: &mut Document, title: &str, command: &str, words: &str) {
    document.section(Section::new("next", title).note(Text::default().code(command).plain(words)));
}

/// What a run cost, beside the costs of the rows.
#[derive(Clone, Copy, Debug)]
pub struct RunCosts<'a> {
    /// The run.
    pub path: &'a Path,
    /// Causes without a row.
    pub rest: &'a [(&'a str, &'a Cost)],
}

/// Every row: what hurts first and in full, the rest in a line each.
pub fn audit(target: &Target, audited: &[Audited], run: Option<RunCosts<'_>>) -> Document {
    let mut document = document("audit", whom(target));
    if let Some(RunCosts { path, rest }) = run {
        document.fact("costs from", path.display().to_string());
        let rest = rest.iter().map(|(cause, cost)| format!("{cause} {}", Cell::Duration(cost.time_ns)));
        document.fact("not changed by any setting", rest.collect::<Vec<_>>().join(", "));
    }
    let of = |verdict: Verdict| audited.iter().filter(move |one| one.verdict == verdict);
    let hurting = of(Verdict::Hurts).count();
    document.verdict =
        Some(text!("{hurting} of {} sources of lateness hurt here. Nothing was changed.", audited.len()));
    if hurting > 0 {
        document.section(hurts(of(Verdict::Hurts).collect()));
    }
    for (verdict, id, name) in [(Verdict::Unknown, "unknown", "Unknown"), (Verdict::Good, "good", "Good")] {
        let mut table = Table::bare(2);
        of(verdict).for_each(|one| {
            table.row([one.row.id.clone(), one.evidence.join("; ")]);
        });
        counted(&mut document, id, name, table.rows.len(), table);
    }
    let absent: Vec<&str> = of(Verdict::NotApplicable).map(|one| one.row.id.as_str()).collect();
    let names = Block::Note(absent.join(", ").into());
    counted(&mut document, "not-applicable", "Not applicable here", absent.len(), names);
    next(&mut document, "Next", "quaver tune plan", "");
    document
}

/// What hurts, by class, and in each class what cost most first.
fn hurts(rows: Vec<&Audited>) -> Section {
    let mut section = Section::new("hurts", format!("Hurts ({})", rows.len()));
    for (class, name) in [
        (Class::Hardware, "hardware"),
        (Class::NetworkStack, "network stack"),
        (Class::NetworkIndependent, "network-independent"),
        (Class::Tool, "tool"),
    ] {
        let mut rows: Vec<&Audited> = rows.iter().copied().filter(|one| one.row.class == class).collect();
        rows.sort_by_key(|one| std::cmp::Reverse(one.cost.as_ref().map_or(0, |cost| cost.time_ns)));
        if !rows.is_empty() {
            section.push(Block::Note(name.into()));
            section.push(rows.into_iter().map(hurting).collect::<Vec<_>>());
        }
    }
    section
}

fn hurting(one: &Audited) -> Finding {
    let mut finding = of_row(one.row);
    if let Some(cost) = &one.cost {
        let [time, worst] = [cost.time_ns, cost.worst_ns].map(Cell::Duration);
        let words = text!("cost {time} ({} of late time), worst {worst}", Cell::Share(cost.share));
        finding = finding.detail(Text::default().strong(words));
    }
    finding.details.extend(one.evidence.iter().map(Text::from));
    let settable = one.knobs.iter().any(|item| !item.changes.is_empty());
    finding.remedies.extend(one.row.advice.iter().filter(|_| !settable).map(Text::from));
    finding
}

fn of_row(row: &Row) -> Finding {
    Finding::new(Tone::Caution, &row.id, &row.mechanism)
}

/// Most changes of one row that are listed one by one, beside the last.
const LISTED: usize = 3;

fn setting(planned: &PlannedChange) -> Text {
    Text::default().code(format!("{} = {}", planned.change.knob, planned.change.value.trim()))
}

/// What would be set.
pub fn plan(target: &Target, plan: &Plan) -> Document {
    let mut document = document("plan", whom(target));
    document.verdict = Some(text!("{} changes are planned. Nothing was changed.", plan.changes.len()));
    let rows = plan.changes.chunk_by(|one, next| one.row.id == next.row.id).map(|changes| {
        let mut finding = of_row(changes[0].row).detail(format!("risk: {}", changes[0].row.risk));
        finding.remedies.extend(changes.iter().take(LISTED).map(setting));
        if let Some(last) = changes.get(LISTED..).and_then(<[_]>::last) {
            let more = changes.len() - LISTED - 1;
            let words = (more > 0).then(|| text!("and {more} more of this kind (--json lists them)"));
            finding.remedies.extend(words.into_iter().chain([setting(last)]));
        }
        finding
    });
    let rows: Vec<Finding> = rows.collect();
    counted(&mut document, "changes", "Planned changes, in order", plan.changes.len(), rows);
    if !plan.withheld.is_empty() {
        let risky = |row: &Row| of_row(row).detail(format!("risk: {}", row.risk));
        let mut rows: Vec<Finding> = plan.withheld.iter().map(|one| risky(one.row)).collect();
        let ids: Vec<&str> = plan.withheld.iter().map(|one| one.row.id.as_str()).collect();
        let option = Text::default().code(format!("--only {}", ids.join(",")));
        if let Some(last) = rows.last_mut() {
            last.remedies.push(option);
        }
        let title = "Only with --only, because of side effects elsewhere";
        document.section(Section::new("withheld", title).with(rows));
    }
    boot(&mut document, plan);
    if !plan.advice.is_empty() {
        let advised = |row: &&Row| of_row(row).detail(row.advice.clone().unwrap_or_default());
        let rows: Vec<Finding> = plan.advice.iter().map(advised).collect();
        document.section(Section::new("manual", "Manual steps").with(rows));
    }
    next(&mut document, "Next", "sudo quaver tune apply", ", with the same options");
    document
}

fn boot(document: &mut Document, plan: &Plan) {
    if plan.boot.is_empty() {
        return;
    }
    let mut section = Section::new("reboot", "Needs a reboot");
    let line = plan.command_line();
    if !line.is_empty() {
        section.push("add to the kernel command line:");
        // Not wrapped: a command line must be copied whole.
        section.push(Block::Preformatted(line));
    }
    let named = |wanted: &dyn Fn(&&PlannedOption) -> bool| {
        let options = plan.boot.iter().filter(|one| wanted(one));
        options.map(|one| format!("{} ({})", one.option, one.rows.join(", "))).collect::<Vec<_>>().join(", ")
    };
    let unsure = named(&|one| !one.hurts);
    if !unsure.is_empty() {
        section.push(text!("worthwhile only if a run shows the cost: {unsure}"));
    }
    let instead = named(&|one| one.hurts && one.instead);
    if !instead.is_empty() {
        section.push(Block::Note(text!("replaces the run-time settings: {instead}")));
    }
    document.section(section);
}

/// What was set, and what did not take.
pub fn applied(for_whom: Whom<'_>, recovered: &[Undone], steps: &[Step]) -> Document {
    let title = match for_whom {
        Whom::Receiver(target) => target.map_or_else(String::new, whom),
        Whom::Profile(path) => format!("profile {}", path.display()),
    };
    let mut document = document("apply", title);
    let left: Vec<Finding> = recovered.iter().map(undone).collect();
    counted(&mut document, "recovered", "Left by a killed process", left.len(), left);
    let (took, refused): (Vec<&Step>, Vec<&Step>) = steps.iter().partition(|step| step.took());
    document.verdict = Some(text!("{} of {} settings were made.", took.len(), steps.len()));
    let set = Section::new("set", format!("Set ({} of {})", took.len(), steps.len()));
    let took: Vec<Finding> = took.into_iter().filter_map(accepted).collect();
    document.section(if took.is_empty() { set } else { set.with(took) });
    let refused: Vec<Finding> = refused.into_iter().map(not_accepted).collect();
    counted(&mut document, "not-accepted", "Not accepted", refused.len(), refused);
    let command = match for_whom {
        Whom::Receiver(_) => "sudo quaver tune revert".to_owned(),
        Whom::Profile(path) => format!("sudo quaver tune revert {}", path.display()),
    };
    next(&mut document, "To restore", &command, "");
    document
}

fn accepted(step: &Step) -> Option<Finding> {
    let StepResult::Done(applied) = &step.result else { return None };
    let was = match applied.outcome {
        Outcome::AlreadySo => "already so".to_owned(),
        _ => format!("was {}", applied.before),
    };
    let mut finding = Finding::new(Tone::Plain, "", format!("{} = {} ({was})", step.knob, applied.now));
    finding.details.extend(applied.pending.iter().map(Text::from));
    Some(finding)
}

fn not_accepted(step: &Step) -> Finding {
    let name = format!("{} = {} ({})", step.knob, step.value.trim(), step.row);
    let why = match &step.result {
        StepResult::Failed { reason, .. } => reason.clone(),
        StepResult::Done(applied) if applied.outcome == Outcome::NotTaken => {
            format!("the kernel accepted the write but reads back {}", applied.now)
        }
        StepResult::Done(applied) => format!("the kernel changed it to {}", applied.now),
    };
    Finding::new(Tone::Plain, "", Text::default().strong(name)).detail(why)
}

/// What was put back, and what is left.
pub fn reverted(all: &[Undone]) -> Document {
    let (done, left): (Vec<&Undone>, Vec<&Undone>) = all.iter().partition(|one| one.fate.is_final());
    let mut document = document("revert", TITLE);
    document.verdict = Some(match all.len() {
        0 => UNCHANGED.into(),
        all => text!("{} of {all} settings were restored.", done.len()),
    });
    for (id, title, some) in
        [("restored", "Restored", done), ("left", "Not restored, still in the journal", left)]
    {
        let findings: Vec<Finding> = some.into_iter().map(undone).collect();
        counted(&mut document, id, title, findings.len(), findings);
    }
    document
}

fn undone(one: &Undone) -> Finding {
    let fate = match &one.fate {
        Fate::Restored => format!("restored to {}", one.before),
        Fate::Unchanged => format!("already {}", one.before),
        Fate::Vanished { reason } => format!("is gone: {reason}"),
        Fate::Rebooted => "reset by the reboot".to_owned(),
        Fate::Mended { name } => {
            format!("{name} was born with the narrowed CPUs of kthreadd, and has {} now", one.before)
        }
        Fate::Forgotten { found } => format!("keeps {found}, set by another program"),
        Fate::Foreign { ours, found } => {
            format!("Quaver set {ours}, now {found}: --force restores {}, --forget keeps it", one.before)
        }
        Fate::Pending { reason } => format!("cannot be restored now: {reason}"),
    };
    match one.fate.is_final() {
        true => Finding::new(Tone::Plain, "", format!("{}: {fate}", one.knob)),
        false => Finding::new(Tone::Plain, "", Text::default().strong(&one.knob)).detail(fate),
    }
}

/// What is changed now.
pub fn status(status: &Status) -> Document {
    let number = status.changes.len();
    let mut document = document("status", TITLE);
    document.verdict = Some(match number {
        0 => UNCHANGED.into(),
        _ => text!("Quaver changed settings and has not restored them: {number}."),
    });
    if let Some(busy) = &status.busy {
        document.warn(format!("{busy} is changing settings now"));
    }
    let changes = status.changes.iter().map(|change| {
        let now = change.now.as_deref().unwrap_or("not known");
        let by = format!("by quaver {} (process {})", change.verb, change.pid);
        let by = match &change.is {
            Is::Ours if change.finished => by,
            Is::Ours => format!("{by}, which ended during the write"),
            Is::AsBefore => format!("{by}; already restored by another program"),
            Is::Foreign => format!("{by} to {}; changed since by another program", change.ours),
            Is::Rebooted => format!("{by}, before the last reboot: reset"),
            Is::Gone { reason } => format!("{by}; {reason}"),
            Is::Elsewhere { remedy } => format!("{by}, in another network namespace: {remedy}"),
            Is::Unreadable { reason } => format!("{by}; {reason}"),
        };
        let by = if matches!(change.is, Is::Ours) { by.into() } else { Text::default().strong(by) };
        Finding::new(Tone::Plain, "", format!("{} = {now} (was {})", change.knob, change.before)).detail(by)
    });
    let changes: Vec<Finding> = changes.collect();
    counted(&mut document, "changed", "Changed and not restored", number, changes);
    let inherited: Vec<Finding> = status
        .inherited
        .iter()
        .map(|thread| {
            let words = format!("{} (thread {}) may use CPUs {}", thread.name, thread.tid, thread.cpus);
            Finding::new(Tone::Plain, "", words)
        })
        .collect();
    let title = "Born since kthreadd was narrowed, with its CPUs";
    counted(&mut document, "inherited", title, status.inherited.len(), inherited);
    if number > 0 {
        next(&mut document, "To restore", "sudo quaver tune revert", "");
    }
    document
}
