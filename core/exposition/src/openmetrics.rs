//! Families as OpenMetrics text 1.0 (<https://prometheus.io/docs/specs/om/open_metrics_spec/>).

use crate::families::{Buckets, Example, Family, Kind, Labels, Value, seconds};
use std::fmt::Write;

/// Writing to a string cannot fail.
fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
    out.push('\n');
}

/// The whole page.
pub fn page(families: &[Family]) -> String {
    let mut out = String::new();
    for Family { name, kind, unit, help, samples } in families {
        let (kind, end) = match kind {
            Kind::Counter => ("counter", "_total"),
            Kind::Gauge => ("gauge", ""),
            Kind::Histogram => ("histogram", ""),
        };
        line(&mut out, format_args!("# TYPE {name} {kind}"));
        if !unit.is_empty() {
            line(&mut out, format_args!("# UNIT {name} {unit}"));
        }
        line(&mut out, format_args!("# HELP {name} {help}"));
        for sample in samples {
            match &sample.value {
                Value::Number(value, example) => {
                    let (labels, example) = (in_braces(&sample.labels), words(example.as_ref()));
                    line(&mut out, format_args!("{name}{end}{labels} {value}{example}"));
                }
                Value::Times(times) => buckets(&mut out, name, &sample.labels, times),
            }
        }
    }
    out.push_str("# EOF\n");
    out
}

/// `{receiver="studio",cause="stopped"}`; nothing without any.
fn in_braces(labels: &Labels) -> String {
    let safe = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let each: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}=\"{}\"", safe(value))).collect();
    if each.is_empty() { String::new() } else { format!("{{{}}}", each.join(",")) }
}

fn words(example: Option<&Example>) -> String {
    let Some(Example { incident, value, realtime_ns }) = example else { return String::new() };
    let ms = realtime_ns.div_euclid(1_000_000);
    let (seconds, ms) = (ms.div_euclid(1_000), ms.rem_euclid(1_000));
    format!(" # {{incident=\"{incident}\"}} {value} {seconds}.{ms:03}")
}

fn buckets(out: &mut String, name: &str, labels: &Labels, times: &Buckets) {
    let mut count = 0;
    let bounds = times.bounds_ns.iter().map(|bound_ns| canonical(*bound_ns)).chain(["+Inf".to_owned()]);
    for (bucket, (bound, more)) in bounds.zip(&times.counts).enumerate() {
        count += more;
        let example = words(times.examples.get(&bucket));
        let labels = in_braces(&Family::with(labels.clone(), "le", bound));
        line(out, format_args!("{name}_bucket{labels} {count}{example}"));
    }
    let labels = in_braces(labels);
    line(out, format_args!("{name}_count{labels} {count}"));
    line(out, format_args!("{name}_sum{labels} {}", seconds(times.sum_ns)));
}

/// Seconds of a bound as OpenMetrics wants numbers in labels ("considerations: canonical numbers"): `1e-05`, `0.0001`, `1.0`.
fn canonical(bound_ns: u64) -> String {
    format!("{:?}", seconds(bound_ns)).replace("e-", "e-0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_stay_in_their_quotes() {
        let mut family = Family::new("quaver_hosts", Kind::Gauge, "", "Hosts.");
        family.number(vec![("host", "a\"b\\c\nd".to_owned())], 1.0);
        let line = "quaver_hosts{host=\"a\\\"b\\\\c\\nd\"} 1\n# EOF\n";
        assert!(page(&[family]).ends_with(line), "{line}");
    }
}
