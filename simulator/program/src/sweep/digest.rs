//! What a sweep came to: its points with their figures, and points that differ by their seeds alone taken together.

use quaver_view::Cell;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// Schema of the summary.
pub const SCHEMA: &str = "quaver.sim.sweep/1";

/// What a sweep says. Nothing in it depends on how, where or when its points were simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepSummary {
    /// [`SCHEMA`].
    pub schema: String,
    /// All points are there.
    pub complete: bool,
    /// Name of the sweep.
    pub name: String,
    /// All its points and their names, in 16 hexadecimal digits.
    pub id: String,
    /// Version of the program that simulated the points.
    pub version: String,
    /// What was simulated.
    pub traces: Vec<String>,
    /// What was varied.
    pub axes: Vec<SweepAxis>,
    /// What a slow-down is against: `same-cache`, `unified` or `none`.
    pub ideal: String,
    /// Points that are missing.
    pub missing: usize,
    /// Points that are there, in the order of the plan.
    pub points: Vec<SweepRow>,
    /// What to know before believing the numbers.
    pub warnings: Vec<String>,
}

/// What was varied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepAxis {
    /// Its name.
    pub name: String,
    /// Its values, in the order of the plan.
    pub values: Vec<Label>,
}

/// How a value of an axis is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Label {
    /// A whole number.
    Integer(i64),
    /// Any number.
    Float(f64),
    /// A name.
    Text(String),
}

impl Label {
    /// As a number, where it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(number) => Some(*number as f64),
            Self::Float(number) => Some(*number),
            Self::Text(_) => None,
        }
    }

    /// As a cell of a table: words where it is one of them.
    pub(super) fn cell(&self) -> Cell {
        match self {
            Self::Integer(number) if *number >= 0 => Cell::Index(number.unsigned_abs()),
            other => other.to_string().into(),
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => write!(f, "{number}"),
            Self::Float(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// A point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepRow {
    /// Its place in the plan, from 0.
    pub point: usize,
    /// What it is, in 16 hexadecimal digits.
    pub id: String,
    /// Which trace, from 0.
    pub trace: usize,
    /// Which value of each axis, from 0.
    pub values: Vec<usize>,
    /// Seed of what was injected.
    pub seed: Option<u64>,
    /// Its figures.
    pub figures: Map<String, Value>,
}

/// Points that differ by their seeds alone.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepGroup<'a> {
    /// Which trace.
    pub trace: usize,
    /// Which value of each axis.
    pub values: &'a [usize],
    rows: Vec<&'a SweepRow>,
}

/// Least, mean and largest over the seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeedSpread {
    /// Least.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Largest.
    pub max: f64,
}

impl SweepGroup<'_> {
    /// How many seeds there are.
    pub fn seeds(&self) -> usize {
        self.rows.len()
    }

    /// A figure over the seeds; none where a point has none.
    pub fn spread(&self, figure: &str) -> Option<SeedSpread> {
        let values: Option<Vec<f64>> =
            self.rows.iter().map(|row| row.figures.get(figure).and_then(Value::as_f64)).collect();
        let values = values.filter(|values| !values.is_empty())?;
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(SeedSpread { min, mean, max })
    }
}

impl SweepSummary {
    /// The points by trace and values, in the order of the plan.
    pub fn groups(&self) -> Vec<SweepGroup<'_>> {
        let mut groups: Vec<SweepGroup<'_>> = Vec::new();
        for row in &self.points {
            match groups.last_mut() {
                Some(last) if last.trace == row.trace && last.values == row.values => last.rows.push(row),
                _ => groups.push(SweepGroup { trace: row.trace, values: &row.values, rows: vec![row] }),
            }
        }
        groups
    }

    /// Whether rows name what there is, so that a damaged file cannot lead drawings astray.
    pub(super) fn is_whole(&self) -> bool {
        self.points.iter().all(|row| {
            let known = |(value, axis): (&usize, &SweepAxis)| *value < axis.values.len();
            row.trace < self.traces.len()
                && row.values.len() == self.axes.len()
                && row.values.iter().zip(&self.axes).all(known)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_that_differ_by_their_seeds_are_taken_together() {
        let row = |point: usize, value: usize, seed: u64, cpi: f64| SweepRow {
            point,
            id: format!("{point:016x}"),
            trace: 0,
            values: vec![value],
            seed: Some(seed),
            figures: Map::from_iter([("cpi".to_owned(), Value::from(cpi))]),
        };
        let mut summary = SweepSummary {
            schema: SCHEMA.to_owned(),
            complete: true,
            name: "s".to_owned(),
            id: "0".to_owned(),
            version: "0".to_owned(),
            traces: vec!["t".to_owned()],
            axes: vec![SweepAxis {
                name: "a".to_owned(),
                values: vec![Label::Integer(1), Label::Float(0.5)],
            }],
            ideal: "none".to_owned(),
            missing: 0,
            points: vec![row(0, 0, 1, 1.0), row(1, 0, 2, 4.0), row(2, 1, 1, 9.0)],
            warnings: Vec::new(),
        };
        let groups = summary.groups();
        assert_eq!(groups.iter().map(SweepGroup::seeds).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(groups[0].spread("cpi"), Some(SeedSpread { min: 1.0, mean: 2.5, max: 4.0 }));
        assert_eq!(groups[0].spread("power"), None);
        assert_eq!([0, 1].map(|at| summary.axes[0].values[at].cell()), [Cell::Index(1), "0.5".into()]);
        assert!(summary.is_whole());
        let text = serde_json::to_string(&summary).unwrap();
        assert_eq!(serde_json::from_str::<SweepSummary>(&text).unwrap(), summary);
        summary.points[0].values[0] = 7;
        assert!(!summary.is_whole());
    }
}
