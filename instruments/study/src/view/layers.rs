//! ΔT of each arm at one layer.

use super::shown;
use quaver_study_analysis::{ArmSummary, BINS_PER_DECADE, LayerFigures, Metric, StudyLayer, StudySummary};
use quaver_view::{
    Axis, Binned, Cell, Chart, Colour, Column, Data, Distribution, DistributionView, Group, Guide, Quantity,
    Section, Series, Table, Xy, text,
};

/// Columns of the figures, and whether the terminal has room for them.
const FIGURES: [(Metric, bool); 11] = [
    (Metric::BelowHalf, true),
    (Metric::AboveHalf, true),
    (Metric::Spikes, false),
    (Metric::P10, true),
    (Metric::P50, false),
    (Metric::P90, true),
    (Metric::P99, true),
    (Metric::P99_9, true),
    (Metric::P99_99, false),
    (Metric::Sd, false),
    (Metric::Max, false),
];

/// The layer, where an arm has it.
pub(super) fn section(summary: &StudySummary, layer: StudyLayer) -> Option<Section> {
    let of = |arm: &'_ ArmSummary| arm.layers.iter().position(|one| one.layer == layer);
    let with: Vec<(&ArmSummary, &LayerFigures)> =
        summary.arms.iter().filter_map(|arm| Some((arm, &arm.layers[of(arm)?]))).collect();
    let (_, baseline) = with.first()?;
    let columns = FIGURES.map(|(metric, terminal)| {
        let column = Column::new(metric.name());
        if terminal { column } else { column.html_only() }
    });
    let mut table = Table::new(["arm", "cells"].map(Column::from).into_iter().chain(columns));
    for (arm, layer) in &with {
        let figures = FIGURES.map(|(metric, _)| shown(metric, metric.of(&layer.figures)));
        let head = [Cell::from(arm.arm.id.as_str()), Cell::Count(u64::from(arm.cells))];
        table.row(head.into_iter().chain(figures));
    }
    let id = layer.words().to_lowercase();
    let period = summary.facts.period_ns;
    let charts = with.iter().enumerate().flat_map(|(at, (arm, layer))| {
        let name = &arm.arm.id;
        let histogram = Chart::new(format!("{id}-histogram-{at}"), name, histogram(layer, baseline, period))
            .note(arm.arm.words.as_str());
        let time = over_time(name, &layer.series, layer.figures.count, (period, true));
        let note = text!(
            "The first cell. Middle 80 % from {} to {}, p99 {}.",
            Cell::FineDuration(layer.figures.p10_ns),
            Cell::FineDuration(layer.figures.p90_ns),
            Cell::FineDuration(layer.figures.p99_ns)
        );
        let time = Chart::new(format!("{id}-time-{at}"), format!("{name} over time"), time).note(note);
        [histogram.still(), time.still()]
    });
    let note = match layer {
        StudyLayer::Isr | StudyLayer::Softirq => "between runs of it; medians over blocks",
        _ => "medians over blocks",
    };
    let section = Section::new(&id, format!("ΔT at the {}", layer.words())).note(note);
    Some(section.with(table).with(Group::beside(charts)))
}

/// The histogram of an arm over that of the baseline.
fn histogram(layer: &LayerFigures, baseline: &LayerFigures, period_ns: f64) -> Distribution {
    let series = vec![
        binned("baseline", Colour::Muted, &baseline.bins),
        binned("this arm", Colour::Series(1), &layer.bins),
    ];
    Distribution {
        x: Axis::log("ΔT", Quantity::Duration),
        of: "packets".into(),
        views: vec![DistributionView::Histogram],
        series,
        guides: vec![Guide { at: period_ns, label: "the period".into(), upright: true }],
    }
}

/// All bins from the first to the last, those without a count too.
fn binned(name: &str, colour: Colour, bins: &[(u16, u64)]) -> Binned {
    let edge = |bin: u16| 10f64.powf(f64::from(bin) / BINS_PER_DECADE);
    let (first, last) = (bins.first().map_or(0, |bin| bin.0), bins.last().map_or(0, |bin| bin.0));
    let mut counts = vec![0.0; usize::from(last - first) + 1];
    bins.iter().for_each(|(bin, count)| counts[usize::from(bin - first)] += *count as f64);
    let edges = (first..=last + 1).map(edge).collect();
    Binned { name: name.into(), colour, edges, counts: counts.into(), below: 0.0, above: 0.0 }
}

/// The range of ΔT in each slice of the packets, with the period.
pub(super) fn over_time(name: &str, slices: &[(i64, i64)], count: u64, (period_ns, log): (f64, bool)) -> Xy {
    let y = if log { Axis::log("ΔT", Quantity::Duration) } else { Axis::linear("ΔT", Quantity::Duration) };
    let step = count as f64 / slices.len().max(1) as f64;
    let low = slices.iter().map(|(low, _)| *low as f64).collect();
    let high = slices.iter().map(|(_, high)| *high as f64).collect();
    Xy::new(Axis::linear("packet", Quantity::Count), y)
        .with(Series::new(name, Colour::Series(1), Data::Slices { start: 0.0, step, low, high }))
        .guide_y(period_ns, "the period")
}
