//! When each packet was expected at the application.

use crate::distribution::median;
use crate::model::{Layer, MISSING, PacketRun, PacketTable};
use crate::series::{StreamLine, fit_line};

/// The expected instants of a run.
pub(super) enum Expected<'a> {
    /// The source's schedule plus the typical path ([`typical_before_app`]).
    Schedule { before_app_ns: &'a [i32], typical_ns: i64, drift: Option<StreamLine> },
    /// A line fitted to the arrivals, which contains the typical path.
    Line(StreamLine),
    /// Fewer than two packets: nothing can be late.
    Nothing,
}

/// Expected instants and period of a run.
pub(super) struct Schedule<'a> {
    pub(super) expected: Expected<'a>,
    pub(super) period_ns: f64,
}

/// Part of the packets that travel as fast as the unhindered one or faster.
const UNHINDERED_SHARE: usize = 10;

/// Typical one of a column's distances back from the application, none where nothing was stamped: the median of
/// those no longer than the 10th percentile of all and `slack_ns` more. Not the plain median: on a busy host most
/// packets are held up, and what holds them up must not pass for typical.
pub(super) fn typical_before_app(packets: &PacketTable, layer: Layer, slack_ns: i64) -> Option<i64> {
    let column = packets.column(layer)?;
    let mut distances: Vec<i32> =
        column.before_app_ns.iter().copied().filter(|&before| before != MISSING).collect();
    if distances.is_empty() {
        return None;
    }
    let index = distances.len().div_ceil(UNHINDERED_SHARE) - 1;
    let unhindered = i64::from(*distances.select_nth_unstable(index).1);
    distances.retain(|&before| i64::from(before) <= unhindered.saturating_add(slack_ns));
    let middle = distances.len().div_ceil(2) - 1;
    Some(i64::from(*distances.select_nth_unstable(middle).1))
}

/// The schedule's column, where at least half of the packets have it and it is not beyond what a column holds.
fn usable_schedule(packets: &PacketTable, slack_ns: i64) -> Option<(&[i32], i64)> {
    let column = packets.column(Layer::Schedule)?.before_app_ns.as_slice();
    let known = column.iter().filter(|&&before| before != MISSING).count();
    let typical_ns = typical_before_app(packets, Layer::Schedule, slack_ns)?;
    let clamped = typical_ns.abs() >= i64::from(i32::MAX);
    (known * 2 >= packets.len() && column.len() == packets.len() && !clamped).then_some((column, typical_ns))
}

/// Takes the schedule's column where there is one, else fits a line. A schedule by another host's clock drifts
/// against ours: then the drift is fitted, and taken out.
pub(super) fn schedule(run: &PacketRun, slack_ns: i64) -> Schedule<'_> {
    let packets = &run.packets;
    let column = usable_schedule(packets, slack_ns);
    let line = match (column, run.period_ns) {
        (Some(_), Some(_)) => None,
        _ => fit_line(&packets.seq, &packets.app_ns, run.period_ns),
    };
    let period_ns = run.period_ns.or(line.map(|line| line.period_ns)).unwrap_or(0.0);
    let expected = match (column, line) {
        (Some((before_app_ns, typical_ns)), _) => {
            let drift = if run.source.is_some() { None } else { drift(packets, before_app_ns) };
            Expected::Schedule { before_app_ns, typical_ns, drift }
        }
        (None, Some(line)) => Expected::Line(line),
        (None, None) => Expected::Nothing,
    };
    Schedule { expected, period_ns }
}

/// How the path, by two clocks, changes with the sequence number.
fn drift(packets: &PacketTable, before_app_ns: &[i32]) -> Option<StreamLine> {
    let (seq, path): (Vec<u64>, Vec<i64>) = packets
        .seq
        .iter()
        .zip(before_app_ns)
        .filter(|(_, before)| **before != MISSING)
        .map(|(&seq, &before)| (seq, i64::from(before)))
        .unzip();
    fit_line(&seq, &path, Some(0.0))
}

impl Expected<'_> {
    /// Lateness of a packet, negative for an early one; none where it is not defined.
    pub(super) fn lateness_ns(&self, packets: &PacketTable, row: usize) -> Option<i64> {
        match self {
            Self::Schedule { before_app_ns, typical_ns, drift } => {
                let before = before_app_ns[row];
                let usual = drift.map_or(*typical_ns, |line| line.at(packets.seq[row]));
                (before != MISSING).then(|| i64::from(before).saturating_sub(usual))
            }
            Self::Line(line) => Some(packets.app_ns[row].saturating_sub(line.at(packets.seq[row]))),
            Self::Nothing => None,
        }
    }

    /// Typical path, 0 where the schedule is not known.
    pub(super) fn typical_path_ns(&self) -> i64 {
        match self {
            Self::Schedule { typical_ns, .. } => *typical_ns,
            Self::Line(_) | Self::Nothing => 0,
        }
    }
}

/// Most catching-up time of one packet: twice the median time between readings where the later packet had been
/// waiting already (in its socket, or by its expected instant), at least 500 ns. Uses the first million pairs.
pub(super) fn catch_up_cap_ns(
    packets: &PacketTable,
    expected: &Expected<'_>,
    enqueued: Option<&[i32]>,
) -> i64 {
    const FLOOR_NS: i64 = 500;
    let mut gaps: Vec<i64> = Vec::new();
    for row in 1..packets.len() {
        let gap = packets.app_ns[row] - packets.app_ns[row - 1];
        let since = match enqueued.map(|before| before[row]) {
            Some(before) if before != MISSING => Some(i64::from(before)),
            _ => expected.lateness_ns(packets, row),
        };
        if gap > 0 && since.is_some_and(|since| since >= gap) {
            gaps.push(gap);
            if gaps.len() == 1_000_000 {
                break;
            }
        }
    }
    median(&mut gaps).map_or(FLOOR_NS, |gap| (2 * gap).max(FLOOR_NS))
}
