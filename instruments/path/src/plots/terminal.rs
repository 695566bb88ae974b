//! The plots of a path on a terminal.

use super::{Bars, DelayPlot, PathPlots};
use quaver_arrivals::path::histogram::Histogram;
use quaver_view::{
    Axis, BarSeries, Binned, Chart, Colour, Data, Distribution, DistributionView, Document, Group, Quantity,
    Section, Series, Style, Xy,
};
use std::io::IsTerminal;

/// Style of plots on standard output: drawn with ASCII characters where the locale is not UTF-8, and as wide as `COLUMNS`
/// says where it is no terminal.
pub(crate) fn style() -> Style {
    let style =
        Style { ascii: quaver_instrument::terminal::is_ascii(), ..quaver_instrument::terminal::style() };
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    match columns {
        Some(width) if !std::io::stdout().is_terminal() => Style { width, ..style },
        _ => style,
    }
}

/// All plots of a flow; `delays` are the distributions that are wanted.
pub(crate) fn document(verb: &str, plots: &PathPlots<'_>, delays: &[DelayPlot]) -> Document {
    let histograms = delays.iter().filter_map(|plot| Some(histogram(plot.name(), plots.histogram(*plot)?)));
    let mut charts: Vec<Chart> = histograms.collect();
    charts.extend((!plots.arrivals.is_empty()).then(|| burstiness(plots)));
    charts.extend(plots.bars().iter().map(bars));
    let mut document = Document::new(format!("quaver {verb}"), plots.title);
    document.section(
        Section::new("plots", "Plots").with(Group::beside(charts.into_iter().map(Chart::on_terminal))),
    );
    document
}

/// A histogram as a series, its values moved by `shift_ns`.
pub(crate) fn binned(name: &str, colour: Colour, histogram: &Histogram, shift_ns: i64) -> Binned {
    let edge = |at: usize| {
        let width_ns = histogram.bin_ns.saturating_mul(at as u64);
        histogram.min_ns.saturating_add(shift_ns).saturating_add_unsigned(width_ns) as f64
    };
    Binned {
        name: name.into(),
        colour,
        edges: (0..=histogram.counts.len()).map(edge).collect(),
        counts: histogram.counts.iter().map(|count| *count as f64).collect(),
        below: 0.0,
        above: histogram.above as f64,
    }
}

fn histogram(name: &str, histogram: &Histogram) -> Chart {
    let plot = Distribution {
        x: Axis::linear(name, Quantity::Duration),
        of: "packets".into(),
        views: vec![DistributionView::Histogram],
        series: vec![binned(name, Colour::Series(0), histogram, 0)],
        guides: Vec::new(),
    };
    let chart = Chart::new(name, format!("{name}: packets, cumulative share"), plot);
    if histogram.above == 0 {
        return chart;
    }
    chart.note("drawn up to the 99th percentile")
}

/// Latency over time of arrival: a dot where a packet is.
fn burstiness(plots: &PathPlots<'_>) -> Chart {
    let first_ns = plots.arrivals.first().map_or(0, |first| first.received_ns);
    let points = plots.arrivals.iter().map(|arrival| {
        (arrival.received_ns.saturating_sub(first_ns).max(0) as f64, arrival.delay_ns() as f64)
    });
    let (x, y): (Vec<f64>, Vec<f64>) = points.unzip();
    let plot = Xy::new(
        Axis::linear("arrival time", Quantity::Duration),
        Axis::linear("latency", Quantity::Duration),
    );
    let series = Series::new("packets", Colour::Series(0), Data::Points { x: x.into(), y: y.into() });
    Chart::new("burstiness", "burstiness: latency over arrival time", plot.with(series))
}

fn bars(bars: &Bars) -> Chart {
    let whole = bars.bars.iter().all(|(_, height)| height.fract() == 0.0);
    let quantity = if whole { Quantity::Count } else { Quantity::Share };
    let heights: Vec<f64> = bars.bars.iter().map(|(_, height)| *height).collect();
    let plot = quaver_view::Bars {
        value: Axis::linear(bars.unit, quantity),
        categories: bars.bars.iter().map(|(value, _)| value.to_string()).collect(),
        series: vec![BarSeries::new(bars.unit, Colour::Series(0), heights)],
        ..quaver_view::Bars::default()
    };
    Chart::new(bars.file, format!("{}: {}, by {}", bars.title, bars.unit, bars.of), plot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::example::Example;

    #[test]
    fn what_is_drawn() {
        let example = Example::new();
        let document = document("jitlat", &example.plots(), &DelayPlot::ALL);
        let style = Style { width: 72, ..Style::PLAIN };
        insta::assert_snapshot!("unicode", quaver_instrument::terminal::page(&document, style));
        let one = PathPlots { arrivals: &example.arrivals[..1], ..example.plots() };
        let document = super::document("jitlat", &one, &[DelayPlot::Pdv]);
        let style = Style { width: 60, ascii: true, ..Style::PLAIN };
        insta::assert_snapshot!("ascii", quaver_instrument::terminal::page(&document, style));
    }
}
