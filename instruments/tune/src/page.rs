//! The pages of `quaver tune`.

use crate::audit::{Audited, Cost};
use crate::catalogue::Class;
use crate::plan::{Plan, PlannedChange, PlannedOption, Step, StepResult};
use crate::survey::{Target, Verdict};
use quaver_host::settings::journal::{Fate, Is, Outcome, Status, Undone};
use quaver_page::table::{Style, printable, width, wrap};
use quaver_page::units::{duration, percent};
use std::fmt::Write as _;
use std::path::Path;

/// Columns of the pages.
const WIDTH: usize = 100;
/// Columns before a row's text.
const INDENT: usize = 10;

fn heading(out: &mut String, style: Style, text: &str) {
    let _ = writeln!(out, "\n{}\n", style.bold(text));
}

fn paragraph(out: &mut String, text: &str, colour: impl Fn(&str) -> String) {
    for line in wrap(&printable(text), WIDTH - INDENT) {
        let _ = writeln!(out, "{:INDENT$}{}", "", colour(&line));
    }
}

fn plain(line: &str) -> String {
    line.to_owned()
}

fn whom(target: &Target) -> String {
    let cpus: Vec<String> = target.cpus.iter().map(u16::to_string).collect();
    let interface = target.interface.as_ref().map_or_else(String::new, |name| format!(", interface {name}"));
    format!("receiver on CPU {}{interface}", cpus.join(","))
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
pub fn audit(target: &Target, audited: &[Audited], run: Option<RunCosts<'_>>, style: Style) -> String {
    let mut out = format!("{}\n", style.bold(&printable(&format!("quaver tune audit · {}", whom(target)))));
    if let Some(RunCosts { path, rest }) = run {
        let mut text = format!("costs are those of {}", path.display());
        if !rest.is_empty() {
            let list = rest.iter().map(|(cause, cost)| format!("{cause} {}", duration(cost.time_ns)));
            text.push_str(&format!(
                "; beside them what no setting changes: {}",
                list.collect::<Vec<_>>().join(", ")
            ));
        }
        wrap(&printable(&text), WIDTH)
            .iter()
            .for_each(|line| out.push_str(&format!("{}\n", style.dim(line))));
    }
    let of = |verdict: Verdict| audited.iter().filter(move |one| one.verdict == verdict);
    let classes = [
        (Class::Hardware, "hardware"),
        (Class::NetworkStack, "network stack"),
        (Class::NetworkIndependent, "network-independent"),
        (Class::Tool, "tool"),
    ];
    heading(&mut out, style, &format!("Hurts ({})", of(Verdict::Hurts).count()));
    for (class, name) in classes {
        let mut rows: Vec<&Audited> = of(Verdict::Hurts).filter(|one| one.row.class == class).collect();
        let time = |one: &Audited| one.cost.as_ref().map_or(0, |cost| cost.time_ns);
        rows.sort_by_key(|one| std::cmp::Reverse(time(one)));
        if !rows.is_empty() {
            let _ = writeln!(out, "  {}", style.dim(name));
        }
        rows.iter().for_each(|one| full(&mut out, one, style));
    }
    for (verdict, name) in [(Verdict::Unknown, "Unknown"), (Verdict::Good, "Good")] {
        heading(&mut out, style, &format!("{name} ({})", of(verdict).count()));
        let ids = of(verdict).map(|one| width(&one.row.id)).max().unwrap_or(0);
        for one in of(verdict) {
            let lines = wrap(&printable(&one.evidence.join("; ")), WIDTH - ids - 4);
            for (at, line) in lines.iter().enumerate() {
                let id = if at == 0 { one.row.id.as_str() } else { "" };
                let _ = writeln!(out, "  {id:<ids$}  {}", style.dim(line));
            }
        }
    }
    let absent: Vec<&str> = of(Verdict::NotApplicable).map(|one| one.row.id.as_str()).collect();
    if !absent.is_empty() {
        heading(&mut out, style, &format!("Not applicable here ({})", absent.len()));
        for line in wrap(&absent.join(", "), WIDTH - 2) {
            let _ = writeln!(out, "  {}", style.dim(&line));
        }
    }
    let _ = writeln!(out, "\n{}", style.dim("Nothing was changed. Next: quaver tune plan"));
    out
}

fn full(out: &mut String, one: &Audited, style: Style) {
    let _ = writeln!(out, "  {}  {}", style.caution(&one.row.id), one.row.mechanism);
    if let Some(cost) = &one.cost {
        let text = format!(
            "cost {} ({} of all), {} at worst",
            duration(cost.time_ns),
            percent(cost.share),
            duration(cost.worst_ns)
        );
        paragraph(out, &text, |line| style.bold(line));
    }
    one.evidence.iter().for_each(|evidence| paragraph(out, evidence, plain));
    let settable = one.knobs.iter().any(|item| !item.changes.is_empty());
    if let (false, Some(advice)) = (settable, &one.row.advice) {
        paragraph(out, advice, |line| style.remedy(line));
    }
}

/// Most changes of one row that are listed one by one, beside the last.
const LISTED: usize = 3;

fn setting(out: &mut String, planned: &PlannedChange, style: Style) {
    let text = format!("{} = {}", planned.change.knob, planned.change.value.trim());
    let _ = writeln!(out, "{:INDENT$}{}", "", style.remedy(&printable(&text)));
}

/// What would be set.
pub fn plan(target: &Target, plan: &Plan, style: Style) -> String {
    let mut out = format!("{}\n", style.bold(&printable(&format!("quaver tune plan · {}", whom(target)))));
    heading(&mut out, style, &format!("Would be set, in this order ({})", plan.changes.len()));
    for changes in plan.changes.chunk_by(|one, next| one.row.id == next.row.id) {
        let row = changes[0].row;
        let _ = writeln!(out, "  {}  {}", style.caution(&row.id), row.mechanism);
        paragraph(&mut out, &format!("risk: {}", row.risk), |line| style.dim(line));
        changes.iter().take(LISTED).for_each(|planned| setting(&mut out, planned, style));
        if let Some(last) = changes.get(LISTED..).and_then(<[_]>::last) {
            if changes.len() > LISTED + 1 {
                let text =
                    format!("and {} more of this kind (--json lists them)", changes.len() - LISTED - 1);
                paragraph(&mut out, &text, |line| style.dim(line));
            }
            setting(&mut out, last, style);
        }
    }
    if !plan.withheld.is_empty() {
        heading(&mut out, style, "Only when named, since it costs much elsewhere");
        for one in &plan.withheld {
            let _ = writeln!(out, "  {}  {}", style.caution(&one.row.id), one.row.mechanism);
            paragraph(&mut out, &format!("risk: {}", one.row.risk), |line| style.dim(line));
        }
        let ids: Vec<&str> = plan.withheld.iter().map(|one| one.row.id.as_str()).collect();
        let _ = writeln!(out, "{:INDENT$}{}", "", style.remedy(&format!("--only {}", ids.join(","))));
    }
    boot(&mut out, plan, style);
    if !plan.advice.is_empty() {
        heading(&mut out, style, "For people to do");
        for row in &plan.advice {
            let _ = writeln!(out, "  {}  {}", style.caution(&row.id), row.mechanism);
            paragraph(&mut out, row.advice.as_deref().unwrap_or_default(), plain);
        }
    }
    let _ = writeln!(
        out,
        "\n{}",
        style.dim("Nothing was changed. Next: sudo quaver tune apply, with the same options")
    );
    out
}

fn boot(out: &mut String, plan: &Plan, style: Style) {
    if plan.boot.is_empty() {
        return;
    }
    heading(out, style, "Needs a boot");
    let line = plan.command_line();
    if !line.is_empty() {
        paragraph(out, "add to the kernel's command line:", plain);
        // Not wrapped: a command line must be copied whole.
        let _ = writeln!(out, "{:INDENT$}{}", "", style.remedy(&printable(&line)));
    }
    let unsure: Vec<String> = plan.boot.iter().filter(|one| !one.hurts).map(of_rows).collect();
    if !unsure.is_empty() {
        paragraph(
            out,
            &format!("worth it only where a run shows that it costs: {}", unsure.join(", ")),
            plain,
        );
    }
    let instead: Vec<String> = plan.boot.iter().filter(|one| one.hurts && one.instead).map(of_rows).collect();
    if !instead.is_empty() {
        let text = format!("instead of what can be set without a boot: {}", instead.join(", "));
        paragraph(out, &text, |line| style.dim(line));
    }
}

fn of_rows(planned: &PlannedOption) -> String {
    format!("{} ({})", planned.option, planned.rows.join(", "))
}

/// What was set, and what did not take.
pub fn applied(recovered: &[Undone], steps: &[Step], style: Style) -> String {
    let mut out = String::new();
    if !recovered.is_empty() {
        heading(&mut out, style, "Left by a process that was killed");
        recovered.iter().for_each(|one| undone(&mut out, one, style));
    }
    let took = steps.iter().filter(|step| step.took()).count();
    heading(&mut out, style, &format!("Set ({took} of {})", steps.len()));
    for step in steps.iter().filter(|step| step.took()) {
        let StepResult::Done(applied) = &step.result else { continue };
        let was = match applied.outcome {
            Outcome::AlreadySo => "already so".to_owned(),
            _ => format!("was {}", applied.before),
        };
        let _ = writeln!(out, "  {}", printable(&format!("{} = {} ({was})", step.knob, applied.now)));
        applied.pending.iter().for_each(|pending| paragraph(&mut out, pending, |line| style.caution(line)));
    }
    if took < steps.len() {
        heading(&mut out, style, &format!("Did not take ({})", steps.len() - took));
        for step in steps.iter().filter(|step| !step.took()) {
            let head = format!("{} = {} ({})", step.knob, step.value.trim(), step.row);
            let _ = writeln!(out, "  {}", style.caution(&printable(&head)));
            paragraph(&mut out, &why(step), plain);
        }
    }
    let _ = writeln!(out, "\n{}", style.dim("To put everything back: sudo quaver tune revert"));
    out
}

fn why(step: &Step) -> String {
    match &step.result {
        StepResult::Failed { reason, .. } => reason.clone(),
        StepResult::Done(applied) if applied.outcome == Outcome::NotTaken => {
            format!("the kernel took the write and still says {}", applied.now)
        }
        StepResult::Done(applied) => format!("the kernel made {} of it", applied.now),
    }
}

/// What was put back, and what is left.
pub fn reverted(all: &[Undone], style: Style) -> String {
    if all.is_empty() {
        return "Nothing of ours is changed.\n".to_owned();
    }
    let mut out = String::new();
    let done: Vec<&Undone> = all.iter().filter(|one| one.fate.is_final()).collect();
    if !done.is_empty() {
        heading(&mut out, style, &format!("Done with ({})", done.len()));
        done.iter().for_each(|one| undone(&mut out, one, style));
    }
    if done.len() < all.len() {
        heading(&mut out, style, &format!("Left, and still in the journal ({})", all.len() - done.len()));
        all.iter().filter(|one| !one.fate.is_final()).for_each(|one| undone(&mut out, one, style));
    }
    out
}

fn undone(out: &mut String, one: &Undone, style: Style) {
    let fate = match &one.fate {
        Fate::Restored => format!("is {} again", one.before),
        Fate::Unchanged => format!("was {} already", one.before),
        Fate::Vanished { reason } => format!("is gone: {reason}"),
        Fate::Rebooted => "went with the last boot".to_owned(),
        Fate::Forgotten { found } => format!("stays {found}, as somebody else set it"),
        Fate::Foreign { ours, found } => {
            format!(
                "was set to {ours} by us and is {found} now: --force puts {} back, --forget leaves it",
                one.before
            )
        }
        Fate::Pending { reason } => format!("cannot be put back now: {reason}"),
    };
    let head = printable(&format!("{} ", one.knob));
    let head = if one.fate.is_final() { head } else { style.caution(&head) };
    let lines = wrap(&printable(&fate), WIDTH - INDENT);
    match lines.as_slice() {
        [line] if width(&head) + width(line) + 2 <= WIDTH => {
            let _ = writeln!(out, "  {head}{line}");
        }
        lines => {
            let _ = writeln!(out, "  {head}");
            lines.iter().for_each(|line| paragraph(out, line, plain));
        }
    }
}

/// What is changed now.
pub fn status(status: &Status, style: Style) -> String {
    let mut out = String::new();
    if let Some(busy) = &status.busy {
        let _ = writeln!(out, "{}", style.caution(&printable(&format!("{busy} is changing settings now"))));
    }
    if status.changes.is_empty() {
        out.push_str("Nothing of ours is changed.\n");
        return out;
    }
    heading(&mut out, style, &format!("Changed and not put back ({})", status.changes.len()));
    for change in &status.changes {
        let now = change.now.as_deref().unwrap_or("not known");
        let head = format!("{} = {now} (was {})", change.knob, change.before);
        let _ = writeln!(out, "  {}", printable(&head));
        let by = format!("by quaver {} (process {})", change.verb, change.pid);
        let text = match &change.is {
            Is::Ours if change.finished => by,
            Is::Ours => format!("{by}, which ended while it wrote it"),
            Is::AsBefore => format!("{by}; somebody put it back already"),
            Is::Foreign => format!("{by} to {}; somebody else changed it since", change.ours),
            Is::Rebooted => format!("{by}, before the last boot: gone with it"),
            Is::Gone { reason } => format!("{by}; {reason}"),
            Is::Elsewhere { remedy } => format!("{by}, in another network namespace: {remedy}"),
            Is::Unreadable { reason } => format!("{by}; {reason}"),
        };
        let mark = matches!(change.is, Is::Ours);
        paragraph(&mut out, &text, |line| if mark { style.dim(line) } else { style.caution(line) });
    }
    let _ = writeln!(out, "\n{}", style.dim("To put it back: sudo quaver tune revert"));
    out
}
