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
//! A packet that has the stamps of kernel and application alone, and nothing else in them than usual, has a shorter form:
//!
//! ```text
//!   0                4                8                12       14       16
//!  +----------------+----------------+----------------+--------+--------+
//!  | enterprise     | magic "QVTA"   | delay, ns      | epoch  | bound, |
//!  | number 32473   |                |                |        | ns     |
//!  +----------------+----------------+----------------+--------+--------+
//! ```
//!
//! Its kernel stamp is the packet's time in the block (clock realtime, bound 1 ns). The application's is *delay* later
//! (clock cycles, of that epoch and bound; 65,535 is *unknown*).
//!
//! *Layer shown* is the one whose stamp stands as the packet's time in the block. Numbers of layers and clocks are those
//! of `quaver_abi::stamp`; an entry whose number is not known is left out by a reader. A bound of 2³²-1 is *unknown*, an
//! epoch of 0 is none. An entry of layer 7 (raw) and clock 6 holds no time but the reading of the processor's counter from
//! which the stamp of that layer was converted.

use super::number;
use quaver_abi::stamp::{Layer, LayerStamp, PacketStamps, StampClock};
use zerocopy::byteorder::little_endian::{I64, U16, U32};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Private enterprise number (RFC 5612: for examples in documentation).
pub const ENTERPRISE: u32 = 32_473;
/// First bytes behind the enterprise number.
pub const MAGIC: [u8; 4] = *b"QVTS";
/// The same of the shorter form.
pub const SHORT_MAGIC: [u8; 4] = *b"QVTA";
/// Bytes of the shorter form's value.
pub const SHORT_BYTES: usize = 4 + size_of::<Short>();
/// A bound that is not known, in the shorter form.
const SHORT_UNKNOWN: u16 = u16::MAX;
/// The kernel's clock counts whole nanoseconds.
const KERNEL_BOUND_NS: u32 = 1;
/// Version that is written, and the latest that is read.
pub const VERSION: u8 = 1;
/// Bytes of the option's value without stamps.
pub const HEAD_BYTES: usize = 4 + size_of::<Head>();
/// Bytes of a stamp.
pub const ENTRY_BYTES: usize = size_of::<Entry>();
/// Most bytes of the option's value.
pub const MOST_BYTES: usize = HEAD_BYTES + MOST_ENTRIES * ENTRY_BYTES;
/// A stamp of each layer, and raw cycles.
const MOST_ENTRIES: usize = Layer::ALL.len() + 1;
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

/// How the option begins: code, length of its value, enterprise number.
#[derive(Clone, Copy, IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct Start {
    code: U16,
    octets: U16,
    enterprise: U32,
    head: Head,
}
const _: () = assert!(size_of::<Start>() == 4 + HEAD_BYTES);

/// The shorter form, behind the enterprise number.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Short {
    magic: [u8; 4],
    delay_ns: U32,
    epoch: U16,
    bound_ns: U16,
}
const _: () = assert!(size_of::<Short>() == 12);

impl Short {
    /// Of stamps that this form holds without loss.
    fn of(shown: Layer, stamps: &PacketStamps) -> Option<Self> {
        let [kernel, application] = [stamps.get(Layer::Kernel)?, stamps.get(Layer::Application)?];
        let usual = shown == Layer::Kernel && kernel == kernel_stamp(kernel.time_ns);
        let others = [Layer::Nic, Layer::Xdp, Layer::Raw, Layer::Tc, Layer::Socket];
        let alone = others.iter().all(|layer| stamps.get(*layer).is_none()) && stamps.raw_cycles().is_none();
        if !(usual && alone && application.clock == StampClock::Cycles) {
            return None;
        }
        let bound_ns = match application.bound_ns {
            u32::MAX => SHORT_UNKNOWN,
            known => u16::try_from(known).ok().filter(|bound| *bound != SHORT_UNKNOWN)?,
        };
        let delay_ns = application.time_ns.checked_sub(kernel.time_ns)?;
        Some(Self {
            magic: SHORT_MAGIC,
            delay_ns: U32::new(u32::try_from(delay_ns).ok()?),
            epoch: U16::new(application.epoch),
            bound_ns: U16::new(bound_ns),
        })
    }

    /// The stamps, of a packet with this time; none where nanoseconds cannot hold them.
    fn stamps(self, time_ns: i64) -> Option<StampOption> {
        let bound_ns = self.bound_ns.get();
        let application = LayerStamp {
            clock: StampClock::Cycles,
            time_ns: time_ns.checked_add(self.delay_ns.get().into())?,
            bound_ns: if bound_ns == SHORT_UNKNOWN { u32::MAX } else { bound_ns.into() },
            epoch: self.epoch.get(),
        };
        let mut stamps = PacketStamps::default();
        stamps.set(Layer::Kernel, kernel_stamp(time_ns));
        stamps.set(Layer::Application, application);
        Some(StampOption { shown: Some(Layer::Kernel), stamps })
    }
}

fn kernel_stamp(time_ns: i64) -> LayerStamp {
    LayerStamp { clock: StampClock::Realtime, time_ns, bound_ns: KERNEL_BOUND_NS, epoch: 0 }
}

/// How the shorter form begins.
#[derive(Clone, Copy, IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct ShortStart {
    code: U16,
    octets: U16,
    enterprise: U32,
    short: Short,
}

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

/// Puts the option behind `out`, code and length included, enterprise number in little-endian order.
pub(super) fn encode(out: &mut Vec<u8>, shown: Layer, stamps: &PacketStamps) {
    if let Some(short) = Short::of(shown, stamps) {
        let (code, octets) = (U16::new(number::CUSTOM_BINARY), U16::new(SHORT_BYTES as u16));
        let start = ShortStart { code, octets, enterprise: U32::new(ENTERPRISE), short };
        out.extend_from_slice(start.as_bytes());
        return;
    }
    let mut all = [Entry::new_zeroed(); MOST_ENTRIES];
    let mut count = 0;
    for (layer, stamp) in stamps.iter() {
        all[count] = Entry {
            layer: layer as u8,
            clock: stamp.clock as u8,
            epoch: U16::new(stamp.epoch),
            bound_ns: U32::new(stamp.bound_ns),
            time_ns: I64::new(stamp.time_ns),
        };
        count += 1;
    }
    if let Some(cycles) = stamps.raw_cycles() {
        let time_ns = I64::new(cycles.cast_signed());
        all[count] = Entry { layer: Layer::Raw as u8, clock: COUNTER, time_ns, ..Entry::new_zeroed() };
        count += 1;
    }
    let octets = HEAD_BYTES + count * ENTRY_BYTES;
    let start = Start {
        code: U16::new(number::CUSTOM_BINARY),
        octets: U16::new(octets as u16),
        enterprise: U32::new(ENTERPRISE),
        head: Head { magic: MAGIC, version: VERSION, shown: shown as u8, count: count as u8, zero: 0 },
    };
    out.extend_from_slice(start.as_bytes());
    out.extend_from_slice(all[..count].as_bytes());
}

/// Reads what stands behind the enterprise number, in a packet of this time (none where its block tells none). None where it
/// is not ours, of a later version, or shorter than it claims.
pub fn decode(value: &[u8], time_ns: Option<i64>) -> Option<StampOption> {
    if let Ok((short, _)) = Short::read_from_prefix(value)
        && short.magic == SHORT_MAGIC
    {
        return short.stamps(time_ns?);
    }
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
