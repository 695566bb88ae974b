//! The header that our source puts at the start of each payload (after RTP and HBRMT headers in profiles that
//! have them). Network byte order.
//!
//! ```text
//!  0        4         8               16              24              32
//!  +--------+---------+---------------+---------------+---------------+
//!  | magic  | stream  | sequence      | deadline ns   | sent ns       |
//!  | "QVST" | id      | number        | (monotonic)   | (monotonic)   |
//!  +--------+---------+---------------+---------------+---------------+
//! ```

use zerocopy::byteorder::network_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First four bytes.
pub const MAGIC: [u8; 4] = *b"QVST";
/// Bytes of the header: the smallest payload that can be followed by sequence number.
pub const HEADER_BYTES: usize = 32;

/// The header; times are CLOCK_MONOTONIC nanoseconds of the source's host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct StreamHeader {
    /// [`MAGIC`].
    pub magic: [u8; 4],
    /// Chosen at random by the source, so that a stale stream is not mistaken for this one.
    pub stream_id: U32,
    /// From 0, never wrapping in practice.
    pub seq: U64,
    /// Scheduled instant.
    pub deadline_ns: I64,
    /// Instant right before the send call.
    pub sent_ns: I64,
}
const _: () = assert!(size_of::<StreamHeader>() == HEADER_BYTES);

impl StreamHeader {
    /// The header at the start of `payload`, or none if it is not ours.
    pub fn read(payload: &[u8]) -> Option<Self> {
        let (header, _) = Self::read_from_prefix(payload).ok()?;
        (header.magic == MAGIC).then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_are_those_drawn() {
        let header = StreamHeader {
            magic: MAGIC,
            stream_id: U32::new(0x0102_0304),
            seq: U64::new(5),
            deadline_ns: I64::new(6),
            sent_ns: I64::new(-1),
        };
        let octets = header.as_bytes();
        assert_eq!(&octets[..8], b"QVST\x01\x02\x03\x04");
        assert_eq!(octets[15], 5);
        assert_eq!(octets[23], 6);
        assert_eq!(&octets[24..], [0xff; 8]);
        assert_eq!(StreamHeader::read(octets), Some(header));
        assert_eq!(StreamHeader::read(&octets[..31]), None);
        assert_eq!(StreamHeader::read(&[0; 64]), None);
    }
}
