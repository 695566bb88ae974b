//! Lines and numbers of OpenMetrics text 1.0.

use crate::judge::{BOUNDS_US, Histogram};
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

    /// Label and state of each row: `receiver="studio"`.
    pub(super) fn each(&self) -> impl Iterator<Item = (String, &T)> {
        self.states.iter().map(|(name, state)| (format!("{}=\"{name}\"", self.label), state))
    }
}

/// Lines of one histogram of a family.
pub(super) fn histogram(out: &mut String, name: &str, labels: &str, histogram: &Histogram) {
    let Histogram { counts, sum_ns } = histogram;
    buckets(out, name, labels, BOUNDS_US.iter().map(|us| us * 1_000), counts, *sum_ns);
}

/// The same of counts in any buckets, the last one above all bounds.
pub(super) fn buckets(
    out: &mut String,
    name: &str,
    labels: &str,
    bounds_ns: impl Iterator<Item = u64>,
    counts: &[u64],
    sum_ns: u64,
) {
    let mut count = 0;
    for (bound_ns, more) in bounds_ns.zip(counts) {
        count += more;
        let bound = canonical(bound_ns);
        line(out, format_args!("{name}_bucket{{{labels},le=\"{bound}\"}} {count}"));
    }
    count += counts.last().unwrap_or(&0);
    line(out, format_args!("{name}_bucket{{{labels},le=\"+Inf\"}} {count}"));
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
