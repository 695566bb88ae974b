//! What an interruption costs beside its trace points, learned from a loop that was interrupted.

use super::timeline::{end_of, start_of};
use crate::model::EdgeCost;
use quaver_abi::record::{EventKind, EventRecord};

/// Fewer interruptions than this say too little.
const LEAST_SAMPLES: usize = 12;
/// No machine needs longer on one side; what does is something else (a hypervisor at work, for one).
const MOST_NS: i64 = 12_000;

/// Learns the cost of entry and exit from gaps of a tight loop on `cpu`, each from the last stamp before to the first
/// stamp after an interruption. Only gaps with one interrupt and nothing else in them, no
/// other thread either, count. The result is the
/// 90th percentile of each side: what is still usual. None with fewer than twelve such gaps.
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
    let (mut entries, mut exits) = (Vec::new(), Vec::new());
    for &(before_ns, after_ns) in gaps {
        let first = here.partition_point(|event| start_of(event) < before_ns);
        let inside = &here[first..];
        let [interrupt, ..] = inside else { continue };
        let alone = inside.get(1).is_none_or(|next| start_of(next) >= after_ns);
        let switch = switches.partition_point(|&end_ns| (end_ns as i64) < before_ns);
        let alone = alone && switches.get(switch).is_none_or(|&end_ns| end_ns as i64 > after_ns);
        let is_interrupt =
            matches!(EventKind::from_raw(interrupt.kind), Some(EventKind::Vector | EventKind::Irq));
        let (entry, exit) = (start_of(interrupt) - before_ns, after_ns - end_of(interrupt));
        if alone && is_interrupt && exit >= 0 && entry <= MOST_NS && exit <= MOST_NS {
            entries.push(entry);
            exits.push(exit);
        }
    }
    (entries.len() >= LEAST_SAMPLES).then(|| EdgeCost {
        entry_ns: ninth_decile(&mut entries),
        exit_ns: ninth_decile(&mut exits),
        samples: entries.len() as u32,
    })
}

/// Intervals that stop a loop; the others are parts of these.
fn breaks_loop(event: &EventRecord) -> bool {
    let kind = EventKind::from_raw(event.kind);
    matches!(kind, Some(EventKind::Nmi | EventKind::Vector | EventKind::Irq | EventKind::Softirq))
}

fn ninth_decile(values: &mut [i64]) -> i64 {
    let index = (values.len() * 9).div_ceil(10) - 1;
    *values.select_nth_unstable(index).1
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
        assert_eq!(cost, EdgeCost { entry_ns: 1_017, exit_ns: 1_017, samples: 20 });
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

    #[test]
    fn gaps_without_events_say_nothing() {
        assert_eq!(learn_edge_cost(&[(0, 5_000); 20], 1, &[]), None);
    }
}
