//! How the time that was given is spent, and what can be found in it.

use crate::evidence::{Evidence, Settled, rounds_needed};
use quaver_analysis::order::below;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Rounds of the proof: the smallest p of so many is 2/2⁸.
pub const LEAST_PROOF_ROUNDS: u32 = 8;
/// Blocks are no shorter, what is dropped of each not counted.
const LEAST_BLOCK: Duration = Duration::from_millis(250);
/// Nor longer: more rounds tell more than longer blocks.
const MOST_BLOCK: Duration = Duration::from_secs(2);
/// A trial of few remedies has no more rounds than this: the proof follows.
const MOST_ROUNDS: u32 = 40;

/// How the time is spent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialPlan {
    /// Remedies that are tried: the first so many of those that were ranked.
    pub remedies: usize,
    /// Rounds of the trial.
    pub rounds: u32,
    /// Rounds of the proof.
    pub proof_rounds: u32,
    /// Measured time of a block, nanoseconds.
    pub block_ns: u64,
}

/// Plans for `ranked` remedies in the time that is left. `overhead` is what a block takes beside its measured time. Where the
/// time does not suffice to tell all of them from chance, the last of the ranking are left out. None where it does not
/// suffice for one.
pub fn plan(ranked: usize, left: Duration, overhead: Duration) -> Option<TrialPlan> {
    (1..=ranked).rev().find_map(|remedies| {
        let arms = remedies as u32 + 1;
        let needed = rounds_needed(remedies);
        let blocks = |rounds: u32| rounds * arms + 2 * LEAST_PROOF_ROUNDS.max(rounds / 2);
        if (LEAST_BLOCK + overhead) * blocks(needed) > left {
            return None;
        }
        let usual = MOST_BLOCK / 2 + overhead;
        let fits = |rounds: &u32| usual * blocks(*rounds) <= left;
        let rounds = (needed..=MOST_ROUNDS.max(needed)).rev().find(fits).unwrap_or(needed);
        let block = (left / blocks(rounds)).saturating_sub(overhead).clamp(LEAST_BLOCK, MOST_BLOCK);
        let block_ns = u64::try_from(block.as_nanos()).unwrap_or(u64::MAX);
        let proof_rounds = LEAST_PROOF_ROUNDS.max(rounds / 2);
        Some(TrialPlan { remedies, rounds, proof_rounds, block_ns })
    })
}

/// The same for runs of a program in place of blocks, each of which takes as long as it takes.
pub fn plan_runs(ranked: usize, left: Duration, run: Duration) -> Option<TrialPlan> {
    (1..=ranked).rev().find_map(|remedies| {
        let needed = rounds_needed(remedies);
        let runs = |rounds: u32| rounds * (remedies as u32 + 1) + 2 * LEAST_PROOF_ROUNDS.max(rounds / 2);
        let fits = |rounds: &u32| run * runs(*rounds) <= left;
        let rounds = (needed..=MOST_ROUNDS.max(needed)).rev().find(fits)?;
        let block_ns = u64::try_from(run.as_nanos()).unwrap_or(u64::MAX);
        let proof_rounds = LEAST_PROOF_ROUNDS.max(rounds / 2);
        Some(TrialPlan { remedies, rounds, proof_rounds, block_ns })
    })
}

/// Rounds in which `remedies` of a plan's can be tried again, beside what helped, so that time is left for the proof. None where
/// these would not suffice to find one.
pub fn more_rounds(plan: &TrialPlan, remedies: usize, left: Duration, overhead: Duration) -> Option<u32> {
    let block = Duration::from_nanos(plan.block_ns) + overhead;
    let rounds = left.saturating_sub(block * 2 * plan.proof_rounds).as_secs_f64()
        / (block * (remedies as u32 + 1)).as_secs_f64();
    let rounds = (rounds as u32).min(plan.rounds);
    (remedies > 0 && rounds >= rounds_needed(plan.remedies)).then_some(rounds)
}

/// The time that one remedy and its proof take at least, where a block takes `overhead` beside its measured time.
pub fn least_time(overhead: Duration) -> Duration {
    (LEAST_BLOCK + overhead) * (2 * rounds_needed(1) + 2 * LEAST_PROOF_ROUNDS)
}

/// Simulated trials by which the smallest effect is found, and their seed.
const SIMULATED: usize = 200;
const SEED: u64 = 0x6375_7265;

/// The smallest effect that a trial finds four times of five, in the unit of `sd`, which is the standard deviation of bare
/// blocks: by simulated trials of normal blocks. None where blocks did not differ.
pub fn smallest_detectable(sd: f64, rounds: u32, remedies: usize) -> Option<f64> {
    let mut random = Pcg64Mcg::seed_from_u64(SEED);
    let mut normal =
        || (0..12).map(|_| below(&mut random, 1 << 24) as f64).sum::<f64>() / f64::from(1 << 24) - 6.0;
    let trials: Vec<Vec<f64>> =
        (0..SIMULATED).map(|_| (0..rounds).map(|_| normal() - normal()).collect()).collect();
    let found = |effect: f64| {
        let is_found = |noise: &&Vec<f64>| {
            let gains = noise.iter().map(|noise| noise + effect);
            Evidence::of(gains).settles(remedies, 0) == Some(Settled::ForUse)
        };
        trials.iter().filter(is_found).count() * 5 >= SIMULATED * 4
    };
    let (mut low, mut high) = (0.0, 16.0);
    for _ in 0..12 {
        let middle = (low + high) / 2.0;
        if found(middle) { high = middle } else { low = middle }
    }
    (sd > 0.0).then_some(high * sd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_decides_how_many_remedies_are_tried_and_never_too_few_rounds() {
        let second = Duration::from_secs(1);
        assert_eq!(plan(1, second, second / 2), None);
        let least = least_time(second / 2);
        assert_eq!(plan(1, least, second / 2).map(|plan| plan.remedies), Some(1));
        assert_eq!(plan(1, least - second / 1000, second / 2), None);
        for (ranked, seconds) in [(1, 60), (3, 90), (20, 120), (20, 600), (5, 30)] {
            let left = second * seconds;
            let plan = plan(ranked, left, second / 2).unwrap();
            assert!(plan.remedies <= ranked && plan.rounds >= rounds_needed(plan.remedies), "{plan:?}");
            let blocks = plan.rounds * (plan.remedies as u32 + 1) + 2 * plan.proof_rounds;
            assert!((Duration::from_nanos(plan.block_ns) + second / 2) * blocks <= left, "{plan:?}");
        }
        assert_eq!(plan(3, second * 170, second / 2).unwrap().remedies, 3);
    }

    #[test]
    fn runs_take_as_long_as_they_take_and_their_number_fits_the_time() {
        let second = Duration::from_secs(1);
        let least = 2 * rounds_needed(1) + 2 * LEAST_PROOF_ROUNDS;
        assert_eq!(plan_runs(1, second * least - second / 1000, second), None);
        let plan = plan_runs(1, second * least, second).unwrap();
        assert_eq!((plan.rounds, plan.proof_rounds, plan.block_ns), (rounds_needed(1), 8, 1_000_000_000));
        // Of three, two find time: 3 blocks a round.
        let two = 3 * rounds_needed(2) + 16;
        assert_eq!(plan_runs(3, second * two, second).map(|plan| plan.remedies), Some(2));
        assert_eq!(plan_runs(1, second * 1_000, second).map(|plan| plan.rounds), Some(MOST_ROUNDS));
    }

    #[test]
    fn remedies_are_tried_again_only_where_the_proof_keeps_its_time() {
        let second = Duration::from_secs(1);
        let block_ns = 500_000_000;
        let plan = TrialPlan { remedies: 3, rounds: 12, proof_rounds: 8, block_ns };
        let needed = rounds_needed(3);
        // Two remedies and none, and 16 blocks of the proof, of a second each.
        let least = second * (3 * needed + 16);
        assert_eq!(more_rounds(&plan, 2, least, second / 2), Some(needed));
        assert_eq!(more_rounds(&plan, 2, least - second / 10, second / 2), None);
        assert_eq!(more_rounds(&plan, 2, second * 1_000, second / 2), Some(12));
        assert_eq!(more_rounds(&plan, 0, second * 1_000, second / 2), None);
    }
}
