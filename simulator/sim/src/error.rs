//! Why a simulation cannot go on.

use thiserror::Error;

/// What a thread waits for, in words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The thread.
    pub thread: u32,
    /// What it waits for, with the address.
    pub what: String,
}

/// Why a simulation ended before its programs did.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SimulationError {
    /// The trace is wrong.
    #[error("the trace is wrong: {0}")]
    Trace(#[from] quaver_trace::step::TraceError),
    /// A thread did what it cannot do.
    #[error("the trace is wrong: thread {thread} {what}")]
    Order {
        /// The thread.
        thread: u32,
        /// What it did.
        what: String,
    },
    /// All threads wait for each other.
    #[error("the replay is stuck at {at_ns} ns of simulated time: {}", waits(.waiting))]
    Stuck {
        /// Simulated time.
        at_ns: u64,
        /// Each thread and what it waits for.
        waiting: Vec<Waiting>,
    },
}

fn waits(waiting: &[Waiting]) -> String {
    let each = waiting.iter().map(|each| format!("thread {} waits for {}", each.thread, each.what));
    each.collect::<Vec<_>>().join("; ")
}
