//! The part of `/metrics` about threads: waits for a CPU.
//!
//! Labels are names of tables from the settings, numbers of CPUs, what had a CPU before, and identifiers of causes.

use super::outcomes;
use crate::board::ThreadsState;
use quaver_exposition::histogram::Histogram;
use quaver_exposition::{Family, Kind, Rows, seconds};
use std::collections::BTreeMap;

/// All families; none where no table is watched.
pub(super) fn families(threads: &BTreeMap<String, ThreadsState>) -> Vec<Family> {
    if threads.is_empty() {
        return Vec::new();
    }
    let of = Rows { label: "threads", states: threads };
    let help = "1 while waits of the threads are counted.";
    let watched =
        of.gauge(("quaver_watch_threads_watched", ""), help, |state| f64::from(u8::from(state.watched)));
    let histograms = |name: &str, help, label, which: fn(&ThreadsState) -> &BTreeMap<String, Histogram>| {
        let mut family = Family::new(name, Kind::Histogram, "seconds", help);
        for (labels, state) in of.each() {
            for (value, waits) in which(state) {
                family.times(Family::with(labels.clone(), label, value), waits);
            }
        }
        family
    };
    let help =
        "Waits for a CPU, from the instant at which a thread could run, by what had the CPU last before it.";
    let mut all = vec![watched, histograms("quaver_watch_wait_seconds", help, "after", |state| &state.waits)];
    if threads.values().any(|state| !state.futex.is_empty()) {
        let help = "Waits in futex(2) until the thread was woken, by how they ended.";
        all.push(histograms("quaver_watch_futex_seconds", help, "end", |state| &state.futex));
    }
    all.extend(by_cpu(&of));
    all.extend(incidents(&of));
    let help = "Time that the flight recorder of threads holds.";
    let held = ("quaver_watch_threads_held_seconds", "seconds");
    all.push(of.gauge(held, help, |state| seconds(state.held_ns)));
    let help = "Events that found no room.";
    all.push(of.counter("quaver_watch_threads_lost_records", help, |state| state.records_lost));
    all
}

fn by_cpu(of: &Rows<'_, ThreadsState>) -> [Family; 2] {
    let help = "Waits by the CPU on which they ended.";
    let mut counts = Family::new("quaver_watch_cpu_waits", Kind::Counter, "", help);
    let help = "Time of waits by the CPU on which they ended.";
    let mut times = Family::new("quaver_watch_cpu_wait_seconds", Kind::Counter, "seconds", help);
    for (labels, state) in of.each() {
        for (cpu, (count, sum_ns)) in &state.cpus {
            let labels = Family::with(labels.clone(), "cpu", cpu);
            counts.number(labels.clone(), *count as f64);
            times.number(labels, seconds(*sum_ns));
        }
    }
    [counts, times]
}

fn incidents(of: &Rows<'_, ThreadsState>) -> Vec<Family> {
    let triggers = |state: &ThreadsState| state.outcomes.triggers.values().sum();
    let triggers = of.counter("quaver_watch_wait_triggers", "Windows with a wait above the limit.", triggers);
    let help = "Time of the longest waits of incidents, by cause.";
    let explained = of.by_cause(("quaver_watch_explained_wait_seconds", "seconds"), help, |state| {
        &state.outcomes.explained_ns
    });
    let mut all = vec![triggers, explained];
    all.extend(outcomes::incidents(of, "wait_", |state| &state.outcomes));
    all
}
