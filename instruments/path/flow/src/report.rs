//! What sender and receiver of a flow did.

use super::dscp::DscpChanges;
use super::hops::HopSummary;
use super::observe::SegmentReport;
use super::schedule::LatePolicy;
use super::spec::StampSource;
use hdrhistogram::Histogram;
use quaver_abi::wire::jitlat::Singleton;
use quaver_probe::thread::ThreadUsage;
use std::collections::BTreeMap;

/// A received test packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its record; the receive time is a UTC one by this host's clock.
    pub singleton: Singleton,
    /// What took the receive time.
    pub stamped_by: StampSource,
    /// Whether it came with others in one piece, which has one stamp for all of them (`UDP_GRO`).
    pub of_train: bool,
}

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

/// When a packet left the kernel, beside when it was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransmitStamp {
    /// Number of the packet, not cut.
    pub sequence: u64,
    /// Time that the packet carries: UTC nanoseconds right before the send call.
    pub sent_ns: i64,
    /// UTC nanoseconds at which it left.
    pub left_ns: i64,
    /// What took that.
    pub stamped_by: StampSource,
}

/// Stamps of transmission of a flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransmitStamps {
    /// The first ones, up to [`super::FlowSpec::stamps_kept`], in order of arrival at the socket's error queue.
    pub kept: Vec<TransmitStamp>,
    /// How many came in all.
    pub count: u64,
    /// Packets sent whose stamp never came.
    pub missing: u64,
    /// Stamps by what took them: hardware, kernel, application (never).
    pub stamped_by: [u64; 3],
    /// Median of departure less hand-over, nanoseconds, right to 1/1000 of its value.
    pub median_ns: i64,
    /// 99th percentile of the same.
    pub p99_ns: i64,
    /// Mean of departure less hand-over, nanoseconds.
    pub mean_ns: f64,
    /// Largest departure less hand-over, nanoseconds.
    pub largest_ns: i64,
}

/// Why a sender ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendEnd {
    /// The receiver acknowledged the end.
    Acknowledged,
    /// All packets and sentinels were sent, but no acknowledgement came in time.
    Unacknowledged,
    /// Stopped before.
    #[default]
    Stopped,
    /// The receiver closed the connection (TCP).
    Closed,
}

/// What a sender did. Everything that was due is in `packets`, `misses` or `unsent`; of `packets`, all but the failed
/// ones were sent.
#[derive(Clone, Debug, Default)]
pub struct SendReport {
    /// Why it ended.
    pub end: SendEnd,
    /// Sequence numbers used.
    pub packets: u64,
    /// Packets that the kernel took.
    pub sent: u64,
    /// Sends that failed, by error number. Their sequence numbers are used up.
    pub failed: BTreeMap<i32, u64>,
    /// Refusals by the peer's host (`ECONNREFUSED`); the packet at hand was then sent again.
    pub refused: u64,
    /// Deadlines skipped because the next one was due as well ([`LatePolicy::Skip`]).
    pub misses: u64,
    /// Sentinels sent.
    pub sentinels: u64,
    /// Packets sent in one call with others, as several were due.
    pub batched: u64,
    /// Most packets sent in one call.
    pub largest_batch: u64,
    /// What was done with late packets; none by default only.
    pub late_policy: Option<LatePolicy>,
    /// Packets sent when the next one was due as well, beyond what they waited for others of their call.
    pub late: u64,
    /// Packets due within the flow's time ([`super::FlowSpec::lasting_ns`]) that had not been sent when it was over.
    pub unsent: u64,
    /// Whether the schedule, its packets or its time came to their end, not a stop.
    pub finished: bool,
    /// Packets that went in trains ([`super::TrainWish`]).
    pub train_packets: u64,
    /// Packets of the longest train; 0 without any.
    pub longest_train: u64,
    /// Start of the schedule, CLOCK_MONOTONIC nanoseconds.
    pub start_ns: i64,
    /// Start of the schedule by the wall clock, UTC nanoseconds.
    pub start_realtime_ns: i64,
    /// Last deadline kept, CLOCK_MONOTONIC nanoseconds; 0 if there was none.
    pub last_deadline_ns: i64,
    /// Slope of lateness over deadline by least squares, parts per million; none for fewer than 2 packets.
    pub slope_ppm: Option<f64>,
    /// How late packets were.
    pub lateness: Lateness,
    /// What the kernel counted for the thread while packets were sent, without sentinels.
    pub usage: ThreadUsage,
    /// Time on the CPU while packets were sent, by the thread's clock, nanoseconds.
    pub cpu_ns: u64,
    /// Stamps of transmission, where they were asked for; why there are none is in `remarks`.
    pub transmit_stamps: Option<TransmitStamps>,
    /// Segments below a TCP flow.
    pub segments: Option<SegmentReport>,
    /// What was asked for and could not be had, a sentence each.
    pub remarks: Vec<String>,
}

impl SendReport {
    /// CPU time for a million packets, nanoseconds; none without packets.
    pub fn cpu_ns_per_million(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.cpu_ns as f64 / self.packets as f64 * 1e6)
    }
}

/// Why a receiver ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReceiveEnd {
    /// The sender's sentinel came.
    Sentinel,
    /// No sentinel came in time.
    TimedOut,
    /// Stopped before.
    #[default]
    Stopped,
    /// The sender closed the connection (TCP).
    Closed,
}

/// What a receiver did. Each datagram or record that it took is in exactly one of `received`, `sentinels`, `foreign`
/// and `unreadable`.
#[derive(Clone, Debug, Default)]
pub struct ReceiveReport {
    /// Why it ended.
    pub end: ReceiveEnd,
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
    /// Receive buffer as the kernel counts it, bytes.
    pub receive_buffer_bytes: usize,
    /// Packets by what stamped them: hardware, kernel, application.
    pub stamped_by: [u64; 3],
    /// Packets that came with others in one piece, and bear its stamp.
    pub of_trains: u64,
    /// What the TTLs of first copies say; nothing of a TCP flow.
    pub hops: HopSummary,
    /// What became of their DSCP; nothing of a TCP flow.
    pub dscps: DscpChanges,
    /// The sender's error estimate in the last packet of OWAMP.
    pub owamp_error: Option<u16>,
    /// Receive calls that failed otherwise.
    pub errors: u64,
    /// Receive calls that returned packets.
    pub batches: u64,
    /// What the kernel counted for the thread, from the call to the end.
    pub usage: ThreadUsage,
    /// Time on the CPU by the thread's clock, nanoseconds.
    pub cpu_ns: u64,
    /// Segments below a TCP flow.
    pub segments: Option<SegmentReport>,
    /// What was asked for and could not be had, a sentence each.
    pub remarks: Vec<String>,
}

impl ReceiveReport {
    /// CPU time for a million packets, nanoseconds; none without packets.
    pub fn cpu_ns_per_million(&self) -> Option<f64> {
        (self.received > 0).then(|| self.cpu_ns as f64 / self.received as f64 * 1e6)
    }
}
