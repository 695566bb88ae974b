//! Stacks of calls that waited: kept on each kind of stack, never a fault, and nothing but addresses.
#![cfg(all(target_arch = "x86_64", target_env = "gnu"))]

mod recording;

use quaver_abi::sync::{STACK_FRAME, STACK_WORDS, SyncKind};
use quaver_sync_store::SyncMoment;
use recording::{Recording, Trap};

/// Waits of `stacks.c` for its mutex.
const TIMES: usize = 5;

fn trap() -> Trap {
    Trap::new("stacks.c", &[])
}

/// Stacks of waits for locks, with what each is followed by.
fn of_waits(recording: &Recording) -> Vec<(SyncMoment, SyncMoment)> {
    let mut found = Vec::new();
    for (at, stack) in recording.moments.iter().enumerate() {
        if stack.record.kind() != Some(SyncKind::Stack) {
            continue;
        }
        let mut later = recording.moments[at + 1..].iter().filter(|one| one.tid == stack.tid);
        let next = later.next().expect("a stack is followed by its event");
        assert_eq!(next.record.call_site, stack.record.call_site, "{next:?}");
        if next.record.kind() == Some(SyncKind::LockExit) {
            found.push((*stack, *next));
        }
    }
    found
}

#[test]
fn waits_keep_their_stack_wherever_that_lies() {
    for mode in ["plain", "handler", "coroutine", "small", "frame"] {
        let trap = trap();
        let (_, recording) = trap.record(mode);
        assert!(recording.is_whole(), "{mode}");
        let waits = of_waits(&recording);
        assert_eq!(waits.len(), TIMES, "{mode}: each wait of 2 ms has its stack");
        let words = recording.of(SyncKind::StackWords).count();
        assert!(words > 0, "{mode}");
        // One call in a loop has one stack, whatever the frame pointer's register holds.
        let mut numbers: Vec<u32> = waits.iter().map(|(stack, _)| stack.record.detail).collect();
        numbers.dedup();
        assert_eq!(numbers.len(), 1, "{mode}");
    }
}

#[test]
fn only_addresses_are_kept_of_a_stack() {
    let trap = trap();
    let (_, recording) = trap.record("plain");
    let maps = std::fs::read_to_string(recording.segment.path().with_extension("maps")).unwrap();
    let mapped = |word: u64| {
        maps.lines().any(|line| {
            let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
            let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).unwrap());
            (start..end).contains(&word)
        })
    };
    let mut seen = 0;
    for moment in recording.of(SyncKind::StackWords) {
        let record = &moment.record;
        let [_, _, first, second] = record.detail.to_le_bytes();
        for (place, word) in [(first, record.object), (second, record.call_site)] {
            if place != STACK_FRAME {
                assert!(usize::from(place) < STACK_WORDS && mapped(word), "{place}: {word:#x}");
                seen += 1;
            }
        }
    }
    assert!(seen > TIMES);
}

#[test]
fn what_did_not_wait_has_no_stack() {
    let (_, recording) = Trap::traps().record("quiet 100");
    assert_eq!(of_waits(&recording), []);
}
