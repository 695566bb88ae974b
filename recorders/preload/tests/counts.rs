//! What was recorded and counted equals what the program did, to the call.

mod recording;

use quaver_abi::sync::{SyncKind, SyncOutcome, outcome_flags};
use quaver_sync_store::{SyncCounts, SyncEnding, SyncMoment};
use recording::Trap;
use std::collections::{HashMap, HashSet};

fn numbers(output: &std::process::Output) -> Vec<u64> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

#[test]
fn calls_that_need_not_wait_are_counted() {
    let (_, recording) = Trap::traps().record("quiet 100");
    let expected = SyncCounts {
        // Four kinds of mutex locks, three of write locks, a spin lock; and one before main.
        free_locks: 801,
        free_unlocks: 1201,
        busy_tries: 400,
        free_semaphore_waits: 400,
        quiet_posts: 400,
        free_read_locks: 400,
    };
    assert_eq!(recording.counts(), expected);
    // Samples stand for reads, too: 400, give or take what is drawn after the first 512 locks.
    let is_read = |one: &SyncMoment| one.record.outcome & outcome_flags::FOR_READING != 0;
    let reads: Vec<SyncMoment> = recording.of(SyncKind::Taken).filter(|one| is_read(one)).copied().collect();
    let stood_for: u32 = reads.iter().map(|one| one.record.detail).sum();
    assert!((300..=500).contains(&stood_for), "{stood_for}");
    let read: HashSet<u64> = reads.iter().map(|one| one.record.object).collect();
    assert_eq!(read.len(), 1, "one lock is read");
    for kind in [SyncKind::SignalEntry, SyncKind::BroadcastEntry, SyncKind::BarrierEntry] {
        assert_eq!(recording.count(kind), 100, "{kind:?}");
    }
    assert_eq!(recording.ended(SyncKind::BarrierExit, SyncOutcome::Serial), 100);
    assert_eq!(recording.count(SyncKind::LockEntry) + recording.count(SyncKind::UnlockEntry), 0);
    assert!(recording.is_whole());
    let facts = recording.segment.facts();
    assert_eq!((facts.ended, facts.argv[1].as_str(), facts.argv.len()), (SyncEnding::Exit, "quiet", 3));
    assert!(facts.last_ns > facts.first_ns);
    assert!(!recording.segment.is_silent().unwrap());
}

#[test]
fn waits_and_signals_of_two_threads() {
    let (output, recording) = Trap::traps().record("turns 1000");
    assert_eq!(recording.count(SyncKind::WaitEntry), numbers(&output)[0]);
    assert_eq!(recording.count(SyncKind::SignalEntry), 2000);
    assert_eq!((recording.locks(), recording.unlocks()), (2001, 2001));
    assert!(recording.is_whole());
    let mut sites: Vec<u64> = recording.of(SyncKind::WaitEntry).map(|m| m.record.call_site).collect();
    sites.dedup();
    assert_eq!(sites.len(), 1, "one call in the source is one call site");
}

#[test]
fn every_contended_lock_has_its_unlock() {
    let (_, recording) = Trap::traps().record("contended 5000");
    assert_eq!((recording.locks(), recording.unlocks()), (20_001, 20_001));
    assert!(recording.count(SyncKind::LockExit) <= recording.count(SyncKind::UnlockEntry));
    // The very lock that was waited for was given back by another thread, before the waiter had it.
    let mut given_back: HashMap<u64, Vec<(u64, u32)>> = HashMap::new();
    for moment in recording.of(SyncKind::UnlockEntry) {
        given_back.entry(moment.record.object).or_default().push((moment.record.cycles, moment.tid));
    }
    for got in recording.of(SyncKind::LockExit) {
        let unlocks = &given_back[&got.record.object];
        assert!(unlocks.iter().any(|(cycles, tid)| *cycles < got.record.cycles && *tid != got.tid));
    }
    assert!(recording.is_whole());
}

#[test]
fn tries_are_counted_and_a_timed_lock_is_recorded() {
    let (_, recording) = Trap::traps().record("tries 300");
    assert_eq!(recording.counts().busy_tries, 300);
    assert_eq!(recording.ended(SyncKind::LockExit, SyncOutcome::Timeout), 1);
    assert_eq!(recording.count(SyncKind::BarrierExit), 4);
    assert!(recording.is_whole());
}

#[test]
fn conditions_are_those_of_today() {
    let (_, recording) = Trap::traps().record("timed");
    assert_eq!(recording.ended(SyncKind::WaitExit, SyncOutcome::Timeout), 3);
    assert!(recording.is_whole());
}

#[test]
fn a_wait_takes_its_mutex_again() {
    let (_, recording) = Trap::traps().record("relock");
    assert_eq!((recording.locks(), recording.unlocks()), (3, 3));
    let mutexes: HashSet<u32> = recording.of(SyncKind::WaitEntry).map(|m| m.record.detail).collect();
    assert_eq!(mutexes.len(), 1, "each wait names the one mutex");
    // The waker held it while the woken thread wanted it back: this unlock is what that one waited for.
    let woken = recording.of(SyncKind::SignalEntry).last().unwrap();
    let held = |moment: &&SyncMoment| {
        moment.tid == woken.tid && moment.record.outcome & outcome_flags::INSIDE_WAIT == 0
    };
    let by_waker = recording.of(SyncKind::UnlockEntry).filter(held).last().expect("its unlock is recorded");
    assert!(by_waker.at_ns > woken.at_ns + 5_000_000, "after it had slept");
    assert!(by_waker.record.object as u32 == *mutexes.iter().next().unwrap());
    assert!(recording.is_whole());
}

#[test]
fn threads_come_and_go() {
    let (_, recording) = Trap::traps().record("many 200");
    for kind in [SyncKind::Create, SyncKind::CreateExit, SyncKind::JoinEntry, SyncKind::JoinExit] {
        assert_eq!(recording.count(kind), 200, "{kind:?}");
    }
    assert_eq!((recording.count(SyncKind::ThreadStart), recording.count(SyncKind::ThreadExit)), (201, 201));
    assert_eq!((recording.locks(), recording.segment.threads().len()), (201, 201));
    let main = recording.segment.threads().iter().find(|thread| thread.initial).unwrap();
    let children: Vec<_> = recording.segment.threads().iter().filter(|thread| !thread.initial).collect();
    assert!(
        children.iter().all(|child| child.creator == main.tid && child.ended && child.start_routine != 0)
    );
    // Each creation names its child, whose start names the creator and comes later.
    let starts: HashMap<u32, (u64, u64)> = recording
        .of(SyncKind::ThreadStart)
        .map(|moment| (moment.tid, (moment.at_ns, moment.record.object)))
        .collect();
    for created in recording.of(SyncKind::Create) {
        assert!(starts[&created.record.detail].0 >= created.at_ns);
    }
    for created in recording.of(SyncKind::CreateExit) {
        assert_ne!(created.record.object, 0);
    }
    assert!(recording.is_whole());
}

#[test]
fn nested_recursive_and_checking_locks() {
    let (_, recording) = Trap::traps().record("nested 2000");
    assert_eq!(recording.locks(), 4002);
    assert_eq!(recording.counts().free_unlocks, 4002);
    assert_eq!(recording.ended(SyncKind::LockExit, SyncOutcome::Deadlock), 1);
    assert!(recording.is_whole());
}

#[test]
fn a_lock_that_is_refused_is_asked_for_once() {
    let trap = Trap::traps();
    let bare = std::process::Command::new(&trap.program).arg("ceiling").output().unwrap();
    let (recorded, recording) = trap.record("ceiling");
    assert_eq!(numbers(&recorded), numbers(&bare));
    assert_ne!(numbers(&bare)[0], 0, "it is refused without us");
    assert_eq!(recording.count(SyncKind::LockEntry), 0);
}

#[test]
fn handlers_that_post_lose_nothing() {
    let (output, recording) = Trap::traps().record("handlers 300");
    let [locks, rings] = numbers(&output)[..] else { panic!("{output:?}") };
    assert_eq!((recording.locks(), recording.unlocks()), (locks + 1, locks + 1));
    assert_eq!(recording.count(SyncKind::SignalEntry), locks / 100);
    let posts = recording.counts().quiet_posts + recording.count(SyncKind::PostEntry);
    assert_eq!(posts, rings + 1);
    let waits =
        recording.counts().free_semaphore_waits + recording.ended(SyncKind::SemWaitExit, SyncOutcome::Ok);
    assert_eq!(waits, 301);
    assert!(recording.is_whole());
}

#[test]
fn cancelled_calls_are_closed() {
    let (_, recording) = Trap::traps().record("cancelled");
    for kind in [SyncKind::WaitExit, SyncKind::SemWaitExit, SyncKind::JoinExit] {
        assert_eq!(recording.ended(kind, SyncOutcome::Cancelled), 1, "{kind:?}");
    }
    assert_eq!((recording.count(SyncKind::ThreadStart), recording.count(SyncKind::ThreadExit)), (5, 5));
    assert!(recording.is_whole());
}
