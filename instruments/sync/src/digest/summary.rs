//! `summary.json` of `quaver sync`.

use super::advice::Advice;
use super::contention::ContentionSummary;
use super::facts::SyncFacts;
use super::names::SyncNames;
use quaver_sync_analysis::futex::FutexFigures;
use quaver_sync_analysis::sync::{Offender, SyncResults};
use quaver_sync_store::{SyncCounts, SyncEnding};
use schemars::JsonSchema;
use serde::Serialize;

/// Schema of the summary.
pub const SCHEMA: &str = "quaver.sync/1";
/// Offenders that the summary names.
const OFFENDERS: usize = 100;

/// What a run of `quaver sync` says.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SyncSummary {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Came to its end.
    pub complete: bool,
    /// What was run, and how.
    pub facts: SyncFacts,
    /// Where events come from: `recorder`, or `kernel` where only futex calls tell.
    pub events_from: &'static str,
    /// Process images with a recording.
    pub processes: Vec<ProcessSummary>,
    /// Locks and conditions, the worst first, by name.
    pub objects: Vec<Named>,
    /// Functions that were late, the worst first.
    pub call_sites: Vec<Named>,
    /// All waiting for locks, and where the time of threads went.
    pub contention: ContentionSummary,
    /// Futex calls as the kernel saw them; none where nobody looked.
    pub futex: Option<FutexFigures>,
    /// What to change, that of the largest gain first; each with what of this run bears it out.
    pub advice: Vec<Advice>,
    /// All else. `objects` and `call_sites` of it stand above.
    pub results: SyncResults,
    /// What to know before believing the numbers.
    pub warnings: Vec<String>,
}

/// One process image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProcessSummary {
    /// Number of the process.
    pub pid: u32,
    /// Images that the process had before.
    pub exec_number: u32,
    /// Program.
    pub exe: String,
    /// How it ended.
    pub ended: SyncEnding,
    /// Threads seen.
    pub threads: usize,
    /// Records that found no room.
    pub lost: u64,
    /// Threads that found no room.
    pub threads_lost: u64,
    /// Calls that were counted and not recorded.
    pub uncontended: SyncCounts,
}

/// An offender with its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Named {
    /// What it is called.
    pub name: String,
    /// Its figures.
    #[serde(flatten)]
    pub figures: Offender,
}

/// Takes the offenders out of the results and names them.
pub(super) fn name_offenders(results: &mut SyncResults, names: &SyncNames) -> (Vec<Named>, Vec<Named>) {
    let named = |all: Vec<Offender>, name: &dyn Fn(u16, u64) -> String| -> Vec<Named> {
        let worst = all.into_iter().take(OFFENDERS);
        worst.map(|figures| Named { name: name(figures.process, figures.address), figures }).collect()
    };
    let objects = named(std::mem::take(&mut results.objects), &|process, at| names.object(process, at));
    let callers = named(std::mem::take(&mut results.call_sites), &|process, at| names.caller(process, at));
    (objects, callers)
}
