//! Waits that had not ended when the run did.

use super::Scene;
use crate::sync::ledger::{Contention, Ledger, Spending, Standstill};
use crate::sync::{SHARED_ADDRESS, ThreadId};
use quaver_abi::record::OffCpu;
use quaver_abi::sync::SyncKind::{
    FutexWaitEntry, FutexWakeEntry, FutexWakeExit, JoinEntry, LockEntry, SignalEntry, SignalExit, ThreadExit,
    ThreadStart, WaitEntry,
};

const WORD: u64 = 0x1000;
const CONDITION: u64 = 0x2000;
const END_US: u64 = 1_000;

/// The scene's ledger. Its one process lasted until [`END_US`].
fn ended(scene: &Scene) -> Contention {
    let mut ledger = Ledger::default();
    scene.events.iter().for_each(|event| ledger.any(event));
    ledger.finish(usize::MAX, &[END_US * 1_000])
}

/// Thread 1 waits for the end of thread 2, which waits on a word, and thread 3 for a condition that was signalled before.
fn stuck(word: u64) -> Scene {
    let mut scene = Scene::new();
    for thread in 1..=4 {
        scene.at(thread.into(), thread, ThreadStart, thread.into());
    }
    scene.at(10, 4, SignalEntry, CONDITION);
    scene.at(11, 4, SignalExit, CONDITION);
    // A call that woke somebody else's word, and one that comes after a wait.
    scene.at(12, 4, FutexWakeEntry, word + 8).detail = 1;
    scene.at(13, 4, FutexWakeExit, word + 8).detail = 0;
    scene.at(20, 4, ThreadExit, 4);
    scene.at(100, 1, JoinEntry, 2);
    scene.at(200, 2, FutexWaitEntry, word);
    scene.at(300, 3, WaitEntry, CONDITION);
    scene
}

#[test]
fn a_process_all_of_whose_threads_wait_stood_still() {
    let found = ended(&stuck(WORD));
    let waits: Vec<_> = found.unended.iter().map(|one| (one.thread.0, one.waits_for, one.total_ns)).collect();
    let us = |us: u64| us * 1_000;
    let want =
        [(1, Spending::Join, us(900)), (2, Spending::Futex, us(800)), (3, Spending::Condition, us(700))];
    assert_eq!(waits, want);
    // Since the last of them began to wait. Thread 4 has ended.
    assert_eq!(found.standstills, [Standstill { process: 0, threads: 3, total_ns: us(700) }]);
    let unheard: Vec<u32> =
        found.unended.iter().filter(|one| one.after_unheard).map(|one| one.thread.0).collect();
    assert_eq!(unheard, [3], "only its condition was signalled while nobody waited");
    assert_eq!(found.words[0].unended_ns, us(800));
}

#[test]
fn a_thread_that_left_could_have_ended_a_wait_until_then() {
    let mut scene = stuck(WORD);
    scene.at(30, 5, ThreadStart, 5);
    scene.at(990, 5, ThreadExit, 5);
    let us = |us: u64| us * 1_000;
    assert_eq!(ended(&scene).standstills, [Standstill { process: 0, threads: 3, total_ns: us(10) }]);
    let exits = |scene: &Scene| {
        let mut ledger = Ledger::default();
        scene.events.iter().for_each(|event| ledger.any(event));
        ledger.exited(0);
        ledger.finish(usize::MAX, &[us(END_US)]).standstills
    };
    // It called `exit`.
    assert_eq!(exits(&scene), []);
    // A handler called `exit` in a thread that waited.
    let mut scene = stuck(WORD);
    scene.at(500, 5, ThreadStart, 5);
    scene.at(600, 5, JoinEntry, 1);
    scene.at(990, 5, ThreadExit, 5);
    assert_eq!(exits(&scene), [Standstill { process: 0, threads: 3, total_ns: us(700) }]);
}

#[test]
fn a_wait_on_a_word_comes_after_a_wake_that_nobody_heard() {
    let mut scene = Scene::new();
    for (us, woke) in [(10, 0), (30, 1)] {
        scene.at(us, 2, FutexWakeEntry, WORD).detail = 1;
        scene.at(us + 1, 2, FutexWakeExit, WORD).detail = woke;
        scene.at(us + 2, 1, FutexWaitEntry, WORD);
        let after_unheard = ended(&scene).unended[0].after_unheard;
        assert_eq!(after_unheard, woke == 0);
        scene.at(us + 3, 1, LockEntry, CONDITION);
    }
}

#[test]
fn nothing_stood_still_where_a_thread_could_end_a_wait() {
    // One works on.
    let mut scene = stuck(WORD);
    scene.at(400, 5, ThreadStart, 5);
    assert_eq!(ended(&scene).standstills, []);
    // One was woken, and had not returned yet.
    let mut scene = stuck(WORD);
    (1..=3).for_each(|thread| scene.switch(500, 0, thread, 0, OffCpu::Blocked));
    assert_eq!(ended(&scene).standstills.len(), 1);
    scene.wakeup(900, 0, 2, 0);
    assert_eq!(ended(&scene).standstills, []);
    assert!(ended(&scene).unended.iter().all(|one| one.thread != ThreadId(2)));
    // Another process may end one.
    assert_eq!(ended(&stuck(WORD | SHARED_ADDRESS)).standstills, []);
    // Nobody knows whether it lasted until then.
    let mut ledger = Ledger::default();
    stuck(WORD).events.iter().for_each(|event| ledger.any(event));
    assert_eq!(ledger.finish(usize::MAX, &[0]).standstills, []);
}
