//! Rounds of barriers.

use super::{Scene, found, ledger_of};
use crate::sync::ThreadId;
use crate::sync::ledger::LastShare;
use quaver_abi::sync::SyncKind::{BarrierEntry, BarrierExit, ThreadExit};
use quaver_abi::sync::SyncOutcome;

const B: u64 = 0x3000;

#[test]
fn a_round_is_over_when_its_first_thread_goes_on() {
    let mut scene = Scene::new();
    for (us, thread) in [(100, 1), (150, 2), (400, 3)] {
        scene.at(us, thread, BarrierEntry, B);
    }
    // One has come to the next round before another has left this one.
    scene.at(405, 3, BarrierExit, B).outcome = SyncOutcome::Serial;
    scene.at(410, 1, BarrierExit, B);
    scene.at(420, 1, BarrierEntry, B);
    scene.at(430, 2, BarrierExit, B);
    scene.at(500, 3, BarrierEntry, B);
    scene.at(900, 2, BarrierEntry, B);
    for (us, thread) in [(901, 2), (910, 1), (911, 3)] {
        scene.at(us, thread, BarrierExit, B);
    }
    // To the third only one comes, and ends.
    scene.at(950, 1, BarrierEntry, B);
    scene.at(980, 1, ThreadExit, 1);
    let all = found(&scene).barriers;
    let [one] = &all[..] else { panic!("{all:?}") };
    assert_eq!((one.wait.count, one.rounds, one.threads), (7, 2, 3));
    let parts = (one.for_last_ns, one.after_ns, one.unfinished_ns);
    assert_eq!(parts, ((300 + 250 + 480 + 400) * 1_000, (5 + 10 + 30 + 1 + 10 + 11) * 1_000, 30_000));
    assert_eq!(parts.0 + parts.1 + parts.2, one.wait.total_ns);
    let last = |thread, behind_us: u64, total_us: u64| LastShare {
        thread: ThreadId(thread),
        rounds: 1,
        behind_ns: behind_us * 1_000,
        total_ns: total_us * 1_000,
    };
    assert_eq!(one.last, [last(2, 400, 880), last(3, 250, 550)]);
}

#[test]
fn a_thread_alone_at_a_barrier_comes_after_nobody() {
    let mut scene = Scene::new();
    scene.call(10, 20, 1, BarrierEntry, B);
    let all = ledger_of(&scene.events).barriers;
    assert_eq!((all[0].rounds, all[0].last.len(), all[0].after_ns), (1, 0, 10_000));
}

#[test]
fn a_thread_that_is_not_seen_to_leave_a_full_round_waited_until_all_had_come() {
    let mut scene = Scene::new();
    for (us, thread) in [(100, 1), (400, 2)] {
        scene.at(us, thread, BarrierEntry, B);
    }
    scene.at(410, 2, BarrierExit, B);
    let found = ledger_of(&scene.events);
    let one = &found.barriers[0];
    assert_eq!((one.for_last_ns, one.after_ns, one.unfinished_ns), (300_000, 10_000, 0));
    assert_eq!(one.last[0].total_ns, 300_000);
    let unended: Vec<_> = found.unended.iter().map(|wait| (wait.thread, wait.total_ns)).collect();
    assert_eq!(unended, [(ThreadId(1), 300_000)]);
}
