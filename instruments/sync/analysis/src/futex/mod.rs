//! Futex system calls of a program as the kernel saw them: how many of each operation, how they ended, and as events for the
//! protocol of [`crate::sync`] where no recorded call stands around them.

mod functions;
mod reconcile;

pub use functions::FunctionCalls;
pub use reconcile::{Reconciled, Reconciler};

use crate::sync::{SyncEvent, ThreadId};
use quaver_abi::kernel_side::{FutexEntry, FutexOperation, KernelSideKind, KernelSideRecord};
use quaver_abi::sync::{SyncKind, SyncOutcome};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Error numbers that futex calls give back (errno(3), and the kernel's own for calls that a signal restarts).
const EINTR: i64 = 4;
const EAGAIN: i64 = 11;
const ETIMEDOUT: i64 = 110;
const RESTARTS: std::ops::RangeInclusive<i64> = 512..=516;

/// Calls of one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FutexCalls {
    /// Name of the operation.
    pub operation: String,
    /// Entries.
    pub calls: u64,
    /// Waits that were ended by a wake-up (result 0), or wakes that woke somebody.
    pub woken: u64,
    /// The word had changed before the caller slept (EAGAIN).
    pub changed: u64,
    /// The time given was over (ETIMEDOUT).
    pub timeouts: u64,
    /// A signal handler ran (EINTR, or a call that is restarted).
    pub interrupted: u64,
    /// Wakes that found nobody.
    pub woke_nobody: u64,
    /// Any other error.
    pub failed: u64,
    /// Threads that these calls woke or moved.
    pub threads_woken: u64,
    /// Calls that had not returned when the thread or the recording ended.
    pub open: u64,
    /// Time inside the calls that returned, nanoseconds.
    pub inside_ns: u64,
}

/// All futex calls of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FutexFigures {
    /// By operation, in the order of [`FutexOperation`]; those that were never used are left out.
    pub operations: Vec<FutexCalls>,
    /// Entries of all.
    pub calls: u64,
    /// Returns of all.
    pub returns: u64,
    /// Returns whose entry was not seen: recording began inside the call.
    pub returns_alone: u64,
    /// Waits that returned 0 although nobody had woken the word and no thread had ended since they began: spurious, or woken
    /// by a process that is not followed.
    pub spurious: u64,
    /// How they agree with what the recorder saw; none where it saw nothing.
    #[serde(default)]
    pub reconciled: Option<Reconciled>,
}

/// Counts futex calls in time order.
#[derive(Debug, Default)]
pub struct FutexCounter {
    operations: BTreeMap<FutexOperation, FutexCalls>,
    open: BTreeMap<u32, Open>,
    /// When a word was last woken, or waiters moved to or from it.
    woken_ns: BTreeMap<u64, u64>,
    returns: u64,
    returns_alone: u64,
    spurious: u64,
    /// Requeues leave waiters on another word than they slept on: nothing is called spurious then.
    requeued: bool,
    /// When a thread last ended: the kernel wakes whoever waits for its number.
    thread_ended_ns: u64,
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug)]
struct Open {
    operation: FutexOperation,
    word: u64,
    count: u32,
    call_site: u64,
    at_ns: u64,
    cpu: u16,
    /// Only threads of the same process can wake it.
    private: bool,
    /// Of a wait: a thread was seen to wake its thread since.
    woken: bool,
}

/// FUTEX_PRIVATE_FLAG.
const PRIVATE: u32 = 128;
/// The operation, without flags and without the call's address.
const COMMAND: u32 = 0x7f;
const UNLOCK_PI: u32 = 7;
const TRYLOCK_PI: u32 = 8;

impl FutexCounter {
    /// Takes the next record; all but futex calls are passed over. The answer is the call as an event of a program's own
    /// futexes, if it waits or wakes.
    pub fn take(&mut self, record: &KernelSideRecord) -> Option<SyncEvent> {
        match KernelSideKind::from_repr(record.kind)? {
            KernelSideKind::FutexEnter => self.enter(record),
            KernelSideKind::FutexExit => self.exit(record),
            KernelSideKind::Exit => {
                self.thread_ended_ns = record.at_ns;
                None
            }
            // Waiters that were moved, and those of the second word of a call, are woken by another word.
            KernelSideKind::Waking => {
                let wait = self.open.get_mut(&record.thread).filter(|_| record.other != 0);
                if let Some(wait) = wait.filter(|wait| wait.operation.waits()) {
                    wait.woken = true;
                }
                None
            }
            _ => None,
        }
    }

    fn calls(&mut self, operation: FutexOperation) -> &mut FutexCalls {
        self.operations
            .entry(operation)
            .or_insert_with(|| FutexCalls { operation: operation.name().to_owned(), ..FutexCalls::default() })
    }

    fn enter(&mut self, record: &KernelSideRecord) -> Option<SyncEvent> {
        let FutexEntry { operation, count, call_site } = record.futex_call();
        let command = record.operand & COMMAND;
        // These name no count: the one wakes whoever gets the lock, the other nobody.
        let count = match (operation, command) {
            (FutexOperation::OtherPi, UNLOCK_PI) => 1,
            (FutexOperation::OtherPi, TRYLOCK_PI) => 0,
            _ => count,
        };
        self.calls(operation).calls += 1;
        let (at_ns, cpu) = (record.at_ns, record.cpu);
        let private = record.operand & PRIVATE != 0;
        let open =
            Open { operation, word: record.value, count, call_site, at_ns, cpu, private, woken: false };
        if let Some(before) = self.open.insert(record.thread, open) {
            self.calls(before.operation).open += 1;
        }
        if wakes(operation) {
            self.woken_ns.insert(record.value, record.at_ns);
            self.requeued |= operation == FutexOperation::Requeue;
        }
        event(record, &open, true, SyncOutcome::Ok, count)
    }

    fn exit(&mut self, record: &KernelSideRecord) -> Option<SyncEvent> {
        self.returns += 1;
        let Some(open) = self.open.remove(&record.thread) else {
            self.returns_alone += 1;
            return None;
        };
        let result = record.value.cast_signed();
        let woken_ns = self.woken_ns.get(&open.word).copied().unwrap_or(0).max(self.thread_ended_ns);
        let woken_since = open.woken || woken_ns >= open.at_ns;
        // Another process wakes a word of shared memory by another address.
        if result == 0 && open.operation.waits() && open.private && !woken_since && !self.requeued {
            self.spurious += 1;
        }
        let calls = self.calls(open.operation);
        calls.inside_ns += record.at_ns.saturating_sub(open.at_ns);
        let mut outcome = SyncOutcome::Ok;
        match -result {
            EAGAIN => (calls.changed, outcome) = (calls.changed + 1, SyncOutcome::Busy),
            ETIMEDOUT => (calls.timeouts, outcome) = (calls.timeouts + 1, SyncOutcome::Timeout),
            error if error == EINTR || RESTARTS.contains(&error) => {
                (calls.interrupted, outcome) = (calls.interrupted + 1, SyncOutcome::Interrupted);
            }
            error if error > 0 => (calls.failed, outcome) = (calls.failed + 1, SyncOutcome::Failed),
            _ if open.operation.waits() => calls.woken += 1,
            0 => calls.woke_nobody += 1,
            _ => {
                calls.woken += 1;
                calls.threads_woken += result.unsigned_abs();
            }
        }
        let is_pi = open.operation == FutexOperation::OtherPi;
        // The result of an unlock says nothing of who got the lock.
        let woke = if is_pi && result == 0 { open.count } else { result.max(0) as u32 };
        event(record, &open, false, outcome, woke)
    }

    /// What was counted in all.
    pub fn finish(mut self) -> FutexFigures {
        for open in std::mem::take(&mut self.open).into_values() {
            self.calls(open.operation).open += 1;
        }
        let operations: Vec<FutexCalls> = self.operations.into_values().collect();
        FutexFigures {
            calls: operations.iter().map(|one| one.calls).sum(),
            operations,
            returns: self.returns,
            returns_alone: self.returns_alone,
            spurious: self.spurious,
            reconciled: None,
        }
    }
}

const fn wakes(operation: FutexOperation) -> bool {
    use FutexOperation::{OtherPi, Requeue, Wake, WakeBitset, WakeCall, WakeOp};
    matches!(operation, Wake | WakeBitset | Requeue | WakeOp | WakeCall | OtherPi)
}

fn event(
    record: &KernelSideRecord,
    open: &Open,
    entry: bool,
    outcome: SyncOutcome,
    detail: u32,
) -> Option<SyncEvent> {
    if open.operation == FutexOperation::OtherPi && open.count == 0 {
        return None;
    }
    let kind = match (open.operation.waits(), wakes(open.operation), entry) {
        (true, _, true) => SyncKind::FutexWaitEntry,
        (true, _, false) => SyncKind::FutexWaitExit,
        (_, true, true) => SyncKind::FutexWakeEntry,
        (_, true, false) => SyncKind::FutexWakeExit,
        _ => return None,
    };
    // Of an exit, the CPU is where it returned; the count to wake stands in the entry.
    let cpu = if entry { open.cpu } else { record.cpu };
    let detail = if entry { open.count } else { detail };
    Some(SyncEvent {
        at_ns: record.at_ns,
        object: open.word,
        call_site: open.call_site,
        thread: ThreadId(record.thread),
        detail,
        cpu,
        process: 0,
        kind,
        outcome,
        flags: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(at_ns: u64, thread: u32, operand: u32, word: u64) -> KernelSideRecord {
        let kind = KernelSideKind::FutexEnter as u8;
        KernelSideRecord { at_ns, thread, operand, value: word, other: 1, kind, ..Default::default() }
    }

    fn exit(at_ns: u64, thread: u32, result: i64) -> KernelSideRecord {
        let (kind, value) = (KernelSideKind::FutexExit as u8, result.cast_unsigned());
        KernelSideRecord { at_ns, thread, value, kind, ..Default::default() }
    }

    #[test]
    fn each_end_of_a_call_is_counted_as_what_it_is() {
        const WAIT: u32 = 128;
        const WAIT_BITSET: u32 = 9 | 128;
        const WAKE: u32 = 1 | 128;
        let mut counter = FutexCounter::default();
        let records = [
            exit(1, 9, 0),
            enter(10, 1, WAIT_BITSET, 0xa0),
            enter(20, 2, WAKE, 0xa0),
            exit(25, 2, 1),
            exit(40, 1, 0),
            enter(50, 1, WAIT, 0xb0),
            exit(51, 1, -11),
            enter(60, 1, WAIT, 0xb0),
            exit(70, 1, -110),
            enter(80, 1, WAIT, 0xb0),
            exit(81, 1, -512),
            enter(90, 1, WAIT, 0xb0),
            exit(95, 1, 0),
            enter(100, 2, WAKE, 0xc0),
            exit(101, 2, 0),
            enter(110, 2, WAIT, 0xc0),
        ];
        let events: Vec<SyncEvent> = records.iter().filter_map(|record| counter.take(record)).collect();
        assert_eq!(events.len(), records.len() - 1);
        assert_eq!((events[0].kind, events[0].object), (SyncKind::FutexWaitEntry, 0xa0));
        assert_eq!((events[2].kind, events[2].detail), (SyncKind::FutexWakeExit, 1));
        assert_eq!(events[5].outcome, SyncOutcome::Busy);
        let figures = counter.finish();
        assert_eq!((figures.calls, figures.returns, figures.returns_alone), (8, 8, 1));
        assert_eq!(figures.spurious, 1, "nobody woke 0xb0");
        let of = |name: &str| figures.operations.iter().find(|one| one.operation == name).unwrap().clone();
        let wait = of("FUTEX_WAIT");
        assert_eq!((wait.calls, wait.woken, wait.changed), (5, 1, 1));
        assert_eq!((wait.timeouts, wait.interrupted, wait.open), (1, 1, 1));
        let bitset = of("FUTEX_WAIT_BITSET");
        assert_eq!((bitset.calls, bitset.woken, bitset.inside_ns), (1, 1, 30));
        let wake = of("FUTEX_WAKE");
        assert_eq!((wake.calls, wake.woken, wake.woke_nobody, wake.threads_woken), (2, 1, 1, 1));
        for one in &figures.operations {
            let ends =
                one.woken + one.changed + one.timeouts + one.interrupted + one.woke_nobody + one.failed;
            assert_eq!(ends + one.open, one.calls, "{}", one.operation);
        }
    }

    #[test]
    fn a_waiter_that_was_moved_or_gets_a_lock_with_inheritance_was_woken() {
        const LOCK_PI: u32 = 6 | 128;
        const UNLOCK_PI: u32 = 7 | 128;
        const TRYLOCK_PI: u32 = 8 | 128;
        let waking = |at_ns, thread, other| {
            let kind = KernelSideKind::Waking as u8;
            KernelSideRecord { at_ns, thread, other, kind, ..Default::default() }
        };
        let mut counter = FutexCounter::default();
        let records = [
            enter(10, 1, 128, 0xa0),
            // By another word, in a call of another thread.
            waking(20, 1, 2),
            exit(21, 1, 0),
            enter(30, 1, LOCK_PI, 0xb0),
            KernelSideRecord { other: 0, ..enter(31, 3, TRYLOCK_PI, 0xb0) },
            exit(32, 3, -11),
            KernelSideRecord { other: 0, ..enter(40, 2, UNLOCK_PI, 0xb0) },
            waking(41, 1, 2),
            exit(42, 2, 0),
            exit(43, 1, 0),
        ];
        let events: Vec<SyncEvent> = records.iter().filter_map(|record| counter.take(record)).collect();
        let wakes: Vec<_> = events.iter().filter(|one| one.thread == ThreadId(2)).collect();
        assert_eq!(wakes.iter().map(|one| one.detail).collect::<Vec<_>>(), [1, 1], "one gets the lock");
        assert!(events.iter().all(|one| one.thread != ThreadId(3)), "a try wakes nobody");
        assert_eq!(counter.finish().spurious, 0);
    }
}
