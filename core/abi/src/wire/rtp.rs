//! The fixed RTP header (RFC 3550, section 5.1). Network byte order.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |V=2|P|X|  CC   |M|     PT      |       sequence number         |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                           timestamp                           |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |           synchronization source (SSRC) identifier            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the fixed header.
pub const HEADER_BYTES: usize = 12;

/// The fixed header, without contributing sources and extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RtpHeader {
    /// Version (2 bits), padding, extension, count of contributing sources (4 bits).
    pub version_bits: u8,
    /// Marker (1 bit) and payload type (7 bits).
    pub marker_and_type: u8,
    /// Sequence number, wrapping.
    pub sequence: U16,
    /// Media clock.
    pub timestamp: U32,
    /// Synchronisation source.
    pub ssrc: U32,
}
const _: () = assert!(size_of::<RtpHeader>() == HEADER_BYTES);

impl RtpHeader {
    /// A header of version 2 with no padding, extension or contributing sources.
    pub fn new(payload_type: u8, marker: bool, sequence: u16, timestamp: u32, ssrc: u32) -> Self {
        Self {
            version_bits: 0x80,
            marker_and_type: (u8::from(marker) << 7) | (payload_type & 0x7f),
            sequence: U16::new(sequence),
            timestamp: U32::new(timestamp),
            ssrc: U32::new(ssrc),
        }
    }

    /// The header at the start of `payload`, with the offset of what follows it (contributing sources and
    /// extension skipped), or none where the bytes cannot be RTP: another version, or too short for what the
    /// header claims. RTCP packet types (RFC 5761, section 4: 64 to 95 with the marker) are refused.
    pub fn read(payload: &[u8]) -> Option<(Self, usize)> {
        let (header, _) = Self::read_from_prefix(payload).ok()?;
        if header.version_bits >> 6 != 2 || (192..=223).contains(&header.marker_and_type) {
            return None;
        }
        let mut offset = HEADER_BYTES + 4 * usize::from(header.version_bits & 0x0f);
        if header.version_bits & 0x10 != 0 {
            let words = payload.get(offset + 2..offset + 4)?;
            offset += 4 + 4 * usize::from(u16::from_be_bytes([words[0], words[1]]));
        }
        (offset <= payload.len()).then_some((header, offset))
    }

    /// Whether the marker is set: the last packet of a frame in video profiles.
    pub fn marker(&self) -> bool {
        self.marker_and_type & 0x80 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_are_those_of_the_rfc() {
        let header = RtpHeader::new(98, true, 0x1234, 0x0102_0304, 0xdead_beef);
        assert_eq!(header.as_bytes(), [0x80, 0xe2, 0x12, 0x34, 1, 2, 3, 4, 0xde, 0xad, 0xbe, 0xef]);
        assert_eq!(RtpHeader::read(header.as_bytes()), Some((header, 12)));
        assert!(header.marker());
    }

    #[test]
    fn sources_and_extension_are_skipped() {
        let mut packet = [0u8; 32];
        packet[0] = 0x80 | 0x10 | 2;
        packet[23] = 1; // one word of extension after 12 + 8 bytes
        assert_eq!(RtpHeader::read(&packet).map(|(_, at)| at), Some(28));
        assert_eq!(RtpHeader::read(&packet[..27]), None, "claims more than it has");
        assert_eq!(RtpHeader::read(&packet[..28]).map(|(_, at)| at), Some(28), "nothing follows");
        packet[22] = 1;
        assert_eq!(RtpHeader::read(&packet), None, "257 words of extension");
        packet[0] = 0x80 | 0x20 | 5;
        assert_eq!(RtpHeader::read(&packet).map(|(_, at)| at), Some(32), "five sources, no extension");
    }

    #[test]
    fn not_rtp() {
        assert_eq!(RtpHeader::read(&[0; 12]), None, "version 0");
        assert_eq!(RtpHeader::read(&[0x80; 11]), None, "too short");
        // The bytes 192 to 223, where RTCP has its packet type (RFC 5761, section 4), and no others.
        for octet in 0..=u8::MAX {
            let mut packet = [0u8; 12];
            [packet[0], packet[1]] = [0x80, octet];
            assert_eq!(RtpHeader::read(&packet).is_none(), (192..224).contains(&u32::from(octet)), "{octet}");
        }
        for version in [0, 1, 3] {
            assert_eq!(RtpHeader::read(&[version << 6; 12]), None, "version {version}");
        }
    }
}
