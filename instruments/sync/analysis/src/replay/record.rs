//! From events to the steps of threads.

use super::{Deed, Life, LockFacts, MOST_STEPS, Sequence, Step, Trace, tokens};
use crate::sync::{Observer, SoFar, Spending, SyncEvent, ThreadId, Wakeup};
use quaver_abi::sync::{CPU_UNKNOWN, SyncKind, SyncObject, SyncOutcome, outcome_flags};
use std::collections::HashMap;

/// A CPU that ran less than this part of what the busiest one did does not count.
const LEAST_USED: f64 = 0.05;

/// Keeps what ended the latest wait.
#[derive(Debug, Default)]
pub struct LatestWakeup(Option<Wakeup>);

impl LatestWakeup {
    /// That of the latest event, once.
    pub fn take(&mut self) -> Option<Wakeup> {
        self.0.take()
    }
}

impl Observer for LatestWakeup {
    fn woken(&mut self, wakeup: &Wakeup) {
        self.0 = Some(*wakeup);
    }
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug)]
struct OpenCall {
    entered_ns: u64,
    /// Run queue of the thread behind threads of the program until then.
    queued_ns: u64,
}

#[derive(Debug)]
pub(super) struct Builder {
    pub(super) process: u16,
    pub(super) sequence: Sequence,
    ended: bool,
    /// Parts of its time that are steps already.
    ran_ns: u64,
    slept_ns: u64,
    taken_ns: u64,
    open: Option<OpenCall>,
    /// The lock of its latest event, where that told the end of a timed hold. The unlock itself follows if somebody waits.
    given_back: Option<u32>,
    /// Of what has no step yet.
    pending_ran_ns: u64,
    pub(super) pending_slept_ns: u64,
}

impl Builder {
    fn push(&mut self, at_ns: u64, took_ns: u64, deed: Deed) -> &mut Step {
        let (ran_ns, slept_ns) =
            (std::mem::take(&mut self.pending_ran_ns), std::mem::take(&mut self.pending_slept_ns));
        self.sequence.steps.push(Step { at_ns, took_ns, ran_ns, slept_ns, deed, mark: 0 });
        self.sequence.steps.last_mut().expect("it was pushed just now")
    }
}

/// Takes the events of a run in time order.
#[derive(Debug, Default)]
pub struct Recorder {
    /// By process image.
    pub(super) lives: Vec<Life>,
    pub(super) threads: Vec<Builder>,
    pub(super) by_id: HashMap<ThreadId, usize>,
    /// Locks and conditions by process image and the low half of their address, which is all that a wait on a condition names.
    locks: HashMap<(u16, u32), u32>,
    lock_facts: Vec<LockFacts>,
    /// By lock: since when somebody has waited for its present hold, and whether a reader did.
    asked: Vec<(u64, bool)>,
    conditions: HashMap<(u16, u64), u32>,
    log: tokens::Log,
    rounds: HashMap<(u16, u64, ThreadId, u64), u32>,
    arrivals: Vec<u32>,
    /// By process image and the child's thread: the step of its creation.
    creations: HashMap<(u16, ThreadId), (usize, usize)>,
    ends: HashMap<(u16, u64), (usize, usize)>,
    marks: u32,
    steps: usize,
    first_ns: Option<u64>,
    last_ns: u64,
    cpu_ns: Vec<u64>,
    pub(super) full: bool,
}

impl Recorder {
    /// A recorder of these process images.
    pub fn of(lives: Vec<Life>) -> Self {
        Self { lives, ..Self::default() }
    }

    /// The next event. `wakeup`: what ended the wait that returns by it. `so_far`: what the thread's time went into until now.
    pub fn event(&mut self, event: &SyncEvent, wakeup: Option<Wakeup>, so_far: SoFar) {
        if self.full || matches!(event.kind, SyncKind::Anchor | SyncKind::Initialised) {
            return;
        }
        let now_ns = event.at_ns.max(self.last_ns);
        self.first_ns.get_or_insert(now_ns);
        self.last_ns = now_ns;
        let at = self.thread_of(event);
        let given_back = self.threads[at].given_back.take();
        self.spend(at, event.cpu, so_far);
        let queued_ns = so_far.crowded_ns;
        if event.kind.begins_wait() {
            self.threads[at].open = Some(OpenCall { entered_ns: now_ns, queued_ns });
        }
        if event.kind.ends_wait() {
            let Some(open) = self.threads[at].open.take() else { return };
            self.returned(at, event, now_ns, &open, wakeup, queued_ns.saturating_sub(open.queued_ns));
        } else {
            self.deed(at, event, now_ns, given_back);
        }
        self.full = self.steps >= MOST_STEPS;
    }

    fn thread_of(&mut self, event: &SyncEvent) -> usize {
        if let Some(&at) = self.by_id.get(&event.thread) {
            let old = &self.threads[at];
            if !old.ended && old.process == event.process && event.kind != SyncKind::ThreadStart {
                return at;
            }
        }
        let at = self.threads.len();
        self.threads.push(Builder {
            process: event.process,
            sequence: Sequence::default(),
            ended: false,
            ran_ns: 0,
            slept_ns: 0,
            taken_ns: 0,
            open: None,
            given_back: None,
            pending_ran_ns: 0,
            pending_slept_ns: 0,
        });
        self.by_id.insert(event.thread, at);
        at
    }

    /// Books what the thread did outside of blocking calls since its last event.
    pub(super) fn spend(&mut self, at: usize, cpu: u16, so_far: SoFar) {
        let thread = &mut self.threads[at];
        let parts_ns = so_far.parts_ns;
        // Loops that wait for others are within: for whom is not known.
        let ran_ns = parts_ns[Spending::Execution as usize];
        // A CPU that others have is as good as asleep. The threads of the program share CPUs anew.
        let taken_ns = parts_ns[Spending::RunQueue as usize] - so_far.crowded_ns;
        let taken_ns = taken_ns - std::mem::replace(&mut thread.taken_ns, taken_ns).min(taken_ns);
        thread.pending_slept_ns += if thread.open.is_none() { taken_ns } else { 0 };
        // Who gave its CPU away needed none, and a quota holds with any number of CPUs.
        let without = [Spending::Sleep, Spending::Spin, Spending::Quota];
        let slept_ns = without.iter().map(|spending| parts_ns[*spending as usize]).sum::<u64>();
        let since_ns = ran_ns.saturating_sub(thread.ran_ns);
        thread.pending_ran_ns += since_ns;
        thread.pending_slept_ns += slept_ns.saturating_sub(thread.slept_ns);
        (thread.ran_ns, thread.slept_ns) = (ran_ns, slept_ns);
        if cpu != CPU_UNKNOWN {
            let cpu = usize::from(cpu);
            self.cpu_ns.resize(self.cpu_ns.len().max(cpu + 1), 0);
            self.cpu_ns[cpu] += since_ns;
        }
    }

    pub(super) fn push(&mut self, at: usize, at_ns: u64, took_ns: u64, deed: Deed) -> &mut Step {
        self.steps += 1;
        self.threads[at].push(at_ns, took_ns, deed)
    }

    fn lock(&mut self, process: u16, address: u64, is_whole: bool) -> u32 {
        let next = self.lock_facts.len() as u32;
        let lock = *self.locks.entry((process, address as u32)).or_insert(next);
        if lock == next {
            self.lock_facts.push(LockFacts { process, ..LockFacts::default() });
            self.asked.push((0, false));
        }
        if is_whole {
            self.lock_facts[lock as usize].address = address;
        }
        lock
    }

    /// Deeds that wait for nobody.
    fn deed(&mut self, at: usize, event: &SyncEvent, now_ns: u64, given_back: Option<u32>) {
        let (process, object) = (event.process, event.object);
        match event.kind {
            SyncKind::LockEntry | SyncKind::ReadLockEntry => {
                let lock = self.lock(process, object, true) as usize;
                let (since_ns, reads) = self.asked[lock];
                let since_ns = if since_ns == 0 { now_ns } else { since_ns };
                self.asked[lock] = (since_ns, reads || event.kind == SyncKind::ReadLockEntry);
            }
            SyncKind::Taken => {
                let lock = self.lock(process, object, true);
                let shared = event.flags & outcome_flags::FOR_READING != 0;
                self.push(at, now_ns, 0, Deed::Get { lock, delay_ns: 0, shared });
                let unseen = self.threads[at].sequence.unseen.entry(lock).or_default();
                *unseen = (*unseen + u64::from(event.detail)).saturating_sub(1);
            }
            SyncKind::UnlockEntry if event.flags & outcome_flags::INSIDE_WAIT != 0 => {
                self.push(at, now_ns, 0, Deed::Wake);
                self.threads[at].given_back = given_back;
            }
            SyncKind::UnlockEntry | SyncKind::GivenBack => {
                let lock = self.lock(process, object, true);
                if given_back != Some(lock) {
                    self.give(at, lock, now_ns, event.detail == SyncObject::ReadWrite as u32);
                }
                self.asked[lock as usize] = (0, false);
                self.threads[at].given_back = (event.kind == SyncKind::GivenBack).then_some(lock);
            }
            SyncKind::WaitEntry => {
                let condition = self.condition(process, object);
                if event.detail != 0 {
                    let mutex = self.lock(process, event.detail.into(), false);
                    self.lock_facts[mutex as usize].of_condition = true;
                    self.log.waits(condition);
                    if given_back != Some(mutex) {
                        self.give(at, mutex, now_ns, false);
                    }
                }
            }
            SyncKind::SignalEntry => {
                let condition = self.condition(process, object);
                self.log.signals(condition);
                self.push(at, now_ns, 0, Deed::Signal { condition });
            }
            SyncKind::BroadcastEntry | SyncKind::PostEntry | SyncKind::FutexWakeEntry => {
                self.push(at, now_ns, 0, Deed::Wake);
            }
            SyncKind::Create => {
                self.push(at, now_ns, 0, Deed::Wake);
                let step = self.threads[at].sequence.steps.len() - 1;
                self.creations.insert((process, ThreadId(event.detail)), (at, step));
            }
            SyncKind::ThreadStart => self.start(at, event, now_ns),
            SyncKind::ThreadExit => {
                self.push(at, now_ns, 0, Deed::Wake);
                self.threads[at].ended = true;
                self.ends.insert((process, object), (at, self.threads[at].sequence.steps.len() - 1));
            }
            _ => {}
        }
    }

    fn condition(&mut self, process: u16, address: u64) -> u32 {
        let next = self.conditions.len() as u32;
        *self.conditions.entry((process, address)).or_insert(next)
    }

    fn give(&mut self, at: usize, lock: u32, now_ns: u64, is_read_write: bool) {
        let (asked_ns, reads) = std::mem::take(&mut self.asked[lock as usize]);
        // By default, a reader waits for writers alone.
        self.push(at, now_ns, 0, Deed::Give { lock, asked_ns, shared: is_read_write && !reads });
    }

    fn start(&mut self, at: usize, event: &SyncEvent, now_ns: u64) {
        let creation = self.creations.remove(&(event.process, event.thread));
        if let Some(maker) = self.maker(event).filter(|_| creation.is_none()) {
            return self.start_process(at, now_ns, maker);
        }
        let first_ns = self.first_ns.unwrap_or(now_ns);
        let from_ns =
            creation.map_or(first_ns, |(maker, step)| self.threads[maker].sequence.steps[step].at_ns);
        let mark = creation.map_or(0, |(maker, step)| self.mark(maker, step));
        let took_ns = now_ns - from_ns.min(now_ns);
        self.push(at, from_ns, took_ns, Deed::Await { mark, delay_ns: took_ns });
    }

    pub(super) fn mark(&mut self, thread: usize, step: usize) -> u32 {
        let step = &mut self.threads[thread].sequence.steps[step];
        if step.mark == 0 {
            self.marks += 1;
            step.mark = self.marks;
        }
        step.mark
    }

    /// The latest deed of a thread until then that others may wait for; 0 for none.
    fn mark_of(&mut self, by: ThreadId, until_ns: u64) -> u32 {
        let Some(&thread) = self.by_id.get(&by) else { return 0 };
        let steps = &self.threads[thread].sequence.steps;
        let after = steps.partition_point(|step| step.at_ns <= until_ns);
        let wakes = |step: &Step| matches!(step.deed, Deed::Give { .. } | Deed::Signal { .. } | Deed::Wake);
        let found = steps[..after].iter().rposition(wakes);
        found.map_or(0, |step| self.mark(thread, step))
    }

    /// A blocking call has returned.
    fn returned(
        &mut self,
        at: usize,
        event: &SyncEvent,
        now_ns: u64,
        open: &OpenCall,
        wakeup: Option<Wakeup>,
        queued_ns: u64,
    ) {
        let (entered_ns, took_ns) = (open.entered_ns, now_ns - open.entered_ns);
        let got = matches!(event.outcome, SyncOutcome::Ok | SyncOutcome::OwnerDied | SyncOutcome::Serial);
        let wakeup = wakeup.filter(|_| got);
        // Standing in a run queue follows anew from who runs.
        let delay =
            |released_ns: u64| (now_ns - released_ns.clamp(entered_ns, now_ns)).saturating_sub(queued_ns);
        let alone = Deed::Await { mark: 0, delay_ns: took_ns };
        match event.kind {
            SyncKind::LockExit | SyncKind::ReadLockExit => {
                let delay_ns = wakeup.map_or(0, |wakeup| delay(wakeup.released_ns));
                if wakeup.is_none() {
                    self.push(at, entered_ns, took_ns, alone);
                }
                if got {
                    let lock = self.lock(event.process, event.object, true);
                    let shared = event.kind == SyncKind::ReadLockExit;
                    let (at_ns, took_ns) = if wakeup.is_some() { (entered_ns, took_ns) } else { (now_ns, 0) };
                    self.push(at, at_ns, took_ns, Deed::Get { lock, delay_ns, shared });
                }
            }
            SyncKind::BarrierExit if got => {
                let key = wakeup.filter(|wakeup| wakeup.met);
                let (by, at_ns) =
                    key.map_or((event.thread, entered_ns), |wakeup| (wakeup.by, wakeup.released_ns));
                let next = self.arrivals.len() as u32;
                let round = *self.rounds.entry((event.process, event.object, by, at_ns)).or_insert(next);
                if round == next {
                    self.arrivals.push(0);
                }
                self.arrivals[round as usize] += 1;
                self.push(at, entered_ns, took_ns, Deed::Arrive { round, delay_ns: delay(at_ns) });
            }
            SyncKind::JoinExit => {
                let end = self.ends.get(&(event.process, event.object)).copied().filter(|_| got);
                let ended_ns = end.map(|(thread, step)| self.threads[thread].sequence.steps[step].at_ns);
                let mark = end.map_or(0, |(thread, step)| self.mark(thread, step));
                let delay_ns = ended_ns.map_or(took_ns, delay);
                self.push(at, entered_ns, took_ns, Deed::Await { mark, delay_ns });
            }
            kind => {
                let mark = wakeup.map_or(0, |wakeup| self.mark_of(wakeup.by, wakeup.released_ns));
                let delay_ns =
                    wakeup.filter(|_| mark != 0).map_or(took_ns, |wakeup| delay(wakeup.released_ns));
                self.push(at, entered_ns, took_ns, Deed::Await { mark, delay_ns });
                if kind == SyncKind::WaitExit && event.detail != 0 {
                    let lock = self.lock(event.process, event.detail.into(), false);
                    self.push(at, now_ns, 0, Deed::Get { lock, delay_ns: 0, shared: false });
                }
            }
        }
    }

    /// The run as it can be replayed. `kernel_seen`: running and sleeping were told apart.
    pub fn finish(self, kernel_seen: bool) -> Trace {
        let most_ns = self.cpu_ns.iter().copied().max().unwrap_or(0);
        let used = self.cpu_ns.iter().filter(|ns| **ns > 0 && **ns as f64 >= LEAST_USED * most_ns as f64);
        let cpus = used.count().max(1) as f64;
        let (rules, conditions) = (self.log.rules(), self.conditions.len() as u32);
        let mut threads: Vec<Sequence> = Vec::with_capacity(self.threads.len());
        for mut thread in self.threads {
            if thread.pending_ran_ns + thread.pending_slept_ns > 0 {
                thread.push(self.last_ns, 0, Deed::Wake);
            }
            let mut sequence = thread.sequence;
            if !kernel_seen {
                for step in &mut sequence.steps {
                    step.slept_ns += std::mem::take(&mut step.ran_ns);
                }
            }
            threads.push(sequence);
        }
        let mut trace = Trace {
            threads,
            locks: self.lock_facts,
            rounds: self.arrivals,
            marks: self.marks,
            conditions,
            rules,
            cpus,
            recorded_ns: self.last_ns - self.first_ns.unwrap_or(self.last_ns),
            complete: !self.full,
        };
        super::holds::complete(&mut trace);
        trace
    }
}
