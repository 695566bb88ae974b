//! Schedules and how they are kept.

use super::*;
use quaver_probe::source::Pace;

#[test]
fn a_periodic_schedule_starts_within_its_first_period_as_the_seed_says() {
    let period_ns = 20_000_000;
    let starts: Vec<u64> = (0..1_000)
        .map(|seed| {
            let schedule = FlowSchedule::Periodic { period_ns, random_start: Some(seed) };
            let offsets: Vec<u64> = schedule.offsets().take(5).collect();
            assert!(offsets[0] < period_ns);
            assert!(offsets.windows(2).all(|pair| pair[1] - pair[0] == period_ns));
            assert_eq!(schedule.offsets().next(), Some(offsets[0]), "the seed alone decides");
            offsets[0]
        })
        .collect();
    let uniform = |start: u64| start as f64 / period_ns as f64;
    assert!(kolmogorov_smirnov(starts.into_iter().map(uniform).collect()) < critical(1_000));
    assert_eq!(FlowSchedule::every(7).offsets().take(3).collect::<Vec<_>>(), [0, 7, 14]);
}

#[test]
fn poisson_gaps_are_exponential_and_come_from_the_seed() {
    let schedule = |seed| FlowSchedule::Poisson { mean_ns: 1_000_000, seed };
    for seed in 1..=20 {
        let offsets: Vec<u64> = schedule(seed).offsets().take(5_000).collect();
        assert_eq!(schedule(seed).offsets().take(5_000).collect::<Vec<_>>(), offsets);
        assert!(offsets.is_sorted());
        let gaps = std::iter::once(offsets[0]).chain(offsets.windows(2).map(|pair| pair[1] - pair[0]));
        let uniform = gaps.map(|gap| 1.0 - (-(gap as f64) / 1e6).exp()).collect();
        let distance = kolmogorov_smirnov(uniform);
        assert!(distance < critical(5_000), "seed {seed}: {distance}");
    }
    assert!(!schedule(1).offsets().take(10).eq(schedule(2).offsets().take(10)));
}

/// Largest distance between the sample's distribution and the uniform one.
fn kolmogorov_smirnov(mut sample: Vec<f64>) -> f64 {
    sample.sort_by(f64::total_cmp);
    let count = sample.len() as f64;
    let distances = sample.iter().enumerate().map(|(at, value)| {
        let (below, above) = (at as f64 / count, (at + 1) as f64 / count);
        (value - below).max(above - value)
    });
    distances.fold(0.0, f64::max)
}

/// What the distance exceeds by chance in 1 of 1000 samples of so many (1.9495 is the asymptotic quantile 0.999 of
/// Kolmogorov's distribution; for small samples it is too strict, not too loose). The seeds are fixed.
fn critical(count: u32) -> f64 {
    1.9495 / f64::from(count).sqrt()
}

#[test]
fn recorded_offsets_are_kept_and_end_the_flow() {
    let offsets_ns: Vec<u64> = vec![0, 0, 0, 1_000_000, 1_500_000, 9_000_000, 9_000_000];
    let schedule = FlowSchedule::Recorded { offsets_ns: offsets_ns.clone().into() };
    assert_eq!(schedule.mean_period_ns(), 1_500_000);
    assert_eq!(schedule.expected_duration_ns(4), 1_000_000);
    assert_eq!(schedule.expected_duration_ns(100), 9_000_000);
    let spec = FlowSpec { packets: None, ..FlowSpec::new(80, None, schedule) };
    let (sent, received, packets) = run(&udp_pair(), &spec);
    assert_eq!((sent.summary.packets, sent.summary.misses, received.summary.received), (7, 0, 7));
    assert_not_early(&sent, &packets, &offsets_ns);
    let decreasing = FlowSchedule::Recorded { offsets_ns: [2, 1].as_slice().into() };
    assert!(FlowSpec::new(80, None, decreasing).check().is_err());
    let empty = FlowSchedule::Recorded { offsets_ns: [].as_slice().into() };
    assert!(FlowSpec::new(80, None, empty).check().is_err());
}

#[test]
fn no_packet_is_sent_before_its_deadline() {
    for schedule in [FlowSchedule::every(200_000), FlowSchedule::Poisson { mean_ns: 200_000, seed: 5 }] {
        for pace in [Pace::Hybrid, Pace::Sleep, Pace::Spin] {
            let offsets: Vec<u64> = schedule.offsets().take(300).collect();
            let spec = FlowSpec {
                pace,
                start_delay_ns: 3_000_000,
                ..FlowSpec::new(80, Some(300), schedule.clone())
            };
            let (sent, received, packets) = run(&udp_pair(), &spec);
            assert_eq!((sent.summary.misses, sent.summary.packets, received.summary.received), (0, 300, 300));
            assert_not_early(&sent, &packets, &offsets);
            assert!(sent.summary.lateness.smallest_ns <= sent.summary.lateness.quantiles_ns[0]);
            assert!(sent.summary.lateness.quantiles_ns.is_sorted());
        }
    }
}

#[test]
fn a_sender_that_sleeps_wakes_up_once_for_several_packets_of_a_high_rate() {
    let sent = |period_ns, pace, late| {
        let spec = FlowSpec { pace, late, ..FlowSpec::new(80, Some(2_000), FlowSchedule::every(period_ns)) };
        let (sent, received, _) = run(&udp_pair(), &spec);
        assert_eq!((sent.summary.packets, received.summary.received), (2_000, 2_000));
        sent
    };
    let light = sent(20_000, Pace::Sleep, LatePolicy::Burst);
    assert!(light.batched > 1_800, "{light:?}");
    // The first of those that go together has waited for the others.
    assert!(light.summary.lateness.quantiles_ns[0] >= 20_000, "{:?}", light.summary.lateness);
    // Where each has its own wake-up anyhow, none waits for another.
    let slow = sent(200_000, Pace::Sleep, LatePolicy::Burst);
    assert!(slow.summary.lateness.smallest_ns < 100_000, "{:?}", slow.summary.lateness);
}

/// By the wall clock, which may be slewed by 500 ppm against the clock of the deadlines.
fn assert_not_early(sent: &SendReport, packets: &[Received], offsets_ns: &[u64]) {
    for (packet, offset_ns) in packets.iter().zip(offsets_ns) {
        let after_ns = packet.singleton.tx_real_time_ns - sent.summary.start_realtime_ns;
        let elapsed_ns = *offset_ns as i64 + 3_000_000;
        assert!(after_ns >= *offset_ns as i64 - elapsed_ns / 2_000, "{after_ns} before {offset_ns}");
    }
}

#[test]
fn a_sender_that_cannot_keep_up_misses_and_numbers_stay_consecutive() {
    // The least period: no sender makes ten million packets a second one by one.
    let spec = FlowSpec { late: LatePolicy::Skip, ..spec(2_000, LEAST_PERIOD_NS) };
    let (sent, received, packets) = run(&udp_pair(), &spec);
    assert!(sent.summary.misses > 0 && sent.summary.packets == 2_000, "{sent:?}");
    assert_eq!((sent.largest_batch, sent.batched), (1, 0), "late packets are never bunched");
    assert_eq!(received.summary.received + received.summary.own_drops.unwrap(), 2_000);
    assert!(numbers(&packets).is_sorted());
}

#[test]
fn gathered_packets_go_together_and_late_by_no_more_than_needed() {
    let spec = FlowSpec { gather_ns: 500_000, ..spec(1_000, 10_000) };
    let (sent, received, packets) = run(&udp_pair(), &spec);
    assert_eq!((sent.summary.packets, sent.summary.misses, received.summary.received), (1_000, 0, 1_000));
    // Packets of the first half millisecond wait for it; at least so many go in one call.
    assert!(sent.largest_batch >= 50 && sent.batched >= 950, "{sent:?}");
    assert!(numbers(&packets).is_sorted());
    assert!(FlowSpec { late: LatePolicy::Skip, ..spec }.check().is_err());
}

/// The period is the least: no sender keeps it, and with one packet a call not a tenth of it.
#[test]
fn a_flow_with_a_time_is_over_when_it_is() {
    for late in LatePolicy::ALL {
        let lasting_ns = 200_000_000;
        let spec = FlowSpec {
            late,
            lasting_ns: Some(lasting_ns),
            train: TrainWish::Packets(1),
            ..spec(2_000_000, LEAST_PERIOD_NS)
        };
        let (sent, received, _) = run(&udp_pair(), &spec);
        assert!(
            sent.summary.sending.unwrap().finished && sent.summary.packets < 2_000_000,
            "{}: {}",
            late.name(),
            sent.summary.packets
        );
        assert_eq!(
            sent.summary.packets + sent.summary.misses + sent.summary.sending.unwrap().unsent,
            2_000_000,
            "{}",
            late.name()
        );
        let last_ns = (sent.last_deadline_ns - sent.start_ns).unsigned_abs();
        assert!(last_ns < lasting_ns, "no slot beyond its time was used");
        // A sentinel that finds the socket full is dropped as well.
        let dropped = sent.summary.sentinels - received.summary.sentinels;
        let taken = received.summary.received + received.summary.own_drops.unwrap();
        assert!((sent.summary.sent..=sent.summary.sent + dropped).contains(&taken), "{sent:?}, {received:?}");
    }
}
