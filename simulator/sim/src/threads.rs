//! Threads of the simulated program, and how they wait for each other.
//!
//! Recorded wake-ups are honoured: a wait ends when the signal that ended it in the recording has been given. Locks are not:
//! who asks first in simulated time gets them first. A wake-up that came before its wait in simulated time ends it at once,
//! so that a replay cannot lose one.
//!
//! Locks and wake-ups together may come to where nobody can go on: who waits for a wake-up holds a lock that it got earlier than in
//! the recording, before those that have to wake it. Then, and only then, the lock is [lent](Threads::lend).
//!
//! Who is woken late, because the kernel has something else to do first, holds nothing meanwhile: a lock goes to the next in
//! the line, or stays free for whoever asks, and the late one asks again when he runs.

use crate::error::{SimulationError, Waiting};
use crate::hooks::{Woken, WokenFrom};
use crate::statistics::{ThreadTimes, WaitKind};
use quaver_trace::step::{Sync, Thread, Wakeup};
use std::collections::{HashMap, VecDeque};

/// What a step of synchronisation leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consequences {
    /// Whether the thread that did the step goes on.
    pub goes_on: bool,
    /// Threads that may go on since, in the order in which they were woken.
    pub woken: Vec<Thread>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ThreadState {
    NotStarted,
    Runs,
    Waits { since_fs: u64, reason: Reason },
    Ended,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reason {
    Lock(u64),
    ReadLock(u64),
    Wakeup { object: u64, mutex: u64, wakeup: Wakeup },
    Barrier(u64),
    Join(Thread),
}

impl Reason {
    fn kind_and_object(&self) -> (WaitKind, u64) {
        match self {
            Self::Lock(object) | Self::ReadLock(object) => (WaitKind::Lock, *object),
            Self::Wakeup { object, .. } => (WaitKind::Wakeup, *object),
            Self::Barrier(object) => (WaitKind::Barrier, *object),
            Self::Join(thread) => (WaitKind::Join, u64::from(thread.0)),
        }
    }
}

/// What a thread that was woken late has to ask for when it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    /// Nothing: it goes on.
    Nothing,
    /// A lock, to write or to read.
    Lock { object: u64, write: bool },
}

/// A wait that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedWait {
    /// Who waited.
    pub thread: Thread,
    /// For what.
    pub kind: WaitKind,
    /// Address of the lock, condition or barrier; the number of the thread whose end was waited for, or that starts.
    pub object: u64,
    /// When it began, femtoseconds of simulated time.
    pub start_fs: u64,
    /// When it ended.
    pub end_fs: u64,
}

/// Numbers of wake-ups that were given: a bit each in pages, since they are numbered one after the other.
#[derive(Clone, Debug, Default)]
struct WakeupSet(HashMap<u64, [u64; 8]>);

impl WakeupSet {
    fn insert(&mut self, wakeup: Wakeup) {
        let page = self.0.entry(wakeup.0 >> 9).or_default();
        page[(wakeup.0 >> 6 & 7) as usize] |= 1 << (wakeup.0 & 63);
    }

    fn contains(&self, wakeup: Wakeup) -> bool {
        let page = self.0.get(&(wakeup.0 >> 9));
        page.is_some_and(|page| page[(wakeup.0 >> 6 & 7) as usize] >> (wakeup.0 & 63) & 1 == 1)
    }
}

/// A lock: who holds it, and who waits. Writers and readers wait in one line.
#[derive(Clone, Debug, Default)]
struct Lock {
    writer: Option<Thread>,
    readers: Vec<Thread>,
    waiting: VecDeque<(Thread, bool)>,
}

/// A barrier: who is there, and how often all were.
#[derive(Clone, Debug, Default)]
struct Barrier {
    there: Vec<Thread>,
    met: u64,
}

/// All threads and what is between them.
#[derive(Clone, Debug)]
pub struct Threads {
    states: Vec<ThreadState>,
    /// Begin, end and waiting of each.
    pub times: Vec<ThreadTimes>,
    /// Waits that have ended and were not taken from here.
    pub ended_waits: Vec<EndedWait>,
    /// The call that each thread waits in, and who let it go on.
    entered: Vec<(Option<Sync>, Option<Thread>)>,
    /// What each thread that was woken late asks for when it runs.
    asks: Vec<Option<Asks>>,
    locks: HashMap<u64, Lock>,
    barriers: HashMap<u64, Barrier>,
    /// Locks that a thread must have again before it goes on: those that it lent, then the mutex of its wait.
    wants: Vec<VecDeque<u64>>,
    /// Locks that were [lent](Self::lend) so far.
    pub lent: u64,
    given: WakeupSet,
    sleeping: HashMap<Wakeup, Vec<Thread>>,
    joining: HashMap<Thread, Vec<Thread>>,
}

impl Threads {
    /// `count` threads of which the first runs.
    pub fn new(count: usize) -> Self {
        let mut states = vec![ThreadState::NotStarted; count];
        if let Some(first) = states.first_mut() {
            *first = ThreadState::Runs;
        }
        Self {
            states,
            times: vec![ThreadTimes::default(); count],
            ended_waits: Vec::new(),
            entered: vec![(None, None); count],
            asks: vec![None; count],
            locks: HashMap::new(),
            barriers: HashMap::new(),
            wants: vec![VecDeque::new(); count],
            lent: 0,
            given: WakeupSet::default(),
            sleeping: HashMap::new(),
            joining: HashMap::new(),
        }
    }

    /// The thread waits in this call; none if it lost its core otherwise.
    pub fn enters(&mut self, thread: Thread, sync: Option<Sync>) {
        if sync.is_some() {
            self.entered[thread.0 as usize] = (sync, None);
        }
    }

    /// Who let the thread go on.
    pub fn woken_by(&mut self, thread: Thread, by: Thread) {
        self.entered[thread.0 as usize].1 = Some(by);
    }

    /// The call that the thread comes back from, if it waited in one, and who let it go on.
    pub fn take_entered(&mut self, thread: Thread) -> Option<(Sync, Option<Thread>)> {
        let (sync, by) = self.entered[thread.0 as usize];
        self.entered[thread.0 as usize] = (None, None);
        sync.map(|sync| (sync, by))
    }

    /// Whether all threads that were ever started have ended.
    pub fn all_ended(&self) -> bool {
        self.states.iter().all(|state| matches!(state, ThreadState::Ended | ThreadState::NotStarted))
    }

    /// Threads that have begun and not ended, each with the time that it came to: `now_fs`, or the start of its wait.
    pub(crate) fn under_way(&self, now_fs: u64) -> impl Iterator<Item = (usize, u64)> {
        self.states.iter().enumerate().filter_map(move |(thread, state)| match state {
            ThreadState::Runs => Some((thread, now_fs)),
            ThreadState::Waits { since_fs, .. } => Some((thread, *since_fs)),
            ThreadState::NotStarted | ThreadState::Ended => None,
        })
    }

    /// Who waits for what, in words.
    pub fn stuck(&self, at_fs: u64) -> SimulationError {
        let each = self.states.iter().enumerate().filter_map(|(thread, state)| match state {
            ThreadState::Waits { reason, .. } => {
                Some(Waiting { thread: thread as u32, what: self.words(reason) })
            }
            _ => None,
        });
        SimulationError::Stuck { at_ns: at_fs / 1_000_000, waiting: each.collect() }
    }

    fn words(&self, reason: &Reason) -> String {
        match reason {
            Reason::Lock(object) | Reason::ReadLock(object) => {
                let holders = self.locks.get(object);
                let holder = holders.and_then(|lock| lock.writer.or(lock.readers.first().copied()));
                match holder {
                    Some(Thread(holder)) => format!("the lock at {object:#x}, which thread {holder} holds"),
                    None => format!("the lock at {object:#x}"),
                }
            }
            Reason::Wakeup { object, wakeup, .. } => {
                format!("wake-up {} of the condition at {object:#x}, which nobody has given", wakeup.0)
            }
            Reason::Barrier(object) => {
                let there = self.barriers.get(object).map_or(0, |barrier| barrier.there.len());
                format!("the barrier at {object:#x}, to which {there} have come: too few")
            }
            Reason::Join(Thread(thread)) => format!("the end of thread {thread}"),
        }
    }

    fn order(&self, thread: Thread, what: String) -> SimulationError {
        SimulationError::Order { thread: thread.0, what }
    }

    fn wait(&mut self, thread: Thread, since_fs: u64, reason: Reason) {
        self.states[thread.0 as usize] = ThreadState::Waits { since_fs, reason };
    }

    fn wake(&mut self, thread: Thread, at_fs: u64, woken: &mut Vec<Thread>) {
        self.wait_ends(thread, at_fs);
        self.states[thread.0 as usize] = ThreadState::Runs;
        woken.push(thread);
    }

    /// Times of all threads; a wait that has not ended counts until `at_fs`.
    pub fn times_by(&self, at_fs: u64) -> Vec<ThreadTimes> {
        let mut all = self.times.clone();
        for (times, state) in all.iter_mut().zip(&self.states) {
            if let ThreadState::Waits { since_fs, reason } = state {
                let waited_fs = at_fs.saturating_sub(*since_fs);
                times.waited_fs += waited_fs;
                times.waited_for_fs[reason.kind_and_object().0 as usize] += waited_fs;
            }
        }
        all
    }

    fn wait_ends(&mut self, thread: Thread, at_fs: u64) {
        let (since_fs, (kind, object)) = match &self.states[thread.0 as usize] {
            ThreadState::Waits { since_fs, reason } => (*since_fs, reason.kind_and_object()),
            ThreadState::NotStarted => (at_fs, (WaitKind::Create, u64::from(thread.0))),
            ThreadState::Runs | ThreadState::Ended => return,
        };
        let times = &mut self.times[thread.0 as usize];
        times.waited_fs += at_fs - since_fs;
        times.waited_for_fs[kind as usize] += at_fs - since_fs;
        self.ended_waits.push(EndedWait { thread, kind, object, start_fs: since_fs, end_fs: at_fs });
    }

    /// `thread` does this step at `at_fs`; to be asked in the order of time. `late` says of each thread that is woken by it
    /// whether it is late; then it is to [ask again](Self::ask_again) when it runs.
    pub fn step(
        &mut self,
        thread: Thread,
        sync: Sync,
        at_fs: u64,
        late: &mut impl FnMut(Woken<'_>) -> bool,
    ) -> Result<Consequences, SimulationError> {
        let mut woken = Vec::new();
        let goes_on = match sync {
            Sync::Create { thread: child } => self.create(thread, child, at_fs, &mut woken)?,
            Sync::Join { thread: other } => self.join(thread, other, at_fs)?,
            Sync::Lock { object } => self.lock(thread, object, true, at_fs),
            Sync::ReadLock { object } => self.lock(thread, object, false, at_fs),
            Sync::Unlock { object } | Sync::ReadUnlock { object } => {
                self.unlock(thread, object, at_fs, &mut woken, late)?;
                true
            }
            Sync::Signal { wakeup, .. } => {
                self.give(wakeup, WokenFrom::Signal, at_fs, &mut woken, late);
                true
            }
            Sync::Broadcast { wakeup, .. } => {
                self.give(wakeup, WokenFrom::Broadcast, at_fs, &mut woken, late);
                true
            }
            Sync::Wait { object, mutex, by } => {
                self.wait_for(thread, (object, mutex, by), at_fs, &mut woken, late)?
            }
            Sync::Barrier { object, parties } => {
                self.meet(thread, (object, parties), at_fs, &mut woken, late)?
            }
        };
        Ok(Consequences { goes_on, woken })
    }

    /// `thread` has ended at `at_fs`.
    pub fn end(&mut self, thread: Thread, at_fs: u64) -> Vec<Thread> {
        self.states[thread.0 as usize] = ThreadState::Ended;
        self.times[thread.0 as usize].end_fs = at_fs;
        let mut woken = Vec::new();
        for waiting in self.joining.remove(&thread).unwrap_or_default() {
            self.wake(waiting, at_fs, &mut woken);
        }
        woken
    }

    fn create(
        &mut self,
        thread: Thread,
        child: Thread,
        at_fs: u64,
        woken: &mut Vec<Thread>,
    ) -> Result<bool, SimulationError> {
        match self.states.get(child.0 as usize) {
            Some(ThreadState::NotStarted) => {}
            Some(_) => {
                return Err(
                    self.order(thread, format!("starts thread {}, which was started before", child.0))
                );
            }
            None => {
                return Err(
                    self.order(thread, format!("starts thread {}, of which there are no steps", child.0))
                );
            }
        }
        self.times[child.0 as usize].start_fs = at_fs;
        self.wake(child, at_fs, woken);
        Ok(true)
    }

    fn join(&mut self, thread: Thread, other: Thread, at_fs: u64) -> Result<bool, SimulationError> {
        match self.states.get(other.0 as usize) {
            Some(ThreadState::Ended) => Ok(true),
            Some(ThreadState::NotStarted) | None => Err(self
                .order(thread, format!("waits for the end of thread {}, which was never started", other.0))),
            Some(_) => {
                self.joining.entry(other).or_default().push(thread);
                self.wait(thread, at_fs, Reason::Join(other));
                Ok(false)
            }
        }
    }

    fn lock(&mut self, thread: Thread, object: u64, write: bool, at_fs: u64) -> bool {
        let lock = self.locks.entry(object).or_default();
        let free = lock.writer.is_none() && lock.waiting.is_empty() && (!write || lock.readers.is_empty());
        // A recursive mutex is taken again by its holder.
        if free || lock.writer == Some(thread) {
            if write {
                lock.writer = Some(thread);
            } else {
                lock.readers.push(thread);
            }
            return true;
        }
        lock.waiting.push_back((thread, write));
        let reason = if write { Reason::Lock(object) } else { Reason::ReadLock(object) };
        self.wait(thread, at_fs, reason);
        false
    }

    fn unlock(
        &mut self,
        thread: Thread,
        object: u64,
        at_fs: u64,
        woken: &mut Vec<Thread>,
        late: &mut impl FnMut(Woken<'_>) -> bool,
    ) -> Result<(), SimulationError> {
        let lock = self.locks.entry(object).or_default();
        if lock.writer == Some(thread) {
            lock.writer = None;
        } else if let Some(place) = lock.readers.iter().position(|reader| *reader == thread) {
            lock.readers.swap_remove(place);
        } else {
            return Err(
                self.order(thread, format!("gives back the lock at {object:#x}, which it does not hold"))
            );
        }
        self.pass_on(object, at_fs, woken, late);
        Ok(())
    }

    /// A lock that may be free goes to who waits for it.
    fn pass_on(
        &mut self,
        object: u64,
        at_fs: u64,
        woken: &mut Vec<Thread>,
        late: &mut impl FnMut(Woken<'_>) -> bool,
    ) {
        let lock = self.locks.entry(object).or_default();
        let mut next = Vec::new();
        while let Some(&(waiting, write)) = lock.waiting.front() {
            let free = lock.writer.is_none() && (!write || lock.readers.is_empty());
            if !free {
                break;
            }
            lock.waiting.pop_front();
            if late(Woken { thread: waiting, from: WokenFrom::Lock, occasion: 0, with: &[waiting] }) {
                self.asks[waiting.0 as usize] = Some(Asks::Lock { object, write });
            } else if write {
                lock.writer = Some(waiting);
            } else {
                lock.readers.push(waiting);
            }
            next.push(waiting);
        }
        for waiting in next {
            self.has_lock(waiting, at_fs, woken);
        }
    }

    fn give(
        &mut self,
        wakeup: Wakeup,
        from: WokenFrom,
        at_fs: u64,
        woken: &mut Vec<Thread>,
        late: &mut impl FnMut(Woken<'_>) -> bool,
    ) {
        self.given.insert(wakeup);
        let sleepers = self.sleeping.remove(&wakeup).unwrap_or_default();
        for &thread in &sleepers {
            let one = Woken { thread, from, occasion: wakeup.0, with: &sleepers };
            self.after_wait(one, at_fs, woken, late);
        }
    }

    /// A waiter was woken: it wants its mutex back before it goes on.
    fn after_wait(
        &mut self,
        one: Woken<'_>,
        at_fs: u64,
        woken: &mut Vec<Thread>,
        late: &mut impl FnMut(Woken<'_>) -> bool,
    ) {
        let sleeper = one.thread;
        let ThreadState::Waits { reason: Reason::Wakeup { mutex, .. }, .. } = self.states[sleeper.0 as usize]
        else {
            return;
        };
        let is_late = late(one);
        let lent = !self.wants[sleeper.0 as usize].is_empty();
        if is_late {
            let lock = Asks::Lock { object: mutex, write: true };
            self.asks[sleeper.0 as usize] = Some(if mutex == 0 || lent { Asks::Nothing } else { lock });
        }
        if mutex == 0 && !lent || is_late {
            return self.wake(sleeper, at_fs, woken);
        }
        if lent {
            return self.wants_back(sleeper, at_fs, woken);
        }
        self.wait_ends(sleeper, at_fs);
        if self.lock(sleeper, mutex, true, at_fs) {
            self.states[sleeper.0 as usize] = ThreadState::Runs;
            woken.push(sleeper);
        }
    }

    fn wait_for(
        &mut self,
        thread: Thread,
        (object, mutex, by): (u64, u64, Option<Wakeup>),
        at_fs: u64,
        woken: &mut Vec<Thread>,
        late: &mut impl FnMut(Woken<'_>) -> bool,
    ) -> Result<bool, SimulationError> {
        if mutex != 0 {
            self.unlock(thread, mutex, at_fs, woken, late)?;
        }
        match by {
            Some(wakeup) if !self.given.contains(wakeup) => {
                self.sleeping.entry(wakeup).or_default().push(thread);
                self.wait(thread, at_fs, Reason::Wakeup { object, mutex, wakeup });
                Ok(false)
            }
            _ => Ok(mutex == 0 || self.lock(thread, mutex, true, at_fs)),
        }
    }

    fn meet(
        &mut self,
        thread: Thread,
        (object, parties): (u64, u32),
        at_fs: u64,
        woken: &mut Vec<Thread>,
        late: &mut impl FnMut(Woken<'_>) -> bool,
    ) -> Result<bool, SimulationError> {
        if parties == 0 {
            return Err(self.order(thread, format!("meets nobody at the barrier at {object:#x}")));
        }
        let barrier = self.barriers.entry(object).or_default();
        if barrier.there.len() + 1 < parties as usize {
            barrier.there.push(thread);
            self.wait(thread, at_fs, Reason::Barrier(object));
            return Ok(false);
        }
        barrier.met += 1;
        // Different for each time that all meet, at whatever barrier.
        let occasion = object.rotate_left(32) ^ barrier.met;
        let there = std::mem::take(&mut barrier.there);
        for &other in &there {
            if late(Woken { thread: other, from: WokenFrom::Barrier, occasion, with: &there }) {
                self.asks[other.0 as usize] = Some(Asks::Nothing);
            }
            self.wake(other, at_fs, woken);
        }
        Ok(true)
    }

    /// Whether the thread was woken late, and must ask again.
    pub fn is_late(&self, thread: Thread) -> bool {
        self.asks[thread.0 as usize].is_some()
    }

    /// A thread that was woken late runs: whether it has what it waited for. If not it waits again, before all others.
    pub fn ask_again(&mut self, thread: Thread, at_fs: u64) -> bool {
        let Some(Asks::Lock { object, write }) = self.asks[thread.0 as usize].take() else {
            return self.takes_back(thread, at_fs);
        };
        let lock = self.locks.entry(object).or_default();
        if lock.writer.is_none() && (!write || lock.readers.is_empty()) {
            if write {
                lock.writer = Some(thread);
            } else {
                lock.readers.push(thread);
            }
            return self.takes_back(thread, at_fs);
        }
        lock.waiting.push_front((thread, write));
        let reason = if write { Reason::Lock(object) } else { Reason::ReadLock(object) };
        self.wait(thread, at_fs, reason);
        false
    }
}

mod lending;

#[cfg(test)]
mod tests;
