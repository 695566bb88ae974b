//! The High Bit Rate Media Transport header of SMPTE ST 2022-6, which follows the RTP header. Network byte
//! order.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-+-----+---------------+---+---+-----+-------+---------+
//! |  Ext  |F|VSID |    FRCount    | R | S | FEC |  CF   | reserved|
//! +-------+-+-----+-------+-------+---+---+-----+-------+---------+
//! |  MAP  |     FRAME     |     FRATE     | SAMPLE|   reserved    |
//! +-------+---------------+---------------+-------+---------------+
//! |       video timestamp, only where CF is not 0 (4 bytes)      |
//! +---------------------------------------------------------------+
//! |       header extension, only where Ext is not 0 (4 x Ext)     |
//! +---------------------------------------------------------------+
//! ```
//!
//! The RTP header before it carries payload type 98 and a 27 MHz timestamp; its marker is set on the last
//! packet of a video frame. The media payload after it is always [`MEDIA_BYTES`] long, padded in the last
//! packet of a frame.

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the fixed part.
pub const HEADER_BYTES: usize = 8;
/// Bytes of the video timestamp, where there is one.
pub const VIDEO_TIMESTAMP_BYTES: usize = 4;
/// Bytes of media in every packet.
pub const MEDIA_BYTES: usize = 1376;
/// RTP payload type.
pub const RTP_PAYLOAD_TYPE: u8 = 98;
/// Rate of the RTP timestamp, Hz.
pub const RTP_CLOCK_HZ: u32 = 27_000_000;

/// Values of FRAME: the frame structure.
pub mod frame {
    /// 1920 x 1080, interlaced.
    pub const HD_1080_INTERLACED: u8 = 0x20;
    /// 1920 x 1080, progressive.
    pub const HD_1080_PROGRESSIVE: u8 = 0x21;
    /// 1920 x 1080, progressive segmented.
    pub const HD_1080_SEGMENTED: u8 = 0x22;
    /// 1280 x 720, progressive.
    pub const HD_720_PROGRESSIVE: u8 = 0x30;
}

/// Values of FRATE: frames a second.
pub mod frame_rate {
    /// 60.
    pub const FPS_60: u8 = 0x10;
    /// 60 / 1.001.
    pub const FPS_59_94: u8 = 0x11;
    /// 50.
    pub const FPS_50: u8 = 0x12;
    /// 30.
    pub const FPS_30: u8 = 0x16;
    /// 30 / 1.001.
    pub const FPS_29_97: u8 = 0x17;
    /// 25.
    pub const FPS_25: u8 = 0x18;
}

/// Values of SAMPLE: sampling structure and depth.
pub mod sample {
    /// 4:2:2, 10 bits.
    pub const YCBCR_422_10: u8 = 0x01;
    /// 4:4:4, 10 bits.
    pub const YCBCR_444_10: u8 = 0x02;
}

/// Values of CF: clock of the video timestamp.
pub mod clock_frequency {
    /// No video timestamp in the header.
    pub const NONE: u8 = 0;
    /// 27 MHz.
    pub const MHZ_27: u8 = 1;
}

/// What the fixed part says, field by field. Values that do not fit their field are cut to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Ext: words of header extension, 0 to 15.
    pub extension_words: u8,
    /// F: the second word describes the video source.
    pub source_format: bool,
    /// VSID: 0 primary stream, 1 protecting stream.
    pub video_source: u8,
    /// FRCount: count of video frames, wrapping.
    pub frame_count: u8,
    /// R: what the video timestamp's clock follows; 0 not locked, 2 UTC, 3 a private reference.
    pub reference: u8,
    /// S: scrambling of the payload, 0 none.
    pub scrambling: u8,
    /// FEC: 0 none, 1 columns, 2 columns and rows.
    pub fec: u8,
    /// CF: [`clock_frequency`].
    pub clock_frequency: u8,
    /// MAP: 0 direct sample structure.
    pub map: u8,
    /// FRAME: [`frame`].
    pub frame: u8,
    /// FRATE: [`frame_rate`].
    pub frame_rate: u8,
    /// SAMPLE: [`sample`].
    pub sample: u8,
}

/// The fixed part as it lies in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct HbrmtHeader {
    /// Ext (4 bits), F (1), VSID (3).
    pub extension_and_source: u8,
    /// FRCount.
    pub frame_count: u8,
    /// R (2), S (2), FEC (3), CF (4), reserved (5).
    pub clock_bits: U16,
    /// MAP (4), FRAME (8), FRATE (8), SAMPLE (4), reserved (8).
    pub format_bits: U32,
}
const _: () = assert!(size_of::<HbrmtHeader>() == HEADER_BYTES);

impl HbrmtHeader {
    /// Packs `fields`.
    pub fn new(fields: &Fields) -> Self {
        let clock = (u16::from(fields.reference & 3) << 14)
            | (u16::from(fields.scrambling & 3) << 12)
            | (u16::from(fields.fec & 7) << 9)
            | (u16::from(fields.clock_frequency & 15) << 5);
        let format = (u32::from(fields.map & 15) << 28)
            | (u32::from(fields.frame) << 20)
            | (u32::from(fields.frame_rate) << 12)
            | (u32::from(fields.sample & 15) << 8);
        Self {
            extension_and_source: (fields.extension_words << 4)
                | (u8::from(fields.source_format) << 3)
                | (fields.video_source & 7),
            frame_count: fields.frame_count,
            clock_bits: U16::new(clock),
            format_bits: U32::new(format),
        }
    }

    /// Unpacks the fields.
    pub fn fields(&self) -> Fields {
        let (clock, format) = (self.clock_bits.get(), self.format_bits.get());
        Fields {
            extension_words: self.extension_and_source >> 4,
            source_format: self.extension_and_source & 8 != 0,
            video_source: self.extension_and_source & 7,
            frame_count: self.frame_count,
            reference: (clock >> 14) as u8,
            scrambling: (clock >> 12) as u8 & 3,
            fec: (clock >> 9) as u8 & 7,
            clock_frequency: (clock >> 5) as u8 & 15,
            map: (format >> 28) as u8,
            frame: (format >> 20) as u8,
            frame_rate: (format >> 12) as u8,
            sample: (format >> 8) as u8 & 15,
        }
    }

    /// The fixed part at the start of `octets`, whatever follows; none where they are too short for it.
    pub fn fixed_part(octets: &[u8]) -> Option<Self> {
        Self::read_from_prefix(octets).ok().map(|(header, _)| header)
    }

    /// The header at the start of `octets` (what follows the RTP header) and the offset of the media after the
    /// video timestamp and the extension; none where they are shorter than the header claims.
    pub fn read(octets: &[u8]) -> Option<(Self, usize)> {
        let (header, _) = Self::read_from_prefix(octets).ok()?;
        let fields = header.fields();
        let timestamp =
            if fields.clock_frequency == clock_frequency::NONE { 0 } else { VIDEO_TIMESTAMP_BYTES };
        let media = HEADER_BYTES + timestamp + 4 * usize::from(fields.extension_words);
        (media <= octets.len()).then_some((header, media))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interlaced_1080() -> Fields {
        Fields {
            source_format: true,
            frame_count: 0x5a,
            frame: frame::HD_1080_INTERLACED,
            frame_rate: frame_rate::FPS_29_97,
            sample: sample::YCBCR_422_10,
            ..Fields::default()
        }
    }

    #[test]
    fn octets_of_1080i29_97() {
        let header = HbrmtHeader::new(&interlaced_1080());
        assert_eq!(header.as_bytes(), [0x08, 0x5a, 0x00, 0x00, 0x02, 0x01, 0x71, 0x00]);
        assert_eq!(header.fields(), interlaced_1080());
    }

    #[test]
    fn each_field_lies_where_it_is_drawn() {
        let fields = Fields {
            extension_words: 1,
            source_format: true,
            video_source: 1,
            frame_count: 2,
            reference: 2,
            scrambling: 1,
            fec: 2,
            clock_frequency: clock_frequency::MHZ_27,
            map: 2,
            frame: 0x31,
            frame_rate: 0x1b,
            sample: 6,
        };
        let header = HbrmtHeader::new(&fields);
        assert_eq!(header.as_bytes(), [0x19, 0x02, 0x94, 0x20, 0x23, 0x11, 0xb6, 0x00]);
        assert_eq!(header.fields(), fields);
    }

    #[test]
    fn media_starts_after_what_is_optional() {
        let mut packet = [0u8; 24];
        let with = |extension_words, clock_frequency| {
            HbrmtHeader::new(&Fields { extension_words, clock_frequency, ..interlaced_1080() })
        };
        for (extension_words, clock, media) in [(0, 0, 8), (0, 1, 12), (2, 0, 16), (3, 1, 24)] {
            packet[..8].copy_from_slice(with(extension_words, clock).as_bytes());
            assert_eq!(HbrmtHeader::read(&packet).map(|(_, at)| at), Some(media));
        }
        assert_eq!(HbrmtHeader::read(&packet[..23]), None, "claims more than it has");
        assert_eq!(HbrmtHeader::read(&packet[..7]), None);
    }

    #[test]
    fn every_bit_is_in_one_field_or_reserved() {
        // Width of each field in the order in which they are drawn; reserved bits are 0 wide on reading.
        let values = |octets: [u8; 8]| {
            let Fields { extension_words, source_format, video_source, frame_count, .. } =
                HbrmtHeader::fixed_part(&octets).unwrap().fields();
            let fields = HbrmtHeader::fixed_part(&octets).unwrap().fields();
            let Fields {
                reference, scrambling, fec, clock_frequency, map, frame, frame_rate, sample, ..
            } = fields;
            let first = [extension_words, source_format.into(), video_source, frame_count];
            let rest = [reference, scrambling, fec, clock_frequency, map, frame, frame_rate, sample];
            (HbrmtHeader::new(&fields), [&first[..], &rest].concat())
        };
        let widths = [4u32, 1, 3, 8, 2, 2, 3, 4, 0, 4, 8, 8, 4, 0];
        let reserved = [5, 8];
        let mut bit = 0;
        let (mut place, mut gaps) = (0, reserved.into_iter());
        for width in widths {
            if width == 0 {
                let count = gaps.next().unwrap();
                for at in bit..bit + count {
                    let octets = (1u64 << (63 - at)).to_be_bytes();
                    assert!(values(octets).1.iter().all(|value| *value == 0), "bit {at} is reserved");
                }
                bit += count;
                continue;
            }
            for at in 0..width {
                let octets = (1u64 << (63 - bit - at)).to_be_bytes();
                let (written, found) = values(octets);
                let mut expected = [0; 12];
                expected[place] = 1 << (width - 1 - at);
                assert_eq!(found, expected, "bit {}", bit + at);
                assert_eq!(written.as_bytes(), octets);
            }
            (bit, place) = (bit + width, place + 1);
        }
        assert_eq!((bit, place), (64, 12));
    }
}
