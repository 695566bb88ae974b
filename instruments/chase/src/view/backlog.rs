//! A receiver that does not keep up with its stream.

use quaver_analysis::summary::Backlog;
use quaver_view::{Cell, Section, Table, Text, text};

/// Takes and holds, in a sentence.
pub(super) fn verdict(backlog: &Backlog) -> Text {
    text!(
        "The receiver does not keep up: it takes {} of {}, and its queue holds {} ({}).",
        Cell::Count(backlog.taken_per_s.round() as u64),
        Cell::Rate(backlog.came_per_s, "packets"),
        Cell::Bytes(backlog.bytes_at_end),
        Cell::several(backlog.packets_at_end, "packet")
    )
}

/// The queue at both ends of the run, and what came of the packets meanwhile.
pub(super) fn section(backlog: &Backlog) -> Section {
    let mut table = Table::bare(2);
    table.row(["packets that came".into(), Cell::Rate(backlog.came_per_s, "packets")]);
    table.row(["taken by the receiver".into(), Cell::Rate(backlog.taken_per_s, "packets")]);
    table.row(["dropped at the full queue".into(), Cell::Count(backlog.dropped)]);
    let held = |packets, memory| {
        Cell::from(format!("{}, {}", Cell::several(packets, "packet"), Cell::Bytes(memory)))
    };
    table.row(["queue at the start".into(), held(backlog.packets_at_start, backlog.bytes_at_start)]);
    table.row(["queue at the end".into(), held(backlog.packets_at_end, backlog.bytes_at_end)]);
    let wait = backlog.wait_ns().map_or(Cell::Unknown, |ns| Cell::Duration(ns as i64));
    table.row(["wait of a packet in the queue".into(), wait]);
    Section::new("backlog", "Backlog of the receiver")
        .link("Backlog")
        .note("its queue was never empty: give it more CPU time, or less to do for each packet")
        .with(table)
}
