//! The shape of an ST 2110-20 stream by ST 2110-21, its format learned from the stream itself.

use super::RtpPacket;
use super::clock::Unwrapped;
use super::kind::{RtpKind, video_header, video_sequence};
use super::told::VideoTold;
use crate::gapped::frames::packets_per_frame;
use crate::gapped::{Datum, Scan, VideoFormat, VideoPacket, VideoTiming, video_timing};
use crate::path::arrival::Numbering;
use quaver_abi::wire::rfc4175::RTP_CLOCK_HZ;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How International Atomic Time is known on the measured host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tai {
    /// The kernel's TAI less UTC in seconds (`adjtimex`); 0: nobody told the kernel.
    pub offset_s: i32,
    /// CLOCK_REALTIME less CLOCK_MONOTONIC, nanoseconds; none where it changed by steps during the run.
    pub realtime_minus_monotonic_ns: Option<i64>,
}

impl Tai {
    /// What CLOCK_MONOTONIC stamps need to become TAI; none where it is not known.
    fn minus_monotonic_ns(&self) -> Option<i64> {
        let offset_ns = i64::from(self.offset_s) * 1_000_000_000;
        (self.offset_s != 0).then_some(self.realtime_minus_monotonic_ns?.saturating_add(offset_ns))
    }
}

/// What the stream is and how it is shaped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VideoFigures {
    /// What somebody told of the format; the following is learned where nothing was told of it.
    #[serde(default, skip_serializing_if = "VideoTold::is_empty")]
    pub told: VideoTold,
    /// Frames a second as a fraction, learned from the timestamps.
    pub frame_rate: Option<(u32, u32)>,
    /// How it is scanned, learned from the field bit and the lines.
    pub scan: Option<Scan>,
    /// Lines of the image: the largest number seen and one, twice that where interlaced.
    pub height: Option<u32>,
    /// N_PACKETS as seen.
    pub packets_per_frame: Option<u64>,
    /// UDP size limit that the packets keep to, as ST 2110-21, section 7.1 counts it.
    pub max_udp_octets: Option<u32>,
    /// Both models, frames beginning with the earliest schedule by which no packet is late.
    pub observed: Option<VideoTiming>,
    /// Both models by the SMPTE epoch, where the kernel knows TAI.
    pub epoch: Option<VideoTiming>,
    /// TAI less UTC as the kernel has it; none where it was not asked.
    pub kernel_tai_offset_s: Option<i32>,
    /// Why a figure is missing, or is to be read with care.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// Frame rates of ST 2110-20 senders.
const RATES: [(u32, u32); 13] = [
    (24_000, 1_001),
    (24, 1),
    (25, 1),
    (30_000, 1_001),
    (30, 1),
    (48_000, 1_001),
    (48, 1),
    (50, 1),
    (60_000, 1_001),
    (60, 1),
    (100, 1),
    (120_000, 1_001),
    (120, 1),
];
/// Half of what 1000/1001 makes.
const NEAR: f64 = 0.000_5;
/// Largest UDP datagram, header included, by the standard limit of ST 2110-10.
const STANDARD_UDP_BYTES: u32 = 1_460;
/// Extended UDP size limit of ST 2110-10.
const EXTENDED_UDP_OCTETS: u32 = 8_960;
const UDP_HEADER_BYTES: u32 = 8;

/// Puts the sequence numbers of 32 bits, unwrapped, into packets in order of arrival.
pub(super) fn extend_sequence(packets: &mut [RtpPacket]) {
    // A wrap above zero, so that packets that overtook the first have room below it.
    let mut highest: Option<u64> = None;
    for packet in packets {
        let Some(number) = video_sequence(packet) else { continue };
        let near = *highest.get_or_insert((1 << 32) + u64::from(number));
        packet.sequence = Numbering::Full.unwrap(number, near).unwrap_or(near);
        highest = Some(near.max(packet.sequence));
    }
}

/// Whether there is a second field.
pub(super) fn is_interlaced(kind: RtpKind, packets: &[RtpPacket]) -> bool {
    kind == RtpKind::St2110_20 && packets.iter().any(second_field)
}

fn second_field(packet: &RtpPacket) -> bool {
    video_header(packet).is_some_and(|header| header.line.second_field())
}

/// Figures of a stream whose packets stand in order of arrival, and its first copies in that of their numbers.
pub(super) fn of(
    packets: &[RtpPacket],
    in_order: &[RtpPacket],
    tai: Option<Tai>,
    told: VideoTold,
) -> VideoFigures {
    let kernel_tai_offset_s = tai.map(|tai| tai.offset_s);
    let mut figures = VideoFigures { kernel_tai_offset_s, told, ..VideoFigures::default() };
    let interlaced = told.interlaced.unwrap_or_else(|| in_order.iter().any(second_field));
    let height = height(in_order, interlaced, &mut figures);
    let scan = scan(interlaced, height);
    (figures.height, figures.scan) = (Some(height), scan);
    let longest =
        packets.iter().map(|packet| packet.fields.payload_bytes + UDP_HEADER_BYTES).max().unwrap_or(0);
    figures.max_udp_octets = Some(if longest <= STANDARD_UDP_BYTES {
        VideoFormat::STANDARD_UDP_OCTETS
    } else {
        EXTENDED_UDP_OCTETS
    });
    let Some(scan) = scan else {
        figures
            .notes
            .push(format!("no interlaced format has {height} lines, so C_INST and VRX are not known"));
        return figures;
    };
    let sent: Vec<VideoPacket> = packets.iter().map(|packet| video_packet(packet, 0)).collect();
    figures.packets_per_frame = packets_per_frame(&sent, scan);
    let Some(per_frame) = figures.packets_per_frame else {
        figures
            .notes
            .push("fewer than two ends of frames were seen, so C_INST and VRX are not known".to_owned());
        return figures;
    };
    figures.frame_rate = told.frame_rate.or_else(|| frame_rate(in_order, interlaced, per_frame));
    let Some(rate) = figures.frame_rate else {
        figures
            .notes
            .push("the timestamps tell no frame rate in use, so C_INST and VRX are not known".to_owned());
        return figures;
    };
    let octets = figures.max_udp_octets.unwrap_or(VideoFormat::STANDARD_UDP_OCTETS);
    let Some(format) = VideoFormat::new(rate, scan, height, per_frame, octets) else {
        figures.notes.push("no video has this format, so C_INST and VRX are not known".to_owned());
        return figures;
    };
    figures.observed = Some(video_timing(&sent, &format, Datum::Observed));
    match tai.and_then(|tai| tai.minus_monotonic_ns()) {
        Some(shift_ns) => {
            let sent: Vec<VideoPacket> =
                packets.iter().map(|packet| video_packet(packet, shift_ns)).collect();
            let datum = Datum::SmpteEpoch { offset_ns: told.troff_ns };
            figures.epoch = Some(video_timing(&sent, &format, datum));
            let offset = match told.troff_ns {
                Some(_) => "the TROFF that was told",
                None => "TRO_DEFAULT, for senders that signal no TROFF",
            };
            figures.notes.push(format!(
                "VRX by the SMPTE epoch takes the kernel's TAI and {offset}: it holds where this host's clock follows that \
                 of the sender (PTP)"
            ));
        }
        None => figures.notes.push(no_epoch(tai)),
    }
    figures
}

/// Lines of the image as told, or as seen. Both are said where they differ.
fn height(in_order: &[RtpPacket], interlaced: bool, figures: &mut VideoFigures) -> u32 {
    let lines = in_order.iter().filter_map(video_header).map(|header| header.line.number());
    let seen = lines.max().map_or(0, |line| (u32::from(line) + 1) * if interlaced { 2 } else { 1 });
    let told = figures.told.height.unwrap_or(seen);
    if told != seen {
        figures.notes.push(format!(
            "the stream shows {seen} lines, {told} were told and are believed: see whether the format that was told is \
             that of this stream"
        ));
    }
    told
}

fn no_epoch(tai: Option<Tai>) -> String {
    let why = match tai {
        None => "the run does not tell this host's TAI offset",
        Some(Tai { offset_s: 0, .. }) => {
            "the kernel's TAI offset is 0, so nobody told it TAI (ptp4l or chrony would)"
        }
        Some(_) => "the wall clock was stepped during the run",
    };
    format!(
        "{why}: VRX is by the earliest schedule by which no packet is late, not by the SMPTE epoch, and C_INST is known to 1"
    )
}

fn video_packet(packet: &RtpPacket, shift_ns: i64) -> VideoPacket {
    VideoPacket {
        sequence: packet.sequence,
        arrived_ns: packet.arrived_ns.saturating_add(shift_ns),
        rtp_timestamp: packet.fields.timestamp,
        marker: packet.marker(),
        second_field: second_field(packet),
    }
}

/// Scanning by the lines of the image; none where no interlaced format has so many.
fn scan(interlaced: bool, height: u32) -> Option<Scan> {
    match (interlaced, height) {
        (false, _) => Some(Scan::Progressive),
        (true, ..=487) => Some(Scan::Interlaced525),
        (true, 488..=576) => Some(Scan::Interlaced625),
        (true, 577..=1_125) => Some(Scan::Interlaced1125),
        (true, _) => None,
    }
}

/// Frames a second, from the timestamps of the frames' last packets.
fn frame_rate(in_order: &[RtpPacket], interlaced: bool, per_frame: u64) -> Option<(u32, u32)> {
    let ends: Vec<&RtpPacket> =
        in_order.iter().filter(|packet| packet.marker() && (!interlaced || second_field(packet))).collect();
    let mut media = Unwrapped::default();
    let ticks = ends.iter().map(|end| media.next(end.fields.timestamp)).last()?;
    let frames: u64 =
        ends.windows(2).map(|pair| (pair[1].sequence - pair[0].sequence + per_frame / 2) / per_frame).sum();
    if ticks <= 0 || frames == 0 {
        return None;
    }
    let measured = f64::from(RTP_CLOCK_HZ) * frames as f64 / ticks as f64;
    let off = |rate: &(u32, u32)| (measured * f64::from(rate.1) / f64::from(rate.0) - 1.0).abs();
    RATES.into_iter().min_by(|a, b| off(a).total_cmp(&off(b))).filter(|rate| off(rate) <= NEAR)
}
