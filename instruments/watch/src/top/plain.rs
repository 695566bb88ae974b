//! The same in lines: for pipes, files and screen readers.

use super::history::{History, LATELY_S, bound, incident_lines, incidents, path_line, time_of_day};
use quaver_view::Cell;
use std::fmt::Write;

/// A line for each receiver and table of threads, and one for each incident since the answer before.
pub(super) fn lines(history: &History) -> String {
    let mut out = String::new();
    let Some(now) = history.newest() else { return out };
    for (name, state) in &now.receivers {
        let _ = write!(out, "{} {name}: ", time_of_day(now.realtime_ns));
        if !state.watched {
            let _ = writeln!(out, "not watched: {}", state.words);
            continue;
        }
        let lately = history.lately(name, 0);
        let Some(rate) = lately.rate() else {
            let _ = writeln!(out, "{}, {} so far", state.words, Cell::several(state.received, "packet"));
            continue;
        };
        let [p50, p99, most] = [0.5, 0.99, 1.0].map(|quantile| bound(&lately.times, quantile));
        let seconds = lately.seconds.round().min(LATELY_S as f64);
        let _ = writeln!(
            out,
            "last {seconds} s: {}, {} missing, {} dropped; lateness p50 {p50}, p99 {p99}, largest {most}; incidents so far: {}",
            Cell::Rate(rate, "packets"),
            Cell::Count(lately.missing),
            Cell::Count(lately.dropped),
            Cell::Count(incidents(&state.outcomes)),
        );
    }
    for (name, state) in &now.threads {
        let _ = write!(out, "{} {name}: ", time_of_day(now.realtime_ns));
        if !state.watched {
            let _ = writeln!(out, "not watched: {}", state.words);
            continue;
        }
        let lately = history.lately(name, 0);
        let [p50, p99, most] = [0.5, 0.99, 1.0].map(|quantile| bound(&lately.times, quantile));
        let _ = writeln!(
            out,
            "last {} s: {} for a CPU; p50 {p50}, p99 {p99}, largest {most}; incidents so far: {}",
            lately.seconds.round(),
            Cell::several(lately.count, "wait"),
            Cell::Count(incidents(&state.outcomes)),
        );
    }
    for line in now.paths.iter().map(path_line) {
        let _ = writeln!(out, "{} {line}", time_of_day(now.realtime_ns));
    }
    let before_ns = if history.most_back() > 0 {
        history.at(1).map_or(0, |figures| figures.realtime_ns)
    } else {
        i64::MIN
    };
    for incident in now.incidents.iter().filter(|incident| incident.realtime_ns > before_ns) {
        let _ = writeln!(out, "incident {}", incident_lines(incident).join("\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::history::History;
    use super::super::history::tests::history;
    use crate::board::{Figures, ThreadsState};
    use quaver_exposition::histogram::Histogram;

    #[test]
    fn threads_have_a_line_with_the_waits_of_the_last_ten_seconds() {
        let mut history = History::new(String::new());
        for second in 0..20u64 {
            let mut waits = Histogram::default();
            (0..second * 3).for_each(|_| waits.add(15_000));
            let waits = [("program".to_owned(), waits)].into();
            let encoder = ThreadsState { watched: true, waits, ..ThreadsState::default() };
            let gone =
                ThreadsState { words: "no process runs in the unit b".to_owned(), ..ThreadsState::default() };
            history.push(Figures {
                realtime_ns: (36_000 + second as i64) * 1_000_000_000,
                threads: [("encoder".to_owned(), encoder), ("gone".to_owned(), gone)].into(),
                ..Figures::default()
            });
        }
        let expected = "10:00:19 encoder: last 10 s: 30 waits for a CPU; p50 ≤ 20.0 µs, p99 ≤ 20.0 µs, largest ≤ 20.0 µs; \
                        incidents so far: 0\n10:00:19 gone: not watched: no process runs in the unit b\n";
        assert_eq!(super::lines(&history), expected);
    }

    #[test]
    fn each_second_has_a_line_for_each_receiver_and_an_incident_is_told_once() {
        let incident = "incident 10:00:05 studio: a packet came 412.00 ms late\n  86 % receiver stopped (stopped)\n  \
                        quaver report /var/lib/quaver/watch/incidents/20261123T100005Z-watch\n";
        let gone = "return: not watched: no such receiver runs\n";
        let first = super::lines(&history(1));
        assert_eq!(first, format!("10:00:00 {gone}10:00:00 studio: pid 812 (rx), 500 packets so far\n"));
        let eighth = super::lines(&history(8));
        assert_eq!(
            eighth,
            format!(
                "10:00:07 {gone}10:00:07 studio: last 7 s: 500 packets/s, 2 missing, 0 dropped; lateness p50 ≤ 20.0 µs, \
                 p99 ≤ 50.0 µs, largest ≤ 2.00 ms; incidents so far: 1\n"
            )
        );
        // It is stamped in the second before it is told.
        assert!(super::lines(&history(6)).ends_with(incident));
    }
}
