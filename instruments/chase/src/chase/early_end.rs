//! Which end of a stream ended before its time, and why.

use quaver_probe::sink::SinkReport;
use quaver_probe::source::SourceReport;
use quaver_view::Cell;
use std::time::Duration;

/// Ends of the stream that were no longer at work when the measurement ended, and were not told to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) source: bool,
    pub(super) sink: bool,
}

/// Says which end it was, how much it had done, and why it ended; none where both were at work. `planned` is the length of
/// the source's stream, `into` how far the measurement had come.
pub(super) fn why(
    ended: Ended,
    source: &SourceReport,
    sink: &SinkReport,
    planned: Duration,
    into: Duration,
) -> Option<String> {
    let parts = [ended.source.then(|| of_source(source, planned)), ended.sink.then(|| of_sink(sink))];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty())
        .then(|| format!("{:.1} s into the measurement {}", into.as_secs_f64(), parts.join("; ")))
}

fn of_source(report: &SourceReport, planned: Duration) -> String {
    let lasted_ns = report.last_deadline_ns.saturating_sub(report.start_ns).max(0).unsigned_abs();
    // The last deadline lies at most one slot before the end; slots that were missed lie behind it, too.
    let slot_ns = lasted_ns / report.packets.max(1);
    let over = u128::from(lasted_ns + slot_ns * (report.misses + 2)) >= planned.as_nanos();
    let reason = if over {
        let seconds = planned.as_secs_f64();
        format!(
            "the {seconds:.1} s planned for its stream were over, as the steps before took longer than planned"
        )
    } else {
        "its thread ended without being told to".to_owned()
    };
    let failed: u64 = report.failed.values().sum();
    let failed =
        if failed > 0 { format!(" ({} failed)", Cell::several(failed, "send")) } else { String::new() };
    format!("the source ended after {}{failed}: {reason}", Cell::several(report.sent, "packet"))
}

/// Why a sink that nobody told to end has ended.
pub(super) fn of_sink(report: &SinkReport) -> String {
    let failed = match report.errors {
        0 => String::new(),
        errors => format!(" ({} failed)", Cell::several(errors, "receive call")),
    };
    let packets = Cell::Count(report.received);
    format!("the sink ended after {packets} packets{failed}: its socket was shut down")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLANNED: Duration = Duration::from_secs(3);
    const INTO: Duration = Duration::from_millis(1_250);

    fn source(lasted_ns: i64, packets: u64) -> SourceReport {
        SourceReport {
            packets,
            sent: packets,
            start_ns: 5,
            last_deadline_ns: 5 + lasted_ns,
            ..SourceReport::default()
        }
    }

    fn said(ended: Ended, source: &SourceReport, sink: &SinkReport) -> Option<String> {
        why(ended, source, sink, PLANNED, INTO)
    }

    #[test]
    fn a_stream_that_was_over_is_told_from_a_thread_that_ended() {
        let ended = Ended { source: true, sink: false };
        let sink = SinkReport::default();
        let over = said(ended, &source(2_999_000_000, 3_000), &sink).unwrap();
        assert_eq!(
            over,
            "1.2 s into the measurement the source ended after 3,000 packets: the 3.0 s planned for its stream were over, \
             as the steps before took longer than planned"
        );
        let mut early = source(1_000_000_000, 1_001);
        early.failed.insert(1, 7);
        let early = said(ended, &early, &sink).unwrap();
        assert_eq!(
            early,
            "1.2 s into the measurement the source ended after 1,001 packets (7 sends failed): its thread ended without \
             being told to"
        );
    }

    #[test]
    fn both_ends_are_named_and_none_where_both_were_at_work() {
        let (source, sink) = (source(0, 0), SinkReport { received: 12, errors: 3, ..SinkReport::default() });
        assert_eq!(said(Ended::default(), &source, &sink), None);
        let both = said(Ended { source: true, sink: true }, &source, &sink).unwrap();
        assert!(both.contains("the source ended after 0 packets: its thread"), "{both}");
        assert!(both.ends_with(
            "; the sink ended after 12 packets (3 receive calls failed): its socket was shut down"
        ));
    }
}
