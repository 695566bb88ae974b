//! `/metrics`: OpenMetrics text 1.0 (<https://prometheus.io/docs/specs/om/open_metrics_spec/>).
//!
//! Labels are names from the settings, identifiers of the catalogue of causes and, of threads, numbers of CPUs; nothing else.

use super::openmetrics::{canonical, family, line, seconds};
use super::waits;
use crate::board::{Board, Cost, Figures, ReceiverState};
use crate::judge::{BOUNDS_US, Histogram, Reason};
use std::collections::BTreeMap;

/// Receivers by name.
type Receivers = BTreeMap<String, ReceiverState>;

/// The whole page.
pub(crate) fn page(board: &Board) -> String {
    let Figures { receivers, threads, cost, .. } = board.read();
    let mut out = String::new();
    packets(&mut out, &receivers);
    incidents(&mut out, &receivers);
    waits::add(&mut out, &threads);
    own(&mut out, &receivers, &cost);
    out.push_str("# EOF\n");
    out
}

/// A counter of each receiver.
fn counter(out: &mut String, name: &str, help: &str, of: &Receivers, count: impl Fn(&ReceiverState) -> u64) {
    family(out, name, "counter", "", help);
    for (receiver, state) in of {
        line(out, format_args!("{name}_total{{receiver=\"{receiver}\"}} {}", count(state)));
    }
}

/// A gauge of each receiver.
fn gauge(
    out: &mut String,
    name: &str,
    unit: &str,
    help: &str,
    of: &Receivers,
    value: impl Fn(&ReceiverState) -> f64,
) {
    family(out, name, "gauge", unit, help);
    for (receiver, state) in of {
        line(out, format_args!("{name}{{receiver=\"{receiver}\"}} {}", value(state)));
    }
}

fn histogram(
    out: &mut String,
    name: &str,
    help: &str,
    of: &Receivers,
    which: impl Fn(&ReceiverState) -> &Histogram,
) {
    family(out, name, "histogram", "seconds", help);
    for (receiver, state) in of {
        let Histogram { counts, sum_ns } = which(state);
        let mut count = 0;
        for (bound_us, more) in BOUNDS_US.iter().zip(counts) {
            count += more;
            let bound = canonical(*bound_us);
            line(out, format_args!("{name}_bucket{{receiver=\"{receiver}\",le=\"{bound}\"}} {count}"));
        }
        count += counts[BOUNDS_US.len()];
        line(out, format_args!("{name}_bucket{{receiver=\"{receiver}\",le=\"+Inf\"}} {count}"));
        line(out, format_args!("{name}_count{{receiver=\"{receiver}\"}} {count}"));
        line(out, format_args!("{name}_sum{{receiver=\"{receiver}\"}} {}", seconds(*sum_ns)));
    }
}

fn packets(out: &mut String, of: &Receivers) {
    gauge(out, "quaver_watch_receiver_watched", "", "1 while the receiver is recorded.", of, |state| {
        f64::from(u8::from(state.watched))
    });
    counter(out, "quaver_watch_packets", "Packets that the program received.", of, |state| state.received);
    family(
        out,
        "quaver_watch_lost_packets",
        "counter",
        "",
        "Packets lost: missing by sequence number, or dropped by this host.",
    );
    for (receiver, state) in of {
        for (place, count) in [("missing", state.missing), ("dropped", state.dropped)] {
            line(
                out,
                format_args!(
                    "quaver_watch_lost_packets_total{{receiver=\"{receiver}\",place=\"{place}\"}} {count}"
                ),
            );
        }
    }
    let help = "Lateness of packets at the program by the learned pace of their stream.";
    histogram(out, "quaver_watch_lateness_seconds", help, of, |state| &state.lateness);
    let help = "Time of packets from the network stack to the program.";
    histogram(out, "quaver_watch_delivery_seconds", help, of, |state| &state.delivery);
}

fn by_cause(
    out: &mut String,
    name: &str,
    of: &Receivers,
    which: impl Fn(&ReceiverState) -> &BTreeMap<String, u64>,
    value: impl Fn(u64) -> f64,
) {
    for (receiver, state) in of {
        for (cause, count) in which(state) {
            let value = value(*count);
            line(out, format_args!("{name}_total{{receiver=\"{receiver}\",cause=\"{cause}\"}} {value}"));
        }
    }
}

fn incidents(out: &mut String, of: &Receivers) {
    family(out, "quaver_watch_triggers", "counter", "", "Triggers by reason.");
    for (receiver, state) in of {
        for reason in Reason::OF_RECEIVERS {
            let count = state.outcomes.triggers.get(&reason).copied().unwrap_or(0);
            let name = reason.name();
            line(
                out,
                format_args!(
                    "quaver_watch_triggers_total{{receiver=\"{receiver}\",reason=\"{name}\"}} {count}"
                ),
            );
        }
    }
    family(out, "quaver_watch_incidents", "counter", "", "Incidents kept, by leading cause.");
    by_cause(out, "quaver_watch_incidents", of, |state| &state.outcomes.incidents, |count| count as f64);
    family(
        out,
        "quaver_watch_folded_incidents",
        "counter",
        "",
        "Incidents counted in an earlier one of the same cause.",
    );
    by_cause(out, "quaver_watch_folded_incidents", of, |state| &state.outcomes.folded, |count| count as f64);
    family(out, "quaver_watch_late_seconds", "counter", "seconds", "Late time within incidents, by cause.");
    by_cause(out, "quaver_watch_late_seconds", of, |state| &state.outcomes.late_ns, seconds);
    let help = "Triggers that a limit kept from making an incident.";
    counter(out, "quaver_watch_suppressed_triggers", help, of, |state| state.outcomes.suppressed);
    let help = "Triggers whose records bore out no late packet.";
    counter(out, "quaver_watch_unconfirmed_triggers", help, of, |state| state.outcomes.unconfirmed);
    counter(out, "quaver_watch_failed_incidents", "Incidents that could not be written.", of, |state| {
        state.outcomes.failed
    });
}

fn own(out: &mut String, of: &Receivers, cost: &Cost) {
    let help = "Time that the flight recorder holds.";
    gauge(out, "quaver_watch_held_seconds", "seconds", help, of, |state| seconds(state.held_ns));
    let help = "Memory of the records that the flight recorder holds.";
    gauge(out, "quaver_watch_recorder_bytes", "bytes", help, of, |state| state.memory_bytes as f64);
    let help = "Records that found no room in the tracer's memory.";
    counter(out, "quaver_watch_lost_records", help, of, |state| state.records_lost);
    counter(out, "quaver_watch_restarts", "Times that recording began anew.", of, |state| state.anew);
    family(
        out,
        "quaver_watch_cpu_seconds",
        "counter",
        "seconds",
        "CPU time of this program, without its BPF programs.",
    );
    line(out, format_args!("quaver_watch_cpu_seconds_total {}", seconds(cost.cpu_ns)));
    family(out, "quaver_watch_resident_bytes", "gauge", "bytes", "Memory of this program.");
    line(out, format_args!("quaver_watch_resident_bytes {}", cost.resident_bytes));
    family(out, "quaver_watch_disk_bytes", "gauge", "bytes", "Size of all incidents on disk.");
    line(out, format_args!("quaver_watch_disk_bytes {}", cost.disk_bytes));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::PacketFigures;
    use quaver_testbed::privileged::{Lack, skip};
    use std::collections::BTreeSet;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    /// Debian's, which has Debian's packages.
    const PYTHON: &str = "/usr/bin/python3";

    /// A page with every family.
    fn full_page() -> String {
        let board = Board::default();
        let mut figures = PacketFigures { received: 3, missing: 2, dropped: 1, ..PacketFigures::default() };
        [5_000, 1_500_000, 3_000_000_000].into_iter().for_each(|ns| figures.lateness.add(ns));
        board.receiver("studio-1", |state| {
            state.add(&figures);
            (state.watched, state.held_ns) = (true, 4_500_000_000);
            state.outcomes.incidents.insert("reclaim/swap".to_owned(), 1);
            state.outcomes.folded.insert("stopped".to_owned(), 2);
            state.outcomes.late_ns.insert("stopped".to_owned(), 1_500_000_000);
            state.outcomes.triggers.insert(Reason::Held, 7);
        });
        board.threads("encoder", |state| {
            let mut waits = Histogram::default();
            [5_000, 1_500_000, 3_000_000_000].into_iter().for_each(|ns| waits.add(ns));
            state.waits = [("idle".to_owned(), Histogram::default()), ("program".to_owned(), waits)].into();
            state.cpus = [(3, (3, 3_001_505_000))].into();
            state.outcomes.triggers.insert(Reason::Waited, 2);
            state.outcomes.incidents.insert("cfs-preempt".to_owned(), 1);
            state.outcomes.late_ns.insert("cfs-preempt".to_owned(), 1_500_000_000);
        });
        page(&board)
    }

    #[test]
    fn an_independent_parser_reads_what_was_written() {
        let script = "import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
for family in parse(sys.stdin.read()):
    for s in family.samples:
        print(family.type, s.name, ','.join(f'{k}={v}' for k, v in sorted(s.labels.items())), float(s.value))";
        let has_parser =
            Command::new(PYTHON).args(["-c", "import prometheus_client.openmetrics.parser"]).output();
        if !has_parser.is_ok_and(|output| output.status.success()) {
            skip(
                "an_independent_parser_reads_what_was_written",
                Lack::Installed("python3-prometheus-client"),
            );
            return;
        }
        let mut child = Command::new(PYTHON)
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(full_page().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        let samples: BTreeSet<&str> = text.lines().collect();
        for expected in [
            "gauge quaver_watch_receiver_watched receiver=studio-1 1.0",
            "counter quaver_watch_packets_total receiver=studio-1 3.0",
            "counter quaver_watch_lost_packets_total place=missing,receiver=studio-1 2.0",
            "counter quaver_watch_triggers_total reason=held,receiver=studio-1 7.0",
            "histogram quaver_watch_lateness_seconds_bucket le=1e-05,receiver=studio-1 1.0",
            "histogram quaver_watch_lateness_seconds_bucket le=0.001,receiver=studio-1 1.0",
            "histogram quaver_watch_lateness_seconds_bucket le=0.002,receiver=studio-1 2.0",
            "histogram quaver_watch_lateness_seconds_bucket le=+Inf,receiver=studio-1 3.0",
            "histogram quaver_watch_lateness_seconds_sum receiver=studio-1 3.001505",
            "counter quaver_watch_incidents_total cause=reclaim/swap,receiver=studio-1 1.0",
            "counter quaver_watch_late_seconds_total cause=stopped,receiver=studio-1 1.5",
            "gauge quaver_watch_held_seconds receiver=studio-1 4.5",
            "gauge quaver_watch_disk_bytes  0.0",
            "gauge quaver_watch_threads_watched threads=encoder 0.0",
            "histogram quaver_watch_wait_seconds_bucket after=idle,le=+Inf,threads=encoder 0.0",
            "histogram quaver_watch_wait_seconds_bucket after=program,le=0.002,threads=encoder 2.0",
            "histogram quaver_watch_wait_seconds_sum after=program,threads=encoder 3.001505",
            "counter quaver_watch_cpu_waits_total cpu=3,threads=encoder 3.0",
            "counter quaver_watch_cpu_wait_seconds_total cpu=3,threads=encoder 3.001505",
            "counter quaver_watch_wait_triggers_total threads=encoder 2.0",
            "counter quaver_watch_wait_incidents_total cause=cfs-preempt,threads=encoder 1.0",
            "counter quaver_watch_explained_wait_seconds_total cause=cfs-preempt,threads=encoder 1.5",
        ] {
            assert!(samples.contains(expected), "no `{expected}` in\n{text}");
        }
    }

    /// Names of metrics in a text. What a recording rule makes has a colon before or after.
    fn names(text: &str) -> BTreeSet<&str> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        let words = text.split(|c| !is_part(c));
        words.filter(|word| word.starts_with("quaver_watch_") && !word.contains(':')).collect()
    }

    #[test]
    fn the_shipped_rules_and_dashboard_name_exported_metrics_only() {
        let page = full_page();
        let samples = page.lines().filter(|line| !line.starts_with('#'));
        let exported: BTreeSet<&str> = samples.filter_map(|line| line.split(['{', ' ']).next()).collect();
        let rules = names(include_str!("../../../../packaging/watch/alerts.yaml"));
        let dashboard = names(include_str!("../../../../packaging/watch/dashboard.json"));
        assert!(rules.len() > 5 && dashboard.len() > 8, "{rules:?} {dashboard:?}");
        let unknown: Vec<_> = rules.union(&dashboard).filter(|name| !exported.contains(**name)).collect();
        assert!(unknown.is_empty(), "{unknown:?} are not exported");
    }
}
