//! What a datagram carries, by its bytes alone.

use quaver_abi::wire::hbrmt::HbrmtHeader;
use quaver_abi::wire::jitlat::{TEST_PACKET_BYTES, TEST_PORT, TestPacket};
use quaver_abi::wire::rfc4175::VideoHeader;
use quaver_abi::wire::rtp::{HEADER_BYTES as RTP_BYTES, RtpHeader};
use quaver_abi::wire::stamp::time::TimestampFormat;
use quaver_abi::wire::stamp::{Mode, PORT as STAMP_PORT, ReflectorPacket, SenderPacket};
use quaver_abi::wire::stream::StreamHeader;
use quaver_arrivals::rtp::{RtpFields, RtpHeaderFields};
use std::mem::discriminant;

/// A sender's time is believed to be one where it lies this near to that of the capture: by chance one packet of a
/// million looks so. Clocks farther apart are known by their ports alone.
const NEAR_NS: u64 = 3_600_000_000_000;
/// Bytes of a packet of a STAMP that is authenticated.
const AUTHENTICATED_BYTES: usize = 112;

/// What our own source says in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamFacts {
    /// Number of the stream.
    pub stream_id: u32,
    /// Number of the packet, from 0.
    pub sequence: u64,
    /// Sent, CLOCK_MONOTONIC nanoseconds of the sender.
    pub sent_ns: i64,
}

/// What a test packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeFacts {
    /// Number of the packet, wrapping.
    pub sequence: u32,
    /// Sent, CLOCK_REALTIME nanoseconds of the sender.
    pub sent_ns: i64,
    /// Session, where there is one.
    pub session: Option<u16>,
}

/// What a datagram carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Payload {
    /// Bytes that could be RTP; that they are is known by several only.
    Rtp {
        /// Sequence number.
        sequence: u16,
        /// Headers.
        fields: RtpFields,
        /// What our source says behind them.
        ours: Option<StreamFacts>,
    },
    /// A packet of our source.
    Stream(StreamFacts),
    /// A test packet of a path.
    Probe(ProbeFacts),
    /// A sender's packet of STAMP.
    Stamp(ProbeFacts),
    /// A reflector's packet of STAMP; sent is T3.
    StampReply(ProbeFacts),
    /// The end of a test of Jitlat: no packet that counts.
    Sentinel,
    /// Anything else.
    #[default]
    Other,
}

/// Bytes of the shortest header of those below.
const LEAST_BYTES: usize = RTP_BYTES;

impl Payload {
    /// Bytes of each datagram of a train: a sender gives it to its kernel in one piece (UDP_SEGMENT), and it is cut apart behind the
    /// place of capture, or a receiving kernel puts it together before (UDP_GRO). It is known by a second header with the next
    /// number. None where `octets` are one datagram. `of` tells what bytes carry.
    pub fn train_octets(&self, octets: &[u8], of: impl Fn(&[u8]) -> Self) -> Option<usize> {
        // Where the header has its number, and how long that is.
        let (at, width) = match self {
            Self::Rtp { .. } => (2, 2),
            Self::Probe(_) => (8, 4),
            Self::Stamp(_) | Self::StampReply(_) => (0, 4),
            Self::Stream(_) | Self::Sentinel | Self::Other => return None,
        };
        let (number, stream) = self.numbered()?;
        let next = &number.wrapping_add(1).to_be_bytes()[4 - width..];
        let follows = |place: &usize| {
            let other = of(&octets[*place..]);
            let numbered = other
                .numbered()
                .is_some_and(|(number, its)| number.to_be_bytes()[4 - width..] == *next && its == stream);
            numbered && discriminant(&other) == discriminant(self)
        };
        let places = memchr::memmem::find_iter(octets.get(at + LEAST_BYTES..)?, next);
        places.map(|place| place + LEAST_BYTES).find(follows)
    }

    /// Its number, and what its stream is called among those of its kind.
    fn numbered(&self) -> Option<(u32, Option<u32>)> {
        match self {
            Self::Rtp { sequence, fields, .. } => Some((u32::from(*sequence), fields.header?.ssrc)),
            Self::Probe(probe) | Self::Stamp(probe) | Self::StampReply(probe) => {
                Some((probe.sequence, probe.session.map(u32::from)))
            }
            Self::Stream(_) | Self::Sentinel | Self::Other => None,
        }
    }

    /// What the bytes of a datagram are. `near_ns` is when it was captured, CLOCK_REALTIME; without it test packets are
    /// known by their ports alone. `datagram_octets` is how long it was on the wire, of which `octets` may hold less.
    pub fn of(octets: &[u8], datagram_octets: u32, ports: (u16, u16), near_ns: Option<i64>) -> Self {
        let stream = stream(octets);
        let on = |port| ports.0 == port || ports.1 == port;
        let near = |ns: i64| near_ns.is_some_and(|near_ns| ns.abs_diff(near_ns) <= NEAR_NS);
        let rtp = rtp(octets, datagram_octets);
        if stream.is_none() {
            if let Some(probe) = probe(octets, on(TEST_PORT), near) {
                return probe;
            }
            // At some time a timestamp of RTP passes the seconds of a wall clock. Numbers of STAMP begin at 0, so its packets look
            // like RTP only after 2^31 of them.
            let may_be_stamp = rtp.is_none() || on(STAMP_PORT);
            if may_be_stamp && let Some(stamp) = stamp(octets, datagram_octets, on(STAMP_PORT), near_ns, near)
            {
                return stamp;
            }
        }
        match (rtp, stream) {
            (Some((sequence, fields)), ours) => Self::Rtp { sequence, fields, ours },
            (None, Some(stream)) => Self::Stream(stream),
            (None, None) => Self::Other,
        }
    }
}

/// Our own header: at the start, or behind any of the headers that our profiles use.
fn stream(octets: &[u8]) -> Option<StreamFacts> {
    let behind = || {
        let (_, at) = RtpHeader::read(octets)?;
        let rest = &octets[at..];
        let video = VideoHeader::read(rest).map(|(_, pixels)| pixels);
        let hbrmt = HbrmtHeader::read(rest).map(|(_, media)| media);
        [Some(0), video, hbrmt]
            .into_iter()
            .flatten()
            .find_map(|offset| StreamHeader::read(rest.get(offset..)?))
    };
    let header = StreamHeader::read(octets).or_else(behind)?;
    Some(StreamFacts {
        stream_id: header.stream_id.get(),
        sequence: header.seq.get(),
        sent_ns: header.sent_ns.get(),
    })
}

/// Whether a payload type is assigned or dynamic (RFC 3551, section 6). Those of 35 to 63 are unassigned, and taken where the
/// dynamic ones do not suffice (section 3), as browsers do.
fn is_in_use(payload_type: u8) -> bool {
    matches!(payload_type, 0..=63 | 96..=127)
}

fn rtp(octets: &[u8], datagram_octets: u32) -> Option<(u16, RtpFields)> {
    let (header, offset) = RtpHeader::read(octets)?;
    if !is_in_use(header.marker_and_type & 0x7f) {
        return None;
    }
    let head = octets.get(RTP_BYTES..RTP_BYTES + 8).filter(|_| offset == RTP_BYTES);
    let rest = RtpHeaderFields {
        marker: header.marker(),
        payload_type: header.marker_and_type & 0x7f,
        ssrc: Some(header.ssrc.get()),
        head: head.and_then(|head| head.try_into().ok()),
    };
    let fields =
        RtpFields { timestamp: header.timestamp.get(), payload_bytes: datagram_octets, header: Some(rest) };
    Some((header.sequence.get(), fields))
}

fn probe(octets: &[u8], on_port: bool, near: impl Fn(i64) -> bool) -> Option<Payload> {
    let packet = TestPacket::from_octets(octets.get(..TEST_PACKET_BYTES)?).ok()?;
    if !on_port && !near(packet.tx_real_time_ns) {
        return None;
    }
    if packet.is_sentinel() {
        return Some(Payload::Sentinel);
    }
    // Another thing on Jitlat's port: a cookie, or a time of before 1970.
    let sequence = packet.tx_seq.cast_unsigned();
    let facts = ProbeFacts { sequence, sent_ns: packet.tx_real_time_ns, session: None };
    (packet.tx_real_time_ns > 0 && (near(packet.tx_real_time_ns) || !octets.starts_with(b"Quavr")))
        .then_some(Payload::Probe(facts))
}

fn stamp(
    octets: &[u8],
    datagram_octets: u32,
    on_port: bool,
    near_ns: Option<i64>,
    near: impl Fn(i64) -> bool,
) -> Option<Payload> {
    let near_ns = near_ns?;
    let modes = [(Mode::Unauthenticated, 44), (Mode::Authenticated, AUTHENTICATED_BYTES)];
    for (mode, _) in modes.into_iter().rev().filter(|(_, least)| datagram_octets as usize >= *least) {
        let Ok(sender) = SenderPacket::read(mode, octets) else { continue };
        // An authenticated packet has zeros where the other has its time.
        if mode == Mode::Authenticated && octets.get(4..16) != Some(&[0; 12]) {
            continue;
        }
        let format = sender.error_estimate.format;
        let sent_ns = format.decode(sender.timestamp, near_ns);
        if !near(sent_ns) || !(on_port || is_stamp_time(format, sender.timestamp)) {
            continue;
        }
        let session = (sender.ssid != 0).then_some(sender.ssid);
        let facts = ProbeFacts { sequence: sender.sequence, sent_ns, session };
        let reply = ReflectorPacket::read(mode, octets).is_ok_and(|reply| {
            reply.receive_timestamp != 0 && near(format.decode(reply.receive_timestamp, near_ns))
        });
        return Some(if reply { Payload::StampReply(facts) } else { Payload::Stamp(facts) });
    }
    None
}

/// A PTP stamp has whole nanoseconds in its low half; an NTP stamp may have anything.
fn is_stamp_time(format: TimestampFormat, stamp: u64) -> bool {
    format == TimestampFormat::Ntp || stamp & 0xffff_ffff < 1_000_000_000
}
