//! The units of the cores: how full their buffers are, and what runs on each core.

use super::event::ThreadId;
use super::observer::Buffer;
use super::results::{CoreFigures, OtherClass, Sums, UnitFigures};
use super::threads::Slot;
use quaver_abi::sync::CPU_UNKNOWN;

/// Most entries of a buffer that is limited.
const MOST_ENTRIES: u32 = 64;

/// Slots of one buffer, bit by bit; of an unlimited one only their number counts.
#[derive(Clone, Copy, Debug, Default)]
struct Slots {
    taken: u64,
    count: u32,
}

/// A handler that has not returned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handler {
    pub(super) soft: bool,
    pub(super) class: OtherClass,
    /// Where it stands in the wait buffer of its core; none where it holds nobody up, or the buffer was full.
    pub(super) entry: Option<u8>,
    /// Its own time so far, without that of handlers inside it.
    pub(super) lost_ns: u64,
}

/// Handlers of one CPU, the innermost last.
#[derive(Clone, Debug, Default)]
pub(super) struct Handlers {
    pub(super) open: Vec<Handler>,
    /// What was before is booked.
    pub(super) booked_ns: u64,
}

/// One core.
#[derive(Clone, Debug, Default)]
pub(super) struct Core {
    wait: Slots,
    lock: Slots,
    /// Who runs, once a switch told. 0 is the idle task.
    pub(super) current: Option<ThreadId>,
    /// Where no switch was seen: who did something in the library last.
    pub(super) last: Option<ThreadId>,
    pub(super) switches: u64,
    /// The thread that runs is in the kernel since.
    pub(super) kernel_ns: Option<u64>,
    pub(super) irqs: u16,
    pub(super) softirqs: u16,
    /// Those of them that hold up who runs.
    pub(super) handlers: Handlers,
    /// In an idle state; none where that is not told.
    pub(super) idles: Option<bool>,
    /// Listed threads that are runnable here and do not run.
    pub(super) queued: Vec<Slot>,
    pub(super) classes: [Sums; 6],
    pub(super) other: Sums,
    pub(super) migrations: u64,
    seen: bool,
}

/// All cores.
#[derive(Debug, Default)]
pub(super) struct Cores {
    cores: Vec<Core>,
    entries: Option<u32>,
    pub(super) figures: UnitFigures,
}

impl Cores {
    pub(super) fn new(entries: Option<u32>) -> Self {
        let entries = entries.map(|entries| entries.min(MOST_ENTRIES));
        Self { cores: Vec::new(), entries, figures: UnitFigures { entries, ..UnitFigures::default() } }
    }

    /// The core; none where it is not known.
    pub(super) fn get_mut(&mut self, core: u16) -> Option<&mut Core> {
        if core == CPU_UNKNOWN {
            return None;
        }
        let index = usize::from(core);
        if index >= self.cores.len() {
            self.cores.resize_with(index + 1, Core::default);
        }
        let core = &mut self.cores[index];
        core.seen = true;
        Some(core)
    }

    /// Whether buffers are limited, so that slots are told apart.
    pub(super) fn are_limited(&self) -> bool {
        self.entries.is_some()
    }

    /// Takes the first free slot of a buffer; none where it is full. A core that is not known has all slots.
    pub(super) fn take(&mut self, core: u16, buffer: Buffer) -> Option<u8> {
        let entries = self.entries;
        let Some(state) = self.get_mut(core) else { return Some(0) };
        let slots = if buffer == Buffer::Wait { &mut state.wait } else { &mut state.lock };
        let slot = slots.taken.trailing_ones();
        if entries.is_some_and(|entries| slot >= entries) {
            let overflows = match buffer {
                Buffer::Wait => &mut self.figures.wait_overflows,
                Buffer::Lock => &mut self.figures.lock_overflows,
            };
            *overflows += 1;
            return None;
        }
        if entries.is_some() {
            slots.taken |= 1 << slot;
        }
        slots.count += 1;
        let count = slots.count;
        let most = match buffer {
            Buffer::Wait => &mut self.figures.wait_most,
            Buffer::Lock => &mut self.figures.lock_most,
        };
        *most = (*most).max(count);
        Some(if entries.is_some() { slot as u8 } else { 0 })
    }

    /// Gives a slot back.
    pub(super) fn give(&mut self, core: u16, buffer: Buffer, slot: u8) {
        let limited = self.entries.is_some();
        let Some(state) = self.get_mut(core) else { return };
        let slots = if buffer == Buffer::Wait { &mut state.wait } else { &mut state.lock };
        slots.count = slots.count.saturating_sub(1);
        if limited {
            slots.taken &= !(1 << slot);
        }
    }

    /// What each core that did anything has to show, by number.
    pub(super) fn figures(&self) -> Vec<CoreFigures> {
        let cores = self.cores.iter().enumerate().filter(|(_, core)| core.seen);
        cores
            .map(|(number, core)| {
                let mut late = Sums::default();
                core.classes.iter().for_each(|sums| late.merge(sums));
                CoreFigures {
                    core: number as u16,
                    late,
                    classes: core.classes,
                    other: core.other,
                    migrations: core.migrations,
                }
            })
            .collect()
    }
}
