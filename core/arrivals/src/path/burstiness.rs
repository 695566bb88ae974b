//! The burstiness plot, delay over time of arrival, and the straight line through it.

use super::arrival::Arrival;
use schemars::JsonSchema;
use serde::Serialize;

/// Least squares of delay over time of arrival.
///
/// A slope far from zero says that the clocks drift apart or that the path cannot carry the rate (Jitlat, section
/// 1). To tell the drift of clocks from queues, use [`super::skew`]: least squares follows the queues.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct LeastSquares {
    /// m: growth of delay per time, without unit.
    pub slope: f64,
    /// The line's delay in the mean of the arrival times, which is the mean delay, in nanoseconds.
    pub mean_delay_ns: f64,
    /// Mean of the arrival times, in nanoseconds after the first in the list.
    pub mean_time_ns: f64,
    /// r: Pearson's correlation, -1 to 1. None where all delays are equal.
    pub correlation: Option<f64>,
}

/// The line through the burstiness plot. None if there are not two different times of arrival.
pub fn burstiness(arrivals: &[Arrival]) -> Option<LeastSquares> {
    let first_ns = arrivals.first()?.received_ns;
    let point = |a: &Arrival| (a.received_ns.saturating_sub(first_ns), a.delay_ns());
    least_squares(arrivals.iter().map(point))
}

/// Least squares of y over x, both in nanoseconds. None if there are not two different x.
///
/// The means are exact, and squares are taken of distances from them, so that no offset costs digits.
pub(super) fn least_squares(points: impl Iterator<Item = (i64, i64)> + Clone) -> Option<LeastSquares> {
    let (mut count, mut sum_x, mut sum_y) = (0i128, 0i128, 0i128);
    for (x, y) in points.clone() {
        count += 1;
        sum_x += i128::from(x);
        sum_y += i128::from(y);
    }
    if count == 0 {
        return None;
    }
    let distance = |value: i64, sum: i128| {
        let (quotient, rest) = (sum.div_euclid(count), sum.rem_euclid(count));
        (i128::from(value) - quotient) as f64 - rest as f64 / count as f64
    };
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in points {
        let (dx, dy) = (distance(x, sum_x), distance(y, sum_y));
        xx += dx * dx;
        xy += dx * dy;
        yy += dy * dy;
    }
    (xx > 0.0).then(|| LeastSquares {
        slope: xy / xx,
        mean_delay_ns: sum_y as f64 / count as f64,
        mean_time_ns: sum_x as f64 / count as f64,
        correlation: (yy > 0.0).then(|| (xy / (xx.sqrt() * yy.sqrt())).clamp(-1.0, 1.0)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arrivals(points: &[(i64, i64)]) -> Vec<Arrival> {
        let start = 1_246_650_331_413_984_400;
        let arrival = |(sequence, &(x, y)): (u64, &(i64, i64))| Arrival {
            sequence,
            sent_ns: start + x - y,
            received_ns: start + x,
        };
        (0..).zip(points).map(arrival).collect()
    }

    #[test]
    fn the_slope_that_least_squares_sees_under_queues() {
        // The skew vector: delays 10, 12, 10.2, 15, 10.4 ms at 0 to 4 s; here over that very time.
        let points = [(0, 10_000_000), (1, 12_000_000), (2, 10_200_000), (3, 15_000_000), (4, 10_400_000)];
        let line = least_squares(points.iter().map(|&(s, d)| (s * 1_000_000_000, d))).expect("five times");
        assert!((line.slope - 0.38e-3).abs() < 1e-12, "{}", line.slope);
        assert_eq!(line.mean_delay_ns, 11_520_000.0);
        assert_eq!(line.mean_time_ns, 2e9);
    }

    #[test]
    fn a_straight_line() {
        let line = burstiness(&arrivals(&[(0, 50), (100, 40), (200, 30), (300, 20)])).expect("four times");
        assert!((line.slope + 0.1).abs() < 1e-15);
        assert!((line.correlation.expect("delays differ") + 1.0).abs() < 1e-15);
    }

    #[test]
    fn no_line() {
        assert_eq!(burstiness(&[]), None);
        assert_eq!(burstiness(&arrivals(&[(7, 5)])), None);
        let flat = burstiness(&arrivals(&[(0, 5), (9, 5)])).expect("two times");
        assert_eq!((flat.slope, flat.correlation), (0.0, None));
    }

    proptest! {
        #[test]
        fn agrees_with_the_sums_in_whole_numbers(
            points in prop::collection::vec((0i64..100_000, -1000i64..1000), 2..60),
        ) {
            let n = points.len() as i128;
            let sum = |f: &dyn Fn(i128, i128) -> i128| -> i128 {
                points.iter().map(|&(x, y)| f(x.into(), y.into())).sum()
            };
            let (sx, sy) = (sum(&|x, _| x), sum(&|_, y| y));
            let xx = n * sum(&|x, _| x * x) - sx * sx;
            let yy = n * sum(&|_, y| y * y) - sy * sy;
            let xy = n * sum(&|x, y| x * y) - sx * sy;
            match burstiness(&arrivals(&points)) {
                None => prop_assert_eq!(xx, 0),
                Some(line) => {
                    let slope = xy as f64 / xx as f64;
                    prop_assert!((line.slope - slope).abs() <= 1e-9 * (1.0 + slope.abs()));
                    match line.correlation {
                        None => prop_assert_eq!(yy, 0),
                        Some(r) => {
                            let slow = xy as f64 / ((xx as f64).sqrt() * (yy as f64).sqrt());
                            prop_assert!((r - slow).abs() < 1e-9);
                        }
                    }
                }
            }
        }
    }
}
