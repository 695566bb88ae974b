//! What a stream looks like: its packets and when they are due, for the streams that our papers and the
//! broadcast standards use.

use super::schedule::{Schedule, ScheduleError};
use quaver_abi::wire::hbrmt::{self, HbrmtHeader};
use quaver_abi::wire::rfc4175::{self, LineHeader, VideoHeader};
use quaver_abi::wire::rtp::{self, RtpHeader};
use quaver_abi::wire::stream::{self, StreamHeader};
use std::str::FromStr;
use zerocopy::IntoBytes;
use zerocopy::byteorder::network_endian::{I64, U16, U32, U64};

/// A frame at 29.97 Hz lasts 1001/30000 s.
const FRAME_29_97_NS: (u64, u64) = (1_001_000_000_000, 30_000);
/// Packets of a 1080i29.97 frame: 2200 x 1125 samples of 20 bits make 6,187,500 bytes, 1376 to a packet.
const HD_SDI_PACKETS: u64 = 4_497;
/// Packets of a 1080p29.97 frame of active pixels: four of 480 pixels to each of 1080 lines.
const ACTIVE_PACKETS: u64 = 4_320;
const PACKETS_PER_LINE: u64 = 4;
/// 480 pixels 4:2:2 of 10 bits: 5 bytes for each 2 pixels (RFC 4175, section 4.3).
const LINE_PART_BYTES: u16 = 1_200;
const LINE_PART_PIXELS: u16 = 480;
/// Ethernet, IPv4 and UDP headers in front of a UDP payload.
const UDP_FRAME_BYTES: usize = 14 + 20 + 8;

/// Streams with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProfileName {
    /// SMPTE ST 2022-6, 1080i29.97: RTP, HBRMT header and 1376 bytes of media; 4497 packets a frame, so one
    /// each 1001/30000 s / 4497 = 7.4198 us.
    St2022_6,
    /// SMPTE ST 2110-20, 1080p29.97, 4:2:2 of 10 bits, 1200 bytes of pixels a packet, 4320 packets a frame.
    /// Linear as ST 2110-21 type NL: one each 1001/30000 s / 4320 = 7.7238 us. (The first packet is the stream's
    /// first deadline; TR_OFFSET, 43/1125 of the frame, lies before it.)
    St2110_20Linear,
    /// The same packets, gapped as ST 2110-21 type N: 1080/1125 of the line time for each, 7.4148 us apart; the
    /// vertical blanking, 4 % of the frame, stays silent.
    St2110_20Gapped,
    /// Pattern 1 of the timestamping paper: 140-octet packets each 20 ms, as one direction of a G.729 call. With
    /// the paper's gap of 2,499,860 bytes at 1 Gbit/s, packet and gap make 20 ms exactly, so the 140 bytes are
    /// the Ethernet frame without preamble; we take it as header (14), IPv4 (20), UDP (8) and 98 bytes of UDP
    /// payload, without check sequence. The payload is RTP of type 18 (20 ms of G.729 itself would be 20 bytes).
    G729,
    /// G.711: RTP of type 0 and 160 bytes each 20 ms (RFC 3551, section 4.5.14).
    G711,
    /// Pattern 2 of the timestamping paper: 1368-octet packets with a gap of 169,631 bytes at 1 Gbit/s, so one
    /// each (1368 + 169,631) x 8 ns = 1,367,992 ns, 8 Mbit/s. Counted as for G.729: 1326 bytes of UDP payload.
    Hd1368,
}

impl ProfileName {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::St2022_6, Self::St2110_20Linear, Self::St2110_20Gapped, Self::G729, Self::G711, Self::Hd1368];

    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::St2022_6 => "st2022-6",
            Self::St2110_20Linear => "st2110-20",
            Self::St2110_20Gapped => "st2110-20-gapped",
            Self::G729 => "g729",
            Self::G711 => "g711",
            Self::Hd1368 => "hd-1368",
        }
    }
}

/// No profile has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("profile {0:?}: use one of st2022-6, st2110-20, st2110-20-gapped, g729, g711, hd-1368")]
pub struct UnknownProfile(pub String);

impl FromStr for ProfileName {
    type Err = UnknownProfile;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "st2110-20-linear" => Ok(Self::St2110_20Linear),
            _ => Self::ALL
                .into_iter()
                .find(|known| known.name() == name)
                .ok_or_else(|| UnknownProfile(name.to_owned())),
        }
    }
}

/// A packet too small to be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("UDP payload of {0} bytes: give {min} to 65507, as our stream header takes {min}", min = stream::HEADER_BYTES)]
pub struct PayloadSize(pub usize);

/// What comes before our stream header, and changes from packet to packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leading {
    Nothing,
    /// RTP with this type and this advance of the timestamp.
    Rtp {
        payload_type: u8,
        ticks: u32,
    },
    /// RTP, HBRMT of 1080i29.97.
    Hbrmt,
    /// RTP, RFC 4175 header of 1080p29.97.
    Video,
}

impl Leading {
    const fn bytes(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Rtp { .. } => rtp::HEADER_BYTES,
            Self::Hbrmt => rtp::HEADER_BYTES + hbrmt::HEADER_BYTES,
            Self::Video => rtp::HEADER_BYTES + rfc4175::HEADER_BYTES,
        }
    }
}

/// Packets of a stream and when they are due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    pub(crate) schedule: Schedule,
    payload_bytes: usize,
    leading: Leading,
}

impl Profile {
    /// Packets of `payload_bytes` bytes of UDP payload with our stream header only.
    ///
    /// # Errors
    /// When our header does not fit, or UDP cannot carry it.
    pub fn plain(payload_bytes: usize, schedule: Schedule) -> Result<Self, PayloadSize> {
        if !(stream::HEADER_BYTES..=65_507).contains(&payload_bytes) {
            return Err(PayloadSize(payload_bytes));
        }
        Ok(Self { schedule, payload_bytes, leading: Leading::Nothing })
    }

    /// The stream of that name.
    pub fn named(name: ProfileName) -> Self {
        let (leading, media, schedule) = match name {
            ProfileName::St2022_6 => (
                Leading::Hbrmt,
                hbrmt::MEDIA_BYTES,
                every(FRAME_29_97_NS.0, FRAME_29_97_NS.1 * HD_SDI_PACKETS),
            ),
            ProfileName::St2110_20Linear => (
                Leading::Video,
                usize::from(LINE_PART_BYTES),
                every(FRAME_29_97_NS.0, FRAME_29_97_NS.1 * ACTIVE_PACKETS),
            ),
            ProfileName::St2110_20Gapped => (
                Leading::Video,
                usize::from(LINE_PART_BYTES),
                valid(Schedule::framed(
                    FRAME_29_97_NS,
                    ACTIVE_PACKETS,
                    (FRAME_29_97_NS.0 * 1_080, FRAME_29_97_NS.1 * 1_125 * ACTIVE_PACKETS),
                )),
            ),
            ProfileName::G729 => {
                let leading = Leading::Rtp { payload_type: 18, ticks: 160 };
                (leading, 140 - UDP_FRAME_BYTES - leading.bytes(), every(20_000_000, 1))
            }
            ProfileName::G711 => (Leading::Rtp { payload_type: 0, ticks: 160 }, 160, every(20_000_000, 1)),
            ProfileName::Hd1368 => {
                (Leading::Nothing, 1_368 - UDP_FRAME_BYTES, every((1_368 + 169_631) * 8, 1))
            }
        };
        Self { schedule, payload_bytes: leading.bytes() + media, leading }
    }

    /// When packets are due.
    pub fn schedule(&self) -> Schedule {
        self.schedule
    }

    /// UDP payload of each packet in bytes.
    pub fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Bytes of the payload before our stream header.
    pub fn header_offset(&self) -> usize {
        self.leading.bytes()
    }

    /// A packet with everything that stays the same, for [`Self::write_sequence`] and [`Self::write_times`].
    pub fn template(&self, stream_id: u32) -> Vec<u8> {
        // Filler that no run-length or link compression would shrink to nothing.
        let mut packet: Vec<u8> =
            (0..self.payload_bytes as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let header = StreamHeader {
            magic: stream::MAGIC,
            stream_id: U32::new(stream_id),
            seq: U64::new(0),
            deadline_ns: I64::new(0),
            sent_ns: I64::new(0),
        };
        let at = self.header_offset();
        packet[at..at + stream::HEADER_BYTES].copy_from_slice(header.as_bytes());
        packet
    }

    /// Puts packet number `seq` into `packet` (from [`Self::template`]): the headers before ours, and our
    /// sequence number.
    #[inline]
    pub fn write_sequence(&self, packet: &mut [u8], stream_id: u32, seq: u64) {
        let sequence = seq as u16;
        match self.leading {
            Leading::Nothing => {}
            Leading::Rtp { payload_type, ticks } => {
                let timestamp = (seq as u32).wrapping_mul(ticks);
                put(packet, 0, &RtpHeader::new(payload_type, seq == 0, sequence, timestamp, stream_id));
            }
            Leading::Hbrmt => {
                let (frame, place) = (seq / HD_SDI_PACKETS, seq % HD_SDI_PACKETS);
                // 27 MHz x 1001/30000 s = 900,900 ticks a frame; each packet carries its own instant.
                let timestamp = frame.wrapping_mul(900_900).wrapping_add(place * 900_900 / HD_SDI_PACKETS);
                let last = place == HD_SDI_PACKETS - 1;
                put(
                    packet,
                    0,
                    &RtpHeader::new(hbrmt::RTP_PAYLOAD_TYPE, last, sequence, timestamp as u32, stream_id),
                );
                put(packet, rtp::HEADER_BYTES, &HbrmtHeader::new(&hd_sdi_fields(frame as u8)));
            }
            Leading::Video => {
                let (frame, place) = (seq / ACTIVE_PACKETS, seq % ACTIVE_PACKETS);
                // 90 kHz x 1001/30000 s = 3003 ticks; all packets of a frame carry the frame's instant.
                let timestamp = frame.wrapping_mul(3_003) as u32;
                let last = place == ACTIVE_PACKETS - 1;
                put(packet, 0, &RtpHeader::new(112, last, sequence, timestamp, stream_id));
                let (line, part) = ((place / PACKETS_PER_LINE) as u16, (place % PACKETS_PER_LINE) as u16);
                let header = VideoHeader {
                    extended_sequence: U16::new((seq >> 16) as u16),
                    line: LineHeader::last(LINE_PART_BYTES, false, line, part * LINE_PART_PIXELS),
                };
                put(packet, rtp::HEADER_BYTES, &header);
            }
        }
        put(packet, self.header_offset() + 8, &U64::new(seq));
    }

    /// Puts the deadline and the instant of sending (CLOCK_MONOTONIC, ns) into `packet`.
    #[inline]
    pub fn write_times(&self, packet: &mut [u8], deadline_ns: i64, sent_ns: i64) {
        put(packet, self.header_offset() + 16, &[I64::new(deadline_ns), I64::new(sent_ns)]);
    }
}

fn hd_sdi_fields(frame_count: u8) -> hbrmt::Fields {
    hbrmt::Fields {
        source_format: true,
        frame_count,
        frame: hbrmt::frame::HD_1080_INTERLACED,
        frame_rate: hbrmt::frame_rate::FPS_29_97,
        sample: hbrmt::sample::YCBCR_422_10,
        ..hbrmt::Fields::default()
    }
}

#[inline(always)]
fn put<T: IntoBytes + zerocopy::Immutable + ?Sized>(packet: &mut [u8], at: usize, value: &T) {
    let octets = value.as_bytes();
    packet[at..at + octets.len()].copy_from_slice(octets);
}

fn every(numerator: u64, denominator: u64) -> Schedule {
    valid(Schedule::every(numerator, denominator))
}

fn valid(schedule: Result<Schedule, ScheduleError>) -> Schedule {
    schedule.expect("the numbers of the named profiles are constants that a test goes through")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(name: ProfileName, seq: u64) -> Vec<u8> {
        let profile = Profile::named(name);
        let mut packet = profile.template(7);
        profile.write_sequence(&mut packet, 7, seq);
        profile.write_times(&mut packet, 1_000, 2_000);
        packet
    }

    #[test]
    fn our_header_is_where_the_profile_says() {
        for name in ProfileName::ALL {
            let octets = packet(name, 70_000);
            let header = StreamHeader::read(&octets[Profile::named(name).header_offset()..]).unwrap();
            assert_eq!(
                (header.seq.get(), header.stream_id.get(), header.deadline_ns.get(), header.sent_ns.get()),
                (70_000, 7, 1_000, 2_000),
                "{}",
                name.name()
            );
            assert_eq!(name.name().parse(), Ok(name));
        }
        assert!("st2022-7".parse::<ProfileName>().is_err());
    }

    #[test]
    fn sizes_and_mean_periods() {
        let of = |name| {
            let profile = Profile::named(name);
            (profile.payload_bytes(), profile.header_offset(), profile.schedule().mean_period_ns())
        };
        assert_eq!(of(ProfileName::St2022_6), (1_396, 20, (100_100_000, 13_491)));
        assert_eq!(of(ProfileName::St2110_20Linear), (1_220, 20, (2_502_500, 324)).reduced());
        assert_eq!(of(ProfileName::St2110_20Gapped), (1_220, 20, (2_502_500, 324)).reduced());
        assert_eq!(of(ProfileName::G729), (98, 12, (20_000_000, 1)));
        assert_eq!(of(ProfileName::G711), (172, 12, (20_000_000, 1)));
        assert_eq!(of(ProfileName::Hd1368), (1_326, 0, (1_367_992, 1)));
    }

    trait Reduced {
        fn reduced(self) -> Self;
    }

    impl Reduced for (usize, usize, (u128, u128)) {
        fn reduced(self) -> Self {
            let (a, b) = self.2;
            let divisor = (1..=b).rev().find(|d| a % d == 0 && b % d == 0).unwrap();
            (self.0, self.1, (a / divisor, b / divisor))
        }
    }

    #[test]
    fn st2022_6_frames() {
        let last = packet(ProfileName::St2022_6, 2 * HD_SDI_PACKETS - 1);
        let (rtp, media) = RtpHeader::read(&last).unwrap();
        assert_eq!((rtp.marker(), rtp.marker_and_type & 0x7f, rtp.sequence.get()), (true, 98, 8_993));
        assert_eq!(rtp.timestamp.get(), 900_900 + 4_496 * 900_900 / 4_497);
        let (header, media_at) = HbrmtHeader::read(&last[media..]).unwrap();
        assert_eq!(header.fields(), hd_sdi_fields(1));
        assert_eq!(last.len() - media - media_at, 1_376);
        let first = packet(ProfileName::St2022_6, 2 * HD_SDI_PACKETS);
        let (rtp, _) = RtpHeader::read(&first).unwrap();
        assert_eq!((rtp.marker(), rtp.timestamp.get()), (false, 1_801_800));
    }

    #[test]
    fn st2110_20_lines() {
        let octets = packet(ProfileName::St2110_20Linear, ACTIVE_PACKETS * 100 + 7);
        let (rtp, at) = RtpHeader::read(&octets).unwrap();
        let (header, pixels) = VideoHeader::read(&octets[at..]).unwrap();
        assert_eq!(header.sequence(rtp.sequence.get()), 432_007);
        assert_eq!((header.line.field_and_line.get(), header.line.more_and_offset.get()), (1, 1_440));
        assert_eq!(octets.len() - at - pixels, usize::from(header.line.length.get()));
        assert_eq!(rtp.timestamp.get(), 300_300);
    }

    #[test]
    fn gapped_sends_only_during_active_video() {
        let (gapped, linear) =
            (Profile::named(ProfileName::St2110_20Gapped), Profile::named(ProfileName::St2110_20Linear));
        let frame = 33_366_666;
        assert_eq!(gapped.schedule().offset_ns(ACTIVE_PACKETS), frame);
        assert_eq!(linear.schedule().offset_ns(ACTIVE_PACKETS), frame);
        let active = gapped.schedule().offset_ns(ACTIVE_PACKETS - 1);
        assert!(active < frame * 1_080 / 1_125 && active > frame * 1_079 / 1_125);
        assert_eq!((gapped.schedule().spacing_ns(), linear.schedule().spacing_ns()), (7_415, 7_724));
    }

    #[test]
    fn a_packet_must_hold_our_header() {
        let schedule = every(1_000, 1);
        assert_eq!(Profile::plain(31, schedule), Err(PayloadSize(31)));
        assert!(Profile::plain(65_508, schedule).is_err());
        assert_eq!(Profile::plain(32, schedule).unwrap().template(1).len(), 32);
    }
}
