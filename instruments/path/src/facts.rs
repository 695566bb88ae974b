//! What the manifest of a path measurement tells beside its packets.

use quaver_abi::wire::chrony::Tracking;
use quaver_arrivals::distribution::Distribution;
use quaver_arrivals::path::clocks::RttProbe;
use quaver_arrivals::path::direction::Direction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Facts of a path measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathFacts {
    /// The peer, `address:port` of its control connection.
    pub peer: String,
    /// What was spoken: `extension 1`, `jitlat` or `stamp`.
    pub protocol: String,
    /// The flows, in the order of `samples.parquet`.
    pub flows: Vec<FlowFacts>,
    /// Round trips over the control connection.
    pub round_trips: Vec<RoundTrip>,
    /// Packets to which a reply came in time; none where nobody replies to packets, and in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<u64>,
    /// Packets without a reply of which nobody can tell on which way they were lost. They count for the way there, and for the
    /// way back too where that is so of all.
    #[serde(default)]
    pub way_unknown: u64,
    /// What a Jitlat log states instead of round trips.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stated_clock: Option<StatedClock>,
    /// What each end's kernel knew of its clock; the client's first.
    pub clocks: Vec<EndClock>,
    /// Steps of a wall clock while packets were under way.
    pub clock_steps: Vec<ClockStepFacts>,
    /// Server's wall clock less its monotonic clock, less the same of the client, nanoseconds: within a microsecond of 0
    /// where both ends read the clock of one kernel. None where an end did not read both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_gap_ns: Option<i64>,
    /// Figures that were kept in place of packets (`--rolling`); empty where packets were kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rolling: Vec<RollingFigures>,
}

impl PathFacts {
    /// The round trips, for what they tell of the clocks.
    pub(crate) fn rtt_probes(&self) -> Vec<RttProbe> {
        self.round_trips.iter().map(|trip| RttProbe::from(*trip)).collect()
    }
}

/// Figures of a direction that were kept in constant memory. Quantiles are right to 0.1 % of their value; packets that
/// come after thousands of later ones are counted as lost and beyond the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RollingFigures {
    /// `up` or `down`.
    pub direction: String,
    /// Packets that arrived, each counted once.
    pub unique: u64,
    /// Copies.
    pub duplicate: u64,
    /// First copies that came after one sent later (RFC 4737).
    pub reordered: u64,
    /// Packets that did not arrive.
    pub lost: u64,
    /// Packets so late that they had been counted as lost, or copies so late.
    pub beyond_window: u64,
    /// Runs of lost packets (RFC 3357).
    pub loss_periods: u64,
    /// Longest run of lost packets.
    pub longest_loss_period: u64,
    /// Least delay by the two clocks, without their drift if `followed`, nanoseconds. This and what follows is none where nothing arrived.
    pub min_delay_ns: Option<i64>,
    /// Mean delay, nanoseconds.
    pub mean_delay_ns: Option<f64>,
    /// Largest delay, nanoseconds.
    pub max_delay_ns: Option<i64>,
    /// Quantiles 0.5, 0.9, 0.99 and 0.999 of delay, nanoseconds.
    pub delay_quantiles_ns: Option<[i64; 4]>,
    /// The same of PDV (RFC 5481).
    pub pdv_quantiles_ns: Option<[i64; 4]>,
    /// Interarrival jitter at the end (RFC 3550), nanoseconds.
    pub interarrival_jitter_ns: Option<f64>,
    /// What was taken out of these delays as packets came; none in figures of an interval, or of an older version, which
    /// have the drift in them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub followed: Option<FollowedDrift>,
    /// Delay by one clock; none before the analysis, and where nothing tells the offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrected: Option<CorrectedDelay>,
}

/// One-way delay of a flow whose packets were not kept, by one clock. Nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CorrectedDelay {
    /// Least.
    pub min_ns: i64,
    /// Mean.
    pub mean_ns: f64,
    /// Largest.
    pub max_ns: i64,
    /// Quantiles 0.5, 0.9, 0.99 and 0.999.
    pub quantiles_ns: [i64; 4],
    /// All can be wrong by so much either way.
    pub bound_ns: i64,
}

/// The drift of the two clocks in a flow whose packets were not kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FollowedDrift {
    /// Mean, parts per million. Positive: the receiver's clock runs faster.
    pub ppm: f64,
    /// Differences of delays are right within this, nanoseconds; where both ends have one clock, what was taken out.
    pub bound_ns: i64,
    /// The most that was taken out of a delay, nanoseconds.
    pub most_taken_ns: i64,
    /// Sending and receiving times of packets with the least delay of their time, in order, as measured; the first is the
    /// flow's first, and delays are as if the clocks had run alike since then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub least: Vec<(i64, i64)>,
}

/// One flow of test packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowFacts {
    /// Which way.
    pub direction: Direction,
    /// `UDP` or `TCP`.
    pub transport: String,
    /// Sender, `address:port`.
    pub source: String,
    /// Receiver, `address:port`.
    pub destination: String,
    /// DSCP asked for.
    pub dscp: u8,
    /// Payload of each packet, bytes.
    pub payload_bytes: u32,
    /// Target period, nanoseconds; the mean of a random schedule.
    pub period_ns: u64,
    /// `periodic`, `poisson` or `recorded`.
    pub schedule: String,
    /// Packets that were to be sent.
    pub planned: u64,
    /// Packets that the sender says it sent; none where it could not be asked.
    pub sent: Option<u64>,
    /// Who stamped the sending: `hardware`, `kernel` or `application`.
    pub sent_stamped_by: String,
    /// Who stamped the arrival.
    pub received_stamped_by: String,
    /// Packets that the receiver's own socket had no room for.
    pub own_drops: Option<u64>,
    /// Packets that came but were none of this flow's.
    #[serde(default)]
    pub foreign: u64,
    /// What the sender says of its schedule.
    pub achieved: Option<AchievedSchedule>,
    /// What the sender's kernel or network interface says of its packets' departure; none where nobody stamped it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub departures: Option<DepartureFacts>,
    /// What the client saw below a TCP flow.
    pub segments: Option<SegmentFacts>,
    /// What the server saw below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segments_at_server: Option<SegmentFacts>,
    /// Where the client's packets came from at last, if not from where they came at first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<MoveFacts>,
    /// Why the flow did not go its full length, where it did not.
    pub cut_short: Option<String>,
}

/// A client whose packets came from another port than at first. Something on the way gave it one, as a NAT does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MoveFacts {
    /// How often the server followed.
    pub times: u32,
    /// Datagrams that came before it did, as far as it saw them. They count as lost.
    pub uncounted: u64,
    /// Where they came from at last, `address:port`.
    pub to: String,
}

/// What stands for the receiver's stamps where nothing came back from it.
pub(crate) const NOT_KNOWN: &str = "not known";

impl FlowFacts {
    /// Whether the receiver never said what it received: its connection broke first.
    pub(crate) fn is_unheard(&self) -> bool {
        self.cut_short.is_some() && self.received_stamped_by == NOT_KNOWN
    }
}

/// The schedule that a sender kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AchievedSchedule {
    /// Slope of sending times against deadlines, least squares, parts in a million off 1.
    pub slope_ppm: Option<f64>,
    /// Median of sending time less deadline, nanoseconds.
    pub error_p50_ns: i64,
    /// 99th percentile of the same.
    pub error_p99_ns: i64,
    /// The largest.
    pub error_max_ns: i64,
    /// Slots that were not sent in, since their time had gone.
    pub missed: u64,
    /// CPU time of the sending thread for a million packets, nanoseconds.
    pub cpu_per_million_ns: Option<u64>,
    /// What became of late packets, and what went in trains; none where the sender does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sending: Option<SendingFacts>,
}

/// What a sender did with late packets, with its time and in trains.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SendingFacts {
    /// What becomes of late packets: `skip`, `send-late` or `burst`.
    pub late_policy: LatePolicyName,
    /// Packets sent when the next one was due as well.
    pub late: u64,
    /// Packets due within the flow's time that had not been sent when it was over.
    pub unsent: u64,
    /// Packets that went in trains: as one datagram to the sender's kernel, which cut it apart.
    pub train_packets: u64,
    /// Packets of the longest train; 0 without any.
    pub longest_train: u64,
    /// Packets that the receiver was handed in one piece with others, with one stamp for all of them.
    pub received_in_trains: u64,
}

/// What becomes of packets whose time has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LatePolicyName {
    /// Skipped.
    Skip,
    /// Sent, half a period apart.
    SendLate,
    /// Sent, all at once.
    Burst,
}

impl LatePolicyName {
    /// As on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::SendLate => "send-late",
            Self::Burst => "burst",
        }
    }
}

/// When packets left, beside when the program sent them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DepartureFacts {
    /// What stamped it: `hardware` or `kernel`.
    pub stamped_by: String,
    /// Packets whose departure was stamped.
    pub stamped: u64,
    /// Packets sent whose stamp never came.
    pub missing: u64,
    /// Median of departure less sending time, nanoseconds.
    pub p50_ns: i64,
    /// 99th percentile of the same.
    pub p99_ns: i64,
    /// The largest.
    pub max_ns: i64,
    /// From departure to arrival, as the two clocks show it: where every packet that arrived has its stamp, and all by
    /// one layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Distribution>,
}

/// Segments of a TCP flow below the transport.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SegmentFacts {
    /// `captured` (each segment was seen) or `counters` (the kernel's counters of the connection).
    pub seen_by: String,
    /// Segments with data.
    pub segments: Option<u64>,
    /// Sent again.
    pub retransmitted: Option<u64>,
    /// Came out of order.
    pub reordered: Option<u64>,
    /// Came twice.
    pub duplicate: Option<u64>,
}

/// The two lines of a Jitlat log about the clocks (annex A.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatedClock {
    /// Estimated relative clock error, server less client, nanoseconds.
    pub error_ns: i64,
    /// Estimated least round trip of the control connection, nanoseconds.
    pub min_rtt_ns: i64,
}

/// One round trip over the control connection; CLOCK_REALTIME nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundTrip {
    /// The client asked, by its own clock.
    pub t1_ns: i64,
    /// The server answered, by the server's clock.
    pub t2_ns: i64,
    /// The client had the answer, by its own clock.
    pub t3_ns: i64,
}

impl From<RttProbe> for RoundTrip {
    fn from(RttProbe { t1_ns, t2_ns, t3_ns }: RttProbe) -> Self {
        Self { t1_ns, t2_ns, t3_ns }
    }
}

impl From<RoundTrip> for RttProbe {
    fn from(RoundTrip { t1_ns, t2_ns, t3_ns }: RoundTrip) -> Self {
        Self { t1_ns, t2_ns, t3_ns }
    }
}

/// What a kernel knows of its wall clock (`adjtimex`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EndClock {
    /// `client` or `server`.
    pub end: String,
    /// Whether something disciplines it.
    pub synchronised: bool,
    /// Largest error that the kernel vouches for, nanoseconds.
    pub max_error_ns: Option<i64>,
    /// Error that it estimates, nanoseconds.
    pub estimated_error_ns: Option<i64>,
    /// What chronyd says of the same clock, where it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chrony: Option<ChronyFacts>,
}

/// How well a clock follows its reference, by chronyd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChronyFacts {
    /// Hops to a reference clock; 0 where there is none.
    pub stratum: u16,
    /// Whether the clock follows anything.
    pub synchronised: bool,
    /// What is yet to be added to the clock, nanoseconds; positive: it is slow.
    pub correction_ns: i64,
    /// Offset at the last update, nanoseconds; positive: the clock was ahead.
    pub last_offset_ns: i64,
    /// Long-term mean of offsets, nanoseconds.
    pub rms_offset_ns: i64,
    /// Round trips to the reference clock, added up, nanoseconds.
    pub root_delay_ns: i64,
    /// Errors gathered on the way from the reference clock, nanoseconds.
    pub root_dispersion_ns: i64,
}

impl ChronyFacts {
    /// Most that the clock can be wrong by if its sources are right, nanoseconds: the correction to come, the root
    /// dispersion, and half of the root delay. None where it follows nothing.
    pub fn bound_ns(&self) -> Option<i64> {
        let correction_ns = i64::try_from(self.correction_ns.unsigned_abs()).unwrap_or(i64::MAX);
        let sum_ns =
            correction_ns.saturating_add(self.root_dispersion_ns).saturating_add(self.root_delay_ns / 2);
        self.synchronised.then_some(sum_ns)
    }
}

/// What chronyd said, as it is stored.
impl From<Tracking> for ChronyFacts {
    fn from(said: Tracking) -> Self {
        Self {
            stratum: said.stratum,
            synchronised: said.synchronised,
            correction_ns: said.correction_ns,
            last_offset_ns: said.last_offset_ns,
            rms_offset_ns: said.rms_offset_ns,
            root_delay_ns: said.root_delay_ns,
            root_dispersion_ns: said.root_dispersion_ns,
        }
    }
}

/// A wall clock jumped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockStepFacts {
    /// `client` or `server`.
    pub end: String,
    /// By how much, nanoseconds, positive: forward.
    pub step_ns: i64,
    /// Nanoseconds after the start of the test, as near as it was looked at.
    pub after_ns: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_wrong_by_correction_dispersion_and_half_the_delay_at_most() {
        let facts = ChronyFacts {
            stratum: 3,
            synchronised: true,
            correction_ns: -700,
            last_offset_ns: 99,
            rms_offset_ns: 99,
            root_delay_ns: 5_001,
            root_dispersion_ns: 40,
        };
        assert_eq!(facts.bound_ns(), Some(700 + 40 + 2_500));
        assert_eq!(ChronyFacts { synchronised: false, ..facts }.bound_ns(), None);
        let wild = ChronyFacts { correction_ns: i64::MIN, root_dispersion_ns: i64::MAX, ..facts };
        assert_eq!(wild.bound_ns(), Some(i64::MAX));
        assert_eq!((Direction::Up.name(), Direction::Down.name()), ("up", "down"));
    }
}
