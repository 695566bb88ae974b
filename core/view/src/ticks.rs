//! Scales of axes: where a value lies, where lines are drawn, and what is written there.

use crate::axis::{Axis, Quantity};

/// Steps between lines are these, times a power of ten.
const STEPS: [f64; 4] = [1.0, 2.0, 5.0, 10.0];

/// Values beyond are no measurement, and no axis has room for them.
const LIMIT: f64 = 1e100;

/// An axis with both ends known.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) log: bool,
    quantity: Quantity,
    names: Vec<String>,
}

impl Scale {
    /// The axis over these values, or over its own range. `room` is the part of the span that is left free above.
    pub(crate) fn over(axis: &Axis, values: impl Iterator<Item = f64>, room: f64) -> Self {
        let ends = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
        let known = values.filter(|value| value.abs() < LIMIT && (!axis.log || *value > 1.0 / LIMIT));
        let (low, high) = known.fold((f64::INFINITY, f64::NEG_INFINITY), ends);
        let (from, to) = match axis.range {
            Some(range) => range,
            None if low > high => (if axis.log { 1.0 } else { 0.0 }, if axis.log { 10.0 } else { 1.0 }),
            None if axis.log => {
                let factor = (high / low).max(2.0).powf(room);
                (low / factor.min(1.5), high * factor)
            }
            None if low == high => (low.min(0.0), if high > 0.0 { high * (1.0 + room) } else { low + 1.0 }),
            None => {
                // Values that are not far from zero are seen beside it.
                let low = if room > 0.0 && low > 0.0 && low < high / 2.0 { 0.0 } else { low };
                let free = (high - low) * room;
                (if low < 0.0 { low - free } else { low }, high + free)
            }
        };
        let to = if to > from { to } else { from + 1.0 };
        Self { from, to, log: axis.log, quantity: axis.quantity, names: axis.names.clone() }
    }

    /// The same axis from zero on, where all values are above and none is far from it.
    pub(crate) fn with_zero(self) -> Self {
        if self.log { self } else { Self { from: self.from.min(0.0), to: self.to.max(0.0), ..self } }
    }

    /// Where a value lies: 0 at the lower end, 1 at the upper. Values beyond lie at the ends, gaps are none.
    pub(crate) fn at(&self, value: f64) -> Option<f64> {
        let share = if self.log {
            (value.max(f64::MIN_POSITIVE) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        (!value.is_nan() && !share.is_nan()).then(|| share.clamp(0.0, 1.0))
    }

    /// Whether a value lies between both ends.
    pub(crate) fn holds(&self, value: f64) -> bool {
        value >= self.from && value <= self.to
    }

    /// The same axis with room for so many rows of instants at its foot.
    pub(crate) fn with_rows(self, rows: usize) -> Self {
        let room =
            if self.log || rows == 0 { 0.0 } else { (self.to - self.from) * 0.042 * (rows as f64 + 0.5) };
        Self { from: self.from - room, ..self }
    }

    /// Where lines are drawn, at most about `most` of them, and what is written there.
    pub(crate) fn ticks(&self, most: usize) -> Vec<(f64, String)> {
        if !self.names.is_empty() {
            return self.names.iter().enumerate().map(|(at, name)| (at as f64, name.clone())).collect();
        }
        let values = if self.log {
            log_ticks(self.from, self.to, most)
        } else {
            linear_ticks(self.from, self.to, most)
        };
        let step = match values.as_slice() {
            [first, second, ..] => second - first,
            _ => self.to - self.from,
        };
        values.into_iter().map(|value| (value, tick(self.quantity, value, step))).collect()
    }
}

/// A round number of which at most `most` make `span`.
fn round_step(span: f64, most: usize) -> f64 {
    let rough = (span / most.max(1) as f64).max(f64::MIN_POSITIVE);
    let power = 10_f64.powf(rough.log10().floor());
    STEPS.iter().map(|step| step * power).find(|step| *step >= rough * 0.999_999).unwrap_or(power * 10.0)
}

fn linear_ticks(from: f64, to: f64, most: usize) -> Vec<f64> {
    let step = round_step(to - from, most);
    let first = (from / step - 1e-9).ceil() as i64;
    let last = (to / step + 1e-9).floor() as i64;
    // Multiples of an integer have no error that adds up.
    (first..=last.min(first + 100)).map(|at| at as f64 * step).collect()
}

/// Powers of ten; 2 and 5 times these where there are few, every second or third where there are many.
fn log_ticks(from: f64, to: f64, most: usize) -> Vec<f64> {
    let (low, high) = (from.log10().floor() as i32, to.log10().ceil() as i32);
    let within = |value: &f64| *value >= from * 0.999_999 && *value <= to * 1.000_001;
    let all = |steps: &[f64], skip: usize| -> Vec<f64> {
        let powers =
            (low..=high).filter(|power| power.rem_euclid(skip as i32) == 0).map(|power| 10_f64.powi(power));
        powers.flat_map(|power| steps.iter().map(move |step| step * power)).filter(within).collect()
    };
    for steps in [&[1.0, 2.0, 5.0][..], &[1.0, 3.0]] {
        let found = all(steps, 1);
        if found.len() <= most {
            return if found.len() < 2 { linear_ticks(from, to, most.min(4)) } else { found };
        }
    }
    (1..).map(|skip| all(&[1.0], skip)).find(|found| found.len() <= most.max(1)).unwrap_or_default()
}

/// A value as an axis has it: short, without trailing zeros.
fn tick(quantity: Quantity, value: f64, step: f64) -> String {
    match quantity {
        Quantity::Duration => in_units(value, &[(1e9, " s"), (1e6, " ms"), (1e3, " µs"), (1.0, " ns")]),
        Quantity::Instant => {
            let places = (-(step / 1e9).log10()).ceil().clamp(0.0, 9.0) as usize;
            format!("{:.places$} s", value / 1e9)
        }
        Quantity::Share => format!("{} %", plain(value * 100.0, 3)),
        Quantity::Count => in_units(value, &[(1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")]),
        Quantity::Bytes => in_units(value, &[(1e9, " GB"), (1e6, " MB"), (1e3, " kB"), (1.0, " B")]),
        Quantity::Number | Quantity::Ratio => plain(value, 6),
    }
}

fn in_units(value: f64, units: &[(f64, &str)]) -> String {
    let (size, unit) =
        units.iter().find(|(size, _)| value.abs() >= size * 0.9999).unwrap_or(&units[units.len() - 1]);
    let unit = if value == 0.0 && unit.len() < 2 { "" } else { unit };
    format!("{}{unit}", plain(value / size, 6))
}

/// A number with this many significant digits at most.
fn plain(value: f64, digits: i32) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let places = (digits - 1 - value.abs().log10().floor() as i32).clamp(0, 12) as usize;
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(axis: Axis, most: usize) -> Vec<String> {
        Scale::over(&axis, std::iter::empty(), 0.0).ticks(most).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn lines_stand_at_round_values() {
        let linear = |from, to, quantity, most| written(Axis::linear("", quantity).range(from, to), most);
        assert_eq!(linear(0.0, 10e9, Quantity::Instant, 6), ["0 s", "2 s", "4 s", "6 s", "8 s", "10 s"]);
        assert_eq!(
            linear(1.0e9, 1.02e9, Quantity::Instant, 5),
            ["1.000 s", "1.005 s", "1.010 s", "1.015 s", "1.020 s"]
        );
        assert_eq!(
            linear(-500.0, 1_500.0, Quantity::Duration, 5),
            ["-500 ns", "0 ns", "500 ns", "1 µs", "1.5 µs"]
        );
        assert_eq!(linear(0.0, 1.0, Quantity::Share, 5), ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]);
        assert_eq!(linear(0.0, 12_000.0, Quantity::Count, 4), ["0", "5 k", "10 k"]);
        assert_eq!(linear(0.0, 0.6, Quantity::Number, 3), ["0", "0.2", "0.4", "0.6"]);
    }

    #[test]
    fn lines_of_equal_ratio() {
        let log = |from, to, quantity, most| written(Axis::log("", quantity).range(from, to), most);
        assert_eq!(
            log(900.0, 110_000.0, Quantity::Duration, 8),
            ["1 µs", "2 µs", "5 µs", "10 µs", "20 µs", "50 µs", "100 µs"]
        );
        assert_eq!(log(1.0, 1e6, Quantity::Count, 8), ["1", "10", "100", "1 k", "10 k", "100 k", "1 M"]);
        assert_eq!(log(1e-6, 1.0, Quantity::Share, 4), ["0.0001 %", "0.01 %", "1 %", "100 %"]);
        assert_eq!(log(3.2e3, 4.1e3, Quantity::Duration, 6), ["3.5 µs", "4 µs"]);
    }

    #[test]
    fn names_stand_side_by_side() {
        let names = written(Axis::named("trace", ["lu", "ocean"]), 1);
        assert_eq!(names, ["lu", "ocean"]);
    }

    #[test]
    fn values_have_places_whatever_they_are() {
        let scale =
            Scale::over(&Axis::log("", Quantity::Count), [1.0, 0.0, 100.0, f64::NAN].into_iter(), 0.0);
        assert_eq!((scale.from, scale.to), (1.0, 100.0));
        assert_eq!(scale.at(10.0).map(|at| (at * 1e6).round()), Some(5e5));
        assert_eq!((scale.at(0.0), scale.at(1e9), scale.at(f64::NAN)), (Some(0.0), Some(1.0), None));
        let one = Scale::over(&Axis::linear("", Quantity::Count), [5.0].into_iter(), 0.05);
        assert!(one.to > one.from && one.ticks(5).len() >= 2, "{one:?}");
        let none = Scale::over(&Axis::linear("", Quantity::Count), std::iter::empty(), 0.05);
        assert_eq!((none.from, none.to), (0.0, 1.0));
    }
}
