//! Who woke whom, and how long it took.

use super::scene::{Scene, late, timed};
use crate::sync::{KernelKind, Settings, SyncClass, ThreadId};
use quaver_abi::record::OffCpu;
use quaver_abi::sync::SyncKind::{
    BarrierEntry, BarrierExit, BroadcastEntry, FutexWaitEntry, FutexWaitExit, FutexWakeEntry, FutexWakeExit,
    LockEntry, LockExit, PostEntry, PostExit, ReadLockEntry, ReadLockExit, SemWaitEntry, SemWaitExit,
    SignalEntry, SignalExit, UnlockEntry, WaitEntry, WaitExit,
};
use quaver_abi::sync::{SyncOutcome, outcome_flags};

const C: u64 = 0x1000;
const L: u64 = 0x2000;

#[test]
fn case_1_a_signal_and_its_wait() {
    let mut scene = Scene::new();
    scene.at(0, 1, WaitEntry, C);
    scene.call(100, 115, 2, SignalEntry, C);
    scene.at(160, 1, WaitExit, C);
    let results = scene.results();
    assert_eq!(timed(&results, SyncClass::SignalWait), (1, 60));
    assert_eq!(late(&results, SyncClass::SignalWait), (1, 50));
    assert_eq!(late(&results, SyncClass::Signal), (1, 5));
    assert_eq!(results.counts.cases, [1, 0, 0]);
    let wait = &results.longest[0];
    assert_eq!((wait.thread.0, wait.waker.0, wait.call_site, wait.waker_call_site), (1, 2, 0x4001, 0x4002));
    assert_eq!(results.coverage.share(), Some(1.0));
}

#[test]
fn the_whole_time_counts_where_that_is_asked_for() {
    let mut scene = Scene::with(Settings { count_all: true, ..Settings::default() });
    scene.at(0, 1, WaitEntry, C);
    scene.call(100, 110, 2, SignalEntry, C);
    scene.at(160, 1, WaitExit, C);
    let results = scene.results();
    assert_eq!(late(&results, SyncClass::SignalWait), (1, 60));
    // Exactly N is in time.
    assert_eq!(late(&results, SyncClass::Signal), (0, 0));
}

#[test]
fn case_3_a_thread_that_wakes_elsewhere_is_found() {
    let mut scene = Scene::new();
    scene.on(0, 1, 1, WaitEntry, C);
    scene.call(100, 101, 2, SignalEntry, C);
    scene.on(190, 1, 3, WaitExit, C);
    let results = scene.results();
    assert_eq!(late(&results, SyncClass::SignalWait), (1, 80));
    assert_eq!(results.counts.cases, [0, 0, 1]);
    assert_eq!(results.units.queries, 1);
    let core = results.cores.iter().find(|core| core.core == 3).expect("the thread woke there");
    assert_eq!((core.migrations, core.late.total_ns), (1, 80_000));
}

#[test]
fn who_wakes_takes_the_first_signal_whoever_began_to_wait_first() {
    let mut scene = Scene::new();
    scene.at(0, 1, WaitEntry, C);
    scene.at(10, 2, WaitEntry, C);
    scene.call(100, 101, 3, SignalEntry, C);
    scene.call(200, 201, 3, SignalEntry, C);
    scene.at(220, 2, WaitExit, C);
    scene.at(230, 1, WaitExit, C);
    let results = scene.results();
    assert_eq!(timed(&results, SyncClass::SignalWait), (2, 120 + 30));
}

#[test]
fn a_signal_that_nobody_waited_for_wakes_nobody_later() {
    let mut scene = Scene::new();
    scene.call(10, 11, 2, SignalEntry, C);
    scene.at(20, 1, WaitEntry, C);
    scene.call(30, 31, 2, SignalEntry, C);
    // One waiter, two signals: the second wakes nobody.
    scene.call(40, 41, 2, SignalEntry, C);
    scene.at(60, 1, WaitExit, C);
    scene.at(70, 1, WaitEntry, C);
    scene.at(99, 1, WaitExit, C);
    let results = scene.results();
    assert_eq!(timed(&results, SyncClass::SignalWait), (1, 30));
    assert_eq!(results.counts.signals_for_nobody, 2);
    assert_eq!((results.coverage.wake_ups, results.coverage.without_waker), (2, 1));
    // The second wait is nobody's work: it is blocked time on the path.
    assert_eq!(results.critical_path.blocked_ns, 29_000);
}

#[test]
fn a_broadcast_wakes_all_and_late_comers_of_its_call_too() {
    let mut scene = Scene::new();
    for thread in 1..=3 {
        scene.at(u64::from(thread), thread, WaitEntry, C);
    }
    scene.at(100, 9, BroadcastEntry, C);
    scene.at(105, 4, WaitEntry, C);
    scene.at(112, 9, quaver_abi::sync::SyncKind::BroadcastExit, C);
    for thread in 1..=4 {
        scene.at(120 + u64::from(thread) * 10, thread, WaitExit, C);
    }
    let results = scene.results();
    // 30, 40 and 50 from the broadcast; the fourth from its own beginning at 105.
    assert_eq!(timed(&results, SyncClass::BroadcastWait), (4, 30 + 40 + 50 + 55));
    assert_eq!(late(&results, SyncClass::Broadcast), (1, 2));
    assert_eq!(results.coverage.matched, 4);
}

#[test]
fn who_waits_again_while_the_broadcast_goes_on_is_woken_by_what_comes_next() {
    let mut scene = Scene::new();
    scene.at(0, 1, WaitEntry, C);
    scene.at(100, 9, BroadcastEntry, C);
    scene.at(105, 1, WaitExit, C);
    scene.at(106, 1, WaitEntry, C);
    scene.at(112, 9, quaver_abi::sync::SyncKind::BroadcastExit, C);
    scene.call(500, 501, 9, SignalEntry, C);
    scene.at(520, 1, WaitExit, C);
    let results = scene.results();
    assert_eq!(timed(&results, SyncClass::BroadcastWait), (1, 5));
    assert_eq!(timed(&results, SyncClass::SignalWait), (1, 20));
}

#[test]
fn the_last_to_arrive_at_a_barrier_lets_the_others_through() {
    let mut scene = Scene::new();
    for round in [0, 1_000] {
        for (thread, at) in [(1, 0), (2, 100), (3, 50)] {
            scene.at(round + at, thread, BarrierEntry, C);
        }
        // The first to leave is not the last to arrive.
        for (thread, at) in [(1, 130), (3, 140), (2, 115)] {
            scene.at(round + at, thread, BarrierExit, C).outcome =
                if thread == 2 { SyncOutcome::Serial } else { SyncOutcome::Ok };
        }
    }
    let results = scene.results();
    assert_eq!(timed(&results, SyncClass::BroadcastWait), (4, 2 * (30 + 40)));
    assert_eq!(timed(&results, SyncClass::Broadcast), (2, 30));
    assert_eq!((results.coverage.wake_ups, results.coverage.matched), (4, 4));
}

#[test]
fn a_lock_counts_from_the_unlock_that_let_it_in() {
    let mut scene = Scene::new();
    scene.at(0, 1, LockEntry, L);
    scene.at(5, 2, LockEntry, L);
    scene.call(100, 101, 3, UnlockEntry, L);
    scene.at(130, 1, LockExit, L);
    // Another one got in between; its unlock is what the second waited for.
    scene.call(300, 313, 1, UnlockEntry, L);
    scene.at(320, 2, LockExit, L);
    let results = scene.results();
    assert_eq!(timed(&results, SyncClass::LockUnlock), (2, 30 + 20));
    assert_eq!(late(&results, SyncClass::LockUnlock), (2, 20 + 10));
    assert_eq!(late(&results, SyncClass::Unlock), (1, 3));
}

#[test]
fn pairs_on_one_lock_and_on_others_do_not_mix() {
    let mut scene = Scene::new();
    for (pair, at) in [(0, 0), (1, 3), (2, 7)] {
        let (waiter, holder) = (10 + pair, 20 + pair);
        let lock = L + u64::from(pair % 2) * 64;
        scene.at(at, waiter, LockEntry, lock);
        scene.at(100 + at * 10, holder, UnlockEntry, lock);
        scene.at(101 + at * 10, holder, quaver_abi::sync::SyncKind::UnlockExit, lock);
        scene.at(120 + at * 10, waiter, LockExit, lock);
    }
    assert_eq!(timed(&scene.results(), SyncClass::LockUnlock), (3, 60));
}

#[test]
fn a_mutex_given_back_inside_a_wait_lets_others_in() {
    let mut scene = Scene::new();
    scene.at(0, 1, LockEntry, L);
    scene.at(50, 2, WaitEntry, C).detail = L as u32;
    scene.at(51, 2, UnlockEntry, L).flags = outcome_flags::INSIDE_WAIT;
    scene.at(70, 1, LockExit, L);
    scene.call(90, 91, 1, SignalEntry, C);
    scene.call(190, 191, 1, UnlockEntry, L);
    scene.at(210, 2, WaitExit, C);
    let results = scene.results();
    assert_eq!(timed(&results, SyncClass::LockUnlock), (1, 19));
    // The paper's T runs from the signal, though the mutex was held meanwhile; the cause tells.
    assert_eq!(timed(&results, SyncClass::SignalWait), (1, 120));
    assert_eq!(
        super::scene::pieces(&results.longest[0]),
        [(crate::sync::Cause::MutexHeld, 100), (crate::sync::Cause::Unexplained, 20)]
    );
    // The path went through the mutex: 20 − 10 late there, 9 at the lock.
    assert_eq!(results.critical_path.sync_jitter_ns, 10_000 + 9_000);
}

#[test]
fn readers_are_let_in_by_the_writer_and_not_by_each_other() {
    let mut scene = Scene::new();
    scene.at(0, 1, ReadLockEntry, L);
    scene.at(1, 2, ReadLockEntry, L);
    scene.at(2, 4, LockEntry, L);
    scene.call(100, 101, 3, UnlockEntry, L);
    scene.at(110, 1, ReadLockExit, L);
    scene.call(112, 113, 1, UnlockEntry, L);
    scene.at(130, 2, ReadLockExit, L);
    scene.call(150, 151, 2, UnlockEntry, L);
    scene.at(155, 4, LockExit, L);
    let results = scene.results();
    // 10 and 30 from the writer's unlock; the next writer 5 from the last reader's.
    assert_eq!(timed(&results, SyncClass::LockUnlock), (3, 45));
}

#[test]
fn posts_and_futex_words_are_signals() {
    let mut scene = Scene::new();
    scene.at(0, 1, SemWaitEntry, C);
    scene.call(100, 101, 2, PostEntry, C);
    scene.at(140, 1, SemWaitExit, C);
    scene.at(200, 1, FutexWaitEntry, L);
    scene.at(201, 3, FutexWaitEntry, L);
    scene.at(300, 2, FutexWakeEntry, L).detail = 1;
    scene.at(301, 2, FutexWakeExit, L).detail = 1;
    scene.at(340, 1, FutexWaitExit, L);
    scene.at(400, 2, FutexWakeEntry, L).detail = u32::MAX;
    scene.at(401, 2, FutexWakeExit, L).detail = 1;
    scene.at(420, 3, FutexWaitExit, L);
    let results = scene.results();
    assert_eq!(timed(&results, SyncClass::SignalWait), (2, 80));
    assert_eq!(timed(&results, SyncClass::BroadcastWait), (1, 20));
}

#[test]
fn a_wake_that_ends_a_wait_from_before_the_recording_ends_no_other() {
    let mut scene = Scene::new();
    let wake = |scene: &mut Scene, us: u64, woken: u32| {
        scene.at(us, 2, FutexWakeEntry, L).detail = 1;
        scene.kernel(us, 2, KernelKind::Waking { thread: ThreadId(woken), by_current: true, by: None });
        scene.at(us + 1, 2, FutexWakeExit, L).detail = 1;
    };
    scene.switch(0, 2, 0, 2, OffCpu::Blocked);
    scene.at(50, 1, FutexWaitEntry, L);
    scene.at(60, 3, FutexWaitEntry, L);
    // Threads 8 and 9 had waited before anybody looked; of 8 a call is known since, of 9 nothing.
    scene.call(70, 71, 8, UnlockEntry, C);
    wake(&mut scene, 100, 9);
    wake(&mut scene, 110, 8);
    wake(&mut scene, 300, 3);
    wake(&mut scene, 400, 1);
    // They return in another order than they were woken in.
    scene.at(420, 1, FutexWaitExit, L);
    scene.at(430, 3, FutexWaitExit, L);
    assert_eq!(timed(&scene.results(), SyncClass::SignalWait), (2, 130 + 20));
}

#[test]
fn a_post_that_woke_a_thread_in_vain_is_not_what_it_was_late_after() {
    let mut scene = Scene::new();
    let post = |scene: &mut Scene, us: u64, by: u32| {
        scene.at(us, by, PostEntry, C);
        scene.kernel(us, by as u16, KernelKind::Waking { thread: ThreadId(1), by_current: true, by: None });
        scene.at(us + 1, by, PostExit, C);
    };
    for by in [2, 3] {
        scene.switch(0, by as u16, 0, by, OffCpu::Blocked);
    }
    scene.at(10, 1, SemWaitEntry, C);
    scene.at(20, 4, SemWaitEntry, C);
    // Somebody who did not wait takes the first; the thread sleeps again, and the second wakes it.
    post(&mut scene, 100, 2);
    post(&mut scene, 700, 3);
    scene.at(730, 1, SemWaitExit, C);
    // The next one is for who waits still.
    scene.call(800, 801, 3, PostEntry, C);
    scene.at(840, 4, SemWaitExit, C);
    assert_eq!(timed(&scene.results(), SyncClass::SignalWait), (2, 30 + 40));
}

#[test]
fn timeouts_interruptions_and_tries_are_no_wake_ups() {
    let mut scene = Scene::new();
    for (at, outcome) in [
        (0, SyncOutcome::Timeout),
        (100, SyncOutcome::Interrupted),
        (200, SyncOutcome::Busy),
        (300, SyncOutcome::Failed),
    ] {
        scene.at(at, 1, WaitEntry, C);
        scene.at(at + 50, 1, WaitExit, C).outcome = outcome;
    }
    // A signal meant for who timed out wakes the next.
    scene.at(400, 1, WaitEntry, C);
    scene.at(401, 3, WaitEntry, C);
    scene.call(450, 451, 2, SignalEntry, C);
    scene.at(460, 1, WaitExit, C).outcome = SyncOutcome::Timeout;
    scene.at(470, 3, WaitExit, C);
    let results = scene.results();
    assert_eq!(
        (results.counts.timeouts, results.counts.interrupted, results.counts.busy, results.counts.failed),
        (2, 1, 1, 1)
    );
    assert_eq!((results.coverage.wake_ups, results.coverage.matched), (1, 1));
    assert_eq!(timed(&results, SyncClass::SignalWait), (1, 20));
}

#[test]
fn the_kernel_wakes_who_waits_for_an_owner_that_died() {
    let mut scene = Scene::new();
    // An earlier unlock, which had not returned when the waiter asked, let nobody in.
    scene.at(0, 1, UnlockEntry, L);
    scene.at(10, 2, LockEntry, L);
    scene.at(900, 2, LockExit, L).outcome = SyncOutcome::OwnerDied;
    let results = scene.results();
    assert_eq!((results.counts.owners_died, results.coverage.wake_ups), (1, 0));
    assert_eq!(timed(&results, SyncClass::LockUnlock), (0, 0));
}

#[test]
fn equal_addresses_of_two_programs_are_two_objects() {
    let mut scene = Scene::new();
    scene.at(0, 1, WaitEntry, C);
    scene.at(1, 2, WaitEntry, C).process = 1;
    scene.at(100, 3, SignalEntry, C).process = 1;
    scene.at(101, 3, SignalExit, C).process = 1;
    scene.at(130, 2, WaitExit, C).process = 1;
    scene.at(140, 1, WaitExit, C);
    let results = scene.results();
    assert_eq!((results.coverage.matched, results.coverage.without_waker), (1, 1));
    assert_eq!(timed(&results, SyncClass::SignalWait), (1, 30));
}

#[test]
fn a_full_buffer_drops_counts_and_reports() {
    let mut scene = Scene::with(Settings { buffer_entries: Some(2), ..Settings::default() });
    for thread in 1..=3 {
        scene.on(u64::from(thread), thread, 0, LockEntry, L + u64::from(thread) * 64);
    }
    for thread in 1..=3 {
        let lock = L + u64::from(thread) * 64;
        scene.call(100, 101, 9, UnlockEntry, lock);
        scene.on(130, thread, 0, LockExit, lock);
    }
    // There is room again.
    scene.on(200, 1, 0, LockEntry, L);
    scene.call(300, 301, 9, UnlockEntry, L);
    scene.on(330, 1, 0, LockExit, L);
    let results = scene.results();
    assert_eq!(
        (results.units.lock_overflows, results.units.wait_overflows, results.units.lock_most),
        (1, 0, 2)
    );
    assert_eq!((results.coverage.wake_ups, results.coverage.matched, results.coverage.overflowed), (4, 3, 1));
    assert_eq!(timed(&results, SyncClass::LockUnlock), (3, 90));
}

#[test]
fn a_mutex_is_given_back_after_the_entry_of_the_wait() {
    let mut scene = Scene::new();
    // As the recorder writes it: unlock and its return, then the wait. The lock is asked for in between.
    scene.at(50, 2, UnlockEntry, L).flags = outcome_flags::INSIDE_WAIT;
    scene.at(50, 2, quaver_abi::sync::SyncKind::UnlockExit, L).flags = outcome_flags::INSIDE_WAIT;
    scene.at(51, 1, LockEntry, L);
    scene.at(52, 2, WaitEntry, C).detail = L as u32;
    scene.at(70, 1, LockExit, L);
    // Asked for after the entry of the wait, which had not given back yet.
    scene.at(80, 4, LockEntry, L);
    scene.at(91, 4, LockExit, L);
    let results = scene.results();
    assert_eq!(timed(&results, SyncClass::LockUnlock), (2, 18 + 11));
    assert_eq!((results.coverage.without_waker, results.counts.exits_alone), (0, 0));
}

#[test]
fn a_post_that_somebody_else_took_makes_nobody_late() {
    let mut scene = Scene::new();
    scene.at(0, 1, SemWaitEntry, C);
    scene.call(100, 101, 2, PostEntry, C);
    // Somebody who never waited took the first; only the second lets the waiter through.
    scene.call(900, 901, 2, PostEntry, C);
    scene.at(930, 1, SemWaitExit, C);
    let results = scene.results();
    assert_eq!(timed(&results, SyncClass::SignalWait), (1, 30));
    assert_eq!(results.counts.signals_for_nobody, 1);
}

#[test]
fn a_wait_on_one_word_is_ended_by_the_call_for_another_that_the_kernel_woke_it_in() {
    let mut scene = Scene::new();
    scene.switch(0, 2, 0, 2, OffCpu::Blocked);
    scene.at(100, 1, FutexWaitEntry, L);
    scene.at(110, 3, WaitEntry, C);
    // The waiter was moved to the other word, whose call wakes it. What waits for a condition is not meant.
    scene.at(200, 2, FutexWakeEntry, L + 8).detail = 1;
    for woken in [3, 1] {
        scene.kernel(205, 2, KernelKind::Waking { thread: ThreadId(woken), by_current: true, by: None });
    }
    scene.at(210, 2, FutexWakeExit, L + 8).detail = 1;
    scene.at(250, 1, FutexWaitExit, L);
    scene.at(300, 3, WaitExit, C);
    let results = scene.results();
    assert_eq!((results.coverage.wake_ups, results.coverage.matched), (2, 1));
    // 50 µs from the call to the return.
    assert_eq!(timed(&results, SyncClass::SignalWait), (1, 50));
}
