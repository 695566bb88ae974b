//! The journal of changed settings: what is about to be changed is on disk before it is changed.
//!
//! A change goes through these steps, and the end of the process may fall between any two of them:
//!
//! 1. `intent`, with the old value, is appended and synced;
//! 2. the setting is written;
//! 3. `done`, with the value as read back, is appended and synced;
//! 4. to put it back: the old value is written and read back;
//! 5. `undone` is appended and synced.
//!
//! A knob that is driven (written some thousand times a second, as a frequency is) has its `intent` only: no `done` follows, and its
//! writes are not in the journal.
//!
//! After a crash an open change is either as before (it ends as it is), as we left it (the old value is written), or neither:
//! then somebody else changed it, which is said and left alone. Writing an old value twice does no harm, so a crash while
//! putting back is a crash like any other. Values in the kernel are gone with a reboot, which the boot's number tells.

mod born;
mod lock;
mod log;
mod record;
mod session;
mod state;
mod steps;
#[cfg(test)]
mod tests;
mod undo;

pub use super::hold::Holder;
pub use log::JOURNAL;
pub use record::{Ending, FORMAT, Record, SettingValue};
pub use session::{Applied, Driven, Outcome, Session};
pub use steps::{Step, Steps, Unwatched};
pub use undo::{Fate, Others, Undone};

use super::contact::{Contact, Machine};
use super::error::TuneError;
use super::knob::{Durability, Knob, cpu_list};
use crate::root::HostRoot;
use lock::Lock;
use log::Log;
use serde::Serialize;
use state::{Entry, JournalSummary, Judgement, Phase, judge};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directory of the journal. Not below `/run`: what outlives a reboot must be put back after one as well.
pub const DIRECTORY: &str = "/var/lib/quaver";

/// Where the journal is and which machine it is about.
#[derive(Clone, Debug)]
pub struct JournalPlace {
    directory: PathBuf,
    contact: Arc<dyn Contact>,
    steps: Arc<dyn Steps>,
}

impl JournalPlace {
    /// The journal of this machine, which all verbs share.
    pub fn system() -> Self {
        Self::at(DIRECTORY, HostRoot::system())
    }

    /// A journal in another directory, about the machine that the root shows.
    pub fn at(directory: impl Into<PathBuf>, root: HostRoot) -> Self {
        Self {
            directory: directory.into(),
            contact: Arc::new(Machine::new(root)),
            steps: Arc::new(Unwatched),
        }
    }

    /// The same with another way to touch the machine.
    pub fn with_contact(self, contact: Arc<dyn Contact>) -> Self {
        Self { contact, ..self }
    }

    /// The same with somebody who looks at each step.
    pub fn with_steps(self, steps: Arc<dyn Steps>) -> Self {
        Self { steps, ..self }
    }

    /// Where the machine is touched.
    pub fn contact(&self) -> &dyn Contact {
        self.contact.as_ref()
    }

    /// The directory of the journal.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Takes the lock and reads the journal.
    fn enter(&self, verb: &str) -> Result<(Lock, Log, JournalSummary), TuneError> {
        lock::prepare(&self.directory)?;
        let lock = Lock::take(&self.directory, verb)?;
        let content = log::read(&self.directory)?;
        let log = Log::open(&self.directory, &content, self.steps.as_ref())?;
        Ok((lock, log, JournalSummary::of(&content.records)))
    }
}

/// The journal of changed settings.
#[derive(Clone, Debug)]
pub struct Journal {
    place: JournalPlace,
}

impl Journal {
    /// The journal of a place. Makes and locks nothing yet.
    pub fn open(place: &JournalPlace) -> Self {
        Self { place: place.clone() }
    }

    /// Begins to change settings for a verb (`capture`). Puts back first what killed processes left;
    /// [`Session::recovered`] tells.
    ///
    /// # Errors
    /// [`TuneError::Busy`] while another process has a session; [`TuneError::NotPermitted`] where the journal cannot be
    /// written; [`TuneError::BadJournal`] where it cannot be trusted.
    pub fn session(&self, verb: &str) -> Result<Session, TuneError> {
        Session::begin(&self.place, verb)
    }

    /// Puts back all open changes that `which` chooses (by knob and by row of the catalogue), the latest first.
    ///
    /// # Errors
    /// As [`Journal::session`]; what concerns one setting only is in its [`Undone`].
    pub fn revert(
        &self,
        others: Others,
        which: &dyn Fn(&Knob, Option<&str>) -> bool,
    ) -> Result<Vec<Undone>, TuneError> {
        if log::read(&self.place.directory)?.records.is_empty() {
            // Nothing was ever changed: no directory is made and no privilege is needed to find out.
            return Ok(Vec::new());
        }
        let mut session = Session::begin(&self.place, "tune revert")?;
        let mut undone = session.recovered().to_vec();
        let rest = session.undo(others, &|_, entry| which(&entry.knob, entry.row.as_deref()))?;
        undone.retain(|early| !rest.iter().any(|late| late.knob == early.knob && !early.fate.is_final()));
        undone.extend(rest);
        Ok(undone)
    }

    /// What the boot unit does: puts back what killed processes left, and lets go of what went with an earlier boot. What
    /// was to stay and is on disk stays.
    ///
    /// # Errors
    /// As [`Journal::session`].
    pub fn after_boot(&self) -> Result<Vec<Undone>, TuneError> {
        if log::read(&self.place.directory)?.records.is_empty() {
            return Ok(Vec::new());
        }
        let mut session = Session::begin(&self.place, "tune revert --at-boot")?;
        let mut undone = session.recovered().to_vec();
        let boot = super::contact::boot_id(self.place.contact().root());
        let earlier = |state: &JournalSummary, entry: &Entry| {
            let of_then = state.sessions.get(&entry.session).is_none_or(|facts| facts.boot != boot);
            of_then && entry.knob.durability() == Durability::Volatile
        };
        undone.extend(session.undo(Others::Leave, &earlier)?);
        Ok(undone)
    }

    /// What is changed now. Reads only and takes no lock.
    ///
    /// # Errors
    /// [`TuneError::BadJournal`], or what the system says to reading it.
    pub fn status(&self) -> Result<Status, TuneError> {
        let content = log::read(&self.place.directory)?;
        let state = JournalSummary::of(&content.records);
        let busy = Lock::holder(&self.place.directory);
        let changes = state.open().map(|entry| self.standing(&state, entry)).collect();
        let contact = self.place.contact();
        let narrowed = state.open().filter(|entry| born::is_of_kthreadd(entry));
        let inherited = narrowed.flat_map(|entry| born::inherited(contact, &state, entry));
        let inherited = inherited
            .map(|thread| Inherited { tid: thread.tid, name: thread.name, cpus: cpu_list(&thread.cpus) })
            .collect();
        Ok(Status { busy, changes, inherited })
    }

    fn standing(&self, state: &JournalSummary, entry: &Entry) -> Standing {
        let facts = state.sessions.get(&entry.session);
        let (is, now) = match judge(self.place.contact(), state, entry) {
            Judgement::Rebooted => (Is::Rebooted, None),
            Judgement::Elsewhere(remedy) => (Is::Elsewhere { remedy }, None),
            Judgement::Vanished(reason) | Judgement::Offline(reason) => (Is::Gone { reason }, None),
            Judgement::Unreadable(error) => (Is::Unreadable { reason: error.to_string() }, None),
            Judgement::Unchanged => (Is::AsBefore, Some(entry.before.shown())),
            Judgement::Ours(now) => (Is::Ours, Some(undo::shown(&now))),
            Judgement::Foreign(now) => (Is::Foreign, Some(undo::shown(&now))),
        };
        Standing {
            knob: entry.knob.clone(),
            row: entry.row.clone(),
            verb: facts.map_or_else(String::new, |facts| facts.verb.clone()),
            pid: facts.map_or(0, |facts| facts.pid),
            since_realtime_ns: facts.map_or(0, |facts| facts.realtime_ns),
            kept: facts.is_some_and(|facts| facts.kept),
            finished: matches!(entry.phase, Phase::Set { .. }),
            holder: match entry.phase {
                Phase::Set { holder, .. } => holder,
                _ => None,
            },
            before: entry.before.shown(),
            ours: entry.ours().shown(),
            now,
            is,
        }
    }
}

/// What is changed now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Who is changing settings at this moment.
    pub busy: Option<String>,
    /// Changes that were not put back, the earliest first.
    pub changes: Vec<Standing>,
    /// Kernel threads that were born while kthreadd was kept to some CPUs and have these from it.
    pub inherited: Vec<Inherited>,
}

/// A kernel thread that was born while kthreadd was kept to some CPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inherited {
    /// Number.
    pub tid: u32,
    /// Name.
    pub name: String,
    /// CPUs that it has from kthreadd.
    pub cpus: String,
}

/// One setting that was changed and not put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// The setting.
    pub knob: Knob,
    /// Row of the catalogue.
    pub row: Option<String>,
    /// Verb that changed it.
    pub verb: String,
    /// Its process.
    pub pid: u32,
    /// When that began, CLOCK_REALTIME.
    pub since_realtime_ns: i64,
    /// Whether it was meant to stay when that process ended.
    pub kept: bool,
    /// Whether the change was carried out as far as the journal knows; else the process ended in the middle of it.
    pub finished: bool,
    /// Process that holds the device open, where that is what the setting takes.
    pub holder: Option<Holder>,
    /// What it said before.
    pub before: String,
    /// What we wrote.
    pub ours: String,
    /// What it says now, where that is known.
    pub now: Option<String>,
    /// How it stands.
    #[serde(flatten)]
    pub is: Is,
}

/// How a changed setting stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Is {
    /// As we set it.
    Ours,
    /// As it was before.
    AsBefore,
    /// Changed by somebody else since.
    Foreign,
    /// Set in an earlier boot, and gone with it.
    Rebooted,
    /// Its object is not there.
    Gone {
        /// What is missing.
        reason: String,
    },
    /// In another network namespace.
    Elsewhere {
        /// How to reach it.
        remedy: String,
    },
    /// It could not be read.
    Unreadable {
        /// Why.
        reason: String,
    },
}
