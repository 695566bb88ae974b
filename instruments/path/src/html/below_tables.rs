//! Tables of what was seen below the programs.

use super::rows::{Metric, Table};
use crate::digest::KnownFlow;
use crate::facts::DepartureFacts;
use crate::page_below::{APPLICATION_ROWS, SEGMENT_ROWS, departure_share, seen_segments, shown};
use quaver_page::units::{count, duration};

/// Segments below TCP flows, beside what the application saw.
pub(super) fn segments(flows: &[KnownFlow<'_>]) -> Table {
    let lead = "What happened below TCP flows, at each end that could see it. TCP hides all of it from the program but the \
                time that it takes.";
    let seen = seen_segments(flows);
    let columns = seen.iter().map(|seen| seen.end.clone()).collect();
    let mut table = Table::new("segments", "TCP segments", lead, columns);
    if seen.is_empty() {
        return table;
    }
    let by = seen.iter().map(|seen| seen.by.to_owned()).collect();
    table.row("known by", by, "packet socket, else TCP_INFO");
    let definitions = [
        "with sentinels; offloaded ones count as one",
        "RFC 9293, section 3.8.1",
        "came behind a later one",
        "brought nothing new (RFC 2883)",
    ];
    for ((name, of), definition) in SEGMENT_ROWS.into_iter().zip(definitions) {
        table.row(name, seen.iter().map(|seen| shown(of(seen.segments))).collect(), definition);
    }
    for (name, of) in APPLICATION_ROWS {
        table.row(
            name,
            seen.iter().map(|seen| count(of(&seen.program))).collect(),
            "as the application saw them",
        );
    }
    table
}

/// Who took the times.
pub(super) fn stamps(flows: &[KnownFlow<'_>]) -> Table {
    let lead = "Who stamped the packets; the nearer to the wire, the less of the hosts is in the delays. Delays count from \
                sending where nothing else is said.";
    let mut table = Table::by_way("stamps", "Stamps", lead, flows).of_words();
    table.each(
        "sending",
        flows,
        |known| known.flow.sent_stamped_by.clone(),
        "application, kernel or hardware",
    );
    if flows.iter().any(|known| known.flow.departures.is_some()) {
        let rows: [Metric<DepartureFacts>; 4] = [
            ("departure", departure_share),
            ("departure after sending, p50", |departures| duration(departures.p50_ns)),
            ("departure after sending, p99", |departures| duration(departures.p99_ns)),
            ("departure after sending, most", |departures| duration(departures.max_ns)),
        ];
        for (name, cell) in rows {
            let cell = |known: &KnownFlow<'_>| {
                known.flow.departures.as_ref().map_or_else(|| "not stamped".to_owned(), cell)
            };
            table.each(name, flows, cell, "SO_TIMESTAMPING at the sender");
        }
    }
    table.each(
        "arrival",
        flows,
        |known| known.flow.received_stamped_by.clone(),
        "SO_TIMESTAMPING, else the application",
    );
    table
}
