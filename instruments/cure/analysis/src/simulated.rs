//! Trials of remedies whose effect is known. Every seed is fixed, so each count is the same in every run.

use super::judge::verdicts;
use super::*;
use quaver_analysis::order::below;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;
use std::slice::from_ref;

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

/// A block of a host at rest.
fn at_rest() -> BlockFigures {
    let burden = Burden { busy_cpus: 1.0, ..Burden::default() };
    BlockFigures { objective: 100.0, lost_share: 0.0, received_per_s: 1000.0, burden }
}

/// The same where these programs waited: a name, whether it receives, and how many of its threads.
fn waiting(waits: &[(&str, bool, f64)]) -> Burden {
    let of = |&(program, receives, waiting): &(&str, bool, f64)| Waits {
        program: program.to_owned(),
        receives,
        waiting,
        // It wants one CPU.
        used: (1.0 - waiting).max(0.0),
    };
    let sum = |only: bool| waits.iter().filter(|one| one.1 || !only).map(|one| one.2).sum();
    Burden {
        busy_cpus: 1.0,
        others_waiting: Some(sum(true)),
        programs_waiting: Some(sum(false)),
        waits: waits.iter().map(of).collect(),
        ..Burden::default()
    }
}

/// The guard that one block breaks grossly.
fn gross(bare: &[BlockFigures], with: &BlockFigures) -> Option<Guard> {
    gross_harm(bare, with).map(|harm| harm.guard)
}

#[test]
fn gross_harm_is_seen_in_one_block_and_void_blocks_count_nowhere() {
    let bare = BlockFigures { objective: 1.0, ..at_rest() };
    let starved = BlockFigures { received_per_s: 400.0, ..bare.clone() };
    assert_eq!(gross(from_ref(&bare), &starved), Some(Guard::Throughput));
    assert_eq!(gross(&[bare.clone(), starved.clone()], &starved), None);
    assert_eq!(gross(&[], &starved), None);
    let waits =
        |receives, waits| BlockFigures { burden: waiting(&[("it", receives, waits)]), ..bare.clone() };
    // Of a host where little waits half a thread more is much; where a thread waits anyway it takes one more.
    for (bare, with, harm) in [(0.0, 0.52, true), (0.0, 0.48, false), (1.2, 1.9, false), (1.2, 2.5, true)] {
        let expected = harm.then_some(Guard::Others);
        assert_eq!(gross(&[waits(true, bare)], &waits(true, with)), expected, "{bare} {with}");
    }
    for (bare, with, harm) in [(0.0, 0.82, true), (0.0, 0.78, false), (0.5, 0.88, false), (0.5, 0.92, true)] {
        let expected = harm.then_some(Guard::Programs);
        assert_eq!(gross(&[waits(false, bare)], &waits(false, with)), expected, "{bare} {with}");
    }
    let dropped = |per_s| {
        let burden = Burden { others_dropped_per_s: Some(per_s), ..bare.burden.clone() };
        BlockFigures { burden, ..bare.clone() }
    };
    assert_eq!(gross(&[dropped(0.0)], &dropped(1e6)), None, "a burst of drops may be anybody's doing");
    let block = |round, arm, figures: Option<&BlockFigures>| Block {
        round,
        arm,
        figures: figures.cloned(),
        void: None,
    };
    let better = BlockFigures { objective: 0.0, ..bare.clone() };
    let blocks = [
        block(0, 0, Some(&bare)),
        block(0, 1, Some(&better)),
        block(1, 0, Some(&bare)),
        block(1, 1, None),
        block(2, 1, Some(&better)),
    ];
    let (found, verdict, harm) = judge_proof(&blocks, None);
    let found = found.unwrap();
    assert_eq!((found.rounds, found.difference, found.p), (1, -1.0, Some(1.0)));
    assert_eq!((verdict, harm), (TrialVerdict::NoEffect, None));
    assert_eq!(judge(&blocks[3..], &[None])[0], (None, TrialVerdict::NoEffect));
}

/// Twelve rounds, whose blocks with the remedy are better by a fifth, and bear this.
fn rounds(bare: &BlockFigures, with: &BlockFigures) -> Vec<Block> {
    let with = BlockFigures { objective: 80.0, ..with.clone() };
    let block =
        |round, arm, figures: &BlockFigures| Block { round, arm, figures: Some(figures.clone()), void: None };
    (0..12).flat_map(|round| [block(round, 0, bare), block(round, 1, &with)]).collect()
}

#[test]
fn each_guard_refuses_what_helps_at_its_expense_and_one_that_cannot_be_read_refuses_nothing() {
    let all = |waits: [f64; 2]| Burden {
        others_dropped_per_s: Some(10.0),
        power_w: Some(40.0),
        hottest_c: Some(60.0),
        ..waiting(&[("web (process 8)", true, waits[0]), ("job (process 9)", false, waits[1])])
    };
    let bare = BlockFigures { burden: all([0.1, 0.3]), ..at_rest() };
    type Case = (Guard, fn(&mut BlockFigures, f64), f64, &'static str);
    // What is accepted at most, and what is said of ten percent more.
    let cases: [Case; 8] = [
        (
            Guard::Losses,
            |block, by| block.lost_share += by,
            0.001,
            "delivery: 0.11 % of packets were lost, instead of 0.00 %",
        ),
        (
            Guard::Throughput,
            |block, by| block.received_per_s -= by,
            10.0,
            "throughput: 989.0 packets or runs a second, instead of 1000.0",
        ),
        (
            Guard::CpuTime,
            |block, by| block.burden.busy_cpus += by,
            0.25,
            "CPU time: 1.28 CPUs were busy, instead of 1.00",
        ),
        (
            Guard::Others,
            |block, by| block.burden.waits[0].waiting += by,
            0.01,
            "another receiver: 0.111 threads of web (process 8) waited for a CPU in the mean, instead of 0.100",
        ),
        (
            Guard::OthersDropped,
            |block, by| *block.burden.others_dropped_per_s.as_mut().unwrap() += by,
            2.5,
            "other receivers: they dropped 12.8 packets a second, instead of 10.0",
        ),
        (
            Guard::Programs,
            |block, by| {
                block.burden.waits[1].waiting += by;
                block.burden.waits[1].used -= by;
            },
            // A tenth of the 0.7 CPUs that it had.
            0.07,
            "another program: job (process 9) waited for 37.7 % of the CPU time that it wanted, instead of 30.0 %",
        ),
        (
            Guard::Power,
            |block, by| *block.burden.power_w.as_mut().unwrap() += by,
            10.0,
            "power: the CPUs took 51.0 W, instead of 40.0 W",
        ),
        (
            Guard::Heat,
            |block, by| *block.burden.hottest_c.as_mut().unwrap() += by,
            5.0,
            "temperature: the CPUs had 65.5 °C, instead of 60.0 °C",
        ),
    ];
    assert_eq!(cases.map(|(guard, ..)| guard), Guard::ALL);
    for (guard, change, most, words) in cases {
        let judged = |by: f64, strip: fn(&mut BlockFigures)| {
            let (mut bare, mut with) = (bare.clone(), bare.clone());
            change(&mut with, by);
            strip(&mut bare);
            strip(&mut with);
            rounds(&bare, &with)
        };
        let harmful = judged(1.1 * most, |_| ());
        assert_eq!(judge(&harmful, &[None])[0].1, TrialVerdict::Harms { guard });
        assert_eq!(harm_so_far(&harmful, 1).unwrap().words(), words);
        assert_eq!(judge_proof(&harmful, None).2.unwrap().words(), words);
        let accepted = judged(0.9 * most, |_| ());
        assert_eq!((judge(&accepted, &[None])[0].1, harm_so_far(&accepted, 1)), (TrialVerdict::Helps, None));
        if guard.value(&at_rest()).is_none() {
            let strip =
                |block: &mut BlockFigures| block.burden = Burden { busy_cpus: 1.0, ..Burden::default() };
            let blind = judged(50.0 * most, strip);
            assert_eq!(judge(&blind, &[None])[0].1, TrialVerdict::Helps, "{guard:?}");
        }
    }
}

#[test]
fn what_one_program_gains_is_no_comfort_to_another() {
    let of = |waits: &[(&str, bool, f64)]| BlockFigures { burden: waiting(waits), ..at_rest() };
    for (receives, guard) in [(true, Guard::Others), (false, Guard::Programs)] {
        // What is below the least that is listed is not there at all.
        let bare = of(&[("one", receives, 0.5), ("two", receives, 0.25)]);
        let with = of(&[("two", receives, 0.5), ("three", receives, 0.2)]);
        let harm = harm_so_far(&rounds(&bare, &with), 1).unwrap();
        // Of two that are harmed the one that is harmed more is named.
        assert_eq!((harm.guard, harm.program.as_deref()), (guard, Some("two")));
        assert_eq!((harm.without, harm.with), (0.25, 0.5));
        assert_eq!(harm_so_far(&rounds(&with, &with), 1), None);
    }
}

#[test]
fn a_program_loses_what_it_waits_for_of_the_cpu_time_that_it_wants() {
    let of = |threads: f64, waiting: f64| {
        let waits = Waits { program: "job".to_owned(), receives: false, waiting, used: threads - waiting };
        let burden = Burden { programs_waiting: Some(waiting), waits: vec![waits], ..Burden::default() };
        BlockFigures { burden, ..at_rest() }
    };
    let is_harm = |bare: &BlockFigures, with: &BlockFigures| harm_so_far(&rounds(bare, with), 1).is_some();
    // Of two threads that want a CPU each, 0.15 more waiting is 7.5 % of what they want; of one it is 15 %.
    assert!(!is_harm(&of(2.0, 0.0), &of(2.0, 0.15)) && is_harm(&of(1.0, 0.0), &of(1.0, 0.15)));
    // Who has a tenth of a CPU loses by a third of that, and by 2 % of it within what cannot be told from chance.
    assert!(is_harm(&of(1.0, 0.9), &of(1.0, 0.935)) && !is_harm(&of(1.0, 0.9), &of(1.0, 0.902)));
    // Who hardly wants a CPU loses little by waits of its own length, and all by being starved.
    assert!(!is_harm(&of(0.02, 0.01), &of(0.03, 0.02)) && is_harm(&of(0.02, 0.01), &of(0.9, 0.9)));
}

#[test]
fn one_that_helps_is_tried_on_while_it_may_harm_and_no_longer() {
    let burden = |waits| waiting(&[("job", false, waits)]);
    let round = |round: u32, waits: f64| {
        let of = |arm, objective, waits| {
            let figures = BlockFigures { objective, burden: burden(waits), ..at_rest() };
            Block { round, arm, figures: Some(figures), void: None }
        };
        [of(0, 100.0, 0.1), of(1, 20.0, waits)]
    };
    // A job that waits more in one of two blocks: by chance, as far as is known.
    let unclear: Vec<Block> = (0..6).flat_map(|at| round(at, if at % 2 == 0 { 0.9 } else { 0.0 })).collect();
    assert_eq!((settled(&unclear, 1, 1, 30), harm_so_far(&unclear, 1)), (None, None));
    let harmless: Vec<Block> = (0..6).flat_map(|at| round(at, 0.1)).collect();
    assert_eq!(settled(&harmless, 1, 1, 30), Some(Settled::ForUse));
}
