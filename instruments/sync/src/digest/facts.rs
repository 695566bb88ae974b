//! What a run of `quaver sync` keeps in its manifest.

use super::compensation::CompensationFacts;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was run, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SyncFacts {
    /// The program and its arguments.
    pub program: Vec<String>,
    /// File that was looked at: the program, or the interpreter of a script.
    pub path: String,
    /// What the recorder does not see of it, each a sentence.
    pub obstacles: Vec<String>,
    /// The recorder does not get into it.
    pub kept_out: bool,
    /// It ran before: only its kernel side was looked at.
    pub attached: bool,
    /// Its process.
    pub pid: u32,
    /// Its status as a shell would show it; none while it runs, and of a process that ran before.
    pub status: Option<u8>,
    /// How often its threads went to sleep by themselves, in all its processes that were waited for (`ru_nvcsw`, getrusage(2));
    /// none where nobody counted.
    pub sleeps: Option<u64>,
    /// When it was started, CLOCK_MONOTONIC nanoseconds.
    pub started_ns: u64,
    /// When it had ended.
    pub ended_ns: u64,
    /// Threads of Quaver itself when the program had ended.
    pub own_threads: Vec<u32>,
    /// CPUs that it may use, where they are known.
    pub cpus: Option<u32>,
    /// What an operation may take without being late, nanoseconds.
    pub threshold_ns: u64,
    /// System calls that sleep for longer are other jitter, nanoseconds; 0 in runs that did not look for them.
    pub system_call_threshold_ns: u64,
    /// The whole time of late operations counts.
    pub count_all: bool,
    /// Call sites are shown.
    pub call_sites: bool,
    /// The kernel's side.
    pub kernel: KernelFacts,
    /// How lost time was given back by speed; none where that was not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compensation: Option<CompensationFacts>,
}

/// Who looked at the kernel, and what was lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KernelFacts {
    /// `bpf`, `tracefs` or `user` (nobody).
    pub tier: String,
    /// Why not a better one.
    pub reason: Option<String>,
    /// What could not be seen.
    pub blind: Vec<String>,
    /// Records that found no room.
    pub lost: u64,
    /// Entries of futex system calls, counted apart from the records.
    pub futex_calls: Option<u64>,
    /// Their returns.
    pub futex_returns: Option<u64>,
    /// What stopped the process at its own calls, where that was asked for.
    pub uprobes: Option<UprobeFacts>,
    /// What broke off the looking.
    pub failed: Option<String>,
}

/// Probes at functions of a process that ran before, and what they cost it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UprobeFacts {
    /// Functions that were probed, entry and return.
    pub functions: Vec<String>,
    /// Why others were not.
    pub refused: Vec<String>,
    /// Calls of them.
    pub calls: u64,
    /// What the two probes add to a call, nanoseconds, measured in this run where the kernel does the probed instruction itself,
    /// as it does in these functions.
    pub emulated_ns: u64,
    /// The same where it steps through the instruction.
    pub stepped_ns: u64,
}

impl UprobeFacts {
    /// Time that the probes took from all threads together, nanoseconds.
    pub fn distortion_ns(&self) -> u64 {
        self.calls.saturating_mul(self.emulated_ns)
    }
}

impl KernelFacts {
    /// Whether anybody looked.
    pub fn looked(&self) -> bool {
        !matches!(self.tier.as_str(), "" | "user")
    }
}

/// Puts the facts into the manifest.
pub fn set_facts(manifest: &mut Manifest, facts: &SyncFacts) -> anyhow::Result<()> {
    manifest.asked["facts"] = serde_json::to_value(facts)?;
    let shared = manifest.analysis.get_or_insert_default();
    shared.tier.clone_from(&facts.kernel.tier);
    shared.tier_reason.clone_from(&facts.kernel.reason);
    shared.blind.clone_from(&facts.kernel.blind);
    Ok(())
}

/// Takes them out again.
pub(super) fn facts_of(run: &RunDir, manifest: &Manifest) -> anyhow::Result<SyncFacts> {
    let stored = manifest.asked.get("facts").cloned().unwrap_or_default();
    serde_json::from_value(stored).map_err(|error| {
        let message = format!("{}: the facts of the run cannot be read: {error}", run.manifest().display());
        failure(ExitCode::BadInput, message)
    })
}
