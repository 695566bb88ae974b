//! Snoop files (RFC 1761), big-endian:
//!
//! ```text
//! file:    "snoop" 0 0 0 | version 4 | link type 4
//! packet:  original length 4 | included length 4 | record length 4 | drops so far 4 | seconds 4 | microseconds 4 | data, padding
//! ```

use super::block::{Parts, TimeUnit};
use super::{CapturedPacket, LINK_ETHERNET, PacketDirection};

/// What a file begins with.
pub(super) const MAGIC: [u8; 8] = *b"snoop\0\0\0";
/// Bytes of the file's header, and of a packet's.
pub(super) const HEADER_BYTES: usize = 16;
pub(super) const PACKET_BYTES: usize = 24;
/// The only version of the RFC.
pub(super) const VERSION: u32 = 2;
/// What the file's times count.
pub(super) const UNIT: TimeUnit = TimeUnit::decimal(6);

/// The number at a place; 0 beyond the end.
pub(super) fn word(octets: &[u8], at: usize) -> u32 {
    octets.get(at..at + 4).and_then(|four| four.first_chunk()).map_or(0, |four| u32::from_be_bytes(*four))
}

/// Link type (LINKTYPE_…) of a snoop file's; 65,535 where it has none that is known here.
pub(super) fn link_type(number: u32) -> u16 {
    match number {
        0 | 4 => LINK_ETHERNET,
        2 => 6,
        8 => 10,
        _ => u16::MAX,
    }
}

/// A packet with its header; none where the lengths contradict each other. `dropped` is how many were dropped before it.
pub(super) fn packet(record: &[u8], dropped: u64) -> Option<Parts> {
    let (original_length, kept) = (word(record, 0), word(record, 4) as usize);
    let data = PACKET_BYTES..PACKET_BYTES.checked_add(kept)?;
    record.get(data.clone())?;
    let units = u64::from(word(record, 16)) * 1_000_000 + u64::from(word(record, 20));
    let packet = CapturedPacket {
        interface: 0,
        link_type: 0,
        time_ns: UNIT.ns(units),
        original_length,
        data: &[],
        stamps: None,
        drops_before: (dropped > 0).then_some(dropped),
        direction: PacketDirection::Unknown,
        packet_id: None,
        queue: None,
    };
    Some(Parts { packet, data })
}
