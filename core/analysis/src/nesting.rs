//! Net durations: how long each interval lasted without what interrupted it.

use quaver_abi::record::{EventKind, EventRecord};

/// Mark of an event that nothing encloses.
pub const NOT_NESTED: u32 = u32::MAX;

/// Net durations of events, in the order of the events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetDurations {
    /// Duration without the interruptions inside; 0 for points.
    pub net_ns: Vec<u64>,
    /// Innermost recorded interval of the same CPU in which the event began, [`NOT_NESTED`] for none.
    pub nested_in: Vec<u32>,
}

/// How deep a kind stands when intervals begin at one instant; outermost first.
fn rank(kind: EventKind) -> u8 {
    match kind {
        EventKind::Thread => 0,
        EventKind::IdleState | EventKind::Work => 1,
        EventKind::Softirq => 2,
        EventKind::Timer => 3,
        EventKind::Irq | EventKind::Vector => 4,
        EventKind::Hrtimer | EventKind::CrossCall => 5,
        EventKind::Nmi => 6,
        _ => 7,
    }
}

/// Whether time inside this kind interrupts what encloses it. The others are parts of what they stand in (a
/// timer callback of its interrupt, a work item of its thread).
fn interrupts(kind: EventKind) -> bool {
    matches!(kind, EventKind::Nmi | EventKind::Irq | EventKind::Vector | EventKind::Softirq)
}

/// Whether an interval of this kind is an own level, which passes what it suffered on to the level below as part
/// of its own duration.
fn is_level(kind: EventKind) -> bool {
    interrupts(kind) || kind == EventKind::Thread
}

/// Net durations after the osnoise tracer's rules: NMIs are subtracted from interrupts, interrupts from
/// softirqs, softirqs from threads; parts of a level lose what interrupted that level during them.
/// Each nanosecond is subtracted once from each enclosing interval.
pub fn net_durations(events: &[EventRecord]) -> NetDurations {
    let mut net: Vec<u64> = events
        .iter()
        .map(|event| match EventKind::from_repr(event.kind) {
            Some(kind) if kind.is_interval() => event.end_ns.saturating_sub(event.start_ns),
            _ => 0,
        })
        .collect();
    let mut nested_in = vec![NOT_NESTED; events.len()];
    let mut open: Vec<(u32, EventKind)> = Vec::new();
    let mut cpu = None;
    for index in order(events) {
        let event = &events[index as usize];
        let Some(kind) = EventKind::from_repr(event.kind) else { continue };
        if cpu != Some(event.cpu) {
            open.clear();
            cpu = Some(event.cpu);
        }
        while open.last().is_some_and(|&(top, _)| events[top as usize].end_ns <= event.start_ns) {
            open.pop();
        }
        if let Some(&(top, _)) = open.last() {
            nested_in[index as usize] = top;
        }
        // A system call belongs to its thread, not to a CPU: others run while it sleeps.
        if !kind.is_interval() || kind == EventKind::SystemCall || event.end_ns <= event.start_ns {
            continue;
        }
        if interrupts(kind) {
            for &(outer, outer_kind) in open.iter().rev() {
                let end_ns = events[outer as usize].end_ns.min(event.end_ns);
                let inside = end_ns.saturating_sub(event.start_ns);
                net[outer as usize] = net[outer as usize].saturating_sub(inside);
                if is_level(outer_kind) {
                    break;
                }
            }
        }
        open.push((index, kind));
    }
    NetDurations { net_ns: net, nested_in }
}

fn order(events: &[EventRecord]) -> Vec<u32> {
    let key = |&index: &u32| {
        let event = &events[index as usize];
        let rank = EventKind::from_repr(event.kind).map_or(u8::MAX, rank);
        (event.cpu, event.start_ns, rank, std::cmp::Reverse(event.end_ns), index)
    };
    let mut order: Vec<u32> = (0..events.len().min(NOT_NESTED as usize) as u32)
        .filter(|&index| events[index as usize].kind != EventKind::TaskName as u8)
        .collect();
    if !order.is_sorted_by_key(key) {
        order.sort_by_key(key);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind, cpu: u16, start: u64, end: u64) -> EventRecord {
        EventRecord { start_ns: start, end_ns: end, kind: kind as u8, cpu, ..EventRecord::default() }
    }

    #[test]
    fn each_level_loses_what_interrupted_it_once() {
        let events = [
            event(EventKind::Nmi, 1, 320, 330),
            event(EventKind::Hrtimer, 1, 310, 340),
            event(EventKind::Vector, 1, 300, 350),
            event(EventKind::Softirq, 1, 200, 400),
            event(EventKind::Work, 1, 150, 500),
            event(EventKind::Thread, 1, 100, 600),
            event(EventKind::Irq, 0, 300, 350),
            event(EventKind::Wakeup, 1, 325, 325),
        ];
        let result = net_durations(&events);
        assert_eq!(result.net_ns, [10, 20, 40, 150, 150, 300, 50, 0]);
        assert_eq!(result.nested_in, [1, 2, 3, 4, 5, NOT_NESTED, NOT_NESTED, 0]);
    }

    #[test]
    fn interruptions_that_outlast_their_level_are_cut() {
        let events = [event(EventKind::Softirq, 0, 10, 20), event(EventKind::Irq, 0, 15, 30)];
        assert_eq!(net_durations(&events).net_ns, [5, 15]);
    }
}
