use super::*;
use crate::path::arrival::{Numbering, classify};
use quaver_abi::wire::jitlat::Singleton;

fn log(packets: &[(i32, i64, i64)], sent: u64) -> Classified {
    let row = |&(tx_seq, tx_real_time_ns, rx_real_time_ns): &(i32, i64, i64)| Singleton {
        tx_real_time_ns,
        tx_seq,
        rx_real_time_ns,
        flags: 0,
    };
    let rows: Vec<_> = packets.iter().map(row).collect();
    classify(&rows, Numbering::Jitlat, Some(sent))
}

/// The three rows of figure 6.
fn sample() -> Classified {
    log(
        &[
            (0, 1_246_650_331_413_984_400, 1_246_650_331_414_098_200),
            (1, 1_246_650_331_443_879_400, 1_246_650_331_443_978_400),
            (2, 1_246_650_331_463_856_200, 1_246_650_331_464_150_000),
        ],
        3,
    )
}

#[test]
fn jitlats_sample_rows() {
    let figures = jitlat_figures(&sample(), &FigureOptions::new(80, 20_000_000));
    let delays = figures.delays.expect("three packets");
    assert_eq!((delays.latency.min_ns, delays.latency.max_ns), (99_000, 293_800));
    assert_eq!((delays.latency.median_ns, delays.pdv.median_ns), (113_800.0, 14_800.0));
    assert_eq!((delays.pdv.min_ns, delays.pdv.max_ns), (0, 194_800));
    assert_eq!(delays.pdv_percentiles_ns, [194_800; 6]);
    assert_eq!(figures.transmit.expect("three packets").period_ns, 49_871_800.0 / 2.0);
    assert_eq!(figures.receive.expect("three packets").period_ns, 50_051_800.0 / 3.0);
    assert_eq!(figures.target.packets_per_second, 50.0);
    assert_eq!(figures.target.user_bits_per_second, 32_000.0);
}

#[test]
fn correction_by_direction() {
    let mut options = FigureOptions::new(80, 20_000_000);
    options.clock_error_ns = Some(100_000);
    options.min_rtt_ns = Some(150_000);
    let delays = jitlat_figures(&sample(), &options).delays.expect("three packets");
    let corrected = delays.corrected_latency.expect("an estimate");
    assert_eq!((corrected.min_ns, corrected.median_ns), (-1_000, 13_800.0));
    assert_eq!(corrected.histogram.counts, delays.latency.histogram.counts);
    assert_eq!(corrected.histogram.min_ns, -1_000);
    assert_eq!(delays.warning, None);
    assert_eq!(delays.corrected_warning, Some(ClockWarning::NegativeLatency { min_latency_ns: -1_000 }));
    options.direction = Direction::Down;
    let delays = jitlat_figures(&sample(), &options).delays.expect("three packets");
    assert_eq!(delays.corrected_latency.expect("an estimate").min_ns, 199_000);
    assert!(matches!(delays.corrected_warning, Some(ClockWarning::AboveRoundTrip { .. })));
}

#[test]
fn nothing_arrived_or_one_packet() {
    let figures = jitlat_figures(&log(&[], 10), &FigureOptions::new(80, 20_000_000));
    assert_eq!((figures.counts.lost, &figures.delays, figures.burstiness), (10, &None, None));
    let figures = jitlat_figures(&log(&[(4, 100, 350)], 10), &FigureOptions::new(80, 20_000_000));
    assert_eq!((figures.transmit, figures.receive, figures.burstiness), (None, None, None));
    let delays = figures.delays.expect("one packet");
    assert_eq!((delays.latency.median_ns, delays.latency.sd_ns, delays.pdv.max_ns), (250.0, 0.0, 0));
}

#[test]
fn lost_packets_do_not_stretch_the_transmit_period() {
    let figures = jitlat_figures(&log(&[(0, 0, 5), (9, 900, 905)], 10), &FigureOptions::new(80, 100));
    assert_eq!(figures.transmit.expect("two packets").period_ns, 100.0);
}

#[test]
fn the_two_percentiles() {
    let packets: Vec<_> = (0..1000).map(|i| (i, 0, i64::from(i) + 1)).collect();
    let classified = log(&packets, 1000);
    let mut options = FigureOptions::new(80, 100);
    let two = jitlat_figures(&classified, &options).delays.expect("packets");
    assert_eq!(two.pdv_percentiles_ns, [989, 992, 994, 996, 998, 999]);
    assert_eq!(two.pdv.histogram.limit_ns, 989);
    options.version = PageVersion::One;
    let one = jitlat_figures(&classified, &options).delays.expect("packets");
    assert_eq!(one.pdv_percentiles_ns, [990, 993, 995, 997, 999, 999]);
    assert_eq!(one.latency.histogram.limit_ns, 991);
}

#[test]
fn sums_of_squares_round_but_do_not_lie() {
    // Clocks that are half a century apart: the sum of squares knows nothing of microseconds.
    let apart = 1_700_000_000_000_000_000;
    let packets: Vec<_> = (0..1000).map(|i| (i, 0, apart + i64::from(i % 2) * 1000)).collect();
    let delays = jitlat_figures(&log(&packets, 1000), &FigureOptions::new(80, 100)).delays.expect("packets");
    assert_eq!((delays.latency.sd_ns, delays.pdv.sd_ns), (500.0, 500.0));
}

/// Packets every 20 ms with these latencies, but 24 ms more once: 1000 of them are sent in 20.004 s, as in figures 16
/// and 17.
fn over_20_004_ms(latencies_ns: &[i64]) -> Classified {
    let start = 1_260_284_782_000_000_000;
    let packet = |(i, latency): (i32, &i64)| {
        let sent = start + i64::from(i) * 20_000_000 + if i > 0 { 24_000_000 } else { 0 };
        (i, sent, sent + latency)
    };
    log(&(0..).zip(latencies_ns).map(packet).collect::<Vec<_>>(), latencies_ns.len() as u64)
}

#[test]
fn one_divides_by_the_intervals_and_one_by_the_packets() {
    let figures =
        jitlat_figures(&over_20_004_ms(&[1_614_710_000; 1000]), &FigureOptions::new(80, 20_000_000));
    let printed = |p: PeriodFigures| {
        let PeriodFigures { period_ns, packets_per_second, user_bits_per_second } = p;
        format!("{:.2} {packets_per_second:.2} {:.2}", period_ns / 1e6, user_bits_per_second / 1e3)
    };
    assert_eq!(printed(figures.target), "20.00 50.00 32.00");
    assert_eq!(printed(figures.transmit.expect("packets")), "20.02 49.94 31.96");
    assert_eq!(printed(figures.receive.expect("packets")), "20.00 49.99 31.99");
}

#[test]
fn sums_of_squares_give_figure_17_two_deviations() {
    // PDV in whole microseconds with a spread of about 77 us on 32.955267 s, in some order.
    let pdv: Vec<i64> = (0..1000).map(|i| (i * 7919 % 1000) * 267 / 1000 * 1000).collect();
    let latencies: Vec<i64> = pdv.iter().map(|x| x + 32_955_267_000).collect();
    let delays = jitlat_figures(&over_20_004_ms(&latencies), &FigureOptions::new(80, 20_000_000)).delays;
    let delays = delays.expect("packets");
    let exact = delay_statistics(&mut pdv.clone()).expect("packets").sd_ns;
    assert_eq!(delay_statistics(&mut latencies.clone()).expect("packets").sd_ns, exact);
    assert!((delays.pdv.sd_ns - exact).abs() < 1e-6, "nothing to see in PDV");
    let error_ns = (delays.latency.sd_ns - exact).abs();
    assert!((0.01..20.0).contains(&error_ns), "some nanoseconds of 77 us: {error_ns}");
}
