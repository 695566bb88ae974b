//! Where an epoch of kernel activity begins and ends, on one processor.
//!
//! ```text
//! program ──entry──> epoch ──exit──> program          a system call, an interrupt, a fault
//! task ──change──> epoch ──change──> task             a thread of the kernel's own, or a program's that goes on in the kernel
//! idle ──interrupt──> epoch ──return──> idle          interrupts may lie within each other
//! ```
//! What the idle task itself does is no activity, and neither is what comes before the first change or exit.

use crate::accesses::{self, Accessing};
use quaver_abi::guest_marks::{FIRST_TASK, IDLE_PREFIX, TASK_PREFIX};
use quaver_trace::epochs::{About, Activity, KernelEpoch, MOST_BLOCKS};

/// No epoch has more accesses.
const MOST_ACCESSES: usize = 1 << 22;

/// Where a block of the kernel's stands, beyond being one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// The kernel's first block for something.
    Entry {
        /// What.
        activity: Activity,
        /// Address of the instruction that comes after it, where it is known.
        interrupted: u64,
    },
    /// The kernel changes to the task of this name.
    Change {
        /// The name.
        task: Box<str>,
    },
    /// Softirqs are served.
    Softirqs,
}

/// What a processor is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProcessorMode {
    /// Nobody knows yet.
    Unknown,
    /// It runs a program.
    Program,
    /// It runs the kernel for a task.
    Kernel,
    /// It runs the idle task.
    Idle,
}

/// Cuts epochs of a processor.
#[derive(Debug)]
pub(crate) struct Cutter {
    processor: u32,
    place: ProcessorMode,
    task: Box<str>,
    epoch: Option<KernelEpoch>,
    /// Addresses at which the idle task, or an interrupt that came while it was at work, goes on.
    interrupted: Vec<u64>,
    /// The block before ended with a return from an interrupt.
    returned: bool,
    /// Whether the block that runs is part of the epoch.
    taken: bool,
    spare: Option<KernelEpoch>,
}

impl Cutter {
    pub(crate) fn new(processor: u32) -> Self {
        Self {
            processor,
            place: ProcessorMode::Unknown,
            task: Box::default(),
            epoch: None,
            interrupted: Vec::new(),
            returned: false,
            taken: false,
            spare: None,
        }
    }

    /// A block of a program runs. The epoch that this ends, if any.
    #[inline]
    pub(crate) fn program(&mut self) -> Option<KernelEpoch> {
        if self.place == ProcessorMode::Program {
            return None;
        }
        self.place = ProcessorMode::Program;
        self.returned = false;
        self.close(false)
    }

    /// A block of the kernel runs: its number in the library, its address, its instructions, whether it ends with a return from
    /// an interrupt, and where it stands. The epoch that this ends, if any.
    pub(crate) fn kernel(
        &mut self,
        (number, pc, instructions, returns): (u32, u64, u32, bool),
        at: Option<At>,
    ) -> Option<KernelEpoch> {
        let mut done = None;
        if std::mem::replace(&mut self.returned, returns) && self.interrupted.last() == Some(&pc) {
            self.interrupted.pop();
            if self.interrupted.is_empty() {
                done = self.close(false);
            }
        }
        match at {
            Some(At::Change { task }) => {
                done = self.close(true).or(done);
                self.change(task);
            }
            Some(At::Entry { activity, interrupted }) => self.enter(activity, interrupted),
            Some(At::Softirqs) => {
                if let Some(epoch) = &mut self.epoch {
                    epoch.about.bottom_half = true;
                }
            }
            None if self.place == ProcessorMode::Program => self.enter(Activity::Other, 0),
            None => {}
        }
        self.take(number, instructions);
        done
    }

    /// An instruction of the block that runs reads or writes memory.
    #[inline]
    pub(crate) fn access(&mut self, address: u64, octets: u8, write: bool, what: Accessing) {
        let Some(epoch) = self.epoch.as_mut().filter(|_| self.taken) else { return };
        let before = epoch.blocks.len().checked_sub(2).map_or(0, |before| epoch.blocks[before].1 as usize);
        accesses::take_in(&mut epoch.accesses, before, address, octets, write, what);
        if let Some(block) = epoch.blocks.last_mut() {
            block.1 = epoch.accesses.len() as u32;
        }
    }

    /// Gives back an epoch that was written, for its memory.
    pub(crate) fn spare(&mut self, epoch: KernelEpoch) {
        self.spare = Some(epoch);
    }

    fn change(&mut self, task: Box<str>) {
        self.interrupted.clear();
        let idle = task.starts_with(IDLE_PREFIX);
        let of_program = task.starts_with(TASK_PREFIX) || &*task == FIRST_TASK;
        self.task = task;
        self.place = if idle { ProcessorMode::Idle } else { ProcessorMode::Kernel };
        if !idle {
            self.open(if of_program { Activity::Resumed } else { Activity::KernelThread }, false);
        }
    }

    fn enter(&mut self, activity: Activity, interrupted: u64) {
        match self.place {
            ProcessorMode::Program => {
                self.place = ProcessorMode::Kernel;
                self.open(activity, false);
            }
            ProcessorMode::Idle => {
                if self.epoch.is_none() {
                    self.interrupted.clear();
                    self.open(activity, true);
                }
                self.interrupted.push(interrupted);
            }
            ProcessorMode::Kernel | ProcessorMode::Unknown => {}
        }
    }

    fn open(&mut self, activity: Activity, from_idle: bool) {
        let about = About {
            activity,
            task: self.task.clone(),
            processor: self.processor,
            bottom_half: false,
            from_idle,
            switched: false,
            cut: false,
        };
        let mut epoch = self.spare.take().unwrap_or_else(|| KernelEpoch {
            about: about.clone(),
            instructions: 0,
            blocks: Vec::new(),
            accesses: Vec::new(),
        });
        epoch.about = about;
        epoch.instructions = 0;
        epoch.blocks.clear();
        epoch.accesses.clear();
        self.epoch = Some(epoch);
    }

    #[inline]
    fn take(&mut self, number: u32, instructions: u32) {
        self.taken = false;
        let Some(epoch) = &mut self.epoch else { return };
        if epoch.blocks.len() == MOST_BLOCKS || epoch.accesses.len() >= MOST_ACCESSES {
            epoch.about.cut = true;
            return;
        }
        epoch.blocks.push((number, epoch.accesses.len() as u32));
        epoch.instructions += u64::from(instructions);
        self.taken = true;
    }

    fn close(&mut self, switched: bool) -> Option<KernelEpoch> {
        self.taken = false;
        self.interrupted.clear();
        let mut epoch = self.epoch.take()?;
        epoch.about.switched = switched;
        Some(epoch)
    }
}

#[cfg(test)]
mod tests;
