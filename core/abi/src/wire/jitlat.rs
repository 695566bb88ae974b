//! Messages of Jitlat (DRDC Ottawa TM 2011-047): workorders, test packets, singletons. Network byte order.
//!
//! What the document gives and what had to be inferred is told apart in `docs/protocol.md`. A workorder:
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                            command                            |  0
//! +---------------------------------------------------------------+
//! |                             npkts                             |  4
//! +---------------------------------------------------------------+
//! |            pktlen          (in a probe: T1, high half)        |  8
//! +---------------------------------------------------------------+
//! |            proto           (in a probe: T1, low half)         | 12
//! +---------------------------------------------------------------+
//! |                                                               | 16
//! +            period, ns      (in a probe: T2)                   +
//! |                                                               | 20
//! +---------------------------------------------------------------+
//! |                            src_ip                             | 24
//! +---------------------------------------------------------------+
//! |                            dst_ip                             | 28
//! +-------------------------------+-------------------------------+
//! |           src_port            |           dst_port            | 32
//! +-------------------------------+-------------------------------+
//! |                             dscp                              | 36
//! +---------------------------------------------------------------+
//! ```
//!
//! A test packet:
//!
//! ```text
//! +---------------------------------------------------------------+
//! |                                                               |  0
//! +               transmit realtime timestamp, ns                 +
//! |                                                               |  4
//! +---------------------------------------------------------------+
//! |                   transmit sequence number                    |  8
//! +---------------------------------------------------------------+
//! |                 padding, up to pktlen bytes                  | 12
//! ```
//!
//! A singleton, as it follows a SAMPLES workorder:
//!
//! ```text
//! +---------------------------------------------------------------+
//! |                                                               |  0
//! +                       tx_real_time, ns                        +
//! |                                                               |  4
//! +---------------------------------------------------------------+
//! |                            tx_seq                             |  8
//! +---------------------------------------------------------------+
//! |                                                               | 12
//! +                       rx_real_time, ns                        +
//! |                                                               | 16
//! +---------------------------------------------------------------+
//! |                             flags                             | 20
//! +---------------------------------------------------------------+
//! ```

use core::fmt;
use core::net::Ipv4Addr;
use strum::{FromRepr, IntoStaticStr, VariantArray};
use zerocopy::byteorder::network_endian::{I32, I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// TCP port of the control connection (section 4.2).
pub const CONTROL_PORT: u16 = 2666;
/// Port to which test packets go (section 4.2).
pub const TEST_PORT: u16 = 2667;
/// Test packets of a test (section 4.3.2).
pub const DEFAULT_NPKTS: u32 = 1000;
/// Bytes of payload of a test packet (section 4.3.2).
pub const DEFAULT_PKTLEN: u32 = 80;
/// Nanoseconds from one test packet to the next (section 4.3.2).
pub const DEFAULT_PERIOD_NS: u64 = 20_000_000;
/// `proto` of a flow of TCP segments.
pub const PROTO_TCP: u32 = 6;
/// `proto` of a flow of UDP datagrams, the default.
pub const PROTO_UDP: u32 = 17;

/// Bytes of a workorder.
pub const WORKORDER_BYTES: usize = 40;
/// Bytes of a test packet before its padding, hence the smallest `pktlen`.
pub const TEST_PACKET_BYTES: usize = 12;
/// Bytes of a singleton on the control connection.
pub const SINGLETON_BYTES: usize = 24;
/// Sequence number of the packets that tell the end of a test.
pub const SENTINEL: i32 = -1;

/// Flag of a singleton: its packet had been received before. The bit is our choice.
pub const FLAG_DUPLICATE: i32 = 1;
/// Flag of a singleton: its packet cannot belong to the test. The bit is our choice.
pub const FLAG_INVALID: i32 = 2;
/// Flag of a singleton: its packet reached a reflector, as the numbers of other replies tell, and its own reply was lost with the
/// reflector's stamp. Its times mean nothing. No Jitlat peer sets it.
pub const FLAG_UNSTAMPED: i32 = 4;

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Another number of bytes than the message has, or fewer than its header has.
    Length {
        /// What was read: `workorder`, `test packet`, `singleton`.
        what: &'static str,
        /// Bytes that it has.
        expected: usize,
        /// Bytes that there are.
        got: usize,
    },
    /// A command that no version of the protocol has.
    UnknownCommand(u32),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { what, expected, got } => {
                write!(f, "a {what} has {expected} bytes, but there are {got}")
            }
            Self::UnknownCommand(command) => write!(f, "{command} is no command of Jitlat (1 to 8)"),
        }
    }
}

impl core::error::Error for DecodeError {}

/// What a workorder says. SEND_ME to NAK are of section 4.3.2, RTT_PROBE of annex A.2, EXTEND is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
#[repr(u32)]
pub enum Command {
    /// Client to server: send test packets to me.
    SendMe = 1,
    /// Whoever is about to send test packets says so.
    Sending = 2,
    /// Reserved; nobody sends it.
    Sent = 3,
    /// Server to client: the singletons of what was received follow.
    Samples = 4,
    /// Agreed, or received.
    Ack = 5,
    /// Refused; both sides close, and nothing is logged.
    Nak = 6,
    /// Client to server and back: clock readings.
    RttProbe = 7,
    /// Quaver's versioned extension; a peer that knows only the document refuses it.
    Extend = 8,
}

impl Command {
    /// All commands, in the order of their values.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The document's name, as it stands in a log file.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The command of a name as [`Command::name`] gives it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|command| command.name() == name)
    }
}

impl TryFrom<u32> for Command {
    type Error = DecodeError;

    fn try_from(value: u32) -> Result<Self, DecodeError> {
        Self::from_repr(value).ok_or(DecodeError::UnknownCommand(value))
    }
}

/// A workorder as it lies on the wire. Any bytes are one; [`Workorder`] knows which mean something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct WorkorderLayout {
    /// [`Command`].
    pub command: U32,
    /// Packets to send.
    pub npkts: U32,
    /// Bytes of payload of a packet.
    pub pktlen: U32,
    /// IP protocol number of the test connection.
    pub proto: U32,
    /// Nanoseconds from one packet to the next.
    pub period_ns: U64,
    /// Address that test packets come from.
    pub src_ip: [u8; 4],
    /// Address that test packets go to.
    pub dst_ip: [u8; 4],
    /// Port that test packets come from; 0 for the sender's system to choose.
    pub src_port: U16,
    /// Port that test packets go to.
    pub dst_port: U16,
    /// DSCP of the test packets.
    pub dscp: U32,
}
const _: () = assert!(size_of::<WorkorderLayout>() == WORKORDER_BYTES);

/// The one message of the control connection (section 4.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workorder {
    /// What it says.
    pub command: Command,
    /// Test packets to send.
    pub npkts: u32,
    /// Bytes of payload of a test packet, not less than [`TEST_PACKET_BYTES`].
    pub pktlen: u32,
    /// [`PROTO_UDP`] or [`PROTO_TCP`].
    pub proto: u32,
    /// Nanoseconds from one test packet to the next.
    pub period_ns: u64,
    /// Address that test packets come from.
    pub src_ip: Ipv4Addr,
    /// Address that test packets go to.
    pub dst_ip: Ipv4Addr,
    /// Port that test packets come from; 0 until the sender's system has chosen one.
    pub src_port: u16,
    /// Port that test packets go to.
    pub dst_port: u16,
    /// DSCP of the test packets, 0 to 63.
    pub dscp: u32,
}

impl Workorder {
    /// A workorder with the document's defaults: 1000 packets of 80 bytes in UDP, one each 20 ms, to port 2667.
    pub fn new(command: Command) -> Self {
        Self {
            command,
            npkts: DEFAULT_NPKTS,
            pktlen: DEFAULT_PKTLEN,
            proto: PROTO_UDP,
            period_ns: DEFAULT_PERIOD_NS,
            src_ip: Ipv4Addr::UNSPECIFIED,
            dst_ip: Ipv4Addr::UNSPECIFIED,
            src_port: 0,
            dst_port: TEST_PORT,
            dscp: 0,
        }
    }

    /// A probe of the round trip, as the client sends it at `t1_ns` of its clock (annex A.2).
    pub fn rtt_probe(t1_ns: i64) -> Self {
        let mut probe = Self { npkts: 0, period_ns: 0, dst_port: 0, ..Self::new(Command::RttProbe) };
        probe.set_t1_ns(t1_ns);
        probe
    }

    /// Writes the client's sending time of a probe over `pktlen` (high half) and `proto`. Nanoseconds of UTC.
    pub fn set_t1_ns(&mut self, t1_ns: i64) {
        let octets = t1_ns.to_be_bytes();
        self.pktlen = u32::from_be_bytes([octets[0], octets[1], octets[2], octets[3]]);
        self.proto = u32::from_be_bytes([octets[4], octets[5], octets[6], octets[7]]);
    }

    /// The client's sending time of a probe. Nanoseconds of UTC.
    pub fn t1_ns(&self) -> i64 {
        ((u64::from(self.pktlen) << 32) | u64::from(self.proto)).cast_signed()
    }

    /// Writes the server's time of a probe over `period`. Nanoseconds of UTC.
    pub fn set_t2_ns(&mut self, t2_ns: i64) {
        self.period_ns = t2_ns.cast_unsigned();
    }

    /// The server's time of a probe. Nanoseconds of UTC.
    pub fn t2_ns(&self) -> i64 {
        self.period_ns.cast_signed()
    }

    /// As it goes over the wire.
    pub fn to_octets(&self) -> [u8; WORKORDER_BYTES] {
        zerocopy::transmute!(WorkorderLayout {
            command: U32::new(self.command as u32),
            npkts: U32::new(self.npkts),
            pktlen: U32::new(self.pktlen),
            proto: U32::new(self.proto),
            period_ns: U64::new(self.period_ns),
            src_ip: self.src_ip.octets(),
            dst_ip: self.dst_ip.octets(),
            src_port: U16::new(self.src_port),
            dst_port: U16::new(self.dst_port),
            dscp: U32::new(self.dscp),
        })
    }

    /// The workorder that exactly these bytes are. Values are not judged: what a server agrees to is its own
    /// decision, and probes use fields for times.
    ///
    /// # Errors
    /// Another length than [`WORKORDER_BYTES`], or a command that there is not.
    pub fn from_octets(octets: &[u8]) -> Result<Self, DecodeError> {
        let layout = exact::<WorkorderLayout>("workorder", octets)?;
        Ok(Self {
            command: Command::try_from(layout.command.get())?,
            npkts: layout.npkts.get(),
            pktlen: layout.pktlen.get(),
            proto: layout.proto.get(),
            period_ns: layout.period_ns.get(),
            src_ip: Ipv4Addr::from(layout.src_ip),
            dst_ip: Ipv4Addr::from(layout.dst_ip),
            src_port: layout.src_port.get(),
            dst_port: layout.dst_port.get(),
            dscp: layout.dscp.get(),
        })
    }
}

/// The start of a test packet as it lies on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct TestPacketLayout {
    /// Nanoseconds of UTC since 1970 at the sender.
    pub tx_real_time_ns: I64,
    /// From 0; [`SENTINEL`] tells the end.
    pub tx_seq: I32,
}
const _: () = assert!(size_of::<TestPacketLayout>() == TEST_PACKET_BYTES);

/// What a test packet carries before its padding (section 4.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestPacket {
    /// Sending time, nanoseconds of UTC since 1970 of the sender's clock.
    pub tx_real_time_ns: i64,
    /// Sequence number from 0, wrapping at 32 bits but never [`SENTINEL`] for a packet that counts.
    pub tx_seq: i32,
}

impl TestPacket {
    /// Whether it only tells that the test is over.
    pub fn is_sentinel(&self) -> bool {
        self.tx_seq == SENTINEL
    }

    /// As it goes over the wire, before padding.
    pub fn to_octets(&self) -> [u8; TEST_PACKET_BYTES] {
        zerocopy::transmute!(TestPacketLayout {
            tx_real_time_ns: I64::new(self.tx_real_time_ns),
            tx_seq: I32::new(self.tx_seq),
        })
    }

    /// What the payload of a test packet begins with; whatever follows is padding.
    ///
    /// # Errors
    /// Fewer bytes than [`TEST_PACKET_BYTES`].
    pub fn from_octets(payload: &[u8]) -> Result<Self, DecodeError> {
        let (layout, _) = TestPacketLayout::read_from_prefix(payload)
            .map_err(|_| length("test packet", TEST_PACKET_BYTES, payload))?;
        Ok(Self { tx_real_time_ns: layout.tx_real_time_ns.get(), tx_seq: layout.tx_seq.get() })
    }
}

/// A singleton as it lies on the control connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SingletonLayout {
    /// From the test packet.
    pub tx_real_time_ns: I64,
    /// From the test packet.
    pub tx_seq: I32,
    /// Nanoseconds of UTC since 1970 at the receiver.
    pub rx_real_time_ns: I64,
    /// 0, or what is wrong with the packet.
    pub flags: I32,
}
const _: () = assert!(size_of::<SingletonLayout>() == SINGLETON_BYTES);

/// All that is known of a received test packet (section 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Singleton {
    /// Sending time, nanoseconds of UTC since 1970 of the sender's clock.
    pub tx_real_time_ns: i64,
    /// Sequence number of the test packet.
    pub tx_seq: i32,
    /// Receiving time, nanoseconds of UTC since 1970 of the receiver's clock.
    pub rx_real_time_ns: i64,
    /// [`FLAG_DUPLICATE`], [`FLAG_INVALID`], [`FLAG_UNSTAMPED`]; only singletons with 0 enter the analysis.
    pub flags: i32,
}

impl Singleton {
    /// As it goes over the wire.
    pub fn to_octets(&self) -> [u8; SINGLETON_BYTES] {
        zerocopy::transmute!(SingletonLayout {
            tx_real_time_ns: I64::new(self.tx_real_time_ns),
            tx_seq: I32::new(self.tx_seq),
            rx_real_time_ns: I64::new(self.rx_real_time_ns),
            flags: I32::new(self.flags),
        })
    }

    /// The singleton that exactly these bytes are.
    ///
    /// # Errors
    /// Another length than [`SINGLETON_BYTES`].
    pub fn from_octets(octets: &[u8]) -> Result<Self, DecodeError> {
        exact::<SingletonLayout>("singleton", octets).map(|layout| Self::of(&layout))
    }

    /// All whole singletons at the start of `octets`, and the bytes of one that is not yet whole.
    pub fn all_in(octets: &[u8]) -> (impl ExactSizeIterator<Item = Self> + '_, &[u8]) {
        let (whole, rest) = octets.as_chunks::<SINGLETON_BYTES>();
        let singletons = whole.iter().map(|octets| Self::of(&zerocopy::transmute!(*octets)));
        (singletons, rest)
    }

    fn of(layout: &SingletonLayout) -> Self {
        Self {
            tx_real_time_ns: layout.tx_real_time_ns.get(),
            tx_seq: layout.tx_seq.get(),
            rx_real_time_ns: layout.rx_real_time_ns.get(),
            flags: layout.flags.get(),
        }
    }
}

fn exact<T: FromBytes>(what: &'static str, octets: &[u8]) -> Result<T, DecodeError> {
    T::read_from_bytes(octets).map_err(|_| length(what, size_of::<T>(), octets))
}

fn length(what: &'static str, expected: usize, octets: &[u8]) -> DecodeError {
    DecodeError::Length { what, expected, got: octets.len() }
}

#[cfg(test)]
mod tests;
