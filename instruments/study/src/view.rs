//! What a person sees of a study: the ranking, ΔT of each arm (figures 5 to 11 of the paper), and every figure in tables.

mod layers;
mod paper;

pub(crate) use paper::generator_words;

use quaver_analysis::rounds::Interval;
use quaver_analysis::summary::ProbeCost;
use quaver_instrument::facts::RunFacts;
use quaver_study_analysis::{
    ArmSummary, Contrast, Effect, Interaction, Metric, StudyLayer, StudySummary, StudyVerdict,
};
use quaver_view::{
    Axis, Block, Cell, Chart, Colour, Column, Document, Quantity, Range, Ranges, Section, Shown, Table, Text,
    text,
};

/// What the document of a study is made from.
#[derive(Clone, Copy, Debug)]
pub struct StudyInput<'a> {
    /// Results.
    pub summary: &'a StudySummary,
    /// Facts of the run.
    pub run: &'a RunFacts,
}

/// A figure with its unit.
fn shown(metric: Metric, value: f64) -> Cell {
    if metric.is_share() { Cell::Share(value) } else { Cell::FineDuration(value) }
}

/// A difference with its unit and sign.
fn difference(metric: Metric, value: f64) -> Cell {
    Cell::difference(shown(metric, value))
}

fn span(metric: Metric, interval: Option<Interval>) -> Cell {
    let ends =
        |found: Interval| Cell::interval(difference(metric, found.low), difference(metric, found.high));
    interval.map_or(Cell::Missing, ends)
}

/// A probability; the smallest ones as an upper bound.
fn p_value(p: f64) -> Cell {
    if p < 0.001 { "< 0.001".into() } else { Cell::Number { value: p, digits: 3 } }
}

/// The document.
pub fn document(input: &StudyInput<'_>) -> Document {
    let (summary, run) = (input.summary, input.run);
    let mut document = Document::new("quaver study", &run.name);
    document.version.clone_from(&run.version);
    document.verdict = Some(verdict(summary));
    document.incomplete = !summary.complete;
    document.fact("host", &run.host).fact("stream", &run.stream).fact("design", design(summary));
    document.html_fact("run", &run.directory).html_fact("command", Text::default().code(&run.command));
    document.html_fact("started", &run.started);
    run.facts.iter().for_each(|(name, value)| {
        document.html_fact(name, value);
    });
    tiles(&mut document, summary);
    summary.warnings.iter().for_each(|warning| {
        document.warn(warning);
    });
    if let Some(report) = &summary.paper {
        document.sections.extend(paper::generator_section(report, summary.facts.period_ns));
    }
    document.section(ranking(summary));
    if let Some(report) = &summary.paper {
        document.section(paper::section(report, summary.facts.period_ns));
    }
    document.sections.extend(StudyLayer::ALL.into_iter().filter_map(|layer| layers::section(summary, layer)));
    document.section(contrasts(summary)).section(senders(summary));
    document
}

/// How the study was done.
fn design(summary: &StudySummary) -> Text {
    let facts = &summary.facts;
    text!(
        "{} blocks of {} arms in random order (seed {}), {} per cell after {} of warm-up; {} cells measured, {} planned, {} \
         discarded",
        facts.blocks,
        facts.arms.len(),
        facts.seed,
        Cell::Duration(facts.measured_ns as i64),
        Cell::Duration(facts.warm_up_ns as i64),
        summary.cells,
        summary.cells_planned,
        summary.discarded.len()
    )
}

/// The finding in one sentence.
fn verdict(summary: &StudySummary) -> Text {
    let of = |verdict| summary.ranking.iter().filter(move |effect| effect.verdict == verdict);
    let metric = summary.facts.rank_by;
    let Some(first) = of(StudyVerdict::Worse).next() else {
        return if summary.facts.blocks < summary.blocks_needed {
            text!("Too few blocks for any conclusion: {} are needed.", summary.blocks_needed)
        } else if of(StudyVerdict::TooFewBlocks).next().is_some() {
            "Too many cells were discarded: the remaining blocks cannot separate every factor from chance."
                .into()
        } else if of(StudyVerdict::Sender).next().is_some() {
            "No conclusion: the sender's own error exceeds the effects.".into()
        } else {
            "No factor differs from the baseline.".into()
        };
    };
    let more = match of(StudyVerdict::Worse).count() - 1 {
        0 => "; no other factor differs from the baseline".to_owned(),
        more => format!("; {more} more {} worse than the baseline", if more == 1 { "is" } else { "are" }),
    };
    let size = difference(metric, first.ranked.difference);
    text!("Largest effect: {}, {size} of {}{more}.", first.arm, metric.name())
}

fn tiles(document: &mut Document, summary: &StudySummary) {
    let worse = summary.ranking.iter().filter(|effect| effect.verdict == StudyVerdict::Worse).count();
    let metric = summary.facts.rank_by;
    let value = format!("{worse} of {}", summary.ranking.len());
    document.tile("Worse than the baseline", value, format!("by {}, p corrected (Holm)", metric.name()));
    if let Some(first) = summary.ranking.first() {
        let size = difference(metric, first.ranked.difference);
        document.tile("Largest effect", first.arm.as_str(), text!("{}: {size}", metric.name()));
        let at = format!("{} at the application", metric.name());
        document.tile("Baseline", shown(metric, first.ranked.baseline), at);
    }
    if let Some(control) = summary.controls.first() {
        let size = difference(metric, control.ranked.difference);
        document.tile("Control (A/A)", size, control.verdict.words());
    }
}

fn ranking(summary: &StudySummary) -> Section {
    let metric = summary.facts.rank_by;
    let mut note = format!("by {} at the application, largest effect first", metric.name());
    if let Some(first) = summary.ranking.first() {
        note.push_str(&format!("; baseline {}", shown(metric, first.ranked.baseline)));
    }
    let mut table = Table::new([
        Column::new(""),
        Column::new("factor"),
        Column::new("class").html_only(),
        Column::new("baseline").html_only(),
        Column::new("with factor").html_only(),
        Column::new("difference").note("mean over blocks of arm − baseline; pp: percentage points"),
        Column::new("95 %"),
        Column::new("p").note("corrected (Holm)"),
        Column::new("verdict"),
    ]);
    let ranks = (1..).map(|rank| Some(Cell::Index(rank))).take(summary.ranking.len());
    let all = summary.ranking.iter().chain(&summary.controls);
    for (effect, rank) in all.clone().zip(ranks.chain(std::iter::repeat(None))) {
        let Contrast { metric, baseline, arm, interval, .. } = effect.ranked;
        table.row([
            rank.unwrap_or(Cell::Empty),
            effect.arm.as_str().into(),
            effect.class.map(|class| class.words()).into(),
            shown(metric, baseline),
            shown(metric, arm),
            difference(metric, effect.ranked.difference),
            span(metric, interval),
            p_value(effect.p_corrected),
            effect.verdict.words().into(),
        ]);
    }
    let terms = "T is the period; lt.5T is the share of ΔT below half of it, gt1.5T that above one and a half, off.5T both \
                 together. p is corrected (Holm). A difference is the mean over blocks of arm − baseline; pp: percentage points.";
    let mut section = Section::new("ranking", "Ranking").note(note);
    section.push(forest(metric, all)).push(table).push(Block::Note(terms.into()).only(Shown::HtmlOnly));
    let classes = summary.classes.iter().map(|class| {
        let factors: Vec<String> = class.factors.iter().map(|(rank, id)| format!("{rank}. {id}")).collect();
        text!("{}: {}", class.class.words(), factors.join(", "))
    });
    section.push(Block::Heading("By the paper's classes".into())).push(Block::List(classes.collect()));
    if !summary.interactions.is_empty() {
        let found = summary.interactions.iter().map(|found| interaction(metric, found));
        section.push(Block::Heading("Interactions".into())).push(Block::List(found.collect()));
    }
    let mut validity = vec![carry_over(summary)];
    validity.extend(summary.probe_cost.as_ref().map(|cost| tracing(cost, summary.facts.period_ns)));
    section.push(Block::Heading("Validity".into())).push(Block::List(validity));
    section
}

/// Effects with their intervals on one scale.
fn forest<'a>(metric: Metric, effects: impl Iterator<Item = &'a Effect>) -> Chart {
    let row = |effect: &Effect| Range {
        name: effect.arm.clone(),
        at: effect.ranked.difference,
        interval: effect.ranked.interval.map(|found| (found.low, found.high)),
        colour: match effect.verdict {
            StudyVerdict::Worse => Colour::Series(0),
            StudyVerdict::Better => Colour::Series(1),
            _ => Colour::Muted,
        },
        words: format!("{} · {}", difference(metric, effect.ranked.difference), effect.words),
    };
    let quantity = if metric.is_share() { Quantity::Share } else { Quantity::Duration };
    let value = Axis::linear(format!("difference of {}", metric.name()), quantity);
    let plot = Ranges { value, rows: effects.map(row).collect(), zero: Some(0.0) };
    Chart::new("effects", "Effects with their 95 % intervals", plot).note("The line is no effect.")
}

fn interaction(metric: Metric, found: &Interaction) -> Text {
    let [one, other] = &found.of;
    let verdict = if found.blocks < 6 {
        "too few blocks to tell"
    } else if found.p_corrected > 0.05 {
        "no interaction found"
    } else if found.difference < 0.0 {
        "sub-additive: one masks the other"
    } else {
        "super-additive"
    };
    let [both, sum, size] = [found.both, found.sum, found.difference].map(|value| difference(metric, value));
    let (interval, p) = (span(metric, found.interval), p_value(found.p_corrected));
    text!(
        "{one} and {other}: {both} together, sum {sum}, interaction {size} (95 % CI {interval}; p {p}): {verdict}"
    )
}

/// What the test for carry-over says.
fn carry_over(summary: &StudySummary) -> Text {
    match summary.carry_over {
        None => "Carry-over: too few cells.".into(),
        Some(found) if found.p <= 0.05 => text!("Carry-over found (p {}).", p_value(found.p)),
        Some(found) => text!("No carry-over found (p {}).", p_value(found.p)),
    }
}

/// What tracing costs.
fn tracing(cost: &ProbeCost, period_ns: f64) -> Text {
    let (low, high) = cost.interval_ns;
    text!(
        "Tracing adds {} per packet (95 % CI {}), {} of the period, in every arm alike.",
        difference(Metric::P50, cost.per_packet_ns),
        span(Metric::P50, Some(Interval { low, high })),
        Cell::Share(cost.per_packet_ns.max(0.0) / period_ns)
    )
}

/// What every factor does to every figure.
fn contrasts(summary: &StudySummary) -> Section {
    let mut table = Table::new([
        "factor",
        "layer",
        "figure",
        "baseline",
        "with factor",
        "difference",
        "95 %",
        "effect size",
        "p, uncorrected",
    ]);
    for effect in summary.ranking.iter().chain(&summary.controls) {
        for found in &effect.contrasts {
            let size = |size: f64| Cell::difference(Cell::Number { value: size, digits: 1 });
            table.row([
                effect.arm.as_str().into(),
                found.layer.words().into(),
                found.metric.name().into(),
                shown(found.metric, found.baseline),
                shown(found.metric, found.arm),
                difference(found.metric, found.difference),
                span(found.metric, found.interval),
                found.effect_size.map_or(Cell::Missing, size),
                p_value(found.p),
            ]);
        }
    }
    let note = "Intervals and p are per figure, uncorrected: one in twenty is significant by chance. Maximum and standard \
                deviation of one second say little.";
    Section::new("all", "All figures").note(note).folded().shown(Shown::HtmlOnly).with(table)
}

/// How good the sender was in each arm, and which cells were discarded.
fn senders(summary: &StudySummary) -> Section {
    let mut table = Table::new([
        "arm",
        "lt.5T",
        "gt1.5T",
        "p50",
        "p99",
        "sender preempted",
        "sink preempted",
        "sent",
        "lost",
    ]);
    for arm in &summary.arms {
        table.row(sender(arm));
    }
    let note = "ΔT of the instants right before the send calls, which is how constant the stream was; and preemptions of sender \
                and sink.";
    let mut section = Section::new("senders", "Sender").note(note).shown(Shown::HtmlOnly).with(table);
    if !summary.discarded.is_empty() {
        let words = |one: &quaver_study_analysis::Discarded| {
            text!("block {}, {}: {}", one.block + 1, one.arm, one.reason)
        };
        section.push(Block::Heading("Discarded cells".into()));
        section.push(Block::List(summary.discarded.iter().map(words).collect()));
    }
    section
}

fn sender(arm: &ArmSummary) -> Vec<Cell> {
    let of = |metric: Metric| {
        arm.sender.as_ref().map_or(Cell::Missing, |figures| shown(metric, metric.of(figures)))
    };
    let figures = [Metric::BelowHalf, Metric::AboveHalf, Metric::P50, Metric::P99].map(of);
    let lost = arm.sent.saturating_sub(arm.received);
    let counts = [arm.source_involuntary, arm.sink_involuntary, arm.sent, lost].map(Cell::Count);
    [Cell::from(arm.arm.id.as_str())].into_iter().chain(figures).chain(counts).collect()
}

#[cfg(test)]
mod tests;
