//! irtt client `-o`: JSON of format 1. Each round trip has its delays in nanoseconds; of a lost one they are missing. IPDV of a
//! round trip has its sign, that of the statistics has none.

use super::Damage;
use super::json::{count, list, number, words};
use crate::result::{Figures, Measurement, Quantity, Values};
use quaver_view::Unit;
use serde_json::Value;

/// Where a round trip and the statistics have a quantity, its identifier and its name.
const QUANTITIES: [(&str, &str, &str, &str, &str); 6] = [
    ("delay", "rtt", "rtt", "round_trip", "round-trip delay"),
    ("delay", "send", "send_delay", "up", "delay up"),
    ("delay", "receive", "receive_delay", "down", "delay down"),
    ("ipdv", "rtt", "ipdv_round_trip", "round_trip_ipdv", "IPDV of the round trip"),
    ("ipdv", "send", "ipdv_send", "up_ipdv", "IPDV up"),
    ("ipdv", "receive", "ipdv_receive", "down_ipdv", "IPDV down"),
];

pub(super) fn parse(value: &Value) -> Result<Measurement, Damage> {
    let trips = list(value, "round_trips")?;
    let stats = value.get("stats").unwrap_or(&Value::Null);
    let mut quantities = Vec::new();
    for (group, key, in_stats, id, name) in QUANTITIES {
        let each = trips.iter().map(|trip| number(trip.get(group).unwrap_or(&Value::Null), key));
        let values: Vec<f64> = each.filter_map(Result::transpose).collect::<Result<_, _>>()?;
        if !values.is_empty() {
            quantities.push(Quantity::samples(id, name, values));
        } else if let Some(stated) = stats.get(in_stats).filter(|_| trips.is_empty() && group == "delay") {
            let figures = Figures {
                count: count(stated, "n")?,
                min: number(stated, "min")?,
                mean: number(stated, "mean")?,
                max: number(stated, "max")?,
            };
            let values = Values::Stated(number(stated, "median")?);
            quantities.push(Quantity { id, name, unit: Unit::Duration, values, figures, parts: Vec::new() });
        }
    }
    let mut counts = Vec::new();
    for (name, key) in [
        ("sent", "packets_sent"),
        ("received", "packets_received"),
        ("duplicates", "duplicates"),
        ("late", "late_packets"),
    ] {
        counts.extend(count(stats, key)?.map(|count| (name, count)));
    }
    // `true` where nobody knows in which direction.
    for (name, word) in [("lost_up", "true_up"), ("lost_down", "true_down"), ("lost_somewhere", "true")] {
        let lost = trips.iter().filter(|trip| trip.get("lost").and_then(Value::as_str) == Some(word)).count();
        if !trips.is_empty() {
            counts.push((name, lost as u64));
        }
    }
    if quantities.is_empty() && counts.is_empty() {
        return Err("it has neither round trips nor statistics".to_owned());
    }
    let mut notes = Vec::new();
    if quantities.iter().any(|quantity| quantity.id == "up") {
        notes.push("delays up and down compare two clocks, whose offset is in them".to_owned());
    }
    if trips.is_empty() {
        notes.push("it has no round trips: of percentiles the median alone is known".to_owned());
    }
    Ok(Measurement {
        tool: "irtt",
        version: words(value, "/version/irtt"),
        started: words(value, "/stats/start_time"),
        quantities,
        counts,
        notes,
        ..Measurement::default()
    })
}
