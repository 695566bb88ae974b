//! Programs that bring libraries of their own: C++ and Rust, and an allocator that locks.

mod recording;

use quaver_abi::sync::{SyncKind, SyncOutcome};
use recording::Trap;
use std::sync::{Condvar, Mutex};

#[test]
fn waits_of_cpp() {
    let (_, recording) = Trap::new("waits.cc", &["-std=c++20"]).record("");
    assert_eq!(recording.ended(SyncKind::WaitExit, SyncOutcome::Timeout), 3);
    let waits = recording.count(SyncKind::FutexWaitEntry);
    assert!(waits >= 1 && waits == recording.count(SyncKind::FutexWaitExit));
    assert!(recording.count(SyncKind::FutexWakeEntry) >= 1);
    let words: Vec<u64> = recording.of(SyncKind::FutexWaitEntry).map(|moment| moment.record.object).collect();
    assert!(recording.of(SyncKind::FutexWakeExit).any(|moment| words.contains(&moment.record.object)));
    assert!(recording.is_whole());
}

/// Not a test by itself: what [`waits_of_rust`] records.
#[test]
fn program_in_rust() {
    if std::env::var_os("QUAVER_SYNC_DIR").is_none() {
        return;
    }
    let (flag, changed) = (Mutex::new(false), Condvar::new());
    let mut set = flag.lock().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            *flag.lock().unwrap() = true;
            changed.notify_all();
        });
        while !*set {
            set = changed.wait(set).unwrap();
        }
        drop(set);
    });
}

#[test]
fn waits_of_rust() {
    let trap = Trap::traps();
    let this = std::env::current_exe().unwrap();
    let output = trap.recorded(&this).args(["--exact", "program_in_rust"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let recording = trap.only();
    // The wait on the condition asks the kernel at least once: the flag changes only once the mutex is free.
    assert!(recording.count(SyncKind::FutexWaitEntry) >= 1);
    assert_eq!(recording.count(SyncKind::FutexWaitEntry), recording.count(SyncKind::FutexWaitExit));
    assert!(recording.count(SyncKind::Create) >= 1);
}

#[test]
fn an_allocator_that_locks() {
    let (_, recording) = Trap::new("allocator.c", &["-fno-builtin"]).record("");
    assert!(recording.locks() >= 4000, "a thousand of each by two threads, at least: {}", recording.locks());
    assert_eq!(recording.locks(), recording.unlocks());
    assert!(recording.is_whole());
}

/// In glibc these are calls of POSIX that nobody can come between.
#[test]
#[cfg(target_env = "gnu")]
fn threads_of_c11() {
    let (output, recording) = Trap::new("c11.c", &["-std=c11"]).record("500");
    let waits: u64 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    assert_eq!(recording.count(SyncKind::WaitEntry), waits + 1);
    assert_eq!(recording.ended(SyncKind::WaitExit, SyncOutcome::Timeout), 1);
    assert_eq!(
        (recording.count(SyncKind::SignalEntry), recording.count(SyncKind::BroadcastEntry)),
        (500, 500)
    );
    assert_eq!((recording.locks(), recording.unlocks()), (1001, 1001));
    assert_eq!(recording.counts().busy_tries, 1);
    assert_eq!(recording.ended(SyncKind::LockExit, SyncOutcome::Timeout), 1);
    assert_eq!((recording.count(SyncKind::ThreadStart), recording.count(SyncKind::ThreadExit)), (4, 4));
    assert_eq!((recording.count(SyncKind::Create), recording.count(SyncKind::JoinExit)), (3, 3));
    assert!(recording.is_whole());
}
