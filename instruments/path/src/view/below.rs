//! What was seen of a path's packets below the programs: departures, and the segments of TCP flows.

use super::metrics::{Metric, Metrics, framed, in_frame};
use crate::digest::KnownFlow;
use crate::facts::{DepartureFacts, SegmentFacts};
use quaver_arrivals::path::direction::Direction;
use quaver_view::{Cell, Column, Section, Table, text};

/// A flow's segments as one of its ends saw them.
struct SeenSegments<'a> {
    /// `up, sender`.
    end: String,
    segments: &'a SegmentFacts,
    /// The flow, with what the receiving program saw of its packets.
    flow: KnownFlow<'a>,
}

/// The ends that saw segments, the sender's before the receiver's.
fn seen_segments<'a>(flows: &[KnownFlow<'a>]) -> Vec<SeenSegments<'a>> {
    let mut all = Vec::new();
    for known in flows {
        let flow = known.flow;
        let (here, there) = (flow.segments.as_ref(), flow.segments_at_server.as_ref());
        let (sender, receiver) = match flow.direction {
            Direction::Up => (here, there),
            Direction::Down => (there, here),
        };
        for (end, segments) in [("sender", sender), ("receiver", receiver)] {
            let Some(segments) = segments else { continue };
            let end = format!("{}, {end}", flow.direction.name());
            all.push(SeenSegments { end, segments, flow: *known });
        }
    }
    all
}

/// Segments below TCP flows, beside what the application saw; none where nobody saw one.
pub(super) fn segments(flows: &[KnownFlow<'_>]) -> Option<Section> {
    let seen = seen_segments(flows);
    if seen.is_empty() {
        return None;
    }
    let mut metrics = Metrics::new(&seen, |seen| seen.end.as_str());
    let known = |count: Option<u64>| count.map_or(Cell::Unknown, Cell::Count);
    metrics
        .row("segments with data", "including sentinels; an offloaded batch counts once", |seen| {
            known(seen.segments.segments)
        })
        .row("retransmitted", "RFC 9293, section 3.8.1", |seen| known(seen.segments.retransmitted))
        .row("reordered", "arrived after a later one", |seen| known(seen.segments.reordered))
        .row("duplicates", "duplicate data (RFC 2883)", |seen| known(seen.segments.duplicate));
    const AS_SEEN: &str = "as the application saw them";
    metrics
        .row("packets delivered to the program", AS_SEEN, |seen| Cell::Count(seen.flow.unique))
        .row("of these reordered", AS_SEEN, |seen| Cell::Count(seen.flow.reordered))
        .row("of these duplicates", AS_SEEN, |seen| Cell::Count(seen.flow.duplicate));
    let observed = seen.iter().map(|seen| {
        let captured = seen.segments.seen_by == "captured";
        let by = if captured { "every packet observed" } else { "counters (TCP_INFO)" };
        format!("{}: {by}", seen.end)
    });
    metrics.table.note(observed.collect::<Vec<_>>().join("; "));
    let section = Section::new("segments", "TCP segments").note(
        "At each end that could observe them. TCP hides these events from the program except for their time.",
    );
    Some(section.with(metrics.table))
}

/// Who took the times, and how long packets took from the program to their departure.
pub(super) fn stamps(flows: &[KnownFlow<'_>]) -> Section {
    let columns = flows.iter().map(|known| Column::new(known.flow.direction.name()));
    let mut origins = Table::new(framed(columns));
    let mut row = |name: &str, definition: &str, words: &dyn Fn(&KnownFlow<'_>) -> Cell| {
        origins.row(in_frame(name, flows.iter().map(words), definition));
    };
    row("sending", "application, kernel or hardware", &|known| known.flow.sent_stamped_by.as_str().into());
    let departures = |known: &KnownFlow<'_>| {
        known.flow.departures.as_ref().map_or_else(|| "not stamped".into(), departure_share)
    };
    row("departure", "SO_TIMESTAMPING at the sender", &departures);
    row("arrival", "SO_TIMESTAMPING, else the application", &|known| {
        known.flow.received_stamped_by.as_str().into()
    });
    let section = Section::new("stamps", "Stamps")
        .note(
            "Origin of the timestamps; departure: packet left the sender's kernel or NIC. The closer to the wire, the less \
             host time is in the delays. Delays count from the send call unless stated.",
        )
        .with(origins);
    if flows.iter().all(|known| known.flow.departures.is_none()) {
        return section;
    }
    let mut metrics = Metrics::new(flows, |known| known.flow.direction.name());
    let times: [Metric<DepartureFacts>; 3] = [
        ("departure − sending, p50", |facts| Some(Cell::Duration(facts.p50_ns))),
        ("departure − sending, p99", |facts| Some(Cell::Duration(facts.p99_ns))),
        ("departure − sending, max", |facts| Some(Cell::Duration(facts.max_ns))),
    ];
    for (name, time) in times {
        metrics.row(name, "SO_TIMESTAMPING at the sender", |known| {
            known.flow.departures.as_ref().and_then(time)
        });
    }
    section.with(metrics.table)
}

/// `kernel, 998 of 1,000 (99.8 %)`.
fn departure_share(departures: &DepartureFacts) -> Cell {
    let sent = departures.stamped.saturating_add(departures.missing);
    let (stamped, share) = (Cell::Count(departures.stamped), Cell::part(departures.stamped, sent));
    text!("{}, {stamped} of {} ({share})", departures.stamped_by, Cell::Count(sent)).into()
}
