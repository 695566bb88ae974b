//! Rows of the catalogue, set for the time of one cell and put back through the journal.

use anyhow::{Context, bail};
use quaver_measure::host::root::HostRoot;
use quaver_measure::tune::audit::{Audited, audit, signs};
use quaver_measure::tune::journal::{DIRECTORY, Session};
use quaver_measure::tune::plan::{Selection, StepResult, apply, plan};
use quaver_measure::tune::survey::{Snapshot, Target, Verdict, View};
use quaver_measure::tune::{Journal, JournalPlace};
use std::path::Path;

/// Settings that are put back when this is dropped, or by the next Quaver after a kill.
pub(super) struct Tuned {
    session: Session,
}

impl Tuned {
    /// Whether the catalogue has all of these rows; the first that it has not.
    pub(super) fn unknown(rows: &[String]) -> Option<String> {
        let selection = Selection { only: rows.to_vec(), except: Vec::new() };
        selection.unknown().map(str::to_owned)
    }

    /// Sets the rows for a receiver on `cpu`; none where there are no rows.
    pub(super) fn apply(rows: &[String], cpu: u16, journal: Option<&Path>) -> anyhow::Result<Option<Self>> {
        if rows.is_empty() {
            return Ok(None);
        }
        let journal = journal.unwrap_or(Path::new(DIRECTORY));
        let place = JournalPlace::at(journal, HostRoot::system());
        let mut session = Journal::open(&place).session("study").context("beginning to change settings")?;
        let target = Target { cpus: vec![cpu], interface: None };
        let view = View::new(place.contact(), &target);
        let found = audit(&view, &Snapshot::take(&view, &signs()), None, None);
        let selection = Selection { only: rows.to_vec(), except: Vec::new() };
        let steps = apply(&mut session, &plan(&found, &selection), false, &|| true)?;
        let idle = |one: &&Audited| {
            let asked = rows.contains(&one.row.id) && one.verdict != Verdict::Good;
            asked && !steps.iter().any(|step| step.row == one.row.id)
        };
        if let Some(one) = found.iter().find(idle) {
            let why = one.lacking.as_ref().or(one.evidence.first()).map_or("", String::as_str);
            bail!("{}: nothing of it can be set here ({}); {why}", one.row.id, one.verdict.name());
        }
        if let Some(step) = steps.iter().find(|step| !step.took()) {
            let reason = match &step.result {
                StepResult::Failed { reason, .. } => reason.clone(),
                StepResult::Done(applied) => format!("the kernel says {} instead", applied.now),
            };
            bail!("{}: {} was not set: {reason}", step.row, step.knob);
        }
        Ok(Some(Self { session }))
    }

    /// Puts everything back, and says what could not be.
    pub(super) fn revert(self) -> anyhow::Result<()> {
        let undone = self.session.revert().context("putting settings back")?;
        match undone.iter().find(|one| !one.fate.is_final()) {
            Some(left) => bail!("{} is not as it was; see quaver tune status", left.knob),
            None => Ok(()),
        }
    }
}
