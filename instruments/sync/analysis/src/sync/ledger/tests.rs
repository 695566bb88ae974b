//! Histories with a known ledger, and what holds of any.

mod barriers;
mod owners;
mod readers;
mod unended;
mod word_locks;

use super::{
    Activity, Contention, Ledger, LockFigures, Pattern, ThreadTime, WaiterShare, WakerShare, WordKind,
    WordUse,
};
use crate::replay::LatestWakeup;
use crate::sync::tests::histories::{kernel_events, sync_events};
use crate::sync::tests::scene::{Scene, at_ns};
use crate::sync::{AnyEvent, KernelEvent, KernelKind, Protocol, Settings, ThreadId};
use proptest::prelude::*;
use quaver_abi::record::OffCpu;
use quaver_abi::sync::SyncKind::{
    BroadcastEntry, FutexWaitEntry, FutexWaitExit, FutexWakeEntry, FutexWakeExit, LockEntry, LockExit,
    PostEntry, SemWaitEntry, SemWaitExit, ThreadExit, ThreadStart, TryEntry, TryExit, UnlockEntry,
    UnlockExit, WaitEntry, WaitExit,
};
use quaver_abi::sync::{SyncObject, SyncOutcome, outcome_flags};

const L: u64 = 0x1000;
const M: u64 = 0x2000;

fn ledger_of(events: &[AnyEvent]) -> Contention {
    let mut ledger = Ledger::default();
    events.iter().for_each(|event| ledger.any(event));
    let found = ledger.finish(usize::MAX, &[]);
    conserves(&found);
    found
}

fn found(scene: &Scene) -> Contention {
    let mut events = scene.events.clone();
    events.sort_by_key(at_ns);
    ledger_of(&events)
}

/// Each nanosecond of a thread and of a wait is in one place.
fn conserves(found: &Contention) {
    for thread in &found.threads {
        assert_eq!(thread.parts_ns().iter().sum::<u64>(), thread.last_ns - thread.first_ns, "{thread:?}");
    }
    let waited_ns: u64 = found.locks.iter().map(|lock| lock.wait.total_ns).sum();
    for lock in found.locks.iter().chain(&found.given_back) {
        let parts_ns = lock.held_ns + lock.handed_over_ns + lock.owner_unknown_ns;
        assert_eq!(parts_ns, lock.wait.total_ns, "{lock:?}");
        assert_eq!(lock.owner_ns.iter().sum::<u64>(), lock.held_ns, "{lock:?}");
        let doing_ns = |activity: Activity| lock.owner_ns[activity as usize];
        // Sixteen of a kind are listed.
        let adds_up = |parts_ns: Vec<u64>, whole_ns: u64| {
            let sum: u64 = parts_ns.iter().sum();
            assert!(sum == whole_ns || parts_ns.len() == 16 && sum < whole_ns, "{whole_ns}: {lock:?}");
        };
        adds_up(lock.pairs.iter().map(|one| one.total_ns).collect(), lock.held_ns);
        adds_up(lock.roots.iter().map(|one| one.total_ns).collect(), lock.held_ns);
        let given_back_ns = lock.held_ns - lock.outlasted_ns;
        adds_up(lock.owner_sites.iter().map(|one| one.total_ns).collect(), given_back_ns);
        adds_up(lock.waiter_sites.iter().map(|one| one.total_ns).collect(), lock.wait.total_ns);
        let queue = lock.preempted_by.iter().map(|one| one.total_ns).collect();
        adds_up(queue, doing_ns(Activity::RunQueue) - lock.quota_ns);
        adds_up(lock.slept_in.iter().map(|one| one.total_ns).collect(), doing_ns(Activity::Slept));
        adds_up(lock.waited_for.iter().map(|one| one.total_ns).collect(), doing_ns(Activity::Waited));
        adds_up(lock.inverted_by.iter().map(|one| one.total_ns).collect(), lock.inverted_ns);
        assert!(lock.overtaken.total_ns <= lock.held_ns && lock.inverted_ns <= lock.held_ns, "{lock:?}");
        assert!(lock.crowded_ns <= lock.queued_ns, "{lock:?}");
    }
    assert_eq!(waited_ns, found.wait.total_ns);
    for one in &found.conditions {
        assert!(one.woken + one.timed_out.count <= one.wait.count, "{one:?}");
        assert!(
            one.unheard <= one.signals + one.broadcasts && one.unheard_before.count <= one.unheard,
            "{one:?}"
        );
    }
    for one in found.barriers.iter().chain(&found.word_rounds) {
        assert_eq!(one.for_last_ns + one.after_ns + one.unfinished_ns, one.wait.total_ns, "{one:?}");
        let last_ns: u64 = one.last.iter().map(|last| last.total_ns).sum();
        assert!(last_ns <= one.for_last_ns + one.unfinished_ns, "{one:?}");
    }
    let mut waits = (0, 0);
    for word in &found.words {
        assert_eq!(word.woken + word.changed + word.given_up, word.wait.count, "{word:?}");
        assert!(word.passed_on + word.again <= word.woken, "{word:?}");
        assert!(word.again_at_once <= word.again, "{word:?}");
        let by_waiter =
            word.waiters.iter().fold((0, 0), |sum, one| (sum.0 + one.waits, sum.1 + one.total_ns));
        // Those whose waits took no time are left out.
        assert!(by_waiter.0 <= word.wait.count && by_waiter.1 == word.wait.total_ns, "{word:?}");
        let wake_ups: u64 = word.wakers.iter().map(|one| one.wake_ups).sum();
        assert_eq!(wake_ups + word.waker_unknown, word.woken, "{word:?}");
        assert!(word.wakers.iter().all(|one| one.certain <= one.wake_ups), "{word:?}");
        let sites_ns: u64 = word.waiter_sites.iter().map(|one| one.total_ns).sum();
        assert_eq!(sites_ns, word.wait.total_ns, "{word:?}");
        waits = (waits.0 + word.wait.count, waits.1 + word.wait.total_ns);
    }
    assert_eq!(waits, (found.word_wait.count, found.word_wait.total_ns));
}

fn owner_us(lock: &LockFigures, activity: Activity) -> u64 {
    lock.owner_ns[activity as usize] / 1_000
}

fn priorities(scene: &mut Scene, prev: i16, next: i16) {
    if let Some(AnyEvent::Kernel(KernelEvent { kind: KernelKind::Switch { priorities, .. }, .. })) =
        scene.events.last_mut()
    {
        *priorities = Some((prev, next));
    }
}

/// An unlock that returns at once.
fn unlock(scene: &mut Scene, us: u64, thread: u32, lock: u64) {
    scene.at(us, thread, UnlockEntry, lock);
    scene.at(us, thread, UnlockExit, lock);
}

#[test]
fn a_wait_is_its_whole_time_and_not_what_follows_the_release() {
    let mut scene = Scene::new();
    scene.at(0, 1, ThreadStart, 1);
    scene.at(0, 2, ThreadStart, 2);
    scene.switch(0, 1, 0, 1, OffCpu::Unknown);
    scene.at(100, 2, LockEntry, L);
    // The owner sleeps from 200 to 900 in call 230.
    scene.switch(200, 1, 1, 0, OffCpu::Blocked);
    scene.switch(900, 1, 0, 1, OffCpu::Unknown);
    let call = KernelKind::SystemCall {
        thread: ThreadId(1),
        blocked_ns: 700_000,
        inside_ns: 705_000,
        number: 230,
        only_waits: true,
    };
    scene.kernel(902, 1, call);
    unlock(&mut scene, 1_000, 1, L);
    scene.at(1_020, 2, LockExit, L);
    let found = found(&scene);
    let lock = &found.locks[0];
    assert_eq!((lock.wait.count, lock.contended, lock.wait.total_ns), (1, 1, 920_000));
    assert_eq!((lock.held_ns, lock.handed_over_ns, lock.owner_unknown_ns), (900_000, 20_000, 0));
    assert_eq!((owner_us(lock, Activity::Ran), owner_us(lock, Activity::Slept)), (200, 700));
    assert_eq!((lock.slept_in[0].call, lock.slept_in.len()), (Some(230), 1));
    assert_eq!((lock.pairs[0].waiter, lock.pairs[0].owner), (ThreadId(2), ThreadId(1)));
    assert_eq!(lock.owner_sites[0].address, 0x4001);
    assert_eq!(lock.patterns, []);
    let owner: &ThreadTime = &found.threads[0];
    assert_eq!((owner.execution_ns, owner.sleep_ns), (300_000, 700_000));
    assert_eq!(found.threads[1].lock_ns, 920_000);
}

#[test]
fn who_asked_later_and_was_first_barged_in() {
    let mut scene = Scene::new();
    scene.at(0, 2, LockEntry, L);
    // Thread 1 has it four times more before thread 2 gets it; it is free each time when 1 asks.
    for us in [100, 200, 300, 400, 500] {
        unlock(&mut scene, us, 1, L);
    }
    scene.at(510, 2, LockExit, L);
    let lock = &found(&scene).locks[0];
    assert_eq!((lock.overtaken.count, lock.overtaken.total_ns), (4, 400_000));
    assert_eq!((lock.held_ns, lock.handed_over_ns), (500_000, 10_000));
    assert_eq!(lock.patterns, [Pattern::Barging]);
    // One that had asked before is not among them, though it gets the lock first.
    let mut scene = Scene::new();
    scene.at(0, 3, LockEntry, L);
    scene.at(10, 2, LockEntry, L);
    unlock(&mut scene, 100, 1, L);
    scene.at(110, 3, LockExit, L);
    unlock(&mut scene, 300, 3, L);
    scene.at(310, 2, LockExit, L);
    let lock = &found(&scene).locks[0];
    assert_eq!((lock.overtaken.count, lock.handed_over_ns), (0, 30_000));
    assert_eq!((lock.hold.count, lock.hold.total_ns), (1, 190_000));
}

#[test]
fn readers_that_come_again_starve_a_writer() {
    let mut scene = Scene::new();
    scene.at(0, 9, LockEntry, L);
    // Two readers overlap. Nobody stamped when they asked; each of their second holds began after the writer had asked.
    for (us, reader) in [(100, 1), (150, 2), (200, 1), (250, 2), (300, 1)] {
        scene.at(us, reader, UnlockEntry, L).detail = SyncObject::ReadWrite as u32;
        scene.at(us, reader, UnlockExit, L).detail = SyncObject::ReadWrite as u32;
    }
    scene.at(310, 9, LockExit, L);
    let lock = &found(&scene).locks[0];
    assert_eq!((lock.overtaken.count, lock.overtaken.total_ns), (3, 150_000));
    assert_eq!((lock.held_ns, lock.handed_over_ns), (300_000, 10_000));
    assert_eq!(lock.patterns, [Pattern::Barging]);
}

#[test]
fn for_an_owner_that_died_nobody_is_blamed_and_nothing_is_handing_over() {
    let mut scene = Scene::new();
    scene.at(0, 2, LockEntry, L);
    scene.at(10, 3, LockEntry, L);
    scene.at(500, 2, LockExit, L).outcome = SyncOutcome::OwnerDied;
    unlock(&mut scene, 600, 2, L);
    scene.at(605, 3, LockExit, L);
    let lock = &found(&scene).locks[0];
    assert_eq!((lock.contended, lock.owner_unknown_ns), (2, 500_000 + 490_000));
    assert_eq!((lock.held_ns, lock.handed_over_ns), (100_000, 5_000));
    assert_eq!((lock.pairs[0].owner, lock.pairs.len()), (ThreadId(2), 1));
}

#[test]
fn an_owner_behind_one_less_urgent_than_its_waiter_is_an_inversion() {
    let inverted = |owner: i16, middle: i16| {
        let mut scene = Scene::new();
        scene.on(0, 1, 0, ThreadStart, 1);
        scene.on(0, 2, 0, ThreadStart, 2);
        scene.switch(0, 0, 0, 2, OffCpu::Unknown);
        priorities(&mut scene, 120, 69);
        scene.on(10, 2, 0, LockEntry, L);
        scene.switch(20, 0, 2, 1, OffCpu::Blocked);
        priorities(&mut scene, 69, owner);
        scene.switch(50, 0, 1, 7, OffCpu::Preempted);
        priorities(&mut scene, owner, middle);
        scene.switch(850, 0, 7, 1, OffCpu::Blocked);
        priorities(&mut scene, middle, owner);
        scene.on(900, 1, 0, UnlockEntry, L);
        scene.on(910, 2, 0, LockExit, L);
        found(&scene).locks.remove(0)
    };
    let lock = inverted(89, 79);
    assert_eq!((lock.inverted_ns, lock.inverted_by[0].thread), (800_000, ThreadId(7)));
    assert_eq!(lock.patterns, [Pattern::PriorityInversion]);
    assert_eq!((owner_us(&lock, Activity::RunQueue), lock.preempted_by[0].thread), (800, ThreadId(7)));
    let lock = inverted(89, 59);
    assert_eq!((lock.inverted_ns, lock.patterns.len()), (0, 0), "it is more urgent than both");
    assert_eq!(owner_us(&lock, Activity::RunQueue), 800);
    let lock = inverted(69, 79);
    assert_eq!((lock.inverted_ns, lock.patterns.len()), (0, 0), "its owner is as urgent as who waits");
}

#[test]
fn a_chain_of_waits_is_followed_to_its_root() {
    let mut scene = Scene::new();
    // 3 waits for L, which 2 has; 2 waits for M, which 1 has.
    scene.at(0, 1, ThreadStart, 1);
    scene.at(0, 2, ThreadStart, 2);
    scene.at(10, 3, LockEntry, L);
    scene.at(20, 2, LockEntry, M);
    unlock(&mut scene, 500, 1, M);
    scene.at(510, 2, LockExit, M);
    unlock(&mut scene, 600, 2, L);
    scene.at(600, 3, LockExit, L);
    let found = found(&scene);
    let lock = found.locks.iter().find(|lock| lock.address == L).expect("it was waited for");
    assert_eq!((owner_us(lock, Activity::Ran), owner_us(lock, Activity::Waited)), (100, 490));
    assert_eq!((lock.waited_for[0].address, lock.waited_for[0].total_ns), (M, 490_000));
    let roots: Vec<_> = lock.roots.iter().map(|one| (one.thread.0, one.depth, one.total_ns)).collect();
    // 10 µs in which M was on its way to 2 have nobody else to blame.
    assert_eq!(roots, [(1, 2, 480_000), (2, 1, 100_000), (2, 1, 10_000)]);
}

#[test]
fn threads_that_always_queue_are_a_convoy_and_one_long_hold_is_none() {
    let mut scene = Scene::new();
    // Four threads in turns of 100 µs, each asking again at once.
    for thread in 0..4 {
        scene.at(u64::from(thread), thread + 1, LockEntry, L);
    }
    for turn in 1..40_u32 {
        let (us, thread) = (u64::from(turn) * 100, (turn - 1) % 4 + 1);
        unlock(&mut scene, us, if turn == 1 { 9 } else { (turn + 2) % 4 + 1 }, L);
        if turn > 1 {
            scene.at(us + 1, (turn + 2) % 4 + 1, LockEntry, L);
        }
        scene.at(us + 2, thread, LockExit, L);
    }
    let lock = &found(&scene).locks[0];
    assert_eq!(lock.patterns, [Pattern::Convoy], "{lock:?}");
    let mut scene = Scene::new();
    for thread in 0..12 {
        scene.at(u64::from(thread), thread + 1, LockEntry, L);
    }
    for turn in 0..12_u32 {
        unlock(&mut scene, 5_000 + u64::from(turn), if turn == 0 { 99 } else { turn }, L);
        scene.at(5_000 + u64::from(turn), turn + 1, LockExit, L);
    }
    assert_eq!(found(&scene).locks[0].patterns, []);
}

#[test]
fn a_wait_that_runs_out_has_no_owner_and_a_mutex_taken_again_has_a_hold() {
    let mut scene = Scene::new();
    scene.at(0, 2, LockEntry, L);
    scene.at(100, 2, LockExit, L).outcome = SyncOutcome::Timeout;
    let lock = &found(&scene).locks[0];
    assert_eq!((lock.wait.count, lock.contended, lock.owner_unknown_ns), (1, 0, 100_000));
    let mut scene = Scene::new();
    scene.at(0, 2, LockEntry, L);
    scene.at(10, 1, WaitEntry, M).detail = L as u32;
    scene.at(20, 3, UnlockEntry, L);
    scene.at(30, 1, WaitExit, M).detail = L as u32;
    scene.at(90, 1, UnlockEntry, L);
    scene.at(91, 2, LockExit, L);
    let lock = &found(&scene).locks[0];
    assert_eq!((lock.hold.count, lock.hold.total_ns, lock.handed_over_ns), (1, 60_000, 11_000));
}

#[test]
fn a_sample_stands_for_the_execution_since_the_one_before() {
    let mut scene = Scene::new();
    scene.at(0, 1, ThreadStart, 1);
    scene.switch(0, 1, 0, 1, OffCpu::Unknown);
    let sample = |scene: &mut Scene, us, spins| {
        scene.kernel(us, 1, KernelKind::Sample { thread: ThreadId(1), address: 0, spins });
    };
    // It works for 4 ms and spins for 12 ms. Within the loop the timer is held up twice, for 5 ms each.
    (1..=4).for_each(|ms| sample(&mut scene, ms * 1_000, false));
    [5, 10, 15, 16].into_iter().for_each(|ms| sample(&mut scene, ms * 1_000, true));
    // Sleep is no execution, and samples in a call tell nothing.
    scene.switch(16_000, 1, 1, 0, OffCpu::Blocked);
    scene.switch(50_000, 1, 0, 1, OffCpu::Unknown);
    scene.at(50_000, 1, LockEntry, L);
    sample(&mut scene, 51_000, true);
    scene.at(52_000, 1, LockExit, L);
    let found = found(&scene);
    let thread = &found.threads[0];
    assert_eq!((thread.spin_ns, thread.execution_ns), (12_000_000, 4_000_000), "{thread:?}");
    assert_eq!(thread.unsampled_ns, Some(2 * (5_000_000 - 1_003_000)), "{thread:?}");
}

#[test]
fn who_gives_its_cpu_away_waits_for_others_and_for_no_cpu() {
    let mut scene = Scene::new();
    for thread in [1, 2] {
        scene.at(0, thread, ThreadStart, thread.into());
    }
    scene.switch(0, 1, 2, 1, OffCpu::Preempted);
    scene.switch(1_000, 1, 1, 2, OffCpu::Yielded);
    scene.switch(4_000, 1, 2, 1, OffCpu::Preempted);
    scene.switch(5_000, 1, 1, 2, OffCpu::Preempted);
    scene.switch(7_000, 1, 2, 1, OffCpu::Blocked);
    // In a call of the library it waits for that, whatever the call does.
    scene.at(8_000, 1, LockEntry, L);
    scene.switch(8_000, 1, 1, 0, OffCpu::Yielded);
    scene.switch(9_000, 1, 0, 1, OffCpu::Unknown);
    scene.at(9_000, 1, LockExit, L);
    let found = found(&scene);
    let yields = found.threads.iter().find(|one| one.thread == ThreadId(1)).expect("it is there");
    assert_eq!((yields.spin_ns, yields.execution_ns), (3_000_000, 3_000_000), "{yields:?}");
    assert_eq!(yields.run_queue_ns, 2_000_000 + 1_000_000, "{yields:?}");
    // The other one was preempted for 1 ms at first, and for 1 ms then.
    assert_eq!(found.crowded_ns, 1_000_000 + 1_000_000 + 2_000_000, "{found:?}");
}

#[test]
fn an_idle_cpu_that_has_not_switched_is_no_other_program() {
    let mut scene = Scene::new();
    scene.at(0, 1, ThreadStart, 1);
    scene.switch(0, 1, 0, 1, OffCpu::Unknown);
    scene.switch(1_000, 1, 1, 0, OffCpu::Blocked);
    scene.wakeup(2_000, 1, 1, 1);
    scene.switch(5_000, 1, 0, 1, OffCpu::Unknown);
    scene.switch(6_000, 1, 1, 7, OffCpu::Preempted);
    scene.switch(8_000, 1, 7, 1, OffCpu::Blocked);
    scene.at(9_000, 1, ThreadExit, 1);
    let found = found(&scene);
    assert_eq!((found.threads[0].run_queue_ns, found.crowded_ns), (5_000_000, 0), "{found:?}");
    assert_eq!(found.others_ns, 2_000_000, "{found:?}");
}

#[test]
fn a_quota_is_nobodys_thread() {
    let mut scene = Scene::new();
    for thread in [1, 2] {
        scene.at(0, thread, ThreadStart, thread.into());
    }
    scene.switch(0, 1, 0, 1, OffCpu::Unknown);
    scene.at(1_000, 2, LockEntry, L);
    // The owner is throttled for 80 ms; meanwhile a stranger and the other thread of the program run on its CPU.
    scene.switch(2_000, 1, 1, 7, OffCpu::Throttled);
    scene.switch(40_000, 1, 7, 2, OffCpu::Preempted);
    scene.switch(82_000, 1, 2, 1, OffCpu::Blocked);
    unlock(&mut scene, 90_000, 1, L);
    scene.at(90_010, 2, LockExit, L);
    let found = found(&scene);
    let owner = found.threads.iter().find(|one| one.thread == ThreadId(1)).expect("it is there");
    assert_eq!(
        (owner.quota_ns, owner.run_queue_ns, owner.execution_ns),
        (80_000_000, 0, 10_000_000),
        "{owner:?}"
    );
    let lock = &found.locks[0];
    assert_eq!((lock.quota_ns, owner_us(lock, Activity::RunQueue)), (80_000_000, 80_000), "{lock:?}");
    assert_eq!((lock.preempted_by.len(), found.crowded_ns), (0, 0), "{lock:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_nanosecond_is_lost_or_counts_twice(
        mut events in prop::collection::vec(prop_oneof![3 => sync_events(), 2 => kernel_events()], 0..200),
        sorted in any::<bool>(),
    ) {
        if sorted {
            events.sort_by_key(at_ns);
        }
        let found = ledger_of(&events);
        prop_assert_eq!(&found, &ledger_of(&events));
    }
}

#[test]
fn a_row_of_tries_counts_once_it_has_got_its_lock() {
    let mut scene = Scene::new();
    scene.at(0, 1, ThreadStart, 1);
    scene.at(100, 1, TryEntry, L);
    scene.at(400, 1, TryExit, L);
    // This one tries for another lock meanwhile, and gets that one only.
    scene.at(500, 1, TryEntry, L);
    scene.at(600, 1, TryEntry, M);
    scene.at(650, 1, TryExit, M);
    scene.at(700, 1, TryExit, L);
    let found = found(&scene);
    let tried = |lock: &LockFigures| (lock.address, lock.tried.count, lock.tried.total_ns, lock.wait.count);
    assert_eq!(found.locks.iter().map(tried).collect::<Vec<_>>(), [(L, 1, 300_000, 0), (M, 1, 50_000, 0)]);
    assert_eq!((found.tried.count, found.tried.total_ns, found.wait.count), (2, 350_000, 0));
    // Where the thread's time went is not changed by it: it slept, ran or spun.
    assert_eq!(found.threads[0].lock_ns, 0);
}

#[test]
fn a_wait_that_begins_again_at_once_is_told_from_others() {
    let mut scene = Scene::new();
    scene.at(0, 1, ThreadStart, 1);
    for (us, flags) in [(10, 0), (20, outcome_flags::AGAIN), (30, 0)] {
        scene.at(us, 1, WaitEntry, L);
        scene.at(us + 4, 2, BroadcastEntry, L);
        scene.at(us + 5, 1, WaitExit, L);
        if let Some(AnyEvent::Sync(event)) = scene.events.last_mut() {
            event.flags = flags;
        }
    }
    scene.at(40, 1, WaitEntry, M);
    scene.at(50, 1, WaitExit, M);
    let found = found(&scene);
    let [one, other] = &found.conditions[..] else { panic!("{:?}", found.conditions) };
    assert_eq!((one.address, one.woken, one.again, one.broadcasts, one.signals), (L, 3, 1, 3, 0));
    assert_eq!((one.wait.count, one.wait.total_ns, one.unheard), (3, 15_000, 0));
    assert_eq!(
        (other.address, other.again, other.wait.total_ns),
        (M, 0, 10_000),
        "nobody waited for it again at once"
    );
}

/// Thread `waiter` waits on a word for 100 us, until another one wakes at most so many.
fn wait_on(scene: &mut Scene, us: u64, waiter: u32, waker: u32, most: u32) {
    scene.at(us, waiter, FutexWaitEntry, L);
    scene.at(us + 90, waker, FutexWakeEntry, L).detail = most;
    scene.at(us + 91, waker, FutexWakeExit, L).detail = 1;
    scene.at(us + 100, waiter, FutexWaitExit, L);
}

#[test]
fn how_a_word_is_woken_says_what_it_is_like() {
    let used = |scene: &Scene| {
        let found = found(scene);
        (found.words[0].used_like(), found.words[0].clone())
    };
    // Each thread that was woken wakes the other: a lock.
    let mut lock = Scene::new();
    (0..8_u32).for_each(|at| wait_on(&mut lock, u64::from(at) * 1_000, 1 + at % 2, 2 - at % 2, 1));
    let (is_like, word) = used(&lock);
    assert_eq!((is_like, word.woken, word.passed_on, word.again), (WordUse::Lock, 8, 7, 0));
    // The same thread waits each time and wakes nobody: a condition, whose waiters wait again each time.
    let mut signal = Scene::new();
    (0..8).for_each(|at| wait_on(&mut signal, at * 1_000, 1, 2, 1));
    let (is_like, word) = used(&signal);
    assert_eq!((is_like, word.woken, word.passed_on, word.again), (WordUse::Signal, 8, 0, 7));
    // All of three are woken, and work on: a barrier. Of two that may be a lock.
    let meet = |threads: u32, again_us: u64| {
        let mut scene = Scene::new();
        for round in 0..8 {
            let (us, last) = (u64::from(round) * 1_000, 1 + round % threads);
            let others = (1..=threads).filter(|thread| *thread != last);
            for thread in others.clone() {
                scene.at(us, thread, FutexWaitEntry, L);
            }
            scene.at(us + 90, last, FutexWakeEntry, L).detail = u32::MAX;
            scene.at(us + 91, last, FutexWakeExit, L).detail = threads - 1;
            for thread in others.clone() {
                scene.at(us + 100, thread, FutexWaitExit, L);
            }
            // But for who is next, they find nothing and wait again at once.
            for thread in others.filter(|thread| again_us > 0 && *thread != 1 + (round + 1) % threads) {
                scene.at(us + 100 + again_us, thread, FutexWaitEntry, L);
                scene.at(us + 990, thread, FutexWaitExit, L).outcome = SyncOutcome::Timeout;
            }
        }
        used(&scene)
    };
    assert_eq!(meet(5, 0).0, WordUse::Broadcast);
    assert_eq!(meet(2, 0).0, WordUse::Unknown);
    // All are woken for one hold: a lock that one of them gets.
    let (is_like, word) = meet(5, 20);
    assert_eq!((is_like, word.woken, word.passed_on, word.again_at_once), (WordUse::Lock, 32, 7, 24));
    // Who waits again later has done something.
    let (is_like, word) = meet(5, 200);
    assert_eq!((is_like, word.again, word.again_at_once), (WordUse::Broadcast, 24, 0));
    // Too few wake-ups say nothing, and of a semaphore those that do not come back say nothing either.
    let mut few = Scene::new();
    (0..3_u32).for_each(|at| wait_on(&mut few, u64::from(at) * 1_000, 1 + at % 2, 2 - at % 2, 1));
    assert_eq!(used(&few).0, WordUse::Unknown);
    let mut semaphore = Scene::new();
    for at in 0..8 {
        semaphore.at(at * 1_000, 1, SemWaitEntry, L);
        semaphore.call(at * 1_000 + 90, at * 1_000 + 91, 2, PostEntry, L);
        semaphore.at(at * 1_000 + 100, 1, SemWaitExit, L);
    }
    let (is_like, word) = used(&semaphore);
    assert_eq!((is_like, word.kind, word.wait.total_ns), (WordUse::Unknown, WordKind::Semaphore, 800_000));
}

#[test]
fn who_woke_is_certain_where_the_kernel_said_so_and_each_end_of_a_wait_is_counted() {
    let mut scene = Scene::new();
    let woken = |by: Option<u32>| KernelKind::Waking {
        thread: ThreadId(1),
        by_current: by.is_some(),
        by: by.map(ThreadId),
    };
    wait_on(&mut scene, 0, 1, 2, 1);
    scene.kernel(90, 2, woken(Some(2)));
    // Here the kernel told only that an interrupt woke it.
    wait_on(&mut scene, 1_000, 1, 3, 1);
    scene.kernel(1_090, 3, woken(None));
    // A signal of another thread is no wake-up; neither is a word that had changed, nor the end of a thread.
    for (us, outcome) in [(2_000, SyncOutcome::Interrupted), (3_000, SyncOutcome::Busy)] {
        scene.at(us, 1, FutexWaitEntry, L);
        scene.kernel(us + 10, 4, woken(Some(4)));
        scene.at(us + 20, 1, FutexWaitExit, L).outcome = outcome;
    }
    scene.at(4_000, 1, FutexWaitEntry, L);
    scene.at(4_050, 1, ThreadExit, 1);
    // A mutex has a row among the locks, so its word has none.
    scene.call(5_000, 5_100, 2, LockEntry, M);
    let mut events = scene.events.clone();
    events.sort_by_key(at_ns);
    let (mut ledger, mut protocol) =
        (Ledger::default(), Protocol::with_observer(Settings::default(), LatestWakeup::default()));
    for event in &events {
        ledger.any(event);
        protocol.any(event);
        if let Some(wakeup) = protocol.observer_mut().take() {
            ledger.ended_by(wakeup.thread, wakeup.by);
        }
    }
    let found = ledger.finish(usize::MAX, &[]);
    conserves(&found);
    let word = &found.words[0];
    let ends = (word.wait.count, word.woken, word.changed, word.given_up, word.waker_unknown);
    assert_eq!((found.words.len(), ends), (1, (5, 2, 1, 2, 0)), "{word:?}");
    assert_eq!(word.wait.total_ns, 290_000);
    let share =
        |thread, certain| WakerShare { thread: ThreadId(thread), wake_ups: 1, certain, total_ns: 100_000 };
    assert_eq!(word.wakers, [share(2, 1), share(3, 0)]);
    assert_eq!(word.waiters, [WaiterShare { thread: ThreadId(1), waits: 5, total_ns: 290_000 }]);
    assert_eq!((word.waiter_sites[0].address, found.wait.count), (0x4001, 1));
    assert_eq!(found.threads.iter().map(|one| one.futex_ns).sum::<u64>(), 290_000);
}
