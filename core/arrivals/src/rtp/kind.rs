//! What an RTP stream carries, by the first bytes of its payloads and their lengths.

use super::RtpPacket;
use quaver_abi::wire::hbrmt::{self, HbrmtHeader};
use quaver_abi::wire::rfc4175::{self, VideoHeader};
use quaver_abi::wire::rtp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a stream carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RtpKind {
    /// SMPTE ST 2022-6: SDI whole.
    #[serde(rename = "st2022-6")]
    St2022_6,
    /// SMPTE ST 2110-20 (RFC 4175): uncompressed video.
    #[serde(rename = "st2110-20")]
    St2110_20,
    /// Anything else.
    #[serde(rename = "rtp")]
    Other,
}

impl RtpKind {
    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::St2022_6 => "SMPTE ST 2022-6",
            Self::St2110_20 => "SMPTE ST 2110-20",
            Self::Other => "RTP",
        }
    }
}

/// What three quarters of the packets look like.
pub(super) fn of(packets: &[RtpPacket]) -> RtpKind {
    let most = |matching: usize, of: usize| of > 0 && matching * 4 >= of * 3;
    let alike = |looks: fn(&RtpPacket) -> bool| {
        most(packets.iter().filter(|packet| looks(packet)).count(), packets.len())
    };
    if alike(looks_like_hbrmt) {
        return RtpKind::St2022_6;
    }
    // The high half of the number must go on as the low half does.
    let counts_on = packets.windows(2).filter(|pair| {
        let [Some(a), Some(b)] = [&pair[0], &pair[1]].map(video_sequence) else {
            return false;
        };
        let step = i64::from(b.wrapping_sub(a).cast_signed());
        step == pair[1].sequence.wrapping_sub(pair[0].sequence).cast_signed()
    });
    if alike(looks_like_video) && most(counts_on.count(), packets.len().saturating_sub(1)) {
        return RtpKind::St2110_20;
    }
    RtpKind::Other
}

/// Media of 1376 bytes behind a header with nothing in its reserved bits.
fn looks_like_hbrmt(packet: &RtpPacket) -> bool {
    let Some(head) = packet.head() else { return false };
    let Some(header) = HbrmtHeader::fixed_part(&head) else { return false };
    let reserved = u32::from(header.clock_bits.get() & 0x1f) | (header.format_bits.get() & 0xff);
    reserved == 0 && media_bytes(packet, &header) == Some(hbrmt::MEDIA_BYTES)
}

/// Bytes of media in a packet; none where it is too short for what its header claims.
pub(super) fn media_bytes(packet: &RtpPacket, header: &HbrmtHeader) -> Option<usize> {
    let fields = header.fields();
    let timestamp = match fields.clock_frequency {
        hbrmt::clock_frequency::NONE => 0,
        _ => hbrmt::VIDEO_TIMESTAMP_BYTES,
    };
    let before =
        rtp::HEADER_BYTES + hbrmt::HEADER_BYTES + timestamp + 4 * usize::from(fields.extension_words);
    (packet.fields.payload_bytes as usize).checked_sub(before)
}

/// The RFC 4175 header of a packet, as far as it is recorded.
pub(super) fn video_header(packet: &RtpPacket) -> Option<VideoHeader> {
    VideoHeader::first_line(&packet.head()?)
}

/// The sequence number of 32 bits.
pub(super) fn video_sequence(packet: &RtpPacket) -> Option<u32> {
    Some(video_header(packet)?.sequence(packet.sequence as u16))
}

/// The pixels of one line fill the packet, or leave room for those of another that is announced.
fn looks_like_video(packet: &RtpPacket) -> bool {
    let Some(header) = video_header(packet) else { return false };
    let (length, packet_bytes) =
        (usize::from(header.line.length.get()), packet.fields.payload_bytes as usize);
    let filled = rtp::HEADER_BYTES + rfc4175::HEADER_BYTES + length;
    length > 0
        && if header.line.more() {
            filled + rfc4175::LINE_HEADER_BYTES < packet_bytes
        } else {
            filled == packet_bytes
        }
}
