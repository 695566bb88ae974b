//! Times of day as texts, in UTC.

/// `20261120T165800Z` of seconds since 1970.
pub(crate) fn compact_utc(seconds: u64) -> String {
    let (year, month, day) = civil_date(seconds / 86_400);
    let s = seconds % 86_400;
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", s / 3600, s / 60 % 60, s % 60)
}

/// `2026-11-20T16:58:00Z` (RFC 3339) of CLOCK_REALTIME nanoseconds; times before 1970 are shown as 1970.
pub fn rfc3339_utc(realtime_ns: i64) -> String {
    let seconds = u64::try_from(realtime_ns).unwrap_or(0) / 1_000_000_000;
    let (year, month, day) = civil_date(seconds / 86_400);
    let s = seconds % 86_400;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", s / 3600, s / 60 % 60, s % 60)
}

/// `2026-11-20T16:58:00.123Z`: [`rfc3339_utc`] with milliseconds, cut off.
pub fn rfc3339_utc_ms(realtime_ns: i64) -> String {
    let ms = u64::try_from(realtime_ns).unwrap_or(0) / 1_000_000 % 1_000;
    rfc3339_utc(realtime_ns).replace('Z', &format!(".{ms:03}Z"))
}

/// Year, month and day in the Gregorian calendar of a count of days since 1970-01-01: years are counted from
/// 1 March, so that the leap day is the last of its year, in cycles of 400 years.
fn civil_date(days: u64) -> (u64, u64, u64) {
    let from_march_0000 = days + 719_468;
    let (era, day) = (from_march_0000 / 146_097, from_march_0000 % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let day_of_month = day_of_year - (153 * march_month + 2) / 5 + 1;
    (era * 400 + year + u64::from(month <= 2), month, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_across_leap_years() {
        assert_eq!(compact_utc(0), "19700101T000000Z");
        assert_eq!(compact_utc(951_782_399), "20000228T235959Z");
        assert_eq!(compact_utc(951_782_400), "20000229T000000Z");
        assert_eq!(rfc3339_utc(1_795_193_880_000_000_000), "2026-11-20T16:58:00Z");
        assert_eq!(rfc3339_utc(4_107_542_400_000_000_000), "2100-03-01T00:00:00Z");
        assert_eq!(rfc3339_utc(-5), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339_utc_ms(1_795_193_880_012_999_999), "2026-11-20T16:58:00.012Z");
    }
}
