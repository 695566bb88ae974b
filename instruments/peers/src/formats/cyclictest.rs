//! cyclictest of rt-tests: `-h` and `--histfile` (text), `--json`.
//!
//! Text: a line a bin with its lower end and a count for each thread, of `-H` one more for all threads; then lines that begin
//! with `#`. Neither form has a value above the last bin: their number is stated, and in the text is no part of `Total`.

use super::Damage;
use super::json::{US, count, number, words};
use crate::result::{Bins, Figures, Measurement, Quantity, Values};
use quaver_view::Unit;
use serde_json::Value;
use std::collections::BTreeMap;

const HEADING: &str = "# Histogram";

pub(super) fn is_histogram(text: &str) -> bool {
    text.lines().any(|line| line.trim_end() == HEADING)
}

/// The text of `-h`, `-H` and `--histfile`.
pub(super) fn histogram(text: &str) -> Result<Measurement, Damage> {
    let mut bins: Vec<(f64, Vec<u64>)> = Vec::new();
    let (mut minima, mut means, mut maxima, mut beyond) = (None, None, None, None);
    for line in text.lines().skip_while(|line| line.trim_end() != HEADING).skip(1) {
        let stated = |name: &str| line.strip_prefix(name).map(numbers);
        if let Some(all) = stated("# Min Latencies:") {
            minima = Some(all?);
        } else if let Some(all) = stated("# Avg Latencies:") {
            means = Some(all?);
        } else if let Some(all) = stated("# Max Latencies:") {
            maxima = Some(all?);
        } else if let Some(all) = stated("# Histogram Overflows:") {
            beyond = Some(all?);
        } else if !line.trim().is_empty() && !line.starts_with('#') {
            let row = numbers(line)?;
            let (lower, counts) = row.split_first().ok_or("a line of it is empty")?;
            bins.push((*lower as f64 * US, counts.to_vec()));
        }
    }
    let cut = || "it ends before the figures of each thread, which follow the bins".to_owned();
    let (minima, means, maxima) = (minima.ok_or_else(cut)?, means.ok_or_else(cut)?, maxima.ok_or_else(cut)?);
    let beyond = beyond.ok_or_else(cut)?;
    let threads = minima.len();
    if threads == 0 || [&means, &maxima, &beyond].iter().any(|all| all.len() < threads) {
        return Err("it has not the same number of threads in each line".to_owned());
    }
    let mut parts = Vec::new();
    for thread in 0..threads {
        let mut in_bins = bins.iter().map(|(_, row)| row.get(thread));
        let total = in_bins.try_fold(beyond[thread], |sum, one| sum.checked_add(*one?));
        let total = total.ok_or("it has not the same number of threads in each line")?;
        let figures = Figures {
            count: Some(total),
            min: Some(minima[thread] as f64 * US),
            mean: Some(means[thread] as f64 * US),
            max: Some(maxima[thread] as f64 * US),
        };
        // A thread that never woke has a minimum of its own making.
        let figures = if total == 0 { Figures { count: Some(0), ..Figures::default() } } else { figures };
        parts.push((format!("thread {thread}"), figures));
    }
    let sum = |row: &[u64]| row.iter().take(threads).fold(0u64, |sum, one| sum.saturating_add(*one));
    let counts = bins.iter().map(|(lower, row)| (*lower, sum(row)));
    let mut found =
        measured(Bins { width: Some(US), counts: ascending(counts), beyond: sum(&beyond) }, parts);
    found.notes.insert(
        0,
        "the file does not state its unit: values are taken as microseconds, and -N wrote nanoseconds".into(),
    );
    Ok(found)
}

/// The document of `--json`.
pub(super) fn json(value: &Value) -> Result<Measurement, Damage> {
    let unit = if count(value, "resolution_in_ns")?.unwrap_or(0) == 0 { US } else { 1.0 };
    let threads =
        value.get("thread").and_then(Value::as_object).ok_or("its field \"thread\" is no object")?;
    let (mut bins, mut beyond, mut parts) = (BTreeMap::<u64, u64>::new(), 0u64, Vec::new());
    for (name, thread) in threads {
        let cycles = count(thread, "cycles")?;
        let mut in_bins = 0u64;
        let histogram = thread.get("histogram").and_then(Value::as_object);
        for (lower, bin) in histogram.into_iter().flatten() {
            let lower: u64 = lower.parse().map_err(|_| format!("its bin {lower:?} is no number"))?;
            let bin = bin.as_u64().ok_or_else(|| format!("the count of its bin {lower} is no count"))?;
            in_bins = in_bins.saturating_add(bin);
            let sum = bins.entry(lower).or_default();
            *sum = sum.saturating_add(bin);
        }
        let cycles = cycles.ok_or("a thread of it has no field \"cycles\"")?;
        beyond = beyond
            .saturating_add(cycles.checked_sub(in_bins).ok_or("a thread of it has more values than cycles")?);
        let known = |key: &str| {
            Ok::<_, Damage>(number(thread, key)?.filter(|_| cycles > 0).map(|value| value * unit))
        };
        let figures =
            Figures { count: Some(cycles), min: known("min")?, mean: known("avg")?, max: known("max")? };
        parts.push((format!("thread {name}"), figures));
    }
    if parts.is_empty() {
        return Err("it has no thread".to_owned());
    }
    let counts = bins.into_iter().map(|(lower, count)| (lower as f64 * unit, count));
    let mut found = measured(Bins { width: Some(unit), counts: counts.collect(), beyond }, parts);
    // The keys end in a colon in the versions that wrote the committed files.
    found.version = ["/rt_test_version:", "/rt_test_version"].iter().find_map(|key| words(value, key));
    found.command = ["/cmdline:", "/cmdline"].iter().find_map(|key| words(value, key));
    found.started = words(value, "/start_time");
    Ok(found)
}

fn measured(bins: Bins, parts: Vec<(String, Figures)>) -> Measurement {
    let figures = Figures::of_parts(
        &parts.iter().filter(|(_, part)| part.count != Some(0)).cloned().collect::<Vec<_>>(),
    );
    let mut notes = Vec::new();
    let values = if bins.counts.iter().all(|(_, count)| *count == 0) {
        notes.push("no value lies in a bin of a histogram: percentiles are unknown".to_owned());
        Values::Stated(None)
    } else {
        Values::Bins(bins)
    };
    let wake_up =
        Quantity { id: "wake_up", name: "wake-up latency", unit: Unit::Duration, values, figures, parts };
    Measurement { tool: "cyclictest", quantities: vec![wake_up], notes, ..Measurement::default() }
}

/// Bins in ascending order; damage may have put them in another.
pub(super) fn ascending(bins: impl Iterator<Item = (f64, u64)>) -> Vec<(f64, u64)> {
    let mut bins: Vec<(f64, u64)> = bins.filter(|(_, count)| *count > 0).collect();
    bins.sort_by(|one, other| one.0.total_cmp(&other.0));
    bins
}

fn numbers(line: &str) -> Result<Vec<u64>, Damage> {
    let number = |word: &str| word.parse().map_err(|_| format!("its line {line:?} has more than numbers"));
    line.split_whitespace().map(number).collect()
}
