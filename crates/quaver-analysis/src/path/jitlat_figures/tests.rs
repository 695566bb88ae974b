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
    options.direction = Direction::SendMe;
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
