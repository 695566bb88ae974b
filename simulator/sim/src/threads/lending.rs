//! Locks that are lent where nobody could go on otherwise.
//!
//! A library that fills buffers holds a lock while it waits until the next buffer is written out. In the recording those who
//! had to fill it had got that lock before; in simulated time another order of asking may let the one in first who then waits
//! for them, and they for the lock. So it counts as not having got it yet: the lock goes to who waits for it, and who lent it
//! has it back, in the line of all who ask, before it goes on from its wait.

use super::{Reason, ThreadState, Threads};
use quaver_trace::step::Thread;

impl Threads {
    /// Nobody can go on: a lock whose holder waits for a wake-up goes to who waits for the lock. Of several the one that the
    /// lowest thread waits for. Who lent it, and who may go on since; nobody where there is no such lock.
    pub fn lend(&mut self, at_fs: u64) -> Option<(Thread, Vec<Thread>)> {
        let (object, holder) = self.states.iter().find_map(|state| match state {
            ThreadState::Waits { reason: Reason::Lock(object) | Reason::ReadLock(object), .. } => {
                let holder = self.locks.get(object)?.writer?;
                let state = &self.states[holder.0 as usize];
                let sleeps = matches!(state, ThreadState::Waits { reason: Reason::Wakeup { .. }, .. });
                sleeps.then_some((*object, holder))
            }
            _ => None,
        })?;
        let ThreadState::Waits { reason: Reason::Wakeup { mutex, .. }, .. } = self.states[holder.0 as usize]
        else {
            return None;
        };
        let wants = &mut self.wants[holder.0 as usize];
        if wants.is_empty() && mutex != 0 {
            wants.push_back(mutex);
        }
        // Before the mutex of the wait, which it asked for while it held this one.
        wants.push_front(object);
        self.lent += 1;
        self.locks.entry(object).or_default().writer = None;
        let mut woken = Vec::new();
        self.pass_on(object, at_fs, &mut woken, &mut |_| false);
        Some((holder, woken))
    }

    /// The wake-up that it waited for has come: it asks for what it lent.
    pub(super) fn wants_back(&mut self, thread: Thread, at_fs: u64, woken: &mut Vec<Thread>) {
        self.wait_ends(thread, at_fs);
        if self.takes_back(thread, at_fs) {
            self.states[thread.0 as usize] = ThreadState::Runs;
            woken.push(thread);
        }
    }

    /// It got a lock: it goes on, unless it needs others.
    pub(super) fn has_lock(&mut self, thread: Thread, at_fs: u64, woken: &mut Vec<Thread>) {
        if self.wants[thread.0 as usize].is_empty() || self.is_late(thread) {
            return self.wake(thread, at_fs, woken);
        }
        self.wants_back(thread, at_fs, woken);
    }

    /// Asks for what it lent, lock by lock; whether it has all.
    pub(super) fn takes_back(&mut self, thread: Thread, at_fs: u64) -> bool {
        while let Some(object) = self.wants[thread.0 as usize].pop_front() {
            if !self.lock(thread, object, true, at_fs) {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::Woken;
    use quaver_trace::step::{Sync, Wakeup};

    const DRAW: u64 = 8;
    const MUTEX: u64 = 16;
    const LOCK: Sync = Sync::Lock { object: DRAW };
    const UNLOCK: Sync = Sync::Unlock { object: DRAW };

    /// Thread 2 waits for wake-up 7 while it holds the lock that 1, who has to give it, waits for; 0 waits for it, too.
    fn stuck() -> Threads {
        let mut threads = Threads::new(3);
        let mut step = |thread, sync, at_fs| {
            threads.step(Thread(thread), sync, at_fs, &mut |_: Woken| false).unwrap();
        };
        step(0, Sync::Create { thread: Thread(1) }, 0);
        step(0, Sync::Create { thread: Thread(2) }, 0);
        step(2, LOCK, 1);
        step(2, Sync::Lock { object: MUTEX }, 2);
        step(2, Sync::Wait { object: 24, mutex: MUTEX, by: Some(Wakeup(7)) }, 3);
        step(1, LOCK, 4);
        step(0, LOCK, 5);
        threads
    }

    fn step(threads: &mut Threads, thread: u32, sync: Sync, at_fs: u64) -> (bool, Vec<u32>) {
        let done = threads.step(Thread(thread), sync, at_fs, &mut |_: Woken| false).unwrap();
        (done.goes_on, done.woken.iter().map(|thread| thread.0).collect())
    }

    const GIVES: Sync = Sync::Signal { object: 24, wakeup: Wakeup(7) };

    #[test]
    fn a_lock_whose_holder_waits_is_lent_to_the_first_in_its_line_and_comes_back() {
        let mut threads = stuck();
        assert_eq!(threads.lend(6), Some((Thread(2), vec![Thread(1)])));
        assert_eq!(threads.lend(6), None, "1 holds it and runs");
        assert_eq!(step(&mut threads, 1, GIVES, 10), (true, vec![]), "2 needs the lock again");
        assert_eq!(step(&mut threads, 1, UNLOCK, 11), (true, vec![0]), "who asked before 2 did");
        assert_eq!(step(&mut threads, 0, UNLOCK, 12), (true, vec![2]));
        assert_eq!(step(&mut threads, 2, Sync::Unlock { object: MUTEX }, 13), (true, vec![]), "it has both");
        assert_eq!(step(&mut threads, 2, UNLOCK, 14), (true, vec![]));
        assert_eq!((threads.times[2].waited_fs, threads.lent), (9, 1));
    }

    #[test]
    fn the_mutex_of_the_wait_is_taken_after_the_lock() {
        let mut threads = stuck();
        threads.lend(6);
        step(&mut threads, 1, Sync::Lock { object: MUTEX }, 7);
        step(&mut threads, 1, GIVES, 8);
        step(&mut threads, 1, UNLOCK, 9);
        assert_eq!(step(&mut threads, 0, UNLOCK, 10), (true, vec![]), "the mutex is held");
        assert_eq!(step(&mut threads, 1, Sync::Unlock { object: MUTEX }, 11), (true, vec![2]));
    }

    #[test]
    fn who_is_late_takes_back_what_it_lent_when_it_runs() {
        let mut threads = stuck();
        threads.lend(6);
        let gives = threads.step(Thread(1), GIVES, 7, &mut |_: Woken| true).unwrap();
        assert_eq!(gives.woken, [Thread(2)]);
        assert!(threads.is_late(Thread(2)) && !threads.ask_again(Thread(2), 8), "1 holds the lock");
        assert_eq!(step(&mut threads, 1, UNLOCK, 9), (true, vec![0]));
        assert_eq!(step(&mut threads, 0, UNLOCK, 10), (true, vec![2]));
        assert_eq!(step(&mut threads, 2, Sync::Unlock { object: MUTEX }, 11), (true, vec![]));
    }

    #[test]
    fn threads_that_wait_for_each_other_otherwise_stay_stuck() {
        let mut threads = Threads::new(2);
        step(&mut threads, 0, Sync::Create { thread: Thread(1) }, 0);
        step(&mut threads, 0, LOCK, 0);
        step(&mut threads, 1, LOCK, 0);
        step(&mut threads, 0, Sync::Join { thread: Thread(1) }, 0);
        assert_eq!(threads.lend(1), None);
    }
}
