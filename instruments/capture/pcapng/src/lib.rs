//! Capture files: pcapng as we write it, and pcapng, pcap and snoop as we read them, compressed or not.
//!
//! The format is that of the IETF draft "PCAP Now Generic (pcapng) Capture File Format". Ours are little-endian, have one
//! section, and packets are stamped in nanoseconds of CLOCK_REALTIME. What else is known of a packet's stamps stands in
//! a custom option, drawn in [`option`] and in `docs/formats.md`.
#![forbid(unsafe_code)]

mod block;
mod compressed;
pub mod option;
pub mod read;
mod room;
mod snoop;
pub mod write;

pub use compressed::Uncompressed;
pub use read::{CaptureFormat, CaptureReader, ReadError, is_magic};
pub use write::{PcapngWriter, UnwrittenPacket, WriteError};

use option::StampOption;
use quaver_abi::stamp::{Layer, PacketStamps};

/// Link type of Ethernet (LINKTYPE_ETHERNET).
pub const LINK_ETHERNET: u16 = 1;
/// Link type of raw IP, version 4 or 6 (LINKTYPE_RAW).
pub const LINK_RAW_IP: u16 = 101;
/// Link type of Linux "cooked" capture, version 1 (LINKTYPE_LINUX_SLL).
pub const LINK_LINUX_COOKED: u16 = 113;
/// Link type of Linux "cooked" capture, version 2 (LINKTYPE_LINUX_SLL2).
pub const LINK_LINUX_COOKED_2: u16 = 276;

/// The numbers of blocks and options that are written and read here.
pub(crate) mod number {
    pub(crate) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
    pub(crate) const INTERFACE_DESCRIPTION: u32 = 1;
    /// What enhanced packets replaced.
    pub(crate) const PACKET: u32 = 2;
    pub(crate) const SIMPLE_PACKET: u32 = 3;
    pub(crate) const INTERFACE_STATISTICS: u32 = 5;
    pub(crate) const ENHANCED_PACKET: u32 = 6;
    pub(crate) const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

    pub(crate) const COMMENT: u16 = 1;
    /// A custom option of text that may be copied into another file.
    pub(crate) const CUSTOM_TEXT: u16 = 2988;
    /// A custom option in binary that may be copied into another file.
    pub(crate) const CUSTOM_BINARY: u16 = 2989;
    pub(crate) const SHB_HARDWARE: u16 = 2;
    pub(crate) const SHB_OS: u16 = 3;
    pub(crate) const SHB_APPLICATION: u16 = 4;
    pub(crate) const IF_NAME: u16 = 2;
    pub(crate) const IF_DESCRIPTION: u16 = 3;
    pub(crate) const IF_MAC: u16 = 6;
    pub(crate) const IF_SPEED: u16 = 8;
    pub(crate) const IF_TIME_RESOLUTION: u16 = 9;
    pub(crate) const IF_FILTER: u16 = 11;
    pub(crate) const IF_OS: u16 = 12;
    pub(crate) const IF_TIME_OFFSET: u16 = 14;
    pub(crate) const IF_HARDWARE: u16 = 15;
    pub(crate) const EPB_FLAGS: u16 = 2;
    pub(crate) const EPB_DROPS: u16 = 4;
    pub(crate) const EPB_PACKET_ID: u16 = 5;
    pub(crate) const EPB_QUEUE: u16 = 6;
    pub(crate) const ISB_START: u16 = 2;
    pub(crate) const ISB_END: u16 = 3;
    pub(crate) const ISB_RECEIVED: u16 = 4;
    pub(crate) const ISB_DROPPED: u16 = 5;
    pub(crate) const ISB_ACCEPTED: u16 = 6;
    pub(crate) const ISB_DROPPED_BY_OS: u16 = 7;
    pub(crate) const ISB_DELIVERED: u16 = 8;
}

/// What made the capture. Texts longer than an option can hold (65,535 bytes) are cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SectionFacts {
    /// Machine.
    pub hardware: Option<String>,
    /// Operating system with its version.
    pub os: Option<String>,
    /// Program with its version.
    pub application: Option<String>,
    /// Anything else, for people.
    pub comment: Option<String>,
}

/// The interface that packets were captured on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceFacts {
    /// Name: `eth0`.
    pub name: String,
    /// What it is, for people.
    pub description: Option<String>,
    /// Link type of its packets (LINKTYPE_…): [`LINK_ETHERNET`].
    pub link_type: u16,
    /// Most bytes kept of a packet; 0 is no limit.
    pub snap_length: u32,
    /// Filter in the language of tcpdump that packets had to pass.
    pub filter: Option<String>,
    /// Hardware address.
    pub mac: Option<[u8; 6]>,
    /// Bits a second.
    pub speed_bits_per_s: Option<u64>,
    /// Operating system that captured.
    pub os: Option<String>,
    /// Network card.
    pub hardware: Option<String>,
    /// Seconds that readers add to every time stamp in the file; 0 writes no such option.
    pub time_offset_s: i64,
    /// Anything else, for people.
    pub comment: Option<String>,
}

/// A packet as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedPacket<'a> {
    /// Place of its interface among [`CaptureReader::interfaces`].
    pub interface: usize,
    /// Link type of that interface (LINKTYPE_…).
    pub link_type: u16,
    /// The packet's time, nanoseconds since 1970; none where the file has none, or one that 64 bits do not hold.
    pub time_ns: Option<i64>,
    /// Bytes on the wire.
    pub original_length: u32,
    /// Bytes kept.
    pub data: &'a [u8],
    /// All stamps, where our option is there.
    pub stamps: Option<StampOption>,
    /// Packets that the interface dropped since the packet before.
    pub drops_before: Option<u64>,
    /// Which way it went.
    pub direction: PacketDirection,
    /// Number that is the same for the same packet on other interfaces.
    pub packet_id: Option<u64>,
    /// Queue of the interface that received it.
    pub queue: Option<u32>,
}

/// Which way a packet went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PacketDirection {
    /// Not known.
    #[default]
    Unknown,
    /// Into this machine.
    Inbound,
    /// Out of this machine.
    Outbound,
}

/// How a packet was addressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reception {
    /// Not known.
    #[default]
    Unknown,
    /// To this machine alone.
    Unicast,
    /// To a group.
    Multicast,
    /// To all.
    Broadcast,
    /// To another machine.
    Promiscuous,
}

/// A captured packet as it is written.
#[derive(Clone, Copy, Debug)]
pub struct PacketRecord<'a> {
    /// The layer whose stamp is the packet's time in the file: what other programs show.
    pub stamp_layer: Layer,
    /// Every stamp; that of `stamp_layer` must be there.
    pub stamps: &'a PacketStamps,
    /// Bytes on the wire, at least those of `data`.
    pub original_length: u32,
    /// Bytes kept.
    pub data: &'a [u8],
    /// Packets that this interface dropped between the packet before and this one; none where it is not known.
    pub drops_before: Option<u64>,
    /// Which way it went.
    pub direction: PacketDirection,
    /// How it was addressed.
    pub reception: Reception,
    /// Number that is the same for the same packet on other interfaces of the file.
    pub packet_id: Option<u64>,
    /// Queue of the interface that received it.
    pub queue: Option<u32>,
}

impl<'a> PacketRecord<'a> {
    /// A packet of which no more is known.
    pub fn new(stamp_layer: Layer, stamps: &'a PacketStamps, data: &'a [u8], original_length: u32) -> Self {
        Self {
            stamp_layer,
            stamps,
            original_length,
            data,
            drops_before: None,
            direction: PacketDirection::Unknown,
            reception: Reception::Unknown,
            packet_id: None,
            queue: None,
        }
    }
}

/// What an interface counted. A count that nobody took is none, never 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceStatistics {
    /// When the counts were taken, CLOCK_REALTIME nanoseconds.
    pub taken_ns: i64,
    /// When capturing began, CLOCK_REALTIME nanoseconds.
    pub start_ns: Option<i64>,
    /// When capturing ended, CLOCK_REALTIME nanoseconds.
    pub end_ns: Option<i64>,
    /// Packets that the interface received (isb_ifrecv).
    pub received: Option<u64>,
    /// Packets that the interface dropped for want of room (isb_ifdrop).
    pub dropped_by_interface: Option<u64>,
    /// Packets that passed the filter (isb_filteraccept).
    pub accepted_by_filter: Option<u64>,
    /// Packets that the system dropped after the filter: the ring was full (isb_osdrop).
    pub dropped_by_os: Option<u64>,
    /// Packets that came to the capturing program (isb_usrdeliv).
    pub delivered: Option<u64>,
    /// Anything else, for people: where packets were dropped.
    pub comment: Option<String>,
    /// Facts of the run for programs: an object of JSON, at most 65,527 bytes. An option and no block of its own, for
    /// other programs would count that as a packet.
    pub run_facts: Option<serde_json::Value>,
}

/// What made a capture, as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedSection {
    /// Major version of the format.
    pub major: u16,
    /// Machine.
    pub hardware: Option<String>,
    /// Operating system.
    pub os: Option<String>,
    /// Program.
    pub application: Option<String>,
    /// Anything else.
    pub comment: Option<String>,
}

/// An interface, as it was read. Texts are cut at 200 characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedInterface {
    /// Name.
    pub name: Option<String>,
    /// What it is.
    pub description: Option<String>,
    /// Link type of its packets (LINKTYPE_…).
    pub link_type: u16,
    /// Most bytes kept of a packet; 0 is no limit.
    pub snap_length: u32,
    /// Filter that packets had to pass.
    pub filter: Option<String>,
    /// Hardware address.
    pub mac: Option<[u8; 6]>,
    /// Bits a second.
    pub speed_bits_per_s: Option<u64>,
    /// Operating system.
    pub os: Option<String>,
    /// Network card.
    pub hardware: Option<String>,
    /// Anything else.
    pub comment: Option<String>,
    /// What a unit of its time stamps is, nanoseconds, at least 1.
    pub resolution_ns: u64,
    /// What it counted, by the last statistics so far.
    pub statistics: Option<CapturedStatistics>,
}

/// What an interface counted, as it was read: the fields of [`InterfaceStatistics`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedStatistics {
    /// When the counts were taken, nanoseconds since 1970; none beyond 64 bits.
    pub taken_ns: Option<i64>,
    /// When capturing began.
    pub start_ns: Option<i64>,
    /// When capturing ended.
    pub end_ns: Option<i64>,
    /// Packets received.
    pub received: Option<u64>,
    /// Packets that the interface dropped.
    pub dropped_by_interface: Option<u64>,
    /// Packets that passed the filter.
    pub accepted_by_filter: Option<u64>,
    /// Packets that the system dropped after the filter.
    pub dropped_by_os: Option<u64>,
    /// Packets that came to the capturing program.
    pub delivered: Option<u64>,
    /// Anything else.
    pub comment: Option<String>,
    /// Facts of the run that our writer put in.
    pub run_facts: Option<serde_json::Value>,
}

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;
