//! Units with eight slots find what the protocol's brute-force twin finds, wherever eight slots are enough; and what they
//! drop is what finds no room.

use quaver_abi::sync::SyncKind;
use quaver_sim::unit::{UnitConfig, Units};
use quaver_sync_analysis::sync::{SyncEvent, ThreadId};
use quaver_testbed::sync_oracle::{Event, answer, history};
use std::collections::BTreeMap;

const HISTORIES: u64 = 2_000;

fn units(entries: u32, events: &[Event]) -> quaver_sim::unit::UnitResults {
    let config =
        UnitConfig { entries, threshold_ns: 0, count_all: true, message_fs: 0, ..UnitConfig::new(333_334) };
    let mut units = Units::new(&config, 3);
    for event in events {
        let event = SyncEvent {
            at_ns: event.at_ns,
            object: event.object,
            call_site: 0,
            thread: ThreadId(event.thread),
            detail: 0,
            cpu: event.cpu,
            process: 0,
            kind: event.kind,
            outcome: event.outcome,
            flags: 0,
        };
        units.sync(&event, None);
    }
    units.finish(1)
}

fn buffer_of(kind: SyncKind) -> Option<bool> {
    match kind {
        SyncKind::LockEntry | SyncKind::ReadLockEntry => Some(true),
        SyncKind::WaitEntry | SyncKind::SemWaitEntry | SyncKind::BarrierEntry => Some(false),
        _ => None,
    }
}

/// Waits that find their core's buffer of `entries` full, counted by hand: a thread is in at most one wait, which is over
/// with its return or the thread's next wait.
fn overflows(entries: usize, events: &[Event]) -> u64 {
    let mut open: BTreeMap<u32, (u16, bool, SyncKind, u64, bool)> = BTreeMap::new();
    let mut dropped = 0;
    for event in events {
        if let Some(lock) = buffer_of(event.kind) {
            open.remove(&event.thread);
            let used = open.values().filter(|own| (own.0, own.1, own.4) == (event.cpu, lock, true)).count();
            dropped += u64::from(used >= entries);
            open.insert(event.thread, (event.cpu, lock, event.kind, event.object, used < entries));
        }
        let returned = open
            .get(&event.thread)
            .is_some_and(|own| event.kind as u8 == own.2 as u8 + 1 && event.object == own.3);
        if returned {
            open.remove(&event.thread);
        }
    }
    dropped
}

#[test]
fn equals_the_twin_where_nothing_overflows() {
    let mut compared = 0;
    for seed in 0..HISTORIES {
        let events = history(seed);
        let (ours, twin) = (units(8, &events), answer(&events));
        assert_eq!(ours.overflows, 0, "five threads never fill eight slots");
        assert_eq!(ours.hardware.slots_differ, 0, "seed {seed}");
        for (class, timed) in ours.sync.classes.iter().zip(twin.timed) {
            assert_eq!((class.timed.count, class.timed.total_ns), timed, "seed {seed}, {:?}", class.class);
        }
        assert_eq!(ours.sync.coverage.wake_ups, twin.wake_ups);
        assert_eq!(ours.sync.coverage.matched, twin.matched.len() as u64);
        compared += twin.matched.len();
    }
    assert!(compared > 1_000, "{compared}");
}

#[test]
fn what_finds_no_room_is_dropped_and_counted_exactly() {
    let mut dropped = 0;
    for seed in 0..HISTORIES {
        let events = history(seed);
        for entries in [1, 2] {
            let ours = units(entries, &events);
            let expected = overflows(entries as usize, &events);
            assert_eq!(ours.overflows, expected, "seed {seed}, {entries} slots");
            assert_eq!(ours.hardware.slots_differ, 0, "seed {seed}, {entries} slots");
            dropped += expected;
        }
    }
    assert!(dropped > 200, "{dropped}");
}
