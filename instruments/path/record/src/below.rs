//! What an end of a flow knows of its packets below the program: when they left, and the segments of a TCP flow.

use quaver_path_flow::{SegmentReport, Side as SegmentSide, StampSource, TransmitStamps};

/// Packets in a message of departures.
pub(super) const MOST_DEPARTED: usize = 8_000;
/// Packets whose departures a client takes.
pub(super) const MOST_DEPARTURES: usize = 1 << 21;
/// A departure that nobody stamped.
pub(super) const NOT_KNOWN: u32 = u32::MAX;

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
    pub(super) fn of(report: Option<&SegmentReport>, side: SegmentSide) -> Option<Self> {
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
            SegmentSide::Sender => Self {
                captured,
                segments: known(counters.segments_sent),
                retransmitted: known(counters.retransmitted),
                reordered: known(counters.reordering_events),
                duplicate: known(counters.duplicates_reported),
            },
            SegmentSide::Receiver => Self {
                captured,
                segments: known(counters.segments_received),
                retransmitted: None,
                reordered: known(counters.received_out_of_order),
                duplicate: None,
            },
        })
    }
}

impl DepartureSummary {
    pub(super) fn of(stamps: Option<&TransmitStamps>) -> Option<Self> {
        let stamps = stamps.filter(|stamps| stamps.count > 0)?;
        let sources = [StampSource::Hardware, StampSource::Kernel];
        let stamped_by = sources.into_iter().max_by_key(|source| stamps.stamped_by[*source as usize])?;
        Some(Self {
            stamped_by,
            stamped: stamps.count,
            missing: stamps.missing,
            median_ns: stamps.median_ns,
            p99_ns: stamps.p99_ns,
            largest_ns: stamps.largest_ns,
        })
    }
}

/// Time from sending to departure of each packet by its number, nanoseconds; empty where nobody stamped any, or the
/// stamps are not all of one layer.
pub(super) fn departed(stamps: &TransmitStamps) -> Vec<u32> {
    if stamps.stamped_by.iter().filter(|count| **count > 0).count() != 1 {
        return Vec::new();
    }
    let mut took_ns = Vec::new();
    for stamp in &stamps.kept {
        let Some(place) = usize::try_from(stamp.sequence).ok().filter(|place| *place < MOST_DEPARTURES)
        else {
            break;
        };
        if took_ns.len() <= place {
            took_ns.resize(place + 1, NOT_KNOWN);
        }
        took_ns[place] = u32::try_from(stamp.left_ns.saturating_sub(stamp.sent_ns)).unwrap_or(NOT_KNOWN);
    }
    took_ns
}
