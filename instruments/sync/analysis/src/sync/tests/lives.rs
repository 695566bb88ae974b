//! Threads that begin, end, join and vanish; the critical path.

use super::scene::{Scene, late, timed};
use crate::sync::{KernelKind, KernelReason, OtherClass, Settings, SyncClass, SyncResults, ThreadId};
use quaver_abi::record::OffCpu;
use quaver_abi::sync::SyncKind::{
    Create, CreateExit, JoinEntry, JoinExit, LockEntry, LockExit, SignalEntry, ThreadExit, ThreadStart,
    UnlockEntry, WaitEntry, WaitExit,
};

const C: u64 = 0x1000;

fn lost(results: &SyncResults, class: OtherClass) -> (u64, u64) {
    let sums = &results.others[class as usize].lost;
    (sums.count, sums.total_ns / 1_000)
}

/// One thread makes another, which is late by its signal, and joins it.
fn family() -> Scene {
    let mut scene = Scene::new();
    scene.at(0, 1, ThreadStart, 0xa1);
    scene.at(100, 1, Create, 0);
    scene.at(115, 1, CreateExit, 0xa2);
    scene.at(130, 2, ThreadStart, 0xa2).detail = 1;
    scene.at(150, 1, JoinEntry, 0xa2);
    scene.at(200, 2, WaitEntry, C);
    scene.call(300, 302, 3, SignalEntry, C);
    scene.at(350, 2, WaitExit, C);
    scene.at(500, 2, ThreadExit, 0xa2);
    scene.at(525, 1, JoinExit, 0xa2);
    scene.at(600, 1, SignalEntry, C);
    scene
}

#[test]
fn the_critical_path_leads_through_signal_and_join() {
    let results = family().results();
    let path = &results.critical_path;
    assert_eq!((path.last_thread, path.length_ns), (Some(ThreadId(1)), 600_000));
    // Thread 3 was never late; the wait from 300 to 350 and the join from 500 to 525 were.
    assert_eq!(path.sync_jitter_ns, 40_000);
    assert_eq!(path.other_ns, 15_000);
    assert_eq!(path.hand_overs, 2);
    assert_eq!(path.execution_ns, 545_000);
    assert_eq!(lost(&results, OtherClass::Start), (1, 20));
    assert_eq!(lost(&results, OtherClass::Join), (1, 15));
    assert_eq!(results.sync_share.critical_path, Some(40.0 / 55.0));
}

#[test]
fn the_fork_join_rule_takes_the_larger_counter() {
    let results = family().results();
    let first = results.threads.iter().find(|thread| thread.thread == ThreadId(1)).expect("it is listed");
    let second = results.threads.iter().find(|thread| thread.thread == ThreadId(2)).expect("it is listed");
    assert_eq!(second.count_ns, 20_000 + 40_000);
    assert_eq!(first.count_ns, 60_000 + 15_000);
}

#[test]
fn a_child_that_starts_before_create_returns_is_known() {
    let mut scene = Scene::new();
    scene.at(0, 1, ThreadStart, 0xa1);
    scene.at(100, 1, Create, 0);
    scene.at(140, 2, ThreadStart, 0xa2).detail = 1;
    scene.at(150, 1, CreateExit, 0xa2);
    // A second one, whose start is seen after the third was asked for.
    scene.at(200, 1, Create, 0);
    scene.at(205, 1, CreateExit, 0xa3);
    scene.at(210, 1, Create, 0);
    scene.at(260, 3, ThreadStart, 0xa3).detail = 1;
    scene.at(270, 4, ThreadStart, 0xa4).detail = 1;
    scene.at(280, 1, CreateExit, 0xa4);
    assert_eq!(lost(&scene.results(), OtherClass::Start), (3, 30 + 50 + 50));
}

#[test]
fn lost_exits_and_vanished_threads_confuse_nobody() {
    let mut scene = Scene::new();
    // Its return was lost: the next wait is another one.
    scene.at(0, 1, WaitEntry, C);
    scene.at(50, 1, WaitEntry, C);
    scene.call(100, 101, 2, SignalEntry, C);
    scene.at(130, 1, WaitExit, C);
    // Never seen again.
    scene.at(140, 3, WaitEntry, C);
    // A return without an entry.
    scene.at(150, 4, WaitExit, C);
    // The signaller's return was lost.
    scene.at(160, 1, WaitEntry, C);
    scene.at(200, 2, SignalEntry, C);
    scene.at(230, 1, WaitExit, C);
    scene.at(240, 2, SignalEntry, C);
    let results = scene.results();
    assert_eq!(timed(&results, SyncClass::SignalWait), (2, 60));
    assert_eq!((results.counts.entries_alone, results.counts.exits_alone), (2, 1));
    assert_eq!(results.counts.threads_without_end, 4);
}

#[test]
fn a_number_given_again_is_another_thread() {
    let mut scene = Scene::new();
    scene.at(0, 1, ThreadStart, 0xa1);
    scene.at(10, 2, ThreadStart, 0xa2);
    scene.at(20, 2, LockEntry, C);
    scene.at(30, 2, ThreadExit, 0xa2);
    scene.at(40, 2, ThreadStart, 0xa2);
    scene.at(50, 2, LockEntry, C);
    scene.call(100, 101, 1, UnlockEntry, C);
    scene.at(140, 2, LockExit, C);
    let results = scene.results();
    assert_eq!((results.counts.threads, results.counts.entries_alone), (3, 1));
    assert_eq!(late(&results, SyncClass::LockUnlock), (1, 30));
}

#[test]
fn lost_time_outside_calls_goes_through_the_same_buffers() {
    let mut scene = Scene::with(Settings { cpus: Some(1), ..Settings::default() });
    scene.at(0, 1, ThreadStart, 0xa1);
    scene.inside(100, 1, 1, KernelReason::Timer);
    scene.outside(103, 1, 1);
    scene.inside(200, 1, 1, KernelReason::SystemCall);
    scene.switch(201, 1, 1, 0, OffCpu::Blocked);
    scene.wakeup(240, 1, 1, 1);
    scene.switch(251, 1, 0, 1, OffCpu::Unknown);
    scene.outside(252, 1, 1);
    // Off the CPU for less than the threshold.
    scene.inside(300, 1, 1, KernelReason::SystemCall);
    scene.switch(301, 1, 1, 0, OffCpu::Blocked);
    scene.switch(309, 1, 0, 1, OffCpu::Unknown);
    scene.outside(310, 1, 1);
    scene.switch(400, 1, 1, 7, OffCpu::Preempted);
    scene.switch(430, 1, 7, 1, OffCpu::Blocked);
    // Half the speed for 100 microseconds: 50 are lost (the paper's example in time instead of cycles).
    scene.kernel(600, 1, KernelKind::Slow { duration_ns: 100_000, lost_permille: 500 });
    scene.kernel(700, 1, KernelKind::BusDelay { thread: ThreadId(1), lost_ns: 4_000 });
    scene.at(800, 1, WaitEntry, C);
    // Inside a call it is the call that gets longer.
    scene.kernel(810, 1, KernelKind::Slow { duration_ns: 10_000, lost_permille: 500 });
    let results = scene.results();
    assert_eq!(lost(&results, OtherClass::Timer), (1, 3));
    assert_eq!(lost(&results, OtherClass::SystemCall), (1, 50));
    assert_eq!(lost(&results, OtherClass::Preemption), (1, 30));
    assert_eq!(lost(&results, OtherClass::SlowCpu), (1, 50));
    assert_eq!(lost(&results, OtherClass::Bus), (1, 4));
    assert_eq!(results.critical_path.other_ns, 137_000);
    assert_eq!(results.units.wait_most, 1);
}

#[test]
fn more_threads_than_cpus_are_told() {
    let mut scene = Scene::with(Settings { cpus: Some(2), ..Settings::default() });
    for thread in 1..=3 {
        scene.at(0, thread, ThreadStart, 0xa0 + u64::from(thread));
    }
    scene.at(60, 3, WaitEntry, C);
    scene.at(200, 1, ThreadExit, 0xa1);
    let results = scene.results();
    let crowd = &results.oversubscription;
    assert_eq!((crowd.most_runnable, crowd.crowded_ns, crowd.warns), (3, 60_000, true));
    assert_eq!(crowd.crowded_share, Some(0.3));
}
