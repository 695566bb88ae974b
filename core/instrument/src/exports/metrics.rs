//! The numbers of a summary as OpenMetrics 1.0, for a scrape or a push.

use quaver_store::run::RunDir;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Names of an element of a list, of which the first that is there is a label.
const NAMES: [&str; 6] = ["layer", "from", "source", "name", "program", "cpu"];

/// Series by metric: labels and value.
type Metrics = BTreeMap<String, Vec<(String, f64)>>;

/// The text. Each number is a gauge: a run is over, and nothing in it grows.
pub(super) fn text(run: &RunDir, summary: &Value) -> anyhow::Result<String> {
    let verb = run.read_manifest()?.verb;
    let mut metrics = Metrics::new();
    let labels = format!("run=\"{}\",verb=\"{}\"", escaped(&run.name()), escaped(&verb));
    collect(summary, "quaver", &labels, &mut metrics);
    let mut out = String::new();
    for (name, series) in metrics {
        writeln!(out, "# TYPE {name} gauge")?;
        if name.ends_with("_seconds") {
            writeln!(out, "# UNIT {name} seconds")?;
        }
        for (labels, value) in series {
            writeln!(out, "{name}{{{labels}}} {value}")?;
        }
    }
    out.push_str("# EOF\n");
    Ok(out)
}

fn collect(value: &Value, name: &str, labels: &str, into: &mut Metrics) {
    match value {
        Value::Number(number) => {
            let Some(number) = number.as_f64() else { return };
            // The base unit of time is the second (OpenMetrics, "Units and Base Units").
            let (name, number) = match name.strip_suffix("_ns") {
                Some(stem) => (format!("{stem}_seconds"), number / 1e9),
                None => (name.to_owned(), number),
            };
            into.entry(name).or_default().push((labels.to_owned(), number));
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                collect(value, &format!("{name}_{}", legal(key)), labels, into);
            }
        }
        Value::Array(items) => {
            let list = name.rsplit('_').next().unwrap_or(name);
            for (place, item) in items.iter().enumerate() {
                let label = free(list, labels);
                let mut labels = format!("{labels},{label}=\"{place}\"");
                let called = NAMES.iter().find_map(|key| item.get(key)?.as_str());
                if let Some(called) = called {
                    let _ = write!(labels, ",{label}_name=\"{}\"", escaped(called));
                }
                collect(item, name, &labels, into);
            }
        }
        _ => {}
    }
}

/// A name for a label that no other has: lists may lie in lists of their own name.
fn free(list: &str, labels: &str) -> String {
    let mut name = format!("in_{list}");
    while labels.contains(&format!("{name}=")) {
        name.push('_');
    }
    name
}

fn legal(key: &str) -> String {
    key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

fn escaped(words: &str) -> String {
    words.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_gauges_in_seconds_and_elements_have_labels() {
        let mut found = Metrics::new();
        let summary = json!({"late": {"p99_ns": 1_500, "packets": 3, "none": null},
            "layers": [{"layer": "a\"b", "p-50_ns": 1}, {"layer": "c"}]});
        collect(&summary, "quaver", "run=\"r\"", &mut found);
        let found: Vec<_> = found
            .into_iter()
            .flat_map(|(name, all)| all.into_iter().map(move |one| (name.clone(), one)))
            .collect();
        assert_eq!(
            found,
            [
                ("quaver_late_p99_seconds".into(), ("run=\"r\"".into(), 1.5e-6)),
                ("quaver_late_packets".into(), ("run=\"r\"".into(), 3.0)),
                (
                    "quaver_layers_p_50_seconds".into(),
                    ("run=\"r\",in_layers=\"0\",in_layers_name=\"a\\\"b\"".into(), 1e-9)
                ),
            ]
            .map(|one: (String, (String, f64))| one)
        );
    }
}
