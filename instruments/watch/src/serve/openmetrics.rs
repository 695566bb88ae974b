//! Lines and numbers of OpenMetrics text 1.0.

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

/// Seconds of a bound as OpenMetrics wants numbers in labels ("considerations: canonical numbers"): `1e-05`, `0.0001`, `1.0`.
pub(super) fn canonical(bound_us: u64) -> String {
    if bound_us < 100 {
        format!("{}e-05", bound_us as f64 / 10.0)
    } else {
        format!("{:?}", bound_us as f64 / 1e6)
    }
}

pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
