//! Kernel activity: what a kernel did from each entry to the exit, as small traces in one file, a library.
//!
//! ```text
//! file    "QEPOCH\r\n", then as files of traces (see `file`): frames, of which the last is the index, then the end
//! frame   kind 1: where the library came from, JSON │ kind 2: blocks │ kind 3: `steps` epochs; `thread` is 0
//! epochs  length of heads, varint │ head … │ blocks as the steps of one thread, each epoch ended by the end of a thread
//! head    class, 1 byte │ its number, varint │ flags, 1 byte │ processor, varint │ instructions, varint │ length of the name │ name
//! ```

mod read;
mod regions;
mod summary;
mod thin;
mod write;

use crate::step::Access;
use serde::{Deserialize, Serialize};

pub use read::{EpochReader, EpochsOf};
pub use regions::{Region, RegionMap, STACK_OCTETS};
pub use summary::{ClassSummary, EpochSummary, Spread, summary_of};
pub use thin::thinned;
pub use write::EpochWriter;

/// The version that is written here, and the only one that is read.
pub const VERSION: u32 = 1;

pub(crate) const MAGIC: [u8; 8] = *b"QEPOCH\r\n";
/// Longest name of a task, as the kernel keeps them.
pub const LONGEST_NAME: usize = 15;
/// No epoch has more blocks: what goes on for longer is cut there.
pub const MOST_BLOCKS: usize = 1 << 20;

/// Whether a file that begins so is a library of kernel activity.
pub fn is_library(start: &[u8]) -> bool {
    start.starts_with(&MAGIC)
}

/// Where a library came from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochFacts {
    /// Who wrote it, with its version.
    pub tool: String,
    /// The instruction set, such as `x86-64`.
    pub architecture: String,
    /// The kernel, as `uname -r` has it.
    pub kernel: String,
    /// What emulated the machine, with its version.
    pub emulator: String,
    /// Processors of the machine.
    pub processors: u32,
    /// What the machine was busy with.
    pub workload: String,
    /// What the machine's randomness was drawn from.
    pub seed: u64,
    /// What became of it since (`240 of 91000 epochs, by duration`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// Whose data is where, where it was derived from more epochs than are left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regions: Option<RegionMap>,
}

/// Why the kernel was active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activity {
    /// A system call of this number.
    SystemCall(u32),
    /// The timer of the processor.
    Timer,
    /// The interrupt of a device, with its vector.
    Interrupt(u8),
    /// An interrupt from another processor, or one that the kernel sent itself.
    Call,
    /// A page fault.
    PageFault,
    /// Another exception.
    Exception,
    /// A thread of the kernel's own had the processor.
    KernelThread,
    /// A thread of a program had the processor again and was still in the kernel.
    Resumed,
    /// None of these, as far as could be told.
    Other,
}

impl Activity {
    /// All classes, each with number 0.
    pub const CLASSES: [Self; 9] = [
        Self::SystemCall(0),
        Self::Timer,
        Self::Interrupt(0),
        Self::Call,
        Self::PageFault,
        Self::Exception,
        Self::KernelThread,
        Self::Resumed,
        Self::Other,
    ];

    /// Its class as a number, and the number within.
    pub const fn numbers(self) -> (u8, u32) {
        match self {
            Self::SystemCall(number) => (0, number),
            Self::Timer => (1, 0),
            Self::Interrupt(vector) => (2, vector as u32),
            Self::Call => (3, 0),
            Self::PageFault => (4, 0),
            Self::Exception => (5, 0),
            Self::KernelThread => (6, 0),
            Self::Resumed => (7, 0),
            Self::Other => (8, 0),
        }
    }

    /// The inverse of [`Activity::numbers`]; none where they mean nothing.
    pub fn of(class: u8, number: u32) -> Option<Self> {
        let activity = match class {
            0 => Self::SystemCall(number),
            2 => Self::Interrupt(u8::try_from(number).ok()?),
            _ => *Self::CLASSES.get(usize::from(class))?,
        };
        (activity.numbers() == (class, number)).then_some(activity)
    }

    /// The class in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SystemCall(_) => "system call",
            Self::Timer => "timer interrupt",
            Self::Interrupt(_) => "device interrupt",
            Self::Call => "interrupt of a processor",
            Self::PageFault => "page fault",
            Self::Exception => "exception",
            Self::KernelThread => "kernel thread",
            Self::Resumed => "resumed in the kernel",
            Self::Other => "other",
        }
    }
}

/// What is known of an epoch beside its blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Why the kernel was active.
    pub activity: Activity,
    /// Name of the task that had the processor; at most [`LONGEST_NAME`] bytes. Empty until the first change of tasks that was
    /// recorded on this processor.
    pub task: Box<str>,
    /// The processor.
    pub processor: u32,
    /// Softirqs were served: it has the bottom half of an interrupt.
    pub bottom_half: bool,
    /// The processor was idle before.
    pub from_idle: bool,
    /// It ended by a change to another task, not by the kernel's exit.
    pub switched: bool,
    /// It went on beyond [`MOST_BLOCKS`].
    pub cut: bool,
}

impl About {
    const FLAGS: u8 = 0b1111;

    pub(crate) fn flags(&self) -> u8 {
        let each = [self.bottom_half, self.from_idle, self.switched, self.cut];
        each.iter().enumerate().map(|(bit, flag)| u8::from(*flag) << bit).sum()
    }

    pub(crate) fn with_flags(mut self, flags: u8) -> Option<Self> {
        let flag = |bit: u8| flags & 1 << bit != 0;
        (self.bottom_half, self.from_idle, self.switched, self.cut) = (flag(0), flag(1), flag(2), flag(3));
        (flags & !Self::FLAGS == 0).then_some(self)
    }
}

/// An epoch of kernel activity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelEpoch {
    /// What it was.
    pub about: About,
    /// Instructions of its blocks, its duration.
    pub instructions: u64,
    /// Number of each block in the library's dictionary, and how many of the accesses come before it and in it, together.
    pub blocks: Vec<(u32, u32)>,
    /// The accesses of all blocks, one after the other.
    pub accesses: Vec<Access>,
}

impl KernelEpoch {
    /// Its blocks, each with its accesses.
    pub fn steps(&self) -> impl Iterator<Item = (u32, &[Access])> {
        let mut from = 0;
        self.blocks.iter().map(move |(number, end)| {
            let its = self.accesses.get(from..*end as usize).unwrap_or_default();
            from = *end as usize;
            (*number, its)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_known_by_its_first_octets() {
        assert!(is_library(b"QEPOCH\r\n and more"));
        assert!(!is_library(b"QEPOCH\n and more") && !is_library(b"QEPOC") && !is_library(b""));
    }

    #[test]
    fn classes_and_flags_are_numbers_and_back() {
        let some = [Activity::SystemCall(202), Activity::Interrupt(0xef)];
        for activity in Activity::CLASSES.into_iter().chain(some) {
            let (class, number) = activity.numbers();
            assert_eq!(Activity::of(class, number), Some(activity));
            assert!(!activity.name().is_empty());
        }
        assert_eq!([Activity::of(9, 0), Activity::of(1, 1), Activity::of(2, 256)], [None; 3]);
        let about = About {
            activity: Activity::Timer,
            task: "kswapd0".into(),
            processor: 3,
            bottom_half: true,
            from_idle: false,
            switched: true,
            cut: false,
        };
        assert_eq!(about.clone().with_flags(about.flags()), Some(about.clone()));
        assert_eq!(about.with_flags(16), None);
    }
}
