//! Our custom option: all stamps of a packet, each with its layer, clock and bound.
//!
//! An option 2989 (custom, binary, to be copied with the packet) of enterprise number 32473, which RFC 5612 keeps for
//! documentation; the magic tells ours from others' that use it too. The enterprise number is in the byte order of the
//! section, as the format wants it. All behind it is little-endian, whatever the section is: a program that copies
//! packets into a file of the other byte order knows the one and not the other.
//!
//! ```text
//!   0                4                8        9        10       11       12
//!  +----------------+----------------+--------+--------+--------+--------+
//!  | enterprise     | magic "QVTS"   | version| layer  | count  | zero   |
//!  | number 32473   |                | 1      | shown  | n      |        |
//!  +----------------+----------------+--------+--------+--------+--------+
//!   n times, in a packet's order:
//!   0        1        2                4                8                                 16
//!  +--------+--------+----------------+----------------+---------------------------------+
//!  | layer  | clock  | epoch          | bound, ns      | time, ns, signed                |
//!  +--------+--------+----------------+----------------+---------------------------------+
//! ```
//!
//! *Layer shown* is the one whose stamp stands as the packet's time in the block. Numbers of layers and clocks are those
//! of `quaver_abi::stamp`; an entry whose number is not known is left out by a reader. A bound of 2³²-1 is *unknown*, an
//! epoch of 0 is none. An entry of layer 7 (raw) and clock 6 holds no time but the reading of the processor's counter from
//! which the stamp of that layer was converted.

use quaver_abi::stamp::{Layer, LayerStamp, PacketStamps, StampClock};
use zerocopy::byteorder::little_endian::{I64, U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Private enterprise number (RFC 5612: for examples in documentation).
pub const ENTERPRISE: u32 = 32_473;
/// First bytes behind the enterprise number.
pub const MAGIC: [u8; 4] = *b"QVTS";
/// Version that is written, and the latest that is read.
pub const VERSION: u8 = 1;
/// Bytes of the option's value without stamps.
pub const HEAD_BYTES: usize = 4 + size_of::<Head>();
/// Bytes of a stamp.
pub const ENTRY_BYTES: usize = size_of::<Entry>();
/// Most bytes of the option's value.
pub const MOST_BYTES: usize = HEAD_BYTES + (Layer::ALL.len() + 1) * ENTRY_BYTES;
/// The clock of an entry that holds raw cycles.
const COUNTER: u8 = 6;

/// What stands behind the enterprise number.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Head {
    magic: [u8; 4],
    version: u8,
    shown: u8,
    count: u8,
    zero: u8,
}
const _: () = assert!(size_of::<Head>() == 8);

/// One stamp.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Entry {
    layer: u8,
    clock: u8,
    epoch: U16,
    bound_ns: U32,
    time_ns: I64,
}
const _: () = assert!(size_of::<Entry>() == 16);

/// Stamps as the option holds them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StampOption {
    /// The layer whose stamp is the packet's time in the block; none where its number is not known here.
    pub shown: Option<Layer>,
    /// The stamps.
    pub stamps: PacketStamps,
}

/// How many entries the option has for these stamps.
pub(super) fn entries(stamps: &PacketStamps) -> usize {
    stamps.iter().count() + usize::from(stamps.raw_cycles().is_some())
}

/// Puts the option's value behind `out`, enterprise number in little-endian order.
pub(super) fn encode(out: &mut Vec<u8>, shown: Layer, stamps: &PacketStamps) {
    let count = entries(stamps) as u8;
    let head = Head { magic: MAGIC, version: VERSION, shown: shown as u8, count, zero: 0 };
    out.extend_from_slice(&ENTERPRISE.to_le_bytes());
    out.extend_from_slice(head.as_bytes());
    for (layer, stamp) in stamps.iter() {
        let entry = Entry {
            layer: layer as u8,
            clock: stamp.clock as u8,
            epoch: U16::new(stamp.epoch),
            bound_ns: U32::new(stamp.bound_ns),
            time_ns: I64::new(stamp.time_ns),
        };
        out.extend_from_slice(entry.as_bytes());
    }
    if let Some(cycles) = stamps.raw_cycles() {
        let time_ns = I64::new(cycles.cast_signed());
        let (epoch, bound_ns) = (U16::ZERO, U32::ZERO);
        let entry = Entry { layer: Layer::Raw as u8, clock: COUNTER, epoch, bound_ns, time_ns };
        out.extend_from_slice(entry.as_bytes());
    }
}

/// Reads what stands behind the enterprise number. None where it is not ours, of a later version, or shorter than it
/// claims.
pub fn decode(value: &[u8]) -> Option<StampOption> {
    let (head, rest) = Head::read_from_prefix(value).ok()?;
    let octets = usize::from(head.count) * ENTRY_BYTES;
    if head.magic != MAGIC || head.version != VERSION || rest.len() < octets {
        return None;
    }
    let mut stamps = PacketStamps::default();
    for entry in rest[..octets].chunks_exact(ENTRY_BYTES) {
        let entry = Entry::read_from_bytes(entry).ok()?;
        if (entry.layer, entry.clock) == (Layer::Raw as u8, COUNTER) {
            stamps.set_raw_cycles(entry.time_ns.get().cast_unsigned());
        }
        let known = Layer::from_number(entry.layer).zip(StampClock::from_number(entry.clock));
        if let Some((layer, clock)) = known {
            let stamp = LayerStamp {
                clock,
                time_ns: entry.time_ns.get(),
                bound_ns: entry.bound_ns.get(),
                epoch: entry.epoch.get(),
            };
            stamps.set(layer, stamp);
        }
    }
    Some(StampOption { shown: Layer::from_number(head.shown), stamps })
}
