//! RTP that nobody prepared for us: what its headers and arrivals tell (RFC 3550), and of SMPTE ST 2022-6 and
//! ST 2110-20 what their own headers tell besides.
//!
//! The source with most packets is analysed; those of other sources are counted and left out.

mod clock;
mod frames;
mod hbrmt;
mod kind;
mod rolling;
mod sequence;
mod told;
mod video;

pub use clock::{ClockKnown, MediaClock};
pub use frames::FrameFigures;
pub use hbrmt::HbrmtFigures;
pub use kind::RtpKind;
pub use rolling::{RateChange, RollingRtp};
pub use sequence::SequenceFigures;
pub use told::VideoTold;
pub use video::{Tai, VideoFigures};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the RTP header of a received packet says, and the bytes behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpFields {
    /// RTP timestamp.
    pub timestamp: u32,
    /// Length of the UDP payload in bytes.
    pub payload_bytes: u32,
    /// The rest; none in runs that recorded no more.
    pub header: Option<RtpHeaderFields>,
}

/// What of the RTP header is not in [`RtpFields`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpHeaderFields {
    /// Marker.
    pub marker: bool,
    /// Payload type, 0 to 127.
    pub payload_type: u8,
    /// Synchronisation source, where it was recorded.
    pub ssrc: Option<u32>,
    /// The first bytes after the header, where there are so many and the header is the fixed one of 12 bytes.
    pub head: Option<[u8; 8]>,
}

/// One packet as it enters the analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpPacket {
    /// Sequence number, extended over wraps of its source.
    pub sequence: u64,
    /// When it arrived, CLOCK_MONOTONIC nanoseconds.
    pub arrived_ns: i64,
    /// Its headers.
    pub fields: RtpFields,
}

impl RtpPacket {
    fn ssrc(&self) -> Option<u32> {
        self.fields.header?.ssrc
    }

    fn head(&self) -> Option<[u8; 8]> {
        self.fields.header?.head
    }

    fn marker(&self) -> bool {
        self.fields.header.is_some_and(|header| header.marker)
    }
}

/// Interarrival jitter J of RTP (RFC 3550, section 6.4.1): every packet of the source in order of arrival.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interarrival {
    /// J after the last packet in ticks of the media clock, with whole numbers (appendix A.8).
    pub last_ticks: u32,
    /// Largest such J.
    pub max_ticks: u32,
    /// J after the last packet in nanoseconds, with real arithmetic (section 6.4.1).
    pub last_ns: f64,
    /// Mean of the J after each packet.
    pub mean_ns: f64,
    /// Largest J.
    pub max_ns: f64,
}

/// What is said of an RTP stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RtpSummary {
    /// What it carries.
    pub kind: RtpKind,
    /// Packets of the source analysed, copies included.
    pub packets: u64,
    /// Where arrivals were stamped, in a word: `kernel-stamp`, `application`, and of captures a layer of theirs.
    pub arrival: String,
    /// Synchronisation source analysed, where it was recorded.
    pub ssrc: Option<u32>,
    /// Packets of other sources, left out.
    pub other_sources: u64,
    /// From payload type to how many packets had it.
    pub payload_types: BTreeMap<u8, u64>,
    /// Clock of the timestamps.
    pub clock: MediaClock,
    /// Interarrival jitter.
    pub interarrival: Interarrival,
    /// Loss, copies, order.
    pub sequence: SequenceFigures,
    /// Frames by their markers, of ST 2022-6 and ST 2110-20.
    pub frames: Option<FrameFigures>,
    /// Header checks of ST 2022-6.
    pub hbrmt: Option<HbrmtFigures>,
    /// Shape of the stream by ST 2110-21, of ST 2110-20.
    pub video: Option<VideoFigures>,
    /// Why a figure is missing, or is to be read with care.
    pub notes: Vec<String>,
    /// From figure to where it is defined.
    pub definitions: BTreeMap<String, String>,
}

/// What is known of the packets beside themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpContext {
    /// Where [`RtpPacket::arrived_ns`] was taken, in a word.
    pub arrival: &'static str,
    /// Bits of the sequence numbers on the wire: 16, or 64 where our own header is behind that of RTP.
    pub sequence_bits: u32,
    /// What is known of TAI.
    pub tai: Option<Tai>,
    /// What somebody tells of the format of ST 2110-20.
    pub video: VideoTold,
}

/// Analyses the packets of a run, which stand in order of arrival. None where there is no packet.
pub fn analyze_rtp(packets: Vec<RtpPacket>, context: &RtpContext) -> Option<RtpSummary> {
    let RtpContext { arrival, mut sequence_bits, tai, video: told } = *context;
    let ssrc = busiest(packets.iter().map(RtpPacket::ssrc))?;
    let received = packets.len();
    let mut of_source = packets;
    of_source.retain(|packet| packet.ssrc() == ssrc);
    let kind = kind::of(&of_source);
    if kind == RtpKind::St2110_20 && sequence_bits < 32 {
        video::extend_sequence(&mut of_source);
        sequence_bits = 32;
    }
    let mut notes = Vec::new();
    let mut payload_types = BTreeMap::new();
    for header in of_source.iter().filter_map(|packet| packet.fields.header) {
        *payload_types.entry(header.payload_type).or_default() += 1;
    }
    let main_type = payload_types.iter().max_by_key(|(_, count)| **count).map(|(kind, _)| *kind);
    let (clock, interarrival) = timed(&of_source, kind, main_type, &mut notes);
    let other_sources = (received - of_source.len()) as u64;
    if other_sources > 0 {
        notes.push(format!(
            "{other_sources} packets of other sources (SSRC) came to the same port; they are left out"
        ));
    }
    if of_source.iter().all(|packet| packet.fields.header.is_none()) {
        notes.push(
            "the run was recorded without markers and payload types, so what the stream carries is not known"
                .to_owned(),
        );
    }
    let sequence = sequence::of(&of_source, sequence_bits);
    let in_order = sequence::in_order(&of_source);
    let frames =
        (kind != RtpKind::Other).then(|| frames::of(&in_order, video::is_interlaced(kind, &in_order)));
    let video = (kind == RtpKind::St2110_20).then(|| video::of(&of_source, &in_order, tai, told));
    notes.extend(video.iter().flat_map(|video| video.notes.iter().cloned()));
    Some(RtpSummary {
        kind,
        packets: of_source.len() as u64,
        arrival: arrival.to_owned(),
        ssrc,
        other_sources,
        payload_types,
        interarrival,
        clock,
        sequence,
        frames,
        hbrmt: (kind == RtpKind::St2022_6).then(|| hbrmt::of(&in_order)),
        video,
        notes,
        definitions: definitions(kind),
    })
}

/// The most frequent value, the smallest of several; none without values.
fn busiest<T: Ord>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: BTreeMap<T, u64> = BTreeMap::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(value, _)| value)
}

/// The clock of the timestamps, and interarrival jitter by it. Of a clock that changes its rate, it is that of the first packets.
fn timed(
    packets: &[RtpPacket],
    kind: RtpKind,
    main_type: Option<u8>,
    notes: &mut Vec<String>,
) -> (MediaClock, Interarrival) {
    let mut rolling = RollingRtp::new();
    packets.iter().for_each(|packet| rolling.push(*packet, |_, _| ()));
    rolling.settle(|_, _| ());
    let known = rolling.known().zip(rolling.interarrival()).filter(|_| !rolling.changes().is_empty());
    if let Some(((_, clock), interarrival)) = known {
        let changes = rolling.changes().iter().map(|change| {
            format!(
                "{} Hz from packet {} on (payload type {})",
                change.hz, change.packet, change.payload_type
            )
        });
        let changes: Vec<String> = changes.collect();
        notes.push(format!(
            "the media clock changed its rate with the payload type: {} Hz, then {}; the first packet at a rate takes the delay \
             of the one before it",
            clock.hz,
            changes.join(", ")
        ));
        return (clock, interarrival);
    }
    let clock = clock::of(packets, kind, main_type);
    notes.extend(clock.caution());
    let mut estimate = rolling::InterarrivalEstimate::new(clock.hz);
    for packet in packets {
        estimate.add(packet);
    }
    (clock, estimate.figures())
}

fn definitions(kind: RtpKind) -> BTreeMap<String, String> {
    let mut all = vec![
        (
            "interarrival",
            "RFC 3550, section 6.4.1: J += (|D| - J) / 16 over all packets in order of arrival; in ticks by appendix A.8. \
             Where packets of a frame share a timestamp, the time that the frame takes to come is in it",
        ),
        ("sequence.lost", "RFC 7680, section 2, for the numbers from the smallest received to the largest"),
        (
            "sequence.cumulative_lost",
            "RFC 3550, appendix A.3: expected less received, copies counted as received",
        ),
        ("sequence.loss", "RFC 3357: loss periods and distances"),
        ("sequence.duplicate", "RFC 5560, section 5.1: copies beyond the first"),
        ("sequence.reordered", "RFC 4737, section 3.3; extents by section 4.2"),
    ];
    if kind != RtpKind::Other {
        all.push((
            "frames",
            "a frame (interlaced ST 2110-20: a field) ends with a packet whose marker is set",
        ));
    }
    if kind == RtpKind::St2022_6 {
        all.push(("hbrmt", "SMPTE ST 2022-6: HBRMT payload header, 1376 bytes of media a packet"));
    }
    if kind == RtpKind::St2110_20 {
        all.push(("video.c_inst", "SMPTE ST 2110-21:2022, section 6.6.1: network compatibility model"));
        all.push(("video.vrx", "SMPTE ST 2110-21:2022, section 6.6.2: virtual receiver buffer model"));
    }
    all.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
}

#[cfg(test)]
mod tests;
