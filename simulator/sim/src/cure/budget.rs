//! Beyond the paper: only so many cores may run faster at a time, and a rule says which.
//!
//! Each core can go to the upper of two supplies at once, without a PLL or a ramp (Booster, HPCA 2012). The budget is the number of
//! cores on the upper one, so that all rules have the same limit of power. An alarm makes a core leave it. Only then may another core
//! take its place.

use quaver_dvfs::dvfs::{OperatingPoint, Table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// By which rule the cores that run faster are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BoostRule {
    /// The largest debts first, as far as their controllers want the upper supply.
    Debt,
    /// Booster's SYNC (HPCA 2012): threads that hold a lock first, then all that run, the one with the least time on the upper
    /// supply first. Threads that wait need none.
    Sync,
    /// Criticality stacks (ISCA 2013): an active thread's time counts by the number of active threads, so that it weighs more the
    /// more threads wait. Threads above the mean of the last subframe, the largest first.
    Stack,
    /// The predictor of thread criticality (ISCA 2009): the largest stalls for lines beyond the first level since the last
    /// barrier first.
    Stalls,
}

impl BoostRule {
    /// What rules there are.
    pub const ALL: [Self; 4] = [Self::Debt, Self::Sync, Self::Stack, Self::Stalls];
}

/// The power budget and the rule by which it is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BoostConfig {
    /// The rule.
    pub rule: BoostRule,
    /// So many cores may be on the upper supply at the same time, at least 1.
    #[serde(default = "cores")]
    pub cores: u32,
}

fn cores() -> u32 {
    4
}

impl BoostConfig {
    /// A quarter of the paper's chip.
    pub fn new(rule: BoostRule) -> Self {
        Self { rule, cores: cores() }
    }

    /// The two supplies: the paper's rest and its highest point. Both are there all the time.
    pub fn table() -> Table {
        let paper = Table::default();
        let points: Vec<OperatingPoint> = vec![paper.points[paper.rest], paper.points[paper.highest()]];
        Table { points, rest: 0, pll_lock_us: 0.0, ramp_us: 0.0 }
    }
}

/// What the rules know of all threads together.
#[derive(Clone, Debug)]
pub(super) struct Boost {
    pub(super) config: BoostConfig,
    pub(super) slice_fs: u64,
    slice_ends_fs: u64,
    /// Who is active, and since when nobody else is.
    active: Vec<u32>,
    since_fs: u64,
    /// By thread: its criticality in this slice and in the last one, femtoseconds.
    critical_fs: Vec<[f64; 2]>,
}

impl Boost {
    pub(super) fn new(config: BoostConfig, slice_fs: u64) -> Self {
        Self {
            config,
            slice_fs,
            slice_ends_fs: slice_fs,
            active: Vec::new(),
            since_fs: 0,
            critical_fs: Vec::new(),
        }
    }

    /// Time has passed, and these threads are active from now on.
    pub(super) fn pass(&mut self, at_fs: u64, active: impl Iterator<Item = u32>) {
        let share_fs = at_fs.saturating_sub(self.since_fs) as f64 / self.active.len().max(1) as f64;
        for thread in std::mem::take(&mut self.active) {
            self.critical_fs[thread as usize][0] += share_fs;
        }
        self.since_fs = at_fs;
        self.active.extend(active);
        let threads = self.active.iter().map(|thread| *thread as usize + 1).max().unwrap_or(0);
        self.critical_fs.resize(threads.max(self.critical_fs.len()), [0.0; 2]);
        if at_fs >= self.slice_ends_fs {
            self.slice_ends_fs = at_fs + self.slice_fs;
            self.critical_fs.iter_mut().for_each(|own| *own = [0.0, own[0]]);
        }
    }

    /// Criticality of a thread in the last slice; none where it is not above the mean of all.
    pub(super) fn critical(&self, thread: u32) -> Option<f64> {
        let mean = self.critical_fs.iter().map(|own| own[1]).sum::<f64>() / self.critical_fs.len() as f64;
        Some(self.critical_fs[thread as usize][1]).filter(|own| *own > mean)
    }
}
