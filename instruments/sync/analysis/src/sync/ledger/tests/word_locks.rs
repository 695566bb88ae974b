//! Futex words as locks and barriers.

use super::{Scene, found};
use crate::sync::ledger::{Activity, LastShare, LockFigures, Pattern};
use crate::sync::{KernelKind, ThreadId};
use quaver_abi::record::OffCpu;
use quaver_abi::sync::SyncKind::{FutexWaitEntry, FutexWaitExit, FutexWakeEntry, FutexWakeExit, ThreadStart};
use quaver_abi::sync::SyncOutcome;

const W: u64 = 0x5000;

/// A thread wakes so many, at once.
fn wake(scene: &mut Scene, us: u64, thread: u32, most: u32) {
    scene.at(us, thread, FutexWakeEntry, W).detail = most;
    scene.at(us, thread, FutexWakeExit, W).detail = 1;
}

fn pairs(lock: &LockFigures) -> Vec<(u32, u32, u64, u64)> {
    let mut pairs: Vec<_> =
        lock.pairs.iter().map(|one| (one.waiter.0, one.owner.0, one.holds, one.total_ns / 1_000)).collect();
    pairs.sort_unstable();
    pairs
}

#[test]
fn a_wait_is_for_each_thread_until_it_wakes_the_next() {
    let mut scene = Scene::new();
    for thread in 1..=3 {
        scene.at(0, thread, ThreadStart, u64::from(thread));
        scene.switch(0, thread as u16, 0, thread, OffCpu::Unknown);
    }
    // 1 has it, and 2 and 3 wait. 1 sleeps from 200 to 900 in call 230.
    scene.at(100, 2, FutexWaitEntry, W);
    scene.at(150, 3, FutexWaitEntry, W);
    scene.switch(200, 1, 1, 0, OffCpu::Blocked);
    scene.switch(900, 1, 0, 1, OffCpu::Unknown);
    let (blocked_ns, inside_ns) = (700_000, 705_000);
    let call =
        KernelKind::SystemCall { thread: ThreadId(1), blocked_ns, inside_ns, number: 230, only_waits: true };
    scene.kernel(902, 1, call);
    wake(&mut scene, 1_000, 1, 1);
    scene.at(1_020, 2, FutexWaitExit, W);
    // 2 has it from its return on, and gives it to 3.
    wake(&mut scene, 1_500, 2, 1);
    scene.at(1_510, 3, FutexWaitExit, W);
    // 1 finds it changed, waits again, and its time is over.
    scene.at(1_600, 1, FutexWaitEntry, W);
    scene.at(1_601, 1, FutexWaitExit, W).outcome = SyncOutcome::Busy;
    scene.at(1_700, 1, FutexWaitEntry, W);
    scene.at(1_900, 1, FutexWaitExit, W).outcome = SyncOutcome::Timeout;
    let found = found(&scene);
    let [lock] = &found.given_back[..] else { panic!("{:?}", found.given_back) };
    assert_eq!(pairs(lock), [(2, 1, 1, 900), (3, 1, 1, 850), (3, 2, 1, 480)]);
    assert_eq!((lock.handed_over_ns, lock.owner_unknown_ns), (20_000 + 20_000 + 10_000, 201_000));
    assert_eq!(lock.owner_ns[Activity::Slept as usize], 1_400_000);
    assert_eq!((lock.slept_in[0].call, lock.slept_in[0].total_ns), (Some(230), 1_400_000));
    assert_eq!(lock.owner_sites.iter().map(|one| one.address).collect::<Vec<_>>(), [0x4001, 0x4002]);
    assert_eq!((lock.wait.count, lock.wait.total_ns), (4, found.word_wait.total_ns));
    assert_eq!(found.locks.len(), 0, "what it is nobody has said");
}

#[test]
fn who_did_not_get_it_waits_on_and_is_no_owner() {
    let mut scene = Scene::new();
    (1..=3).for_each(|thread| {
        scene.at(0, thread, ThreadStart, u64::from(thread));
    });
    scene.at(100, 2, FutexWaitEntry, W);
    scene.at(100, 3, FutexWaitEntry, W);
    for us in [300, 500, 700, 900] {
        // 1 takes it again before 2, which was woken, runs.
        wake(&mut scene, us, 1, 1);
        scene.at(us + 20, 2, FutexWaitExit, W);
        scene.at(us + 25, 2, FutexWaitEntry, W);
    }
    wake(&mut scene, 1_000, 1, 1);
    scene.at(1_010, 2, FutexWaitExit, W);
    wake(&mut scene, 1_100, 2, 1);
    scene.at(1_110, 3, FutexWaitExit, W);
    let found = found(&scene);
    let lock = &found.given_back[0];
    // Since when 1 had it again is known from 2, which found it taken.
    let us = 200 + 3 * 175 + 75;
    assert_eq!(pairs(lock), [(2, 1, 5, us), (3, 1, 5, us), (3, 2, 1, 90)]);
    assert_eq!(lock.patterns, [Pattern::Barging]);
}

#[test]
fn who_wakes_all_came_last() {
    let mut scene = Scene::new();
    for (us, last) in [(1_000, 3), (2_000, 1)] {
        let others: Vec<u32> = (1..=3).filter(|one| *one != last).collect();
        scene.at(us, others[0], FutexWaitEntry, W);
        scene.at(us + 100, others[1], FutexWaitEntry, W);
        wake(&mut scene, us + 400, last, i32::MAX as u32);
        scene.at(us + 410, others[0], FutexWaitExit, W);
        scene.at(us + 430, others[1], FutexWaitExit, W);
    }
    // One that wakes nobody, and one of a few, as for work that is to be shared.
    wake(&mut scene, 3_000, 2, i32::MAX as u32);
    scene.at(3_100, 1, FutexWaitEntry, W);
    wake(&mut scene, 3_200, 2, 2);
    scene.at(3_210, 1, FutexWaitExit, W);
    let all = found(&scene).word_rounds;
    let [one] = &all[..] else { panic!("{all:?}") };
    assert_eq!((one.rounds, one.wait.count, one.threads), (2, 5, 3));
    assert_eq!((one.for_last_ns, one.after_ns, one.unfinished_ns), (1_400_000, 80_000, 110_000));
    let last =
        |thread| LastShare { thread: ThreadId(thread), rounds: 1, behind_ns: 300_000, total_ns: 700_000 };
    assert_eq!(one.last, [last(1), last(3)]);
    assert_eq!(one.last_sites.iter().map(|one| one.address).collect::<Vec<_>>(), [0x4001, 0x4003]);
}
