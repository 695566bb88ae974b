//! `summary.json` of `quaver sim run`: what the simulator counted, and what follows from it.

use super::cure::CureSummary;
use super::facts::SimFacts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Schema of the summary.
pub const SCHEMA: &str = "quaver.sim/1";

/// What a simulated run says. Nothing in it depends on the host or its speed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SimSummary {
    /// [`SCHEMA`].
    pub schema: String,
    /// All threads came to their ends.
    pub complete: bool,
    /// Which trace ran on which machine.
    pub facts: SimFacts,
    /// Figures of the chip.
    pub chip: ChipFigures,
    /// Where the time of all cores went, in the order of [`PARTS`].
    pub time: Vec<TimePart>,
    /// By core.
    pub cores: Vec<CoreFigures>,
    /// Caches, from the first level outwards.
    pub levels: Vec<LevelFigures>,
    /// What moves between caches and memory.
    pub traffic: TrafficFigures,
    /// By thread.
    pub threads: Vec<ThreadFigures>,
    /// The longest chain; none where no thread came to its end.
    pub critical_path: Option<PathFigures>,
    /// Jitter and its cure, where they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cure: Option<CureSummary>,
    /// The simulator's own counts, as they are.
    pub counts: Value,
    /// What to know before believing the numbers.
    pub warnings: Vec<String>,
}

/// Figures of the whole chip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChipFigures {
    /// Simulated time, femtoseconds.
    pub duration_fs: u64,
    /// A cycle of a core at rest, femtoseconds.
    pub cycle_fs: u64,
    /// Simulated cycles of a core at rest.
    pub cycles: u64,
    /// Instructions of all threads.
    pub instructions: u64,
    /// Cycles an instruction while a thread ran, over all cores; none where nothing ran.
    pub cpi: Option<f64>,
    /// Instructions in a cycle of the whole chip, idle cores included; none where nothing ran.
    pub chip_ipc: Option<f64>,
    /// Share of the cores' time in which a thread ran; none where nothing ran.
    pub busy_share: Option<f64>,
    /// Cores on which a thread ran.
    pub cores_used: u64,
}

/// A part of a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimePart {
    /// Which.
    pub part: String,
    /// Femtoseconds of simulated time.
    pub time_fs: u64,
    /// Of the whole.
    pub share: f64,
}

impl TimePart {
    /// Shares of what all of these make together.
    pub(super) fn all(parts: impl IntoIterator<Item = (impl Into<String>, u64)>) -> Vec<Self> {
        let parts: Vec<(String, u64)> = parts.into_iter().map(|(part, fs)| (part.into(), fs)).collect();
        let total: u64 = parts.iter().map(|(_, fs)| fs).sum();
        let share = |fs: u64| fs as f64 / total.max(1) as f64;
        parts.into_iter().map(|(part, time_fs)| Self { part, time_fs, share: share(time_fs) }).collect()
    }
}

/// What a core's time is made of: the part's name in the summary, and what it means.
pub const PARTS: [(&str, &str); 14] = [
    ("issue", "issuing instructions"),
    ("results", "waiting for the result of an earlier instruction"),
    ("jumps", "refill after a mispredicted branch"),
    ("fetch", "instruction misses in L1"),
    ("L2", "data from the core's own L2"),
    ("remote", "data from another core's L2"),
    ("memory", "data from memory"),
    ("stores", "more stores in flight than entries"),
    ("port", "more accesses than the schedule has slots"),
    ("sync", "operations in flight, stores before them"),
    ("frequency", "core halted while its frequency changed"),
    ("kernel", "kernel activity between the steps of threads"),
    ("waiting", "all its threads wait for other threads"),
    ("unused", "no thread started yet, or all have ended"),
];

/// Parts in which a thread runs.
pub const RUNNING_PARTS: usize = 11;

/// One core.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CoreFigures {
    /// Its number.
    pub core: u32,
    /// Instructions that ran.
    pub instructions: u64,
    /// Time in which a thread ran, femtoseconds.
    pub busy_fs: u64,
    /// Cycles an instruction while one ran; none where nothing ran.
    pub cpi: Option<f64>,
    /// Femtoseconds of each of [`PARTS`]; together the simulated time.
    pub parts_fs: Vec<u64>,
    /// Jumps, and of them predicted wrongly.
    pub jumps: u64,
    /// See `jumps`.
    pub mispredicted: u64,
    /// Looks for data in the first level, to read and to write, and those that it did not have.
    pub data_looks: u64,
    /// See `data_looks`.
    pub data_misses: u64,
    /// Looks for instructions in the first level, and those that it did not have.
    pub fetches: u64,
    /// See `fetches`.
    pub fetch_misses: u64,
    /// Lines from other cores.
    pub from_remote: u64,
    /// Lines from memory.
    pub from_memory: u64,
    /// Lines that could be read, and may be written since.
    pub upgrades: u64,
}

impl CoreFigures {
    /// Cycles an instruction of each of [`PARTS`] in which a thread ran.
    pub fn cpi_stack(&self, cycle_fs: u64) -> Vec<f64> {
        let instructions = self.instructions.max(1) as f64 * cycle_fs.max(1) as f64;
        self.parts_fs.iter().take(RUNNING_PARTS).map(|fs| *fs as f64 / instructions).collect()
    }
}

/// One level of the caches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LevelFigures {
    /// What is looked for where.
    pub level: String,
    /// Looks.
    pub looks: u64,
    /// Of them, not found, or not with the right to write.
    pub misses: u64,
    /// Misses over looks; none without looks.
    pub miss_ratio: Option<f64>,
    /// Misses in a thousand instructions; none without instructions.
    pub misses_per_1000: Option<f64>,
}

/// What moves between caches and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrafficFigures {
    /// Lines from other cores' second levels.
    pub from_remote: u64,
    /// Lines from memory.
    pub from_memory: u64,
    /// Lines that could be read, and may be written since.
    pub upgrades: u64,
    /// Lines that left a cache since another core wrote them.
    pub invalidations: u64,
    /// Lines whose owner may not write them any more, since another core read them.
    pub downgrades: u64,
    /// Lines that left the caches since the directory needed their entry.
    pub recalls: u64,
    /// Lines read from memory.
    pub memory_reads: u64,
    /// Lines written to memory.
    pub memory_writes: u64,
    /// Bytes between memory and chip in a nanosecond (GB/s).
    pub memory_gb_per_s: f64,
}

/// What a thread waits for: name in tables.
pub const WAITS: [&str; 4] = ["lock", "condition", "barrier", "join"];

/// One thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadFigures {
    /// Its number.
    pub thread: u32,
    /// The core that it belongs to.
    pub core: u32,
    /// Instructions that it ran.
    pub instructions: u64,
    /// When it was started, femtoseconds; none where it never was.
    pub start_fs: Option<u64>,
    /// When it ended; none where it did not.
    pub end_fs: Option<u64>,
    /// From its start to its end, or to that of the run.
    pub lived_fs: u64,
    /// Of that, it ran.
    pub ran_fs: u64,
    /// It was ready while its core ran another.
    pub queued_fs: u64,
    /// It waited for others, by [`WAITS`].
    pub waited_fs: [u64; 4],
    /// Lines from memory that it needed.
    pub from_memory: u64,
    /// Lines from other cores that it needed.
    pub from_remote: u64,
}

impl ThreadFigures {
    /// Of its life, it neither ran nor waited: its wake-up was on the way, or its core ran the kernel or another.
    pub fn ready_fs(&self) -> u64 {
        self.lived_fs.saturating_sub(self.ran_fs + self.waited_fs.iter().sum::<u64>())
    }
}

/// The chain of threads and wake-ups that ended last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathFigures {
    /// Its length, femtoseconds.
    pub length_fs: u64,
    /// Hand-overs from thread to thread.
    pub hand_overs: u64,
    /// Time in threads, then on the way from thread to thread by kind of wake-up.
    pub parts: Vec<TimePart>,
    /// Hand-overs by kind: `lock`, `condition`, `barrier`, `join`, `create`.
    pub hand_overs_by_kind: Vec<(String, u64)>,
    /// How much of it lies in each thread, the most first.
    pub threads: Vec<PathThread>,
}

/// A thread's part of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathThread {
    /// The thread.
    pub thread: u32,
    /// Femtoseconds of the path that lie in it.
    pub time_fs: u64,
    /// Of the path.
    pub share: f64,
}
