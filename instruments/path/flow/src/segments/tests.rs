use super::*;
use crate::random::Random;

fn segment(sequence: u32, octets: u32) -> Segment {
    Segment { sequence, octets, ..Segment::default() }
}

fn clocked(sequence: u32, octets: u32, clock: u32) -> Segment {
    Segment { sender_clock: Some(clock), ..segment(sequence, octets) }
}

fn counts(side: Side, segments: &[Segment]) -> SegmentCounts {
    let mut stream = SegmentStream::new(side);
    for segment in segments {
        stream.take(segment);
        let counts = stream.counts();
        assert_eq!(
            counts.segments,
            counts.in_order + counts.retransmitted + counts.duplicate + counts.reordered
        );
    }
    stream.counts()
}

#[test]
fn a_clean_stream_across_the_wrap() {
    let start = u32::MAX - 250;
    let mut segments = vec![Segment { syn: true, ..segment(start, 0) }];
    segments.extend((0..10).map(|at| segment(start.wrapping_add(1 + at * 100), 100)));
    for side in [Side::Sender, Side::Receiver] {
        let counts = counts(side, &segments);
        assert_eq!((counts.segments, counts.octets, counts.unique_octets), (10, 1_000, 1_000));
        assert_eq!((counts.in_order, counts.holes, counts.missing_octets), (10, 0, 0));
    }
}

#[test]
fn what_is_sent_again_is_a_retransmission_at_the_sender() {
    let counts = counts(
        Side::Sender,
        &[segment(0, 100), segment(100, 100), segment(100, 100), segment(200, 100), segment(150, 200)],
    );
    assert_eq!((counts.segments, counts.in_order, counts.retransmitted), (5, 3, 2));
    assert_eq!((counts.octets, counts.unique_octets), (600, 350));
}

#[test]
fn duplicates_reordering_and_retransmissions_are_told_apart_at_the_receiver() {
    let counts = counts(
        Side::Receiver,
        &[
            clocked(0, 100, 10),
            clocked(200, 100, 10),
            clocked(100, 100, 10), // Overtaken.
            clocked(100, 100, 10), // A copy.
            clocked(400, 100, 11),
            clocked(600, 100, 11),
            clocked(300, 100, 15), // Sent later than 600: lost, and sent again.
            clocked(0, 700, 16),   // Brings 500 to 599.
        ],
    );
    assert_eq!((counts.segments, counts.in_order), (8, 4));
    assert_eq!((counts.reordered, counts.duplicate, counts.retransmitted), (1, 1, 2));
    assert_eq!((counts.holes, counts.missing_octets, counts.unique_octets), (3, 0, 700));
}

#[test]
fn holes_that_stay_are_missing() {
    let counts = counts(Side::Receiver, &[segment(0, 10), segment(50, 10), segment(20, 10), segment(100, 1)]);
    assert_eq!((counts.holes, counts.missing_octets, counts.reordered), (2, 30 + 40, 1));
}

/// Against a map of every byte.
#[test]
fn random_streams_are_counted_as_octet_by_octet() {
    let mut random = Random::new(42);
    for _ in 0..200 {
        let base = random.next() as u32;
        let mut stream = SegmentStream::new(Side::Receiver);
        stream.take(&segment(base, 0));
        let (mut seen, mut furthest) = ([false; 3_000], 0usize);
        let (mut duplicate, mut late, mut in_order, mut octets) = (0, 0, 0, 0);
        for _ in 0..60 {
            let (first, length) = (random.below(2_900) as usize, 1 + random.below(99) as usize);
            let new = seen[first..first + length].iter().filter(|seen| !**seen).count();
            if first >= furthest {
                in_order += 1;
            } else if new == 0 {
                duplicate += 1;
            } else {
                late += 1;
            }
            seen[first..first + length].fill(true);
            furthest = furthest.max(first + length);
            octets += length as u64;
            stream.take(&segment(base.wrapping_add(first as u32), length as u32));
        }
        let counts = stream.counts();
        let unique = seen.iter().filter(|seen| **seen).count() as u64;
        assert_eq!((counts.octets, counts.unique_octets), (octets, unique));
        assert_eq!((counts.in_order, counts.duplicate, counts.reordered), (in_order, duplicate, late));
        assert_eq!(counts.missing_octets, furthest as u64 - unique);
    }
}

#[test]
fn segments_are_read_from_packets() {
    let mut packet = vec![0u8; 60 + 5];
    packet[0] = 0x46; // Four bytes of options.
    packet[2..4].copy_from_slice(&65u16.to_be_bytes());
    packet[9] = 6;
    packet[28..32].copy_from_slice(&0x0102_0304u32.to_be_bytes());
    packet[36] = 9 << 4; // 36 bytes of header.
    packet[37] = 2;
    packet[44..56].copy_from_slice(&[1, 1, 8, 10, 0, 0, 0, 77, 0, 0, 0, 0]);
    let expected =
        Segment { sequence: 0x0102_0304, octets: 5, syn: true, sender_clock: Some(77), seen_ns: 3 };
    assert_eq!(read_segment(&packet, 3), Some(expected));
    assert_eq!(read_segment(&packet[..60], 3), Some(expected), "a cut-off packet has its headers");
    let mut version6 = vec![0u8; 40];
    version6[0] = 0x60;
    version6[4..6].copy_from_slice(&41u16.to_be_bytes());
    version6[6] = 6;
    version6.extend(&packet[24..65]);
    assert_eq!(read_segment(&version6, 3), Some(expected));
    packet[9] = 17;
    assert_eq!(read_segment(&packet, 3), None);
}

#[test]
fn random_packets_are_read_without_a_panic() {
    let mut random = Random::new(7);
    for _ in 0..200_000 {
        let mut packet = vec![0; random.below(120) as usize];
        random.fill(&mut packet);
        if let [first, .., _] = &mut packet[..] {
            *first = if random.next() & 1 == 0 { 0x40 | (*first & 15) } else { 0x60 };
        }
        let at = if packet.first().is_some_and(|first| first >> 4 == 4) { 9 } else { 6 };
        if let Some(protocol) = packet.get_mut(at) {
            *protocol = 6;
        }
        let mut stream = SegmentStream::new(Side::Receiver);
        if let Some(segment) = read_segment(&packet, 0) {
            stream.take(&segment);
            stream.take(&Segment {
                sequence: segment.sequence.wrapping_add(HALF),
                octets: u32::MAX,
                ..segment
            });
            stream.take(&segment);
        }
    }
}
