//! What was seen of a path's packets below the programs, on the console: departures, and the segments of TCP flows.

use crate::digest::{KnownFlow, SeenPackets};
use crate::facts::{DepartureFacts, FlowFacts, SegmentFacts};
use quaver_analysis::path::direction::Direction;
use quaver_page::console::heading;
use quaver_page::table::{Align, Style, Table};
use quaver_page::units::{count, duration, percent};

/// `kernel, 998 of 1,000 (99.8 %)`.
pub(crate) fn departure_share(departures: &DepartureFacts) -> String {
    let sent = departures.stamped.saturating_add(departures.missing);
    let share = percent(departures.stamped as f64 / sent.max(1) as f64);
    format!("{}, {} of {} ({share})", departures.stamped_by, count(departures.stamped), count(sent))
}

/// Who took the times, and how long packets took from the program to their departure.
pub(super) fn stamps(out: &mut String, flows: &[KnownFlow<'_>], style: Style) {
    if flows.iter().all(|known| known.flow.departures.is_none()) {
        return;
    }
    heading(
        out,
        style,
        "Stamps",
        "who took the times; departure: when a packet left the sender's kernel or interface",
    );
    let mut columns = vec![("", Align::Left)];
    columns.extend(flows.iter().map(|known| (known.flow.direction.name(), Align::Right)));
    let mut table = Table::new(&columns);
    let mut row = |name: &str, cell: &dyn Fn(&FlowFacts) -> String| {
        let mut cells = vec![name.to_owned()];
        cells.extend(flows.iter().map(|known| cell(known.flow)));
        table.row(cells);
    };
    let told = |flow: &FlowFacts, tell: fn(&DepartureFacts) -> String| {
        flow.departures.as_ref().map_or_else(|| "not stamped".to_owned(), tell)
    };
    row("sending", &|flow| flow.sent_stamped_by.clone());
    row("departure", &|flow| told(flow, departure_share));
    row("  after sending, p50", &|flow| told(flow, |departures| duration(departures.p50_ns)));
    row("  p99", &|flow| told(flow, |departures| duration(departures.p99_ns)));
    row("  most", &|flow| told(flow, |departures| duration(departures.max_ns)));
    row("arrival", &|flow| flow.received_stamped_by.clone());
    out.push_str(&table.render(style));
}

/// A flow's segments as one of its ends saw them: heads of its column, and the counts.
pub(crate) struct SeenSegments<'a> {
    /// `up, sender`.
    pub(crate) end: String,
    /// `each seen` or `counters`.
    pub(crate) by: &'static str,
    /// Counts.
    pub(crate) segments: &'a SegmentFacts,
    /// What the receiving program saw of the flow's packets.
    pub(crate) program: SeenPackets,
}

/// The ends that saw segments, the sender's before the receiver's.
pub(crate) fn seen_segments<'a>(flows: &[KnownFlow<'a>]) -> Vec<SeenSegments<'a>> {
    let mut all = Vec::new();
    for KnownFlow { flow, seen, .. } in flows {
        let (here, there) = (flow.segments.as_ref(), flow.segments_at_server.as_ref());
        let (sender, receiver) = match flow.direction {
            Direction::Up => (here, there),
            Direction::Down => (there, here),
        };
        for (end, segments) in [("sender", sender), ("receiver", receiver)] {
            let Some(segments) = segments else { continue };
            let by = if segments.seen_by == "captured" { "each seen" } else { "counters" };
            all.push(SeenSegments {
                end: format!("{}, {end}", flow.direction.name()),
                by,
                segments,
                program: *seen,
            });
        }
    }
    all
}

/// A count of a segment's fate.
type SegmentCount = fn(&SegmentFacts) -> Option<u64>;

/// Names of the counts of segments, and how each is got.
pub(crate) const SEGMENT_ROWS: [(&str, SegmentCount); 4] = [
    ("segments with data", |segments| segments.segments),
    ("sent again", |segments| segments.retransmitted),
    ("out of order", |segments| segments.reordered),
    ("came twice", |segments| segments.duplicate),
];

/// A count that may not be known.
pub(crate) fn shown(value: Option<u64>) -> String {
    value.map_or_else(|| "not known".to_owned(), count)
}

/// A count of what the application saw.
type ApplicationCount = fn(&SeenPackets) -> u64;

/// Names of what the application saw of the same packets, and how each is got.
pub(crate) const APPLICATION_ROWS: [(&str, ApplicationCount); 3] = [
    ("packets that the program got", |program| program.unique),
    ("of them out of order", |program| program.reordered),
    ("of them twice", |program| program.duplicate),
];

/// Segments below TCP flows, beside what the application saw.
pub(super) fn segments(out: &mut String, flows: &[KnownFlow<'_>], style: Style) {
    let seen = seen_segments(flows);
    if seen.is_empty() {
        return;
    }
    heading(out, style, "TCP segments", "below the transport, at each end that could see them");
    let mut columns = vec![("", Align::Left)];
    columns.extend(seen.iter().map(|seen| (seen.end.as_str(), Align::Right)));
    let mut table = Table::new(&columns);
    let mut row = |name: &str, cell: &dyn Fn(&SeenSegments<'_>) -> String| {
        let mut cells = vec![name.to_owned()];
        cells.extend(seen.iter().map(cell));
        table.row(cells);
    };
    row("known by", &|seen| seen.by.to_owned());
    for (name, of) in SEGMENT_ROWS {
        row(name, &|seen| shown(of(seen.segments)));
    }
    for (name, of) in APPLICATION_ROWS {
        row(name, &|seen| count(of(&seen.program)));
    }
    out.push_str(&table.render(style));
}
