//! The rules, asked of the whole history.

use super::history::Event;
use quaver_abi::sync::{SyncKind, SyncOutcome};

/// A wait that somebody ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Matched {
    /// When it returned.
    pub ended_ns: u64,
    /// Who waited.
    pub thread: u32,
    /// Who ended it.
    pub waker: u32,
    /// 0: signal-wait, 2: broadcast-wait, 4: lock-unlock, as the paper orders them.
    pub class: usize,
    /// From when on it was late: the waker's entry, or its own where that came later.
    pub released_ns: u64,
    /// Whether it returned on another core than it began on.
    pub moved: bool,
}

/// What the twin finds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// In the order of their returns.
    pub matched: Vec<Matched>,
    /// Returns of waits that got what they waited for.
    pub wake_ups: u64,
    /// Number and whole time of each class, in the paper's order.
    pub timed: [(u64, u64); 6],
    /// Signals and posts that woke nobody.
    pub signals_for_nobody: u64,
    /// Entries that were given up and returns without an entry.
    pub alone: (u64, u64),
    /// On the critical path: the classes, waits that nobody ended, and how often it changes threads.
    pub path: ([u64; 6], u64, u64),
}

/// A call, by the places of its events.
#[derive(Clone, Copy, Debug)]
struct Call {
    entry: usize,
    /// Where it is over: its return, or the next call that says that the return was lost.
    over: Option<usize>,
    returned: bool,
}

fn is_wait(kind: SyncKind) -> bool {
    matches!(
        kind,
        SyncKind::WaitEntry
            | SyncKind::SemWaitEntry
            | SyncKind::BarrierEntry
            | SyncKind::LockEntry
            | SyncKind::ReadLockEntry
    )
}

fn is_signal(kind: SyncKind) -> bool {
    matches!(kind, SyncKind::SignalEntry | SyncKind::PostEntry)
}

fn is_wake(kind: SyncKind) -> bool {
    is_signal(kind) || matches!(kind, SyncKind::BroadcastEntry | SyncKind::UnlockEntry)
}

fn class_of(kind: SyncKind) -> usize {
    match kind {
        SyncKind::BroadcastEntry => 3,
        SyncKind::UnlockEntry => 5,
        _ => 1,
    }
}

struct Twin<'a> {
    events: &'a [Event],
    calls: Vec<Call>,
    /// By the entry of a signal: where somebody took it.
    taken: Vec<Option<usize>>,
    /// By the entry of a signal: it returned and woke nobody.
    discarded: Vec<bool>,
    /// By the entry of a wait at a barrier: the entry of who let it through.
    let_through: Vec<Option<usize>>,
}

/// All calls of a history, in the order of their entries.
fn calls(events: &[Event]) -> Vec<Call> {
    let entries = (0..events.len()).filter(|&at| is_wait(events[at].kind) || is_wake(events[at].kind));
    entries
        .map(|entry| {
            let own = &events[entry];
            let family = if is_wait(own.kind) { is_wait } else { is_wake };
            let later = (entry + 1..events.len()).filter(|&at| events[at].thread == own.thread);
            for at in later {
                let other = &events[at];
                if other.kind as u8 == own.kind as u8 + 1 && other.object == own.object {
                    return Call { entry, over: Some(at), returned: true };
                }
                if family(other.kind) {
                    return Call { entry, over: Some(at), returned: false };
                }
            }
            Call { entry, over: None, returned: false }
        })
        .collect()
}

impl Twin<'_> {
    fn call_at(&self, entry: usize) -> Call {
        *self.calls.iter().find(|call| call.entry == entry).expect("each entry has a call")
    }

    /// Whether the call was over before the event at `at`.
    fn over_before(&self, entry: usize, at: usize) -> bool {
        self.call_at(entry).over.is_some_and(|over| over < at)
    }

    /// Waits on an object that have begun and are not over just before the event at `at`.
    fn present(&self, object: u64, at: usize) -> Vec<usize> {
        let waits = self.calls.iter().filter(|call| {
            let event = &self.events[call.entry];
            is_wait(event.kind) && event.object == object && call.entry < at
        });
        waits.filter(|call| call.over.is_none_or(|over| over >= at)).map(|call| call.entry).collect()
    }

    fn wakes(&self, object: u64, before: usize, kind: fn(SyncKind) -> bool) -> Vec<usize> {
        let wakes = self.calls.iter().map(|call| call.entry).filter(|&entry| {
            entry < before && self.events[entry].object == object && kind(self.events[entry].kind)
        });
        wakes.collect()
    }

    /// A signal returns untaken: it is worth nothing where as many returned ones are on their way as wait.
    fn signal_returns(&mut self, entry: usize, at: usize) {
        if self.taken[entry].is_some() {
            return;
        }
        let object = self.events[entry].object;
        let present = self.present(object, at);
        let on_their_way = self
            .wakes(object, at, is_signal)
            .into_iter()
            .filter(|&other| other != entry && self.taken[other].is_none() && !self.discarded[other])
            .filter(|&other| self.over_before(other, at))
            .filter(|&other| {
                let over = self.call_at(other).over.unwrap_or(usize::MAX);
                present.iter().any(|&wait| wait < over)
            })
            .collect::<Vec<_>>();
        if on_their_way.len() < present.len() {
            return;
        }
        // Of a semaphore the oldest goes: whoever found it above zero took that one.
        match on_their_way.first() {
            Some(&oldest) if self.events[entry].kind == SyncKind::PostEntry => self.discarded[oldest] = true,
            _ => self.discarded[entry] = true,
        }
    }

    /// Who ended the wait on a condition or semaphore that returned at `at`.
    fn signal_for(&mut self, wait: usize, at: usize) -> Option<(usize, usize)> {
        let object = self.events[wait].object;
        let reaches = |twin: &Self, entry: usize| !twin.over_before(entry, wait);
        let signals = self
            .wakes(object, at, is_signal)
            .into_iter()
            .filter(|&entry| self.taken[entry].is_none() && !self.discarded[entry] && reaches(self, entry));
        let broadcasts = self
            .wakes(object, at, |kind| kind == SyncKind::BroadcastEntry)
            .into_iter()
            .filter(|&entry| reaches(self, entry));
        // Those since the wait began come first, the earliest of them before all.
        let best = signals.chain(broadcasts).min_by_key(|&entry| (entry < wait, entry))?;
        if is_signal(self.events[best].kind) {
            self.taken[best] = Some(at);
            return Some((best, 0));
        }
        Some((best, 2))
    }

    /// Nobody waits for the lock, and its latest unlocks have returned, right after the event at `at`.
    fn is_idle(&self, object: u64, at: usize) -> bool {
        let unlocks = self.wakes(object, at + 1, |kind| kind == SyncKind::UnlockEntry);
        let write = unlocks.iter().rev().find(|&&entry| !self.is_read_unlock(entry));
        self.present(object, at + 1).is_empty()
            && unlocks.last().is_none_or(|&entry| self.over_before(entry, at + 1))
            && write.is_none_or(|&entry| self.over_before(entry, at + 1))
    }

    /// Whether the unlocker had been seen to get the lock for reading, with something going on at it ever since.
    fn is_read_unlock(&self, entry: usize) -> bool {
        let unlock = &self.events[entry];
        let own =
            |at: &usize| self.events[*at].thread == unlock.thread && self.events[*at].object == unlock.object;
        for at in (0..entry).rev() {
            let event = &self.events[at];
            if event.object == unlock.object && self.is_idle(unlock.object, at) {
                return false;
            }
            if own(&at) && event.kind == SyncKind::UnlockEntry {
                return false;
            }
            let got = event.kind == SyncKind::ReadLockExit && event.outcome == SyncOutcome::Ok;
            if own(&at) && got && self.calls.iter().any(|call| call.returned && call.over == Some(at)) {
                return true;
            }
        }
        false
    }

    /// Whose unlock let in who asked at `wait`.
    fn unlock_for(&self, wait: usize, at: usize) -> Option<usize> {
        let unlocks = self.wakes(self.events[wait].object, at, |kind| kind == SyncKind::UnlockEntry);
        let counts = |entry: &usize| *entry > wait || !self.over_before(*entry, wait);
        let latest = unlocks.last().copied().filter(counts);
        if self.events[wait].kind != SyncKind::ReadLockEntry {
            return latest;
        }
        let write = unlocks.iter().rev().copied().find(|&entry| !self.is_read_unlock(entry));
        write.filter(counts).or(latest)
    }

    /// Who let through a wait at a barrier: the latest arrival of all who waited when the first of them left.
    fn arrival_for(&mut self, wait: usize, at: usize) -> usize {
        if let Some(arrival) = self.let_through[wait] {
            return arrival;
        }
        let waiting = self.present(self.events[wait].object, at);
        let together: Vec<usize> =
            waiting.into_iter().filter(|&entry| self.let_through[entry].is_none()).collect();
        let arrival = together.iter().copied().max().unwrap_or(wait);
        together.iter().for_each(|&entry| self.let_through[entry] = Some(arrival));
        arrival
    }

    /// Release and class of a wait that returned with what it waited for.
    fn release_of(&mut self, wait: usize, at: usize) -> Option<(usize, usize)> {
        match self.events[wait].kind {
            SyncKind::BarrierEntry => Some((self.arrival_for(wait, at), 2)),
            SyncKind::LockEntry | SyncKind::ReadLockEntry => Some((self.unlock_for(wait, at)?, 4)),
            _ => self.signal_for(wait, at),
        }
    }
}

/// What became of one call, for the walk along the critical path.
struct CallOutcome {
    thread: u32,
    entry: usize,
    over: usize,
    class: usize,
    /// None: nobody ended the wait. A call that wakes has its own entry.
    release: Option<usize>,
}

/// What the rules say of the history.
pub fn answer(events: &[Event]) -> Answer {
    let mut twin = Twin {
        events,
        calls: calls(events),
        taken: vec![None; events.len()],
        discarded: vec![false; events.len()],
        let_through: vec![None; events.len()],
    };
    let mut answer = Answer::default();
    let mut done = Vec::new();
    for (at, event) in events.iter().enumerate() {
        let over: Vec<Call> = twin.calls.iter().copied().filter(|call| call.over == Some(at)).collect();
        let is_exit = !is_wait(event.kind) && !is_wake(event.kind);
        answer.alone.1 += u64::from(is_exit && over.is_empty());
        for call in over {
            answer.alone.0 += u64::from(!call.returned);
            finish(&mut twin, &call, at, &mut answer, &mut done);
        }
    }
    answer.signals_for_nobody = signals_for_nobody(&twin);
    answer.path = walk(events, &done);
    answer
}

fn finish(twin: &mut Twin<'_>, call: &Call, at: usize, answer: &mut Answer, done: &mut Vec<CallOutcome>) {
    let events = twin.events;
    let (entry, kind) = (call.entry, events[call.entry].kind);
    if is_signal(kind) {
        twin.signal_returns(entry, at);
    }
    if !call.returned {
        return;
    }
    let thread = events[at].thread;
    let took_ns = events[at].at_ns - events[entry].at_ns;
    if is_wake(kind) {
        let class = class_of(kind);
        answer.timed[class].0 += 1;
        answer.timed[class].1 += took_ns;
        let inside = twin.calls.iter().any(|other| {
            is_wait(events[other.entry].kind)
                && events[other.entry].thread == thread
                && other.entry < at
                && other.over.is_none_or(|over| over > at)
        });
        if !inside {
            done.push(CallOutcome { thread, entry, over: at, class, release: Some(entry) });
        }
        return;
    }
    if events[at].outcome != SyncOutcome::Ok {
        done.push(CallOutcome { thread, entry, over: at, class: 0, release: None });
        return;
    }
    let found = twin.release_of(entry, at);
    let Some((release, class)) = found else {
        answer.wake_ups += 1;
        done.push(CallOutcome { thread, entry, over: at, class: 0, release: None });
        return;
    };
    if release == entry {
        // It let the others through.
        answer.timed[3].0 += 1;
        answer.timed[3].1 += took_ns;
        done.push(CallOutcome { thread, entry, over: at, class: 3, release: Some(entry) });
        return;
    }
    let released_ns = events[release].at_ns.max(events[entry].at_ns);
    answer.wake_ups += 1;
    answer.timed[class].0 += 1;
    answer.timed[class].1 += events[at].at_ns - released_ns;
    answer.matched.push(Matched {
        ended_ns: events[at].at_ns,
        thread,
        waker: events[release].thread,
        class,
        released_ns,
        moved: events[entry].cpu != events[at].cpu,
    });
    done.push(CallOutcome { thread, entry, over: at, class, release: Some(release) });
}

fn signals_for_nobody(twin: &Twin<'_>) -> u64 {
    let end = twin.events.len();
    let signals = twin.calls.iter().filter(|call| is_signal(twin.events[call.entry].kind));
    let for_nobody = signals.filter(|call| {
        let Some(over) = call.over else { return false };
        let object = twin.events[call.entry].object;
        let reachable = || twin.present(object, end).iter().any(|&wait| wait < over);
        twin.taken[call.entry].is_none() && (twin.discarded[call.entry] || !reachable())
    });
    for_nobody.count() as u64
}

/// Backwards from the last event: each matched wait leads to who ended it.
fn walk(events: &[Event], done: &[CallOutcome]) -> ([u64; 6], u64, u64) {
    let (mut classes, mut blocked, mut hops) = ([0; 6], 0, 0);
    let Some(last) = events.last() else { return (classes, blocked, hops) };
    let (mut thread, mut until) = (last.thread, events.len());
    while let Some(step) =
        done.iter().filter(|one| one.thread == thread && one.over < until).max_by_key(|one| one.over)
    {
        let end_ns = events[step.over].at_ns;
        until = step.entry;
        match step.release {
            None => blocked += end_ns - events[step.entry].at_ns,
            Some(release) => {
                classes[step.class] += end_ns - events[release.max(step.entry)].at_ns;
                if release > step.entry {
                    hops += 1;
                    thread = events[release].thread;
                    until = release;
                }
            }
        }
    }
    (classes, blocked, hops)
}
