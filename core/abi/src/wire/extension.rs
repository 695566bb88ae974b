//! Quaver's extension of Jitlat's control connection: versioned messages that a peer of the document refuses
//! cleanly. Not of any standard; `docs/protocol.md` has the sequences.
//!
//! A message is a header in the shape of a workorder and a body. The first, [`Kind::Hello`], has no body, so that
//! a peer that knows only the document reads one whole workorder with a command that it does not know, and its
//! NAK is not lost to bytes that it never reads. All numbers are big-endian.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |              command = 8 (EXTEND)                             |  0
//! +---------------------------------------------------------------+
//! |              version                                          |  4
//! +---------------------------------------------------------------+
//! |              bytes of body that follow                       |  8
//! +---------------------------------------------------------------+
//! |              kind                                             | 12
//! +---------------------------------------------------------------+
//! |                                                               | 16
//! +              number of the message in its direction, from 0   +
//! |                                                               | 20
//! +---------------------------------------------------------------+
//! |              flags (bit 0: a 32-octet code ends the body)     | 24
//! +---------------------------------------------------------------+
//! |                                                               | 28
//! +              nonce of 12 bytes in HELLO, else zero           +
//! |                                                               | 32
//! +                                                               +
//! |                                                               | 36
//! +---------------------------------------------------------------+
//! ```
//!
//! A body is a row of fields, and with a key the code after them:
//!
//! ```text
//! +-------------------------------+-------------------------------+
//! | type (bit 15: must be known)  | bytes of value               |
//! +-------------------------------+-------------------------------+
//! | value ...                                                     |
//! +---------------------------------------------------------------+
//! ```

mod elements;

pub use elements::{
    ClockElement, ClockPairElement, CookieElement, DeparturesElement, FlowElement, HopChangeElement,
    HopsElement, LimitsElement, MoveElement, ReceiverElement, SegmentsElement, SenderElement, SendingElement,
    SendingReportElement, SourceElement, SourceReportElement, TimeElement,
};

use super::jitlat::{Command, WORKORDER_BYTES};
use core::fmt;
use strum::{FromRepr, IntoStaticStr, VariantArray};
use zerocopy::byteorder::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version that this code speaks.
pub const VERSION: u32 = 2;
/// Bytes of a header: those of a workorder.
pub const HEADER_BYTES: usize = WORKORDER_BYTES;
/// Most bytes of a body, with its code.
pub const MOST_BODY_BYTES: usize = 65_536;
/// Bytes of the code that ends an authenticated body (HMAC-SHA256, RFC 2104).
pub const CODE_BYTES: usize = 32;
/// Bytes of the client's nonce in HELLO.
pub const NONCE_BYTES: usize = 12;
/// Bytes of a row of [`field::SAMPLES`].
pub const SAMPLE_BYTES: usize = super::jitlat::SINGLETON_BYTES;
/// Most rows of a message.
pub const MOST_SAMPLES: usize = 2_000;
/// Most bytes of a sentence.
pub const MOST_SENTENCE_BYTES: usize = 400;
/// First bytes of the datagram, or of the test connection, that echoes a cookie.
pub const COOKIE_MAGIC: [u8; 8] = *b"QuavrCk\x01";
/// Bytes of that datagram: magic, session tag, cookie.
pub const COOKIE_BYTES: usize = 32;

/// Flag of a header: a code ends the body.
pub const FLAG_CODE: u32 = 1;

/// Field types. Bit 15 marks those that a receiver must know or else refuse the message.
pub mod field {
    /// Least and most version, two `u32`.
    pub const VERSIONS: u16 = 0x8001;
    /// Server's nonce, 16 bytes or more.
    pub const NONCE: u16 = 0x8002;
    /// One octet: 1 if messages must bear a code.
    pub const KEY_WANTED: u16 = 0x8003;
    /// Reason of a refusal, `u32`.
    pub const REFUSAL: u16 = 0x8004;
    /// Words for a person, UTF-8.
    pub const SENTENCE: u16 = 0x0005;
    /// [`super::TimeElement`].
    pub const TIME: u16 = 0x8006;
    /// [`super::FlowElement`].
    pub const FLOW: u16 = 0x8007;
    /// [`super::CookieElement`], one for each flow in their order.
    pub const COOKIE: u16 = 0x8008;
    /// Place in the queue, `u32`.
    pub const PLACE: u16 = 0x8009;
    /// Address and port as the server sees them: 16 bytes (IPv4 mapped into IPv6) and `u16`.
    pub const ADDRESS: u16 = 0x800a;
    /// [`super::ClockElement`].
    pub const CLOCK: u16 = 0x000b;
    /// Any number of [`super::ClockPairElement`].
    pub const CLOCK_PAIRS: u16 = 0x000c;
    /// What chronyd says of the same clock ([`crate::wire::chrony::Tracking::to_octets`]); an end where none runs leaves
    /// it out.
    pub const CHRONY: u16 = 0x0017;
    /// [`super::SenderElement`].
    pub const SENDER: u16 = 0x800d;
    /// [`super::ReceiverElement`].
    pub const RECEIVER: u16 = 0x800e;
    /// Number of the first row, `u64`, and rows as singletons; bits 24 and 25 of their flags tell what stamped
    /// them (0 hardware, 1 kernel, 2 application).
    pub const SAMPLES: u16 = 0x800f;
    /// Rows in all, `u64`.
    pub const ROWS: u16 = 0x8010;
    /// Number of the first offset, `u64`, and offsets of a recorded schedule, `u64` each.
    pub const OFFSETS: u16 = 0x8011;
    /// [`super::SourceElement`].
    pub const SOURCE: u16 = 0x8012;
    /// [`super::LimitsElement`]: what the server would allow.
    pub const LIMITS: u16 = 0x0013;
    /// [`super::SourceReportElement`].
    pub const SOURCE_REPORT: u16 = 0x0014;
    /// [`super::SegmentsElement`]; an end that knows nothing of segments leaves it out.
    pub const SEGMENTS: u16 = 0x0015;
    /// [`super::DeparturesElement`]; a sender whose packets nobody stamped leaves it out.
    pub const DEPARTURES: u16 = 0x0016;
    /// Number of a packet, `u64`, and for it and those after it the time from sending to departure, nanoseconds, `u32`
    /// each (all bits: not known).
    pub const DEPARTED: u16 = 0x8018;
    /// [`super::SendingElement`]; an end that knows nothing of it skips late packets and makes no trains.
    pub const SENDING: u16 = 0x0019;
    /// [`super::SendingReportElement`].
    pub const SENDING_REPORT: u16 = 0x001a;
    /// Packets that came with others in one piece, whose stamp they bear, `u64`. In rows of [`SAMPLES`] bit 26 of the flags
    /// marks them.
    pub const OF_TRAINS: u16 = 0x001b;
    /// [`super::HopsElement`]; a receiver that knows no TTL leaves it out.
    pub const HOPS: u16 = 0x001c;
    /// [`super::MoveElement`]; a server whose client kept its address and port leaves it out.
    pub const MOVE: u16 = 0x001d;
}

/// What a message says. Values are part of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
#[repr(u32)]
pub enum Kind {
    /// Client: the extension, please. No body, never a code.
    Hello = 1,
    /// Server: versions, nonce, whether a key is wanted. Never a code; both are bound into the session's key.
    Challenge = 2,
    /// Either: no, and why. Closes.
    Refuse = 3,
    /// Client: my clocks.
    Time = 4,
    /// Server: the same back, with mine.
    TimeReply = 5,
    /// Client: a test.
    Request = 6,
    /// Client: offsets of a recorded schedule.
    Offsets = 7,
    /// Server: wait.
    Queued = 8,
    /// Server: agreed; cookies.
    Accept = 9,
    /// Server: the cookie came on the test port, from this address.
    Ready = 10,
    /// Client: begin.
    Start = 11,
    /// Server: the receiver listens.
    Go = 12,
    /// Receiver of the flow: the sentinel came.
    Done = 13,
    /// Sender of the flow: counts.
    Sent = 14,
    /// Server: samples.
    Samples = 15,
    /// Server: that was all of this flow.
    End = 16,
    /// Client: end the flow now, and tell what there is.
    Stop = 17,
    /// Client: thank you. Closes.
    Bye = 18,
    /// Client: start a constant-bit-rate source towards me.
    Source = 19,
}

impl Kind {
    /// Name in documents and errors.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Why a request was refused. Values are part of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, VariantArray)]
#[repr(u32)]
pub enum Refusal {
    /// Another version of the extension.
    Version = 1,
    /// A message that is none, or not now.
    Malformed = 2,
    /// The key is missing or wrong.
    Key = 3,
    /// More packets or bits a second than allowed.
    Rate = 4,
    /// Longer than allowed.
    Duration = 5,
    /// Packets too long or too short.
    Size = 6,
    /// More packets than the server keeps samples of.
    Count = 7,
    /// Other tests are under way, and no place is left to wait.
    Busy = 8,
    /// The cookie did not come back on the test port.
    Cookie = 9,
    /// The server does not do this.
    Unsupported = 10,
    /// Silence for too long.
    Timeout = 11,
    /// The server's system failed.
    Failed = 12,
    /// The server is ending.
    Ending = 13,
}

impl Refusal {
    /// The reason of a value on the wire; one that a later version may have added counts as unsupported.
    pub fn of(value: u32) -> Self {
        Self::from_repr(value).unwrap_or(Self::Unsupported)
    }
}

/// Why bytes are no message of the extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtensionError {
    /// Another command, or fewer bytes than a header has.
    NotExtended,
    /// Another version.
    Version(u32),
    /// A kind that this version has not.
    Kind(u32),
    /// A body longer than allowed.
    TooLong(u32),
    /// A field that reaches beyond the body.
    Truncated,
    /// A field that must be known and is not.
    UnknownField(u16),
    /// A field of the wrong size or with an impossible value.
    BadField(u16),
    /// A field that the message must have.
    Missing(u16),
    /// Reserved bits that are set, or flags that there are not.
    Reserved,
}

impl fmt::Display for ExtensionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotExtended => f.write_str("no message of the extension"),
            Self::Version(version) => write!(f, "version {version} of the extension, here is {VERSION}"),
            Self::Kind(kind) => write!(f, "unknown kind of message {kind}"),
            Self::TooLong(octets) => write!(f, "a body of {octets} bytes, at most {MOST_BODY_BYTES}"),
            Self::Truncated => f.write_str("a field that reaches beyond its message"),
            Self::UnknownField(field) => write!(f, "unknown necessary field {field:#06x}"),
            Self::BadField(field) => write!(f, "impossible value of field {field:#06x}"),
            Self::Missing(field) => write!(f, "field {field:#06x} is missing"),
            Self::Reserved => f.write_str("reserved bits are set"),
        }
    }
}

impl core::error::Error for ExtensionError {}

/// A header as it lies on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct HeaderLayout {
    /// 8, EXTEND.
    pub command: U32,
    /// [`VERSION`].
    pub version: U32,
    /// Bytes that follow.
    pub body_bytes: U32,
    /// [`Kind`].
    pub kind: U32,
    /// From 0 in each direction.
    pub number: U64,
    /// [`FLAG_CODE`].
    pub flags: U32,
    /// Random in HELLO, else zero.
    pub nonce: [u8; NONCE_BYTES],
}
const _: () = assert!(size_of::<HeaderLayout>() == HEADER_BYTES);

/// Start of each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the message says.
    pub kind: Kind,
    /// Bytes that follow, with the code; at most [`MOST_BODY_BYTES`].
    pub body_bytes: u32,
    /// Number of the message in its direction, from 0.
    pub number: u64,
    /// Whether a code of [`CODE_BYTES`] ends the body.
    pub coded: bool,
    /// The client's nonce; zero but in HELLO.
    pub nonce: [u8; NONCE_BYTES],
}

impl Header {
    /// As it goes over the wire, in version [`VERSION`].
    pub fn to_octets(&self) -> [u8; HEADER_BYTES] {
        zerocopy::transmute!(HeaderLayout {
            command: U32::new(Command::Extend as u32),
            version: U32::new(VERSION),
            body_bytes: U32::new(self.body_bytes),
            kind: U32::new(self.kind as u32),
            number: U64::new(self.number),
            flags: U32::new(if self.coded { FLAG_CODE } else { 0 }),
            nonce: self.nonce,
        })
    }

    /// The header that exactly these bytes are.
    ///
    /// # Errors
    /// Whatever is not of this version, strictly.
    pub fn from_octets(octets: &[u8; HEADER_BYTES]) -> Result<Self, ExtensionError> {
        let layout: HeaderLayout = zerocopy::transmute!(*octets);
        if layout.command.get() != Command::Extend as u32 {
            return Err(ExtensionError::NotExtended);
        }
        if layout.version.get() != VERSION {
            return Err(ExtensionError::Version(layout.version.get()));
        }
        let kind = Kind::from_repr(layout.kind.get()).ok_or(ExtensionError::Kind(layout.kind.get()))?;
        let (body_bytes, flags) = (layout.body_bytes.get(), layout.flags.get());
        if body_bytes as usize > MOST_BODY_BYTES || (kind == Kind::Hello && body_bytes != 0) {
            return Err(ExtensionError::TooLong(body_bytes));
        }
        let coded = flags & FLAG_CODE != 0;
        if flags & !FLAG_CODE != 0 || (kind != Kind::Hello && layout.nonce != [0; NONCE_BYTES]) {
            return Err(ExtensionError::Reserved);
        }
        if coded && (body_bytes as usize) < CODE_BYTES {
            return Err(ExtensionError::Truncated);
        }
        Ok(Self { kind, body_bytes, number: layout.number.get(), coded, nonce: layout.nonce })
    }
}

/// The fields of a body without its code, in their order. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Fields of `body`.
    pub fn new(body: &'a [u8]) -> Self {
        Self { rest: body }
    }

    /// The first field of this type.
    ///
    /// # Errors
    /// When it is missing, or a field before it is broken.
    pub fn find(mut self, wanted: u16) -> Result<&'a [u8], ExtensionError> {
        self.find_map(|field| match field {
            Ok((found, value)) => (found == wanted).then_some(Ok(value)),
            Err(error) => Some(Err(error)),
        })
        .unwrap_or(Err(ExtensionError::Missing(wanted)))
    }

    /// Whether all fields are whole, and those that must be known are among `known`.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(mut self, known: &[u16]) -> Result<(), ExtensionError> {
        self.try_for_each(|field| match field? {
            (found, _) if found & 0x8000 != 0 && !known.contains(&found) => {
                Err(ExtensionError::UnknownField(found))
            }
            _ => Ok(()),
        })
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u16, &'a [u8]), ExtensionError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let Some(([t0, t1, l0, l1], rest)) = self.rest.split_first_chunk() else {
            self.rest = &[];
            return Some(Err(ExtensionError::Truncated));
        };
        let length = usize::from(u16::from_be_bytes([*l0, *l1]));
        let Some((value, rest)) = rest.split_at_checked(length) else {
            self.rest = &[];
            return Some(Err(ExtensionError::Truncated));
        };
        self.rest = rest;
        Some(Ok((u16::from_be_bytes([*t0, *t1]), value)))
    }
}

#[cfg(test)]
mod tests;
