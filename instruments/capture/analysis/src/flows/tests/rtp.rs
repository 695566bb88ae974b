//! Streams of RTP as calls and browsers have them.

use super::*;

/// 20 ms of 8 kHz each: number, time, timestamp and payload type.
fn packets(of: impl IntoIterator<Item = (u16, i64, u32, u8)>) -> CaptureFigures {
    figures(of.into_iter().map(|(sequence, ns, timestamp, payload_type)| {
        let header = RtpHeaderFields { marker: false, payload_type, ssrc: Some(7), head: None };
        let fields = RtpFields { timestamp, payload_bytes: 58, header: Some(header) };
        (ns, frame(6_000, Payload::Rtp { sequence, fields, ours: None }))
    }))
}

fn max_pdv_ns(found: &CaptureFigures) -> Option<u64> {
    found.flows[0].delay.as_ref()?.figures.max_pdv_ns
}

#[test]
fn a_pressed_key_is_no_delay_whether_audio_goes_on_or_not() {
    // Of each 100 packets 15 are of a key, and bear the time of its first one. Packet 50 is 3 ms late.
    let late = |n: i64| if n == 50 { 3 * MS } else { 0 };
    let alone = packets((0..400).map(|n: i64| {
        let pressed = (80..95).contains(&(n % 100));
        let begun = if pressed { n - n % 100 + 80 } else { n };
        (n as u16, 20 * MS * n + late(n), 160 * begun as u32, if pressed { 101 } else { 0 })
    }));
    assert_eq!((max_pdv_ns(&alone), alone.flows[0].sequence.unwrap().lost), (Some(3 * MS as u64), 0));
    let mut sequence = 0..;
    let beside = packets((0..200).flat_map(|n: i64| {
        let audio = (20 * MS * n + late(n), 160 * n as u32, 0);
        let key = (20 * MS * n, 160 * 80, 101);
        let both = [Some(audio), (80..95).contains(&n).then_some(key)].into_iter().flatten();
        both.map(|(ns, ts, kind)| (sequence.next().unwrap(), ns, ts, kind)).collect::<Vec<_>>()
    }));
    assert_eq!((max_pdv_ns(&beside), beside.flows[0].packets), (Some(3 * MS as u64), 215));
}

#[test]
fn the_time_that_a_frame_takes_is_no_delay() {
    // Ten packets of a frame within 9 ms, a frame each 40 ms by a clock of 90 kHz. The frames 8, 16 and so on come 2 ms late.
    let found = packets((0..1_000).map(|n: i64| {
        let (of, place) = (n / 10, n % 10);
        let late_ns = if of > 0 && of % 8 == 0 { 2 * MS } else { 0 };
        (n as u16, 40 * MS * of + MS * place + late_ns, 3_600 * of as u32, 96)
    }));
    assert_eq!(found.flows[0].media_clock.unwrap().hz, 90_000);
    assert_eq!(max_pdv_ns(&found), Some(2 * MS as u64));
}

#[test]
fn streams_that_take_turns_are_known_behind_other_packets() {
    let begin = (0..12).map(|n| (n * MS, frame(6_000, Payload::Other)));
    let both = (0..100u16).flat_map(|n| {
        let ns = (12 + i64::from(n)) * MS;
        [
            (ns, frame(6_000, rtp(n, 8 * u32::from(n), 1))),
            (ns, frame(6_000, rtp(n + 900, 8 * u32::from(n), 2))),
        ]
    });
    let found = figures(begin.chain(both));
    let told: Vec<_> = found.flows.iter().map(|flow| (flow.key.kind, flow.key.id, flow.packets)).collect();
    // Fifteen packets came before eight of one stream had.
    assert_eq!(
        told,
        [(FlowKind::Rtp, Some(1), 93), (FlowKind::Rtp, Some(2), 93), (FlowKind::Other, None, 26)]
    );
    assert!(found.flows[..2].iter().all(|flow| flow.sequence.unwrap().lost == 0));
}

#[test]
fn a_second_sender_of_one_source_is_known_though_the_first_goes_on() {
    let other =
        (0..50u16).map(|n| (i64::from(500 + n) * MS, frame(6_000, rtp(900 + n, 8 * u32::from(n), 7))));
    let both = run(500, 20_500, 4_000, 50).zip(other).flat_map(|(one, other)| [one, other]);
    let found = figures(run(0, 20_000, 0, 500).chain(both));
    let told: Vec<_> = found
        .flows
        .iter()
        .map(|flow| {
            (flow.key.restart, flow.packets, flow.sequence.unwrap().expected, flow.sequence.unwrap().lost)
        })
        .collect();
    // Its first packet was taken for a stray one.
    assert_eq!(told, [(0, 551, 550, 0), (1, 49, 49, 0)]);
}

#[test]
fn a_clock_that_changes_its_rate_with_the_payload_type_delays_nobody() {
    // 20 ms each: 8 kHz, from packet 200 on another rate, from 400 on 8 kHz. Packets 100 and 300 are 7 ms late.
    for (payload_type, ticks) in [(111, 960), (97, 320), (96, 1_800)] {
        let mut timestamp = 0;
        let found = packets((0..600).map(|n: i64| {
            let other = (200..400).contains(&n);
            let late_ns = if n == 100 || n == 300 { 7 * MS } else { 0 };
            let bears = timestamp;
            timestamp += if other { ticks } else { 160 };
            (n as u16, 20 * MS * n + late_ns, bears, if other { payload_type } else { 0 })
        }));
        let (flow, hz) = (&found.flows[0], 50 * ticks);
        assert_eq!(max_pdv_ns(&found), Some(7 * MS as u64), "{hz}");
        // J of one packet that is 7 ms late (RFC 3550, section 6.4.1).
        let j_ns = flow.interarrival.as_ref().unwrap().max_ns;
        assert!((j_ns - (7e6 / 16.0 * 15.0 / 16.0 + 7e6 / 16.0)).abs() < 1e3, "{j_ns}");
        let rtp = flow.rtp.as_ref().unwrap();
        assert_eq!((rtp.clock.hz, rtp.interarrival.max_ns), (8_000, j_ns));
        let words = format!(
            "8000 Hz, then {hz} Hz from packet 201 on (payload type {payload_type}), 8000 Hz from packet 401 on (payload type 0)"
        );
        assert!(rtp.notes[0].contains(&words), "{:?}", rtp.notes);
    }
}

#[test]
fn another_payload_type_of_the_same_rate_changes_nothing() {
    let of = |kinds: fn(i64) -> u8| {
        packets((0..400).map(|n: i64| (n as u16, 20 * MS * n + n % 7 * MS, 160 * n as u32, kinds(n))))
    };
    let (plain, others) = (of(|_| 0), of(|n| if n < 200 { 0 } else { 97 + (n / 4 % 2) as u8 }));
    assert_eq!(max_pdv_ns(&plain), max_pdv_ns(&others));
    assert_eq!(plain.flows[0].interarrival, others.flows[0].interarrival);
    assert_eq!(others.flows[0].sequence.unwrap().lost, 0);
}
