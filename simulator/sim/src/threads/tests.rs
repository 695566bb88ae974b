use super::*;

fn in_time(_: Woken<'_>) -> bool {
    false
}

fn started(count: usize) -> Threads {
    let mut threads = Threads::new(count);
    for child in 1..count as u32 {
        threads.step(Thread(0), Sync::Create { thread: Thread(child) }, 0, &mut in_time).unwrap();
    }
    threads
}

fn woken(ids: &[u32]) -> Vec<Thread> {
    ids.iter().copied().map(Thread).collect()
}

#[test]
fn locks_go_to_who_asked_first_and_readers_together() {
    let mut threads = started(4);
    let mut step = |thread, sync| threads.step(Thread(thread), sync, 0, &mut in_time).unwrap();
    let (lock, unlock) = (Sync::Lock { object: 8 }, Sync::Unlock { object: 8 });
    let read = Sync::ReadLock { object: 8 };
    assert!(step(0, lock).goes_on);
    assert!(!step(1, read).goes_on);
    assert!(!step(2, read).goes_on);
    assert!(!step(3, lock).goes_on);
    assert_eq!(step(0, unlock).woken, woken(&[1, 2]), "both readers, not the writer behind them");
    assert_eq!(step(1, unlock).woken, woken(&[]));
    assert_eq!(step(2, unlock).woken, woken(&[3]));
}

#[test]
fn a_waiter_gives_its_mutex_back_and_has_it_again_before_it_goes_on() {
    let mut threads = started(2);
    let by = Some(Wakeup(7));
    let mut step = |thread, sync, at_fs| threads.step(Thread(thread), sync, at_fs, &mut in_time).unwrap();
    step(1, Sync::Lock { object: 8 }, 1);
    assert!(!step(1, Sync::Wait { object: 16, mutex: 8, by }, 2).goes_on);
    assert!(step(0, Sync::Lock { object: 8 }, 3).goes_on, "the waiter gave it back");
    let signal = Sync::Signal { object: 16, wakeup: Wakeup(7) };
    assert_eq!(step(0, signal, 5).woken, woken(&[]), "the mutex is held");
    assert_eq!(step(0, Sync::Unlock { object: 8 }, 9).woken, woken(&[1]));
    assert_eq!(threads.times[1].waited_fs, 7);
    let late = Sync::Wait { object: 16, mutex: 8, by };
    assert!(
        threads.step(Thread(1), late, 10, &mut in_time).unwrap().goes_on,
        "a wake-up that was given is not lost"
    );
}

#[test]
fn all_leave_a_barrier_together() {
    let mut threads = started(3);
    let barrier = Sync::Barrier { object: 8, parties: 3 };
    assert!(!threads.step(Thread(2), barrier, 1, &mut in_time).unwrap().goes_on);
    assert!(!threads.step(Thread(0), barrier, 2, &mut in_time).unwrap().goes_on);
    let last = threads.step(Thread(1), barrier, 5, &mut in_time).unwrap();
    assert_eq!((last.goes_on, last.woken), (true, woken(&[2, 0])));
    assert_eq!((threads.times[2].waited_fs, threads.times[0].waited_fs), (4, 3));
}

#[test]
fn who_is_late_holds_nothing_and_asks_again_before_all_others() {
    let mut threads = started(4);
    let (lock, unlock) = (Sync::Lock { object: 8 }, Sync::Unlock { object: 8 });
    let mut first_is_late = |woken: Woken<'_>| {
        assert_eq!((woken.from, woken.occasion), (WokenFrom::Lock, 0));
        woken.thread == Thread(1)
    };
    threads.step(Thread(0), lock, 0, &mut in_time).unwrap();
    for waiter in 1..4 {
        assert!(!threads.step(Thread(waiter), lock, u64::from(waiter), &mut in_time).unwrap().goes_on);
    }
    let given = threads.step(Thread(0), unlock, 10, &mut first_is_late).unwrap();
    assert_eq!(given.woken, woken(&[1, 2]), "the lock goes to the next in the line");
    assert!(threads.is_late(Thread(1)) && !threads.is_late(Thread(2)));
    assert!(!threads.ask_again(Thread(1), 11), "2 holds it");
    assert_eq!(threads.step(Thread(2), unlock, 20, &mut in_time).unwrap().woken, woken(&[1]), "before 3");
    threads.step(Thread(1), unlock, 21, &mut in_time).unwrap();
    let mut all_late = |_: Woken<'_>| true;
    assert_eq!(threads.step(Thread(3), unlock, 22, &mut all_late).unwrap().woken, woken(&[]));
    assert!(threads.step(Thread(0), lock, 23, &mut in_time).unwrap().goes_on, "free for whoever asks");
    assert!(!threads.step(Thread(1), lock, 24, &mut in_time).unwrap().goes_on);
    assert_eq!(threads.step(Thread(0), unlock, 25, &mut all_late).unwrap().woken, woken(&[1]));
    assert!(threads.ask_again(Thread(1), 30) && !threads.is_late(Thread(1)));
    assert_eq!((threads.times[1].waited_fs, threads.times[3].waited_fs), (9 + 9 + 1, 18));
}

#[test]
fn each_time_that_all_meet_is_an_occasion_of_its_own() {
    let mut threads = started(3);
    let barrier = Sync::Barrier { object: 8, parties: 3 };
    let mut occasions = Vec::new();
    for round in 0..2 {
        let mut late = |woken: Woken<'_>| {
            assert_eq!(woken.with, [Thread(2), Thread(0)]);
            occasions.push((woken.occasion, woken.thread.0));
            woken.thread == Thread(2)
        };
        for thread in [2, 0, 1] {
            threads.step(Thread(thread), barrier, round, &mut late).unwrap();
        }
        assert!(threads.is_late(Thread(2)) && threads.ask_again(Thread(2), round));
    }
    let (first, second) = (occasions[0].0, occasions[2].0);
    assert_eq!(occasions, [(first, 2), (first, 0), (second, 2), (second, 0)]);
    assert_ne!(first, second);
}

#[test]
fn who_waits_for_what_is_said() {
    let mut threads = started(2);
    threads.step(Thread(0), Sync::Lock { object: 8 }, 0, &mut in_time).unwrap();
    threads.step(Thread(1), Sync::Lock { object: 8 }, 0, &mut in_time).unwrap();
    threads.step(Thread(0), Sync::Join { thread: Thread(1) }, 0, &mut in_time).unwrap();
    assert_eq!(
        threads.stuck(3_000_000_000).to_string(),
        "the replay is stuck at 3000 ns of simulated time: thread 0 waits for the end of thread 1; \
         thread 1 waits for the lock at 0x8, which thread 0 holds"
    );
    for (sync, said) in [
        (Sync::Unlock { object: 9 }, "gives back the lock at 0x9, which it does not hold"),
        (Sync::Create { thread: Thread(1) }, "starts thread 1, which was started before"),
        (Sync::Create { thread: Thread(9) }, "starts thread 9, of which there are no steps"),
        (Sync::Join { thread: Thread(9) }, "which was never started"),
        (Sync::Barrier { object: 8, parties: 0 }, "meets nobody"),
    ] {
        let error = threads.step(Thread(0), sync, 0, &mut in_time).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn numbers_of_wake_ups_are_kept_apart_across_words_and_pages() {
    let mut given = WakeupSet::default();
    let those = [0, 1, 63, 64, 511, 512, 70_000, u64::MAX];
    those.into_iter().for_each(|number| given.insert(Wakeup(number)));
    for number in [2, 62, 65, 128, 510, 513, 575, 1_024, 69_999, 70_001, 70_064, u64::MAX - 1] {
        assert!(!given.contains(Wakeup(number)), "{number}");
    }
    assert!(those.into_iter().all(|number| given.contains(Wakeup(number))));
}
