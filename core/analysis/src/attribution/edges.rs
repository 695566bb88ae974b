//! What an interruption costs beside its trace points, learned from a loop that was interrupted.

use super::timeline::{end_of, start_of};
use crate::model::EdgeCost;
use quaver_abi::record::{EventKind, EventRecord};
use quaver_arrivals::distribution::median;

/// Fewer interruptions than this say too little.
const LEAST_SAMPLES: usize = 12;
/// How many median absolute deviations above the median are still usual.
const USUAL_DEVIATIONS: i64 = 3;

/// Learns the cost of entry and exit from gaps of a tight loop on `cpu`, each from the last stamp before to the first
/// stamp after an interruption. Only gaps with one interrupt and nothing else in them count: no other thread, and no steal
/// that the gap can hold. The result is the median of each side plus three median absolute deviations: what is still usual,
/// whatever the machine needs. None with fewer than twelve such gaps.
pub fn learn_edge_cost(gaps: &[(i64, i64)], cpu: u16, events: &[EventRecord]) -> Option<EdgeCost> {
    let mut here: Vec<&EventRecord> =
        events.iter().filter(|event| event.cpu == cpu && breaks_loop(event)).collect();
    here.sort_by_key(|event| (event.start_ns, event.end_ns));
    let mut switches: Vec<u64> = events
        .iter()
        .filter(|event| event.cpu == cpu && event.kind == EventKind::Thread as u8)
        .map(|event| event.end_ns)
        .collect();
    switches.sort_unstable();
    let mut taken: Vec<&EventRecord> =
        events.iter().filter(|event| event.cpu == cpu && event.kind == EventKind::Steal as u8).collect();
    taken.sort_by_key(|record| record.end_ns);
    let (mut entries, mut exits) = (Vec::new(), Vec::new());
    for &(before_ns, after_ns) in gaps {
        let first = here.partition_point(|event| start_of(event) < before_ns);
        let inside = &here[first..];
        let [interrupt, ..] = inside else { continue };
        let alone = inside.get(1).is_none_or(|next| start_of(next) >= after_ns);
        let switch = switches.partition_point(|&end_ns| (end_ns as i64) < before_ns);
        let alone = alone && switches.get(switch).is_none_or(|&end_ns| end_ns as i64 > after_ns);
        let is_interrupt =
            matches!(EventKind::from_repr(interrupt.kind), Some(EventKind::Vector | EventKind::Irq));
        let (entry, exit) = (start_of(interrupt) - before_ns, after_ns - end_of(interrupt));
        if alone && is_interrupt && exit >= 0 && !holds_steal(before_ns, after_ns, &taken) {
            entries.push(entry);
            exits.push(exit);
        }
    }
    (entries.len() >= LEAST_SAMPLES).then(|| EdgeCost {
        entry_ns: usual_ns(&mut entries),
        exit_ns: usual_ns(&mut exits),
        samples: entries.len() as u32,
    })
}

/// Intervals that stop a loop; the others are parts of these.
fn breaks_loop(event: &EventRecord) -> bool {
    let kind = EventKind::from_repr(event.kind);
    matches!(kind, Some(EventKind::Nmi | EventKind::Vector | EventKind::Irq | EventKind::Softirq))
}

/// Whether a gap can hold what was taken between two looks at the hypervisor's count. Records are in order of their ends and
/// follow each other.
fn holds_steal(before_ns: i64, after_ns: i64, taken: &[&EventRecord]) -> bool {
    let first = taken.partition_point(|record| end_of(record) <= before_ns);
    taken[first..].iter().take_while(|record| start_of(record) < after_ns).any(|record| {
        let common = end_of(record).min(after_ns) - start_of(record).max(before_ns);
        u64::try_from(common).is_ok_and(|common| common >= record.aux)
    })
}

/// The upper end of what is usual: the median and some deviations more, which single outliers do not move.
fn usual_ns(values: &mut [i64]) -> i64 {
    let middle = median(values).unwrap_or(0);
    values.iter_mut().for_each(|value| *value = (*value - middle).abs());
    middle.saturating_add(USUAL_DEVIATIONS.saturating_mul(median(values).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interrupt(start_ns: u64, end_ns: u64, cpu: u16) -> EventRecord {
        EventRecord { start_ns, end_ns, cpu, kind: EventKind::Vector as u8, id: 1, ..EventRecord::default() }
    }

    #[test]
    fn lone_interrupts_count() {
        let mut gaps = Vec::new();
        let mut events = Vec::new();
        for turn in 0..20_u64 {
            let at = turn * 100_000;
            gaps.push((at as i64, at as i64 + 4_000 + turn as i64));
            events.push(interrupt(at + 1_000 + turn, at + 3_000, 1));
        }
        let cost = learn_edge_cost(&gaps, 1, &events).unwrap();
        assert_eq!(cost, EdgeCost { entry_ns: 1_024, exit_ns: 1_024, samples: 20 });
        assert_eq!(learn_edge_cost(&gaps, 0, &events), None, "another CPU's");
        let switch = |at: u64| EventRecord {
            start_ns: 0,
            end_ns: at,
            cpu: 1,
            kind: EventKind::Thread as u8,
            ..events[0]
        };
        let mut with_threads = events.clone();
        with_threads.extend((0..20).map(|turn| switch(turn * 100_000 + 3_500)));
        assert_eq!(learn_edge_cost(&gaps, 1, &with_threads), None, "another thread ran in each gap");
        events.extend((0..20).map(|turn| interrupt(turn * 100_000 + 3_100, turn * 100_000 + 3_200, 1)));
        assert_eq!(learn_edge_cost(&gaps, 1, &events), None, "two interrupts in each gap");
    }

    /// Gaps around a tick each: 30 us (and some ns) before its first trace point and 2 us after its last.
    fn slow_entries(more_ns: impl Fn(u64) -> u64) -> (Vec<(i64, i64)>, Vec<EventRecord>) {
        let turn = |turn: u64| {
            let (at, entry_ns) = (turn * 4_000_000, 30_000 + more_ns(turn));
            let gap = (at as i64, (at + entry_ns + 7_000) as i64);
            (gap, interrupt(at + entry_ns, at + entry_ns + 5_000, 1))
        };
        (1..31).map(turn).unzip()
    }

    #[test]
    fn an_entry_of_30_us_is_learned_and_outliers_are_not() {
        let (gaps, events) = slow_entries(|turn| turn % 5 * 100);
        assert_eq!(
            learn_edge_cost(&gaps, 1, &events),
            Some(EdgeCost { entry_ns: 30_500, exit_ns: 2_000, samples: 30 })
        );
        let (gaps, events) = slow_entries(|turn| if turn % 4 == 0 { 900_000 } else { turn % 5 * 100 });
        let cost = learn_edge_cost(&gaps, 1, &events).unwrap();
        assert!((30_200..=31_500).contains(&cost.entry_ns), "{cost:?}");
    }

    #[test]
    fn gaps_that_hold_steal_are_no_samples() {
        let (gaps, mut events) = slow_entries(|turn| if turn % 2 == 0 { 200_000 } else { 0 });
        let steal = |at: i64| EventRecord {
            start_ns: at as u64 - 3_000_000,
            end_ns: at as u64 + 230_000,
            aux: 200_000,
            cpu: 1,
            kind: EventKind::Steal as u8,
            ..EventRecord::default()
        };
        events.extend(gaps.iter().skip(1).step_by(2).map(|gap| steal(gap.0)));
        assert_eq!(
            learn_edge_cost(&gaps, 1, &events),
            Some(EdgeCost { entry_ns: 30_000, exit_ns: 2_000, samples: 15 })
        );
        // What a gap cannot hold lies elsewhere.
        events
            .iter_mut()
            .filter(|event| event.kind == EventKind::Steal as u8)
            .for_each(|event| event.aux = 240_000);
        assert_eq!(learn_edge_cost(&gaps, 1, &events).unwrap().samples, 30);
    }

    #[test]
    fn gaps_without_events_say_nothing() {
        assert_eq!(learn_edge_cost(&[(0, 5_000); 20], 1, &[]), None);
    }
}
