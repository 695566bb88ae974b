//! Locks, conditions and semaphores of several processes: one object, whoever waits for it and wherever it is mapped.

mod sync_run;

use quaver_testbed::privileged::privileged;
use sync_run::{Bench, before_others, number};

#[test]
fn two_processes_wake_each_other_by_what_they_share() {
    if !privileged("waits of two processes by their own clock") {
        return;
    }
    let _alone = before_others();
    let bench = Bench::of("shared");
    let ended = bench.run(&["--threshold", "1ns"]);
    let told = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(5), "{told}");
    let own_ns: u64 = String::from_utf8_lossy(&ended.stdout).trim().parse().expect("a time alone");
    let summary = bench.summary();
    // The second one has a recording before it becomes the program again.
    assert_eq!(summary["processes"].as_array().map(Vec::len), Some(3), "{}", summary["processes"]);
    let coverage = &summary["results"]["coverage"];
    // Of each of 60 turns: three semaphores and a condition to wait for at least, and the lock.
    assert!(number(coverage, "/wake_ups") >= 4 * 60, "{coverage}");
    assert_eq!(coverage["matched"], coverage["wake_ups"], "{coverage}: {}", summary["warnings"]);
    for class in ["signal-wait", "lock-unlock"] {
        let waits = summary["results"]["longest"].as_array().expect("a list");
        let of: Vec<_> = waits.iter().filter(|wait| wait["class"] == class).collect();
        assert!(!of.is_empty(), "{class}");
        for wait in of {
            assert_ne!(wait["thread"], wait["waker"], "{wait}");
            assert!(number(wait, "/object") >> 63 == 1, "{wait}");
        }
    }
    let names: Vec<&str> = summary["objects"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    // The mutex (40 bytes on x86-64), the condition (48), two semaphores.
    assert_eq!(names.len(), 4, "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("shared memory /memfd:queue+0x")), "{names:?}");
    let pid = number(&summary, "/facts/pid");
    let threads = summary["results"]["threads"].as_array().expect("a list");
    let first = threads.iter().find(|thread| number(thread, "/thread") == pid).expect("it waits");
    let found_ns = number(first, "/waited_ns");
    let apart = found_ns.abs_diff(own_ns) as f64 / own_ns as f64;
    assert!(apart <= 0.02, "{found_ns} ns found, {own_ns} ns by its own clock");
    if let Some(spurious) = summary.pointer("/futex/spurious") {
        assert_eq!(*spurious, 0, "a word that another process wakes is woken: {}", summary["futex"]);
    }
}
