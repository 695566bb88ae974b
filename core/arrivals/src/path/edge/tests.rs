use super::*;
use crate::path::simulated::{Flow, Queue};
use proptest::prelude::*;

const SECOND: i64 = 1_000_000_000;

/// Points each 20 ms: what the clocks add at a time (seconds), and a queue.
fn points(seconds: i64, added_ns: impl Fn(f64) -> f64, queue_ns: impl Fn(i64) -> i64) -> Vec<(i64, i64)> {
    let point = |number: i64| {
        let time_ns = number * 20_000_000;
        (time_ns, 5_000_000 + added_ns(time_ns as f64 / 1e9) as i64 + queue_ns(number))
    };
    (0..seconds * 50).map(point).collect()
}

/// Seldom none, up to 200 us.
fn light(number: i64) -> i64 {
    number * 7_919 % 200 * 1_000
}

fn edge_of(flow: &Flow) -> Edge {
    edge(flow.arrivals().iter().map(|arrival| (arrival.sent_ns, arrival.delay_ns())).collect())
        .expect("thousands")
}

#[test]
fn an_edge_follows_the_temperature_and_a_line_cannot() {
    // Half an hour of two minutes' cycles would be too fast; a cycle of an hour with 2 ppm is a room's.
    let drift = |seconds: f64| {
        let turn = std::f64::consts::TAU / 3_600.0;
        20_000.0 * seconds + 2_000.0 / turn * (1.0 - (seconds * turn).cos())
    };
    let all = points(4 * 3_600, drift, light);
    let found = edge(all.clone()).expect("many");
    assert!(found.drifts && found.knots.len() > 100, "{found:?}");
    assert!((found.least_ppm - 18.0).abs() < 0.3 && (found.most_ppm - 22.0).abs() < 0.3, "{found:?}");
    let off = |at_ns: &dyn Fn(i64) -> f64| {
        let errors = (0..4 * 3_600).map(|second| at_ns(second * SECOND) - 5e6 - drift(second as f64));
        errors.fold(0.0, |most: f64, error| most.max(error.abs()))
    };
    let line = lower_line(&mut all.clone()).expect("many");
    assert!(off(&|time_ns| found.at_ns(time_ns)) < 8_000.0, "{}", off(&|time_ns| found.at_ns(time_ns)));
    assert!(off(&|time_ns| line.delay_at_ns(time_ns)) > 500_000.0, "what one line leaves");
}

#[test]
fn a_queue_that_stands_for_half_a_minute_is_no_clock() {
    let standing =
        |number: i64| light(number) + if (10_000..11_500).contains(&number) { 3_000_000 } else { 0 };
    let found = edge(points(600, |seconds| 20_000.0 * seconds, standing)).expect("many");
    assert!(found.drifts);
    let lifted = found.at_ns(215 * SECOND) - 5e6 - 215.0 * 20_000.0;
    assert!(lifted < 60_000.0, "{lifted} ns of 3 ms");
}

#[test]
fn a_step_is_no_skew_and_noise_is_none() {
    // Of a path, of which no more is known: 10 ms after a quarter, a half and most of the time.
    for at in [0.25, 0.5, 0.7] {
        for seconds in [4, 60, 600] {
            let step = |number: i64| {
                light(number) + if number > (at * seconds as f64 * 50.0) as i64 { 10_000_000 } else { 0 }
            };
            let found = edge(points(seconds, |_| 0.0, step)).expect("many");
            assert!(!found.drifts && found.ppm == 0.0, "{at} of {seconds} s: {found:?}");
            assert!(found.bound_ns >= 1_000.0);
        }
    }
    for seed in 0..15 {
        let flow = Flow { seed, ..Flow::default() };
        assert!(edge_of(&flow).ppm.abs() < 0.5, "seed {seed}: {:?}", edge_of(&flow));
    }
}

#[test]
fn what_grows_faster_than_clocks_is_left_in_the_delays() {
    let found = edge(points(8, |seconds| 2e6 * seconds, light)).expect("many");
    assert!(!found.drifts, "{found:?}");
    let growth_ppm = found.growth_ppm.expect("it grows");
    assert!((growth_ppm - 2_000.0).abs() < 20.0, "{growth_ppm}");
    let slewed = edge(points(8, |seconds| 1e6 * seconds, light)).expect("many");
    assert!((slewed.ppm - 1_000.0).abs() < 10.0, "{slewed:?}");
}

#[test]
fn heavy_queues_leave_the_skew() {
    for seed in 0..8 {
        for ppm in [50.0, -50.0] {
            let flow = Flow { seed, skew_ppm: ppm, queue: Queue::Busy { load: 0.6 }, ..Flow::default() };
            let found = edge_of(&flow);
            assert!(found.drifts && (found.ppm - ppm).abs() < 1.0, "seed {seed}: {} for {ppm}", found.ppm);
        }
    }
}

#[test]
fn few_packets_have_a_level_edge() {
    assert_eq!(edge(Vec::new()), None);
    let one = edge(vec![(7, -3)]).expect("one");
    assert_eq!((one.at_ns(7), one.at_ns(1_000), one.drifts), (-3.0, -3.0, false));
    let two = edge(vec![(0, 9), (10, 5)]).expect("two");
    assert_eq!((two.at_ns(0), two.drifts), (5.0, false));
    assert!(two.bound_ns >= 4.0, "a drift of that size may be there: {two:?}");
}

proptest! {
    #[test]
    fn any_stamps_are_survived(points in prop::collection::vec((any::<i64>(), any::<i64>()), 1..80)) {
        let found = edge(points).expect("there are some");
        prop_assert!(found.knots.is_sorted_by_key(|knot| knot.0));
    }

    #[test]
    fn an_edge_moves_with_the_clocks(
        seed in 0u64..500, ppm in -200.0f64..200.0, later in 0i64..1_000_000_000_000, offset in -1_000_000_000i64..1_000_000_000,
    ) {
        let flow = Flow { seed, packets: 1_000, skew_ppm: ppm, ..Flow::default() };
        let points: Vec<(i64, i64)> = flow.arrivals().iter().map(|a| (a.sent_ns, a.delay_ns())).collect();
        let moved = points.iter().map(|(time, delay)| (time + later, delay + offset)).collect();
        let (one, other) = (edge(points).expect("many"), edge(moved).expect("many"));
        prop_assert!((one.ppm - other.ppm).abs() < 1e-6);
        prop_assert!((one.bound_ns - other.bound_ns).abs() < 1.0);
    }
}
