//! What the journal adds up to: which settings are changed now, by whom, and what becomes of each if it is put back.

use super::super::contact::{self, Contact, Dwelling};
use super::super::error::TuneError;
use super::super::hold::Holder;
use super::super::knob::{Durability, Knob};
use super::record::{Ending, FORMAT, Record, SettingValue};
use crate::root::HostRoot;
use std::collections::BTreeMap;

/// A verb that changed settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SessionFacts {
    pub(super) verb: String,
    pub(super) pid: u32,
    pub(super) boot: String,
    pub(super) realtime_ns: i64,
    /// What it set stays when its process ends.
    pub(super) kept: bool,
}

/// How far a change came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It was about to be written, and may have been.
    Intended,
    /// It was written and read back.
    Set { after: SettingValue, holder: Option<Holder> },
    /// It is no more.
    Ended(Ending),
}

/// One change of one knob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) session: u64,
    pub(super) change: u64,
    pub(super) knob: Knob,
    pub(super) identity: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) before: SettingValue,
    pub(super) want: SettingValue,
    pub(super) row: Option<String>,
    pub(super) phase: Phase,
}

impl Entry {
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.phase, Phase::Ended(_))
    }

    /// What we left there: as read back, or as it was to be written.
    pub(super) fn ours(&self) -> &SettingValue {
        match &self.phase {
            Phase::Set { after, .. } => after,
            _ => &self.want,
        }
    }

    /// Whether this text is what we left there.
    fn is_ours(&self, now: &[u8]) -> bool {
        // What was written just before a crash may have been rounded, and nobody read it back.
        self.knob.same(&self.ours().0, now) || self.phase == Phase::Intended && self.knob.may_round()
    }
}

/// Sum of the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct JournalSummary {
    pub(super) sessions: BTreeMap<u64, SessionFacts>,
    pub(super) entries: Vec<Entry>,
}

impl JournalSummary {
    pub(super) fn of(records: &[Record]) -> Self {
        let mut state = Self::default();
        for record in records {
            state.add(record);
        }
        state
    }

    pub(super) fn add(&mut self, record: &Record) {
        match record.clone() {
            Record::Begin { session, verb, pid, boot, realtime_ns, .. } => {
                self.sessions.insert(session, SessionFacts { verb, pid, boot, realtime_ns, kept: false });
            }
            Record::Kept { session } => {
                if let Some(facts) = self.sessions.get_mut(&session) {
                    facts.kept = true;
                }
            }
            Record::Intent { session, change, knob, identity, namespace, before, want, row } => {
                let phase = Phase::Intended;
                let entry = Entry { session, change, knob, identity, namespace, before, want, row, phase };
                self.entries.push(entry);
            }
            Record::Done { change, after, holder } => self.phase(change, Phase::Set { after, holder }),
            Record::Undone { change, how } => self.phase(change, Phase::Ended(how)),
        }
    }

    fn phase(&mut self, change: u64, phase: Phase) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.change == change) {
            entry.phase = phase;
        }
    }

    pub(super) fn open(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.is_open())
    }

    pub(super) fn next_session(&self) -> u64 {
        self.sessions.last_key_value().map_or(1, |(number, _)| number + 1)
    }

    pub(super) fn next_change(&self) -> u64 {
        self.entries.iter().map(|entry| entry.change).max().unwrap_or(0) + 1
    }

    /// The records that say the same without what has ended.
    pub(super) fn condensed(&self) -> Vec<Record> {
        let mut records = Vec::new();
        for (&session, facts) in &self.sessions {
            let entries: Vec<&Entry> = self.open().filter(|entry| entry.session == session).collect();
            if entries.is_empty() {
                continue;
            }
            let SessionFacts { verb, pid, boot, realtime_ns, kept } = facts.clone();
            records.push(Record::Begin { format: FORMAT, session, verb, pid, boot, realtime_ns });
            for entry in entries {
                let Entry { change, knob, identity, namespace, before, want, row, phase, .. } = entry.clone();
                records.push(Record::Intent {
                    session,
                    change,
                    knob,
                    identity,
                    namespace,
                    before,
                    want,
                    row,
                });
                if let Phase::Set { after, holder } = phase {
                    records.push(Record::Done { change, after, holder });
                }
            }
            if kept {
                records.push(Record::Kept { session });
            }
        }
        records
    }
}

/// What a changed knob is now.
#[derive(Debug)]
pub(super) enum Judgement {
    /// The machine was started anew since.
    Rebooted,
    /// It belongs to another network namespace, which lives; how to get there.
    Elsewhere(String),
    /// What it belonged to is gone for good.
    Vanished(String),
    /// What it belonged to is gone and may come back.
    Offline(String),
    /// It could not be read.
    Unreadable(TuneError),
    /// It says what it said before us.
    Unchanged,
    /// It says what we wrote.
    Ours(Vec<u8>),
    /// It says something else.
    Foreign(Vec<u8>),
}

/// Looks at a knob that the journal has as changed. Reads only.
pub(super) fn judge(contact: &dyn Contact, state: &JournalSummary, entry: &Entry) -> Judgement {
    let root = contact.root();
    let boot = state.sessions.get(&entry.session).map_or("", |session| session.boot.as_str());
    if entry.knob.durability() == Durability::Volatile && boot != contact::boot_id(root) {
        return Judgement::Rebooted;
    }
    if let (Some(theirs), Some(here)) = (&entry.namespace, contact::network_namespace(root))
        && *theirs != here
    {
        return match contact::dwelling(root, theirs) {
            Dwelling::Nobody => Judgement::Vanished("its network namespace is gone".to_owned()),
            Dwelling::Hidden => Judgement::Unreadable(TuneError::NotPermitted {
                operation: format!("looking for the network namespace of {}", entry.knob),
            }),
            Dwelling::At(path) => {
                Judgement::Elsewhere(format!("sudo nsenter --net={path} quaver tune revert"))
            }
        };
    }
    if let (Some(then), Some(now)) = (&entry.identity, contact::identity(contact, &entry.knob))
        && *then != now
    {
        return Judgement::Vanished(format!("another one has its place now ({now}; it was {then})"));
    }
    if matches!(entry.knob, Knob::Held { .. }) {
        // Whoever holds the device is let go on only after the journal knows it: else nothing is held.
        let Phase::Set { holder: Some(holder), .. } = &entry.phase else { return Judgement::Unchanged };
        let alive = contact::start_time(&HostRoot::system(), holder.pid) == Some(holder.start_ticks);
        return if alive { Judgement::Ours(entry.ours().0.clone()) } else { Judgement::Unchanged };
    }
    match contact::read(contact, &entry.knob) {
        Err(TuneError::Vanished { reason, .. }) if entry.knob.cpu().is_some() => Judgement::Offline(reason),
        Err(TuneError::Vanished { reason, .. }) => Judgement::Vanished(reason),
        Err(error) => Judgement::Unreadable(error),
        Ok(now) if now == entry.before.0 => Judgement::Unchanged,
        Ok(now) if entry.is_ours(&now) => Judgement::Ours(now),
        Ok(now) => Judgement::Foreign(now),
    }
}
