//! The HTML report of a study: the ranking, ΔT histograms and time series of each arm (figures 5 to 11 of the paper), and
//! every figure in tables. Plots are drawn here, so that they need no scripts.

mod paper;

use crate::page::{
    CONTRAST_COLUMNS, FIGURE_COLUMNS, RANKING_COLUMNS, SENDER_COLUMNS, StudyInput, carry_over_words,
    class_words, contrast_cells, cost_words, design_words, difference, figure_cells, interaction_words,
    ranking_cells, sender_cells, shown, verdict,
};
use paper::{PaperData, PaperPage};
use quaver_page::html::page::{Tile, micro};
use quaver_page::html::table::Table;
use quaver_page::html::{ReportError, embed, write_end, write_head};
use quaver_page::units::duration_f64;
use quaver_study_analysis::{
    ArmSummary, BINS_PER_DECADE, Effect, LayerFigures, StudyLayer, StudySummary, StudyVerdict,
};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::Write;

const PAGE: &str = include_str!("../../../core/page/assets/report/study.html");

const SCRIPTS: [&str; 4] = [
    include_str!("../../../core/view/assets/uplot/uPlot.iife.min.js"),
    include_str!("../../../core/page/assets/report/format.js"),
    include_str!("../../../core/page/assets/report/axes.js"),
    include_str!("../../../core/page/assets/report/study.js"),
];

/// Writes the report: some 200 kB whatever the length of the run.
pub fn write_html(out: &mut dyn Write, input: &StudyInput<'_>) -> Result<(), ReportError> {
    let paper = input.summary.paper.as_ref();
    let scripts: &[&str] = if paper.is_some() { &SCRIPTS } else { &[] };
    write_head(out, PAGE, &Page::of(input), scripts)?;
    if let Some(report) = paper {
        embed::write_json(out, "data", &PaperData::of(report, input.summary.facts.period_ns))?;
    }
    write_end(out, scripts)
}

/// Everything that the template shows. Strings of others are escaped by the template, but `svg` is ours and holds numbers
/// and the words of units only.
#[derive(Serialize)]
struct Page {
    name: String,
    verb: &'static str,
    version: String,
    verdict: String,
    complete: bool,
    tiles: Vec<Tile>,
    warnings: Vec<String>,
    lead: String,
    paper: Option<PaperPage>,
    probe_cost: Option<String>,
    ranking: Table,
    forest: Vec<ForestRow>,
    classes: Vec<String>,
    interactions: Vec<String>,
    layers: Vec<LayerPage>,
    contrasts: Table,
    senders: Table,
    carry_over: String,
    discarded: Vec<String>,
    facts: Vec<(String, String)>,
}

/// One line of the plot of effects.
#[derive(Serialize)]
struct ForestRow {
    name: String,
    words: String,
    svg: String,
    value: String,
}

#[derive(Serialize)]
struct LayerPage {
    id: String,
    name: &'static str,
    figures: Table,
    arms: Vec<ArmPage>,
}

#[derive(Serialize)]
struct ArmPage {
    name: String,
    words: String,
    histogram: String,
    series: String,
    say: String,
}

impl Page {
    fn of(input: &StudyInput<'_>) -> Self {
        let (summary, run) = (input.summary, input.run);
        let ranked =
            summary.ranking.iter().enumerate().map(|(at, effect)| ranking_cells(Some(at + 1), effect));
        let controls = summary.controls.iter().map(|effect| ranking_cells(None, effect));
        let every = summary.ranking.iter().chain(&summary.controls);
        let contrasts =
            every.flat_map(|effect| effect.contrasts.iter().map(|found| contrast_cells(&effect.arm, found)));
        let known = [
            ("Design", design_words(summary)),
            ("Stream", run.stream.clone()),
            ("Run", run.directory.clone()),
            ("Command", run.command.clone()),
            ("Started", run.started.clone()),
            ("Host", run.host.clone()),
        ];
        let known = known.into_iter().filter(|(_, text)| !text.is_empty());
        Self {
            name: run.name.clone(),
            verb: "study",
            version: run.version.clone(),
            verdict: micro(verdict(summary)),
            complete: summary.complete,
            tiles: tiles(summary),
            warnings: summary.warnings.iter().cloned().map(micro).collect(),
            lead: micro(design_words(summary)),
            paper: summary.paper.as_ref().map(|report| PaperPage::of(report)),
            probe_cost: summary
                .probe_cost
                .as_ref()
                .map(|cost| micro(cost_words(cost, summary.facts.period_ns))),
            ranking: Table::new(&RANKING_COLUMNS, ranked.chain(controls)),
            forest: forest(summary),
            classes: summary.classes.iter().map(class_words).collect(),
            interactions: summary
                .interactions
                .iter()
                .map(|found| micro(interaction_words(summary.facts.rank_by, found)))
                .collect(),
            layers: StudyLayer::ALL.into_iter().filter_map(|layer| layer_page(summary, layer)).collect(),
            contrasts: Table::new(&CONTRAST_COLUMNS, contrasts),
            senders: Table::new(&SENDER_COLUMNS, summary.arms.iter().map(sender_cells)),
            carry_over: carry_over_words(summary),
            discarded: summary
                .discarded
                .iter()
                .map(|one| format!("block {}, {}: {}", one.block + 1, one.arm, one.reason))
                .collect(),
            facts: known
                .map(|(name, text)| (name.to_owned(), micro(text)))
                .chain(run.facts.iter().cloned())
                .collect(),
        }
    }
}

fn tiles(summary: &StudySummary) -> Vec<Tile> {
    let worse = summary.ranking.iter().filter(|effect| effect.verdict == StudyVerdict::Worse).count();
    let metric = summary.facts.rank_by;
    let mut tiles = vec![Tile {
        name: "Worse than the baseline",
        value: format!("{worse} of {}", summary.ranking.len()),
        note: format!("by {}, p corrected for their number", metric.name()),
    }];
    if let Some(first) = summary.ranking.first() {
        tiles.push(Tile {
            name: "The costliest",
            value: first.arm.clone(),
            note: micro(format!("{}: {}", metric.name(), difference(metric, first.ranked.difference))),
        });
        tiles.push(Tile {
            name: "Baseline",
            value: micro(shown(metric, first.ranked.baseline)),
            note: format!("{} at the application", metric.name()),
        });
    }
    if let Some(control) = summary.controls.first() {
        tiles.push(Tile {
            name: "Against itself",
            value: micro(difference(metric, control.ranked.difference)),
            note: control.verdict.words().to_owned(),
        });
    }
    tiles
}

const WIDTH: f64 = 420.0;

/// Effects with their intervals on one scale.
fn forest(summary: &StudySummary) -> Vec<ForestRow> {
    let all: Vec<&Effect> = summary.ranking.iter().chain(&summary.controls).collect();
    let ends = |effect: &Effect| {
        let found = effect.ranked.interval;
        let (low, high) = found.map_or((0.0, 0.0), |found| (found.low, found.high));
        (low.min(effect.ranked.difference), high.max(effect.ranked.difference))
    };
    let least = all.iter().map(|effect| ends(effect).0).fold(0.0, f64::min);
    let most = all.iter().map(|effect| ends(effect).1).fold(0.0, f64::max);
    let room = if most > least { most - least } else { 1.0 };
    let x = |value: f64| 8.0 + (value - least) / room * (WIDTH - 16.0);
    let row = |effect: &&Effect| {
        let (low, high) = ends(effect);
        let colour = match effect.verdict {
            StudyVerdict::Worse => "var(--alarm)",
            StudyVerdict::Better => "var(--remedy-ink)",
            _ => "var(--soft)",
        };
        let svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} 22\" width=\"100%\" height=\"22\" aria-hidden=\"true\">\
             <line x1=\"{zero:.1}\" x2=\"{zero:.1}\" y1=\"0\" y2=\"22\" style=\"stroke:var(--line);stroke-width:1\"/>\
             <line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"11\" y2=\"11\" style=\"stroke:{colour};stroke-width:2\"/>\
             <circle cx=\"{:.1}\" cy=\"11\" r=\"4.5\" style=\"fill:{colour}\"/></svg>",
            x(low),
            x(high),
            x(effect.ranked.difference),
            zero = x(0.0),
        );
        ForestRow {
            name: effect.arm.clone(),
            words: micro(effect.words.clone()),
            svg,
            value: micro(difference(effect.ranked.metric, effect.ranked.difference)),
        }
    };
    all.iter().map(row).collect()
}

fn layer_page(summary: &StudySummary, layer: StudyLayer) -> Option<LayerPage> {
    let found = |arm: &'_ ArmSummary| arm.layers.iter().position(|one| one.layer == layer);
    let with: Vec<(&ArmSummary, &LayerFigures)> =
        summary.arms.iter().filter_map(|arm| Some((arm, &arm.layers[found(arm)?]))).collect();
    let (_, baseline) = with.first()?;
    let scale = Scale::of(with.iter().map(|(_, layer)| *layer));
    let arms = with.iter().map(|(arm, layer)| ArmPage {
        name: arm.arm.id.clone(),
        words: micro(arm.arm.words.clone()),
        histogram: histogram(layer, baseline, &scale, summary.facts.period_ns),
        series: series(layer, &scale),
        say: micro(format!(
            "Middle 80 % from {} to {}, p99 {}",
            duration_f64(layer.figures.p10_ns),
            duration_f64(layer.figures.p90_ns),
            duration_f64(layer.figures.p99_ns)
        )),
    });
    Some(LayerPage {
        id: layer.words().to_lowercase(),
        name: layer.words(),
        figures: Table::new(&FIGURE_COLUMNS, with.iter().map(|(arm, layer)| figure_cells(arm, layer))),
        arms: arms.collect(),
    })
}

/// The range of ΔT that all plots of a layer share, in tenfolds.
struct Scale {
    least: f64,
    most: f64,
}

const PLOT_WIDTH: f64 = 300.0;
const PLOT_HEIGHT: f64 = 110.0;
/// Room for the numbers below a plot.
const FOOT: f64 = 18.0;

impl Scale {
    fn of<'a>(layers: impl Iterator<Item = &'a LayerFigures>) -> Self {
        let bins = layers.flat_map(|layer| layer.bins.iter().map(|(bin, _)| *bin));
        let (least, most) = bins.fold((u16::MAX, 0), |(least, most), bin| (least.min(bin), most.max(bin)));
        // Nobody looks below 10 ns, and clocks resolve little there.
        let least = (f64::from(least.min(most)) / BINS_PER_DECADE).floor().max(1.0);
        Self { least, most: (f64::from(most + 1) / BINS_PER_DECADE).ceil().max(least + 1.0) }
    }

    fn x(&self, ns: f64) -> f64 {
        let at = (ns.max(1.0).log10() - self.least) / (self.most - self.least);
        at.clamp(0.0, 1.0) * PLOT_WIDTH
    }

    fn label(power: i32) -> String {
        micro(duration_f64(10f64.powi(power))).replace(".00", "").replace(".0", "")
    }

    /// Lines at powers of ten, with their numbers.
    fn grid(&self) -> String {
        let mut out = String::new();
        for power in self.least as i32..=self.most as i32 {
            let x = self.x(10f64.powi(power));
            let anchor = match power {
                _ if x < 1.0 => "start",
                _ if x > PLOT_WIDTH - 1.0 => "end",
                _ => "middle",
            };
            // Every second number where they would touch.
            let crowded = self.most - self.least > 5.0 && power % 2 != 0;
            let label = if crowded { String::new() } else { Self::label(power) };
            let _ = write!(
                out,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{PLOT_HEIGHT}\" style=\"stroke:var(--faint)\"/>\
                 <text x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"{anchor}\" style=\"fill:var(--soft);font-size:11px\">{label}</text>",
                PLOT_HEIGHT + FOOT - 4.0
            );
        }
        out
    }
}

fn framed(inside: &str, height: f64) -> String {
    format!(
        "<svg viewBox=\"0 0 {PLOT_WIDTH} {height}\" width=\"100%\" style=\"max-width:420px;display:block\" \
         aria-hidden=\"true\">{inside}</svg>"
    )
}

/// The histogram of an arm, filled, and that of the baseline as an outline. The height of a bin is the logarithm of its
/// share, from a hundred-thousandth up, since what is rare is what a study is about.
fn histogram(layer: &LayerFigures, baseline: &LayerFigures, scale: &Scale, period_ns: f64) -> String {
    // Neighbouring bins share an edge, so that the line goes round the histogram and not round each bin.
    let outline = |layer: &LayerFigures| {
        let total: u64 = layer.bins.iter().map(|(_, count)| count).sum();
        let edge = |bin: u32| scale.x(10f64.powf(f64::from(bin) / BINS_PER_DECADE));
        let mut path = format!("M0 {PLOT_HEIGHT}");
        let mut at = None;
        for (bin, count) in &layer.bins {
            let bin = u32::from(*bin);
            if at != Some(bin) {
                let _ = write!(path, "V{PLOT_HEIGHT}H{:.1}", edge(bin));
            }
            let share = *count as f64 / total.max(1) as f64;
            let y = PLOT_HEIGHT * (1.0 - ((share.log10() + 5.0) / 5.0).clamp(0.0, 1.0));
            let _ = write!(path, "V{y:.1}H{:.1}", edge(bin + 1));
            at = Some(bin + 1);
        }
        format!("{path}V{PLOT_HEIGHT}")
    };
    let inside = format!(
        "{}<path d=\"{}\" style=\"fill:var(--layer-0);fill-opacity:.55;stroke:none\"/>\
         <path d=\"{}\" style=\"fill:none;stroke:var(--ink);stroke-width:.8\"/>\
         <line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{PLOT_HEIGHT}\" style=\"stroke:var(--alarm);stroke-dasharray:3 3\"/>",
        scale.grid(),
        outline(layer),
        outline(baseline),
        x = scale.x(period_ns),
    );
    framed(&inside, PLOT_HEIGHT + FOOT)
}

/// ΔT of the first cell over time: the range of each slice, upwards on the scale of the histogram.
fn series(layer: &LayerFigures, scale: &Scale) -> String {
    let y = |ns: i64| PLOT_HEIGHT * (1.0 - scale.x(ns as f64) / PLOT_WIDTH);
    let wide = PLOT_WIDTH / layer.series.len().max(1) as f64;
    let mut path = String::new();
    for (at, (least, most)) in layer.series.iter().enumerate() {
        let x = (at as f64 + 0.5) * wide;
        let (top, bottom) = (y(*most), y(*least).max(y(*most) + 1.0));
        let _ = write!(path, "M{x:.1} {top:.1}V{bottom:.1}");
    }
    let mut inside = String::new();
    for power in scale.least as i32..=scale.most as i32 {
        let y = y(10i64.pow(power.unsigned_abs()));
        let _ = write!(
            inside,
            "<line x1=\"0\" x2=\"{PLOT_WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\" style=\"stroke:var(--faint)\"/>"
        );
    }
    let _ = write!(
        inside,
        "<path d=\"{path}\" style=\"stroke:var(--series);stroke-width:{:.2};fill:none\"/>",
        wide.max(0.8)
    );
    framed(&inside, PLOT_HEIGHT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::fixture;
    use quaver_page::RunFacts;

    #[test]
    fn the_page_has_every_part_and_escapes_what_others_wrote() {
        let summary = fixture::summary();
        let run = RunFacts { name: "study-x".to_owned(), ..RunFacts::default() };
        let mut out = Vec::new();
        write_html(&mut out, &StudyInput { summary: &summary, run: &run, report_path: None }).unwrap();
        let page = String::from_utf8(out).unwrap();
        for text in [
            "Ranking",
            "hardware: 1. throttled",
            "one hides the other",
            "id=\"application\"",
            "id=\"stack\"",
            "42 cells measured, 42 planned",
        ] {
            assert!(page.contains(text), "{text}");
        }
        assert!(page.contains("&lt;b&gt;neighbour") && !page.contains("<b>neighbour"));
        assert!(page.contains("default-src &#x27;none&#x27;") || page.contains("default-src 'none'"));
        assert!(page.ends_with("</body>\n</html>\n") && page.len() < 1 << 20, "{}", page.len());
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
        assert_eq!(page.matches("class=\"histogram\"").count(), 12, "six arms at two layers");
        assert!(!page.contains("NaN") && !page.contains("inf "));
    }

    #[test]
    fn the_papers_figures_have_plots_or_a_reason() {
        let mut summary = fixture::summary();
        summary.paper = Some(Box::new(crate::page::paper::fixture::report()));
        let run = RunFacts::default();
        let mut out = Vec::new();
        write_html(&mut out, &StudyInput { summary: &summary, run: &run, report_path: None }).unwrap();
        let page = String::from_utf8(out).unwrap();
        let drawn = summary.paper.as_ref().unwrap().figures.iter().filter(|one| one.here.is_some()).count();
        assert_eq!((drawn, page.matches("class=\"pane paper\"").count()), (5, 5));
        assert!(page.contains("no such &lt;b&gt;NIC") && !page.contains("<i>a spinner"));
        for text in ["Clusters", "nothing else seen", "Figure 9 of the paper", "its captions call (a)"] {
            assert!(page.contains(text), "{text}");
        }
        let explained = page.matches("; lt.5T is ").count();
        let first = page.matches("; lt.5T ").count() - explained;
        assert_eq!((first, explained), (5, 1), "figures that one run can tell stand first");
        assert_eq!(page.matches(", sd (as in figure 3) ").count(), 1, "the generator's words");
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
        assert!(at("id=\"generator\"") < at("id=\"ranking\""), "the generator is judged first");
        assert!(page.contains("\"bin_ns\":20") && page.ends_with("</body>\n</html>\n"));
    }
}
