//! What host and guest say to each other: a request that the guest finds in its file system, and a line of JSON for each answer.

use super::asked::StudyRequest;
use super::cell::Measured;
use quaver_analysis::summary::ClassCount;
use serde::{Deserialize, Serialize};

/// What a guest is to do.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Parameters of the interfaces' driver.
    pub parameters: String,
    /// Words that have to be on the kernel's command line.
    pub words: Vec<String>,
    /// What it is to do.
    pub task: Task,
}

/// What a guest does.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Measures cells of a study, in this order.
    Study {
        /// The study.
        asked: StudyRequest,
        /// Block and arm, by its place in the plan, of each.
        cells: Vec<(u32, usize)>,
    },
    /// Runs commands of this program, until one fails.
    Commands {
        /// Arguments of each.
        commands: Vec<Vec<String>>,
        /// What happens to the machine while each runs.
        fault: Option<Fault>,
    },
    /// Runs loops beside the kernel's own tracer of noise.
    Osnoise {
        /// How long each runs.
        duration_ns: u64,
        /// Period and work of the ticker beside each; none: no ticker.
        tickers: Vec<Option<(u64, u64)>>,
    },
}

/// Something that happens to a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// When, after a command began.
    pub after_ns: u64,
    /// What.
    pub what: FaultKind,
}

/// What happens to a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// CLOCK_REALTIME is set forward by so many nanoseconds.
    StepClock(u64),
    /// The processor goes away, and comes back after as many nanoseconds as `after_ns`.
    Offline(u16),
}

/// What a guest says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuestMessage {
    /// A cell was measured; its position is not known to the guest.
    Cell(Box<Measured>),
    /// A command ended.
    Output(Output),
    /// A loop ended.
    Noise(Box<BothNoises>),
    /// It could not do what it was asked, and ends.
    Failed(String),
}

/// What a command left behind.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// Its exit status; none where a signal ended it.
    pub status: Option<i32>,
    /// Its standard output.
    pub output: String,
    /// Its standard error.
    pub error: String,
}

/// What took a CPU from a loop, as we and as the kernel's tracer saw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BothNoises {
    /// How long the loop ran.
    pub runtime_ns: i64,
    /// Tier of our tracing.
    pub tier: String,
    /// Gaps that the loop itself saw, and what they sum up to.
    pub gaps: (u64, i64),
    /// Events that we lost.
    pub events_lost: u64,
    /// Whether softirqs run in threads in this kernel.
    pub preempt_rt: bool,
    /// Ours.
    pub ours: Noises,
    /// The kernel's.
    pub kernels: Noises,
}

/// Counts and times by class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Noises {
    /// Non-maskable interrupts.
    pub nmi: ClassCount,
    /// Interrupts.
    pub irq: ClassCount,
    /// Softirqs.
    pub softirq: ClassCount,
    /// Threads.
    pub thread: ClassCount,
}
