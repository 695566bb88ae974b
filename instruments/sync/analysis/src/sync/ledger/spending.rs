//! What a thread's time goes into.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{EnumCount, IntoStaticStr, VariantArray};

/// What a thread's time went into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[derive(EnumCount, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
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
    #[strum(serialize = "run queue")]
    RunQueue,
    /// It ran in a loop that waits for others, an estimate from samples; or it gave its CPU away outside of a blocking call and had
    /// not got it back.
    #[strum(serialize = "spinning")]
    Spin,
    /// The quota of its control group kept it from its CPU, outside of blocking calls or inside.
    Quota,
}

impl Spending {
    /// All.
    pub const ALL: [Self; Self::COUNT] = *Self::VARIANTS.first_chunk().unwrap();

    /// Name in reports.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
