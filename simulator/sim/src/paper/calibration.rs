//! Injection of each program, fitted to the paper's table 6; two programs are never fitted, only predicted.
//!
//! The paper recorded how long each class of operation took on its machine and replayed that. Those recordings are not
//! published: what is, are the jitter events a millisecond, their mean, and the slow-down. The first is fitted by the
//! probability, the second by the mean excess, and the third by how far lateness comes together: the same events cost less
//! time where the kernel holds up at once all that a broadcast wakes. What the fit does not reach is printed beside what it
//! was to be.

use quaver_sync_analysis::bench::paper::{PaperProgram, Suite};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Programs whose figures no fit ever sees.
pub const HELD_OUT: [&str; 2] = ["fmm", "water-spatial"];

/// What can be turned.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Knobs {
    /// Probability that a wait that somebody ends finds the kernel busy, 0 to 1.
    pub probability: f64,
    /// Mean of what it then takes beyond `over_us`, microseconds.
    pub mean_us: f64,
    /// σ of the logarithm of that.
    pub sigma: f64,
    /// What it takes at least, microseconds: the threshold above which the paper counts.
    pub over_us: f64,
    /// How far lateness comes together, 0 to 1: the part of the broadcasts at which all that are woken are held up for the same
    /// time or none, and by this much rather waits are late than locks.
    pub together: f64,
}

impl Default for Knobs {
    /// Those of a program of which nothing is known.
    fn default() -> Self {
        Self { probability: 0.02, mean_us: 50.0, sigma: 0.8, over_us: 10.0, together: 0.5 }
    }
}

/// Probability of waits that somebody ends over that of locks, where all lateness comes together.
const MOST_WEIGHT: f64 = 1_000.0;
/// Threads that one broadcast wakes: sixteen meet.
const WOKEN: f64 = 15.0;

impl Knobs {
    /// Probability of waits that somebody ends, over that of locks: 1 to 1000.
    ///
    /// Who waits for somebody's signal is out of action for long, and the kernel takes the time for work of its own; who finds a
    /// lock held seldom is (the paper's 6.1).
    pub fn wait_weight(&self) -> f64 {
        MOST_WEIGHT.powf(self.together)
    }

    /// Where the fit of a program begins: with its rate and its mean, and so far together that, were nothing else to cost or to
    /// hide time, its slow-down would follow.
    fn start(target: &Shown, occasions: &Occasions) -> Self {
        let start = Self { mean_us: target.mean_us, ..Self::default() };
        let alone = target.events_per_ms * (target.mean_us + start.over_us) / 1e3;
        let slow = target.slow_down_percent / (100.0 + target.slow_down_percent);
        let together = ((alone - slow) / (alone - alone / WOKEN)).clamp(0.0, 1.0);
        let start = Self { together, ..start };
        let late_per_ms = occasions.waits_per_ms + occasions.locks_per_ms / start.wait_weight();
        let probability = (target.events_per_ms / late_per_ms.max(1e-6)).clamp(1e-7, 1.0);
        Self { probability, ..start }
    }
}

/// How often operations go into the kernel, so that it may be busy with something else; without jitter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Occasions {
    /// Waits that somebody ends, a millisecond, all threads together.
    pub waits_per_ms: f64,
    /// Contended locks, and unlocks that somebody waits for.
    pub locks_per_ms: f64,
}

/// What a program is to show, or has shown.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// How far it is from the target: the slow-down counts twice, the mean for a half.
    pub fn distance(&self, target: &Self) -> f64 {
        let ratio = |own: f64, target: f64, least: f64| (own.max(least) / target.max(least)).ln().abs();
        let rate = ratio(self.events_per_ms, target.events_per_ms, 0.05);
        let mean = ratio(self.mean_us, target.mean_us, 1.0);
        // A slow-down of a tenth of a percent is as good as one of half a percent.
        let slow = ratio(self.slow_down_percent, target.slow_down_percent, 0.5);
        rate + 2.0 * slow + mean / 2.0
    }
}

/// A fitted program.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    /// The paper's figures.
    pub target: Shown,
    /// What was reached, mean over the seeds of the fit.
    pub reached: Shown,
    /// How often the kernel may be busy; by its waits others are predicted.
    pub occasions: Occasions,
    /// The knobs.
    pub knobs: Knobs,
}

/// All fits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    pub fn knobs(&self, program: &str, occasions: &Occasions) -> (Knobs, bool) {
        match self.programs.get(program) {
            Some(fitted) => (fitted.knobs, true),
            None => (predicted(self.programs.values(), occasions), false),
        }
    }

    /// How far the relation between the fitted programs misses one that it was not made of: each in turn is predicted from the
    /// others. The median factor, 1 or more, between predicted and fitted lateness of a wait (probability times mean). None of
    /// fewer than four programs.
    pub fn missed_by(&self) -> Option<f64> {
        let others = |name: &String| {
            let name = name.clone();
            self.programs.iter().filter(move |(other, _)| **other != name).map(|(_, fitted)| fitted)
        };
        let lateness = |knobs: &Knobs| knobs.probability * knobs.mean_us;
        let mut factors: Vec<f64> = self
            .programs
            .iter()
            .map(|(name, own)| lateness(&predicted(others(name), &own.occasions)) / lateness(&own.knobs))
            .map(|ratio| ratio.max(1.0 / ratio))
            .collect();
        factors.sort_by(f64::total_cmp);
        let middle = factors.len() / 2;
        (factors.len() >= 4).then(|| (factors[(factors.len() - 1) / 2] * factors[middle]).sqrt())
    }
}

/// A relation that misses by a larger factor predicts nothing.
pub(super) const MOST_MISSED: f64 = 2.0;

/// What the relation between the fitted programs says of one that synchronises so often: each knob's logarithm is a line over
/// the logarithm of the waits a millisecond, by least squares, and never beyond what was fitted.
pub fn predicted<'a>(fitted: impl Iterator<Item = &'a Fitted> + Clone, occasions: &Occasions) -> Knobs {
    let start = Knobs::default();
    let x = |occasions: &Occasions| occasions.waits_per_ms.max(1e-6).ln();
    let line = |of: fn(&Knobs) -> f64| -> Option<f64> {
        let pairs: Vec<(f64, f64)> =
            fitted.clone().map(|one| (x(&one.occasions), of(&one.knobs).max(1e-9).ln())).collect();
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
        Some((mean.1 + slope * (x(occasions) - mean.0)).clamp(low, high).exp())
    };
    Knobs {
        probability: line(|knobs| knobs.probability).unwrap_or(start.probability),
        mean_us: line(|knobs| knobs.mean_us).unwrap_or(start.mean_us),
        together: line(|knobs| knobs.together).unwrap_or(start.together),
        ..start
    }
}

/// Events that a measurement is to show at least: fifteen come together, so these are a dozen occasions.
const FEW: f64 = 180.0;

/// Fits a program: runs it, turns the knobs towards the target, and keeps what came nearest. `measure` says none where it is
/// to end. The same answers give the same knobs. Where all runs of a measurement together are to show fewer than `FEW` events,
/// they cannot tell one set of knobs from another: then it stays where it begins.
///
/// # Errors
/// What `measure` says.
pub fn fit<E>(
    target: &Shown,
    (occasions, simulated_ms): (&Occasions, f64),
    steps: u32,
    mut measure: impl FnMut(&Knobs) -> Result<Option<Shown>, E>,
) -> Result<Option<(Knobs, Shown)>, E> {
    let mut knobs = Knobs::start(target, occasions);
    let steps = if target.events_per_ms * simulated_ms < FEW { 1 } else { steps };
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
    let mean = due(shown.mean_us, target.mean_us, 3.0);
    let slow = due(shown.slow_down_percent.max(0.1), target.slow_down_percent.max(0.1), 8.0);
    let together = (knobs.together - slow.ln() / 4.0).clamp(0.0, 1.0);
    let turned = Knobs { mean_us: (knobs.mean_us * mean).clamp(0.2, 5_000.0), together, ..*knobs };
    Knobs { probability: (knobs.probability * rate).clamp(1e-7, 1.0), ..turned }
}

/// The target of a program of the Splash suite; none of those that are held out, and of other suites.
pub fn target(row: &PaperProgram) -> Option<Shown> {
    (row.suite == Suite::Splash2 && !HELD_OUT.contains(&row.program)).then(|| row.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_sync_analysis::bench::paper::{PROGRAMS, program};
    use std::convert::Infallible;

    const OFTEN: (&Occasions, f64) = (&Occasions { waits_per_ms: 20.0, locks_per_ms: 20.0 }, 1_000.0);

    /// A program that is simple enough to be known: what is late alone is on the path of all, and fifteen that are late
    /// together are so once.
    fn simple(knobs: &Knobs) -> Shown {
        let (locks, waits) = (20.0 * knobs.probability / knobs.wait_weight(), 20.0 * knobs.probability);
        let on_the_path = locks + waits * (1.0 - knobs.together * 14.0 / 15.0);
        let slow_down_percent = on_the_path * (knobs.over_us + knobs.mean_us) / 10.0;
        Shown { events_per_ms: locks + waits, mean_us: knobs.mean_us, slow_down_percent }
    }

    #[test]
    fn each_knob_is_turned_by_its_own_figure() {
        let knobs = Knobs { probability: 0.1, mean_us: 50.0, together: 0.5, ..Knobs::default() };
        let shown = Shown { events_per_ms: 4.0, mean_us: 80.0, slow_down_percent: 10.0 };
        let target = Shown { events_per_ms: 8.0, mean_us: 20.0, slow_down_percent: 20.0 };
        let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-9, "{found} {wanted}");
        let whole = turned(&knobs, &shown, &target, 1.0);
        near(whole.probability, 0.2);
        near(whole.mean_us, 50.0 / 3.0);
        near(whole.together, 0.5 - 2.0f64.ln() / 4.0);
        let half = turned(&knobs, &shown, &target, 0.5);
        near(half.probability, 0.1 * 2.0f64.sqrt());
        near(half.mean_us, 50.0 / 3.0f64.sqrt());
        near(half.together, 0.5 - 2.0f64.ln() / 8.0);
        let far = Shown { events_per_ms: 400.0, ..shown };
        near(turned(&knobs, &shown, &far, 1.0).probability, 0.8);
        assert_eq!(turned(&knobs, &shown, &shown, 1.0), knobs);
    }

    #[test]
    fn a_fit_reaches_rate_and_slow_down_of_what_can_be_reached() {
        let target = Shown { events_per_ms: 12.0, mean_us: 70.0, slow_down_percent: 30.0 };
        let run =
            || fit(&target, OFTEN, 24, |knobs| Ok::<_, Infallible>(Some(simple(knobs)))).unwrap().unwrap();
        let (knobs, reached) = run();
        assert!((reached.events_per_ms / 12.0 - 1.0).abs() < 0.05, "{reached:?} {knobs:?}");
        assert!((reached.slow_down_percent / 30.0 - 1.0).abs() < 0.05, "{reached:?} {knobs:?}");
        assert!((reached.mean_us / 70.0 - 1.0).abs() < 0.05, "{reached:?} {knobs:?}");
        assert_eq!(run(), (knobs, reached), "the same answers, the same knobs");
        assert_eq!(fit(&target, OFTEN, 3, |_| Ok::<_, Infallible>(None)).unwrap(), None);
        assert_eq!(fit(&target, OFTEN, 3, |_| Err("broken")), Err("broken"));
    }

    #[test]
    fn what_cannot_be_reached_keeps_the_nearest() {
        // It never becomes slow.
        let target = Shown { events_per_ms: 5.0, mean_us: 50.0, slow_down_percent: 30.0 };
        let deaf = |knobs: &Knobs| Shown { slow_down_percent: 0.5, ..simple(knobs) };
        let (_, reached) =
            fit(&target, OFTEN, 12, |knobs| Ok::<_, Infallible>(Some(deaf(knobs)))).unwrap().unwrap();
        assert!((reached.events_per_ms / 5.0 - 1.0).abs() < 0.2, "{reached:?}");
    }

    #[test]
    fn what_chance_decides_stays_where_it_begins() {
        let target = Shown { events_per_ms: 0.5, mean_us: 200.0, slow_down_percent: 0.3 };
        let mut measured = 0;
        let chance = |_: &Knobs| {
            measured += 1;
            Ok::<_, Infallible>(Some(Shown { events_per_ms: 0.0, mean_us: 0.0, slow_down_percent: 0.0 }))
        };
        let (knobs, _) = fit(&target, (OFTEN.0, 30.0), 12, chance).unwrap().unwrap();
        assert_eq!((measured, knobs.together), (1, 1.0));
        assert!((knobs.probability * (20.0 + 20.0 / 1_000.0) / 0.5 - 1.0).abs() < 1e-9, "{knobs:?}");
    }

    fn waits(waits_per_ms: f64) -> Occasions {
        Occasions { waits_per_ms, locks_per_ms: 3.0 }
    }

    fn fitted(waits_per_ms: f64, probability: f64) -> Fitted {
        let shown = Shown { events_per_ms: 1.0, mean_us: 1.0, slow_down_percent: 1.0 };
        let knobs = Knobs { probability, ..Knobs::default() };
        Fitted { target: shown, reached: shown, occasions: waits(waits_per_ms), knobs }
    }

    #[test]
    fn a_prediction_is_on_the_line_of_the_others_and_never_beyond_them() {
        let known = [fitted(10.0, 0.1), fitted(100.0, 0.01), fitted(1_000.0, 0.001)];
        let at = |occasions| predicted(known.iter(), &waits(occasions)).probability;
        assert!((at(31.622_776) / 0.031_622_776 - 1.0).abs() < 1e-6);
        assert!((at(1.0) - 0.1).abs() < 1e-9 && (at(1e6) - 0.001).abs() < 1e-9);
        assert_eq!(predicted([].iter(), &waits(5.0)), Knobs::default());
        assert!((predicted(known[..1].iter(), &waits(5.0)).probability - 0.1).abs() < 1e-9);
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
    fn a_relation_that_holds_predicts_the_one_left_out_and_another_does_not() {
        let of = |knobs: fn(f64) -> f64| {
            let mut all = Calibration::default();
            for waits in [2.0_f64, 5.0, 20.0, 60.0, 300.0] {
                all.programs.insert(format!("{waits}"), fitted(waits, knobs(waits)));
            }
            all
        };
        // Held by its bounds, the relation cannot go beyond the others: the two at the ends are missed.
        let holds = of(|waits| 0.5 / waits).missed_by().unwrap();
        assert!((holds - 1.0).abs() < 1e-9, "{holds}");
        let jumps = of(|waits| if [5.0, 60.0].contains(&waits) { 0.01 } else { 0.9 }).missed_by().unwrap();
        assert!(jumps > MOST_MISSED, "{jumps}");
        assert_eq!(Calibration::default().missed_by(), None);
        // The six of the bundled one miss each other: barnes by 1.8, lu by 8.1, ocean by 1.4, radix by 6.6, raytrace by 2.3 and
        // water-nsquared by 6.8.
        let bundled = Calibration::bundled().missed_by().unwrap();
        assert!((3.5..4.2).contains(&bundled), "{bundled}");
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
