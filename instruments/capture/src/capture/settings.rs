//! Settings of the host for as long as the capture lasts, all through the journal of `quaver tune`: where packets are
//! processed, and what interfaces stamp. Put back at the end, or by the next verb that changes settings
//! (`quaver tune revert`) if this process is killed.

use super::cores::shown_here;
use super::plan::{Plan, interfaces};
use anyhow::Context;
use quaver_host::settings::journal::{Fate, Outcome, Undone};
use quaver_host::settings::steer::{Steered, steer};
use quaver_host::settings::{Applied, Change, JournalPlace, TuneError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const VERB: &str = "capture";

/// The settings, wherever they are put back from.
#[derive(Clone)]
pub(super) struct Settings {
    place: JournalPlace,
    /// None while nothing was asked for.
    held: Arc<Mutex<Option<Steered>>>,
}

impl Settings {
    /// None yet.
    pub(super) fn new() -> Self {
        Self::at(JournalPlace::system())
    }

    fn at(place: JournalPlace) -> Self {
        Self { place, held: Arc::default() }
    }

    fn held(&self) -> MutexGuard<'_, Option<Steered>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has packets processed where the plan says; what was set and what was not, in sentences.
    pub(super) fn steer(&self, plan: &Plan) -> anyhow::Result<Vec<String>> {
        let Some(cpu) = plan.cores.softirq else { return Ok(Vec::new()) };
        let interfaces = interfaces(plan)?;
        interfaces.iter().try_for_each(shown_here)?;
        let names: Vec<&str> = interfaces.iter().map(|interface| interface.name.as_str()).collect();
        let steered =
            steer(&self.place, VERB, &names, cpu).with_context(|| format!("--cores softirq={cpu}"))?;
        let notes = recovered(steered.recovered()).chain(steered_notes(&steered, cpu)).collect();
        *self.held() = Some(steered);
        Ok(notes)
    }

    /// Sets one thing more; sentences of what a killed process had left go to `notes`.
    pub(super) fn set(&self, change: &Change, notes: &mut Vec<String>) -> Result<Applied, TuneError> {
        let mut held = self.held();
        let steered = match &mut *held {
            Some(steered) => steered,
            none => {
                let begun = Steered::begin(&self.place, VERB)?;
                notes.extend(recovered(begun.recovered()));
                none.insert(begun)
            }
        };
        steered.set(change)
    }

    /// Whether nothing was asked for.
    pub(super) fn is_empty(&self) -> bool {
        self.held().is_none()
    }

    /// Puts all back; what could not be.
    pub(super) fn put_back(&self) -> Vec<String> {
        let Some(steered) = self.held().take() else { return Vec::new() };
        match steered.put_back() {
            Ok(undone) => undone
                .iter()
                .filter(|one| !one.fate.is_final())
                .map(|one| format!("{} was not restored; see quaver tune status", one.knob))
                .collect(),
            Err(error) => vec![format!("settings were not restored: {error}; see quaver tune status")],
        }
    }
}

fn recovered(undone: &[Undone]) -> impl Iterator<Item = String> {
    undone
        .iter()
        .filter(|one| one.fate == Fate::Restored)
        .map(|one| format!("{} restored to {}: left by a killed quaver {}", one.knob, one.before, one.verb))
}

fn steered_notes(steered: &Steered, cpu: u16) -> impl Iterator<Item = String> {
    let set = steered.applied.iter().map(move |done| {
        let pending = done.pending.as_ref().map(|pending| format!(" ({pending})")).unwrap_or_default();
        match done.outcome {
            Outcome::AlreadySo => format!("packets on CPU {cpu}: {} is {} already", done.knob, done.now),
            _ => format!("packets on CPU {cpu}: {} is {}, was {}{pending}", done.knob, done.now, done.before),
        }
    });
    set.chain(steered.refused.iter().map(move |refused| format!("not on CPU {cpu}: {refused}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_host::root::HostRoot;
    use quaver_host::settings::Knob;

    #[test]
    fn the_journal_is_opened_once_when_it_is_first_needed_and_put_back_from_anywhere() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("proc/sys/net/core/x");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "1\n").unwrap();
        let journal = folder.path().join("journal");
        let settings = Settings::at(JournalPlace::at(&journal, HostRoot::at(folder.path())));
        assert!(settings.is_empty() && settings.put_back().is_empty() && !journal.exists());
        let mut notes = Vec::new();
        for value in ["2", "3"] {
            let change = Change::new(Knob::sysctl("net.core.x"), value);
            settings.set(&change, &mut notes).unwrap();
            assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{value}\n"));
        }
        let elsewhere = settings.clone();
        assert_eq!(std::thread::spawn(move || elsewhere.put_back()).join().unwrap(), Vec::<String>::new());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "1\n");
        assert!(settings.is_empty() && notes.is_empty());
    }
}
