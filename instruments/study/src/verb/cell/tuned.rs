//! Rows of the catalogue, set for the time of one cell and put back through the journal. Rows of the sink's interface are set
//! where it is to be seen: at the sink's end of the lab.

use super::ends::lab_failure;
use anyhow::{Context, bail};
use quaver_host::netns::Lab;
use quaver_host::root::HostRoot;
use quaver_host::settings::journal::{DIRECTORY, Session};
use quaver_host::settings::{Journal, JournalPlace};
use quaver_lab_guests::view;
use quaver_tune::audit::{Audited, audit, signs};
use quaver_tune::catalogue::{Scope, row};
use quaver_tune::plan::{Selection, StepResult, apply, plan};
use quaver_tune::survey::{Snapshot, Target, Verdict, View};
use std::path::Path;

/// Settings that are put back when this is dropped, or by the next Quaver after a kill. (Those of an interface go with it.)
pub(in crate::verb) struct Tuned<'a> {
    session: Session,
    /// Where it was set.
    ends: Option<&'a Lab>,
}

impl<'a> Tuned<'a> {
    /// Whether the catalogue has all of these rows; the first that it has not.
    pub(in crate::verb) fn unknown(rows: &[String]) -> Option<String> {
        let selection = Selection { only: rows.to_vec(), except: Vec::new() };
        selection.unknown().map(str::to_owned)
    }

    /// Sets the rows for a receiver on `cpu`, between these ends; none where there are no rows.
    pub(super) fn apply(
        rows: &[String],
        cpu: u16,
        journal: Option<&Path>,
        ends: Option<&'a Lab>,
    ) -> anyhow::Result<Option<Self>> {
        if rows.is_empty() {
            return Ok(None);
        }
        let of_interface = |id: &String| row(id).is_some_and(|row| row.scope.contains(&Scope::Nic));
        let ends = ends.filter(|_| rows.iter().any(of_interface));
        let interface = ends.map(|lab| lab.sink.interface.clone());
        let journal = journal.unwrap_or(Path::new(DIRECTORY));
        let session = at(ends, || set(rows, Target { cpus: vec![cpu], interface, process: None }, journal))??;
        Ok(Some(Self { session, ends }))
    }

    /// Puts everything back, and says what could not be.
    pub(super) fn revert(self) -> anyhow::Result<()> {
        let Self { session, ends } = self;
        let undone = at(ends, || session.revert())?.context("putting settings back")?;
        match undone.iter().find(|one| !one.fate.is_final()) {
            Some(left) => bail!("{} is not as it was; see quaver tune status", left.knob),
            None => Ok(()),
        }
    }
}

/// Runs `body` at the sink's end, or here.
fn at<T: Send>(ends: Option<&Lab>, body: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
    match ends {
        None => Ok(body()),
        Some(lab) => view::within(&lab.sink, body).map_err(lab_failure),
    }
}

fn set(rows: &[String], target: Target, journal: &Path) -> anyhow::Result<Session> {
    let place = JournalPlace::at(journal, HostRoot::system());
    let mut session = Journal::open(&place).session("study").context("beginning to change settings")?;
    let view = View::new(place.contact(), &target);
    let found = audit(&view, &Snapshot::take(&view, &signs()), None, None);
    let selection = Selection { only: rows.to_vec(), except: Vec::new() };
    let steps = apply(&mut session, &plan(&found, &selection).changes(), false, &|| true)?;
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
    Ok(session)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_testbed::privileged::privileged;

    fn rows(ids: &[&str]) -> Vec<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn rows_of_the_sinks_interface_are_set_at_its_end_and_put_back() {
        if !privileged("rows_of_the_sinks_interface_are_set_at_its_end_and_put_back") {
            return;
        }
        let lab = Lab::create().unwrap();
        let journal = tempfile::tempdir().unwrap();
        lab.sink.set_attribute("gro_flush_timeout", "9000").unwrap();
        lab.sink.set_driver("feature.rx-gro", "on").unwrap();
        lab.sink.steer_receive(&[0]).unwrap();
        let says = || {
            let attribute = |name: &str| lab.sink.attribute(name).unwrap();
            let gro = lab.sink.driver("feature.rx-gro").unwrap();
            [gro, attribute("gro_flush_timeout"), attribute("queues/rx-0/rps_cpus")].map(Option::unwrap)
        };
        let before = says();
        let set = Tuned::apply(&rows(&["gro", "defer", "rps"]), 1, Some(journal.path()), Some(&lab)).unwrap();
        let now = says();
        assert_eq!((now[0].as_str(), now[1].as_str()), ("off", "0"), "{before:?}");
        assert!(now[2].bytes().all(|octet| octet == b'0' || octet == b','), "{now:?}");
        set.unwrap().revert().unwrap();
        assert_eq!(says(), before);

        // What a killed study would leave goes with its namespace, and the journal knows it.
        let set = Tuned::apply(&rows(&["defer"]), 1, Some(journal.path()), Some(&lab)).unwrap();
        std::mem::forget(set);
        drop(lab);
        let place = JournalPlace::at(journal.path(), HostRoot::system());
        let status = Journal::open(&place).status().unwrap();
        assert_eq!(status.changes.len(), 1, "{status:?}");
    }

    #[test]
    fn rows_of_an_interface_are_not_set_where_there_is_none() {
        let journal = tempfile::tempdir().unwrap();
        let error = Tuned::apply(&rows(&["gro"]), 0, Some(journal.path()), None).err().unwrap();
        assert!(error.to_string().contains("nothing of it can be set here"), "{error:#}");
    }
}
