//! Steps of a wall clock during a test.
//!
//! They show in the delays, whose lower edge shifts ([`level_shifts`]): this works on any log, and finds changes of the
//! path as well.

use super::arrival::Arrival;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::VecDeque;

#[cfg(test)]
mod tests;

/// How to look for shifts of the lower edge of the delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShiftSearch {
    /// Packets on each side whose smallest delays are compared. Shifts nearer to each other or to an end of the test
    /// are not found. A longer window sees smaller steps through more queueing.
    pub window: usize,
    /// Smallest shift to report.
    pub least_ns: u64,
    /// Period of a periodic flow, by which a step of the sender's clock is told from one of the receiver's.
    pub period_ns: Option<u64>,
}

impl ShiftSearch {
    /// Windows of 100 packets, shifts from 1 ms.
    pub fn new(period_ns: Option<u64>) -> Self {
        Self { window: 100, least_ns: 1_000_000, period_ns }
    }
}

/// What a shift of the delays comes from, as far as the stamps tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShiftCause {
    /// The stamps of sending jump out of their period by the same amount: the sender's clock stepped.
    SenderClock,
    /// The receiver's clock stepped: it was read, or the other direction shows the same with another sign.
    ReceiverClock,
    /// The path changed: both clocks were read, or the other direction shows nothing.
    Path,
    /// They keep their period: the receiver's clock stepped, or the path changed.
    ReceiverClockOrPath,
    /// The flow has no period.
    Unknown,
}

impl ShiftCause {
    /// Whether a clock stepped.
    pub const fn is_a_clock(self) -> bool {
        matches!(self, Self::SenderClock | Self::ReceiverClock)
    }

    /// Whether it is known what changed.
    pub const fn is_known(self) -> bool {
        !matches!(self, Self::ReceiverClockOrPath | Self::Unknown)
    }
}

/// A lasting shift of the smallest delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LevelShift {
    /// Longer delays if positive: what the receiver's clock stepped, or minus what the sender's did.
    pub size_ns: i64,
    /// First packet, in order of sending, that shows it.
    pub sequence: u64,
    /// When that was sent, by the sender's clock.
    pub sent_ns: i64,
    /// When it arrived, by the receiver's clock.
    pub received_ns: i64,
    /// Where it comes from.
    pub cause: ShiftCause,
}

/// The shifts of the lower edge of the delays, in order of sending.
///
/// A shift must be larger than usual differences of neighbouring windows, abrupt, flat on both sides (a queue that
/// fills at once drains slowly) and must last until the next one. Skew of up to 100 ppm is no shift.
pub fn level_shifts(arrivals: &[Arrival], search: &ShiftSearch) -> Vec<LevelShift> {
    let mut sent = arrivals.to_vec();
    sent.sort_unstable_by_key(|a| a.sequence);
    let delays: Vec<i64> = sent.iter().map(Arrival::delay_ns).collect();
    let window = search.window.max(8);
    if delays.len() < 2 * window {
        return Vec::new();
    }
    let edge = LowerEdge { minima: sliding_minima(&delays, window), delays, window };
    let noise_ns = edge.usual_gap_ns();
    let least_ns = search.least_ns.max(noise_ns.saturating_mul(8));
    let mut places = candidates(&edge, least_ns, noise_ns);
    let mut index = 0;
    while index < places.len() {
        if edge.lasts(&places, index, &sent) {
            index += 1;
        } else {
            // The neighbours' levels reach further now.
            places.remove(index);
            index = index.saturating_sub(1);
        }
    }
    let shift = |&place: &usize| {
        let size_ns = edge.gap_ns(place);
        let at = sent[place];
        let cause = cause_of(&sent, place, size_ns, search, window);
        LevelShift { size_ns, sequence: at.sequence, sent_ns: at.sent_ns, received_ns: at.received_ns, cause }
    };
    places.iter().map(shift).collect()
}

/// Takes out of the sizes of shifts what the delays grow by within the windows that they were found from: `slope` is that
/// of their lower edge, without unit.
pub fn without_drift(arrivals: &[Arrival], shifts: &mut [LevelShift], search: &ShiftSearch, slope: f64) {
    if shifts.is_empty() {
        return;
    }
    let mut sent = arrivals.to_vec();
    sent.sort_unstable_by_key(|a| a.sequence);
    // A clock may have stepped between the sides, so each is timed from its own packet beside the step.
    let least = |side: &[Arrival], from: Option<&Arrival>| {
        let level = |a: &Arrival| {
            let after_ns = from.map_or(0, |from| a.sent_ns.saturating_sub(from.sent_ns)) as f64;
            a.delay_ns().saturating_sub((slope * after_ns).round() as i64)
        };
        side.iter().map(level).min()
    };
    for shift in shifts {
        let place = sent.partition_point(|a| a.sequence < shift.sequence);
        let before = &sent[place.saturating_sub(search.window)..place];
        let behind = &sent[place..(place + search.window).min(sent.len())];
        if let (Some(low), Some(high)) = (least(before, before.last()), least(behind, behind.first())) {
            shift.size_ns = high.saturating_sub(low);
        }
    }
}

/// The delays in order of sending, and the smallest of each window.
struct LowerEdge {
    delays: Vec<i64>,
    /// Element i is the smallest of `delays[i..i + window]`.
    minima: Vec<i64>,
    window: usize,
}

impl LowerEdge {
    /// Places with a whole window on either side.
    fn places(&self) -> std::ops::RangeInclusive<usize> {
        self.window..=self.delays.len() - self.window
    }

    /// Smallest delay of the window from `place` on, less that of the window before it.
    fn gap_ns(&self, place: usize) -> i64 {
        self.minima[place].saturating_sub(self.minima[place - self.window])
    }

    /// The median of the gaps, as sizes: what queueing and skew do.
    fn usual_gap_ns(&self) -> u64 {
        let mut gaps: Vec<u64> = self.places().map(|p| self.gap_ns(p).unsigned_abs()).collect();
        let middle = gaps.len() / 2;
        *gaps.select_nth_unstable(middle).1
    }

    /// Where the shift seen at `place` is: behind the last packet of the lower level, or at the first of it.
    fn locate(&self, place: usize, noise_ns: u64) -> usize {
        let gap = self.gap_ns(place);
        let higher = self.minima[place].max(self.minima[place - self.window]);
        // Lower than the higher level ever is; a packet that queued may lie anywhere above its level.
        let below_ns = (gap.unsigned_abs() / 10).saturating_add(noise_ns);
        let low = |&i: &usize| self.delays[i] < higher.saturating_sub_unsigned(below_ns);
        let mut around = place - self.window..place + self.window;
        let found = if gap > 0 { around.rfind(low).map(|i| i + 1) } else { around.find(low) };
        found.unwrap_or(place).clamp(self.window, self.delays.len() - self.window)
    }

    /// The smallest of these delays, None if there are none.
    fn least(&self, from: usize, to: usize) -> Option<i64> {
        self.delays.get(from..to.min(self.delays.len()))?.iter().copied().min()
    }

    /// Abrupt at `place`, and flat before and behind it.
    fn is_step(&self, place: usize, noise_ns: u64) -> bool {
        let window = self.window;
        let gap = self.gap_ns(place);
        let near = |a: Option<i64>, b: Option<i64>, slack_ns: u64| match (a, b) {
            (Some(a), Some(b)) => a.abs_diff(b) <= slack_ns,
            _ => true,
        };
        let size_ns = gap.unsigned_abs();
        let flat_ns = (size_ns / 10).saturating_add(noise_ns.saturating_mul(4));
        let quarter = window / 4;
        let before = self.least(place - quarter, place);
        let behind = self.least(place, place + quarter);
        let abrupt = before.zip(behind).is_some_and(|(b, a)| {
            a.saturating_sub(b).abs_diff(gap) <= (size_ns / 2).saturating_add(noise_ns)
        });
        let half = window / 2;
        abrupt
            && self.mostly_level(place, self.minima[place], flat_ns)
            && self.mostly_level(place - window, self.minima[place - window], flat_ns)
            && near(self.least(place, place + half), self.least(place + half, place + window), flat_ns)
            && near(self.least(place - window, place - half), self.least(place - half, place), flat_ns)
            && near(
                self.least(place, place + window),
                self.least(place + window, place + 2 * window),
                flat_ns,
            )
            && near(
                self.least(place - window, place),
                place.checked_sub(2 * window).and_then(|from| self.least(from, place - window)),
                flat_ns,
            )
    }

    /// Whether the smallest delays of the eighths of a window, all but one, are near its level: under a queue they
    /// wander.
    fn mostly_level(&self, from: usize, level_ns: i64, slack_ns: u64) -> bool {
        let eighth = self.window / 8;
        let off = self.delays[from..from + 8 * eighth]
            .chunks(eighth)
            .filter(|part| part.iter().all(|delay| delay.abs_diff(level_ns) > slack_ns));
        off.count() <= 1
    }

    /// Whether the level of `places[index]` holds until its neighbours: the higher side never comes near the lower.
    fn lasts(&self, places: &[usize], index: usize, sent: &[Arrival]) -> bool {
        let place = places[index];
        let gap = self.gap_ns(place);
        let (from, to, low) = if gap > 0 {
            let end = places.get(index + 1).copied().unwrap_or(self.delays.len());
            (place, end, self.minima[place - self.window])
        } else {
            let start = index.checked_sub(1).map_or(0, |before| places[before]);
            (start, place, self.minima[place])
        };
        let span_ns = sent[to - 1].sent_ns.abs_diff(sent[from].sent_ns);
        let drift_ns = span_ns / 10_000;
        let bound = low.saturating_add_unsigned(gap.unsigned_abs() / 2).saturating_sub_unsigned(drift_ns);
        self.least(from, to).is_none_or(|least| least >= bound)
    }
}

/// Steps by themselves, largest first, none within a window of another; then in order.
fn candidates(edge: &LowerEdge, least_ns: u64, noise_ns: u64) -> Vec<usize> {
    let mut ranked: Vec<usize> =
        edge.places().filter(|&p| edge.gap_ns(p).unsigned_abs() >= least_ns).collect();
    ranked.sort_by_key(|&p| (std::cmp::Reverse(edge.gap_ns(p).unsigned_abs()), p));
    let mut taken: Vec<usize> = Vec::new();
    let mut settled = vec![false; edge.delays.len() + 1];
    for place in ranked {
        if settled[place] {
            continue;
        }
        let located = edge.locate(place, noise_ns);
        let is_step = edge.gap_ns(located).unsigned_abs() >= least_ns && edge.is_step(located, noise_ns);
        let reach = if is_step { edge.window } else { edge.window / 4 };
        for p in [place, located] {
            settled[p.saturating_sub(reach)..(p + reach).min(edge.delays.len())].fill(true);
        }
        if is_step && taken.iter().all(|t| t.abs_diff(located) >= edge.window) {
            taken.push(located);
        }
    }
    taken.sort_unstable();
    taken
}

/// Compares the stamps of sending with their period on both sides of a shift.
fn cause_of(sent: &[Arrival], place: usize, size_ns: i64, search: &ShiftSearch, window: usize) -> ShiftCause {
    let Some(period_ns) = search.period_ns else { return ShiftCause::Unknown };
    // A sender may be late, but not early: the smallest stands for the schedule.
    let schedule = |side: &[Arrival]| {
        let off = |a: &Arrival| {
            // Wrapping, as numbers and periods may be anything; a difference of two comes out right.
            let due = (a.sequence as i128).wrapping_mul(i128::from(period_ns));
            i128::from(a.sent_ns).wrapping_sub(due)
        };
        side.iter().map(off).min()
    };
    let (before, behind) = (schedule(&sent[place - window..place]), schedule(&sent[place..place + window]));
    let jumped = before.zip(behind).map_or(0, |(before, behind)| behind.wrapping_sub(before));
    let difference = jumped.wrapping_add(i128::from(size_ns)).unsigned_abs();
    if difference <= u128::from(size_ns.unsigned_abs()) / 2 {
        ShiftCause::SenderClock
    } else {
        ShiftCause::ReceiverClockOrPath
    }
}

/// The smallest of each `window` successive values, in linear time.
fn sliding_minima(values: &[i64], window: usize) -> Vec<i64> {
    let mut ascending: VecDeque<usize> = VecDeque::new();
    let mut minima = Vec::with_capacity(values.len() + 1 - window);
    for (i, &value) in values.iter().enumerate() {
        while ascending.back().is_some_and(|&last| values[last] >= value) {
            ascending.pop_back();
        }
        ascending.push_back(i);
        if ascending[0] + window <= i {
            ascending.pop_front();
        }
        if i + 1 >= window {
            minima.push(values[ascending[0]]);
        }
    }
    minima
}
