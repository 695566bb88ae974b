use super::*;
use crate::path::burstiness::least_squares;
use crate::path::simulated::{Flow, Queue};
use proptest::prelude::*;

const SECOND: i64 = 1_000_000_000;

#[test]
fn the_vector() {
    let mut points: Vec<(i64, i64)> = [10_000_000, 12_000_000, 10_200_000, 15_000_000, 10_400_000]
        .into_iter()
        .zip(0..)
        .map(|(delay, second)| (second * SECOND, delay))
        .collect();
    let line = lower_line(&mut points).expect("five times");
    assert!((line.slope - 0.1e-3).abs() < 1e-15);
    assert!((line.ppm() - 100.0).abs() < 1e-9);
    assert_eq!((line.from_ns, line.to_ns), (0, 4 * SECOND));
    assert_eq!(line.delay_at_ns(3 * SECOND), 10_300_000.0);
    let squares = least_squares(points.iter().copied()).expect("five times");
    assert!((squares.slope - 0.38e-3).abs() < 1e-12);
}

#[test]
fn too_few_points() {
    assert_eq!(lower_line(&mut []), None);
    assert_eq!(lower_line(&mut [(5, 1)]), None);
    assert_eq!(lower_line(&mut [(5, 1), (5, 2), (5, 0)]), None);
    assert_eq!(lower_line(&mut [(5, 1), (6, 3)]).map(|l| l.slope), Some(2.0));
    assert!(lower_line(&mut [(i64::MIN, i64::MAX), (0, i64::MIN), (i64::MAX, i64::MAX)]).is_some());
}

#[test]
fn a_corner_over_the_mean_takes_the_longer_edge() {
    // Times 0, 10, 11, 11, 18: the mean is 10.
    let line = lower_line(&mut [(0, 100), (10, 0), (11, 50), (11, 60), (18, 40)]).expect("four times");
    assert_eq!((line.from_ns, line.to_ns, line.slope), (0, 10, -10.0));
}

#[test]
fn fifty_ppm_within_one_from_a_minute_of_queued_packets() {
    let mut worst_of_squares: f64 = 0.0;
    for seed in 0..60 {
        for (ppm, queue) in [
            (50.0, Queue::HeavyTailed { scale_ns: 2_000_000.0 }),
            (50.0, Queue::Busy { load: 0.9 }),
            (-50.0, Queue::Busy { load: 0.8 }),
            (0.0, Queue::HeavyTailed { scale_ns: 500_000.0 }),
        ] {
            let flow = Flow { seed, skew_ppm: ppm, queue, loss: 0.02, reordering: 0.05, ..Flow::default() };
            let arrivals = flow.arrivals();
            assert!(arrivals.windows(2).any(|w| w[1].sequence < w[0].sequence), "some are reordered");
            assert!(arrivals.len() < 3000, "some are lost");
            let mut points: Vec<(i64, i64)> = arrivals.iter().map(|a| (a.sent_ns, a.delay_ns())).collect();
            let line = lower_line(&mut points).expect("thousands");
            assert!(
                (line.ppm() - ppm).abs() < 1.0,
                "seed {seed}, {queue:?}: {} ppm instead of {ppm}",
                line.ppm()
            );
            let points = arrivals.iter().map(|a| (a.sent_ns - arrivals[0].sent_ns, a.delay_ns()));
            let squares = least_squares(points).expect("thousands");
            worst_of_squares = worst_of_squares.max((squares.slope * 1e6 - ppm).abs());
        }
    }
    assert!(
        worst_of_squares > 20.0,
        "the queues are heavy enough to mislead least squares: {worst_of_squares}"
    );
}

proptest! {
    #[test]
    fn no_line_through_two_points_and_below_all_is_better(
        points in prop::collection::vec((0i64..40, -100i64..100), 2..25),
    ) {
        let mean = points.iter().map(|p| p.0).sum::<i64>() as f64 / points.len() as f64;
        let mut best: Option<f64> = None;
        for &(t0, d0) in &points {
            for &(t1, d1) in points.iter().filter(|p| p.0 > t0) {
                if points.iter().all(|&(t, d)| (d - d0) * (t1 - t0) >= (d1 - d0) * (t - t0)) {
                    let at_mean = d0 as f64 + (d1 - d0) as f64 / (t1 - t0) as f64 * (mean - t0 as f64);
                    best = Some(best.map_or(at_mean, |b| b.max(at_mean)));
                }
            }
        }
        let line = lower_line(&mut points.clone());
        prop_assert_eq!(line.is_some(), best.is_some());
        if let (Some(line), Some(best)) = (line, best) {
            let at_mean = line.from_delay_ns as f64 + line.slope * (mean - line.from_ns as f64);
            prop_assert!((at_mean - best).abs() < 1e-9, "{} instead of {}", at_mean, best);
            for &(t, d) in &points {
                prop_assert!(line.delay_at_ns(t) <= d as f64 + 1e-9);
            }
        }
    }

    #[test]
    fn the_line_moves_with_the_clocks(
        points in prop::collection::vec((0i64..1_000_000, 0i64..1_000_000), 2..40),
        later in 0i64..1_700_000_000_000_000_000,
        offset in -1_000_000_000_000i64..1_000_000_000_000,
    ) {
        let line = lower_line(&mut points.clone());
        let mut moved: Vec<_> = points.iter().map(|p| (p.0 + later, p.1 + offset)).collect();
        prop_assert_eq!(line.map(|l| l.slope), lower_line(&mut moved).map(|l| l.slope));
    }
}
