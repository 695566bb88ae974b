//! flent's `.flent.gz`: gzipped JSON. `raw_values` has what was measured, `results` a value for each step that flent made of it.

use super::Damage;
use super::json::{MS, list, number, words};
use crate::result::{Figures, Measurement, Quantity};
use serde_json::Value;

/// Series of delays begin so; others are rates.
const SERIES: &str = "Ping (ms)";
/// The programs behind series whose raw values are delays in milliseconds.
const RAW: [&str; 2] = ["PingRunner", "IrttRunner"];

/// A series of values, each with its time if that is known.
struct Series<'a> {
    name: &'a str,
    id: &'static str,
    values: Vec<(f64, f64)>,
}

pub(super) fn parse(value: &Value) -> Result<Measurement, Damage> {
    let results =
        value.get("results").and_then(Value::as_object).ok_or("its field \"results\" is no object")?;
    let mut all: Vec<Series> = Vec::new();
    let mut made = Vec::new();
    for (name, steps) in results.iter().filter(|(name, _)| name.starts_with(SERIES)) {
        let runner =
            value.pointer("/metadata/SERIES_META").and_then(|all| all.get(name)?.get("RUNNER")?.as_str());
        // An average over other series is none of its own.
        if runner.is_some_and(|runner| runner.contains("Average")) || name.ends_with("avg") {
            continue;
        }
        let id = if name.contains("ICMP") { "round_trip_icmp" } else { "round_trip" };
        let points = list(value.get("raw_values").unwrap_or(&Value::Null), name)?;
        if runner.is_some_and(|runner| RAW.contains(&runner)) && !points.is_empty() {
            for (key, id) in [("val", id), ("owd_up", "up"), ("owd_down", "down")] {
                let mut values = Vec::new();
                for point in points {
                    values.extend(number(point, key)?.map(|ms| (at(point), ms * MS)));
                }
                all.push(Series { name, id, values });
            }
            continue;
        }
        let steps = steps.as_array().ok_or_else(|| format!("its series {name:?} is no list"))?;
        let mut values = Vec::new();
        for (step, one) in steps.iter().enumerate().filter(|(_, one)| !one.is_null()) {
            let ms = one.as_f64().ok_or_else(|| format!("a value of its series {name:?} is no number"))?;
            values.push((step as f64, ms * MS));
        }
        made.push(name.as_str());
        all.push(Series { name, id, values });
    }
    let quantities: Vec<Quantity> = [
        ("round_trip", "round-trip delay"),
        ("round_trip_icmp", "round-trip delay of ICMP"),
        ("up", "delay up"),
        ("down", "delay down"),
    ]
    .into_iter()
    .filter_map(|(id, name)| pooled(id, name, &all))
    .collect();
    if quantities.is_empty() {
        return Err(format!("it has no series {SERIES:?} with a value"));
    }
    let mut notes = Vec::new();
    if !made.is_empty() {
        let names = made.join(", ");
        notes.push(format!(
            "values of {names} are flent's own, one for each step: short delays may be smoothed away"
        ));
    }
    if quantities.iter().any(|quantity| quantity.id == "up") {
        notes.push("delays up and down compare two clocks, whose offset is in them".to_owned());
    }
    Ok(Measurement {
        tool: "flent",
        version: words(value, "/metadata/FLENT_VERSION"),
        command: words(value, "/metadata/NAME").map(|name| format!("flent {name}")),
        started: words(value, "/metadata/TIME"),
        quantities,
        notes,
        ..Measurement::default()
    })
}

fn at(point: &Value) -> f64 {
    point.get("t").and_then(Value::as_f64).unwrap_or_default()
}

/// All series of a quantity, in their order of time.
fn pooled(id: &'static str, name: &'static str, all: &[Series]) -> Option<Quantity> {
    let of: Vec<&Series> = all.iter().filter(|series| series.id == id && !series.values.is_empty()).collect();
    let mut values: Vec<(f64, f64)> = of.iter().flat_map(|series| series.values.iter().copied()).collect();
    values.sort_by(|one, other| one.0.total_cmp(&other.0));
    let part = |series: &&Series| {
        let values: Vec<f64> = series.values.iter().map(|(_, ns)| *ns).collect();
        (series.name.to_owned(), Figures::of_values(&values))
    };
    let parts = of.iter().map(part).collect();
    let values = values.into_iter().map(|(_, ns)| ns).collect();
    (!of.is_empty()).then(|| Quantity { parts, ..Quantity::samples(id, name, values) })
}
