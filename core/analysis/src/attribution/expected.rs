//! When each packet was expected at the application.

use crate::model::{Layer, MISSING, PacketRun, PacketTable, distance_ns};
use crate::pace::{self, Arrivals, Pace};
use crate::series::{StreamLine, fit_line};
use crate::summary::{FasterPace, PaceSummary};
use quaver_arrivals::distribution::median;

/// The expected instants of a run.
pub(super) enum Expected<'a> {
    /// The source's schedule plus the typical path ([`typical_before_app`]).
    Schedule { before_app_ns: &'a [i64], typical_ns: i64, drift: Option<StreamLine> },
    /// A schedule learned from the arrivals, plus the typical path.
    Learned(LearnedSchedule<'a>),
    /// The stream keeps to no period: only what the way from its arrival at this host adds is lateness.
    Path(UsualWay<'a>),
    /// Fewer than two packets, or neither schedule nor arrival is known: nothing can be late.
    Nothing,
}

/// Due instants that the arrivals tell ([`pace`]).
pub(super) struct LearnedSchedule<'a> {
    /// Distance of the due instant back from the application.
    due_before_app_ns: Vec<i64>,
    typical_ns: i64,
    /// Where the packets were stamped on arrival; none where only the application stamped them.
    arrival: Option<UsualWay<'a>>,
    /// A packet that arrives within this much of its due instant is on time: the schedule is not known better.
    uncertainty_ns: i64,
}

/// A layer's distances back from the application, and the typical one.
pub(super) struct UsualWay<'a> {
    before_app_ns: &'a [i64],
    typical_ns: i64,
}

impl UsualWay<'_> {
    /// What the way took beyond the typical; none where the layer was not stamped.
    fn excess_ns(&self, row: usize) -> Option<i64> {
        let before = self.before_app_ns.get(row).copied().filter(|before| *before != MISSING)?;
        Some(before - self.typical_ns)
    }
}

/// Expected instants and period of a run.
pub(super) struct Schedule<'a> {
    pub(super) expected: Expected<'a>,
    pub(super) period_ns: f64,
    /// What was learned of the period; none where the schedule is known.
    pub(super) pace: Option<PaceSummary>,
}

/// Part of the packets that travel as fast as the unhindered one or faster.
const UNHINDERED_SHARE: usize = 10;

/// Typical one of a column's distances back from the application, none where nothing was stamped: the median of
/// those no longer than the 10th percentile of all and `slack_ns` more. Not the plain median: on a busy host most
/// packets are held up, and what holds them up must not pass for typical.
pub(super) fn typical_before_app(packets: &PacketTable, layer: Layer, slack_ns: i64) -> Option<i64> {
    typical(&packets.column(layer)?.before_app_ns, slack_ns)
}

fn typical(before_app_ns: &[i64], slack_ns: i64) -> Option<i64> {
    let mut distances: Vec<i64> = before_app_ns.iter().copied().filter(|&before| before != MISSING).collect();
    if distances.is_empty() {
        return None;
    }
    let index = distances.len().div_ceil(UNHINDERED_SHARE) - 1;
    let unhindered = *distances.select_nth_unstable(index).1;
    distances.retain(|&before| before <= unhindered.saturating_add(slack_ns));
    let middle = distances.len().div_ceil(2) - 1;
    Some(*distances.select_nth_unstable(middle).1)
}

/// The schedule's column, where at least half of the packets have it.
fn usable_schedule(packets: &PacketTable, slack_ns: i64) -> Option<(&[i64], i64)> {
    let column = packets.column(Layer::Schedule)?.before_app_ns.as_slice();
    let known = column.iter().filter(|&&before| before != MISSING).count();
    let typical_ns = typical_before_app(packets, Layer::Schedule, slack_ns)?;
    (known * 2 >= packets.len() && column.len() == packets.len()).then_some((column, typical_ns))
}

/// Takes the schedule's column where there is one, else learns it from the arrivals. A schedule by another host's clock
/// drifts against ours: then the drift is fitted, and taken out. `threshold_ns` is that of a period.
pub(super) fn schedule(run: &PacketRun, slack_ns: i64, threshold_ns: impl Fn(f64) -> i64) -> Schedule<'_> {
    let packets = &run.packets;
    if let Some((before_app_ns, typical_ns)) = usable_schedule(packets, slack_ns) {
        let line = || fit_line(&packets.seq, &packets.app_ns, None).map(|line| line.period_ns);
        let drift = if run.source.is_some() { None } else { drift(packets, before_app_ns) };
        return Schedule {
            expected: Expected::Schedule { before_app_ns, typical_ns, drift },
            period_ns: run.period_ns.or_else(line).unwrap_or(0.0),
            pace: None,
        };
    }
    let arrival = arrival(packets, slack_ns);
    let at = |row: usize| match &arrival {
        Some(way) => Some(way.before_app_ns[row])
            .filter(|b| *b != MISSING)
            .map(|b| packets.app_ns[row].saturating_sub(b)),
        None => Some(packets.app_ns[row]),
    };
    let arrivals = Arrivals { seq: &packets.seq, at: &at };
    let tolerance_ns = |period_ns: f64| on_schedule_ns(threshold_ns(period_ns), period_ns);
    let Some(mut pace) = pace::learn(&arrivals, run.period_ns, &tolerance_ns) else {
        return Schedule {
            expected: arrival.map_or(Expected::Nothing, Expected::Path),
            period_ns: run.period_ns.unwrap_or(0.0),
            pace: None,
        };
    };
    let parts = pace::parts(&arrivals, pace.period_ns, &tolerance_ns);
    if let Some(longest) = parts.iter().filter(|part| part.own.is_none()).max_by_key(|part| part.rows.len())
        && parts.len() > 1
    {
        let known = Some(run.period_ns.unwrap_or(pace.period_ns));
        let of_it = arrivals.part(longest.rows.clone(), |part| pace::learn(part, known, &tolerance_ns));
        pace = of_it.unwrap_or(pace);
    }
    let mut told = PaceSummary {
        steady: pace.steady(),
        uncertainty_ns: pace.uncertainty_ns,
        on_schedule_share: pace.on_schedule_share,
        usual_delta_ns: (!pace.steady()).then(|| pace::usual_delta_ns(&arrivals)).flatten(),
        ..PaceSummary::default()
    };
    let expected = if told.steady {
        let slack_ns = slack_ns.min(threshold_ns(pace.period_ns));
        let learned = learned(packets, &arrivals, &pace, &parts, slack_ns);
        told.instant_uncertainty_ns = learned.uncertainty_ns;
        told.skipped_slots = pace::skipped_slots(&arrivals, &pace, &parts);
        told.faster = faster(&parts);
        Expected::Learned(LearnedSchedule { arrival, ..learned })
    } else {
        arrival.map_or(Expected::Nothing, Expected::Path)
    };
    let period_ns = if told.steady { pace.period_ns } else { mean_distance_ns(packets) };
    Schedule { expected, period_ns, pace: Some(told) }
}

/// Periods of the stretches in which the sender was faster, the one of most packets first. Those within a hundredth are one.
fn faster(parts: &[pace::Part]) -> Vec<FasterPace> {
    let mut found: Vec<FasterPace> = Vec::new();
    for part in parts {
        let Some(own) = part.own else { continue };
        let packets = part.rows.len() as u64;
        match found.iter_mut().find(|one| (one.period_ns / own.period_ns - 1.0).abs() < 0.01) {
            Some(one) => one.packets += packets,
            None => found.push(FasterPace { period_ns: own.period_ns, packets }),
        }
    }
    found.sort_by_key(|one| std::cmp::Reverse(one.packets));
    found
}

/// How far off its slot a packet is still on schedule, where packets are late beyond a threshold. Beyond half of a period the
/// next slot is nearer, so that any period would fit.
fn on_schedule_ns(threshold_ns: i64, period_ns: f64) -> i64 {
    /// Nobody calls a packet late by less.
    const LEAST_NS: i64 = 5_000;
    threshold_ns.min(LEAST_NS.max((period_ns / 2.0) as i64)).max((period_ns / 4.0) as i64)
}

/// Mean time between packets; 0 for fewer than two.
fn mean_distance_ns(packets: &PacketTable) -> f64 {
    let (Some(first), Some(last)) = (packets.app_ns.iter().min(), packets.app_ns.iter().max()) else {
        return 0.0;
    };
    last.saturating_sub(*first) as f64 / (packets.len().max(2) - 1) as f64
}

/// Where the packets were first stamped, of the layers that nearly all packets have.
fn arrival(packets: &PacketTable, slack_ns: i64) -> Option<UsualWay<'_>> {
    [Layer::Receive, Layer::KernelStamp, Layer::Softirq, Layer::Interrupt, Layer::Enqueued, Layer::Ready]
        .into_iter()
        .find_map(|layer| {
            let before_app_ns = packets.column(layer)?.before_app_ns.as_slice();
            let missing = before_app_ns.iter().filter(|before| **before == MISSING).count();
            let complete = before_app_ns.len() == packets.len() && missing * 10 <= packets.len();
            let typical_ns = complete.then(|| typical_before_app(packets, layer, slack_ns)).flatten()?;
            Some(UsualWay { before_app_ns, typical_ns })
        })
}

/// The due instants by a steady pace.
fn learned<'a>(
    packets: &PacketTable,
    arrivals: &Arrivals<'_>,
    pace: &Pace,
    parts: &[pace::Part],
    slack_ns: i64,
) -> LearnedSchedule<'a> {
    let mut due_before_app_ns = vec![MISSING; packets.len()];
    let mut late: Vec<i64> = Vec::with_capacity(packets.len());
    let horizon_ns = pace::horizon_ns(pace.period_ns);
    for part in parts {
        let period_ns = part.own.unwrap_or(*pace).period_ns;
        let first = part.rows.start;
        arrivals.part(part.rows.clone(), |arrivals| {
            pace::each_due(arrivals, period_ns, pace::horizon_ns(period_ns), |row, due| {
                due_before_app_ns[first + row] = distance_ns(packets.app_ns[first + row], due.due_ns);
                late.extend(due.late_ns());
            });
        });
    }
    let typical_ns = typical(&due_before_app_ns, slack_ns).unwrap_or(0);
    // The scatter of those that nothing held up, and how far the period's error leads within the horizon.
    let usual = pace::typical(&mut late, slack_ns);
    late.iter_mut().for_each(|late| *late = late.saturating_sub(usual).saturating_abs());
    late.retain(|off| *off <= slack_ns);
    let scatter = 3.0 * 1.4826 * median(&mut late).unwrap_or(0) as f64;
    let led_astray = pace.uncertainty_ns * horizon_ns as f64 / pace.period_ns.max(1.0);
    let uncertainty_ns = (scatter + led_astray).ceil() as i64;
    LearnedSchedule { due_before_app_ns, typical_ns, arrival: None, uncertainty_ns }
}

impl LearnedSchedule<'_> {
    /// Lateness of a packet. What it brought along counts only beyond the uncertainty of the schedule.
    fn lateness_ns(&self, row: usize) -> Option<i64> {
        let before = self.due_before_app_ns[row];
        let lateness = (before != MISSING).then(|| before - self.typical_ns)?;
        let Some(on_this_host) = self.arrival.as_ref().and_then(|arrival| arrival.excess_ns(row)) else {
            return Some(lateness);
        };
        let brought = lateness - on_this_host;
        Some(if brought.abs() <= self.uncertainty_ns { on_this_host } else { lateness })
    }
}

/// How the path, by two clocks, changes with the sequence number.
fn drift(packets: &PacketTable, before_app_ns: &[i64]) -> Option<StreamLine> {
    let (seq, path): (Vec<u64>, Vec<i64>) =
        packets.seq.iter().zip(before_app_ns).filter(|(_, before)| **before != MISSING).unzip();
    fit_line(&seq, &path, Some(0.0))
}

impl Expected<'_> {
    /// Lateness of a packet, negative for an early one; none where it is not defined.
    pub(super) fn lateness_ns(&self, packets: &PacketTable, row: usize) -> Option<i64> {
        match self {
            Self::Schedule { before_app_ns, typical_ns, drift } => {
                let before = before_app_ns[row];
                let usual = drift.map_or(*typical_ns, |line| line.at(packets.seq[row]));
                (before != MISSING).then(|| before.saturating_sub(usual))
            }
            Self::Learned(learned) => learned.lateness_ns(row),
            Self::Path(way) => way.excess_ns(row),
            Self::Nothing => None,
        }
    }

    /// Typical path, 0 where the schedule is not known.
    pub(super) fn typical_path_ns(&self) -> i64 {
        match self {
            Self::Schedule { typical_ns, .. } => *typical_ns,
            Self::Learned(_) | Self::Path(_) | Self::Nothing => 0,
        }
    }
}

/// Most catching-up time of one packet: twice the median time between readings where the later packet had been
/// waiting already (in its socket, or by its expected instant), at least 500 ns. Uses the first million pairs.
pub(super) fn catch_up_cap_ns(
    packets: &PacketTable,
    expected: &Expected<'_>,
    enqueued: Option<&[i64]>,
) -> i64 {
    const FLOOR_NS: i64 = 500;
    let mut gaps: Vec<i64> = Vec::new();
    for row in 1..packets.len() {
        let gap = packets.app_ns[row] - packets.app_ns[row - 1];
        let since = match enqueued.map(|before| before[row]) {
            Some(before) if before != MISSING => Some(before),
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
