//! `events.parquet`: a row an event, ordered by start.
//!
//! | column | type | meaning |
//! |---|---|---|
//! | `kind` | unsigned 8 | `quaver_abi::record::EventKind` |
//! | `kind_name` | text | its name; null for a number that the writing program did not know |
//! | `name` | text | what it was, for people |
//! | `cpu` | unsigned 16 | where |
//! | `start_ns`, `end_ns` | unsigned 64 | CLOCK_MONOTONIC; equal for a point |
//! | `duration_ns` | unsigned 64 | net of what is nested in it |
//! | `nested_in` | unsigned 32, nullable | row of the innermost interval of its CPU in which it began |
//! | `id`, `aux`, `detail` | unsigned 32, 64, 8 | operands of the kind |

use crate::columns::{Column, Layout, TableReader, TableWriter};
use crate::error::StoreError;
use crate::labels::{event_name, kind_name, name_key};
use parquet::data_type::ByteArray;
use quaver_abi::record::{EventKind, EventRecord};
use quaver_analysis::model::Names;
use quaver_analysis::nesting::{NOT_NESTED, NetDurations, net_durations};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;

const TABLE: &str = "events";

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
    let columns = [
        Column::required("kind", Layout::Few(8)),
        Column::optional("kind_name", Layout::Text),
        Column::required("name", Layout::Text),
        Column::required("cpu", Layout::Few(16)),
        Column::required("start_ns", Layout::U64),
        Column::required("end_ns", Layout::U64),
        Column::required("duration_ns", Layout::U64),
        Column::optional("nested_in", Layout::U32),
        Column::required("id", Layout::Few(32)),
        Column::required("aux", Layout::FewU64),
        Column::required("detail", Layout::Few(8)),
    ];
    let mut known: HashMap<(u8, u32, u64), ByteArray> = HashMap::new();
    let mut table = TableWriter::create(path, TABLE, &columns)?.of_run();
    table.rows(events.len(), |group, range| {
        let part = &events[range.clone()];
        group.u32(part.iter().map(|e| u32::from(e.kind)))?;
        let kind = |raw| EventKind::from_repr(raw).map(|kind| ByteArray::from(kind_name(kind)));
        group.optional_text(part.iter().map(|e| kind(e.kind)))?;
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
        group.u32(part.iter().map(|e| u32::from(e.detail)))
    })?;
    table.finish()
}

/// Reads the events of `events.parquet`, in the order of the file.
///
/// # Errors
/// The file cannot be read, is of a later format, or is no table of events.
pub fn read_events(path: &Path) -> Result<Vec<EventRecord>, StoreError> {
    let table = TableReader::open(path, TABLE)?;
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
        let table = TableReader::open(&path, TABLE).unwrap();
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
        assert_eq!(net, [50, 30, 10, 0]);
        assert_eq!(nested, [None, Some(0), Some(0), Some(2)]);
        assert_eq!(text, ["thread 7", "irq 41 card", "irq 42", "wakeup 7"]);
        write_events(&path, &[event(2, 20, 19, 41)], &names).unwrap();
        assert!(
            read_events(&path).unwrap_err().to_string().contains("the event of row 0 ends before it starts")
        );
    }
}
