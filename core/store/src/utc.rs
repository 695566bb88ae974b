//! Times of day as texts, in UTC.

/// `20261120T165800Z` of seconds since 1970.
pub(crate) fn compact_utc(seconds: u64) -> String {
    let (year, month, day) = civil_date((seconds / 86_400).cast_signed());
    let s = seconds % 86_400;
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", s / 3600, s / 60 % 60, s % 60)
}

/// `2026-11-20T16:58:00Z` (RFC 3339) of CLOCK_REALTIME nanoseconds; times before 1970 are shown as 1970.
pub fn rfc3339_utc(realtime_ns: i64) -> String {
    let seconds = u64::try_from(realtime_ns).unwrap_or(0) / 1_000_000_000;
    let (year, month, day) = civil_date((seconds / 86_400).cast_signed());
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
pub fn civil_date(days_since_1970: i64) -> (i64, i64, i64) {
    let days = days_since_1970 + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
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
