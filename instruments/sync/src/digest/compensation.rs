//! What `quaver sync --compensate` keeps in the manifest of a run.

use quaver_dvfs::dvfs::ControllerConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How lost time was given back, and what that came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompensationFacts {
    /// Nothing was set: computed only.
    pub dry: bool,
    /// By which files frequencies were set; empty where none were.
    pub way: String,
    /// The kernel's driver.
    pub driver: String,
    /// CPUs that have one frequency together.
    pub policies: Vec<PolicyFacts>,
    /// The controller, with the table that it chose from.
    pub controller: ControllerConfig,
    /// Part of the program's own time that was taken to wait for memory, 0 to 1.
    pub unpaced_share: f64,
    /// Settings that a killed run had left and that were put back first.
    pub recovered: Vec<String>,
    /// Threads.
    pub threads: u64,
    /// Subframes whose time was over.
    pub in_time: u64,
    /// Subframes that creations, joins and ends forced to end.
    pub forced: u64,
    /// By point of the table: working and losing time of all threads together, nanoseconds, as the controllers had decided.
    pub decided_ns: Vec<u64>,
    /// By policy, and by place in its steps: how long it was there, nanoseconds.
    pub set_ns: Vec<Vec<u64>>,
    /// Of the program, nanoseconds.
    pub length_ns: u64,
    /// Lost, passed on where threads meet, nanoseconds: what the program would have been late without.
    pub lost_ns: u64,
    /// Owed at the end by the same rule, nanoseconds.
    pub left_ns: f64,
    /// Lost over the rest of the time; none of no time.
    pub slow_down_without: Option<f64>,
    /// Left over the rest of the time.
    pub slow_down_with: Option<f64>,
    /// Power of the threads' CPUs over that at rest, less 1; a model's, not measured.
    pub power_overhead: Option<f64>,
    /// Writes of frequencies.
    pub writes: u64,
    /// Of these, refused.
    pub writes_refused: u64,
    /// Time in writes.
    pub write_total_ns: u64,
    /// The longest.
    pub write_max_ns: u64,
    /// From what called for another frequency (the end of a subframe or of a wait, or the begin of one) until it was written: mean,
    /// nanoseconds.
    pub delay_mean_ns: Option<f64>,
    /// The longest.
    pub delay_max_ns: u64,
    /// Looks at the recordings.
    pub looks: u64,
    /// CPU time of the one who looked, nanoseconds.
    pub own_cpu_ns: u64,
    /// Its time.
    pub own_ns: u64,
    /// Looks while a thread of the program ran on the same CPU.
    pub looks_beside: u64,
    /// Events that came later than what had been decided already.
    pub late_events: u64,
    /// Places in recordings that were given up.
    pub holes: u64,
    /// What went wrong while the program ran, after which nothing was set any more.
    pub broke_off: Option<String>,
    /// Settings that could not be put back, with the reason.
    pub not_put_back: Vec<String>,
}

/// CPUs that have one frequency together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PolicyFacts {
    /// Directory of its files.
    pub directory: String,
    /// Its CPUs.
    pub cpus: Vec<u16>,
    /// Frequency at rest, kHz.
    pub rest_khz: u64,
    /// Frequencies that it was set to, kHz, lowest first.
    pub steps_khz: Vec<u64>,
}
