//! Entries and exits, paired into intervals: pure, one CPU's stream at a time.
//!
//! What interrupts a CPU nests, so its open intervals are a stack. An exit without an entry (recording began in
//! between) and an entry whose exit never came are dropped and counted by reason, never guessed. Where records were
//! lost or recording paused, what was open is cut at the last instant that was seen.
//!
//! Every record names the thread that was current, so a context switch without a record shows: some machines record
//! nothing while certain tasks (threads of process 1, the idle task of a CPU) are current. The thread is then cut where it was last seen, and what follows
//! up to the next thread's first record belongs to no one.

use super::events::{Happening, Side};
use super::unpaired::{Unpaired, WorkBooks};
use quaver_abi::record::{EventKind, EventRecord, OffCpu};
use std::collections::{BTreeMap, HashMap};
use zerocopy::IntoBytes;

/// Priority, in [`EventRecord::aux`], of a thread whose switch was not seen.
pub const PRIORITY_UNKNOWN: u32 = i32::MIN as u32;

/// Pairs the streams of all CPUs.
#[derive(Debug, Default)]
pub struct Assembler {
    cpus: BTreeMap<u16, Cpu>,
    names: HashMap<u32, [u8; 16]>,
    unpaired: Unpaired,
    work: WorkBooks,
}

#[derive(Debug, Default)]
struct Cpu {
    last_ns: u64,
    /// Another thread got the CPU since recording began or went on: nothing that is open then can be older.
    switched: bool,
    running: Option<Running>,
    frames: Vec<Frame>,
    /// Work items under way, the outermost first: within a thread's item a softirq may execute another.
    work: Vec<Work>,
    /// Work items of threads that were switched out in their midst.
    paused: HashMap<u32, u64>,
}

/// The thread that holds the CPU.
#[derive(Clone, Copy, Debug)]
struct Running {
    thread: u32,
    priority: Option<i32>,
    since_ns: u64,
    /// The thread before it, which the kernel names as current until the switch is done.
    before: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    kind: EventKind,
    key: u64,
    id: u32,
    aux: u64,
    since_ns: u64,
}

/// A work item while its thread holds the CPU.
#[derive(Clone, Copy, Debug)]
struct Work {
    thread: u32,
    function: u64,
    since_ns: u64,
}

impl Assembler {
    /// Takes the next record of `cpu`'s stream, which happened at `now_ns` while `current` was the current thread.
    pub fn feed(
        &mut self,
        cpu: u16,
        now_ns: u64,
        current: u32,
        what: &Happening,
        emit: &mut dyn FnMut(EventRecord),
    ) {
        let state = self.cpus.entry(cpu).or_default();
        // Clocks of tracefs never step back on one CPU; conversion may by its rounding.
        let now_ns = now_ns.max(state.last_ns);
        self.unpaired.switches += state.see(cpu, now_ns, current, what, emit);
        state.last_ns = now_ns;
        let record = |kind, start_ns, id, aux| interval(cpu, kind, start_ns, now_ns, id, aux);
        match *what {
            Happening::Enter { kind, id, aux, key } => {
                self.unpaired.entries += state.forget_from(kind, key);
                state.frames.push(Frame { kind, key, id, aux, since_ns: now_ns });
            }
            Happening::Exit { kind, key } => match state.leave(kind, key) {
                Some((frame, stale)) => {
                    self.unpaired.entries += stale;
                    emit(record(kind, frame.since_ns, frame.id, frame.aux));
                }
                None if state.may_be_older() => self.unpaired.begun_before += 1,
                None => self.unpaired.exits += 1,
            },
            Happening::WorkStart { function } => {
                self.work.started(current, now_ns, state.paused.remove(&current).is_some());
                state.work.push(Work { thread: current, function, since_ns: now_ns });
            }
            Happening::WorkEnd => {
                self.work.ended(current, now_ns, !state.work.is_empty());
                if let Some(work) = state.work.pop() {
                    emit(record(EventKind::Work, work.since_ns, current, work.function));
                }
            }
            Happening::Switch { previous, reason, next } => {
                self.switch(cpu, now_ns, (previous, reason, next), emit);
            }
            Happening::Nmi { handler, duration_ns } => {
                emit(record(EventKind::Nmi, now_ns.saturating_sub(duration_ns), 0, handler));
            }
            Happening::Point { kind, id, aux, detail } => {
                emit(EventRecord { detail, ..record(kind, now_ns, id, aux) });
            }
        }
    }

    fn switch(
        &mut self,
        cpu: u16,
        now_ns: u64,
        (previous, reason, next): (Side, OffCpu, Side),
        emit: &mut dyn FnMut(EventRecord),
    ) {
        let state = self.cpus.entry(cpu).or_default();
        if let Some(work) = state.work.first().copied().filter(|work| work.thread == previous.thread) {
            // What a softirq executes ends before the thread is switched out.
            self.unpaired.entries += state.work.len() as u64 - 1;
            state.work.clear();
            emit(interval(cpu, EventKind::Work, work.since_ns, now_ns, work.thread, work.function));
            state.paused.insert(work.thread, work.function);
        }
        for side in [&previous, &next] {
            let known = self.names.get(&side.thread);
            // Each CPU's idle thread has its own name for the one number 0.
            if side.thread != 0 && known != Some(&side.comm) {
                self.names.insert(side.thread, side.comm);
                emit(task_name(cpu, side));
            }
        }
        match state.running.take() {
            Some(running) if running.thread == previous.thread => {
                let aux = u64::from(next.thread) << 32 | u64::from(previous.priority as u32);
                let ended = interval(cpu, EventKind::Thread, running.since_ns, now_ns, previous.thread, aux);
                emit(EventRecord { detail: reason as u8, ..ended });
            }
            // The record names another thread than the one that it says was current.
            _ => self.unpaired.entries += 1,
        }
        state.switched = true;
        state.running = Some(Running {
            thread: next.thread,
            priority: Some(next.priority),
            since_ns: now_ns,
            before: Some(previous.thread),
        });
        if let Some(function) = state.paused.remove(&next.thread) {
            state.work = vec![Work { thread: next.thread, function, since_ns: now_ns }];
        }
    }

    /// Ends every open interval of `cpu` where its stream was last seen: what follows was lost.
    pub fn lost(&mut self, cpu: u16, emit: &mut dyn FnMut(EventRecord)) {
        let last_ns = self.cpus.get(&cpu).map_or(0, |state| state.last_ns);
        self.cut(cpu, last_ns, emit);
    }

    /// Ends every open interval of `cpu` at `at_ns`, when recording stopped, innermost first.
    pub fn cut(&mut self, cpu: u16, at_ns: u64, emit: &mut dyn FnMut(EventRecord)) {
        let Some(state) = self.cpus.get_mut(&cpu) else { return };
        let at_ns = at_ns.max(state.last_ns);
        state.last_ns = at_ns;
        state.switched = false;
        self.work.interrupted(state.paused.drain().map(|(thread, _)| thread));
        while let Some(frame) = state.frames.pop() {
            emit(interval(cpu, frame.kind, frame.since_ns, at_ns, frame.id, frame.aux));
        }
        while let Some(work) = state.work.pop() {
            self.work.interrupted([work.thread].into_iter());
            emit(interval(cpu, EventKind::Work, work.since_ns, at_ns, work.thread, work.function));
        }
        if let Some(running) = state.running.take() {
            emit(running.cut(cpu, at_ns));
        }
    }

    /// What could not be paired so far. Work items are held against each other over all CPUs, so that a share of them
    /// may count as not explained until every CPU's stream has been read to the same time.
    pub fn unpaired(&self) -> Unpaired {
        let paused = self.cpus.values().flat_map(|cpu| cpu.paused.keys().copied());
        self.work.close(self.unpaired, paused)
    }
}

impl Running {
    /// Its interval where the switch that ended it was not seen.
    fn cut(&self, cpu: u16, at_ns: u64) -> EventRecord {
        let priority = self.priority.map_or(PRIORITY_UNKNOWN, |priority| priority as u32);
        interval(cpu, EventKind::Thread, self.since_ns, at_ns, self.thread, u64::from(priority))
    }
}

impl Cpu {
    /// Notes who is current; 1 if a switch must have been missed.
    fn see(
        &mut self,
        cpu: u16,
        now_ns: u64,
        current: u32,
        what: &Happening,
        emit: &mut dyn FnMut(EventRecord),
    ) -> u64 {
        if let Some(running) = &self.running
            && (running.thread == current || running.before == Some(current) && within_a_switch(what))
        {
            return 0;
        }
        // Whoever is current now has been since here at least.
        let before = self.running.map(|running| running.thread);
        let seen = Running { thread: current, priority: None, since_ns: now_ns, before };
        let Some(missed) = self.running.replace(seen) else { return 0 };
        self.switched = true;
        while let Some(work) = self.work.pop() {
            emit(interval(cpu, EventKind::Work, work.since_ns, self.last_ns, work.thread, work.function));
            self.paused.insert(work.thread, work.function);
        }
        emit(missed.cut(cpu, self.last_ns));
        if let Some(function) = self.paused.remove(&current) {
            self.work = vec![Work { thread: current, function, since_ns: now_ns }];
        }
        1
    }

    /// Whether an interval that ends now may have begun before recording did: what was entered since then lies inside
    /// it and has ended, and no other thread had the CPU.
    fn may_be_older(&self) -> bool {
        self.frames.is_empty() && !self.switched
    }

    /// Drops an open interval that is entered anew, and what it encloses; how many that were.
    fn forget_from(&mut self, kind: EventKind, key: u64) -> u64 {
        match self.frames.iter().rposition(|frame| frame.kind == kind && frame.key == key) {
            Some(index) => self.frames.drain(index..).count() as u64,
            None => 0,
        }
    }

    /// Takes the interval that ends, and the number of those inside it whose exits were missed.
    fn leave(&mut self, kind: EventKind, key: u64) -> Option<(Frame, u64)> {
        let index = self.frames.iter().rposition(|frame| frame.kind == kind && frame.key == key)?;
        let stale = self.frames.drain(index + 1..).count() as u64;
        self.frames.pop().map(|frame| (frame, stale))
    }
}

/// Whether it can happen between the record of a switch and the switch itself, where interrupts are off.
fn within_a_switch(what: &Happening) -> bool {
    match what {
        Happening::Nmi { .. } => true,
        Happening::Point { kind, .. } => matches!(kind, EventKind::TlbFlush | EventKind::IpiSend),
        _ => false,
    }
}

fn interval(cpu: u16, kind: EventKind, start_ns: u64, end_ns: u64, id: u32, aux: u64) -> EventRecord {
    EventRecord { start_ns, end_ns, aux, id, cpu, kind: kind as u8, detail: 0 }
}

fn task_name(cpu: u16, side: &Side) -> EventRecord {
    let mut record =
        EventRecord { id: side.thread, cpu, kind: EventKind::TaskName as u8, ..EventRecord::default() };
    // The two times lie side by side and hold the sixteen bytes as they are in memory.
    record.start_ns.as_mut_bytes().copy_from_slice(&side.comm[..8]);
    record.end_ns.as_mut_bytes().copy_from_slice(&side.comm[8..]);
    record
}

#[cfg(test)]
#[path = "assemble_tests.rs"]
mod tests;
