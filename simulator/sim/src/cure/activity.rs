//! What injected kernel activity touched and waited for, by class.

use crate::hooks::Moment;
use crate::inject::EpochSteps;
use crate::statistics::{CoreCounts, Results};
use quaver_trace::epochs::{Activity, Region};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};

/// Injected kernel activity of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActivityCounts {
    /// How often.
    pub events: u64,
    /// How long together, femtoseconds.
    pub total_fs: u64,
    /// Lines of data that each touched, summed, by [`Region::KINDS`].
    pub lines: [u64; Region::KINDS.len()],
    /// Of these, lines that injected activity had touched before on the same core.
    pub again: u64,
    /// Of the time, stalls for lines of code, femtoseconds.
    pub fetch_fs: u64,
    /// Stalls for data from the own second level, femtoseconds.
    pub second_level_fs: u64,
    /// Stalls for data from other cores, femtoseconds.
    pub remote_fs: u64,
    /// Stalls for data from memory, femtoseconds.
    pub memory_fs: u64,
}

impl ActivityCounts {
    /// All stalls for lines: what it takes to bring them back.
    pub const fn refill_fs(&self) -> u64 {
        self.fetch_fs + self.second_level_fs + self.remote_fs + self.memory_fs
    }

    /// Both together.
    pub fn and(&self, other: &Self) -> Self {
        Self {
            events: self.events + other.events,
            total_fs: self.total_fs + other.total_fs,
            lines: std::array::from_fn(|kind| self.lines[kind] + other.lines[kind]),
            again: self.again + other.again,
            fetch_fs: self.fetch_fs + other.fetch_fs,
            second_level_fs: self.second_level_fs + other.second_level_fs,
            remote_fs: self.remote_fs + other.remote_fs,
            memory_fs: self.memory_fs + other.memory_fs,
        }
    }

    /// Time passed: what its core did for the kernel before and after.
    fn passed(&mut self, took_fs: u64, before: &CoreCounts, after: &CoreCounts) {
        let (before, after) = (&before.stalls, &after.stalls);
        self.total_fs += took_fs;
        self.fetch_fs += after.fetch_fs - before.fetch_fs;
        self.second_level_fs += after.second_level_fs - before.second_level_fs;
        self.remote_fs += after.remote_fs - before.remote_fs;
        self.memory_fs += after.memory_fs - before.memory_fs;
    }
}

/// What kernel activity cost by lines that had to come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refills {
    /// All injected activity.
    pub kernel: ActivityCounts,
    /// The threads' own stalls for lines; of a run with jitter what they have beyond one without, femtoseconds.
    pub program_fs: u64,
}

impl Refills {
    /// Of a run.
    pub fn of(results: &Results, activities: &BTreeMap<&'static str, ActivityCounts>) -> Self {
        let kernel = activities.values().fold(ActivityCounts::default(), |sum, one| sum.and(one));
        let stalls = results.cores.iter().map(|core| core.stalls);
        let program_fs =
            stalls.map(|own| own.fetch_fs + own.second_level_fs + own.remote_fs + own.memory_fs).sum();
        Self { kernel, program_fs }
    }

    /// The same with what threads have beyond a run without jitter.
    pub fn beyond(mut self, ideal: &Self) -> Self {
        self.program_fs = self.program_fs.saturating_sub(ideal.program_fs);
        self
    }

    /// Both together.
    pub fn and(&self, other: &Self) -> Self {
        Self { kernel: self.kernel.and(&other.kernel), program_fs: self.program_fs + other.program_fs }
    }

    /// Time in the kernel, and stalls of threads beyond a run without jitter: mean over the events, femtoseconds; none without any.
    pub fn per_event_fs(&self) -> Option<f64> {
        let all = (self.kernel.total_fs + self.program_fs) as f64;
        (self.kernel.events > 0).then(|| all / self.kernel.events as f64)
    }

    /// The part of that which could go at most, 0 to 1: by a cache of the core's own (OS cache, pinning), which other cores' writes
    /// reach as well, and by prefetching, which also brings what other cores have.
    pub fn removable(&self) -> Option<[f64; 2]> {
        let all = (self.kernel.total_fs + self.program_fs) as f64;
        let refill_fs = self.kernel.refill_fs() + self.program_fs;
        let share = |fs: u64| fs as f64 / all;
        (all > 0.0).then(|| [share(refill_fs - self.kernel.remote_fs), share(refill_fs)])
    }

    /// The part of it that an event costs less in `other`; negative where it costs more.
    pub fn removed_in(&self, other: &Self) -> Option<f64> {
        Some(1.0 - other.per_event_fs()? / self.per_event_fs().filter(|own| *own > 0.0)?)
    }
}

/// The name of activity that was not traced.
const MADE_UP: &str = "not traced";

/// What is kept meanwhile.
#[derive(Clone, Debug, Default)]
pub(super) struct Activities {
    pub(super) by_class: BTreeMap<&'static str, ActivityCounts>,
    /// By core: lines that the kernel touched, and when the activity that runs began and what the core had done for it by then.
    cores: Vec<(HashSet<u64>, u64, CoreCounts)>,
    line_shift: u32,
}

impl Activities {
    pub(super) fn new(cores: usize, line_octets: u64) -> Self {
        let cores = vec![<(HashSet<u64>, u64, CoreCounts)>::default(); cores];
        Self { by_class: BTreeMap::new(), cores, line_shift: line_octets.trailing_zeros() }
    }

    /// It was ordered on this core: the name of its class.
    pub(super) fn ordered(&mut self, core: usize, steps: &EpochSteps) -> &'static str {
        let class = steps.activity().map_or(MADE_UP, Activity::name);
        let counts = self.by_class.entry(class).or_default();
        counts.events += 1;
        let mut own = HashSet::new();
        for (address, kind) in steps.touched() {
            let line = address >> self.line_shift;
            if own.insert(line) {
                counts.lines[kind] += 1;
                counts.again += u64::from(!self.cores[core].0.insert(line));
            }
        }
        class
    }

    pub(super) fn begins(&mut self, moment: &Moment<'_>) {
        let own = &mut self.cores[moment.core];
        (own.1, own.2) = (moment.at_fs, *moment.kernel_counts);
    }

    pub(super) fn ends(&mut self, class: &'static str, moment: &Moment<'_>) {
        let (_, since_fs, before) = &self.cores[moment.core];
        let took_fs = moment.at_fs - since_fs;
        self.by_class.entry(class).or_default().passed(took_fs, before, moment.kernel_counts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refills(events: u64, total_fs: u64, stalls: [u64; 4], program_fs: u64) -> Refills {
        let [fetch_fs, second_level_fs, remote_fs, memory_fs] = stalls;
        let counts = ActivityCounts {
            events,
            total_fs,
            fetch_fs,
            second_level_fs,
            remote_fs,
            memory_fs,
            ..ActivityCounts::default()
        };
        Refills { kernel: counts, program_fs }
    }

    #[test]
    fn what_could_go_is_lines_and_what_went_is_by_event() {
        let ideal = Refills { program_fs: 50, ..Refills::default() };
        let plain = refills(10, 900, [90, 10, 200, 100], 150).beyond(&ideal);
        assert_eq!(plain.per_event_fs(), Some(100.0));
        assert_eq!(plain.removable(), Some([0.3, 0.5]), "(90 + 10 + 100 + 100) / 1000, and 200 more");
        // Twice the events, each for 20 less.
        let cured = refills(20, 1_600, [0; 4], 30).beyond(&ideal);
        assert!((plain.removed_in(&cured).unwrap() - 0.2).abs() < 1e-12);
        let none = Refills::default();
        assert_eq!((none.per_event_fs(), none.removable(), none.removed_in(&plain)), (None, None, None));
        let both = plain.and(&cured);
        assert_eq!((both.kernel.events, both.kernel.total_fs, both.program_fs), (30, 2_500, 100));
    }
}
