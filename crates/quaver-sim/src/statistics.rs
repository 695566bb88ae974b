//! What a simulation counted, and what follows from it.

use crate::coherence::CoherenceCounts;
use serde::Serialize;

/// Where a core's time went while it could not issue, in femtoseconds of simulated time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stalls {
    /// Results that came after the end of the block that asked for them.
    pub operands_fs: u64,
    /// Jumps that were predicted wrongly.
    pub mispredicted_fs: u64,
    /// Instructions that were not in the first level.
    pub fetch_fs: u64,
    /// Data from the own second level.
    pub second_level_fs: u64,
    /// Data from another core's second level.
    pub remote_fs: u64,
    /// Data from memory.
    pub memory_fs: u64,
    /// More stores on their way than there are places.
    pub store_buffer_fs: u64,
    /// More accesses of an instruction than its schedule has room for.
    pub port_fs: u64,
    /// Steps of synchronisation on their way to the directory, with the stores before them.
    pub sync_fs: u64,
}

impl Stalls {
    /// All of them.
    pub fn total_fs(&self) -> u64 {
        self.operands_fs
            + self.mispredicted_fs
            + self.fetch_fs
            + self.second_level_fs
            + self.remote_fs
            + self.memory_fs
            + self.store_buffer_fs
            + self.port_fs
            + self.sync_fs
    }
}

/// What a core did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CoreCounts {
    /// Instructions that ran.
    pub instructions: u64,
    /// Blocks that ran.
    pub blocks: u64,
    /// Slots of the blocks' schedules.
    pub issue_slots: u64,
    /// Steps of synchronisation.
    pub sync_steps: u64,
    /// Jumps, and how many were predicted wrongly.
    pub jumps: u64,
    /// See `jumps`.
    pub mispredicted: u64,
    /// Looks for lines of instructions, and how many the first level did not have.
    pub fetches: u64,
    /// See `fetches`.
    pub fetch_misses: u64,
    /// Looks for lines of data to read, and how many the first level did not have.
    pub loads: u64,
    /// See `loads`.
    pub load_misses: u64,
    /// Looks for lines of data to write, and how many the first level did not have with the right to write.
    pub stores: u64,
    /// See `stores`.
    pub store_misses: u64,
    /// Questions to the directory that found the line in the own cache after all.
    pub asked_here: u64,
    /// Lines that could be read and may be written since.
    pub upgrades: u64,
    /// Lines from other cores.
    pub from_remote: u64,
    /// Lines from memory.
    pub from_memory: u64,
    /// Where time went.
    pub stalls: Stalls,
    /// Time in which a thread ran here, waiting for lines too.
    pub busy_fs: u64,
}

/// A whole run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Results {
    /// Version of this layout.
    pub schema: &'static str,
    /// Simulated time from the first step to the last, femtoseconds.
    pub duration_fs: u64,
    /// A cycle of a core at rest, femtoseconds.
    pub cycle_fs: u64,
    /// By core.
    pub cores: Vec<CoreCounts>,
    /// By thread: when it began and ended, and how long it waited for others.
    pub threads: Vec<ThreadTimes>,
    /// At the directory.
    pub coherence: CoherenceCounts,
    /// Lines read from memory and written back.
    pub memory_reads: u64,
    /// See `memory_reads`.
    pub memory_writes: u64,
}

impl Results {
    /// Instructions of all cores.
    pub fn instructions(&self) -> u64 {
        self.cores.iter().map(|core| core.instructions).sum()
    }

    /// Cycles of a core at rest, from the first step to the last.
    pub fn cycles(&self) -> u64 {
        self.duration_fs / self.cycle_fs
    }
}

/// A thread's times, femtoseconds of simulated time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ThreadTimes {
    /// When it was started.
    pub start_fs: u64,
    /// When it ended.
    pub end_fs: u64,
    /// How long it waited for locks, conditions, barriers and the ends of threads.
    pub waited_fs: u64,
    /// How long it was ready while its core ran another.
    pub queued_fs: u64,
}
