//! Futex system calls of a program beside the recorder's events: whoever waits in the kernel does so inside a call of the thread
//! library, and whoever wakes as well. What is left over is the C library's own (its allocator's and files' locks), or was not
//! recorded.

use crate::sync::{SyncEvent, ThreadId};
use quaver_abi::sync::SyncKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How the two sides agree. Futex calls: those inside and outside are all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reconciled {
    /// Calls of the thread library that were recorded and have ended.
    pub calls: u64,
    /// Of these, such that did not have to go into the kernel: what they wanted was there, or nobody waited.
    pub calls_without_kernel: u64,
    /// Futex waits inside a recorded call of the same thread. One call may wait several times.
    pub waits_inside: u64,
    /// Futex waits outside of every recorded call.
    pub waits_outside: u64,
    /// Futex wakes and requeues inside a recorded call.
    pub wakes_inside: u64,
    /// And outside.
    pub wakes_outside: u64,
}

/// Holds the one against the other, in time order.
#[derive(Debug, Default)]
pub struct Reconciler {
    threads: BTreeMap<ThreadId, Thread>,
    figures: Reconciled,
}

#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    /// Recorded calls that have not returned; handlers of signals make some inside others.
    depth: u32,
    /// The outermost of them went into the kernel.
    asked: bool,
    /// The futex call that has not returned: whether it waits, and whether a recorded call was open meanwhile. The two clocks
    /// may be a little apart, so that its entry seems to come first.
    futex: Option<(bool, bool)>,
}

/// Whether a call of the library begins, or ends; neither for starts and ends of threads.
fn begins(kind: SyncKind) -> Option<bool> {
    match kind {
        SyncKind::ThreadStart | SyncKind::ThreadExit | SyncKind::Anchor => None,
        // Entries have odd numbers, returns even ones.
        other => Some(!(other as u8).is_multiple_of(2)),
    }
}

impl Reconciler {
    /// An event of the recorder's.
    pub fn call(&mut self, event: &SyncEvent) {
        let Some(begins) = begins(event.kind) else { return };
        let thread = self.threads.entry(event.thread).or_default();
        if begins {
            if thread.depth == 0 {
                thread.asked = thread.futex.is_some();
            }
            thread.depth += 1;
            if let Some((_, inside)) = &mut thread.futex {
                *inside = true;
            }
        } else if thread.depth > 0 {
            thread.depth -= 1;
            if thread.depth == 0 {
                self.figures.calls += 1;
                self.figures.calls_without_kernel += u64::from(!thread.asked);
            }
        }
    }

    /// A futex call as [`super::FutexCounter`] tells of it.
    pub fn futex(&mut self, event: &SyncEvent) {
        let thread = self.threads.entry(event.thread).or_default();
        let waits = matches!(event.kind, SyncKind::FutexWaitEntry | SyncKind::FutexWaitExit);
        let inside = thread.depth > 0;
        thread.asked |= inside;
        if matches!(event.kind, SyncKind::FutexWaitEntry | SyncKind::FutexWakeEntry) {
            let before = thread.futex.replace((waits, inside));
            self.count(before);
        } else {
            let ended = thread.futex.take().map(|(waits, was_inside)| (waits, was_inside || inside));
            self.count(ended);
        }
    }

    fn count(&mut self, call: Option<(bool, bool)>) {
        let figures = &mut self.figures;
        match call {
            Some((true, true)) => figures.waits_inside += 1,
            Some((true, false)) => figures.waits_outside += 1,
            Some((false, true)) => figures.wakes_inside += 1,
            Some((false, false)) => figures.wakes_outside += 1,
            None => {}
        }
    }

    /// What was found in all.
    pub fn finish(mut self) -> Reconciled {
        let open: Vec<_> = self.threads.values().map(|thread| thread.futex).collect();
        open.into_iter().for_each(|call| self.count(call));
        self.figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at_ns: u64, thread: u32, kind: SyncKind) -> SyncEvent {
        SyncEvent::plain(at_ns, thread, kind, 0)
    }

    #[test]
    fn kinds_are_entries_and_returns_in_turn() {
        for kind in SyncKind::ALL {
            let name = format!("{kind:?}");
            let want = match kind {
                SyncKind::ThreadStart | SyncKind::ThreadExit | SyncKind::Anchor => None,
                _ => Some(name.ends_with("Entry") || name == "Create"),
            };
            assert_eq!(begins(kind), want, "{name}");
        }
    }

    #[test]
    fn each_futex_call_is_inside_or_outside_of_a_recorded_one() {
        use SyncKind::{
            FutexWaitEntry, FutexWaitExit, FutexWakeEntry, FutexWakeExit, LockEntry, LockExit, SignalEntry,
            SignalExit, WaitEntry, WaitExit,
        };
        let mut both = Reconciler::default();
        // Thread 1 waits twice inside one call; thread 2 signals, once for somebody and once for nobody.
        both.call(&event(10, 1, WaitEntry));
        both.futex(&event(11, 1, FutexWaitEntry));
        both.call(&event(12, 2, SignalEntry));
        both.futex(&event(13, 2, FutexWakeEntry));
        both.futex(&event(14, 2, FutexWakeExit));
        both.call(&event(15, 2, SignalExit));
        both.futex(&event(16, 1, FutexWaitExit));
        both.futex(&event(17, 1, FutexWaitEntry));
        both.futex(&event(18, 1, FutexWaitExit));
        both.call(&event(19, 1, WaitExit));
        both.call(&event(20, 2, SignalEntry));
        both.call(&event(21, 2, SignalExit));
        // The kernel's clock is a little early.
        both.futex(&event(30, 1, FutexWaitEntry));
        both.call(&event(31, 1, LockEntry));
        both.futex(&event(39, 1, FutexWaitExit));
        both.call(&event(40, 1, LockExit));
        // The allocator's, and one that never ends.
        both.futex(&event(50, 2, FutexWakeEntry));
        both.futex(&event(51, 2, FutexWakeExit));
        both.futex(&event(60, 3, FutexWaitEntry));
        let want = Reconciled {
            calls: 4,
            calls_without_kernel: 1,
            waits_inside: 3,
            waits_outside: 1,
            wakes_inside: 1,
            wakes_outside: 1,
        };
        assert_eq!(both.finish(), want);
    }
}
