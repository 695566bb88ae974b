//! What became of a run with jitter and its cure.

use super::activity::ActivityCounts;
use crate::frames::{Ended, Progress};
use crate::inject::{Draw, RecordedDraws};
use crate::unit::UnitResults;
pub use quaver_dvfs::dvfs::CoreResidency;
use quaver_dvfs::dvfs::Table;
use quaver_sync_analysis::sync::SyncClass;
use serde::Serialize;
use std::collections::BTreeMap;

/// Injected jitter of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct InjectedCounts {
    /// Occasions at which it was drawn.
    pub drawn: u64,
    /// Of these, with a duration above 0.
    pub injected: u64,
    /// Sum of what was drawn, femtoseconds.
    pub total_fs: u64,
}

impl InjectedCounts {
    pub(super) fn add(&mut self, draw: &Draw) {
        self.drawn += 1;
        self.injected += u64::from(draw.duration_fs > 0);
        self.total_fs += draw.duration_fs;
    }
}

/// One subframe.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SubframeRecord {
    /// The thread.
    pub thread: u32,
    /// When it ended, femtoseconds.
    pub at_fs: u64,
    /// Why.
    pub why: Ended,
    /// At which point it ran, over rest (figures 11 and 12).
    pub factor: f64,
    /// Jitter in it, femtoseconds.
    pub lost_fs: u64,
    /// What is owed after it, femtoseconds.
    pub owed_fs: i64,
    /// Instructions in it.
    pub instructions: u64,
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CureResults {
    /// What the units found.
    pub units: UnitResults,
    /// Injected at ends of calls, by class.
    pub injected: BTreeMap<SyncClass, InjectedCounts>,
    /// What was drawn from a recording; none without one.
    pub recorded: Option<RecordedDraws>,
    /// Injected as timer interrupts.
    pub timer: InjectedCounts,
    /// What was injected touched and waited for, by class.
    pub activities: BTreeMap<&'static str, ActivityCounts>,
    /// Subframes that ended because their time was over, and that were forced to.
    pub subframes: (u64, u64),
    /// The first of them, one by one.
    pub kept: Vec<SubframeRecord>,
    /// The operating points.
    pub table: Table,
    /// By core.
    pub residency: Vec<CoreResidency>,
    /// By thread: what was owed at its end, femtoseconds.
    pub owed_fs: Vec<i64>,
    /// The same after the dummy subframes that were asked for.
    pub owed_after_dummies_fs: Vec<i64>,
    /// By thread: what barriers made it owe beyond the rule of slack, femtoseconds. That much may be given back too much.
    pub beyond_slack_fs: Vec<u64>,
    /// Lines of the application that the kernel evicted from second levels, where `evictions` asked for them.
    pub evicted_lines: u64,
    /// When how much of the work was done.
    pub progress: Progress,
}

impl CureResults {
    /// Mean over the threads of what barriers made them owe beyond the rule of slack, femtoseconds; 0 without threads.
    pub fn mean_beyond_slack_fs(&self) -> f64 {
        let all: u64 = self.beyond_slack_fs.iter().sum();
        all as f64 / self.beyond_slack_fs.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_of_nothing_is_drawn_and_not_injected() {
        let mut counts = InjectedCounts::default();
        for duration_fs in [7, 0, 5] {
            counts.add(&Draw { duration_fs, tie: 9 });
        }
        assert_eq!(counts, InjectedCounts { drawn: 3, injected: 2, total_fs: 12 });
    }
}
