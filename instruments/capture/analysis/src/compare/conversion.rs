//! Where raw cycles become nanoseconds: inline, on another thread, or later in batches; what each costs the receiver.

use super::arms::Arms;
use super::model::PatternFacts;
use super::ratio::Compared;
use quaver_analysis::rounds::{Interval, Sums, Verdict};
use schemars::JsonSchema;
use serde::Serialize;

/// Arms that are held against each other: what the paper proposes against the plain way, and ours against both.
const PAIRS: [(&str, &str); 4] = [
    ("threaded", "inline-cycles"),
    ("threaded:2", "inline-cycles"),
    ("batch", "inline-cycles"),
    ("batch", "threaded"),
];

/// What a stamp of one arm takes more than one of another.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Cost {
    /// Nanoseconds a stamp; trimmed means.
    pub ns: f64,
    /// Its 95 % interval.
    pub interval: Option<Interval>,
    /// What it says.
    pub verdict: Verdict,
    /// Why it is no result, in sentences; empty where it is one.
    pub refusals: Vec<String>,
}

/// Two ways to convert, compared.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Conversion {
    /// The one.
    pub of: String,
    /// The other.
    pub to: String,
    /// Between the checkpoints alone.
    pub hot: Cost,
    /// With what resolving took on the receiving thread afterwards, its wait for converters included, and with what
    /// the converters took on other CPUs.
    pub whole: Cost,
}

/// Of one pattern's arms; those that took no part are left out.
pub(super) fn conversions(pattern: &PatternFacts, arms: &Arms, compared: &Compared<'_>) -> Vec<Conversion> {
    let index = |name: &str| pattern.user.iter().position(|arm| arm.name == name);
    let found = PAIRS.iter().filter_map(|(of, to)| {
        let (first, second) = (index(of)?, index(to)?);
        let sides: [&[Sums]; 4] = [
            &arms.by_round[first].trimmed,
            &arms.by_round[second].trimmed,
            &arms.later[first],
            &arms.later[second],
        ];
        let hot = |sums: &[Sums]| sums[0].mean() - sums[1].mean();
        let whole = |sums: &[Sums]| hot(sums) + sums[2].mean() - sums[3].mean();
        let refusals = compared.differ([first, second]);
        let cost = |ns: f64, interval| Cost {
            ns,
            interval,
            verdict: Verdict::of(interval, 0.0),
            refusals: refusals.clone(),
        };
        let total = sides.map(Sums::total);
        whole(&total).is_finite().then(|| Conversion {
            of: (*of).to_owned(),
            to: (*to).to_owned(),
            hot: cost(hot(&total), arms.interval(&sides[..2], hot)),
            whole: cost(whole(&total), arms.interval(&sides, whole)),
        })
    });
    found.collect()
}
