//! The pace of a stream, learned from its arrivals alone: its period, and when each packet was due.
//!
//! Lateness is one-sided: a packet can be held up, but not come before it was sent. So a packet is due where the
//! earliest of those that follow it, each less its number times the period, would put it. A sender that skips slots moves
//! all that follows, and with it that instant. A packet that is held up moves only itself. Packets that are lost without
//! numbers, and a sender that begins its schedule anew, look like skipped slots.

mod changes;

pub(crate) use changes::{Part, parts};

use quaver_arrivals::distribution::median;
use std::collections::VecDeque;
use std::ops::Range;

/// Packets are compared with those that follow within this time, ...
const HORIZON_NS: i64 = 1_000_000_000;
/// ... and at least within so many periods.
const LEAST_HORIZON_PERIODS: f64 = 64.0;
/// Distances in packets over which the period is first looked for.
const LAGS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// Packets that first guesses are tried with, at most, ...
const MOST_TRIED: usize = 20_000;
/// ... and packets whose lateness says how well a period fits.
const MOST_JUDGED: usize = 1_000_000;
/// First guesses that are as near to each other lead to the same period.
const SAME: f64 = 1e-3;
/// Points of the line by which a period is refined, at most.
const POINTS: usize = 200;
/// A period fits where so many packets are on schedule, ...
const LEAST_ON_SCHEDULE: f64 = 0.6;
/// ... or half of them come within this part of it, which no other stream does, ...
const NEAR: f64 = 50.0;
/// ... and more than so many slots are used, ...
const LEAST_USED: f64 = 0.5;
/// ... or so many where half of the distances are whole periods within [`NEAR`], as chance makes one of 25.
const LEAST_USED_ON_GRID: f64 = 0.2;
/// Fewer packets tell no period.
const LEAST_PACKETS: usize = 8;

/// Arrivals of a stream, a row each, in the order in which the packets were received.
pub(crate) struct Arrivals<'a> {
    /// Sequence number, extended over wraps; the order of arrival where packets have none.
    pub(crate) seq: &'a [u64],
    /// When each arrived; none where it was not stamped.
    pub(crate) at: &'a dyn Fn(usize) -> Option<i64>,
}

impl Arrivals<'_> {
    /// Hands some of the rows to `take`.
    pub(crate) fn part<T>(&self, rows: Range<usize>, take: impl FnOnce(&Arrivals<'_>) -> T) -> T {
        let at = |row: usize| (self.at)(rows.start + row);
        take(&Arrivals { seq: &self.seq[rows.clone()], at: &at })
    }
}

/// What a stream's arrivals tell of its period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace {
    /// Time from slot to slot, by our clock.
    pub(crate) period_ns: f64,
    /// Half of its 95 % interval.
    pub(crate) uncertainty_ns: f64,
    /// Slots without a packet.
    pub(crate) skipped_slots: u64,
    /// Part of the packets that came when due, within the tolerance that was asked for.
    pub(crate) on_schedule_share: f64,
    /// Part of the slots that have a packet.
    pub(crate) used_share: f64,
    /// Median distance of the packets' lateness from what is typical.
    scatter_ns: i64,
    /// Whether half of the distances from packet to packet are whole periods.
    on_grid: bool,
}

impl Pace {
    /// Whether the packets keep to the period.
    pub(crate) fn steady(&self) -> bool {
        let near = self.scatter_ns as f64 * NEAR <= self.period_ns;
        (self.on_schedule_share >= LEAST_ON_SCHEDULE || near) && self.fills_slots()
    }

    /// A period so short that most slots are empty fits any stream, unless its packets keep to its slots.
    fn fills_slots(&self) -> bool {
        self.used_share > if self.on_grid { LEAST_USED_ON_GRID } else { LEAST_USED }
    }
}

/// The period that fits best, the first guess of it being `known_ns` where somebody told it. A packet is on schedule
/// within `tolerance_ns` (given a period). None for fewer than eight packets.
pub(crate) fn learn(
    arrivals: &Arrivals<'_>,
    known_ns: Option<f64>,
    tolerance_ns: &impl Fn(f64) -> i64,
) -> Option<Pace> {
    let rows = arrivals.seq.len();
    let tried = rows.min(MOST_TRIED);
    let from = (rows - tried) / 2;
    let best = arrivals.part(from..from + tried, |tried| {
        let guesses = known_ns.map_or_else(|| guesses(tried), |period_ns| vec![period_ns]);
        let fits = guesses.into_iter().filter_map(|guess| refine(tried, guess, tolerance_ns));
        fits.max_by(|a, b| {
            let steady = a.steady().cmp(&b.steady()).then(a.fills_slots().cmp(&b.fills_slots()));
            let share = a.on_schedule_share.total_cmp(&b.on_schedule_share);
            steady.then(b.scatter_ns.cmp(&a.scatter_ns)).then(share)
        })
    })?;
    refine(arrivals, best.period_ns, tolerance_ns)
}

/// Periods that the distances of packets tell: their mode, and the medians over several packets.
fn guesses(arrivals: &Arrivals<'_>) -> Vec<f64> {
    let rows = arrivals.seq.len();
    let mut found = Vec::new();
    for lag in LAGS.into_iter().filter(|lag| *lag < rows) {
        let mut distances = distances(arrivals, lag);
        found.extend(mode(&distances).map(|time| time / lag as f64));
        found.extend(median(&mut distances).map(|time| time as f64 / lag as f64));
    }
    found.sort_by(f64::total_cmp);
    found.dedup_by(|a, b| (*a - *b).abs() < *b * SAME);
    found
}

/// Times from each packet to the one that is so many numbers later, sorted.
fn distances(arrivals: &Arrivals<'_>, lag: usize) -> Vec<i64> {
    let distance = |row: usize| {
        let numbers = arrivals.seq[row + lag].checked_sub(arrivals.seq[row])?;
        let time = (arrivals.at)(row + lag)?.saturating_sub((arrivals.at)(row)?);
        (numbers == lag as u64 && time > 0).then_some(time)
    };
    let mut distances: Vec<i64> = (0..arrivals.seq.len().saturating_sub(lag)).filter_map(distance).collect();
    distances.sort_unstable();
    distances
}

/// Mode of the times between packets that follow each other.
pub(crate) fn usual_delta_ns(arrivals: &Arrivals<'_>) -> Option<f64> {
    mode(&distances(arrivals, 1))
}

/// Middle of the shortest stretch that holds a quarter of the values, which are sorted.
fn mode(sorted: &[i64]) -> Option<f64> {
    let held = sorted.len().div_ceil(4);
    let stretches = sorted.windows(held.max(1));
    let shortest = stretches.min_by_key(|held| held[held.len() - 1].abs_diff(held[0]))?;
    Some(shortest[shortest.len() / 2] as f64)
}

fn refine(arrivals: &Arrivals<'_>, guess_ns: f64, tolerance_ns: &impl Fn(f64) -> i64) -> Option<Pace> {
    if arrivals.seq.len() < LEAST_PACKETS || guess_ns <= 0.0 {
        return None;
    }
    let mut line = Slope { per_slot_ns: guess_ns, uncertainty_ns: guess_ns };
    // A first guess is good for a short horizon only.
    for periods in [8.0, LEAST_HORIZON_PERIODS, LEAST_HORIZON_PERIODS, 0.0] {
        let horizon_ns = match periods {
            0.0 => horizon_ns(line.per_slot_ns),
            periods => (periods * line.per_slot_ns) as i64,
        };
        line = slope(arrivals, line.per_slot_ns, horizon_ns)?;
    }
    let period_ns = line.per_slot_ns;
    let (mut skipped, mut counter) = (0.0, SlotCounter::default());
    let mut lateness: Vec<i64> = Vec::new();
    let every = arrivals.seq.len().div_ceil(MOST_JUDGED).max(1);
    each_due(arrivals, period_ns, horizon_ns(period_ns), |row, due| {
        skipped += counter.skipped(due.level_ns, period_ns);
        if row % every == 0 {
            lateness.extend(due.late_ns());
        }
    });
    let tolerance = tolerance_ns(period_ns);
    let typical = typical(&mut lateness, tolerance);
    lateness.iter_mut().for_each(|late| *late = late.saturating_sub(typical).saturating_abs());
    let on_schedule = lateness.iter().filter(|off| **off <= tolerance).count();
    let numbers = (arrivals.seq.iter().max()? - arrivals.seq.iter().min()?).saturating_add(1);
    Some(Pace {
        period_ns,
        uncertainty_ns: line.uncertainty_ns,
        skipped_slots: skipped.max(0.0) as u64,
        on_schedule_share: on_schedule as f64 / lateness.len().max(1) as f64,
        used_share: numbers as f64 / (numbers as f64 + skipped.max(0.0)),
        scatter_ns: median(&mut lateness)?,
        on_grid: on_grid(arrivals, period_ns),
    })
}

/// Whether half of the distances between packets that follow each other are whole periods, one at least.
fn on_grid(arrivals: &Arrivals<'_>, period_ns: f64) -> bool {
    let distances = distances(arrivals, 1);
    let whole = distances.iter().filter(|distance| {
        let periods = **distance as f64 / period_ns;
        periods > 0.5 && (periods - periods.round()).abs() * NEAR <= 1.0
    });
    whole.count() * 2 > distances.len()
}

/// Slots without a packet, where each part keeps its own period.
pub(crate) fn skipped_slots(arrivals: &Arrivals<'_>, pace: &Pace, parts: &[Part]) -> u64 {
    if parts.len() < 2 {
        return pace.skipped_slots;
    }
    let of = |part: &Part| {
        let period_ns = part.own.unwrap_or(*pace).period_ns;
        let (mut skipped, mut counter) = (0.0, SlotCounter::default());
        arrivals.part(part.rows.clone(), |arrivals| {
            each_due(arrivals, period_ns, horizon_ns(period_ns), |_, due| {
                skipped += counter.skipped(due.level_ns, period_ns);
            });
        });
        skipped.max(0.0) as u64
    };
    parts.iter().map(of).sum()
}

/// How far ahead a packet is compared with others.
pub(crate) fn horizon_ns(period_ns: f64) -> i64 {
    HORIZON_NS.max((LEAST_HORIZON_PERIODS * period_ns) as i64)
}

/// Median of those that are no later than the 10th percentile and `slack_ns` more; 0 for none.
pub(crate) fn typical(lateness: &mut [i64], slack_ns: i64) -> i64 {
    lateness.sort_unstable();
    let Some(unhindered) = lateness.get(lateness.len() / 10).copied() else { return 0 };
    let those = lateness.partition_point(|late| *late <= unhindered.saturating_add(slack_ns));
    lateness[(those - 1) / 2]
}

/// Counts skipped slots by the steps of the schedule. The last packet before a pause may itself be late, which divides
/// one step among several packets. So what is left of a step counts with the next, and is forgotten over some packets,
/// since an error of the period must not add up to a slot.
#[derive(Default)]
struct SlotCounter {
    level_ns: Option<i64>,
    left_ns: f64,
}

impl SlotCounter {
    const KEPT: f64 = 0.8;

    /// Slots skipped between a packet and the one that follows, which was counted before.
    fn skipped(&mut self, level_ns: i64, period_ns: f64) -> f64 {
        let after_ns = self.level_ns.replace(level_ns).unwrap_or(level_ns);
        let step_ns = after_ns.saturating_sub(level_ns) as f64 + self.left_ns;
        let slots = (step_ns / period_ns).round();
        self.left_ns = (step_ns - slots * period_ns) * Self::KEPT;
        slots
    }
}

/// When a packet was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// When, CLOCK_MONOTONIC.
    pub(crate) due_ns: i64,
    /// When it came; none where it was not stamped.
    pub(crate) came_ns: Option<i64>,
    /// When it was due, less its number times the period, and less the first arrival: changes where slots are skipped.
    level_ns: i64,
}

impl Due {
    /// How late it came.
    pub(crate) fn late_ns(&self) -> Option<i64> {
        Some(self.came_ns?.saturating_sub(self.due_ns))
    }
}

/// Visits the packets from the last number to the first, each with when it was due.
pub(crate) fn each_due(
    arrivals: &Arrivals<'_>,
    period_ns: f64,
    horizon_ns: i64,
    mut visit: impl FnMut(usize, Due),
) {
    let seq = arrivals.seq;
    let rows = seq.len();
    let Some((first_row, first_ns)) = (0..rows).find_map(|row| Some((row, (arrivals.at)(row)?))) else {
        return;
    };
    let mut order: Vec<u32> = Vec::new();
    if !seq.is_sorted() {
        order.extend(0..u32::try_from(rows).unwrap_or(u32::MAX));
        order.sort_by_key(|row| seq[*row as usize]);
    }
    // Those that may be the earliest, far ones first: each is earlier than all nearer ones.
    let mut earliest: VecDeque<(i64, i64)> = VecDeque::new();
    for place in (0..rows).rev() {
        let row = order.get(place).map_or(place, |row| *row as usize);
        let came_ns = (arrivals.at)(row);
        let steps = seq[row].wrapping_sub(seq[first_row]).cast_signed();
        let scheduled_ns = (steps as f64 * period_ns).round() as i64;
        if let Some(at) = came_ns.map(|came| came.saturating_sub(first_ns)) {
            let own = at.saturating_sub(scheduled_ns);
            while earliest.back().is_some_and(|(_, level)| *level >= own) {
                earliest.pop_back();
            }
            earliest.push_back((at, own));
            while earliest.front().is_some_and(|(then, _)| then.saturating_sub(at) > horizon_ns) {
                earliest.pop_front();
            }
        }
        if let Some(&(_, level_ns)) = earliest.front() {
            let due_ns = first_ns.saturating_add(scheduled_ns).saturating_add(level_ns);
            visit(row, Due { due_ns, came_ns, level_ns });
        }
    }
}

/// Time from slot to slot.
#[derive(Clone, Copy, Debug)]
struct Slope {
    per_slot_ns: f64,
    uncertainty_ns: f64,
}

/// The period by the earliest packets, with the steps of skipped slots taken out.
fn slope(arrivals: &Arrivals<'_>, period_ns: f64, horizon_ns: i64) -> Option<Slope> {
    let rows = arrivals.seq.len();
    let every = rows.div_ceil(POINTS);
    let mut points: Vec<(f64, f64)> = Vec::with_capacity(POINTS);
    let (mut skipped, mut counter) = (0.0, SlotCounter::default());
    let first = arrivals.seq[0];
    each_due(arrivals, period_ns, horizon_ns, |row, due| {
        skipped += counter.skipped(due.level_ns, period_ns);
        if row % every == 0 {
            let number = arrivals.seq[row].wrapping_sub(first).cast_signed() as f64;
            points.push((number - skipped, due.level_ns as f64 + skipped * period_ns));
        }
    });
    let (drift, uncertainty_ns) = robust_slope(&points)?;
    Some(Slope { per_slot_ns: period_ns + drift, uncertainty_ns })
}

/// Slope by Theil and Sen, and half of its 95 % interval from the scatter of the points about the line.
fn robust_slope(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let mut slopes = Vec::with_capacity(points.len() * points.len() / 2);
    for (index, a) in points.iter().enumerate() {
        slopes.extend(points[index + 1..].iter().filter(|b| b.0 != a.0).map(|b| (b.1 - a.1) / (b.0 - a.0)));
    }
    if slopes.is_empty() {
        return None;
    }
    let slope = middle(&mut slopes);
    let mut rest: Vec<f64> = points.iter().map(|(x, y)| y - slope * x).collect();
    let offset = middle(&mut rest);
    let mut off: Vec<f64> = rest.iter().map(|rest| (rest - offset).abs()).collect();
    // A stamp is a whole number of nanoseconds.
    let scatter = (1.4826 * middle(&mut off)).max(0.5);
    let mean = points.iter().map(|(x, _)| x).sum::<f64>() / points.len() as f64;
    let square: f64 = points.iter().map(|(x, _)| (x - mean) * (x - mean)).sum();
    Some((slope, 1.96 * scatter / square.sqrt()))
}

fn middle(values: &mut [f64]) -> f64 {
    let at = values.len() / 2;
    *values.select_nth_unstable_by(at, f64::total_cmp).1
}
