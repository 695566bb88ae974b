//! Test packets of STAMP, the Simple Two-way Active Measurement Protocol (RFC 8762), with the session identifier of
//! RFC 8972. Network byte order. What may follow the base packet is in [`tlv`], time stamps are in [`time`].
//!
//! Unauthenticated; the sender's packet (44 bytes):
//!
//! ```text
//! +---------------------------------------------------------------+
//! |                        Sequence Number                        |  0
//! +---------------------------------------------------------------+
//! |                          Timestamp (T1)                       |  4
//! |                                                               |  8
//! +-------------------------------+-------------------------------+
//! |         Error Estimate        |             SSID              | 12
//! +-------------------------------+-------------------------------+
//! |                         MBZ (28 bytes)                       | 16
//! +---------------------------------------------------------------+
//! ```
//!
//! and the reflector's (44 bytes):
//!
//! ```text
//! +---------------------------------------------------------------+
//! |                        Sequence Number                        |  0
//! +---------------------------------------------------------------+
//! |                          Timestamp (T3)                       |  4
//! |                                                               |  8
//! +-------------------------------+-------------------------------+
//! |         Error Estimate        |             SSID              | 12
//! +-------------------------------+-------------------------------+
//! |                     Receive Timestamp (T2)                    | 16
//! |                                                               | 20
//! +---------------------------------------------------------------+
//! |                 Session-Sender Sequence Number                | 24
//! +---------------------------------------------------------------+
//! |                    Session-Sender Timestamp                   | 28
//! |                                                               | 32
//! +-------------------------------+-------------------------------+
//! | Session-Sender Error Estimate |              MBZ              | 36
//! +---------------+---------------+-------------------------------+
//! | Ses-Sender TTL|                      MBZ                      | 40
//! +---------------+-----------------------------------------------+
//! ```
//!
//! Authenticated packets have the same fields, spread over 112 bytes, of which the last 16 are the HMAC over the
//! 96 before them:
//!
//! ```text
//!      sender                               reflector
//!   0  Sequence Number (4), MBZ (12)        Sequence Number (4), MBZ (12)
//!  16  Timestamp (8)                        Timestamp (8)
//!  24  Error Estimate (2), SSID (2)         Error Estimate (2), SSID (2), MBZ (4)
//!  28  MBZ (68)
//!  32                                       Receive Timestamp (8), MBZ (8)
//!  48                                       Session-Sender Sequence Number (4), MBZ (12)
//!  64                                       Session-Sender Timestamp (8)
//!  72                                       Session-Sender Error Estimate (2), MBZ (6)
//!  80                                       Ses-Sender TTL (1), MBZ (15)
//!  96  HMAC (16)                            HMAC (16)
//! ```

pub mod time;
pub mod tlv;

use core::fmt;
use core::ops::Range;
use time::ErrorEstimate;
use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// UDP port of reflectors (RFC 8762, section 4.1).
pub const PORT: u16 = 862;
/// Bytes of an HMAC: SHA-256, cut to its first half (RFC 8762, section 4.4).
pub const HMAC_BYTES: usize = 16;
/// Bytes of an authenticated base packet that the HMAC covers.
pub const HMAC_TEXT: Range<usize> = 0..96;
/// Where the HMAC lies in an authenticated base packet.
pub const HMAC_FIELD: Range<usize> = 96..112;
/// Bytes of an unauthenticated reply up to and with the TTL: what TWAMP Light has too (RFC 5357, section 4.2.1).
pub const LIGHT_BYTES: usize = 41;

/// Least bytes of an unauthenticated packet of TWAMP Light: number, time and error estimate (RFC 5357, section 4.1.2).
pub const LEAST_LIGHT_BYTES: usize = 14;

/// Whether packets carry an HMAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// 44 bytes, nothing proven.
    Unauthenticated,
    /// 112 bytes, with an HMAC at the end.
    Authenticated,
}

impl Mode {
    /// Bytes of a base packet, the smallest that there is.
    pub const fn base_bytes(self) -> usize {
        match self {
            Self::Unauthenticated => 44,
            Self::Authenticated => 112,
        }
    }
}

/// Bytes that are no packet: fewer than a base packet has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooShort {
    /// Bytes of the base packet.
    pub expected: usize,
    /// Bytes that there are.
    pub got: usize,
}

impl fmt::Display for TooShort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a STAMP packet has {} bytes or more, but there are {}", self.expected, self.got)
    }
}

impl core::error::Error for TooShort {}

/// A sender's unauthenticated packet as it lies on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SenderLayout {
    sequence: U32,
    timestamp: U64,
    error_estimate: U16,
    ssid: U16,
    zero: [u8; 28],
}
const _: () = assert!(size_of::<SenderLayout>() == Mode::Unauthenticated.base_bytes());

/// A sender's authenticated packet as it lies on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct AuthenticatedSenderLayout {
    sequence: U32,
    zero_4: [u8; 12],
    timestamp: U64,
    error_estimate: U16,
    ssid: U16,
    zero_28: [u8; 68],
    hmac: [u8; HMAC_BYTES],
}
const _: () = assert!(size_of::<AuthenticatedSenderLayout>() == Mode::Authenticated.base_bytes());

/// A reflector's unauthenticated packet as it lies on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ReflectorLayout {
    sequence: U32,
    timestamp: U64,
    error_estimate: U16,
    ssid: U16,
    receive_timestamp: U64,
    sender_sequence: U32,
    sender_timestamp: U64,
    sender_error_estimate: U16,
    zero_38: [u8; 2],
    sender_ttl: u8,
    zero_41: [u8; 3],
}
const _: () = assert!(size_of::<ReflectorLayout>() == Mode::Unauthenticated.base_bytes());

/// A reflector's authenticated packet as it lies on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct AuthenticatedReflectorLayout {
    sequence: U32,
    zero_4: [u8; 12],
    timestamp: U64,
    error_estimate: U16,
    ssid: U16,
    zero_28: [u8; 4],
    receive_timestamp: U64,
    zero_40: [u8; 8],
    sender_sequence: U32,
    zero_52: [u8; 12],
    sender_timestamp: U64,
    sender_error_estimate: U16,
    zero_74: [u8; 6],
    sender_ttl: u8,
    zero_81: [u8; 15],
    hmac: [u8; HMAC_BYTES],
}
const _: () = assert!(size_of::<AuthenticatedReflectorLayout>() == Mode::Authenticated.base_bytes());

/// Fills the named fields of a layout, zeroes the rest, and writes it to the start of a buffer.
macro_rules! write_layout {
    ($layout:ty, $buffer:expr, $($field:ident: $value:expr),* $(,)?) => {{
        let mut layout = <$layout>::new_zeroed();
        $(layout.$field = $value;)*
        layout.write_to_prefix($buffer).map_err(|_| TooShort { expected: size_of::<$layout>(), got: $buffer.len() })
    }};
}

fn read_layout<T: FromBytes>(octets: &[u8]) -> Result<T, TooShort> {
    let whole = T::read_from_prefix(octets).map(|(layout, _)| layout);
    whole.map_err(|_| TooShort { expected: size_of::<T>(), got: octets.len() })
}

/// What a sender says in its base packet (RFC 8762, section 4.2). Time stamps are as on the wire: [`time`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderPacket {
    /// From 0 in each session, wrapping.
    pub sequence: u32,
    /// T1, in the format that the error estimate names.
    pub timestamp: u64,
    /// How good T1 is.
    pub error_estimate: ErrorEstimate,
    /// Session of this sender; 0 where it knows no RFC 8972.
    pub ssid: u16,
}

impl SenderPacket {
    /// Writes the base packet to the start of `buffer`; the HMAC is left zero, what follows is left alone.
    ///
    /// # Errors
    /// A buffer shorter than the base packet.
    pub fn write(&self, mode: Mode, buffer: &mut [u8]) -> Result<(), TooShort> {
        match mode {
            Mode::Unauthenticated => write_layout!(SenderLayout, buffer,
                sequence: U32::new(self.sequence),
                timestamp: U64::new(self.timestamp),
                error_estimate: U16::new(self.error_estimate.to_bits()),
                ssid: U16::new(self.ssid)),
            Mode::Authenticated => write_layout!(AuthenticatedSenderLayout, buffer,
                sequence: U32::new(self.sequence),
                timestamp: U64::new(self.timestamp),
                error_estimate: U16::new(self.error_estimate.to_bits()),
                ssid: U16::new(self.ssid)),
        }
    }

    /// The base packet at the start of `octets`. Fields that must be zero are not looked at, nor is the HMAC.
    ///
    /// # Errors
    /// Fewer bytes than a base packet has.
    pub fn read(mode: Mode, octets: &[u8]) -> Result<Self, TooShort> {
        let (sequence, timestamp, error_estimate, ssid) = match mode {
            Mode::Unauthenticated => {
                let read: SenderLayout = read_layout(octets)?;
                (read.sequence, read.timestamp, read.error_estimate, read.ssid)
            }
            Mode::Authenticated => {
                let read: AuthenticatedSenderLayout = read_layout(octets)?;
                (read.sequence, read.timestamp, read.error_estimate, read.ssid)
            }
        };
        Ok(Self {
            sequence: sequence.get(),
            timestamp: timestamp.get(),
            error_estimate: ErrorEstimate::from_bits(error_estimate.get()),
            ssid: ssid.get(),
        })
    }
}

/// What a reflector says in its base packet (RFC 8762, section 4.3). Time stamps are as on the wire: [`time`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReflectorPacket {
    /// The sender's number where the reflector keeps no state, else its own count from 0, wrapping.
    pub sequence: u32,
    /// T3, in the format that the error estimate names.
    pub timestamp: u64,
    /// How good T2 and T3 are.
    pub error_estimate: ErrorEstimate,
    /// Copied from the sender's packet; 0 where the reflector knows no RFC 8972.
    pub ssid: u16,
    /// T2, in the same format as T3.
    pub receive_timestamp: u64,
    /// Copied from the sender's packet.
    pub sender_sequence: u32,
    /// T1, copied from the sender's packet.
    pub sender_timestamp: u64,
    /// Copied from the sender's packet; names the format of T1.
    pub sender_error_estimate: ErrorEstimate,
    /// TTL or hop limit with which the sender's packet arrived.
    pub sender_ttl: u8,
}

impl ReflectorPacket {
    /// Writes the base packet to the start of `buffer`; the HMAC is left zero, what follows is left alone.
    ///
    /// # Errors
    /// A buffer shorter than the base packet.
    pub fn write(&self, mode: Mode, buffer: &mut [u8]) -> Result<(), TooShort> {
        match mode {
            Mode::Unauthenticated => write_layout!(ReflectorLayout, buffer,
                sequence: U32::new(self.sequence),
                timestamp: U64::new(self.timestamp),
                error_estimate: U16::new(self.error_estimate.to_bits()),
                ssid: U16::new(self.ssid),
                receive_timestamp: U64::new(self.receive_timestamp),
                sender_sequence: U32::new(self.sender_sequence),
                sender_timestamp: U64::new(self.sender_timestamp),
                sender_error_estimate: U16::new(self.sender_error_estimate.to_bits()),
                sender_ttl: self.sender_ttl),
            Mode::Authenticated => write_layout!(AuthenticatedReflectorLayout, buffer,
                sequence: U32::new(self.sequence),
                timestamp: U64::new(self.timestamp),
                error_estimate: U16::new(self.error_estimate.to_bits()),
                ssid: U16::new(self.ssid),
                receive_timestamp: U64::new(self.receive_timestamp),
                sender_sequence: U32::new(self.sender_sequence),
                sender_timestamp: U64::new(self.sender_timestamp),
                sender_error_estimate: U16::new(self.sender_error_estimate.to_bits()),
                sender_ttl: self.sender_ttl),
        }
    }

    /// The base packet at the start of `octets`. Fields that must be zero are not looked at, nor is the HMAC.
    ///
    /// # Errors
    /// Fewer bytes than a base packet has.
    pub fn read(mode: Mode, octets: &[u8]) -> Result<Self, TooShort> {
        match mode {
            Mode::Unauthenticated => {
                let read: ReflectorLayout = read_layout(octets)?;
                Ok(Self {
                    sequence: read.sequence.get(),
                    timestamp: read.timestamp.get(),
                    error_estimate: ErrorEstimate::from_bits(read.error_estimate.get()),
                    ssid: read.ssid.get(),
                    receive_timestamp: read.receive_timestamp.get(),
                    sender_sequence: read.sender_sequence.get(),
                    sender_timestamp: read.sender_timestamp.get(),
                    sender_error_estimate: ErrorEstimate::from_bits(read.sender_error_estimate.get()),
                    sender_ttl: read.sender_ttl,
                })
            }
            Mode::Authenticated => {
                let read: AuthenticatedReflectorLayout = read_layout(octets)?;
                Ok(Self {
                    sequence: read.sequence.get(),
                    timestamp: read.timestamp.get(),
                    error_estimate: ErrorEstimate::from_bits(read.error_estimate.get()),
                    ssid: read.ssid.get(),
                    receive_timestamp: read.receive_timestamp.get(),
                    sender_sequence: read.sender_sequence.get(),
                    sender_timestamp: read.sender_timestamp.get(),
                    sender_error_estimate: ErrorEstimate::from_bits(read.sender_error_estimate.get()),
                    sender_ttl: read.sender_ttl,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests;
