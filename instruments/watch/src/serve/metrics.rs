//! What `/metrics` has: families of the watch's figures.
//!
//! Labels are names from the settings, identifiers of the catalogue of causes, kinds of places and reasons, and of threads
//! numbers of CPUs and what had one before; nothing else.

use super::{outcomes, paths, waits};
use crate::board::{Cost, Figures, Outcomes, ReceiverState};
use crate::cpus::{CpuTimes, KINDS, Times};
use crate::judge::Reason;
use quaver_exposition::histogram::Histogram;
use quaver_exposition::{Family, Kind, ProcessCost, Rows, seconds};

/// All of them.
pub(super) fn families(figures: &Figures) -> Vec<Family> {
    let Figures { receivers, threads, paths: watched, cpus, cost, .. } = figures;
    let of = Rows { label: "receiver", states: receivers };
    let mut all = packets(&of);
    all.extend(incidents(&of));
    all.extend(waits::families(threads));
    all.extend(paths::families(watched));
    all.extend(times(cpus));
    all.extend(own(&of, cost));
    all
}

fn packets(of: &Rows<'_, ReceiverState>) -> Vec<Family> {
    let help = "1 while the receiver is recorded.";
    let watched =
        of.gauge(("quaver_watch_receiver_watched", ""), help, |state| f64::from(u8::from(state.watched)));
    let help = "1 while no packet comes and the stream made no pause alike before.";
    let silent =
        of.gauge(("quaver_watch_receiver_silent", ""), help, |state| f64::from(u8::from(state.silent)));
    let received =
        of.counter("quaver_watch_packets", "Packets that the program received.", |state| state.received);
    let help = "Packets lost: missing by sequence number, or dropped by this host.";
    let mut lost = Family::new("quaver_watch_lost_packets", Kind::Counter, "", help);
    for (labels, state) in of.each() {
        for (place, count) in [("missing", state.missing), ("dropped", state.dropped)] {
            lost.number(Family::with(labels.clone(), "place", place), count as f64);
        }
    }
    let histograms = |name: &str, help: &'static str, which: fn(&ReceiverState) -> &Histogram| {
        let mut family = Family::new(name, Kind::Histogram, "seconds", help);
        of.each().for_each(|(labels, state)| family.times(labels, which(state)));
        family
    };
    let help = "Lateness of packets at the program by the learned pace of their stream.";
    let lateness = histograms("quaver_watch_lateness_seconds", help, |state| &state.lateness);
    let help = "Time of packets from the network stack to the program.";
    let delivery = histograms("quaver_watch_delivery_seconds", help, |state| &state.delivery);
    vec![watched, silent, received, lost, lateness, delivery]
}

fn incidents(of: &Rows<'_, ReceiverState>) -> Vec<Family> {
    let help = "Late time within incidents, by cause.";
    let late =
        of.by_cause(("quaver_watch_late_seconds", "seconds"), help, |state| &state.outcomes.explained_ns);
    let help = "Triggers whose records bore out no late packet.";
    let unconfirmed =
        of.counter("quaver_watch_unconfirmed_triggers", help, |state| state.outcomes.unconfirmed);
    let outcomes: fn(&ReceiverState) -> &Outcomes = |state| &state.outcomes;
    let triggers = outcomes::triggers(of, "", &Reason::OF_RECEIVERS, outcomes);
    let mut all = vec![triggers, late, unconfirmed];
    all.extend(outcomes::incidents(of, "", outcomes));
    all
}

/// Times of CPUs. A kind that never came on a CPU has no samples.
fn times(cpus: &CpuTimes) -> Vec<Family> {
    let family = |(of, name, label, help)| {
        let name = format!("quaver_watch_cpu_{name}_seconds");
        let mut family = Family::new(name, Kind::Histogram, "seconds", help);
        for (cpu, kinds) in cpus {
            let came = |times: &Times| times.counts.iter().any(|count| *count > 0);
            let kinds = KINDS.iter().zip(kinds).filter(|((family, _), times)| *family == of && came(times));
            for ((_, kind), times) in kinds {
                let labels = vec![("cpu", cpu.to_string())];
                family.times(if kind.is_empty() { labels } else { Family::with(labels, label, kind) }, times);
            }
        }
        family
    };
    let families = [
        (crate::cpus::Family::Interrupt, "interrupt", "source", "Time in interrupts, by the CPU."),
        (
            crate::cpus::Family::Softirq,
            "softirq",
            "vector",
            "Time in softirqs without interrupts in them, by the CPU.",
        ),
        (
            crate::cpus::Family::RunQueue,
            "run_queue",
            "",
            "Waits of threads for the CPU, as its run queue counts them.",
        ),
        (
            crate::cpus::Family::IdleExit,
            "idle_exit",
            "",
            "From the end of the CPU's idling to the switch to a thread.",
        ),
        (crate::cpus::Family::Steal, "steal", "", "Time that the host took from the CPU between two looks."),
    ];
    families.map(family).into_iter().filter(|family| !family.samples.is_empty()).collect()
}

fn own(of: &Rows<'_, ReceiverState>, cost: &Cost) -> Vec<Family> {
    let help = "Time that the flight recorder holds.";
    let held = of.gauge(("quaver_watch_held_seconds", "seconds"), help, |state| seconds(state.held_ns));
    let help = "Memory of the records that the flight recorder holds.";
    let memory = of.gauge(("quaver_watch_recorder_bytes", "bytes"), help, |state| state.memory_bytes as f64);
    let help = "Records that found no room in the tracer's memory.";
    let lost = of.counter("quaver_watch_lost_records", help, |state| state.records_lost);
    let anew = of.counter("quaver_watch_restarts", "Times that recording began anew.", |state| state.anew);
    let [cpu, resident] =
        ProcessCost { cpu_ns: cost.cpu_ns, resident_bytes: cost.resident_bytes }.families("quaver_watch");
    let gauge = |named, help, value: u64| Family::one(named, Kind::Gauge, help, value as f64);
    let disk = gauge(("quaver_watch_disk_bytes", "bytes"), "Size of all incidents on disk.", cost.disk_bytes);
    let help = "Frozen windows that wait to be written.";
    let waiting = gauge(("quaver_watch_waiting_windows", ""), help, cost.waiting_windows);
    vec![held, memory, lost, anew, cpu, resident, disk, waiting]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::{Board, Subject};
    use crate::judge::{PacketFigures, Trigger};
    use quaver_exposition::histogram::Exemplar;
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
        board.path("studio-b", |state| {
            (state.silent, state.sent, state.lost) = (true, 40, 3);
            state.round_trip.add(1_500_000);
            state.outcomes.triggers.insert(Reason::Delayed, 3);
            state.outcomes.incidents.insert("way-back".to_owned(), 1);
            state.outcomes.folded.insert("way-back".to_owned(), 2);
        });
        quaver_exposition::text_page(&families(&board.read()))
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
            "gauge quaver_watch_path_silent path=studio-b 1.0",
            "counter quaver_watch_path_triggers_total path=studio-b,reason=delayed 3.0",
            "counter quaver_watch_path_incidents_total cause=way-back,path=studio-b 1.0",
            "counter quaver_watch_folded_path_incidents_total cause=way-back,path=studio-b 2.0",
            "counter quaver_watch_path_packets_total path=studio-b 40.0",
            "counter quaver_watch_path_lost_packets_total path=studio-b 3.0",
            "histogram quaver_watch_path_round_trip_seconds_bucket le=0.001,path=studio-b 0.0",
            "histogram quaver_watch_path_round_trip_seconds_bucket le=0.002,path=studio-b 1.0",
            "histogram quaver_watch_wait_seconds_bucket after=idle,le=+Inf,threads=encoder 0.0",
            "histogram quaver_watch_wait_seconds_bucket after=program,le=0.002,threads=encoder 2.0",
            "histogram quaver_watch_wait_seconds_sum after=program,threads=encoder 3.001505",
            "histogram quaver_watch_cpu_softirq_seconds_bucket cpu=1,le=4.76e-07,vector=net_rx 0.0",
            "histogram quaver_watch_cpu_softirq_seconds_bucket cpu=1,le=9.53e-07,vector=net_rx 2.0",
            "histogram quaver_watch_cpu_softirq_seconds_bucket cpu=1,le=0.125,vector=net_rx 2.0",
            "histogram quaver_watch_cpu_softirq_seconds_bucket cpu=1,le=+Inf,vector=net_rx 3.0",
            "histogram quaver_watch_cpu_softirq_seconds_sum cpu=1,vector=net_rx 0.2000016",
            "histogram quaver_watch_cpu_idle_exit_seconds_bucket cpu=1,le=3.0517e-05 1.0",
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
