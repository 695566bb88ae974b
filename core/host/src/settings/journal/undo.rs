//! Putting settings back.

use super::super::contact::{self, Contact};
use super::super::error::TuneError;
use super::super::hold;
use super::super::knob::Knob;
use super::born;
use super::log::Log;
use super::record::{Ending, Record};
use super::state::{Entry, JournalSummary, Judgement, Phase, judge};
use super::steps::{Step, Steps};
use serde::Serialize;

/// What shall happen to settings that somebody else changed since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Others {
    /// They are left alone and stay in the journal.
    #[default]
    Leave,
    /// The old value is written all the same.
    Overwrite,
    /// They are left alone, and the journal forgets them.
    Forget,
}

/// What became of one setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Undone {
    /// The setting.
    pub knob: Knob,
    /// Row of the catalogue that changed it.
    pub row: Option<String>,
    /// Verb that changed it.
    pub verb: String,
    /// What it said before it was changed.
    pub before: String,
    /// What became of it.
    pub fate: Fate,
}

/// What became of one setting that was to be put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "fate")]
pub enum Fate {
    /// It says its old value again.
    Restored,
    /// It said its old value already.
    Unchanged,
    /// It is gone, and nothing is left to put back.
    Vanished {
        /// What is gone.
        reason: String,
    },
    /// A kernel thread of this name was born while kthreadd was kept to some CPUs, and had these. It has kthreadd's old ones
    /// now.
    Mended {
        /// Name of the thread.
        name: String,
    },
    /// A reboot took our value away.
    Rebooted,
    /// Somebody else changed it: left as it is, and forgotten.
    Forgotten {
        /// What it says.
        found: String,
    },
    /// Somebody else changed it: left as it is. Still in the journal.
    Foreign {
        /// What we wrote.
        ours: String,
        /// What it says.
        found: String,
    },
    /// It cannot be reached now and may be later. Still in the journal.
    Pending {
        /// Why, and what to do.
        reason: String,
    },
}

impl Fate {
    /// Whether nothing is left to do.
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Foreign { .. } | Self::Pending { .. })
    }
}

/// What is needed to put something back.
pub(super) struct Undoing<'a> {
    pub(super) contact: &'a dyn Contact,
    pub(super) steps: &'a dyn Steps,
    pub(super) log: &'a mut Log,
    pub(super) state: &'a mut JournalSummary,
    pub(super) others: Others,
}

impl Undoing<'_> {
    /// Puts back the open changes that `which` chooses. Control groups come first: beside an isolated partition no thread gets its
    /// old CPUs. Then kthreadd's CPUs, since putting the others back may give birth to threads of the kernel. Among themselves the
    /// latest come first.
    ///
    /// # Errors
    /// When the journal cannot be kept. What concerns one setting only is in its [`Undone`].
    pub(super) fn run(
        &mut self,
        which: &dyn Fn(&JournalSummary, &Entry) -> bool,
    ) -> Result<Vec<Undone>, TuneError> {
        let mut chosen: Vec<Entry> =
            self.state.open().rev().filter(|entry| which(self.state, entry)).cloned().collect();
        chosen.sort_by_key(|entry| match &entry.knob {
            Knob::File { path } | Knob::Directory { path } if path.starts_with("/sys/fs/cgroup/") => 0,
            _ if born::is_of_kthreadd(entry) => 1,
            _ => 2,
        });
        let mut undone = Vec::new();
        for entry in &chosen {
            let (change, born) = self.one(entry)?;
            undone.push(change);
            undone.extend(born);
        }
        Ok(undone)
    }

    /// Puts one change back, with what was born of it.
    fn one(&mut self, entry: &Entry) -> Result<(Undone, Vec<Undone>), TuneError> {
        let mut fate = self.fate(entry)?;
        let mut born = Vec::new();
        if born::is_of_kthreadd(entry) && matches!(fate, Fate::Restored | Fate::Unchanged) {
            born = self.mend(entry)?;
            let left = born.iter().filter(|one| !one.fate.is_final()).count();
            if left > 0 {
                // The change is kept, so that the next turn finds these threads.
                fate = Fate::Pending { reason: format!("{left} threads born of it keep their CPUs") };
            }
        }
        let how = match fate {
            Fate::Restored => Some(Ending::Restored),
            Fate::Unchanged => Some(Ending::Unchanged),
            Fate::Vanished { .. } => Some(Ending::Vanished),
            Fate::Rebooted => Some(Ending::Rebooted),
            Fate::Mended { .. } => None,
            Fate::Forgotten { .. } => Some(Ending::Forgotten),
            Fate::Foreign { .. } | Fate::Pending { .. } => None,
        };
        if let Some(how) = how {
            let record = Record::Undone { change: entry.change, how };
            self.log.append(&record, self.steps)?;
            self.state.add(&record);
        }
        Ok((self.undone(entry, entry.knob.clone(), fate), born))
    }

    fn undone(&self, entry: &Entry, knob: Knob, fate: Fate) -> Undone {
        let verb =
            self.state.sessions.get(&entry.session).map_or_else(String::new, |facts| facts.verb.clone());
        Undone { knob, row: entry.row.clone(), verb, before: entry.before.shown(), fate }
    }

    /// Mends the CPUs of threads that were born while kthreadd had those of this change. It has its old ones by now.
    fn mend(&mut self, entry: &Entry) -> Result<Vec<Undone>, TuneError> {
        let mut mended = Vec::new();
        for thread in born::inherited(self.contact, self.state, entry) {
            let stopped = |error| TuneError::new(format!("mending {}", thread.name), error);
            self.steps.before(Step::Write).map_err(stopped)?;
            let fate = match born::mend(self.contact, entry, &thread) {
                Ok(()) => Fate::Mended { name: thread.name },
                Err(error) => Fate::Pending { reason: format!("{}: {error}", thread.name) },
            };
            mended.push(self.undone(entry, Knob::Thread { tid: thread.tid }, fate));
        }
        Ok(mended)
    }

    fn fate(&mut self, entry: &Entry) -> Result<Fate, TuneError> {
        Ok(match judge(self.contact, self.state, entry) {
            Judgement::Rebooted => Fate::Rebooted,
            Judgement::Vanished(reason) => Fate::Vanished { reason },
            Judgement::Offline(reason) => Fate::Pending { reason },
            Judgement::Elsewhere(remedy) => {
                Fate::Pending { reason: format!("it belongs to another network namespace: {remedy}") }
            }
            Judgement::Unreadable(error) => Fate::Pending { reason: error.to_string() },
            Judgement::Unchanged => Fate::Unchanged,
            Judgement::Ours(_) => self.restore(entry)?,
            Judgement::Foreign(now) => match self.others {
                Others::Overwrite => self.restore(entry)?,
                Others::Forget => Fate::Forgotten { found: shown(&now) },
                Others::Leave => Fate::Foreign { ours: entry.ours().shown(), found: shown(&now) },
            },
        })
    }

    /// Writes the old value and reads it back. A step that is not let pass is the end of the process.
    fn restore(&mut self, entry: &Entry) -> Result<Fate, TuneError> {
        let stopped = |error| TuneError::new(format!("putting back {}", entry.knob), error);
        self.steps.before(Step::Write).map_err(stopped)?;
        if let Phase::Set { holder: Some(holder), .. } = entry.phase {
            return Ok(match hold::end(holder) {
                Ok(()) => Fate::Restored,
                Err(error) => Fate::Pending { reason: format!("ending process {}: {error}", holder.pid) },
            });
        }
        let text = entry.knob.to_write(&entry.before.0);
        let done = contact::write(self.contact, &entry.knob, &text)
            .and_then(|()| contact::read(self.contact, &entry.knob));
        Ok(match done {
            Ok(now) if entry.knob.same(&entry.before.0, &now) => Fate::Restored,
            Ok(now) => Fate::Pending {
                reason: format!(
                    "{:?} was written, but the kernel keeps {:?}; see what else limits it, then revert again",
                    entry.before.shown(),
                    shown(&now)
                ),
            },
            Err(TuneError::Vanished { reason, .. }) if entry.knob.cpu().is_none() => {
                Fate::Vanished { reason }
            }
            Err(error) => Fate::Pending { reason: error.to_string() },
        })
    }
}

pub(super) fn shown(bytes: &[u8]) -> String {
    super::super::knob::chosen(&String::from_utf8_lossy(bytes)).replace('\t', " ")
}
