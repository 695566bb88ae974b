//! The part of `/metrics` about threads: waits for a CPU.
//!
//! Labels are names of tables from the settings, numbers of CPUs, what had a CPU before, and identifiers of causes.

use super::openmetrics::{Rows, family, histogram, line, seconds};
use crate::board::ThreadsState;
use std::collections::BTreeMap;

/// Adds all families; none where no table is watched.
pub(super) fn add(out: &mut String, threads: &BTreeMap<String, ThreadsState>) {
    if threads.is_empty() {
        return;
    }
    let of = Rows { label: "threads", states: threads };
    let help = "1 while waits of the threads are counted.";
    of.gauge(out, ("quaver_watch_threads_watched", ""), help, |state| f64::from(u8::from(state.watched)));
    let name = "quaver_watch_wait_seconds";
    let help =
        "Waits for a CPU, from the instant at which a thread could run, by what had the CPU last before it.";
    family(out, name, "histogram", "seconds", help);
    for (labels, state) in of.each() {
        for (after, waits) in &state.waits {
            histogram(out, name, &format!("{labels},after=\"{after}\""), waits);
        }
    }
    let name = "quaver_watch_futex_seconds";
    if threads.values().any(|state| !state.futex.is_empty()) {
        family(
            out,
            name,
            "histogram",
            "seconds",
            "Waits in futex(2) until the thread was woken, by how they ended.",
        );
    }
    for (labels, state) in of.each() {
        for (end, waits) in &state.futex {
            histogram(out, name, &format!("{labels},end=\"{end}\""), waits);
        }
    }
    by_cpu(out, &of);
    incidents(out, &of);
    let help = "Time that the flight recorder of threads holds.";
    of.gauge(out, ("quaver_watch_threads_held_seconds", "seconds"), help, |state| seconds(state.held_ns));
    let help = "Events that found no room.";
    of.counter(out, "quaver_watch_threads_lost_records", help, |state| state.records_lost);
}

fn by_cpu(out: &mut String, of: &Rows<'_, ThreadsState>) {
    let cells = |out: &mut String, name: &str, value: &dyn Fn(u64, u64) -> f64| {
        for (labels, state) in of.each() {
            for (cpu, (count, sum_ns)) in &state.cpus {
                let value = value(*count, *sum_ns);
                line(out, format_args!("{name}_total{{{labels},cpu=\"{cpu}\"}} {value}"));
            }
        }
    };
    family(out, "quaver_watch_cpu_waits", "counter", "", "Waits by the CPU on which they ended.");
    cells(out, "quaver_watch_cpu_waits", &|count, _| count as f64);
    let help = "Time of waits by the CPU on which they ended.";
    family(out, "quaver_watch_cpu_wait_seconds", "counter", "seconds", help);
    cells(out, "quaver_watch_cpu_wait_seconds", &|_, sum_ns| seconds(sum_ns));
}

fn incidents(out: &mut String, of: &Rows<'_, ThreadsState>) {
    let triggers = |state: &ThreadsState| state.outcomes.triggers.values().sum();
    of.counter(out, "quaver_watch_wait_triggers", "Windows with a wait above the limit.", triggers);
    let help = "Incidents of a wait kept, by leading cause.";
    of.incidents(out, "quaver_watch_wait_incidents", help, |state| {
        (&state.outcomes.incidents, &state.outcomes.exemplars)
    });
    let help = "Incidents of a wait counted in an earlier one of the same cause.";
    of.by_cause(out, ("quaver_watch_folded_wait_incidents", ""), help, |state| &state.outcomes.folded);
    let help = "Time of the longest waits of incidents, by cause.";
    of.by_cause(out, ("quaver_watch_explained_wait_seconds", "seconds"), help, |state| {
        &state.outcomes.explained_ns
    });
    let help = "Triggers of which no incident was kept, because of a limit.";
    of.counter(out, "quaver_watch_suppressed_wait_triggers", help, |state| state.outcomes.suppressed);
    let help = "Incidents of a wait that could not be written.";
    of.counter(out, "quaver_watch_failed_wait_incidents", help, |state| state.outcomes.failed);
    let help = "Incidents of a wait lost because the writer of incidents was behind.";
    of.counter(out, "quaver_watch_lost_wait_incidents", help, |state| state.outcomes.lost);
}
