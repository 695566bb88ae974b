//! Families of metrics, before they are written in one form or the other.

use crate::cpus::Times;
use crate::histogram::{BOUNDS_US, Exemplar, Histogram, Powers};
use std::collections::BTreeMap;

/// What the samples of a family are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// Names and values, in the order in which they are written.
pub(super) type Labels = Vec<(&'static str, String)>;

/// A family of metrics.
pub(super) struct Family {
    /// Without the `_total` of counters.
    pub(super) name: String,
    pub(super) kind: Kind,
    /// Empty where it has none.
    pub(super) unit: &'static str,
    pub(super) help: &'static str,
    pub(super) samples: Vec<Sample>,
}

/// What is said of one combination of labels.
pub(super) struct Sample {
    pub(super) labels: Labels,
    pub(super) value: Value,
}

pub(super) enum Value {
    /// A count or a level, with an incident where one is an example of it.
    Number(f64, Option<Example>),
    Times(Buckets),
}

/// An incident behind a sample, with a value that the sample counts ("exemplars" of OpenMetrics).
pub(super) struct Example {
    pub(super) incident: String,
    pub(super) value: f64,
    pub(super) realtime_ns: i64,
}

impl Example {
    fn of(Exemplar { incident, realtime_ns }: &Exemplar, value: f64) -> Self {
        Self { incident: incident.clone(), value, realtime_ns: *realtime_ns }
    }
}

/// Times by length.
pub(super) struct Buckets {
    pub(super) bounds_ns: Vec<u64>,
    /// One more than there are bounds: the last one is above all.
    pub(super) counts: Vec<u64>,
    pub(super) examples: BTreeMap<usize, Example>,
    pub(super) sum_ns: u64,
    /// The same times between powers of two of a second.
    pub(super) powers: Powers,
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

impl From<&Times> for Buckets {
    fn from(times: &Times) -> Self {
        let powers = times.by_powers();
        Self {
            bounds_ns: (0..times.counts.len() - 1).map(Times::bound_ns).collect(),
            counts: powers.counts.clone(),
            examples: BTreeMap::new(),
            sum_ns: times.sum_ns,
            powers,
        }
    }
}

impl Family {
    /// One without samples.
    pub(super) fn new(name: impl Into<String>, kind: Kind, unit: &'static str, help: &'static str) -> Self {
        Self { name: name.into(), kind, unit, help, samples: Vec::new() }
    }

    pub(super) fn number(&mut self, labels: Labels, value: f64) {
        self.samples.push(Sample { labels, value: Value::Number(value, None) });
    }

    pub(super) fn times(&mut self, labels: Labels, times: impl Into<Buckets>) {
        self.samples.push(Sample { labels, value: Value::Times(times.into()) });
    }

    /// The same with a label more.
    pub(super) fn with(mut labels: Labels, name: &'static str, value: impl ToString) -> Labels {
        labels.push((name, value.to_string()));
        labels
    }
}

/// What the samples of a family are of, by the value of their label.
pub(super) struct Rows<'a, T> {
    pub(super) label: &'static str,
    pub(super) states: &'a BTreeMap<String, T>,
}

impl<T> Rows<'_, T> {
    pub(super) fn gauge(
        &self,
        (name, unit): (&str, &'static str),
        help: &'static str,
        value: impl Fn(&T) -> f64,
    ) -> Family {
        let mut family = Family::new(name, Kind::Gauge, unit, help);
        self.each().for_each(|(labels, state)| family.number(labels, value(state)));
        family
    }

    pub(super) fn counter(&self, name: &str, help: &'static str, count: impl Fn(&T) -> u64) -> Family {
        let mut family = Family::new(name, Kind::Counter, "", help);
        self.each().for_each(|(labels, state)| family.number(labels, count(state) as f64));
        family
    }

    /// A counter by cause.
    pub(super) fn by_cause(
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
    pub(super) fn incidents(
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
    pub(super) fn each(&self) -> impl Iterator<Item = (Labels, &T)> {
        self.states.iter().map(|(name, state)| (vec![(self.label, name.clone())], state))
    }
}

pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
