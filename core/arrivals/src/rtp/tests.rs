use super::*;
use crate::gapped::{Datum, ReadSchedule, Scan, VideoFormat, VideoPacket, video_timing};
use quaver_abi::wire::hbrmt::{Fields, HbrmtHeader, frame, frame_rate, sample};

const NOTHING_TOLD: VideoTold =
    VideoTold { height: None, interlaced: None, frame_rate: None, troff_ns: None, sender: None };
const CONTEXT: RtpContext =
    RtpContext { arrival: "application", sequence_bits: 16, tai: None, video: NOTHING_TOLD };
const MS: i64 = 1_000_000;

fn packet(sequence: u64, arrived_ns: i64, timestamp: u32, payload_type: u8) -> RtpPacket {
    let header = RtpHeaderFields { marker: false, payload_type, ssrc: Some(7), head: Some([0xd5; 8]) };
    RtpPacket {
        sequence,
        arrived_ns,
        fields: RtpFields { timestamp, payload_bytes: 172, header: Some(header) },
    }
}

fn with_head(mut packet: RtpPacket, marker: bool, payload_bytes: u32, head: &[u8]) -> RtpPacket {
    let header = packet.fields.header.as_mut().unwrap();
    (header.marker, header.head) = (marker, head.try_into().ok());
    packet.fields.payload_bytes = payload_bytes;
    packet
}

fn summary(packets: &[RtpPacket]) -> RtpSummary {
    analyze_rtp(packets.to_vec(), &CONTEXT).unwrap()
}

#[test]
fn interarrival_jitter_of_a_worked_series() {
    // The delays of RFC 5481's figures, in milliseconds, on a call at 8 kHz whose timestamps wrap.
    let packets: Vec<RtpPacket> = (0u32..)
        .zip([20, 10, 20, 25, 20])
        .map(|(k, delay)| {
            packet(100 + u64::from(k), i64::from(k) * 20 * MS + delay * MS, (k * 160).wrapping_sub(300), 0)
        })
        .collect();
    let found = summary(&packets);
    assert_eq!((found.clock.hz, found.clock.known), (8_000, ClockKnown::PayloadType));
    // J += (|D| - J) / 16 with |D| of 10, 10, 5 and 5 ms.
    let j = [0.0, 0.625, 1.210_937_5, 1.447_753_906_25, 1.669_769_287_109_375];
    assert!((found.interarrival.last_ns - j[4] * 1e6).abs() < 1e-6);
    assert!((found.interarrival.mean_ns - j.iter().sum::<f64>() * 1e6 / 5.0).abs() < 1e-3);
    // In sixteenths of a tick: 80, 80 + 80 - 5 = 155, 155 + 40 - 10 = 185, 185 + 40 - 12 = 213, so 13 ticks.
    assert_eq!((found.interarrival.last_ticks, found.interarrival.max_ticks), (13, 13));
}

#[test]
fn the_clock_is_assigned_learned_or_assumed_and_says_so() {
    let call = |hz: f64, count: u32, payload_type| {
        let packets = (0..count).map(|k| {
            packet(u64::from(k), i64::from(k) * 20 * MS, (f64::from(k) * 0.02 * hz) as u32, payload_type)
        });
        summary(&packets.collect::<Vec<_>>())
    };
    for (hz, expected) in [(48_000.0, 48_000), (44_100.0, 44_100), (89_500.0, 90_000), (8_010.0, 8_000)] {
        let found = call(hz, 50, 96);
        assert_eq!((found.clock.hz, found.clock.known), (expected, ClockKnown::Learned), "{hz}");
        assert!(found.notes.is_empty(), "{:?}", found.notes);
    }
    for (hz, count) in [(48_000.0, 4), (37_000.0, 50)] {
        let found = call(hz, count, 96);
        assert_eq!((found.clock.hz, found.clock.known), (90_000, ClockKnown::Assumed));
        assert!(found.notes[0].contains("assumed to be 90000 Hz"), "{:?}", found.notes);
    }
    let off = call(16_000.0, 50, 0);
    assert_eq!((off.clock.hz, off.clock.known), (8_000, ClockKnown::PayloadType));
    assert!(off.notes[0].contains("ran at 16000.0 Hz"), "{:?}", off.notes);
}

#[test]
fn loss_copies_and_order_by_extended_numbers() {
    // 10 to 19: 12 and 13 lost, 17 lost, 15 twice, 11 after 14.
    let numbers = [10u64, 14, 11, 15, 15, 16, 19, 18];
    let packets: Vec<RtpPacket> =
        (0..).zip(numbers).map(|(k, number)| packet(65_530 + number, k * MS, 0, 0)).collect();
    let found = summary(&packets).sequence;
    assert_eq!((found.expected, found.received, found.unique, found.lost), (10, 8, 7, 3));
    assert_eq!((found.duplicate, found.replicated, found.reordered, found.cumulative_lost), (1, 1, 2, 2));
    assert_eq!(found.loss_period_lengths, BTreeMap::from([(1, 1), (2, 1)]));
    assert_eq!(found.loss_distances, BTreeMap::from([(1, 1), (4, 1)]));
    // 11 comes one position after 14, which broke the order; so does 18 after 19.
    assert_eq!(found.reordering_extents, BTreeMap::from([(1, 2)]));
    assert_eq!((found.loss_share, found.reordered_share), (0.3, 2.0 / 7.0));
}

#[test]
fn a_packet_that_overtook_the_first_does_not_count_as_lost_to_a_receiver_report() {
    let found = summary(&[11u64, 10, 12].map(|number| packet(number, 0, 0, 0))).sequence;
    assert_eq!((found.expected, found.lost, found.cumulative_lost), (3, 0, -1));
}

#[test]
fn the_busiest_source_is_analysed_and_others_are_counted() {
    let mut packets: Vec<RtpPacket> = (0..10).map(|k| packet(k, k as i64 * MS, 0, 0)).collect();
    let mut other = packet(40_000, 5 * MS, 9, 0);
    other.fields.header.as_mut().unwrap().ssrc = Some(3);
    packets.insert(5, other);
    let found = summary(&packets);
    assert_eq!((found.packets, found.other_sources, found.ssrc, found.sequence.lost), (10, 1, Some(7), 0));
    assert_eq!(found.payload_types, BTreeMap::from([(0, 10)]));
    assert_eq!((found.kind, found.frames, found.hbrmt, found.video), (RtpKind::Other, None, None, None));
    assert_eq!(analyze_rtp(Vec::new(), &CONTEXT), None);
}

#[test]
fn runs_without_headers_keep_what_they_have() {
    let packets: Vec<RtpPacket> = (0..10)
        .map(|k| {
            let fields = RtpFields { timestamp: k * 960, payload_bytes: 172, header: None };
            RtpPacket { sequence: u64::from(k), arrived_ns: i64::from(k) * 20 * MS, fields }
        })
        .collect();
    let found = summary(&packets);
    assert_eq!((found.clock.hz, found.ssrc, found.kind), (48_000, None, RtpKind::Other));
    assert_eq!(found.interarrival, Interarrival::default());
    assert!(found.notes[0].contains("without markers"), "{:?}", found.notes);
}

/// ST 2022-6 with frames of 5 packets, from packet `first` on.
fn hbrmt_stream(first: u64, count: u64) -> Vec<RtpPacket> {
    (first..first + count)
        .map(|number| {
            let fields = Fields {
                source_format: true,
                frame_count: (number / 5) as u8,
                frame: frame::HD_1080_INTERLACED,
                frame_rate: frame_rate::FPS_29_97,
                sample: sample::YCBCR_422_10,
                ..Fields::default()
            };
            let header = HbrmtHeader::new(&fields);
            let mut head = [header.extension_and_source, header.frame_count, 0, 0, 0, 0, 0, 0];
            head[2..4].copy_from_slice(&header.clock_bits.get().to_be_bytes());
            head[4..].copy_from_slice(&header.format_bits.get().to_be_bytes());
            let plain = packet(number, number as i64 * 7_419, number as u32 * 200, 98);
            with_head(plain, number % 5 == 4, 12 + 8 + 1_376, &head)
        })
        .collect()
}

#[test]
fn frames_and_headers_of_st2022_6() {
    let clean = summary(&hbrmt_stream(1_277, 53)); // over the wrap of FRCount at packet 1280
    assert_eq!(
        (clean.kind, clean.clock.hz, clean.clock.known),
        (RtpKind::St2022_6, 27_000_000, ClockKnown::Format)
    );
    // Markers at 1279, 1284, ... 1329: 11 of them, 10 frames between.
    let frames =
        FrameFigures { packets_per_frame: Some(5), frames: 10, complete: 10, ..FrameFigures::default() };
    assert_eq!(clean.frames, Some(frames));
    let words = ("1920 x 1080 interlaced".to_owned(), "30/1.001".to_owned(), "4:2:2, 10 bits".to_owned());
    let hbrmt = clean.hbrmt.unwrap();
    assert_eq!((hbrmt.frame.clone(), hbrmt.frame_rate.clone(), hbrmt.sample.clone()), words);
    let none =
        HbrmtFigures { frame: words.0, frame_rate: words.1, sample: words.2, ..HbrmtFigures::default() };
    assert_eq!(hbrmt, none);

    let mut stream = hbrmt_stream(0, 60);
    stream[22].fields.payload_bytes -= 1; // shorter media
    let header = stream[31].fields.header.as_mut().unwrap();
    header.head.as_mut().unwrap()[1] = 77; // FRCount: wrong after 30 and before 32
    stream[33].fields.header.as_mut().unwrap().payload_type = 96;
    stream[41].fields.header.as_mut().unwrap().head.as_mut().unwrap()[5] ^= 0x10; // FRAME or FRATE
    stream[46].fields.header.as_mut().unwrap().head = None;
    // Packet 11 is lost, 24 is and with it a marker, and so is all of the frame from 50 to 54.
    stream.retain(|packet| ![11, 24, 50, 51, 52, 53, 54].contains(&packet.sequence));
    let found = summary(&stream);
    let frames = found.frames.unwrap();
    assert_eq!((frames.packets_per_frame, frames.frames, frames.complete), (Some(5), 11, 8));
    assert_eq!((frames.missing_packets, frames.lost_ends, frames.odd_lengths), (7, 2, 0));
    assert_eq!(found.sequence.lost, 7);
    let hbrmt = found.hbrmt.unwrap();
    assert_eq!((hbrmt.wrong_length, hbrmt.wrong_frame_count, hbrmt.other_payload_type), (1, 2, 1));
    assert_eq!((hbrmt.other_format, hbrmt.without_header), (1, 1));
}

#[test]
fn frames_of_another_length_are_told() {
    let mut stream = hbrmt_stream(0, 60);
    for late in &mut stream[30..] {
        late.sequence += 2; // two numbers that belong to no frame of five
    }
    let frames = summary(&stream).frames.unwrap();
    assert_eq!((frames.frames, frames.odd_lengths, frames.missing_packets, frames.complete), (11, 1, 2, 10));
}

/// ST 2110-20 of `lines` packets a frame (of 2 fields where interlaced), a line each, as `format` wants them sent.
fn video_stream(frames: u64, lines: u64, ticks: u64, interlaced: bool, base_ns: i64) -> Vec<RtpPacket> {
    let start = u64::from(u32::MAX) - 1_500; // the 32-bit number wraps after 1,501 packets
    let frame_ns = ticks as f64 / 9e-5;
    (0..frames * lines)
        .map(|k| {
            let (number, place) = (start + k, k % lines);
            let field_lines = if interlaced { lines / 2 } else { lines };
            let (line, second) = (place % field_lines, place >= field_lines);
            let mut head = [0; 8];
            head[..2].copy_from_slice(&((number >> 16) as u16).to_be_bytes());
            head[2..4].copy_from_slice(&1_200u16.to_be_bytes());
            head[4..6].copy_from_slice(&((line as u16) | (u16::from(second) << 15)).to_be_bytes());
            let field = if interlaced { 2 * (k / lines) + u64::from(second) } else { 2 * (k / lines) };
            let sent_ns = base_ns + (k as f64 * frame_ns / lines as f64) as i64;
            let plain = packet(k + 131_072 + start % 65_536, sent_ns, (field * ticks / 2) as u32, 112);
            with_head(plain, line == field_lines - 1, 1_220, &head)
        })
        .collect()
}

fn oracle(
    stream: &[RtpPacket],
    format: &VideoFormat,
    datum: Datum,
    shift_ns: i64,
) -> crate::gapped::VideoTiming {
    let packets: Vec<VideoPacket> = stream
        .iter()
        .map(|packet| VideoPacket {
            sequence: packet.sequence,
            arrived_ns: packet.arrived_ns + shift_ns,
            rtp_timestamp: packet.fields.timestamp,
            marker: packet.marker(),
            second_field: packet.head().unwrap()[4] & 0x80 != 0,
        })
        .collect();
    video_timing(&packets, format, datum)
}

#[test]
fn shape_of_st2110_20_with_a_learned_format() {
    let mut stream = video_stream(4, 1_080, 3_003, false, 5_000 * MS);
    stream.swap(700, 702);
    stream.remove(2_000);
    stream.insert(900, stream[899]);
    let found = summary(&stream);
    let video = found.video.unwrap();
    assert_eq!((found.kind, found.clock.hz, found.sequence.bits), (RtpKind::St2110_20, 90_000, 32));
    assert_eq!((found.sequence.lost, found.sequence.duplicate, found.sequence.expected), (1, 1, 4 * 1_080));
    assert_eq!(
        (video.frame_rate, video.scan, video.height),
        (Some((30_000, 1_001)), Some(Scan::Progressive), Some(1_080))
    );
    assert_eq!((video.packets_per_frame, video.max_udp_octets), (Some(1_080), Some(1_500)));
    let format = VideoFormat::new((30_000, 1_001), Scan::Progressive, 1_080, 1_080, 1_500).unwrap();
    let expected = oracle(&stream, &format, Datum::Observed, 0);
    assert_eq!(expected.linear.as_ref().unwrap().schedule, ReadSchedule::Linear);
    assert_eq!((video.observed, video.epoch), (Some(expected), None));
    assert!(
        found.notes.iter().any(|note| note.contains("does not tell this host's TAI")),
        "{:?}",
        found.notes
    );
    let frames = found.frames.unwrap();
    assert_eq!((frames.frames, frames.complete, frames.missing_packets), (3, 2, 1));
}

#[test]
fn the_smpte_epoch_needs_tai() {
    let stream = video_stream(3, 1_080, 3_003, false, 5_000 * MS);
    let of = |offset_s, realtime_minus_monotonic_ns| {
        let tai = Some(Tai { offset_s, realtime_minus_monotonic_ns });
        analyze_rtp(stream.clone(), &RtpContext { tai, ..CONTEXT }).unwrap()
    };
    let unset = of(0, Some(1));
    assert!(unset.notes.iter().any(|note| note.contains("TAI offset is 0")), "{:?}", unset.notes);
    assert_eq!(unset.video.as_ref().unwrap().epoch, None);
    assert!(of(37, None).notes.iter().any(|note| note.contains("was stepped")));
    let format = VideoFormat::new((30_000, 1_001), Scan::Progressive, 1_080, 1_080, 1_500).unwrap();
    let shift_ns = 1_700_000_000_000_000_000 + 37_000_000_000;
    let expected = oracle(&stream, &format, Datum::SmpteEpoch { offset_ns: None }, shift_ns);
    let set = of(37, Some(1_700_000_000_000_000_000)).video.unwrap();
    assert_eq!((set.epoch, set.kernel_tai_offset_s), (Some(expected), Some(37)));
    assert_eq!(set.observed, unset.video.unwrap().observed);
}

#[test]
fn what_is_told_of_a_format_is_believed() {
    let tai = Some(Tai { offset_s: 37, realtime_minus_monotonic_ns: Some(1_700_000_000_000_000_000) });
    // Timestamps that tell no rate in use.
    let mut stream = video_stream(3, 1_080, 3_100, false, 5_000 * MS);
    stream.iter_mut().for_each(|packet| packet.arrived_ns *= 2);
    let told = VideoTold { troff_ns: Some(123_000), ..VideoTold::format("1080p29.97").unwrap() };
    let found = analyze_rtp(stream.clone(), &RtpContext { tai, video: told, ..CONTEXT }).unwrap();
    let video = found.video.unwrap();
    assert_eq!((video.told, video.frame_rate), (told, Some((30_000, 1_001))));
    let format = VideoFormat::new((30_000, 1_001), Scan::Progressive, 1_080, 1_080, 1_500).unwrap();
    let shift_ns = 1_700_000_000_000_000_000 + 37_000_000_000;
    let datum = Datum::SmpteEpoch { offset_ns: Some(123_000) };
    assert_eq!(video.epoch, Some(oracle(&stream, &format, datum, shift_ns)));
    assert_eq!(video.observed, Some(oracle(&stream, &format, Datum::Observed, 0)));
    // What the stream shows otherwise is said.
    let other = VideoTold::format("720p50").unwrap();
    let found = analyze_rtp(stream, &RtpContext { video: other, ..CONTEXT }).unwrap();
    assert_eq!(found.video.as_ref().and_then(|video| video.height), Some(720));
    assert!(found.notes.iter().any(|note| note.contains("1080 lines, 720 were told")), "{:?}", found.notes);
}

#[test]
fn interlaced_video_has_fields() {
    let stream = video_stream(4, 1_080, 3_600, true, 0);
    let found = summary(&stream);
    let video = found.video.unwrap();
    assert_eq!(
        (video.frame_rate, video.scan, video.height),
        (Some((25, 1)), Some(Scan::Interlaced1125), Some(1_080))
    );
    let format = VideoFormat::new((25, 1), Scan::Interlaced1125, 1_080, 1_080, 1_500).unwrap();
    assert_eq!(video.observed, Some(oracle(&stream, &format, Datum::Observed, 0)));
    let frames = found.frames.unwrap();
    assert_eq!((frames.fields, frames.packets_per_frame, frames.frames), (true, Some(540), 7));
}

#[test]
fn without_two_ends_of_frames_the_shape_is_not_known() {
    let stream = video_stream(1, 1_080, 3_003, false, 0);
    let found = summary(&stream);
    assert_eq!(found.video.unwrap().observed, None);
    assert!(found.notes.iter().any(|note| note.contains("fewer than two ends")), "{:?}", found.notes);
    let mut odd = video_stream(3, 1_080, 3_100, false, 0);
    odd.iter_mut().for_each(|packet| packet.arrived_ns *= 2);
    let found = summary(&odd);
    assert_eq!(found.video.unwrap().observed, None);
    assert!(found.notes.iter().any(|note| note.contains("no frame rate in use")), "{:?}", found.notes);
}
