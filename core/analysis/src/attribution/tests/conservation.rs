//! What must hold for any run: exact cover, disjoint windows, sums, determinism.

use super::scene::*;
use crate::attribution::{AttributionOptions, analyze_packets};
use crate::model::PacketRun;
use proptest::prelude::*;
use quaver_abi::record::{EventKind, EventRecord, OffCpu};

fn any_event() -> impl Strategy<Value = EventRecord> {
    (0usize..14, 0i64..2_200_000, 0i64..90_000, 0u16..3, 0u32..10, 0u8..4).prop_map(
        |(kind, start, length, cpu, id, detail)| {
            let kind = [
                EventKind::Nmi,
                EventKind::Irq,
                EventKind::Vector,
                EventKind::Softirq,
                EventKind::Thread,
                EventKind::Thread,
                EventKind::Hrtimer,
                EventKind::IdleState,
                EventKind::Wakeup,
                EventKind::Migrate,
                EventKind::PageFault,
                EventKind::IpiSend,
                EventKind::SystemCall,
                EventKind::Sample,
            ][kind];
            let start = START_NS - 100_000 + start;
            let until = if kind.is_interval() { start + length } else { start };
            let aux = if kind == EventKind::Thread { u64::from(id) * 20 } else { u64::from(id % 3) };
            EventRecord { detail, ..event(kind, cpu, start, until, id, aux) }
        },
    )
}

fn any_run() -> impl Strategy<Value = PacketRun> {
    let stops = prop::collection::vec((0i64..2_000_000, 1_000i64..300_000), 0..4);
    let events = prop::collection::vec(any_event(), 0..60);
    (stops, events, any::<[bool; 7]>()).prop_map(|(mut stops, events, flags)| {
        stops.sort_unstable();
        let stops: Vec<_> =
            stops.iter().map(|&(from, length)| (START_NS + from, START_NS + from + length)).collect();
        let mut run = run(&stops);
        run.events = events;
        run.receiver.realtime = flags[0];
        run.receiver.blocking = flags[1];
        run.circumstances.rt_throttling = flags[2];
        run.circumstances.quota_stops = u64::from(flags[3]);
        run.circumstances.virtual_machine = flags[4];
        run.receiver.foreign = flags[6];
        if flags[5] {
            run.source = None;
            run.packets.layers.remove(0);
            run.packets.layers.remove(0);
        }
        run
    })
}

proptest! {
    #[test]
    fn pieces_cover_disjoint_windows_and_sums_agree(run in any_run()) {
        let analysis = analyze_packets(&run, &AttributionOptions::default());
        check(&analysis);
        prop_assert_eq!(&analysis, &analyze_packets(&run, &AttributionOptions::default()));
    }

    #[test]
    fn the_order_of_the_events_does_not_matter(mut run in any_run(), seed in any::<u64>()) {
        // Two records of one start on one CPU are told apart by their order only: keep starts apart.
        for (index, event) in run.events.iter_mut().enumerate() {
            let length = event.end_ns - event.start_ns;
            event.start_ns = event.start_ns / 64 * 64 + index as u64;
            event.end_ns = event.start_ns + length;
        }
        let analysis = analyze_packets(&run, &AttributionOptions::default());
        let mut state = seed | 1;
        for index in (1..run.events.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            run.events.swap(index, (state >> 33) as usize % (index + 1));
        }
        prop_assert_eq!(analysis, analyze_packets(&run, &AttributionOptions::default()));
    }
}

#[test]
fn broken_records_are_ignored() {
    let mut run = run(&[(START_NS + 500_000, START_NS + 600_000)]);
    run.packets.app_ns[120] = START_NS;
    run.packets.seq[121] = u64::MAX;
    run.events = vec![
        EventRecord { kind: 99, end_ns: 5, ..EventRecord::default() },
        event(EventKind::Irq, 1, 5_000, 4_000, 1, 0),
        event(EventKind::Irq, u16::MAX, START_NS, end(), 1, 0),
        EventRecord {
            start_ns: 1,
            end_ns: u64::MAX,
            kind: EventKind::Softirq as u8,
            cpu: 1,
            ..EventRecord::default()
        },
        thread(RECEIVER, 120, 1, START_NS, end(), OffCpu::Unknown),
        thread(RECEIVER, 120, 0, START_NS + 100_000, START_NS + 700_000, OffCpu::Blocked),
    ];
    check(&analyze_packets(&run, &AttributionOptions::default()));
    run.packets.layers.clear();
    for wild in [1 << 62, 1 << 63, u64::MAX / 3] {
        run.packets.seq[60] = wild;
        run.period_ns = None;
        check(&analyze_packets(&run, &AttributionOptions::default()));
        run.period_ns = Some(1e300);
        check(&analyze_packets(&run, &AttributionOptions::default()));
    }
}
