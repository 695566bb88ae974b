//! What a flow is: everything that sender and receiver have to agree on, and what each does by itself.

use super::error::FlowError;
use super::schedule::{FlowSchedule, HIGH_RATE_PERIOD_NS, LatePolicy};
use quaver_abi::wire::owamp::LEAST_TEST_BYTES;
use quaver_probe::source::Pace;
use quaver_probe::thread::ThreadSettings;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Bytes of time and sequence number: the least payload of a test packet (Jitlat, 4.3.4).
pub const LEAST_PACKET_BYTES: u32 = 12;
/// Bytes of a session tag, which follow these.
pub const SESSION_TAG_BYTES: u32 = 8;
/// Bytes of a truncated HMAC, which follow the tag.
pub const AUTHENTICATION_BYTES: u32 = 16;
/// Stamps of departure that are kept of a flow, unless somebody asks for another number.
pub const MOST_STAMPS_KEPT: usize = 1 << 20;
/// Most bytes of a datagram's payload over IPv4; over IPv6 it is 20 more, which nobody needs.
pub const MOST_DATAGRAM_BYTES: u32 = 65_507;
/// Most bytes of a record in a TCP flow.
pub const MOST_RECORD_BYTES: u32 = 1 << 20;

/// What carries the test packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A datagram a packet.
    Udp,
    /// A stream cut into packets of equal length, without Nagle's delay.
    Tcp,
}

/// How many packets make a train: one call of the sender, one way through its stack, one packet each on the wire
/// (`UDP_SEGMENT`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrainWish {
    /// The fewest that keep up with the schedule, looked for while the flow runs; none for schedules that skip, and for
    /// periods from 20 us up.
    #[default]
    Auto,
    /// So many; 0 and 1: each packet by itself.
    Packets(u16),
}

/// Whose packets a receiver takes for the flow's. Others are counted and left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptFrom {
    /// Anybody's, or the socket is connected.
    Anyone,
    /// Those of one host, whatever its port.
    Host(IpAddr),
    /// Those of one socket.
    Socket(SocketAddr),
}

/// Where times come from, where there is a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampWish {
    /// Clock readings of this program only.
    Application,
    /// Stamps of the kernel, where they are to be had.
    Kernel,
    /// Stamps of the network interface, else of the kernel, else of this program.
    Best,
}

/// What a time was taken by, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StampSource {
    /// The network interface.
    Hardware,
    /// The kernel, as the packet came from or went to the driver.
    Kernel,
    /// This program, right after the receive call or right before the send call.
    Application,
}

impl StampSource {
    /// Name in logs and on the console.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hardware => "hardware",
            Self::Kernel => "kernel",
            Self::Application => "application",
        }
    }
}

/// Makes the authentication code of test packets.
pub trait PacketAuthenticator: Send + Sync {
    /// Truncated keyed hash (RFC 2104) of these parts, one after the other.
    fn code(&self, parts: &[&[u8]]) -> [u8; AUTHENTICATION_BYTES as usize];
}

/// A flow of test packets from one host to another.
#[derive(Clone)]
pub struct FlowSpec {
    /// What carries the packets.
    pub transport: Transport,
    /// Bytes of each packet's payload.
    pub packet_bytes: u32,
    /// How many; none: until stopped.
    pub packets: Option<u64>,
    /// When each is due.
    pub schedule: FlowSchedule,
    /// Number of the first packet before it is cut to what the packet carries: 0, but for tests of the wrap.
    pub first_sequence: u64,
    /// Tells packets of this session from all others; in the padding's place.
    pub session_tag: Option<[u8; SESSION_TAG_BYTES as usize]>,
    /// Packets are those of OWAMP (RFC 4656, section 4.1.2), with this error estimate of the sender's: no sentinels, and
    /// fewer than 2^32 - 1 of them.
    pub owamp_error: Option<u16>,
    /// Authenticates packets; needs a session tag, so that packets of another session do not pass.
    pub key: Option<Arc<dyn PacketAuthenticator>>,
    /// Where stamps are to come from.
    pub stamps: StampWish,
    /// Sender: how deadlines are waited for.
    pub pace: Pace,
    /// Sender and receiver: CPU and priority of the thread that test packets go through.
    pub thread: ThreadSettings,
    /// Sender: what becomes of packets whose time has passed.
    pub late: LatePolicy,
    /// Sender: nanoseconds after the start at which the flow is over, whatever was sent of it by then; none: its
    /// packets alone decide. Slots from there on are not the flow's.
    pub lasting_ns: Option<u64>,
    /// Sender: nanoseconds that it waits beyond a deadline, so that more packets are due and go in one call; not with
    /// [`LatePolicy::Skip`]. 0: each packet at its deadline. Trades lateness for time on the CPU, at high rates.
    pub gather_ns: u64,
    /// Sender: packets that the kernel is given at once and cuts apart itself.
    pub train: TrainWish,
    /// Sender: time between the call and the first deadline (beside the schedule's own random start).
    pub start_delay_ns: u64,
    /// Sender: how long sentinels are sent without being acknowledged.
    pub sentinel_timeout_ns: u64,
    /// Sender: ask for a stamp of each packet's departure. Costs about as much as the packet itself.
    pub transmit_stamps: bool,
    /// Sender: most stamps of transmission that are kept; the rest is in the summary only.
    pub stamps_kept: usize,
    /// Receiver: DSCP that the packets were sent with; none: not known.
    pub dscp: Option<u8>,
    /// Receiver: whose packets count.
    pub accept_from: AcceptFrom,
    /// Receiver: how long after the flow ought to have ended, and after the last packet, it waits for more.
    pub end_timeout_ns: u64,
    /// Receiver: how long after the first sentinel packets still count (0 in Jitlat).
    pub linger_ns: u64,
    /// Receiver: receive buffer to ask for, bytes.
    pub receive_buffer_bytes: usize,
    /// TCP: also look at the segments below the transport, by a packet socket where that is permitted.
    pub segments: bool,
}

impl std::fmt::Debug for FlowSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlowSpec")
            .field("transport", &self.transport)
            .field("packet_bytes", &self.packet_bytes)
            .field("packets", &self.packets)
            .field("schedule", &self.schedule)
            .field("tagged", &self.session_tag.is_some())
            .field("authenticated", &self.key.is_some())
            .finish_non_exhaustive()
    }
}

impl FlowSpec {
    /// A UDP flow as Jitlat has it by default but for its length and schedule: no tag, no key, the best stamps;
    /// slack and stamps of transmission as the rate allows.
    pub fn new(packet_bytes: u32, packets: Option<u64>, schedule: FlowSchedule) -> Self {
        let mean_period_ns = schedule.mean_period_ns();
        let late = LatePolicy::usual(&schedule);
        Self {
            transport: Transport::Udp,
            packet_bytes,
            packets,
            schedule,
            first_sequence: 0,
            session_tag: None,
            owamp_error: None,
            key: None,
            stamps: StampWish::Best,
            pace: Pace::Hybrid,
            thread: ThreadSettings::default(),
            late,
            lasting_ns: None,
            gather_ns: 0,
            train: TrainWish::Auto,
            start_delay_ns: 0,
            sentinel_timeout_ns: 10_000_000_000,
            transmit_stamps: mean_period_ns >= HIGH_RATE_PERIOD_NS,
            stamps_kept: MOST_STAMPS_KEPT,
            dscp: None,
            accept_from: AcceptFrom::Anyone,
            end_timeout_ns: 5_000_000_000,
            linger_ns: 0,
            receive_buffer_bytes: 32 << 20,
            segments: true,
        }
    }

    /// Least payload that holds what this flow's packets carry.
    pub const fn least_packet_bytes(&self) -> u32 {
        if self.owamp_error.is_some() {
            return LEAST_TEST_BYTES as u32;
        }
        let tag = if self.session_tag.is_some() { SESSION_TAG_BYTES } else { 0 };
        let code = if self.key.is_some() { AUTHENTICATION_BYTES } else { 0 };
        LEAST_PACKET_BYTES + tag + code
    }

    /// Nanoseconds that the flow ought to take, as far as that is known.
    pub fn expected_duration_ns(&self) -> Option<u64> {
        let by_packets = self.packets.map(|packets| self.schedule.expected_duration_ns(packets));
        match (by_packets, self.lasting_ns) {
            (Some(packets_ns), Some(lasting_ns)) => Some(packets_ns.min(lasting_ns)),
            (packets_ns, lasting_ns) => packets_ns.or(lasting_ns),
        }
    }

    /// Whether the flow can be.
    ///
    /// # Errors
    /// What is wrong with length or schedule.
    pub fn check(&self) -> Result<(), FlowError> {
        let (packet_bytes, least) = (self.packet_bytes, self.least_packet_bytes());
        let most = match self.transport {
            Transport::Udp => MOST_DATAGRAM_BYTES,
            Transport::Tcp => MOST_RECORD_BYTES,
        };
        if packet_bytes < least {
            return Err(FlowError::TooShort { packet_bytes, least });
        }
        if packet_bytes > most {
            return Err(FlowError::TooLong { packet_bytes, most });
        }
        if self.key.is_some() && self.session_tag.is_none() {
            return Err(FlowError::Schedule("a key needs a session tag beside it"));
        }
        if self.late == LatePolicy::Skip
            && (self.gather_ns > 0 || matches!(self.train, TrainWish::Packets(2..)))
        {
            return Err(FlowError::Schedule(
                "packets that go together are late but for the last, and late ones are skipped: choose another policy",
            ));
        }
        if self.lasting_ns == Some(0) {
            return Err(FlowError::Schedule("the flow lasts no time at all: give it some"));
        }
        self.schedule.check().map_err(FlowError::Schedule)
    }
}
