//! What holds for any bytes that come over a network: each function takes them and panics where it does not hold.
//! Called with made-up bytes by `tests/wire.rs` and by the fuzzers in `fuzz/`.
// They are public for the fuzzers' crate, which has this file as a module of its own.
#![allow(unreachable_pub)]

use quaver_abi::wire::chrony::Tracking;
use quaver_abi::wire::extension::{
    ClockElement, ClockPairElement, CookieElement, DeparturesElement, Fields, FlowElement, HEADER_BYTES,
    Header, LimitsElement, ReceiverElement, SegmentsElement, SenderElement, SourceElement,
    SourceReportElement, TimeElement, field,
};
use quaver_abi::wire::jitlat::{
    DecodeError, SINGLETON_BYTES, Singleton, TEST_PACKET_BYTES, TestPacket, WORKORDER_BYTES, Workorder,
};
use quaver_abi::wire::stamp::time::{ErrorEstimate, TimestampFormat};
use quaver_abi::wire::stamp::tlv::{self, Span};
use quaver_abi::wire::stamp::{Mode, ReflectorPacket, SenderPacket};
use quaver_abi::wire::stream::{self, StreamHeader};
use quaver_abi::wire::{hbrmt, rfc4175, rtp::RtpHeader};

/// A function that judges bytes, with its name.
pub type Check = (&'static str, fn(&[u8]));

/// All of them.
pub const ALL: [Check; 6] = [
    ("workorder", workorder),
    ("test_packet", test_packet),
    ("singletons", singletons),
    ("stamp", stamp),
    ("extension", extension),
    ("media", media),
];

/// Payloads of streams and chrony's answers: media lie within the payload, and an answer survives writing and reading.
pub fn media(octets: &[u8]) {
    let ends = [
        RtpHeader::read(octets).map(|(_, end)| end),
        hbrmt::HbrmtHeader::read(octets).map(|(_, end)| end),
        rfc4175::VideoHeader::read(octets).map(|(_, end)| end),
    ];
    assert!(ends.iter().flatten().all(|end| *end <= octets.len()));
    assert!(StreamHeader::read(octets).is_none_or(|_| octets.len() >= stream::HEADER_BYTES));
    let number =
        octets.get(16..20).map_or(0, |word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    for tracking in [Tracking::read(octets, number), Tracking::from_octets(octets)].into_iter().flatten() {
        assert_eq!(Tracking::from_octets(&tracking.to_octets()), Some(tracking));
    }
}

/// Exactly 40 bytes with a command are a workorder, which gives the same bytes again.
pub fn workorder(octets: &[u8]) {
    for octets in [octets, octets.get(..WORKORDER_BYTES).unwrap_or_default()] {
        match Workorder::from_octets(octets) {
            Ok(order) => {
                assert_eq!(order.to_octets(), octets);
                assert_eq!(
                    u32::from_be_bytes([octets[0], octets[1], octets[2], octets[3]]),
                    order.command as u32
                );
                let mut probe = order;
                probe.set_t1_ns(order.t1_ns());
                probe.set_t2_ns(order.t2_ns());
                assert_eq!(probe, order);
            }
            Err(DecodeError::UnknownCommand(command)) => {
                assert!(octets.len() == WORKORDER_BYTES && !(1..=8).contains(&command));
            }
            Err(DecodeError::Length { got, .. }) => assert!(got == octets.len() && got != WORKORDER_BYTES),
        }
    }
}

/// Twelve bytes and more are a test packet, whose head gives the same bytes again.
pub fn test_packet(octets: &[u8]) {
    match TestPacket::from_octets(octets) {
        Ok(packet) => assert_eq!(packet.to_octets(), octets[..TEST_PACKET_BYTES]),
        Err(_) => assert!(octets.len() < TEST_PACKET_BYTES),
    }
}

/// A stream of singletons loses no byte, wherever it is cut.
pub fn singletons(octets: &[u8]) {
    let (all, rest) = Singleton::all_in(octets);
    assert_eq!(all.len(), octets.len() / SINGLETON_BYTES);
    let mut at = 0;
    for singleton in all {
        let end = at + SINGLETON_BYTES;
        assert_eq!(singleton.to_octets(), octets[at..end]);
        assert_eq!(Singleton::from_octets(&octets[at..end]), Ok(singleton));
        at = end;
    }
    assert_eq!(rest, &octets[at..]);
    assert_eq!(Singleton::from_octets(octets).is_ok(), octets.len() == SINGLETON_BYTES);
}

/// Base packets survive writing and reading; TLVs cover what follows without gap, overlap or end.
pub fn stamp(octets: &[u8]) {
    for mode in [Mode::Unauthenticated, Mode::Authenticated] {
        let mut again = [0; 112];
        match SenderPacket::read(mode, octets) {
            Ok(packet) => {
                packet.write(mode, &mut again).expect("room for both modes");
                assert_eq!(SenderPacket::read(mode, &again), Ok(packet));
                estimate(packet.error_estimate);
                times(packet.timestamp);
            }
            Err(_) => assert!(octets.len() < mode.base_bytes()),
        }
        if let Ok(packet) = ReflectorPacket::read(mode, octets) {
            packet.write(mode, &mut again).expect("room for both modes");
            assert_eq!(ReflectorPacket::read(mode, &again), Ok(packet));
        }
        tlvs(octets.get(mode.base_bytes()..).unwrap_or(octets));
    }
}

fn tlvs(octets: &[u8]) {
    let mut at = 0;
    for span in Span::all(octets) {
        assert_eq!(span.at, at);
        assert!(span.end() > at && span.end() <= octets.len());
        assert!(span.whole || span.end() == octets.len());
        let malformed = span.is_malformed(octets);
        assert!(span.whole || malformed);
        values(&octets[span.value()]);
        if span.whole {
            let value = &octets[span.value()];
            let mut again = vec![0; tlv::HEADER_BYTES + value.len()];
            assert_eq!(tlv::write(&mut again, span.kind, value), Some(again.len()));
            assert_eq!(again[1..], octets[span.at + 1..span.end()], "all but the flags");
        }
        at = span.end();
    }
    assert_eq!(at, octets.len());
}

fn values(octets: &[u8]) {
    macro_rules! stable {
        ($($value:ident),*) => {$(
            let read = tlv::$value::from_octets(octets);
            assert_eq!(read.is_some(), octets.len() >= tlv::$value::BYTES);
            if let Some(value) = read {
                assert_eq!(tlv::$value::from_octets(&value.to_octets()), Some(value));
            }
        )*};
    }
    stable!(Location, TimestampInformation, ClassOfService, DirectMeasurement, AccessReport, FollowUp);
}

fn estimate(estimate: ErrorEstimate) {
    assert_eq!(ErrorEstimate::from_bits(estimate.to_bits()), estimate);
    if let Some(error_ns) = estimate.error_ns() {
        let again = ErrorEstimate::new(estimate.format, estimate.synchronized, error_ns);
        let again_ns = again.error_ns().expect("no multiplier is 0");
        assert!(again_ns >= error_ns && u128::from(again_ns) <= u128::from(error_ns) * 129 / 128 + 2);
    }
}

/// Any 64 bits are a time near any other, and a time survives its stamp.
fn times(stamp: u64) {
    let near_ns = stamp.rotate_left(17).cast_signed() / 2;
    for format in [TimestampFormat::Ntp, TimestampFormat::Ptp] {
        let time_ns = format.decode(stamp, near_ns);
        assert_eq!(format.decode(format.encode(time_ns), time_ns), time_ns);
        assert_eq!(format.decode(format.encode(near_ns), time_ns / 2 + near_ns / 2), near_ns);
    }
}

/// Headers of the extension give the same bytes again; fields cover the body; elements are what they were read from.
pub fn extension(octets: &[u8]) {
    if let Some((head, body)) = octets.split_first_chunk::<HEADER_BYTES>() {
        if let Ok(header) = Header::from_octets(head) {
            assert_eq!(header.to_octets(), *head);
        }
        fields(body);
    }
    fields(octets);
}

fn fields(body: &[u8]) {
    let mut errors = 0;
    let mut octets = 0;
    for found in Fields::new(body) {
        assert_eq!(errors, 0, "nothing comes after an error");
        match found {
            Ok((_, value)) => {
                octets += 4 + value.len();
                elements(value);
            }
            Err(_) => errors += 1,
        }
    }
    assert!(octets <= body.len() && (errors > 0 || octets == body.len()));
    let _ = Fields::new(body).find(field::TIME);
    let _ = Fields::new(body).check(&[field::TIME, field::SAMPLES]);
}

fn elements(value: &[u8]) {
    use zerocopy::IntoBytes;
    macro_rules! same {
        ($($element:ident),*) => {$(
            if let Ok(element) = $element::from_octets(value) {
                assert_eq!(element.as_bytes(), value);
            }
        )*};
    }
    same!(TimeElement, FlowElement, CookieElement, ClockElement, ClockPairElement);
    same!(SenderElement, ReceiverElement, SourceElement, LimitsElement);
    same!(SourceReportElement, SegmentsElement, DeparturesElement);
}
