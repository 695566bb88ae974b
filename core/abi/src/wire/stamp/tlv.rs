//! What may follow a base packet of STAMP (RFC 8972, section 4): type, length, value, with flags.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+---------+---------------+-------------------------------+
//! |U|M|I|  zero   |     Type      |        Length of Value        |
//! +-+-+-+---------+---------------+-------------------------------+
//! |                             Value                             |
//! ```
//!
//! Values, each from its first octet:
//!
//! ```text
//! Location (4 and more)     Destination Port (2), Source Port (2), sub-TLVs of the same form
//! Timestamp Information (4) Sync Src In (1), Timestamp In (1), Sync Src Out (1), Timestamp Out (1)
//! Class of Service (4)      DSCP1 (6 bits), DSCP2 (6 bits), ECN (2 bits), RP (2 bits), zero (2)
//! Direct Measurement (12)   S_TxC (4), R_RxC (4), R_TxC (4)
//! Access Report (4)         ID (4 bits), zero (4 bits), Return Code (1), zero (2)
//! Follow-Up Telemetry (16)  Sequence Number (4), Timestamp (8), its method (1), zero (3)
//! HMAC (16)                 over the base packet's sequence number and all TLVs before it
//! ```

use core::net::IpAddr;
use core::ops::Range;

/// Bytes before the value.
pub const HEADER_BYTES: usize = 4;

/// The receiver did not understand the TLV; a sender sets it, so that silence about it is seen.
pub const FLAG_UNRECOGNIZED: u8 = 0x80;
/// The receiver found the TLV malformed.
pub const FLAG_MALFORMED: u8 = 0x40;
/// The receiver found the HMAC over the TLVs wrong.
pub const FLAG_INTEGRITY: u8 = 0x20;

/// Types of TLVs (RFC 8972, section 5.1).
pub mod kind {
    /// Bytes that mean nothing.
    pub const EXTRA_PADDING: u8 = 1;
    /// Where the reflector saw the packet come from.
    pub const LOCATION: u8 = 2;
    /// How the reflector takes its stamps.
    pub const TIMESTAMP_INFORMATION: u8 = 3;
    /// DSCP and ECN on both ways.
    pub const CLASS_OF_SERVICE: u8 = 4;
    /// Counters of both ends.
    pub const DIRECT_MEASUREMENT: u8 = 5;
    /// State of an access network.
    pub const ACCESS_REPORT: u8 = 6;
    /// When the reply before this one was really sent.
    pub const FOLLOW_UP_TELEMETRY: u8 = 7;
    /// Integrity of the TLVs before it.
    pub const HMAC: u8 = 8;
}

/// Types of sub-TLVs of Location (RFC 8972, section 4.2.1). A sender asks with 1, 4, 7; the answer says which kind
/// of address it is.
pub mod location {
    /// Asks for the source's MAC address; 8 bytes.
    pub const SOURCE_MAC: u8 = 1;
    /// Answers with 6 bytes of address.
    pub const SOURCE_EUI_48: u8 = 2;
    /// Answers with 8 bytes of address; zero where there is none.
    pub const SOURCE_EUI_64: u8 = 3;
    /// Asks for the address that the packet was sent to; 16 bytes.
    pub const DESTINATION_IP: u8 = 4;
    /// Answers with 4 bytes of address.
    pub const DESTINATION_IPV4: u8 = 5;
    /// Answers with 16 bytes of address.
    pub const DESTINATION_IPV6: u8 = 6;
    /// Asks for the address that the packet came from; 16 bytes.
    pub const SOURCE_IP: u8 = 7;
    /// Answers with 4 bytes of address.
    pub const SOURCE_IPV4: u8 = 8;
    /// Answers with 16 bytes of address.
    pub const SOURCE_IPV6: u8 = 9;

    /// Bytes of a sub-TLV's value; none for a type that there is not.
    pub const fn value_bytes(kind: u8) -> Option<usize> {
        match kind {
            SOURCE_MAC..=SOURCE_EUI_64 => Some(8),
            DESTINATION_IP..=SOURCE_IPV6 => Some(16),
            _ => None,
        }
    }
}

/// Sources of synchronisation (RFC 8972, section 5.4).
pub mod sync_source {
    /// NTP.
    pub const NTP: u8 = 1;
    /// PTP.
    pub const PTP: u8 = 2;
    /// Nothing: the clock runs free.
    pub const LOCAL_FREE_RUNNING: u8 = 5;
}

/// Ways to take a stamp (RFC 8972, section 5.5).
pub mod stamp_method {
    /// By the network hardware.
    pub const HARDWARE_ASSIST: u8 = 1;
    /// By software, the kernel's included.
    pub const SOFTWARE_LOCAL: u8 = 2;
    /// By the control plane.
    pub const CONTROL_PLANE: u8 = 3;
}

/// Where one TLV lies among bytes. What it points to may be less than its header claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Byte of its flags.
    pub at: usize,
    /// Flags as they are.
    pub flags: u8,
    /// [`kind`]; 0 where the bytes end before it.
    pub kind: u8,
    /// Where its value lies, as far as there are bytes.
    pub value: (usize, usize),
    /// Whether all that the header claims is there.
    pub whole: bool,
}

impl Span {
    /// The TLV that begins at `at`; none where the bytes end.
    pub fn at(octets: &[u8], at: usize) -> Option<Self> {
        let rest = octets.get(at..).filter(|rest| !rest.is_empty())?;
        let [flags, kind, high, low, value @ ..] = rest else {
            return Some(Self {
                at,
                flags: rest[0],
                kind: rest.get(1).copied().unwrap_or(0),
                value: (octets.len(), octets.len()),
                whole: false,
            });
        };
        let claimed = usize::from(u16::from_be_bytes([*high, *low]));
        let start = at + HEADER_BYTES;
        Some(Self {
            at,
            flags: *flags,
            kind: *kind,
            value: (start, start + claimed.min(value.len())),
            whole: claimed <= value.len(),
        })
    }

    /// All TLVs of `octets` in order, the last of which may be cut off.
    pub fn all(octets: &[u8]) -> impl Iterator<Item = Self> + '_ {
        core::iter::successors(Self::at(octets, 0), |span| Self::at(octets, span.end()))
    }

    /// Where its value lies.
    pub fn value(&self) -> Range<usize> {
        self.value.0..self.value.1
    }

    /// Where the next one begins.
    pub fn end(&self) -> usize {
        self.value.1
    }

    /// Whether the type is one that RFC 8972 defines.
    pub fn is_known(&self) -> bool {
        (kind::EXTRA_PADDING..=kind::HMAC).contains(&self.kind)
    }

    /// Whether it is cut off, or its length cannot be that of its type. `octets` are those that it was found in.
    pub fn is_malformed(&self, octets: &[u8]) -> bool {
        let length = self.value.1 - self.value.0;
        let fits = match self.kind {
            kind::LOCATION => length >= Location::BYTES && sub_tlvs_are_whole(&octets[self.value()]),
            kind::TIMESTAMP_INFORMATION => length == TimestampInformation::BYTES,
            kind::CLASS_OF_SERVICE => length == ClassOfService::BYTES,
            kind::DIRECT_MEASUREMENT => length == DirectMeasurement::BYTES,
            kind::ACCESS_REPORT => length == AccessReport::BYTES,
            kind::FOLLOW_UP_TELEMETRY => length == FollowUp::BYTES,
            kind::HMAC => length == super::HMAC_BYTES,
            _ => true,
        };
        !self.whole || !fits
    }
}

fn sub_tlvs_are_whole(location: &[u8]) -> bool {
    Span::all(&location[Location::BYTES..]).all(|sub| sub.whole)
}

/// Writes a TLV with a sender's flags to the start of `buffer` and gives its bytes; none where there is no room, or
/// the value is longer than a length can say.
pub fn write(buffer: &mut [u8], kind: u8, value: &[u8]) -> Option<usize> {
    let length = u16::try_from(value.len()).ok()?.to_be_bytes();
    let end = HEADER_BYTES + value.len();
    let place = buffer.get_mut(..end)?;
    place[..HEADER_BYTES].copy_from_slice(&[FLAG_UNRECOGNIZED, kind, length[0], length[1]]);
    place[HEADER_BYTES..].copy_from_slice(value);
    Some(end)
}

/// Fixed part of Location: ports as the reflector saw them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// Port that the packet was sent to.
    pub destination_port: u16,
    /// Port that it came from.
    pub source_port: u16,
}

/// How stamps are taken; 0 in a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimestampInformation {
    /// [`sync_source`] at reception.
    pub sync_in: u8,
    /// [`stamp_method`] of T2.
    pub method_in: u8,
    /// [`sync_source`] at transmission.
    pub sync_out: u8,
    /// [`stamp_method`] of T3.
    pub method_out: u8,
}

/// Class of service on both ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassOfService {
    /// DSCP that the sender wants for the reply, 0 to 63.
    pub wanted_dscp: u8,
    /// DSCP with which the packet reached the reflector, 0 to 63.
    pub received_dscp: u8,
    /// ECN with which the packet reached the reflector, 0 to 3.
    pub received_ecn: u8,
    /// 1 where the reflector's policy did not allow the wanted DSCP, 0 to 3.
    pub reverse_path: u8,
}

/// Counters of both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectMeasurement {
    /// Packets that the sender has sent, this one included.
    pub sender_transmitted: u32,
    /// Packets that the reflector has received, this one included.
    pub reflector_received: u32,
    /// Packets that the reflector has sent, this one included.
    pub reflector_transmitted: u32,
}

/// State of an access network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessReport {
    /// 1: 3GPP, 2: other, 0 to 15.
    pub access_id: u8,
    /// 1: available, 2: not.
    pub return_code: u8,
}

/// When the reflector really sent its reply before this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FollowUp {
    /// The reflector's sequence number of that reply.
    pub sequence: u32,
    /// Its T3, in the format of the base packet.
    pub timestamp: u64,
    /// [`stamp_method`] of that stamp.
    pub method: u8,
}

/// A value of fixed length: to bytes and from exactly as many.
macro_rules! value_of {
    ($name:ident, $bytes:literal, |$to:ident| $octets:expr, |$from:ident| $value:expr) => {
        impl $name {
            /// Bytes of the value.
            pub const BYTES: usize = $bytes;

            /// As it goes over the wire; what must be zero is zero.
            pub fn to_octets(&self) -> [u8; $bytes] {
                let $to = self;
                $octets
            }

            /// The value at the start of `octets`; none where they are fewer. What must be zero is not looked at.
            pub fn from_octets(octets: &[u8]) -> Option<Self> {
                let $from: &[u8; $bytes] = octets.first_chunk()?;
                Some($value)
            }
        }
    };
}

value_of!(
    Location,
    4,
    |v| {
        let (to, from) = (v.destination_port.to_be_bytes(), v.source_port.to_be_bytes());
        [to[0], to[1], from[0], from[1]]
    },
    |o| Self {
        destination_port: u16::from_be_bytes([o[0], o[1]]),
        source_port: u16::from_be_bytes([o[2], o[3]]),
    }
);
value_of!(TimestampInformation, 4, |v| [v.sync_in, v.method_in, v.sync_out, v.method_out], |o| Self {
    sync_in: o[0],
    method_in: o[1],
    sync_out: o[2],
    method_out: o[3]
});
value_of!(
    ClassOfService,
    4,
    |v| {
        let (wanted, received) = (u16::from(v.wanted_dscp & 63), u16::from(v.received_dscp & 63));
        let low = u16::from(v.received_ecn & 3) << 2 | u16::from(v.reverse_path & 3);
        let [first, second] = (wanted << 10 | received << 4 | low).to_be_bytes();
        [first, second, 0, 0]
    },
    |o| Self {
        wanted_dscp: o[0] >> 2,
        received_dscp: (o[0] & 3) << 4 | o[1] >> 4,
        received_ecn: o[1] >> 2 & 3,
        reverse_path: o[1] & 3,
    }
);
value_of!(
    DirectMeasurement,
    12,
    |v| {
        let mut octets = [0; 12];
        octets[..4].copy_from_slice(&v.sender_transmitted.to_be_bytes());
        octets[4..8].copy_from_slice(&v.reflector_received.to_be_bytes());
        octets[8..].copy_from_slice(&v.reflector_transmitted.to_be_bytes());
        octets
    },
    |o| Self {
        sender_transmitted: u32::from_be_bytes([o[0], o[1], o[2], o[3]]),
        reflector_received: u32::from_be_bytes([o[4], o[5], o[6], o[7]]),
        reflector_transmitted: u32::from_be_bytes([o[8], o[9], o[10], o[11]]),
    }
);
value_of!(AccessReport, 4, |v| [v.access_id << 4, v.return_code, 0, 0], |o| Self {
    access_id: o[0] >> 4,
    return_code: o[1]
});
value_of!(
    FollowUp,
    16,
    |v| {
        let mut octets = [0; 16];
        octets[..4].copy_from_slice(&v.sequence.to_be_bytes());
        octets[4..12].copy_from_slice(&v.timestamp.to_be_bytes());
        octets[12] = v.method;
        octets
    },
    |o| Self {
        sequence: u32::from_be_bytes([o[0], o[1], o[2], o[3]]),
        timestamp: u64::from_be_bytes([o[4], o[5], o[6], o[7], o[8], o[9], o[10], o[11]]),
        method: o[12],
    }
);

/// An address as a Location sub-TLV holds it: IPv4 in the first four of 16 bytes.
pub fn address_octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let mut octets = [0; 16];
            octets[..4].copy_from_slice(&address.octets());
            octets
        }
        IpAddr::V6(address) => address.octets(),
    }
}
