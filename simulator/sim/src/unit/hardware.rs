//! The hardware below the protocol: what each operation costs, what goes over the bus, and what the registers would say.

use super::buffer;
use quaver_sync_analysis::sync::{Buffer, Message, Observer, Operation, Wait};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// The idle state left and entered again: cycles of a transaction besides those that look at slots.
const STATE_CYCLES: u64 = 2;

/// Messages between units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MessageCounts {
    /// s_e, b_e and u_e, each to all other units.
    pub releases: u64,
    /// Who has the entry of a thread that woke here?
    pub queries: u64,
    /// Its time.
    pub answers: u64,
    /// Jitter states of threads that moved: the question, and the state.
    pub states: u64,
    /// (PC, thread) of threads that were swapped out, each to all other units.
    pub swaps: u64,
}

impl MessageCounts {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.releases + self.queries + self.answers + self.states + self.swaps
    }
}

/// What the hardware did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HardwareReport {
    /// Transactions of all units.
    pub transactions: u64,
    /// Time in which a unit was busy, femtoseconds, summed over all units.
    pub busy_fs: u64,
    /// Most requests that were latched in one unit at once, while it was busy.
    pub most_latched: u32,
    /// Lookups with the success line low: the entry was on another core, or had been dropped.
    pub failed_lookups: u64,
    /// Messages.
    pub messages: MessageCounts,
    /// Late waits whose time by the buffer's 32 bits is the protocol's, to the nanosecond.
    pub times_agree: u64,
    /// Late waits whose time by the buffer is another one: a later s_e for another thread had stamped the entry too.
    pub times_differ: u64,
    /// Operations that ended in another slot than the protocol's books have; 0 unless this model is wrong.
    pub slots_differ: u64,
}

/// A message on its way to a unit.
#[derive(Clone, Copy, Debug)]
struct Coming {
    at_fs: u64,
    lock: bool,
    id: u64,
    thread: Option<u32>,
    time_ns: u32,
}

#[derive(Clone, Debug)]
struct Unit {
    wait: buffer::Buffer,
    lock: buffer::Buffer,
    coming: VecDeque<Coming>,
    /// When each request that was taken or latched is done.
    ends_fs: VecDeque<u64>,
}

/// What the event that is being taken is about.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Current {
    pub(super) at_ns: u64,
    pub(super) id: u64,
    pub(super) thread: u32,
    /// Whom a signal is for, where that is known.
    pub(super) target: Option<u32>,
    pub(super) of_lock: bool,
    /// It is the kernel's, so that entries are handlers'.
    pub(super) kernel: bool,
}

/// Units and bus; it watches the protocol.
#[derive(Clone, Debug)]
pub struct Hardware {
    units: Vec<Unit>,
    message_fs: u64,
    cycle_fs: u64,
    pub(super) current: Current,
    /// Where the entry of each waiting thread is.
    open: BTreeMap<u32, (u16, bool, u64)>,
    /// Entries of handlers, so that several of one core can be told apart.
    handlers: u32,
    /// time-reg, by core: when a thread woke up whose entry is asked for on the other cores, until the answer.
    time_reg: Vec<Option<u32>>,
    /// What the buffer says of the wait that has just been looked up.
    took_ns: Option<u32>,
    /// What it did.
    pub report: HardwareReport,
}

impl Hardware {
    /// Idle units of `slots` slots a buffer; a message takes `message_fs`, a cycle of a unit `cycle_fs`.
    pub fn new(cores: usize, slots: usize, message_fs: u64, cycle_fs: u64) -> Self {
        let unit = Unit {
            wait: buffer::Buffer::new(slots),
            lock: buffer::Buffer::new(slots),
            coming: VecDeque::new(),
            ends_fs: VecDeque::new(),
        };
        Self {
            units: vec![unit; cores],
            message_fs,
            cycle_fs,
            current: Current::default(),
            open: BTreeMap::new(),
            handlers: 0,
            time_reg: vec![None; cores],
            took_ns: None,
            report: HardwareReport::default(),
        }
    }

    fn now_fs(&self) -> u64 {
        self.current.at_ns * 1_000_000
    }

    /// A unit takes a request at `at_fs`, or latches it until it is idle.
    fn request(&mut self, core: usize, at_fs: u64, looked_at: u32) {
        let unit = &mut self.units[core];
        while unit.ends_fs.front().is_some_and(|end_fs| *end_fs <= at_fs) {
            unit.ends_fs.pop_front();
        }
        let latched = unit.ends_fs.len() as u32;
        let start_fs = unit.ends_fs.back().map_or(at_fs, |end_fs| at_fs.max(*end_fs));
        let took_fs = (STATE_CYCLES + u64::from(looked_at)) * self.cycle_fs;
        unit.ends_fs.push_back(start_fs + took_fs);
        self.report.transactions += 1;
        self.report.busy_fs += took_fs;
        self.report.most_latched = self.report.most_latched.max(latched);
    }

    /// Messages that have come by `now_fs` are taken, in their order.
    fn take_messages(&mut self, core: usize, now_fs: u64) {
        while self.units[core].coming.front().is_some_and(|coming| coming.at_fs <= now_fs) {
            let Some(coming) = self.units[core].coming.pop_front() else { return };
            let unit = &mut self.units[core];
            let buffer = if coming.lock { &mut unit.lock } else { &mut unit.wait };
            let (_, outcome) = buffer.modify_timestamp(coming.id, coming.thread, coming.time_ns);
            self.request(core, coming.at_fs, outcome.looked_at);
        }
    }

    fn unit(&mut self, core: u16) -> Option<usize> {
        let index = usize::from(core);
        if index >= self.units.len() {
            return None;
        }
        let now_fs = self.now_fs();
        self.take_messages(index, now_fs);
        Some(index)
    }

    /// A thread will not come back to its wait: its entry goes.
    pub(super) fn abandon(&mut self, thread: u32) {
        let Some((core, lock, id)) = self.open.remove(&thread) else { return };
        let Some(index) = self.unit(core) else { return };
        let unit = &mut self.units[index];
        let buffer = if lock { &mut unit.lock } else { &mut unit.wait };
        let (_, outcome) = buffer.look_up(id, thread);
        let now_fs = self.now_fs();
        self.request(index, now_fs, outcome.looked_at);
    }

    fn write(&mut self, core: u16, lock: bool, told: Option<u8>) {
        let Some(index) = self.unit(core) else { return };
        let current = self.current;
        let (id, thread) = if current.kernel {
            self.handlers = self.handlers.wrapping_add(1);
            (u64::MAX, self.handlers)
        } else {
            (current.id, current.thread)
        };
        let unit = &mut self.units[index];
        let buffer = if lock { &mut unit.lock } else { &mut unit.wait };
        let outcome = buffer.write(id, thread, current.at_ns as u32);
        self.report.slots_differ += u64::from(outcome.slot != told);
        if outcome.slot.is_some() && !current.kernel {
            self.open.insert(thread, (core, lock, id));
        }
        let now_fs = self.now_fs();
        self.request(index, now_fs, outcome.looked_at);
    }

    fn look_up(&mut self, core: u16, lock: bool, told: Option<u8>) {
        let Some(index) = self.unit(core) else { return };
        let current = self.current;
        let answered_fs =
            self.now_fs() + if self.time_reg.iter().any(Option::is_some) { self.message_fs } else { 0 };
        let unit = &mut self.units[index];
        let buffer = if lock { &mut unit.lock } else { &mut unit.wait };
        let handler = told.filter(|_| current.kernel).map(|slot| buffer.entries()[usize::from(slot)]);
        let (id, thread) = handler.map_or((current.id, current.thread), |entry| (entry.id, entry.thread));
        let (found, outcome) = buffer.look_up(id, thread);
        self.report.slots_differ += u64::from(outcome.slot != told);
        self.report.failed_lookups += u64::from(found.is_none());
        if let Some(entry) = found
            && !current.kernel
        {
            self.open.remove(&thread);
            let asked_ns = self.time_reg.iter_mut().find_map(Option::take);
            let woke_ns = asked_ns.unwrap_or(current.at_ns as u32);
            self.took_ns = entry.stamped.then(|| woke_ns.wrapping_sub(entry.timestamp_ns));
        }
        self.request(index, answered_fs, outcome.looked_at);
    }

    /// Sends to all other units; the own one knows at once.
    fn release(&mut self, core: u16) {
        self.report.messages.releases += 1;
        let current = self.current;
        let now_fs = self.now_fs();
        for index in 0..self.units.len() {
            let own = usize::from(core) == index;
            let at_fs = if own { now_fs } else { now_fs + self.message_fs };
            self.units[index].coming.push_back(Coming {
                at_fs,
                lock: current.of_lock,
                id: current.id,
                thread: current.target,
                time_ns: current.at_ns as u32,
            });
            self.take_messages(index, now_fs);
        }
    }

    /// A thread was swapped out: its (PC, thread) goes to all other units.
    pub(super) fn swapped_out(&mut self) {
        self.report.messages.swaps += 1;
    }

    /// The state of a thread was asked for and came.
    pub(super) fn state_moved(&mut self) {
        self.report.messages.states += 2;
    }
}

impl Observer for Hardware {
    fn late_wait(&mut self, wait: &Wait) {
        // Where the waker called before the waiter did, the wait began later than what the message said.
        let began_late = wait.released_ns == wait.entered_ns;
        match self.took_ns.take() {
            Some(took_ns) if u64::from(took_ns) != wait.took_ns() && !began_late => {
                self.report.times_differ += 1
            }
            None if !began_late => self.report.times_differ += 1,
            _ => self.report.times_agree += 1,
        }
    }

    fn buffer(&mut self, core: u16, buffer: Buffer, operation: Operation, slot: Option<u8>) {
        let lock = buffer == Buffer::Lock;
        match operation {
            Operation::Write => self.write(core, lock, slot),
            Operation::LookUp => self.look_up(core, lock, slot),
            // The message has told the unit.
            Operation::ModifyTimestamp => {}
        }
    }

    fn message(&mut self, core: u16, message: Message) {
        match message {
            Message::Release => self.release(core),
            Message::Query => {
                self.report.messages.queries += 1;
                if let Some(time) = self.time_reg.get_mut(usize::from(core)) {
                    *time = Some(self.current.at_ns as u32);
                }
            }
            Message::Answer => self.report.messages.answers += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One unit with a cycle of 1 fs, so that a request over 8 slots takes 10 fs.
    fn unit() -> Hardware {
        Hardware::new(1, 8, 100, 1)
    }

    #[test]
    fn requests_queue_up_behind_those_that_are_latched() {
        let mut unit = unit();
        unit.request(0, 0, 8);
        assert_eq!((unit.report.most_latched, unit.report.busy_fs), (0, 10));
        unit.request(0, 0, 8);
        assert_eq!(unit.report.most_latched, 1, "latched until 10, done at 20");
        unit.request(0, 12, 8);
        unit.request(0, 12, 8);
        assert_eq!(unit.report.most_latched, 2, "the second until 20 and the third until 30 are before it");
        // They are done at 30 and 40: at 40 nobody is before a request, just before it one is.
        let mut later = unit.clone();
        later.report.most_latched = 0;
        later.request(0, 40, 8);
        assert_eq!(later.report.most_latched, 0);
        unit.report.most_latched = 0;
        unit.request(0, 39, 0);
        assert_eq!((unit.report.most_latched, unit.units[0].ends_fs.back()), (1, Some(&42)));
        assert_eq!((unit.report.transactions, unit.report.busy_fs), (5, 42));
    }

    #[test]
    fn a_message_is_taken_when_it_comes_and_not_before() {
        let mut units = Hardware::new(2, 8, 2_000_000, 1);
        units.current = Current { at_ns: 5, id: 7, thread: 1, ..Current::default() };
        units.release(0);
        assert_eq!(
            (units.report.transactions, units.units[1].coming.len()),
            (1, 1),
            "its own unit knows at once"
        );
        units.current.at_ns = 6;
        assert_eq!((units.unit(1), units.units[1].coming.len()), (Some(1), 1));
        units.current.at_ns = 7;
        assert_eq!((units.unit(1), units.units[1].coming.len()), (Some(1), 0), "2 ns later");
        assert_eq!((units.report.transactions, units.unit(2)), (2, None));
    }
}
