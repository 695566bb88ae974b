//! How much faster one end's clock runs than the other's, from the lower edge of the delays.
//!
//! Queues only add to a delay, so the packets that met none lie on a straight line below all others, whose slope is
//! the skew. That line is found by linear programming: of all lines below all points it is the one with the least
//! sum of distances, which is the edge of the lower convex hull over the mean of the times (Moon, Skelly, Towsley:
//! Estimation and Removal of Clock Skew from Network Delay Measurements, INFOCOM 1999). Least squares would follow
//! the queues, and RFC 3393, section 5.2, asks for constant delays.

use serde::Serialize;
use std::cmp::Ordering;

#[cfg(test)]
mod tests;

/// A line below all delays.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LowerLine {
    /// Growth of delay per time, without unit. Positive: the receiver's clock runs faster than the sender's.
    pub slope: f64,
    /// First of the two packets that the line goes through: its time, in nanoseconds.
    pub from_ns: i64,
    /// Its delay.
    pub from_delay_ns: i64,
    /// Second of them: its time. The further apart they are, the better is the slope.
    pub to_ns: i64,
    /// Its delay.
    pub to_delay_ns: i64,
}

impl LowerLine {
    /// The skew in parts per million.
    pub fn ppm(&self) -> f64 {
        self.slope * 1e6
    }

    /// Delay of the line at a time, in nanoseconds.
    pub fn delay_at_ns(&self, time_ns: i64) -> f64 {
        self.from_delay_ns as f64 + self.slope * (i128::from(time_ns) - i128::from(self.from_ns)) as f64
    }
}

/// The line below all points (time, delay) with the least sum of distances to them. Sorts the points. None without
/// two different times.
///
/// If the mean time is that of a corner of the hull, both edges are as good; the longer is taken, being the better
/// supported.
pub fn lower_line(points: &mut [(i64, i64)]) -> Option<LowerLine> {
    points.sort_unstable();
    let hull = lower_hull(points);
    let count = points.len() as i128;
    let sum: i128 = points.iter().map(|p| i128::from(p.0)).sum();
    let spans_mean =
        |edge: &&[(i64, i64)]| i128::from(edge[0].0) * count <= sum && sum <= i128::from(edge[1].0) * count;
    let edge = hull.windows(2).filter(spans_mean).max_by_key(|edge| edge[0].0.abs_diff(edge[1].0))?;
    let ((from_ns, from_delay_ns), (to_ns, to_delay_ns)) = (edge[0], edge[1]);
    let rise = (i128::from(to_delay_ns) - i128::from(from_delay_ns)) as f64;
    let run = (i128::from(to_ns) - i128::from(from_ns)) as f64;
    Some(LowerLine { slope: rise / run, from_ns, from_delay_ns, to_ns, to_delay_ns })
}

/// Corners of the lower convex hull of sorted points, by Andrew's chain.
fn lower_hull(sorted: &[(i64, i64)]) -> Vec<(i64, i64)> {
    let mut hull: Vec<(i64, i64)> = Vec::new();
    for &point in sorted {
        if hull.last().is_some_and(|last| last.0 == point.0) {
            continue; // of one time the smallest delay stands first
        }
        while let [.., a, b] = hull[..] {
            if turn(a, b, point) == Ordering::Greater {
                break;
            }
            hull.pop();
        }
        hull.push(point);
    }
    hull
}

/// Greater if a, b, c turn to the left, that is b lies below the line from a to c.
fn turn(a: (i64, i64), b: (i64, i64), c: (i64, i64)) -> Ordering {
    let difference = |x: i64, y: i64| i128::from(x) - i128::from(y);
    let (left_x, left_y) = (difference(b.0, a.0), difference(c.1, a.1));
    let (right_x, right_y) = (difference(c.0, a.0), difference(b.1, a.1));
    match (left_x.checked_mul(left_y), right_x.checked_mul(right_y)) {
        (Some(left), Some(right)) => left.cmp(&right),
        // Only stamps from the ends of 64 bits come here.
        _ => (left_x as f64 * left_y as f64).total_cmp(&(right_x as f64 * right_y as f64)),
    }
}
