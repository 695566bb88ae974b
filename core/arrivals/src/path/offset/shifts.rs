//! Whether a lasting shift of the least delays is a step of a clock or of the path.

use super::{End, Evidence, FlowTimes, client_ns, signed};
use crate::path::arrival::Arrival;
use crate::path::direction::Direction;
use crate::path::steps::{LevelShift, ShiftCause};

/// Shifts of two directions so near each other may be one, nanoseconds by the client's clock, beside their size.
const NEAR_NS: u64 = 2_000_000_000;
/// Sizes that differ by less may be of one step, nanoseconds, or a fifth of them.
const ALIKE_NS: u64 = 200_000;

/// A step of the offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Jump {
    /// Whose clock stepped.
    end: End,
    /// What the offset, server less client, grew by.
    offset_ns: i64,
    /// When, by the client's clock after it.
    at_ns: i64,
    /// The flows that show it, each with the first packet behind it.
    seen: Vec<(usize, u64)>,
}

fn alike(one_ns: i64, other_ns: i64) -> bool {
    one_ns.abs_diff(other_ns) <= ALIKE_NS.max(one_ns.unsigned_abs() / 5)
}

/// Steps of the offset, and of the client's clock alone, before a packet of a flow.
pub(super) fn before(jumps: &[Jump], flow: usize, client_ns: i64, arrival: &Arrival) -> (i64, i64) {
    let (mut offset_ns, mut client_step_ns) = (0i64, 0i64);
    for jump in jumps {
        let place = jump.seen.iter().find(|(seen, _)| *seen == flow);
        if place.map_or(jump.at_ns <= client_ns, |(_, first)| *first <= arrival.sequence) {
            offset_ns = offset_ns.saturating_add(jump.offset_ns);
            if jump.end == End::Client {
                client_step_ns = client_step_ns.saturating_sub(jump.offset_ns);
            }
        }
    }
    (offset_ns, client_step_ns)
}

/// A shift as a change of the offset, and its time by the client's clock.
fn seen_from_client(flow: &FlowTimes<'_>, shift: &LevelShift) -> (i64, i64) {
    let arrival =
        Arrival { sequence: shift.sequence, sent_ns: shift.sent_ns, received_ns: shift.received_ns };
    (signed(flow.direction, shift.size_ns), client_ns(flow.direction, &arrival))
}

const fn ends(direction: Direction) -> (End, End) {
    match direction {
        Direction::Up => (End::Client, End::Server),
        Direction::Down => (End::Server, End::Client),
    }
}

/// Settles the causes of shifts as far as the other direction and the ends' own readings tell, and gives the steps of
/// clocks.
pub(super) fn resolve(evidence: &Evidence<'_>, shifts: &mut [Vec<LevelShift>]) -> Vec<Jump> {
    let raw: Vec<Vec<LevelShift>> = shifts.to_vec();
    let mut jumps: Vec<Jump> = Vec::new();
    for (flow, found) in shifts.iter_mut().enumerate() {
        let (sender, receiver) = ends(evidence.flows[flow].direction);
        for shift in found {
            let (offset_ns, at_ns) = seen_from_client(&evidence.flows[flow], shift);
            let known = jumps.iter_mut().find(|jump| {
                let near_ns = NEAR_NS.saturating_add(offset_ns.unsigned_abs());
                alike(jump.offset_ns, offset_ns)
                    && jump.at_ns.abs_diff(at_ns) <= near_ns
                    && jump.seen.iter().all(|(seen, _)| *seen != flow)
            });
            if let Some(jump) = known {
                shift.cause =
                    if jump.end == sender { ShiftCause::SenderClock } else { ShiftCause::ReceiverClock };
                jump.seen.push((flow, shift.sequence));
                continue;
            }
            let end = match shift.cause {
                ShiftCause::SenderClock => Some(sender),
                _ => stepped_end(evidence, &raw, flow, shift),
            };
            shift.cause = match end {
                Some(end) if end == sender => ShiftCause::SenderClock,
                Some(end) if end == receiver => ShiftCause::ReceiverClock,
                _ if is_the_path(evidence, flow, at_ns) => ShiftCause::Path,
                _ => shift.cause,
            };
            if let Some(end) = end {
                jumps.push(Jump { end, offset_ns, at_ns, seen: vec![(flow, shift.sequence)] });
            }
        }
    }
    jumps
}

/// The end whose clock made a shift: by its own reading, or because the other direction shows the same with another sign.
fn stepped_end(
    evidence: &Evidence<'_>,
    all: &[Vec<LevelShift>],
    flow: usize,
    shift: &LevelShift,
) -> Option<End> {
    let (offset_ns, at_ns) = seen_from_client(&evidence.flows[flow], shift);
    let direction = evidence.flows[flow].direction;
    let read = evidence.read_steps.into_iter().flatten().find(|step| {
        let grown_ns = if step.end == End::Server { step.step_ns } else { step.step_ns.saturating_neg() };
        alike(grown_ns, offset_ns)
    });
    if let Some(step) = read {
        return Some(step.end);
    }
    let others = evidence.flows.iter().zip(all).filter(|(other, _)| other.direction != direction);
    let mirrored = others.flat_map(|(other, shifts)| shifts.iter().map(move |shift| (other, shift))).find(
        |(other, there)| {
            let (same_ns, then_ns) = seen_from_client(other, there);
            let near_ns = NEAR_NS.saturating_add(offset_ns.unsigned_abs());
            alike(same_ns, offset_ns) && then_ns.abs_diff(at_ns) <= near_ns
        },
    );
    // Its sender is the receiver here, whose clock it is in any case: a step of this sender would be seen as such.
    mirrored.filter(|_| shift.cause == ShiftCause::ReceiverClockOrPath).map(|_| ends(direction).1)
}

/// Whether no clock stepped at this time: the other direction was measured then and shows nothing, or both ends looked.
fn is_the_path(evidence: &Evidence<'_>, flow: usize, at_ns: i64) -> bool {
    let direction = evidence.flows[flow].direction;
    let covers = |other: &FlowTimes<'_>| {
        let times = || other.arrivals.iter().map(|arrival| client_ns(other.direction, arrival));
        let margin_ns = NEAR_NS.cast_signed();
        times().min().is_some_and(|first| first.saturating_add(margin_ns) <= at_ns)
            && times().max().is_some_and(|last| at_ns <= last.saturating_sub(margin_ns))
    };
    evidence.read_steps.is_some()
        || evidence.flows.iter().any(|other| other.direction != direction && covers(other))
}

/// Steps that the ends read and no flow shows, added up: nobody knows which packets they fell between.
pub(super) fn unseen_ns(evidence: &Evidence<'_>, shifts: &[Vec<LevelShift>]) -> i64 {
    let shown = |grown_ns: i64| {
        evidence.flows.iter().zip(shifts).any(|(flow, found)| {
            found.iter().any(|shift| {
                shift.cause.is_a_clock() && alike(grown_ns, signed(flow.direction, shift.size_ns))
            })
        })
    };
    let grown = evidence.read_steps.into_iter().flatten().map(|step| match step.end {
        End::Server => step.step_ns,
        End::Client => step.step_ns.saturating_neg(),
    });
    grown.filter(|grown_ns| !shown(*grown_ns)).fold(0, |sum: i64, ns| sum.saturating_add(ns.saturating_abs()))
}
