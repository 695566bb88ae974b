//! What is kept of each thread: its controller, its subframe, and what it has done in it.

use crate::frames::Subframes;
use crate::statistics::CoreCounts;
use quaver_dvfs::dvfs::Controller;
use quaver_sync_analysis::sync::ThreadId;

/// The number that units know a thread by: 0 is the idle task.
pub(super) fn unit_id(thread: u32) -> ThreadId {
    ThreadId(thread + 1)
}

/// A thread while it is alive, and its controller afterwards, until it is joined.
#[derive(Clone, Debug)]
pub(super) struct ThreadState {
    pub(super) controller: Option<Controller>,
    pub(super) subframes: Subframes,
    /// Who created it; none of the first thread.
    pub(super) creator: Option<u32>,
    /// It has run.
    pub(super) started: bool,
    pub(super) ended: bool,
    /// Since when it runs on its core, and what that core had done by then.
    pub(super) running: Option<(u64, CoreCounts)>,
    /// Since when it waits for others, or did last.
    pub(super) waits_since_fs: u64,
    /// Of the current subframe: paced and unpaced work, what the paced work would have taken beyond that at rest, standing still
    /// for a PLL, what evicted lines cost, instructions.
    pub(super) paced_fs: u64,
    pub(super) sped_fs: i64,
    pub(super) unpaced_fs: u64,
    pub(super) stalled_fs: u64,
    pub(super) evicted_fs: u64,
    pub(super) instructions: u64,
    /// Locks that it holds.
    pub(super) locks: u32,
    /// Stalls for lines beyond the first level since its last barrier, and its time above rest, femtoseconds.
    pub(super) missed_fs: u64,
    pub(super) boosted_fs: u64,
    /// What the units had seen it lose when the subframe began, nanoseconds.
    pub(super) lost_ns: u64,
    /// What it was made to owe beyond the rule of slack, femtoseconds.
    pub(super) beyond_slack_fs: u64,
}

impl ThreadState {
    pub(super) fn new(at_fs: u64, creator: Option<u32>, controller: Option<Controller>) -> Self {
        Self {
            controller,
            subframes: Subframes::new(at_fs),
            creator,
            started: false,
            ended: false,
            running: None,
            waits_since_fs: at_fs,
            paced_fs: 0,
            sped_fs: 0,
            unpaced_fs: 0,
            stalled_fs: 0,
            evicted_fs: 0,
            instructions: 0,
            locks: 0,
            missed_fs: 0,
            boosted_fs: 0,
            lost_ns: 0,
            beyond_slack_fs: 0,
        }
    }

    /// Adds what the core has done for it, at this frequency over rest, since it was looked at last; how long that took is given
    /// back.
    pub(super) fn account(&mut self, at_fs: u64, counts: &CoreCounts, factor: f64) -> u64 {
        let Some((since_fs, before)) = self.running.replace((at_fs, *counts)) else {
            self.running = None;
            return 0;
        };
        let paced_fs = paced_fs(counts) - paced_fs(&before);
        self.paced_fs += paced_fs;
        self.sped_fs += (paced_fs as f64 * (factor - 1.0)).round() as i64;
        self.unpaced_fs += unpaced_fs(counts) - unpaced_fs(&before);
        self.instructions += counts.instructions - before.instructions;
        self.missed_fs += missed_fs(counts) - missed_fs(&before);
        let ran_fs = at_fs - since_fs;
        self.boosted_fs += if factor > 1.0 { ran_fs } else { 0 };
        ran_fs
    }
}

/// What the core's clock paces: issue, and the stalls of the core and of its own caches.
fn paced_fs(counts: &CoreCounts) -> u64 {
    let stalls = &counts.stalls;
    counts.issue_fs + stalls.operands_fs + stalls.mispredicted_fs + stalls.second_level_fs + stalls.port_fs
}

/// What it does not: data and instructions from other cores and memory, and the way to the directory.
fn unpaced_fs(counts: &CoreCounts) -> u64 {
    let stalls = &counts.stalls;
    stalls.memory_fs + stalls.remote_fs + stalls.fetch_fs + stalls.store_buffer_fs + stalls.sync_fs
}

/// Stalls for lines that the first level did not have.
fn missed_fs(counts: &CoreCounts) -> u64 {
    let stalls = &counts.stalls;
    stalls.second_level_fs + stalls.memory_fs + stalls.remote_fs + stalls.fetch_fs
}
