//! What sender and receiver of a flow did.

use super::observe::SegmentReport;
use super::spec::StampSource;
use super::summary::{DepartureSummary, ReceiverSummary, SenderSummary};
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

impl TransmitStamps {
    /// How long packets took to their departure; none without a stamp.
    pub fn summary(&self) -> Option<DepartureSummary> {
        let sources = [StampSource::Hardware, StampSource::Kernel];
        let stamped_by = sources.into_iter().max_by_key(|source| self.stamped_by[*source as usize])?;
        (self.count > 0).then_some(DepartureSummary {
            stamped_by,
            stamped: self.count,
            missing: self.missing,
            median_ns: self.median_ns,
            p99_ns: self.p99_ns,
            largest_ns: self.largest_ns,
        })
    }
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

/// What a sender did. Everything that was due is in `packets` or `misses` of its summary, or was not sent in time; of
/// `packets`, all but the failed ones were sent.
#[derive(Clone, Debug, Default)]
pub struct SendReport {
    /// The part that a report tells the other end.
    pub summary: SenderSummary,
    /// Why it ended.
    pub end: SendEnd,
    /// Sends that failed, by error number. Their sequence numbers are used up.
    pub failed: BTreeMap<i32, u64>,
    /// Refusals by the peer's host (`ECONNREFUSED`); the packet at hand was then sent again.
    pub refused: u64,
    /// Packets sent in one call with others, as several were due.
    pub batched: u64,
    /// Most packets sent in one call.
    pub largest_batch: u64,
    /// Start of the schedule, CLOCK_MONOTONIC nanoseconds.
    pub start_ns: i64,
    /// Last deadline kept, CLOCK_MONOTONIC nanoseconds; 0 if there was none.
    pub last_deadline_ns: i64,
    /// Slope of lateness over deadline by least squares, parts per million; none for fewer than 2 packets.
    pub slope_ppm: Option<f64>,
    /// What the kernel counted for the thread while packets were sent, without sentinels.
    pub usage: ThreadUsage,
    /// Stamps of transmission, where they were asked for; why there are none is in `remarks`.
    pub transmit_stamps: Option<TransmitStamps>,
    /// Segments below a TCP flow.
    pub segments: Option<SegmentReport>,
    /// What was asked for and could not be had, a sentence each.
    pub remarks: Vec<String>,
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

/// What a receiver did.
#[derive(Clone, Debug, Default)]
pub struct ReceiveReport {
    /// The part that a report tells the other end.
    pub summary: ReceiverSummary,
    /// Why it ended.
    pub end: ReceiveEnd,
    /// Receive buffer as the kernel counts it, bytes.
    pub receive_buffer_bytes: usize,
    /// The sender's error estimate in the last packet of OWAMP.
    pub owamp_error: Option<u16>,
    /// Receive calls that failed otherwise.
    pub errors: u64,
    /// Receive calls that returned packets.
    pub batches: u64,
    /// What the kernel counted for the thread, from the call to the end.
    pub usage: ThreadUsage,
    /// Segments below a TCP flow.
    pub segments: Option<SegmentReport>,
    /// What was asked for and could not be had, a sentence each.
    pub remarks: Vec<String>,
}
