//! Truth by simulation: what is known to be so is covered, found, and not invented.

use super::*;
use crate::order::below;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

fn uniform(random: &mut Pcg64Mcg) -> f64 {
    ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

fn normal(random: &mut Pcg64Mcg) -> f64 {
    (-2.0 * uniform(random).ln()).sqrt() * (std::f64::consts::TAU * uniform(random)).cos()
}

/// A run whose logarithms follow a first-order autoregression: its 99th percentile is known, and neighbours are alike.
fn run(random: &mut Pcg64Mcg, samples: usize, correlation: f64, scale: f64) -> Vec<f64> {
    let mut state = normal(random);
    let fresh = (1.0 - correlation * correlation).sqrt();
    let mut next = || {
        state = correlation * state + fresh * normal(random);
        scale * 5_000.0 * (0.5 * state).exp()
    };
    (0..samples).map(|_| next()).collect()
}

fn p99(samples: &[f64], seed: u64) -> Estimate {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Estimate::percentile(samples, &sorted, 0.99, seed).expect("enough samples")
}

/// How many of `pairs` of runs, of which B is larger by `planted`, have an interval that holds it, and in how many a change
/// is found.
fn pairs(pairs: u64, samples: usize, correlation: f64, planted: f64) -> (usize, usize) {
    let mut random = Pcg64Mcg::seed_from_u64(21);
    let (mut covered, mut found) = (0, 0);
    for pair in 0..pairs {
        let a = p99(&run(&mut random, samples, correlation, 1.0), 2 * pair);
        let b = p99(&run(&mut random, samples, correlation, 1.0 + planted), 2 * pair + 1);
        let change = Change::of(&[a], &[b], 1).expect("both have runs");
        assert_eq!(change.basis, Basis::Blocks);
        let relative = change.relative.expect("positive");
        covered += usize::from((relative.low..=relative.high).contains(&planted));
        found += usize::from(change.found);
    }
    (covered, found)
}

#[test]
fn intervals_of_single_runs_cover_the_truth_in_92_to_98_of_100_pairs() {
    // Neighbours of 0.8 leave a ninth of the information that as many strangers have.
    let (covered, found) = pairs(500, 8_000, 0.8, 0.0);
    assert!((460..=490).contains(&covered), "{covered} of 500");
    assert_eq!(covered + found, 500, "what is not covered is what is found");
}

#[test]
fn intervals_of_runs_without_memory_cover_the_truth_too() {
    let (covered, _) = pairs(150, 2_000, 0.0, 0.2);
    assert!((138..=147).contains(&covered), "{covered} of 150");
}

#[test]
fn blocks_as_short_as_samples_would_not_cover() {
    // The same runs in random order: their neighbours are strangers, so the blocks are short and the intervals narrow.
    let mut random = Pcg64Mcg::seed_from_u64(3);
    let width = |samples: &[f64]| {
        let draws = Estimate::mean(samples, 1).expect("samples").draws;
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        (draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / draws.len() as f64).sqrt()
    };
    let ordered = run(&mut random, 20_000, 0.98, 1.0);
    let mut shuffled = ordered.clone();
    for at in (1..shuffled.len()).rev() {
        shuffled.swap(at, below(&mut random, at + 1));
    }
    // An autoregression of 0.98 has (1 + 0.98)/(1 - 0.98) = 99 times the variance of its mean, so 10 times the width.
    let ratio = width(&ordered) / width(&shuffled);
    assert!((6.0..14.0).contains(&ratio), "{ratio}");
}

#[test]
fn a_planted_fifth_is_found_in_twenty_of_twenty() {
    assert_eq!(pairs(20, 20_000, 0.5, 0.2).1, 20);
    let mut random = Pcg64Mcg::seed_from_u64(4);
    for pair in 0..20 {
        let mut side = |scale: f64| -> Vec<Estimate> {
            // Each run has a level of its own, 3 % around the truth.
            let one = |_| {
                let own = scale * (0.03 * normal(&mut random)).exp();
                p99(&run(&mut random, 4_000, 0.5, own), pair)
            };
            (0..5).map(one).collect()
        };
        let (a, b) = (side(1.0), side(1.2));
        let change = Change::of(&a, &b, 1).expect("runs");
        assert!(change.found && change.basis == Basis::Runs, "{change:?}");
    }
}

/// Levels of runs that spread by 5 %, which blocks within a run cannot see.
#[test]
fn groups_of_runs_cover_the_truth_though_runs_differ() {
    let mut random = Pcg64Mcg::seed_from_u64(5);
    for (runs_a, runs_b) in [(3, 3), (5, 3), (1, 4)] {
        let (mut covered, mut basis) = (0, Basis::Nothing);
        for _ in 0..500 {
            let mut side = |runs: usize| {
                (0..runs).map(|_| Estimate::exact(100.0 + 5.0 * normal(&mut random))).collect::<Vec<_>>()
            };
            let change = Change::of(&side(runs_a), &side(runs_b), 1).expect("runs");
            let interval = change.difference.expect("several runs");
            covered += usize::from((interval.low..=interval.high).contains(&0.0));
            basis = change.basis;
        }
        assert!((460..=490).contains(&covered), "{covered} of 500 of {runs_a} and {runs_b} runs");
        assert_eq!(basis, if runs_a == 1 { Basis::OneSide } else { Basis::Runs });
    }
}

#[test]
fn many_comparisons_at_a_time_raise_no_more_false_alarms() {
    let mut random = Pcg64Mcg::seed_from_u64(6);
    let mut alarms = 0;
    for _ in 0..400 {
        let mut side = || (0..4).map(|_| Estimate::exact(normal(&mut random))).collect::<Vec<_>>();
        let any = (0..6).filter_map(|_| Change::of(&side(), &side(), 6)).any(|change| change.found);
        alarms += u32::from(any);
    }
    assert!(alarms <= 20, "{alarms} of 400");
}

#[test]
fn quantiles_of_student_are_those_of_the_tables() {
    for (freedom, share, expected) in [
        (1.0, 0.975, 12.706),
        (4.0, 0.975, 2.776),
        (10.0, 0.995, 3.169),
        (30.0, 0.975, 2.042),
        (1e9, 0.975, 1.960),
    ] {
        let found = quantile(freedom, share);
        assert!((found - expected).abs() < 0.002, "{freedom} {share}: {found}");
    }
}

#[test]
fn what_cannot_be_known_is_not_said() {
    assert_eq!(Estimate::percentiles(&[], 1), [const { None }; 6]);
    assert_eq!(Estimate::mean(&[], 1), None);
    let few: Vec<f64> = (1..=100).map(f64::from).collect();
    let [p50, p90, p99, p99_9, ..] = Estimate::percentiles(&few, 1);
    assert_eq!(
        [p50, p90, p99].map(|known| known.map(|known| known.value)),
        [Some(50.0), Some(90.0), Some(99.0)]
    );
    assert_eq!(p99_9, None);
    let one = [p99_of(&few)];
    let change = Change::of(&one, &one, 1).expect("runs");
    assert_eq!((change.basis, change.difference, change.found), (Basis::Nothing, None, false));
    assert_eq!(Change::of(&[], &one, 1), None);
    let zero = Change::of(&[Estimate::exact(0.0)], &one, 1).expect("runs");
    assert_eq!((zero.share(), zero.relative), (None, None));
}

#[test]
fn a_percentile_that_one_burst_made_has_no_interval() {
    let mut random = Pcg64Mcg::seed_from_u64(8);
    let mut samples = run(&mut random, 8_000, 0.0, 1.0);
    assert!(!p99(&samples, 1).draws.is_empty());
    samples[4_000..4_100].fill(1e9);
    assert!(p99(&samples, 1).draws.is_empty(), "{}", parts_beyond(&samples, 1e8));
    assert_eq!(parts_beyond(&samples, 1e8), 1.0);
}

fn p99_of(samples: &[f64]) -> Estimate {
    p99(samples, 1)
}

#[test]
fn what_is_the_same_in_all_runs_has_no_change() {
    let runs = [1_085.0; 3].map(Estimate::exact);
    let change = Change::of(&runs, &runs[..1], 1).unwrap();
    assert_eq!((change.a, change.b, change.share()), (1_085.0, 1_085.0, Some(0.0)));
}
