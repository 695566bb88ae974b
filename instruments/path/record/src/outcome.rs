//! What a test leaves with the client.

use super::clocks::{ClockEstimate, ClockPair, ClockStep};
use quaver_abi::wire::jitlat::Singleton;
use quaver_arrivals::path::clocks::RttProbe;
use quaver_arrivals::path::direction::Direction;
use quaver_path_flow::{FlowSchedule, ReceiverSummary, SendReport, SenderSummary, Transport};
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
    /// Takes what this host sent.
    pub(super) fn sent(&mut self, report: SendReport) {
        self.sender = Some(report.summary);
        self.send_report = Some(report);
    }

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
    /// Round trips over the control connection (Jitlat, annex A.2), by UTC.
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
