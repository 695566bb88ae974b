//! `events.parquet`: events, ordered by start.

use crate::columns::TableReader;
use crate::error::StoreError;
use crate::labels::{detail_name, event_name, kind_name, name_key};
use crate::table::{Column, Layout, Table};
use parquet::data_type::ByteArray;
use quaver_abi::record::{EventKind, EventRecord};
use quaver_analysis::model::Names;
use quaver_analysis::nesting::{NOT_NESTED, NetDurations, net_durations};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;

/// Events.
pub static TABLE: Table = Table {
    name: "events",
    file: "events.parquet",
    rows: "A row per event, ordered by start. Of equal starts the longer comes first.",
    columns: &[
        Column::required("kind", Layout::Few(8), "number of the kind, as in `events.seg`"),
        Column::names(
            "kind_name",
            ["kind", "kind"],
            name_of_kind,
            "name of the kind; null for a number that the writing program did not know",
        ),
        Column::required("name", Layout::Text, "kind and what it was: `irq 41 virtio3-rx`"),
        Column::required("cpu", Layout::Few(16), "CPU"),
        Column::required("start_ns", Layout::U64, "start, CLOCK_MONOTONIC"),
        Column::required("end_ns", Layout::U64, "end, CLOCK_MONOTONIC; that of a point is its start"),
        Column::required("duration_ns", Layout::U64, "net of the intervals nested in it"),
        Column::optional(
            "nested_in",
            Layout::U32,
            "row of the innermost interval of its CPU in which it began",
        ),
        Column::required("id", Layout::Few(32), "operand of the kind"),
        Column::required("aux", Layout::FewU64, "operand of the kind"),
        Column::required("detail", Layout::Few(8), "operand of the kind"),
        Column::names(
            "detail_name",
            ["kind", "detail"],
            name_of_detail,
            "of `thread` why it left the CPU (`preempted`, `blocked`), of `sleep` what it slept at (`futex`), of \
             `loop-gap` where it lay (`call`); null of other kinds",
        ),
    ],
    span: None,
};

fn name_of_kind(kind: u32, _: u32) -> Option<String> {
    EventKind::from_repr(u8::try_from(kind).ok()?).map(|kind| kind_name(kind).to_owned())
}

fn name_of_detail(kind: u32, detail: u32) -> Option<String> {
    let kind = EventKind::from_repr(u8::try_from(kind).ok()?)?;
    detail_name(kind, u8::try_from(detail).ok()?).map(str::to_owned)
}

/// Puts events in the order of `events.parquet`: by start, the longer first, then the kind that can hold the
/// others first. The order is total over all fields, so equal sets of events come out equal.
pub fn sort_events(events: &mut [EventRecord]) {
    let key =
        |e: &EventRecord| (e.start_ns, Reverse(e.end_ns), rank(e.kind), e.cpu, e.kind, e.id, e.aux, e.detail);
    if !events.is_sorted_by_key(key) {
        events.sort_unstable_by_key(key);
    }
}

/// Which kind holds which where two intervals are equal: threads hold softirqs hold interrupts hold callbacks.
fn rank(kind: u8) -> u8 {
    match EventKind::from_repr(kind) {
        Some(EventKind::Thread) => 0,
        Some(EventKind::IdleState | EventKind::Work) => 1,
        Some(EventKind::Softirq) => 2,
        Some(EventKind::Irq | EventKind::Vector) => 3,
        Some(EventKind::Hrtimer | EventKind::Timer | EventKind::CrossCall) => 4,
        Some(EventKind::Nmi) => 5,
        _ => 6,
    }
}

/// Writes `events.parquet`, with net durations and nesting as the analysis defines them. `events` should be in
/// the order of [`sort_events`].
///
/// # Errors
/// The file cannot be written.
pub fn write_events(path: &Path, events: &[EventRecord], names: &Names) -> Result<(), StoreError> {
    let NetDurations { net_ns, nested_in } = net_durations(events);
    let mut known: HashMap<(u8, u32, u64), ByteArray> = HashMap::new();
    let mut table = TABLE.create(path)?.of_run();
    table.rows(events.len(), |group, range| {
        let part = &events[range.clone()];
        group.u32(part.iter().map(|e| u32::from(e.kind)))?;
        group.names(part.iter().map(|e| (e.kind.into(), 0)), name_of_kind)?;
        group.text(part.iter().map(|e| {
            known.entry(name_key(e)).or_insert_with(|| event_name(e, names).into_bytes().into()).clone()
        }))?;
        group.u32(part.iter().map(|e| u32::from(e.cpu)))?;
        group.u64(part.iter().map(|e| e.start_ns))?;
        group.u64(part.iter().map(|e| e.end_ns))?;
        group.u64(net_ns[range.clone()].iter().copied())?;
        group.optional_u32(nested_in[range].iter().map(|row| (*row != NOT_NESTED).then_some(*row)))?;
        group.u32(part.iter().map(|e| e.id))?;
        group.u64(part.iter().map(|e| e.aux))?;
        group.u32(part.iter().map(|e| u32::from(e.detail)))?;
        group.names(part.iter().map(|e| (e.kind.into(), e.detail.into())), name_of_detail)
    })?;
    table.finish()
}

/// Reads the events of `events.parquet`, in the order of the file.
///
/// # Errors
/// The file cannot be read, is of a later format, or is no table of events.
pub fn read_events(path: &Path) -> Result<Vec<EventRecord>, StoreError> {
    let table = TableReader::open(path, TABLE.name)?;
    let mut events: Vec<EventRecord> = table.reserved();
    table.u64("start_ns", |_, start_ns| events.push(EventRecord { start_ns, ..EventRecord::default() }))?;
    table.u64("end_ns", |row, ns| events[row].end_ns = ns)?;
    table.u64("aux", |row, aux| events[row].aux = aux)?;
    table.u32("id", |row, id| events[row].id = id)?;
    table.u32("cpu", |row, cpu| events[row].cpu = cpu as u16)?;
    table.u32("kind", |row, kind| events[row].kind = kind as u8)?;
    table.u32("detail", |row, detail| events[row].detail = detail as u8)?;
    match events.iter().position(|event| event.end_ns < event.start_ns) {
        Some(row) => Err(table.shape(format!("the event of row {row} ends before it starts"))),
        None => Ok(events),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equal_intervals_the_one_that_can_hold_the_others_comes_first() {
        let kinds = [5, 8, 10, 4, 2, 3, 6, 7, 9, 1, 20];
        let mut events: Vec<EventRecord> = kinds
            .iter()
            .map(|kind| EventRecord { start_ns: 5, end_ns: 9, kind: *kind, ..EventRecord::default() })
            .collect();
        let late = EventRecord { start_ns: 6, end_ns: 7, kind: 5, ..EventRecord::default() };
        let long = EventRecord { start_ns: 5, end_ns: 10, kind: 1, cpu: 3, ..EventRecord::default() };
        let other_cpu = EventRecord { cpu: 1, ..events[0] };
        events.extend([late, other_cpu, long]);
        events.reverse();
        sort_events(&mut events);
        let order: Vec<(u8, u16)> = events.iter().map(|event| (event.kind, event.cpu)).collect();
        let mut expected = vec![(1, 3), (5, 0), (5, 1)];
        expected.extend(kinds[1..].iter().map(|kind| (*kind, 0)));
        expected.push((5, 0));
        assert_eq!(order, expected);
    }

    #[test]
    fn what_is_written_tells_net_time_nesting_and_names() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("events.parquet");
        let event = |kind, start_ns, end_ns, id| EventRecord {
            kind,
            start_ns,
            end_ns,
            id,
            cpu: 1,
            aux: 3,
            detail: 2,
        };
        let events = [event(5, 10, 100, 7), event(2, 20, 50, 41), event(2, 60, 70, 42), event(20, 65, 65, 7)];
        let names = Names { irq: [(41, "card".to_owned())].into(), ..Names::default() };
        write_events(&path, &events, &names).unwrap();
        assert_eq!(read_events(&path).unwrap(), events);
        let table = TableReader::open(&path, TABLE.name).unwrap();
        let (mut net, mut nested, mut text, mut kinds) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        table.u64("duration_ns", |_, ns| net.push(ns)).unwrap();
        table.optional_u32("nested_in", |_, row| nested.push(row)).unwrap();
        table.text("name", |_, name| text.push(String::from_utf8(name.to_vec()).unwrap())).unwrap();
        table
            .optional_text("kind_name", |_, name| {
                kinds.push(String::from_utf8(name.unwrap().to_vec()).unwrap())
            })
            .unwrap();
        assert_eq!(kinds, ["thread", "irq", "irq", "wakeup"]);
        let mut details = Vec::new();
        let owned = |name: &[u8]| String::from_utf8(name.to_vec()).unwrap();
        table.optional_text("detail_name", |_, name| details.push(name.map(owned))).unwrap();
        assert_eq!(details, [Some("blocked".to_owned()), None, None, None]);
        assert_eq!(net, [50, 30, 10, 0]);
        assert_eq!(nested, [None, Some(0), Some(0), Some(2)]);
        assert_eq!(text, ["thread 7", "irq 41 card", "irq 42", "wakeup 7"]);
        write_events(&path, &[event(2, 20, 19, 41)], &names).unwrap();
        assert!(
            read_events(&path).unwrap_err().to_string().contains("the event of row 0 ends before it starts")
        );
    }
}
