//! Checks of the HBRMT header of SMPTE ST 2022-6.

use super::kind::media_bytes;
use super::{RtpPacket, busiest};
use quaver_abi::wire::hbrmt::{self, HbrmtHeader, frame, frame_rate, sample};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the headers say, and where they contradict the standard or each other. Counts are of different packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HbrmtFigures {
    /// FRAME in words; its number where it is not known.
    pub frame: String,
    /// FRATE: frames a second.
    pub frame_rate: String,
    /// SAMPLE in words.
    pub sample: String,
    /// Packets without a whole header.
    pub without_header: u64,
    /// Packets whose payload type is not 98.
    pub other_payload_type: u64,
    /// Packets whose media is not 1376 bytes long.
    pub wrong_length: u64,
    /// Packets that describe another format, protection or clock than most.
    pub other_format: u64,
    /// Packets whose FRCount does not go on from that of the packet before: by one after a marker, else not at all.
    pub wrong_frame_count: u64,
}

/// Checks first copies in the order of their numbers.
pub(super) fn of(in_order: &[RtpPacket]) -> HbrmtFigures {
    let header = |packet: &RtpPacket| HbrmtHeader::fixed_part(&packet.head()?);
    let format = |header: &HbrmtHeader| {
        (header.extension_and_source, header.clock_bits.get(), header.format_bits.get())
    };
    let usual = busiest(in_order.iter().filter_map(header).map(|header| format(&header)));
    let mut result = HbrmtFigures::default();
    for packet in in_order {
        let payload_type = packet.fields.header.map(|header| header.payload_type);
        result.other_payload_type += u64::from(payload_type != Some(hbrmt::RTP_PAYLOAD_TYPE));
        let Some(header) = header(packet) else {
            result.without_header += 1;
            continue;
        };
        result.wrong_length += u64::from(media_bytes(packet, &header) != Some(hbrmt::MEDIA_BYTES));
        result.other_format += u64::from(Some(format(&header)) != usual);
    }
    for pair in in_order.windows(2).filter(|pair| pair[0].sequence + 1 == pair[1].sequence) {
        if let (Some(before), Some(after)) = (header(&pair[0]), header(&pair[1])) {
            let expected = before.frame_count.wrapping_add(u8::from(pair[0].marker()));
            result.wrong_frame_count += u64::from(after.frame_count != expected);
        }
    }
    if let Some(header) = in_order.iter().filter_map(header).find(|header| Some(format(header)) == usual) {
        let fields = header.fields();
        result.frame = frame_words(fields.frame);
        result.frame_rate = rate_words(fields.frame_rate);
        result.sample = sample_words(fields.sample);
    }
    result
}

fn known(words: Option<&str>, number: u8) -> String {
    words.map_or_else(|| format!("{number:#04x}"), str::to_owned)
}

fn frame_words(number: u8) -> String {
    let words = match number {
        frame::HD_1080_INTERLACED => Some("1920 x 1080 interlaced"),
        frame::HD_1080_PROGRESSIVE => Some("1920 x 1080 progressive"),
        frame::HD_1080_SEGMENTED => Some("1920 x 1080 segmented"),
        frame::HD_720_PROGRESSIVE => Some("1280 x 720 progressive"),
        _ => None,
    };
    known(words, number)
}

fn rate_words(number: u8) -> String {
    let words = match number {
        frame_rate::FPS_60 => Some("60"),
        frame_rate::FPS_59_94 => Some("60/1.001"),
        frame_rate::FPS_50 => Some("50"),
        frame_rate::FPS_30 => Some("30"),
        frame_rate::FPS_29_97 => Some("30/1.001"),
        frame_rate::FPS_25 => Some("25"),
        _ => None,
    };
    known(words, number)
}

fn sample_words(number: u8) -> String {
    let words = match number {
        sample::YCBCR_422_10 => Some("4:2:2, 10 bits"),
        sample::YCBCR_444_10 => Some("4:4:4, 10 bits"),
        _ => None,
    };
    known(words, number)
}
