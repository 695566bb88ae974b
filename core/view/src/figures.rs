//! The figures of a result by identifier: what `--fail-if`, comparisons, lists of runs and schemas refer to.

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

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// A smaller number.
    Lower,
    /// A larger number.
    Higher,
    /// Neither: it describes.
    Neither,
}

/// A number of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Identifier: `lateness.packets`, `layers.receive.delta_t.p99_ns`.
    pub id: String,
    /// The number; none where nothing was measured.
    pub value: Option<f64>,
    /// What it counts.
    pub unit: Unit,
    /// Which way is better.
    pub better: Better,
    /// What it means, in a sentence.
    pub meaning: &'static str,
    /// Where that is defined: a standard, a paper, a section of the methodology.
    pub source: &'static str,
    /// What it should not pass, where something says so.
    pub bound: Option<f64>,
}

impl Figure {
    /// The value as it is shown.
    pub fn cell(&self) -> Cell {
        self.value.map(|value| self.unit.cell(value)).into()
    }

    /// Whether the value is on the worse side of its bound; none without value, bound or better side.
    pub fn passes_bound(&self) -> Option<bool> {
        let (value, bound) = (self.value?, self.bound?);
        match self.better {
            Better::Lower => Some(value > bound),
            Better::Higher => Some(value < bound),
            Better::Neither => None,
        }
    }
}

/// The figures of a result, in reading order. Identifiers are unique.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures(Vec<Figure>);

impl Figures {
    /// Adds a figure.
    ///
    /// # Panics
    ///
    /// In debug builds where the identifier is taken.
    pub fn push(&mut self, figure: Figure) -> &mut Self {
        debug_assert!(self.get(&figure.id).is_none(), "two figures are called {}", figure.id);
        self.0.push(figure);
        self
    }

    /// The figure of this identifier.
    pub fn get(&self, id: &str) -> Option<&Figure> {
        self.0.iter().find(|figure| figure.id == id)
    }

    /// All of them.
    pub fn iter(&self) -> std::slice::Iter<'_, Figure> {
        self.0.iter()
    }

    /// Identifiers that begin with the same steps as `id`, for the message that it does not exist; all where none does.
    pub fn near(&self, id: &str) -> Vec<&str> {
        let steps: Vec<&str> = id.split('.').collect();
        for known in (0..steps.len()).rev() {
            let start: String = steps[..known].iter().map(|step| format!("{step}.")).collect();
            let found: Vec<&str> =
                self.0.iter().map(|figure| figure.id.as_str()).filter(|id| id.starts_with(&start)).collect();
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }
}

impl<'a> IntoIterator for &'a Figures {
    type Item = &'a Figure;
    type IntoIter = std::slice::Iter<'a, Figure>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl FromIterator<Figure> for Figures {
    fn from_iter<I: IntoIterator<Item = Figure>>(figures: I) -> Self {
        let mut all = Self::default();
        figures.into_iter().for_each(|figure| {
            all.push(figure);
        });
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(id: &str, value: Option<f64>, better: Better) -> Figure {
        let (meaning, source) =
            ("Packets more than the threshold later than usual.", "methodology, lateness");
        Figure { id: id.into(), value, unit: Unit::Count, better, meaning, source, bound: Some(100.0) }
    }

    #[test]
    fn figures_are_found_by_identifier() {
        let all: Figures =
            [("lateness.packets", Some(2_311.0)), ("lateness.share", None), ("losses.ours", Some(0.0))]
                .into_iter()
                .map(|(id, value)| figure(id, value, Better::Lower))
                .collect();
        assert_eq!(
            all.get("lateness.packets").map(|found| found.cell().to_string()).as_deref(),
            Some("2,311")
        );
        assert_eq!(all.get("lateness.share").map(|found| found.cell().to_string()).as_deref(), Some("-"));
        assert_eq!(all.get("lateness"), None);
        assert_eq!(all.near("lateness.packet"), ["lateness.packets", "lateness.share"]);
        assert_eq!(all.near("elsewhere").len(), 3);
    }

    #[test]
    fn bounds_are_passed_on_the_worse_side() {
        assert_eq!(figure("a", Some(101.0), Better::Lower).passes_bound(), Some(true));
        assert_eq!(figure("a", Some(100.0), Better::Lower).passes_bound(), Some(false));
        assert_eq!(figure("a", Some(99.0), Better::Higher).passes_bound(), Some(true));
        assert_eq!(figure("a", Some(101.0), Better::Neither).passes_bound(), None);
        assert_eq!(figure("a", None, Better::Lower).passes_bound(), None);
    }
}
