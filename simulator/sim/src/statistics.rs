//! What a simulation counted, and what follows from it.

use crate::coherence::{CoherenceCounts, SecondLevelCounts};
use crate::network::NetworkCounts;
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
    /// Changes of frequency, for which the core stood still.
    pub frequency_fs: u64,
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
            + self.frequency_fs
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
    /// The same in time, at the frequencies of then.
    pub issue_fs: u64,
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
    /// Lines that the prefetcher brought, and how many a load has used.
    pub prefetches: u64,
    /// See `prefetches`.
    pub prefetches_used: u64,
    /// Where time went.
    pub stalls: Stalls,
    /// Time in which a thread ran here, waiting for lines too.
    pub busy_fs: u64,
}

/// How often a level of the hierarchy was asked, over all cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LevelCounts {
    /// Its name: `l1i`, `l1d`, `l2`, `memory`.
    pub level: &'static str,
    /// How often it was asked for a line.
    pub asked: u64,
    /// How often it did not have it, or not with the right to write.
    pub missed: u64,
}

/// Where a core's time went, femtoseconds. The parts add up to the run's duration, exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TimeStack {
    /// Blocks as scheduled, with nothing in the way.
    pub issue_fs: u64,
    /// What held blocks up.
    #[serde(flatten)]
    pub stalls: Stalls,
    /// Kernel activity that was ordered, with its own stalls.
    pub kernel_fs: u64,
    /// No thread ran here.
    pub idle_fs: u64,
}

impl TimeStack {
    /// All parts together.
    pub fn total_fs(&self) -> u64 {
        self.issue_fs + self.stalls.total_fs() + self.kernel_fs + self.idle_fs
    }
}

/// What a thread waits for, or what lets it go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    /// A lock.
    Lock,
    /// A condition or semaphore.
    Wakeup,
    /// A barrier.
    Barrier,
    /// The end of a thread.
    Join,
    /// Its start by another thread.
    Create,
}

impl WaitKind {
    /// All of them; a kind's number is its place here.
    pub const ALL: [Self; 5] = [Self::Lock, Self::Wakeup, Self::Barrier, Self::Join, Self::Create];
}

/// The chain of threads and wake-ups that ended last: what is not on it could have taken longer. Of a run that has not ended, the one
/// that leads to where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CriticalPath {
    /// By thread: time on the path, its own steps and its turns for a core; femtoseconds.
    pub threads_fs: Vec<u64>,
    /// Of that: kernel activity that held threads up, femtoseconds.
    pub kernel_fs: u64,
    /// By kind of wake-up, in the order of [`WaitKind::ALL`]: time on the way from thread to thread, femtoseconds.
    pub edges_fs: [u64; 5],
    /// By kind of wake-up: how many of them are on the path.
    pub edges: [u64; 5],
}

impl CriticalPath {
    /// Becomes the same as another path.
    pub(crate) fn take_over(&mut self, other: &Self) {
        self.threads_fs.clone_from(&other.threads_fs);
        self.kernel_fs = other.kernel_fs;
        self.edges_fs = other.edges_fs;
        self.edges = other.edges;
    }

    /// So much more of it lies in this thread. Threads that are on no path take no room.
    pub(crate) fn add(&mut self, thread: usize, fs: u64) {
        if thread >= self.threads_fs.len() {
            self.threads_fs.resize(thread + 1, 0);
        }
        self.threads_fs[thread] += fs;
    }

    /// Work of threads, kernel activity that held them up, and wake-ups in flight; femtoseconds.
    pub fn parts_fs(&self) -> [u64; 3] {
        let threads_fs: u64 = self.threads_fs.iter().sum();
        let kernel_fs = self.kernel_fs.min(threads_fs);
        [threads_fs - kernel_fs, kernel_fs, self.edges_fs.iter().sum()]
    }

    /// Its length: the run's duration, or how far it came.
    pub fn total_fs(&self) -> u64 {
        self.threads_fs.iter().sum::<u64>() + self.edges_fs.iter().sum::<u64>()
    }
}

/// Something that took time, for a time line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Interval {
    /// When it began, femtoseconds of simulated time.
    pub start_fs: u64,
    /// When it ended.
    pub end_fs: u64,
    /// What it was.
    #[serde(flatten)]
    pub what: IntervalKind,
}

/// See [`Interval`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum IntervalKind {
    /// A thread ran on a core.
    Runs {
        /// The core.
        core: u32,
        /// The thread.
        thread: u32,
    },
    /// A thread waited.
    Waits {
        /// The thread.
        thread: u32,
        /// For what.
        reason: WaitKind,
        /// Address of the lock, condition or barrier; the number of the thread whose end it waited for.
        object: u64,
        /// The thread that let it go on.
        by: u32,
    },
    /// Kernel activity that was ordered ran on a core.
    Kernel {
        /// The core.
        core: u32,
    },
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
    /// What was done for threads, by core.
    pub cores: Vec<CoreCounts>,
    /// What was done for kernel activity that was ordered, by core.
    pub kernel: Vec<CoreCounts>,
    /// Where the time of each core went.
    pub stacks: Vec<TimeStack>,
    /// How often each level was asked.
    pub levels: Vec<LevelCounts>,
    /// By thread: when it began and ended, what it did, and how long it waited for others.
    pub threads: Vec<ThreadTimes>,
    /// At the directory.
    pub coherence: CoherenceCounts,
    /// Lines read from memory and written back.
    pub memory_reads: u64,
    /// See `memory_reads`.
    pub memory_writes: u64,
    /// What went over the mesh; none in a fixed network.
    pub network: Option<NetworkCounts>,
    /// What decided how long it took.
    pub critical_path: CriticalPath,
    /// How often a lock was lent, since nobody could have gone on: its holder waited for one who waited for it.
    #[serde(skip_serializing_if = "is_zero")]
    pub lent_locks: u64,
    /// In the second levels of all cores, where they are not plain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second_level: Option<SecondLevelCounts>,
    /// What took time when, if asked for; in the order of ends.
    pub intervals: Vec<Interval>,
    /// Intervals for which there was no room.
    pub intervals_dropped: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Results {
    /// Instructions of all threads.
    pub fn instructions(&self) -> u64 {
        self.cores.iter().map(|core| core.instructions).sum()
    }

    /// Cycles of a core at rest, from the first step to the last.
    pub fn cycles(&self) -> u64 {
        self.duration_fs / self.cycle_fs
    }
}

/// Sums over all cores, for threads and the kernel.
pub(crate) fn levels(cores: &[CoreCounts], kernel: &[CoreCounts], memory_reads: u64) -> Vec<LevelCounts> {
    let sum = |of: fn(&CoreCounts) -> u64| cores.iter().chain(kernel).map(of).sum::<u64>();
    let level = |level, asked, missed| LevelCounts { level, asked, missed };
    let second = sum(|core| core.fetch_misses + core.load_misses + core.store_misses);
    vec![
        level("l1i", sum(|core| core.fetches), sum(|core| core.fetch_misses)),
        level("l1d", sum(|core| core.loads + core.stores), sum(|core| core.load_misses + core.store_misses)),
        level("l2", second, sum(|core| core.from_memory + core.from_remote + core.upgrades)),
        level("memory", memory_reads, 0),
    ]
}

/// A thread's times, femtoseconds of simulated time, and what it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ThreadTimes {
    /// When it was started.
    pub start_fs: u64,
    /// When it ended.
    pub end_fs: u64,
    /// How long it waited for locks, conditions, barriers and the ends of threads.
    pub waited_fs: u64,
    /// The same by [`WaitKind`], in the order of [`WaitKind::ALL`].
    pub waited_for_fs: [u64; 5],
    /// How long it was ready while its core ran another.
    pub queued_fs: u64,
    /// How long it ran.
    pub busy_fs: u64,
    /// Instructions that it ran.
    pub instructions: u64,
    /// Lines from memory that it needed.
    pub from_memory: u64,
    /// Lines from other cores that it needed.
    pub from_remote: u64,
}

impl ThreadTimes {
    /// The thread ran for so long, and its core counted this since `before`.
    pub(crate) fn ran(&mut self, busy_fs: u64, counts: &CoreCounts, before: &CoreCounts) {
        self.busy_fs += busy_fs;
        self.instructions += counts.instructions - before.instructions;
        self.from_memory += counts.from_memory - before.from_memory;
        self.from_remote += counts.from_remote - before.from_remote;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_holds_each_stall_once() {
        let stalls = Stalls {
            operands_fs: 1,
            mispredicted_fs: 20,
            fetch_fs: 300,
            second_level_fs: 4_000,
            remote_fs: 50_000,
            memory_fs: 600_000,
            store_buffer_fs: 7_000_000,
            port_fs: 80_000_000,
            sync_fs: 900_000_000,
            frequency_fs: 1_000_000_000,
        };
        assert_eq!(stalls.total_fs(), 1_987_654_321);
    }
}
