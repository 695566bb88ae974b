//! The paper's figures beside what was measured.

use super::layers::over_time;
use super::shown;
use quaver_study_analysis::{
    Cluster, Generator, LINEAR_BIN_NS, Metric, PaperDrawing, PaperFigure, PaperReport, Possible, StudyLayer,
};
use quaver_view::{
    Axis, Binned, Block, Cell, Chart, Colour, Column, Distribution, DistributionView, Group, Guide, Quantity,
    Section, Shown, Table, Text, text,
};

const METRICS: [Metric; 5] = [Metric::BelowHalf, Metric::AboveHalf, Metric::P10, Metric::P90, Metric::P99];
const SD: &str = "sd (as in figure 3)";
const SPIKES: &str = "spikes per million";

/// What the generator is, in one sentence.
pub(crate) fn generator_words(found: &Generator) -> String {
    format!(
        "standard deviation {} (the paper's: {}), {} within 1 µs of the period",
        Cell::FineDuration(found.sd_ns),
        Cell::FineDuration(found.paper_sd_ns),
        Cell::Share(found.within_1_us)
    )
}

/// How good the generator is, where it was judged.
pub(super) fn generator_section(report: &PaperReport, period_ns: f64) -> Option<Section> {
    let found = report.generator.as_ref()?;
    let note = match found.first {
        true => "judged first, as the paper judged its own (figure 3)",
        false => "judged by the stream of a baseline cell, as the paper judged its own (figure 3)",
    };
    let mut section = Section::new("generator", "Generator").note(note);
    section.push(text!("{}.", generator_words(found)));
    section.push(Block::List(found.conclusions.iter().map(Text::from).collect()));
    let own = report.figures.iter().find(|figure| is_generators(figure));
    section.blocks.extend(own.and_then(|figure| charts(figure, period_ns)).map(Block::Charts));
    Some(section)
}

fn is_generators(figure: &PaperFigure) -> bool {
    figure.figure == "3"
}

/// Every experiment.
pub(super) fn section(report: &PaperReport, period_ns: f64) -> Section {
    let note = "A. Toussaint, M. Hawari, T. Clausen, “Chasing Linux Jitter Sources for Uncompressed Video”, figures 3 to 11, \
                and the same here: one cell of each arm. Spikes are ΔT as far above the period as the paper's.";
    let mut section = Section::new("paper", "The paper's figures").link("The paper").note(note);
    let columns = ["figure", "experiment", "here", "layer"].into_iter();
    let columns = columns.chain(METRICS.map(Metric::name)).chain([SD, SPIKES, "paper"]);
    let mut table = Table::new(columns.map(Column::from));
    for figure in &report.figures {
        let head = [figure.figure.as_str(), &figure.title, possible_word(&figure.possible), layer(figure)];
        let figures = figures(figure).map(|(_, cell)| cell);
        table.row(head.map(Cell::from).into_iter().chain(figures).chain([Cell::from(figure.saw.as_str())]));
    }
    section.push(Block::from(table).only(Shown::HtmlOnly));
    report.notes.iter().for_each(|note| {
        section.push(Block::Note(note.into()));
    });
    for figure in &report.figures {
        experiment(&mut section, figure, (report.generator.is_some(), period_ns));
    }
    section
}

fn experiment(section: &mut Section, figure: &PaperFigure, (judged, period_ns): (bool, f64)) {
    section.push(Block::Heading(format!("{}: {}", figure.figure, figure.title)));
    section.push(text!("Paper: {}.", figure.saw));
    let how = possible_words(&figure.possible);
    if figure.here.is_none() {
        section.push(text!("Here: {how}."));
        return;
    }
    let other = other_layer(figure).map_or_else(String::new, |why| format!(", {why}"));
    let named = figures(figure).into_iter().filter(|(_, cell)| *cell != Cell::Missing);
    let named: Vec<String> = named.map(|(name, cell)| format!("{name} {cell}")).collect();
    section.push(text!("Here ({how}; at the {}{other}): {}.", layer(figure), named.join(", ")));
    further(section, figure);
    if let Some(found) = &figure.code_paths {
        section.push("Clusters of ΔT, and the path their packets took:");
        section.push(Block::List(found.clusters.iter().map(cluster).collect()));
        let path = |path: &quaver_study_analysis::CodePath| {
            text!(
                "{}: {}, median ΔT {}",
                path.words,
                Cell::Share(path.share),
                Cell::FineDuration(path.p50_ns)
            )
        };
        section.push(Block::Text("All paths:".into()).only(Shown::HtmlOnly));
        section.push(Block::List(found.paths.iter().map(path).collect()).only(Shown::HtmlOnly));
    }
    if !(judged && is_generators(figure)) {
        section.blocks.extend(charts(figure, period_ns).map(Block::Charts));
    }
}

/// The same experiment without what it is about, and whether its spikes are the sender's own.
fn further(section: &mut Section, figure: &PaperFigure) {
    if let Some((what, figures)) = &figure.beside {
        let [p10, p90, p99] = [Metric::P10, Metric::P90, Metric::P99].map(|one| shown(one, one.of(figures)));
        section.push(text!("Beside it, {what}: p10 {p10}, p90 {p90}, p99 {p99}."));
    }
    if let Some(own) = figure.sender_spikes_per_million.filter(|_| figure.is_the_senders()) {
        section.push(text!(
            "No conclusion from the spikes: the sender itself causes {own:.0} per million of that height."
        ));
    }
}

/// How an experiment was done.
fn possible_words(possible: &Possible) -> String {
    match possible {
        Possible::Measured => "measured".to_owned(),
        Possible::Emulated(by) => format!("emulated: {by}"),
        Possible::NotHere(reason) => format!("not possible here: {reason}"),
    }
}

/// The same in a word.
const fn possible_word(possible: &Possible) -> &'static str {
    match possible {
        Possible::Measured => "measured",
        Possible::Emulated(_) => "emulated",
        Possible::NotHere(_) => "not possible",
    }
}

fn layer(figure: &PaperFigure) -> &'static str {
    match figure.id.as_str() {
        "generator" => "send call",
        "dummy" => "loop",
        _ if figure.here.is_none() => "-",
        _ => figure.layer.words(),
    }
}

/// Why the figure shows another layer than the paper's, where it does: no experiment of the paper is about these two.
const fn other_layer(figure: &PaperFigure) -> Option<&'static str> {
    match figure.layer {
        StudyLayer::Softirq => Some("since this interface has no interrupts"),
        StudyLayer::Stack => Some("since nothing below was traced"),
        StudyLayer::Isr | StudyLayer::Application => None,
    }
}

/// The figures that one run can give, with their names.
fn figures(figure: &PaperFigure) -> [(&'static str, Cell); 7] {
    let of = |metric: Metric| {
        figure.here.as_ref().map_or(Cell::Missing, |here| shown(metric, metric.of(&here.figures)))
    };
    let spikes = figure.here.as_ref().and_then(|here| here.spikes_per_million);
    let spikes = spikes.map_or(Cell::Missing, |value| Cell::Number { value, digits: 0 });
    let [a, b, c, d, e] = METRICS.map(|metric| (metric.name(), of(metric)));
    [a, b, c, d, e, (SD, of(Metric::Sd).only_if(figure.gives_sd())), (SPIKES, spikes)]
}

/// One cluster of figure 7b with its paths.
fn cluster(cluster: &Cluster) -> Text {
    let paths = cluster.paths.iter().take(3);
    let paths: Vec<String> =
        paths.map(|path| format!("{} ({})", path.words, Cell::Share(path.share))).collect();
    let most = cluster.stages.iter().max_by(|a, b| a.mean_ns.abs().total_cmp(&b.mean_ns.abs()));
    let stage = most.map_or_else(String::new, |part| {
        format!("; mainly {}: {}", part.stage, Cell::difference(Cell::FineDuration(part.mean_ns)))
    });
    let (at, share) = (Cell::FineDuration(cluster.p50_ns), Cell::Share(cluster.share));
    text!("around {at}: {share} of the packets; {}{stage}", paths.join(", "))
}

/// ΔT over time beside its histogram.
fn charts(figure: &PaperFigure, period_ns: f64) -> Option<Group> {
    let here = figure.here.as_ref()?;
    let period = figure.own_period_ns.map_or(period_ns, |own| own as f64);
    let time = over_time(&figure.title, &here.series, here.figures.count, (period, false));
    let time = Chart::new(format!("figure-{}-time", figure.id), "ΔT over time", time);
    let bins =
        Chart::new(format!("figure-{}-histogram", figure.id), "Histogram of ΔT", histogram(here, period));
    Some(Group::beside([time, bins]))
}

fn histogram(here: &PaperDrawing, period_ns: f64) -> Distribution {
    let (rest, bins) = here.bins.split_last().unwrap_or((&0, &[]));
    let first = bins.iter().position(|count| *count > 0).unwrap_or(0).saturating_sub(10);
    let last = bins.iter().rposition(|count| *count > 0).map_or(first, |at| (at + 11).min(bins.len()));
    let series = Binned {
        name: "packets".into(),
        colour: Colour::Series(1),
        edges: (first..=last).map(|bin| (bin as i64 * LINEAR_BIN_NS) as f64).collect(),
        counts: bins[first..last].iter().copied().collect(),
        below: 0.0,
        above: f64::from(*rest),
    };
    Distribution {
        x: Axis::linear("ΔT, in bins of 20 ns", Quantity::Duration),
        of: "packets".into(),
        views: vec![DistributionView::Histogram],
        series: vec![series],
        guides: vec![Guide { at: period_ns, label: "the period".into(), upright: true }],
    }
}
