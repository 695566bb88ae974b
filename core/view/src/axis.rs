//! Axes and colours of drawings, by what they mean.

use crate::cell::Cell;
use serde::Serialize;

/// What an axis measures. Durations and instants are nanoseconds, shares 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Quantity {
    /// A number without unit.
    #[default]
    Number,
    /// A number about one, of which thousandths matter: `1.042`.
    Ratio,
    /// Things.
    Count,
    /// A duration in nanoseconds.
    Duration,
    /// Time since the start in nanoseconds.
    Instant,
    /// A part of a whole, 0 to 1.
    Share,
    /// Bytes.
    Bytes,
}

impl Quantity {
    /// A value of this quantity.
    pub fn cell(self, value: f64) -> Cell {
        match self {
            Self::Number => Cell::Figure(value),
            Self::Ratio => Cell::Number { value, digits: 3 },
            Self::Count if value >= 0.0 && value.fract() == 0.0 => Cell::Count(value as u64),
            Self::Count => Cell::Figure(value),
            Self::Duration if value.fract() == 0.0 => Cell::Duration(value as i64),
            Self::Duration => Cell::FineDuration(value),
            Self::Instant => Cell::Instant(value as i64),
            Self::Share => Cell::Share(value),
            Self::Bytes => Cell::Bytes(value.max(0.0) as u64),
        }
    }
}

/// An axis of a drawing.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Axis {
    /// What it shows.
    pub label: String,
    /// Its unit.
    pub quantity: Quantity,
    /// Steps of equal ratio instead of equal difference. Values of zero or less lie at its end.
    pub log: bool,
    /// Both ends; none: what the values need.
    pub range: Option<(f64, f64)>,
    /// Names of the places 0, 1, 2 … instead of numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

impl Axis {
    /// An axis with steps of equal difference.
    pub fn linear(label: impl Into<String>, quantity: Quantity) -> Self {
        Self { label: label.into(), quantity, ..Self::default() }
    }

    /// An axis with steps of equal ratio.
    pub fn log(label: impl Into<String>, quantity: Quantity) -> Self {
        Self { log: true, ..Self::linear(label, quantity) }
    }

    /// Places side by side, each with a name: the first is at 0, the next at 1.
    pub fn named(label: impl Into<String>, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let range = Some((-0.5, names.len() as f64 - 0.5));
        Self { names, range, ..Self::linear(label, Quantity::Number) }
    }

    /// A value as words: the name of a named place, else the quantity.
    pub(crate) fn words(&self, value: f64) -> String {
        let name = || self.names.get(value as usize).filter(|_| value >= 0.0 && value.fract() == 0.0);
        name().map_or_else(|| self.quantity.cell(value).to_string(), String::clone)
    }

    /// Fixes both ends.
    #[must_use]
    pub fn range(mut self, from: f64, to: f64) -> Self {
        self.range = Some((from, to));
        self
    }
}

/// A colour by its meaning; the page chooses it for light and dark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// One of eight that people with any common colour blindness tell apart; further ones are grey.
    Series(u8),
    /// What is there anyway.
    Muted,
    /// Hardly to be seen: nothing happened.
    Faint,
    /// That of the text: what is not explained.
    Ink,
}

impl Colour {
    /// The colour of the cause of this rank, from zero; none: unexplained.
    pub fn of_cause(rank: Option<usize>) -> Self {
        rank.map_or(Self::Ink, |rank| Self::Series(u8::try_from(rank).unwrap_or(u8::MAX)))
    }

    /// Its variable in the page's style sheet.
    pub(crate) fn variable(self) -> &'static str {
        const SERIES: [&str; 8] = ["--c0", "--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7"];
        match self {
            Self::Series(at) => SERIES.get(usize::from(at)).copied().unwrap_or("--muted"),
            Self::Muted => "--muted",
            Self::Faint => "--faint",
            Self::Ink => "--ink",
        }
    }
}

impl Serialize for Colour {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.variable())
    }
}
