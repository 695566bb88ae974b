//! Evidence that grows with each round and may be looked at after each: e-values.

use crate::LEVEL;

/// Stakes, each with a quarter of the money: small ones win with faint effects, large ones with plain effects.
const STAKES: [f64; 4] = [0.5, 1.0, 2.0, 4.0];
/// A gain counts as no more than so many median ones: else one outlier would lose all.
const MOST: f64 = 2.0;
/// Rounds before a remedy is given up.
const LEAST_ROUNDS: u32 = 6;

/// Evidence against the hypothesis that a remedy is as no remedy: then each gain of a round could as well have had the other
/// sign. It is money that was 1 before the first round. A round multiplies the money at stake λ by 1 + tanh(λ·g), where g is
/// the gain over the median size of all gains so far. Sizes are known before the sign is, so under the hypothesis no bet wins
/// in the mean, and money of 1/α is made with a chance of at most α, however often one looks (J. Ville, 1939). The bets are
/// those of the likelihood ratio of a shifted normal distribution, given sizes; tests of symmetry by e-values: V. Vovk,
/// R. Wang, "Nonparametric e-tests of symmetry", New England Journal of Statistics in Data Science, 2024.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    sizes: Vec<f64>,
    growth: [f64; STAKES.len()],
    squares: [f64; STAKES.len()],
    rounds: u32,
}

impl Evidence {
    /// That of these gains, in the order of their rounds.
    pub(crate) fn of(gains: impl IntoIterator<Item = f64>) -> Self {
        let mut evidence = Self::default();
        gains.into_iter().for_each(|gain| evidence.add(gain));
        evidence
    }

    fn add(&mut self, gain: f64) {
        self.rounds += 1;
        if gain == 0.0 {
            return;
        }
        let place = self.sizes.partition_point(|size| *size < gain.abs());
        self.sizes.insert(place, gain.abs());
        let relative = (gain / self.sizes[self.sizes.len() / 2]).clamp(-MOST, MOST);
        for (at, stake) in STAKES.iter().enumerate() {
            let growth = (1.0 + (stake * relative).tanh()).ln();
            self.growth[at] += growth;
            self.squares[at] += growth * growth;
        }
    }

    /// The e-value: 1 says nothing, 20 is as rare as one time of twenty without an effect.
    pub(crate) fn e(&self) -> f64 {
        self.growth.iter().map(|growth| growth.exp()).sum::<f64>() / STAKES.len() as f64
    }

    /// The e-value after so many rounds more, should the best stake go on as before and a little better.
    fn projected(&self, more: u32) -> f64 {
        let rounds = f64::from(self.rounds.max(1));
        let of = |(growth, squares): (&f64, &f64)| {
            let mean = growth / rounds;
            let error = ((squares / rounds - mean * mean).max(0.0) / rounds).sqrt();
            growth + f64::from(more) * (mean + error)
        };
        let best = self.growth.iter().zip(&self.squares).map(of).fold(f64::NEG_INFINITY, f64::max);
        (best.exp() / STAKES.len() as f64).max(self.e())
    }

    /// Whether a trial of so many remedies may end for this one: it helps whatever becomes of the others, or `more` rounds
    /// would hardly show that it does.
    pub(crate) fn settles(&self, remedies: usize, more: u32) -> Option<Settled> {
        if self.e() >= remedies as f64 / LEVEL {
            Some(Settled::ForUse)
        } else if self.rounds >= LEAST_ROUNDS && self.projected(more) < 1.0 / LEVEL {
            Some(Settled::ForFutility)
        } else {
            None
        }
    }
}

/// Why a remedy is tried no more before the trial's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Settled {
    /// It is found to help.
    ForUse,
    /// More rounds would hardly show that it helps.
    ForFutility,
}

/// Which remedies help, by the e-BH procedure: the k largest e-values where each is at least n/(α·k). The share of false ones
/// among those is at most α in the mean, however they depend on each other (R. Wang, A. Ramdas, "False discovery rate control
/// with e-values", Journal of the Royal Statistical Society B 84, 2022). Where none helps, one is found in α of trials at most.
pub(crate) fn e_bh(e: &[f64]) -> Vec<bool> {
    let mut sorted = e.to_vec();
    sorted.sort_by(|one, other| other.total_cmp(one));
    let enough = |rank: usize| e.len() as f64 / LEVEL / rank as f64;
    let found = (1..=e.len()).rev().find(|rank| sorted[rank - 1] >= enough(*rank));
    e.iter().map(|e| found.is_some_and(|rank| *e >= enough(rank))).collect()
}

/// Rounds in which a remedy that always helps by the same is found, of so many.
pub(crate) fn rounds_needed(remedies: usize) -> u32 {
    let mut evidence = Evidence::default();
    while evidence.settles(remedies, u32::MAX) != Some(Settled::ForUse) {
        evidence.add(1.0);
    }
    evidence.rounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bet_wins_in_the_mean_where_signs_are_drawn_whatever_the_sizes() {
        let sizes = [3.0, 1.0, 1e9, 0.0, 2.0, 1e-9, 2.0, 40.0, 0.7, 1.0, 5.0, 1.1];
        for rounds in 1..=sizes.len() {
            let e = |signs: u32| {
                let gain = |at: usize| if signs >> at & 1 == 1 { -sizes[at] } else { sizes[at] };
                Evidence::of((0..rounds).map(gain)).e()
            };
            let mean = (0..1u32 << rounds).map(e).sum::<f64>() / f64::from(1u32 << rounds);
            assert!((mean - 1.0).abs() < 1e-12, "{rounds} rounds: {mean}");
        }
    }

    #[test]
    fn units_of_the_objective_say_nothing_and_opposite_gains_are_evidence_of_the_opposite() {
        let gains = [0.3, -0.1, 0.4, 0.2, 0.5];
        let e = |factor: f64| Evidence::of(gains.map(|gain| gain * factor)).e();
        assert!((e(1.0) - e(1e9)).abs() < 1e-9 * e(1.0) && e(1.0) > 1.0 && e(-1.0) < 1.0);
        assert_eq!(Evidence::default().e(), 1.0);
        assert_eq!(Evidence::of([0.0; 9]).e(), 1.0);
    }

    #[test]
    fn the_kth_largest_needs_a_kth_of_what_the_largest_alone_needs() {
        assert_eq!(e_bh(&[20.0]), [true]);
        assert_eq!(e_bh(&[19.9]), [false]);
        assert_eq!(e_bh(&[20.0, 39.0, 1.0]), [false, false, false]);
        assert_eq!(e_bh(&[30.0, 30.0, 1.0]), [true, true, false]);
        assert_eq!(e_bh(&[60.0, 20.0, 20.0]), [true, true, true]);
        assert_eq!(e_bh(&[60.0, 20.0, 1.0]), [true, false, false]);
        assert_eq!(e_bh(&[]), [false; 0]);
    }

    #[test]
    fn more_remedies_need_more_rounds() {
        assert_eq!([1, 2, 4, 20].map(rounds_needed), [5, 6, 8, 10]);
    }
}
