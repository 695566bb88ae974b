//! What another tool measured, in Quaver's units. Pure.

use quaver_analysis::compare::LEVELS;
use quaver_view::Unit;
use serde_json::{Map, Value, json};

/// A file of another tool.
#[derive(Clone, Debug, Default)]
pub struct Measurement {
    /// The tool: `rtla timerlat`.
    pub tool: &'static str,
    /// Its version, where the file states it.
    pub version: Option<String>,
    /// Its command line, where the file states it.
    pub command: Option<String>,
    /// When it started, in the file's words.
    pub started: Option<String>,
    /// What it measured, the quantity that matters most first.
    pub quantities: Vec<Quantity>,
    /// What it counted.
    pub counts: Vec<(&'static str, u64)>,
    /// What a reader must know, as sentences without a full stop.
    pub notes: Vec<String>,
}

/// A quantity of a file.
#[derive(Clone, Debug)]
pub struct Quantity {
    /// Identifier, the same in every file and run that has this quantity.
    pub id: &'static str,
    /// Its name in the glossary.
    pub name: &'static str,
    /// What the numbers count.
    pub unit: Unit,
    /// What the file has of its values.
    pub values: Values,
    /// The figures of all parts together, as far as the file states them.
    pub figures: Figures,
    /// The figures of each CPU, thread or stream.
    pub parts: Vec<(String, Figures)>,
}

/// Figures that a tool stated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Number of values.
    pub count: Option<u64>,
    /// The smallest value.
    pub min: Option<f64>,
    /// The mean.
    pub mean: Option<f64>,
    /// The largest value.
    pub max: Option<f64>,
}

impl Figures {
    /// Of all parts together. A figure that a part lacks is unknown of the whole.
    pub fn of_parts(parts: &[(String, Self)]) -> Self {
        let all =
            |of: fn(&Self) -> Option<f64>| parts.iter().map(|(_, part)| of(part)).collect::<Option<Vec<_>>>();
        let count = parts.iter().map(|(_, part)| part.count).try_fold(0u64, |sum, one| sum.checked_add(one?));
        let weighted = |(_, part): &(String, Self)| Some((part.mean?, part.count? as f64));
        let mean = parts.iter().map(weighted).collect::<Option<Vec<_>>>().and_then(|parts| {
            let weight: f64 = parts.iter().map(|(_, count)| count).sum();
            (weight > 0.0).then(|| parts.iter().map(|(mean, count)| mean * count).sum::<f64>() / weight)
        });
        Self {
            count: count.filter(|_| !parts.is_empty()),
            min: all(|part| part.min).and_then(|all| all.into_iter().reduce(f64::min)),
            mean,
            max: all(|part| part.max).and_then(|all| all.into_iter().reduce(f64::max)),
        }
    }

    /// Of values.
    pub fn of_values(values: &[f64]) -> Self {
        Self {
            count: Some(values.len() as u64),
            min: values.iter().copied().reduce(f64::min),
            mean: (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64),
            max: values.iter().copied().reduce(f64::max),
        }
    }
}

/// What a file has of a quantity's values.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Each of them, in their order of time.
    Samples(Vec<f64>),
    /// How many lie in each bin.
    Bins(Bins),
    /// Figures alone, and the median where it is stated.
    Stated(Option<f64>),
}

/// A histogram.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bins {
    /// Width of a bin, where it is known.
    pub width: Option<f64>,
    /// Lower ends and counts, ascending; empty bins may be left out.
    pub counts: Vec<(f64, u64)>,
    /// Number of values beyond the last bin.
    pub beyond: u64,
}

impl Bins {
    /// Number of values, those beyond the last bin included.
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).fold(self.beyond, |sum, one| sum.saturating_add(*one))
    }

    /// The lower end of the bin that holds the percentile: the smallest x with F(x) >= share (RFC 2330, section 11.3).
    /// None where it lies beyond the last bin, or where so few values cannot have it.
    pub fn percentile(&self, share: f64) -> Option<f64> {
        let rank = rank(self.total(), share)?;
        let mut below = 0u64;
        let holds = |(_, count): &&(f64, u64)| {
            below = below.saturating_add(*count);
            below >= rank
        };
        self.counts.iter().find(holds).map(|(lower, _)| *lower)
    }
}

/// The place of a percentile among values in ascending order, from 1; none of fewer values than can have it.
fn rank(count: u64, share: f64) -> Option<u64> {
    let count = count as f64;
    // Rounding must not ask for one value more.
    (count >= 1.0 && count * (1.0 - share) >= 1.0 - 1e-6)
        .then(|| (count * (share - 1e-12)).ceil().clamp(1.0, count) as u64)
}

impl Quantity {
    /// Durations of which the file has each value, in nanoseconds.
    pub fn samples(id: &'static str, name: &'static str, values_ns: Vec<f64>) -> Self {
        let figures = Figures::of_values(&values_ns);
        Self {
            id,
            name,
            unit: Unit::Duration,
            values: Values::Samples(values_ns),
            figures,
            parts: Vec::new(),
        }
    }

    /// Its percentiles at the levels that comparisons have, as far as the file gives them.
    pub fn percentiles(&self) -> [Option<f64>; LEVELS.len()] {
        let sorted = match &self.values {
            Values::Samples(values) => {
                let mut sorted = values.clone();
                sorted.sort_unstable_by(f64::total_cmp);
                sorted
            }
            _ => Vec::new(),
        };
        LEVELS.map(|(_, share)| match &self.values {
            Values::Samples(_) => sorted.get(rank(sorted.len() as u64, share)? as usize - 1).copied(),
            Values::Bins(bins) => bins.percentile(share),
            Values::Stated(median) => median.filter(|_| share == 0.5),
        })
    }

    /// As JSON. Durations end in `_ns`.
    fn json(&self) -> Value {
        let end = if self.unit == Unit::Duration { "_ns" } else { "" };
        let mut all = Map::from_iter([("name".to_owned(), json!(self.name))]);
        let mut put = |key: &str, value: Option<f64>| {
            all.insert(format!("{key}{end}"), json!(value));
        };
        put("min", self.figures.min);
        put("mean", self.figures.mean);
        for ((level, _), value) in LEVELS.iter().zip(self.percentiles()) {
            put(level, value);
        }
        put("max", self.figures.max);
        all.insert("count".into(), json!(self.figures.count));
        if let Values::Bins(bins) = &self.values {
            all.insert(format!("bin{end}"), json!(bins.width));
            all.insert("beyond_last_bin".into(), json!(bins.beyond));
        }
        let part = |(name, figures): &(String, Figures)| {
            let mut part =
                Map::from_iter([("part".to_owned(), json!(name)), ("count".into(), json!(figures.count))]);
            for (key, value) in [("min", figures.min), ("mean", figures.mean), ("max", figures.max)] {
                part.insert(format!("{key}{end}"), json!(value));
            }
            Value::Object(part)
        };
        all.insert("parts".into(), self.parts.iter().map(part).collect());
        Value::Object(all)
    }
}

impl Measurement {
    /// `quaver.peer/1`.
    pub fn json(&self, file: &str) -> Value {
        let quantities: Map<String, Value> =
            self.quantities.iter().map(|quantity| (quantity.id.to_owned(), quantity.json())).collect();
        let counts: Map<String, Value> =
            self.counts.iter().map(|(name, count)| ((*name).to_owned(), json!(count))).collect();
        json!({
            "schema": "quaver.peer/1",
            "file": file,
            "tool": self.tool,
            "version": self.version,
            "command": self.command,
            "started": self.started,
            "quantities": quantities,
            "counts": counts,
            "notes": self.notes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_beyond_the_last_bin_is_unknown() {
        let bins = Bins { width: Some(10.0), counts: vec![(0.0, 90), (10.0, 5)], beyond: 5 };
        assert_eq!(bins.total(), 100);
        assert_eq!(bins.percentile(0.5), Some(0.0));
        assert_eq!(bins.percentile(0.9), Some(0.0), "the 90th of 100 values");
        assert_eq!(bins.percentile(0.95), Some(10.0));
        assert_eq!(bins.percentile(0.99), None);
        assert_eq!(bins.percentile(0.999), None, "100 values have no such percentile");
        assert_eq!(Bins::default().percentile(0.5), None);
    }

    #[test]
    fn bins_of_single_values_have_the_percentiles_of_the_values() {
        let values: Vec<f64> = (0..2_000).map(f64::from).collect();
        let bins =
            Bins { width: Some(1.0), counts: values.iter().map(|value| (*value, 1)).collect(), beyond: 0 };
        let sampled = Quantity::samples("x", "x", values);
        let binned = Quantity { values: Values::Bins(bins), ..sampled.clone() };
        assert_eq!(sampled.percentiles(), binned.percentiles());
        assert_eq!(sampled.percentiles()[2], Some(1_979.0), "p99 of 2,000 values is the 1,980th");
    }

    #[test]
    fn what_one_part_lacks_is_unknown_of_the_whole() {
        let part = |count, mean| {
            ("".to_owned(), Figures { count: Some(count), min: Some(1.0), mean, max: Some(5.0) })
        };
        let whole = Figures::of_parts(&[part(1, Some(4.0)), part(3, Some(2.0))]);
        assert_eq!((whole.count, whole.mean, whole.max), (Some(4), Some(2.5), Some(5.0)));
        assert_eq!(Figures::of_parts(&[part(1, Some(4.0)), part(3, None)]).mean, None);
        assert_eq!(Figures::of_parts(&[]), Figures::default());
    }
}
