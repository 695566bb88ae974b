//! Futex system calls of a program beside the recorder's events. Who waits in the kernel inside a recorded call is known by that
//! call. All other futex calls become events of their own: those of runtimes that bring their own locks and barriers (OpenMP, Go),
//! of the C library (its allocator and files), and of processes that are not recorded.

use crate::sync::{AnyEvent, SyncEvent, ThreadId};
use quaver_abi::sync::SyncKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How far the recorder's clock may be from the kernel's, nanoseconds: a futex call that seems to begin so much before a recorded
/// call of its thread is inside it. Anchors tie the two within 1 µs; an interrupt between the two reads of an anchor takes tens.
const SKEW_NS: u64 = 50_000;

/// How the two sides agree. Futex calls: those inside and outside are all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Reconciled {
    /// Calls of the thread library that were recorded and have ended.
    pub calls: u64,
    /// Of these, such that did not have to go into the kernel: what they wanted was there, or nobody waited.
    pub calls_without_kernel: u64,
    /// Futex waits inside a recorded call of the same thread. One call may wait several times.
    pub waits_inside: u64,
    /// Of these, waits inside a recorded futex call of the program's own: such a call is one wait.
    pub waits_inside_futex: u64,
    /// Futex waits outside of every recorded call.
    pub waits_outside: u64,
    /// Of these, waits that are events of their own. The rest are those of threads before their recording began.
    pub waits_followed: u64,
    /// Futex wakes and requeues inside a recorded call.
    pub wakes_inside: u64,
    /// And outside.
    pub wakes_outside: u64,
}

impl Reconciled {
    /// Waits on futex words: calls of their own, inside a recorded one or outside.
    pub const fn waits_on_words(&self) -> u64 {
        self.waits_inside_futex + self.waits_followed
    }

    /// Waits inside calls for other objects: locks, conditions, semaphores, barriers, ends of threads.
    pub const fn waits_on_objects(&self) -> u64 {
        self.waits_inside - self.waits_inside_futex
    }

    /// All futex waits: on words, on objects and unseen ones.
    pub const fn waits(&self) -> u64 {
        self.waits_inside + self.waits_outside
    }

    /// Waits that no figure holds.
    pub const fn waits_unseen(&self) -> u64 {
        self.waits_outside - self.waits_followed
    }
}

/// Holds the one against the other, in time order, and passes on what is to be analysed.
#[derive(Debug, Default)]
pub struct Reconciler {
    /// Threads that have a recording, which may begin later than they do.
    recorded: BTreeSet<ThreadId>,
    threads: BTreeMap<ThreadId, Thread>,
    /// Process of each thread that was seen to be made.
    processes: BTreeMap<ThreadId, u32>,
    /// Numbers of processes without a recording.
    strangers: BTreeMap<u32, u16>,
    next_stranger: u16,
    /// Events of the latest [`SKEW_NS`].
    held: VecDeque<Held>,
    /// Events that were held and are not any more.
    passed: u64,
    figures: Reconciled,
}

#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    /// Recorded calls that have not returned; handlers of signals make some inside others.
    depth: u32,
    /// The outermost of them is a futex call.
    by_futex: bool,
    /// The outermost of them went into the kernel.
    asked: bool,
    /// The futex call that has not returned.
    futex: Option<FutexCall>,
    /// Image of its latest recorded event.
    process: Option<u16>,
    /// The entry of its futex call was passed on, as an event of this process.
    followed: Option<u16>,
}

#[derive(Clone, Copy, Debug)]
struct FutexCall {
    waits: bool,
    /// A recorded call was open meanwhile.
    inside: bool,
    /// The outermost of these is a futex call itself.
    by_futex: bool,
    /// Number of the entry among all events.
    number: u64,
}

#[derive(Clone, Copy, Debug)]
enum Held {
    Event(AnyEvent),
    FutexEntry { event: SyncEvent, inside: bool },
    FutexExit(SyncEvent),
}

impl Held {
    fn at_ns(&self) -> u64 {
        match self {
            Self::Event(AnyEvent::Kernel(event)) => event.at_ns,
            Self::Event(AnyEvent::Sync(event)) | Self::FutexEntry { event, .. } | Self::FutexExit(event) => {
                event.at_ns
            }
        }
    }
}

/// Whether a call of the library begins, or ends; neither for starts and ends of threads.
fn begins(kind: SyncKind) -> Option<bool> {
    match kind {
        SyncKind::ThreadStart | SyncKind::ThreadExit => None,
        other if !other.is_call() => None,
        // Entries have odd numbers, returns even ones.
        other => Some(!(other as u8).is_multiple_of(2)),
    }
}

impl Reconciler {
    /// For the recordings of so many process images, with these threads.
    pub fn new(images: u16, recorded: BTreeSet<ThreadId>) -> Self {
        Self { recorded, next_stranger: images, ..Self::default() }
    }

    /// An event that is none of the kernel's futex calls.
    pub fn event(&mut self, event: &AnyEvent, take: &mut dyn FnMut(&AnyEvent)) {
        if let AnyEvent::Sync(event) = event {
            self.call(event);
        }
        self.hold(Held::Event(*event), take);
    }

    /// A thread was made, in this process.
    pub fn made(&mut self, thread: ThreadId, process: u32) {
        self.processes.insert(thread, process);
    }

    fn call(&mut self, event: &SyncEvent) {
        let thread = self.threads.entry(event.thread).or_default();
        thread.process = Some(event.process);
        let Some(begins) = begins(event.kind) else { return };
        if begins {
            if thread.depth == 0 {
                thread.asked = thread.futex.is_some();
                thread.by_futex = event.kind == SyncKind::FutexWaitEntry;
            }
            thread.depth += 1;
            if let Some(call) = &mut thread.futex {
                (call.inside, call.by_futex) = (true, thread.by_futex);
                let at = call.number.checked_sub(self.passed).and_then(|at| usize::try_from(at).ok());
                if let Some(Held::FutexEntry { inside, .. }) = at.and_then(|at| self.held.get_mut(at)) {
                    *inside = true;
                }
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
    pub fn futex(&mut self, event: &SyncEvent, take: &mut dyn FnMut(&AnyEvent)) {
        let number = self.passed + self.held.len() as u64;
        let thread = self.threads.entry(event.thread).or_default();
        let waits = matches!(event.kind, SyncKind::FutexWaitEntry | SyncKind::FutexWaitExit);
        let inside = thread.depth > 0;
        let by_futex = inside && thread.by_futex;
        thread.asked |= inside;
        if matches!(event.kind, SyncKind::FutexWaitEntry | SyncKind::FutexWakeEntry) {
            let before = thread.futex.replace(FutexCall { waits, inside, by_futex, number });
            self.count(before);
            self.hold(Held::FutexEntry { event: *event, inside }, take);
        } else {
            let ended = thread.futex.take().map(|call| FutexCall {
                inside: call.inside || inside,
                by_futex: call.by_futex || by_futex,
                ..call
            });
            self.count(ended);
            self.hold(Held::FutexExit(*event), take);
        }
    }

    fn hold(&mut self, held: Held, take: &mut dyn FnMut(&AnyEvent)) {
        let now_ns = held.at_ns();
        self.held.push_back(held);
        while self.held.front().is_some_and(|first| first.at_ns() + SKEW_NS < now_ns) {
            self.pass(take);
        }
    }

    /// Passes the oldest event on, unless it is a futex call of a recorded call.
    fn pass(&mut self, take: &mut dyn FnMut(&AnyEvent)) {
        let Some(first) = self.held.pop_front() else { return };
        self.passed += 1;
        match first {
            Held::Event(event) => take(&event),
            Held::FutexEntry { inside: true, .. } => {}
            Held::FutexEntry { event, inside: false } => {
                let Some(process) = self.process_of(event.thread) else { return };
                self.figures.waits_followed += u64::from(event.kind == SyncKind::FutexWaitEntry);
                self.threads.entry(event.thread).or_default().followed = Some(process);
                take(&AnyEvent::Sync(SyncEvent { process, ..event }));
            }
            Held::FutexExit(event) => {
                let thread = self.threads.get_mut(&event.thread);
                if let Some(process) = thread.and_then(|thread| thread.followed.take()) {
                    take(&AnyEvent::Sync(SyncEvent { process, ..event }));
                }
            }
        }
    }

    /// Number of the process that a thread's addresses belong to; none where its recording is still to begin.
    fn process_of(&mut self, thread: ThreadId) -> Option<u16> {
        let recorded = |thread| self.threads.get(&thread).and_then(|thread: &Thread| thread.process);
        if let Some(process) = recorded(thread) {
            return Some(process);
        }
        if self.recorded.contains(&thread) {
            return None;
        }
        // A thread that was made without the thread library shares the memory of its process.
        let process = self.processes.get(&thread).copied().unwrap_or(0);
        if let Some(process) = recorded(ThreadId(process)) {
            return Some(process);
        }
        let next = &mut self.next_stranger;
        Some(*self.strangers.entry(process).or_insert_with(|| {
            let number = *next;
            *next = number.saturating_add(1);
            number
        }))
    }

    fn count(&mut self, call: Option<FutexCall>) {
        let figures = &mut self.figures;
        let by_futex = call.is_some_and(|call| call.waits && call.inside && call.by_futex);
        figures.waits_inside_futex += u64::from(by_futex);
        match call.map(|call| (call.waits, call.inside)) {
            Some((true, true)) => figures.waits_inside += 1,
            Some((true, false)) => figures.waits_outside += 1,
            Some((false, true)) => figures.wakes_inside += 1,
            Some((false, false)) => figures.wakes_outside += 1,
            None => {}
        }
    }

    /// Passes the rest on, and says what was found in all.
    pub fn finish(mut self, take: &mut dyn FnMut(&AnyEvent)) -> Reconciled {
        while !self.held.is_empty() {
            self.pass(take);
        }
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
        for kind in SyncKind::ALL.iter().copied() {
            let name = format!("{kind:?}");
            let want = match kind {
                SyncKind::ThreadStart | SyncKind::ThreadExit => None,
                _ if !kind.is_call() => None,
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
        let mut told = Vec::new();
        let mut take = |event: &AnyEvent| told.push(*event);
        let mut both = Reconciler::default();
        // Thread 1 waits twice inside one call; thread 2 signals, once for somebody and once for nobody.
        both.event(&AnyEvent::Sync(event(10, 1, WaitEntry)), &mut take);
        both.futex(&event(11, 1, FutexWaitEntry), &mut take);
        both.event(&AnyEvent::Sync(event(12, 2, SignalEntry)), &mut take);
        both.futex(&event(13, 2, FutexWakeEntry), &mut take);
        both.futex(&event(14, 2, FutexWakeExit), &mut take);
        both.event(&AnyEvent::Sync(event(15, 2, SignalExit)), &mut take);
        both.futex(&event(16, 1, FutexWaitExit), &mut take);
        both.futex(&event(17, 1, FutexWaitEntry), &mut take);
        both.futex(&event(18, 1, FutexWaitExit), &mut take);
        both.event(&AnyEvent::Sync(event(19, 1, WaitExit)), &mut take);
        both.event(&AnyEvent::Sync(event(20, 2, SignalEntry)), &mut take);
        both.event(&AnyEvent::Sync(event(21, 2, SignalExit)), &mut take);
        // The kernel's clock is a little early.
        both.futex(&event(30, 1, FutexWaitEntry), &mut take);
        both.event(&AnyEvent::Sync(event(31, 1, LockEntry)), &mut take);
        both.futex(&event(39, 1, FutexWaitExit), &mut take);
        both.event(&AnyEvent::Sync(event(40, 1, LockExit)), &mut take);
        // A futex call that was recorded itself.
        both.event(&AnyEvent::Sync(event(42, 1, FutexWaitEntry)), &mut take);
        both.futex(&event(43, 1, FutexWaitEntry), &mut take);
        both.futex(&event(44, 1, FutexWaitExit), &mut take);
        both.event(&AnyEvent::Sync(event(45, 1, FutexWaitExit)), &mut take);
        // The allocator's, and one that never ends.
        both.futex(&event(50, 2, FutexWakeEntry), &mut take);
        both.futex(&event(51, 2, FutexWakeExit), &mut take);
        both.futex(&event(60, 3, FutexWaitEntry), &mut take);
        let want = Reconciled {
            calls: 5,
            calls_without_kernel: 1,
            waits_inside: 4,
            waits_inside_futex: 1,
            waits_outside: 1,
            waits_followed: 1,
            wakes_inside: 1,
            wakes_outside: 1,
        };
        let found = both.finish(&mut take);
        assert_eq!(found, want);
        assert_eq!(found.waits_on_words() + found.waits_on_objects() + found.waits_unseen(), found.waits());
        // What is inside is told by the call around it alone; what is outside, by itself.
        let futex = |event: &&AnyEvent| match event {
            AnyEvent::Sync(event) => event.kind as u8 >= FutexWaitEntry as u8 && event.at_ns >= 50,
            AnyEvent::Kernel(_) => false,
        };
        let outside =
            [event(50, 2, FutexWakeEntry), event(51, 2, FutexWakeExit), event(60, 3, FutexWaitEntry)];
        let told_outside: Vec<AnyEvent> = told.iter().filter(futex).copied().collect();
        assert_eq!(told_outside, outside.map(AnyEvent::Sync));
        assert_eq!(told.len(), 10 + outside.len());
    }

    #[test]
    fn events_stay_in_the_order_of_time_and_calls_of_one_process_share_their_words() {
        use SyncKind::{FutexWaitEntry, FutexWaitExit, FutexWakeEntry, FutexWakeExit, ThreadStart};
        let mut told = Vec::new();
        let mut take = |event: &AnyEvent| match event {
            AnyEvent::Sync(event) => told.push((event.at_ns, event.thread.0, event.process)),
            AnyEvent::Kernel(_) => panic!("there is none"),
        };
        let mut both = Reconciler::new(2, [7, 8].map(ThreadId).into());
        let of = |process, event: SyncEvent| AnyEvent::Sync(SyncEvent { process, ..event });
        both.event(&of(1, event(10, 7, ThreadStart)), &mut take);
        // Thread 8 is recorded from 30,000 on; 9 never, though its process is; 10 and 11 are of a process that is not.
        both.futex(&event(20, 8, FutexWaitEntry), &mut take);
        both.futex(&event(21, 8, FutexWaitExit), &mut take);
        both.made(ThreadId(9), 7);
        both.made(ThreadId(10), 10);
        both.made(ThreadId(11), 10);
        both.futex(&event(100_000, 9, FutexWaitEntry), &mut take);
        both.futex(&event(200_000, 10, FutexWaitEntry), &mut take);
        both.event(&of(1, event(300_000, 8, ThreadStart)), &mut take);
        both.futex(&event(400_000, 8, FutexWakeEntry), &mut take);
        both.futex(&event(400_001, 8, FutexWakeExit), &mut take);
        both.futex(&event(400_002, 11, FutexWakeEntry), &mut take);
        both.futex(&event(500_000, 9, FutexWaitExit), &mut take);
        let found = both.finish(&mut take);
        assert_eq!((found.waits_outside, found.waits_followed, found.waits_unseen()), (3, 2, 1));
        let want = [
            (10, 7, 1),
            (100_000, 9, 1),
            (200_000, 10, 2),
            (300_000, 8, 1),
            (400_000, 8, 1),
            (400_001, 8, 1),
            (400_002, 11, 2),
            (500_000, 9, 1),
        ];
        assert_eq!(told, want);
    }
}
