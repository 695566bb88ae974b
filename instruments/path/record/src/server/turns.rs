//! Many tests at a time, as far as a budget goes; those beyond it wait. Of the budget each peer has a share.
//!
//! A test that waits goes as soon as it fits, and of those that fit the one that has waited longest. So a test that needs
//! much, or whose peer has used up its share, keeps no other waiting.

use crate::figures::ServerFigures;
use crate::limits::{Budget, Demand};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
struct TurnQueue {
    /// Tests that run, with their numbers.
    running: Vec<(u64, Test)>,
    /// Tests that wait, in their order.
    waiting: VecDeque<(u64, Test)>,
    next: u64,
}

/// Whose it is, and what it needs.
#[derive(Clone, Copy, Debug)]
struct Test {
    party: IpAddr,
    demand: Demand,
}

/// Who measures and who waits.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    state: Arc<Mutex<TurnQueue>>,
    budget: Budget,
    queue: usize,
    per_party: usize,
}

/// The right to measure; dropping it lets the next one.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Turns,
    number: u64,
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
    /// It needs more than one peer's share, so it will never fit.
    TooMuch,
}

impl Turns {
    pub(super) fn new(budget: Budget, queue: usize, per_party: usize) -> Self {
        Self { state: Arc::default(), budget, queue, per_party: per_party.max(1) }
    }

    fn state(&self) -> MutexGuard<'_, TurnQueue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many tests run and wait, and how much they need.
    pub(super) fn show(&self, figures: &mut ServerFigures) {
        let state = self.state();
        (figures.running, figures.waiting) = (state.running.len() as u64, state.waiting.len() as u64);
        let rates = state.running.iter().map(|(_, test)| test.demand.packets_per_second);
        figures.packets_per_second = rates.fold(0, u64::saturating_add);
    }

    /// The right to measure, or a place in the queue if `wait`.
    pub(super) fn enter(&self, party: IpAddr, demand: Demand, wait: bool) -> Entry {
        let mut state = self.state();
        let test = Test { party, demand };
        if !demand.is_within(&self.budget.share()) {
            return Entry::TooMuch;
        }
        let of_all = state.running.iter().chain(&state.waiting);
        if of_all.filter(|(_, other)| other.party == party).count() >= self.per_party {
            return Entry::Enough;
        }
        let number = state.next;
        state.next += 1;
        if state.fits(&test, &self.budget) && state.first_that_fits(&self.budget).is_none() {
            state.running.push((number, test));
            return Entry::Now(Turn { turns: self.clone(), number });
        }
        if !wait || state.waiting.len() >= self.queue {
            return Entry::Full;
        }
        state.waiting.push_back((number, test));
        Entry::Wait(Ticket { turns: self.clone(), number })
    }
}

impl TurnQueue {
    /// Whether the budget has room for a test, and so has the share of its site.
    fn fits(&self, test: &Test, budget: &Budget) -> bool {
        let running = || self.running.iter().map(|(_, other)| other);
        let of_site = || running().filter(|other| site(other.party) == site(test.party));
        // A peer that speaks Jitlat may send from any port, so that its flow and others of its host mix.
        let legacy = |other: &Test| other.demand.legacy;
        let mixes = if test.demand.legacy {
            running().any(legacy) || of_site().count() > 0
        } else {
            of_site().any(legacy)
        };
        let sum = |tests: &mut dyn Iterator<Item = &Test>| {
            tests.fold(test.demand, |sum, other| sum.plus(&other.demand))
        };
        self.running.len() < budget.tests
            && !mixes
            && sum(&mut running()).is_within(budget)
            && sum(&mut of_site()).is_within(&budget.share())
    }

    /// Number of the test that has its turn next, if any fits.
    fn first_that_fits(&self, budget: &Budget) -> Option<u64> {
        self.waiting.iter().find(|(_, test)| self.fits(test, budget)).map(|(number, _)| *number)
    }
}

/// Who shares one share: an IPv4 address, or an IPv6 network of 48 bits.
fn site(party: IpAddr) -> IpAddr {
    match party {
        IpAddr::V6(ip) => {
            let [a, b, c, ..] = ip.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0))
        }
        ip => ip,
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
        if state.first_that_fits(&self.turns.budget) != Some(self.number) {
            return None;
        }
        let place = state.waiting.iter().position(|(number, _)| *number == self.number)?;
        let waited = state.waiting.remove(place)?;
        state.running.push(waited);
        Some(Turn { turns: self.turns.clone(), number: self.number })
    }
}

impl Turn {
    /// Needs something else from now on. Says whether the budget has room for that; if not, all stays as it was.
    pub(super) fn change(&self, demand: Demand) -> bool {
        let mut state = self.turns.state();
        let Some(place) = state.running.iter().position(|(number, _)| *number == self.number) else {
            return false;
        };
        let (number, test) = state.running.swap_remove(place);
        let changed = Test { demand, ..test };
        let fits = state.fits(&changed, &self.turns.budget);
        state.running.push((number, if fits { changed } else { test }));
        fits
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.turns.state().waiting.retain(|(number, _)| *number != self.number);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.state().running.retain(|(number, _)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const PARTY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

    const LITTLE: Demand =
        Demand { packets_per_second: 100, bytes_per_second: 8_000, rows: 1_000, legacy: false };

    fn turns(tests: usize, queue: usize, per_party: usize) -> Turns {
        Turns::new(Budget { tests, ..Budget::default() }, queue, per_party)
    }

    fn enter(turns: &Turns, party: IpAddr, wait: bool) -> Entry {
        turns.enter(party, LITTLE, wait)
    }

    #[test]
    fn turns_come_in_order_and_leavers_are_left_out() {
        let turns = turns(1, 2, 9);
        let Entry::Now(first) = enter(&turns, PARTY, true) else { panic!("free") };
        let Entry::Wait(second) = enter(&turns, PARTY, true) else { panic!("waits") };
        let Entry::Wait(third) = enter(&turns, PARTY, true) else { panic!("waits") };
        assert!(matches!(enter(&turns, PARTY, true), Entry::Full));
        assert!(matches!(enter(&turns, PARTY, false), Entry::Full));
        assert_eq!((second.place(), third.place()), (1, 2));
        assert!(second.turn().is_none());
        drop(first);
        assert!(third.turn().is_none(), "not before the second");
        assert!(matches!(enter(&turns, PARTY, false), Entry::Full), "nobody overtakes those who wait");
        drop(second);
        assert_eq!(third.place(), 1);
        let turn = third.turn().expect("its turn");
        drop(third);
        assert!(matches!(enter(&turns, PARTY, false), Entry::Full));
        drop(turn);
        assert!(matches!(enter(&turns, PARTY, false), Entry::Now(_)));
    }

    #[test]
    fn as_many_as_permitted_run() {
        let turns = turns(2, 0, 9);
        let (one, two) = (enter(&turns, PARTY, false), enter(&turns, PARTY, false));
        assert!(matches!((&one, &two), (Entry::Now(_), Entry::Now(_))));
        assert!(matches!(enter(&turns, PARTY, true), Entry::Full));
        drop(one);
        assert!(matches!(enter(&turns, PARTY, true), Entry::Now(_)));
    }

    #[test]
    fn a_party_runs_or_waits_once_and_others_have_their_turn() {
        let turns = turns(2, 4, 1);
        let first = enter(&turns, PARTY, true);
        assert!(matches!(enter(&turns, PARTY, true), Entry::Enough), "though a place is free");
        let second = enter(&turns, OTHER, true);
        assert!(matches!((&first, &second), (Entry::Now(_), Entry::Now(_))));
        drop(first);
        let Entry::Now(again) = enter(&turns, PARTY, true) else { panic!("its test is over") };
        let third = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 3));
        let Entry::Wait(waits) = enter(&turns, third, true) else { panic!("waits") };
        assert!(matches!(enter(&turns, third, true), Entry::Enough), "it waits already");
        drop(again);
        let turn = waits.turn().expect("its turn");
        assert!(matches!(enter(&turns, third, true), Entry::Enough), "it runs");
        drop((waits, turn));
        assert!(matches!(enter(&turns, third, true), Entry::Now(_)));
    }

    /// A budget of 1,000 packets a second, half of it for one peer.
    fn thousand() -> Turns {
        let budget = Budget { packets_per_second: 1_000, share_packets_per_second: 500, ..Budget::default() };
        Turns::new(budget, 9, 9)
    }

    fn ask(turns: &Turns, party: IpAddr, packets_per_second: u64) -> Entry {
        turns.enter(party, Demand { packets_per_second, ..LITTLE }, true)
    }

    #[test]
    fn a_greedy_peer_waits_for_itself_and_others_pass_it() {
        let turns = thousand();
        let Entry::Now(_day) = ask(&turns, PARTY, 10) else { panic!("free") };
        assert!(matches!(ask(&turns, PARTY, 501), Entry::TooMuch));
        let Entry::Now(most) = ask(&turns, PARTY, 490) else { panic!("its share") };
        let Entry::Wait(more) = ask(&turns, PARTY, 1) else { panic!("beyond its share") };
        let Entry::Now(_other) = ask(&turns, OTHER, 400) else { panic!("has a share of its own") };
        let third = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 3));
        let Entry::Wait(large) = ask(&turns, third, 200) else { panic!("beyond the budget") };
        let Entry::Now(_small) = ask(&turns, third, 100) else { panic!("a small one passes") };
        assert!(more.turn().is_none() && large.turn().is_none());
        drop(most);
        assert!(large.turn().is_none(), "the first that fits goes first");
        let (_one, _two) = (more.turn().expect("fits"), large.turn().expect("fits"));
    }

    #[test]
    fn networks_of_a_site_share_one_share() {
        let turns = thousand();
        let peer = |network: u16| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, network, 0, 0, 0, 0));
        let _inside: Vec<Entry> = (0..5).map(|network| ask(&turns, peer(network), 100)).collect();
        assert!(matches!(ask(&turns, peer(9), 100), Entry::Wait(_)));
        assert!(matches!(ask(&turns, OTHER, 500), Entry::Now(_)));
    }

    #[test]
    fn bytes_and_rows_are_a_budget_too() {
        let budget = Budget { bytes_per_second: 10_000, rows: 1_500, ..Budget::default() };
        let budget = Budget { share_bytes_per_second: 10_000, share_rows: 1_500, ..budget };
        for demand in [Demand { rows: 0, ..LITTLE }, Demand { bytes_per_second: 0, ..LITTLE }] {
            let turns = Turns::new(budget, 9, 9);
            let _first = turns.enter(PARTY, demand, true);
            assert!(matches!(turns.enter(OTHER, demand, true), Entry::Wait(_)), "{demand:?}");
        }
    }

    #[test]
    fn what_changes_must_fit() {
        let turns = thousand();
        let Entry::Now(turn) = ask(&turns, PARTY, 1) else { panic!("free") };
        let Entry::Now(other) = ask(&turns, PARTY, 400) else { panic!("free") };
        let needs = |packets_per_second| Demand { packets_per_second, ..LITTLE };
        assert!(turn.change(needs(100)) && !turn.change(needs(101)));
        assert!(matches!(ask(&turns, PARTY, 1), Entry::Wait(_)), "it kept the 100");
        drop(other);
        assert!(turn.change(needs(500)));
    }

    #[test]
    fn a_peer_that_speaks_jitlat_is_alone_with_its_host() {
        let turns = thousand();
        let legacy = Demand { legacy: true, ..LITTLE };
        let Entry::Now(first) = turns.enter(PARTY, legacy, true) else { panic!("free") };
        let Entry::Wait(same) = ask(&turns, PARTY, 1) else { panic!("its packets would mix") };
        assert!(matches!(turns.enter(OTHER, legacy, true), Entry::Wait(_)), "one test port for all");
        assert!(matches!(ask(&turns, OTHER, 1), Entry::Now(_)));
        drop(first);
        let _running = same.turn().expect("its turn");
        assert!(matches!(turns.enter(PARTY, legacy, true), Entry::Wait(_)));
    }
}
