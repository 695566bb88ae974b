//! What a comparison found, and the same as JSON.

use super::differences::{Difference, differences};
use super::side::{Quantity, Run, Side};
use quaver_analysis::compare::{Basis, Change, Estimate, LEVELS};
use quaver_view::Unit;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Levels up to this one (p99.9) of the first quantity decide the verdict; further ones rest on few clustered samples.
const JUDGED: usize = 4;
/// A cause is shown where it took this part of the time on either side.
const LEAST_SHARE: f64 = 1e-5;

/// What a comparison found.
pub(super) struct Comparison {
    /// The verb that made the runs, and the programs whose files stand beside them: `irtt with probe`.
    pub kind: String,
    pub a: Side,
    pub b: Side,
    pub differences: Vec<Difference>,
    pub quantities: Vec<Compared>,
    pub causes: Vec<CauseChange>,
    pub figures: Vec<(String, Change)>,
    /// The number that stands for runs of this kind, where no samples do.
    pub headline: Option<usize>,
}

/// A quantity on both sides.
pub(super) struct Compared {
    pub id: String,
    pub name: String,
    pub unit: Unit,
    pub mean: Option<Change>,
    pub levels: [Option<Change>; LEVELS.len()],
    /// Percentiles of each side, the mean of its runs, by the share beyond.
    pub curves: [Vec<(f64, f64)>; 2],
}

/// A cause on both sides; its values are parts of the measured time.
pub(super) struct CauseChange {
    pub source: String,
    pub name: String,
    pub change: Change,
}

impl CauseChange {
    /// What became of it, as far as the intervals say.
    pub(super) fn fate(&self) -> &'static str {
        let Change { a, b, found, basis, .. } = self.change;
        match (found, a == 0.0, b == 0.0) {
            (true, true, _) => "came",
            (true, _, true) => "went",
            (true, ..) if b > a => "grew",
            (true, ..) => "shrank",
            _ if basis == Basis::Nothing => "not known",
            _ => "no change found",
        }
    }
}

impl Comparison {
    pub(super) fn of(a: Side, b: Side, headline: &[&str]) -> Self {
        let differences = differences(&a, &b);
        let mut kinds: Vec<&str> = a.runs.iter().chain(&b.runs).map(|run| run.kind.as_str()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let (quantities, kind) = (quantities(&a, &b), kinds.join(" with "));
        // Numbers of the same name mean other things in summaries of other kinds.
        let alike = kinds.len() == 1;
        let causes = if alike { causes(&a, &b) } else { Vec::new() };
        let figures = if alike { figures(&a, &b, headline) } else { Vec::new() };
        let place = |path: &&str| figures.iter().position(|(known, _)| known == path);
        let headline = if quantities.is_empty() { headline.iter().find_map(place) } else { None };
        Self { kind, a, b, differences, quantities, causes, figures, headline }
    }

    /// The runs and files of both sides.
    pub(super) fn sides(&self) -> impl Iterator<Item = &Run> {
        self.a.runs.iter().chain(&self.b.runs)
    }

    /// The changes that decide the verdict, with their names.
    pub(super) fn judged(&self) -> Vec<(&'static str, &Change)> {
        let first = self.quantities.iter().take(1);
        let levels = first.flat_map(|first| LEVELS.iter().zip(&first.levels).take(JUDGED));
        levels.filter_map(|((name, _), change)| Some((*name, change.as_ref()?))).collect()
    }

    /// `--json`, and what `--fail-if` refers to.
    pub(super) fn json(&self, verdict: Option<String>, warnings: &[String]) -> Value {
        let mut all = Map::new();
        let names = |side: &Side| side.runs.iter().map(|run| run.name.clone()).collect::<Vec<_>>();
        all.insert("schema".into(), json!("quaver.compare/1"));
        all.insert("kind".into(), json!(self.kind));
        all.insert("a".into(), json!(names(&self.a)));
        all.insert("b".into(), json!(names(&self.b)));
        all.insert("verdict".into(), json!(verdict));
        all.insert("warnings".into(), json!(warnings));
        let differences = self
            .differences
            .iter()
            .map(|one| json!({"path": one.path, "a": one.values[0], "b": one.values[1]}));
        all.insert("differences".into(), differences.collect());
        if let Some(first) = self.quantities.first() {
            all.insert("quantity".into(), json!(first.id));
            all.extend(levels(first));
        }
        let stages = self.quantities.iter().map(|quantity| {
            let mut one =
                Map::from_iter([("id".into(), json!(quantity.id)), ("name".into(), json!(quantity.name))]);
            one.extend(levels(quantity));
            Value::Object(one)
        });
        all.insert("stages".into(), stages.collect());
        let causes = self.causes.iter().map(|cause| {
            let mut one = json!({"source": cause.source, "name": cause.name, "fate": cause.fate()});
            if let (Value::Object(one), Value::Object(change)) = (&mut one, change(&cause.change)) {
                one.extend(change);
            }
            one
        });
        all.insert("causes".into(), causes.collect());
        let mut figures = Value::Object(Map::new());
        for (path, found) in &self.figures {
            insert(&mut figures, path, change(found));
        }
        all.insert("figures".into(), figures);
        Value::Object(all)
    }
}

/// Puts a value at its path.
fn insert(tree: &mut Value, path: &str, value: Value) {
    let place = path.split('.').fold(tree, |tree, step| {
        if !tree.is_object() {
            *tree = Value::Object(Map::new());
        }
        &mut tree[step]
    });
    *place = value;
}

fn levels(quantity: &Compared) -> impl Iterator<Item = (String, Value)> {
    let named = LEVELS.iter().zip(&quantity.levels).map(|((name, _), change)| (*name, change));
    let all = named.chain([("mean", &quantity.mean)]);
    all.filter_map(|(name, found)| Some((name.to_owned(), change(found.as_ref()?))))
}

fn change(of: &Change) -> Value {
    let (difference, relative) = (of.difference, of.relative);
    json!({
        "a": of.a, "b": of.b,
        "difference": of.b - of.a,
        "difference_low": difference.map(|one| one.low), "difference_high": difference.map(|one| one.high),
        "change": of.share(),
        "change_low": relative.map(|one| one.low), "change_high": relative.map(|one| one.high),
        "found": of.found,
    })
}

/// The quantities that every run has, in the order of the first.
fn quantities(a: &Side, b: &Side) -> Vec<Compared> {
    let of = |run: &Run, id: &str| run.quantities.iter().find(|quantity| quantity.id == id).cloned();
    let all = |side: &Side, id: &str| side.runs.iter().map(|run| of(run, id)).collect::<Option<Vec<_>>>();
    let ids = a.runs.iter().take(1).flat_map(|run| &run.quantities);
    let both: Vec<[Vec<Quantity>; 2]> =
        ids.filter_map(|quantity| Some([all(a, &quantity.id)?, all(b, &quantity.id)?])).collect();
    let count = both.len();
    let known = |one: &Compared| one.mean.is_some() || one.levels.iter().any(Option::is_some);
    both.into_iter()
        .enumerate()
        .map(|(rank, sides)| compared(&sides, if rank == 0 { JUDGED } else { JUDGED * count }))
        .filter(known)
        .collect()
}

fn compared(sides: &[Vec<Quantity>; 2], comparisons: usize) -> Compared {
    let pick = |of: &dyn Fn(&Quantity) -> Option<Estimate>| {
        let [a, b] = [0, 1].map(|side| sides[side].iter().map(of).collect::<Option<Vec<_>>>());
        Change::of(&a?, &b?, comparisons)
    };
    let Quantity { id, name, unit, .. } = sides[0][0].clone();
    let levels = std::array::from_fn(|level| pick(&|quantity: &Quantity| quantity.levels[level].clone()));
    let mean = pick(&|quantity: &Quantity| quantity.mean.clone());
    Compared { id, name, unit, mean, levels, curves: [0, 1].map(|side| curve(&sides[side])) }
}

fn curve(runs: &[Quantity]) -> Vec<(f64, f64)> {
    let points = runs.iter().map(|run| run.curve.len()).min().unwrap_or_default();
    let mean = |at: usize| runs.iter().map(|run| run.curve[at].1).sum::<f64>() / runs.len() as f64;
    (0..points).map(|at| (runs[0].curve[at].0, mean(at))).collect()
}

/// Causes of any run, by how much their time changed. One that a run does not have took none of its time, so each run must have
/// recorded what acted.
fn causes(a: &Side, b: &Side) -> Vec<CauseChange> {
    let known = |side: &Side| side.runs.iter().map(|run| run.causes.clone()).collect::<Option<Vec<_>>>();
    let (Some(a), Some(b)) = (known(a), known(b)) else { return Vec::new() };
    let keys: BTreeSet<&(String, String)> = a.iter().chain(&b).flat_map(BTreeMap::keys).collect();
    let of = |side: &[BTreeMap<_, Estimate>], key| -> Vec<Estimate> {
        side.iter().map(|run| run.get(key).cloned().unwrap_or(Estimate::absent())).collect()
    };
    let mut found: Vec<CauseChange> = keys
        .iter()
        .filter_map(|key| {
            let change = Change::of(&of(&a, *key), &of(&b, *key), keys.len())?;
            let (source, name) = (*key).clone();
            (change.a.max(change.b) >= LEAST_SHARE).then_some(CauseChange { source, name, change })
        })
        .collect();
    found.sort_by(|one, other| {
        let size = |cause: &CauseChange| (cause.change.b - cause.change.a).abs();
        size(other).total_cmp(&size(one))
    });
    found
}

/// Numbers of the summary that every run has, of the same thing. All that differ are compared at the same time, but for the
/// number that stands for a run.
fn figures(a: &Side, b: &Side, headline: &[&str]) -> Vec<(String, Change)> {
    let keys = a.runs.iter().take(1).flat_map(|run| run.figures.keys());
    let of = |side: &Side, key| -> Option<Vec<f64>> {
        side.runs.iter().map(|run| run.figures.get(key).copied()).collect()
    };
    let both: Vec<_> = keys.filter_map(|key| Some((&key.0, of(a, key)?, of(b, key)?))).collect();
    let differs = |a: &[f64], b: &[f64]| a.iter().chain(b).any(|number| *number != a[0]);
    let count = both.iter().filter(|(_, a, b)| differs(a, b)).count();
    let exact = |numbers: Vec<f64>| numbers.into_iter().map(Estimate::exact).collect::<Vec<_>>();
    both.into_iter()
        .filter_map(|(path, a, b)| {
            let comparisons = if headline.contains(&path.as_str()) { 1 } else { count };
            Some((path.clone(), Change::of(&exact(a), &exact(b), comparisons)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::document::warnings;
    use quaver_store::manifest::{AnalysisFacts, Manifest};

    fn run(started_ns: i64, causes: Option<f64>, tier: &str) -> Run {
        let mut manifest = Manifest::begin("0.1.0", "chase", json!({}), json!({}), started_ns);
        manifest.analysis = Some(AnalysisFacts { tier: tier.to_owned(), ..AnalysisFacts::default() });
        manifest.end(started_ns + 1, None);
        let key = ("tick".to_owned(), "scheduler tick".to_owned());
        Run {
            name: format!("chase-{started_ns}"),
            origin: format!("chase {started_ns}"),
            kind: "chase".to_owned(),
            manifest: Some(manifest),
            notes: Vec::new(),
            quantities: Vec::new(),
            causes: causes.map(|share| BTreeMap::from([(key, Estimate::exact(share))])),
            figures: BTreeMap::new(),
        }
    }

    fn of(a: Run, b: Run) -> (Comparison, String) {
        let found = Comparison::of(Side { runs: vec![a] }, Side { runs: vec![b] }, &[]);
        let words = warnings(&found).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        (found, words)
    }

    #[test]
    fn no_cause_went_in_a_run_that_recorded_none() {
        let (found, words) = of(run(1, Some(0.1), "bpf"), run(2, None, "user"));
        assert!(found.causes.is_empty());
        assert!(words.contains("causes are not compared, since none were recorded: chase-2"), "{words}");
        let (found, words) = of(run(1, Some(0.1), "bpf"), run(2, Some(0.2), "tracefs"));
        assert_eq!(found.causes.len(), 1);
        assert!(words.contains("may have been there, unseen"), "{words}");
        let (found, words) = of(run(1, Some(0.1), "bpf"), run(2, Some(0.2), "bpf"));
        assert_eq!(found.causes.len(), 1);
        assert!(!words.contains("unseen") && !words.contains("not compared"), "{words}");
    }

    #[test]
    fn a_run_is_known_by_what_it_is() {
        let (_, words) =
            of(run(1, Some(0.1), "bpf"), Run { name: "copy".to_owned(), ..run(1, Some(0.1), "bpf") });
        assert!(words.contains("copy stands on both sides"), "{words}");
        let (_, words) =
            of(run(1, Some(0.1), "bpf"), Run { name: "chase-1".to_owned(), ..run(2, Some(0.1), "bpf") });
        assert!(!words.contains("both sides"), "another run of the same name: {words}");
        let side = |starts: [i64; 3]| Side { runs: starts.map(|start| run(start, None, "bpf")).to_vec() };
        assert_eq!(side([1, 2, 1]).repeated(), Some("chase-1"));
        assert_eq!(side([1, 2, 3]).repeated(), None);
    }

    #[test]
    fn of_many_figures_chance_finds_none() {
        let run = |at: f64| Run {
            figures: (0..400)
                .map(|figure| {
                    // Three runs a side whose figures have nothing to do with their side.
                    let number = ((figure as f64 + 1.0) * (at + 1.0) * 0.754_877).fract() + 1.0;
                    ((format!("figure.{figure}"), String::new()), number)
                })
                .collect(),
            ..run(at as i64, None, "bpf")
        };
        let side = |starts: [f64; 3]| Side { runs: starts.map(run).to_vec() };
        let found = Comparison::of(side([1.0, 4.0, 7.0]), side([2.0, 5.0, 9.0]), &[]);
        let changed = |figures: &[(String, Change)]| figures.iter().filter(|(_, one)| one.found).count();
        assert_eq!((found.figures.len(), changed(&found.figures)), (400, 0));
        let alone = |(_, one): &&(String, Change)| {
            one.relative.is_some_and(|interval| interval.low > 0.0 || interval.high < 0.0)
        };
        assert!(found.figures.iter().filter(alone).count() > 5, "one by one chance finds some");
    }
}
