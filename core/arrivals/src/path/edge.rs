//! The lower edge of one direction's delays over time: what the clocks add to every packet, and the way itself.
//!
//! Queues only add to a delay. So the packets that met none lie on an edge below all others, and what bends that edge is
//! the drift of the two clocks. A line below all points ([`super::skew`]) is fitted to overlapping windows, since clocks
//! follow the temperature; a line through the whole flow stands where windows are too short to show one.
//!
//! A queue that stands for a while lifts the edge too. Two limits keep it out: an edge bends down by [`MOST_BEND`] at
//! most, and its slope is within [`MOST_TURN`] of the usual one. A line counts only if the least delays of several parts
//! of its time lie on it; a step has such parts at two places alone, and noise has them nowhere.

use super::skew::{LowerLine, lower_line};
use schemars::JsonSchema;
use serde::Serialize;

#[cfg(test)]
mod tests;

/// Length of the shortest windows, nanoseconds.
const WINDOW_NS: i64 = 30_000_000_000;
/// Least delays kept of a window.
const SLOTS: i64 = 64;
/// Parts of a line's time whose least delays are compared with it.
const PARTS: usize = 16;
/// Parts that a clock's line touches at least, the first in the first third and the last in the last.
const TOUCHED: usize = 8;
/// How fast a skew falls at most, per second: 0.6 ppm a minute.
const MOST_BEND: f64 = 1e-8;
/// How far a skew is off the usual one at most, without unit: 10 ppm.
const MOST_TURN: f64 = 10e-6;
/// No clock drifts faster, without unit: chronyd slews by 1,000 ppm at most. A delay that grows faster is a queue's.
const MOST_SKEW: f64 = 1_200e-6;

/// The lower edge of a flow's delays over time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Edge {
    /// Mean slope in parts per million; 0 unless `drifts`. Positive: the receiver's clock runs faster than the sender's.
    pub ppm: f64,
    /// Least slope between two knots, parts per million.
    pub least_ppm: f64,
    /// Largest slope between two knots, parts per million.
    pub most_ppm: f64,
    /// Whether a drift shows. If not, the edge is level.
    pub drifts: bool,
    /// Slope of a line that is too steep for clocks, parts per million: a queue that grows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growth_ppm: Option<f64>,
    /// Half of the least delays of short times lie within so much above the edge, nanoseconds; where no drift shows, one
    /// of this size could hide.
    pub bound_ns: f64,
    /// Time and delay, nanoseconds, ascending; straight between them. Never empty.
    #[serde(skip)]
    pub knots: Vec<(i64, f64)>,
    /// Time and delay of the least delays that the edge was found from.
    #[serde(skip)]
    minima: Vec<(i64, i64)>,
}

impl Edge {
    /// Delay of the edge at a time, nanoseconds; beyond the ends it goes on with its mean slope.
    pub fn at_ns(&self, time_ns: i64) -> f64 {
        let after = self.knots.partition_point(|knot| knot.0 <= time_ns);
        let (Some(before), Some(next)) = (after.checked_sub(1), self.knots.get(after)) else {
            let end = self.knots[after.saturating_sub(1)];
            return end.1 + self.ppm * 1e-6 * since(end.0, time_ns);
        };
        let (from, to) = (self.knots[before], *next);
        from.1 + (to.1 - from.1) * since(from.0, time_ns) / since(from.0, to.0)
    }

    /// Times of the first and the last packet that it was found from.
    pub fn span_ns(&self) -> (i64, i64) {
        (self.minima[0].0, self.minima[self.minima.len() - 1].0)
    }

    /// Its length, nanoseconds.
    pub fn length_ns(&self) -> f64 {
        let (from, to) = self.span_ns();
        since(from, to)
    }

    /// The same least delays over a line of this slope (parts per million).
    pub(super) fn with_slope(&self, ppm: f64) -> Self {
        let (from, to) = self.span_ns();
        let rise = |time_ns: i64| ppm * 1e-6 * since(from, time_ns);
        let level =
            self.minima.iter().map(|(time, delay)| *delay as f64 - rise(*time)).fold(f64::INFINITY, f64::min);
        let mut knots = vec![(from, level)];
        if to > from {
            knots.push((to, level + rise(to)));
        }
        let growth_ppm = self.growth_ppm;
        let mut tilted = Self {
            ppm,
            least_ppm: ppm,
            most_ppm: ppm,
            drifts: ppm != 0.0,
            growth_ppm,
            bound_ns: 0.0,
            knots,
            ..self.clone()
        };
        tilted.bound_ns = tilted.scatter_ns();
        tilted
    }

    /// Median distance of the least delays above the edge.
    fn scatter_ns(&self) -> f64 {
        let mut above: Vec<f64> =
            self.minima.iter().map(|(time, delay)| (*delay as f64 - self.at_ns(*time)).max(0.0)).collect();
        let middle = above.len() / 2;
        *above.select_nth_unstable_by(middle, f64::total_cmp).1
    }
}

/// Nanoseconds between two times.
fn since(from: i64, to: i64) -> f64 {
    (i128::from(to) - i128::from(from)) as f64
}

/// The lower edge of points (time, delay), nanoseconds, in any order; none without a point. Steps have to be taken out
/// before.
pub fn edge(mut points: Vec<(i64, i64)>) -> Option<Edge> {
    points.sort_unstable();
    let span_ns = points.last()?.0.saturating_sub(points.first()?.0);
    let minima = least_of_slots(&points, (span_ns.min(WINDOW_NS) / SLOTS).max(1));
    let level = Edge {
        ppm: 0.0,
        least_ppm: 0.0,
        most_ppm: 0.0,
        drifts: false,
        growth_ppm: None,
        bound_ns: 0.0,
        knots: Vec::new(),
        minima,
    }
    .with_slope(0.0);
    // Windows without a packet tell nothing.
    let mut width_ns = WINDOW_NS.max(span_ns / level.minima.len() as i64);
    while width_ns <= span_ns / 3 {
        if let Some(found) = of_windows(&level, width_ns) {
            return Some(found);
        }
        width_ns = width_ns.saturating_mul(2);
    }
    let Some(line) = lower_line(&mut level.minima.clone()) else { return Some(level) };
    let rise_ns = (line.slope * span_ns as f64).abs();
    Some(match touches(&line, &level.minima) {
        true if line.slope.abs() <= MOST_SKEW => level.with_slope(line.ppm()),
        true => Edge { growth_ppm: Some(line.ppm()), bound_ns: rise_ns, ..level },
        false => Edge { bound_ns: level.bound_ns.max(rise_ns), ..level },
    })
}

/// The least delay of each slot of time in which there is one. Points are sorted.
fn least_of_slots(points: &[(i64, i64)], slot_ns: i64) -> Vec<(i64, i64)> {
    let start_ns = points[0].0;
    let slot = |point: &(i64, i64)| point.0.saturating_sub(start_ns) / slot_ns;
    let slots = points.chunk_by(|one, other| slot(one) == slot(other));
    slots.filter_map(|slot| slot.iter().min_by_key(|point| point.1).copied()).collect()
}

/// Whether the least delays of several parts of the time lie on a line, from its first third to its last.
fn touches(line: &LowerLine, minima: &[(i64, i64)]) -> bool {
    let (from, to) = (minima[0].0, minima[minima.len() - 1].0);
    let length_ns = since(from, to).max(1.0);
    let near_ns = (line.slope * length_ns).abs() / 8.0;
    let mut touched = [false; PARTS];
    for (time, delay) in minima {
        if *delay as f64 - line.delay_at_ns(*time) <= near_ns {
            touched[((since(from, *time) / length_ns * PARTS as f64) as usize).min(PARTS - 1)] = true;
        }
    }
    let third = |mut parts: std::slice::Iter<'_, bool>| parts.any(|touched| *touched);
    near_ns > 0.0
        && touched.iter().filter(|touched| **touched).count() >= TOUCHED
        && third(touched[..PARTS / 3 + 1].iter())
        && third(touched[PARTS - PARTS / 3 - 1..].iter())
}

/// An edge of overlapping windows, if a clock's drift shows in half of them.
fn of_windows(level: &Edge, width_ns: i64) -> Option<Edge> {
    let (start_ns, end_ns) = level.span_ns();
    let windows = end_ns.saturating_sub(start_ns) / width_ns;
    let (mut knots, mut shown): (Vec<(i64, f64)>, _) = (Vec::new(), 0);
    for window in 0..windows {
        let centre_ns = start_ns.saturating_add(window * width_ns + width_ns / 2);
        let bound = |time_ns: i64| level.minima.partition_point(|point| point.0 < time_ns);
        let inside = bound(centre_ns.saturating_sub(width_ns))..bound(centre_ns.saturating_add(width_ns));
        let points = &level.minima[inside];
        let Some(line) = lower_line(&mut points.to_vec()) else { continue };
        if line.slope.abs() > MOST_SKEW {
            continue;
        }
        shown += i64::from(touches(&line, points));
        if knots.is_empty() {
            knots.push((start_ns, line.delay_at_ns(start_ns)));
        }
        knots.push((centre_ns, line.delay_at_ns(centre_ns)));
        if window == windows - 1 {
            knots.push((end_ns, line.delay_at_ns(end_ns)));
        }
    }
    if shown * 2 < windows {
        return None;
    }
    limit_turn(&mut knots);
    limit_bend(&mut knots);
    let slopes: Vec<f64> = slopes(&knots);
    let (first, last) = (knots[0], knots[knots.len() - 1]);
    let mut found = Edge {
        ppm: (last.1 - first.1) / since(first.0, last.0) * 1e6,
        least_ppm: slopes.iter().copied().fold(f64::INFINITY, f64::min) * 1e6,
        most_ppm: slopes.iter().copied().fold(f64::NEG_INFINITY, f64::max) * 1e6,
        drifts: true,
        knots,
        ..level.clone()
    };
    found.bound_ns = found.scatter_ns();
    Some(found)
}

fn slopes(knots: &[(i64, f64)]) -> Vec<f64> {
    knots.windows(2).map(|two| (two[1].1 - two[0].1) / since(two[0].0, two[1].0)).collect()
}

/// Lowers knots that others cannot reach with a slope near the usual one.
fn limit_turn(knots: &mut [(i64, f64)]) {
    let mut all = slopes(knots);
    let middle = all.len() / 2;
    let usual = *all.select_nth_unstable_by(middle, f64::total_cmp).1;
    for at in 1..knots.len() {
        let most = knots[at - 1].1 + (usual + MOST_TURN) * since(knots[at - 1].0, knots[at].0);
        knots[at].1 = knots[at].1.min(most);
    }
    for at in (1..knots.len()).rev() {
        let most = knots[at].1 - (usual - MOST_TURN) * since(knots[at - 1].0, knots[at].0);
        knots[at - 1].1 = knots[at - 1].1.min(most);
    }
}

/// Lowers knots that stand out above their neighbours. With a parabola added, an edge that bends down no faster is convex:
/// it is the lower hull.
fn limit_bend(knots: &mut [(i64, f64)]) {
    let start_ns = knots[0].0;
    let bent = |knot: &(i64, f64)| {
        let seconds = since(start_ns, knot.0) / 1e9;
        (seconds, knot.1 + MOST_BEND / 2.0 * seconds * seconds * 1e9)
    };
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for point in knots.iter().map(bent) {
        while let [.., a, b] = hull[..] {
            if (b.1 - a.1) * (point.0 - a.0) < (point.1 - a.1) * (b.0 - a.0) {
                break;
            }
            hull.pop();
        }
        hull.push(point);
    }
    let mut place = 0;
    for knot in knots {
        let (seconds, raised) = bent(knot);
        while place + 2 < hull.len() && hull[place + 1].0 <= seconds {
            place += 1;
        }
        if let Some(&(end, high)) = hull.get(place + 1) {
            let (begin, low) = hull[place];
            let below = low + (high - low) * (seconds - begin) / (end - begin);
            knot.1 -= (raised - below).max(0.0);
        }
    }
}
