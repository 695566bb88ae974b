//! `/metrics`: OpenMetrics text 1.0 (<https://prometheus.io/docs/specs/om/open_metrics_spec/>).
//!
//! Labels are names from the settings, identifiers of the catalogue of causes, kinds of places and reasons, and of threads
//! numbers of CPUs and what had one before; nothing else.

use super::openmetrics::{Rows, buckets, family, histogram, line, seconds};
use super::waits;
use crate::board::{Board, Cost, Figures, ReceiverState};
use crate::cpus::{CpuTimes, Family, KINDS, Times};
use crate::judge::{Histogram, Reason};

/// The whole page.
pub(crate) fn page(board: &Board) -> String {
    let Figures { receivers, threads, cpus, cost, .. } = board.read();
    let mut out = String::new();
    let of = Rows { label: "receiver", states: &receivers };
    packets(&mut out, &of);
    incidents(&mut out, &of);
    waits::add(&mut out, &threads);
    times(&mut out, &cpus);
    own(&mut out, &of, &cost);
    out.push_str("# EOF\n");
    out
}

fn packets(out: &mut String, of: &Rows<'_, ReceiverState>) {
    let help = "1 while the receiver is recorded.";
    of.gauge(out, ("quaver_watch_receiver_watched", ""), help, |state| f64::from(u8::from(state.watched)));
    let help = "1 while no packet comes and the stream made no pause alike before.";
    of.gauge(out, ("quaver_watch_receiver_silent", ""), help, |state| f64::from(u8::from(state.silent)));
    let help = "Packets that the program received.";
    of.counter(out, "quaver_watch_packets", help, |state| state.received);
    let name = "quaver_watch_lost_packets";
    let help = "Packets lost: missing by sequence number, or dropped by this host.";
    family(out, name, "counter", "", help);
    for (labels, state) in of.each() {
        for (place, count) in [("missing", state.missing), ("dropped", state.dropped)] {
            line(out, format_args!("{name}_total{{{labels},place=\"{place}\"}} {count}"));
        }
    }
    let mut histograms = |name: &str, help: &str, which: fn(&ReceiverState) -> &Histogram| {
        family(out, name, "histogram", "seconds", help);
        of.each().for_each(|(labels, state)| histogram(out, name, &labels, which(state)));
    };
    let help = "Lateness of packets at the program by the learned pace of their stream.";
    histograms("quaver_watch_lateness_seconds", help, |state| &state.lateness);
    let help = "Time of packets from the network stack to the program.";
    histograms("quaver_watch_delivery_seconds", help, |state| &state.delivery);
}

fn incidents(out: &mut String, of: &Rows<'_, ReceiverState>) {
    let name = "quaver_watch_triggers";
    family(out, name, "counter", "", "Triggers by reason.");
    for (labels, state) in of.each() {
        for reason in Reason::OF_RECEIVERS {
            let count = state.outcomes.triggers.get(&reason).copied().unwrap_or(0);
            line(out, format_args!("{name}_total{{{labels},reason=\"{}\"}} {count}", reason.name()));
        }
    }
    let help = "Incidents kept, by leading cause.";
    of.incidents(out, "quaver_watch_incidents", help, |state| {
        (&state.outcomes.incidents, &state.outcomes.exemplars)
    });
    let help = "Incidents counted in an earlier one of the same cause.";
    of.by_cause(out, ("quaver_watch_folded_incidents", ""), help, |state| &state.outcomes.folded);
    let help = "Late time within incidents, by cause.";
    of.by_cause(out, ("quaver_watch_late_seconds", "seconds"), help, |state| &state.outcomes.explained_ns);
    let help = "Triggers of which no incident was kept, because of a limit.";
    of.counter(out, "quaver_watch_suppressed_triggers", help, |state| state.outcomes.suppressed);
    let help = "Triggers whose records bore out no late packet.";
    of.counter(out, "quaver_watch_unconfirmed_triggers", help, |state| state.outcomes.unconfirmed);
    let help = "Incidents that could not be written.";
    of.counter(out, "quaver_watch_failed_incidents", help, |state| state.outcomes.failed);
    let help = "Incidents lost because the writer of incidents was behind.";
    of.counter(out, "quaver_watch_lost_incidents", help, |state| state.outcomes.lost);
}

/// Times of CPUs. A kind that never came on a CPU has no samples.
fn times(out: &mut String, cpus: &CpuTimes) {
    for (of, name, label, help) in [
        (Family::Interrupt, "interrupt", "source", "Time in interrupts, by the CPU."),
        (Family::Softirq, "softirq", "vector", "Time in softirqs without interrupts in them, by the CPU."),
        (Family::RunQueue, "run_queue", "", "Waits of threads for the CPU, as its run queue counts them."),
        (Family::IdleExit, "idle_exit", "", "From the end of the CPU's idling to the switch to a thread."),
        (Family::Steal, "steal", "", "Time that the host took from the CPU between two looks."),
    ] {
        let name = format!("quaver_watch_cpu_{name}_seconds");
        let of_family = |(cpu, kinds): (&u16, &Vec<Times>)| {
            let kinds = KINDS.iter().zip(kinds.clone()).filter(|((family, _), _)| *family == of);
            kinds.map(|((_, kind), times)| (*cpu, *kind, times)).collect::<Vec<_>>()
        };
        let rows: Vec<_> = cpus.iter().flat_map(of_family).collect();
        if rows.iter().all(|(.., times)| times.counts.iter().sum::<u64>() == 0) {
            continue;
        }
        family(out, &name, "histogram", "seconds", help);
        for (cpu, kind, times) in
            rows.iter().filter(|(.., times)| times.counts.iter().any(|count| *count > 0))
        {
            let more = if label.is_empty() { String::new() } else { format!(",{label}=\"{kind}\"") };
            let bounds = (0..times.counts.len() - 1).map(Times::bound_ns);
            let counts = (&times.counts[..], times.sum_ns);
            buckets(out, &name, &format!("cpu=\"{cpu}\"{more}"), bounds, counts, |_| String::new());
        }
    }
}

fn own(out: &mut String, of: &Rows<'_, ReceiverState>, cost: &Cost) {
    let help = "Time that the flight recorder holds.";
    of.gauge(out, ("quaver_watch_held_seconds", "seconds"), help, |state| seconds(state.held_ns));
    let help = "Memory of the records that the flight recorder holds.";
    of.gauge(out, ("quaver_watch_recorder_bytes", "bytes"), help, |state| state.memory_bytes as f64);
    let help = "Records that found no room in the tracer's memory.";
    of.counter(out, "quaver_watch_lost_records", help, |state| state.records_lost);
    of.counter(out, "quaver_watch_restarts", "Times that recording began anew.", |state| state.anew);
    let help = "CPU time of this program, without its BPF programs.";
    family(out, "quaver_watch_cpu_seconds", "counter", "seconds", help);
    line(out, format_args!("quaver_watch_cpu_seconds_total {}", seconds(cost.cpu_ns)));
    family(out, "quaver_watch_resident_bytes", "gauge", "bytes", "Memory of this program.");
    line(out, format_args!("quaver_watch_resident_bytes {}", cost.resident_bytes));
    family(out, "quaver_watch_disk_bytes", "gauge", "bytes", "Size of all incidents on disk.");
    line(out, format_args!("quaver_watch_disk_bytes {}", cost.disk_bytes));
    family(out, "quaver_watch_waiting_windows", "gauge", "", "Frozen windows that wait to be written.");
    line(out, format_args!("quaver_watch_waiting_windows {}", cost.waiting_windows));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::Subject;
    use crate::judge::{Exemplar, PacketFigures, Trigger};
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
            state.outcomes.explained_ns.insert("stopped".to_owned(), 1_500_000_000);
            state.outcomes.triggers.insert(Reason::Held, 7);
        });
        let exemplar = |incident: &str, realtime_ns| Exemplar { incident: incident.to_owned(), realtime_ns };
        let subject = Subject::Receiver("studio-1".to_owned());
        let triggers = [Trigger::new(Reason::Late, 1, 1_500_000), Trigger::new(Reason::Gap, 1, 5_000)];
        board.exemplify(&subject, &triggers, &exemplar("watch-1", 1_795_193_880_012_345_678));
        let triggers = [Trigger::new(Reason::Late, 1, 3_000_000_000)];
        board.exemplify(&subject, &triggers, &exemplar("watch-2", 1_795_193_881_000_000_000));
        board.outcomes(&subject, |outcomes| {
            outcomes
                .exemplars
                .insert("reclaim/swap".to_owned(), exemplar("watch-2", 1_795_193_881_000_000_000));
        });
        let mut kinds = vec![Times::default(); KINDS.len()];
        (kinds[3].counts[1], kinds[3].counts[19], kinds[3].sum_ns) = (2, 1, 200_001_600);
        (kinds[14].counts[6], kinds[14].sum_ns) = (1, 30_000);
        board.cpus(|cpus| drop(cpus.insert(1, kinds)));
        board.threads("encoder", |state| {
            let mut waits = Histogram::default();
            [5_000, 1_500_000, 3_000_000_000].into_iter().for_each(|ns| waits.add(ns));
            state.waits = [("idle".to_owned(), Histogram::default()), ("program".to_owned(), waits)].into();
            state.cpus = [(3, (3, 3_001_505_000))].into();
            state.outcomes.triggers.insert(Reason::Waited, 2);
            state.outcomes.incidents.insert("cfs-preempt".to_owned(), 1);
            state.outcomes.folded.insert("cfs-preempt".to_owned(), 1);
            state.outcomes.explained_ns.insert("cfs-preempt".to_owned(), 1_500_000_000);
        });
        page(&board)
    }

    #[test]
    fn an_independent_parser_reads_what_was_written() {
        let script = "import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
for family in parse(sys.stdin.read()):
    for s in family.samples:
        print(family.type, s.name, ','.join(f'{k}={v}' for k, v in sorted(s.labels.items())), float(s.value))
        if s.exemplar:
            e = s.exemplar
            print('exemplar', s.name, s.labels.get('le') or s.labels['cause'], e.labels['incident'], float(e.value), float(e.timestamp))";
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
            "gauge quaver_watch_receiver_silent receiver=studio-1 0.0",
            "counter quaver_watch_packets_total receiver=studio-1 3.0",
            "counter quaver_watch_lost_packets_total place=missing,receiver=studio-1 2.0",
            "counter quaver_watch_triggers_total reason=held,receiver=studio-1 7.0",
            "histogram quaver_watch_lateness_seconds_bucket le=1e-05,receiver=studio-1 1.0",
            "histogram quaver_watch_lateness_seconds_bucket le=0.001,receiver=studio-1 1.0",
            "histogram quaver_watch_lateness_seconds_bucket le=0.002,receiver=studio-1 2.0",
            "histogram quaver_watch_lateness_seconds_bucket le=+Inf,receiver=studio-1 3.0",
            "histogram quaver_watch_lateness_seconds_sum receiver=studio-1 3.001505",
            "counter quaver_watch_incidents_total cause=reclaim/swap,receiver=studio-1 1.0",
            "exemplar quaver_watch_lateness_seconds_bucket 0.002 watch-1 0.0015 1795193880.012",
            "exemplar quaver_watch_lateness_seconds_bucket +Inf watch-2 3.0 1795193881.0",
            "exemplar quaver_watch_incidents_total reclaim/swap watch-2 1.0 1795193881.0",
            "counter quaver_watch_late_seconds_total cause=stopped,receiver=studio-1 1.5",
            "gauge quaver_watch_held_seconds receiver=studio-1 4.5",
            "gauge quaver_watch_disk_bytes  0.0",
            "gauge quaver_watch_threads_watched threads=encoder 0.0",
            "histogram quaver_watch_wait_seconds_bucket after=idle,le=+Inf,threads=encoder 0.0",
            "histogram quaver_watch_wait_seconds_bucket after=program,le=0.002,threads=encoder 2.0",
            "histogram quaver_watch_wait_seconds_sum after=program,threads=encoder 3.001505",
            "histogram quaver_watch_cpu_softirq_seconds_bucket cpu=1,le=5.12e-07,vector=net_rx 0.0",
            "histogram quaver_watch_cpu_softirq_seconds_bucket cpu=1,le=1.024e-06,vector=net_rx 2.0",
            "histogram quaver_watch_cpu_softirq_seconds_bucket cpu=1,le=0.134217728,vector=net_rx 2.0",
            "histogram quaver_watch_cpu_softirq_seconds_bucket cpu=1,le=+Inf,vector=net_rx 3.0",
            "histogram quaver_watch_cpu_softirq_seconds_sum cpu=1,vector=net_rx 0.2000016",
            "histogram quaver_watch_cpu_idle_exit_seconds_bucket cpu=1,le=3.2768e-05 1.0",
            "counter quaver_watch_cpu_waits_total cpu=3,threads=encoder 3.0",
            "counter quaver_watch_cpu_wait_seconds_total cpu=3,threads=encoder 3.001505",
            "counter quaver_watch_wait_triggers_total threads=encoder 2.0",
            "counter quaver_watch_wait_incidents_total cause=cfs-preempt,threads=encoder 1.0",
            "counter quaver_watch_explained_wait_seconds_total cause=cfs-preempt,threads=encoder 1.5",
        ] {
            assert!(samples.contains(expected), "no `{expected}` in\n{text}");
        }
        assert_eq!(text.matches("exemplar ").count(), 3, "{text}");
        assert!(!text.contains("_steal_") && !text.contains("vector=hi"), "nothing of what never came");
    }

    /// Names of metrics in a text. What a recording rule makes has a colon before or after.
    fn names(text: &str) -> BTreeSet<&str> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        let words = text.split(|c| !is_part(c));
        words.filter(|word| word.starts_with("quaver_watch_") && !word.contains(':')).collect()
    }

    #[test]
    fn the_shipped_rules_raise_their_alerts() {
        let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/watch");
        let judged =
            Command::new("promtool").args(["test", "rules", "alerts.test.yaml"]).current_dir(place).output();
        let Ok(judged) = judged else {
            return skip("the_shipped_rules_raise_their_alerts", Lack::Installed("prometheus"));
        };
        assert!(judged.status.success(), "{}", String::from_utf8_lossy(&judged.stdout));
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
