//! Which signal ended which wait, how many meet at a barrier, which thread a `pthread_t` is.
//!
//! All marks pass here one after the other, so that their order is one. A wait's entry and exit are marked with its mutex held;
//! so is a signal's, where the program signals with the mutex held, and then the order of marks is that of the mutex. What ends
//! what:
//!
//! - **Conditions.** A wait that was woken takes the oldest signal or broadcast of its condition that was not over when the wait
//!   began, and that ended no other wait if it was a signal. So an unheld signal whose call overlaps the beginning of the wait
//!   counts: it may have come after. Where there is none, the wait woke up for nothing. Which of several waiters an old signal
//!   woke, the thread library does not tell; the oldest first is its own order but where waiters steal.
//! - **Semaphores.** What waits take is all alike: the first ones take what the semaphore was made with, which nobody posted,
//!   and the others the posts in their order.
//! - A wait that timed out was ended by nobody.
//!
//! Whatever ends a wait is marked before its return, so that a replay in the order of marks never waits for what comes later.

use quaver_trace::step::{Thread, Wakeup};
use std::collections::{HashMap, VecDeque};

/// A signal or broadcast.
#[derive(Clone, Copy, Debug)]
struct WakeupCall {
    wakeup: Wakeup,
    by: Thread,
    /// When its call was over; none while it runs.
    over: Option<u64>,
    /// Whether it wakes all who wait.
    all: bool,
    /// Whether it is a signal that ended a wait.
    used: bool,
}

#[derive(Clone, Debug, Default)]
struct Condition {
    /// Who waits, and since when.
    waiting: Vec<(Thread, u64)>,
    given: VecDeque<WakeupCall>,
}

impl Condition {
    /// Forgets what can end no wait any more: signals that were used, and those that were over before all who wait began.
    fn prune(&mut self) {
        let first = self.waiting.iter().map(|(_, since)| *since).min();
        self.given.retain(|given| match given.over {
            None => true,
            Some(over) => !given.used && first.is_some_and(|first| first < over),
        });
    }
}

#[derive(Clone, Debug, Default)]
struct Semaphore {
    /// What it was made with and nobody took yet.
    own: u64,
    posts: VecDeque<Wakeup>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Barrier {
    parties: u32,
    arrived: u32,
    /// How many times all were there.
    met: u64,
}

/// An arrival at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    object: u64,
    /// How many times all had met before.
    before: u64,
    /// How many meet there.
    pub(crate) parties: u32,
}

/// What must be known of all threads together.
#[derive(Debug, Default)]
pub(crate) struct Matching {
    now: u64,
    wakeups: u64,
    conditions: HashMap<u64, Condition>,
    semaphores: HashMap<u64, Semaphore>,
    barriers: HashMap<u64, Barrier>,
    threads: HashMap<u64, Thread>,
}

impl Matching {
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    fn new_wakeup(&mut self) -> Wakeup {
        self.wakeups += 1;
        Wakeup(self.wakeups)
    }

    /// A thread begins a wait.
    pub(crate) fn waits(&mut self, condition: u64, thread: Thread) {
        let now = self.tick();
        self.conditions.entry(condition).or_default().waiting.push((thread, now));
    }

    /// Its wait is over; what ended it, if somebody did.
    pub(crate) fn waited(&mut self, condition: u64, thread: Thread, woken: bool) -> Option<Wakeup> {
        let condition = self.conditions.get_mut(&condition)?;
        let place = condition.waiting.iter().position(|(waiting, _)| *waiting == thread)?;
        let (_, since) = condition.waiting.swap_remove(place);
        let may = |given: &&mut WakeupCall| !given.used && given.over.is_none_or(|over| over > since);
        let found = if woken { condition.given.iter_mut().find(may) } else { None };
        let by = found.map(|given| {
            given.used = !given.all;
            given.wakeup
        });
        condition.prune();
        by
    }

    /// A thread begins to signal (or to broadcast); the number of the occasion.
    pub(crate) fn signals(&mut self, condition: u64, by: Thread, all: bool) -> Wakeup {
        let wakeup = self.new_wakeup();
        self.tick();
        let given = WakeupCall { wakeup, by, over: None, all, used: false };
        self.conditions.entry(condition).or_default().given.push_back(given);
        wakeup
    }

    /// Its call is over.
    pub(crate) fn signalled(&mut self, condition: u64, by: Thread) {
        let now = self.tick();
        let Some(condition) = self.conditions.get_mut(&condition) else { return };
        let open = condition.given.iter_mut().rev().find(|given| given.by == by && given.over.is_none());
        if let Some(given) = open {
            given.over = Some(now);
        }
        condition.prune();
    }

    /// A semaphore was made with this value.
    pub(crate) fn semaphore_made(&mut self, semaphore: u64, value: u64) {
        self.semaphores.insert(semaphore, Semaphore { own: value, posts: VecDeque::new() });
    }

    /// A post begins; the number of the occasion.
    pub(crate) fn posts(&mut self, semaphore: u64) -> Wakeup {
        let wakeup = self.new_wakeup();
        self.semaphores.entry(semaphore).or_default().posts.push_back(wakeup);
        wakeup
    }

    /// A wait for a semaphore got what it wanted; from whom, if from a post.
    pub(crate) fn took(&mut self, semaphore: u64) -> Option<Wakeup> {
        let semaphore = self.semaphores.entry(semaphore).or_default();
        if semaphore.own > 0 {
            semaphore.own -= 1;
            return None;
        }
        semaphore.posts.pop_front()
    }

    /// A barrier was made for so many.
    pub(crate) fn barrier_made(&mut self, barrier: u64, parties: u32) {
        self.barriers.insert(barrier, Barrier { parties, arrived: 0, met: 0 });
    }

    /// A thread comes to a barrier; none where nobody saw it being made.
    pub(crate) fn arrives(&mut self, object: u64) -> Option<Arrival> {
        let barrier = self.barriers.get_mut(&object)?;
        let arrival = Arrival { object, before: barrier.met, parties: barrier.parties };
        barrier.arrived += 1;
        if barrier.arrived >= barrier.parties {
            (barrier.arrived, barrier.met) = (0, barrier.met + 1);
        }
        Some(arrival)
    }

    /// Whether all came to that meeting.
    pub(crate) fn met(&self, arrival: Arrival) -> bool {
        self.barriers.get(&arrival.object).is_none_or(|barrier| barrier.met > arrival.before)
    }

    /// A thread was made whose `pthread_t` this will be.
    pub(crate) fn thread_made(&mut self, pthread: u64, thread: Thread) {
        self.threads.insert(pthread, thread);
    }

    /// The thread of a `pthread_t` that somebody may still join.
    pub(crate) fn thread_of(&self, pthread: u64) -> Option<Thread> {
        self.threads.get(&pthread).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const C: u64 = 0x100;
    const A: Thread = Thread(1);
    const B: Thread = Thread(2);
    const SIGNALLER: Thread = Thread(0);

    fn signal(matching: &mut Matching, all: bool) -> Wakeup {
        let wakeup = matching.signals(C, SIGNALLER, all);
        matching.signalled(C, SIGNALLER);
        wakeup
    }

    #[test]
    fn each_signal_ends_one_wait_the_oldest_first_and_a_broadcast_all() {
        let mut matching = Matching::default();
        matching.waits(C, A);
        matching.waits(C, B);
        let first = signal(&mut matching, false);
        let second = signal(&mut matching, false);
        assert_eq!(matching.waited(C, B, true), Some(first));
        assert_eq!(matching.waited(C, A, true), Some(second));
        matching.waits(C, A);
        matching.waits(C, B);
        let all = signal(&mut matching, true);
        assert_eq!(matching.waited(C, A, true), Some(all));
        matching.waits(C, A);
        assert_eq!(matching.waited(C, B, true), Some(all));
        assert_eq!(matching.waited(C, A, true), None, "it began after the broadcast: it woke up for nothing");
        assert!(matching.conditions[&C].given.is_empty(), "nothing is kept that can end no wait");
    }

    #[test]
    fn a_signal_to_nobody_ends_nothing_but_one_that_overlaps_the_beginning_of_a_wait_may() {
        let mut matching = Matching::default();
        signal(&mut matching, false);
        matching.waits(C, A);
        assert_eq!(matching.waited(C, A, true), None);
        let overlapping = matching.signals(C, SIGNALLER, false);
        matching.waits(C, A);
        matching.signalled(C, SIGNALLER);
        assert_eq!(matching.waited(C, A, true), Some(overlapping));
    }

    #[test]
    fn a_wait_that_timed_out_uses_no_signal() {
        let mut matching = Matching::default();
        matching.waits(C, A);
        matching.waits(C, B);
        let only = signal(&mut matching, false);
        assert_eq!(matching.waited(C, A, false), None);
        assert_eq!(matching.waited(C, B, true), Some(only));
    }

    #[test]
    fn semaphores_give_their_own_first_and_then_posts_in_order() {
        let mut matching = Matching::default();
        matching.semaphore_made(C, 1);
        let (first, second) = (matching.posts(C), matching.posts(C));
        assert_eq!([matching.took(C), matching.took(C), matching.took(C)], [None, Some(first), Some(second)]);
        matching.semaphore_made(C, 0);
        let third = matching.posts(C);
        assert_eq!(matching.took(C), Some(third));
    }

    #[test]
    fn a_barrier_is_met_when_all_came() {
        let mut matching = Matching::default();
        assert_eq!(matching.arrives(C), None);
        matching.barrier_made(C, 2);
        let first = matching.arrives(C).unwrap();
        assert!(!matching.met(first));
        let second = matching.arrives(C).unwrap();
        assert!(matching.met(first) && matching.met(second) && second.parties == 2);
        let third = matching.arrives(C).unwrap();
        assert!(!matching.met(third));
    }
}
