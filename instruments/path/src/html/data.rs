//! The numbers that the plots of a path are drawn from.
//!
//! Delay over time is thinned to the least and the largest of each slice of time, which loses no spike; the rest are
//! counts. Blocks of 32-bit numbers: `slices-N` holds the least, then the largest of flow N; `lost-N` pairs of a slice
//! and how many packets were lost in it.

use super::{PathReport, embed};
use crate::digest::FlowResults;
use crate::facts as path_facts;
use quaver_analysis::model::MISSING;
use quaver_analysis::path::Arrival;
use quaver_analysis::path::arrival::{Classified, delays_ns};
use quaver_analysis::path::burstiness::LeastSquares;
use quaver_analysis::path::clocks::correct;
use quaver_analysis::path::direction::Direction;
use quaver_analysis::path::histogram::{DEFAULT_BINS, Histogram};
use quaver_analysis::path::loss_pattern::loss_runs;
use quaver_analysis::path::skew::LowerLine;
use quaver_analysis::path::variation::{ipdv, pdv_ns};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Most slices of time; two flows of so many take 2.8 MB of the page.
const MOST_SLICES: usize = 1 << 17;

/// Points of the tail for each tenfold rarer packet.
const POINTS_PER_DECADE: f64 = 40.0;

/// What the scripts need besides the blocks of numbers.
#[derive(Serialize)]
struct Data {
    slices: usize,
    slice_ns: f64,
    flows: Vec<FlowData>,
}

/// One flow. Counts of `latency` and `pdv` and what lies above them add up to `packets`.
#[derive(Serialize)]
struct FlowData {
    way: &'static str,
    sent: u64,
    /// First copies.
    packets: u64,
    lost: u64,
    duplicate: u64,
    period_ns: u64,
    latency: Option<Bins>,
    /// What takes the clocks' offset out of a delay as measured; none where it is not known.
    shift_ns: Option<i64>,
    bound_ns: Option<i64>,
    pdv: Option<Bins>,
    ipdv: Option<Bins>,
    /// A PDV, and how many packets had a larger one.
    tail: Vec<(i64, u64)>,
    /// A number v of `slices-N` stands for a delay as measured of `base_ns + v·unit_ns`.
    base_ns: i64,
    unit_ns: u64,
    line: Option<LeastSquares>,
    /// Two points (time of arrival, delay) of the lower line.
    lower: Option<[(i64, i64); 2]>,
    loss_lengths: Vec<(u64, u64)>,
    copies: Vec<(u64, u64)>,
    displacements: Vec<(i64, u64)>,
    displacement_threshold: Option<u64>,
    displaced_too_far: Option<u64>,
}

/// A histogram and what lies below it; `above` is what lies above.
#[derive(Serialize)]
struct Bins {
    #[serde(flatten)]
    histogram: Histogram,
    below: u64,
}

/// Time cut into slices of equal length. Each flow begins with its own first arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    /// Count of slices.
    pub(super) slices: usize,
    /// Length of a slice.
    pub(super) slice_ns: f64,
}

impl Grid {
    /// A grid over the longest flow, not much finer than the packets. Losses at the end make it longer, but at most
    /// twice: how many were planned is no measurement.
    pub(super) fn over(input: &PathReport<'_>) -> Self {
        let span_ns = |arrivals: &[Arrival]| {
            let start_ns = arrivals.first().map_or(0, |first| first.received_ns);
            let last_ns = arrivals.iter().map(|arrival| arrival.received_ns).max().unwrap_or(start_ns);
            last_ns.saturating_sub(start_ns).max(0)
        };
        let whole_ns = |(flow, classified): &(path_facts::FlowFacts, Classified)| {
            let span_ns = span_ns(&classified.arrivals);
            let highest = classified.arrivals.iter().map(|arrival| arrival.sequence).max().unwrap_or(0);
            let missing = classified.counts.sent.saturating_sub(highest.saturating_add(1));
            let after_ns = i64::try_from(missing.saturating_mul(flow.period_ns)).unwrap_or(i64::MAX);
            span_ns.saturating_add(after_ns.min(span_ns))
        };
        let length_ns = input.flows.iter().map(whole_ns).max().unwrap_or(0).max(1);
        let packets = input.flows.iter().map(|(_, classified)| classified.arrivals.len()).max().unwrap_or(0);
        let mut slices = MOST_SLICES;
        while slices > 1_024 && slices >= packets.saturating_mul(8) {
            slices /= 2;
        }
        Self { slices, slice_ns: length_ns as f64 / slices as f64 }
    }

    fn index(&self, after_ns: i64) -> usize {
        ((after_ns.max(0) as f64 / self.slice_ns) as usize).min(self.slices - 1)
    }
}

/// Writes all blocks of data.
pub(super) fn write(out: &mut dyn Write, input: &PathReport<'_>) -> io::Result<()> {
    let grid = Grid::over(input);
    let mut flows = Vec::new();
    for (facts, classified) in input.flows {
        let results = match facts.direction {
            Direction::Up => &input.summary.up,
            Direction::Down => &input.summary.down,
        };
        let Some(results) = results else { continue };
        let at = flows.len();
        let scale = Scale::of(&classified.arrivals);
        embed::write_block(
            out,
            &format!("slices-{at}"),
            &embed::octets_of(&thin(classified, &grid, &scale)),
        )?;
        embed::write_block(
            out,
            &format!("lost-{at}"),
            &embed::octets_of(&lost(classified, &grid, facts.period_ns)),
        )?;
        flows.push(flow(input, results, classified, &scale));
    }
    embed::write_json(out, "data", &Data { slices: grid.slices, slice_ns: grid.slice_ns, flows })
}

/// How delays become 32-bit numbers: nanoseconds above the least, or a coarser unit where they differ by 2 s or more.
struct Scale {
    base_ns: i64,
    unit_ns: u64,
}

impl Scale {
    fn of(arrivals: &[Arrival]) -> Self {
        let least = arrivals.iter().map(Arrival::delay_ns).min().unwrap_or(0);
        let largest = arrivals.iter().map(Arrival::delay_ns).max().unwrap_or(0);
        Self { base_ns: least, unit_ns: largest.abs_diff(least) / i32::MAX as u64 + 1 }
    }

    fn number(&self, delay_ns: i64) -> i32 {
        i32::try_from(delay_ns.abs_diff(self.base_ns) / self.unit_ns).unwrap_or(i32::MAX)
    }
}

/// Least, then largest delay of each slice; [`MISSING`] where nothing arrived.
fn thin(classified: &Classified, grid: &Grid, scale: &Scale) -> Vec<i32> {
    let mut both = vec![MISSING; 2 * grid.slices];
    let (least, largest) = both.split_at_mut(grid.slices);
    let start_ns = classified.arrivals.first().map_or(0, |first| first.received_ns);
    for arrival in &classified.arrivals {
        let slice = grid.index(arrival.received_ns.saturating_sub(start_ns));
        let number = scale.number(arrival.delay_ns());
        if least[slice] == MISSING || number < least[slice] {
            least[slice] = number;
        }
        // MISSING is below every number.
        largest[slice] = largest[slice].max(number);
    }
    both
}

/// Slices in which packets were lost, each with their count. A lost packet has no time of arrival; it stands between
/// those of its neighbours.
fn lost(classified: &Classified, grid: &Grid, period_ns: u64) -> Vec<i32> {
    let start_ns = classified.arrivals.first().map_or(0, |first| first.received_ns);
    let mut came: Vec<(u64, i64)> = classified
        .arrivals
        .iter()
        .map(|arrival| (arrival.sequence, arrival.received_ns.saturating_sub(start_ns)))
        .collect();
    came.sort_unstable();
    let mut slices: BTreeMap<usize, u64> = BTreeMap::new();
    for run in loss_runs(came.iter().map(|(sequence, _)| *sequence), classified.counts.sent) {
        let next = came.partition_point(|(sequence, _)| *sequence < run.first);
        let before_ns = next.checked_sub(1).map_or(0, |at| came[at].1);
        let to_end_ns = i64::try_from(run.length.saturating_mul(period_ns)).unwrap_or(i64::MAX);
        let after_ns = came.get(next).map_or(before_ns.saturating_add(to_end_ns), |(_, ns)| *ns);
        let (first, last) = (grid.index(before_ns), grid.index(after_ns.max(before_ns)));
        let among = (last - first) as u64 + 1;
        // The packets are spread evenly; of fewer packets than slices each has its own slice.
        let steps = among.min(run.length);
        for step in 0..steps {
            let upto = |step: u64| (u128::from(run.length) * u128::from(step) / u128::from(steps)) as u64;
            let slice = first + ((2 * step + 1) * among / (2 * steps)) as usize;
            *slices.entry(slice.min(last)).or_default() += upto(step + 1) - upto(step);
        }
    }
    let held = |many: u64| i32::try_from(many).unwrap_or(i32::MAX);
    slices.into_iter().flat_map(|(slice, many)| [held(slice as u64), held(many)]).collect()
}

fn flow(input: &PathReport<'_>, results: &FlowResults, classified: &Classified, scale: &Scale) -> FlowData {
    let figures = &results.figures;
    let delays = delays_ns(&classified.arrivals);
    let mut pdv = pdv_ns(&delays);
    let limits = figures.delay.as_ref().zip(figures.variation.as_ref());
    let up_to = |values: &[i64], limit_ns: i64| {
        Histogram::new(values, DEFAULT_BINS, limit_ns).map(|histogram| Bins { histogram, below: 0 })
    };
    let direction = results.flow.direction;
    let start_ns = classified.arrivals.first().map_or(0, |first| first.received_ns);
    let pairs = |counts: &BTreeMap<u64, u64>| counts.iter().map(|(value, many)| (*value, *many)).collect();
    FlowData {
        way: results.flow.direction.name(),
        sent: figures.packets.sent,
        packets: figures.packets.unique,
        lost: figures.loss.packets,
        duplicate: figures.packets.duplicate,
        period_ns: results.flow.period_ns,
        latency: limits.and_then(|(delay, _)| up_to(&delays, delay.as_measured.p99_ns)),
        shift_ns: input.summary.clock.as_ref().map(|clock| correct(0, clock.offset_ns, direction)),
        bound_ns: input.summary.clock.as_ref().map(|clock| clock.bound_ns),
        pdv: limits.and_then(|(_, variation)| up_to(&pdv, variation.pdv.p99_ns)),
        ipdv: middle(ipdv(&classified.arrivals).into_iter().map(|one| one.ipdv_ns).collect()),
        tail: tail(&mut pdv),
        base_ns: scale.base_ns,
        unit_ns: scale.unit_ns,
        line: figures.burstiness,
        lower: figures.skew.map(|line| lower(&line, start_ns)),
        loss_lengths: pairs(&figures.loss.pattern.period_lengths),
        copies: pairs(&figures.duplication.lengths),
        displacements: figures.density.iter().flat_map(|density| density.counts.clone()).collect(),
        displacement_threshold: figures.density.as_ref().map(|density| density.displacement_threshold),
        displaced_too_far: figures.density.as_ref().map(|density| density.discarded),
    }
}

/// The lower line is over times of sending, the plot over times of arrival.
fn lower(line: &LowerLine, start_ns: i64) -> [(i64, i64); 2] {
    [(line.from_ns, line.from_delay_ns), (line.to_ns, line.to_delay_ns)]
        .map(|(sent_ns, delay_ns)| (sent_ns.saturating_add(delay_ns).saturating_sub(start_ns), delay_ns))
}

/// The middle 99 % of signed values.
fn middle(mut values: Vec<i64>) -> Option<Bins> {
    values.sort_unstable();
    let rank = |share: f64| ((values.len() as f64 * share).ceil() as usize).clamp(1, values.len().max(1)) - 1;
    let (low, high) = (*values.get(rank(0.005))?, *values.get(rank(0.995))?);
    let below = values.partition_point(|value| *value < low);
    let histogram = Histogram::new(&values[below..], DEFAULT_BINS, high)?;
    Some(Bins { histogram, below: below as u64 })
}

/// Points of the tail of a distribution, spaced evenly by the logarithm of how rare they are; each is exact.
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
