//! Injection of each program, fitted to the paper's table 6; two programs are never fitted, only predicted.
//!
//! The paper recorded how long each class of operation took on its machine and replayed that. Those recordings are not
//! published: what is, are the jitter events a millisecond, their mean, and the slow-down. Of these the first and the last are
//! fitted, by the probability and by the mean excess; the mean follows as far as the classes can be weighed. What the fit
//! does not reach is printed beside what it was to be.

use quaver_analysis::sync_bench::paper::{PaperProgram, Suite};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Programs whose figures no fit ever sees.
pub const HELD_OUT: [&str; 2] = ["fmm", "water-spatial"];

/// What can be turned.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Knobs {
    /// Probability that an operation on a lock finds the kernel busy, 0 to 1.
    pub probability: f64,
    /// Mean of what it then takes beyond `over_us`, microseconds.
    pub mean_us: f64,
    /// σ of the logarithm of that.
    pub sigma: f64,
    /// What it takes at least, microseconds: the threshold above which the paper counts.
    pub over_us: f64,
    /// Probability of waits that somebody ends, over that of locks.
    pub wait_weight: f64,
    /// Part of the broadcasts at which all that are woken are late, or none, 0 to 1.
    pub together: f64,
}

impl Default for Knobs {
    /// Those of a program of which nothing is known.
    fn default() -> Self {
        Self { probability: 0.02, mean_us: 50.0, sigma: 0.8, over_us: 10.0, wait_weight: 1.0, together: 0.5 }
    }
}

impl Knobs {
    /// Where the fit of a program begins that synchronises so often: with its rate, as if jitter took no time.
    fn start(target: &Shown, occasions_per_ms: f64) -> Self {
        let probability = (target.events_per_ms / occasions_per_ms.max(1e-6)).clamp(1e-7, 1.0);
        Self { probability, mean_us: target.mean_us, ..Self::default() }
    }
}

/// What a program is to show, or has shown.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shown {
    /// Jitter events a millisecond.
    pub events_per_ms: f64,
    /// Mean of them, microseconds.
    pub mean_us: f64,
    /// Slow-down, percent.
    pub slow_down_percent: f64,
}

impl From<&PaperProgram> for Shown {
    fn from(row: &PaperProgram) -> Self {
        Self {
            events_per_ms: row.events_per_ms,
            mean_us: row.mean_us,
            slow_down_percent: row.slowdown_percent,
        }
    }
}

impl Shown {
    /// How far it is from the target: rate and slow-down count alike, the mean for a fifth.
    pub fn distance(&self, target: &Self) -> f64 {
        let rate = (self.events_per_ms.max(1e-6) / target.events_per_ms).ln().abs();
        let mean = (self.mean_us.max(1e-3) / target.mean_us).ln().abs();
        // A slow-down of a tenth of a percent is as good as one of two tenths.
        let slow =
            (self.slow_down_percent - target.slow_down_percent).abs() / target.slow_down_percent.max(1.0);
        rate + slow + mean / 5.0
    }
}

/// A fitted program.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    /// The paper's figures.
    pub target: Shown,
    /// What was reached, mean over the seeds of the fit.
    pub reached: Shown,
    /// Operations a millisecond at which the kernel may be busy, without jitter; by it others are predicted.
    pub occasions_per_ms: f64,
    /// The knobs.
    pub knobs: Knobs,
}

/// All fits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Seeds of the runs that were fitted.
    #[serde(default)]
    pub seeds: Vec<u64>,
    /// Simulated time of the runs without jitter, at least, microseconds.
    #[serde(default)]
    pub length_us: u64,
    /// What the kernel did for injected jitter, in words.
    #[serde(default)]
    pub kernel: String,
    /// By program.
    #[serde(default)]
    pub programs: BTreeMap<String, Fitted>,
}

impl Calibration {
    /// The one that comes with Quaver, made by `quaver sim paper --calibrate`.
    pub fn bundled() -> Self {
        Self::from_toml(include_str!("calibration.toml")).unwrap_or_default()
    }

    /// Reads one.
    ///
    /// # Errors
    /// When it is no TOML, has names that there are not, or fits a program that is held out.
    pub fn from_toml(text: &str) -> Result<Self, String> {
        let read: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        match HELD_OUT.iter().find(|name| read.programs.contains_key(**name)) {
            Some(name) => Err(format!("programs.{name}: it is held out, so that it is predicted only")),
            None => Ok(read),
        }
    }

    /// As TOML.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }

    /// The knobs of a program that synchronises so often: its own fit, or what the others' relation predicts.
    pub fn knobs(&self, program: &str, occasions_per_ms: f64) -> (Knobs, bool) {
        match self.programs.get(program) {
            Some(fitted) => (fitted.knobs, true),
            None => (predicted(self.programs.values(), occasions_per_ms), false),
        }
    }
}

/// What the relation between the fitted programs says of one that synchronises so often: each knob's logarithm is a line over
/// the logarithm of the occasions a millisecond, by least squares, and never beyond what was fitted.
pub fn predicted<'a>(fitted: impl Iterator<Item = &'a Fitted> + Clone, occasions_per_ms: f64) -> Knobs {
    let start = Knobs::default();
    let x = |one: &Fitted| one.occasions_per_ms.max(1e-6).ln();
    let line = |of: fn(&Knobs) -> f64| -> Option<f64> {
        let pairs: Vec<(f64, f64)> =
            fitted.clone().map(|one| (x(one), of(&one.knobs).max(1e-9).ln())).collect();
        let low = pairs.iter().map(|pair| pair.1).min_by(f64::total_cmp)?;
        let high = pairs.iter().map(|pair| pair.1).max_by(f64::total_cmp)?;
        let count = pairs.len() as f64;
        let mean =
            pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0 / count, sum.1 + pair.1 / count));
        let (mut xx, mut xy) = (0.0, 0.0);
        for pair in &pairs {
            xx += (pair.0 - mean.0).powi(2);
            xy += (pair.0 - mean.0) * (pair.1 - mean.1);
        }
        let slope = if xx > 0.0 { xy / xx } else { 0.0 };
        Some((mean.1 + slope * (occasions_per_ms.max(1e-6).ln() - mean.0)).clamp(low, high).exp())
    };
    Knobs {
        probability: line(|knobs| knobs.probability).unwrap_or(start.probability),
        mean_us: line(|knobs| knobs.mean_us).unwrap_or(start.mean_us),
        wait_weight: line(|knobs| knobs.wait_weight).unwrap_or(start.wait_weight),
        ..start
    }
}

/// Fits a program: runs it, turns the knobs towards the target, and keeps what came nearest. `measure` says none where it is
/// to end. The same answers give the same knobs.
///
/// # Errors
/// What `measure` says.
pub fn fit<E>(
    target: &Shown,
    occasions_per_ms: f64,
    steps: u32,
    mut measure: impl FnMut(&Knobs) -> Result<Option<Shown>, E>,
) -> Result<Option<(Knobs, Shown)>, E> {
    let mut knobs = Knobs::start(target, occasions_per_ms);
    let mut best: Option<(f64, Knobs, Shown)> = None;
    for step in 0..steps {
        let Some(shown) = measure(&knobs)? else { return Ok(None) };
        let distance = shown.distance(target);
        if best.is_none_or(|(least, ..)| distance < least) {
            best = Some((distance, knobs, shown));
        }
        // Steps become smaller, so that the end does not swing.
        knobs = turned(&knobs, &shown, target, 1.0 / (1.0 + f64::from(step) / 4.0));
    }
    Ok(best.map(|(_, knobs, shown)| (knobs, shown)))
}

/// The knobs turned towards the target, by `part` of what would be due.
fn turned(knobs: &Knobs, shown: &Shown, target: &Shown, part: f64) -> Knobs {
    let due =
        |shown: f64, target: f64, most: f64| (target / shown.max(1e-6)).clamp(1.0 / most, most).powf(part);
    let rate = due(shown.events_per_ms, target.events_per_ms, 8.0);
    let slow = due(shown.slow_down_percent, target.slow_down_percent.max(0.1), 4.0);
    // Where the mean had to be made small, less may fall on waits, where all wait for the last; where large, more.
    let weight = due(target.mean_us, knobs.mean_us, 4.0).powf(0.5);
    Knobs {
        probability: (knobs.probability * rate).clamp(1e-7, 1.0),
        mean_us: (knobs.mean_us * slow).clamp(0.2, 5_000.0),
        wait_weight: (knobs.wait_weight * weight).clamp(0.02, 50.0),
        ..*knobs
    }
}

/// The target of a program of the Splash suite; none of those that are held out, and of other suites.
pub fn target(row: &PaperProgram) -> Option<Shown> {
    (row.suite == Suite::Splash2 && !HELD_OUT.contains(&row.program)).then(|| row.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_analysis::sync_bench::paper::{PROGRAMS, program};
    use std::convert::Infallible;

    /// A program that is simple enough to be known: every late operation is on the path of all.
    fn simple(knobs: &Knobs) -> Shown {
        let operations = 40.0;
        let events_per_ms = operations * (0.3 + 0.7 * knobs.wait_weight) * knobs.probability;
        let slow_down_percent = events_per_ms * (knobs.over_us + knobs.mean_us) / 10.0 * 0.3;
        Shown { events_per_ms, mean_us: knobs.mean_us, slow_down_percent }
    }

    #[test]
    fn a_fit_reaches_rate_and_slow_down_of_what_can_be_reached() {
        let target = Shown { events_per_ms: 12.0, mean_us: 70.0, slow_down_percent: 30.0 };
        let run =
            || fit(&target, 40.0, 24, |knobs| Ok::<_, Infallible>(Some(simple(knobs)))).unwrap().unwrap();
        let (knobs, reached) = run();
        assert!((reached.events_per_ms / 12.0 - 1.0).abs() < 0.05, "{reached:?} {knobs:?}");
        assert!((reached.slow_down_percent / 30.0 - 1.0).abs() < 0.05, "{reached:?} {knobs:?}");
        assert_eq!(run(), (knobs, reached), "the same answers, the same knobs");
        assert_eq!(fit(&target, 40.0, 3, |_| Ok::<_, Infallible>(None)).unwrap(), None);
        assert_eq!(fit(&target, 40.0, 3, |_| Err("broken")), Err("broken"));
    }

    #[test]
    fn what_cannot_be_reached_keeps_the_nearest() {
        // It never becomes slow.
        let target = Shown { events_per_ms: 5.0, mean_us: 50.0, slow_down_percent: 30.0 };
        let deaf = |knobs: &Knobs| Shown { slow_down_percent: 0.5, ..simple(knobs) };
        let (_, reached) =
            fit(&target, 40.0, 12, |knobs| Ok::<_, Infallible>(Some(deaf(knobs)))).unwrap().unwrap();
        assert!((reached.events_per_ms / 5.0 - 1.0).abs() < 0.2, "{reached:?}");
    }

    fn fitted(occasions_per_ms: f64, probability: f64) -> Fitted {
        let shown = Shown { events_per_ms: 1.0, mean_us: 1.0, slow_down_percent: 1.0 };
        let knobs = Knobs { probability, ..Knobs::default() };
        Fitted { target: shown, reached: shown, occasions_per_ms, knobs }
    }

    #[test]
    fn a_prediction_is_on_the_line_of_the_others_and_never_beyond_them() {
        let known = [fitted(10.0, 0.1), fitted(100.0, 0.01), fitted(1_000.0, 0.001)];
        let at = |occasions| predicted(known.iter(), occasions).probability;
        assert!((at(31.622_776) / 0.031_622_776 - 1.0).abs() < 1e-6);
        assert!((at(1.0) - 0.1).abs() < 1e-9 && (at(1e6) - 0.001).abs() < 1e-9);
        assert_eq!(predicted([].iter(), 5.0), Knobs::default());
        assert!((predicted(known[..1].iter(), 5.0).probability - 0.1).abs() < 1e-9);
    }

    #[test]
    fn held_out_programs_are_never_fitted() {
        let targets: Vec<&str> =
            PROGRAMS.iter().filter(|row| target(row).is_some()).map(|row| row.program).collect();
        assert_eq!(targets, ["barnes", "lu", "ocean", "radix", "raytrace", "water-nsquared"]);
        let mut calibration = Calibration::bundled();
        assert!(HELD_OUT.iter().all(|name| !calibration.programs.contains_key(*name)));
        calibration.programs.insert("fmm".to_owned(), fitted(1.0, 0.5));
        assert!(Calibration::from_toml(&calibration.to_toml()).unwrap_err().contains("fmm"));
    }

    #[test]
    fn the_bundled_one_is_of_the_six_with_the_papers_figures() {
        let text = include_str!("calibration.toml");
        let read = Calibration::from_toml(text).unwrap();
        assert_eq!(read, Calibration::bundled());
        assert_eq!(Calibration::from_toml(&read.to_toml()).unwrap(), read);
        assert_eq!(read.programs.len(), 6);
        for (name, fitted) in &read.programs {
            assert_eq!(Some(fitted.target), program(name).and_then(target), "{name}");
        }
    }
}
