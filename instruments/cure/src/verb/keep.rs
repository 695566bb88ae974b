//! Proven settings stay in force. A profile records them, and `--persist` installs it for each boot.

use super::choice::Candidate;
use super::trial::{Place, Trial};
use super::{Cure, Cured, ended, of_program};
use crate::summary::{CureSummary, Persisted};
use anyhow::Context;
use quaver_host::settings::journal::Session;
use quaver_host::settings::knob::{Change, Knob};
use quaver_tune::profile::{self, Profile};
use std::collections::BTreeMap;
use std::path::Path;

impl<P: Place> Cure<'_, P> {
    /// Keeps what was proven. Settings of an interface that goes with the cure go too.
    pub(super) fn keep(
        &self,
        mut session: Session,
        helping: &[&Candidate],
        mut summary: CureSummary,
    ) -> anyhow::Result<Cured> {
        let passing = |one: &&&Candidate| self.site.interface_of_ours() && one.is_of_interface();
        let lasting: Vec<&&Candidate> = helping.iter().filter(|one| !passing(one)).collect();
        for one in helping.iter().filter(passing) {
            summary.warnings.push(format!(
                "{}: proven on an interface that was made for this cure and is gone: on yours, quaver tune apply --only {} \
                 --interface NAME",
                one.remedy.id, one.remedy.id
            ));
        }
        // What a program inherits from who starts it ends with us: it is said how to start it so.
        let launcher = self.site.launcher();
        let (started_so, kept): (Vec<&Candidate>, Vec<&Candidate>) =
            lasting.iter().copied().partition(|one| is_of(launcher, one));
        if !started_so.is_empty() {
            let changes: Vec<Change> = started_so.iter().flat_map(|one| one.changes.clone()).collect();
            summary.command = Some(of_program::command(&changes, &summary.program));
        }
        let (interrupt, progress, began) = (self.interrupt, self.progress, self.began);
        let (bare, base, left_alone) = (Vec::new(), Vec::new(), BTreeMap::new());
        let (site, session_of_trial) = (&self.site, &mut session);
        let mut trial =
            Trial { site, session: session_of_trial, bare, base, left_alone, interrupt, progress, began };
        let changes: Vec<_> = kept.iter().flat_map(|one| one.changes.clone()).collect();
        let (_, refused) = trial.set(&changes)?;
        if let Some(reason) = refused {
            trial.put_back()?;
            return Ok(ended(summary, &format!("proven, yet not kept, since {reason}")));
        }
        summary.kept = lasting.iter().map(|one| one.remedy.id.clone()).collect();
        session.keep().context("keeping the settings")?;
        let gone = "what was proven belongs to an interface that was made for this cure and is gone";
        if changes.is_empty() {
            let outcome = if launcher.is_some() { "proven" } else { gone };
            return Ok(ended(summary, outcome));
        }
        // They are in force: what goes wrong from here on is said beside that.
        if let Err(error) = self.record(&changes, &mut summary) {
            summary.warnings.push(format!("no profile of the kept settings was written: {error:#}"));
        }
        summary.outcome = "proven".to_owned();
        Ok((summary, changes.into_iter().map(|change| change.knob).collect()))
    }

    /// Writes what was kept as a profile of settings, and installs it where that was asked for.
    fn record(&self, changes: &[Change], summary: &mut CureSummary) -> anyhow::Result<()> {
        let name = self.run.path().file_name().map_or_else(|| "cure".into(), |name| name.to_string_lossy());
        let (profile, left_out) = Profile::of(&name, changes);
        summary.warnings.extend(left_out);
        if profile.settings.is_empty() {
            return Ok(());
        }
        let path = self.run.path().join("profile.toml");
        std::fs::write(&path, profile.text()?).with_context(|| format!("writing {}", path.display()))?;
        if self.args.persist {
            let installed = profile::install(&self.args.persist_below, &name, &profile)?;
            let shown = |path: &Path| path.display().to_string();
            summary.persisted = Some(Persisted {
                profile: shown(&installed.profile),
                unit: installed.unit,
                tuned: installed.tuned.as_deref().map(shown),
            });
        }
        Ok(())
    }
}

/// Whether it sets nothing but the thread that starts a program.
fn is_of(launcher: Option<u32>, candidate: &Candidate) -> bool {
    candidate.changes.iter().all(|change| match change.knob {
        Knob::Thread { tid } | Knob::Class { tid } => Some(tid) == launcher,
        _ => false,
    })
}
