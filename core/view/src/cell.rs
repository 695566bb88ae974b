//! Quantities and how they are written: three significant digits and a unit that fits. Nothing else formats a number.

use crate::text::Text;
use std::fmt;

/// What is written where nothing is known or too little was sampled.
const MISSING: &str = "-";

/// A value of a table, a tile or a sentence. The renderers choose its unit, its digits and its alignment.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// No value, or too few samples for one: `-`.
    Missing,
    /// A value that exists and was not measured: `not known`.
    Unknown,
    /// Nothing to say here: an empty cell.
    Empty,
    /// Words.
    Text(Text),
    /// Words that lead to another page, in HTML.
    Link {
        /// The words.
        words: String,
        /// Path to the page from where this one lies.
        path: String,
    },
    /// Whole nanoseconds: `812 ns`, `7.41 µs`, `1.20 ms`, `-2.00 s`.
    Duration(i64),
    /// Nanoseconds with a fraction (a mean, a period): `12.3 ns`, `7.42 µs`.
    FineDuration(f64),
    /// Nanoseconds after the start of the run, to the microsecond: `3.217412 s`.
    Instant(i64),
    /// A number of things: `1,349,527`.
    Count(u64),
    /// A part of a whole, 0 to 1: `61.2 %`. What is not zero never reads as zero, what is not all never as all.
    Share(f64),
    /// So many a second, of what (`packets`): `134,953 packets/s`. Without a word the heading says what.
    Rate(f64, &'static str),
    /// So many in each million, thousand or second, as the heading says: `3.25`, `1,204`.
    Frequency(f64),
    /// Bytes: `812 B`, `1.50 kB`, `20.0 MB`.
    Bytes(u64),
    /// Bits a second: `64.0 bit/s`, `97.6 kbit/s`, `1.25 Gbit/s`.
    BitRate(f64),
    /// A number with the digits that matter: `0.50`, `12.30`, `1,204`, `< 0.01`.
    Figure(f64),
    /// A number with this many decimals.
    Number {
        /// The number.
        value: f64,
        /// Decimals.
        digits: u8,
    },
    /// A number that names something (a CPU, a rank, a process): no separators.
    Index(u64),
    /// The number of a packet: `#481203`.
    Sequence(u64),
    /// A difference of two quantities, always with its sign; of shares in percentage points: `+1.23 µs`, `-4.50 pp`.
    Difference(Box<Cell>),
    /// From a lower to an upper end: `372 ns to 455 ns`.
    Interval(Box<Cell>, Box<Cell>),
    /// Bars below each other for values from 0 to 1, drawn and not written; the first is the quiet one where there are two.
    Bars(Vec<f64>),
    /// Counts of neighbouring bins, a sign each as high as its part of the highest: `▁▃█ ▂`; blank where nothing is.
    Heights(Vec<u64>),
}

impl Cell {
    /// A difference of two quantities.
    pub fn difference(of: impl Into<Self>) -> Self {
        Self::Difference(Box::new(of.into()))
    }

    /// An interval.
    pub fn interval(low: impl Into<Self>, high: impl Into<Self>) -> Self {
        Self::Interval(Box::new(low.into()), Box::new(high.into()))
    }

    /// `part` of `whole`; missing where the whole is zero.
    pub fn part(part: u64, whole: u64) -> Self {
        if whole == 0 { Self::Missing } else { Self::Share(part as f64 / whole as f64) }
    }

    /// A count of things, with the word for one of them: `1 packet`, `2,311 packets`, `3 tries`.
    pub fn several(count: u64, of: &str) -> String {
        match of.strip_suffix("ry") {
            _ if count == 1 => format!("1 {of}"),
            Some(stem) => format!("{} {stem}ries", Self::Count(count)),
            None => format!("{} {of}s", Self::Count(count)),
        }
    }

    /// The cell where `known`, else [`Cell::Missing`].
    pub fn only_if(self, known: bool) -> Self {
        if known { self } else { Self::Missing }
    }

    /// A percentile where there are samples enough for it: beyond it lies 1 in `one_in`. With fewer samples the
    /// "percentile" is the maximum under another name, and the cell is missing.
    pub fn percentile(ns: i64, samples: u64, one_in: u64) -> Self {
        Self::Duration(ns).only_if(samples >= one_in)
    }

    /// Whether it is a number, which stands at the right edge of its column; none where it may stand at either.
    pub(crate) fn numeric(&self) -> Option<bool> {
        match self {
            Self::Missing | Self::Unknown | Self::Empty => None,
            Self::Text(_) | Self::Link { .. } | Self::Bars(_) | Self::Heights(_) => Some(false),
            _ => Some(true),
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&written(self))
    }
}

fn written(cell: &Cell) -> String {
    match cell {
        Cell::Missing => MISSING.to_owned(),
        Cell::Unknown => "not known".to_owned(),
        Cell::Empty | Cell::Bars(_) => String::new(),
        Cell::Text(text) => text.to_string(),
        Cell::Link { words, .. } => words.clone(),
        Cell::Heights(counts) => heights(counts, "▁▂▃▄▅▆▇█"),
        Cell::Duration(ns) => duration(*ns),
        Cell::FineDuration(ns) => fine_duration(*ns),
        Cell::Instant(ns) => format!("{:.6} s", *ns as f64 / 1e9),
        Cell::Count(value) => count(*value),
        Cell::Share(share) => percent(*share),
        Cell::Rate(value, of) => rate(*value, of),
        Cell::Frequency(value) => frequency(*value),
        Cell::Bytes(bytes) => self::bytes(*bytes),
        Cell::BitRate(value) => bit_rate(*value),
        Cell::Figure(value) => figure(*value),
        Cell::Number { value, digits } => number(*value, usize::from(*digits)),
        Cell::Index(value) => value.to_string(),
        Cell::Sequence(value) => format!("#{value}"),
        Cell::Difference(of) => difference(of),
        Cell::Interval(low, high) => match (written(low), written(high)) {
            (low, high) if low == MISSING && high == MISSING => low,
            (low, high) => format!("{low} to {high}"),
        },
    }
}

fn duration(ns: i64) -> String {
    let size = ns.unsigned_abs();
    let sign = if ns < 0 { "-" } else { "" };
    // No clock here resolves less than a nanosecond.
    if size < 1_000 {
        return format!("{sign}{size} ns");
    }
    let steps = [(1e3, "µs"), (1e6, "ms"), (1e9, "s")];
    let (size, unit) = scaled(size as f64, &steps);
    format!("{sign}{} {unit}", three_digits(size))
}

/// In the largest unit of which three digits do not round to 1000 of the next smaller one.
fn scaled(size: f64, steps: &[(f64, &'static str)]) -> (f64, &'static str) {
    let at = steps.iter().rposition(|(each, _)| size >= each * 0.9995).unwrap_or(0);
    (size / steps[at].0, steps[at].1)
}

fn fine_duration(ns: f64) -> String {
    if !ns.is_finite() {
        return MISSING.to_owned();
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

/// An integer with a comma between groups of three digits.
fn count(value: u64) -> String {
    grouped(&value.to_string())
}

fn grouped(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn percent(share: f64) -> String {
    let per_cent = share * 100.0;
    if !per_cent.is_finite() {
        MISSING.to_owned()
    } else if per_cent > 0.0 && per_cent < 0.01 {
        "< 0.01 %".to_owned()
    } else if per_cent < 0.0 {
        match percent(-share) {
            bound if bound.starts_with('<') => format!("> -{}", &bound[2..]),
            bound if bound.starts_with('>') => format!("< -{}", &bound[2..]),
            size => format!("-{size}"),
        }
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

fn rate(per_second: f64, of: &str) -> String {
    let written = match per_second {
        value if !value.is_finite() => return MISSING.to_owned(),
        value if value >= 10.0 => count(value.round() as u64),
        value => format!("{value:.2}"),
    };
    if of.is_empty() { written } else { format!("{written} {of}/s") }
}

fn frequency(value: f64) -> String {
    match value {
        value if !value.is_finite() => MISSING.to_owned(),
        value if value > 0.0 && value < 10.0 => format!("{value:.2}"),
        value => count(value.round() as u64),
    }
}

fn bytes(bytes: u64) -> String {
    if bytes < 1_000 {
        return format!("{bytes} B");
    }
    let (size, unit) = scaled(bytes as f64, &[(1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB")]);
    format!("{} {unit}", three_digits(size))
}

fn bit_rate(per_second: f64) -> String {
    if !per_second.is_finite() {
        return MISSING.to_owned();
    }
    let steps = [(1.0, "bit/s"), (1e3, "kbit/s"), (1e6, "Mbit/s"), (1e9, "Gbit/s"), (1e12, "Tbit/s")];
    let (size, unit) = scaled(per_second, &steps);
    format!("{} {unit}", three_digits(size))
}

fn figure(value: f64) -> String {
    match value {
        value if !value.is_finite() => MISSING.to_owned(),
        0.0 => "0".to_owned(),
        value if value > 0.0 && value < 0.005 => "< 0.01".to_owned(),
        value if value.abs() < 99.95 => format!("{value:.2}"),
        value => number(value, 0),
    }
}

fn number(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return MISSING.to_owned();
    }
    let text = format!("{:.digits$}", value.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    // What rounds to zero has no sign.
    let negative = value < 0.0 && text.bytes().any(|digit| (b'1'..=b'9').contains(&digit));
    format!("{}{}{rest}", if negative { "-" } else { "" }, grouped(whole))
}

fn difference(of: &Cell) -> String {
    if let Cell::Share(share) = of {
        return if share.is_finite() { format!("{:+.2} pp", share * 100.0) } else { MISSING.to_owned() };
    }
    let text = written(of);
    if text.starts_with('-') || text.starts_with('<') { text } else { format!("+{text}") }
}

/// A bar of `width` characters that shows a share (0 to 1) in eighths of a character. What is not zero is seen.
pub fn bar(share: f64, width: usize, ascii: bool) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let share = share.clamp(0.0, 1.0);
    if ascii {
        let filled = (share * width as f64).round() as usize;
        return "#".repeat(if share > 0.0 { filled.max(1) } else { 0 });
    }
    let eighths = (share * width as f64 * 8.0).round() as usize;
    let eighths = if share > 0.0 { eighths.max(1) } else { eighths };
    let mut out: String = std::iter::repeat_n('█', eighths / 8).collect();
    if !eighths.is_multiple_of(8) {
        out.push(EIGHTHS[eighths % 8]);
    }
    out
}

/// A sign of `signs`, lowest first, for each count.
pub(crate) fn heights(counts: &[u64], signs: &str) -> String {
    let signs: Vec<char> = signs.chars().collect();
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let sign = |count: &u64| match *count {
        0 => ' ',
        count => signs[(u128::from(count) * signs.len() as u128).div_ceil(u128::from(most)) as usize - 1],
    };
    counts.iter().map(sign).collect()
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<Text> for Cell {
    fn from(text: Text) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    /// None is [`Cell::Missing`].
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, Into::into)
    }
}

#[cfg(test)]
#[path = "cell_tests.rs"]
mod tests;
