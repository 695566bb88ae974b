//! The payload header of uncompressed video over RTP (RFC 4175, section 4), as SMPTE ST 2110-20 uses it. It
//! follows the RTP header. Network byte order.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |   extended sequence number    |            length             |
//! +-+-----------------------------+-+-----------------------------+
//! |F|           line              |C|           offset            |
//! +-+-----------------------------+-+-----------------------------+
//! | length, F, line, C, offset again while C is set (6 bytes each)|
//! +---------------------------------------------------------------+
//! ```
//!
//! The extended sequence number is the high half of a 32-bit one whose low half is in the RTP header.

use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a header with one line.
pub const HEADER_BYTES: usize = 8;
/// Bytes of each line header.
pub const LINE_HEADER_BYTES: usize = 6;
/// Rate of the RTP timestamp, Hz.
pub const RTP_CLOCK_HZ: u32 = 90_000;

/// One run of pixels of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct LineHeader {
    /// Bytes of pixel data.
    pub length: U16,
    /// F (1 bit, the second field of an interlaced frame) and line (15 bits, from 0 in ST 2110-20).
    pub field_and_line: U16,
    /// C (1 bit, another line header follows) and offset of the first pixel in the line (15 bits).
    pub more_and_offset: U16,
}
const _: () = assert!(size_of::<LineHeader>() == LINE_HEADER_BYTES);

impl LineHeader {
    /// The only, or last, line header of a packet.
    pub fn last(length: u16, second_field: bool, line: u16, offset: u16) -> Self {
        Self {
            length: U16::new(length),
            field_and_line: U16::new((u16::from(second_field) << 15) | (line & 0x7fff)),
            more_and_offset: U16::new(offset & 0x7fff),
        }
    }

    /// Whether the line is of the second field.
    pub fn second_field(&self) -> bool {
        self.field_and_line.get() & 0x8000 != 0
    }

    /// Number of the line in its frame or field.
    pub fn number(&self) -> u16 {
        self.field_and_line.get() & 0x7fff
    }

    /// Whether another line header follows.
    pub fn more(&self) -> bool {
        self.more_and_offset.get() & 0x8000 != 0
    }
}

/// The payload header of a packet that holds pixels of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct VideoHeader {
    /// High 16 bits of the sequence number.
    pub extended_sequence: U16,
    /// The first line.
    pub line: LineHeader,
}
const _: () = assert!(size_of::<VideoHeader>() == HEADER_BYTES);

impl VideoHeader {
    /// The header with the first line at the start of `octets`, whatever follows; none where they are too short for
    /// it.
    pub fn first_line(octets: &[u8]) -> Option<Self> {
        Self::read_from_prefix(octets).ok().map(|(header, _)| header)
    }

    /// The header at the start of `octets` (what follows the RTP header) and the offset of the pixels after all
    /// line headers; none where they are too short.
    pub fn read(octets: &[u8]) -> Option<(Self, usize)> {
        let (header, _) = Self::read_from_prefix(octets).ok()?;
        let (mut last, mut pixels) = (header.line, HEADER_BYTES);
        while last.more() {
            (last, _) = LineHeader::read_from_prefix(octets.get(pixels..)?).ok()?;
            pixels += LINE_HEADER_BYTES;
        }
        Some((header, pixels))
    }

    /// The 32-bit sequence number, given the low half of the RTP header.
    pub fn sequence(&self, rtp_sequence: u16) -> u32 {
        (u32::from(self.extended_sequence.get()) << 16) | u32::from(rtp_sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_are_those_of_the_rfc() {
        let header =
            VideoHeader { extended_sequence: U16::new(0x0102), line: LineHeader::last(1200, true, 539, 480) };
        assert_eq!(header.as_bytes(), [0x01, 0x02, 0x04, 0xb0, 0x82, 0x1b, 0x01, 0xe0]);
        assert_eq!(VideoHeader::read(header.as_bytes()), Some((header, 8)));
        assert_eq!(header.sequence(0xfffe), 0x0102_fffe);
        assert_eq!((header.line.second_field(), header.line.number()), (true, 539));
    }

    #[test]
    fn lines_are_followed_while_one_more_is_announced() {
        let mut packet = [0u8; 20];
        packet[6] = 0x80;
        packet[12] = 0x80;
        assert_eq!(VideoHeader::read(&packet).map(|(_, at)| at), Some(20));
        assert_eq!(VideoHeader::read(&packet[..19]), None, "announces more than it has");
        assert!(VideoHeader::first_line(&packet[..8]).is_some_and(|header| header.line.more()));
        assert_eq!(VideoHeader::first_line(&packet[..7]), None);
    }

    #[test]
    fn the_flags_are_the_highest_bits() {
        for (second, more, line, offset) in
            [(false, false, 0x7fff, 0x7fff), (true, false, 0, 0), (false, true, 5, 0)]
        {
            let mut header = LineHeader::last(7, second, line, offset);
            assert_eq!(header.more_and_offset.get(), offset);
            header.more_and_offset = U16::new(offset | u16::from(more) << 15);
            assert_eq!((header.second_field(), header.more(), header.number()), (second, more, line));
        }
        assert_eq!(LineHeader::last(7, false, 0xffff, 0xffff), LineHeader::last(7, false, 0x7fff, 0x7fff));
    }
}
