use super::*;
use crate::path::simulated::{Flow, Queue, Step};
use proptest::prelude::*;

const MS: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MS;

fn search() -> ShiftSearch {
    ShiftSearch::new(Some(20_000_000))
}

/// Steps of either end and of the path in flows with queueing, skew, reordering and loss.
#[test]
fn the_delays_show_size_time_and_end() {
    let queues = [Queue::HeavyTailed { scale_ns: 500_000.0 }, Queue::HeavyTailed { scale_ns: 50_000.0 }];
    for seed in 0..20 {
        for (queue, size_ns) in
            queues.into_iter().flat_map(|q| [5 * MS, -5 * MS, 30 * SECOND, -SECOND].map(|s| (q, s)))
        {
            let step = Step { at_ns: 25 * SECOND + 7, size_ns };
            let plain = Flow { seed, queue, skew_ppm: 50.0, ..Flow::default() };
            let sender = Flow { sender_steps: vec![step], ..plain.clone() };
            let receiver = Flow { receiver_steps: vec![step], ..plain.clone() };
            assert_eq!(level_shifts(&plain.arrivals(), &search()), [], "seed {seed}");
            for (flow, sign, cause) in
                [(sender, -1, ShiftCause::SenderClock), (receiver, 1, ShiftCause::ReceiverClockOrPath)]
            {
                let shifts = level_shifts(&flow.arrivals(), &search());
                let [shift] = shifts[..] else { panic!("seed {seed}, {queue:?}, {size_ns}: {shifts:?}") };
                assert_eq!(shift.cause, cause);
                let error_ns = shift.size_ns - sign * size_ns;
                assert!(error_ns.abs() < MS, "seed {seed}, {queue:?}: {shift:?} instead of {size_ns}");
                // 25 s are packet 1250. The packets beside a step may be lost or have queued.
                assert!(shift.sequence.abs_diff(1250) <= 12, "seed {seed}, {queue:?}: {shift:?}");
            }
        }
    }
}

#[test]
fn several_steps() {
    let flow = Flow {
        sender_steps: vec![Step { at_ns: 10 * SECOND, size_ns: 40 * MS }],
        receiver_steps: vec![
            Step { at_ns: 25 * SECOND, size_ns: 20 * MS },
            Step { at_ns: 45 * SECOND, size_ns: -500 * MS },
        ],
        ..Flow::default()
    };
    let shifts = level_shifts(&flow.arrivals(), &search());
    let rounded: Vec<_> =
        shifts.iter().map(|s| ((s.size_ns + MS * 501 - MS / 2) / MS - 500, s.cause)).collect();
    use ShiftCause::{ReceiverClockOrPath, SenderClock};
    assert_eq!(rounded, [(-40, SenderClock), (20, ReceiverClockOrPath), (-500, ReceiverClockOrPath)]);
}

#[test]
fn queues_and_skew_are_no_steps() {
    for seed in 0..60 {
        for (load, skew_ppm) in [(0.5, 0.0), (0.7, 50.0), (0.9, -50.0)] {
            let flow = Flow { seed, skew_ppm, queue: Queue::Busy { load }, ..Flow::default() };
            assert_eq!(level_shifts(&flow.arrivals(), &search()), [], "seed {seed}, load {load}");
        }
    }
}

#[test]
fn a_change_of_the_path_is_seen_and_not_called_the_senders() {
    let flow = Flow { path_steps: vec![Step { at_ns: 30 * SECOND, size_ns: 35 * MS }], ..Flow::default() };
    let shifts = level_shifts(&flow.arrivals(), &search());
    let [shift] = shifts[..] else { panic!("{shifts:?}") };
    assert_eq!(shift.cause, ShiftCause::ReceiverClockOrPath);
    let without_period = level_shifts(&flow.arrivals(), &ShiftSearch::new(None));
    assert_eq!(without_period[0].cause, ShiftCause::Unknown);
}

#[test]
fn too_few_packets_say_nothing() {
    assert_eq!(level_shifts(&[], &search()), []);
    let few = Flow { packets: 150, ..Flow::default() }.arrivals();
    assert_eq!(level_shifts(&few, &search()), []);
}

proptest! {
    #[test]
    fn sliding_minima_agree_with_looking(
        values in prop::collection::vec(-20i64..20, 1..60),
        window in 1usize..20,
    ) {
        let slow: Vec<i64> = values.windows(window).map(|w| *w.iter().min().expect("not empty")).collect();
        prop_assert_eq!(sliding_minima(&values, window.min(values.len())).len(), values.len() + 1 - window.min(values.len()));
        if window <= values.len() {
            prop_assert_eq!(sliding_minima(&values, window), slow);
        }
    }

    #[test]
    fn any_stamps_are_survived(
        packets in prop::collection::vec((any::<u64>(), any::<i64>(), any::<i64>()), 0..80),
    ) {
        let arrivals: Vec<_> = packets
            .into_iter()
            .map(|(sequence, sent_ns, received_ns)| Arrival { sequence, sent_ns, received_ns })
            .collect();
        level_shifts(&arrivals, &ShiftSearch { window: 8, least_ns: 1, period_ns: Some(u64::MAX) });
    }
}
