//! Known packets, exact figures.

mod drift;
mod pairs;
mod recent;
mod room;
mod rtp;
mod senders;
mod steps;
mod trains;

use super::*;
use proptest::prelude::*;
use quaver_abi::stamp::{Layer, LayerStamp, PacketStamps, StampClock};
use quaver_abi::wire::jitlat::TestPacket;
use quaver_abi::wire::stamp::time::{ErrorEstimate, TimestampFormat};
use quaver_abi::wire::stamp::{Mode, ReflectorPacket, SenderPacket};
use quaver_arrivals::rtp::{RtpFields, RtpHeaderFields, RtpKind};
use std::net::Ipv4Addr;

const START_NS: i64 = 1_700_000_000_000_000_000;
const MS: i64 = 1_000_000;

fn frame(port: u16, payload: Payload) -> FrameFacts {
    let network = NetworkFacts {
        source: Ipv4Addr::new(10, 0, 0, 1).into(),
        destination: Ipv4Addr::new(10, 0, 0, 2).into(),
        tunnel: None,
        protocol: 17,
        source_port: Some(5_000),
        destination_port: Some(port),
        fragment: false,
        part: None,
        payload_octets: Some(58),
        cut_octets: 0,
        payload,
    };
    FrameFacts { octets: 100, network: Some(network), of_train: false }
}

fn rtp(sequence: u16, timestamp: u32, ssrc: u32) -> Payload {
    let header = RtpHeaderFields { marker: false, payload_type: 0, ssrc: Some(ssrc), head: None };
    let fields = RtpFields { timestamp, payload_bytes: 58, header: Some(header) };
    Payload::Rtp { sequence, fields, ours: None }
}

/// Takes (time, frame) without further stamps.
fn table(settings: TableSettings, packets: impl IntoIterator<Item = (i64, FrameFacts)>) -> FlowTable {
    let mut table = FlowTable::new(settings);
    for (time_ns, frame) in packets {
        table.packet(Some(START_NS + time_ns), &PacketStamps::default(), &frame);
    }
    table
}

fn figures(packets: impl IntoIterator<Item = (i64, FrameFacts)>) -> CaptureFigures {
    table(TableSettings::file("kernel"), packets).finish()
}

/// So many packets of 1 ms from a number and a timestamp on; the first at so many milliseconds.
fn run(ms: i64, sequence: u16, timestamp: u32, packets: u16) -> impl Iterator<Item = (i64, FrameFacts)> {
    (0..packets).map(move |at| {
        let payload = rtp(sequence.wrapping_add(at), timestamp.wrapping_add(8 * u32::from(at)), 7);
        ((ms + i64::from(at)) * MS, frame(6_000, payload))
    })
}

#[test]
fn a_sender_that_begins_its_numbers_anew_lost_nothing() {
    for (sequence, timestamp) in [(3_500, 777), (51_000, 500 * 8), (20_200, 99)] {
        let found = figures(run(0, 20_000, 0, 500).chain(run(500, sequence, timestamp, 300)));
        let told: Vec<_> = found
            .flows
            .iter()
            .map(|flow| {
                (flow.key.restart, flow.packets, flow.sequence.unwrap().lost, flow.media_clock.unwrap().hz)
            })
            .collect();
        // A step back of 300 numbers within the same stream is a restart as well.
        assert_eq!(told, [(0, 500, 0, 8_000), (1, 300, 0, 8_000)], "{sequence}");
    }
}

#[test]
fn both_senders_of_a_hand_over_are_followed() {
    let pairs = run(500, 20_500, 4_000, 50).zip(run(500, 900, 5, 50)).flat_map(|(one, other)| [one, other]);
    // The new one is known once two of its packets come in sequence.
    let found = figures(run(0, 20_000, 0, 500).chain(run(499, 898, 1, 2)).chain(pairs));
    let told: Vec<_> = found
        .flows
        .iter()
        .map(|flow| (flow.key.restart, flow.packets, flow.sequence.unwrap().lost))
        .collect();
    assert_eq!(told, [(0, 550, 0), (1, 52, 0)]);
}

#[test]
fn an_outage_is_loss_and_a_stray_packet_no_restart() {
    for lost in [2_999, 10_000, 40_000] {
        let after = run(500 + lost, 20_500u16.wrapping_add(lost as u16), 8 * (500 + lost as u32), 300);
        let found = figures(run(0, 20_000, 0, 500).chain(after));
        let [flow] = &found.flows[..] else { panic!("{lost}: {:?}", found.flows.len()) };
        assert_eq!((flow.key.restart, flow.packets), (0, 800), "{lost}");
        if lost < 32_768 {
            assert_eq!(flow.sequence.unwrap().lost, lost as u64);
        }
    }
    let stray = [(500 * MS, frame(6_000, rtp(51_000, 12, 7)))];
    let found = figures(run(0, 20_000, 0, 500).chain(stray).chain(run(501, 20_500, 4_000, 300)));
    assert_eq!(
        found.flows.iter().map(|flow| (flow.key.restart, flow.packets)).collect::<Vec<_>>(),
        [(0, 801)]
    );
    // Nothing is lost between it and the others, and none of them is late.
    let counts = found.flows[0].sequence.unwrap();
    assert_eq!((counts.expected, counts.lost, counts.reordered), (800, 0, 0));
    assert_eq!(found.flows[0].rtp.as_ref().unwrap().sequence.lost, 0);
    // At the end it cannot be told, and it is counted.
    let stray = [(500 * MS, frame(6_000, rtp(51_000, 12, 7)))];
    let found = figures(run(0, 20_000, 0, 500).chain(stray));
    assert_eq!(
        found.flows.iter().map(|flow| (flow.key.restart, flow.packets)).collect::<Vec<_>>(),
        [(0, 501)]
    );
    assert_eq!(found.flows[0].sequence.unwrap().lost, 0);
}

#[test]
fn an_rtp_stream_with_a_loss_a_copy_and_a_late_packet() {
    // 20 ms of 8 kHz audio: numbers 65530 on, over the wrap. 3 is lost, 5 comes twice, 8 and 9 change places.
    let order = [0u16, 1, 2, 4, 5, 5, 6, 7, 9, 8, 10, 11];
    let packets = order.iter().enumerate().map(|(place, number)| {
        let late_ns = if place == 2 { 5 * MS } else { 0 };
        let at_ns = 20 * MS * i64::from(*number) + late_ns + place as i64;
        (at_ns, frame(6_000, rtp(65_530u16.wrapping_add(*number), 160 * u32::from(*number), 7)))
    });
    let found = figures(packets);
    assert_eq!((found.packets, found.octets, found.flows.len()), (12, 1_200, 1));
    let flow = &found.flows[0];
    assert_eq!((flow.key.kind, flow.key.id, flow.packets), (FlowKind::Rtp, Some(7), 12));
    let counts = flow.sequence.unwrap();
    assert_eq!((counts.expected, counts.unique, counts.lost, counts.bits), (12, 11, 1, 16));
    assert_eq!((counts.duplicate, counts.reordered, counts.loss_periods), (1, 1, 1));
    // Pairs with successive numbers, one after the other: 0-1, 1-2, 4-5, 5-6, 6-7, 10-11. Not 5-5, 7-9, 9-8, 8-10.
    let delta_t = flow.delta_t.unwrap();
    assert_eq!((delta_t.count, delta_t.max_ns), (6, 25 * MS + 1));
    assert_eq!((flow.media_clock.unwrap().hz, flow.carries), (8_000, Some(RtpKind::Other)));
    let delay = flow.delay.as_ref().unwrap();
    assert_eq!((delay.kind, delay.figures.max_pdv_ns), (DelayKind::Media, Some(5 * MS as u64 + 2)));
    // The same packets by the analysis of streams.
    let rtp = flow.rtp.as_ref().unwrap();
    assert_eq!((rtp.sequence.lost, rtp.sequence.duplicate, rtp.sequence.reordered), (1, 1, 1));
    assert_eq!(flow.interarrival.as_ref(), Some(&rtp.interarrival));
    assert_eq!((rtp.arrival.as_str(), flow.rtp_left_out), ("kernel", 0));
}

#[test]
fn rates_are_those_between_first_and_last() {
    let found = figures((0..11).map(|n| (n * 10 * MS, frame(9, Payload::Other))));
    let flow = &found.flows[0];
    assert_eq!((flow.packets_per_s, flow.bits_per_s), (Some(100.0), Some(80_000.0)));
    let delta_t = flow.delta_t.unwrap();
    assert_eq!((delta_t.count, delta_t.min_ns, delta_t.max_ns), (10, 10 * MS, 10 * MS));
    assert_eq!((delta_t.mean_ns, delta_t.sd_ns), (10.0 * MS as f64, 0.0));
    assert_eq!((flow.sequence, flow.delay.is_none()), (None, true));
    assert_eq!((found.first_ns, found.last_ns), (Some(START_NS), Some(START_NS + 100 * MS)));
}

#[test]
fn delays_of_test_packets_are_one_way_only_by_a_wall_clock() {
    let probe = |n: i64| {
        let sent_ns = START_NS + n * MS;
        let facts = ProbeFacts { sequence: n as u32, sent_ns, session: None };
        (n * MS + 100_000 + n * 10, frame(2_667, Payload::Probe(facts)))
    };
    let found = figures((0..10).map(probe));
    let delay = found.flows[0].delay.clone().unwrap();
    assert_eq!(delay.kind, DelayKind::OneWay);
    assert_eq!((delay.figures.min_delay_ns, delay.figures.max_delay_ns), (Some(100_000), Some(100_090)));
    assert_eq!((delay.figures.max_pdv_ns, delay.figures.mean_delay_ns), (Some(90), Some(100_045.0)));
    let phc = TableSettings { wall_clock: false, ..TableSettings::live("nic") };
    let found = table(phc, (0..10).map(probe)).finish();
    assert_eq!(found.flows[0].delay.as_ref().unwrap().kind, DelayKind::Offset);
}

#[test]
fn what_only_looks_like_rtp_is_one_flow() {
    // Another source and number each time, as random identifiers would make them.
    let packets = (0..100u32).map(|n| {
        let mixed = n.wrapping_mul(0x9e37_79b9);
        (i64::from(n) * MS, frame(53, rtp((mixed >> 16) as u16, mixed, mixed)))
    });
    let found = figures(packets);
    assert_eq!((found.flows.len(), found.flows[0].key.kind), (1, FlowKind::Other));
    assert_eq!((found.flows[0].packets, found.flows[0].rtp.is_none()), (100, true));
}

#[test]
fn a_stream_may_begin_later_and_its_sources_are_few() {
    let silent = (0..20).map(|n| (n * MS, frame(6_000, Payload::Other)));
    let stream = (20..60u16).map(|n| (i64::from(n) * MS, frame(6_000, rtp(n, 8 * u32::from(n), 3))));
    let found = figures(silent.chain(stream));
    let kinds: Vec<_> = found.flows.iter().map(|flow| (flow.key.kind, flow.packets)).collect();
    // The first seven of the stream came before it was known.
    assert_eq!(kinds, [(FlowKind::Rtp, 33), (FlowKind::Other, 27)]);
    let first = (0..8u16).map(|n| (i64::from(n), frame(6_000, rtp(n, 0, 3))));
    let wild = (0..1_000u32).map(|n| (i64::from(n) * MS, frame(6_000, rtp(n as u16, n, n + 10))));
    let found = figures(first.chain(wild));
    assert_eq!(found.flows.len(), 17);
    assert_eq!(found.flows.iter().map(|flow| flow.packets).sum::<u64>(), 1_008);
}

#[test]
fn beyond_the_limits_packets_are_counted_and_none_is_missing() {
    let settings = TableSettings { flows: 10, detailed: 3, rtp_packets: 20, ..TableSettings::file("kernel") };
    let packets = (0..2_000u16).map(|n| {
        let port = n % 50;
        (i64::from(n) * MS, frame(port, if port == 0 { rtp(n / 50, 0, 1) } else { Payload::Other }))
    });
    let found = table(settings, packets).finish();
    assert_eq!((found.flows.len(), found.counted_only), (10, 7));
    assert_eq!((found.beyond.packets, found.packets), (40 * 40, 2_000));
    let of_flows: u64 = found.flows.iter().map(|flow| flow.packets).sum();
    assert_eq!(of_flows + found.beyond.packets + found.without_network.packets, found.packets);
    let rtp = found.flows.iter().find(|flow| flow.key.kind == FlowKind::Rtp).unwrap();
    assert_eq!((rtp.rtp.as_ref().unwrap().packets, rtp.rtp_left_out), (20, 20));
    let without = FrameFacts { octets: 60, network: None, of_train: false };
    assert_eq!(figures([(0, without)]).without_network, Beyond { packets: 1, octets: 60 });
}

#[test]
fn stages_stand_between_the_layers_that_stamped() {
    let mut table = FlowTable::new(TableSettings::live("kernel"));
    for n in 0..10 {
        let mut stamps = PacketStamps::default();
        let mut at = |layer, clock, after_ns| {
            stamps.set(
                layer,
                LayerStamp { clock, time_ns: START_NS + n * MS + after_ns, bound_ns: 50, epoch: 0 },
            );
        };
        at(Layer::Nic, StampClock::Phc, -77_777_777);
        at(Layer::Xdp, StampClock::Monotonic, 0);
        at(Layer::Kernel, StampClock::Realtime, 700);
        if n != 3 {
            at(Layer::Tc, StampClock::Monotonic, 900);
        }
        at(Layer::Application, StampClock::Cycles, 5_000 + n);
        let time_ns = (n != 5).then_some(START_NS + n * MS + 700);
        table.packet(time_ns, &stamps, &frame(9, Payload::Other));
    }
    let live = table.figures();
    let found = table.finish();
    assert_eq!(live.stages, found.stages);
    assert_eq!(found.stages, found.flows[0].stages);
    let pairs: Vec<_> = found
        .stages
        .iter()
        .map(|stage| (stage.from, stage.to, stage.time.count, stage.time.min_ns, stage.time.max_ns))
        .collect();
    let expected = [
        (Layer::Xdp, Layer::Kernel, 10, 700, 700),
        (Layer::Kernel, Layer::Tc, 9, 200, 200),
        (Layer::Kernel, Layer::Application, 1, 4_303, 4_303),
        (Layer::Tc, Layer::Application, 9, 4_100, 4_109),
    ];
    assert_eq!(pairs, expected);
    let layers: Vec<_> = found.layers.iter().map(|layer| (layer.layer, layer.clock, layer.packets)).collect();
    assert_eq!(layers[0], (Layer::Nic, StampClock::Phc, 10));
    assert_eq!(layers[3], (Layer::Tc, StampClock::Monotonic, 9));
    assert_eq!(found.layers[4].bound.unwrap().max_ns, 50);
    assert_eq!((found.unstamped, found.flows[0].packets_per_s), (1, None));
    // No pair on either side of the packet without a stamp.
    assert_eq!(found.flows[0].delta_t.unwrap().count, 7);
}

#[test]
fn time_that_runs_backwards_is_counted() {
    let found = figures([0, 5, 3, 4, 9, 1, 2, 3, 4].map(|n| (n * MS, frame(9, Payload::Other))));
    assert_eq!((found.backwards, found.flows[0].backwards), (2, 2));
    assert_eq!(found.flows[0].delta_t.unwrap().min_ns, -8 * MS);
    assert_eq!((found.first_ns, found.last_ns), (Some(START_NS), Some(START_NS + 9 * MS)));
    let mut ends = FlowTable::new(TableSettings::file("kernel"));
    for time_ns in [i64::MIN, i64::MAX, i64::MIN, 0] {
        for sequence in [0, u32::MAX, 1 << 31] {
            let facts = ProbeFacts { sequence, sent_ns: -time_ns.max(-i64::MAX), session: None };
            ends.packet(Some(time_ns), &PacketStamps::default(), &frame(1, Payload::Probe(facts)));
            let (sequence, payload) =
                (u64::from(sequence) << 32, frame(2, rtp(sequence as u16, sequence, 1)));
            ends.packet(Some(time_ns), &PacketStamps::default(), &payload);
            let stream = StreamFacts { stream_id: 1, sequence, sent_ns: time_ns };
            ends.packet(Some(time_ns), &PacketStamps::default(), &frame(3, Payload::Stream(stream)));
        }
    }
    assert_eq!(ends.finish().packets, 36);
}

#[test]
fn payloads_are_known_by_their_octets() {
    let of = |octets: &[u8], ports| Payload::of(octets, octets.len() as u32, ports, Some(START_NS));
    let test = |sequence, sent_ns| TestPacket { tx_real_time_ns: sent_ns, tx_seq: sequence }.to_octets();
    let facts = |sequence, sent_ns, session| ProbeFacts { sequence, sent_ns, session };
    assert_eq!(of(&test(5, START_NS - 9), (1, 2)), Payload::Probe(facts(5, START_NS - 9, None)));
    assert_eq!(of(&test(-1, START_NS), (1, 2)), Payload::Sentinel);
    // A clock that is years off is believed on Jitlat's port alone.
    assert_eq!(of(&test(5, 99), (1, 2_667)), Payload::Probe(facts(5, 99, None)));
    assert_eq!(of(&test(5, 99), (1, 2)), Payload::Other);
    assert_eq!(of(b"QuavrCk\x01 cookie of a session    ", (1, 2_667)), Payload::Other);
    for format in [TimestampFormat::Ntp, TimestampFormat::Ptp] {
        let estimate = ErrorEstimate::new(format, true, 1_000);
        let sender = SenderPacket {
            sequence: 3,
            timestamp: format.encode(START_NS - 1_000),
            error_estimate: estimate,
            ssid: 8,
        };
        let reply = ReflectorPacket {
            sequence: 4,
            timestamp: format.encode(START_NS - 500),
            error_estimate: estimate,
            ssid: 8,
            receive_timestamp: format.encode(START_NS - 600),
            sender_sequence: 3,
            sender_timestamp: sender.timestamp,
            sender_error_estimate: estimate,
            sender_ttl: 64,
        };
        for mode in [Mode::Unauthenticated, Mode::Authenticated] {
            let mut octets = vec![0; mode.base_bytes()];
            sender.write(mode, &mut octets).unwrap();
            assert_eq!(of(&octets, (1, 2)), Payload::Stamp(facts(3, START_NS - 1_000, Some(8))), "{mode:?}");
            reply.write(mode, &mut octets).unwrap();
            assert_eq!(of(&octets, (1, 2)), Payload::StampReply(facts(4, START_NS - 500, Some(8))));
        }
    }
    for octets in [&b""[..], b"x", &[0; 64], &[0xff; 64], &[0x40; 200]] {
        assert_eq!(of(octets, (1, 2)), Payload::Other);
    }
    // Timestamps of RTP that are the seconds of a wall clock, in the form that the bytes behind them would name.
    for (format, rest) in [(TimestampFormat::Ntp, 0), (TimestampFormat::Ptp, 0xff)] {
        let seconds = (format.encode(START_NS) >> 32) as u32;
        let mut octets = vec![rest; 172];
        octets[..12].copy_from_slice(&[0x80, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 7]);
        octets[4..8].copy_from_slice(&seconds.to_be_bytes());
        assert!(matches!(of(&octets, (1, 2)), Payload::Rtp { sequence: 9, .. }), "{format:?}");
        assert!(matches!(of(&octets, (1, 862)), Payload::Stamp(_)), "{format:?}");
    }
    // Types in use: all but 64 to 95, where RTCP has its own.
    for payload_type in 0..128 {
        let octets = [&[0x80, payload_type][..], &[0; 30]].concat();
        let known = matches!(of(&octets, (1, 2)), Payload::Rtp { .. });
        assert_eq!(known, !(64..96).contains(&payload_type), "{payload_type}");
    }
}

/// Places in a stream: each number up to twice, and none more than three places late.
fn disturbed() -> impl Strategy<Value = Vec<(u16, i64)>> {
    let packet = (0u16..400, 0u16..=3, 0i64..2_000_000);
    prop::collection::vec(packet, 20..300).prop_map(|packets| {
        let mut copies = std::collections::BTreeMap::<u16, u32>::new();
        let mut packets: Vec<_> = packets
            .into_iter()
            .filter(|packet| {
                let so_far = copies.entry(packet.0).or_default();
                *so_far += 1;
                *so_far <= 2
            })
            .collect();
        packets.sort_by_key(|&(number, late, _)| number + late);
        packets.into_iter().map(|(number, _, late_ns)| (number, late_ns)).collect()
    })
}

proptest! {
    #[test]
    fn what_comes_packet_by_packet_is_what_the_whole_stream_says(packets in disturbed(), first in any::<u16>()) {
        let mut at_ns = 0;
        let packets = packets.iter().map(|&(number, late_ns)| {
            at_ns = at_ns.max(20 * MS * i64::from(number)) + late_ns;
            (at_ns, frame(6_000, rtp(first.wrapping_add(number), 160 * u32::from(number), 7)))
        });
        let found = figures(packets.collect::<Vec<_>>());
        let flow = &found.flows[0];
        let (counts, rtp) = (flow.sequence.unwrap(), flow.rtp.as_ref().unwrap());
        prop_assert_eq!(counts.expected, rtp.sequence.expected);
        prop_assert_eq!((counts.unique, counts.lost), (rtp.sequence.unique, rtp.sequence.lost));
        prop_assert_eq!((counts.duplicate, counts.reordered), (rtp.sequence.duplicate, rtp.sequence.reordered));
        prop_assert_eq!(counts.loss_periods, rtp.sequence.loss_periods);
        let longest = rtp.sequence.loss_period_lengths.keys().next_back().copied();
        prop_assert_eq!(counts.longest_loss_period, longest.unwrap_or(0));
        prop_assert_eq!(flow.interarrival.as_ref(), Some(&rtp.interarrival));
        prop_assert_eq!(counts.beyond_window, 0);
    }
}
