//! What is kept on disk. The runs themselves are the ledger, so that nothing can disagree with them.

use crate::judge::Trigger;
use quaver_store::listing::{Listed, runs_below};
use quaver_store::run::RunDir;
use quaver_view::Cell;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// What the manifest of an incident says of it, in `asked.incident`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Note {
    #[serde(rename = "receiver")]
    pub(super) subject: String,
    /// Identifier of the leading cause.
    pub(super) cause: String,
    /// Names of the reasons.
    pub(super) reasons: Vec<String>,
    /// Alike incidents, this one included.
    pub(super) count: u64,
    /// When the trigger of the first and of the last of them was.
    pub(super) first_realtime_ns: i64,
    pub(super) last_realtime_ns: i64,
}

impl Note {
    /// One of its kind, triggered at this instant.
    pub(super) fn new(triggers: &[Trigger], realtime_ns: i64) -> Self {
        Self {
            reasons: triggers.iter().map(|trigger| trigger.reason.name().to_owned()).collect(),
            count: 1,
            first_realtime_ns: realtime_ns,
            last_realtime_ns: realtime_ns,
            ..Self::default()
        }
    }

    /// Puts it into the manifest of a run.
    pub(super) fn write(&self, run: &RunDir) -> anyhow::Result<()> {
        let mut manifest = run.read_manifest()?;
        manifest.asked["incident"] = serde_json::to_value(self)?;
        if self.count > 1 {
            let seen = format!(
                "alike and counted in this one by now: {}",
                Cell::several(self.count - 1, "incident")
            );
            let notes = manifest.asked["notes"].as_array_mut();
            notes.into_iter().for_each(|notes| {
                notes.retain(|note| {
                    !note.as_str().is_some_and(|note| note.contains("counted in this one by now"))
                });
                notes.push(seen.as_str().into());
            });
        }
        Ok(run.write_manifest(&manifest)?)
    }
}

/// An earlier incident of the same kind.
pub(super) struct Alike {
    pub(super) run: RunDir,
    pub(super) note: Note,
}

struct Entry {
    run: RunDir,
    note: Note,
    bytes: u64,
    tagged: bool,
}

/// Incidents, the newest first.
pub(super) struct Ledger(Vec<Entry>);

fn bytes_of(run: &RunDir) -> u64 {
    let entries = std::fs::read_dir(run.path()).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

impl Ledger {
    /// The incidents below `root`. Runs that are none are passed over.
    pub(super) fn read(root: &Path) -> Self {
        let entry = |listed: Listed| {
            let note = listed.manifest.asked.get("incident").and_then(|note| Note::deserialize(note).ok())?;
            Some(Entry {
                bytes: bytes_of(&listed.run),
                tagged: !listed.tags.is_empty(),
                run: listed.run,
                note,
            })
        };
        // A place that the watch alone writes has no other directories.
        Self(runs_below(root).unwrap_or_default().into_iter().filter_map(entry).collect())
    }

    /// Size of all.
    pub(super) fn bytes(&self) -> u64 {
        self.0.iter().map(|entry| entry.bytes).sum()
    }

    /// The newest incident of the same receiver and cause that was seen within a time.
    pub(super) fn alike(&self, note: &Note, within: Duration) -> Option<Alike> {
        let is_alike = |entry: &&Entry| {
            let age_ns = note.last_realtime_ns.saturating_sub(entry.note.last_realtime_ns);
            entry.note.subject == note.subject
                && entry.note.cause == note.cause
                && u128::from(age_ns.unsigned_abs()) <= within.as_nanos()
        };
        self.0.iter().find(is_alike).map(|entry| Alike { run: entry.run.clone(), note: entry.note.clone() })
    }

    /// Removes the oldest ones until all together are no larger than `most`. Those with a tag stay, and so does `newest`.
    pub(super) fn bound(&mut self, most: u64, newest: &str) {
        while self.bytes() > most {
            let goes = |entry: &Entry| !entry.tagged && entry.run.name() != newest;
            let Some(oldest) = self.0.iter().rposition(goes) else { return };
            let entry = self.0.remove(oldest);
            if let Err(error) = std::fs::remove_dir_all(entry.run.path()) {
                quaver_instrument::tell!("quaver watch: removing {}: {error}", entry.run.path().display());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_store::manifest::Manifest;
    use serde_json::json;

    fn incident(root: &Path, receiver: &str, cause: &str, realtime_ns: i64, bytes: usize) -> RunDir {
        let run = RunDir::create(root, "watch").unwrap();
        run.write_manifest(&Manifest::begin("1", "watch", json!({"notes": []}), json!({}), realtime_ns))
            .unwrap();
        let note =
            Note { subject: receiver.to_owned(), cause: cause.to_owned(), ..Note::new(&[], realtime_ns) };
        note.write(&run).unwrap();
        run.write_report(&"x".repeat(bytes)).unwrap();
        run
    }

    #[test]
    fn alike_incidents_are_those_of_the_receiver_and_the_cause_within_the_time() {
        let root = tempfile::tempdir().unwrap();
        let second = 1_000_000_000;
        let run = incident(root.path(), "a", "stopped", 100 * second, 1);
        let of = |receiver: &str, cause: &str, at_ns| {
            let note =
                Note { subject: receiver.to_owned(), cause: cause.to_owned(), ..Note::new(&[], at_ns) };
            Ledger::read(root.path()).alike(&note, Duration::from_secs(10)).map(|alike| alike.run.name())
        };
        assert_eq!(of("a", "stopped", 110 * second), Some(run.name()));
        assert_eq!(of("a", "stopped", 110 * second + 1), None);
        assert_eq!((of("b", "stopped", 101 * second), of("a", "tick", 101 * second)), (None, None));
        let note =
            Note { count: 3, last_realtime_ns: 105 * second, ..Ledger::read(root.path()).0[0].note.clone() };
        note.write(&run).unwrap();
        note.write(&run).unwrap();
        assert_eq!(of("a", "stopped", 112 * second), Some(run.name()));
        let notes = run.read_manifest().unwrap().asked["notes"].clone();
        assert_eq!(notes, json!(["alike and counted in this one by now: 2 incidents"]));
    }

    #[test]
    fn the_oldest_go_first_and_nothing_goes_that_is_no_incident_or_has_a_tag() {
        let root = tempfile::tempdir().unwrap();
        let foreign = RunDir::create(root.path(), "chase").unwrap();
        foreign.write_manifest(&Manifest::begin("1", "chase", json!({}), json!({}), 0)).unwrap();
        foreign.write_report(&"x".repeat(90_000)).unwrap();
        let runs: Vec<RunDir> =
            (1..=5).map(|n| incident(root.path(), "a", &format!("cause-{n}"), n, 10_000)).collect();
        std::fs::write(runs[0].path().join("tags.txt"), "keep\n").unwrap();
        let mut ledger = Ledger::read(root.path());
        assert!((50_000..60_000).contains(&ledger.bytes()), "{}", ledger.bytes());
        ledger.bound(35_000, &runs[4].name());
        let left: Vec<bool> = runs.iter().map(|run| run.path().exists()).collect();
        assert_eq!(left, [true, false, false, true, true]);
        ledger.bound(0, &runs[4].name());
        let left: Vec<bool> = runs.iter().map(|run| run.path().exists()).collect();
        assert_eq!(left, [true, false, false, false, true], "the tagged one and the newest stay");
        assert!(foreign.path().exists());
    }
}
