//! Families of metrics, before they are written in one form or the other.

use crate::histogram::{BOUNDS_US, Exemplar, Histogram, Powers};
use std::collections::BTreeMap;

/// What the samples of a family are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A count that never falls while the program runs.
    Counter,
    /// A level.
    Gauge,
    /// Times by length.
    Histogram,
}

/// Names and values, in the order in which they are written.
pub type Labels = Vec<(&'static str, String)>;

/// A family of metrics.
#[derive(Clone, Debug)]
pub struct Family {
    /// Without the `_total` of counters.
    pub name: String,
    /// What its samples are.
    pub kind: Kind,
    /// Empty where it has none.
    pub unit: &'static str,
    /// A sentence.
    pub help: &'static str,
    /// One for each combination of labels.
    pub samples: Vec<Sample>,
}

/// What is said of one combination of labels.
#[derive(Clone, Debug)]
pub struct Sample {
    /// None where the family has a single sample.
    pub labels: Labels,
    /// What is said.
    pub value: Value,
}

/// What is said of a combination of labels.
#[derive(Clone, Debug)]
pub enum Value {
    /// A count or a level, with an incident where one is an example of it.
    Number(f64, Option<Example>),
    /// Times by length.
    Times(Buckets),
}

/// An incident behind a sample, with a value that the sample counts ("exemplars" of OpenMetrics).
#[derive(Clone, Debug)]
pub struct Example {
    /// Name of its run.
    pub incident: String,
    /// In the unit of the family.
    pub value: f64,
    /// When it was, UTC nanoseconds.
    pub realtime_ns: i64,
}

impl Example {
    fn of(Exemplar { incident, realtime_ns }: &Exemplar, value: f64) -> Self {
        Self { incident: incident.clone(), value, realtime_ns: *realtime_ns }
    }
}

/// Times by length.
#[derive(Clone, Debug)]
pub struct Buckets {
    /// Upper bounds, in order.
    pub bounds_ns: Vec<u64>,
    /// One more than there are bounds: the last one is above all.
    pub counts: Vec<u64>,
    /// By the number of their bucket.
    pub examples: BTreeMap<usize, Example>,
    /// All times together.
    pub sum_ns: u64,
    /// The same times between powers of two of a second.
    pub powers: Powers,
}

impl From<&Histogram> for Buckets {
    fn from(histogram: &Histogram) -> Self {
        let examples = histogram.exemplars.iter();
        Self {
            bounds_ns: BOUNDS_US.iter().map(|us| us * 1_000).collect(),
            counts: histogram.in_text().to_vec(),
            examples: examples
                .map(|(bucket, (ns, exemplar))| (*bucket, Example::of(exemplar, seconds(*ns))))
                .collect(),
            sum_ns: histogram.sum_ns,
            powers: histogram.by_powers(),
        }
    }
}

impl Family {
    /// One without samples.
    pub fn new(name: impl Into<String>, kind: Kind, unit: &'static str, help: &'static str) -> Self {
        Self { name: name.into(), kind, unit, help, samples: Vec::new() }
    }

    /// One of a single number without labels.
    pub fn one((name, unit): (&str, &'static str), kind: Kind, help: &'static str, value: f64) -> Self {
        let mut family = Self::new(name, kind, unit, help);
        family.number(Vec::new(), value);
        family
    }

    /// Adds a count or a level.
    pub fn number(&mut self, labels: Labels, value: f64) {
        self.samples.push(Sample { labels, value: Value::Number(value, None) });
    }

    /// Adds times by length.
    pub fn times(&mut self, labels: Labels, times: impl Into<Buckets>) {
        self.samples.push(Sample { labels, value: Value::Times(times.into()) });
    }

    /// The same with a label more.
    pub fn with(mut labels: Labels, name: &'static str, value: impl ToString) -> Labels {
        labels.push((name, value.to_string()));
        labels
    }
}

/// What the samples of a family are of, by the value of their label.
pub struct Rows<'a, T> {
    /// Name of the label.
    pub label: &'static str,
    /// By the value of the label.
    pub states: &'a BTreeMap<String, T>,
}

impl<T> Rows<'_, T> {
    /// A level of each.
    pub fn gauge(
        &self,
        (name, unit): (&str, &'static str),
        help: &'static str,
        value: impl Fn(&T) -> f64,
    ) -> Family {
        let mut family = Family::new(name, Kind::Gauge, unit, help);
        self.each().for_each(|(labels, state)| family.number(labels, value(state)));
        family
    }

    /// A count of each.
    pub fn counter(&self, name: &str, help: &'static str, count: impl Fn(&T) -> u64) -> Family {
        let mut family = Family::new(name, Kind::Counter, "", help);
        self.each().for_each(|(labels, state)| family.number(labels, count(state) as f64));
        family
    }

    /// A counter by cause.
    pub fn by_cause(
        &self,
        (name, unit): (&str, &'static str),
        help: &'static str,
        which: impl Fn(&T) -> &BTreeMap<String, u64>,
    ) -> Family {
        let mut family = Family::new(name, Kind::Counter, unit, help);
        for (labels, state) in self.each() {
            for (cause, value) in which(state) {
                let value = if unit == "seconds" { seconds(*value) } else { *value as f64 };
                family.number(Family::with(labels.clone(), "cause", cause), value);
            }
        }
        family
    }

    /// A counter of incidents by cause, with the latest of each.
    pub fn incidents(
        &self,
        name: &str,
        help: &'static str,
        which: impl Fn(&T) -> (&BTreeMap<String, u64>, &BTreeMap<String, Exemplar>),
    ) -> Family {
        let mut family = Family::new(name, Kind::Counter, "", help);
        for (labels, state) in self.each() {
            let (counts, exemplars) = which(state);
            for (cause, count) in counts {
                let example = exemplars.get(cause).map(|exemplar| Example::of(exemplar, 1.0));
                let labels = Family::with(labels.clone(), "cause", cause);
                family.samples.push(Sample { labels, value: Value::Number(*count as f64, example) });
            }
        }
        family
    }

    /// Label and state of each row: `receiver="studio"`.
    pub fn each(&self) -> impl Iterator<Item = (Labels, &T)> {
        self.states.iter().map(|(name, state)| (vec![(self.label, name.clone())], state))
    }
}

/// Nanoseconds as the seconds that Prometheus wants.
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
