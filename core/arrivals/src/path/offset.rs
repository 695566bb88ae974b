//! How far apart the clocks of the two ends are at each moment of a test, from its own packets.
//!
//! A packet that went up took at least no time, so the server's clock is ahead by at most its delay as measured; one that
//! came down says by at least minus its delay. Half the difference of the two lower edges ([`super::edge`]) is the offset,
//! and half their sum bounds its error: it is reached when one direction takes all the time. Where the directions were
//! measured one after the other, their edges are joined between them. Where packets went one way only, the skew shows
//! and the offset comes from round trips over the control connection, or is not known.
//!
//! Steps are taken out first ([`shifts`]). If both ends measured their wall clocks equally far from their monotonic
//! clocks, one kernel counted both: the offset is 0 by measurement, unless a packet contradicts it.

mod course;
mod shifts;
#[cfg(test)]
mod tests;

use super::arrival::Arrival;
use super::clocks::{ClockEstimate, RttProbe, estimate};
use super::direction::Direction;
use super::edge::{Edge, edge};
use super::steps::{LevelShift, ShiftCause, ShiftSearch, level_shifts, without_drift};
use course::Course;
use schemars::JsonSchema;
use serde::Serialize;
use shifts::Jump;

/// Readings of both clocks of a host are right to this, nanoseconds. Two hosts that started their monotonic clocks within
/// it are not known.
const SAME_WITHIN_NS: i64 = 1_000;

/// One end of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The one that asked for the test.
    Client,
    /// The other.
    Server,
}

/// The packets of a flow that the clocks are judged by.
#[derive(Debug, Clone, Copy)]
pub struct FlowTimes<'a> {
    /// Which way it went.
    pub direction: Direction,
    /// First copies, in order of arrival.
    pub arrivals: &'a [Arrival],
    /// Period of a periodic flow.
    pub period_ns: Option<u64>,
}

/// A step that an end saw of its own wall clock, against its monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadStep {
    /// Whose.
    pub end: End,
    /// Forward if positive, nanoseconds.
    pub step_ns: i64,
}

/// All that says something about the clocks of a test.
#[derive(Debug, Clone, Copy, Default)]
pub struct Evidence<'a> {
    /// Flows, in any order.
    pub flows: &'a [FlowTimes<'a>],
    /// Round trips over the control connection.
    pub probes: &'a [RttProbe],
    /// What a log states in place of round trips.
    pub stated: Option<ClockEstimate>,
    /// Server's wall clock less its monotonic clock, less the same of the client; none where an end did not read both.
    pub boot_gap_ns: Option<i64>,
    /// Steps that the ends saw; none where an end did not look.
    pub read_steps: Option<&'a [ReadStep]>,
}

/// Where an offset comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OffsetSource {
    /// Both ends read one clock, as their readings of it show.
    SameClock,
    /// Test packets of both directions.
    Packets,
    /// Round trips over the control connection.
    RoundTrips,
    /// A log states it.
    Stated,
    /// Nothing tells it; the skew may still be known.
    Unknown,
}

/// An offset with its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Offset {
    /// Server's clock less the client's, nanoseconds.
    pub offset_ns: i64,
    /// The true one lies within so much of it.
    pub bound_ns: i64,
}

/// What is known of the two clocks. Offsets are the server's clock less the client's, nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Clocks {
    /// In the middle of the test; none where nothing tells it.
    pub offset_ns: Option<i64>,
    /// Largest bound of the offset at any time of the test.
    pub bound_ns: Option<i64>,
    /// Where the offset comes from.
    pub source: OffsetSource,
    /// What the test packets alone say, whatever the offset was taken from; none unless both directions have some.
    pub by_packets: Option<Offset>,
    /// Growth of the offset over the whole test, parts per million; none where no packet tells it.
    pub skew_ppm: Option<f64>,
    /// Least and largest skew of a part of the test, parts per million.
    pub skew_range_ppm: Option<[f64; 2]>,
    /// What was taken out of the delays for the skew is right within this, nanoseconds.
    pub drift_bound_ns: Option<i64>,
    /// Jitlat's estimate of the offset, by round trips alone.
    pub jitlat_error_ns: Option<i64>,
    /// Least round trip of the control connection.
    pub min_rtt_ns: Option<i64>,
    /// Round trips used.
    pub probes: usize,
}

/// A flow by one clock.
#[derive(Debug, Clone, PartialEq)]
pub struct TimedFlow {
    /// Its packets as if the client's clock, without its steps, had stamped both ends. Where the offset is not known, as
    /// if the clocks had agreed at the start.
    pub arrivals: Vec<Arrival>,
    /// Lower edge of the delays as measured, steps taken out.
    pub edge: Option<Edge>,
    /// Steps of a clock or of the path.
    pub shifts: Vec<LevelShift>,
    /// Largest error of a delay; none where the offset is not known.
    pub bound_ns: Option<i64>,
    /// Largest error of a difference of delays.
    pub drift_bound_ns: i64,
}

/// What was found of the clocks, and each flow by one clock, in the order of the evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Timed {
    /// The clocks; none where nothing tells of them.
    pub clocks: Option<Clocks>,
    /// The flows.
    pub flows: Vec<TimedFlow>,
}

/// Finds offset and skew over time, and takes them out.
pub fn timed(evidence: &Evidence<'_>) -> Timed {
    let mut found: Vec<Vec<LevelShift>> =
        (0..evidence.flows.len()).map(|flow| shifts_of(evidence, flow)).collect();
    let jumps = shifts::resolve(evidence, &mut found);
    let edges: Vec<Option<Edge>> =
        (0..evidence.flows.len()).map(|flow| edge(points(evidence, flow, &jumps, &found[flow]))).collect();
    let by_probes = estimate(evidence.probes);
    let same = is_one_clock(evidence, &found);
    let by_packets = course::two_way(evidence, &edges);
    let course = match (same, &by_packets) {
        (true, _) => Course::same_clock(&edges),
        (false, Some(course)) => course.clone(),
        (false, None) => course::one_way(evidence, &edges, by_probes.or(evidence.stated)),
    };
    let unread_ns = if same { 0 } else { shifts::unseen_ns(evidence, &found) };
    let timed_flow = |(flow, edge): (usize, &Option<Edge>)| {
        let unknown = |shift: &&LevelShift| !shift.cause.is_known();
        let unknown_ns =
            found[flow].iter().filter(unknown).map(|shift| shift.size_ns.saturating_abs()).sum::<i64>();
        let drift_bound_ns = if same { 0 } else { course.drift_bound_ns as i64 + unknown_ns };
        let bound_ns = course.most_bound_ns().filter(|_| course.source != OffsetSource::Unknown);
        TimedFlow {
            arrivals: corrected(evidence, flow, &jumps, &course),
            edge: edge.clone(),
            shifts: found[flow].clone(),
            bound_ns: bound_ns.map(|bound_ns| bound_ns.saturating_add(unread_ns).saturating_add(unknown_ns)),
            drift_bound_ns: drift_bound_ns.saturating_add(unread_ns),
        }
    };
    let flows: Vec<TimedFlow> = edges.iter().enumerate().map(timed_flow).collect();
    let known = by_probes.is_some() || evidence.stated.is_some() || edges.iter().any(Option::is_some);
    let clocks = known.then(|| {
        let rtt = by_probes.or(evidence.stated);
        let bound_ns = flows.iter().filter_map(|flow| flow.bound_ns).max().or(course.most_bound_ns());
        let told = course.source != OffsetSource::Unknown;
        Clocks {
            offset_ns: told.then(|| course.middle_ns()),
            bound_ns: bound_ns.filter(|_| told),
            source: course.source,
            by_packets: by_packets.and_then(|course| {
                Some(Offset { offset_ns: course.middle_ns(), bound_ns: course.most_bound_ns()? })
            }),
            skew_ppm: course.skew_ppm(),
            skew_range_ppm: course.skew_range_ppm(),
            drift_bound_ns: flows.iter().map(|flow| flow.drift_bound_ns).max(),
            jitlat_error_ns: rtt.map(|clock| clock.jitlat_error_ns),
            min_rtt_ns: rtt.map(|clock| clock.min_rtt_ns),
            probes: rtt.map_or(0, |clock| clock.probes),
        }
    });
    Timed { clocks, flows }
}

/// The shifts of a flow's least delays, without the drift beside them.
fn shifts_of(evidence: &Evidence<'_>, flow: usize) -> Vec<LevelShift> {
    let FlowTimes { arrivals, period_ns, .. } = evidence.flows[flow];
    let search = ShiftSearch::new(period_ns);
    let mut found = level_shifts(arrivals, &search);
    if !found.is_empty() {
        let slope = edge(points(evidence, flow, &[], &found)).map_or(0.0, |edge| edge.ppm * 1e-6);
        without_drift(arrivals, &mut found, &search, slope);
    }
    found
}

/// Whether both ends read one clock, and no packet arrived before it was sent.
fn is_one_clock(evidence: &Evidence<'_>, shifts: &[Vec<LevelShift>]) -> bool {
    let near =
        evidence.boot_gap_ns.is_some_and(|gap_ns| gap_ns.unsigned_abs() <= SAME_WITHIN_NS.unsigned_abs());
    let delays = evidence.flows.iter().flat_map(|flow| flow.arrivals).map(Arrival::delay_ns);
    let ways = evidence
        .probes
        .iter()
        .flat_map(|probe| [probe.t2_ns.saturating_sub(probe.t1_ns), probe.t3_ns.saturating_sub(probe.t2_ns)]);
    let clock =
        |shift: &LevelShift| matches!(shift.cause, ShiftCause::SenderClock | ShiftCause::ReceiverClock);
    near && delays.chain(ways).all(|ns| ns >= -SAME_WITHIN_NS) && !shifts.iter().flatten().any(clock)
}

/// The client's stamp of an arrival.
fn client_ns(direction: Direction, arrival: &Arrival) -> i64 {
    match direction {
        Direction::Up => arrival.sent_ns,
        Direction::Down => arrival.received_ns,
    }
}

/// A delay of this direction from a difference of server and client, and back.
fn signed(direction: Direction, ns: i64) -> i64 {
    match direction {
        Direction::Up => ns,
        Direction::Down => ns.saturating_neg(),
    }
}

/// Points of the lower edge of a flow: time by the client's clock and delay as measured, both without steps.
fn points(evidence: &Evidence<'_>, flow: usize, jumps: &[Jump], shifts: &[LevelShift]) -> Vec<(i64, i64)> {
    let FlowTimes { direction, arrivals, .. } = evidence.flows[flow];
    let point = |arrival: &Arrival| {
        let counts = |shift: &&LevelShift| jumps.is_empty() || !shift.cause.is_a_clock();
        let (offset_ns, client_step_ns) = shifts::before(jumps, flow, client_ns(direction, arrival), arrival);
        let rest = shifts.iter().filter(counts).filter(|shift| shift.sequence <= arrival.sequence);
        let rest_ns = rest.fold(0, |sum: i64, shift| sum.saturating_add(shift.size_ns));
        let delay_ns =
            arrival.delay_ns().saturating_sub(signed(direction, offset_ns)).saturating_sub(rest_ns);
        (client_ns(direction, arrival).saturating_sub(client_step_ns), delay_ns)
    };
    arrivals.iter().map(point).collect()
}

fn corrected(evidence: &Evidence<'_>, flow: usize, jumps: &[Jump], course: &Course) -> Vec<Arrival> {
    let FlowTimes { direction, arrivals, .. } = evidence.flows[flow];
    let by_one_clock = |arrival: &Arrival| {
        let client = client_ns(direction, arrival);
        let (jumped_ns, client_step_ns) = shifts::before(jumps, flow, client, arrival);
        let offset_ns = course.at_ns(client.saturating_sub(client_step_ns)).saturating_add(jumped_ns);
        let by_server = |ns: i64| ns.saturating_sub(offset_ns).saturating_sub(client_step_ns);
        let by_client = |ns: i64| ns.saturating_sub(client_step_ns);
        let (sent_ns, received_ns) = match direction {
            Direction::Up => (by_client(arrival.sent_ns), by_server(arrival.received_ns)),
            Direction::Down => (by_server(arrival.sent_ns), by_client(arrival.received_ns)),
        };
        Arrival { sent_ns, received_ns, ..*arrival }
    };
    arrivals.iter().map(by_one_clock).collect()
}
