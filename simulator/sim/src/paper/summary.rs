//! All runs together: what tables and figures are made of.

use super::arms::Arm;
use super::calibration::{HELD_OUT, Knobs, Occasions, Shown};
use super::point::{Packets, Point, PointFigures, SubframePoint, UnitWork, merged};
use crate::cure::Refills;
use crate::inject::Spread;
use quaver_dvfs::power::MODELS;
use quaver_sync_analysis::bench::paper::{PROGRAMS, PaperProgram, Suite, program};
use quaver_sync_analysis::sync::Bin;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A program's runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramRuns {
    /// Its name.
    pub program: String,
    /// Suite that it is like.
    pub suite: Suite,
    /// What it was run with.
    pub how: HowRun,
    /// Its runs, in the order of [`Point`].
    pub points: Vec<(Point, PointFigures)>,
}

/// What a program was run with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HowRun {
    /// Where its steps come from.
    pub trace: String,
    /// Threads.
    pub threads: usize,
    /// Rounds of its parallel part.
    pub rounds: u32,
    /// Why it could be done only once, where that is so.
    pub only_once: Option<String>,
    /// Its trace has no end: whoever wrote it was stopped.
    #[serde(default)]
    pub cut_short: bool,
    /// Instructions of a run.
    pub instructions: u64,
    /// A run without jitter, microseconds.
    pub ideal_us: f64,
    /// Of it, the warm-up, microseconds.
    pub warm_up_us: f64,
    /// The run was too short for the paper's 90 subframes of warm-up.
    pub warm_up_shortened: bool,
    /// How often the kernel may be busy, without jitter.
    pub occasions: Occasions,
    /// What was injected.
    pub knobs: Knobs,
    /// Whether the injection was fitted to this program's own figures; else it was predicted.
    pub fitted: bool,
    /// Where it was fitted, how often the kernel might be busy in the runs of the fit.
    #[serde(default)]
    pub fitted_at: Option<Occasions>,
    /// Where it was predicted, the factor by which the relation misses the fitted programs (`Calibration::missed_by`).
    #[serde(default)]
    pub missed_by: Option<f64>,
}

/// What the paper could give of a program, and we in its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramSummary {
    /// Its name.
    pub program: String,
    /// Suite that it is like.
    pub suite: Suite,
    /// Its figures were kept from every fit.
    pub held_out: bool,
    /// What it was run with.
    pub how: HowRun,
    /// Row of table 6 or 7: means over the seeds, unified cache without DVFS.
    pub row: Option<Shown>,
    /// Column 3: jitter, microseconds a millisecond.
    pub late_us_per_ms: Option<f64>,
    /// Sync jitter over all jitter (table 4 or 5), 0 to 1, mean over the seeds.
    pub sync_share: Option<f64>,
    /// Figures 7 and 8: late operations of all seeds by size.
    pub distribution: Vec<Bin>,
    /// Figure 9: part of each class, 0 to 1, in the order of `SyncClass::ALL`.
    pub class_shares: Option<[f64; 6]>,
    /// By arm that ran.
    pub arms: Vec<ArmSummary>,
    /// Figures 11 and 12: first subframes of the thread that lost most, first seed, unified cache with DVFS.
    pub drawn: Vec<SubframePoint>,
    /// Figures 4 and 15: what the units did, unified cache without DVFS, first seed.
    pub units: Option<UnitWork>,
    /// Figure 5: subframes that ended in time and that were forced to, the same run.
    pub subframes: (u64, u64),
    /// Packets against 5 ms: at rest, with the controller, with the one that learns; all seeds.
    pub packets: [Packets; 3],
}

/// An arm of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArmSummary {
    /// Which.
    pub arm: Arm,
    /// Runs.
    pub runs: usize,
    /// From the first step to the last, mean, microseconds.
    pub duration_us: f64,
    /// How much longer it took than without jitter on the unified cache, percent.
    pub slow_down_percent: Option<Spread>,
    /// How much longer than without jitter on the same second level, percent.
    pub own_slow_down_percent: Option<Spread>,
    /// How much more power it took than without DVFS, same cache and seed, percent; by each of the power models.
    pub power_percent: Vec<Spread>,
    /// Mean frequency over rest.
    pub mean_factor: f64,
    /// Changes of frequency of a core, mean.
    pub changes: f64,
    /// Lines that kernel activity brought in, mean.
    pub kernel_lines: f64,
    /// What lines cost that had to come back, all seeds; of threads, what they stalled beyond the run without jitter.
    #[serde(default)]
    pub refills: Refills,
    /// What barriers made a thread owe beyond the rule of slack, mean over threads and seeds, percent of the run.
    #[serde(default)]
    pub beyond_slack_percent: f64,
    /// Parts of the critical path, mean, microseconds: work of threads, kernel activity that held them up, wake-ups in flight.
    #[serde(default)]
    pub path_us: Option<[f64; 3]>,
    /// Slow-down and power by seed: what of it is chance is known by these.
    #[serde(default)]
    pub by_seed: Vec<OfSeed>,
    /// Least of (1 + own slow-down with DVFS) over (1 + own slow-down without), same seed; by it the bound of table 3 is judged.
    pub least_ratio: Option<f64>,
}

/// A seed of an arm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OfSeed {
    /// Seed.
    pub seed: u64,
    /// How much longer it took than without jitter on the unified cache, percent.
    pub slow_down_percent: Option<f64>,
    /// How much more power it took than without DVFS, same cache and seed, percent; by the first of the power models.
    pub power_percent: Option<f64>,
}

impl ProgramRuns {
    fn of(&self, arm: Arm) -> impl Iterator<Item = &(Point, PointFigures)> + Clone {
        self.points.iter().filter(move |(point, _)| point.arm == arm)
    }

    fn at(&self, arm: Arm, seed: u64) -> Option<&PointFigures> {
        self.of(arm).find(|(point, _)| point.seed == seed).map(|(_, figures)| figures)
    }

    /// Slow-down against the arm without jitter and with the same second level.
    fn own_slow_down(&self, point: &Point, figures: &PointFigures) -> Option<f64> {
        let ideal = self.at(point.arm.ideal(), 0)?.slow_down?;
        Some((1.0 + figures.slow_down?) / (1.0 + ideal) - 1.0)
    }

    fn refills(&self, arm: Arm) -> Refills {
        let ideal = self.at(arm.ideal(), 0).map(|one| one.refills).unwrap_or_default();
        let beyond = self.of(arm).map(|(_, one)| one.refills.beyond(&ideal));
        beyond.fold(Refills::default(), |sum, one| sum.and(&one))
    }

    fn path_us(&self, arm: Arm) -> Option<[f64; 3]> {
        let all: Option<Vec<[f64; 3]>> = self.of(arm).map(|(_, one)| one.path_us).collect();
        let all = all.filter(|all| !all.is_empty())?;
        Some(std::array::from_fn(|part| all.iter().map(|one| one[part]).sum::<f64>() / all.len() as f64))
    }

    fn arm(&self, arm: Arm) -> Option<ArmSummary> {
        let count = self.of(arm).count();
        if count == 0 {
            return None;
        }
        let spread = |values: Vec<f64>| Spread::of(&values);
        let mean =
            |of: fn(&PointFigures) -> f64| self.of(arm).map(|(_, one)| of(one)).sum::<f64>() / count as f64;
        let without = |seed: u64| self.at(arm.without_dvfs(), seed);
        let controlled = arm.changes_frequency() && arm.injects();
        let power_of = |point: &Point, one: &PointFigures, model: usize| {
            let rest = *without(point.seed)?.power.get(model)?;
            (rest > 0.0 && controlled).then(|| (one.power[model] / rest - 1.0) * 100.0)
        };
        let power = |model: usize| {
            spread(self.of(arm).filter_map(|(point, one)| power_of(point, one, model)).collect())
        };
        let by_seed = self.of(arm).filter(|_| arm.injects()).map(|(point, one)| OfSeed {
            seed: point.seed,
            slow_down_percent: one.slow_down.map(|slow_down| slow_down * 100.0),
            power_percent: power_of(point, one, 0),
        });
        let ratios = self.of(arm).filter_map(|(point, one)| {
            Some((1.0 + one.slow_down?) / (1.0 + without(point.seed)?.slow_down?))
        });
        Some(ArmSummary {
            arm,
            runs: count,
            duration_us: mean(|one| one.duration_ns) / 1e3,
            slow_down_percent: spread(
                self.of(arm).filter_map(|(_, one)| Some(one.slow_down? * 100.0)).collect(),
            ),
            own_slow_down_percent: spread(
                self.of(arm)
                    .filter_map(|(point, one)| Some(self.own_slow_down(point, one)? * 100.0))
                    .collect(),
            ),
            power_percent: (0..MODELS.len()).filter_map(power).collect(),
            mean_factor: mean(|one| one.mean_factor),
            changes: mean(|one| one.changes as f64),
            kernel_lines: mean(|one| one.kernel_lines as f64),
            refills: self.refills(arm),
            beyond_slack_percent: mean(|one| one.beyond_slack_us * 1e5 / one.duration_ns.max(1.0)),
            path_us: self.path_us(arm),
            by_seed: by_seed.collect(),
            least_ratio: if controlled { ratios.min_by(f64::total_cmp) } else { None },
        })
    }

    /// Everything of it.
    pub fn summary(&self) -> ProgramSummary {
        let unified = || self.of(Arm::Unified).map(|(_, one)| one);
        let runs = unified().count() as f64;
        let mean = |of: fn(&PointFigures) -> f64| (runs > 0.0).then(|| unified().map(of).sum::<f64>() / runs);
        let row = mean(|one| one.events_per_ms).map(|events_per_ms| Shown {
            events_per_ms,
            mean_us: mean(|one| one.late_us_per_ms).unwrap_or(0.0) / events_per_ms.max(1e-9),
            slow_down_percent: mean(|one| one.slow_down.unwrap_or(0.0)).unwrap_or(0.0) * 100.0,
        });
        let shares: Vec<f64> = unified().filter_map(|one| one.sync_share).collect();
        let first = unified().next();
        ProgramSummary {
            program: self.program.clone(),
            suite: self.suite,
            held_out: HELD_OUT.contains(&self.program.as_str()),
            how: self.how.clone(),
            row,
            late_us_per_ms: mean(|one| one.late_us_per_ms),
            sync_share: Spread::of(&shares).map(|spread| spread.mean),
            distribution: merged(unified().flat_map(|one| one.bins.iter().copied())),
            class_shares: class_shares(unified()),
            arms: Arm::ALL.into_iter().filter_map(|arm| self.arm(arm)).collect(),
            drawn: self.of(Arm::UnifiedDvfs).next().map(|(_, one)| one.drawn.clone()).unwrap_or_default(),
            units: first.map(|one| one.units),
            subframes: first.map_or((0, 0), |one| one.subframes),
            packets: packets(unified()),
        }
    }
}

fn class_shares<'a>(runs: impl Iterator<Item = &'a PointFigures>) -> Option<[f64; 6]> {
    let mut sums = [0.0; 6];
    for run in runs {
        for (sum, own_ns) in sums.iter_mut().zip(run.classes_ns) {
            *sum += own_ns as f64;
        }
    }
    let all: f64 = sums.iter().sum();
    (all > 0.0).then(|| sums.map(|sum| sum / all))
}

fn packets<'a>(runs: impl Iterator<Item = &'a PointFigures> + Clone) -> [Packets; 3] {
    [0, 1, 2].map(|which| {
        let all = runs.clone().map(|run| run.packets[which]).filter(|one| one.packets > 0);
        let mut sum = Packets { least_slack_us: f64::INFINITY, ..Packets::default() };
        for one in all {
            sum.mean_slack_us += one.mean_slack_us * one.packets as f64;
            sum.packets += one.packets;
            sum.missed += one.missed;
            sum.least_slack_us = sum.least_slack_us.min(one.least_slack_us);
        }
        match sum.packets {
            0 => Packets::default(),
            count => Packets { mean_slack_us: sum.mean_slack_us / count as f64, ..sum },
        }
    })
}

impl ProgramSummary {
    /// The arm, where it ran.
    pub fn arm(&self, arm: Arm) -> Option<&ArmSummary> {
        self.arms.iter().find(|one| one.arm == arm)
    }

    /// Mean slow-down of an arm, percent.
    pub fn slow_down(&self, arm: Arm) -> Option<f64> {
        Some(self.arm(arm)?.slow_down_percent?.mean)
    }

    /// An arm's seeds.
    pub fn seeds(&self, arm: Arm) -> impl Iterator<Item = &OfSeed> {
        self.arm(arm).into_iter().flat_map(|arm| &arm.by_seed)
    }

    /// Slow-downs of an arm's seeds, percent.
    pub fn slow_downs(&self, arm: Arm) -> Vec<f64> {
        self.seeds(arm).filter_map(|seed| seed.slow_down_percent).collect()
    }

    /// That of one seed, percent.
    pub fn slow_down_at(&self, arm: Arm, seed: u64) -> Option<f64> {
        self.seeds(arm).find(|one| one.seed == seed)?.slow_down_percent
    }

    /// Whether an operation was late in its runs with jitter.
    pub fn was_late(&self) -> bool {
        self.row.is_some_and(|row| row.events_per_ms > 0.0)
    }

    /// The paper's program that it is like.
    pub fn of_paper(&self) -> Option<&'static PaperProgram> {
        program(&self.program)
    }
}

/// Everything that the command found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PaperSummary {
    /// What this is.
    pub schema: String,
    /// Whether all that was asked for was run.
    pub complete: bool,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// Simulated time of a run without jitter, at least, microseconds.
    pub length_us: u64,
    /// What the kernel did for injected jitter, in words.
    pub kernel: String,
    /// Where the knobs are from, in words.
    pub calibration: String,
    /// Programs that ran.
    pub programs: Vec<ProgramSummary>,
    /// Programs of the paper that did not, and why.
    pub not_run: Vec<(String, String)>,
    /// Tables and figures that were asked for, by their numbers; empty: all.
    pub only: Vec<String>,
}

impl PaperSummary {
    /// What a summary calls itself.
    pub const SCHEMA: &'static str = "quaver.sim-paper/1";

    /// Mean over the programs of a suite of the mean slow-down of an arm, percent.
    pub fn mean(&self, suite: Suite, arm: Arm) -> Option<f64> {
        let all: Option<Vec<f64>> = self.of(suite).map(|program| program.slow_down(arm)).collect();
        Spread::of(&all?).map(|spread| spread.mean)
    }

    /// All of the paper's programs of a suite ran, so that their means are of the same.
    pub fn covers(&self, suite: Suite) -> bool {
        self.of(suite).count() == PROGRAMS.iter().filter(|row| row.suite == suite).count()
    }

    /// A suite by its name, and how many of its programs ran where not all did.
    pub fn coverage(&self, suite: Suite) -> String {
        let (ran, all) = (self.of(suite).count(), PROGRAMS.iter().filter(|row| row.suite == suite).count());
        let part = if ran < all { format!("{ran} of {all} programs of ") } else { String::new() };
        part + suite.name()
    }

    /// Programs of a suite.
    pub fn of(&self, suite: Suite) -> impl Iterator<Item = &ProgramSummary> + Clone {
        self.programs.iter().filter(move |program| program.suite == suite)
    }

    /// The program of this name, where it ran.
    pub fn program(&self, name: &str) -> Option<&ProgramSummary> {
        self.programs.iter().find(|program| program.program == name)
    }

    /// Whether a table or figure (`table 6`, `figure 10`) was asked for.
    pub fn wants(&self, what: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|one| one == what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(arm: Arm, seed: u64, slow_down: f64, power: f64) -> (Point, PointFigures) {
        let figures = PointFigures {
            slow_down: Some(slow_down),
            events_per_ms: 4.0,
            late_us_per_ms: 200.0,
            power: vec![power; MODELS.len()],
            mean_factor: 1.0,
            classes_ns: [0, 0, 60, 0, 30, 10],
            bins: vec![Bin { from_ns: 1e4, to_ns: 1.3e4, count: 2 }],
            path_us: (seed > 0).then_some([slow_down * 10.0, 2.0, 4.0]),
            packets: [Packets { packets: 2, missed: seed, mean_slack_us: 10.0, least_slack_us: -5.0 }; 3],
            ..PointFigures::default()
        };
        (Point { arm, seed }, figures)
    }

    fn runs() -> ProgramRuns {
        ProgramRuns {
            program: "ocean".to_owned(),
            suite: Suite::Splash2,
            how: HowRun::default(),
            points: vec![
                run(Arm::Ideal, 0, 0.0, 0.5),
                run(Arm::IdealOsCache, 0, -0.1, 0.5),
                run(Arm::Unified, 1, 0.2, 0.5),
                run(Arm::Unified, 2, 0.4, 0.5),
                run(Arm::UnifiedDvfs, 1, 0.1, 0.6),
                run(Arm::UnifiedDvfs, 2, 0.2, 0.75),
                run(Arm::OsCache, 1, 0.08, 0.5),
            ],
        }
    }

    #[test]
    fn arms_have_their_spread_and_are_compared_with_the_run_of_their_seed() {
        let summary = runs().summary();
        let near = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-9, "{value} {expected}");
        let unified = summary.arm(Arm::Unified).unwrap().slow_down_percent.unwrap();
        near(unified.min, 20.0);
        near(unified.mean, 30.0);
        near(unified.max, 40.0);
        let dvfs = summary.arm(Arm::UnifiedDvfs).unwrap();
        near(dvfs.power_percent[0].min, 20.0);
        near(dvfs.power_percent[0].max, 50.0);
        near(dvfs.least_ratio.unwrap(), 1.2 / 1.4);
        near(summary.arm(Arm::OsCache).unwrap().own_slow_down_percent.unwrap().mean, 20.0);
        assert!(summary.arm(Arm::Unified).unwrap().power_percent.is_empty());
        assert_eq!(summary.arm(Arm::Pinned), None);
        let path_us = |arm: Arm| summary.arm(arm).unwrap().path_us;
        assert_eq!((path_us(Arm::Unified), path_us(Arm::Ideal)), (Some([3.0, 2.0, 4.0]), None));
        let row = summary.row.unwrap();
        near(row.mean_us, 50.0);
        near(row.slow_down_percent, 30.0);
        assert_eq!(summary.class_shares, Some([0.0, 0.0, 0.6, 0.0, 0.3, 0.1]));
        assert_eq!((summary.distribution.len(), summary.distribution[0].count), (1, 4));
        assert_eq!((summary.packets[0].packets, summary.packets[0].missed), (4, 3));
        assert!(!summary.held_out);
    }

    #[test]
    fn a_summary_is_read_as_it_was_written() {
        let summary = PaperSummary {
            schema: PaperSummary::SCHEMA.to_owned(),
            complete: true,
            seeds: vec![1, 2],
            length_us: 3_000,
            kernel: "made up".to_owned(),
            calibration: "bundled".to_owned(),
            programs: vec![runs().summary()],
            not_run: vec![("vips".to_owned(), "not traced".to_owned())],
            only: vec!["figure 10".to_owned()],
        };
        let text = toml::to_string(&summary).unwrap();
        assert_eq!(toml::from_str::<PaperSummary>(&text).unwrap(), summary);
        assert!(summary.wants("figure 10") && !summary.wants("table 6"));
        assert!((summary.mean(Suite::Splash2, Arm::Unified).unwrap() - 30.0).abs() < 1e-9);
        assert_eq!(summary.mean(Suite::Parsec, Arm::Unified), None);
    }
}
