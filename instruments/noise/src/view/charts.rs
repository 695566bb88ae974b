//! Drawings of a noise run: gaps over time, and how long they were.

use super::NoiseInput;
use quaver_analysis::model::GapTable;
use quaver_view::{
    Axis, Binned, Chart, Colour, Data, Distribution, DistributionView, Document, Numbers, Quantity, Section,
    Series, Xy,
};
use std::collections::BTreeMap;

/// Most gaps that are drawn, for the size of the page.
const MOST_POINTS: usize = 60_000;

/// Bin `i` of the distribution starts at 2^(i / `BINS_PER_OCTAVE`) ns.
const BINS_PER_OCTAVE: f64 = 64.0;

/// Causes with a colour of their own.
const COLOURS: usize = 8;

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
    let ends = input.measured.loops.iter().map(|one| one.end_ns).chain(gaps.after_ns.iter().copied());
    let span_ns = (ends.max().unwrap_or(start_ns) - start_ns).max(1);
    let chosen = longest_of_each_slice(gaps, start_ns, span_ns, MOST_POINTS);
    // Unexplained gaps come last, as in the table of causes.
    let mut by_rank: BTreeMap<usize, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for row in &chosen {
        let rank = input.analysis.causes[*row].map_or(usize::MAX, |cause| (cause as usize).min(COLOURS));
        let (x, y) = by_rank.entry(rank).or_default();
        x.push((gaps.before_ns[*row] - start_ns) as f64);
        y.push((gaps.after_ns[*row] - gaps.before_ns[*row]) as f64);
    }
    let mut plot = Xy::new(
        Axis::linear("time since the start", Quantity::Instant),
        Axis::log("length of gap", Quantity::Duration),
    );
    for (rank, (x, y)) in by_rank {
        let (name, colour) = match rank {
            usize::MAX => ("unexplained", Colour::of_cause(None)),
            COLOURS => ("other causes", Colour::of_cause(Some(rank))),
            _ => (input.summary().causes[rank].name.as_str(), Colour::of_cause(Some(rank))),
        };
        plot = plot.with(Series::new(name, colour, Data::Points { x: x.into(), y: y.into() }));
    }
    let chart = Chart::new("time-plot", "Gaps over time", plot);
    if chosen.len() == gaps.len() {
        return chart;
    }
    let drawn = quaver_view::Cell::Count(chosen.len() as u64);
    chart.note(quaver_view::text!(
        "Shown: the longest gap of each time slice, {drawn} of {}.",
        quaver_view::Cell::Count(gaps.len() as u64)
    ))
}

/// Rows of the gaps that are drawn, in the order of time: all, or of too many the longest of each slice of time.
fn longest_of_each_slice(gaps: &GapTable, start_ns: i64, span_ns: i64, most: usize) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..gaps.len()).collect();
    if gaps.len() > most {
        let mut longest: BTreeMap<i128, usize> = BTreeMap::new();
        let length = |row: usize| gaps.after_ns[row] - gaps.before_ns[row];
        for row in 0..gaps.len() {
            let slice = i128::from(gaps.before_ns[row] - start_ns) * most as i128 / i128::from(span_ns);
            let kept = longest.entry(slice).or_insert(row);
            if length(*kept) < length(row) {
                *kept = row;
            }
        }
        rows = longest.into_values().collect();
    }
    rows.sort_by_key(|row| gaps.before_ns[*row]);
    rows
}

/// The lengths of each CPU's gaps, or the ΔT of its stamps.
fn distribution(input: &NoiseInput<'_>) -> Chart {
    let (label, of) = if input.stamps.is_some() { ("ΔT", "ΔT") } else { ("length of gap", "gaps") };
    let plot = Distribution {
        x: Axis::log(label, Quantity::Duration),
        of: of.into(),
        views: vec![DistributionView::Histogram, DistributionView::Tail, DistributionView::Cdf],
        series: binned(&lengths(input)),
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

/// Counts in bins of equal ratio, the same for each CPU.
fn binned(by_cpu: &BTreeMap<u16, Vec<i64>>) -> Vec<Binned> {
    let bin = |ns: i64| ((ns as f64).log2() * BINS_PER_OCTAVE) as usize;
    let used = || by_cpu.values().flatten().filter(|ns| **ns > 0).map(|ns| bin(*ns));
    let first = used().min().unwrap_or(0);
    let bins = used().max().unwrap_or(0) + 1 - first;
    let edges: Numbers = (0..=bins).map(|at| 2_f64.powf((first + at) as f64 / BINS_PER_OCTAVE)).collect();
    let series = by_cpu.iter().enumerate().map(|(place, (cpu, lengths))| {
        let mut counts = vec![0.0; bins];
        lengths.iter().filter(|ns| **ns > 0).for_each(|ns| counts[bin(*ns) - first] += 1.0);
        Binned {
            name: format!("CPU {cpu}"),
            colour: Colour::Series(u8::try_from(place).unwrap_or(u8::MAX)),
            edges: edges.clone(),
            counts: counts.into(),
            below: lengths.iter().filter(|ns| **ns <= 0).count() as f64,
            above: 0.0,
        }
    });
    series.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_gaps_the_longest_of_each_slice_stay() {
        let count = 1_000;
        let mut gaps = GapTable {
            index: (0..count).collect(),
            before_ns: (0..count as i64).map(|at| 100 * at).collect(),
            after_ns: (0..count as i64).map(|at| 100 * at + 10).collect(),
            cpu: vec![0; count as usize],
        };
        gaps.after_ns[777] += 50;
        let rows = longest_of_each_slice(&gaps, 0, 100_000, 10);
        assert_eq!(rows.len(), 10);
        assert!(rows.contains(&777) && rows.is_sorted());
        assert_eq!(longest_of_each_slice(&gaps, 0, 100_000, 1_000).len(), 1_000);
    }

    #[test]
    fn bins_are_common_to_all_cpus_and_count_every_length() {
        let series = binned(&[(1, vec![1_024, 1_024, 0]), (3, vec![2_048])].into());
        assert_eq!((series[0].name.as_str(), series[1].name.as_str()), ("CPU 1", "CPU 3"));
        assert_eq!((series[0].edges[0], series[0].edges[64]), (1_024.0, 2_048.0));
        assert_eq!(series[0].edges, series[1].edges);
        assert_eq!((series[0].counts.len(), series[0].counts[0], series[0].below), (65, 2.0, 1.0));
        assert_eq!((series[1].counts[64], series[1].below), (1.0, 0.0));
    }
}
