//! Against the exact figures of all packets, with memory that stays as it is.

use super::super::reordering::reordering_of_numbers;
use super::*;
use proptest::prelude::*;

fn arrival(sequence: u64, delay_ns: i64) -> Arrival {
    let sent_ns = 1_000_000 * (sequence % 1_000_000) as i64;
    Arrival { sequence, sent_ns, received_ns: sent_ns + delay_ns }
}

fn run(window: usize, packets: &[(u64, i64)], sent: Option<u64>) -> Rolling {
    let mut rolling = Rolling::new(window);
    packets.iter().for_each(|&(sequence, delay_ns)| rolling.push(&arrival(sequence, delay_ns)));
    rolling.finish(sent);
    rolling
}

#[test]
fn nothing_came() {
    let mut rolling = Rolling::new(WINDOW);
    assert_eq!((rolling.total().is_none(), rolling.take_interval().is_none()), (true, true));
    rolling.finish(Some(10));
    assert!(rolling.total().is_none());
    assert_eq!(rolling.interarrival_jitter_ns(), 0.0);
}

#[test]
fn each_fate_is_counted_once() {
    // 1 is lost, 3 comes twice, 2 comes late, 6 and 7 are lost at the end.
    let mut rolling = run(8, &[(0, 100), (3, 130), (3, 130), (2, 90), (4, 100), (5, 100)], Some(8));
    let total = rolling.total().expect("packets came");
    let counts = total.counts();
    assert_eq!((counts.unique, counts.duplicate, counts.reordered, counts.lost), (5, 1, 1, 3));
    assert_eq!((counts.loss_periods, counts.longest_loss_period, counts.beyond_window), (2, 2, 0));
    // 3 - 2, 4 - 3 and 5 - 4: 40, -30 and 0.
    assert_eq!(
        (total.ipdv.count(), total.ipdv_quantile_ns(0.0), total.ipdv_quantile_ns(1.0)),
        (3, Some(-30), Some(40))
    );
    assert_eq!(
        (total.min_delay_ns(), total.max_delay_ns(), total.mean_delay_ns()),
        (Some(90), Some(130), Some(104.0))
    );
    assert_eq!((total.pdv_quantile_ns(0.5), total.pdv_quantile_ns(1.0)), (Some(10), Some(40)));
    let line = total.summary();
    assert_eq!((line.p50_delay_ns, line.p50_pdv_ns, line.max_pdv_ns), (Some(100), Some(10), Some(40)));
    // The distances from the mean of 104 are -4, 26, -14, -4 and -4.
    assert!(line.sd_delay_ns.is_some_and(|sd| (sd - 184f64.sqrt()).abs() < 1e-9));
    assert_eq!((line.p1_ipdv_ns, line.p50_ipdv_ns, line.clipped), (Some(-30), Some(0), 0));
    rolling.take_interval();
    let quiet = rolling.take_interval().expect("the test has begun").summary();
    assert_eq!((quiet.min_delay_ns, quiet.mean_delay_ns, quiet.p99_pdv_ns), (None, None, None));
    assert_eq!((quiet.sd_delay_ns, quiet.max_pdv_ns, quiet.p1_ipdv_ns), (None, None, None));
}

#[test]
fn what_left_the_window_cannot_be_told() {
    let mut rolling = run(4, &[(0, 1), (9, 1), (0, 1), (5, 1), (6, 1)], None);
    let counts = rolling.total().expect("packets came").counts();
    // 0 and 5 are beyond the window of 6 to 9; 5 stays lost, and nobody knows that 0 was a copy.
    assert_eq!((counts.unique, counts.beyond_window, counts.reordered, counts.lost), (3, 2, 1, 7));
    let mut far = run(4, &[(u64::MAX - 1, 1), (u64::MAX, 1)], None);
    let counts = far.total().expect("a packet came").counts();
    assert_eq!((counts.unique, counts.lost, counts.beyond_window), (1, u64::MAX - 1, 1));
    assert_eq!((counts.loss_periods, counts.longest_loss_period), (1, u64::MAX - 1));
}

#[test]
fn interarrival_jitter_of_rfc_3550() {
    let packets: Vec<(u64, i64)> =
        [20, 10, 20, 25, 20].into_iter().enumerate().map(|(at, d)| (at as u64, d)).collect();
    let values: Vec<f64> = (1..=5).map(|n| run(8, &packets[..n], None).interarrival_jitter_ns()).collect();
    for (value, truth) in values.iter().zip([0.0, 0.625, 1.2109375, 1.447754, 1.669770]) {
        assert!((value - truth).abs() < 1e-6, "{values:?}");
    }
}

#[test]
fn clocks_that_are_seconds_apart_cost_no_precision() {
    let offset_ns = -31_340_420_000;
    let delays: Vec<i64> = (0..5_000).map(|at| offset_ns + 50_000 + at * at % 7_919 * 1_000).collect();
    let packets: Vec<(u64, i64)> = delays.iter().enumerate().map(|(at, &d)| (at as u64, d)).collect();
    let mut rolling = run(WINDOW, &packets, None);
    let total = rolling.total().expect("packets came");
    let mut sorted = delays;
    sorted.sort_unstable();
    for per_mille in [1, 10, 500, 990, 999, 1000] {
        let exact_pdv = (sorted[5 * per_mille - 1] - sorted[0]) as f64;
        let pdv = total.pdv_quantile_ns(per_mille as f64 / 1000.0).expect("packets came") as f64;
        assert!((pdv - exact_pdv).abs() <= exact_pdv / 1000.0, "{per_mille}: {pdv} is not {exact_pdv}");
    }
}

#[test]
fn figures_of_other_tests_do_not_add_up() {
    let mut one = run(4, &[(0, 5)], None).take_interval().expect("a packet came");
    let other = run(4, &[(0, 6)], None).take_interval().expect("a packet came");
    assert_eq!(one.merge(&other), Err(DifferentReference));
}

/// The size stays as it is over ten million packets of every fate, and what is counted is what came.
#[test]
fn memory_is_that_of_the_first_packets() {
    let mut rolling = Rolling::new(WINDOW);
    let delay_ns = |number: u64| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 34) as i64;
    let mut lost = 0;
    for number in 0..10_000_000u64 {
        // Each pair of numbers comes in reverse; every 1,000th is lost and every 997th doubled.
        let number = number ^ 1;
        if number % 1_000 == 500 {
            lost += 1;
            continue;
        }
        rolling.push(&arrival(number, delay_ns(number)));
        if number % 997 == 0 {
            rolling.push(&arrival(number, delay_ns(number)));
        }
        if number == CALIBRATION as u64 * 2 {
            assert!(rolling.memory_bytes() < 4 << 20);
        }
    }
    let bytes = rolling.memory_bytes();
    rolling.finish(Some(10_000_000));
    assert_eq!(rolling.memory_bytes(), bytes);
    assert!(bytes < 4 << 20, "{bytes}");
    let counts = rolling.total().expect("packets came").counts();
    assert_eq!((counts.unique, counts.lost, counts.loss_periods), (10_000_000 - lost, lost, lost));
    let doubled = (0..10_000_000u64).step_by(997).filter(|number| number % 1_000 != 500).count() as u64;
    assert_eq!((counts.duplicate, counts.beyond_window), (doubled, 0));
}

/// A stream with losses, copies and late packets, none later than `late` places.
fn stream(late: u64) -> impl Strategy<Value = Vec<(u64, i64)>> {
    let packet = (0u64..300, 0..=late, -2_000_000i64..50_000_000);
    prop::collection::vec(packet, 1..250).prop_map(|mut packets| {
        packets.sort_by_key(|&(number, late, _)| number + late);
        packets.into_iter().map(|(number, _, delay_ns)| (number, delay_ns)).collect()
    })
}

fn firsts(packets: &[(u64, i64)]) -> Vec<(u64, i64)> {
    let mut firsts: Vec<(u64, i64)> = Vec::new();
    for &packet in packets {
        if !firsts.iter().any(|first| first.0 == packet.0) {
            firsts.push(packet);
        }
    }
    firsts
}

proptest! {
    #[test]
    fn agrees_with_all_packets_at_once(packets in stream(30), cut in 0usize..250) {
        let mut rolling = Rolling::new(64);
        let mut parts = Vec::new();
        for (at, &(sequence, delay_ns)) in packets.iter().enumerate() {
            rolling.push(&arrival(sequence, delay_ns));
            if at == cut {
                parts.extend(rolling.take_interval());
            }
        }
        rolling.finish(Some(300));
        let firsts = firsts(&packets);
        let received = |number: u64| firsts.iter().find(|first| first.0 == number);
        let total = rolling.total().expect("packets came").clone();
        let counts = total.counts();
        let numbers: Vec<u64> = packets.iter().map(|packet| packet.0).collect();
        prop_assert_eq!(counts.unique, firsts.len() as u64);
        prop_assert_eq!(counts.duplicate, (packets.len() - firsts.len()) as u64);
        prop_assert_eq!(counts.lost, 300 - firsts.len() as u64);
        prop_assert_eq!(counts.reordered, reordering_of_numbers(&numbers).reordered);
        let starts = (0..300).filter(|&n| received(n).is_none() && (n == 0 || received(n - 1).is_some()));
        prop_assert_eq!(counts.loss_periods, starts.count() as u64);
        let ipdv = (1..300).filter(|&n| received(n).is_some() && received(n - 1).is_some()).count() as u64;
        prop_assert_eq!(total.ipdv.count(), ipdv);
        let mut delays: Vec<i64> = firsts.iter().map(|first| first.1).collect();
        delays.sort_unstable();
        for quantile in [0.0, 0.25, 0.5, 0.99, 1.0] {
            let rank = ((quantile * delays.len() as f64).ceil() as usize).max(1);
            let exact = delays[rank - 1];
            let found = total.delay_quantile_ns(quantile).expect("packets came");
            let allowed = exact.abs_diff(total.reference_ns) / 1000;
            prop_assert!(found.abs_diff(exact) <= allowed, "{}: {} is not {}", quantile, found, exact);
        }
        let mean = delays.iter().sum::<i64>() as f64 / delays.len() as f64;
        prop_assert!((total.mean_delay_ns().expect("packets came") - mean).abs() < 1e-3);
        // The stretches add up to the whole.
        parts.extend(rolling.take_interval());
        let mut sum = parts.remove(0);
        for part in &parts {
            prop_assert_eq!(sum.merge(part), Ok(()));
        }
        prop_assert_eq!(sum, total);
    }
}

#[test]
fn a_histogram_of_pdv_holds_every_packet_received() {
    // The first delay becomes the reference, so that distances of either sign are held.
    let mut rolling = Rolling::new(WINDOW);
    rolling.push(&arrival(0, 5_000));
    assert_eq!(rolling.total().map(|total| total.pdv_histogram(&[])), Some(vec![1]));
    let delays = [4_100, 4_000, 4_450, 5_300, 4_201, 9_000];
    for (delay_ns, sequence) in delays.into_iter().zip(1..) {
        rolling.push(&arrival(sequence, delay_ns));
    }
    let total = rolling.total().expect("packets came");
    // PDV: 1000, 100, 0, 450, 1300, 201, 5000.
    assert_eq!(total.pdv_histogram(&[150, 300, 1_200]), [2, 1, 2, 2]);
    assert_eq!(total.pdv_histogram(&[10_000]), [7, 0]);
}
