//! The sender's clock and that of the capture drift apart.

use super::*;

const SECONDS: i64 = 120;

/// Audio of 8 kHz, a packet each 20 ms for two minutes by a clock that is slow by so many parts per million. Each packet waits up to
/// 3 ms in a queue, each eighth not at all.
fn audio(ppm: i64) -> impl Iterator<Item = (i64, FrameFacts)> {
    (0..50 * SECONDS).map(move |n| {
        let queue_ns = if n % 8 == 0 { 0 } else { (n * 7_919 % 30) * 100_000 };
        let sent_ns = 20 * MS * n;
        (sent_ns + sent_ns / 1_000_000 * ppm + queue_ns, frame(6_000, rtp(n as u16, 160 * n as u32, 7)))
    })
}

#[test]
fn variation_of_delay_is_without_the_drift_of_clocks() {
    let pdv = |ppm: i64| {
        let found = figures(audio(ppm));
        let delay = found.flows[0].delay.clone().unwrap();
        (delay.figures.p99_pdv_ns.unwrap(), delay.skew_ppm, delay.drift_bound_ns)
    };
    let (level_ns, none, _) = pdv(0);
    assert_eq!((level_ns / 100_000, none), (29, None));
    for ppm in [-300, 50, 500] {
        let (pdv_ns, skew_ppm, bound_ns) = pdv(ppm);
        assert!((skew_ppm.unwrap() - ppm as f64).abs() < 0.5, "{ppm}: {skew_ppm:?}");
        // Without it, 50 ppm for two minutes were 6 ms more.
        assert!(pdv_ns.abs_diff(level_ns) <= level_ns / 1_000, "{ppm}: {pdv_ns}, {level_ns}");
        assert!(bound_ns.unwrap() < 1_000, "{ppm}: {bound_ns:?}");
    }
}

#[test]
fn times_that_are_not_all_kept_are_as_they_came() {
    let settings = TableSettings { arrivals: 1_000, ..TableSettings::file("kernel") };
    let found = table(settings, audio(500)).finish();
    let delay = found.flows[0].delay.as_ref().unwrap();
    assert_eq!((delay.skew_ppm, delay.figures.max_pdv_ns.unwrap() / 1_000_000), (None, 62));
}
