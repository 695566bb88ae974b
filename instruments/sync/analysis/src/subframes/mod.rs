//! The subframes of a recorded program: for each thread, how much of each was its own work, waiting for others, and lost.
//!
//! A thread's subframe ends when its time is over, and is forced to end where the thread creates another, joins one, or ends (the
//! jitter-unit paper's 4.1.4). A thread that waits in a call ends its subframe when it returns: what it waits for belongs to one
//! subframe, and a thread that sleeps for long makes no work. What is lost is what [`Protocol`] says, by whichever thread it counts it for.

use crate::sync::{AnyEvent, Observer, Protocol, Settings, SyncEvent, SyncResults, ThreadId, Wakeup};
use quaver_abi::sync::{CPU_UNKNOWN, SyncKind};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

/// Why a subframe ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// Its time was over.
    InTime,
    /// The thread created another.
    AtCreate,
    /// The thread joined another.
    AtJoin,
    /// The thread ended.
    AtExit,
}

/// One subframe of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Subframe {
    /// Whose.
    pub thread: ThreadId,
    /// CPU that the thread was last seen on; [`CPU_UNKNOWN`] where that is not known.
    pub cpu: u16,
    /// When it began, nanoseconds.
    pub begin_ns: u64,
    /// When it ended, nanoseconds.
    pub end_ns: u64,
    /// Why.
    pub why: Ended,
    /// Whom the thread joined, where that ended it.
    pub joined: Option<ThreadId>,
    /// Of its time: neither waited nor lost, nanoseconds.
    pub own_ns: u64,
    /// In calls that wait for others, without what was lost there, nanoseconds.
    pub blocked_ns: u64,
    /// Lost to jitter, nanoseconds. What began in an earlier subframe, such as a call that wakes others, counts where it ended, so
    /// that it may exceed the subframe.
    pub lost_ns: u64,
}

impl Subframe {
    /// From its begin to its end, nanoseconds.
    pub const fn length_ns(&self) -> u64 {
        self.end_ns - self.begin_ns
    }
}

/// What a thread has done in its subframe so far, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoFar {
    /// Neither waited nor lost.
    pub own_ns: u64,
    /// In calls that wait for others, without what was lost there.
    pub blocked_ns: u64,
    /// Lost.
    pub lost_ns: u64,
}

/// What a thread came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A thread was seen for the first time.
    Began {
        /// Who.
        thread: ThreadId,
        /// Who made it, where that is known.
        parent: Option<ThreadId>,
        /// CPU that it was seen on.
        cpu: u16,
        /// When, nanoseconds.
        at_ns: u64,
    },
    /// A thread begins to wait for others.
    Waits {
        /// Who.
        thread: ThreadId,
    },
    /// It does not wait any more.
    GoesOn {
        /// Who.
        thread: ThreadId,
        /// CPU that it is on.
        cpu: u16,
    },
    /// A thread goes on since another ended its wait.
    Woken {
        /// Which wait.
        wakeup: Wakeup,
        /// What who waited has done in its subframe, without what this wake-up has lost.
        own: SoFar,
        /// What the other has.
        others: SoFar,
    },
    /// A subframe ended.
    Ended(Subframe),
}

/// Keeps the wake-up of the event that the protocol took last.
#[derive(Debug, Default)]
struct LastWakeup(Option<Wakeup>);

impl Observer for LastWakeup {
    fn woken(&mut self, wakeup: &Wakeup) {
        self.0 = Some(*wakeup);
    }
}

/// A thread that is alive.
#[derive(Clone, Copy, Debug)]
struct Thread {
    cpu: u16,
    since_ns: u64,
    waits_since_ns: Option<u64>,
    /// Of this subframe: time in calls that wait, and what was lost in them.
    waited_ns: u64,
    lost_waiting_ns: u64,
    /// What the protocol had counted for it when the subframe began.
    lost_before_ns: u64,
}

/// Cuts a program's threads into subframes.
#[derive(Debug)]
pub struct Cutter {
    protocol: Protocol<LastWakeup>,
    subframe_ns: u64,
    now_ns: u64,
    threads: BTreeMap<ThreadId, Thread>,
    /// By process image and `pthread_t`.
    handles: HashMap<(u16, u64), ThreadId>,
    /// When subframes may be over; an entry counts only if its thread's subframe still ends then.
    due: BinaryHeap<Reverse<(u64, ThreadId)>>,
}

impl Cutter {
    /// Nothing has happened. A subframe is `subframe_ns` long (the paper's: 330,000), at least 1.
    pub fn new(settings: Settings, subframe_ns: u64) -> Self {
        Self {
            protocol: Protocol::with_observer(settings, LastWakeup::default()),
            subframe_ns: subframe_ns.max(1),
            now_ns: 0,
            threads: BTreeMap::new(),
            handles: HashMap::new(),
            due: BinaryHeap::new(),
        }
    }

    /// Takes the next event of either side, in time order; one that is earlier than the one before counts as of its time.
    pub fn event(&mut self, event: &AnyEvent, sink: &mut dyn FnMut(Step)) {
        match event {
            AnyEvent::Kernel(kernel) => {
                self.until(kernel.at_ns, sink);
                self.protocol.kernel(kernel);
            }
            AnyEvent::Sync(sync) => self.sync(sync, sink),
        }
    }

    /// Nothing more will happen before `now_ns`: ends the subframes whose time is over.
    pub fn until(&mut self, now_ns: u64, sink: &mut dyn FnMut(Step)) {
        self.now_ns = self.now_ns.max(now_ns);
        while let Some(&Reverse((due_ns, thread))) = self.due.peek()
            && due_ns <= self.now_ns
        {
            self.due.pop();
            let ends = |state: &Thread| {
                state.waits_since_ns.is_none() && state.since_ns + self.subframe_ns == due_ns
            };
            if self.threads.get(&thread).is_some_and(ends) {
                self.end(thread, due_ns, Ended::InTime, None, sink);
            }
        }
    }

    /// The program has ended: ends all subframes at `now_ns`, or at the last event if that was later.
    pub fn finish(mut self, now_ns: u64, sink: &mut dyn FnMut(Step)) -> SyncResults {
        self.until(now_ns, sink);
        let left: Vec<ThreadId> = self.threads.keys().copied().collect();
        for thread in left {
            self.go_on(thread, 0);
            self.end(thread, self.now_ns, Ended::AtExit, None, sink);
        }
        self.protocol.finish()
    }

    /// Records that the recorder lost.
    pub fn lost(&mut self, records: u64) {
        self.protocol.lost(records);
    }

    fn sync(&mut self, event: &SyncEvent, sink: &mut dyn FnMut(Step)) {
        self.until(event.at_ns, sink);
        if !event.kind.is_call() {
            return self.protocol.event(event);
        }
        let thread = event.thread;
        if event.kind == SyncKind::ThreadStart {
            self.handles.insert((event.process, event.object), thread);
        }
        if !self.threads.contains_key(&thread) {
            self.begin(event, sink);
        }
        let before_ns = self.protocol.lost_ns(thread).unwrap_or(0);
        self.protocol.event(event);
        let so_far_ns = self.protocol.lost_ns(thread).unwrap_or(0);
        let lost_ns = so_far_ns.saturating_sub(before_ns);
        let now_ns = self.now_ns;
        let Some(state) = self.threads.get_mut(&thread) else { return };
        if event.cpu != CPU_UNKNOWN {
            state.cpu = event.cpu;
        }
        if so_far_ns < state.lost_before_ns {
            // The number was given again, or another program took the process over: the protocol counts anew.
            state.lost_before_ns = 0;
        }
        if event.kind.begins_wait() {
            state.waits_since_ns.get_or_insert(now_ns);
            sink(Step::Waits { thread });
        } else if event.kind.ends_wait() {
            self.go_on(thread, lost_ns);
            sink(Step::GoesOn {
                thread,
                cpu: self.threads.get(&thread).map_or(CPU_UNKNOWN, |state| state.cpu),
            });
        }
        if let Some(wakeup) = self.protocol.observer_mut().0.take()
            && let (Some(mut own), Some(others)) = (self.so_far(wakeup.thread), self.so_far(wakeup.by))
        {
            own.lost_ns = own.lost_ns.saturating_sub(lost_ns);
            sink(Step::Woken { wakeup, own, others });
        }
        self.forced(event, sink);
    }

    /// Ends the subframe of who does something that ends it.
    fn forced(&mut self, event: &SyncEvent, sink: &mut dyn FnMut(Step)) {
        let (thread, now_ns) = (event.thread, self.now_ns);
        match event.kind {
            SyncKind::Create => self.end(thread, now_ns, Ended::AtCreate, None, sink),
            SyncKind::JoinExit => {
                let joined = self.handles.remove(&(event.process, event.object));
                self.end(thread, now_ns, Ended::AtJoin, joined, sink);
            }
            SyncKind::ThreadExit => {
                self.go_on(thread, 0);
                self.end(thread, now_ns, Ended::AtExit, None, sink);
            }
            kind if kind.ends_wait() => {
                let over = |state: &Thread| state.since_ns + self.subframe_ns <= now_ns;
                if self.threads.get(&thread).is_some_and(over) {
                    self.end(thread, now_ns, Ended::InTime, None, sink);
                }
            }
            _ => {}
        }
    }

    fn begin(&mut self, event: &SyncEvent, sink: &mut dyn FnMut(Step)) {
        let parent = ThreadId(event.detail);
        let known = event.kind == SyncKind::ThreadStart && self.threads.contains_key(&parent);
        let state = Thread {
            cpu: event.cpu,
            since_ns: self.now_ns,
            waits_since_ns: None,
            waited_ns: 0,
            lost_waiting_ns: 0,
            lost_before_ns: 0,
        };
        self.threads.insert(event.thread, state);
        self.due.push(Reverse((self.now_ns + self.subframe_ns, event.thread)));
        let parent = known.then_some(parent);
        sink(Step::Began { thread: event.thread, parent, cpu: event.cpu, at_ns: self.now_ns });
    }

    /// The thread does not wait any more; so much of its wait was lost.
    fn go_on(&mut self, thread: ThreadId, lost_ns: u64) {
        let Some(state) = self.threads.get_mut(&thread) else { return };
        let Some(since_ns) = state.waits_since_ns.take() else { return };
        state.waited_ns += self.now_ns - since_ns;
        state.lost_waiting_ns += lost_ns;
        self.due.push(Reverse((state.since_ns + self.subframe_ns, thread)));
    }

    /// What the thread has done in its subframe until now; none of one that is not known.
    fn so_far(&mut self, thread: ThreadId) -> Option<SoFar> {
        self.so_far_at(thread, self.now_ns)
    }

    fn so_far_at(&mut self, thread: ThreadId, at_ns: u64) -> Option<SoFar> {
        let lost_so_far_ns = self.protocol.lost_ns(thread);
        let state = self.threads.get(&thread)?;
        let lost_ns = lost_so_far_ns.unwrap_or(0).saturating_sub(state.lost_before_ns);
        let waits_ns = state.waits_since_ns.map_or(0, |since_ns| at_ns.saturating_sub(since_ns));
        let blocked_ns = (state.waited_ns + waits_ns).saturating_sub(state.lost_waiting_ns);
        let own_ns = (at_ns - state.since_ns).saturating_sub(blocked_ns + lost_ns);
        Some(SoFar { own_ns, blocked_ns, lost_ns })
    }

    fn end(
        &mut self,
        thread: ThreadId,
        at_ns: u64,
        why: Ended,
        joined: Option<ThreadId>,
        sink: &mut dyn FnMut(Step),
    ) {
        let Some(SoFar { own_ns, blocked_ns, lost_ns }) = self.so_far_at(thread, at_ns) else { return };
        let Some(state) = self.threads.get_mut(&thread) else { return };
        let lost_so_far_ns = state.lost_before_ns + lost_ns;
        let (begin_ns, cpu) = (state.since_ns, state.cpu);
        (state.since_ns, state.lost_before_ns) = (at_ns, lost_so_far_ns);
        (state.waited_ns, state.lost_waiting_ns) = (0, 0);
        if why == Ended::AtExit {
            self.threads.remove(&thread);
        } else {
            self.due.push(Reverse((at_ns + self.subframe_ns, thread)));
        }
        let end_ns = at_ns;
        sink(Step::Ended(Subframe {
            thread,
            cpu,
            begin_ns,
            end_ns,
            why,
            joined,
            own_ns,
            blocked_ns,
            lost_ns,
        }));
    }
}

#[cfg(test)]
mod tests;
