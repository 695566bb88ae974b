//! Every row of the catalogue held against this machine. Reads only.

use super::catalogue::{BootOption, Row, Sign, rows};
use super::survey::{Item, Snapshot, Verdict, View};
use serde::Serialize;
use std::collections::BTreeMap;

/// What a source cost in a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Time that it made packets late, or took from the loop.
    pub time_ns: i64,
    /// Part of all late or lost time.
    pub share: f64,
    /// Its worst single stay.
    pub worst_ns: i64,
}

/// A row of the catalogue on this machine.
#[derive(Clone, Debug)]
pub struct Audited {
    /// The row.
    pub row: &'static Row,
    /// How it stands.
    pub verdict: Verdict,
    /// What was seen.
    pub evidence: Vec<String>,
    /// What it cost in the run that was given.
    pub cost: Option<Cost>,
    /// Its knobs.
    pub knobs: Vec<Item>,
    /// Its boot options, filled in.
    pub boot: Vec<(BootOption, Item)>,
    /// Why nothing can be set here although it may happen.
    pub lacking: Option<String>,
}

/// The signs of all rows, for [`Snapshot::take`].
pub fn signs() -> Vec<&'static Sign> {
    rows().iter().flat_map(|row| &row.signs).collect()
}

/// Looks at every row. `later` is a second look at the counters, some time after the first; `costs` are those of a run, by
/// the identifiers of its causes.
pub fn audit(
    view: &View<'_>,
    first: &Snapshot,
    later: Option<&Snapshot>,
    costs: Option<&BTreeMap<String, Cost>>,
) -> Vec<Audited> {
    rows().iter().map(|row| audited(view, row, (first, later), costs)).collect()
}

fn audited(
    view: &View<'_>,
    row: &'static Row,
    (first, later): (&Snapshot, Option<&Snapshot>),
    costs: Option<&BTreeMap<String, Cost>>,
) -> Audited {
    let cost = costs.and_then(|costs| cost(row, costs));
    if let (Some(reason), None) = (view.elsewhere(row), &cost) {
        let (evidence, knobs, boot, lacking) = (vec![reason.to_owned()], Vec::new(), Vec::new(), None);
        return Audited { row, verdict: Verdict::NotApplicable, evidence, cost, knobs, boot, lacking };
    }
    let knobs = view.knobs(row);
    let boot = view.boot(row);
    let signs: Vec<Item> = row.signs.iter().filter_map(|sign| view.sign(sign, first, later)).collect();
    let (verdict, mut evidence) = concluded(view, row, (&knobs, &boot, &signs));
    let verdict = match (&cost, costs) {
        (Some(_), _) => Verdict::Hurts,
        (None, Some(_)) if verdict == Verdict::Unknown => {
            evidence.insert(0, "it cost nothing in that run, as far as the run could see".to_owned());
            verdict
        }
        _ => verdict,
    };
    Audited { row, verdict, evidence, cost, knobs, boot, lacking: view.lacking(row) }
}

/// Costs of a run that belong to no row: what no setting of this machine changes, the most first.
pub fn unplaced(costs: &BTreeMap<String, Cost>) -> Vec<(&str, &Cost)> {
    let placed = |id: &String| rows().iter().any(|row| row.id == *id || row.causes.contains(id));
    let mut rest: Vec<(&str, &Cost)> =
        costs.iter().filter(|(id, _)| !placed(id)).map(|(id, cost)| (id.as_str(), cost)).collect();
    rest.sort_by_key(|(_, cost)| std::cmp::Reverse(cost.time_ns));
    rest
}

/// What a row cost, its further causes included.
fn cost(row: &Row, costs: &BTreeMap<String, Cost>) -> Option<Cost> {
    let found = std::iter::once(&row.id).chain(&row.causes).filter_map(|id| costs.get(id));
    found.cloned().reduce(|sum, next| Cost {
        time_ns: sum.time_ns.saturating_add(next.time_ns),
        share: sum.share + next.share,
        worst_ns: sum.worst_ns.max(next.worst_ns),
    })
}

type Looked<'a> = (&'a [Item], &'a [(BootOption, Item)], &'a [Item]);

/// Knobs decide; boot options where no knob does their work; counters where they grow, or where nothing else tells.
fn concluded(view: &View<'_>, row: &Row, (knobs, boot, signs): Looked<'_>) -> (Verdict, Vec<String>) {
    let lacking = view.lacking(row);
    let set_here = knobs.iter().any(|item| item.verdict != Verdict::NotApplicable);
    // Where no knob is, its other way counts if the kernel tells whether that is in force.
    let counts = |option: &BootOption| {
        let alone = !option.instead || (!set_here && option.listed.is_some());
        lacking.is_none() && alone
    };
    let booted = boot.iter().filter(|(option, _)| counts(option)).map(|(_, item)| item);
    let levers: Vec<&Item> = knobs.iter().chain(booted).collect();
    let told = levers.iter().any(|item| matches!(item.verdict, Verdict::Good | Verdict::Hurts));
    let matters = |item: &&Item| item.verdict == Verdict::Hurts || !told;
    let signs: Vec<&Item> = signs.iter().filter(matters).collect();

    let all = || levers.iter().chain(&signs).copied();
    let verdict = all().map(|item| item.verdict).min().unwrap_or(Verdict::Unknown);
    let mut evidence: Vec<String> =
        all().filter(|item| item.verdict == verdict).map(|item| item.evidence.clone()).collect();
    if verdict != Verdict::NotApplicable {
        let reason = lacking.filter(|_| knobs.is_empty() && !row.boot.is_empty());
        evidence.extend(reason.map(|reason| format!("{reason}, so it cannot be switched off here")));
    }
    if evidence.is_empty() {
        evidence.push(format!("needs a run: {}", row.detect));
    }
    (verdict, evidence)
}
