//! Recorded intervals that a stop from outside made longer: interrupts and softirqs that contain an instant of the grid.
//!
//! An interval that takes several times its usual length may have had more work. Where those of a kind contain an instant
//! of the grid far more often than chance puts it there, those that do were stopped at that instant. The stop took what
//! they have beyond the usual length.

use super::grid::{CHANCE, Grid, at_least};
use super::timeline::{end_of, start_of};
use quaver_abi::record::{EventKind, EventRecord};
use std::collections::BTreeMap;
use std::ops::Range;

/// An interval is long from this many times the median of its kind on, and from [`SHORTEST_NS`] on.
const TIMES: i64 = 4;
const SHORTEST_NS: i64 = 2_000;
/// Intervals of a kind on one CPU from which the usual length is learned.
const FEWEST: usize = 64;

/// The stretch that was taken from outside, by number of the event.
pub(super) type Stops = BTreeMap<u32, Range<i64>>;

/// Intervals that the grid made long.
pub(super) fn stops(events: &[EventRecord], grid: &Grid) -> Stops {
    let mut kinds: BTreeMap<(u8, u32, u16), Vec<u32>> = BTreeMap::new();
    for (index, event) in events.iter().enumerate() {
        let kind = EventKind::from_repr(event.kind);
        if matches!(kind, Some(EventKind::Irq | EventKind::Vector | EventKind::Softirq)) {
            kinds.entry((event.kind, event.id, event.cpu)).or_default().push(index as u32);
        }
    }
    kinds
        .into_values()
        .filter(|of_kind| of_kind.len() >= FEWEST)
        .flat_map(|of| stops_of(events, &of, grid))
        .collect()
}

/// Of one kind on one CPU.
fn stops_of(events: &[EventRecord], of_kind: &[u32], grid: &Grid) -> Stops {
    let at = |index: u32| start_of(&events[index as usize])..end_of(&events[index as usize]);
    let length_ns = |index: u32| at(index).end - at(index).start;
    let mut lengths: Vec<i64> = of_kind.iter().map(|&index| length_ns(index)).collect();
    let middle = lengths.len() / 2;
    let usual_ns = *lengths.select_nth_unstable(middle).1;
    let limit_ns = usual_ns.saturating_mul(TIMES).max(SHORTEST_NS);
    let long: Vec<u32> = of_kind.iter().copied().filter(|&index| length_ns(index) > limit_ns).collect();
    let stop = |&index: &u32| {
        let from_ns = grid.instant_in(at(index).start, at(index).end)?;
        let until_ns = from_ns.saturating_add(length_ns(index) - usual_ns).min(at(index).end);
        Some((index, from_ns..until_ns))
    };
    let stops: Stops = long.iter().filter_map(stop).collect();
    let share =
        long.iter().map(|&index| grid.chance(length_ns(index))).sum::<f64>() / long.len().max(1) as f64;
    if at_least(stops.len(), long.len(), share) < CHANCE { stops } else { Stops::new() }
}
