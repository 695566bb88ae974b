//! One test at a time (or as many as permitted); the next ones wait in their order.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
struct State {
    running: usize,
    waiting: VecDeque<u64>,
    next: u64,
}

/// Who measures and who waits.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    state: Arc<Mutex<State>>,
    tests: usize,
    queue: usize,
}

/// The right to measure; dropping it lets the next one.
#[derive(Debug)]
pub(super) struct Turn(Turns);

/// A place in the queue; dropping it leaves the queue.
#[derive(Debug)]
pub(super) struct Ticket {
    turns: Turns,
    number: u64,
}

/// What a test that wants to begin gets.
#[derive(Debug)]
pub(super) enum Entry {
    Now(Turn),
    Wait(Ticket),
    Full,
}

impl Turns {
    pub(super) fn new(tests: usize, queue: usize) -> Self {
        Self { state: Arc::default(), tests: tests.max(1), queue }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The right to measure, or a place in the queue if `wait`.
    pub(super) fn enter(&self, wait: bool) -> Entry {
        let mut state = self.state();
        if state.running < self.tests && state.waiting.is_empty() {
            state.running += 1;
            return Entry::Now(Turn(self.clone()));
        }
        if !wait || state.waiting.len() >= self.queue {
            return Entry::Full;
        }
        let number = state.next;
        state.next += 1;
        state.waiting.push_back(number);
        Entry::Wait(Ticket { turns: self.clone(), number })
    }
}

impl Ticket {
    /// 1 for the next one.
    pub(super) fn place(&self) -> u32 {
        let state = self.turns.state();
        let before = state.waiting.iter().position(|number| *number == self.number);
        before.map_or(1, |before| before as u32 + 1)
    }

    /// The right to measure, if it is this one's turn.
    pub(super) fn turn(&self) -> Option<Turn> {
        let mut state = self.turns.state();
        let mine = state.running < self.turns.tests && state.waiting.front() == Some(&self.number);
        mine.then(|| {
            state.waiting.pop_front();
            state.running += 1;
            Turn(self.turns.clone())
        })
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.turns.state().waiting.retain(|number| *number != self.number);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.state().running -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_come_in_order_and_leavers_are_left_out() {
        let turns = Turns::new(1, 2);
        let Entry::Now(first) = turns.enter(true) else { panic!("free") };
        let Entry::Wait(second) = turns.enter(true) else { panic!("waits") };
        let Entry::Wait(third) = turns.enter(true) else { panic!("waits") };
        assert!(matches!(turns.enter(true), Entry::Full));
        assert!(matches!(turns.enter(false), Entry::Full));
        assert_eq!((second.place(), third.place()), (1, 2));
        assert!(second.turn().is_none());
        drop(first);
        assert!(third.turn().is_none(), "not before the second");
        assert!(matches!(turns.enter(false), Entry::Full), "nobody overtakes those who wait");
        drop(second);
        assert_eq!(third.place(), 1);
        let turn = third.turn().expect("its turn");
        drop(third);
        assert!(matches!(turns.enter(false), Entry::Full));
        drop(turn);
        assert!(matches!(turns.enter(false), Entry::Now(_)));
    }

    #[test]
    fn as_many_as_permitted_run() {
        let turns = Turns::new(2, 0);
        let (one, two) = (turns.enter(false), turns.enter(false));
        assert!(matches!((&one, &two), (Entry::Now(_), Entry::Now(_))));
        assert!(matches!(turns.enter(true), Entry::Full));
        drop(one);
        assert!(matches!(turns.enter(true), Entry::Now(_)));
    }
}
