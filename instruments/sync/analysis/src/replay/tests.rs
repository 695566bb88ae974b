//! Histories of which the gain of a change is known.

use super::{Deed, Gains, LatestWakeup, Recorder, Rule, Trace};
use crate::sync::{AnyEvent, Ledger, Protocol, Settings, SyncEvent, ThreadId};
use quaver_abi::sync::SyncKind::{self, *};
use quaver_abi::sync::{SyncObject, SyncOutcome};
use std::collections::HashSet;

const L: u64 = 0x1000;
const M: u64 = 0x2000;
const FULL: u64 = 0x3000;
const EMPTY: u64 = 0x4000;

/// Microseconds, thread, event, object, detail.
type Told = (u64, u32, SyncKind, u64, u32);

fn trace_of(told: &[Told]) -> Trace {
    let mut told = told.to_vec();
    told.sort_by_key(|one| one.0);
    let (mut ledger, mut recorder) = (Ledger::default(), Recorder::default());
    let mut protocol = Protocol::with_observer(Settings::default(), LatestWakeup::default());
    for (us, thread, kind, object, detail) in told {
        let event = SyncEvent {
            at_ns: us * 1_000,
            object,
            call_site: 0,
            thread: ThreadId(thread),
            detail,
            cpu: 0,
            process: 0,
            kind,
            outcome: SyncOutcome::Ok,
            flags: 0,
        };
        ledger.any(&AnyEvent::Sync(event));
        protocol.any(&AnyEvent::Sync(event));
        recorder.event(&event, protocol.observer_mut().take(), ledger.so_far(event.thread));
    }
    recorder.finish(false)
}

fn gains(told: &[Told], locks: &[u64]) -> Gains {
    let asked: Vec<(u16, u64)> = locks.iter().map(|lock| (0, *lock)).collect();
    let gains = trace_of(told).gains(&asked);
    assert_eq!(gains.reason, None, "{gains:?}");
    gains
}

fn near(found: f64, want: f64) {
    assert!((found - want).abs() < 0.02, "{found} and not {want}");
}

fn begin(told: &mut Vec<Told>, threads: u32) {
    told.extend((1..=threads).map(|thread| (0, thread, ThreadStart, u64::from(thread), 0)));
}

/// Threads in turns with a lock all the time.
fn relay(told: &mut Vec<Told>, threads: [u32; 2], lock: u64, hold_us: u64, rounds: u64) {
    for round in 0..rounds {
        let (owner, other) = (threads[(round % 2) as usize], threads[((round + 1) % 2) as usize]);
        let from_us = round * hold_us;
        if round == 0 {
            told.push((from_us, owner, Taken, lock, 1));
        }
        told.push((from_us + 1, other, LockEntry, lock, 1));
        told.push((from_us + hold_us, owner, UnlockEntry, lock, 1));
        told.push((from_us + hold_us, owner, UnlockExit, lock, 1));
        told.push((from_us + hold_us, other, LockExit, lock, 1));
    }
}

#[test]
fn a_rule_that_the_run_itself_breaks_is_none() {
    let mut told = Vec::new();
    begin(&mut told, 2);
    relay(&mut told, [1, 2], L, 1_000, 40);
    let signals = (1..20).flat_map(|one| [(one * 1_000 + 500, SignalEntry), (one * 1_000 + 501, SignalExit)]);
    told.extend(signals.map(|(us, kind)| (us, 2, kind, FULL, 0)));
    let mut trace = trace_of(&told);
    assert_eq!(trace.rules, []);
    // Nobody ever signals what these signals are said to need.
    trace.rules.push(Rule { condition: 0, needs: trace.conditions, ahead: 1 });
    trace.conditions += 1;
    let gains = trace.gains(&[(0, L)]);
    assert_eq!(gains.reason, None, "{gains:?}");
    near(gains.of(0, L).expect("it was asked for").hold_halved, 0.5);
}

/// The kernel was not seen, so all time in these is sleep.
#[test]
fn a_sleep_moved_out_of_a_lock_gains_what_others_waited_for_and_no_time_of_its_owner() {
    let mut told = Vec::new();
    begin(&mut told, 2);
    relay(&mut told, [1, 2], L, 1_000, 40);
    // Both sleep at the same time.
    near(gains(&told, &[L]).of(0, L).expect("it was asked for").sleep_outside, 0.5);

    // One has the lock for 9 of each 10 ms. The other waits for it, and is the first to end.
    let mut told = Vec::new();
    begin(&mut told, 2);
    for round in 0..10 {
        let from_us = round * 10_000;
        told.extend([
            (from_us + 1_000, 1, Taken, L, 1),
            (from_us + 2_000, 2, LockEntry, L, 1),
            (from_us + 9_990, 1, UnlockEntry, L, 1),
            (from_us + 9_990, 1, UnlockExit, L, 1),
            (from_us + 9_995, 2, LockExit, L, 1),
            (from_us + 9_996, 2, UnlockEntry, L, 1),
            (from_us + 9_996, 2, UnlockExit, L, 1),
        ]);
    }
    told.push((100_000, 1, ThreadExit, 1, 0));
    let found = gains(&told, &[L]);
    let gain = found.of(0, L).expect("it was asked for");
    near(gain.hold_halved, 0.45);
    near(gain.sleep_outside, 0.0);
}

#[test]
fn a_lock_that_is_always_held_is_the_run() {
    let mut told = Vec::new();
    begin(&mut told, 2);
    relay(&mut told, [1, 2], L, 1_000, 40);
    let gains = gains(&told, &[L, M]);
    near(gains.replayed_ns as f64 / gains.recorded_ns as f64, 1.0);
    assert_eq!(gains.locks.len(), 1, "the other one is not in the run");
    near(gains.of(0, L).unwrap().hold_halved, 0.5);
    assert!(gains.of(0, L).unwrap().split.unwrap() > 0.2, "{gains:?}");
}

#[test]
fn the_lock_that_is_waited_for_longest_need_not_be_the_bottleneck() {
    let mut told = Vec::new();
    begin(&mut told, 5);
    relay(&mut told, [1, 2], L, 2_000, 20);
    // These two wait less in all, and the main thread waits for one of them.
    relay(&mut told, [3, 4], M, 1_000, 60);
    told.push((40_000, 1, UnlockEntry, L, 1));
    told.push((60_000, 3, UnlockEntry, M, 1));
    for (thread, us) in [(1, 40_001), (2, 40_001), (3, 60_001), (4, 60_001)] {
        told.push((us, thread, ThreadExit, u64::from(thread), 0));
    }
    told.push((10, 5, JoinEntry, 3, 0));
    told.push((60_010, 5, JoinExit, 3, 0));
    let gains = gains(&told, &[L, M]);
    near(gains.of(0, L).unwrap().hold_halved, 0.0);
    near(gains.of(0, M).unwrap().hold_halved, 1.0 / 3.0);
}

#[test]
fn free_holds_that_no_sample_shows_are_shorter_too() {
    let mut told = vec![(0, 1, ThreadStart, 1, 0)];
    // One in ten is a sample; half of the time is held.
    for round in 0..50 {
        told.push((round * 1_000 + 100, 1, Taken, L, 10));
        told.push((round * 1_000 + 150, 1, GivenBack, L, 1));
    }
    told.push((50_000, 1, ThreadExit, 1, 0));
    near(gains(&told, &[L]).of(0, L).unwrap().hold_halved, 0.25);
}

/// A queue of four between a thread that needs `make_us` an item and one that needs `take_us`, with the lock `L` for most of that.
fn pipeline(make_us: u64, take_us: u64) -> Vec<Told> {
    let mut told = vec![(0, 1, ThreadStart, 1, 0), (0, 2, ThreadStart, 2, 0)];
    let (mut made_us, mut taken_us) = (Vec::new(), Vec::new());
    let mut maker_us = 0;
    let mut taker_us = 0;
    for item in 0..60_usize {
        maker_us += make_us;
        // Full: until the one four before was taken.
        if let Some(&free_us) = item.checked_sub(4).and_then(|item: usize| taken_us.get(item))
            && free_us > maker_us
        {
            told.push((maker_us, 1, WaitEntry, FULL, M as u32));
            told.push((free_us, 1, WaitExit, FULL, M as u32));
            maker_us = free_us;
        }
        told.push((maker_us, 1, SignalEntry, EMPTY, 0));
        told.push((maker_us, 1, SignalExit, EMPTY, 0));
        made_us.push(maker_us);
        if made_us[item] > taker_us {
            told.push((taker_us, 2, WaitEntry, EMPTY, M as u32));
            told.push((made_us[item], 2, WaitExit, EMPTY, M as u32));
            taker_us = made_us[item];
        }
        told.push((taker_us, 2, SignalEntry, FULL, 0));
        told.push((taker_us, 2, SignalExit, FULL, 0));
        taken_us.push(taker_us);
        told.push((taker_us + 1, 2, Taken, L, 1));
        told.push((taker_us + take_us, 2, GivenBack, L, 1));
        taker_us += take_us;
    }
    told.push((maker_us + 1, 1, ThreadExit, 1, 0));
    told.push((taker_us + 1, 2, ThreadExit, 2, 0));
    told
}

#[test]
fn a_faster_thread_of_a_pipeline_waits_for_the_next_one() {
    // 2 ms an item become 1 ms, but the maker needs 1.5 ms.
    let found = gains(&pipeline(1_500, 2_000), &[L]);
    near(found.of(0, L).unwrap().hold_halved, 0.25);
    // The maker is the bottleneck: nothing is won.
    near(gains(&pipeline(2_000, 1_000), &[L]).of(0, L).unwrap().hold_halved, 0.0);
    // The maker is fast: all is won.
    near(gains(&pipeline(300, 2_000), &[L]).of(0, L).unwrap().hold_halved, 0.5);
}

#[test]
fn all_meet_at_a_barrier_whoever_comes_last() {
    let mut told = Vec::new();
    begin(&mut told, 2);
    for round in 0..20 {
        let us = round * 1_000;
        told.push((us, 1, Taken, L, 1));
        told.push((us + 990, 1, GivenBack, L, 1));
        told.push((us + 700, 2, BarrierEntry, M, 0));
        told.push((us + 990, 1, BarrierEntry, M, 0));
        told.push((us + 1_000, 1, BarrierExit, M, 0));
        told.push((us + 1_000, 2, BarrierExit, M, 0));
    }
    // 990 become 495, and the other one comes at 700.
    near(gains(&told, &[L]).of(0, L).unwrap().hold_halved, 0.28);
}

#[test]
fn a_replay_that_differs_from_the_run_says_nothing() {
    // A wait whose waker is not recorded takes as long as it took; one whose waker ends later than it says nothing.
    let mut told = Vec::new();
    begin(&mut told, 2);
    relay(&mut told, [1, 2], L, 1_000, 4);
    let mut trace = trace_of(&told);
    trace.recorded_ns *= 20;
    let found = trace.gains(&[(0, L)]);
    assert!(found.reason.is_some() && found.locks.is_empty(), "{found:?}");
}

#[test]
fn threads_that_are_created_later_start_earlier_too() {
    let mut told = vec![(0, 9, ThreadStart, 9, 0)];
    for round in 0..20 {
        let (us, child) = (u64::from(round) * 1_100, round + 10);
        told.push((us + 10, 9, Create, 0, child));
        told.push((us + 20, 9, CreateExit, u64::from(child), child));
        told.push((us + 50, child, ThreadStart, u64::from(child), 9));
        told.push((us + 50, child, Taken, L, 1));
        told.push((us + 1_050, child, GivenBack, L, 1));
        told.push((us + 1_060, child, ThreadExit, u64::from(child), 0));
        told.push((us + 60, 9, JoinEntry, u64::from(child), 0));
        told.push((us + 1_070, 9, JoinExit, u64::from(child), 0));
    }
    near(gains(&told, &[L]).of(0, L).unwrap().hold_halved, 500.0 / 1_100.0);
}

#[test]
fn readers_that_keep_a_writer_waiting_hold_the_lock_together() {
    let read_write = SyncObject::ReadWrite as u32;
    let mut told = Vec::new();
    begin(&mut told, 4);
    for us in (0..20).map(|round| round * 2_000) {
        // Of three readers at the same time, one had to wait for the writer: its hold has a beginning.
        told.push((us + 200, 1, ReadLockEntry, L, read_write));
        told.push((us + 503, 4, UnlockEntry, L, read_write));
        told.push((us + 503, 4, UnlockExit, L, read_write));
        told.push((us + 504, 1, ReadLockExit, L, read_write));
        told.push((us + 600, 4, LockEntry, L, read_write));
        for thread in 1..=3 {
            let us = us + 1_500 + u64::from(thread);
            told.extend([(us, thread, UnlockEntry, L, read_write), (us, thread, UnlockExit, L, read_write)]);
        }
        told.push((us + 1_504, 4, LockExit, L, read_write));
    }
    let found = gains(&told, &[L]);
    near(found.replayed_ns as f64 / found.recorded_ns as f64, 1.0);
}

/// Whether each thread gets and gives back each lock in turns.
fn in_turns(trace: &Trace) -> bool {
    trace.threads.iter().all(|thread| {
        let mut held = HashSet::new();
        thread.steps.iter().all(|step| match step.deed {
            Deed::Get { lock, .. } => held.insert(lock),
            Deed::Give { lock, .. } => held.remove(&lock),
            _ => true,
        }) && held.is_empty()
    })
}

#[test]
fn a_guessed_hold_begins_after_the_hold_before() {
    let mut told = vec![(0, 1, ThreadStart, 1, 0), (10, 1, Taken, L, 1), (1_010, 1, GivenBack, L, 1)];
    // Free holds that end before somebody who came meanwhile, closer together than the known one is long.
    told.extend((0..20).flat_map(|one| {
        let us = 1_100 + one * 100;
        [(us, 1, UnlockEntry, L, 1), (us, 1, UnlockExit, L, 1)]
    }));
    told.push((9_000, 1, ThreadExit, 1, 0));
    let mut trace = trace_of(&told);
    assert!(in_turns(&trace), "{:?}", trace.threads);
    assert_eq!(trace.gains(&[(0, L)]).reason, None);
}

#[test]
fn a_lock_is_not_held_through_a_wait_for_others_unless_somebody_asked() {
    let mut told = Vec::new();
    begin(&mut told, 2);
    for us in (0..20).map(|round| round * 1_000) {
        // Twice the first thread has the lock. Between, the other one has it, too, and posts what the first one waits for.
        told.extend([
            (us + 5, 2, Taken, L, 1),
            (us + 50, 1, LockEntry, L, 1),
            (us + 100, 2, UnlockEntry, L, 1),
        ]);
        told.extend([(us + 100, 2, UnlockExit, L, 1), (us + 101, 1, LockExit, L, 1)]);
        told.extend([
            (us + 300, 1, SemWaitEntry, M, 0),
            (us + 400, 2, Taken, L, 1),
            (us + 450, 2, GivenBack, L, 1),
        ]);
        told.extend([
            (us + 500, 2, PostEntry, M, 0),
            (us + 500, 2, PostExit, M, 0),
            (us + 501, 1, SemWaitExit, M, 0),
        ]);
        told.extend([(us + 650, 2, LockEntry, L, 1), (us + 700, 1, UnlockEntry, L, 1)]);
        told.extend([(us + 700, 1, UnlockExit, L, 1), (us + 701, 2, LockExit, L, 1)]);
    }
    let mut trace = trace_of(&told);
    assert!(in_turns(&trace), "{:?}", trace.threads);
    let found = trace.gains(&[(0, L)]);
    assert_eq!(found.reason, None, "{found:?}");
}
