//! Drawings of a packet run: ΔT over time with the late packets, and its distribution.

use super::ChaseInput;
use super::slices::{Grid, Thinned, column_of, delta_t_ns, drawn_ns, thin};
use quaver_analysis::attribution::LatePacket;
use quaver_analysis::model::Layer;
use quaver_instrument::bins::binned;
use quaver_instrument::marks::{MOST_MARKS, by_cause, largest};
use quaver_view::{
    Axis, Cell, Chart, Colour, Data, Distribution, DistributionView, Document, Group, Quantity, Section,
    Series, Text, Xy, text,
};

/// Bins of the tail that are one of the histogram.
const HISTOGRAM_JOINS: usize = 4;

/// Adds the drawings; nothing where there are no two packets.
pub(super) fn add(document: &mut Document, input: &ChaseInput<'_>) {
    let packets = &input.measured.packets;
    if packets.len() < 2 {
        return;
    }
    let grid = Grid::over(packets);
    let mut layers: Vec<Layer> = packets.layers.iter().map(|column| column.layer).collect();
    layers.push(Layer::Application);
    let thinned: Vec<(Layer, Thinned)> =
        layers.into_iter().map(|layer| (layer, thin(packets, layer, &grid))).collect();
    let (drawn, all) = drawn_late(input);
    let note = marked(drawn.len(), all);
    // The application's comes first: it is what the receiver saw.
    let over_time =
        thinned.iter().rev().map(|(layer, thinned)| delta_t(input, &grid, &drawn, *layer, thinned));
    let lateness = (!drawn.is_empty()).then(|| lateness(input, &grid, &drawn));
    let charts = over_time.chain(lateness).map(|chart| chart.note(note.clone()).linked("time"));
    document.section(
        Section::new("time", "ΔT over time")
            .link("Over time")
            .note("Time between successive packets. Marks are late packets, by leading cause.")
            .with(Group::one_of("Layer", charts)),
    );
    document.section(Section::new("distribution", "Distribution of ΔT").with(distribution(thinned)));
}

/// The late packets that are drawn, in the order of time, and how many there are.
fn drawn_late<'a>(input: &ChaseInput<'a>) -> (Vec<&'a LatePacket>, usize) {
    let app_ns = &input.measured.packets.app_ns;
    let points: Vec<(i64, i64, &LatePacket)> = input
        .analysis
        .late
        .iter()
        .filter_map(|late| Some((*app_ns.get(late.row()?)?, late.lateness_ns, late)))
        .collect();
    let sizes: Vec<(i64, i64)> = points.iter().map(|(at_ns, late_ns, _)| (*at_ns, *late_ns)).collect();
    let chosen = largest(&sizes, MOST_MARKS);
    (chosen.into_iter().map(|number| points[number].2).collect(), points.len())
}

fn marked(drawn: usize, all: usize) -> Text {
    let count = |number: usize| Cell::Count(number as u64);
    match all {
        0 => Text::default(),
        1 => "The late packet is marked.".into(),
        all if drawn == all => text!("All {} late packets are marked.", count(all)),
        all => {
            text!(
                "{} of {} late packets are marked: the worst of each time slice, and of all.",
                count(drawn),
                count(all)
            )
        }
    }
}

fn over_time(label: &str) -> Xy {
    Xy::new(
        Axis::linear("time since the first packet", Quantity::Instant),
        Axis::log(label, Quantity::Duration),
    )
}

/// The late packets in the colours of their causes, `height` above the axis.
fn late_series(
    input: &ChaseInput<'_>,
    grid: &Grid,
    drawn: &[&LatePacket],
    height: impl Fn(&LatePacket) -> f64,
) -> Vec<Series> {
    let app_ns = &input.measured.packets.app_ns;
    let at = |late: &LatePacket| late.row().map_or(f64::NAN, |row| (app_ns[row] - grid.start_ns) as f64);
    by_cause(drawn.iter().map(|late| (at(late), height(late), late.cause)), &input.summary().causes)
}

fn delta_t(
    input: &ChaseInput<'_>,
    grid: &Grid,
    drawn: &[&LatePacket],
    layer: Layer,
    thinned: &Thinned,
) -> Chart {
    let packets = &input.measured.packets;
    let column = column_of(packets, layer);
    let slices = Data::Slices {
        start: 0.0,
        step: grid.slice_ns,
        low: thinned.least_ns.clone().into(),
        high: thinned.largest_ns.clone().into(),
    };
    let mut plot = over_time("ΔT").with(Series::new("ΔT", Colour::Muted, slices));
    plot.series.extend(late_series(input, grid, drawn, |late| {
        late.row().and_then(|row| delta_t_ns(packets, column, row)).map_or(f64::NAN, drawn_ns)
    }));
    let plot = plot.guide_y(input.summary().period_ns, "the period");
    Chart::new(format!("time-{}", layer.name()), format!("ΔT at {}", layer.name()), plot)
}

fn lateness(input: &ChaseInput<'_>, grid: &Grid, drawn: &[&LatePacket]) -> Chart {
    let mut plot = over_time("lateness");
    plot.series = late_series(input, grid, drawn, |late| drawn_ns(late.lateness_ns));
    let plot = plot.guide_y(input.summary().lateness.threshold_ns as f64, "late from here");
    Chart::new("time-lateness", "Lateness of late packets", plot)
}

fn distribution(thinned: Vec<(Layer, Thinned)>) -> Group {
    let apart =
        thinned.iter().filter(|(_, thinned)| thinned.bins.not_positive > 0).map(|(layer, thinned)| {
            let count = Cell::Count(thinned.bins.not_positive);
            format!(
                " {count} at {}: same stamp as the previous packet or overtook it (ΔT ≤ 0).",
                layer.name()
            )
        });
    let apart: String = apart.collect();
    let named: Vec<_> =
        thinned.into_iter().map(|(layer, thinned)| (layer.name().to_owned(), thinned.bins)).collect();
    let plot = |views: &[DistributionView], joined| Distribution {
        x: Axis::log("ΔT", Quantity::Duration),
        of: "packets".into(),
        views: views.to_vec(),
        series: binned(&named, joined),
        guides: vec![],
    };
    let histogram =
        Chart::new("histogram", "Histogram", plot(&[DistributionView::Histogram], HISTOGRAM_JOINS))
            .note("Packets in bins of equal ratio, both scales logarithmic.");
    let tail = Chart::new("tail", "Tail and CDF", plot(&[DistributionView::Tail, DistributionView::Cdf], 1))
        .note(format!("Share of packets above, or up to, a ΔT; one in 10,000 is 0.01 %.{apart}"));
    Group::beside([histogram, tail].map(|chart| chart.linked("delta")))
}
