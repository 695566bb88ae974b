//! Readers that keep writers out: the bounded books against a list of all holds.

use super::super::lock::{ReaderHold, Readers};
use super::super::readers::SingleHolds;
use super::{conserves, kernel_events, priorities};
use crate::sync::keys::ObjectKey;
use crate::sync::ledger::{Contention, Ledger};
use crate::sync::tests::scene::{Scene, at_ns};
use crate::sync::{AnyEvent, KernelEvent, KernelKind, SyncEvent, ThreadId};
use proptest::prelude::*;
use quaver_abi::record::OffCpu;
use quaver_abi::sync::SyncKind::{
    LockEntry, LockExit, ReadLockEntry, ReadLockExit, Taken, ThreadStart, UnlockEntry, UnlockExit,
};
use quaver_abi::sync::{SyncKind, SyncObject, SyncOutcome, outcome_flags};

const L: u64 = 0x1000;

fn hold(slot: u32, from_ns: u64, to_ns: u64) -> ReaderHold {
    ReaderHold { slot, from_ns, to_ns, site: ObjectKey { process: 0, address: 0 }, again: false }
}

/// Of holds in the order of their ends, those parts that a wait was for, from a list of all of them.
fn decisive(holds: &[ReaderHold]) -> Vec<(u32, u64, u64)> {
    let mut parts = Vec::new();
    let mut until_ns = holds.last().map_or(0, |last| last.to_ns);
    for hold in holds.iter().rev() {
        let end_ns = hold.to_ns.min(until_ns);
        if hold.from_ns < end_ns {
            parts.push((hold.slot, hold.from_ns, end_ns));
            until_ns = hold.from_ns;
        }
    }
    parts.reverse();
    parts
}

fn kept(holds: &[ReaderHold]) -> Vec<(u32, u64, u64)> {
    let mut readers = Readers::default();
    holds.iter().for_each(|hold| readers.add(*hold));
    readers.holds().map(|hold| (hold.slot, hold.from_ns, hold.to_ns)).collect()
}

#[test]
fn each_moment_belongs_to_the_reader_that_gives_the_lock_back_last() {
    // 2 comes and goes while 1 reads; 3 follows 1 without a break; then nobody has it, and 4 does.
    let all = [hold(2, 20, 30), hold(1, 10, 60), hold(3, 50, 90), hold(4, 95, 99)];
    assert_eq!(kept(&all), [(1, 10, 50), (3, 50, 90), (4, 95, 99)]);
    assert_eq!(kept(&all), decisive(&all));
    assert_eq!(kept(&[hold(1, 5, 5)]), []);
}

/// What a thread of a schedule does next.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Reads { stamped: bool },
    Asks { reads: bool },
    GivesBack,
    Kernel(KernelKind),
}

fn deeds() -> impl Strategy<Value = (u32, u64, Deed)> {
    // A thread returns from its system calls before it gives a lock back.
    let kernel = kernel_events().prop_filter_map("a kind", |event| match event {
        AnyEvent::Kernel(KernelEvent { kind: KernelKind::SystemCall { .. }, .. }) | AnyEvent::Sync(_) => None,
        AnyEvent::Kernel(event) => Some(Deed::Kernel(event.kind)),
    });
    let deed = prop_oneof![
        8 => (0u8..8).prop_map(|one| Deed::Reads { stamped: one > 0 }),
        1 => any::<bool>().prop_map(|reads| Deed::Asks { reads }),
        9 => Just(Deed::GivesBack),
        4 => kernel,
    ];
    (1u32..7, 1u64..40, deed)
}

/// A read-write lock that works, of threads that read at once, wait for it, and give it back.
fn schedule(deeds: &[(u32, u64, Deed)]) -> Vec<AnyEvent> {
    let mut events = Vec::new();
    let (mut now_us, mut readers, mut writer) = (0, Vec::<u32>::new(), None);
    let mut waiting: Vec<(u32, bool)> = Vec::new();
    let mut say = |us: u64, thread: u32, kind: SyncKind, flags: u8| {
        let detail = SyncObject::ReadWrite as u32;
        let event = SyncEvent { detail, flags, ..SyncEvent::plain(us * 1_000, thread, kind, L) };
        events.push(AnyEvent::Sync(SyncEvent { call_site: 0x4000 + u64::from(thread % 4), ..event }));
    };
    let mut kernel = Vec::new();
    for (thread, later_us, deed) in deeds {
        now_us += later_us;
        let thread = *thread;
        let is_idle = writer != Some(thread)
            && !readers.contains(&thread)
            && !waiting.iter().any(|(one, _)| *one == thread);
        match deed {
            Deed::Reads { stamped } if is_idle && writer.is_none() => {
                readers.push(thread);
                if *stamped {
                    say(now_us, thread, Taken, outcome_flags::FOR_READING);
                }
            }
            Deed::Asks { reads } if is_idle && (writer.is_some() || !readers.is_empty()) => {
                waiting.push((thread, *reads));
                say(now_us, thread, if *reads { ReadLockEntry } else { LockEntry }, 0);
            }
            Deed::GivesBack if writer == Some(thread) || readers.contains(&thread) => {
                let reads = if writer == Some(thread) { 0 } else { outcome_flags::FOR_READING };
                (writer, readers) = (None, readers.into_iter().filter(|one| *one != thread).collect());
                say(now_us, thread, UnlockEntry, reads);
                say(now_us, thread, UnlockExit, reads);
                if readers.is_empty() && !waiting.is_empty() {
                    let (next, reads) = waiting.remove(0);
                    say(now_us + 1, next, if reads { ReadLockExit } else { LockExit }, 0);
                    if reads { readers.push(next) } else { writer = Some(next) }
                }
            }
            // Who waits for a lock sleeps.
            Deed::Kernel(KernelKind::Switch { prev, next, .. })
                if waiting.iter().any(|(one, _)| [*prev, *next].contains(&ThreadId(*one))) => {}
            Deed::Kernel(kind) => {
                kernel.push(AnyEvent::Kernel(KernelEvent { at_ns: now_us * 1_000, cpu: 0, kind: *kind }));
            }
            _ => {}
        }
    }
    events.extend(kernel);
    events.sort_by_key(at_ns);
    events
}

fn found(events: &[AnyEvent], single: usize) -> Contention {
    let mut ledger = Ledger { single_holds: SingleHolds(single), ..Ledger::default() };
    events.iter().for_each(|event| ledger.any(event));
    let found = ledger.finish(usize::MAX, &[]);
    conserves(&found);
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn holds_come_and_go_as_in_a_list_of_all(lengths in prop::collection::vec((0u64..9, 0u64..60), 0..200)) {
        let mut end_ns = 100;
        let holds: Vec<ReaderHold> = lengths.iter().enumerate().map(|(slot, (later_ns, held_ns))| {
            end_ns += later_ns;
            hold(slot as u32, end_ns.saturating_sub(*held_ns).max(100), end_ns)
        }).collect();
        prop_assert_eq!(kept(&holds), decisive(&holds));
    }

    #[test]
    fn stretches_change_no_figure(deeds in prop::collection::vec(deeds(), 0..600), single in 0usize..6) {
        let events = schedule(&deeds);
        prop_assert_eq!(found(&events, single), found(&events, usize::MAX));
    }
}

#[test]
fn a_reader_that_has_the_lock_for_no_time_loses_none_of_a_wait() {
    let mut scene = Scene::new();
    scene.at(0, 1, ThreadStart, 1);
    scene.at(10, 2, LockEntry, L);
    for (us, thread) in [(30, 1), (40, 3)] {
        scene.at(us, thread, Taken, L).flags = outcome_flags::FOR_READING;
        scene.at(us, thread, UnlockEntry, L).flags = outcome_flags::FOR_READING;
    }
    scene.at(45, 2, LockExit, L);
    let found = found(&scene.events, 0);
    assert_eq!((found.locks[0].held_ns, found.locks[0].handed_over_ns), (0, 35_000));
}

/// A writer waits through so many short holds of two readers, while a third has the lock from before, or from within.
fn through(holds: u64) -> Ledger {
    let mut scene = Scene::new();
    for thread in 1..=4 {
        scene.at(0, thread, ThreadStart, u64::from(thread));
    }
    scene.at(1, 1, LockEntry, L);
    let mut ledger = Ledger::default();
    for at in 0..holds {
        let (us, thread) = (10 + at * 10, 2 + (at % 2) as u32);
        if at == 700 {
            scene.at(us, 4, Taken, L).flags = outcome_flags::FOR_READING;
        }
        scene.at(us, thread, Taken, L).flags = outcome_flags::FOR_READING;
        if at % 5 == 0 {
            scene.switch(us + 1, 0, thread, 9, OffCpu::Preempted);
            priorities(&mut scene, 120, 120);
            scene.switch(us + 4, 0, 9, thread, OffCpu::Preempted);
        }
        for kind in [UnlockEntry, UnlockExit] {
            scene.at(us + 8, thread, kind, L).flags = outcome_flags::FOR_READING;
        }
        scene.events.drain(..).for_each(|event| ledger.any(&event));
    }
    ledger
}

#[test]
fn a_writer_that_waits_through_many_holds_keeps_few_of_them() {
    let largest = |ledger: &Ledger| {
        let waiters = ledger.locks.values().flat_map(|lock| &lock.waiters);
        waiters.map(|waiter| waiter.readers.parts.len()).max().unwrap_or(0)
    };
    let many = through(200_000);
    assert!(largest(&many) <= 1_024 + 2, "{}", largest(&many));
    let found = many.finish(usize::MAX, &[]);
    conserves(&found);
    let lock = &found.locks[0];
    let owned = |thread| {
        let pairs = lock.pairs.iter().filter(|pair| pair.owner == ThreadId(thread));
        pairs.map(|pair| (pair.holds, pair.total_ns)).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    };
    // The third has not given the lock back, so nobody waited for it yet.
    assert_eq!((owned(2), owned(3), owned(4)), ((100_000, 800_000_000), (100_000, 800_000_000), (0, 0)));
    assert_eq!(lock.preempted_by.iter().map(|one| one.total_ns).sum::<u64>(), 40_000 * 3_000);

    // Once it does, the wait since it began was for it alone.
    let mut many = through(200_000);
    let end = |us: u64, kind, flags| {
        AnyEvent::Sync(SyncEvent { flags, ..SyncEvent::plain(us * 1_000, 4, kind, L) })
    };
    let us = 10 + 200_000 * 10;
    many.any(&end(us, UnlockEntry, outcome_flags::FOR_READING));
    many.any(&end(us, UnlockExit, outcome_flags::FOR_READING));
    many.any(&AnyEvent::Sync(SyncEvent {
        outcome: SyncOutcome::Ok,
        ..SyncEvent::plain((us + 1) * 1_000, 1, LockExit, L)
    }));
    let found = many.finish(usize::MAX, &[]);
    conserves(&found);
    let pairs = &found.locks[0].pairs;
    let of = |thread| {
        pairs.iter().find(|pair| pair.owner == ThreadId(thread)).map(|pair| (pair.holds, pair.total_ns))
    };
    let since_ns = (us - 10 - 700 * 10) * 1_000;
    assert_eq!((of(2), of(3), of(4)), (Some((350, 2_800_000)), Some((350, 2_800_000)), Some((1, since_ns))));
}
