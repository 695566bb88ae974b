//! What would be set, in which order, and setting it.

use super::audit::Audited;
use super::catalogue::Row;
use super::survey::Verdict;
pub use quaver_host::settings::error::TuneError;
use quaver_host::settings::journal::{Applied, Outcome, Session};
use quaver_host::settings::knob::{Change, Knob};
use serde::Serialize;

/// Which rows are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// These and no others, also those that are set only when named; empty: all that are not.
    pub only: Vec<String>,
    /// Not these.
    pub except: Vec<String>,
}

impl Selection {
    /// Whether the row is meant.
    pub fn has(&self, row: &Row) -> bool {
        let named = |list: &[String]| list.contains(&row.id);
        !named(&self.except) && if self.only.is_empty() { !row.ask } else { named(&self.only) }
    }

    /// The first identifier that is in no catalogue.
    pub fn unknown(&self) -> Option<&str> {
        let unknown = |id: &&String| super::catalogue::row(id).is_none();
        self.only.iter().chain(&self.except).find(unknown).map(String::as_str)
    }
}

/// One change that would be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedChange {
    /// For which row.
    pub row: &'static Row,
    /// What.
    pub change: Change,
}

/// A row whose knobs are not set unless it is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withheld {
    /// The row.
    pub row: &'static Row,
    /// How many changes it would be.
    pub changes: usize,
}

/// An option for the next boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedOption {
    /// The option.
    pub option: String,
    /// Rows that want it.
    pub rows: Vec<String>,
    /// Whether what is set at run time does the same.
    pub instead: bool,
    /// Whether one of the rows is known to hurt; else a run tells whether it is worth it.
    pub hurts: bool,
}

/// What would be set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Changes, in the order in which they are made.
    pub changes: Vec<PlannedChange>,
    /// Rows that would have to be named.
    pub withheld: Vec<Withheld>,
    /// What only a boot changes.
    pub boot: Vec<PlannedOption>,
    /// What neither a setting nor a boot changes, of rows that hurt.
    pub advice: Vec<&'static Row>,
}

/// Makes a plan of what was found.
pub fn plan(audited: &[Audited], selection: &Selection) -> Plan {
    let mut plan = Plan::default();
    let mut ordered: Vec<&Audited> = audited.iter().collect();
    ordered.sort_by_key(|one| one.row.order);
    for one in ordered {
        let row = one.row;
        let changes: Vec<&Change> = one.knobs.iter().flat_map(|item| &item.changes).collect();
        if !selection.has(row) {
            let named = selection.only.is_empty() && !selection.except.contains(&row.id);
            if named && !changes.is_empty() {
                plan.withheld.push(Withheld { row, changes: changes.len() });
            }
            continue;
        }
        let set = !changes.is_empty();
        for change in changes {
            // Two rows may ask for the same, as load balancing and other threads ask for one partition.
            if !plan.changes.iter().any(|planned| planned.change.knob == change.knob) {
                plan.changes.push(PlannedChange { row, change: change.clone().of_row(&row.id) });
            }
        }
        let booted = plan_boot(&mut plan, one, set);
        let helpless = !set && !booted && one.verdict == Verdict::Hurts;
        if helpless && row.advice.is_some() {
            plan.advice.push(row);
        }
    }
    plan
}

/// Adds the row's boot options that are not in force; whether there are any.
fn plan_boot(plan: &mut Plan, one: &Audited, set: bool) -> bool {
    let mut any = false;
    let open = |verdict: Verdict| matches!(verdict, Verdict::Hurts | Verdict::Unknown);
    if one.lacking.is_some() || !open(one.verdict) {
        return false;
    }
    for (option, _) in one.boot.iter().filter(|(_, item)| open(item.verdict)) {
        // Without a knob that can be set here, the other way is the only one.
        let instead = option.instead && set;
        let hurts = one.verdict == Verdict::Hurts;
        if option.instead && !set && !one.row.knobs.is_empty() && option.listed.is_none() {
            continue;
        }
        any = true;
        match plan.boot.iter_mut().find(|planned| planned.option == option.option) {
            Some(planned) => {
                planned.rows.push(one.row.id.clone());
                planned.instead &= instead;
                planned.hurts |= hurts;
            }
            None => {
                let (option, rows) = (option.option.clone(), vec![one.row.id.clone()]);
                plan.boot.push(PlannedOption { option, rows, instead, hurts });
            }
        }
    }
    any
}

impl Plan {
    /// Its changes, in the order in which they are made.
    pub fn changes(&self) -> Vec<Change> {
        self.changes.iter().map(|planned| planned.change.clone()).collect()
    }

    /// The options against what hurts that nothing at run time replaces, as they stand on a command line.
    pub fn command_line(&self) -> String {
        let wanted = self.boot.iter().filter(|planned| planned.hurts && !planned.instead);
        wanted.map(|planned| planned.option.as_str()).collect::<Vec<_>>().join(" ")
    }
}

/// What became of one planned change.
#[derive(Debug, Serialize)]
pub struct Step {
    /// Row.
    pub row: String,
    /// Setting.
    pub knob: Knob,
    /// Value asked for.
    pub value: String,
    /// What became of it.
    #[serde(flatten)]
    pub result: StepResult,
}

/// How a change ended.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "result")]
pub enum StepResult {
    /// It was made, or nothing had to be done.
    Done(Applied),
    /// It was not made, and the setting is as it was.
    Failed {
        /// Why.
        reason: String,
        /// Whether for want of privilege.
        not_permitted: bool,
        /// Whether because somebody else changed the setting after us.
        foreign: bool,
    },
}

impl Step {
    /// Whether it was changed, so that there is something to put back.
    pub fn changed(&self) -> bool {
        matches!(&self.result, StepResult::Done(applied) if matches!(applied.outcome, Outcome::Set | Outcome::Different))
    }

    /// Whether the setting is as asked for.
    pub fn took(&self) -> bool {
        matches!(&self.result, StepResult::Done(applied) if matches!(applied.outcome, Outcome::Set | Outcome::AlreadySo))
    }
}

/// Makes changes, each verified by reading it back. A change that does not take stops none of the others. `go_on` is asked
/// before each.
///
/// # Errors
/// When the journal cannot be kept: then nothing more is changed.
pub fn apply(
    session: &mut Session,
    changes: &[Change],
    force: bool,
    go_on: &dyn Fn() -> bool,
) -> Result<Vec<Step>, TuneError> {
    let mut steps: Vec<Step> = Vec::new();
    for change in changes.iter().take_while(|_| go_on()) {
        let result = match session.apply(&change.clone().forced(force)) {
            Ok(applied) => StepResult::Done(applied),
            Err(error @ TuneError::BadJournal { .. }) => return Err(error),
            Err(error) if session.is_broken() => return Err(error),
            Err(error) => StepResult::Failed {
                not_permitted: matches!(error, TuneError::NotPermitted { .. }),
                foreign: matches!(error, TuneError::Foreign { .. }),
                reason: error.to_string(),
            },
        };
        let (knob, value) = (change.knob.clone(), change.value.clone());
        steps.push(Step { row: change.row.clone().unwrap_or_default(), knob, value, result });
    }
    Ok(steps)
}
