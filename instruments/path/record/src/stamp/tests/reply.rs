//! What a reflector answers, without a network.

use crate::stamp::event::Refusal;
use crate::stamp::key::{Protection, StampKey};
use crate::stamp::reply::{Local, RequestFacts, check, compose};
use crate::stamp::sessions::Session;
use proptest::prelude::*;
use quaver_abi::wire::stamp::time::{ErrorEstimate, TimestampFormat};
use quaver_abi::wire::stamp::tlv::Span;
use quaver_abi::wire::stamp::{LIGHT_BYTES, Mode, ReflectorPacket, SenderPacket};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const RECEIVED_NS: i64 = 1_700_000_000_000_000_000;
const SENT_NS: i64 = RECEIVED_NS + 1500;

fn key() -> StampKey {
    StampKey::new(b"sixteen bytes, or some more").expect("long enough")
}

fn seen() -> RequestFacts {
    RequestFacts {
        from: SocketAddr::from(([192, 0, 2, 1], 50_000)),
        to: Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2))),
        to_port: 862,
        ttl: 61,
        class: 46 << 2 | 1,
        received_ns: RECEIVED_NS,
    }
}

fn estimate() -> ErrorEstimate {
    ErrorEstimate::new(TimestampFormat::Ntp, true, 1_000_000)
}

fn packet() -> SenderPacket {
    let error_estimate = ErrorEstimate::new(TimestampFormat::Ptp, false, 5);
    SenderPacket { sequence: 7, timestamp: 0x1111_2222_3333_4444, error_estimate, ssid: 99 }
}

/// An unauthenticated request with what follows its base packet.
fn open(extension: &[u8]) -> Vec<u8> {
    let mut request = vec![0; 44];
    packet().write(Mode::Unauthenticated, &mut request).expect("room");
    request.extend_from_slice(extension);
    request
}

/// An authenticated request; the HMAC of the TLVs is the caller's.
fn sealed(extension: &[u8]) -> Vec<u8> {
    let mut request = vec![0; 112];
    packet().write(Mode::Authenticated, &mut request).expect("room");
    key().seal_base(&mut request);
    request.extend_from_slice(extension);
    request
}

struct Replied {
    octets: Vec<u8>,
    class: u8,
}

fn reply(request: &[u8], protection: &Protection, session: Option<Session>) -> Replied {
    reply_with(request, &Local { protection, error_estimate: estimate(), allow_dscp: true }, session)
}

fn reply_with(request: &[u8], local: &Local<'_>, session: Option<Session>) -> Replied {
    let packet = check(request, local.protection, LIGHT_BYTES).expect("a request that is answered");
    let mut octets = vec![0xee; 3];
    let (class, sent_ns) =
        compose(request, &packet, &seen(), local, session.as_ref(), &mut octets, || SENT_NS);
    assert_eq!(sent_ns, SENT_NS);
    Replied { octets, class }
}

/// What follows the base packet of the reply to an open request with this extension.
fn answered(extension: &[u8]) -> Vec<u8> {
    reply(&open(extension), &Protection::None, Some(session())).octets.split_off(44)
}

fn session() -> Session {
    let mut session = Session::default();
    (session.received, session.transmitted, session.last) = (12, 10, Some((9, RECEIVED_NS - 1_000_000_000)));
    session
}

#[test]
fn the_base_of_a_reply_says_what_was_seen() {
    let ntp = TimestampFormat::Ntp;
    let mut expected = ReflectorPacket {
        sequence: 10,
        timestamp: ntp.encode(SENT_NS),
        error_estimate: estimate(),
        ssid: 99,
        receive_timestamp: ntp.encode(RECEIVED_NS),
        sender_sequence: 7,
        sender_timestamp: 0x1111_2222_3333_4444,
        sender_error_estimate: packet().error_estimate,
        sender_ttl: 61,
    };
    let stateful = reply(&open(&[]), &Protection::None, Some(session()));
    assert_eq!(stateful.octets.len(), 44);
    assert_eq!(ReflectorPacket::read(Mode::Unauthenticated, &stateful.octets), Ok(expected));
    assert_eq!(stateful.class, 46 << 2, "the DSCP of the request, no ECN");
    expected.sequence = 7;
    let stateless = reply(&open(&[]), &Protection::None, None);
    assert_eq!(ReflectorPacket::read(Mode::Unauthenticated, &stateless.octets), Ok(expected));
    let refusing = Local { protection: &Protection::None, error_estimate: estimate(), allow_dscp: false };
    assert_eq!(reply_with(&open(&[]), &refusing, None).class, 0);
}

#[test]
fn an_authenticated_reply_bears_its_code() {
    let protection = Protection::All(key());
    let answer = reply(&sealed(&[]), &protection, Some(session())).octets;
    assert_eq!(answer.len(), 112);
    assert!(key().verify_base(&answer));
    let read = ReflectorPacket::read(Mode::Authenticated, &answer).expect("long enough");
    assert_eq!((read.sequence, read.sender_sequence, read.sender_ttl), (10, 7, 61));
    for at in 0..112 {
        let mut altered = sealed(&[]);
        altered[at] ^= 1;
        assert_eq!(check(&altered, &protection, LIGHT_BYTES), Err(Refusal::WrongHmac), "byte {at}");
    }
    assert_eq!(check(&open(&[0; 60]), &protection, LIGHT_BYTES), Err(Refusal::Short), "an open packet");
    assert!(StampKey::new(&[0; 15]).is_err());
}

#[test]
fn senders_of_twamp_light_get_a_reply_of_their_size() {
    // Padding of zeros is no TLV.
    for length in [41, 42, 43, 44, 45, 47, 48, 60, 1400] {
        let mut request = vec![0; length];
        request[..14].copy_from_slice(&open(&[])[..14]);
        let answer = reply(&request, &Protection::None, None).octets;
        assert_eq!(answer.len(), length);
        assert_eq!(answer[40], 61, "TTL");
        assert!(answer[41..].iter().all(|octet| *octet == 0), "{length}");
    }
    for length in 0..41 {
        assert_eq!(check(&vec![0; length], &Protection::None, LIGHT_BYTES), Err(Refusal::Short));
    }
}

#[test]
fn unknown_tlvs_come_back_with_u_and_malformed_ones_with_m() {
    let unknown = [0x80, 200, 0, 2, 1, 2, 0x80, 1, 0, 1, 9];
    assert_eq!(answered(&unknown), [0x80, 200, 0, 2, 1, 2, 0, 1, 0, 1, 9], "padding is understood");
    let reserved = [0x80, 0, 0, 0];
    assert_eq!(answered(&reserved), [0x80, 0, 0, 0]);
    // Known with another length; what follows is copied untouched.
    let wrong = [0x9f, 4, 0, 3, 1, 2, 3, 0x80, 200, 0, 0];
    assert_eq!(answered(&wrong), [0x40, 4, 0, 3, 1, 2, 3, 0x80, 200, 0, 0]);
    let cut = [0x80, 200, 0, 9, 1, 2];
    assert_eq!(answered(&cut), [0x40, 200, 0, 9, 1, 2]);
    assert_eq!(answered(&[0x80, 1]), [0x40, 1], "not even a header");
    let follow_up = [[0x80, 7, 0, 15].as_slice(), &[0xff; 15]].concat();
    assert_eq!(answered(&follow_up), [[0x40, 7, 0, 15].as_slice(), &[0; 12], &[0xff; 3]].concat());
}

#[test]
fn class_of_service_is_told_and_heeded() {
    // Wants DSCP 10; the request came with 46 and ECN 1.
    let asked = [0x80, 4, 0, 4, 10 << 2, 0, 0, 0];
    let answer = reply(&open(&asked), &Protection::None, None);
    assert_eq!(answer.octets[44..], [0, 4, 0, 4, 10 << 2 | 46 >> 4, (46 & 15) << 4 | 1 << 2, 0, 0]);
    assert_eq!(answer.class, 10 << 2);
    let refusing = Local { protection: &Protection::None, error_estimate: estimate(), allow_dscp: false };
    let answer = reply_with(&open(&asked), &refusing, None);
    assert_eq!(answer.octets[49], (46 & 15) << 4 | 1 << 2 | 1, "RP says no");
    assert_eq!(answer.class, 0);
}

#[test]
fn counters_and_the_reply_before_are_a_stateful_reflectors() {
    let asked = [[0x80, 5, 0, 12, 0, 0, 0, 8].as_slice(), &[0; 8], &[0x80, 7, 0, 16], &[0; 16]].concat();
    let stateful = answered(&asked);
    assert_eq!(stateful[..16], [0, 5, 0, 12, 0, 0, 0, 8, 0, 0, 0, 12, 0, 0, 0, 11]);
    let before = TimestampFormat::Ntp.encode(RECEIVED_NS - 1_000_000_000).to_be_bytes();
    assert_eq!(stateful[16..], [[0, 7, 0, 16, 0, 0, 0, 9].as_slice(), &before, &[2, 0, 0, 0]].concat());
    let stateless = reply(&open(&asked), &Protection::None, None).octets.split_off(44);
    assert_eq!(stateless[0], 0x80, "no counters without state");
    assert_eq!(stateless[16..], [[0, 7, 0, 16].as_slice(), &[0; 16]].concat());
}

#[test]
fn location_answers_with_the_kind_of_address() {
    let mac = [[0x80, 1, 0, 8].as_slice(), &[0; 8]].concat();
    let to = [[0x80, 4, 0, 16].as_slice(), &[0; 16]].concat();
    let from = [[0x80, 7, 0, 16].as_slice(), &[0; 16]].concat();
    let unknown = [0x80, 77, 0, 0];
    let length = [0x80, 2, 0, (4 + mac.len() + to.len() + from.len() + unknown.len()) as u8, 0, 0, 0, 0];
    let asked = [length.as_slice(), &mac, &to, &from, &unknown].concat();
    let expected = [
        &[0, 2, 0, length[3], 0x03, 0x5e, 0xc3, 0x50],
        [0, 3, 0, 8].as_slice(),
        &[0; 8],
        &[0, 5, 0, 16, 192, 0, 2, 2],
        &[0; 12],
        &[0, 8, 0, 16, 192, 0, 2, 1],
        &[0; 12],
        &unknown,
    ]
    .concat();
    assert_eq!(answered(&asked), expected);
    let short = [0x80, 2, 0, 12, 0, 0, 0, 0, 0x80, 7, 0, 4, 0, 0, 0, 0];
    assert_eq!(answered(&short)[..9], [0, 2, 0, 12, 0x03, 0x5e, 0xc3, 0x50, 0x40], "M in the sub-TLV");
}

#[test]
fn how_stamps_are_taken_and_access_reports() {
    assert_eq!(answered(&[0x80, 3, 0, 4, 0, 0, 0, 0]), [0, 3, 0, 4, 1, 2, 1, 2]);
    assert_eq!(answered(&[0x80, 6, 0, 4, 0x20, 1, 0, 0]), [0, 6, 0, 4, 0x20, 1, 0, 0]);
    assert_eq!(answered(&[0x80, 6, 0, 4, 0x30, 1, 0, 0]), [0x80, 6, 0, 4, 0x30, 1, 0, 0], "no such access");
}

/// An access report sealed with an HMAC TLV, and padding behind it.
fn sealed_tlvs() -> Vec<u8> {
    let report = [0x80, 6, 0, 4, 0x10, 1, 0, 0];
    let hmac = key().hmac(&[&7u32.to_be_bytes(), &report]);
    [report.as_slice(), &[0x80, 8, 0, 16], &hmac, &[0x80, 1, 0, 2, 5, 5]].concat()
}

#[test]
fn tlvs_are_verified_and_sealed_again() {
    for protection in [Protection::Tlvs(key()), Protection::All(key())] {
        let request = match protection {
            Protection::All(_) => sealed(&sealed_tlvs()),
            _ => open(&sealed_tlvs()),
        };
        let base = protection.mode().base_bytes();
        let answer = reply(&request, &protection, Some(session())).octets;
        let report = [0, 6, 0, 4, 0x10, 1, 0, 0];
        let hmac = key().hmac(&[&10u32.to_be_bytes(), &report]);
        let expected = [report.as_slice(), &[0, 8, 0, 16], &hmac, &[0, 1, 0, 2, 5, 5]].concat();
        assert_eq!(answer[base..], expected);
    }
}

#[test]
fn tlvs_that_fail_are_all_marked_and_not_used() {
    let protection = Protection::Tlvs(key());
    let flags = |extension: &[u8], protection: &Protection| -> Vec<u8> {
        let answer = reply(&open(extension), protection, None).octets;
        let extension = &answer[44..];
        Span::all(extension).map(|span| span.flags).collect()
    };
    let mut altered = sealed_tlvs();
    altered[5] = 2;
    assert_eq!(flags(&altered, &protection), [0x20; 3]);
    assert_eq!(flags(&sealed_tlvs(), &Protection::None), [0x20; 3], "no key to verify with");
    assert_eq!(flags(&[0x80, 3, 0, 4, 0, 0, 0, 0], &protection), [0x20], "none where one is needed");
    assert_eq!(flags(&[0x80, 1, 0, 1, 0], &protection), [0], "padding alone needs none");
    let behind = [sealed_tlvs(), vec![0x80, 3, 0, 4, 0, 0, 0, 0]].concat();
    assert_eq!(flags(&behind, &protection), [0x20; 4], "something follows it");
    let cut = [altered, vec![0x80]].concat();
    assert_eq!(flags(&cut, &protection), [0x20, 0x20, 0x20, 0x60]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// Whatever comes is answered with as many bytes, which say what was seen, or not at all.
    #[test]
    fn anything_gets_a_reply_of_its_size(
        mut request in prop::collection::vec(any::<u8>(), 0..300),
        light in any::<bool>(),
        sealed in 0..3u8,
        stateful in any::<bool>(),
    ) {
        if light && request.len() > 46 {
            // Random bytes are seldom TLVs that we know.
            request[45] %= 10;
            request[46] = 0;
        }
        let protection = match sealed {
            0 => Protection::None,
            1 => Protection::Tlvs(key()),
            _ => Protection::All(key()),
        };
        if sealed == 2 && request.len() >= 112 {
            key().seal_base(&mut request);
        }
        match check(&request, &protection, LIGHT_BYTES) {
            Ok(_) => {
                let replied = reply(&request, &protection, stateful.then(session));
                prop_assert_eq!(replied.octets.len(), request.len());
                prop_assert_eq!(replied.class & 3, 0);
            }
            Err(refusal) => {
                prop_assert_eq!(refusal, Refusal::Short);
                prop_assert!(request.len() < 112);
            }
        }
    }
}
