//! A simulated pair of clocks whose offset is known at each moment.

use super::*;
use crate::path::simulated::{Flow, Queue, Step};

const MS: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MS;

/// Two flows over one path, one after the other or at the same time.
struct Pair {
    up: Vec<Arrival>,
    down: Vec<Arrival>,
    period_ns: u64,
}

/// What the server's clock is ahead by, at a true time from the start; and the clocks' true readings.
struct World {
    offset_ns: fn(i64) -> i64,
    /// Queues of the two directions.
    queues: [Queue; 2],
    seconds: i64,
    /// The second direction begins so long after the first, nanoseconds.
    down_after_ns: i64,
    /// Steps of the path up, true time.
    path_steps: Vec<Step>,
    loss: f64,
    seed: u64,
}

impl World {
    fn new(offset_ns: fn(i64) -> i64) -> Self {
        let queues = [Queue::HeavyTailed { scale_ns: 30_000.0 }; 2];
        Self { offset_ns, queues, seconds: 60, down_after_ns: 0, path_steps: Vec::new(), loss: 0.01, seed: 1 }
    }

    fn pair(&self) -> Pair {
        let flow = |queue, seed, path_steps| Flow {
            seed,
            queue,
            packets: self.seconds as u64 * 50,
            path_steps,
            loss: self.loss,
            ..Flow::default()
        };
        let start_ns = flow(self.queues[0], 0, vec![]).arrivals()[0].sent_ns / SECOND * SECOND;
        // The flow's own stamps are true ones; the server's are moved by its offset then.
        let moved = |ns: i64| ns + (self.offset_ns)(ns - start_ns);
        let up = flow(self.queues[0], 2 * self.seed, self.path_steps.clone()).arrivals();
        let up = up.into_iter().map(|a| Arrival { received_ns: moved(a.received_ns), ..a }).collect();
        let down = flow(self.queues[1], 2 * self.seed + 1, vec![]).arrivals();
        let later = |a: Arrival| Arrival {
            sent_ns: moved(a.sent_ns + self.down_after_ns),
            received_ns: a.received_ns + self.down_after_ns,
            ..a
        };
        Pair { up, down: down.into_iter().map(later).collect(), period_ns: 20_000_000 }
    }
}

impl Pair {
    fn flows(&self) -> [FlowTimes<'_>; 2] {
        let flow = |direction, arrivals| FlowTimes { direction, arrivals, period_ns: Some(self.period_ns) };
        [flow(Direction::Up, &self.up), flow(Direction::Down, &self.down)]
    }

    fn timed(&self) -> Timed {
        timed(&Evidence { flows: &self.flows(), ..Evidence::default() })
    }
}

fn pdv_p99_ns(arrivals: &[Arrival]) -> i64 {
    let mut delays = crate::path::arrival::delays_ns(arrivals);
    delays.sort_unstable();
    delays[delays.len() * 99 / 100] - delays[0]
}

/// PDV p99 of both ways with these clocks is within a share of that with clocks that agree; delays are within their bound.
#[track_caller]
fn leaves_pdv(world: &World, share: f64) -> Timed {
    let plain =
        World { offset_ns: |_| 0, queues: world.queues, path_steps: world.path_steps.clone(), ..*world };
    let (truth, pair) = (plain.pair(), world.pair());
    let timed = pair.timed();
    for (flow, truth) in timed.flows.iter().zip([&truth.up, &truth.down]) {
        let (found, wanted) = (pdv_p99_ns(&flow.arrivals), pdv_p99_ns(truth));
        assert!(
            (found - wanted).abs() as f64 <= wanted as f64 * share,
            "PDV p99 {found} instead of {wanted}"
        );
        let bound_ns = flow.bound_ns.expect("both directions");
        for (arrival, truth) in flow.arrivals.iter().zip(truth) {
            assert_eq!(arrival.sequence, truth.sequence);
            let error_ns = (arrival.delay_ns() - truth.delay_ns()).abs();
            assert!(error_ns <= bound_ns, "error {error_ns}, bound {bound_ns}");
        }
    }
    timed
}

#[test]
fn fixed_skews_leave_no_trace_at_once_or_one_after_the_other() {
    let skews: [fn(i64) -> i64; 4] =
        [|ns| -7 * MS + ns / 50_000, |ns| 31 * SECOND - ns / 20_000, |ns| ns / 1_000, |_| 12_345];
    for (seed, offset_ns) in (0..).zip(skews) {
        for down_after_ns in [0, 61 * SECOND] {
            let world = World { down_after_ns, seed, ..World::new(offset_ns) };
            let timed = leaves_pdv(&world, 0.02);
            let clocks = timed.clocks.expect("packets");
            assert_eq!(clocks.source, OffsetSource::Packets);
            let length = 60 * SECOND + down_after_ns;
            let ppm = (offset_ns(length) - offset_ns(0)) as f64 / length as f64 * 1e6;
            assert!((clocks.skew_ppm.unwrap() - ppm).abs() < 0.2, "{clocks:?} instead of {ppm} ppm");
            let error_ns = clocks.offset_ns.unwrap() - offset_ns(length / 2);
            // The way is as long up as down, so the minima tell more than their bound.
            assert!(error_ns.abs() < 10_000, "{error_ns} ns off");
        }
    }
}

#[test]
fn clocks_that_follow_the_temperature_are_followed() {
    // 20 ppm, and 3 ppm more or less within a quarter of an hour.
    let drift: fn(i64) -> i64 = |ns| {
        let turn = std::f64::consts::TAU / 900e9;
        ns / 50_000 + (3e-6 / turn * (1.0 - (ns as f64 * turn).cos())) as i64
    };
    for down_after_ns in [0, 601 * SECOND] {
        let world = World { seconds: 600, down_after_ns, ..World::new(drift) };
        // A cycle this short bends faster than the edge follows exactly.
        let timed = leaves_pdv(&world, 0.1);
        let [least, most] = timed.clocks.unwrap().skew_range_ppm.unwrap();
        assert!((16.0..18.5).contains(&least) && (21.0..24.0).contains(&most), "{least} to {most}");
    }
}

#[test]
fn load_in_one_direction_is_no_drift() {
    for seed in 0..3 {
        let queues = [Queue::Busy { load: 0.7 }, Queue::HeavyTailed { scale_ns: 30_000.0 }];
        let world = World { queues, seed, ..World::new(|ns| -ns / 20_000) };
        let clocks = leaves_pdv(&world, 0.02).clocks.unwrap();
        assert!((clocks.skew_ppm.unwrap() + 50.0).abs() < 1.0, "seed {seed}: {clocks:?}");
    }
}

#[test]
fn a_queue_that_grows_one_way_is_left_in_the_delays() {
    // 100 ppm of the path, none of the clocks.
    let mut pair = World::new(|_| 0).pair();
    let start_ns = pair.up[0].sent_ns;
    pair.up.iter_mut().for_each(|a| a.received_ns += (a.sent_ns - start_ns) / 10_000);
    let timed = pair.timed();
    assert_eq!(timed.clocks.as_ref().unwrap().skew_ppm, Some(0.0));
    let delays = |arrivals: &[Arrival]| pdv_p99_ns(arrivals);
    assert_eq!(delays(&timed.flows[0].arrivals), delays(&pair.up));
}

#[test]
fn steps_of_a_clock_go_and_those_of_the_path_stay() {
    let step: fn(i64) -> i64 = |ns| ns / 50_000 + if ns > 25 * SECOND { 10 * MS } else { 0 };
    let timed = leaves_pdv(&World { seed: 5, ..World::new(step) }, 0.02);
    for flow in &timed.flows {
        let [shift] = flow.shifts[..] else { panic!("{:?}", flow.shifts) };
        assert!(shift.cause.is_a_clock(), "{shift:?}");
    }
    let clocks = timed.clocks.unwrap();
    assert!((clocks.skew_ppm.unwrap() - 20.0).abs() < 0.2, "{clocks:?}");
    let path_steps = vec![Step { at_ns: 30 * SECOND, size_ns: 10 * MS }];
    let timed = leaves_pdv(&World { path_steps, seed: 6, ..World::new(|ns| ns / 50_000) }, 0.02);
    let [shift] = timed.flows[0].shifts[..] else { panic!("{:?}", timed.flows[0].shifts) };
    assert_eq!((shift.cause, timed.flows[1].shifts.len()), (ShiftCause::Path, 0));
    let clocks = timed.clocks.unwrap();
    assert!(
        (clocks.skew_ppm.unwrap() - 20.0).abs() < 0.2,
        "{clocks:?} {:?}",
        timed
            .flows
            .iter()
            .map(|f| (f.edge.clone().map(|e| (e.ppm, e.bound_ns)), f.shifts.clone()))
            .collect::<Vec<_>>()
    );
}

#[test]
fn the_ends_readings_tell_a_clock_from_the_path_where_packets_go_one_way() {
    let stepped: fn(i64) -> i64 = |ns| if ns > 25 * SECOND { 10 * MS } else { 0 };
    let pair = World::new(stepped).pair();
    let flows = [pair.flows()[0]];
    let judged = |read_steps: Option<&[ReadStep]>| {
        timed(&Evidence { flows: &flows, read_steps, ..Evidence::default() })
    };
    let read = [ReadStep { end: End::Server, step_ns: 10 * MS }];
    for (read_steps, cause) in [
        (Some(&read[..]), ShiftCause::ReceiverClock),
        (Some(&[][..]), ShiftCause::Path),
        (None, ShiftCause::ReceiverClockOrPath),
    ] {
        let timed = judged(read_steps);
        let flow = &timed.flows[0];
        assert_eq!(flow.shifts[0].cause, cause);
        let stays = pdv_p99_ns(&flow.arrivals) > 9 * MS;
        assert_eq!(stays, cause != ShiftCause::ReceiverClock, "{cause:?}");
        // What nobody knows the cause of may be a clock's.
        assert_eq!(flow.drift_bound_ns > 9 * MS, cause == ShiftCause::ReceiverClockOrPath);
        assert!(timed.clocks.unwrap().skew_ppm.unwrap().abs() < 0.1);
    }
}

#[test]
fn one_way_shows_the_skew_and_not_the_offset() {
    let pair = World::new(|ns| 5 * SECOND + ns / 20_000).pair();
    let flows = [pair.flows()[0]];
    let alone = timed(&Evidence { flows: &flows, ..Evidence::default() });
    let clocks = alone.clocks.unwrap();
    assert_eq!((clocks.offset_ns, clocks.bound_ns, clocks.source), (None, None, OffsetSource::Unknown));
    assert_eq!(alone.flows[0].bound_ns, None);
    assert!((clocks.skew_ppm.unwrap() - 50.0).abs() < 0.2);
    let still = World::new(|_| 0).pair();
    let (found, wanted) = (pdv_p99_ns(&alone.flows[0].arrivals), pdv_p99_ns(&still.up));
    assert!((found - wanted).abs() * 50 < wanted, "{found} {wanted}");
    // A round trip of 100 ms before the test bounds it by half of that, the drift until its end by packets.
    let t1_ns = pair.up[0].sent_ns - SECOND;
    let probes = [RttProbe { t1_ns, t2_ns: t1_ns + 5 * SECOND + 60 * MS, t3_ns: t1_ns + 100 * MS }];
    let clocks = timed(&Evidence { flows: &flows, probes: &probes, ..Evidence::default() }).clocks.unwrap();
    assert_eq!((clocks.source, clocks.min_rtt_ns), (OffsetSource::RoundTrips, Some(100 * MS)));
    let (offset_ns, bound_ns) = (clocks.offset_ns.unwrap(), clocks.bound_ns.unwrap());
    let truth_ns = 5 * SECOND + 30 * SECOND / 20_000;
    assert!((offset_ns - truth_ns).abs() <= bound_ns && bound_ns >= 50 * MS, "{offset_ns} ± {bound_ns}");
}

#[test]
fn one_clock_is_known_by_its_readings_unless_packets_contradict() {
    let pair = World::new(|_| 0).pair();
    let flows = pair.flows();
    let judged =
        |flows: &[FlowTimes<'_>], boot_gap_ns| timed(&Evidence { flows, boot_gap_ns, ..Evidence::default() });
    let same = judged(&flows, Some(-300));
    let clocks = same.clocks.unwrap();
    assert_eq!(
        (clocks.source, clocks.offset_ns, clocks.bound_ns),
        (OffsetSource::SameClock, Some(0), Some(0))
    );
    assert_eq!((clocks.skew_ppm, clocks.drift_bound_ns), (Some(0.0), Some(0)));
    assert_eq!(same.flows[0].arrivals, pair.up, "nothing is taken out");
    assert!(clocks.by_packets.is_some_and(|packets| packets.offset_ns.abs() <= packets.bound_ns));
    for gap in [None, Some(1_001), Some(i64::MIN)] {
        assert_eq!(judged(&flows, gap).clocks.unwrap().source, OffsetSource::Packets, "{gap:?}");
    }
    // A packet that arrives before it was sent was stamped by another clock.
    let ahead = World::new(|_| -SECOND).pair();
    assert_eq!(judged(&ahead.flows(), Some(0)).clocks.unwrap().source, OffsetSource::Packets);
}

#[test]
fn nothing_is_known_of_nothing() {
    assert_eq!(timed(&Evidence::default()), Timed { clocks: None, flows: Vec::new() });
    let probes = [RttProbe { t1_ns: 0, t2_ns: 500, t3_ns: 200 }];
    let clocks = timed(&Evidence { probes: &probes, ..Evidence::default() }).clocks.unwrap();
    assert_eq!((clocks.offset_ns, clocks.bound_ns, clocks.skew_ppm), (Some(400), Some(100), None));
}

#[test]
fn the_offset_is_found_for_each_of_many_pairs() {
    for seed in 0..15 {
        let world = World { seed, seconds: 8, loss: 0.2, ..World::new(|ns| 400 * MS + ns / 30_000) };
        let clocks = leaves_pdv(&world, 0.05).clocks.unwrap();
        assert!((clocks.offset_ns.unwrap() - 400 * MS - 4 * SECOND / 30_000).abs() < 30_000, "{clocks:?}");
    }
}
