//! How two groups of runs differ: percentiles and means with intervals.
//!
//! Within a run samples depend on their neighbours. Blocks of successive samples are therefore drawn anew (H. R. Künsch, 1989),
//! in the circular form (D. N. Politis and J. P. Romano, 1992), and the data choose how long a block is
//! (D. N. Politis and H. White, 2004). Between runs the run is the unit: B. L. Welch's t (1947) over the values of whole runs,
//! whose spread holds both what differs within and between them.

mod blocks;
mod student;

#[cfg(test)]
mod tests;

use crate::rounds::Interval;
use blocks::{DRAWS, Drawn};
use student::quantile;

/// Percentiles that are compared, as shares of the samples, with their names.
pub const LEVELS: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99_9", 0.999), ("p99_99", 0.9999), ("p99_999", 0.99999)];
/// A percentile has an interval where at least so many samples are expected beyond it.
const LEAST_BEYOND: f64 = 20.0;
/// These must not lie in fewer parts of the run than this, of [`PARTS`] (L. Kish's effective number, 1965): a percentile that one
/// burst made says nothing about how often bursts come.
const LEAST_PARTS: f64 = 5.0;
const PARTS: usize = 32;
/// Confidence of intervals that are shown.
const CONFIDENCE: f64 = 0.95;

/// A value of one run, as often as blocks of the run were drawn anew.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The value of the run itself.
    pub value: f64,
    /// The value by each draw; empty where the run is too short to say how uncertain it is.
    draws: Vec<f64>,
}

impl Estimate {
    /// A value of which no samples are known.
    pub const fn exact(value: f64) -> Self {
        Self { value, draws: Vec::new() }
    }

    /// Nothing, known for certain: a cause that did not act.
    pub fn absent() -> Self {
        Self { value: 0.0, draws: vec![0.0; DRAWS] }
    }

    /// The mean of samples in their order of time; none of no samples. `seed` tells draws of one run from those of others.
    pub fn mean(samples: &[f64], seed: u64) -> Option<Self> {
        let value = samples.iter().sum::<f64>() / samples.len() as f64;
        let drawn = Drawn::of(samples.iter().copied(), samples.len(), seed);
        let draws = drawn.map_or_else(Vec::new, |drawn| drawn.means.iter().map(|by| value + by).collect());
        (!samples.is_empty()).then_some(Self { value, draws })
    }

    /// Percentiles of samples in their order of time, as [`LEVELS`] has them; none where so few samples cannot have it.
    ///
    /// The smallest sample x with F(x) >= p (RFC 2330, section 11.3). A draw changes the share of samples beyond it; the percentile
    /// moves by as much (R. R. Bahadur, 1966).
    pub fn percentiles(samples: &[f64], seed: u64) -> [Option<Self>; LEVELS.len()] {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        LEVELS.map(|(_, level)| Self::percentile(samples, &sorted, level, seed))
    }

    /// One of them; `sorted` are the same samples.
    fn percentile(samples: &[f64], sorted: &[f64], level: f64, seed: u64) -> Option<Self> {
        let count = sorted.len() as f64;
        let at = |share: f64| sorted[((count * share).ceil().clamp(1.0, count) as usize) - 1];
        // Rounding must not ask for one sample more.
        if sorted.is_empty() || count * (1.0 - level) < 1.0 - 1e-6 {
            return None;
        }
        let value = at(level - 1e-12);
        let known =
            count * (1.0 - level) >= LEAST_BEYOND - 1e-6 && parts_beyond(samples, value) >= LEAST_PARTS;
        let beyond = samples.iter().map(|sample| if *sample > value { 1.0 } else { 0.0 });
        let drawn = if known { Drawn::of(beyond, samples.len(), seed) } else { None };
        let draws = drawn.map_or_else(Vec::new, |drawn| {
            drawn.means.iter().map(|by| at((level + by).clamp(0.0, 1.0))).collect()
        });
        Some(Self { value, draws })
    }
}

/// In how many parts of the run samples lie beyond a value: all the same in each of n parts give n.
fn parts_beyond(samples: &[f64], value: f64) -> f64 {
    let mut parts = [0.0; PARTS];
    for (at, _) in samples.iter().enumerate().filter(|(_, sample)| **sample > value) {
        parts[at * PARTS / samples.len()] += 1.0;
    }
    let squares = parts.iter().map(|part| part * part).sum::<f64>();
    if squares > 0.0 { parts.iter().sum::<f64>().powi(2) / squares } else { 0.0 }
}

/// What an interval of a change rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Nothing: there is no interval.
    Nothing,
    /// Blocks of one run a side; the spread between runs is not seen.
    Blocks,
    /// Runs of one side; the other has one, whose spread is taken to be the same.
    OneSide,
    /// Runs of both sides.
    Runs,
}

/// How a value of B differs from that of A.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Value of A: the mean over its runs, the geometric one where all values are above zero.
    pub a: f64,
    /// Value of B.
    pub b: f64,
    /// B less A with its 95 % interval.
    pub difference: Option<Interval>,
    /// The 95 % interval of B/A - 1; none where a value is not above zero.
    pub relative: Option<Interval>,
    /// What the intervals rest on.
    pub basis: Basis,
    /// Whether the change is found: an interval that is wide enough for as many comparisons as are made holds no zero.
    pub found: bool,
}

impl Change {
    /// Of the runs of A and of B; none where a side has none. `comparisons` are made at the same time: the chance that any of
    /// them is found without reason stays below 5 % (C. E. Bonferroni, 1936).
    pub fn of(a: &[Estimate], b: &[Estimate], comparisons: usize) -> Option<Self> {
        let wide = 1.0 - (1.0 - CONFIDENCE) / comparisons.max(1) as f64;
        let positive = a.iter().chain(b).all(|run| run.value > 0.0);
        let (mean_a, mean_b) = (mean(a, positive)?, mean(b, positive)?);
        let basis = match (a.len(), b.len()) {
            (1, 1) => Basis::Blocks,
            (1, _) | (_, 1) => Basis::OneSide,
            _ => Basis::Runs,
        };
        let ratio = |confidence| match basis {
            Basis::Blocks => {
                drawn(&a[0], &b[0], |a, b| if a > 0.0 { b / a - 1.0 } else { f64::NAN }, confidence)
            }
            _ => {
                let logarithms = between(a, b, f64::ln, confidence)?;
                Some(Interval { low: logarithms.low.exp_m1(), high: logarithms.high.exp_m1() })
            }
        };
        let plain = |confidence| match basis {
            Basis::Blocks => drawn(&a[0], &b[0], |a, b| b - a, confidence),
            _ => between(a, b, |value| value, confidence),
        };
        let (difference, relative) = (plain(CONFIDENCE), if positive { ratio(CONFIDENCE) } else { None });
        let wider = if positive { ratio(wide) } else { plain(wide) };
        let basis = if difference.is_some() { basis } else { Basis::Nothing };
        let found = wider.is_some_and(|wide| wide.low > 0.0 || wide.high < 0.0);
        Some(Self { a: mean_a, b: mean_b, difference, relative, basis, found })
    }

    /// B/A - 1; none where A is not above zero.
    pub fn share(&self) -> Option<f64> {
        (self.a > 0.0).then(|| self.b / self.a - 1.0)
    }
}

/// The mean over runs: the geometric one where all values are above zero, so that ratios of means are means of ratios.
fn mean(runs: &[Estimate], positive: bool) -> Option<f64> {
    let over = |of: fn(f64) -> f64| runs.iter().map(|run| of(run.value)).sum::<f64>() / runs.len() as f64;
    match (runs, positive) {
        ([], _) => None,
        // Rounding must not make a change of what is the same.
        ([one, others @ ..], _) if others.iter().all(|run| run.value == one.value) => Some(one.value),
        (_, true) => Some(over(f64::ln).exp()),
        (_, false) => Some(over(|value| value)),
    }
}

/// The interval of one run against one, by the draws of both.
fn drawn(
    a: &Estimate,
    b: &Estimate,
    statistic: impl Fn(f64, f64) -> f64,
    confidence: f64,
) -> Option<Interval> {
    let mut values: Vec<f64> = a
        .draws
        .iter()
        .zip(&b.draws)
        .map(|(a, b)| statistic(*a, *b))
        .filter(|value| value.is_finite())
        .collect();
    if values.len() < DRAWS {
        return None;
    }
    values.sort_unstable_by(f64::total_cmp);
    let rank = ((1.0 - confidence) / 2.0 * DRAWS as f64) as usize;
    Some(Interval { low: values[rank], high: values[DRAWS - 1 - rank] })
}

/// The interval of the difference of means over runs (Welch). A side of one run is taken to spread as the other does.
fn between(a: &[Estimate], b: &[Estimate], scale: impl Fn(f64) -> f64, confidence: f64) -> Option<Interval> {
    let side = |runs: &[Estimate]| {
        let values: Vec<f64> = runs.iter().map(|run| scale(run.value)).collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        (mean, (values.len() > 1).then(|| squares / (count - 1.0)), count)
    };
    let ((mean_a, spread_a, count_a), (mean_b, spread_b, count_b)) = (side(a), side(b));
    let (variance_a, variance_b) = (spread_a.or(spread_b)? / count_a, spread_b.or(spread_a)? / count_b);
    let variance = variance_a + variance_b;
    // Runs that agree to the last digit show no spread, and no uncertainty either.
    let freedom = match (spread_a, spread_b) {
        (Some(_), Some(_)) if variance > 0.0 => {
            variance.powi(2) / (variance_a.powi(2) / (count_a - 1.0) + variance_b.powi(2) / (count_b - 1.0))
        }
        _ => (count_a - 1.0).max(count_b - 1.0),
    };
    let half = quantile(freedom, 0.5 + confidence / 2.0) * variance.sqrt();
    Some(Interval { low: mean_b - mean_a - half, high: mean_b - mean_a + half })
}
