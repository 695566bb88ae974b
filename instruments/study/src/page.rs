//! The page that `quaver study` prints, and the rows that it shares with the HTML report.

pub(super) mod paper;

pub(crate) use paper::generator_words;

use quaver_analysis::rounds::Interval;
use quaver_analysis::summary::ProbeCost;
use quaver_page::RunFacts;
use quaver_page::console::{WIDTH, cut_short, heading, warnings};
use quaver_page::table::{Align, Style, Table, printable, wrap};
use quaver_page::units::{count, duration, duration_f64, percent};
use quaver_study_analysis::{
    ArmSummary, ClassRanking, Contrast, Effect, Interaction, LayerFigures, Metric, PaperReport, StudyLayer,
    StudySummary, StudyVerdict,
};

/// What the pages of a study are made from.
#[derive(Clone, Copy, Debug)]
pub struct StudyInput<'a> {
    /// Results.
    pub summary: &'a StudySummary,
    /// Facts of the run.
    pub run: &'a RunFacts,
    /// Path of the HTML report, where one was written.
    pub report_path: Option<&'a str>,
}

/// A figure with its unit.
pub(super) fn shown(metric: Metric, value: f64) -> String {
    if metric.is_share() { percent(value) } else { duration_f64(value) }
}

/// A difference with its unit and sign.
pub(super) fn difference(metric: Metric, value: f64) -> String {
    if metric.is_share() {
        return format!("{:+.2} pp", value * 100.0);
    }
    let sign = if value < 0.0 { "-" } else { "+" };
    format!("{sign}{}", duration_f64(value.abs()))
}

fn span(metric: Metric, interval: Option<Interval>) -> String {
    let ends =
        |found: Interval| format!("{} to {}", difference(metric, found.low), difference(metric, found.high));
    interval.map_or_else(|| "-".to_owned(), ends)
}

fn p_value(p: f64) -> String {
    if p < 0.001 { "< .001".to_owned() } else { format!("{p:.3}").trim_start_matches('0').to_owned() }
}

/// Columns of the ranking.
pub(super) const RANKING_COLUMNS: [&str; 9] =
    ["", "factor", "class", "baseline", "with it", "difference", "95 %", "p, corrected", "verdict"];

/// One factor, or the control.
pub(super) fn ranking_cells(rank: Option<usize>, effect: &Effect) -> [String; 9] {
    let Contrast { metric, baseline, arm, interval, .. } = effect.ranked;
    [
        rank.map_or_else(String::new, |rank| rank.to_string()),
        effect.arm.clone(),
        effect.class.map_or_else(|| "-".to_owned(), |class| class.words().to_owned()),
        shown(metric, baseline),
        shown(metric, arm),
        difference(metric, effect.ranked.difference),
        span(metric, interval),
        p_value(effect.p_corrected),
        effect.verdict.words().to_owned(),
    ]
}

/// Columns of the figures of arms.
pub(super) const FIGURE_COLUMNS: [&str; 13] =
    ["arm", "cells", "lt.5T", "gt1.5T", "spikes", "p10", "p50", "p90", "p99", "p99.9", "p99.99", "sd", "max"];

/// One arm at one layer.
pub(super) fn figure_cells(arm: &ArmSummary, layer: &LayerFigures) -> [String; 13] {
    let figures = &layer.figures;
    let of = |metric: Metric| shown(metric, metric.of(figures));
    [
        arm.arm.id.clone(),
        arm.cells.to_string(),
        of(Metric::BelowHalf),
        of(Metric::AboveHalf),
        of(Metric::Spikes),
        of(Metric::P10),
        of(Metric::P50),
        of(Metric::P90),
        of(Metric::P99),
        of(Metric::P99_9),
        of(Metric::P99_99),
        of(Metric::Sd),
        of(Metric::Max),
    ]
}

/// Columns of what every factor does to every figure.
pub(super) const CONTRAST_COLUMNS: [&str; 9] = [
    "factor",
    "layer",
    "figure",
    "baseline",
    "with it",
    "difference",
    "95 %",
    "effect size",
    "p, not corrected",
];

/// One figure of one factor.
pub(super) fn contrast_cells(arm: &str, found: &Contrast) -> [String; 9] {
    [
        arm.to_owned(),
        found.layer.words().to_owned(),
        found.metric.name().to_owned(),
        shown(found.metric, found.baseline),
        shown(found.metric, found.arm),
        difference(found.metric, found.difference),
        span(found.metric, found.interval),
        found.effect_size.map_or_else(|| "-".to_owned(), |size| format!("{size:+.1}")),
        p_value(found.p),
    ]
}

/// Columns of the senders.
pub(super) const SENDER_COLUMNS: [&str; 9] = [
    "arm",
    "lt.5T",
    "gt1.5T",
    "p50",
    "p99",
    "sender lost its CPU",
    "sink lost its CPU",
    "sent",
    "not received",
];

/// How good the sender was in one arm.
pub(super) fn sender_cells(arm: &ArmSummary) -> [String; 9] {
    let of = |metric: Metric| {
        arm.sender.as_ref().map_or_else(|| "-".to_owned(), |figures| shown(metric, metric.of(figures)))
    };
    [
        arm.arm.id.clone(),
        of(Metric::BelowHalf),
        of(Metric::AboveHalf),
        of(Metric::P50),
        of(Metric::P99),
        count(arm.source_involuntary),
        count(arm.sink_involuntary),
        count(arm.sent),
        count(arm.sent.saturating_sub(arm.received)),
    ]
}

/// An interaction in words.
pub(super) fn interaction_words(metric: Metric, found: &Interaction) -> String {
    let [one, other] = &found.of;
    let verdict = if found.blocks < 6 {
        "too few blocks to tell"
    } else if found.p_corrected > 0.05 {
        "no interaction found"
    } else if found.difference < 0.0 {
        "together less than the sum: one hides the other"
    } else {
        "together more than the sum"
    };
    format!(
        "{one} and {other}: {} together, {} in sum, so {} (95 %: {}; p {}): {verdict}",
        difference(metric, found.both),
        difference(metric, found.sum),
        difference(metric, found.difference),
        span(metric, found.interval),
        p_value(found.p_corrected)
    )
}

/// A class with its factors, in words.
pub(super) fn class_words(class: &ClassRanking) -> String {
    let factors: Vec<String> = class.factors.iter().map(|(rank, id)| format!("{rank}. {id}")).collect();
    format!("{}: {}", class.class.words(), factors.join(", "))
}

/// How the study was done, in words.
pub(super) fn design_words(summary: &StudySummary) -> String {
    let facts = &summary.facts;
    format!(
        "{} blocks of {} arms in random order (seed {}), {} each after {} of warm-up; {} cells measured, {} planned, {} do not \
         count",
        facts.blocks,
        facts.arms.len(),
        facts.seed,
        duration(facts.measured_ns as i64),
        duration(facts.warm_up_ns as i64),
        summary.cells,
        summary.cells_planned,
        summary.discarded.len()
    )
}

/// What the test for carry-over says.
pub(super) fn carry_over_words(summary: &StudySummary) -> String {
    match summary.carry_over {
        None => "too few cells to tell whether what ran before shows".to_owned(),
        Some(found) if found.p <= 0.05 => format!("what ran before shows (p {})", p_value(found.p)),
        Some(found) => format!("what ran before does not show (p {})", p_value(found.p)),
    }
}

/// The finding in one sentence.
pub(super) fn verdict(summary: &StudySummary) -> String {
    let found: Vec<&Effect> =
        summary.ranking.iter().filter(|effect| effect.verdict == StudyVerdict::Worse).collect();
    let metric = summary.facts.rank_by;
    match found.as_slice() {
        [] if summary.facts.blocks < summary.blocks_needed => {
            format!("Too few blocks to tell any factor from chance: {} are needed.", summary.blocks_needed)
        }
        [] if summary.ranking.iter().any(|effect| effect.verdict == StudyVerdict::TooFewBlocks) => {
            "Too many cells do not count: the blocks that are left cannot tell every factor from chance."
                .to_owned()
        }
        [] if summary.ranking.iter().any(|effect| effect.verdict == StudyVerdict::Sender) => {
            "Nothing is concluded: the sender itself was off by more than what was found.".to_owned()
        }
        [] => "No factor could be told from the baseline.".to_owned(),
        [first, rest @ ..] => format!(
            "{} costs most: {} of {}{}.",
            first.arm,
            difference(metric, first.ranked.difference),
            metric.name(),
            match rest.len() {
                0 => "; nothing else could be told from the baseline".to_owned(),
                more =>
                    format!("; {more} more {} worse than the baseline", if more == 1 { "is" } else { "are" }),
            }
        ),
    }
}

/// The page.
pub fn page(input: &StudyInput<'_>, style: Style) -> String {
    let (summary, run) = (input.summary, input.run);
    let mut out = format!("{} · {}\n", style.bold("quaver study"), printable(&run.name));
    let lines =
        [("host", run.host.clone()), ("stream", run.stream.clone()), ("design", design_words(summary))];
    for (name, text) in lines.iter().filter(|(_, text)| !text.is_empty()) {
        for (at, line) in wrap(&printable(text), WIDTH - 10).iter().enumerate() {
            let name = if at == 0 { name } else { "" };
            out.push_str(&format!("  {}  {line}\n", style.dim(&format!("{name:<6}"))));
        }
    }
    cut_short(&mut out, summary.complete, style);
    if let Some(generator) = summary.paper.as_ref().and_then(|report| report.generator.as_ref()) {
        heading(&mut out, style, "Generator", if generator.first { "judged before all else" } else { "" });
        paragraph(&mut out, &format!("{}.", paper::generator_words(generator)));
        generator.conclusions.iter().for_each(|sentence| paragraph(&mut out, sentence));
    }
    out.push_str(&format!("\n{}\n", style.bold(&verdict(summary))));
    let note = format!("by {} at the application, the costliest first", summary.facts.rank_by.name());
    heading(&mut out, style, "Ranking", &note);
    let mut table = titled(&RANKING_COLUMNS, &["factor", "class", "verdict"]);
    for (at, effect) in summary.ranking.iter().enumerate() {
        table.row(ranking_cells(Some(at + 1), effect).map(|cell| printable(&cell)));
    }
    for control in &summary.controls {
        table.row(ranking_cells(None, control).map(|cell| printable(&cell)));
    }
    out.push_str(&table.render(style));
    heading(&mut out, style, "Classes", "the paper's");
    for class in &summary.classes {
        paragraph(&mut out, &class_words(class));
    }
    if !summary.interactions.is_empty() {
        heading(&mut out, style, "Together", "");
        for found in &summary.interactions {
            paragraph(&mut out, &interaction_words(summary.facts.rank_by, found));
        }
    }
    for layer in StudyLayer::ALL {
        figures(&mut out, summary, layer, style);
    }
    if let Some(report) = &summary.paper {
        paper_part(&mut out, report, style);
    }
    if let Some(cost) = &summary.probe_cost {
        paragraph(&mut out, &format!("Tracing: {}.", cost_words(cost, summary.facts.period_ns)));
    }
    paragraph(&mut out, &format!("Carry-over: {}.", carry_over_words(summary)));
    warnings(&mut out, &summary.warnings, style);
    if let Some(path) = input.report_path {
        out.push_str(&format!("\n{}  {}\n", style.bold("Report"), printable(path)));
    }
    out
}

/// What tracing costs, in words.
pub(super) fn cost_words(cost: &ProbeCost, period_ns: f64) -> String {
    let (low, high) = cost.interval_ns;
    format!(
        "it adds {} to the way of a packet (95 %: {} to {}), {} of the period, in every arm alike",
        difference(Metric::P50, cost.per_packet_ns),
        difference(Metric::P50, low),
        difference(Metric::P50, high),
        percent(cost.per_packet_ns.max(0.0) / period_ns)
    )
}

/// The few figures that one line has room for.
fn figures(out: &mut String, summary: &StudySummary, layer: StudyLayer, style: Style) {
    let of = |arm: &'_ ArmSummary| arm.layers.iter().position(|one| one.layer == layer);
    if !summary.arms.iter().any(|arm| of(arm).is_some()) {
        return;
    }
    let title = format!("Delta T at the {}", layer.words());
    let note = match layer {
        StudyLayer::Isr | StudyLayer::Softirq => "between runs of it; medians over blocks",
        _ => "medians over blocks",
    };
    heading(out, style, &title, note);
    let mut table = titled(&["arm", "cells", "lt.5T", "gt1.5T", "p10", "p90", "p99", "p99.9"], &[]);
    for arm in &summary.arms {
        let Some(at) = of(arm) else { continue };
        let cells = figure_cells(arm, &arm.layers[at]).map(|cell| printable(&cell));
        table.row([0, 1, 2, 3, 5, 7, 8, 9].map(|at| cells[at].clone()));
    }
    out.push_str(&table.render(style));
}

/// The paper's figures beside ours.
fn paper_part(out: &mut String, report: &PaperReport, style: Style) {
    heading(
        out,
        style,
        "The paper's figures",
        "one cell of each arm; spikes as far above the period as the paper's",
    );
    for figure in &report.figures {
        let cells = paper::paper_cells(figure);
        out.push_str(&format!(
            "\n  {}\n",
            style.bold(&printable(&format!("{}: {}", figure.figure, figure.title)))
        ));
        paragraph(out, &format!("the paper: {}", figure.saw));
        let how = paper::possible_words(&figure.possible);
        if figure.here.is_none() {
            paragraph(out, &format!("here: {how}"));
            continue;
        }
        let told = format!("here ({how}; at the {}): {}", cells[3], paper::paper_words(&cells));
        paragraph(out, &told);
        paper::further_words(figure).iter().for_each(|sentence| paragraph(out, sentence));
        if let Some(found) = &figure.code_paths {
            for cluster in &found.clusters {
                paragraph(out, &format!("- {}", paper::cluster_words(cluster)));
            }
        }
    }
    out.push('\n');
    report.notes.iter().for_each(|note| paragraph(out, note));
}

fn titled(columns: &[&str], left: &[&str]) -> Table {
    let align =
        |at: usize, name: &str| if at == 0 || left.contains(&name) { Align::Left } else { Align::Right };
    let columns: Vec<(&str, Align)> =
        columns.iter().enumerate().map(|(at, name)| (*name, align(at, name))).collect();
    Table::new(&columns)
}

fn paragraph(out: &mut String, text: &str) {
    for line in wrap(text, WIDTH - 2) {
        out.push_str(&format!("  {}\n", printable(&line)));
    }
}

#[cfg(test)]
pub(super) mod fixture {
    //! A study of three factors with a known effect each.

    use quaver_study_analysis::{
        Arm, Cell, LayerFigures, Metric, Role, SourceClass, StudyFacts, StudyLayer, StudySummary, summarize,
    };

    const PERIOD_NS: f64 = 7_410.0;

    /// ΔT of which every `one_in`-th packet comes late and the next one right after it.
    fn deltas(one_in: usize, shift: i64) -> Vec<i64> {
        let of = |at: usize| match at % one_in {
            0 => 7_410 + 7_000,
            1 => 7_410 - 7_000,
            more => 7_410 + (more as i64 * 37 + shift) % 400 - 200,
        };
        (0..4_000).map(of).collect()
    }

    pub(crate) fn summary() -> StudySummary {
        let arm =
            |id: &str, words: &str, role| Arm { id: id.into(), words: words.into(), role, boot: Vec::new() };
        let of = ["throttled".to_owned(), "blocking".to_owned()];
        let arms = vec![
            arm("baseline", "receive poll", Role::Baseline),
            arm("control (A/A)", "the baseline again", Role::Control),
            arm("throttled", "NAPI deferred by 100us", Role::Factor { class: SourceClass::Hardware }),
            arm("blocking", "receive block", Role::Factor { class: SourceClass::NetworkStack }),
            arm("<b>neighbour", "busy neighbour on", Role::Factor { class: SourceClass::NetworkIndependent }),
            arm("throttled+blocking", "both", Role::Pair { of, chosen: false }),
        ];
        let rates = [100, 100, 4, 8, 99, 4];
        let facts = StudyFacts {
            arms,
            blocks: 7,
            further_blocks: 0,
            seed: 1,
            period_ns: PERIOD_NS,
            spike_ns: 50_000,
            rank_by: Metric::OffHalf,
            measured_ns: 1_000_000_000,
            warm_up_ns: 300_000_000,
        };
        let cell = |block: u32, at: usize| {
            let mut application = deltas(rates[at] + block as usize % 2, i64::from(block));
            let mut stack = deltas(1_000, i64::from(block));
            let layer = |layer, deltas: &mut Vec<i64>| LayerFigures::of(layer, deltas, PERIOD_NS, 50_000);
            let layers =
                [layer(StudyLayer::Stack, &mut stack), layer(StudyLayer::Application, &mut application)];
            Cell {
                block,
                position: (at as u32 + block) % 6,
                arm: facts.arms[at].id.clone(),
                discarded: (block == 6 && at == 4).then(|| "the sender was off its CPU".to_owned()),
                layers: layers.into_iter().flatten().collect(),
                sender: None,
                sent: 4_001,
                received: 4_001,
                slots_missed: 0,
                sink_involuntary: 1,
                source_involuntary: 2,
                tier: "user".to_owned(),
                boot: Vec::new(),
                notes: Vec::new(),
            }
        };
        let cells: Vec<Cell> =
            (0..7).flat_map(|block| (0..6).map(move |at| (block, at))).map(|(b, a)| cell(b, a)).collect();
        summarize(&facts, &cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_ranks_and_groups() {
        let summary = fixture::summary();
        let run = RunFacts { name: "study-x".to_owned(), ..RunFacts::default() };
        let text =
            page(&StudyInput { summary: &summary, run: &run, report_path: Some("r.html") }, Style::PLAIN);
        assert_eq!(summary.ranking[0].arm, "throttled");
        for wanted in [
            "throttled costs most: +",
            "hardware: 1. throttled",
            "network stack: 2. blocking",
            "one hides the other",
            "7 blocks of 6 arms in random order (seed 1)",
            "42 cells",
            "control (A/A)",
            "r.html",
        ] {
            assert!(text.contains(wanted), "{wanted}\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 150), "{text}");
    }

    #[test]
    fn the_papers_figures_stand_beside_ours_and_what_is_missing_has_its_reason() {
        let mut summary = fixture::summary();
        summary.paper = Some(Box::new(paper::fixture::report()));
        summary.probe_cost = Some(ProbeCost { per_packet_ns: 741.0, interval_ns: (700.0, 800.0), blocks: 8 });
        let run = RunFacts::default();
        let text = page(&StudyInput { summary: &summary, run: &run, report_path: None }, Style::PLAIN);
        for wanted in [
            "Delta T at the stack",
            "3: the generator",
            "lt.5T 0 %, gt1.5T 0 %, p10 ",
            "sd (as in figure 3) 70.7 ns",
            "standard deviation 70.7 ns",
            "not possible here: no such <b>NIC",
            "emulated: <i>a spinner",
            "- around 7.46 us",
            "timer interrupt on the sink's CPU",
            "Figure 9 of the paper",
            "it adds +741 ns to the way of a packet",
            "10.0 % of the period",
        ] {
            assert!(text.contains(wanted), "{wanted}\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 150), "{text}");
    }

    #[test]
    fn differences_have_signs_and_units() {
        assert_eq!(difference(Metric::OffHalf, 0.4567), "+45.67 pp");
        assert_eq!(difference(Metric::P99, -1_234.0), "-1.23 us");
        assert_eq!(
            (p_value(0.0039), p_value(0.0001), p_value(1.0)),
            (".004".into(), "< .001".into(), "1.000".into())
        );
    }
}
