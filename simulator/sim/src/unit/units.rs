//! The units of all cores, fed with what threads and the kernel do.

use super::hardware::{Current, Hardware, HardwareReport};
use super::registers::{Registers, RegistersReport};
use quaver_abi::sync::SyncKind;
use quaver_sync_analysis::sync::{
    KernelEvent, KernelKind, Protocol, Settings, SyncEvent, SyncResults, ThreadId,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the units are made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnitConfig {
    /// Slots of each wait buffer and each lock buffer, 1 to 64 (the paper: 8).
    pub entries: u32,
    /// N: what an operation may take without being late, nanoseconds (the paper: 10 us).
    pub threshold_ns: u64,
    /// A late operation counts with its whole time T, not with T - N.
    pub count_all: bool,
    /// A message from unit to unit, femtoseconds; 30 cycles of a core at rest.
    pub message_fs: u64,
    /// A cycle of a unit, femtoseconds. The paper's unit needs 620 ps at 32 nm: two cycles of a core at 3 GHz.
    pub cycle_fs: u64,
}

impl UnitConfig {
    /// The paper's, on cores with this cycle at rest.
    pub fn new(core_cycle_fs: u64) -> Self {
        Self {
            entries: 8,
            threshold_ns: 10_000,
            count_all: false,
            message_fs: 30 * core_cycle_fs,
            cycle_fs: 2 * core_cycle_fs,
        }
    }
}

/// What the units found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnitResults {
    /// By the shared protocol.
    pub sync: SyncResults,
    /// What the hardware did.
    pub hardware: HardwareReport,
    /// Jitter states.
    pub registers: RegistersReport,
    /// Waits and locks that were dropped, for a buffer was full.
    pub overflows: u64,
    /// Messages over the cycles of the run: the paper's measure of what they cost the network; none of no time.
    pub message_share: Option<f64>,
}

/// The units.
#[derive(Debug)]
pub struct Units {
    protocol: Protocol<Hardware>,
    registers: Registers,
    /// N where late operations are counted without it: it was lost all the same.
    uncounted_ns: u64,
    /// Time that each thread lost itself, with the whole of T and without what it has from its parent or the threads that it joined.
    lost_ns: BTreeMap<ThreadId, u64>,
    /// By handle: the thread.
    handles: BTreeMap<u64, ThreadId>,
    /// By creator: its counter when it began to create.
    creating: BTreeMap<ThreadId, u64>,
    current: Vec<ThreadId>,
    /// How long each thread stood in line for its core before it ran, nanoseconds, until it comes back from its call.
    queued_ns: BTreeMap<ThreadId, u64>,
}

impl Units {
    /// Nothing has happened.
    pub fn new(config: &UnitConfig, cores: usize) -> Self {
        let settings = Settings {
            threshold_ns: config.threshold_ns,
            count_all: config.count_all,
            buffer_entries: Some(config.entries),
            cpus: Some(cores as u32),
            ..Settings::default()
        };
        let hardware = Hardware::new(cores, config.entries as usize, config.message_fs, config.cycle_fs);
        Self {
            protocol: Protocol::with_observer(settings, hardware),
            registers: Registers::default(),
            uncounted_ns: if config.count_all { 0 } else { config.threshold_ns },
            lost_ns: BTreeMap::new(),
            handles: BTreeMap::new(),
            creating: BTreeMap::new(),
            current: vec![ThreadId(0); cores],
            queued_ns: BTreeMap::new(),
        }
    }

    /// The registers and the thread list.
    pub fn registers(&mut self) -> &mut Registers {
        &mut self.registers
    }

    /// Takes an event of the thread library; `target` is whom a signal is for, where that is known. Events come in the
    /// order of time.
    pub fn sync(&mut self, event: &SyncEvent, target: Option<ThreadId>) {
        use SyncKind::{Create, JoinExit, ThreadExit, ThreadStart};
        let hardware = self.protocol.observer_mut();
        hardware.current = Current {
            at_ns: event.at_ns,
            id: event.object,
            thread: event.thread.0,
            target: target.map(|target| target.0),
            of_lock: event.kind == SyncKind::UnlockEntry || is_lock(event.kind),
            kernel: false,
        };
        if event.kind.begins_wait() || matches!(event.kind, ThreadStart | ThreadExit) {
            hardware.abandon(event.thread.0);
        }
        let before_ns = self.count_ns(event.thread);
        let base_ns = match event.kind {
            JoinExit => {
                let child = self.handles.get(&event.object).copied();
                before_ns.max(child.map_or(0, |child| self.count_ns(child)))
            }
            ThreadStart => self.creating.get(&ThreadId(event.detail)).copied().unwrap_or(0),
            _ => before_ns,
        };
        if event.kind == Create {
            self.creating.insert(event.thread, before_ns);
        }
        if event.kind == ThreadStart {
            self.handles.insert(event.object, event.thread);
        }
        if ends_wait(event.kind) {
            self.protocol.excuse(self.queued_ns.remove(&event.thread).unwrap_or(0));
        }
        let late_before = self.protocol.late_operations(event.thread);
        self.protocol.event(event);
        let late = self.protocol.late_operations(event.thread).saturating_sub(late_before);
        self.lose(event.thread, base_ns, late * self.uncounted_ns);
    }

    /// Takes an event of the kernel or the machine.
    pub fn kernel(&mut self, event: &KernelEvent) {
        let hardware = self.protocol.observer_mut();
        hardware.current = Current { at_ns: event.at_ns, kernel: true, ..Current::default() };
        let core = usize::from(event.cpu);
        let mut concerned = [self.current.get(core).copied().unwrap_or_default(), ThreadId(0)];
        if let KernelKind::Switch { next, .. } = event.kind {
            concerned[1] = next;
            if let Some(current) = self.current.get_mut(core) {
                *current = next;
            }
        }
        let before_ns = concerned.map(|thread| self.count_ns(thread));
        self.protocol.any(&quaver_sync_analysis::sync::AnyEvent::Kernel(*event));
        for (thread, before_ns) in concerned.into_iter().zip(before_ns) {
            self.lose(thread, before_ns, 0);
        }
    }

    /// A thread runs after others of the program had its core for so long, nanoseconds; or it stops.
    pub fn queued(&mut self, thread: ThreadId, queued_ns: u64) {
        if queued_ns > 0 {
            self.queued_ns.insert(thread, queued_ns);
        } else {
            self.queued_ns.remove(&thread);
        }
    }

    /// A thread is swapped out: (PC, thread) goes into all thread lists.
    pub fn swap_out(&mut self, thread: ThreadId, pc: u64) {
        self.registers.swap_out(thread.0, pc);
        self.protocol.observer_mut().swapped_out();
    }

    /// k_x: a thread goes on; its state follows it where it has moved.
    pub fn kernel_exit(&mut self, core: usize, thread: ThreadId, pc: u64) {
        if self.registers.kernel_exit(core, thread.0, pc) == Some(true) {
            self.protocol.observer_mut().state_moved();
        }
    }

    fn count_ns(&mut self, thread: ThreadId) -> u64 {
        if thread == ThreadId(0) {
            return 0;
        }
        self.protocol.count_ns(thread).unwrap_or(0)
    }

    fn lose(&mut self, thread: ThreadId, base_ns: u64, uncounted_ns: u64) {
        let lost_ns = self.count_ns(thread).saturating_sub(base_ns) + uncounted_ns;
        if lost_ns > 0 {
            *self.lost_ns.entry(thread).or_default() += lost_ns;
        }
    }

    /// What the thread itself has lost so far: the sum over its subframes of what their jitter-counts gained, and N of each late
    /// operation, which a run without jitter does not take either.
    pub fn lost_ns(&self, thread: ThreadId) -> u64 {
        self.lost_ns.get(&thread).copied().unwrap_or(0)
    }

    /// What was found, in a run of so many cycles.
    pub fn finish(self, cycles: u64) -> UnitResults {
        let (sync, hardware) = self.protocol.finish_with_observer();
        let hardware = hardware.report;
        UnitResults {
            overflows: sync.units.wait_overflows + sync.units.lock_overflows,
            message_share: (cycles > 0).then(|| hardware.messages.total() as f64 / cycles as f64),
            registers: self.registers.report(),
            hardware,
            sync,
        }
    }
}

fn ends_wait(kind: SyncKind) -> bool {
    use SyncKind::{JoinExit, LockExit, ReadLockExit, ThreadStart, WaitExit};
    matches!(kind, WaitExit | LockExit | ReadLockExit | JoinExit | ThreadStart)
}

fn is_lock(kind: SyncKind) -> bool {
    matches!(
        kind,
        SyncKind::LockEntry | SyncKind::LockExit | SyncKind::ReadLockEntry | SyncKind::ReadLockExit
    )
}

#[cfg(test)]
mod tests;
