//! Answers of the kernel as it lays them out, and conversions held against a truth that is known.

use super::*;

const NOW_NS: i64 = 1_800_000_000_000_000_000;

fn time(ns: i64) -> PtpTime {
    PtpTime { sec: ns.div_euclid(1_000_000_000), nsec: ns.rem_euclid(1_000_000_000) as u32, reserved: 0 }
}

fn extended(samples: &[(i64, i64, i64)]) -> Extended {
    let mut answer = Extended::new_zeroed();
    answer.samples = samples.len() as u32;
    for (to, (before, phc, after)) in answer.times.iter_mut().zip(samples) {
        *to = [time(*before), time(*phc), time(*after)];
    }
    answer
}

#[test]
fn the_tightest_sample_counts_and_half_of_it_is_the_bound() {
    let tai = NOW_NS + 37_000_000_000;
    let answer = extended(&[
        (NOW_NS, tai + 900, NOW_NS + 2_001),
        (NOW_NS + 5_000, tai + 5_350, NOW_NS + 5_701),
        (NOW_NS + 9_000, tai + 9_500, NOW_NS + 8_000),
    ]);
    let anchor = PhcAnchor::from_extended(&answer).unwrap();
    assert_eq!(anchor, PhcAnchor { phc_ns: tai + 5_350, realtime_ns: NOW_NS + 5_350, half_bracket_ns: 352 });
    assert_eq!(anchor.offset_ns(), 37_000_000_000);
}

#[test]
fn readings_in_turn_make_a_sample_of_each_three() {
    let mut answer = Plain::new_zeroed();
    answer.samples = 3;
    let tai = NOW_NS + 37_000_000_000;
    let readings = [
        (NOW_NS, tai + 2_000),
        (NOW_NS + 5_000, tai + 5_200),
        (NOW_NS + 5_801, tai + 6_000),
        (NOW_NS + 9_000, 0),
    ];
    for (pair, (realtime_ns, phc_ns)) in answer.times.chunks_mut(2).zip(readings) {
        pair[0] = time(realtime_ns);
        pair[1] = time(phc_ns);
    }
    let anchor = PhcAnchor::from_plain(&answer).unwrap();
    assert_eq!(anchor, PhcAnchor { phc_ns: tai + 5_200, realtime_ns: NOW_NS + 5_400, half_bracket_ns: 402 });
    for samples in [0, 26, u32::MAX] {
        answer.samples = samples;
        assert!(PhcAnchor::from_plain(&answer).is_err(), "{samples}");
    }
    answer.samples = 25;
    assert!(PhcAnchor::from_plain(&answer).is_ok(), "as many as there is room for");
}

#[test]
fn answers_are_read_as_the_kernel_lays_them_out() {
    let mut octets = [0_u8; 64];
    octets[..8].copy_from_slice(&1_800_000_037_i64.to_ne_bytes());
    octets[8..12].copy_from_slice(&123_456_789_u32.to_ne_bytes());
    octets[16..24].copy_from_slice(&1_800_000_000_i64.to_ne_bytes());
    octets[24..28].copy_from_slice(&123_456_000_u32.to_ne_bytes());
    let anchor = PhcAnchor::from_precise(&Precise::read_from_bytes(&octets).unwrap()).unwrap();
    assert_eq!((anchor.offset_ns(), anchor.half_bracket_ns), (37_000_000_789, 1));
    // Sample 24, the last one, begins at 16 + 24 * 48.
    let mut octets = [0_u8; 1_216];
    octets[..4].copy_from_slice(&25_u32.to_ne_bytes());
    for sample in 0..25 {
        octets[16 + sample * 48 + 40] = 200;
    }
    octets[16 + 24 * 48 + 24] = 50;
    octets[16 + 24 * 48 + 40] = 100;
    let anchor = PhcAnchor::from_extended(&Extended::read_from_bytes(&octets).unwrap()).unwrap();
    assert_eq!(anchor, PhcAnchor { phc_ns: 50, realtime_ns: 50, half_bracket_ns: 51 });
}

#[test]
fn nonsense_is_refused() {
    let mut many = extended(&[(0, 1, 2)]);
    many.samples = 26;
    let mut late = extended(&[(0, 1, 2)]);
    late.times[0][1].nsec = 1_000_000_000;
    let mut far = extended(&[(0, 1, 2)]);
    far.times[0][2].sec = i64::MAX;
    for answer in [many, late, far, extended(&[]), extended(&[(5, 1, 2)])] {
        let error = PhcAnchor::from_extended(&answer).unwrap_err();
        assert!(error.to_string().contains("kernel's answer"), "{error}");
    }
}

#[test]
fn a_missing_device_is_named_with_what_to_do() {
    let error = Phc::open(Path::new("/dev/ptp-of-no-machine")).unwrap_err().to_string();
    assert!(error.contains("/dev/ptp-of-no-machine") && error.contains("ethtool -T"), "{error}");
    // A file that is no clock opens, and is refused then.
    let error = Phc::open(Path::new("/dev/null")).unwrap_err().to_string();
    assert!(error.contains("PTP_SYS_OFFSET needs a driver"), "{error}");
}

/// A PHC 37 s ahead, 8 ppm fast, with brackets of 300 to 900 ns: the truth lies within the bound.
#[test]
fn conversions_hold_and_a_set_clock_opens_an_epoch() {
    let mut set_ns = 0;
    let phc_at = |true_ns: i64, set_ns: i64| true_ns + (true_ns - NOW_NS) / 125_000 + 37_000_000_000 + set_ns;
    let anchor = |true_ns: i64, set_ns: i64, wobble: i64| PhcAnchor {
        phc_ns: phc_at(true_ns, set_ns),
        realtime_ns: true_ns + wobble % 150,
        half_bracket_ns: 150 + wobble.abs() % 300,
    };
    let mut clock = PhcClock::new(anchor(NOW_NS, 0, 77));
    for step in 1..200_i64 {
        let now = NOW_NS + step * 100_000_000;
        for back in [1, 40_000_000, 99_000_000] {
            let instant = clock.realtime(phc_at(now - back, set_ns));
            let error_ns = instant.realtime_ns.abs_diff(now - back);
            assert!(error_ns <= instant.bound_ns.into(), "{step}: {error_ns} {instant:?}");
            assert!(step < 5 || (100..104).contains(&step) || instant.bound_ns < 1_200, "{step} {instant:?}");
        }
        if step == 100 {
            set_ns = -250_000_000_000;
        }
        let parted = clock.anchor(anchor(now, set_ns, step * 7_919 % 601 - 300));
        assert_eq!(parted.is_some(), step == 100, "{step}: {parted:?}");
    }
    assert_eq!(clock.realtime(0).epoch, 1);
}
