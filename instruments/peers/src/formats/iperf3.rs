//! iperf3 `--json` of a UDP test. The receiver estimates interarrival jitter as RFC 3550 defines it: a server states the estimate
//! at the end of each interval, a client the last one that the server told it.

use super::Damage;
use super::json::{MS, count, list, number, words};
use crate::result::{Figures, Measurement, Quantity};
use serde_json::Value;

pub(super) fn parse(value: &Value) -> Result<Measurement, Damage> {
    if let Some(error) = value.get("error").and_then(Value::as_str) {
        return Err(format!("iperf3 failed: {error:?}"));
    }
    let end = value.get("end").unwrap_or(&Value::Null);
    let streams: Vec<&Value> = list(end, "streams")?.iter().filter_map(|stream| stream.get("udp")).collect();
    if streams.is_empty() {
        return Err(
            "it is of no UDP test: TCP has neither loss nor interarrival jitter of packets".to_owned()
        );
    }
    let mut estimates = Vec::new();
    for interval in list(value, "intervals")? {
        for stream in
            list(interval, "streams")?.iter().filter(|stream| stream.get("omitted") != Some(&true.into()))
        {
            estimates.extend(number(stream, "jitter_ms")?.map(|ms| ms * MS));
        }
    }
    let (mut parts, mut counts) = (Vec::new(), [0u64; 3]);
    let mut unknown = [false; 3];
    for (place, stream) in streams.iter().enumerate() {
        let last = number(stream, "jitter_ms")?.map(|ms| ms * MS);
        parts.push((
            format!("stream {place}, last"),
            Figures { count: Some(1), mean: last, ..Figures::default() },
        ));
        for (at, key) in ["packets", "lost_packets", "out_of_order"].into_iter().enumerate() {
            match count(stream, key)? {
                Some(count) => counts[at] = counts[at].saturating_add(count),
                None => unknown[at] = true,
            }
        }
    }
    let mut notes = Vec::new();
    if estimates.is_empty() {
        estimates = parts.iter().filter_map(|(_, part)| part.mean).collect();
        notes.push("a client's file has the last estimate of each stream alone; that of the server (-s --json) has one for each interval".to_owned());
    }
    if estimates.is_empty() {
        return Err("it has no estimate of interarrival jitter".to_owned());
    }
    let id = ("interarrival_jitter", "interarrival jitter, an estimate for each interval");
    let quantity = Quantity { parts, ..Quantity::samples(id.0, id.1, estimates) };
    let named = ["sent", "lost", "out_of_order"].into_iter().zip(counts).zip(unknown);
    Ok(Measurement {
        tool: "iperf3",
        version: words(value, "/start/version").map(|words| words.trim_start_matches("iperf ").to_owned()),
        started: words(value, "/start/timestamp/time"),
        quantities: vec![quantity],
        counts: named.filter(|(_, unknown)| !unknown).map(|(count, _)| count).collect(),
        notes,
        ..Measurement::default()
    })
}
