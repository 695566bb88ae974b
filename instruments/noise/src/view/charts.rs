//! Drawings of a noise run: gaps over time, and how long they were.

use super::NoiseInput;
use quaver_instrument::bins::binned;
use quaver_instrument::marks::{MOST_MARKS, by_cause, largest};
use quaver_view::{Axis, Cell, Chart, Distribution, DistributionView, Document, Quantity, Section, Xy, text};
use std::collections::BTreeMap;

/// Adds the drawings; nothing where there was no gap.
pub(super) fn add(document: &mut Document, input: &NoiseInput<'_>) {
    if input.measured.gaps.is_empty() {
        return;
    }
    document.section(
        Section::new("time", "Gaps over time")
            .link("Over time")
            .note("Each mark is a gap: its height is the length, its colour and shape the leading cause.")
            .with(over_time(input)),
    );
    document.section(Section::new("distribution", "Distribution").with(distribution(input)));
}

fn over_time(input: &NoiseInput<'_>) -> Chart {
    let (gaps, start_ns) = (&input.measured.gaps, input.start_ns());
    let length = |row: usize| gaps.after_ns[row] - gaps.before_ns[row];
    let points: Vec<(i64, i64)> = (0..gaps.len()).map(|row| (gaps.before_ns[row], length(row))).collect();
    let chosen = largest(&points, MOST_MARKS);
    let marks = chosen.iter().map(|row| {
        ((gaps.before_ns[*row] - start_ns) as f64, length(*row) as f64, input.analysis.causes[*row])
    });
    let mut plot = Xy::new(
        Axis::linear("time since the start", Quantity::Instant),
        Axis::log("length of gap", Quantity::Duration),
    );
    plot.series = by_cause(marks, &input.summary().causes);
    let chart = Chart::new("time-plot", "Gaps over time", plot);
    if chosen.len() == gaps.len() {
        return chart;
    }
    let drawn = Cell::Count(chosen.len() as u64);
    let all = Cell::Count(gaps.len() as u64);
    chart.note(text!("Shown: the longest gap of each time slice, and the longest of all, {drawn} of {all}."))
}

/// The lengths of each CPU's gaps, or the ΔT of its stamps.
fn distribution(input: &NoiseInput<'_>) -> Chart {
    let (label, of) = if input.stamps.is_some() { ("ΔT", "ΔT") } else { ("length of gap", "gaps") };
    let lengths = lengths(input).into_iter();
    let named: Vec<_> =
        lengths.map(|(cpu, lengths)| (format!("CPU {cpu}"), lengths.into_iter().collect())).collect();
    let plot = Distribution {
        x: Axis::log(label, Quantity::Duration),
        of: of.into(),
        views: vec![DistributionView::Histogram, DistributionView::Tail, DistributionView::Cdf],
        series: binned(&named, 1),
        guides: vec![],
    };
    Chart::new("distribution-plot", format!("Distribution of the {label}"), plot)
}

fn lengths(input: &NoiseInput<'_>) -> BTreeMap<u16, Vec<i64>> {
    let mut by_cpu: BTreeMap<u16, Vec<i64>> = BTreeMap::new();
    let Some(stamps) = input.stamps else {
        let gaps = &input.measured.gaps;
        for row in 0..gaps.len() {
            by_cpu.entry(gaps.cpu[row]).or_default().push(gaps.after_ns[row] - gaps.before_ns[row]);
        }
        return by_cpu;
    };
    let mut last: BTreeMap<u16, i64> = BTreeMap::new();
    for (cpu, stamp_ns) in stamps.cpu.iter().zip(&stamps.after_ns) {
        if let Some(before_ns) = last.insert(*cpu, *stamp_ns) {
            by_cpu.entry(*cpu).or_default().push(stamp_ns - before_ns);
        }
    }
    by_cpu
}
