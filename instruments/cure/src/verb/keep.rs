//! Proven settings stay in force. A profile records them, and `--persist` installs it for each boot.

use super::choice::Candidate;
use super::trial::{Place, Trial};
use super::{Cure, Cured, ended};
use crate::summary::{CureSummary, Persisted};
use anyhow::Context;
use quaver_host::settings::journal::Session;
use quaver_host::settings::knob::Change;
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
        let kept: Vec<&&Candidate> = helping.iter().filter(|one| !passing(one)).collect();
        for one in helping.iter().filter(passing) {
            summary.warnings.push(format!(
                "{}: proven on an interface that was made for this cure and is gone: on yours, quaver tune apply --only {} \
                 --interface NAME",
                one.remedy.id, one.remedy.id
            ));
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
        summary.kept = kept.iter().map(|one| one.remedy.id.clone()).collect();
        session.keep().context("keeping the settings")?;
        let gone = "what was proven belongs to an interface that was made for this cure and is gone";
        if changes.is_empty() {
            return Ok(ended(summary, gone));
        }
        // They are in force: what goes wrong from here on is said beside that.
        if let Err(error) = self.record(&changes, &mut summary) {
            summary.warnings.push(format!("what was kept is in no profile: {error:#}"));
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
