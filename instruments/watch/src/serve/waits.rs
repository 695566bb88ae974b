//! The part of `/metrics` about threads: waits for a CPU.
//!
//! Labels are names of tables from the settings, numbers of CPUs, who had a CPU before, and identifiers of causes.

use super::openmetrics::{canonical, family, line, seconds};
use crate::board::ThreadsState;
use crate::judge::{BOUNDS_US, Histogram, Reason};
use std::collections::BTreeMap;

/// Tables by name.
type Tables = BTreeMap<String, ThreadsState>;

/// Adds all families; none where no table is watched.
pub(super) fn add(out: &mut String, of: &Tables) {
    if of.is_empty() {
        return;
    }
    gauge(
        out,
        "quaver_watch_threads_watched",
        "",
        "1 while waits of the threads are counted.",
        of,
        |state| f64::from(u8::from(state.watched)),
    );
    histograms(out, of);
    by_cpu(out, of);
    incidents(out, of);
    let help = "Time that the flight recorder of threads holds.";
    gauge(out, "quaver_watch_threads_held_seconds", "seconds", help, of, |state| seconds(state.held_ns));
    counter(out, "quaver_watch_threads_lost_records", "Events that found no room.", of, |state| {
        state.records_lost
    });
}

fn gauge(
    out: &mut String,
    name: &str,
    unit: &str,
    help: &str,
    of: &Tables,
    value: impl Fn(&ThreadsState) -> f64,
) {
    family(out, name, "gauge", unit, help);
    for (threads, state) in of {
        line(out, format_args!("{name}{{threads=\"{threads}\"}} {}", value(state)));
    }
}

fn counter(out: &mut String, name: &str, help: &str, of: &Tables, count: impl Fn(&ThreadsState) -> u64) {
    family(out, name, "counter", "", help);
    for (threads, state) in of {
        line(out, format_args!("{name}_total{{threads=\"{threads}\"}} {}", count(state)));
    }
}

fn histograms(out: &mut String, of: &Tables) {
    let name = "quaver_watch_wait_seconds";
    let help =
        "Waits for a CPU, from the instant at which a thread could run, by who had the CPU last before it.";
    family(out, name, "histogram", "seconds", help);
    for (threads, state) in of {
        for (after, Histogram { counts, sum_ns }) in &state.waits {
            let labels = format!("threads=\"{threads}\",after=\"{after}\"");
            let mut count = 0;
            for (bound_us, more) in BOUNDS_US.iter().zip(counts) {
                count += more;
                let bound = canonical(*bound_us);
                line(out, format_args!("{name}_bucket{{{labels},le=\"{bound}\"}} {count}"));
            }
            count += counts[BOUNDS_US.len()];
            line(out, format_args!("{name}_bucket{{{labels},le=\"+Inf\"}} {count}"));
            line(out, format_args!("{name}_count{{{labels}}} {count}"));
            line(out, format_args!("{name}_sum{{{labels}}} {}", seconds(*sum_ns)));
        }
    }
}

fn by_cpu(out: &mut String, of: &Tables) {
    let cells = |out: &mut String, name: &str, value: &dyn Fn(u64, u64) -> f64| {
        for (threads, state) in of {
            for (cpu, (count, sum_ns)) in &state.cpus {
                let value = value(*count, *sum_ns);
                line(out, format_args!("{name}_total{{threads=\"{threads}\",cpu=\"{cpu}\"}} {value}"));
            }
        }
    };
    family(out, "quaver_watch_cpu_waits", "counter", "", "Waits by the CPU on which they ended.");
    cells(out, "quaver_watch_cpu_waits", &|count, _| count as f64);
    family(
        out,
        "quaver_watch_cpu_wait_seconds",
        "counter",
        "seconds",
        "Time of waits by the CPU on which they ended.",
    );
    cells(out, "quaver_watch_cpu_wait_seconds", &|_, sum_ns| seconds(sum_ns));
}

fn incidents(out: &mut String, of: &Tables) {
    let triggers = |state: &ThreadsState| state.outcomes.triggers.get(&Reason::Waited).copied().unwrap_or(0);
    counter(out, "quaver_watch_wait_triggers", "Windows with a wait above the limit.", of, triggers);
    let mut by_cause = |name: &str,
                        unit: &str,
                        help: &str,
                        which: &dyn Fn(&ThreadsState) -> BTreeMap<String, f64>| {
        family(out, name, "counter", unit, help);
        for (threads, state) in of {
            for (cause, value) in which(state) {
                line(out, format_args!("{name}_total{{threads=\"{threads}\",cause=\"{cause}\"}} {value}"));
            }
        }
    };
    let counts = |counts: &BTreeMap<String, u64>| -> BTreeMap<String, f64> {
        counts.iter().map(|(cause, count)| (cause.clone(), *count as f64)).collect()
    };
    let help = "Incidents of a wait kept, by leading cause.";
    by_cause("quaver_watch_wait_incidents", "", help, &|state| counts(&state.outcomes.incidents));
    let help = "Incidents of a wait counted in an earlier one of the same cause.";
    by_cause("quaver_watch_folded_wait_incidents", "", help, &|state| counts(&state.outcomes.folded));
    let help = "Time of the longest waits of incidents, by cause.";
    by_cause("quaver_watch_explained_wait_seconds", "seconds", help, &|state| {
        state.outcomes.late_ns.iter().map(|(cause, ns)| (cause.clone(), seconds(*ns))).collect()
    });
    let help = "Waits above the limit of which a limit kept the incident from being kept.";
    counter(out, "quaver_watch_suppressed_wait_triggers", help, of, |state| state.outcomes.suppressed);
    let help = "Incidents of a wait that could not be written.";
    counter(out, "quaver_watch_failed_wait_incidents", help, of, |state| state.outcomes.failed);
}
