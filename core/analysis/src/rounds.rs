//! Intervals by drawing whole rounds anew (bootstrap, percentile method), and what they say.

use super::moments::trimmed;
use super::order::below;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Times that the rounds are drawn.
const DRAWS: usize = 2_000;
const SEED: u64 = 0x7175_6176_6572;
/// Fewer rounds tell nothing about how rounds differ.
const LEAST_ROUNDS: usize = 4;
/// Fewer starts tell nothing about how starts differ.
pub const LEAST_STARTS: usize = 5;

/// An interval that covers the true value in 95 of 100 cases.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// What an interval says about a ratio (or a difference) that would be 1 (or 0) without an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The first is larger.
    Larger,
    /// The first is smaller.
    Smaller,
    /// No difference was found.
    NoDifference,
    /// Too few rounds to tell.
    Unknown,
}

impl Verdict {
    /// By an interval around what no effect would give.
    pub fn of(interval: Option<Interval>, null: f64) -> Self {
        match interval {
            None => Self::Unknown,
            Some(interval) if interval.low > null => Self::Larger,
            Some(interval) if interval.high < null => Self::Smaller,
            Some(_) => Self::NoDifference,
        }
    }

    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Larger => "larger",
            Self::Smaller => "smaller",
            Self::NoDifference => "no difference",
            Self::Unknown => "too few rounds to tell",
        }
    }
}

/// Count, sum and sum of squares of one arm's values in one round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Sums {
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        self.sum += value;
        self.squares += value * value;
    }

    fn join(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
    }

    /// Of several.
    pub fn total(parts: &[Self]) -> Self {
        let mut total = Self::default();
        parts.iter().for_each(|part| total.join(part));
        total
    }

    /// Mean; not a number of no values.
    pub fn mean(&self) -> f64 {
        self.sum / self.count
    }

    /// Not a number of no values.
    pub fn variance(&self) -> f64 {
        let variance = self.squares / self.count - self.mean().powi(2);
        // Rounding may leave less than nothing; `max` would make 0 of no values.
        if variance < 0.0 { 0.0 } else { variance }
    }
}

/// One arm's rounds.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    /// All values, less a constant that keeps squares small.
    pub all: Vec<Sums>,
    /// Without the lowest and the highest 1 % of the arm.
    pub trimmed: Vec<Sums>,
}

impl Rounds {
    /// From (round, value) pairs.
    pub fn of(values: &[(usize, f64)], rounds: usize) -> Self {
        let mut sorted: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
        sorted.sort_by(f64::total_cmp);
        let kept = trimmed(&sorted);
        let ends = kept.first().copied().zip(kept.last().copied());
        let mut result = Self { all: vec![Sums::default(); rounds], trimmed: vec![Sums::default(); rounds] };
        for (round, value) in values {
            result.all[*round].add(*value);
            if ends.is_some_and(|(least, most)| (least..=most).contains(value)) {
                result.trimmed[*round].add(*value);
            }
        }
        result
    }
}

/// The interval of `statistic`, which is computed from arms whose rounds are drawn together: it gets, for each of
/// `arms`, the sums over the drawn rounds. None with fewer than four rounds, or where it has no value.
pub fn interval(arms: &[&[Sums]], statistic: impl Fn(&[Sums]) -> f64) -> Option<Interval> {
    let rounds = arms.iter().map(|arm| arm.len()).min()?;
    if rounds < LEAST_ROUNDS {
        return None;
    }
    let mut random = Pcg64Mcg::seed_from_u64(SEED);
    let mut drawn = vec![Sums::default(); arms.len()];
    let mut values = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        drawn.fill(Sums::default());
        for _ in 0..rounds {
            let round = below(&mut random, rounds);
            drawn.iter_mut().zip(arms).for_each(|(sum, arm)| sum.join(&arm[round]));
        }
        let value = statistic(&drawn);
        if value.is_finite() {
            values.push(value);
        }
    }
    // Where a draw has no value (no packet of an arm, nothing to divide by), the interval is not known.
    if values.len() < DRAWS {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((DRAWS - 1) as f64 * share).round() as usize];
    Some(Interval { low: at(0.025), high: at(0.975) })
}

/// The interval of `statistic` over starts of a program: starts are drawn anew, then rounds within each drawn start
/// (hierarchical bootstrap), arms together. Each of `starts` is the rounds of one start.
///
/// A few starts vary less among themselves than the true ones do, so the percentiles stand further out than 2.5 % and
/// 97.5 %: where Student's t with n - 1 degrees puts them, times sqrt(n / (n - 1)) (Hesterberg, *What Teachers Should
/// Know About the Bootstrap*, 2015, expanded percentile interval). None with fewer than five starts, or where a draw
/// has no value.
pub fn interval_over_starts(
    arms: &[&[Sums]],
    starts: &[std::ops::Range<usize>],
    statistic: impl Fn(&[Sums]) -> f64,
) -> Option<Interval> {
    if starts.len() < LEAST_STARTS || starts.iter().any(std::ops::Range::is_empty) {
        return None;
    }
    let mut random = Pcg64Mcg::seed_from_u64(SEED);
    let mut values = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let mut drawn = vec![Sums::default(); arms.len()];
        for _ in 0..starts.len() {
            let start = &starts[below(&mut random, starts.len())];
            for _ in 0..start.len() {
                let round = start.start + below(&mut random, start.len());
                drawn.iter_mut().zip(arms).for_each(|(sum, arm)| sum.join(&arm[round]));
            }
        }
        values.push(Some(statistic(&drawn)).filter(|value| value.is_finite())?);
    }
    values.sort_by(f64::total_cmp);
    let tail = expanded_tail(starts.len());
    let at = |share: f64| values[((DRAWS - 1) as f64 * share).round() as usize];
    Some(Interval { low: at(tail), high: at(1.0 - tail) })
}

/// Share of draws beyond either end, for five starts and more: Φ(-sqrt(n / (n - 1)) t), t of 97.5 %.
fn expanded_tail(starts: usize) -> f64 {
    match starts {
        ..=5 => 0.000_95,
        6 => 0.002_4,
        7 => 0.004_1,
        8 => 0.005_7,
        9..=11 => 0.007_2,
        12..=19 => 0.010_8,
        20..=39 => 0.015_9,
        _ => 0.020_2,
    }
}
