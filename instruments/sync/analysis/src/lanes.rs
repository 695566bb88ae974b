//! What each thread waited for over time, for drawings: shares of time in slices of the run, and the longest waits whole.
//!
//! Memory does not grow with the number of events: slices are fixed, and where there are too many waits the shorter half is let
//! go, so that what is drawn whole is always all waits from some length on.

use crate::sync::{SyncEvent, ThreadId};
use quaver_abi::sync::SyncKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Slices of the run.
pub const SLICES: usize = 480;
/// Waits that are kept whole.
const MOST_SPANS: usize = 40_000;
/// Threads that have slices.
const MOST_LANES: usize = 512;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitingFor {
    /// A lock.
    Lock,
    /// A condition, a semaphore, or a futex of the program's own.
    Signal,
    /// A barrier.
    Barrier,
    /// Another thread's end.
    Join,
}

impl WaitingFor {
    /// All.
    pub const ALL: [Self; 4] = [Self::Lock, Self::Signal, Self::Barrier, Self::Join];

    /// Name in drawings.
    pub const fn name(self) -> &'static str {
        ["lock", "wake-up", "barrier", "join"][self as usize]
    }
}

/// One wait from its call to its return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Who.
    pub thread: ThreadId,
    /// What for.
    pub what: WaitingFor,
    /// Process image.
    pub process: u16,
    /// Address of the lock or condition.
    pub object: u64,
    /// Call.
    pub start_ns: u64,
    /// Return.
    pub end_ns: u64,
}

/// One thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Which.
    pub thread: ThreadId,
    /// First event.
    pub first_ns: u64,
    /// Last event.
    pub last_ns: u64,
    /// Of each slice, time spent waiting, by [`WaitingFor`].
    pub slices: Vec<[u64; 4]>,
}

/// All threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// Where the first slice begins.
    pub from_ns: u64,
    /// Where the last one ends.
    pub to_ns: u64,
    /// In the order in which they were first seen.
    pub lanes: Vec<Lane>,
    /// Threads without slices, for there were too many.
    pub threads_left_out: u64,
    /// Whole waits, in the order of their ends: all from `shortest_ns` on.
    pub spans: Vec<Span>,
    /// Waits shorter than this are not among `spans`.
    pub shortest_ns: u64,
}

/// Gathers [`Lanes`].
#[derive(Debug)]
pub struct LaneKeeper {
    found: Lanes,
    place: BTreeMap<ThreadId, usize>,
    open: BTreeMap<ThreadId, (WaitingFor, u64, u64)>,
}

impl LaneKeeper {
    /// For a run of this length.
    pub fn new(from_ns: u64, to_ns: u64) -> Self {
        let found = Lanes {
            from_ns,
            to_ns: to_ns.max(from_ns + 1),
            lanes: Vec::new(),
            threads_left_out: 0,
            spans: Vec::new(),
            shortest_ns: 0,
        };
        Self { found, place: BTreeMap::new(), open: BTreeMap::new() }
    }

    /// Takes the next event.
    pub fn event(&mut self, event: &SyncEvent) {
        if let Some(lane) = self.lane(event.thread, event.at_ns) {
            lane.last_ns = event.at_ns;
        }
        match step(event.kind) {
            Step::Begins(what) => {
                self.open.insert(event.thread, (what, event.object, event.at_ns));
            }
            Step::Ends => {
                if let Some((what, object, start_ns)) = self.open.remove(&event.thread) {
                    self.span(Span {
                        thread: event.thread,
                        what,
                        process: event.process,
                        object,
                        start_ns,
                        end_ns: event.at_ns.max(start_ns),
                    });
                }
            }
            Step::Other => {}
        }
    }

    fn lane(&mut self, thread: ThreadId, at_ns: u64) -> Option<&mut Lane> {
        let lanes = &mut self.found.lanes;
        let place = match self.place.get(&thread) {
            Some(place) => *place,
            None => {
                self.place.insert(thread, lanes.len().min(MOST_LANES));
                if lanes.len() == MOST_LANES {
                    self.found.threads_left_out += 1;
                    return None;
                }
                lanes.push(Lane { thread, first_ns: at_ns, last_ns: at_ns, slices: vec![[0; 4]; SLICES] });
                lanes.len() - 1
            }
        };
        lanes.get_mut(place)
    }

    fn span(&mut self, span: Span) {
        let (from_ns, length_ns) = (self.found.from_ns, self.found.to_ns - self.found.from_ns);
        if let Some(lane) = self.lane(span.thread, span.start_ns) {
            add(&mut lane.slices, &span, from_ns, length_ns);
        }
        if span.end_ns - span.start_ns < self.found.shortest_ns {
            return;
        }
        let spans = &mut self.found.spans;
        spans.push(span);
        if spans.len() > MOST_SPANS {
            let mut lengths: Vec<u64> = spans.iter().map(|span| span.end_ns - span.start_ns).collect();
            let (_, middle, _) = lengths.select_nth_unstable(MOST_SPANS / 2);
            self.found.shortest_ns = *middle + 1;
            spans.retain(|span| span.end_ns - span.start_ns > *middle);
        }
    }

    /// What was gathered. Waits that nobody ended last until the end of the run.
    pub fn finish(mut self) -> Lanes {
        for (thread, (what, object, start_ns)) in std::mem::take(&mut self.open) {
            let end_ns = self.found.to_ns.max(start_ns);
            self.span(Span { thread, what, process: 0, object, start_ns, end_ns });
        }
        self.found
    }
}

/// Spreads a wait over the slices that it lies in.
fn add(slices: &mut [[u64; 4]], span: &Span, from_ns: u64, length_ns: u64) {
    let count = slices.len() as u64;
    let edge = |slice: u64| from_ns + (u128::from(length_ns) * u128::from(slice) / u128::from(count)) as u64;
    let place = |ns: u64| {
        let into = u128::from(ns.saturating_sub(from_ns)) * u128::from(count) / u128::from(length_ns);
        (into as u64).min(count - 1)
    };
    let (first, last) = (place(span.start_ns), place(span.end_ns));
    for slice in first..=last {
        let begin = span.start_ns.max(edge(slice));
        let end = span.end_ns.min(edge(slice + 1));
        slices[slice as usize][span.what as usize] += end.saturating_sub(begin);
    }
}

enum Step {
    Begins(WaitingFor),
    Ends,
    Other,
}

fn step(kind: SyncKind) -> Step {
    use SyncKind as K;
    match kind {
        K::LockEntry | K::ReadLockEntry => Step::Begins(WaitingFor::Lock),
        K::WaitEntry | K::SemWaitEntry | K::FutexWaitEntry => Step::Begins(WaitingFor::Signal),
        K::BarrierEntry => Step::Begins(WaitingFor::Barrier),
        K::JoinEntry => Step::Begins(WaitingFor::Join),
        K::LockExit | K::ReadLockExit | K::WaitExit | K::SemWaitExit | K::FutexWaitExit => Step::Ends,
        K::BarrierExit | K::JoinExit => Step::Ends,
        _ => Step::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at_ns: u64, thread: u32, kind: SyncKind) -> SyncEvent {
        SyncEvent::plain(at_ns, thread, kind, 7)
    }

    #[test]
    fn slices_hold_the_whole_time_that_was_waited() {
        let mut keeper = LaneKeeper::new(1_000, 1_000 + 4_800);
        let events = [
            event(1_000, 1, SyncKind::ThreadStart),
            event(1_005, 1, SyncKind::LockEntry),
            event(1_027, 1, SyncKind::LockExit),
            event(1_100, 2, SyncKind::WaitEntry),
            event(1_200, 2, SyncKind::SignalEntry),
            event(5_000, 2, SyncKind::WaitExit),
            event(5_700, 2, SyncKind::JoinEntry),
        ];
        events.iter().for_each(|event| keeper.event(event));
        let found = keeper.finish();
        assert_eq!(found.lanes.len(), 2);
        let sum = |lane: usize, what: WaitingFor| -> u64 {
            found.lanes[lane].slices.iter().map(|slice| slice[what as usize]).sum()
        };
        assert_eq!(sum(0, WaitingFor::Lock), 22);
        assert_eq!(found.lanes[0].slices[0], [5, 0, 0, 0], "a slice is 10 ns");
        assert_eq!(found.lanes[0].slices[1], [10, 0, 0, 0]);
        assert_eq!(sum(1, WaitingFor::Signal), 3_900);
        assert_eq!(sum(1, WaitingFor::Join), 100, "to the end of the run");
        assert_eq!((found.spans.len(), found.shortest_ns), (3, 0));
    }

    #[test]
    fn of_too_many_waits_the_longest_stay_and_the_limit_is_told() {
        let mut keeper = LaneKeeper::new(0, 1 << 40);
        let mut at_ns = 0;
        for number in 0..100_000_u64 {
            at_ns += 1_000;
            keeper.event(&event(at_ns, 1, SyncKind::LockEntry));
            at_ns += 1 + number * 7_919 % 100_003;
            keeper.event(&event(at_ns, 1, SyncKind::LockExit));
        }
        let found = keeper.finish();
        assert!(found.spans.len() <= MOST_SPANS && found.spans.len() >= MOST_SPANS / 4);
        let all = (0..100_000_u64).map(|number| 1 + number * 7_919 % 100_003);
        assert_eq!(found.spans.len(), all.filter(|length| *length >= found.shortest_ns).count());
    }
}
