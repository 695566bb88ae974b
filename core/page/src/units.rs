//! Numbers as a person reads them: three significant digits and a unit that fits.

/// A duration in nanoseconds with a unit that fits: `812 ns`, `7.41 us`, `1.20 ms`, `2.00 s`.
///
/// Below 1 us the value is an integer of nanoseconds, because no clock here resolves less.
pub fn duration(ns: i64) -> String {
    let size = ns.unsigned_abs();
    let sign = if ns < 0 { "-" } else { "" };
    if size < 1_000 {
        return format!("{sign}{size} ns");
    }
    let steps = [(1e3, "us"), (1e6, "ms"), (1e9, "s")];
    let at = steps.iter().rposition(|(unit_ns, _)| size as f64 >= unit_ns * 0.9995).unwrap_or(0);
    let (unit_ns, unit) = steps[at];
    format!("{sign}{} {unit}", three_digits(size as f64 / unit_ns))
}

/// A duration that has a fraction of a nanosecond (a mean, a period).
pub fn duration_f64(ns: f64) -> String {
    if !ns.is_finite() {
        return "-".to_owned();
    }
    if ns.abs() < 999.5 { format!("{} ns", three_digits(ns)) } else { duration(ns.round() as i64) }
}

/// Three significant digits, without an exponent: `7.41`, `74.1`, `741`, `7410`.
fn three_digits(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// An integer with a comma between groups of three digits: `1,349,527`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A share (0..=1) as per cent. What is not zero never reads as zero, and what is not all never reads as all.
pub fn percent(share: f64) -> String {
    let per_cent = share * 100.0;
    if !per_cent.is_finite() {
        "-".to_owned()
    } else if per_cent > 0.0 && per_cent < 0.01 {
        "< 0.01 %".to_owned()
    } else if (99.995..100.0).contains(&per_cent) {
        "> 99.99 %".to_owned()
    } else if per_cent == 0.0 || per_cent >= 100.0 {
        format!("{per_cent:.0} %")
    } else if !(1.0..99.95).contains(&per_cent) {
        format!("{per_cent:.2} %")
    } else {
        format!("{per_cent:.1} %")
    }
}

/// Packets per second of a stream with this period: `134,953 packets/s`.
pub fn rate(period_ns: f64) -> Option<String> {
    (period_ns.is_finite() && period_ns > 0.0).then(|| {
        let per_second = 1e9 / period_ns;
        if per_second >= 10.0 {
            format!("{} packets/s", count(per_second.round() as u64))
        } else {
            format!("{per_second:.2} packets/s")
        }
    })
}

/// Whether `samples` are enough for the percentile beyond which 1 in `one_in` lies: with fewer, the
/// "percentile" is only the maximum under another name.
pub fn supports(samples: u64, one_in: u64) -> bool {
    samples >= one_in
}

/// A bar of `width` cells that shows a share (0..=1) in eighths of a cell.
pub fn bar(share: f64, width: usize) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = (share.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    let eighths = if share > 0.0 { eighths.max(1) } else { eighths };
    let mut out: String = std::iter::repeat_n('█', eighths / 8).collect();
    if !eighths.is_multiple_of(8) {
        out.push(EIGHTHS[eighths % 8]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_a_unit_that_fits() {
        let wanted = [
            (0, "0 ns"),
            (812, "812 ns"),
            (-812, "-812 ns"),
            (1_000, "1.00 us"),
            (7_410, "7.41 us"),
            (99_949, "99.9 us"),
            (99_960, "100 us"),
            (999_499, "999 us"),
            (999_600, "1.00 ms"),
            (1_200_000, "1.20 ms"),
            (-2_000_000_000, "-2.00 s"),
            (75_000_000_000, "75.0 s"),
        ];
        for (ns, text) in wanted {
            assert_eq!(duration(ns), text);
        }
        assert_eq!(duration_f64(12.34), "12.3 ns");
        assert_eq!(duration_f64(7_419.766_7), "7.42 us");
        assert_eq!(duration_f64(f64::NAN), "-");
    }

    #[test]
    fn counts_are_grouped() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_349_527), "1,349,527");
    }

    #[test]
    fn small_shares_are_not_zero_and_large_ones_not_all() {
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.000_001), "< 0.01 %");
        assert_eq!(percent(0.000_9), "0.09 %");
        assert_eq!(percent(0.612), "61.2 %");
        assert_eq!(percent(0.999_999_9), "> 99.99 %");
        assert_eq!(percent(1.0), "100 %");
    }

    #[test]
    fn rates_follow_the_period() {
        assert_eq!(rate(7_410.0).as_deref(), Some("134,953 packets/s"));
        assert_eq!(rate(0.0), None);
    }

    #[test]
    fn bars_fill_by_eighths() {
        assert_eq!(bar(0.0, 4), "");
        assert_eq!(bar(0.000_1, 4), "▏");
        assert_eq!(bar(0.5, 4), "██");
        assert_eq!(bar(1.0, 4), "████");
        assert_eq!(bar(2.0, 4), "████");
    }
}
