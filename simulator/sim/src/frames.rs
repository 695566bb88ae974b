//! Frames and subframes: when a thread's subframe ends, and from when on a run is measured.

pub use quaver_sync_analysis::subframes::Ended;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Femtoseconds in a nanosecond.
const FS_PER_NS: u64 = 1_000_000;

/// How a run is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FrameConfig {
    /// A subframe, nanoseconds of simulated time (the paper: 330 us).
    pub subframe_ns: u64,
    /// Subframes that warm up, at most (the paper: 90).
    pub warm_up_subframes: u64,
    /// Of the whole run, at most so many thousandths (our choice: a tenth; 90 subframes would swallow short programs).
    pub warm_up_permille: u64,
    /// Subframes without work at the end of the frame, in which the rest may be given back.
    pub dummy_subframes: u32,
}

impl Default for FrameConfig {
    fn default() -> Self {
        Self { subframe_ns: 330_000, warm_up_subframes: 90, warm_up_permille: 100, dummy_subframes: 0 }
    }
}

/// How long a run warms up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WarmUp {
    /// For so long nothing is measured, femtoseconds from the start.
    pub until_fs: u64,
    /// The run was too short for the whole number of subframes.
    pub shortened: bool,
}

impl FrameConfig {
    /// A subframe, femtoseconds.
    pub fn subframe_fs(&self) -> u64 {
        self.subframe_ns * FS_PER_NS
    }

    /// The warm-up of a run of this length: so many subframes, or a part of the run, whichever is less.
    pub fn warm_up(&self, run_fs: u64) -> WarmUp {
        let whole_fs = self.warm_up_subframes.saturating_mul(self.subframe_fs());
        let part_fs = (u128::from(run_fs) * u128::from(self.warm_up_permille) / 1000) as u64;
        WarmUp { until_fs: whole_fs.min(part_fs), shortened: part_fs < whole_fs }
    }
}

/// The subframes of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Subframes {
    /// When the current one began, femtoseconds.
    pub since_fs: u64,
    /// How many have ended because their time was over.
    pub in_time: u64,
    /// How many were forced to end.
    pub forced: u64,
}

impl Subframes {
    /// The thread starts.
    pub fn new(at_fs: u64) -> Self {
        Self { since_fs: at_fs, in_time: 0, forced: 0 }
    }

    /// When the current one is to end, at the first step from then on.
    pub fn due_fs(&self, config: &FrameConfig) -> u64 {
        self.since_fs + config.subframe_fs()
    }

    /// It ends; its length is given back.
    pub fn end(&mut self, at_fs: u64, why: Ended) -> u64 {
        let length_fs = at_fs.saturating_sub(self.since_fs);
        self.since_fs = at_fs.max(self.since_fs);
        match why {
            Ended::InTime => self.in_time += 1,
            Ended::AtCreate | Ended::AtJoin | Ended::AtExit => self.forced += 1,
        }
        length_fs
    }
}

/// When a run had done so much of its work: the instructions of all threads at several times, in the order of time.
///
/// Runs of one program are measured from the same instruction on, whatever the time was then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    points: Vec<(u64, u64)>,
}

impl Progress {
    /// At `at_fs` all threads together had run so many instructions. Earlier times than the last are left out.
    pub fn add(&mut self, at_fs: u64, instructions: u64) {
        match self.points.last() {
            Some(&(last_fs, last)) if at_fs <= last_fs || instructions < last => {}
            _ => self.points.push((at_fs, instructions)),
        }
    }

    /// How many instructions had run at `at_fs`, between two known times in proportion.
    pub fn instructions_at(&self, at_fs: u64) -> u64 {
        between(self.points.iter().copied(), at_fs)
    }

    /// When so many instructions had run.
    pub fn time_of(&self, instructions: u64) -> u64 {
        between(self.points.iter().map(|&(at_fs, count)| (count, at_fs)), instructions)
    }
}

/// What a run took beyond another one of the same program, measured after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SlowDown {
    /// The warm-up of the ideal run.
    pub warm_up: WarmUp,
    /// How much longer the same instructions took, in parts of the ideal time; none where nothing was measured.
    pub slow_down: Option<f64>,
}

impl SlowDown {
    /// Of a run against an ideal one; each with its progress and its end.
    pub fn of(config: &FrameConfig, run: (&Progress, u64), ideal: (&Progress, u64)) -> Self {
        let warm_up = config.warm_up(ideal.1);
        let first = ideal.0.instructions_at(warm_up.until_fs);
        let from_fs = run.0.time_of(first);
        // By the same arithmetic as of the run, so that equal runs differ by nothing.
        let (took, ideally) = (run.1.saturating_sub(from_fs), ideal.1.saturating_sub(ideal.0.time_of(first)));
        let worked = ideal.0.instructions_at(ideal.1) > first;
        let slow_down = (ideally > 0 && worked).then(|| took as f64 / ideally as f64 - 1.0);
        Self { warm_up, slow_down }
    }
}

/// Value at `x` of the line through the points from (0, 0) on; that of the last point beyond it.
fn between(points: impl Iterator<Item = (u64, u64)>, x: u64) -> u64 {
    let mut before = (0, 0);
    for point in points {
        if point.0 >= x {
            if point.0 == before.0 {
                return point.1;
            }
            let part = u128::from(x - before.0) * u128::from(point.1 - before.1);
            return before.1 + (part / u128::from(point.0 - before.0)) as u64;
        }
        before = point;
    }
    before.1
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000_000_000;

    #[test]
    fn ninety_subframes_or_a_tenth_of_the_run_warm_up() {
        let frames = FrameConfig::default();
        assert_eq!(frames.warm_up(1_000 * MS), WarmUp { until_fs: 29_700_000_000_000, shortened: false });
        assert_eq!(frames.warm_up(297 * MS), WarmUp { until_fs: 29_700_000_000_000, shortened: false });
        assert_eq!(frames.warm_up(50 * MS), WarmUp { until_fs: 5 * MS, shortened: true });
        let endless = FrameConfig { warm_up_subframes: u64::MAX, ..frames };
        assert_eq!(endless.warm_up(50 * MS), WarmUp { until_fs: 5 * MS, shortened: true });
        assert_eq!(frames.warm_up(0), WarmUp { until_fs: 0, shortened: true });
    }

    #[test]
    fn a_subframe_ends_after_its_time_or_when_forced() {
        let config = FrameConfig::default();
        let mut thread = Subframes::new(5);
        assert_eq!(thread.due_fs(&config), 330_000_000_005);
        assert_eq!(thread.end(330_000_000_105, Ended::InTime), 330_000_000_100);
        assert_eq!(thread.due_fs(&config), 660_000_000_105);
        assert_eq!(thread.end(330_000_000_205, Ended::AtCreate), 100);
        assert_eq!((thread.in_time, thread.forced, thread.since_fs), (1, 1, 330_000_000_205));
        assert_eq!(thread.end(0, Ended::AtExit), 0, "time does not run backwards");
    }

    #[test]
    fn two_runs_are_measured_from_the_same_instruction() {
        let mut ideal = Progress::default();
        (1..=10).for_each(|ms| ideal.add(ms * MS, ms * 1000));
        ideal.add(9 * MS, 1);
        let mut slow = Progress::default();
        (1..=10).for_each(|ms| slow.add(ms * 3 * MS, ms * 1000));
        let from = ideal.instructions_at(1_500_000_000_000);
        assert_eq!((from, slow.time_of(from)), (1500, 4_500_000_000_000));
        assert_eq!(slow.time_of(99_999), 30 * MS);
        let seen = SlowDown::of(&FrameConfig::default(), (&slow, 30 * MS), (&ideal, 10 * MS));
        assert_eq!((seen.warm_up.until_fs, seen.slow_down), (MS, Some(2.0)), "9 ms became 27");
        assert_eq!(Progress::default().time_of(7), 0);
        let nothing =
            SlowDown::of(&FrameConfig::default(), (&slow, 30 * MS), (&Progress::default(), 10 * MS));
        assert_eq!(nothing.slow_down, None, "no instruction ran");
    }
}
