//! Numbers with engineering prefixes, as Jitlat's console page has them.
//!
//! Two forms occur in its figures. Most quantities have four significant digits (`20.00 ms`, `2.871 ms`, `121.8 us`,
//! `49.94 pkts/Sec`, `31.96 kbps`, `0.000 s`). Quantities that come from stamps unrounded have all digits down to the
//! nanosecond (`1.614710000 s`, `-80.000 us`).

/// Prefixes of steps of a thousand, and the power of ten of the first.
const PREFIXES: [&str; 9] = ["p", "n", "u", "m", "", "k", "M", "G", "T"];
const LEAST_EXPONENT: i32 = -12;
const GREATEST_EXPONENT: i32 = 12;

/// Four significant digits of `value`·10^`scale` units. Zero has no prefix.
///
/// The digits are those of the exact value of the float, halves to even, as printf(3) rounds; scaling moves the point
/// and rounds nothing.
pub fn four_digits(value: f64, scale: i32, unit: &str) -> String {
    if !value.is_finite() {
        return format!("{value} {unit}");
    }
    if value == 0.0 {
        return format!("0.000 {unit}");
    }
    let scientific = format!("{value:.3e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("this format has an exponent");
    let exponent: i32 = exponent.parse::<i32>().expect("this format's exponent is an integer") + scale;
    let step = exponent.div_euclid(3) * 3;
    let step = step.clamp(LEAST_EXPONENT, GREATEST_EXPONENT);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let before_point = exponent - step + 1;
    let number = match before_point {
        ..=0 => format!("0.{}{digits}", "0".repeat(before_point.unsigned_abs() as usize)),
        1..=3 => {
            let (whole, fraction) = digits.split_at(before_point as usize);
            format!("{whole}.{fraction}")
        }
        _ => format!("{digits}{}", "0".repeat(before_point as usize - 4)),
    };
    let prefix = PREFIXES[((step - LEAST_EXPONENT) / 3) as usize];
    format!("{sign}{number} {prefix}{unit}")
}

/// A time in nanoseconds with four significant digits.
pub fn time(ns: f64) -> String {
    four_digits(ns, -9, "s")
}

/// A time with all its digits: 9 decimals of seconds, 6 of milliseconds, 3 of microseconds, none of nanoseconds.
pub fn time_to_the_ns(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    let size = ns.unsigned_abs();
    let (per_unit, decimals, unit) = match size {
        1..1_000 => return format!("{sign}{size} ns"),
        1_000..1_000_000 => (1_000, 3, "us"),
        1_000_000..1_000_000_000 => (1_000_000, 6, "ms"),
        _ => (1_000_000_000, 9, "s"),
    };
    format!("{sign}{}.{:0decimals$} {unit}", size / per_unit, size % per_unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits_as_in_the_figures() {
        let wanted = [
            (20_000_000.0, "20.00 ms"),
            (2_871_000.0, "2.871 ms"),
            (121_767.0, "121.8 us"),
            (128_849.7, "128.8 us"),
            (0.0, "0.000 s"),
            (1_614_831_767.0, "1.615 s"),
            (32_955_395_850.0, "32.96 s"),
            (2_572.0, "2.572 us"),
            (204_401.0, "204.4 us"),
            (26_327_957.0, "26.33 ms"),
            (-80_000.0, "-80.00 us"),
            (12.5, "12.50 ns"),
            (0.25, "250.0 ps"),
        ];
        for (ns, text) in wanted {
            assert_eq!(time(ns), text);
        }
        assert_eq!(four_digits(49.94, 0, "pkts/Sec"), "49.94 pkts/Sec");
        assert_eq!(four_digits(31_960.0, 0, "bps"), "31.96 kbps");
        assert_eq!(four_digits(1.488e6, 0, "pkts/Sec"), "1.488 Mpkts/Sec");
    }

    #[test]
    fn rounding_up_takes_the_next_prefix() {
        assert_eq!(time(999_949.0), "999.9 us");
        assert_eq!(time(999_950.1), "1.000 ms");
        assert_eq!(time(99_996.0), "100.0 us");
        assert_eq!(four_digits(999.96, 0, "bps"), "1.000 kbps");
    }

    #[test]
    fn what_is_beyond_the_prefixes_is_written_out() {
        assert_eq!(four_digits(1.234e-3, -12, "s"), "0.001234 ps");
        assert_eq!(four_digits(1.234e16, 0, "bps"), "12340 Tbps");
        assert_eq!(four_digits(f64::INFINITY, 0, "bps"), "inf bps");
    }

    #[test]
    fn all_digits_as_in_the_figures() {
        let wanted = [
            (1_614_710_000, "1.614710000 s"),
            (31_340_420_000, "31.340420000 s"),
            (-80_000, "-80.000 us"),
            (1_500_001, "1.500001 ms"),
            (-7, "-7 ns"),
            (0, "0.000000000 s"),
            (i64::MIN, "-9223372036.854775808 s"),
        ];
        for (ns, text) in wanted {
            assert_eq!(time_to_the_ns(ns), text);
        }
    }
}
