//! Against the same flows without skew.

use super::*;
use crate::path::simulated::{Flow, Queue, Step};
use proptest::prelude::*;

const SECOND: i64 = 1_000_000_000;
const START_NS: i64 = 1_700_000_000 * SECOND;

fn follow(arrivals: &[Arrival]) -> (Vec<Arrival>, Following) {
    let (mut follower, mut came) = (Follower::default(), Vec::new());
    for arrival in arrivals {
        follower.push(arrival, |arrival| came.push(*arrival));
    }
    follower.finish(|arrival| came.push(*arrival));
    (came, follower.found().expect("packets came"))
}

fn pdv_p99_ns(arrivals: &[Arrival]) -> i64 {
    let mut delays = crate::path::arrival::delays_ns(arrivals);
    delays.sort_unstable();
    delays[delays.len() * 99 / 100] - delays[0]
}

/// What the receiver's clock is ahead by is put on top of a flow.
fn drifting(flow: &Flow, ahead_ns: impl Fn(i64) -> i64) -> Vec<Arrival> {
    let moved = |a: Arrival| Arrival { received_ns: a.received_ns + ahead_ns(a.received_ns - START_NS), ..a };
    flow.arrivals().into_iter().map(moved).collect()
}

/// Following leaves PDV p99 within a share of that with clocks that agree, and no difference of delays is wrong by more
/// than the bound, and what an edge itself may be off by.
#[track_caller]
fn leaves_pdv_beside(flow: &Flow, ahead_ns: impl Fn(i64) -> i64, share: f64, off_ns: f64) -> Following {
    let truth = flow.arrivals();
    let (came, found) = follow(&drifting(flow, ahead_ns));
    let (p99_ns, wanted_ns) = (pdv_p99_ns(&came), pdv_p99_ns(&truth));
    assert!((p99_ns - wanted_ns).abs() as f64 <= wanted_ns as f64 * share, "{p99_ns} instead of {wanted_ns}");
    assert_eq!(came.len(), truth.len());
    let errors: Vec<i64> = came.iter().zip(&truth).map(|(a, b)| a.delay_ns() - b.delay_ns()).collect();
    let spread_ns = errors.iter().max().unwrap() - errors.iter().min().unwrap();
    assert!(spread_ns as f64 <= found.bound_ns + off_ns, "spread {spread_ns}, bound {}", found.bound_ns);
    found
}

#[track_caller]
fn leaves_pdv(flow: &Flow, ahead_ns: impl Fn(i64) -> i64, share: f64) -> Following {
    leaves_pdv_beside(flow, ahead_ns, share, 0.0)
}

fn light() -> Flow {
    Flow { queue: Queue::HeavyTailed { scale_ns: 30_000.0 }, reordering: 0.0, ..Flow::default() }
}

#[test]
fn a_minute_of_50_ppm_either_way_leaves_no_trace() {
    for (seed, ppm) in [50, -50, 20, 1_000].into_iter().enumerate() {
        let flow = Flow { seed: seed as u64, ..light() };
        let found = leaves_pdv(&flow, |ns| ns * ppm / 1_000_000, 0.02);
        assert!((found.ppm - ppm as f64).abs() < 0.3, "{} for {ppm}", found.ppm);
        let taken_ns = (60 * SECOND * ppm / 1_000_000).abs() as f64;
        assert!((found.most_taken_ns - taken_ns).abs() < taken_ns / 50.0, "{}", found.most_taken_ns);
        // At 1,000 packets a second most are handed on before the end.
        let fast = Flow { packets: 60_000, period_ns: 1_000_000, ..flow };
        leaves_pdv(&fast, |ns| ns * ppm / 1_000_000, 0.02);
    }
}

#[test]
fn a_day_of_20_ppm_and_hours_of_a_rooms_temperature_leave_no_trace() {
    let day = Flow { packets: 43_200, period_ns: 2 * SECOND, ..light() };
    let found = leaves_pdv(&day, |ns| ns / 50_000, 0.02);
    assert!((found.ppm - 20.0).abs() < 0.01 && found.least.len() <= MOST_SLOTS, "{}", found.ppm);
    // 20 ppm, and 1 ppm more or less in a cycle of a day.
    let turn = std::f64::consts::TAU / 86_400e9;
    let warm = |ns: i64| ns / 50_000 + (1e-6 / turn * (1.0 - (ns as f64 * turn).cos())) as i64;
    // An edge follows a bend to 8 us, as its own test says.
    leaves_pdv_beside(&Flow { packets: 216_000, period_ns: SECOND / 10, ..light() }, warm, 0.1, 8_000.0);
}

#[test]
fn queues_and_steps_of_the_path_stay_in_the_delays() {
    let step = Step { at_ns: 200 * SECOND, size_ns: 10_000_000 };
    for size_ns in [step.size_ns, -step.size_ns] {
        let flow = Flow { packets: 30_000, path_steps: vec![Step { size_ns, ..step }], ..light() };
        let found = leaves_pdv(&flow, |ns| ns / 50_000, 0.02);
        assert!((found.ppm - 20.0).abs() < 0.3, "{}", found.ppm);
        let level = leaves_pdv(&flow, |_| 0, 0.02);
        assert!(level.ppm.abs() < 0.1, "{}", level.ppm);
    }
    let standing = [step, Step { at_ns: 230 * SECOND, size_ns: -step.size_ns }]
        .map(|s| Step { size_ns: s.size_ns / 3, ..s });
    leaves_pdv(&Flow { packets: 30_000, path_steps: standing.to_vec(), ..light() }, |ns| -ns / 20_000, 0.02);
}

#[test]
fn memory_is_that_of_the_first_minutes() {
    let mut follower = Follower::default();
    for number in 0..40_000u64 {
        let sent_ns = START_NS + number as i64 * SECOND;
        let received_ns = sent_ns + 5_000 + (number * 7_919 % 997) as i64;
        follower.push(&Arrival { sequence: number, sent_ns, received_ns }, |_| {});
        assert!(follower.least.len() <= MOST_SLOTS && follower.held.len() <= HELD);
        assert!(follower.applied.len() <= MOST_SLOTS);
    }
}

#[test]
fn nothing_came() {
    let mut follower = Follower::default();
    follower.finish(|_| unreachable!("nothing is held"));
    assert_eq!(follower.found(), None);
}

proptest! {
    #[test]
    fn any_stamps_are_survived(stamps in prop::collection::vec((any::<i64>(), any::<i64>()), 1..100)) {
        let numbered = stamps.iter().enumerate();
        let all: Vec<Arrival> = numbered
            .map(|(number, &(sent_ns, received_ns))| Arrival { sequence: number as u64, sent_ns, received_ns })
            .collect();
        prop_assert_eq!(follow(&all).0.len(), all.len());
    }
}
