//! What the ends of a flow say of it: counts that one tells the other.

use super::dscp::DscpChanges;
use super::hops::HopSummary;
use super::observe::SegmentReport;
use super::schedule::LatePolicy;
use super::segments::Side;
use super::spec::StampSource;
use hdrhistogram::Histogram;

/// How late packets were sent after their deadlines, nanoseconds. Quantiles are right to 1/1000 of their value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lateness {
    /// Mean.
    pub mean_ns: f64,
    /// Smallest.
    pub smallest_ns: u64,
    /// Quantiles 0.5, 0.9, 0.99, 0.999 and 0.9999.
    pub quantiles_ns: [u64; 5],
    /// Largest.
    pub largest_ns: u64,
}

impl Lateness {
    /// From all values and their exact mean.
    pub fn of(lateness: &Histogram<u64>, mean_ns: Option<f64>) -> Self {
        Self {
            mean_ns: mean_ns.unwrap_or(0.0),
            smallest_ns: lateness.min(),
            quantiles_ns: [0.5, 0.9, 0.99, 0.999, 0.9999]
                .map(|quantile| lateness.value_at_quantile(quantile)),
            largest_ns: lateness.max(),
        }
    }

    /// An empty histogram for [`Self::of`]; later than an hour is recorded as an hour.
    pub fn histogram() -> Histogram<u64> {
        const LATEST_NS: u64 = 3_600_000_000_000;
        Histogram::new_with_bounds(1, LATEST_NS, 3)
            .expect("the bounds are at least a factor of 2 apart, and 3 digits are permitted")
    }
}

/// What a sender says of a flow. Counts are exact, and have 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SenderSummary {
    /// Sequence numbers used, from 0.
    pub packets: u64,
    /// Of these, taken by the sender's kernel.
    pub sent: u64,
    /// Deadlines skipped because the next one was due as well ([`LatePolicy::Skip`]).
    pub misses: u64,
    /// Sentinels.
    pub sentinels: u64,
    /// Start of the schedule, UTC nanoseconds of the sender's clock.
    pub start_realtime_ns: i64,
    /// Time of the sending thread on the CPU while packets were sent, nanoseconds.
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

impl SenderSummary {
    /// CPU time for a million packets, nanoseconds; none without packets.
    pub fn cpu_ns_per_million(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.cpu_ns as f64 / self.packets as f64 * 1e6)
    }
}

/// What a receiver says of a flow. Each datagram or record that it took is in exactly one of `received`, `sentinels`,
/// `foreign` and `unreadable`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverSummary {
    /// Packets of the flow, each handed on: with `duplicates` and `invalid`.
    pub received: u64,
    /// Of these, copies of packets that had come before; flagged.
    pub duplicates: u64,
    /// Of these, such as cannot be of this flow: wrong length, wrong code, impossible number; flagged.
    pub invalid: u64,
    /// Sentinels of the flow.
    pub sentinels: u64,
    /// Packets from another address or with another session's tag; not handed on.
    pub foreign: u64,
    /// Packets too short to be read, and invalid ones beyond the limit; not handed on.
    pub unreadable: u64,
    /// Packets that the kernel dropped because this socket's buffer was full, since the last flow or since
    /// it was made; ours, not the network's. Of a train that comes in one piece the kernel counts the piece. None where
    /// the kernel cannot tell.
    pub own_drops: Option<u64>,
    /// Packets by what stamped them: hardware, kernel, application.
    pub stamped_by: [u64; 3],
    /// Time of the receiving thread on the CPU, nanoseconds.
    pub cpu_ns: u64,
    /// Whether the end was seen, so that what is missing is lost and not late.
    pub end_seen: bool,
    /// Packets that came with others in one piece, and bear its stamp.
    pub of_trains: u64,
    /// What the TTLs of first copies say; nothing of a TCP flow.
    pub hops: HopSummary,
    /// What became of their DSCP; nothing of a TCP flow.
    pub dscps: DscpChanges,
    /// Segments below a TCP flow, as they arrived.
    pub segments: Option<SegmentSummary>,
}

/// What a sender did with late packets, with its time and in trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendingSummary {
    /// What becomes of late packets.
    pub late_policy: LatePolicy,
    /// Packets sent when the next one was due as well, beyond what they waited for others of their call.
    pub late: u64,
    /// Packets due within the flow's time that had not been sent when it was over.
    pub unsent: u64,
    /// Packets that went in trains ([`super::TrainWish`]).
    pub train_packets: u64,
    /// Packets of the longest train; 0 without any.
    pub longest_train: u64,
    /// Whether the schedule, its packets or its time came to their end, not a stop.
    pub finished: bool,
}

/// Segments of a TCP flow with data, as one end saw them; none: not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentSummary {
    /// Each segment was seen; else these are the kernel's counters of the connection.
    pub captured: bool,
    /// All.
    pub segments: Option<u64>,
    /// Sent again.
    pub retransmitted: Option<u64>,
    /// Out of order.
    pub reordered: Option<u64>,
    /// Came twice.
    pub duplicate: Option<u64>,
}

/// How long packets took from the program to their departure, as stamps of departure tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepartureSummary {
    /// What stamped most of them.
    pub stamped_by: StampSource,
    /// Packets whose departure was stamped.
    pub stamped: u64,
    /// Packets sent whose stamp never came.
    pub missing: u64,
    /// Median of departure less sending time, nanoseconds.
    pub median_ns: i64,
    /// 99th percentile of the same.
    pub p99_ns: i64,
    /// The largest.
    pub largest_ns: i64,
}

impl SegmentSummary {
    /// What one side makes of what was seen; none where nothing was.
    pub fn of(report: Option<&SegmentReport>, side: Side) -> Option<Self> {
        let report = report?;
        if let Some(seen) = &report.seen {
            return Some(Self {
                captured: true,
                segments: Some(seen.segments),
                retransmitted: Some(seen.retransmitted),
                reordered: Some(seen.reordered),
                duplicate: Some(seen.duplicate),
            });
        }
        let counters = report.counters.as_ref()?;
        let known = |count: u32| Some(u64::from(count));
        let captured = false;
        Some(match side {
            Side::Sender => Self {
                captured,
                segments: known(counters.segments_sent),
                retransmitted: known(counters.retransmitted),
                reordered: known(counters.reordering_events),
                duplicate: known(counters.duplicates_reported),
            },
            Side::Receiver => Self {
                captured,
                segments: known(counters.segments_received),
                retransmitted: None,
                reordered: known(counters.received_out_of_order),
                duplicate: None,
            },
        })
    }
}
