//! Drawings of a path: distributions of delay and its variation, delay over time, and lengths of losses, copies and
//! displacements.

use super::grid::Grid;
use super::{PathInput, way};
use crate::digest::FlowResults;
use crate::plots::binned;
use quaver_arrivals::path::Arrival;
use quaver_arrivals::path::arrival::{Classified, delays_ns};
use quaver_arrivals::path::direction::Direction;
use quaver_arrivals::path::histogram::{DEFAULT_BINS, Histogram};
use quaver_arrivals::path::variation::{ipdv, pdv_ns};
use quaver_view::{
    Axis, Binned, Cell, Chart, Colour, Data, Distribution, DistributionView, Group, Quantity, Section,
    Series, Shown, Text, Xy, text,
};

/// Points of the tail for each tenfold rarer packet.
const POINTS_PER_DECADE: f64 = 40.0;

/// A flow of which packets arrived.
struct DrawnFlow<'a> {
    results: &'a FlowResults,
    classified: &'a Classified,
    /// Its arrivals by one clock.
    timed: &'a [Arrival],
    colour: Colour,
}

impl DrawnFlow<'_> {
    fn way(&self) -> &'static str {
        way(self.results)
    }

    fn lost(&self) -> u64 {
        self.results.figures.loss.packets
    }

    /// Whether its delays are known without the clocks' offset.
    fn is_corrected(&self) -> bool {
        self.results.figures.delay.as_ref().is_some_and(|delay| delay.corrected.is_some())
    }
}

/// All drawings, one at a time; none where nothing arrived.
pub(super) fn section(input: &PathInput<'_>) -> Option<Section> {
    let flows = input.flows.iter().zip(input.timed);
    let drawn: Vec<DrawnFlow<'_>> = flows.filter_map(|(flow, timed)| drawn(input, flow, timed)).collect();
    if drawn.is_empty() {
        return None;
    }
    let corrected = drawn.iter().all(DrawnFlow::is_corrected);
    let mut charts = vec![pdv(&drawn)];
    charts.extend(tails(&drawn));
    charts.push(over_time(&drawn, &Grid::over(input.flows), corrected));
    charts.extend(ipdvs(&drawn));
    if corrected {
        charts.push(delay("delay-corrected", "One-way delay, corrected", &drawn, true));
    }
    // As measured, the directions lie as far apart as the clocks, twice.
    for flow in drawn.chunks(if corrected { 1 } else { drawn.len() }) {
        let (id, title) = match corrected {
            true => (format!("delay-{}", flow[0].way()), format!(", {}", flow[0].way())),
            false => ("delay-measured".to_owned(), String::new()),
        };
        charts.push(delay(&id, &format!("One-way delay, as measured{title}"), flow, false));
    }
    charts.extend(lengths(&drawn));
    let section = Section::new("plots", "Plots")
        .note("up: client to server; down: server to client")
        .shown(Shown::HtmlOnly);
    Some(section.with(Group::one_of("Plot", charts)))
}

fn drawn<'a>(
    input: &PathInput<'a>,
    (facts, classified): &'a (crate::facts::FlowFacts, Classified),
    timed: &'a [Arrival],
) -> Option<DrawnFlow<'a>> {
    let (results, colour) = match facts.direction {
        Direction::Up => (input.summary.up.as_ref()?, Colour::Series(0)),
        Direction::Down => (input.summary.down.as_ref()?, Colour::Series(1)),
    };
    (!classified.arrivals.is_empty()).then_some(DrawnFlow { results, classified, timed, colour })
}

/// A distribution of durations over an axis of equal steps.
fn distribution(id: &str, title: &str, label: &str, series: Vec<Binned>, note: String) -> Chart {
    let plot = Distribution {
        x: Axis::linear(label, Quantity::Duration),
        of: "packets".into(),
        views: vec![DistributionView::Histogram, DistributionView::Cdf, DistributionView::Tail],
        series,
        guides: Vec::new(),
    };
    Chart::new(id, title, plot).note(note)
}

/// One sentence for each flow, after its name.
fn of_each(flows: &[DrawnFlow<'_>], words: impl Fn(&DrawnFlow<'_>) -> Option<String>) -> String {
    let said = flows.iter().filter_map(|flow| Some(format!("{}: {}.", flow.way(), words(flow)?)));
    said.collect::<Vec<_>>().join(" ")
}

/// What a distribution up to the 99th percentile does not show.
fn not_drawn(flow: &DrawnFlow<'_>, series: &[Binned]) -> Option<String> {
    let above = series.iter().find(|one| one.name == flow.way()).map_or(0.0, |one| one.above);
    let above = format!("not drawn: {} above the 99th percentile", Cell::several(above as u64, "packet"));
    Some(match flow.lost() {
        0 => above,
        lost => format!("{above}; {} lost packets have no delay", Cell::Count(lost)),
    })
}

fn delay(id: &str, title: &str, flows: &[DrawnFlow<'_>], corrected: bool) -> Chart {
    let series: Vec<Binned> = flows
        .iter()
        .filter_map(|flow| {
            let delay = flow.results.figures.delay.as_ref()?;
            let (figures, arrivals) = match corrected {
                true => (delay.corrected.as_ref()?, flow.timed),
                false => (&delay.as_measured, flow.classified.arrivals.as_slice()),
            };
            let histogram = Histogram::new(&delays_ns(arrivals), DEFAULT_BINS, figures.p99_ns)?;
            Some(binned(flow.way(), flow.colour, &histogram, 0))
        })
        .collect();
    let mut note = of_each(flows, |flow| not_drawn(flow, &series));
    let bounds = flows.iter().filter_map(|flow| flow.results.figures.delay.as_ref()?.bound_ns);
    if let Some(bound_ns) = bounds.max().filter(|_| corrected) {
        note += &format!(" Corrected values: ± {}.", Cell::Duration(bound_ns));
    }
    distribution(id, title, "one-way delay", series, note)
}

fn pdv(flows: &[DrawnFlow<'_>]) -> Chart {
    let series: Vec<Binned> = flows
        .iter()
        .filter_map(|flow| {
            let limit_ns = flow.results.figures.variation.as_ref()?.pdv.p99_ns;
            let values = pdv_ns(&delays_ns(flow.timed));
            let histogram = Histogram::new(&values, DEFAULT_BINS, limit_ns)?;
            Some(binned(flow.way(), flow.colour, &histogram, 0))
        })
        .collect();
    let note = of_each(flows, |flow| not_drawn(flow, &series));
    distribution("pdv", "PDV", "PDV: delay above the minimum", series, note)
}

fn ipdvs(flows: &[DrawnFlow<'_>]) -> Option<Chart> {
    let series: Vec<Binned> = flows.iter().filter_map(middle).collect();
    let note = of_each(flows, |flow| {
        let one = series.iter().find(|one| one.name == flow.way())?;
        let [below, above] = [one.below, one.above].map(|count| Cell::Count(count as u64));
        Some(format!("the middle 99 %; {below} are below and {above} above"))
    });
    let label = "IPDV: delay minus that of the previous packet";
    (!series.is_empty()).then(|| distribution("ipdv", "IPDV", label, series, note))
}

/// The middle 99 % of a flow's IPDV.
fn middle(flow: &DrawnFlow<'_>) -> Option<Binned> {
    let mut values: Vec<i64> = ipdv(flow.timed).into_iter().map(|one| one.ipdv_ns).collect();
    values.sort_unstable();
    let rank = |share: f64| ((values.len() as f64 * share).ceil() as usize).clamp(1, values.len().max(1)) - 1;
    let (low, high) = (*values.get(rank(0.005))?, *values.get(rank(0.995))?);
    let below = values.partition_point(|value| *value < low);
    let histogram = Histogram::new(&values[below..], DEFAULT_BINS, high)?;
    Some(Binned { below: below as f64, ..binned(flow.way(), flow.colour, &histogram, 0) })
}

/// Share of packets above each PDV; none where no delay differs from the least one.
fn tails(flows: &[DrawnFlow<'_>]) -> Option<Chart> {
    let mut plot = Xy::new(
        Axis::log("PDV: delay above the minimum", Quantity::Duration),
        Axis::log("packets above", Quantity::Share),
    );
    for flow in flows {
        let points = tail(&mut pdv_ns(&delays_ns(flow.timed)));
        let figures = &flow.results.figures;
        let (arrived, lost) = (flow.timed.len() as u64, flow.lost());
        let sent = figures.packets.sent - flow.classified.unstamped.len() as u64;
        // A logarithmic axis has no place for zero.
        let series = |lost: u64, of: u64| {
            let drawn = points.iter().filter(|(pdv_ns, above)| *pdv_ns > 0 && (*above + lost > 0 || of == 0));
            let (x, y): (Vec<f64>, Vec<f64>) =
                drawn.map(|(pdv_ns, above)| (*pdv_ns as f64, (above + lost) as f64 / of as f64)).unzip();
            Data::Steps { x: x.into(), y: y.into() }
        };
        if points.iter().any(|(pdv_ns, _)| *pdv_ns > 0) {
            plot = plot.with(Series::new(flow.way(), flow.colour, series(0, arrived)));
            if lost > 0 {
                let name = format!("{}, lost ones too", flow.way());
                plot = plot.with(Series::new(name, flow.colour, series(lost, sent)).dashed());
            }
        }
    }
    let lost = flows.iter().any(|flow| flow.lost() > 0);
    let buffer =
        " Dashed: share of the packets sent that a de-jitter buffer of this size misses, lost ones too.";
    let note = format!(
        "Share of the packets that arrived with a larger PDV (RFC 5481, section 4.2).{}",
        if lost { buffer } else { "" }
    );
    (!plot.series.is_empty()).then(|| Chart::new("pdv-tail", "PDV, tail", plot).note(note))
}

/// Points of the tail of a distribution, a value and how many are larger, spaced evenly by the logarithm of how rare they
/// are; each is exact.
fn tail(values: &mut [i64]) -> Vec<(i64, u64)> {
    values.sort_unstable();
    let many = values.len();
    let mut points: Vec<(i64, u64)> = Vec::new();
    if many == 0 {
        return points;
    }
    let steps = ((many as f64).log10() * POINTS_PER_DECADE).ceil() as usize + 1;
    let rarer = |step: usize| (many as f64 * 10f64.powf(-(step as f64) / POINTS_PER_DECADE)) as usize;
    for above in std::iter::once(many).chain((0..=steps).map(rarer)).chain([0]) {
        let value = values[many - 1 - above.min(many - 1)];
        if points.last().is_none_or(|(last, _)| *last < value) {
            points.push((value, (many - values.partition_point(|other| *other <= value)) as u64));
        }
    }
    points
}

/// Delay over time of arrival: least and largest of each slice, losses at the foot, two lines.
fn over_time(flows: &[DrawnFlow<'_>], grid: &Grid, corrected: bool) -> Chart {
    let kind = if corrected { "corrected" } else { "without drift" };
    let mut plot = Xy::new(
        Axis::linear("time since the first arrival", Quantity::Instant),
        Axis::linear(format!("one-way delay, {kind}"), Quantity::Duration),
    );
    for flow in flows {
        let [low, high] = grid.extremes(flow.timed);
        let data = Data::Slices { start: 0.0, step: grid.slice_ns, low, high };
        plot = plot.with(Series::new(flow.way(), flow.colour, data));
        if flow.lost() > 0 {
            let x = grid.losses(flow.timed, flow.classified, flow.results.flow.period_ns);
            plot = plot.with(Series::new(format!("{}, lost", flow.way()), flow.colour, Data::Rug { x }));
        }
    }
    for flow in flows {
        for (name, dashed, line) in lines(flow, grid) {
            let [x, y] = [line.map(|(time_ns, _)| time_ns), line.map(|(_, ns)| ns)];
            let data = Data::Line { x: x.to_vec().into(), y: y.to_vec().into(), marks: false };
            let series = Series::new(format!("{}, {name}", flow.way()), Colour::Ink, data);
            plot = plot.with(if dashed { series.dashed() } else { series });
        }
    }
    Chart::new("delay-time", "Delay over time (burstiness)", plot).note(time_note(flows))
}

fn time_note(flows: &[DrawnFlow<'_>]) -> Text {
    let drift = |flow: &DrawnFlow<'_>| {
        let edge = flow.results.figures.skew.as_ref().filter(|edge| edge.drifts)?;
        Some(format!("as measured, the least delay grows by {:+.3} ppm", edge.ppm))
    };
    text!(
        "Marks at the foot: lost packets, between their neighbours. Lines: least squares (dashed) and the least delay. {}",
        of_each(flows, drift)
    )
}

/// The ends of a flow's two lines over its delays.
fn lines(flow: &DrawnFlow<'_>, grid: &Grid) -> Vec<(&'static str, bool, Ends)> {
    let ends = |at: &dyn Fn(f64) -> f64| [0.0, grid.length_ns()].map(|time_ns| (time_ns, at(time_ns)));
    let least_squares = flow
        .results
        .figures
        .burstiness
        .map(|line| ends(&|time_ns| line.mean_delay_ns + line.slope * (time_ns - line.mean_time_ns)));
    let least = flow.timed.iter().map(Arrival::delay_ns).min().map(|least_ns| ends(&|_| least_ns as f64));
    let named = [("least squares", true, least_squares), ("least delay", false, least)];
    named.into_iter().filter_map(|(name, dashed, line)| Some((name, dashed, line?))).collect()
}

/// Both ends of a line: time and delay.
type Ends = [(f64, f64); 2];

/// Lengths of losses, copies of packets, and displacements, as far as there are any.
fn lengths(flows: &[DrawnFlow<'_>]) -> Vec<Chart> {
    let mut all = Vec::new();
    let counts = |counts: &std::collections::BTreeMap<u64, u64>| -> Vec<(f64, f64)> {
        counts.iter().map(|(value, many)| (*value as f64, *many as f64)).collect()
    };
    let losses = |flow: &DrawnFlow<'_>| counts(&flow.results.figures.loss.pattern.period_lengths);
    let note = of_each(flows, |flow| {
        let (lost, periods) = (flow.lost(), flow.results.figures.loss.pattern.periods);
        (lost > 0).then(|| {
            format!(
                "{} lost in {} (RFC 3357)",
                Cell::several(lost, "packet"),
                Cell::several(periods, "loss period")
            )
        })
    });
    let axes = ("consecutive losses", "loss periods", Quantity::Count);
    all.extend(columns("loss-lengths", "Lengths of losses", axes, flows, losses, note));
    let copies = |flow: &DrawnFlow<'_>| counts(&flow.results.figures.duplication.lengths);
    let note = of_each(flows, |flow| {
        let duplication = &flow.results.figures.duplication;
        let (copies, packets) = (Cell::Count(duplication.duplicate), Cell::Count(duplication.replicated));
        (duplication.duplicate > 0).then(|| format!("{copies} extra copies of {packets} packets (RFC 5560)"))
    });
    let axes = ("extra copies", "packets", Quantity::Count);
    all.extend(columns("copy-lengths", "Lengths of duplications", axes, flows, copies, note));
    let displaced = |flow: &DrawnFlow<'_>| {
        let density = flow.results.figures.density.as_ref();
        let places = density.into_iter().flat_map(|density| density.counts.iter());
        let all = density.map_or(0, |density| density.counts.values().sum::<u64>());
        places.map(|(place, many)| (*place as f64, *many as f64 / all as f64)).collect()
    };
    let note = of_each(flows, |flow| {
        let density = flow.results.figures.density.as_ref()?;
        let (left_out, threshold) = (Cell::Count(density.discarded), density.displacement_threshold);
        Some(format!("{left_out} packets or copies displaced by more than {threshold} are left out"))
    });
    let axes = ("displacement in packets (negative: early)", "share of packets", Quantity::Share);
    all.extend(columns("displacements", "Reorder density (RFC 5236)", axes, flows, displaced, note));
    all
}

/// Columns over whole numbers, those of two flows side by side; none where there is nothing.
fn columns(
    id: &str,
    title: &str,
    (x, y, quantity): (&str, &str, Quantity),
    flows: &[DrawnFlow<'_>],
    pairs: impl Fn(&DrawnFlow<'_>) -> Vec<(f64, f64)>,
    note: String,
) -> Option<Chart> {
    let mut plot = Xy::new(Axis::linear(x, Quantity::Number), Axis::log(y, quantity));
    let width = 0.8 / flows.len() as f64;
    for (at, flow) in flows.iter().enumerate() {
        let (mut places, heights): (Vec<f64>, Vec<f64>) = pairs(flow).into_iter().unzip();
        places.iter_mut().for_each(|place| *place += width * (at as f64 + 0.5) - 0.4);
        if !places.is_empty() {
            let data = Data::Columns { x: places.into(), y: heights.into(), width };
            plot = plot.with(Series::new(flow.way(), flow.colour, data));
        }
    }
    (!plot.series.is_empty()).then(|| Chart::new(id, title, plot).note(note))
}
