//! Quantities on the command line. Units are required: a bare number is refused, because 10 could be anything.

use std::time::Duration;

/// A positive duration such as `7.41us`, `20 ms` or `1m 30s`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let trimmed = text.trim();
    if trimmed.parse::<f64>().is_ok() {
        return Err(format!(
            "`{trimmed}` has no unit: write for example `{trimmed}us`, `{trimmed}ms` or `{trimmed}s`"
        ));
    }
    match humantime::parse_duration(trimmed) {
        Ok(duration) if duration.is_zero() => Err("must be longer than nothing".into()),
        Ok(duration) => Ok(duration),
        Err(error) => {
            Err(format!("`{trimmed}` is no duration ({error}): write for example `7.41us`, `20ms` or `10s`"))
        }
    }
}

/// A period of a stream, kept to the picosecond so that `7.4198us` is not rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// Picoseconds.
    pub picoseconds: u64,
}

impl Period {
    /// Shortest and longest period that a source accepts.
    const RANGE_PS: std::ops::RangeInclusive<u64> = 500_000..=10_000_000_000_000;

    /// A period of so many picoseconds, if a source can be asked for it.
    pub fn from_picoseconds(picoseconds: u64) -> Result<Self, String> {
        if Self::RANGE_PS.contains(&picoseconds) {
            Ok(Self { picoseconds })
        } else {
            Err(format!(
                "a packet each {} ns is out of reach: the period must lie between 500 ns and 10 s",
                picoseconds as f64 / 1e3
            ))
        }
    }

    /// Nanoseconds.
    pub fn ns(self) -> f64 {
        self.picoseconds as f64 / 1e3
    }
}

/// A period such as `7.41us`, `7.4198us` or `20ms`.
pub fn period(text: &str) -> Result<Period, String> {
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
    let (number, unit) = (&trimmed[..split], trimmed[split..].trim());
    let per_unit_ps = match unit {
        "ns" => 1e3,
        "us" | "µs" | "μs" => 1e6,
        "ms" => 1e9,
        "s" => 1e12,
        "" => {
            return Err(format!("`{trimmed}` has no unit: write for example `{trimmed}us` or `{trimmed}ms`"));
        }
        other => return Err(format!("unknown unit `{other}`: use ns, us, ms or s")),
    };
    let value: f64 =
        number.parse().map_err(|_| format!("`{trimmed}` is no period: write for example `7.41us`"))?;
    Period::from_picoseconds((value * per_unit_ps).round() as u64)
}

/// A rate: packets (`135kpps`) or user bits (`1.5Gbit/s`) a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Packets a second.
    Packets(f64),
    /// Bits of UDP payload a second.
    Bits(f64),
}

impl Rate {
    /// Period between packets of `payload_bytes`.
    pub fn period(self, payload_bytes: usize) -> Result<Period, String> {
        let packets = match self {
            Self::Packets(packets) => packets,
            Self::Bits(bits) => bits / (payload_bytes as f64 * 8.0),
        };
        Period::from_picoseconds((1e12 / packets).round() as u64)
    }
}

/// A rate such as `135000pps`, `135kpps`, `80Mbit/s` or `1.5Gbit/s`.
pub fn rate(text: &str) -> Result<Rate, String> {
    const EXAMPLES: &str = "write for example `135kpps` or `1.5Gbit/s`";
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
    let (number, unit) = (&trimmed[..split], trimmed[split..].trim());
    let value: f64 = number.parse().map_err(|_| format!("`{trimmed}` is no rate: {EXAMPLES}"))?;
    if value <= 0.0 {
        return Err("a rate must be more than nothing".into());
    }
    let (scale, rest) = match unit.chars().next() {
        Some('k') => (1e3, &unit[1..]),
        Some('M') => (1e6, &unit[1..]),
        Some('G') => (1e9, &unit[1..]),
        _ => (1.0, unit),
    };
    match rest {
        "pps" => Ok(Rate::Packets(value * scale)),
        "bit/s" | "bps" => Ok(Rate::Bits(value * scale)),
        "" => Err(format!("`{trimmed}` has no unit: {EXAMPLES}")),
        other => Err(format!("unknown unit `{other}`: {EXAMPLES}")),
    }
}

/// A list of CPUs such as `1`, `0,2` or `2-5,8`.
pub fn cpu_list(text: &str) -> Result<Vec<u16>, String> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let bad = || format!("`{part}` is no CPU or range of CPUs: write for example `1`, `0,2` or `2-5`");
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u16 = first.trim().parse().map_err(|_| bad())?;
        let last: u16 = last.trim().parse().map_err(|_| bad())?;
        if last < first || last - first >= 4096 {
            return Err(bad());
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_required() {
        assert!(duration("10").unwrap_err().contains("has no unit"));
        assert!(period("7.41").unwrap_err().contains("has no unit"));
        assert!(rate("135000").unwrap_err().contains("has no unit"));
        assert_eq!(duration("7.41us").unwrap(), Duration::from_nanos(7_410));
    }

    #[test]
    fn the_exact_period_of_the_standard_survives() {
        assert_eq!(period("7.4198us").unwrap().picoseconds, 7_419_800);
        assert_eq!(period("20 ms").unwrap().picoseconds, 20_000_000_000);
        assert!(period("3 fortnights").unwrap_err().contains("unknown unit"));
        assert!(period("1ns").unwrap_err().contains("out of reach"));
    }

    #[test]
    fn rates() {
        assert_eq!(rate("135kpps").unwrap(), Rate::Packets(135_000.0));
        assert_eq!(rate("1.5Gbit/s").unwrap(), Rate::Bits(1.5e9));
        assert_eq!(Rate::Bits(8e6).period(1000).unwrap().picoseconds, 1_000_000_000);
        assert!(rate("0pps").is_err());
        assert!(rate("9Gpps").unwrap().period(100).is_err(), "impossible rate");
    }

    #[test]
    fn cpu_lists() {
        assert_eq!(cpu_list("2-4,0,3").unwrap(), [0, 2, 3, 4]);
        assert!(cpu_list("4-2").is_err());
        assert!(cpu_list("x").is_err());
    }
}
