//! Messages of OWAMP-Control (RFC 4656) and TWAMP-Control (RFC 5357), and test packets of OWAMP. Network byte order;
//! time stamps are NTP's ([`super::stamp::time`]). All messages are whole blocks of 16 bytes. In unauthenticated mode
//! the fields that hold HMAC, keys and initialisation vectors are not looked at.
//!
//! ```text
//!  Greeting, 64              Set-Up-Response, 164       Server-Start, 48
//!   0  unused (12)            0  Mode (4)                0  MBZ (15)
//!  12  Modes (4)              4  KeyID (80)             15  Accept (1)
//!  16  Challenge (16)        84  Token (64)             16  Server-IV (16)
//!  32  Salt (16)            148  Client-IV (16)         32  Start-Time (8)
//!  48  Count (4), MBZ (12)                              40  MBZ (8)
//!
//!  Request-Session, 112, and Request-TW-Session         Accept-Session, 48
//!   0  1 or 5 (1), MBZ and IPVN (1)                      0  Accept (1), MBZ (1)
//!   2  Conf-Sender (1), Conf-Receiver (1)                2  Port (2)
//!   4  Number of Schedule Slots (4)                      4  SID (16)
//!   8  Number of Packets (4)                            20  MBZ (12)
//!  12  Sender Port (2), Receiver Port (2)               32  HMAC (16)
//!  16  Sender Address (16)
//!  32  Receiver Address (16)                            Slot, 16
//!  48  SID (16)                                          0  Type (1), MBZ (7)
//!  64  Padding Length (4)                                8  Parameter (8)
//!  68  Start Time (8), Timeout (8)
//!  84  Type-P Descriptor (4), MBZ (8)                   Start-Sessions, 32; Start-Ack, 32
//!  96  HMAC (16)                                         0  2, or Accept (1), MBZ (15)
//!                                                       16  HMAC (16)
//!
//!  Stop-Sessions, 16         Session, 24                Skip Range, 8
//!   0  3 (1), Accept (1)      0  SID (16)                0  First (4), Last (4)
//!   4  Number of Sessions    16  Next Seqno (4)
//!   8  MBZ (8)               20  Skip Ranges (4)
//!
//!  Fetch-Session, 48         Fetch-Ack, 32              Packet Record, 25
//!   0  4 (1), MBZ (7)         0  Accept, Finished, MBZ   0  Seq Number (4)
//!   8  Begin Seq, End Seq     4  Next Seqno (4)          4  Send, Receive Error Estimate (2 each)
//!  16  SID (16)               8  Skip Ranges (4)         8  Send Timestamp (8)
//!  32  HMAC (16)             12  Records (4)            16  Receive Timestamp (8)
//!                            16  HMAC (16)              24  TTL (1)
//!
//!  Test packet of OWAMP, 14 and padding
//!   0  Sequence Number (4)
//!   4  Timestamp (8)
//!  12  Error Estimate (2)
//! ```
//!
//! Stop-Sessions of OWAMP goes on with Sessions, each with its Skip Ranges and zeros up to a whole block; an HMAC ends
//! it. After Fetch-Ack come the Request-Session with its slots and an HMAC, the Skip Ranges with zeros and an HMAC, the
//! Packet Records with zeros and an HMAC.

use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a block; all messages are padded to whole ones.
pub const BLOCK_BYTES: usize = 16;
/// Modes: unauthenticated.
pub const MODE_UNAUTHENTICATED: u32 = 1;
/// Modes: authenticated, encrypted, and mixed, which need a key.
pub const MODES_WITH_KEY: u32 = 2 | 4 | 8;
/// Least bytes of an OWAMP test packet.
pub const LEAST_TEST_BYTES: usize = 14;
/// TTL of a packet record where it is not known.
pub const TTL_UNKNOWN: u8 = 255;

/// Number of a command: the first byte of what a client says.
pub mod command {
    /// A one-way session is asked for.
    pub const REQUEST_SESSION: u8 = 1;
    /// All sessions begin.
    pub const START_SESSIONS: u8 = 2;
    /// All sessions end.
    pub const STOP_SESSIONS: u8 = 3;
    /// The records of a session are asked for.
    pub const FETCH_SESSION: u8 = 4;
    /// A two-way session is asked for (RFC 5357, section 3.5).
    pub const REQUEST_TW_SESSION: u8 = 5;
}

/// Values of Accept fields (RFC 4656, section 3.3).
pub mod accept {
    /// As asked for.
    pub const OK: u8 = 0;
    /// Failure, reason unspecified.
    pub const FAILURE: u8 = 1;
    /// Internal error.
    pub const INTERNAL: u8 = 2;
    /// Some part of the request is not supported.
    pub const NOT_SUPPORTED: u8 = 3;
    /// Permanently more than the server gives.
    pub const PERMANENT_LIMIT: u8 = 4;
    /// More than the server gives now.
    pub const TEMPORARY_LIMIT: u8 = 5;

    /// What a value means, as the end of a sentence.
    pub const fn words(value: u8) -> &'static str {
        match value {
            OK => "accepted",
            FAILURE => "without a reason",
            INTERNAL => "because of an internal error",
            NOT_SUPPORTED => "because it does not support some part of the request",
            PERMANENT_LIMIT => "because its limits never allow it",
            TEMPORARY_LIMIT => "because its limits do not allow it now",
            _ => "with a reason that the RFC does not know",
        }
    }
}

/// Types of schedule slots (RFC 4656, section 3.5).
pub mod slot {
    /// Random gaps, exponentially distributed with this mean.
    pub const EXPONENTIAL: u8 = 0;
    /// Gaps of exactly this length.
    pub const LITERAL: u8 = 1;
}

/// Declares a message: bytes in order, each field public but those named `_`.
macro_rules! messages {
    ($($(#[$meta:meta])* $name:ident, $bytes:literal { $($(#[$field_meta:meta])* $visibility:vis $field:ident: $type:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
        #[repr(C)]
        pub struct $name { $($(#[$field_meta])* $visibility $field: $type,)* }
        const _: () = assert!(size_of::<$name>() == $bytes);
    )*};
}

messages! {
    /// The server's first words.
    Greeting, 64 {
        unused: [u8; 12],
        /// What it speaks, a bit each; 0: nothing to this client.
        pub modes: U32,
        /// Random.
        pub challenge: [u8; 16],
        /// Random.
        pub salt: [u8; 16],
        /// Rounds of the key's derivation, at least 1024.
        pub count: U32,
        zero_52: [u8; 12],
    }

    /// The client's choice.
    SetUpResponse, 164 {
        /// One of the server's modes; 0: none.
        pub mode: U32,
        key_id: [u8; 80],
        token: [u8; 64],
        client_iv: [u8; 16],
    }

    /// Whether the server goes on.
    ServerStart, 48 {
        zero_0: [u8; 15],
        /// See [`accept`].
        pub accept: u8,
        server_iv: [u8; 16],
        /// Since when the server runs.
        pub start_time: U64,
        zero_40: [u8; 8],
    }

    /// A session as it is asked for.
    RequestSession, 112 {
        /// [`command::REQUEST_SESSION`] or [`command::REQUEST_TW_SESSION`].
        pub command: u8,
        /// Version of IP in the low four bits.
        pub ip_version: u8,
        /// Whether the server is to send: 0 or 1.
        pub conf_sender: u8,
        /// Whether the server is to receive: 0 or 1.
        pub conf_receiver: u8,
        /// Slots that follow.
        pub slots: U32,
        /// Packets; 0 in a two-way session.
        pub packets: U32,
        /// Where packets come from.
        pub sender_port: U16,
        /// Where they go.
        pub receiver_port: U16,
        /// Of IPv4 the first four bytes; 0: that of the control connection.
        pub sender_address: [u8; 16],
        /// Likewise.
        pub receiver_address: [u8; 16],
        /// Name of the session where the client receives.
        pub sid: [u8; 16],
        /// Bytes beyond the least packet.
        pub padding: U32,
        /// When the session begins.
        pub start: U64,
        /// A packet that takes longer is lost.
        pub timeout: U64,
        /// Upper two bits 0: a DSCP in the next six.
        pub type_p: U32,
        zero_88: [u8; 8],
        hmac: [u8; 16],
    }

    /// A part of a schedule.
    Slot, 16 {
        /// See [`slot`].
        pub kind: u8,
        zero_1: [u8; 7],
        /// Seconds in 2^-32.
        pub parameter: U64,
    }

    /// Whether a session can be.
    AcceptSession, 48 {
        /// See [`accept`].
        pub accept: u8,
        zero_1: u8,
        /// The server's port.
        pub port: U16,
        /// Name of the session where the server receives.
        pub sid: [u8; 16],
        zero_20: [u8; 12],
        hmac: [u8; 16],
    }

    /// Start-Sessions and Start-Ack.
    Start, 32 {
        /// [`command::START_SESSIONS`], or of Start-Ack see [`accept`].
        pub command_or_accept: u8,
        zero_1: [u8; 15],
        hmac: [u8; 16],
    }

    /// Begin of Stop-Sessions; in TWAMP an HMAC follows, and that is all.
    StopSessions, 16 {
        /// [`command::STOP_SESSIONS`].
        pub command: u8,
        /// See [`accept`].
        pub accept: u8,
        zero_2: [u8; 2],
        /// Sessions that this end sent; in TWAMP all.
        pub sessions: U32,
        zero_8: [u8; 8],
    }

    /// What became of a session, by its sender.
    SessionRecord, 24 {
        /// Its name.
        pub sid: [u8; 16],
        /// Number of the packet that would have been next.
        pub next_seqno: U32,
        /// Skip ranges that follow.
        pub skips: U32,
    }

    /// Packets that were never sent.
    SkipRange, 8 {
        /// Number of the first.
        pub first: U32,
        /// Number of the last.
        pub last: U32,
    }

    /// Asks for the records of a session.
    FetchSession, 48 {
        /// [`command::FETCH_SESSION`].
        pub command: u8,
        zero_1: [u8; 7],
        /// Number of the first packet.
        pub begin: U32,
        /// Number of the last packet; with 0 as the first, all ones here are the whole session.
        pub end: U32,
        /// Its name.
        pub sid: [u8; 16],
        hmac: [u8; 16],
    }

    /// What comes of a session.
    FetchAck, 32 {
        /// See [`accept`].
        pub accept: u8,
        /// 1: the session ended in order.
        pub finished: u8,
        zero_2: [u8; 2],
        /// Number of the packet that would have been next.
        pub next_seqno: U32,
        /// Skip ranges that follow.
        pub skips: U32,
        /// Packet records that follow.
        pub records: U32,
        hmac: [u8; 16],
    }

    /// A packet, received or lost.
    PacketRecord, 25 {
        /// Its number.
        pub sequence: U32,
        /// How good its time of sending is.
        pub send_error: U16,
        /// How good its time of arrival is.
        pub receive_error: U16,
        /// When it was sent; of a lost packet, when it was due.
        pub sent: U64,
        /// When it arrived; 0: never.
        pub received: U64,
        /// Its TTL or hop limit; [`TTL_UNKNOWN`].
        pub ttl: u8,
    }

    /// Begin of a test packet of OWAMP.
    TestHeader, 14 {
        /// From 0.
        pub sequence: U32,
        /// When it was sent.
        pub sent: U64,
        /// How good that is.
        pub error: U16,
    }
}

#[cfg(test)]
mod tests;
