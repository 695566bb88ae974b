//! What a thread's time goes into.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a thread's time went into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Spending {
    /// It ran outside of blocking calls. Without kernel tracing, sleep and run queue outside of calls are in it.
    Execution,
    /// It waited for a mutex, a read-write lock or a spin lock.
    Lock,
    /// For a condition, its mutex included.
    Condition,
    /// For a semaphore.
    Semaphore,
    /// At a barrier.
    Barrier,
    /// For the end of a thread.
    Join,
    /// In a futex call of its own.
    Futex,
    /// It slept outside of these calls.
    Sleep,
    /// It could run and did not, inside of a blocking call or outside.
    RunQueue,
    /// It ran in a loop that waits for others, an estimate from samples; or it gave its CPU away outside of a blocking call and had
    /// not got it back.
    Spin,
    /// The quota of its control group kept it from its CPU, outside of blocking calls or inside.
    Quota,
}

impl Spending {
    /// All.
    pub const ALL: [Self; 11] = [
        Self::Execution,
        Self::Lock,
        Self::Condition,
        Self::Semaphore,
        Self::Barrier,
        Self::Join,
        Self::Futex,
        Self::Sleep,
        Self::RunQueue,
        Self::Spin,
        Self::Quota,
    ];

    /// Name in reports.
    pub const fn name(self) -> &'static str {
        [
            "execution",
            "lock",
            "condition",
            "semaphore",
            "barrier",
            "join",
            "futex",
            "sleep",
            "run queue",
            "spinning",
            "quota",
        ][self as usize]
    }
}
