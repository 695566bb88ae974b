//! One side of a comparison: its runs, and what they say.

use crate::material::{Material, Samples, Stated};
use crate::registry::{Comparable, RunKind};
use quaver_analysis::compare::{Estimate, LEVELS};
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use quaver_view::Unit;
use serde_json::Value;
use std::collections::BTreeMap;

/// Points of a curve of percentiles.
const CURVE: usize = 60;

/// Runs of one side.
#[derive(Clone, Debug, Default)]
pub(super) struct Side {
    pub runs: Vec<Run>,
}

/// A run as far as comparisons need it.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub name: String,
    /// The verb that made it, or the program whose file it is.
    pub kind: String,
    /// None of a file of another program.
    pub manifest: Option<Manifest>,
    /// What limits a file of another program.
    pub notes: Vec<String>,
    pub quantities: Vec<Quantity>,
    /// Part of the measured time that each cause took, by source and name.
    pub causes: BTreeMap<(String, String), Estimate>,
    /// Each number of the summary by its path.
    pub figures: BTreeMap<String, f64>,
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
    let mut figures = BTreeMap::new();
    numbers(&summary, String::new(), &mut figures);
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
    let (manifest, notes) = (Some(manifest), Vec::new());
    let quantities = quantities(samples, stated, seed);
    Ok(Run { name: run.name(), kind, manifest, notes, quantities, causes, figures })
}

/// A file of another program.
pub(super) fn of_file(name: String, file: Comparable, seed: u64) -> Run {
    let Comparable { kind, summary, material, notes } = file;
    let mut figures = BTreeMap::new();
    numbers(&summary, String::new(), &mut figures);
    let quantities = quantities(material.samples, material.stated, seed);
    Run { name, kind, manifest: None, notes, quantities, causes: BTreeMap::new(), figures }
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

/// Every number of a value by its path, as `--fail-if` names it. Elements of lists go by what names them, else by number.
fn numbers(value: &Value, path: String, into: &mut BTreeMap<String, f64>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Number(number) => {
            into.extend(number.as_f64().map(|number| (path, number)));
        }
        Value::Object(fields) => fields.iter().for_each(|(key, value)| numbers(value, below(key), into)),
        // Causes are compared as such, and their places in the ranking mean nothing in another run.
        Value::Array(items) if !matches!(path.as_str(), "causes" | "warnings") => {
            for (at, item) in items.iter().enumerate() {
                let name = ["layer", "from"].iter().find_map(|field| item.get(field)?.as_str());
                numbers(item, below(name.unwrap_or(&at.to_string())), into);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_go_by_the_paths_of_fail_if() {
        let mut found = BTreeMap::new();
        let summary = json!({"lateness": {"packets": 3}, "layers": [{"layer": "receive", "p99_ns": 7}],
            "cpus": [{"cpu": 1}], "causes": [{"share": 0.5}], "name": "x"});
        numbers(&summary, String::new(), &mut found);
        let expected = [("cpus.0.cpu", 1.0), ("lateness.packets", 3.0), ("layers.receive.p99_ns", 7.0)];
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            expected.map(|(path, number)| (path.to_owned(), number))
        );
    }
}
