//! What a simulated run keeps in its manifest.

use super::machine::Difference;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_sim::config::Config;
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which trace ran on which machine. Nothing of the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SimFacts {
    /// The trace, as it was named.
    pub trace: String,
    /// The traced program and its arguments; empty for a whole system.
    pub program: Vec<String>,
    /// Who wrote the trace.
    pub tool: String,
    /// Instruction set.
    pub architecture: String,
    /// What the trace cannot tell, each a few words.
    pub lacks: Vec<String>,
    /// Threads with steps in it.
    pub threads: u64,
    /// Steps of all of them.
    pub steps: u64,
    /// Its length, bytes.
    pub octets: u64,
    /// Its end is missing.
    pub cut_short: bool,
    /// Barriers made of a mutex and a condition that are replayed as barriers, and how often all met there.
    #[serde(default)]
    pub condition_barriers: [u64; 2],
    /// The machine.
    pub machine: Config,
    /// Where that differs from the default.
    pub differences: Vec<Difference>,
}

/// How fast the simulation went on this host. In the manifest only: results are the same on any host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SimSpeed {
    /// Time that it took, nanoseconds.
    pub elapsed_ns: u64,
    /// Instructions simulated.
    pub instructions: u64,
}

impl SimSpeed {
    /// Millions of instructions a second.
    pub fn mips(&self) -> f64 {
        self.instructions as f64 * 1e3 / self.elapsed_ns.max(1) as f64
    }
}

/// Takes the facts out of a manifest.
pub(crate) fn facts_of(run: &RunDir, manifest: &Manifest) -> anyhow::Result<SimFacts> {
    let stored = manifest.asked.get("facts").cloned().unwrap_or_default();
    serde_json::from_value(stored).map_err(|error| {
        let message = format!("{}: the facts of the run cannot be read: {error}", run.manifest().display());
        failure(ExitCode::BadInput, message)
    })
}

/// How fast it went, where the manifest tells.
pub(crate) fn speed_of(manifest: &Manifest) -> Option<SimSpeed> {
    serde_json::from_value(manifest.asked.get("speed")?.clone()).ok()
}
