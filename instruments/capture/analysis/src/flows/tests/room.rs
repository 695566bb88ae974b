//! A table that is full, and datagrams in parts.

use super::*;

const LIVE: TableSettings = TableSettings::live("kernel");

fn part(port: Option<u16>, payload: Payload, id: u32, first: bool) -> FrameFacts {
    let mut facts = frame(port.unwrap_or(0), payload);
    if let Some(network) = &mut facts.network {
        network.destination_port = port;
        network.source_port = port.map(|_| 5_000);
        network.fragment = true;
        network.part = Some(DatagramPart { id, first });
    }
    facts
}

fn first(port: u16, payload: Payload, id: u32) -> FrameFacts {
    part(Some(port), payload, id, true)
}

fn later(id: u32) -> FrameFacts {
    part(None, Payload::Other, id, false)
}

/// Every packet is somewhere.
fn assert_all_counted(found: &CaptureFigures) {
    let of_flows: u64 = found.flows.iter().map(|flow| flow.packets).sum();
    let others = found.beyond.packets + found.without_network.packets + found.departed.packets;
    assert_eq!(of_flows + others, found.packets);
    let octets: u64 = found.flows.iter().map(|flow| flow.octets).sum();
    assert_eq!(
        octets + found.beyond.octets + found.without_network.octets + found.departed.octets,
        found.octets
    );
}

#[test]
fn parts_in_two_tunnels_are_of_two_datagrams_though_all_else_is_equal() {
    let within = |vni, frame: FrameFacts| {
        let network = NetworkFacts { tunnel: Some(Tunnel::Vxlan(vni)), ..frame.network.unwrap() };
        FrameFacts { network: Some(network), ..frame }
    };
    let packets = (0..20u16).flat_map(|n| {
        let (at_ns, id) = (i64::from(n) * 20 * MS, n.into());
        [
            (at_ns, within(1, first(6_000, rtp(n, 160 * u32::from(n), 7), id))),
            (at_ns + 1, within(2, first(6_001, Payload::Other, id))),
            (at_ns + 2, within(1, later(id))),
            (at_ns + 3, within(2, later(id))),
        ]
    });
    let found = figures(packets);
    let flows: Vec<_> = found.flows.iter().map(|flow| (flow.key.destination_port, flow.packets)).collect();
    assert_eq!(flows, [(Some(6_000), 40), (Some(6_001), 40)]);
}

#[test]
fn all_parts_of_a_datagram_are_of_its_flow_and_the_first_bears_its_number() {
    // Two datagrams under way at once, each in three parts, of two streams.
    let packets = (0..20u16).flat_map(|n| {
        let (at_ns, stamp) = (i64::from(n) * 20 * MS, 160 * u32::from(n));
        let id = 2 * u32::from(n);
        [
            (at_ns, first(6_000, rtp(n, stamp, 7), id)),
            (at_ns + 1, first(6_001, Payload::Other, id + 1)),
            (at_ns + 2, later(id + 1)),
            (at_ns + 3, later(id)),
            (at_ns + 4, later(id)),
            (at_ns + 5, later(id + 1)),
        ]
    });
    let found = figures(packets);
    assert_all_counted(&found);
    let flows: Vec<_> =
        found.flows.iter().map(|flow| (flow.key.destination_port, flow.key.kind, flow.packets)).collect();
    assert_eq!(flows, [(Some(6_000), FlowKind::Rtp, 60), (Some(6_001), FlowKind::Other, 60)]);
    let counts = found.flows[0].sequence.unwrap();
    assert_eq!((counts.unique, counts.lost, counts.duplicate, counts.reordered), (20, 0, 0, 0));
    for flow in &found.flows {
        let delta_t = flow.delta_t.unwrap();
        assert_eq!((delta_t.count, delta_t.min_ns, delta_t.max_ns), (19, 20 * MS, 20 * MS));
        assert_eq!((flow.fragments, flow.octets, flow.payload_octets), (60, 6_000, 60 * 58));
    }
}

#[test]
fn a_stream_in_parts_that_begins_later_is_known_by_its_first_parts() {
    let silent = (0..20).map(|n| (n * MS, frame(6_000, Payload::Other)));
    let stream = (20..60u16).flat_map(|n| {
        let at_ns = i64::from(n) * MS;
        [(at_ns, first(6_000, rtp(n, 8 * u32::from(n), 3), n.into())), (at_ns + 1, later(n.into()))]
    });
    let found = figures(silent.chain(stream));
    let kinds: Vec<_> = found.flows.iter().map(|flow| (flow.key.kind, flow.packets)).collect();
    assert_eq!(kinds, [(FlowKind::Rtp, 66), (FlowKind::Other, 34)]);
}

#[test]
fn a_part_without_a_first_part_is_of_a_flow_without_ports() {
    let minute = 60_000 * MS;
    let alone = |packets: Vec<(i64, FrameFacts)>| {
        let found = figures(packets);
        found.flows.iter().find(|flow| flow.key.destination_port.is_none()).map_or(0, |flow| flow.packets)
    };
    assert_eq!(alone(vec![(0, first(1, Payload::Other, 9)), (minute, later(9))]), 0);
    assert_eq!(alone(vec![(0, later(9)), (1, first(1, Payload::Other, 9))]), 1, "it came first");
    assert_eq!(alone(vec![(0, first(1, Payload::Other, 9)), (minute + 1, later(9))]), 1, "another's number");
    assert_eq!(alone(vec![(0, first(1, Payload::Other, 9)), (0, later(8))]), 1);
    // More datagrams under way than are remembered: the oldest is forgotten, the newest is not.
    let mut many: Vec<_> = (0..1_025).map(|id| (0, first(1, Payload::Other, id))).collect();
    many.extend([(1, later(0)), (1, later(1_024))]);
    assert_eq!(alone(many), 1);
    // Its ports were seen again under the same number.
    let again =
        vec![(0, first(1, Payload::Other, 9)), (minute, first(2, Payload::Other, 9)), (minute + 1, later(9))];
    assert_eq!(alone(again), 0);
}

/// Ten packets of each of these ports, one port after the other.
fn one_after_the_other(ports: std::ops::Range<u16>) -> impl Iterator<Item = (i64, FrameFacts)> {
    let of =
        |port: u16| (0..10).map(move |n| (i64::from(port) * 100 * MS + n * MS, frame(port, Payload::Other)));
    ports.flat_map(of)
}

#[test]
fn new_flows_are_seen_in_detail_and_old_ones_keep_their_figures() {
    let settings = TableSettings { detailed: 3, ..LIVE };
    let last = (0..2).map(|n| (100_000 * MS + n, frame(0, Payload::Other)));
    let found = table(settings, one_after_the_other(0..8).chain(last)).finish();
    assert_all_counted(&found);
    assert_eq!((found.flows.len(), found.counted_only, found.departed.flows), (8, 0, 0));
    for flow in &found.flows {
        let port = flow.key.destination_port.unwrap();
        let until = (port < 5).then_some(10);
        assert_eq!((flow.detail_until, flow.delta_t.unwrap().count), (until, 9), "{port}");
        assert_eq!(flow.packets, if port == 0 { 12 } else { 10 });
    }
    let file = TableSettings { make_way: false, ..settings };
    assert_eq!(table(file, one_after_the_other(0..8)).finish().counted_only, 5);
}

/// A packet of audio each second, in a capture that is busy with others.
fn with_audio(others: impl Iterator<Item = (i64, FrameFacts)>, every: usize) -> Vec<(i64, FrameFacts)> {
    let mut packets: Vec<_> =
        (0..10u16).map(|n| (i64::from(n), frame(6_000, rtp(n, u32::from(n), 3)))).collect();
    for (at, other) in others.enumerate() {
        if at % every == 0 {
            let number = (10 + at / every) as u16;
            packets.push((other.0, frame(6_000, rtp(number, number.into(), 3))));
        }
        packets.push(other);
    }
    packets
}

#[test]
fn a_full_table_lets_the_oldest_go_and_a_stream_with_numbers_stays() {
    let settings = TableSettings { flows: 16, detailed: 4, ..LIVE };
    let found = table(settings, with_audio(one_after_the_other(0..1_000), 100)).finish();
    assert_all_counted(&found);
    assert_eq!((found.beyond.packets, found.flows.len() <= 16), (0, true));
    let audio = found.flows.iter().find(|flow| flow.key.kind == FlowKind::Rtp).unwrap();
    let counts = audio.sequence.unwrap();
    assert_eq!((audio.packets, audio.detail_until, counts.unique, counts.lost), (110, None, 110, 0));
    let newest = found.flows.iter().find(|flow| flow.key.destination_port == Some(999)).unwrap();
    assert_eq!((newest.packets, newest.delta_t.unwrap().count), (10, 9));
    assert!(!found.flows.iter().any(|flow| flow.key.destination_port == Some(1)));
    assert!(found.departed.flows >= 985 && found.departed.packets == 10 * found.departed.flows);
}

#[test]
fn a_scan_of_all_ports_costs_neither_memory_nor_a_known_stream() {
    let settings = TableSettings { flows: 64, ..LIVE };
    let scan = (0..60_000).map(|n: i64| (n * MS / 10, frame(n as u16, Payload::Other)));
    let mut table = table(settings, with_audio(scan.filter(|(at, _)| *at != 600 * MS), 1_000));
    let [conversations, flows, places, detailed] = table.held();
    assert!(conversations <= 64 && flows <= 64 && places == flows && detailed == flows);
    let live = table.figures();
    let audio = &live.flows[0];
    assert_eq!((audio.key.kind, audio.packets, audio.sequence.unwrap().lost), (FlowKind::Rtp, 70, 0));
    assert_all_counted(&table.finish());
}

#[test]
fn a_source_that_left_and_comes_again_is_known() {
    let settings = TableSettings { flows: 4, detailed: 2, ..LIVE };
    // Each time the stream was away for so long that it left; it has one source all the same.
    let packets = (0..40u16).flat_map(|round| {
        let at_ns = i64::from(round) * 100_000 * MS;
        let stream = (0..8u16).map(move |n| {
            let number = 8 * round + n;
            (at_ns + i64::from(n), frame(6_000, rtp(number, number.into(), 3)))
        });
        let others = (1..6u16).flat_map(move |port| {
            (0..8).map(move |n| (at_ns + 50_000 * MS + i64::from(port) * MS + n, frame(port, Payload::Other)))
        });
        stream.chain(others)
    });
    let mut found = table(settings, packets);
    for n in 320..328u16 {
        found.packet(
            Some(START_NS + 4_000_000 * MS + i64::from(n)),
            &PacketStamps::default(),
            &frame(6_000, rtp(n, n.into(), 3)),
        );
    }
    let found = found.finish();
    assert_all_counted(&found);
    let stream = found.flows.iter().find(|flow| flow.key.destination_port == Some(6_000)).unwrap();
    assert_eq!((stream.key.kind, stream.packets), (FlowKind::Rtp, 8));
}
