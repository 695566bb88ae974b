//! What a number of a result counts, and how it is shown.

use crate::cell::Cell;

/// What a figure's number counts. Durations are nanoseconds, shares 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Nanoseconds.
    Duration,
    /// A part of a whole, 0 to 1.
    Share,
    /// So many a second.
    Rate,
    /// Bytes.
    Bytes,
    /// A number without unit.
    Number,
}

impl Unit {
    /// A value of this unit.
    pub fn cell(self, value: f64) -> Cell {
        match self {
            Self::Count if value >= 0.0 && value.fract() == 0.0 => Cell::Count(value as u64),
            Self::Count | Self::Number => Cell::Figure(value),
            Self::Duration => Cell::FineDuration(value),
            Self::Share => Cell::Share(value),
            Self::Rate => Cell::Rate(value, ""),
            Self::Bytes => Cell::Bytes(value.max(0.0) as u64),
        }
    }
}
