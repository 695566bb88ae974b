//! What a person sees of a cure: the plan before, and afterwards what was tried, what was kept and how to undo it.

use crate::objective::Objective;
use crate::summary::{CureSummary, Persisted, Remedy};
use quaver_analysis::intervals::mean;
use quaver_cure_analysis::{BlockFigures, Effect, Guard, Settled, TrialVerdict};
use quaver_instrument::facts::RunFacts;
use quaver_instrument::head::head;
use quaver_instrument::terminal;
use quaver_view::{
    Axis, Block, Cell, Chart, Colour, Data, Document, Quantity, Section, Series, Style, Table, Text, Xy, text,
};

fn interval(objective: Objective, effect: &Effect) -> Cell {
    effect.interval.map_or(Cell::Missing, |ends| {
        let of = |end| Box::new(Cell::difference(objective.cell(end)));
        Cell::Interval(of(ends.low), of(ends.high))
    })
}

/// A p to four digits: none is zero.
fn p_value(p: Option<f64>) -> Cell {
    const SMALLEST: f64 = 0.000_1;
    match p {
        None => Cell::Missing,
        Some(p) if p < SMALLEST => Cell::from("< 0.0001"),
        Some(value) => Cell::Number { value, digits: 4 },
    }
}

/// Evidence, of which a thousand is as good as any more.
fn evidence(effect: &Effect) -> Cell {
    match effect.e {
        None => Cell::Missing,
        Some(e) if e > 1_000.0 => Cell::from("> 1000"),
        Some(value) => Cell::Number { value, digits: 2 },
    }
}

/// The document of a cure.
pub fn document(summary: &CureSummary, facts: &RunFacts) -> Document {
    let whom = format!(
        "CPU {}{}",
        summary.cpus.iter().map(u16::to_string).collect::<Vec<_>>().join(","),
        summary.interface.as_ref().map_or_else(String::new, |name| format!(", interface {name}"))
    );
    let whom = match summary.objective {
        one if one.is_of_program() => ("program", format!("{}, {whom}", summary.program.join(" ")).into()),
        one if one.is_of_loops() => ("loops", whom.into()),
        _ => ("receiver", whom.into()),
    };
    let mut document = head(facts, whom, None);
    document.fact("objective", summary.objective.words());
    document.fact("seed", summary.seed.to_string());
    document.verdict = Some(verdict(summary));
    document.incomplete = !summary.complete;
    document.warnings = summary.warnings.iter().map(Text::from).collect();
    if let Some(effect) = summary.proof.as_ref().and_then(|proof| proof.effect) {
        document.tile("Before", summary.objective.cell(effect.without), "fresh blocks without");
        document.tile("After", summary.objective.cell(effect.with), "fresh blocks with all that helped");
    }
    proof(&mut document, summary);
    if !summary.remedies.is_empty() {
        document.section(remedies(summary));
    }
    guards(&mut document, summary);
    causes(&mut document, summary);
    if !summary.not_tried.is_empty() {
        let mut table = Table::new(["source", "cost before", "why not", "how"]).terminal_first(8);
        for one in &summary.not_tried {
            let share = one.cause_share.map_or(Cell::Missing, Cell::Share);
            table.row([one.id.clone().into(), share, one.why.clone().into(), one.how.clone().into()]);
        }
        document.section(Section::new("not-tried", "Not tried").with(table));
    }
    advice(&mut document, summary);
    undo(&mut document, summary);
    document
}

fn verdict(summary: &CureSummary) -> Text {
    let effect = summary.proof.as_ref().and_then(|proof| proof.effect);
    match (effect, summary.kept.is_empty()) {
        (Some(effect), false) => text!(
            "The {} fell from {} to {} in fresh blocks (p {}). Kept: {}.",
            summary.objective.words(),
            summary.objective.cell(effect.without),
            summary.objective.cell(effect.with),
            p_value(effect.p),
            summary.kept.join(", ")
        ),
        _ => text!("Nothing was kept: {}.", summary.outcome),
    }
}

fn proof(document: &mut Document, summary: &CureSummary) {
    let Some(effect) = summary.proof.as_ref().and_then(|proof| proof.effect) else { return };
    let mut table = Table::new(["", "without", "with", "difference", "95 % interval", "p", "rounds"]);
    table.row([
        Cell::from("all that helped"),
        summary.objective.cell(effect.without),
        summary.objective.cell(effect.with),
        Cell::difference(summary.objective.cell(effect.difference)),
        interval(summary.objective, &effect),
        p_value(effect.p),
        Cell::Count(effect.rounds.into()),
    ]);
    let note = "Fresh blocks, which had no part in the choice. Effects in the trial are larger than true ones on the \
                average, since the largest were chosen; this one is not.";
    let chart = proof_chart(summary);
    document.section(Section::new("proof", "Proof").note(note).with(table).with(chart));
}

/// What others bore in the proof, without and with all that helped.
fn guards(document: &mut Document, summary: &CureSummary) {
    let of_arm = |arm: usize| -> Vec<&BlockFigures> {
        let blocks = summary.proof_blocks.iter().filter(|block| block.arm == arm);
        blocks.filter_map(|block| block.figures.as_ref()).collect()
    };
    let arms = [of_arm(0), of_arm(1)];
    if arms.iter().any(Vec::is_empty) {
        return;
    }
    let mut table = Table::new(["guarded", "without", "with", "accepted at most"]);
    for guard in Guard::ALL {
        let of = |blocks: &Vec<&BlockFigures>| {
            let values: Vec<f64> = blocks.iter().filter_map(|block| guard.value(block)).collect();
            if values.is_empty() { Cell::from("not readable here") } else { guarded(guard, mean(&values)) }
        };
        table.row([Cell::from(guard.name()), of(&arms[0]), of(&arms[1]), Cell::from(guard.limit())]);
    }
    document.section(Section::new("guards", "What must not become worse").with(table));
}

const fn guarded(guard: Guard, value: f64) -> Cell {
    match guard {
        Guard::Losses => Cell::Share(value),
        Guard::Throughput | Guard::OthersDropped => Cell::Rate(value, ""),
        Guard::CpuTime | Guard::Others | Guard::Programs => Cell::Number { value, digits: 3 },
        Guard::Power | Guard::Heat => Cell::Number { value, digits: 1 },
    }
}

/// The objective of each block of the proof, round by round.
fn proof_chart(summary: &CureSummary) -> Chart {
    let mut plot = Xy::new(
        Axis::linear("round of the proof", Quantity::Count),
        Axis::linear(summary.objective.words(), summary.objective.quantity()),
    );
    for (arm, name) in [(0, "without"), (1, "with")] {
        let of_arm = summary.proof_blocks.iter().filter(|block| block.arm == arm);
        let mut points: Vec<(u32, f64)> =
            of_arm.filter_map(|block| Some((block.round + 1, block.figures.as_ref()?.objective))).collect();
        points.sort_by_key(|(round, _)| *round);
        let x = points.iter().map(|(round, _)| f64::from(*round)).collect();
        let y = points.iter().map(|(_, value)| *value).collect();
        let data = Data::Line { x, y, marks: true };
        plot = plot.with(Series::new(name, Colour::Series(arm as u8), data));
    }
    Chart::new("proof-blocks", "Every block of the proof", plot)
}

fn remedies(summary: &CureSummary) -> Section {
    let mut table = Table::new([
        "remedy",
        "cost before",
        "without",
        "with",
        "difference",
        "95 % interval",
        "evidence",
        "rounds",
        "outcome",
    ]);
    for remedy in &summary.remedies {
        let of = |get: fn(&Effect) -> f64| {
            remedy.effect.as_ref().map_or(Cell::Missing, |effect| summary.objective.cell(get(effect)))
        };
        table.row([
            Cell::from(remedy.id.clone()),
            remedy.cause_share.map_or(Cell::Missing, Cell::Share),
            of(|effect| effect.without),
            of(|effect| effect.with),
            remedy
                .effect
                .as_ref()
                .map_or(Cell::Missing, |effect| Cell::difference(summary.objective.cell(effect.difference))),
            remedy.effect.as_ref().map_or(Cell::Missing, |effect| interval(summary.objective, effect)),
            remedy.effect.as_ref().map_or(Cell::Missing, evidence),
            remedy.effect.as_ref().map_or(Cell::Missing, |effect| Cell::Count(effect.rounds.into())),
            Cell::from(outcome(summary, remedy)),
        ]);
    }
    let note = summary.plan.map_or_else(String::new, |plan| {
        format!(
            "At most {} rounds; each holds a block without and a block with each remedy, {} long, in random order. Evidence is \
             an e-value: {} or more suffices whatever becomes of the others. A remedy is tried no more once enough is known \
             of it.",
            plan.rounds,
            Cell::Duration(i64::try_from(plan.block_ns).unwrap_or(i64::MAX)),
            summary.remedies.len() * 20
        )
    });
    Section::new("tried", "Remedies").note(note).with(table)
}

fn outcome(summary: &CureSummary, remedy: &Remedy) -> String {
    if summary.kept.contains(&remedy.id) {
        return "kept".to_owned();
    }
    if let Some(reason) = &remedy.withdrawn {
        return format!("not kept: {reason}");
    }
    match remedy.verdict {
        None if remedy.effect.is_some() => "not kept: the trial did not come to its end".to_owned(),
        None => "planned".to_owned(),
        Some(TrialVerdict::Helps) => "helped in the trial; taken back".to_owned(),
        Some(TrialVerdict::NoEffect) if remedy.settled == Some(Settled::ForFutility) => {
            "not kept: no effect found, given up early".to_owned()
        }
        Some(TrialVerdict::NoEffect) => "not kept: no effect found".to_owned(),
        Some(TrialVerdict::Worse) => "not kept: it makes it worse".to_owned(),
        Some(TrialVerdict::Harms { guard }) => format!("not kept: it harms a guard ({})", guard.name()),
    }
}

fn causes(document: &mut Document, summary: &CureSummary) {
    if summary.causes.is_empty() {
        return;
    }
    let share = match summary.objective {
        one if one.is_of_program() => "share of its threads' time",
        one if one.is_of_loops() => "share of noise",
        _ => "share of late time",
    };
    let mut table = Table::new(["source", "cause", share]).first_rows(30).terminal_first(8);
    for cause in &summary.causes {
        table.row([
            Cell::from(cause.source.clone()),
            Cell::from(cause.name.clone()),
            Cell::Share(cause.share),
        ]);
    }
    let note = text!("As found before anything was set: {}", summary.measured);
    document.section(Section::new("causes", "Causes before").note(note).with(table));
}

fn undo(document: &mut Document, summary: &CureSummary) {
    if let Some(command) = &summary.command {
        let note = Text::default().code(command).plain(" starts the program as it was proven.");
        document.section(Section::new("command", "How to run it").note(note));
    }
    if !summary.remedies.iter().any(|remedy| is_in_force(summary, remedy)) {
        return;
    }
    let mut section = Section::new("undo", "Kept until taken back").note(
        Text::default()
            .code("quaver tune revert")
            .plain(" takes all of it back; ")
            .code("quaver tune status")
            .plain(match &summary.persisted {
                Some(_) => " shows it. The next boot sets it again.",
                None => " shows it. A reboot takes it back too.",
            }),
    );
    if let Some(persisted) = &summary.persisted {
        let Persisted { profile, unit, tuned } = persisted;
        let files = tuned.iter().fold(profile.clone(), |files, tuned| format!("{files} {tuned}"));
        let commands = format!("systemctl disable {unit} && rm {files} /etc/systemd/system/{unit}");
        section.push(Block::Note(Text::default().code(commands).plain(" ends that.")));
    }
    for remedy in summary.remedies.iter().filter(|remedy| is_in_force(summary, remedy)) {
        section.push(Block::Note(text!(
            "{}: {} (risk: {})",
            remedy.id,
            listed(&remedy.changes),
            remedy.risk
        )));
    }
    document.section(section);
}

/// Whether its settings stay: those of a program's start do not.
fn is_in_force(summary: &CureSummary, remedy: &Remedy) -> bool {
    let of_start = |change: &String| {
        change.starts_with("affinity of thread") || change.starts_with("scheduling class of thread")
    };
    let of_start = summary.command.is_some() && remedy.changes.iter().all(of_start);
    summary.kept.contains(&remedy.id) && !of_start
}

/// What a change of the program itself would gain.
fn advice(document: &mut Document, summary: &CureSummary) {
    if summary.advice.is_empty() {
        return;
    }
    let mut table = Table::new(["change", "predicted gain"]).terminal_first(8);
    for one in &summary.advice {
        let gain = one.gain.map_or(Cell::Missing, |gain| match one.at_most {
            true => Cell::from(format!("{} at most", Cell::Share(gain))),
            false => Cell::Share(gain),
        });
        table.row([Cell::from(one.change.clone()), gain]);
    }
    let note = "As quaver sync advises. The gain is that part of the run's time, by replay of the first run. Nothing here \
                was tried.";
    document.section(Section::new("advice", "What it would take to change").note(note).with(table));
}

/// The first few settings, and how many more there are.
pub(crate) fn listed(changes: &[String]) -> String {
    const LISTED: usize = 3;
    let rest = changes.len().saturating_sub(LISTED);
    let more = if rest > 0 { format!(", and {rest} more") } else { String::new() };
    format!("{}{more}", changes[..changes.len().min(LISTED)].join(", "))
}

/// The plan, as it is said before anything is set.
pub fn plan_text(summary: &CureSummary) -> String {
    let mut document = Document::new("quaver cure", "plan");
    let Some(plan) = summary.plan else { return String::new() };
    let mut section = Section::new("plan", "To be tried").note(format!(
        "At most {} rounds of {} blocks, then {} rounds of 2 blocks as proof. A block measures {}. Order by seed {}. {}",
        plan.rounds,
        plan.remedies + 1,
        plan.proof_rounds,
        Cell::Duration(i64::try_from(plan.block_ns).unwrap_or(i64::MAX)),
        summary.seed,
        detectable(summary)
    ));
    for remedy in &summary.remedies {
        let costs = format!("{}: {} (risk: {})", remedy.id, listed(&remedy.changes), remedy.risk);
        section.push(Block::Note(costs.into()));
    }
    document.section(section);
    terminal::page(&document, Style::PLAIN)
}

fn detectable(summary: &CureSummary) -> String {
    summary.smallest_detectable.map_or_else(
        || "Blocks without a remedy did not differ, so that the smallest effect that can be found is not known.".into(),
        |smallest| {
            let words = summary.objective.cell(smallest);
            format!(
                "A change of the {} by less than about {words} is likely to be missed.",
                summary.objective.words()
            )
        },
    )
}
