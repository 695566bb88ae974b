extern crate std;

use super::*;
use std::{vec, vec::Vec};
use zerocopy::byteorder::network_endian::{I64, U32, U64};

fn hello() -> Header {
    Header { kind: Kind::Hello, body_bytes: 0, number: 0, coded: false, nonce: *b"0123456789ab" }
}

#[test]
fn a_hello_is_these_octets() {
    let octets = hello().to_octets();
    let mut expected = [0u8; 40];
    expected[3] = 8;
    expected[7] = 2;
    expected[15] = 1;
    expected[28..].copy_from_slice(b"0123456789ab");
    assert_eq!(octets, expected);
    assert_eq!(Header::from_octets(&octets), Ok(hello()));
}

#[test]
fn a_peer_of_the_document_reads_a_hello_as_a_workorder_that_it_does_not_know() {
    let workorder = super::super::jitlat::Workorder::from_octets(&hello().to_octets()).unwrap();
    assert_eq!(workorder.command, Command::Extend);
    assert_eq!((workorder.npkts, workorder.pktlen, workorder.proto), (2, 0, 1));
}

#[test]
fn kinds_and_refusals_keep_their_values() {
    for (index, kind) in Kind::VARIANTS.iter().copied().enumerate() {
        assert_eq!(kind as usize, index + 1);
        let header = Header { kind, nonce: [0; NONCE_BYTES], ..hello() };
        assert_eq!(Header::from_octets(&header.to_octets()), Ok(header), "{}", kind.name());
    }
    let names = [Kind::Hello, Kind::TimeReply, Kind::Source].map(Kind::name);
    assert_eq!(names, ["HELLO", "TIME_REPLY", "SOURCE"], "as docs/protocol.md has them");
    for (index, refusal) in Refusal::VARIANTS.iter().copied().enumerate() {
        assert_eq!(refusal as usize, index + 1);
        assert_eq!(Refusal::of(refusal as u32), refusal);
    }
    assert_eq!(Refusal::of(0), Refusal::Unsupported);
    assert_eq!(Refusal::of(99), Refusal::Unsupported);
}

#[test]
fn headers_are_judged_strictly() {
    let with = |place: usize, octet: u8| {
        let mut octets = Header { kind: Kind::Time, body_bytes: 40, nonce: [0; 12], ..hello() }.to_octets();
        octets[place] = octet;
        Header::from_octets(&octets)
    };
    assert!(with(27, 1).is_ok_and(|header| header.coded));
    assert_eq!(with(3, 7), Err(ExtensionError::NotExtended));
    assert_eq!(with(7, 1), Err(ExtensionError::Version(1)));
    assert_eq!(with(15, 0), Err(ExtensionError::Kind(0)));
    assert_eq!(with(15, 20), Err(ExtensionError::Kind(20)));
    assert_eq!(with(8, 1), Err(ExtensionError::TooLong((1 << 24) + 40)));
    assert_eq!(with(27, 2), Err(ExtensionError::Reserved));
    assert_eq!(with(39, 1), Err(ExtensionError::Reserved));
    let mut short = Header { kind: Kind::Time, body_bytes: 31, nonce: [0; 12], ..hello() };
    short.coded = true;
    assert_eq!(Header::from_octets(&short.to_octets()), Err(ExtensionError::Truncated));
    short.body_bytes = 32;
    assert_eq!(Header::from_octets(&short.to_octets()), Ok(short), "a code and nothing else");
    let most = Header { kind: Kind::Time, body_bytes: MOST_BODY_BYTES as u32, nonce: [0; 12], ..hello() };
    assert_eq!(Header::from_octets(&most.to_octets()), Ok(most));
    let beyond = Header { body_bytes: most.body_bytes + 1, ..most };
    assert_eq!(Header::from_octets(&beyond.to_octets()), Err(ExtensionError::TooLong(beyond.body_bytes)));
    let mut long = hello();
    long.body_bytes = 4;
    assert_eq!(Header::from_octets(&long.to_octets()), Err(ExtensionError::TooLong(4)));
}

#[test]
fn fields_end_with_their_body_and_no_later() {
    let body = [0x80, 1, 0, 2, 7, 8, 0, 5, 0, 0, 0x80, 2, 0, 1, 9];
    let all: Vec<_> = Fields::new(&body).collect();
    assert_eq!(all, [Ok((0x8001, &[7, 8][..])), Ok((5, &[][..])), Ok((0x8002, &[9][..]))]);
    assert_eq!(Fields::new(&body).find(0x8002), Ok(&[9][..]));
    assert_eq!(Fields::new(&body).find(6), Err(ExtensionError::Missing(6)));
    assert_eq!(Fields::new(&body).check(&[0x8001, 0x8002]), Ok(()));
    assert_eq!(Fields::new(&body).check(&[0x8001]), Err(ExtensionError::UnknownField(0x8002)));
    for length in 0..body.len() {
        let whole = [0, 6, 10].contains(&length);
        assert_eq!(Fields::new(&body[..length]).check(&[0x8001, 0x8002]).is_ok(), whole, "{length}");
        assert!(Fields::new(&body[..length]).count() <= 3, "ends");
    }
}

#[test]
fn elements_have_one_length() {
    for length in 0..130 {
        let octets = vec![0u8; length];
        assert_eq!(TimeElement::from_octets(&octets).is_ok(), length == 32);
        assert_eq!(FlowElement::from_octets(&octets).is_ok(), length == 40);
        assert_eq!(CookieElement::from_octets(&octets).is_ok(), length == 28);
        assert_eq!(ClockElement::from_octets(&octets).is_ok(), length == 56);
        assert_eq!(ClockPairElement::from_octets(&octets).is_ok(), length == 16);
        assert_eq!(SenderElement::from_octets(&octets).is_ok(), length == 112);
        assert_eq!(ReceiverElement::from_octets(&octets).is_ok(), length == 96);
        assert_eq!(SourceElement::from_octets(&octets).is_ok(), length == 48);
        assert_eq!(SourceReportElement::from_octets(&octets).is_ok(), length == 40);
        assert_eq!(SegmentsElement::from_octets(&octets).is_ok(), length == 40);
        assert_eq!(DeparturesElement::from_octets(&octets).is_ok(), length == 48);
        assert_eq!(LimitsElement::from_octets(&octets).is_ok(), length == 48);
    }
}

#[test]
fn elements_are_big_endian() {
    let flow = FlowElement {
        directions: 3,
        transport: 17,
        schedule: FlowElement::POISSON,
        flags: FlowElement::WAIT,
        packet_bytes: U32::new(80),
        packets: U64::new(0x0102_0304_0506_0708),
        period_ns: U64::new(20_000_000),
        seed: U64::new(9),
        dscp: U32::new(46),
        reserved: U32::new(0),
    };
    let octets: [u8; 40] = zerocopy::transmute!(flow);
    assert_eq!(octets[..16], [3, 17, 1, 2, 0, 0, 0, 80, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(octets[16..], [0, 0, 0, 0, 1, 0x31, 0x2d, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 46, 0, 0, 0, 0]);
    assert_eq!(FlowElement::from_octets(&octets), Ok(flow));
    let pair = ClockPairElement { realtime_ns: I64::new(-1), monotonic_ns: I64::new(1) };
    let octets: [u8; 16] = zerocopy::transmute!(pair);
    assert_eq!(octets, [255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 1]);
}

#[test]
fn the_echo_of_a_cookie_is_magic_tag_and_cookie() {
    let cookie = CookieElement { tag: [1; 8], cookie: [2; 16], test_port: U32::new(2667) };
    let echo = cookie.echo();
    assert_eq!((&echo[..8], &echo[8..16], &echo[16..]), (&COOKIE_MAGIC[..], &[1; 8][..], &[2; 16][..]));
}

#[test]
fn a_source_is_asked_for_in_these_octets() {
    let source = SourceElement {
        period_numerator: U64::new(7_410),
        period_denominator: U64::new(1),
        packets: U64::new(SourceElement::UNBOUNDED),
        duration_ns: U64::new(10_000_000_000),
        packet_bytes: U32::new(1_428),
        stream_id: U32::new(0x0102_0304),
        profile: SourceElement::PLAIN,
        pace: 2,
        flags: SourceElement::WAIT,
        dscp: 46,
        reserved: U32::new(0),
    };
    let octets: [u8; 48] = zerocopy::transmute!(source);
    assert_eq!(octets[..16], [0, 0, 0, 0, 0, 0, 0x1c, 0xf2, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(octets[16..32], [255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 2, 0x54, 0x0b, 0xe4, 0]);
    assert_eq!(octets[32..], [0, 0, 5, 0x94, 1, 2, 3, 4, 0, 2, 1, 46, 0, 0, 0, 0]);
    assert_eq!(SourceElement::from_octets(&octets), Ok(source));
}
