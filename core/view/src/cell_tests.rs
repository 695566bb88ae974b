use super::*;

fn all(wanted: &[(Cell, &str)]) {
    for (cell, text) in wanted {
        assert_eq!(cell.to_string(), *text, "{cell:?}");
    }
}

#[test]
fn one_thing_has_no_plural() {
    let words = [0, 1, 2_311].map(|count| Cell::several(count, "packet"));
    assert_eq!(words, ["0 packets", "1 packet", "2,311 packets"]);
    assert_eq!([1, 3].map(|count| Cell::several(count, "failed try")), ["1 failed try", "3 failed tries"]);
}

#[test]
fn durations_have_three_digits_and_a_unit_that_fits() {
    let wanted = [
        (0, "0 ns"),
        (812, "812 ns"),
        (-812, "-812 ns"),
        (1_000, "1.00 µs"),
        (7_410, "7.41 µs"),
        (99_949, "99.9 µs"),
        (99_960, "100 µs"),
        (999_499, "999 µs"),
        (999_600, "1.00 ms"),
        (1_200_000, "1.20 ms"),
        (-2_000_000_000, "-2.00 s"),
        (75_000_000_000, "75.0 s"),
        (i64::MIN, "-9223372037 s"),
    ];
    for (ns, text) in wanted {
        assert_eq!(Cell::Duration(ns).to_string(), text);
    }
    all(&[
        (Cell::FineDuration(12.34), "12.3 ns"),
        (Cell::FineDuration(7_419.766_7), "7.42 µs"),
        (Cell::FineDuration(f64::NAN), "-"),
        (Cell::FineDuration(f64::INFINITY), "-"),
        (Cell::Instant(3_217_412_400), "3.217412 s"),
    ]);
}

#[test]
fn counts_are_grouped() {
    all(&[
        (Cell::Count(0), "0"),
        (Cell::Count(999), "999"),
        (Cell::Count(1_349_527), "1,349,527"),
        (Cell::Index(1_349_527), "1349527"),
        (Cell::Sequence(481_203), "#481203"),
    ]);
}

#[test]
fn small_shares_are_not_zero_and_large_ones_not_all() {
    all(&[
        (Cell::Heights(vec![8, 1, 0, 4]), "█▁ ▄"),
        (Cell::Heights(vec![0, 0]), "  "),
        (Cell::Share(0.0), "0 %"),
        (Cell::Share(0.000_001), "< 0.01 %"),
        (Cell::Share(-0.000_001), "> -0.01 %"),
        (Cell::Share(0.000_9), "0.09 %"),
        (Cell::Share(-0.000_9), "-0.09 %"),
        (Cell::Share(-0.335_6), "-33.6 %"),
        (Cell::Share(-1.72), "-172 %"),
        (Cell::Share(-0.999_999_9), "< -99.99 %"),
        (Cell::Share(0.612), "61.2 %"),
        (Cell::Share(0.999_999_9), "> 99.99 %"),
        (Cell::Share(1.0), "100 %"),
        (Cell::Share(f64::NAN), "-"),
        (Cell::part(1, 4), "25.0 %"),
        (Cell::part(0, 0), "-"),
    ]);
}

#[test]
fn rates_bytes_and_plain_numbers() {
    all(&[
        (Cell::Rate(134_952.8, "packets"), "134,953 packets/s"),
        (Cell::Rate(0.5, "packets"), "0.50 packets/s"),
        (Cell::Rate(1_234.0, ""), "1,234"),
        (Cell::Frequency(0.0), "0"),
        (Cell::Frequency(3.254), "3.25"),
        (Cell::Frequency(1_204.4), "1,204"),
        (Cell::Bytes(999), "999 B"),
        (Cell::Bytes(1_500), "1.50 kB"),
        (Cell::Bytes(20_000_000), "20.0 MB"),
        (Cell::BitRate(64.0), "64.0 bit/s"),
        (Cell::BitRate(97_590.0), "97.6 kbit/s"),
        (Cell::BitRate(999_600_000.0), "1.00 Gbit/s"),
        (Cell::BitRate(f64::NAN), "-"),
        (Cell::Figure(0.001), "< 0.01"),
        (Cell::Figure(0.0), "0"),
        (Cell::Figure(-0.5), "-0.50"),
        (Cell::Figure(1_204.2), "1,204"),
        (Cell::Number { value: 1_234.567, digits: 2 }, "1,234.57"),
        (Cell::Number { value: -1_234.0, digits: 0 }, "-1,234"),
        (Cell::Number { value: -0.001, digits: 2 }, "0.00"),
        (Cell::Number { value: f64::NAN, digits: 2 }, "-"),
    ]);
}

#[test]
fn differences_have_signs() {
    all(&[
        (Cell::difference(Cell::Duration(1_234)), "+1.23 µs"),
        (Cell::difference(Cell::Duration(-1_234)), "-1.23 µs"),
        (Cell::difference(Cell::Share(0.4567)), "+45.67 pp"),
        (Cell::difference(Cell::Missing), "-"),
        (Cell::interval(Cell::Duration(372), Cell::Duration(455)), "372 ns to 455 ns"),
        (Cell::interval(Cell::Missing, Cell::Missing), "-"),
    ]);
}

#[test]
fn missing_values_are_never_zero() {
    all(&[(Cell::Missing, "-"), (Cell::Unknown, "not known"), (Cell::Empty, "")]);
    all(&[
        (None::<Cell>.into(), "-"),
        (Some(Cell::Duration(5)).into(), "5 ns"),
        (Cell::percentile(7_410, 999, 1_000), "-"),
        (Cell::percentile(7_410, 1_000, 1_000), "7.41 µs"),
        (Cell::Count(3).only_if(false), "-"),
    ]);
}

#[test]
fn bars_fill_by_eighths() {
    let wanted = [(0.0, ""), (0.000_1, "▏"), (0.5, "██"), (1.0, "████"), (2.0, "████")];
    for (share, text) in wanted {
        assert_eq!(bar(share, 4, false), text);
    }
    assert_eq!((bar(0.000_1, 4, true), bar(0.5, 4, true)), ("#".to_owned(), "##".to_owned()));
}
