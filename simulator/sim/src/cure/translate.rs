//! From what the machine does to what an instrumented thread library would tell a jitter unit.
//!
//! As in the paper, and in our recorder: locks that are free and unlocks that nobody waits for tell nothing, and neither
//! do signals without a waiter. A barrier is a broadcast of who arrives last. A waiter that is woken while its mutex is held
//! has left its wait and asks for the mutex: what it waits for from then on is that lock.

use quaver_abi::sync::SyncKind;
use quaver_sync_analysis::sync::SyncClass;
use quaver_trace::step::{Sync, Thread, Wakeup};
use std::collections::HashMap;

/// Handles of threads, as `pthread_t` would be.
const HANDLES: u64 = 0x7f00_0000_0000_0000;

/// What the library tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SyncCall {
    pub(super) kind: SyncKind,
    pub(super) object: u64,
    pub(super) detail: u32,
    /// Whom a signal is for.
    pub(super) target: Option<u32>,
}

impl SyncCall {
    fn new(kind: SyncKind, object: u64) -> Self {
        Self { kind, object, detail: 0, target: None }
    }
}

/// The call that a thread is in, as far as the library has told of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Open {
    #[default]
    Nothing,
    Lock {
        object: u64,
        exit: SyncKind,
    },
    /// A wait; the class is known once it has been ended.
    Wait {
        object: u64,
        mutex: u64,
        class: Option<SyncClass>,
    },
    Barrier {
        object: u64,
    },
    Wake {
        class: SyncClass,
        object: u64,
        exit: SyncKind,
    },
}

#[derive(Clone, Copy, Debug, Default)]
struct Caller {
    entered: Option<Sync>,
    open: Open,
    /// Number of its waits, so that a later look knows which one was meant.
    waits: u32,
    /// It was woken, but the kernel holds it up.
    late: bool,
}

/// The library of the simulated program.
#[derive(Clone, Debug, Default)]
pub(super) struct Translator {
    callers: Vec<Caller>,
    /// By lock: how many wait for it.
    waiting: HashMap<u64, u32>,
    /// By barrier: how many are there.
    there: HashMap<u64, u32>,
    sleeping: HashMap<Wakeup, Vec<u32>>,
    given: HashMap<Wakeup, SyncClass>,
}

/// A waiter that has been woken and will have to take its mutex: whether it could is to be looked at when it should run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WokenWaiter {
    pub(super) thread: u32,
    pub(super) wait: u32,
}

pub(super) fn handle(thread: Thread) -> u64 {
    HANDLES | u64::from(thread.0)
}

impl Translator {
    fn caller(&mut self, thread: u32) -> &mut Caller {
        let index = thread as usize;
        if self.callers.len() <= index {
            self.callers.resize(index + 1, Caller::default());
        }
        &mut self.callers[index]
    }

    /// The thread enters a call. What is told, and who is woken by it that has a mutex to take.
    pub(super) fn enters(
        &mut self,
        thread: u32,
        sync: Sync,
        woken: &mut Vec<WokenWaiter>,
    ) -> Option<SyncCall> {
        self.caller(thread).entered = Some(sync);
        let (class, told, exit) = match sync {
            Sync::Create { .. } => return Some(SyncCall::new(SyncKind::Create, 0)),
            Sync::Join { thread } => return Some(SyncCall::new(SyncKind::JoinEntry, handle(thread))),
            Sync::Unlock { object } | Sync::ReadUnlock { object } => {
                if self.waiting.get(&object).is_none_or(|waiting| *waiting == 0) {
                    return None;
                }
                (SyncClass::Unlock, SyncCall::new(SyncKind::UnlockEntry, object), SyncKind::UnlockExit)
            }
            Sync::Signal { object, wakeup } => {
                let sleepers = self.give(wakeup, SyncClass::SignalWait, woken);
                let target = *sleepers.first()?;
                let told =
                    SyncCall { target: Some(target + 1), ..SyncCall::new(SyncKind::SignalEntry, object) };
                (SyncClass::Signal, told, SyncKind::SignalExit)
            }
            Sync::Broadcast { object, wakeup } => {
                if self.give(wakeup, SyncClass::BroadcastWait, woken).is_empty() {
                    return None;
                }
                (
                    SyncClass::Broadcast,
                    SyncCall::new(SyncKind::BroadcastEntry, object),
                    SyncKind::BroadcastExit,
                )
            }
            Sync::Barrier { object, parties } => {
                let there = self.there.entry(object).or_default();
                *there += 1;
                if *there < parties {
                    return None;
                }
                *there = 0;
                if parties < 2 {
                    return None;
                }
                (
                    SyncClass::Broadcast,
                    SyncCall::new(SyncKind::BroadcastEntry, object),
                    SyncKind::BroadcastExit,
                )
            }
            Sync::Lock { .. } | Sync::ReadLock { .. } | Sync::Wait { .. } => return None,
        };
        self.caller(thread).open = Open::Wake { class, object: told.object, exit };
        Some(told)
    }

    /// Who waits on this condition, but for another broadcast than was given now: in the recording it waited later. Woken as well,
    /// it finds nothing to do and waits again, which is what is told of it.
    pub(super) fn woken_in_vain(&self, object: u64) -> Vec<(u32, [SyncCall; 2])> {
        let again = |mutex: u64| {
            let entry = SyncCall { detail: mutex as u32, ..SyncCall::new(SyncKind::WaitEntry, object) };
            [SyncCall::new(SyncKind::WaitExit, object), entry]
        };
        let each = self.callers.iter().zip(0..).filter_map(|(caller, thread)| match caller.open {
            Open::Wait { object: own, mutex, class: None } if own == object => Some((thread, again(mutex))),
            _ => None,
        });
        each.collect()
    }

    fn give(&mut self, wakeup: Wakeup, class: SyncClass, woken: &mut Vec<WokenWaiter>) -> Vec<u32> {
        self.given.insert(wakeup, class);
        let sleepers = self.sleeping.remove(&wakeup).unwrap_or_default();
        for &sleeper in &sleepers {
            let caller = self.caller(sleeper);
            let wait = caller.waits;
            if let Open::Wait { class: own, mutex, .. } = &mut caller.open {
                *own = Some(class);
                if *mutex != 0 {
                    woken.push(WokenWaiter { thread: sleeper, wait });
                }
            }
        }
        sleepers
    }

    /// The thread runs no more: whether it waits, which it does in the call that it has entered; and what that tells.
    pub(super) fn stops(&mut self, thread: u32) -> (bool, [Option<SyncCall>; 2]) {
        if std::mem::take(&mut self.caller(thread).late) {
            return (true, self.asks_in_vain(thread));
        }
        match self.caller(thread).entered.take() {
            Some(sync) => (true, [self.waits(thread, sync), None]),
            None => (false, [None, None]),
        }
    }

    /// The thread was woken, and the kernel holds it up.
    pub(super) fn late(&mut self, thread: u32) {
        self.caller(thread).late = true;
    }

    /// It was, and asks for its lock, which another one has: a wait for that lock goes on; one for a signal is over.
    fn asks_in_vain(&mut self, thread: u32) -> [Option<SyncCall>; 2] {
        match self.caller(thread).open {
            Open::Wait { object, mutex, .. } => {
                let left = SyncCall::new(SyncKind::WaitExit, object);
                [Some(left), Some(self.asks(thread, mutex, SyncKind::LockEntry))]
            }
            _ => [None, None],
        }
    }

    fn waits(&mut self, thread: u32, sync: Sync) -> Option<SyncCall> {
        match sync {
            Sync::Lock { object } => Some(self.asks(thread, object, SyncKind::LockEntry)),
            Sync::ReadLock { object } => Some(self.asks(thread, object, SyncKind::ReadLockEntry)),
            Sync::Wait { object, mutex, by } => {
                let Some(wakeup) = by.filter(|wakeup| !self.given.contains_key(wakeup)) else {
                    // It is over already but for the mutex.
                    return (mutex != 0).then(|| self.asks(thread, mutex, SyncKind::LockEntry));
                };
                self.sleeping.entry(wakeup).or_default().push(thread);
                let caller = self.caller(thread);
                caller.waits += 1;
                caller.open = Open::Wait { object, mutex, class: None };
                Some(SyncCall { detail: mutex as u32, ..SyncCall::new(SyncKind::WaitEntry, object) })
            }
            Sync::Barrier { object, .. } => {
                self.caller(thread).open = Open::Barrier { object };
                Some(SyncCall::new(SyncKind::WaitEntry, object))
            }
            _ => None,
        }
    }

    fn asks(&mut self, thread: u32, object: u64, entry: SyncKind) -> SyncCall {
        *self.waiting.entry(object).or_default() += 1;
        let exit = if entry == SyncKind::ReadLockEntry { SyncKind::ReadLockExit } else { SyncKind::LockExit };
        self.caller(thread).open = Open::Lock { object, exit };
        SyncCall::new(entry, object)
    }

    /// A woken waiter should run by now. If it does not, its mutex is held: it has left its wait, and asks for the mutex.
    pub(super) fn look_again(&mut self, woken: WokenWaiter) -> Option<[SyncCall; 2]> {
        let caller = self.caller(woken.thread);
        let Open::Wait { object, mutex, class: Some(_) } = caller.open else { return None };
        if caller.waits != woken.wait || caller.late {
            return None;
        }
        let left = SyncCall::new(SyncKind::WaitExit, object);
        Some([left, self.asks(woken.thread, mutex, SyncKind::LockEntry)])
    }

    /// The thread leaves the call: its class, where it went into the kernel, and what is told when it comes out of there.
    pub(super) fn leaves(&mut self, thread: u32, sync: Sync) -> (Option<SyncClass>, Option<SyncCall>) {
        let caller = self.caller(thread);
        (caller.entered, caller.late) = (None, false);
        match std::mem::take(&mut caller.open) {
            Open::Lock { object, exit } => {
                if let Some(waiting) = self.waiting.get_mut(&object) {
                    *waiting = waiting.saturating_sub(1);
                }
                (Some(SyncClass::LockUnlock), Some(SyncCall::new(exit, object)))
            }
            Open::Wait { object, class, .. } => (class, Some(SyncCall::new(SyncKind::WaitExit, object))),
            Open::Barrier { object } => {
                (Some(SyncClass::BroadcastWait), Some(SyncCall::new(SyncKind::WaitExit, object)))
            }
            Open::Wake { class, object, exit } => (Some(class), Some(SyncCall::new(exit, object))),
            Open::Nothing => match sync {
                Sync::Create { thread } => (None, Some(SyncCall::new(SyncKind::CreateExit, handle(thread)))),
                Sync::Join { thread } => (None, Some(SyncCall::new(SyncKind::JoinExit, handle(thread)))),
                _ => (None, None),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: Sync = Sync::Lock { object: 8 };
    const UNLOCK: Sync = Sync::Unlock { object: 8 };

    fn kind(told: Option<SyncCall>) -> Option<SyncKind> {
        told.map(|told| told.kind)
    }

    #[test]
    fn free_locks_tell_nothing_and_contended_ones_everything() {
        let mut library = Translator::default();
        let mut none = Vec::new();
        assert_eq!(library.enters(0, LOCK, &mut none), None);
        assert_eq!(library.leaves(0, LOCK), (None, None));
        assert_eq!(library.enters(1, LOCK, &mut none), None);
        assert_eq!(kind(library.stops(1).1[0]), Some(SyncKind::LockEntry));
        assert_eq!(kind(library.enters(0, UNLOCK, &mut none)), Some(SyncKind::UnlockEntry));
        let (class, told) = library.leaves(0, UNLOCK);
        assert_eq!((class, kind(told)), (Some(SyncClass::Unlock), Some(SyncKind::UnlockExit)));
        let (class, told) = library.leaves(1, LOCK);
        assert_eq!((class, kind(told)), (Some(SyncClass::LockUnlock), Some(SyncKind::LockExit)));
        assert_eq!(library.enters(1, UNLOCK, &mut none), None);
        assert!(none.is_empty());
    }

    #[test]
    fn a_barrier_is_a_broadcast_of_the_last() {
        let mut library = Translator::default();
        let barrier = Sync::Barrier { object: 16, parties: 2 };
        for _ in 0..2 {
            assert_eq!(library.enters(0, barrier, &mut Vec::new()), None);
            assert_eq!(kind(library.stops(0).1[0]), Some(SyncKind::WaitEntry));
            assert_eq!(kind(library.enters(1, barrier, &mut Vec::new())), Some(SyncKind::BroadcastEntry));
            assert_eq!(library.leaves(1, barrier).0, Some(SyncClass::Broadcast));
            assert_eq!(library.leaves(0, barrier).0, Some(SyncClass::BroadcastWait));
        }
        let alone = Sync::Barrier { object: 24, parties: 1 };
        assert_eq!(library.enters(0, alone, &mut Vec::new()), None);
        assert_eq!(library.leaves(0, alone), (None, None));
    }

    #[test]
    fn a_woken_waiter_whose_mutex_is_held_waits_for_the_mutex() {
        let mut library = Translator::default();
        let mut woken = Vec::new();
        let wait = Sync::Wait { object: 32, mutex: 8, by: Some(Wakeup(5)) };
        assert_eq!(library.enters(3, wait, &mut woken), None);
        let told = library.stops(3).1[0].unwrap();
        assert_eq!((told.kind, told.detail), (SyncKind::WaitEntry, 8));
        let told = library.enters(1, Sync::Signal { object: 32, wakeup: Wakeup(5) }, &mut woken).unwrap();
        assert_eq!((told.kind, told.target), (SyncKind::SignalEntry, Some(4)));
        assert_eq!(woken, [WokenWaiter { thread: 3, wait: 1 }]);
        let two = library.look_again(woken[0]).unwrap();
        assert_eq!(two.map(|told| told.kind), [SyncKind::WaitExit, SyncKind::LockEntry]);
        assert_eq!(kind(library.enters(2, UNLOCK, &mut Vec::new())), Some(SyncKind::UnlockEntry));
        assert_eq!(library.leaves(3, wait).0, Some(SyncClass::LockUnlock));
        assert_eq!(library.look_again(woken[0]), None, "that wait is over");
    }

    #[test]
    fn who_is_late_has_not_left_its_wait_until_it_asks() {
        let mut library = Translator::default();
        let mut woken = Vec::new();
        let wait = Sync::Wait { object: 32, mutex: 8, by: Some(Wakeup(5)) };
        library.enters(3, wait, &mut woken);
        library.stops(3);
        library.enters(1, Sync::Broadcast { object: 32, wakeup: Wakeup(5) }, &mut woken);
        library.late(3);
        assert_eq!(library.look_again(woken[0]), None, "the kernel holds it up");
        let (waits, two) = library.stops(3);
        assert!(waits);
        assert_eq!(two.map(kind), [Some(SyncKind::WaitExit), Some(SyncKind::LockEntry)]);
        library.late(3);
        assert_eq!(library.stops(3), (true, [None, None]), "it waits for that lock already");
        assert_eq!(library.leaves(3, wait).0, Some(SyncClass::LockUnlock));
    }

    #[test]
    fn a_broadcast_wakes_also_who_waits_for_the_next_one() {
        let mut library = Translator::default();
        let mut woken = Vec::new();
        for (thread, wakeup) in [(1, 5), (2, 6), (3, 5)] {
            let wait =
                Sync::Wait { object: 32 + 8 * u64::from(thread == 3), mutex: 8, by: Some(Wakeup(wakeup)) };
            library.enters(thread, wait, &mut woken);
            library.stops(thread);
        }
        library.enters(0, Sync::Broadcast { object: 32, wakeup: Wakeup(5) }, &mut woken);
        let in_vain = library.woken_in_vain(32);
        let kinds: Vec<_> =
            in_vain.iter().map(|(thread, told)| (*thread, told.map(|told| told.kind))).collect();
        assert_eq!(kinds, [(2, [SyncKind::WaitExit, SyncKind::WaitEntry])]);
        assert_eq!((in_vain[0].1[1].object, in_vain[0].1[1].detail), (32, 8));
    }

    #[test]
    fn signals_without_a_waiter_and_waits_that_are_over_tell_nothing() {
        let mut library = Translator::default();
        let signal = Sync::Signal { object: 32, wakeup: Wakeup(9) };
        assert_eq!(library.enters(0, signal, &mut Vec::new()), None);
        assert_eq!(library.leaves(0, signal), (None, None));
        let wait = Sync::Wait { object: 32, mutex: 0, by: Some(Wakeup(9)) };
        assert_eq!(library.enters(1, wait, &mut Vec::new()), None);
        assert_eq!(library.leaves(1, wait), (None, None));
        // The same with a mutex that is held: only the lock is waited for.
        let wait = Sync::Wait { object: 32, mutex: 8, by: Some(Wakeup(9)) };
        library.enters(1, wait, &mut Vec::new());
        assert_eq!(kind(library.stops(1).1[0]), Some(SyncKind::LockEntry));
    }

    #[test]
    fn threads_are_created_and_joined_by_their_handles() {
        let mut library = Translator::default();
        let (create, join) = (Sync::Create { thread: Thread(4) }, Sync::Join { thread: Thread(4) });
        assert_eq!(kind(library.enters(0, create, &mut Vec::new())), Some(SyncKind::Create));
        let (class, told) = library.leaves(0, create);
        assert_eq!((class, told.map(|told| told.object)), (None, Some(handle(Thread(4)))));
        assert_eq!(kind(library.enters(0, join, &mut Vec::new())), Some(SyncKind::JoinEntry));
        assert_eq!(library.stops(0), (true, [None, None]), "the end of another thread");
        assert_eq!(library.stops(0), (false, [None, None]), "another one has its turn");
        assert_eq!(kind(library.leaves(0, join).1), Some(SyncKind::JoinExit));
    }
}
