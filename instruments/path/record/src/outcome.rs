//! What a test leaves with the client.

use super::below::{DepartureSummary, SegmentSummary};
use super::clocks::{ClockEstimate, ClockPair, ClockStep};
use super::sending::SendingSummary;
use quaver_abi::wire::jitlat::Singleton;
use quaver_arrivals::path::direction::Direction;
use quaver_path_flow::{DscpChanges, FlowSchedule, HopSummary, Lateness, SendReport, Transport};
use std::net::SocketAddr;
use std::time::Duration;

/// What the two spoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Jitlat as its document has it.
    Legacy,
    /// Quaver's extension, of this version.
    Extended(u32),
    /// OWAMP (RFC 4656).
    Owamp,
    /// TWAMP (RFC 5357).
    Twamp,
}

impl Protocol {
    /// Without its version: `jitlat`, `extension`, `owamp` or `twamp`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Legacy => "jitlat",
            Self::Extended(_) => "extension",
            Self::Owamp => "owamp",
            Self::Twamp => "twamp",
        }
    }
}

/// A round trip over the control connection (Jitlat, annex A.2). Nanoseconds of UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RttProbe {
    /// The client's clock before sending.
    pub t1_ns: i64,
    /// The server's clock.
    pub t2_ns: i64,
    /// The client's clock after receiving.
    pub t3_ns: i64,
}

impl RttProbe {
    /// Round trip, nanoseconds by the client's clock.
    pub const fn rtt_ns(&self) -> i64 {
        self.t3_ns.wrapping_sub(self.t1_ns)
    }
}

/// How a test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion {
    /// As asked for.
    Complete,
    /// By the user.
    Interrupted,
    /// The server went away or fell silent; what there was by then is kept. A sentence.
    ServerLost(String),
}

/// What a sender says of a flow. Counts are exact, and have 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SenderSummary {
    /// Sequence numbers used, from 0.
    pub packets: u64,
    /// Of these, taken by the sender's kernel.
    pub sent: u64,
    /// Deadlines skipped because the sender was late.
    pub misses: u64,
    /// Sentinels.
    pub sentinels: u64,
    /// Start of the schedule, UTC nanoseconds of the sender's clock.
    pub start_realtime_ns: i64,
    /// CPU time of the sending thread, nanoseconds.
    pub cpu_ns: u64,
    /// How late packets were sent.
    pub lateness: Lateness,
    /// Segments below a TCP flow, as they left.
    pub segments: Option<SegmentSummary>,
    /// When packets left, beside when the program sent them.
    pub departures: Option<DepartureSummary>,
    /// What it did with late packets and in trains; none from a peer that knows nothing of either.
    pub sending: Option<SendingSummary>,
}

/// What a receiver says of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverSummary {
    /// Packets of the flow that arrived, with duplicates and invalid ones.
    pub received: u64,
    /// Of these, copies.
    pub duplicates: u64,
    /// Of these, impossible ones.
    pub invalid: u64,
    /// Sentinels.
    pub sentinels: u64,
    /// Packets of others on the same port.
    pub foreign: u64,
    /// Packets too short to be read.
    pub unreadable: u64,
    /// Dropped by the receiver's kernel for want of buffer; none where unknown.
    pub own_drops: Option<u64>,
    /// Packets by what stamped them: hardware, kernel, application.
    pub stamped_by: [u64; 3],
    /// CPU time of the receiving thread, nanoseconds.
    pub cpu_ns: u64,
    /// Whether the end was seen, so that what is missing is lost and not late.
    pub end_seen: bool,
    /// Packets that came with others in one piece, which has one stamp.
    pub of_trains: u64,
    /// What the TTLs of packets said.
    pub hops: HopSummary,
    /// What became of their DSCP.
    pub dscps: DscpChanges,
    /// Segments below a TCP flow, as they arrived.
    pub segments: Option<SegmentSummary>,
}

/// One way of a test.
#[derive(Clone, Debug)]
pub struct FlowOutcome {
    /// Which way.
    pub direction: Direction,
    /// What carried the packets.
    pub transport: Transport,
    /// Where packets came from, as the receiver or else the client saw it.
    pub source: SocketAddr,
    /// Where they went.
    pub destination: SocketAddr,
    /// Bytes of a packet's payload.
    pub packet_bytes: u32,
    /// Packets asked for; none: until stopped.
    pub packets: Option<u64>,
    /// When they were due.
    pub schedule: FlowSchedule,
    /// When the flow was to be over, where it had a time.
    pub lasting: Option<Duration>,
    /// Differentiated services code point.
    pub dscp: u8,
    /// All received packets in order of arrival, flagged ones too; empty for rolling tests.
    pub singletons: Vec<Singleton>,
    /// Rows that were received, kept or not.
    pub rows: u64,
    /// The sender's word; none if it was lost, or the server is a legacy sender.
    pub sender: Option<SenderSummary>,
    /// The receiver's word; none if it was lost, or the server is a legacy receiver.
    pub receiver: Option<ReceiverSummary>,
    /// Everything the sender counted, where that was this host.
    pub send_report: Option<SendReport>,
    /// Where the server sent: time from sending to departure of each packet by its number, nanoseconds, as far as
    /// stamped; all by one layer. Empty where the server told none.
    pub departed: Vec<Option<u32>>,
    /// Where the client's packets came from at last, if not from where they came at first.
    pub moved: Option<Moved>,
    /// Whether all of it is there: all packets sent, end seen, samples as many as announced.
    pub complete: bool,
}

impl FlowOutcome {
    /// Packets sent, as far as that is known: the sender's count, else what was asked for.
    pub fn packets_sent(&self) -> Option<u64> {
        self.sender.map(|sender| sender.packets).or(self.packets)
    }
}

/// A client whose packets came from another port than at first. Something on the way gave it one, as a NAT does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// How often the server followed.
    pub times: u32,
    /// Datagrams that came before it did, as far as it saw them. They count as lost.
    pub uncounted: u64,
    /// Where they came from at last.
    pub to: SocketAddr,
}

/// What one host knows of its clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostClocks {
    /// The kernel's estimate before the test.
    pub before: Option<ClockEstimate>,
    /// And after.
    pub after: Option<ClockEstimate>,
    /// Readings of both clocks before, during (about one a second) and after the test.
    pub pairs: Vec<ClockPair>,
}

/// A test, as far as it went.
#[derive(Clone, Debug)]
pub struct TestOutcome {
    /// What was spoken.
    pub protocol: Protocol,
    /// The server's end of the control connection.
    pub server: SocketAddr,
    /// This host's end of it.
    pub client: SocketAddr,
    /// Start of the test (first flow), UTC nanoseconds of this host's clock.
    pub started_ns: i64,
    /// Round trips.
    pub rtt_probes: Vec<RttProbe>,
    /// The flows that began, in their order.
    pub flows: Vec<FlowOutcome>,
    /// This host's clock.
    pub client_clock: HostClocks,
    /// The server's clock; empty for legacy servers.
    pub server_clock: HostClocks,
    /// Steps of either wall clock during the test.
    pub clock_steps: Vec<ClockStep>,
    /// How it ended.
    pub completion: Completion,
}

impl TestOutcome {
    /// Whether all of it is there.
    pub fn is_complete(&self) -> bool {
        self.completion == Completion::Complete && self.flows.iter().all(|flow| flow.complete)
    }
}
