//! What a cure makes smaller: one figure of each block.

use clap::ValueEnum;
use quaver_analysis::summary::{ChaseSummary, Losses, NoiseCpu};
use quaver_cure_analysis::{BlockFigures, Burden};
use quaver_view::{Cell, Quantity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is to become smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// Share of packets that are late
    LateShare,
    /// 99.9th percentile of the lateness
    #[value(name = "p99.9")]
    #[serde(rename = "p99.9")]
    P999,
    /// 99.99th percentile of the lateness: it rests on few packets of a block
    #[value(name = "p99.99")]
    #[serde(rename = "p99.99")]
    P9999,
    /// Lateness of the worst packet
    Worst,
    /// Share of packets that are late by more than --deadline, or lost
    DeadlineMisses,
    /// Share of their time that loops did not run
    NoiseShare,
    /// Time that a run of the program takes
    RunTime,
    /// Share of its threads' time in late synchronization
    SyncShare,
}

/// A run of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ProgramRun {
    /// From its start to its end.
    pub(crate) took_ns: u64,
    /// Late synchronization over the time of all threads; none where it was not recorded.
    pub(crate) sync_share: Option<f64>,
}

/// What a block measured.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Measured<'a> {
    /// A stream of packets.
    Stream(&'a ChaseSummary),
    /// Busy loops.
    Loops(&'a [NoiseCpu]),
    /// A program.
    Program(ProgramRun),
}

impl Objective {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::LateShare => "share of late packets",
            Self::P999 => "99.9th percentile of the lateness",
            Self::P9999 => "99.99th percentile of the lateness",
            Self::Worst => "worst lateness",
            Self::DeadlineMisses => "share of packets that missed their deadline",
            Self::NoiseShare => "share of time without the loops",
            Self::RunTime => "time of a run",
            Self::SyncShare => "share of time in late synchronization",
        }
    }

    /// What its values are of.
    pub const fn quantity(self) -> Quantity {
        match self {
            Self::LateShare | Self::DeadlineMisses | Self::NoiseShare | Self::SyncShare => Quantity::Share,
            Self::P999 | Self::P9999 | Self::Worst | Self::RunTime => Quantity::Duration,
        }
    }

    /// A value of it.
    pub const fn cell(self, value: f64) -> Cell {
        match self.quantity() {
            Quantity::Share => Cell::Share(value),
            _ => Cell::Duration(value as i64),
        }
    }

    /// Whether it is of busy loops.
    pub const fn is_of_loops(self) -> bool {
        matches!(self, Self::NoiseShare)
    }

    /// Whether it is of a program that is run.
    pub const fn is_of_program(self) -> bool {
        matches!(self, Self::RunTime | Self::SyncShare)
    }

    /// Its figure of a block whose packets are late from the deadline on, where there is one: a share, or nanoseconds. None
    /// where the block has no such figure.
    fn of(self, measured: Measured<'_>) -> Option<f64> {
        let summary = match (self, measured) {
            (Self::NoiseShare, Measured::Loops(cpus)) => {
                let sum = |of: fn(&NoiseCpu) -> i64| cpus.iter().map(of).sum::<i64>() as f64;
                let runtime_ns = sum(|cpu| cpu.runtime_ns);
                return (runtime_ns > 0.0).then(|| sum(|cpu| cpu.noise_ns) / runtime_ns);
            }
            (Self::RunTime, Measured::Program(run)) => return Some(run.took_ns as f64),
            (Self::SyncShare, Measured::Program(run)) => return run.sync_share,
            (Self::NoiseShare | Self::RunTime | Self::SyncShare, _)
            | (_, Measured::Loops(_) | Measured::Program(_)) => return None,
            (_, Measured::Stream(summary)) => summary,
        };
        let (lateness, received) = (&summary.lateness, summary.losses.received);
        Some(match self {
            Self::P999 => lateness.distribution.p99_9_ns as f64,
            Self::P9999 => lateness.distribution.p99_99_ns as f64,
            Self::Worst => lateness.distribution.max_ns as f64,
            Self::DeadlineMisses => {
                let lost = lost(&summary.losses);
                (lateness.packets + lost) as f64 / (received + lost).max(1) as f64
            }
            _ => lateness.packets as f64 / received.max(1) as f64,
        })
    }

    /// All figures of a block of so many seconds, in which the host bore so much. Loops receive and lose nothing.
    pub(crate) fn figures(
        self,
        measured: Measured<'_>,
        length_s: f64,
        burden: Burden,
    ) -> Option<BlockFigures> {
        let (received, lost) = match measured {
            Measured::Stream(summary) => (summary.losses.received, lost(&summary.losses) as f64),
            Measured::Loops(_) => (0, 0.0),
            Measured::Program(_) => (1, 0.0),
        };
        Some(BlockFigures {
            objective: self.of(measured)?,
            lost_share: lost / (received.max(1) as f64 + lost),
            received_per_s: received as f64 / length_s,
            burden,
        })
    }
}

/// Packets that did not arrive, wherever they were lost.
fn lost(losses: &Losses) -> u64 {
    losses.network.unwrap_or(0)
        + losses.nic_ring.unwrap_or(0)
        + losses.stack.values().sum::<u64>()
        + losses.socket_buffer.unwrap_or(0)
        + losses.unaccounted
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_analysis::attribution::{AttributionOptions, NoiseOptions, analyze_noise, analyze_packets};
    use quaver_analysis::model::{
        Actor, Layer, LayerColumn, NoiseLoop, NoiseRun, PacketCounts, PacketRun, PacketTable,
    };
    use quaver_analysis::order::below;
    use quaver_cure_analysis::{Block, TrialVerdict, judge, judge_proof};
    use rand_pcg::Pcg64Mcg;
    use rand_pcg::rand_core::SeedableRng;

    const ALL: [Objective; 5] = [
        Objective::LateShare,
        Objective::P999,
        Objective::P9999,
        Objective::Worst,
        Objective::DeadlineMisses,
    ];
    const PERIOD_NS: i64 = 1_000_000;
    const PACKETS: usize = 400;
    const DEADLINE_NS: i64 = 50_000;

    /// Latenesses of a block: of 20 packets one is held up by up to `most_ns`, and `lost` at its end never arrive.
    fn latenesses(seed: u64, most_ns: usize) -> Vec<i64> {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut of = |at: usize| match at % 20 {
            7 => below(&mut random, most_ns) as i64,
            _ => 0,
        };
        (0..PACKETS).map(&mut of).collect()
    }

    /// What the analysis says of a stream whose packets are late by so much.
    fn analyzed(latenesses: &[i64], lost: u64) -> ChaseSummary {
        let due = |at: usize| 1_000_000_000 + PERIOD_NS * at as i64;
        let app_ns: Vec<i64> =
            latenesses.iter().enumerate().map(|(at, late)| due(at) + 2_000 + late).collect();
        let before_app_ns = app_ns.iter().enumerate().map(|(at, app)| app - due(at)).collect();
        let run = PacketRun {
            period_ns: Some(PERIOD_NS as f64),
            packets: PacketTable {
                seq: (0..PACKETS as u64).collect(),
                app_cpu: vec![1; PACKETS],
                stack_cpu: vec![0; PACKETS],
                app_ns,
                layers: vec![LayerColumn { layer: Layer::Schedule, before_app_ns }],
            },
            receiver: Actor { threads: vec![7], cpu: Some(1), ..Actor::default() },
            counts: PacketCounts { sent: Some(PACKETS as u64 + lost), ..PacketCounts::default() },
            ..PacketRun::default()
        };
        let options = AttributionOptions { threshold_ns: Some(DEADLINE_NS), ..AttributionOptions::default() };
        analyze_packets(&run, &options).summary
    }

    /// The same figure by a plain second way: from the latenesses themselves.
    fn oracle(objective: Objective, latenesses: &[i64], lost: u64) -> f64 {
        let late = latenesses.iter().filter(|late| **late > DEADLINE_NS).count() as f64;
        let mut sorted = latenesses.to_vec();
        sorted.sort_unstable();
        // The smallest value that so many per 100,000 of all do not exceed.
        let rank = |per_100_000: usize| sorted[(sorted.len() * per_100_000).div_ceil(100_000) - 1] as f64;
        match objective {
            Objective::LateShare => late / PACKETS as f64,
            Objective::P999 => rank(99_900),
            Objective::P9999 => rank(99_990),
            Objective::Worst => rank(100_000),
            Objective::DeadlineMisses => (late + lost as f64) / (PACKETS as f64 + lost as f64),
            _ => f64::NAN,
        }
    }

    /// What the analysis says of a loop of 400 ms on each of two CPUs that stops were drawn for, and the time of these stops.
    fn looped(seed: u64, most_ns: usize) -> (Vec<NoiseCpu>, i64) {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut run = NoiseRun { threshold_ns: 1_000, ..NoiseRun::default() };
        let mut stopped_ns = 0;
        for cpu in [1, 3] {
            let actor = Actor { threads: vec![u32::from(cpu)], cpu: Some(cpu), ..Actor::default() };
            let (start_ns, end_ns) = (1_000_000_000, 1_400_000_000);
            run.loops.push(NoiseLoop { cpu, actor, start_ns, end_ns, turns: 1_000, shortest_ns: Some(20) });
            for at in 0..100 {
                let stop_ns = 1_000 + below(&mut random, most_ns) as i64;
                let before_ns = start_ns + 4_000_000 * at;
                run.gaps.index.push(at as u64);
                run.gaps.before_ns.push(before_ns);
                run.gaps.after_ns.push(before_ns + stop_ns);
                run.gaps.cpu.push(cpu);
                stopped_ns += stop_ns;
            }
        }
        (analyze_noise(&run, &NoiseOptions::default()).summary.cpus, stopped_ns)
    }

    #[test]
    fn noise_is_the_time_of_the_stops_over_that_of_all_loops_and_less_is_better() {
        let share = |seed: u64, most_ns: usize| {
            let (cpus, stopped_ns) = looped(seed, most_ns);
            let figures =
                Objective::NoiseShare.figures(Measured::Loops(&cpus), 0.4, Burden::default()).unwrap();
            assert_eq!(figures.objective, stopped_ns as f64 / 800_000_000.0, "seed {seed}");
            assert_eq!((figures.lost_share, figures.received_per_s), (0.0, 0.0));
            figures
        };
        for (with_ns, expected) in [(40_000, TrialVerdict::Helps), (400_000, TrialVerdict::Worse)] {
            let block = |round: u32, arm: usize, most_ns: usize| {
                let figures = Some(share(u64::from(round) * 2 + arm as u64, most_ns));
                Block { round, arm, figures, void: None }
            };
            let rounds = (0..12).flat_map(|round| [block(round, 0, 100_000), block(round, 1, with_ns)]);
            assert_eq!(judge(&rounds.collect::<Vec<_>>(), &[None])[0].1, expected);
        }
    }

    #[test]
    fn a_block_has_no_figure_of_what_it_did_not_measure() {
        let (cpus, _) = looped(1, 100_000);
        let summary = analyzed(&latenesses(1, 100_000), 0);
        assert!(ALL.iter().all(|objective| objective.of(Measured::Loops(&cpus)).is_none()));
        assert_eq!(Objective::NoiseShare.of(Measured::Stream(&summary)), None);
        assert_eq!(Objective::NoiseShare.of(Measured::Loops(&[])), None);
    }

    #[test]
    fn each_objective_is_what_a_plain_second_way_says() {
        for seed in 0..20 {
            let (late, lost) = (latenesses(seed, 400_000), seed % 3);
            let summary = analyzed(&late, lost);
            assert_eq!(summary.losses.received, PACKETS as u64);
            for objective in ALL {
                assert_eq!(
                    objective.of(Measured::Stream(&summary)),
                    Some(oracle(objective, &late, lost)),
                    "{objective:?}, seed {seed}"
                );
            }
        }
    }

    /// Rounds whose blocks with the remedy are held up by up to `with_ns`, and those without by up to 100 µs.
    fn blocks(objective: Objective, with_ns: usize) -> Vec<Block> {
        let figures = |seed, most_ns| {
            objective.figures(
                Measured::Stream(&analyzed(&latenesses(seed, most_ns), 0)),
                0.4,
                Burden::default(),
            )
        };
        let block = |round: u32, arm: usize, figures| Block { round, arm, figures, void: None };
        let round = |round: u32| {
            let seed = u64::from(round) * 2;
            [block(round, 0, figures(seed, 100_000)), block(round, 1, figures(seed + 1, with_ns))]
        };
        (0..12).flat_map(round).collect()
    }

    #[test]
    fn of_each_objective_less_is_better_and_its_interval_is_that_of_the_rounds_differences() {
        for objective in ALL {
            let cases = [(60_000, TrialVerdict::Helps), (3_000_000, TrialVerdict::Worse)];
            for (with_ns, expected) in cases {
                let blocks = blocks(objective, with_ns);
                let (effect, verdict) = judge(&blocks, &[None])[0];
                assert_eq!(verdict, expected, "{objective:?}");
                assert_eq!(judge_proof(&blocks, None).1, expected, "{objective:?}");
                let of = |arm: usize| {
                    let figures = blocks.iter().filter(move |block| block.arm == arm);
                    figures.filter_map(|block| Some(block.figures.as_ref()?.objective)).collect::<Vec<_>>()
                };
                let differences: Vec<f64> =
                    of(1).iter().zip(of(0)).map(|(with, without)| with - without).collect();
                let effect = effect.unwrap();
                assert_eq!(effect.interval, quaver_analysis::intervals::interval(&differences));
                let ends = effect.interval.unwrap();
                assert!(ends.low <= effect.difference && effect.difference <= ends.high, "{objective:?}");
                assert_eq!(ends.high < 0.0, expected == TrialVerdict::Helps, "{objective:?}: {ends:?}");
            }
        }
    }
}
