//! Owners where it is easy to blame an innocent one, and signals that nobody hears.

use super::*;
use crate::sync::keys::SHARED_ADDRESS;
use quaver_abi::sync::OWNER_SHIFT;
use quaver_abi::sync::SyncKind::{GivenBack, ReadLockEntry, ReadLockExit, SignalEntry, SignalExit, Taken};

#[test]
fn a_signal_that_nobody_hears_is_told_from_one_that_wakes() {
    let mut scene = Scene::new();
    let timed_out = |scene: &mut Scene, from_us: u64, to_us: u64| {
        scene.at(from_us, 1, WaitEntry, L);
        scene.at(to_us, 1, WaitExit, L).outcome = SyncOutcome::Timeout;
    };
    scene.at(0, 1, ThreadStart, 1);
    // Nobody waits; then somebody waits in vain, twice.
    scene.at(10, 2, SignalEntry, L);
    scene.at(11, 2, SignalExit, L);
    timed_out(&mut scene, 20, 50);
    timed_out(&mut scene, 60, 100);
    // One that is heard.
    scene.at(110, 1, WaitEntry, L);
    scene.at(120, 2, SignalEntry, L);
    scene.at(121, 2, SignalExit, L);
    scene.at(130, 1, WaitExit, L);
    timed_out(&mut scene, 140, 145);
    let found = found(&scene);
    let one = &found.conditions[0];
    assert_eq!((one.signals, one.unheard, one.woken), (2, 1, 1));
    assert_eq!((one.timed_out.count, one.timed_out.total_ns), (3, 75_000));
    assert_eq!(
        (one.unheard_before.count, one.unheard_before.total_ns),
        (1, 30_000),
        "only the first of them"
    );
    assert_eq!((one.wait.count, one.wait.total_ns), (4, 95_000));
}

#[test]
fn readers_keep_out_writers_and_no_readers() {
    let mut scene = Scene::new();
    scene.at(0, 1, ThreadStart, 1);
    // A writer has it; a reader and a writer wait; another reader has it in between.
    scene.at(100, 2, ReadLockEntry, L);
    scene.at(100, 3, LockEntry, L);
    let give_back = |scene: &mut Scene, us: u64, thread: u32, flags: u8| {
        let event = scene.at(us, thread, UnlockEntry, L);
        (event.detail, event.flags) = (SyncObject::ReadWrite as u32, flags);
        scene.at(us, thread, UnlockExit, L);
    };
    give_back(&mut scene, 300, 1, 0);
    scene.at(310, 4, Taken, L).flags = outcome_flags::FOR_READING;
    give_back(&mut scene, 350, 4, outcome_flags::FOR_READING);
    scene.at(360, 2, ReadLockExit, L);
    give_back(&mut scene, 400, 2, outcome_flags::FOR_READING);
    scene.at(410, 3, LockExit, L);
    let found = found(&scene);
    conserves(&found);
    let pair = |waiter: u32, owner: u32| {
        let all = found.locks[0].pairs.iter();
        let one = all.filter(|one| (one.waiter, one.owner) == (ThreadId(waiter), ThreadId(owner)));
        one.map(|one| one.total_ns).sum::<u64>()
    };
    assert_eq!((pair(2, 1), pair(3, 1), pair(3, 4), pair(3, 2)), (200_000, 200_000, 40_000, 40_000));
    assert_eq!(pair(2, 4), 0, "a reader keeps out no other");
}

#[test]
fn a_lock_on_its_way_is_held_by_nobody() {
    let mut scene = Scene::new();
    scene.at(0, 1, ThreadStart, 1);
    scene.at(0, 3, ThreadStart, 3);
    scene.at(100, 2, LockEntry, L);
    unlock(&mut scene, 200, 1, L);
    // The other one waits for a second lock meanwhile, and then takes the first, since nobody has it.
    scene.at(210, 3, LockEntry, M);
    unlock(&mut scene, 500, 1, M);
    scene.at(510, 3, LockExit, M);
    scene.at(900, 3, Taken, L).detail = 0;
    unlock(&mut scene, 910, 3, L);
    scene.at(920, 2, LockExit, L);
    let found = found(&scene);
    conserves(&found);
    let lock = found.locks.iter().find(|lock| lock.address == L).unwrap();
    assert_eq!((lock.held_ns, lock.handed_over_ns), (110_000, 710_000));
    assert!(lock.roots.iter().all(|root| root.depth == 1), "no chain: {:?}", lock.roots);
    assert_eq!((lock.free, lock.contended), (0, 1), "it stands for no free lock but itself");
}

#[test]
fn a_wait_that_runs_out_has_the_owner_whose_hold_is_timed() {
    let mut scene = Scene::new();
    scene.at(0, 1, ThreadStart, 1);
    scene.at(0, 1, Taken, L).detail = 1;
    scene.at(0, 1, Taken, M).detail = 1;
    if let Some(AnyEvent::Sync(event)) = scene.events.last_mut() {
        event.flags = outcome_flags::UNTIMED;
    }
    for (us, lock) in [(100, L), (300, M)] {
        scene.at(us, 2, LockEntry, lock);
        scene.at(us + 100, 2, LockExit, lock).outcome = SyncOutcome::Timeout;
    }
    scene.at(500, 1, GivenBack, L);
    let found = found(&scene);
    conserves(&found);
    let of = |address| found.locks.iter().find(|lock| lock.address == address).unwrap();
    assert_eq!((of(L).held_ns, of(L).outlasted_ns, of(L).pairs[0].owner), (100_000, 100_000, ThreadId(1)));
    assert_eq!(owner_us(of(L), Activity::Ran), 100);
    assert_eq!((of(M).held_ns, of(M).owner_unknown_ns), (0, 100_000), "it may have been given back unseen");
}

#[test]
fn an_inversion_at_the_end_of_a_chain_belongs_to_each_lock_whose_waiter_it_holds_up() {
    let mut scene = Scene::new();
    for thread in 1..=3 {
        scene.on(0, thread, 0, ThreadStart, u64::from(thread));
    }
    let turn = |scene: &mut Scene, us: u64, prev: (u32, i16), next: (u32, i16)| {
        let how = if prev.0 == 1 { OffCpu::Preempted } else { OffCpu::Blocked };
        scene.switch(us, 0, prev.0, next.0, how);
        priorities(scene, prev.1, next.1);
    };
    // 3 waits for L, which 2 has; 2 waits for M, which 1 has; 7 is less urgent than 3 and more than 2.
    turn(&mut scene, 0, (0, 120), (2, 84));
    scene.on(10, 2, 0, LockEntry, M);
    turn(&mut scene, 20, (2, 84), (3, 69));
    scene.on(30, 3, 0, LockEntry, L);
    turn(&mut scene, 40, (3, 69), (1, 89));
    turn(&mut scene, 50, (1, 89), (7, 79));
    turn(&mut scene, 850, (7, 79), (1, 89));
    scene.on(900, 1, 0, UnlockEntry, M);
    scene.on(910, 2, 0, LockExit, M);
    scene.on(920, 2, 0, UnlockEntry, L);
    scene.on(930, 3, 0, LockExit, L);
    let found = found(&scene);
    let of = |address| found.locks.iter().find(|lock| lock.address == address).unwrap();
    assert_eq!((of(L).inverted_ns, of(L).inverted_deep_ns), (800_000, 800_000));
    assert_eq!(
        (of(L).inverted_by[0].thread, &of(L).patterns[..]),
        (ThreadId(7), &[Pattern::PriorityInversion][..])
    );
    assert_eq!((of(M).inverted_ns, of(M).patterns.len()), (0, 0), "7 is more urgent than 2");
}

#[test]
fn a_reader_behind_a_writer_that_goes_first_waits_for_the_readers_that_the_writer_waits_for() {
    let mut scene = Scene::new();
    for thread in [1, 4] {
        scene.at(0, thread, ThreadStart, 1);
    }
    let give_back = |scene: &mut Scene, us: u64, thread: u32, flags: u8| {
        let event = scene.at(us, thread, UnlockEntry, L);
        (event.detail, event.flags) = (SyncObject::ReadWrite as u32, flags);
        scene.at(us, thread, UnlockExit, L);
    };
    // Two readers have it when a writer asks for it, and then a third reader. Without the first of them all waits were as long.
    scene.at(100, 2, LockEntry, L);
    scene.at(200, 3, ReadLockEntry, L);
    give_back(&mut scene, 400, 1, outcome_flags::FOR_READING);
    give_back(&mut scene, 700, 4, outcome_flags::FOR_READING);
    scene.at(710, 2, LockExit, L);
    give_back(&mut scene, 800, 2, 0);
    scene.at(820, 3, ReadLockExit, L);
    let found = found(&scene);
    let lock = &found.locks[0];
    let pair = |waiter: u32, owner: u32| {
        let all = lock.pairs.iter();
        let one = all.filter(|one| (one.waiter, one.owner) == (ThreadId(waiter), ThreadId(owner)));
        one.map(|one| one.total_ns).sum::<u64>()
    };
    assert_eq!((pair(2, 1), pair(2, 4)), (0, 600_000));
    assert_eq!((pair(3, 1), pair(3, 4), pair(3, 2)), (0, 500_000, 90_000));
    assert_eq!((lock.handed_over_ns, lock.owner_unknown_ns), (40_000, 0));
}

/// The waiter found the lock with this thread.
fn asks(scene: &mut Scene, us: u64, thread: u32, lock: u64, owner: u32) {
    scene.at(us, thread, LockEntry, lock).detail = SyncObject::Mutex as u32 | owner << OWNER_SHIFT;
}

#[test]
fn whoever_has_a_lock_when_it_is_asked_for_has_it_until_somebody_gives_it_back() {
    let mut scene = Scene::new();
    for thread in 1..=3 {
        scene.at(0, thread, ThreadStart, u64::from(thread));
    }
    // It runs out before anybody gives it back.
    asks(&mut scene, 100, 2, L, 1);
    scene.at(200, 2, LockExit, L).outcome = SyncOutcome::Timeout;
    // It is given back and got by another thread, which keeps it.
    asks(&mut scene, 300, 2, L, 1);
    asks(&mut scene, 300, 3, L, 1);
    unlock(&mut scene, 350, 1, L);
    scene.at(360, 3, LockExit, L);
    scene.at(500, 2, LockExit, L).outcome = SyncOutcome::Timeout;
    // Somebody gives it back, and who has it then is not known.
    asks(&mut scene, 600, 2, M, 3);
    unlock(&mut scene, 650, 3, M);
    scene.at(700, 2, LockExit, M).outcome = SyncOutcome::Timeout;
    let found = found(&scene);
    let of = |address| found.locks.iter().find(|lock| lock.address == address).unwrap();
    let pair = |lock: &LockFigures, owner: u32| {
        let one = lock.pairs.iter().find(|one| (one.waiter, one.owner) == (ThreadId(2), ThreadId(owner)));
        one.map_or(0, |one| one.total_ns)
    };
    assert_eq!((pair(of(L), 1), pair(of(L), 3)), (150_000, 140_000));
    assert_eq!((of(L).outlasted_ns, of(L).owner_unknown_ns), (240_000, 0));
    assert_eq!((pair(of(M), 3), of(M).owner_unknown_ns), (50_000, 50_000));
}

#[test]
fn an_owner_that_died_had_the_lock_to_its_end() {
    let mut scene = Scene::new();
    for thread in 1..=3 {
        scene.at(0, thread, ThreadStart, u64::from(thread));
    }
    asks(&mut scene, 100, 2, L, 1);
    asks(&mut scene, 150, 3, L, 1);
    scene.at(400, 1, ThreadExit, 1);
    scene.at(410, 2, LockExit, L).outcome = SyncOutcome::OwnerDied;
    unlock(&mut scene, 500, 2, L);
    scene.at(505, 3, LockExit, L);
    // It had another one at its end, too. A thread of the same number that began later is another thread.
    asks(&mut scene, 599, 3, M, 1);
    scene.at(600, 1, ThreadStart, 1);
    scene.at(700, 3, LockExit, M).outcome = SyncOutcome::Timeout;
    let found = found(&scene);
    let of = |address| found.locks.iter().find(|lock| lock.address == address).unwrap();
    let owned = |owner: u32| {
        let all = of(L).pairs.iter().filter(|one| one.owner == ThreadId(owner));
        all.map(|one| one.total_ns).sum::<u64>()
    };
    assert_eq!((owned(1), owned(2), of(L).outlasted_ns), (570_000, 90_000, 570_000));
    assert_eq!((of(L).handed_over_ns, of(L).owner_unknown_ns), (5_000, 0));
    assert_eq!((of(M).outlasted_ns, owner_us(of(M), Activity::Unknown)), (101_000, 101));
}

#[test]
fn threads_that_wait_for_each_other_to_the_end_are_a_deadlock() {
    let mut scene = Scene::new();
    for thread in 1..=5 {
        scene.at(0, thread, ThreadStart, u64::from(thread));
    }
    // 1 waits for 2, 2 for 3, 3 for 1; 4 waits for 1 and is in no circle; 5 waits for itself.
    let locks = [(1, 0x100, 2), (2, 0x200, 3), (3, 0x300, 1), (4, 0x400, 1), (5, 0x500, 5)];
    for (thread, lock, owner) in locks {
        asks(&mut scene, 100, thread, lock, owner);
    }
    scene.at(900, 6, ThreadStart, 6);
    let mut ledger = Ledger::default();
    scene.events.iter().for_each(|event| ledger.any(event));
    let found = ledger.finish(usize::MAX, &[1_000_000]);
    conserves(&found);
    for (thread, address, owner) in locks {
        let lock = found.locks.iter().find(|lock| lock.address == address).unwrap();
        let pair = lock.deadlock.map(|pair| (pair.waiter.0, pair.owner.0));
        assert_eq!(pair, (thread != 4).then_some((thread, owner)), "{address:#x}");
        assert_eq!(lock.wait.total_ns, 900_000, "to the end of the process");
        assert_eq!(lock.patterns.contains(&Pattern::Deadlock), thread != 4);
        assert_eq!(owner_us(lock, Activity::Waited), 900, "{address:#x}");
    }
}

#[test]
fn an_owner_that_sleeps_past_a_wait_sleeps_in_the_call_that_it_returns_from() {
    let mut scene = Scene::new();
    for thread in 1..=3 {
        scene.on(0, thread, 0, ThreadStart, u64::from(thread));
    }
    asks(&mut scene, 100, 2, L, 1);
    asks(&mut scene, 101, 3, M, 1);
    scene.switch(110, 0, 1, 0, OffCpu::Blocked);
    scene.at(300, 2, LockExit, L).outcome = SyncOutcome::Timeout;
    scene.at(301, 3, LockExit, M).outcome = SyncOutcome::Timeout;
    scene.wakeup(500, 0, 1, 0);
    scene.switch(501, 0, 0, 1, OffCpu::Blocked);
    let returns = |scene: &mut Scene, us: u64, number: u16, inside_us: u64| {
        let kind = KernelKind::SystemCall {
            thread: ThreadId(1),
            number,
            inside_ns: inside_us * 1_000,
            blocked_ns: 0,
            only_waits: true,
        };
        scene.kernel(us, 0, kind);
    };
    returns(&mut scene, 510, 230, 402);
    // One that began after that sleep says nothing of it.
    returns(&mut scene, 900, 7, 300);
    let found = found(&scene);
    for (address, slept_us) in [(L, 190), (M, 191)] {
        let lock = found.locks.iter().find(|lock| lock.address == address).unwrap();
        assert_eq!((owner_us(lock, Activity::Slept), owner_us(lock, Activity::Unknown)), (slept_us, 0));
        assert_eq!((lock.slept_in.len(), lock.slept_in[0].call), (1, Some(230)), "{address:#x}");
        assert_eq!(lock.slept_in[0].total_ns, slept_us * 1_000);
    }
}

#[test]
fn a_lock_that_was_held_at_a_fork_has_no_owner_in_the_child() {
    const SHARED: u64 = SHARED_ADDRESS | L;
    let mut scene = Scene::new();
    scene.at(0, 1, ThreadStart, 1);
    for (us, lock) in [(100, L), (300, SHARED)] {
        asks(&mut scene, us, 2, lock, 1);
        scene.at(us + 100, 2, LockExit, lock).outcome = SyncOutcome::Timeout;
    }
    for event in scene.events.iter_mut().skip(1) {
        let AnyEvent::Sync(event) = event else { continue };
        event.process = 1;
    }
    let found = found(&scene);
    let owned = |shared: bool| {
        let lock = found.locks.iter().find(|lock| (lock.address & SHARED_ADDRESS != 0) == shared).unwrap();
        (lock.outlasted_ns, lock.owner_unknown_ns)
    };
    assert_eq!((owned(false), owned(true)), ((0, 100_000), (100_000, 0)));
}
