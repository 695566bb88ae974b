//! What the protocol is told.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the protocol assumes and how much it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    /// N: what an operation may take without being late, nanoseconds.
    pub threshold_ns: u64,
    /// A late operation counts with its whole time T, not with T − N.
    pub count_all: bool,
    /// System calls count as other jitter from this time off the CPU on, nanoseconds (the paper's C.2.4).
    pub system_call_threshold_ns: u64,
    /// Entries of each wait buffer and each lock buffer; none: as many as are needed. The hardware unit has 8.
    pub buffer_entries: Option<u32>,
    /// CPUs that the program may use; none: not known, so that nothing is said of oversubscription.
    pub cpus: Option<u32>,
    /// Offenders (objects, call sites) and threads that the results list.
    pub listed: usize,
    /// Longest waits of each class that the results show whole.
    pub shown_waits: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            threshold_ns: 10_000,
            count_all: false,
            system_call_threshold_ns: 10_000,
            buffer_entries: None,
            cpus: None,
            listed: 1_000,
            shown_waits: 100,
        }
    }
}

impl Settings {
    /// What counts of an operation that took `took_ns`: T − N, or the whole of T; none where it was in time.
    pub fn late_ns(&self, took_ns: u64) -> Option<u64> {
        let over_ns = took_ns.checked_sub(self.threshold_ns).filter(|over_ns| *over_ns > 0)?;
        Some(if self.count_all { took_ns } else { over_ns })
    }
}
