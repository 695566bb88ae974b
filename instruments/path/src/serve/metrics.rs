//! What `/metrics` of `quaver serve` has. Labels are words of this program, never peers.

use crate::metrics::counts;
use quaver_exposition::{Family, Kind};
use quaver_path_record::stamp::{ReflectorTotals, Refusal};
use quaver_path_record::{ClockEstimate, ServerFigures};

const WAYS: [&str; 2] = ["up", "down"];

/// Families of a server, and of its reflector where it has one.
pub(super) fn families(
    server: &ServerFigures,
    reflector: Option<&ReflectorTotals>,
    clock: Option<&ClockEstimate>,
) -> Vec<Family> {
    let gauge = |name, unit, help, value| Family::one((name, unit), Kind::Gauge, help, value);
    let connection_events = ServerFigures::CONNECTION_EVENTS
        .map(|kind| (kind, server.connection_events.get(kind).copied().unwrap_or(0)));
    let ended = WAYS.map(|way| (way, server.ended.get(way).copied().unwrap_or_default()));
    let mut all = vec![
        gauge("quaver_serve_running_tests", "", "Tests that run.", server.running as f64),
        gauge("quaver_serve_waiting_tests", "", "Tests that wait for their turn.", server.waiting as f64),
        gauge(
            "quaver_serve_granted_packets_per_second",
            "",
            "Packets a second that running tests may send or be sent.",
            server.packets_per_second as f64,
        ),
        begun(server),
        counts(
            "quaver_serve_ended_flows",
            "Flows of test packets that ended, by way.",
            "way",
            ended.map(|(way, (flows, _))| (way, flows)),
        ),
        counts(
            "quaver_serve_flow_packets",
            "Packets of flows that ended: received (up) or sent (down).",
            "way",
            ended.map(|(way, (_, packets))| (way, packets)),
        ),
        counts("quaver_serve_connections", "Events of control connections.", "event", connection_events),
    ];
    all.extend(reflector.map(of_reflector).into_iter().flatten());
    all.extend(clock.map(of_clock).into_iter().flatten());
    all
}

fn begun(server: &ServerFigures) -> Family {
    let help = "Flows of test packets that began, by protocol and way.";
    let mut family = Family::new("quaver_serve_begun_flows", Kind::Counter, "", help);
    for ((protocol, way), count) in &server.begun {
        let labels = vec![("protocol", (*protocol).to_owned()), ("way", (*way).to_owned())];
        family.number(labels, *count as f64);
    }
    family
}

fn of_reflector(totals: &ReflectorTotals) -> Vec<Family> {
    let count = |name, help, value: u64| Family::one((name, ""), Kind::Counter, help, value as f64);
    let refused = Refusal::ALL.map(|refusal| (refusal.name(), totals.refused[refusal as usize]));
    vec![
        count("quaver_serve_stamp_received", "STAMP packets received.", totals.received),
        count("quaver_serve_stamp_reflected", "STAMP replies sent.", totals.reflected),
        count("quaver_serve_stamp_unsent", "STAMP replies that the system would not send.", totals.not_sent),
        count(
            "quaver_serve_stamp_dropped",
            "STAMP packets that found no room in the receive buffer of this host.",
            totals.dropped,
        ),
        count("quaver_serve_stamp_sessions", "STAMP sessions that began.", totals.sessions),
        counts("quaver_serve_stamp_refused", "STAMP packets not answered, by reason.", "reason", refused),
    ]
}

/// One-way delays of this host's peers are as good as its clock.
fn of_clock(clock: &ClockEstimate) -> [Family; 2] {
    let gauge = |name, unit, help, value| Family::one((name, unit), Kind::Gauge, help, value);
    [
        gauge(
            "quaver_serve_clock_synchronised",
            "",
            "1 while the kernel says that its clock follows a reference.",
            f64::from(u8::from(clock.is_synchronised())),
        ),
        gauge(
            "quaver_serve_clock_error_seconds",
            "seconds",
            "Bound of the clock's error by the kernel.",
            clock.maxerror_ns as f64 / 1e9,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_there_before_and_after_it_counts() {
        let reflector = ReflectorTotals { received: 9, dropped: 2, ..ReflectorTotals::default() };
        let server = ServerFigures {
            running: 1,
            begun: [(("owamp", "down"), 3)].into(),
            ended: [("down", (2, 4_000))].into(),
            connection_events: [("refused", 7)].into(),
            ..ServerFigures::default()
        };
        let page = quaver_exposition::text_page(&families(&server, Some(&reflector), None));
        for line in [
            "quaver_serve_running_tests 1",
            "quaver_serve_begun_flows_total{protocol=\"owamp\",way=\"down\"} 3",
            "quaver_serve_ended_flows_total{way=\"up\"} 0",
            "quaver_serve_flow_packets_total{way=\"down\"} 4000",
            "quaver_serve_connections_total{event=\"refused\"} 7",
            "quaver_serve_connections_total{event=\"hostile\"} 0",
            "quaver_serve_stamp_received_total 9",
            "quaver_serve_stamp_dropped_total 2",
            "quaver_serve_stamp_refused_total{reason=\"peer-rate\"} 0",
        ] {
            assert!(page.contains(&format!("\n{line}\n")), "{line}\n{page}");
        }
        assert!(!page.contains("clock"), "the kernel said nothing of it");
    }
}
