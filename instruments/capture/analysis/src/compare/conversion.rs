//! Where raw cycles become nanoseconds: inline, on another thread, or later in batches; what each costs the receiver.

use super::model::PatternFacts;
use quaver_analysis::rounds::{Interval, Rounds, Sums, Verdict, interval};
use serde::Serialize;

/// Arms that are held against each other: what the paper proposes against the plain way, and ours against both.
const PAIRS: [(&str, &str); 4] = [
    ("threaded", "inline-cycles"),
    ("threaded:2", "inline-cycles"),
    ("batch", "inline-cycles"),
    ("batch", "threaded"),
];

/// What a stamp of one arm takes more than one of another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Nanoseconds a stamp; trimmed means.
    pub ns: f64,
    /// Its 95 % interval.
    pub interval: Option<Interval>,
    /// What it says.
    pub verdict: Verdict,
}

/// Two ways to convert, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Conversion {
    /// The one.
    pub of: String,
    /// The other.
    pub to: String,
    /// Between the checkpoints alone.
    pub hot: Cost,
    /// With what resolving took on the receiving thread afterwards, its wait for converters included. Resolving is known
    /// as a mean of the whole run only, so the interval is as wide as that of [`Self::hot`].
    pub whole: Cost,
}

/// Of one pattern's arms; those that took no part are left out.
pub(super) fn conversions(pattern: &PatternFacts, by_round: &[Rounds]) -> Vec<Conversion> {
    let index = |name: &str| pattern.user.iter().position(|arm| arm.name == name);
    let found = PAIRS.iter().filter_map(|(of, to)| {
        let (first, second) = (index(of)?, index(to)?);
        let sides: [&[Sums]; 2] = [&by_round[first].trimmed, &by_round[second].trimmed];
        let difference = |sums: &[Sums]| sums[0].mean() - sums[1].mean();
        let ns = difference(&sides.map(Sums::total));
        let between = interval(&sides, difference);
        let later_ns = pattern.user[first].resolve_ns - pattern.user[second].resolve_ns;
        ns.is_finite().then(|| Conversion {
            of: (*of).to_owned(),
            to: (*to).to_owned(),
            hot: cost(ns, between, 0.0),
            whole: cost(ns, between, later_ns),
        })
    });
    found.collect()
}

fn cost(ns: f64, between: Option<Interval>, more_ns: f64) -> Cost {
    let moved = between.map(|ends| Interval { low: ends.low + more_ns, high: ends.high + more_ns });
    Cost { ns: ns + more_ns, interval: moved, verdict: Verdict::of(moved, 0.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::model::UserArmFacts;

    fn arm(name: &str, resolve_ns: f64) -> UserArmFacts {
        UserArmFacts { name: name.to_owned(), resolve_ns, ..UserArmFacts::default() }
    }

    /// Eight rounds of a hundred values around `ns`.
    fn rounds(ns: f64) -> Rounds {
        let values: Vec<(usize, f64)> =
            (0..800).map(|at| (at / 100, ns + f64::from((at % 3) as u8) - 1.0)).collect();
        Rounds::of(&values, 8)
    }

    #[test]
    fn the_hot_path_may_win_and_the_whole_lose() {
        let pattern = PatternFacts {
            user: vec![arm("inline-cycles", 1.0), arm("threaded", 60.0), arm("batch", 6.0)],
            ..PatternFacts::default()
        };
        let found = conversions(&pattern, &[rounds(20.0), rounds(15.0), rounds(10.0)]);
        let names: Vec<(&str, &str)> = found.iter().map(|one| (one.of.as_str(), one.to.as_str())).collect();
        assert_eq!(
            names,
            [("threaded", "inline-cycles"), ("batch", "inline-cycles"), ("batch", "threaded")],
            "an arm that took no part is left out"
        );
        let threaded = &found[0];
        assert!(
            (threaded.hot.ns + 5.0).abs() < 0.1 && (threaded.whole.ns - 54.0).abs() < 0.1,
            "{threaded:?}"
        );
        assert_eq!((threaded.hot.verdict, threaded.whole.verdict), (Verdict::Smaller, Verdict::Larger));
        let batch = &found[1];
        assert_eq!((batch.hot.verdict, batch.whole.verdict), (Verdict::Smaller, Verdict::Smaller));
        assert!((batch.whole.ns + 5.0).abs() < 0.1);
    }

    #[test]
    fn equals_do_not_differ_and_few_rounds_say_nothing() {
        let pattern = PatternFacts {
            user: vec![arm("inline-cycles", 2.0), arm("batch", 2.0)],
            ..PatternFacts::default()
        };
        let same = conversions(&pattern, &[rounds(20.0), rounds(20.0)]);
        assert_eq!(same[0].whole.verdict, Verdict::NoDifference);
        let few = Rounds::of(&[(0, 1.0), (1, 2.0)], 2);
        let found = conversions(&pattern, &[few.clone(), few]);
        assert_eq!((found[0].hot.interval, found[0].hot.verdict), (None, Verdict::Unknown));
    }
}
