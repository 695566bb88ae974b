//! The worked example, a twin that goes through every way the states can have taken, and models known beforehand.

use super::super::loss_pattern::loss_runs;
use super::*;
use proptest::prelude::*;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

fn runs(received: &[bool]) -> Vec<LossRun> {
    let sent = received.len() as u64;
    loss_runs((0..sent).filter(|&at| received[at as usize]), sent)
}

#[test]
fn worked_example_of_a_gilbert_fit() {
    let received: Vec<bool> = "rrrxrrxxxrxrrxxx".chars().map(|c| c == 'r').collect();
    let runs = runs(&received);
    assert_eq!(runs.iter().map(|run| run.first).collect::<Vec<_>>(), [3, 6, 10, 13]);
    let fit = gilbert(&runs, 16);
    assert_eq!((fit.p, fit.r), (Some(4.0 / 8.0), Some(3.0 / 7.0)));
    // Not 1 / r: the end of the stream cuts the last run off.
    assert_eq!((fit.mean_run, fit.last_run_cut_off), (Some(2.0), true));
}

#[test]
fn fits_without_a_transition() {
    assert_eq!(gilbert(&[], 0), Gilbert::default());
    let whole = gilbert(&[], 5);
    assert_eq!((whole.p, whole.r, whole.mean_run), (Some(0.0), None, None));
    let all = gilbert(&loss_runs([], 5), 5);
    assert_eq!((all.p, all.r, all.mean_run, all.last_run_cut_off), (None, Some(0.0), Some(5.0), true));
    assert_eq!((gilbert_elliott(&[], 5), gilbert_elliott(&loss_runs([], 5), 5)), (None, None));
    assert_eq!(gilbert_elliott(&[], 0), None);
}

/// Sums over every sequence of states, each with its probability.
fn twin(model: &GilbertElliott, received: &[bool]) -> ExpectedCounts {
    let n = received.len();
    let mut sums = ExpectedCounts::default();
    let mut total = 0.0;
    for path in 0..1usize << n {
        let state = |at: usize| path >> at & 1;
        let mut probability = [1.0 - model.bad_share(), model.bad_share()][state(0)];
        let mut one = ExpectedCounts::default();
        for (at, &kept) in received.iter().enumerate() {
            let loss = [model.loss_good, model.loss_bad][state(at)];
            probability *= if kept { 1.0 - loss } else { loss };
            let by_state = if kept { &mut one.received } else { &mut one.lost };
            by_state[state(at)] += 1.0;
            if at > 0 {
                let step = [[1.0 - model.p, model.p], [model.r, 1.0 - model.r]];
                probability *= step[state(at - 1)][state(at)];
                one.transitions[state(at - 1)][state(at)] += 1.0;
            }
        }
        total += probability;
        for a in 0..2 {
            sums.received[a] += probability * one.received[a];
            sums.lost[a] += probability * one.lost[a];
            for b in 0..2 {
                sums.transitions[a][b] += probability * one.transitions[a][b];
            }
        }
    }
    let flat = sums.received.iter_mut().chain(&mut sums.lost).chain(sums.transitions.iter_mut().flatten());
    flat.for_each(|sum| *sum /= total);
    ExpectedCounts { log_likelihood: total.ln(), ..sums }
}

fn model() -> impl Strategy<Value = GilbertElliott> {
    let p = 0.001..0.999f64;
    (p.clone(), p.clone(), p.clone(), p).prop_map(|(p, r, loss_good, loss_bad)| GilbertElliott {
        p,
        r,
        loss_good,
        loss_bad,
    })
}

fn all(counts: &ExpectedCounts) -> Vec<f64> {
    let ways = counts.transitions.iter().flatten().copied();
    ways.chain(counts.received).chain(counts.lost).chain([counts.log_likelihood]).collect()
}

proptest! {
    #[test]
    fn expected_counts_agree_with_every_way_of_the_states(
        model in model(), received in prop::collection::vec(any::<bool>(), 1..11),
    ) {
        let ours = all(&expected_counts(&model, &runs(&received), received.len() as u64));
        for (a, b) in ours.iter().zip(all(&twin(&model, &received))) {
            prop_assert!((a - b).abs() < 1e-9 * (1.0 + b.abs()), "{a} is not {b}");
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn counts_are_conserved_and_fits_are_probabilities(
        start in model(), received in prop::collection::vec(prop::bool::weighted(0.8), 2..400),
    ) {
        let (runs, sent) = (runs(&received), received.len() as u64);
        let counts = expected_counts(&start, &runs, sent);
        let lost = received.iter().filter(|&&kept| !kept).count() as f64;
        prop_assert!((counts.lost.iter().sum::<f64>() - lost).abs() < 1e-6);
        let transitions: f64 = counts.transitions.iter().flatten().sum();
        prop_assert!((transitions - (sent - 1) as f64).abs() < 1e-6);
        if let Some(fit) = gilbert_elliott(&runs, sent) {
            let model = fit.model;
            let figures = [model.p, model.r, model.loss_good, model.loss_bad];
            prop_assert!(figures.iter().all(|x| (0.0..=1.0).contains(x)));
            prop_assert!(model.loss_good <= model.loss_bad);
            prop_assert!(fit.log_likelihood.is_finite());
        }
    }
}

/// For losses that are the same each time.
struct Random(Pcg64Mcg);

impl Random {
    fn below(&mut self, share: f64) -> bool {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64 <= share
    }
}

fn lose(model: &GilbertElliott, sent: u64, seed: u64) -> Vec<LossRun> {
    let mut random = Random(Pcg64Mcg::seed_from_u64(seed));
    let mut bad = random.below(model.bad_share());
    let received = (0..sent).filter(|_| {
        let lost = random.below(if bad { model.loss_bad } else { model.loss_good });
        bad ^= random.below(if bad { model.r } else { model.p });
        !lost
    });
    loss_runs(received.collect::<Vec<_>>(), sent)
}

/// How near is near enough follows from the sample. Of 200,000 packets some 1,800 bad periods tell p and r: seen, each
/// would have a standard error of 1 / sqrt(1800) = 2.4 % of itself; hidden states cost about twice that, and four of
/// those are 20 %. The 9,000 losses in the bad state tell its loss better still. The 180 losses in the good state are
/// told from bad periods with one loss, of which there are about 350: sqrt(180 + 350) / 180 = 13 %, and four of those
/// are 52 %.
#[test]
fn a_known_model_is_recovered() {
    let truth = GilbertElliott { p: 0.01, r: 0.1, loss_good: 0.001, loss_bad: 0.5 };
    for seed in 1..=3 {
        let runs = lose(&truth, 200_000, seed);
        let fit = gilbert_elliott(&runs, 200_000).expect("some were lost");
        assert!(fit.converged && fit.two_states_found, "seed {seed}: {fit:?}");
        let off = |found: f64, true_value: f64| (found / true_value - 1.0).abs();
        let found = fit.model;
        assert!(off(found.p, truth.p) < 0.2 && off(found.r, truth.r) < 0.2, "seed {seed}: {fit:?}");
        assert!(off(found.loss_bad, truth.loss_bad) < 0.2, "seed {seed}: {fit:?}");
        assert!(off(found.loss_good, truth.loss_good) < 0.52, "seed {seed}: {fit:?}");
        let share = lost(&runs) as f64 / 200_000.0;
        assert!(off(found.loss_share(), share) < 0.02, "seed {seed}: {fit:?}");
    }
}

#[test]
fn random_loss_is_not_taken_for_two_states() {
    let truth = GilbertElliott { p: 0.01, r: 0.1, loss_good: 0.03, loss_bad: 0.03 };
    for seed in 1..=2 {
        let fit = gilbert_elliott(&lose(&truth, 20_000, seed), 20_000).expect("some were lost");
        assert!(!fit.two_states_found, "seed {seed}: {fit:?}");
        assert!(fit.log_likelihood >= fit.random_log_likelihood - 1.0, "seed {seed}: {fit:?}");
    }
}
