//! Changing settings: the only way in.

use super::super::contact::{self, Contact};
use super::super::error::TuneError;
use super::super::hold::Holding;
use super::super::knob::{Change, Knob};
use super::JournalPlace;
use super::lock::Lock;
use super::log::Log;
use super::record::{Ending, FORMAT, Record, SettingValue};
use super::state::{Entry, JournalSummary, Judgement, judge};
use super::steps::Step;
use super::undo::{Others, Undoing, Undone, shown};
use serde::Serialize;
use std::time::SystemTime;

/// A verb's turn to change settings. Nobody else can begin one until it ends. When it is dropped, all that it changed is
/// put back; [`Session::keep`] leaves it instead. What a killed process left is put back by whoever comes next.
#[derive(Debug)]
pub struct Session {
    place: JournalPlace,
    _lock: Lock,
    log: Log,
    state: JournalSummary,
    verb: String,
    /// Its number in the journal, once it has changed something.
    number: Option<u64>,
    recovered: Vec<Undone>,
    /// The journal could not be kept: nothing more may be changed.
    broken: bool,
    /// Processes that hold devices open for it.
    holdings: Vec<Holding>,
    kept: bool,
}

/// A knob that is written many times by one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driven {
    knob: Knob,
}

/// How a change went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// The setting.
    pub knob: Knob,
    /// What it said.
    pub before: String,
    /// What it says now.
    pub now: String,
    /// How that compares with what was asked for.
    pub outcome: Outcome,
    /// What is not yet as asked for although the setting was taken, such as an interrupt that moves when it comes next.
    pub pending: Option<String>,
}

/// How the value that was read back compares with the one that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It was set.
    Set,
    /// It had this value already; nothing was written, and nothing will be put back.
    AlreadySo,
    /// The kernel made another value of it, such as the next one that the device can do. Will be put back.
    Different,
    /// The write went through and changed nothing.
    NotTaken,
}

impl Session {
    /// Takes the lock, reads the journal, and puts back what killed processes left.
    pub(super) fn begin(place: &JournalPlace, verb: &str) -> Result<Self, TuneError> {
        let (lock, log, state) = place.enter(verb)?;
        let mut session = Self {
            place: place.clone(),
            _lock: lock,
            log,
            state,
            verb: verb.to_owned(),
            number: None,
            recovered: Vec::new(),
            broken: false,
            holdings: Vec::new(),
            kept: false,
        };
        let left_behind = |state: &JournalSummary, entry: &Entry| {
            state.sessions.get(&entry.session).is_none_or(|facts| !facts.kept)
        };
        session.recovered = session.undo(Others::Leave, &left_behind)?;
        Ok(session)
    }

    /// What killed processes had left, and what became of it.
    pub fn recovered(&self) -> &[Undone] {
        &self.recovered
    }

    /// Whether the journal could not be kept, so that nothing more may be changed.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Where the machine is touched.
    pub fn contact(&self) -> &dyn Contact {
        self.place.contact()
    }

    /// Sets a knob. The old value is on disk before it is written.
    ///
    /// # Errors
    /// [`TuneError::Foreign`] where an earlier session of ours set the knob and somebody else changed it since (unless
    /// the change is forced); [`TuneError::Vanished`], [`TuneError::Refused`], [`TuneError::NotPermitted`] as the
    /// system answers, the knob being as it was. After [`TuneError::Os`] on the journal nothing more should be changed.
    pub fn apply(&mut self, change: &Change) -> Result<Applied, TuneError> {
        let knob = &change.knob;
        if let Some(reason) = knob.objection() {
            return Err(TuneError::Refused { knob: knob.to_string(), value: change.value.clone(), reason });
        }
        let before = contact::read(self.contact(), knob)?;
        let want = change.bytes();
        let applied = |now: &[u8], outcome, pending| Applied {
            knob: knob.clone(),
            before: shown(&before),
            now: shown(now),
            outcome,
            pending,
        };
        if self.is_so(knob, &want, &before) {
            return Ok(applied(&before, Outcome::AlreadySo, self.pending(knob)));
        }
        self.refuse_foreign(change, &before)?;
        if let Knob::Held { device } = knob {
            return self.hold(change, device, before);
        }
        let entry = self.intend(change, before.clone(), want.clone())?;
        if let Err(error) = self.write(knob, &want) {
            // A refused write changes nothing. Where it did, that is put back like any other change.
            self.undo(Others::Overwrite, &|_, other| other.change == entry)?;
            return Err(error);
        }
        let after = contact::read(self.contact(), knob)?;
        self.record(Record::Done { change: entry, after: SettingValue(after.clone()), holder: None })?;
        if after == before {
            self.record(Record::Undone { change: entry, how: Ending::Unchanged })?;
            return Ok(applied(&after, Outcome::NotTaken, None));
        }
        let outcome = if knob.same(&want, &after) { Outcome::Set } else { Outcome::Different };
        Ok(applied(&after, outcome, self.pending(knob)))
    }

    /// Begins to drive a knob: it will be written many times ([`Session::drive_to`]), too often to sync the journal each time. What it
    /// said is on disk before the first write, and the change stays unfinished in the journal until it is put back, so that after a
    /// crash whatever the knob says counts as ours.
    ///
    /// # Errors
    /// As [`Session::apply`]; [`TuneError::Refused`] of a knob whose values the kernel does not round, for of such a one somebody
    /// else's value could not be told from ours.
    pub fn drive(&mut self, knob: &Knob) -> Result<Driven, TuneError> {
        let refused = |reason: &str| TuneError::Refused {
            knob: knob.to_string(),
            value: String::new(),
            reason: reason.to_owned(),
        };
        if let Some(reason) = knob.objection() {
            return Err(refused(&reason));
        }
        if !matches!(knob, Knob::File { .. }) || !knob.may_round() {
            return Err(refused("only files of /sys are driven"));
        }
        let before = contact::read(self.contact(), knob)?;
        let change = Change::new(knob.clone(), shown(&before));
        self.refuse_foreign(&change, &before)?;
        self.intend(&change, before.clone(), before)?;
        Ok(Driven { knob: knob.clone() })
    }

    /// Writes a driven knob once. Nothing is synced and nothing read back.
    ///
    /// # Errors
    /// What the kernel says to the write; the knob is put back all the same when the session ends.
    pub fn drive_to(&self, driven: &Driven, value: &str) -> Result<(), TuneError> {
        self.write(&driven.knob, format!("{value}\n").as_bytes())
    }

    /// Puts back what this session changed, the latest first. What cannot be put back stays in the journal.
    ///
    /// # Errors
    /// When the journal cannot be kept.
    pub fn revert(mut self) -> Result<Vec<Undone>, TuneError> {
        self.undo_own()
    }

    /// Puts back what this session changed so far, the latest first, and goes on: nobody else's turn comes in between. What
    /// somebody else changed meanwhile is left as it is and the journal lets go of it ([`Fate::Forgotten`]): whoever calls this
    /// says so, and must not set it again.
    ///
    /// # Errors
    /// When the journal cannot be kept.
    ///
    /// [`Fate::Forgotten`]: super::Fate::Forgotten
    pub fn put_back(&mut self) -> Result<Vec<Undone>, TuneError> {
        let Some(number) = self.number else { return Ok(Vec::new()) };
        let undone = self.undo(Others::Forget, &|_, entry| entry.session == number)?;
        self.holdings.clear();
        Ok(undone)
    }

    /// Leaves what this session changed for `quaver tune revert` to put back.
    ///
    /// # Errors
    /// When the journal cannot be kept; then all is put back.
    pub fn keep(mut self) -> Result<(), TuneError> {
        if let Some(session) = self.number {
            self.record(Record::Kept { session })?;
        }
        self.kept = true;
        for holding in std::mem::take(&mut self.holdings) {
            self.step(Step::Hold, "keeping a device open")?;
            holding.stay().map_err(|error| TuneError::new("keeping a device open", error))?;
        }
        Ok(())
    }

    /// Lets a process hold the device, which the journal knows before it does.
    fn hold(&mut self, change: &Change, device: &str, before: Vec<u8>) -> Result<Applied, TuneError> {
        let value: i32 = change.value.parse().map_err(|_| TuneError::Refused {
            knob: change.knob.to_string(),
            value: change.value.clone(),
            reason: "it takes a whole number".to_owned(),
        })?;
        let failed = |error| TuneError::new(format!("holding {device}"), error);
        let entry = self.intend(change, before.clone(), change.bytes())?;
        self.step(Step::Hold, device)?;
        let mut holding = Holding::start(self.place.contact.root(), device, value).map_err(failed)?;
        let holder = Some(holding.holder());
        self.record(Record::Done { change: entry, after: SettingValue(change.bytes()), holder })?;
        self.step(Step::Hold, device)?;
        if let Err(error) = holding.go() {
            drop(holding);
            self.record(Record::Undone { change: entry, how: Ending::Unchanged })?;
            return Err(failed(error));
        }
        self.holdings.push(holding);
        let now = contact::read(self.contact(), &change.knob)?;
        let (knob, before, now) = (change.knob.clone(), shown(&before), shown(&now));
        Ok(Applied { knob, before, now, outcome: Outcome::Set, pending: None })
    }

    /// Puts back open changes of any session.
    pub(super) fn undo(
        &mut self,
        others: Others,
        which: &dyn Fn(&JournalSummary, &Entry) -> bool,
    ) -> Result<Vec<Undone>, TuneError> {
        let contact = self.place.contact.as_ref();
        let steps = self.place.steps.as_ref();
        Undoing { contact, steps, log: &mut self.log, state: &mut self.state, others }.run(which)
    }

    fn undo_own(&mut self) -> Result<Vec<Undone>, TuneError> {
        self.kept = true;
        let Some(number) = self.number else { return Ok(Vec::new()) };
        self.undo(Others::Leave, &|_, entry| entry.session == number)
    }

    /// Whether nothing has to be done. What a device says may be somebody else's request, which may end before ours.
    fn is_so(&self, knob: &Knob, want: &[u8], now: &[u8]) -> bool {
        if !matches!(knob, Knob::Held { .. }) {
            return knob.same(want, now);
        }
        let held = |entry: &Entry| match judge(self.contact(), &self.state, entry) {
            Judgement::Ours(value) => knob.same(want, &value),
            _ => false,
        };
        self.state.open().any(|entry| entry.knob == *knob && held(entry))
    }

    /// The latest change of this knob that is still open must be what the knob says.
    fn refuse_foreign(&self, change: &Change, now: &[u8]) -> Result<(), TuneError> {
        let knob = &change.knob;
        let identity = contact::identity(self.contact(), knob);
        let latest = self.state.open().rev().find(|entry| entry.knob == *knob && entry.identity == identity);
        match latest {
            Some(entry) if !change.force && !knob.same(&entry.ours().0, now) && entry.before.0 != now => {
                Err(TuneError::Foreign {
                    knob: knob.to_string(),
                    ours: entry.ours().shown(),
                    found: shown(now),
                })
            }
            _ => Ok(()),
        }
    }

    fn intend(&mut self, change: &Change, before: Vec<u8>, want: Vec<u8>) -> Result<u64, TuneError> {
        let session = self.numbered()?;
        let root = self.place.contact.root();
        let namespace =
            if change.knob.is_of_network_namespace() { contact::network_namespace(root) } else { None };
        let number = self.state.next_change();
        self.record(Record::Intent {
            session,
            change: number,
            knob: change.knob.clone(),
            identity: contact::identity(self.contact(), &change.knob),
            namespace,
            before: SettingValue(before),
            want: SettingValue(want),
            row: change.row.clone(),
        })?;
        Ok(number)
    }

    /// Number of this session in the journal; it enters the journal with its first change.
    fn numbered(&mut self) -> Result<u64, TuneError> {
        if let Some(number) = self.number {
            return Ok(number);
        }
        let session = self.state.next_session();
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let begin = Record::Begin {
            format: FORMAT,
            session,
            verb: self.verb.clone(),
            pid: std::process::id(),
            boot: contact::boot_id(self.place.contact.root()),
            realtime_ns: i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        };
        // What has ended is history: the journal begins anew with what is open.
        let mut records = self.state.condensed();
        records.push(begin);
        let kept = self.log.renew(&records, self.place.steps.as_ref());
        self.broken |= kept.is_err();
        kept?;
        self.state = JournalSummary::of(&records);
        self.number = Some(session);
        Ok(session)
    }

    fn record(&mut self, record: Record) -> Result<(), TuneError> {
        let kept = self.log.append(&record, self.place.steps.as_ref());
        self.broken |= kept.is_err();
        kept?;
        self.state.add(&record);
        Ok(())
    }

    fn write(&self, knob: &Knob, bytes: &[u8]) -> Result<(), TuneError> {
        self.step(Step::Write, &knob.to_string())?;
        contact::write(self.contact(), knob, bytes)
    }

    fn step(&self, step: Step, what: &str) -> Result<(), TuneError> {
        self.place.steps.before(step).map_err(|error| TuneError::new(what, error))
    }

    /// Where an interrupt still goes although it was asked to go elsewhere.
    fn pending(&self, knob: &Knob) -> Option<String> {
        let Knob::Irq { irq } = knob else { return None };
        let root = self.place.contact.root();
        let requested = root.cpu_list(&format!("/proc/irq/{irq}/smp_affinity_list"));
        let effective = root.cpu_list(&format!("/proc/irq/{irq}/effective_affinity_list"));
        let moved = effective.iter().all(|cpu| requested.contains(cpu));
        (!moved).then(|| {
            let cpus = super::super::knob::cpu_list(&effective);
            format!("it still goes to CPU {cpus} and moves when it comes next")
        })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.kept {
            // What cannot be put back stays in the journal, where `quaver tune status` shows it.
            let _ = self.undo_own();
        }
    }
}
