//! Why waits were long.

use super::scene::{Scene, pieces};
use crate::sync::{Cause, KernelKind, KernelReason, SyncResults, ThreadId};
use quaver_abi::record::OffCpu;
use quaver_abi::sync::SyncKind::{SignalEntry, SignalExit, ThreadStart, WaitEntry, WaitExit};

const C: u64 = 0x1000;

/// Thread 1 waits on CPU 1, thread 2 signals from CPU 2 at 100; `what` happens until thread 1 returns at 200.
fn woken(what: impl FnOnce(&mut Scene)) -> SyncResults {
    let mut scene = Scene::new();
    scene.at(0, 1, ThreadStart, 0xa1);
    scene.at(0, 2, ThreadStart, 0xa2);
    scene.switch(1, 1, 0, 1, OffCpu::Unknown);
    scene.switch(1, 2, 0, 2, OffCpu::Unknown);
    scene.at(10, 1, WaitEntry, C);
    scene.inside(11, 1, 1, KernelReason::Futex);
    scene.at(100, 2, SignalEntry, C);
    what(&mut scene);
    scene.at(200, 1, WaitExit, C);
    scene.at(300, 2, SignalExit, C);
    scene.results()
}

#[test]
fn from_a_late_waker_to_an_idle_cpu() {
    let results = woken(|scene| {
        scene.switch(12, 1, 1, 0, OffCpu::Blocked);
        scene.kernel(13, 1, KernelKind::IdleEnter);
        // The waker reaches its kernel at 140, which wakes at 150.
        scene.inside(140, 2, 2, KernelReason::Futex);
        scene.kernel(150, 2, KernelKind::Waking { thread: ThreadId(1), by_current: true, by: None });
        scene.wakeup(155, 2, 1, 1);
        scene.kernel(170, 1, KernelKind::IdleExit);
        scene.kernel(172, 1, KernelKind::IrqEnter { timer: false });
        scene.kernel(175, 1, KernelKind::IrqExit);
        scene.switch(180, 1, 0, 1, OffCpu::Unknown);
        scene.outside(190, 1, 1);
    });
    let wait = results.longest.iter().find(|wait| wait.thread == ThreadId(1)).expect("it was late");
    assert_eq!(
        pieces(wait),
        [
            (Cause::WakerLate, 40),
            (Cause::KernelNotSwitched, 15),
            (Cause::IdleExit, 15),
            (Cause::KernelNotSwitched, 2),
            (Cause::Interrupt, 3),
            (Cause::KernelNotSwitched, 15),
            (Cause::Running, 10),
        ]
    );
    assert_eq!((wait.case, wait.kernel_pairs), (1, 1));
    let leads: Vec<_> = results.causes.iter().filter(|one| one.leads > 0).map(|one| one.cause).collect();
    assert_eq!(leads, [Cause::WakerLate]);
}

#[test]
fn an_interrupt_that_wakes_has_nothing_to_do_with_the_thread_that_it_finds() {
    let results = woken(|scene| {
        scene.switch(12, 1, 1, 0, OffCpu::Blocked);
        scene.kernel(13, 1, KernelKind::IdleEnter);
        // Another thread is in a call of its own since 120, and a timer's interrupt comes within it at 150.
        scene.inside(120, 2, 2, KernelReason::Futex);
        scene.kernel(150, 2, KernelKind::Waking { thread: ThreadId(1), by_current: false, by: None });
        scene.wakeup(155, 2, 1, 1);
        scene.switch(180, 1, 0, 1, OffCpu::Unknown);
    });
    let wait = results.longest.iter().find(|wait| wait.thread == ThreadId(1)).expect("it was late");
    assert_eq!(pieces(wait)[..2], [(Cause::WakerLate, 50), (Cause::KernelNotSwitched, 5)]);
}

#[test]
fn case_2_behind_who_ran_and_then_behind_another() {
    let results = woken(|scene| {
        scene.switch(12, 1, 1, 8, OffCpu::Blocked);
        scene.wakeup(110, 2, 1, 1);
        scene.inside(120, 1, 8, KernelReason::SystemCall);
        scene.outside(125, 1, 8);
        scene.switch(150, 1, 8, 9, OffCpu::Preempted);
        scene.switch(190, 1, 9, 1, OffCpu::Blocked);
        scene.outside(191, 1, 1);
    });
    let wait = &results.longest[0];
    assert_eq!(
        pieces(wait),
        [
            (Cause::WakerLate, 10),
            (Cause::RunQueue, 10),
            (Cause::KernelNotSwitched, 5),
            (Cause::RunQueue, 25),
            (Cause::OtherThreadFirst, 40),
            (Cause::KernelNotSwitched, 1),
            (Cause::Running, 9),
        ]
    );
    assert_eq!((wait.case, wait.kernel_pairs), (2, 2));
    assert_eq!(results.oversubscription.run_queue_ns, 75_000);
}

#[test]
fn case_3_moved_while_it_could_run() {
    let mut scene = Scene::new();
    scene.at(0, 1, ThreadStart, 0xa1);
    scene.switch(1, 1, 0, 1, OffCpu::Unknown);
    scene.at(10, 1, WaitEntry, C);
    scene.switch(12, 1, 1, 8, OffCpu::Blocked);
    scene.at(100, 2, SignalEntry, C);
    scene.at(101, 2, SignalExit, C);
    scene.wakeup(110, 2, 1, 1);
    scene.kernel(160, 3, KernelKind::Migrate { thread: ThreadId(1), from: 1, to: 3 });
    scene.switch(190, 3, 0, 1, OffCpu::Unknown);
    scene.on(200, 1, 3, WaitExit, C);
    let results = scene.results();
    let wait = &results.longest[0];
    assert_eq!(
        pieces(wait),
        [(Cause::WakerLate, 10), (Cause::RunQueue, 50), (Cause::Migrated, 30), (Cause::Running, 10)]
    );
    assert_eq!(wait.case, 3);
}

#[test]
fn preempted_after_it_was_woken() {
    let results = woken(|scene| {
        scene.switch(12, 1, 1, 0, OffCpu::Blocked);
        scene.wakeup(110, 2, 1, 1);
        scene.switch(120, 1, 0, 1, OffCpu::Unknown);
        scene.outside(121, 1, 1);
        scene.switch(130, 1, 1, 8, OffCpu::Preempted);
        scene.switch(180, 1, 8, 1, OffCpu::Preempted);
    });
    assert_eq!(
        pieces(&results.longest[0]),
        [
            (Cause::WakerLate, 10),
            (Cause::IdleExit, 10),
            (Cause::KernelNotSwitched, 1),
            (Cause::Running, 9),
            (Cause::OtherThreadFirst, 50),
            (Cause::Running, 20),
        ]
    );
}

#[test]
fn without_the_kernel_s_side_nothing_is_explained() {
    let mut scene = Scene::new();
    scene.at(10, 1, WaitEntry, C);
    scene.at(100, 2, SignalEntry, C);
    scene.at(101, 2, SignalExit, C);
    scene.at(200, 1, WaitExit, C);
    let results = scene.results();
    assert_eq!(pieces(&results.longest[0]), [(Cause::Unexplained, 100)]);
    assert_eq!(results.longest[0].kernel_pairs, 0);
}

#[test]
fn asleep_again_it_waits_for_its_mutex() {
    let run = |unlocked: bool| {
        let mut scene = Scene::new();
        scene.switch(1, 1, 0, 1, OffCpu::Unknown);
        scene.at(2, 1, ThreadStart, 0xa1);
        scene.switch(3, 1, 0, 1, OffCpu::Unknown);
        scene.at(10, 1, WaitEntry, C).detail = 0x2000;
        scene.switch(12, 1, 1, 0, OffCpu::Blocked);
        scene.at(100, 2, SignalEntry, C);
        scene.at(101, 2, SignalExit, C);
        scene.wakeup(110, 2, 1, 1);
        scene.switch(110, 1, 0, 1, OffCpu::Unknown);
        scene.switch(115, 1, 1, 0, OffCpu::Blocked);
        if unlocked {
            scene.call(160, 161, 2, quaver_abi::sync::SyncKind::UnlockEntry, 0x2000);
        }
        scene.wakeup(170, 2, 1, 1);
        scene.switch(180, 1, 0, 1, OffCpu::Unknown);
        scene.at(200, 1, WaitExit, C);
        pieces(&scene.results().longest[0])
    };
    let (late, idle, runs) = ((Cause::WakerLate, 10), (Cause::IdleExit, 10), (Cause::Running, 20));
    assert_eq!(run(false), [late, (Cause::Running, 5), (Cause::MutexHeld, 55), idle, runs]);
    assert_eq!(
        run(true),
        [late, (Cause::Running, 5), (Cause::MutexHeld, 45), (Cause::WakerLate, 10), idle, runs]
    );
}
