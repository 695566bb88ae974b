use super::*;
use proptest::prelude::*;
use quaver_analysis::model::{LayerColumn, MISSING};

#[derive(Clone, PartialEq, Message)]
struct WholeTrace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

/// Draws, decodes, and checks what every trace must keep: slices nest on each track, time never runs back on it.
/// Returns the events by track.
fn drawn(drawing: &Drawing<'_>) -> (TraceCounts, BTreeMap<u64, Vec<(u64, TrackEvent)>>) {
    let mut octets = Vec::new();
    let drawn = draw(drawing, &mut octets).unwrap();
    let trace = WholeTrace::decode(octets.as_slice()).unwrap();
    let mut tracks: BTreeMap<u64, Vec<(u64, TrackEvent)>> = BTreeMap::new();
    let mut known = std::collections::BTreeSet::new();
    for packet in trace.packet {
        if let Some(descriptor) = packet.track_descriptor {
            assert!(known.insert(descriptor.uuid.unwrap()), "each track is described once");
        }
        if let Some(event) = packet.track_event {
            let uuid = event.track_uuid.unwrap();
            assert!(known.contains(&uuid), "a track is described before it is used");
            tracks.entry(uuid).or_default().push((packet.timestamp.unwrap(), event));
        }
    }
    for events in tracks.values() {
        assert!(events.is_sorted_by_key(|(ns, _)| *ns));
        let mut depth = 0i64;
        for (_, event) in events {
            depth +=
                i64::from(event.r#type == Some(SLICE_BEGIN)) - i64::from(event.r#type == Some(SLICE_END));
            assert!(depth >= 0);
        }
        assert_eq!(depth, 0, "what begins ends");
    }
    (drawn, tracks)
}

/// Time by name of the slices of a track, net of nothing.
fn time_by_name(events: &[(u64, TrackEvent)]) -> BTreeMap<String, u64> {
    let (mut open, mut time) = (Vec::new(), BTreeMap::new());
    for (ns, event) in events {
        match event.r#type {
            Some(SLICE_BEGIN) => open.push((event.name.clone().unwrap(), *ns)),
            Some(SLICE_END) => {
                let (name, start): (String, u64) = open.pop().unwrap();
                *time.entry(name).or_default() += ns - start;
            }
            _ => {}
        }
    }
    time
}

fn event(kind: EventKind, cpu: u16, start_ns: u64, end_ns: u64, id: u32) -> EventRecord {
    EventRecord { start_ns, end_ns, aux: 0, id, cpu, kind: kind as u8, detail: 0 }
}

fn nothing<'a>(names: &'a Names, packets: &'a PacketTable) -> Drawing<'a> {
    Drawing { events: &[], names, packets, windows: &[], between_ns: None }
}

#[test]
fn nested_slices_and_points() {
    let (names, packets) = (Names::default(), PacketTable::default());
    let events = [
        event(EventKind::Irq, 1, 150, 180, 9),
        event(EventKind::Thread, 1, 100, 200, 7),
        event(EventKind::Wakeup, 1, 160, 160, 3),
        event(EventKind::Thread, 1, 200, 300, 0),
    ];
    let (count, tracks) = drawn(&Drawing { events: &events, ..nothing(&names, &packets) });
    assert_eq!(count, TraceCounts { intervals: 3, points: 1, ..TraceCounts::default() });
    let told: Vec<_> = tracks[&(CPU_TRACKS + 1)]
        .iter()
        .map(|(ns, e)| (*ns, e.r#type.unwrap(), e.name.as_deref().unwrap_or("")))
        .collect();
    assert_eq!(
        told,
        [
            (100, SLICE_BEGIN, "thread 7"),
            (150, SLICE_BEGIN, "irq 9"),
            (160, INSTANT, "wakeup 3"),
            (180, SLICE_END, ""),
            (200, SLICE_END, ""),
            (200, SLICE_BEGIN, "idle"),
            (300, SLICE_END, ""),
        ]
    );
}

#[test]
fn packets_delta_t_and_late_windows() {
    let names = Names::default();
    let packets = PacketTable {
        seq: vec![1, 2, 4, 5],
        app_ns: vec![1_000, 2_000, 4_000, 5_500],
        app_cpu: vec![0; 4],
        stack_cpu: vec![0; 4],
        layers: vec![LayerColumn { layer: Layer::Receive, before_app_ns: vec![100, MISSING, 100, 150] }],
    };
    let window = |start_ns, end_ns, seq| NamedWindow { start_ns, end_ns, name: "thread x", seq };
    let windows = [window(5_000, 5_500, 5), window(3_000, 4_000, 4), window(3_500, 5_200, 9)];
    let drawing = Drawing { windows: &windows, ..nothing(&names, &packets) };
    let (count, tracks) = drawn(&drawing);
    assert_eq!((count.packets, count.windows), (4, 3));
    let counter = |layer: Layer| -> Vec<_> {
        tracks[&(COUNTER_TRACKS + layer as u64)]
            .iter()
            .map(|(ns, e)| (*ns, e.counter_value.unwrap()))
            .collect()
    };
    assert_eq!(counter(Layer::Application), [(2_000, 1_000), (5_500, 1_500)], "none across the loss of 3");
    assert_eq!(counter(Layer::Receive), [(5_350, 1_450)]);
    assert_eq!(tracks[&RECEIVE_TRACK].len(), 3);
    let flow = |track: u64, n: usize| tracks[&track][n].1.flow_ids.clone();
    assert_eq!(flow(RECEIVE_TRACK, 1), flow(APPLICATION_TRACK, 2), "the arrow of packet 4");
    assert_eq!(time_by_name(&tracks[&LATE_TRACKS])["thread x"], 1_000 + 500);
    assert_eq!(time_by_name(&tracks[&(LATE_TRACKS + 1)])["thread x"], 1_700);
    let (count, _) = drawn(&Drawing { between_ns: Some((3_900, 4_100)), ..drawing });
    assert_eq!((count.packets, count.windows), (1, 2));
}

proptest! {
    #[test]
    fn time_is_conserved_however_intervals_lie(
        raw in proptest::collection::vec((0u64..200, 0u64..60, 0u32..5, 0u16..2), 0..60)
    ) {
        let (names, packets) = (Names::default(), PacketTable::default());
        let events: Vec<_> =
            raw.iter().map(|(start, length, id, cpu)| event(EventKind::Irq, *cpu, *start, start + length, *id)).collect();
        let (count, tracks) = drawn(&Drawing { events: &events, ..nothing(&names, &packets) });
        prop_assert_eq!(count.intervals, events.len() as u64);
        for cpu in 0..2u16 {
            let mut expected: BTreeMap<String, u64> = BTreeMap::new();
            for e in events.iter().filter(|e| e.cpu == cpu) {
                *expected.entry(format!("irq {}", e.id)).or_default() += e.end_ns - e.start_ns;
            }
            let found = tracks.get(&(CPU_TRACKS + u64::from(cpu))).map(|t| time_by_name(t)).unwrap_or_default();
            prop_assert_eq!(found, expected);
        }
    }
}
