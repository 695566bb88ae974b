//! The raw segment: a header and then records of one fixed size, written in place by a hot path.
//!
//! A writer never updates the header while it measures. A reader takes whole records up to the first one
//! whose *written* mark is zero (each record names its mark), so a segment cut short by a crash is readable up
//! to its last full record.

use strum::FromRepr;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First eight bytes of a segment.
pub const MAGIC: [u8; 8] = *b"QUAVSEG\0";
/// Version of the segment format that this code writes.
pub const VERSION: u32 = 1;
/// Written as a native integer; another reading of it means another byte order.
pub const BYTE_ORDER: u32 = 0x0102_0304;

/// What the records of a segment are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, FromRepr)]
#[repr(u32)]
pub enum RecordKind {
    /// [`crate::record::PacketRecord`], mark `app_cycles`.
    Packet = 1,
    /// [`crate::record::StampRecord`], mark `arrival`.
    Stamp = 2,
    /// [`crate::record::EventRecord`], mark `kind`.
    Event = 3,
    /// [`crate::record::GapRecord`], mark `after_cycles`.
    Gap = 4,
    /// [`crate::record::AnchorRecord`], mark `cycles`.
    Anchor = 5,
    /// [`crate::record::SendRecord`], mark `deadline_ns`.
    Send = 6,
    /// [`crate::kernel_side::KernelSideRecord`], mark `kind`.
    KernelSide = 7,
    /// [`crate::compensation::CompensationRecord`], mark `end_ns`.
    Compensation = 8,
}

/// Ties a record type to its kind and its written mark.
pub trait Record: FromBytes + IntoBytes + Immutable + KnownLayout + Copy {
    /// Kind in the header.
    const KIND: RecordKind;
    /// Offset in bytes of the written mark. A writer stores the eight bytes around it last, so that a record
    /// cut off half-way is not taken for a written one.
    const MARK_OFFSET: usize = 0;
    /// Whether a writer filled this slot.
    fn is_written(&self) -> bool;
}

macro_rules! record {
    ($type:ident, $mark:ident) => {
        impl Record for crate::record::$type {
            const KIND: RecordKind = kind_of::$type;
            const MARK_OFFSET: usize = core::mem::offset_of!(crate::record::$type, $mark);
            fn is_written(&self) -> bool {
                self.$mark != 0
            }
        }
    };
}

#[allow(non_upper_case_globals, reason = "named after the record types for the macro above")]
mod kind_of {
    use super::RecordKind;
    pub(super) const PacketRecord: RecordKind = RecordKind::Packet;
    pub(super) const StampRecord: RecordKind = RecordKind::Stamp;
    pub(super) const EventRecord: RecordKind = RecordKind::Event;
    pub(super) const GapRecord: RecordKind = RecordKind::Gap;
    pub(super) const AnchorRecord: RecordKind = RecordKind::Anchor;
    pub(super) const SendRecord: RecordKind = RecordKind::Send;
}

record!(PacketRecord, app_cycles);
record!(StampRecord, arrival);
record!(EventRecord, kind);
record!(GapRecord, after_cycles);
record!(AnchorRecord, cycles);
record!(SendRecord, deadline_ns);

/// Header of a segment.
///
/// ```text
///  0       8         12           16            20           24         32           40        64
///  +-------+---------+------------+-------------+------------+----------+------------+---------+
///  | magic | version | byte order | record kind | record size| capacity | created    | zero    |
///  |       |         |            |             | bytes     | records  | realtime ns|         |
///  +-------+---------+------------+-------------+------------+----------+------------+---------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SegmentHeader {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// [`BYTE_ORDER`].
    pub byte_order: u32,
    /// [`RecordKind`].
    pub record_kind: u32,
    /// Size of one record in bytes.
    pub record_bytes: u32,
    /// Records that the file has room for.
    pub capacity: u64,
    /// When it was made, CLOCK_REALTIME nanoseconds.
    pub created_realtime_ns: i64,
    /// Zero.
    pub reserved: [u64; 3],
}
const _: () = assert!(size_of::<SegmentHeader>() == 64);

/// Why bytes are not a segment of the wanted kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentError {
    /// Shorter than a header.
    TooShort,
    /// Does not start with [`MAGIC`].
    NotASegment,
    /// Written by a version that this one cannot read.
    Version(u32),
    /// Written on a machine of the other byte order.
    ByteOrder,
    /// Holds records of another kind or size.
    OtherRecords {
        /// Kind found.
        kind: u32,
        /// Size found, bytes.
        bytes: u32,
    },
}

impl core::fmt::Display for SegmentError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::TooShort => write!(f, "shorter than a segment header (64 bytes)"),
            Self::NotASegment => write!(f, "not a Quaver segment"),
            Self::Version(v) => write!(f, "segment version {v}; this program reads version {VERSION}"),
            Self::ByteOrder => write!(f, "written on a machine of the other byte order"),
            Self::OtherRecords { kind, bytes } => {
                write!(f, "holds records of kind {kind}, {bytes} bytes each")
            }
        }
    }
}

impl core::error::Error for SegmentError {}

impl SegmentHeader {
    /// Header for `capacity` records of type `R`.
    pub fn new<R: Record>(capacity: u64, created_realtime_ns: i64) -> Self {
        Self {
            magic: MAGIC,
            version: VERSION,
            byte_order: BYTE_ORDER,
            record_kind: R::KIND as u32,
            record_bytes: size_of::<R>() as u32,
            capacity,
            created_realtime_ns,
            reserved: [0; 3],
        }
    }

    /// Reads and checks the header of a segment that should hold records of type `R`.
    pub fn check<R: Record>(octets: &[u8]) -> Result<Self, SegmentError> {
        let (header, _) = Self::read_from_prefix(octets).map_err(|_| SegmentError::TooShort)?;
        if header.magic != MAGIC {
            return Err(SegmentError::NotASegment);
        }
        if header.byte_order != BYTE_ORDER {
            return Err(SegmentError::ByteOrder);
        }
        if header.version != VERSION {
            return Err(SegmentError::Version(header.version));
        }
        if header.record_kind != R::KIND as u32 || header.record_bytes as usize != size_of::<R>() {
            return Err(SegmentError::OtherRecords { kind: header.record_kind, bytes: header.record_bytes });
        }
        Ok(header)
    }
}
