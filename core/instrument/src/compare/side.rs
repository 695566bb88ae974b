//! One side of a comparison: its runs, and what they say.

use crate::material::{Material, Samples, Stated};
use crate::registry::{Comparable, RunKind};
use crate::threshold::number_of;
use quaver_analysis::compare::{Estimate, LEVELS};
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use quaver_view::Unit;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Points of a curve of percentiles.
const CURVE: usize = 60;

/// Numbers that name a thing or an instant, and measure nothing that another run has too.
const NAMES: [&str; 15] = [
    "address",
    "call_site",
    "core",
    "cpu",
    "object",
    "pid",
    "process",
    "thread",
    "waker",
    "ended_ns",
    "end_ns",
    "entered_ns",
    "first_ns",
    "last_ns",
    "started_ns",
];

/// Runs of one side.
#[derive(Clone, Debug, Default)]
pub(super) struct Side {
    pub runs: Vec<Run>,
}

impl Side {
    /// A run that stands here more than once.
    pub(super) fn repeated(&self) -> Option<&str> {
        let before = |at: usize| self.runs[..at].iter().any(|run| run.origin == self.runs[at].origin);
        (0..self.runs.len()).find(|at| before(*at)).map(|at| self.runs[at].name.as_str())
    }
}

/// A run as far as comparisons need it.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub name: String,
    /// What it is, by whatever name or path it was given.
    pub origin: String,
    /// The verb that made it, or the program whose file it is.
    pub kind: String,
    /// None of a file of another program.
    pub manifest: Option<Manifest>,
    /// What limits a file of another program.
    pub notes: Vec<String>,
    pub quantities: Vec<Quantity>,
    /// Part of the measured time that each cause took, by source and name; none where nothing that acted was recorded.
    pub causes: Option<BTreeMap<(String, String), Estimate>>,
    /// Each number of the summary by its path, and by what the elements of lists on the way there are.
    pub figures: BTreeMap<(String, String), f64>,
}

/// Values of a quantity in one run.
#[derive(Clone, Debug)]
pub(super) struct Quantity {
    pub id: String,
    pub name: String,
    pub unit: Unit,
    pub mean: Option<Estimate>,
    pub levels: [Option<Estimate>; LEVELS.len()],
    /// Percentiles for a drawing: the share beyond and the value.
    pub curve: Vec<(f64, f64)>,
}

/// Reads and analyses a run. `seed` differs from run to run.
pub(super) fn read(run: &RunDir, kind: &dyn RunKind, seed: u64) -> anyhow::Result<Run> {
    let manifest = run.read_manifest()?;
    let results = kind.analyze(run, None)?;
    let summary = results.summary()?;
    let Material { samples, stated, causes } = results.material();
    let blind = summary.get("tier").is_some_and(|tier| tier == "user")
        || samples.first().is_some_and(|first| first.id != "gap" && first.values.is_empty());
    let mut times: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    for cause in &causes {
        let slices =
            times.entry((cause.source.clone(), cause.name.clone())).or_insert(vec![0.0; cause.shares.len()]);
        slices.iter_mut().zip(&cause.shares).for_each(|(sum, share)| *sum += share);
    }
    let mut causes: BTreeMap<_, Estimate> =
        times.into_iter().filter_map(|(key, slices)| Some((key, Estimate::mean(&slices, seed)?))).collect();
    if causes.is_empty() {
        causes = causes_of(&summary, &manifest);
    }
    let kind = kind.verbs()[0].to_owned();
    let origin = format!("{} {}", manifest.verb, manifest.started_realtime_ns);
    let (manifest, notes) = (Some(manifest), Vec::new());
    let (quantities, figures) = (quantities(samples, stated, seed), numbers(&summary));
    let causes = (!blind).then_some(causes);
    Ok(Run { name: run.name(), origin, kind, manifest, notes, quantities, causes, figures })
}

/// A file of another program.
pub(super) fn of_file(path: &Path, file: Comparable, seed: u64) -> Run {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let origin = path.canonicalize().unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned();
    let Comparable { kind, summary, material, notes } = file;
    let (quantities, figures) = (quantities(material.samples, material.stated, seed), numbers(&summary));
    Run { name, origin, kind, manifest: None, notes, quantities, causes: None, figures }
}

fn quantities(samples: Vec<Samples>, stated: Vec<Stated>, seed: u64) -> Vec<Quantity> {
    let sampled = samples.into_iter().map(|samples| quantity(samples, seed));
    sampled.chain(stated.into_iter().map(quantity_of_figures)).collect()
}

fn quantity_of_figures(stated: Stated) -> Quantity {
    let Stated { id, name, unit, mean, percentiles } = stated;
    let known = |share: f64| percentiles.iter().find(|(level, _)| *level == share);
    let levels = LEVELS.map(|(_, level)| known(level).map(|(_, value)| Estimate::exact(*value)));
    let curve = percentiles.iter().map(|(level, value)| (1.0 - level, *value)).collect();
    Quantity { id, name, unit, mean: mean.map(Estimate::exact), levels, curve }
}

fn quantity(samples: Samples, seed: u64) -> Quantity {
    let Samples { id, name, unit, mut values } = samples;
    let (mean, levels) = (Estimate::mean(&values, seed), Estimate::percentiles(&values, seed));
    values.sort_unstable_by(f64::total_cmp);
    let count = values.len() as f64;
    let points = (0..=CURVE).map(|at| 10f64.powf(-5.0 * at as f64 / CURVE as f64));
    let value = |beyond: f64| values[((count * (1.0 - beyond)).ceil().clamp(1.0, count) as usize) - 1];
    let curve = points.filter(|beyond| count * beyond >= 1.0).map(|beyond| (beyond, value(beyond))).collect();
    Quantity { id, name, unit, mean, levels, curve }
}

/// Causes of a summary whose instrument gives no times of them: their part of the run's time.
fn causes_of(summary: &Value, manifest: &Manifest) -> BTreeMap<(String, String), Estimate> {
    let length_ns = manifest.ended_realtime_ns.map(|end| (end - manifest.started_realtime_ns) as f64);
    let mut sums: BTreeMap<(String, String), f64> = BTreeMap::new();
    for cause in summary.get("causes").and_then(Value::as_array).into_iter().flatten() {
        let word = |key: &str| cause.get(key).and_then(Value::as_str).unwrap_or_default();
        if let (Some(ns), Some(length_ns)) = (cause.get("time_ns").and_then(Value::as_f64), length_ns) {
            let name = if cause.get("stable_name").is_some() { word("stable_name") } else { word("name") };
            *sums.entry((word("source").to_owned(), name.to_owned())).or_default() += ns / length_ns.max(1.0);
        }
    }
    sums.into_iter().map(|(key, share)| (key, Estimate::exact(share))).collect()
}

/// Every number of a summary that measures something, by its path as `--fail-if` names it, and by what the elements on the way
/// are. Elements of lists go by what names them, else by number; then the same number may be another thing in another run.
fn numbers(summary: &Value) -> BTreeMap<(String, String), f64> {
    let mut found = BTreeMap::new();
    numbers_below(summary, (String::new(), String::new()), &mut found);
    found
}

fn numbers_below(value: &Value, (path, of): (String, String), into: &mut BTreeMap<(String, String), f64>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let own = path.rsplit('.').next().unwrap_or_default();
    match value {
        Value::Number(number) => into.extend(number.as_f64().map(|number| ((path, of), number))),
        Value::Object(fields) => {
            for (key, field) in fields.iter().filter(|(key, _)| !NAMES.contains(&key.as_str())) {
                if !field.is_number() || number_of(value, own, key).is_some() {
                    numbers_below(field, (below(key), of.clone()), into);
                }
            }
        }
        // Causes are compared as such, and their places in the ranking mean nothing in another run.
        Value::Array(items) if !matches!(path.as_str(), "causes" | "warnings") => {
            for (at, item) in items.iter().enumerate() {
                let name = ["layer", "from"].iter().find_map(|field| item.get(field)?.as_str());
                let of = if name.is_some() { of.clone() } else { format!("{of}/{}", what(item)) };
                numbers_below(item, (below(name.unwrap_or(&at.to_string())), of), into);
            }
        }
        _ => {}
    }
}

/// What an element of a list is: its words, and the numbers that name it.
fn what(item: &Value) -> String {
    let fields = item.as_object().into_iter().flatten();
    let naming = fields.filter(|(key, value)| {
        value.is_string()
            || value.is_number() && matches!(key.as_str(), "cpu" | "core" | "thread" | "process")
    });
    naming.map(|(key, value)| format!("{key}={value} ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_go_by_the_paths_of_fail_if() {
        let summary = json!({"lateness": {"packets": 3}, "layers": [{"layer": "receive", "p99_ns": 7}],
            "cpus": [{"cpu": 1, "gaps": 9}], "causes": [{"share": 0.5}], "name": "x", "pid": 4711, "started_ns": 5});
        let expected = [
            ("cpus.0.gaps", "/cpu=1 ", 9.0),
            ("lateness.packets", "", 3.0),
            ("layers.receive.p99_ns", "", 7.0),
        ];
        assert_eq!(
            numbers(&summary).into_iter().collect::<Vec<_>>(),
            expected.map(|(path, of, number)| ((path.to_owned(), of.to_owned()), number))
        );
    }

    #[test]
    fn figures_of_no_samples_are_missing() {
        let of = |count: u64| {
            let distribution = json!({"count": count, "p50_ns": 0, "max_ns": count});
            numbers(&json!({"lateness": {"packets": 0, "distribution": distribution}}))
        };
        let paths = |count| of(count).into_keys().map(|(path, _)| path).collect::<Vec<_>>();
        assert_eq!(paths(0), ["lateness.distribution.count"]);
        assert_eq!(paths(1).len(), 4);
    }

    #[test]
    fn one_place_of_a_list_is_another_thing_in_another_run() {
        let of = |cpu: u64, lock: &str| {
            numbers(&json!({"cpus": [{"cpu": cpu, "gaps": 1}], "locks": [{"name": lock, "waits": 1}]}))
        };
        let shared = |a: (u64, &str), b: (u64, &str)| {
            let b = of(b.0, b.1);
            of(a.0, a.1).into_keys().filter(|key| b.contains_key(key)).count()
        };
        assert_eq!(shared((1, "queue"), (1, "queue")), 2);
        assert_eq!(shared((1, "queue"), (0, "table")), 0);
    }
}
