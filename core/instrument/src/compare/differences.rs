//! What two sides were measured with that is not the same: settings, kernel, hardware, options, versions.

use super::side::Side;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Facts that differ from run to run by nature.
const FLEETING: &[&str] = &[
    "asked.command",
    "asked.facts.ended_ns",
    "asked.facts.kernel.futex_calls",
    "asked.facts.kernel.futex_returns",
    "asked.facts.kernel.lost",
    "asked.facts.own_threads",
    "asked.facts.sleeps",
    "asked.facts.started_ns",
    "asked.speed.elapsed_ns",
    "host.hypervisor.steal_ticks",
];
/// What was asked of a flow of a path test.
const FLOW: &[&str] = &["transport", "dscp", "payload_bytes", "period_ns", "schedule", "planned"];
/// Facts that say which host it was.
const HOST: &[&str] =
    &["host.kernel.release", "host.cpu.model", "host.cpu.online", "host.hypervisor.name", "host.name"];

/// A fact that is not the same on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// Path into the manifest: `host.cpu.governors`.
    pub path: String,
    /// Its values on each side, each once.
    pub values: [Vec<String>; 2],
}

impl Difference {
    /// Whether it says that the hosts are not the same.
    pub(super) fn of_host(&self) -> bool {
        HOST.contains(&self.path.as_str())
    }
}

/// All facts that differ, those of the host first; none where a file of another program states no facts.
pub(super) fn differences(a: &Side, b: &Side) -> Vec<Difference> {
    if a.runs.iter().chain(&b.runs).any(|run| run.manifest.is_none()) {
        return Vec::new();
    }
    let mut facts: BTreeMap<String, [BTreeSet<String>; 2]> = BTreeMap::new();
    let all: Vec<[BTreeMap<String, String>; 1]> = a
        .runs
        .iter()
        .chain(&b.runs)
        .map(|run| [facts_of(&serde_json::to_value(&run.manifest).unwrap_or_default())])
        .collect();
    let paths: BTreeSet<&String> = all.iter().flat_map(|[facts]| facts.keys()).collect();
    for path in paths.into_iter().filter(|path| !FLEETING.contains(&path.as_str()) && !path.contains("pid")) {
        for (at, [known]) in all.iter().enumerate() {
            let value = known.get(path).map_or("-", String::as_str).to_owned();
            facts.entry(path.clone()).or_default()[usize::from(at >= a.runs.len())].insert(value);
        }
    }
    let differing = facts.into_iter().filter(|(_, [a, b])| a != b);
    let mut found: Vec<Difference> = differing
        .map(|(path, values)| Difference { path, values: values.map(|values| values.into_iter().collect()) })
        .collect();
    found.sort_by_key(|difference| !difference.of_host());
    found
}

/// What was asked, of which host, by which version, and how it was observed.
fn facts_of(manifest: &Value) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    for (name, pointer) in [
        ("asked", "/asked"),
        ("host", "/host"),
        ("version", "/tool/version"),
        ("tracing", "/analysis/tier"),
        ("blind", "/analysis/blind"),
        ("protocol", "/path/protocol"),
        ("stream.period_ns", "/analysis/period_ns"),
        ("receiver.cpu", "/analysis/receiver/cpu"),
        ("receiver.realtime", "/analysis/receiver/realtime"),
        ("source.cpu", "/analysis/source/cpu"),
    ] {
        flatten(manifest.pointer(pointer).unwrap_or(&Value::Null), name.to_owned(), &mut facts);
    }
    for flow in manifest.pointer("/path/flows").and_then(Value::as_array).into_iter().flatten() {
        let way = flow.get("direction").and_then(Value::as_str).unwrap_or_default();
        for key in FLOW {
            flatten(flow.get(key).unwrap_or(&Value::Null), format!("{way}.{key}"), &mut facts);
        }
    }
    facts
}

fn flatten(value: &Value, path: String, into: &mut BTreeMap<String, String>) {
    let words = match value {
        Value::Null => return,
        Value::Object(fields) => return fields_of(fields, &path, into),
        Value::String(words) => words.clone(),
        other => other.to_string(),
    };
    into.insert(path, words);
}

fn fields_of(fields: &Map<String, Value>, path: &str, into: &mut BTreeMap<String, String>) {
    fields.iter().for_each(|(key, value)| flatten(value, format!("{path}.{key}"), into));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_asked_of_a_path_is_a_fact() {
        let flow = |period_ns: u64| json!({"direction": "up", "period_ns": period_ns, "sent": 7});
        let facts = facts_of(&json!({"path": {"protocol": "stamp", "flows": [flow(20_000_000)]}}));
        let expected = [("protocol", "stamp"), ("up.period_ns", "20000000")];
        assert_eq!(facts, expected.map(|(path, value)| (path.to_owned(), value.to_owned())).into());
    }
}
