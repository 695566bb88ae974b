//! The ratio of two arms, each arm against itself, and when neither is a result.

use super::arms::{Arms, mean_or_0};
use quaver_analysis::rounds::{Interval, LEAST_STARTS, Rounds, Sums, Verdict};
use schemars::JsonSchema;
use serde::Serialize;

/// An interval whose ends are further apart than this many times is too wide for a result.
const WIDEST: f64 = 2.0;

/// What is compared.
#[derive(Clone, Copy)]
enum Statistic {
    Means,
    Variances,
}

/// One statistic of one arm over that of another.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// The ratio; none where the denominator is not positive.
    pub ratio: Option<f64>,
    /// Its 95 % interval over starts.
    pub interval: Option<Interval>,
    /// What the interval says.
    pub verdict: Verdict,
    /// Why it is no result, in sentences; empty where it is one.
    pub refusals: Vec<String>,
}

impl Comparison {
    pub(super) fn of(ratio: f64, interval: Option<Interval>) -> Self {
        let ratio = Some(ratio).filter(|ratio| ratio.is_finite() && *ratio > 0.0);
        Self { ratio, interval, verdict: Verdict::of(interval, 1.0), refusals: Vec::new() }
    }

    /// The ratio, where it is a result.
    pub fn result(&self) -> Option<f64> {
        self.ratio.filter(|_| self.refusals.is_empty())
    }
}

/// Why a ratio of this interval is too wide for a result.
pub(super) fn too_wide(Interval { low, high }: Interval) -> Option<String> {
    (low <= 0.0 || high / low > WIDEST)
        .then(|| format!("the interval {low:.2} to {high:.2} spans more than a factor of two"))
}

/// How many times the overhead of another is that of one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Ratio {
    /// The one above the line.
    pub of: String,
    /// The one below.
    pub to: String,
    /// Trimmed means on the hot path, the checkpoints taken off.
    pub mean: Comparison,
    /// The same with what each costs later: resolving on the receiving thread, converters on other CPUs. None in the
    /// kernel, where that is not measured.
    pub whole: Option<Comparison>,
    /// Trimmed variances.
    pub variance: Comparison,
}

/// An arm against itself: one half of its blocks over the other.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Same {
    /// The arm.
    pub name: String,
    /// Trimmed means, the checkpoints of the same half taken off.
    pub mean: Comparison,
    /// Trimmed variances.
    pub variance: Comparison,
}

impl Same {
    /// Why a difference of this arm's mean is no result: the arm differs from itself. One whose overhead may be nothing has no
    /// ratio to itself, and may still differ from another.
    fn differs(&self) -> Option<String> {
        self.refusal(&self.mean, "means").filter(|_| self.mean.interval.is_some())
    }

    fn refusal(&self, found: &Comparison, what: &str) -> Option<String> {
        match (found.verdict, found.interval) {
            (Verdict::Larger | Verdict::Smaller, Some(interval)) => Some(format!(
                "{} against itself: ratio of {what} {:.2} to {:.2}, which excludes 1",
                self.name, interval.low, interval.high
            )),
            (Verdict::Unknown, _) => Some(format!("{} could not be compared with itself", self.name)),
            _ => None,
        }
    }
}

/// Every arm against itself.
fn same(arms: &Arms) -> Vec<Same> {
    let rounds = arms.by_round.first().map_or(0, |rounds| rounds.all.len());
    let halves =
        |arm: usize| [0, 1].map(|half: usize| Rounds::of(&arms.rows[arm].halves[half], rounds).trimmed);
    let none = || [0, 1].map(|_| vec![Sums::default(); rounds]);
    let own = arms.checkpoint.map_or_else(none, halves);
    let variance = |sums: &[Sums]| sums[0].variance() / sums[1].variance();
    let one = |arm: usize| {
        let [first, second] = halves(arm);
        // The checkpoints themselves have nothing taken off.
        let [own_first, own_second] = if Some(arm) == arms.checkpoint { none() } else { own.clone() };
        let sides: [&[Sums]; 4] = [&first, &second, &own_first, &own_second];
        // An overhead that may be nothing, or less, says nothing of the arm: two negative ones would give 1 as well.
        let overhead = |side: &Sums, own: &Sums| {
            Some(side.mean() - mean_or_0(own)).filter(|ns| *ns > 0.0).unwrap_or(f64::NAN)
        };
        let mean = |sums: &[Sums]| overhead(&sums[0], &sums[2]) / overhead(&sums[1], &sums[3]);
        let compare = |sides: &[&[Sums]], statistic: &dyn Fn(&[Sums]) -> f64| {
            let total: Vec<Sums> = sides.iter().map(|side| Sums::total(side)).collect();
            Comparison::of(statistic(&total), arms.interval(sides, statistic))
        };
        Same {
            name: arms.names[arm].clone(),
            mean: compare(&sides, &mean),
            variance: compare(&sides[..2], &variance),
        }
    };
    (0..arms.names.len()).map(one).collect()
}

/// Arms, and each against itself.
pub(super) struct Compared<'a> {
    arms: &'a Arms,
    /// In the order of the arms.
    pub(super) same: Vec<Same>,
}

impl<'a> Compared<'a> {
    pub(super) fn of(arms: &'a Arms) -> Self {
        Self { arms, same: same(arms) }
    }

    /// How many times the overhead of the second arm that of the first is.
    pub(super) fn ratio(&self, of: usize, to: usize, later: bool) -> Ratio {
        let sides: [&[Sums]; 5] = [
            &self.arms.by_round[of].trimmed,
            &self.arms.by_round[to].trimmed,
            &self.arms.own,
            &self.arms.later[of],
            &self.arms.later[to],
        ];
        let compare = |positive: bool, wanted: Statistic, statistic: &dyn Fn(&[Sums], usize) -> f64| {
            let ratio = |sums: &[Sums]| statistic(sums, 0) / statistic(sums, 1);
            let total = sides.map(Sums::total);
            let mut found = Comparison::of(ratio(&total), self.arms.interval(&sides, ratio));
            found.refusals = self.refusals([of, to], wanted, &found);
            if positive && self.arms.starts.len() >= LEAST_STARTS {
                for (side, arm) in [(0, of), (1, to)] {
                    let low =
                        self.arms.interval(&sides, |sums| statistic(sums, side)).map(|interval| interval.low);
                    if low.is_none_or(|low| low <= 0.0) {
                        let name = &self.arms.names[arm];
                        found
                            .refusals
                            .push(format!("overhead of {name} is not distinguishable from the checkpoints'"));
                    }
                }
            }
            found
        };
        let hot = |sums: &[Sums], side: usize| sums[side].mean() - mean_or_0(&sums[2]);
        let whole = |sums: &[Sums], side: usize| hot(sums, side) + sums[3 + side].mean();
        let variance = |sums: &[Sums], side: usize| sums[side].variance();
        Ratio {
            of: self.arms.names[of].clone(),
            to: self.arms.names[to].clone(),
            mean: compare(true, Statistic::Means, &hot),
            whole: later.then(|| compare(true, Statistic::Means, &whole)),
            variance: compare(false, Statistic::Variances, &variance),
        }
    }

    /// Why a difference of the means of these two is no result.
    pub(super) fn differ(&self, pair: [usize; 2]) -> Vec<String> {
        pair.into_iter().filter_map(|arm| self.same[arm].differs()).collect()
    }

    /// Why a comparison of these two is no result.
    fn refusals(&self, pair: [usize; 2], wanted: Statistic, found: &Comparison) -> Vec<String> {
        let starts = self.arms.starts.len();
        if starts < LEAST_STARTS {
            return vec![format!("{starts} of at least {LEAST_STARTS} starts of the program")];
        }
        let mut all = Vec::new();
        // Variances have no checkpoints taken off.
        let own = self.arms.checkpoint.filter(|_| matches!(wanted, Statistic::Means));
        for arm in own.into_iter().chain(pair) {
            let same = &self.same[arm];
            all.extend(match wanted {
                Statistic::Means => same.refusal(&same.mean, "means"),
                Statistic::Variances => same.refusal(&same.variance, "variances"),
            });
        }
        match found.interval {
            None => all.push("the ratio has no interval: some starts have no value".to_owned()),
            Some(interval) => all.extend(too_wide(interval)),
        }
        all
    }
}
