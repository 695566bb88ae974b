//! What a session yields.

use super::directions::DirectionCounts;
use crate::clocks::{ClockPair, ClockStep};
use quaver_abi::wire::stamp::time::ErrorEstimate;
use quaver_abi::wire::stamp::tlv::{ClassOfService, DirectMeasurement, FollowUp, TimestampInformation};
use quaver_path_flow::Lateness;
use quaver_path_flow::StampSource;
use std::net::{IpAddr, SocketAddr};

/// The first reply to a packet. Times are UTC nanoseconds, T2 and T3 of the reflector's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StampReply {
    /// When the reflector received the packet.
    pub t2_ns: i64,
    /// When it sent the reply.
    pub t3_ns: i64,
    /// When the reply arrived here.
    pub t4_ns: i64,
    /// Who took T4.
    pub t4_by: StampSource,
    /// The reflector's number of the reply; the one that would fit where the reply's own does not.
    pub reflector_sequence: u32,
    /// TTL with which the packet reached the reflector; 0 where it did not know.
    pub forward_ttl: u8,
    /// TTL with which the reply arrived here.
    pub backward_ttl: Option<u8>,
    /// DSCP with which the reply arrived here.
    pub backward_dscp: u8,
    /// ECN with which the reply arrived here.
    pub backward_ecn: u8,
    /// Class of service, where it was asked for and answered.
    pub class_of_service: Option<ClassOfService>,
    /// Counters, where they were asked for and answered.
    pub direct_measurement: Option<DirectMeasurement>,
    /// The reflector's reply before, where that was asked for and answered; its stamp as on the wire.
    pub follow_up: Option<FollowUp>,
}

impl StampReply {
    /// Round trip without the time that the reflector took: (T4 - T1) - (T3 - T2). No clocks need agree.
    pub fn round_trip_ns(&self, t1_ns: i64) -> i64 {
        self.t4_ns.saturating_sub(t1_ns).saturating_sub(self.t3_ns.saturating_sub(self.t2_ns))
    }

    /// Whether the reflector says that it sent the reply before the packet came, or held it for longer than the round trip
    /// took, by more than its clock's tick: then one of its times is not that of the packet.
    pub fn contradicts_itself(&self, t1_ns: i64, tick_ns: i64) -> bool {
        let held_ns = self.t3_ns.saturating_sub(self.t2_ns);
        held_ns < -tick_ns || held_ns.saturating_sub(tick_ns) > self.t4_ns.saturating_sub(t1_ns)
    }

    /// T4 - T3: delay back, and our clock minus the reflector's.
    pub fn backward_ns(&self) -> i64 {
        self.t4_ns - self.t3_ns
    }
}

/// A packet that was sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StampPacket {
    /// From 0.
    pub sequence: u64,
    /// When it was sent, UTC nanoseconds.
    pub t1_ns: i64,
    /// Its reply; none if it did not come in time.
    pub reply: Option<StampReply>,
}

/// How a session gets on.
#[derive(Clone, Copy, Debug)]
pub enum StampProgress<'a> {
    /// The session begins.
    Started {
        /// This end.
        local: SocketAddr,
        /// The reflector.
        target: SocketAddr,
        /// Bytes of payload of a packet.
        packet_bytes: usize,
    },
    /// A reply came in time.
    Answered {
        /// The packet with this reply.
        packet: &'a StampPacket,
        /// The reflector's number of the reply without wrapping; of a stateless reflector our own.
        reflected: u64,
        /// Whether it is the packet's first one. A further one answers a copy of the packet, or is a copy itself.
        first: bool,
    },
    /// No reply to a packet came within the loss timeout.
    Lost {
        /// The packet.
        packet: &'a StampPacket,
    },
    /// Time passes; told every 50 ms or more often.
    Tick {
        /// Packets that have been sent.
        sent: u64,
        /// Of these, packets that had no reply within the loss timeout.
        lost: u64,
    },
}

/// Where the reflector saw a packet come from and arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// Where it came from; an address translator shows here. The address is none where the reflector keeps it.
    pub source: (Option<IpAddr>, u16),
    /// Where it was sent to.
    pub destination: (Option<IpAddr>, u16),
}

/// A session. It was `complete`, or stopped early and is what was had by then.
#[derive(Clone, Debug)]
pub struct StampOutcome {
    /// This end.
    pub local: SocketAddr,
    /// The reflector.
    pub target: SocketAddr,
    /// Bytes of payload of a packet.
    pub packet_bytes: usize,
    /// Packets that were sent.
    pub sent: u64,
    /// Packets with a reply in time.
    pub answered: u64,
    /// Packets that were sent, in order; empty where they are not to be kept.
    pub packets: Vec<StampPacket>,
    /// Packets with a further reply in time, in order of arrival; empty likewise.
    pub further: Vec<StampPacket>,
    /// Packets that were remembered at a time, at most.
    pub most_remembered: usize,
    /// Losses and duplicates by direction.
    pub directions: DirectionCounts,
    /// Our number and the reflector's of each reply in order of arrival, duplicates and late ones included; empty where
    /// packets are not to be kept.
    pub replies: Vec<(u64, u32)>,
    /// Replies that came after the loss time-out; their packets count as lost.
    pub late: u64,
    /// Datagrams that are no reply to any of our packets.
    pub foreign: u64,
    /// Datagrams of the reflector with too few bytes for a reply (41; with an HMAC 112).
    pub short: u64,
    /// Replies, at most, that came and found no room at our socket; none where the kernel cannot tell.
    pub own_drops: Option<u64>,
    /// ICMP's "port unreachable" that came back (ECONNREFUSED).
    pub refused: u64,
    /// Replies that have another length than the packets; they count.
    pub other_length: u64,
    /// Replies whose HMAC is wrong, that of the base packet or of the TLVs.
    pub wrong_hmac: u64,
    /// Replies whose TLVs the reflector did not understand (U), found malformed (M) or altered (I).
    pub flagged: u64,
    /// Whether a reply had 0 for our session identifier: the reflector knows no RFC 8972.
    pub zero_ssid: bool,
    /// Slots that were skipped, because the one before was sent too late.
    pub skipped: u64,
    /// Packets that were sent when the next one was due as well.
    pub sent_late: u64,
    /// Packets due within the session's time that had not been sent when it was over.
    pub unsent: u64,
    /// Sending time less deadline.
    pub lateness: Lateness,
    /// Packets that the system would not send; they are no packets.
    pub not_sent: u64,
    /// The reflector's estimate of its error, from its first reply.
    pub reflector_error: Option<ErrorEstimate>,
    /// How the reflector takes stamps, where it was asked for and answered.
    pub timestamp_information: Option<TimestampInformation>,
    /// Where the reflector saw our first packet, where it was asked for and answered.
    pub location: Option<Located>,
    /// Readings of our clocks, at least at both ends of the session.
    pub clock_pairs: Vec<ClockPair>,
    /// Steps of our wall clock meanwhile.
    pub clock_steps: Vec<ClockStep>,
    /// Whether all that was asked for was sent, and the last replies were waited for.
    pub complete: bool,
}

impl StampOutcome {
    /// Packets without a reply in time.
    pub fn lost(&self) -> u64 {
        self.sent - self.answered
    }
}
