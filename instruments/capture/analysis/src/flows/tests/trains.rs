//! Datagrams that a sender gave to its kernel in one piece.

use super::*;

fn of(octets: &[u8]) -> Payload {
    Payload::of(octets, octets.len() as u32, (1, 2), Some(START_NS))
}

fn train_octets(octets: &[u8]) -> Option<usize> {
    of(octets).train_octets(octets, of)
}

/// 172 bytes of RTP; the payload is `rest` all over.
fn audio(sequence: u16, ssrc: u32, rest: u8) -> Vec<u8> {
    let timestamp = 160 * u32::from(sequence);
    [&[0x80, 0][..], &sequence.to_be_bytes(), &timestamp.to_be_bytes(), &ssrc.to_be_bytes(), &[rest; 160]]
        .concat()
}

#[test]
fn a_train_is_known_by_the_next_number_in_it() {
    for (ssrc, rest) in [(0xdead_beef, 0x55), (0, 0), (0x8080_8080, 0x80)] {
        let train = |numbers: &[u16]| -> Vec<u8> {
            numbers.iter().flat_map(|number| audio(*number, ssrc, rest)).collect()
        };
        assert_eq!(train_octets(&train(&[65_534, 65_535, 0])), Some(172), "{ssrc:x}");
        assert_eq!(train_octets(&train(&[9, 10])[..180]), None, "the second header was cut");
        for numbers in [&[9][..], &[9, 9], &[9, 11], &[9, 8]] {
            assert_eq!(train_octets(&train(numbers)), None, "{ssrc:x} {numbers:?}");
        }
    }
    assert_eq!(train_octets(&[audio(9, 7, 0), audio(10, 8, 0)].concat()), None, "another source");
    let test = |sequence| TestPacket { tx_real_time_ns: START_NS, tx_seq: sequence }.to_octets();
    assert_eq!(train_octets(&[test(5), test(6), test(7)].concat()), Some(test(5).len()));
    assert_eq!(train_octets(&[test(5), test(5)].concat()), None);
    let stamp = |sequence, ssid| {
        let estimate = ErrorEstimate::new(TimestampFormat::Ptp, true, 1_000);
        let timestamp = TimestampFormat::Ptp.encode(START_NS);
        let mut octets = vec![0; 60];
        SenderPacket { sequence, timestamp, error_estimate: estimate, ssid }
            .write(Mode::Unauthenticated, &mut octets)
            .unwrap();
        octets
    };
    assert_eq!(train_octets(&[stamp(0, 3), stamp(1, 3)].concat()), Some(60));
    assert_eq!(train_octets(&[stamp(0, 3), stamp(1, 4)].concat()), None);
    assert_eq!(train_octets(b"anything"), None);
}

#[test]
fn a_train_is_one_frame_and_many_packets_of_its_flow() {
    let found = figures((0..50u16).flat_map(|train| {
        (0..8).map(move |place| {
            let sequence = 8 * train + place;
            let one = frame(6_000, rtp(sequence, 160 * u32::from(sequence), 7));
            (160 * MS * i64::from(train), FrameFacts { of_train: place > 0, ..one })
        })
    }));
    let sequence = found.flows[0].sequence.unwrap();
    assert_eq!((found.packets, found.flows[0].packets), (50, 400));
    assert_eq!((found.octets, found.flows[0].octets), (40_000, 40_000));
    assert_eq!((sequence.expected, sequence.lost, sequence.reordered), (400, 0, 0));
    // The last of each waited for nobody, and the first for the sender to have eight.
    assert_eq!(found.flows[0].delay.as_ref().unwrap().figures.max_pdv_ns, Some(140 * MS as u64));
}

/// Datagrams of 172 bytes and trains of them, of which the snap length keeps 54; those at `gone` are lost.
fn cut(trains: &[u16], gone: &[usize]) -> CaptureFigures {
    let mut number = 0;
    let packets = trains.iter().enumerate().filter_map(|(at, datagrams)| {
        let first = number;
        number += datagrams;
        let mut one = frame(6_000, rtp(first, 160 * u32::from(first), 7));
        one.network.as_mut().unwrap().cut_octets = 172 * u32::from(*datagrams) - 54;
        (!gone.contains(&at)).then_some((20 * MS * i64::from(first), one))
    });
    figures(packets.collect::<Vec<_>>())
}

#[test]
fn numbers_in_what_was_cut_of_trains_are_not_lost() {
    let told = |found: CaptureFigures| {
        let flow = &found.flows[0];
        (flow.numbers_cut, flow.sequence.map(|counts| counts.lost), flow.rtp.is_some(), flow.delay.is_some())
    };
    // All trains have eight; or trains of many lengths stand among single datagrams.
    assert_eq!(told(cut(&[8; 50], &[])), (true, None, false, false));
    assert_eq!(told(cut(&[[1; 6], [3, 1, 2, 1, 1, 5]].concat().repeat(5), &[])), (true, None, false, false));
    // Behind single datagrams numbers are lost, however little was kept of these.
    assert_eq!(told(cut(&[1; 100], &[30, 31, 77])), (false, Some(3), true, true));
}
