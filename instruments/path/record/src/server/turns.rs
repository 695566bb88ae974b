//! One test at a time (or as many as permitted); the next ones wait in their order. A party has as many as it may.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
struct TurnQueue {
    /// Whose tests run.
    running: Vec<IpAddr>,
    /// Whose tests wait, with their numbers.
    waiting: VecDeque<(u64, IpAddr)>,
    next: u64,
}

/// Who measures and who waits.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    state: Arc<Mutex<TurnQueue>>,
    tests: usize,
    queue: usize,
    per_party: usize,
}

/// The right to measure; dropping it lets the next one.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Turns,
    party: IpAddr,
}

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
    /// The party has as many tests as it may.
    Enough,
    Full,
}

impl Turns {
    pub(super) fn new(tests: usize, queue: usize, per_party: usize) -> Self {
        Self { state: Arc::default(), tests: tests.max(1), queue, per_party: per_party.max(1) }
    }

    fn state(&self) -> MutexGuard<'_, TurnQueue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The right to measure, or a place in the queue if `wait`.
    pub(super) fn enter(&self, party: IpAddr, wait: bool) -> Entry {
        let mut state = self.state();
        let of_all = state.running.iter().chain(state.waiting.iter().map(|(_, party)| party));
        if of_all.filter(|other| **other == party).count() >= self.per_party {
            return Entry::Enough;
        }
        if state.running.len() < self.tests && state.waiting.is_empty() {
            state.running.push(party);
            return Entry::Now(Turn { turns: self.clone(), party });
        }
        if !wait || state.waiting.len() >= self.queue {
            return Entry::Full;
        }
        let number = state.next;
        state.next += 1;
        state.waiting.push_back((number, party));
        Entry::Wait(Ticket { turns: self.clone(), number })
    }
}

impl Ticket {
    /// 1 for the next one.
    pub(super) fn place(&self) -> u32 {
        let state = self.turns.state();
        let before = state.waiting.iter().position(|(number, _)| *number == self.number);
        before.map_or(1, |before| before as u32 + 1)
    }

    /// The right to measure, if it is this one's turn.
    pub(super) fn turn(&self) -> Option<Turn> {
        let mut state = self.turns.state();
        let (number, party) = *state.waiting.front()?;
        if number != self.number || state.running.len() >= self.turns.tests {
            return None;
        }
        state.waiting.pop_front();
        state.running.push(party);
        Some(Turn { turns: self.turns.clone(), party })
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.turns.state().waiting.retain(|(number, _)| *number != self.number);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.turns.state();
        if let Some(place) = state.running.iter().position(|party| *party == self.party) {
            state.running.swap_remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const PARTY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

    #[test]
    fn turns_come_in_order_and_leavers_are_left_out() {
        let turns = Turns::new(1, 2, 9);
        let Entry::Now(first) = turns.enter(PARTY, true) else { panic!("free") };
        let Entry::Wait(second) = turns.enter(PARTY, true) else { panic!("waits") };
        let Entry::Wait(third) = turns.enter(PARTY, true) else { panic!("waits") };
        assert!(matches!(turns.enter(PARTY, true), Entry::Full));
        assert!(matches!(turns.enter(PARTY, false), Entry::Full));
        assert_eq!((second.place(), third.place()), (1, 2));
        assert!(second.turn().is_none());
        drop(first);
        assert!(third.turn().is_none(), "not before the second");
        assert!(matches!(turns.enter(PARTY, false), Entry::Full), "nobody overtakes those who wait");
        drop(second);
        assert_eq!(third.place(), 1);
        let turn = third.turn().expect("its turn");
        drop(third);
        assert!(matches!(turns.enter(PARTY, false), Entry::Full));
        drop(turn);
        assert!(matches!(turns.enter(PARTY, false), Entry::Now(_)));
    }

    #[test]
    fn as_many_as_permitted_run() {
        let turns = Turns::new(2, 0, 9);
        let (one, two) = (turns.enter(PARTY, false), turns.enter(PARTY, false));
        assert!(matches!((&one, &two), (Entry::Now(_), Entry::Now(_))));
        assert!(matches!(turns.enter(PARTY, true), Entry::Full));
        drop(one);
        assert!(matches!(turns.enter(PARTY, true), Entry::Now(_)));
    }

    #[test]
    fn a_party_runs_or_waits_once_and_others_have_their_turn() {
        let turns = Turns::new(2, 4, 1);
        let first = turns.enter(PARTY, true);
        assert!(matches!(turns.enter(PARTY, true), Entry::Enough), "though a place is free");
        let second = turns.enter(OTHER, true);
        assert!(matches!((&first, &second), (Entry::Now(_), Entry::Now(_))));
        drop(first);
        let Entry::Now(again) = turns.enter(PARTY, true) else { panic!("its test is over") };
        let third = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 3));
        let Entry::Wait(waits) = turns.enter(third, true) else { panic!("waits") };
        assert!(matches!(turns.enter(third, true), Entry::Enough), "it waits already");
        drop(again);
        let turn = waits.turn().expect("its turn");
        assert!(matches!(turns.enter(third, true), Entry::Enough), "it runs");
        drop((waits, turn));
        assert!(matches!(turns.enter(third, true), Entry::Now(_)));
    }
}
