//! The offset over time, between steps.

use super::{Evidence, OffsetSource, signed};
use crate::path::clocks::ClockEstimate;
use crate::path::direction::Direction;
use crate::path::edge::Edge;

/// The offset at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Knot {
    at_ns: i64,
    offset_ns: f64,
    bound_ns: f64,
}

/// The offset over the client's time, straight between knots.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Course {
    knots: Vec<Knot>,
    /// Whether packets told how it changes.
    followed: bool,
    /// Differences of offsets are right within this, nanoseconds.
    pub(super) drift_bound_ns: f64,
    /// What it comes from.
    pub(super) source: OffsetSource,
}

fn since(from: i64, to: i64) -> f64 {
    (i128::from(to) - i128::from(from)) as f64
}

impl Course {
    /// No offset at any time.
    pub(super) fn same_clock(edges: &[Option<Edge>]) -> Self {
        let (from, to) = whole(edges).unwrap_or((0, 0));
        let knot = |at_ns| Knot { at_ns, offset_ns: 0.0, bound_ns: 0.0 };
        let knots = vec![knot(from), knot(to)];
        Self { knots, followed: true, drift_bound_ns: 0.0, source: OffsetSource::SameClock }
    }

    fn offset_at(&self, time_ns: i64) -> f64 {
        let after = self.knots.partition_point(|knot| knot.at_ns <= time_ns);
        match (after.checked_sub(1).map(|before| self.knots[before]), self.knots.get(after)) {
            (Some(from), Some(to)) => {
                let share = since(from.at_ns, time_ns) / since(from.at_ns, to.at_ns);
                from.offset_ns + (to.offset_ns - from.offset_ns) * share
            }
            (Some(end), None) | (None, Some(&end)) => {
                end.offset_ns + self.slope() * since(end.at_ns, time_ns)
            }
            (None, None) => 0.0,
        }
    }

    /// The offset at a time, nanoseconds.
    pub(super) fn at_ns(&self, time_ns: i64) -> i64 {
        self.offset_at(time_ns).round() as i64
    }

    /// The offset in the middle.
    pub(super) fn middle_ns(&self) -> i64 {
        let ends = self.knots.first().zip(self.knots.last());
        ends.map_or(0, |(first, last)| self.at_ns(i64::midpoint(first.at_ns, last.at_ns)))
    }

    /// The largest bound of the offset; none without knots.
    pub(super) fn most_bound_ns(&self) -> Option<i64> {
        self.knots.iter().map(|knot| knot.bound_ns.ceil() as i64).max()
    }

    /// Mean growth, without unit.
    fn slope(&self) -> f64 {
        match (self.knots.first(), self.knots.last()) {
            (Some(first), Some(last)) if last.at_ns > first.at_ns => {
                (last.offset_ns - first.offset_ns) / since(first.at_ns, last.at_ns)
            }
            _ => 0.0,
        }
    }

    /// Mean growth in parts per million; none where no packet tells it.
    pub(super) fn skew_ppm(&self) -> Option<f64> {
        self.followed.then(|| self.slope() * 1e6)
    }

    /// Least and largest growth between two knots, parts per million.
    pub(super) fn skew_range_ppm(&self) -> Option<[f64; 2]> {
        let pairs = self.knots.windows(2).filter(|two| two[1].at_ns > two[0].at_ns);
        let slopes =
            pairs.map(|two| (two[1].offset_ns - two[0].offset_ns) / since(two[0].at_ns, two[1].at_ns));
        let range = slopes.fold(None, |range: Option<[f64; 2]>, slope| {
            let ppm = slope * 1e6;
            let [least, most] = range.unwrap_or([ppm; 2]);
            Some([least.min(ppm), most.max(ppm)])
        });
        range.filter(|_| self.followed)
    }
}

/// First and last time of all edges.
fn whole(edges: &[Option<Edge>]) -> Option<(i64, i64)> {
    let spans = || edges.iter().flatten().map(Edge::span_ns);
    Some((spans().map(|span| span.0).min()?, spans().map(|span| span.1).max()?))
}

/// The longest edge of a direction.
fn of<'a>(evidence: &Evidence<'_>, edges: &'a [Option<Edge>], direction: Direction) -> Option<&'a Edge> {
    let flows = evidence.flows.iter().zip(edges).filter(|(flow, _)| flow.direction == direction);
    flows
        .filter_map(|(_, edge)| edge.as_ref())
        .max_by(|one, other| one.length_ns().total_cmp(&other.length_ns()))
}

/// The offset from packets of both directions; none where one has none.
pub(super) fn two_way(evidence: &Evidence<'_>, edges: &[Option<Edge>]) -> Option<Course> {
    let (up, down) = (of(evidence, edges, Direction::Up)?, of(evidence, edges, Direction::Down)?);
    let (up, down) = agreed(up, down);
    let ((up_from, up_to), (down_from, down_to)) = (up.span_ns(), down.span_ns());
    let (from, to) = (up_from.max(down_from), up_to.min(down_to));
    let apart = from > to;
    // Where the directions do not overlap they are joined in the middle of the gap.
    let (from, to) = if apart { (i64::midpoint(from, to), i64::midpoint(from, to)) } else { (from, to) };
    let half = |time_ns: i64| f64::midpoint(up.at_ns(time_ns), down.at_ns(time_ns));
    let reach = if apart {
        let gap_ns = since(up_to.min(down_to), up_from.max(down_from));
        1.0 + gap_ns / up.length_ns().min(down.length_ns()).max(1.0)
    } else {
        1.0
    };
    let scatter_ns = (up.bound_ns + down.bound_ns) * reach;
    let knot = |at_ns: i64| {
        let half_ns = half(at_ns.clamp(from, to));
        let offset_ns = match (up_from..=up_to).contains(&at_ns) {
            _ if (from..=to).contains(&at_ns) => (up.at_ns(at_ns) - down.at_ns(at_ns)) / 2.0,
            true => up.at_ns(at_ns) - half_ns,
            false => half_ns - down.at_ns(at_ns),
        };
        Knot { at_ns, offset_ns, bound_ns: half_ns.abs() + scatter_ns }
    };
    let mut times: Vec<i64> =
        up.knots.iter().chain(&down.knots).map(|knot| knot.0).chain([from, to]).collect();
    times.sort_unstable();
    times.dedup();
    Some(Course {
        knots: times.into_iter().map(knot).collect(),
        followed: true,
        drift_bound_ns: scatter_ns,
        source: OffsetSource::Packets,
    })
}

/// The two edges without what cannot be the clocks': a skew lifts one edge as it lowers the other; a queue lowers none.
fn agreed(up: &Edge, down: &Edge) -> (Edge, Edge) {
    let both = |skew_ppm: f64| (up.with_slope(skew_ppm), down.with_slope(-skew_ppm));
    let rise_ns = |ppm: f64, edge: &Edge| ppm.abs() * 1e-6 * edge.length_ns();
    match (up.drifts, down.drifts) {
        (false, false) => (up.clone(), down.clone()),
        // The other direction would show it, unless it is too short.
        (true, false) if rise_ns(up.ppm, down) > 3.0 * down.bound_ns => both(0.0),
        (false, true) if rise_ns(down.ppm, up) > 3.0 * up.bound_ns => both(0.0),
        (true, false) => (up.clone(), down.with_slope(-up.ppm)),
        (false, true) => (up.with_slope(-down.ppm), down.clone()),
        (true, true) => {
            let grown_ppm = up.ppm + down.ppm;
            let shorter = if up.length_ns() < down.length_ns() { up } else { down };
            let alike = grown_ppm.abs() <= up.ppm.abs().max(down.ppm.abs()) / 10.0
                || rise_ns(grown_ppm, shorter) <= 4.0 * (up.bound_ns + down.bound_ns);
            if alike || grown_ppm < 0.0 {
                (up.clone(), down.clone())
            } else {
                both(0.0f64.clamp(-down.ppm, up.ppm))
            }
        }
    }
}

/// The offset where packets went one way or not at all, from round trips over the control connection.
pub(super) fn one_way(
    evidence: &Evidence<'_>,
    edges: &[Option<Edge>],
    clock: Option<ClockEstimate>,
) -> Course {
    let best = evidence.probes.iter().filter(|probe| probe.rtt_ns() >= 0).min_by_key(|probe| probe.rtt_ns());
    let probed_ns = best.map(|probe| i64::midpoint(probe.t1_ns, probe.t3_ns));
    let ways = evidence.flows.iter().zip(edges);
    let longest = ways
        .filter_map(|(flow, edge)| Some((flow.direction, edge.as_ref()?)))
        .max_by(|one, other| one.1.length_ns().total_cmp(&other.1.length_ns()));
    let source = match (clock, best) {
        (Some(_), Some(_)) => OffsetSource::RoundTrips,
        (Some(_), None) => OffsetSource::Stated,
        (None, _) => OffsetSource::Unknown,
    };
    let Some((direction, edge)) = longest else {
        let knot = clock.map(|clock| Knot {
            at_ns: probed_ns.unwrap_or(0),
            offset_ns: clock.offset_ns as f64,
            bound_ns: clock.bound_ns as f64,
        });
        return Course { knots: knot.into_iter().collect(), followed: false, drift_bound_ns: 0.0, source };
    };
    let start_ns = probed_ns.unwrap_or(edge.span_ns().0);
    // The way itself takes what the edge lies above the offset by, and never less than nothing.
    let (base_ns, bound_ns) = match clock {
        None => (edge.at_ns(start_ns), 0.0),
        Some(clock) => {
            let middle_ns = edge.at_ns(start_ns) - signed(direction, clock.offset_ns) as f64;
            let bound_ns = clock.bound_ns as f64;
            let (least, most) = ((middle_ns - bound_ns).max(0.0), (middle_ns + bound_ns).max(0.0));
            let base_ns = middle_ns.max(0.0);
            (base_ns, (most - base_ns).max(base_ns - least))
        }
    };
    let knot = |time_ns: i64| Knot {
        at_ns: time_ns,
        offset_ns: match direction {
            Direction::Up => edge.at_ns(time_ns) - base_ns,
            Direction::Down => base_ns - edge.at_ns(time_ns),
        },
        bound_ns: bound_ns + edge.bound_ns,
    };
    let knots = edge.knots.iter().map(|(time_ns, _)| knot(*time_ns)).collect();
    Course { knots, followed: true, drift_bound_ns: edge.bound_ns, source }
}
