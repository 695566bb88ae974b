//! The first line: `Fri Jul 3 19:45:51 GMT 2009`.

use quaver_store::utc::civil_date;

const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const SECONDS_OF_A_DAY: i64 = 86_400;

/// The date as Jitlat's figure 6 writes it, in the zone that it calls GMT. Seconds since 1970.
pub fn date_line(realtime_s: i64) -> String {
    let days = realtime_s.div_euclid(SECONDS_OF_A_DAY);
    let second = realtime_s.rem_euclid(SECONDS_OF_A_DAY);
    let (year, month, day) = civil_date(days);
    let weekday = WEEKDAYS[days.rem_euclid(7) as usize];
    let month = MONTHS[month as usize - 1];
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday} {month} {day} {hour:02}:{minute:02}:{second:02} GMT {year}")
}

/// Seconds since 1970 of a date as [`date_line`] writes it, with GMT or UTC. None for other texts: the date is for
/// people, and a log with another one can be read all the same.
pub fn parse_date_line(text: &str) -> Option<i64> {
    let mut words = text.split_ascii_whitespace();
    let _weekday = words.next().filter(|word| WEEKDAYS.contains(word))?;
    let month = words.next().and_then(|word| MONTHS.iter().position(|month| *month == word))? as i64 + 1;
    let day: i64 = words.next()?.parse().ok().filter(|day| (1..=31).contains(day))?;
    let time = words.next()?;
    words.next().filter(|zone| ["GMT", "UTC"].contains(zone))?;
    let year: i64 = words.next()?.parse().ok().filter(|year| (1970..10_000).contains(year))?;
    let mut parts =
        time.split(':').map(|part| part.parse::<i64>().ok().filter(|part| (0..=60).contains(part)));
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let whole = words.next().is_none() && parts.next().is_none() && hour < 24 && minute < 60;
    whole.then(|| days_since_1970(year, month, day) * SECONDS_OF_A_DAY + hour * 3600 + minute * 60 + second)
}

fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_the_documents_figures() {
        // Figure 6.
        assert_eq!(date_line(1_246_650_351), "Fri Jul 3 19:45:51 GMT 2009");
        assert_eq!(parse_date_line("Fri Jul 3 19:45:51 GMT 2009"), Some(1_246_650_351));
        // Figures 10 and 16 have UTC; ctime-like padding of the day is read too.
        assert_eq!(parse_date_line("Wed May 27 19:39:11 UTC 2009"), Some(1_243_453_151));
        assert_eq!(date_line(1_243_453_151), "Wed May 27 19:39:11 GMT 2009");
        assert_eq!(parse_date_line("Tue Dec  8 15:06:22 UTC 2009"), Some(1_260_284_782));
        assert_eq!(date_line(1_260_284_782), "Tue Dec 8 15:06:22 GMT 2009");
    }

    #[test]
    fn days_and_dates_are_inverse() {
        for day in (-800_000..800_000).step_by(97) {
            let (year, month, date) = civil_date(day);
            assert_eq!(days_since_1970(year, month, date), day);
        }
        assert_eq!(date_line(951_782_400), "Tue Feb 29 00:00:00 GMT 2000");
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in ["", "Fri", "Fri Jul 3 19:45 GMT 2009", "Fri Jul 3 24:45:51 GMT 2009", "command SENDING"]
        {
            assert_eq!(parse_date_line(text), None, "{text}");
        }
    }
}
