//! Trials of remedies whose effect is known. Every seed is fixed, so each count is the same in every run.

use super::judge::verdicts;
use super::*;
use quaver_analysis::order::below;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;

/// What the remedies really do.
struct World<'a> {
    /// Effect of each remedy on the objective.
    effects: &'a [f64],
    /// Effect of each on losses.
    losses: &'a [f64],
    /// Part of a remedy's effect that the next block has too.
    carry_over: f64,
    /// Whether the noise has rare large values, as lateness has.
    heavy: bool,
}

fn noise(random: &mut Pcg64Mcg, heavy: bool) -> f64 {
    let unit = |random: &mut Pcg64Mcg| below(random, 1 << 24) as f64 / f64::from(1 << 24);
    let normal = (0..12).map(|_| unit(random)).sum::<f64>() - 6.0;
    if heavy && below(random, 12) == 0 { normal * 12.0 } else { normal }
}

/// What a trial says of each remedy.
type Judged = Vec<(Option<Effect>, TrialVerdict)>;

/// A trial, looked at after each round, and why each remedy's ended early.
fn trial(world: &World<'_>, rounds: u32, seed: u64) -> (Judged, Vec<Option<Settled>>) {
    let mut random = Pcg64Mcg::seed_from_u64(seed ^ 0xc0de);
    let remedies = world.effects.len();
    let (mut blocks, mut ended) = (Vec::new(), vec![None; remedies]);
    let (mut earlier, mut drift) = (0.0, 0.0);
    for round in 0..rounds {
        for arm in block_order(seed, round, remedies + 1) {
            let remedy = arm.checked_sub(1);
            if remedy.is_some_and(|remedy| ended[remedy].is_some()) {
                continue;
            }
            let own = remedy.map_or(0.0, |remedy| world.effects[remedy]);
            drift += 0.05 * noise(&mut random, false);
            let objective = 50.0 + own + world.carry_over * earlier + drift + noise(&mut random, world.heavy);
            let lost_share = remedy.map_or(0.0, |remedy| world.losses[remedy]);
            let figures = BlockFigures {
                objective,
                lost_share,
                received_per_s: 1e5 * (1.0 - lost_share),
                burden: Burden { busy_cpus: 1.0, ..Burden::default() },
            };
            blocks.push(Block { round, arm, figures: Some(figures), void: None });
            earlier = own;
        }
        for (at, ended) in ended.iter_mut().enumerate().filter(|(_, ended)| ended.is_none()) {
            *ended = settled(&blocks, at + 1, remedies, rounds - round - 1);
        }
    }
    (verdicts(&blocks, &vec![None; remedies]), ended)
}

fn kept(world: &World<'_>, rounds: u32, trials: u64, of: impl Fn(usize) -> bool) -> u64 {
    let helps = |(at, (_, verdict)): (usize, &(Option<Effect>, TrialVerdict))| {
        of(at) && *verdict == TrialVerdict::Helps
    };
    (0..trials).filter(|seed| trial(world, rounds, *seed).0.iter().enumerate().any(helps)).count() as u64
}

#[test]
fn of_twenty_remedies_without_effect_one_is_kept_in_a_twentieth_of_trials_at_most() {
    for heavy in [false, true] {
        let world = World { effects: &[0.0; 20], losses: &[0.0; 20], carry_over: 0.0, heavy };
        let falsely = kept(&world, 20, 200, |_| true);
        // A test that never finds anything would pass too; the next test asks for power.
        assert!(falsely <= 10, "{falsely} of 200");
    }
}

#[test]
fn looking_after_each_round_finds_an_effect_where_none_is_one_time_of_twenty_at_most() {
    for heavy in [false, true] {
        let world = World { effects: &[0.0], losses: &[0.0], carry_over: 0.0, heavy };
        let falsely = kept(&world, 40, 2_000, |_| true);
        assert!((10..=100).contains(&falsely), "{falsely} of 2000");
    }
}

#[test]
fn a_trial_ends_early_for_plain_effects_and_where_there_is_none() {
    let world = World { effects: &[-20.0, 0.0, 20.0], losses: &[0.0; 3], carry_over: 0.0, heavy: false };
    let mut rounds = [0; 3];
    for seed in 0..100 {
        let (judged, ended) = trial(&world, 40, seed);
        assert_eq!(ended[0], Some(Settled::ForUse));
        assert_eq!(ended[2], Some(Settled::ForFutility));
        for (sum, (effect, _)) in rounds.iter_mut().zip(judged) {
            *sum += effect.unwrap().rounds;
        }
    }
    assert!(rounds[0] <= 800 && rounds[1] <= 2_000 && rounds[2] <= 700, "of 4000: {rounds:?}");
}

#[test]
fn one_remedy_that_helps_is_found_among_twenty_and_nothing_else_is_kept() {
    let mut effects = [0.0; 20];
    effects[7] = -6.0;
    for carry_over in [0.0, 0.3] {
        let world = World { effects: &effects, losses: &[0.0; 20], carry_over, heavy: false };
        let found = kept(&world, 14, 100, |at| at == 7);
        let falsely = kept(&world, 14, 100, |at| at != 7);
        assert!(found >= 97, "carry-over {carry_over}: found {found} of 100");
        assert!(falsely <= 5, "carry-over {carry_over}: {falsely} of 100 falsely");
    }
}

#[test]
fn the_smallest_detectable_effect_is_found_four_times_of_five() {
    for (rounds, remedies) in [(8_u32, 1_usize), (12, 4), (16, 4)] {
        let smallest = smallest_detectable(1.0, rounds, remedies).unwrap();
        let mut effects = vec![0.0; remedies];
        effects[0] = -smallest;
        let losses = vec![0.0; remedies];
        let world = World { effects: &effects, losses: &losses, carry_over: 0.0, heavy: false };
        let found = kept(&world, rounds, 300, |at| at == 0);
        assert!((195..=288).contains(&found), "{rounds} rounds, {remedies} remedies: {found} of 300");
    }
}

#[test]
fn a_remedy_that_helps_and_loses_packets_is_refused() {
    let world = World { effects: &[-20.0, -20.0], losses: &[0.02, 0.0], carry_over: 0.0, heavy: false };
    for seed in 0..50 {
        let verdicts: Vec<TrialVerdict> =
            trial(&world, 10, seed).0.into_iter().map(|(_, verdict)| verdict).collect();
        assert_eq!(verdicts, [TrialVerdict::Harms { guard: Guard::Losses }, TrialVerdict::Helps]);
    }
}

#[test]
fn what_makes_it_worse_is_told_and_never_kept() {
    let world = World { effects: &[20.0], losses: &[0.0], carry_over: 0.0, heavy: false };
    assert!((0..50).all(|seed| trial(&world, 10, seed).0[0].1 == TrialVerdict::Worse));
}

#[test]
fn gross_harm_is_seen_in_one_block_and_void_blocks_count_nowhere() {
    let burden = Burden { busy_cpus: 1.0, ..Burden::default() };
    let bare = BlockFigures { objective: 1.0, lost_share: 0.0, received_per_s: 1000.0, burden };
    let starved = BlockFigures { received_per_s: 400.0, ..bare };
    assert_eq!(gross_harm(&[bare], &starved), Some(Guard::Throughput));
    assert_eq!(gross_harm(&[bare, starved], &starved), None);
    assert_eq!(gross_harm(&[], &starved), None);
    let waits = |waiting| BlockFigures {
        burden: Burden { others_waiting: Some(waiting), ..Burden::default() },
        ..bare
    };
    // Of a host where little waits half a thread more is much; where a thread waits anyway it takes one more.
    for (bare, with, harm) in [(0.0, 0.52, true), (0.0, 0.48, false), (1.2, 1.9, false), (1.2, 2.5, true)] {
        let expected = harm.then_some(Guard::Others);
        assert_eq!(gross_harm(&[waits(bare)], &waits(with)), expected, "{bare} {with}");
    }
    let block = |round, arm, figures| Block { round, arm, figures, void: None };
    let better = BlockFigures { objective: 0.0, ..bare };
    let blocks = [
        block(0, 0, Some(bare)),
        block(0, 1, Some(better)),
        block(1, 0, Some(bare)),
        block(1, 1, None),
        block(2, 1, Some(better)),
    ];
    let (found, verdict) = judge_proof(&blocks, None);
    let found = found.unwrap();
    assert_eq!((found.rounds, found.difference, found.p), (1, -1.0, Some(1.0)));
    assert_eq!(verdict, TrialVerdict::NoEffect);
    assert_eq!(judge(&blocks[3..], &[None])[0], (None, TrialVerdict::NoEffect));
}

#[test]
fn each_guard_refuses_what_helps_at_its_expense_and_one_that_cannot_be_read_refuses_nothing() {
    let burden =
        Burden { busy_cpus: 1.0, others_waiting: Some(0.1), power_w: Some(40.0), hottest_c: Some(60.0) };
    let bare = BlockFigures { objective: 100.0, lost_share: 0.0, received_per_s: 1000.0, burden };
    let with = |change: fn(&mut BlockFigures, f64), by: f64| {
        let mut figures = BlockFigures { objective: 80.0, ..bare };
        change(&mut figures, by);
        figures
    };
    type Case = (Guard, fn(&mut BlockFigures, f64), f64);
    // What is accepted at most.
    let cases: [Case; 6] = [
        (Guard::Losses, |block, by| block.lost_share += by, 0.001),
        (Guard::Throughput, |block, by| block.received_per_s -= by, 10.0),
        (Guard::CpuTime, |block, by| block.burden.busy_cpus += by, 0.25),
        (Guard::Others, |block, by| *block.burden.others_waiting.as_mut().unwrap() += by, 0.01),
        (Guard::Power, |block, by| *block.burden.power_w.as_mut().unwrap() += by, 10.0),
        (Guard::Heat, |block, by| *block.burden.hottest_c.as_mut().unwrap() += by, 5.0),
    ];
    assert_eq!(cases.map(|(guard, ..)| guard), Guard::ALL);
    for (guard, change, most) in cases {
        let judged = |by: f64, strip: fn(&mut BlockFigures)| {
            let round = |round: u32| {
                [bare, with(change, by)].into_iter().enumerate().map(move |(arm, mut figures)| {
                    strip(&mut figures);
                    Block { round, arm, figures: Some(figures), void: None }
                })
            };
            judge(&(0..12).flat_map(round).collect::<Vec<_>>(), &[None])[0].1
        };
        assert_eq!(judged(1.1 * most, |_| ()), TrialVerdict::Harms { guard });
        assert_eq!(judged(0.9 * most, |_| ()), TrialVerdict::Helps, "{guard:?}");
        if guard.value(&BlockFigures { burden: Burden::default(), ..bare }).is_none() {
            let blind = judged(50.0 * most, |block| {
                block.burden = Burden { busy_cpus: 1.0, ..Burden::default() };
            });
            assert_eq!(blind, TrialVerdict::Helps, "{guard:?}");
        }
    }
}
