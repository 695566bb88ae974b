//! Lines and numbers of OpenMetrics text 1.0.

use crate::judge::{BOUNDS_US, Exemplar, Histogram};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Writing to a string cannot fail.
pub(super) fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
    out.push('\n');
}

pub(super) fn family(out: &mut String, name: &str, kind: &str, unit: &str, help: &str) {
    line(out, format_args!("# TYPE {name} {kind}"));
    if !unit.is_empty() {
        line(out, format_args!("# UNIT {name} {unit}"));
    }
    line(out, format_args!("# HELP {name} {help}"));
}

/// What the lines of a family are of, by the value of their label.
pub(super) struct Rows<'a, T> {
    pub(super) label: &'static str,
    pub(super) states: &'a BTreeMap<String, T>,
}

impl<T> Rows<'_, T> {
    pub(super) fn gauge(
        &self,
        out: &mut String,
        (name, unit): (&str, &str),
        help: &str,
        value: impl Fn(&T) -> f64,
    ) {
        family(out, name, "gauge", unit, help);
        for (labels, state) in self.each() {
            line(out, format_args!("{name}{{{labels}}} {}", value(state)));
        }
    }

    pub(super) fn counter(&self, out: &mut String, name: &str, help: &str, count: impl Fn(&T) -> u64) {
        family(out, name, "counter", "", help);
        for (labels, state) in self.each() {
            line(out, format_args!("{name}_total{{{labels}}} {}", count(state)));
        }
    }

    /// A counter by cause.
    pub(super) fn by_cause(
        &self,
        out: &mut String,
        (name, unit): (&str, &str),
        help: &str,
        which: impl Fn(&T) -> &BTreeMap<String, u64>,
    ) {
        family(out, name, "counter", unit, help);
        for (labels, state) in self.each() {
            for (cause, value) in which(state) {
                let value = if unit == "seconds" { seconds(*value) } else { *value as f64 };
                line(out, format_args!("{name}_total{{{labels},cause=\"{cause}\"}} {value}"));
            }
        }
    }

    /// A counter of incidents by cause, with the latest of each.
    pub(super) fn incidents(
        &self,
        out: &mut String,
        name: &str,
        help: &str,
        which: impl Fn(&T) -> (&BTreeMap<String, u64>, &BTreeMap<String, Exemplar>),
    ) {
        family(out, name, "counter", "", help);
        for (labels, state) in self.each() {
            let (counts, exemplars) = which(state);
            for (cause, count) in counts {
                let example = exemplars.get(cause).map(|exemplar| example(exemplar, 1.0)).unwrap_or_default();
                line(out, format_args!("{name}_total{{{labels},cause=\"{cause}\"}} {count}{example}"));
            }
        }
    }

    /// Label and state of each row: `receiver="studio"`.
    pub(super) fn each(&self) -> impl Iterator<Item = (String, &T)> {
        self.states.iter().map(|(name, state)| (format!("{}=\"{name}\"", self.label), state))
    }
}

/// Lines of one histogram of a family.
pub(super) fn histogram(out: &mut String, name: &str, labels: &str, histogram: &Histogram) {
    let Histogram { counts, sum_ns, exemplars } = histogram;
    let example = |bucket: usize| {
        let of_bucket = exemplars.get(&bucket);
        of_bucket.map(|(ns, exemplar)| example(exemplar, seconds(*ns))).unwrap_or_default()
    };
    buckets(out, name, labels, BOUNDS_US.iter().map(|us| us * 1_000), (counts, *sum_ns), example);
}

/// An incident behind a sample, with a value that the sample counts ("exemplars" of the specification).
fn example(Exemplar { incident, realtime_ns }: &Exemplar, value: f64) -> String {
    let ms = realtime_ns.div_euclid(1_000_000);
    let (seconds, ms) = (ms.div_euclid(1_000), ms.rem_euclid(1_000));
    format!(" # {{incident=\"{incident}\"}} {value} {seconds}.{ms:03}")
}

/// The same of counts in any buckets, the last one above all bounds, with an example of a bucket where there is one.
pub(super) fn buckets(
    out: &mut String,
    name: &str,
    labels: &str,
    bounds_ns: impl Iterator<Item = u64>,
    (counts, sum_ns): (&[u64], u64),
    example: impl Fn(usize) -> String,
) {
    let mut count = 0;
    let bounds = bounds_ns.map(canonical).chain(["+Inf".to_owned()]);
    for (bucket, (bound, more)) in bounds.zip(counts).enumerate() {
        count += more;
        let example = example(bucket);
        line(out, format_args!("{name}_bucket{{{labels},le=\"{bound}\"}} {count}{example}"));
    }
    line(out, format_args!("{name}_count{{{labels}}} {count}"));
    line(out, format_args!("{name}_sum{{{labels}}} {}", seconds(sum_ns)));
}

/// Seconds of a bound as OpenMetrics wants numbers in labels ("considerations: canonical numbers"): `1e-05`, `0.0001`, `1.0`.
fn canonical(bound_ns: u64) -> String {
    format!("{:?}", seconds(bound_ns)).replace("e-", "e-0")
}

pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
