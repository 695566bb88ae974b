use super::time::{ErrorEstimate, TimestampFormat};
use super::tlv::{self, Span};
use super::*;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A time of 2009 with a known NTP stamp: 1246650331 s after 1970, 413984400 ns.
const NS_2009: i64 = 1_246_650_331_413_984_400;

fn sender() -> SenderPacket {
    SenderPacket {
        sequence: 0x0102_0304,
        timestamp: 0x1112_1314_1516_1718,
        error_estimate: estimate(),
        ssid: 0x2122,
    }
}

fn estimate() -> ErrorEstimate {
    ErrorEstimate { synchronized: true, format: TimestampFormat::Ntp, scale: 0x0a, multiplier: 0x0b }
}

fn reflected() -> ReflectorPacket {
    ReflectorPacket {
        sequence: 0x0102_0304,
        timestamp: 0x1112_1314_1516_1718,
        error_estimate: estimate(),
        ssid: 0x2122,
        receive_timestamp: 0x3132_3334_3536_3738,
        sender_sequence: 0x4142_4344,
        sender_timestamp: 0x5152_5354_5556_5758,
        sender_error_estimate: ErrorEstimate {
            format: TimestampFormat::Ptp,
            synchronized: false,
            ..estimate()
        },
        sender_ttl: 0x63,
    }
}

/// Bytes with the given parts at the given places, zero elsewhere.
fn octets<const N: usize>(parts: &[(usize, &[u8])]) -> [u8; N] {
    let mut octets = [0; N];
    for (at, part) in parts {
        octets[*at..*at + part.len()].copy_from_slice(part);
    }
    octets
}

#[test]
fn a_senders_packet_has_the_octets_drawn() {
    let (sequence, stamp) = ([1, 2, 3, 4], [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]);
    let error_and_ssid = [0x8a, 0x0b, 0x21, 0x22];
    let open: [u8; 44] = octets(&[(0, &sequence), (4, &stamp), (12, &error_and_ssid)]);
    let sealed: [u8; 112] = octets(&[(0, &sequence), (16, &stamp), (24, &error_and_ssid)]);
    let mut buffer = [0xff; 120];
    assert_eq!(sender().write(Mode::Unauthenticated, &mut buffer), Ok(()));
    assert_eq!((&buffer[..44], buffer[44]), (&open[..], 0xff));
    assert_eq!(sender().write(Mode::Authenticated, &mut buffer), Ok(()));
    assert_eq!((&buffer[..112], buffer[112]), (&sealed[..], 0xff));
    assert_eq!(SenderPacket::read(Mode::Unauthenticated, &open), Ok(sender()));
    assert_eq!(SenderPacket::read(Mode::Authenticated, &sealed), Ok(sender()));
}

#[test]
fn a_reflectors_packet_has_the_octets_drawn() {
    let (sequence, sent) = ([1, 2, 3, 4], [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]);
    let received = [0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38];
    let (first_sequence, first) =
        ([0x41, 0x42, 0x43, 0x44], [0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58]);
    let (error, ssid, first_error, ttl) = ([0x8a, 0x0b], [0x21, 0x22], [0x4a, 0x0b], [0x63]);
    let open: [u8; 44] = octets(&[
        (0, &sequence),
        (4, &sent),
        (12, &error),
        (14, &ssid),
        (16, &received),
        (24, &first_sequence),
        (28, &first),
        (36, &first_error),
        (40, &ttl),
    ]);
    let sealed: [u8; 112] = octets(&[
        (0, &sequence),
        (16, &sent),
        (24, &error),
        (26, &ssid),
        (32, &received),
        (48, &first_sequence),
        (64, &first),
        (72, &first_error),
        (80, &ttl),
    ]);
    let mut buffer = [0xff; 112];
    assert_eq!(reflected().write(Mode::Unauthenticated, &mut buffer), Ok(()));
    assert_eq!((&buffer[..44], buffer[44]), (&open[..], 0xff));
    assert_eq!(reflected().write(Mode::Authenticated, &mut buffer), Ok(()));
    assert_eq!(buffer, sealed);
    assert_eq!(ReflectorPacket::read(Mode::Unauthenticated, &open), Ok(reflected()));
    assert_eq!(ReflectorPacket::read(Mode::Authenticated, &sealed), Ok(reflected()));
    assert_eq!((HMAC_TEXT.len(), HMAC_FIELD.len()), (96, HMAC_BYTES));
}

#[test]
fn fewer_octets_are_no_packet() {
    for (mode, expected) in [(Mode::Unauthenticated, 44), (Mode::Authenticated, 112)] {
        for got in 0..expected {
            let mut buffer = [0; 112];
            let short = TooShort { expected, got };
            assert_eq!(SenderPacket::read(mode, &buffer[..got]), Err(short));
            assert_eq!(ReflectorPacket::read(mode, &buffer[..got]), Err(short));
            assert_eq!(sender().write(mode, &mut buffer[..got]), Err(short));
            assert_eq!(reflected().write(mode, &mut buffer[..got]), Err(short));
        }
    }
}

#[test]
fn stamps_are_those_of_the_formats() {
    use TimestampFormat::{Ntp, Ptp};
    // RFC 5905, figure 4: 1970 is second 2208988800 of era 0; era 1 begins on 7 February 2036 at 06:28:16.
    assert_eq!(Ntp.encode(0), 0x83aa_7e80_0000_0000);
    assert_eq!(Ntp.encode(500_000_000), 0x83aa_7e80_8000_0000);
    assert_eq!(Ntp.encode(-2_208_988_800_000_000_000), 0);
    assert_eq!(Ntp.encode(2_085_978_496_000_000_000), 0);
    assert_eq!(Ntp.encode(2_085_978_495_999_999_999), 0xffff_ffff_ffff_fffc);
    assert_eq!(Ntp.encode(NS_2009), 0xcdf8_de5b_69fa_e1b3);
    assert_eq!(Ptp.encode(NS_2009), 0x4a4e_5fdb_18ac_e690);
    assert_eq!(Ptp.encode(4_294_967_296_000_000_007), 7, "wraps in 2106");
}

#[test]
fn a_stamp_gives_the_very_nanosecond_back_in_any_era() {
    let eras =
        [-2_208_988_800, -1, 0, 1_246_650_331, 2_085_978_495, 2_085_978_496, 4_294_967_296, 8_000_000_000];
    for seconds in eras {
        for nanoseconds in [0, 1, 2, 499_999_999, 500_000_000, 999_999_998, 999_999_999] {
            let time_ns: i64 = seconds * 1_000_000_000 + nanoseconds;
            for format in [TimestampFormat::Ntp, TimestampFormat::Ptp] {
                // 60 years off either way.
                for near_ns in [0, 1_900_000_000_000_000_000, -1_900_000_000_000_000_000] {
                    let stamp = format.encode(time_ns);
                    let near_ns = time_ns.saturating_add(near_ns);
                    assert_eq!(format.decode(stamp, near_ns), time_ns, "{format:?} {time_ns} near {near_ns}");
                }
            }
        }
    }
}

#[test]
fn every_stamp_is_a_time() {
    for format in [TimestampFormat::Ntp, TimestampFormat::Ptp] {
        for near_ns in [i64::MIN, -1, 0, NS_2009, i64::MAX] {
            for stamp in [0, 1, 0xffff_ffff, u64::MAX, 1 << 63, 0x83aa_7e80_ffff_ffff] {
                let time_ns = i128::from(format.decode(stamp, near_ns));
                let off_ns = (time_ns - i128::from(near_ns)).abs();
                assert!(
                    off_ns <= (1 << 31) * 1_000_000_000 + 5_000_000_000,
                    "{format:?} {stamp:x} {near_ns}"
                );
            }
        }
    }
    // A fraction that rounds up to a whole second.
    assert_eq!(TimestampFormat::Ntp.decode(0x83aa_7e80_ffff_ffff, 0), 1_000_000_000);
}

#[test]
fn an_error_estimate_is_never_below_the_error() {
    let of = |error_ns| ErrorEstimate::new(TimestampFormat::Ntp, false, error_ns);
    assert_eq!((of(0).scale, of(0).multiplier), (0, 1));
    assert_eq!((of(1).scale, of(1).multiplier), (0, 5), "4.3 units of 2^-32 s");
    // 1 ms is 4294967.3 units, more than 255 << 14.
    assert_eq!((of(1_000_000).scale, of(1_000_000).multiplier), (15, 132));
    for error_ns in [0, 1, 2, 59, 60, 1000, 123_456, 1_000_000, 16_000_000_000, u64::MAX / 2, u64::MAX] {
        let told = of(error_ns).error_ns().expect("no multiplier is 0");
        assert!(told >= error_ns, "{error_ns}: {told}");
        let most = (u128::from(error_ns) + u128::from(error_ns.div_ceil(100))).max(2);
        assert!(u128::from(told) <= most || told == u64::MAX, "{error_ns}: {told}");
    }
    assert_eq!(ErrorEstimate::from_bits(0).error_ns(), None);
    for bits in 0..=u16::MAX {
        assert_eq!(ErrorEstimate::from_bits(bits).to_bits(), bits);
    }
}

#[test]
fn values_have_the_octets_drawn() {
    let service = tlv::ClassOfService {
        wanted_dscp: 46,
        received_dscp: 0b10_0110,
        received_ecn: 0b11,
        reverse_path: 0b01,
    };
    assert_eq!(service.to_octets(), [0b1011_1010, 0b0110_1101, 0, 0]);
    assert_eq!(tlv::ClassOfService::from_octets(&service.to_octets()), Some(service));
    let counters = tlv::DirectMeasurement {
        sender_transmitted: 0x0102_0304,
        reflector_received: 0x0506_0708,
        reflector_transmitted: 0x090a_0b0c,
    };
    assert_eq!(counters.to_octets(), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    assert_eq!(tlv::DirectMeasurement::from_octets(&counters.to_octets()), Some(counters));
    let how = tlv::TimestampInformation { sync_in: 1, method_in: 2, sync_out: 5, method_out: 3 };
    assert_eq!(how.to_octets(), [1, 2, 5, 3]);
    assert_eq!(tlv::TimestampInformation::from_octets(&[1, 2, 5, 3]), Some(how));
    let report = tlv::AccessReport { access_id: 2, return_code: 1 };
    assert_eq!(report.to_octets(), [0x20, 1, 0, 0]);
    assert_eq!(tlv::AccessReport::from_octets(&[0x2f, 1, 9, 9]), Some(report), "zeroes are not looked at");
    let follow_up = tlv::FollowUp { sequence: 0x0102_0304, timestamp: 0x0506_0708_090a_0b0c, method: 2 };
    assert_eq!(follow_up.to_octets(), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 2, 0, 0, 0]);
    assert_eq!(tlv::FollowUp::from_octets(&follow_up.to_octets()), Some(follow_up));
    assert_eq!(tlv::FollowUp::from_octets(&[0; 15]), None);
    let ports = tlv::Location { destination_port: 862, source_port: 0x1234 };
    assert_eq!(ports.to_octets(), [0x03, 0x5e, 0x12, 0x34]);
    assert_eq!(tlv::Location::from_octets(&[0x03, 0x5e, 0x12, 0x34, 9]), Some(ports));
    let v4 = tlv::address_octets(IpAddr::V4(Ipv4Addr::new(1, 2, 3, 4)));
    assert_eq!(v4, octets::<16>(&[(0, &[1, 2, 3, 4])]));
    assert_eq!(tlv::address_octets(IpAddr::V6(Ipv6Addr::LOCALHOST)), octets::<16>(&[(15, &[1])]));
}

#[test]
fn tlvs_are_found_one_after_the_other() {
    let mut buffer = [0xee; 64];
    let first = tlv::write(&mut buffer, tlv::kind::ACCESS_REPORT, &[0x10, 1, 0, 0]).expect("room");
    let second = tlv::write(&mut buffer[first..], 200, &[7; 5]).expect("room");
    assert_eq!((first, second), (8, 9));
    assert_eq!(buffer[..17], [0x80, 6, 0, 4, 0x10, 1, 0, 0, 0x80, 200, 0, 5, 7, 7, 7, 7, 7]);
    assert_eq!(tlv::write(&mut buffer[..8], 1, &[0; 5]), None, "no room");
    let mut spans = Span::all(&buffer[..17]);
    let report = spans.next().expect("one");
    assert_eq!(
        (report.at, report.kind, report.flags, report.value(), report.whole),
        (0, 6, 0x80, 4..8, true)
    );
    assert!(report.is_known() && !report.is_malformed(&buffer));
    let private = spans.next().expect("two");
    assert_eq!((private.at, private.kind, private.value(), private.end()), (8, 200, 12..17, 17));
    assert!(!private.is_known() && !private.is_malformed(&buffer));
    assert_eq!(spans.next(), None);
}

#[test]
fn a_tlv_that_is_cut_off_is_malformed() {
    let whole = [0x80, 4, 0, 4, 0xb8, 0, 0, 0];
    assert_eq!(Span::at(&whole, 8), None);
    for length in 1..8 {
        let cut = &whole[..length];
        let span = Span::at(cut, 0).expect("there are bytes");
        assert!(!span.whole && span.is_malformed(cut), "{length}");
        assert_eq!(span.end(), length, "the last one takes the rest");
        assert_eq!(Span::all(cut).count(), 1);
    }
}

#[test]
fn a_length_that_is_not_that_of_the_type_is_malformed() {
    let right = [(1, 0), (1, 9), (2, 4), (3, 4), (4, 4), (5, 12), (6, 4), (7, 16), (8, 16), (99, 0), (99, 3)];
    let wrong = [(2, 3), (2, 5), (3, 5), (4, 0), (5, 11), (6, 8), (7, 15), (8, 17)];
    for (cases, malformed) in [(&right[..], false), (&wrong[..], true)] {
        for (kind, length) in cases {
            let mut octets = [0; 64];
            octets[1] = *kind;
            octets[3] = *length;
            let span = Span::at(&octets, 0).expect("there are bytes");
            assert_eq!(span.is_malformed(&octets), malformed, "type {kind}, length {length}");
        }
    }
    // Location with a sub-TLV that reaches over its end.
    let location = [0x80, 2, 0, 8, 0, 0, 0, 0, 0x80, 7, 0, 16];
    assert!(Span::at(&location, 0).expect("there are bytes").is_malformed(&location));
}
