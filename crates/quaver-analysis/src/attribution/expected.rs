//! When each packet was expected at the application.

use crate::distribution::median;
use crate::model::{Layer, MISSING, PacketRun, PacketTable};
use crate::series::{StreamLine, fit_line};

/// The expected instants of a run.
pub(super) enum Expected<'a> {
    /// The source's schedule plus the typical path (median of application − schedule).
    Schedule { before_app_ns: &'a [i32], typical_ns: i64 },
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

/// Median of a column's distances back from the application, none where nothing was stamped.
pub(super) fn typical_before_app(packets: &PacketTable, layer: Layer) -> Option<i64> {
    let column = packets.column(layer)?;
    let mut distances: Vec<i32> =
        column.before_app_ns.iter().copied().filter(|&before| before != MISSING).collect();
    if distances.is_empty() {
        return None;
    }
    let index = distances.len().div_ceil(2) - 1;
    Some(i64::from(*distances.select_nth_unstable(index).1))
}

/// Takes the schedule's column where at least half of the packets have it, else fits a line.
pub(super) fn schedule(run: &PacketRun) -> Schedule<'_> {
    let packets = &run.packets;
    let stamped = packets.column(Layer::Schedule).filter(|column| {
        let known = column.before_app_ns.iter().filter(|&&before| before != MISSING).count();
        known > 0 && known * 2 >= packets.len() && column.before_app_ns.len() == packets.len()
    });
    let line = match (stamped, run.period_ns) {
        (Some(_), Some(_)) => None,
        _ => fit_line(&packets.seq, &packets.app_ns, run.period_ns),
    };
    let learned = line.map(|line| line.period_ns);
    let period_ns = run.period_ns.or(learned).unwrap_or(0.0);
    let expected = match (stamped, line) {
        (Some(column), _) => Expected::Schedule {
            before_app_ns: &column.before_app_ns,
            typical_ns: typical_before_app(packets, Layer::Schedule).unwrap_or(0),
        },
        (None, Some(line)) => Expected::Line(line),
        (None, None) => Expected::Nothing,
    };
    Schedule { expected, period_ns }
}

impl Expected<'_> {
    /// Lateness of a packet, negative for an early one; none where it is not defined.
    pub(super) fn lateness_ns(&self, packets: &PacketTable, row: usize) -> Option<i64> {
        match self {
            Self::Schedule { before_app_ns, typical_ns } => {
                let before = before_app_ns[row];
                (before != MISSING).then(|| i64::from(before) - typical_ns)
            }
            Self::Line(line) => Some(packets.app_ns[row] - line.at(packets.seq[row])),
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
