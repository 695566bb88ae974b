//! What is known of all receivers and incidents, for metrics and status.

use crate::cpus::CpuTimes;
use crate::judge::{PacketFigures, Reason, Trigger};
use quaver_exposition::histogram::{Exemplar, Histogram};
use quaver_instrument::exit_code::{ExitCode, failure};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const HOUR: Duration = Duration::from_secs(3_600);
/// Incidents that are told of.
const RECENT: usize = 50;
/// Incidents of a receiver that somebody asked for and that wait to be written, at most.
const MOST_ASKED: u32 = 4;

/// What became of the triggers of a receiver, of a table of threads, or of a path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Outcomes {
    pub(crate) triggers: BTreeMap<Reason, u64>,
    /// Triggers that were not kept, because of a limit.
    pub(crate) suppressed: u64,
    /// Incidents whose records bore out no late packet, so that they were not kept.
    pub(crate) unconfirmed: u64,
    /// Incidents kept, by leading cause; those counted in another; and late time (of threads: waits) by cause.
    pub(crate) incidents: BTreeMap<String, u64>,
    /// By leading cause the latest incident that was kept.
    #[serde(skip)]
    pub(crate) exemplars: BTreeMap<String, Exemplar>,
    pub(crate) folded: BTreeMap<String, u64>,
    #[serde(rename = "late_ns")]
    pub(crate) explained_ns: BTreeMap<String, u64>,
    pub(crate) failed: u64,
    /// Frozen windows that were let go before they could be written.
    pub(crate) lost: u64,
}

/// One table of threads. Counts never fall while the program runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ThreadsState {
    pub(crate) watched: bool,
    /// What is watched, or why nothing is.
    pub(crate) words: String,
    /// Waits that have ended, by who had the CPU before (`idle`, `kernel`, `program`).
    pub(crate) waits: BTreeMap<String, Histogram>,
    /// Count and time of waits, by the CPU on which they ended.
    pub(crate) cpus: BTreeMap<u16, (u64, u64)>,
    /// Waits in futex(2) that have ended, by how (`lock`, `other`, `not-woken`).
    pub(crate) futex: BTreeMap<String, Histogram>,
    #[serde(flatten)]
    pub(crate) outcomes: Outcomes,
    /// Events that found no room.
    pub(crate) records_lost: u64,
    /// Time that the flight recorder holds, and its memory; none without a trigger.
    pub(crate) held_ns: u64,
    pub(crate) memory_bytes: u64,
}

/// One path to a reflector. Counts never fall while the program runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PathState {
    pub(crate) watched: bool,
    /// What is sent to where, or why nothing is.
    pub(crate) words: String,
    /// No reply has come for a while.
    pub(crate) silent: bool,
    pub(crate) sent: u64,
    /// Packets without a reply within 3 s.
    pub(crate) lost: u64,
    /// Replies beyond the first.
    pub(crate) duplicates: u64,
    /// Round trips without the time that the reflector took, of first replies.
    pub(crate) round_trip: Histogram,
    pub(crate) outcomes: Outcomes,
}

/// What has triggers, by its name in the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A receiver's.
    Receiver(String),
    /// Those of a table of threads.
    Threads(String),
    /// A path's.
    Path(String),
}

impl Subject {
    /// The name in the settings.
    pub(crate) fn name(&self) -> &str {
        let (Self::Receiver(name) | Self::Threads(name) | Self::Path(name)) = self;
        name
    }
}

/// One receiver. Counts never fall while the program runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ReceiverState {
    pub(crate) watched: bool,
    /// What is watched, or why nothing is.
    pub(crate) words: String,
    /// Packets came, and come no more.
    pub(crate) silent: bool,
    pub(crate) received: u64,
    pub(crate) missing: u64,
    pub(crate) dropped: u64,
    pub(crate) lateness: Histogram,
    pub(crate) delivery: Histogram,
    #[serde(flatten)]
    pub(crate) outcomes: Outcomes,
    /// Records that found no room.
    pub(crate) records_lost: u64,
    /// Times that recording began anew.
    pub(crate) anew: u64,
    /// Time that the flight recorder holds, and its memory.
    pub(crate) held_ns: u64,
    pub(crate) memory_bytes: u64,
}

impl ReceiverState {
    /// Adds packets.
    pub(crate) fn add(&mut self, figures: &PacketFigures) {
        self.received += figures.received;
        self.missing += u64::try_from(figures.missing).unwrap_or(0);
        self.dropped += figures.dropped;
        self.lateness.merge(&figures.lateness);
        self.delivery.merge(&figures.delivery);
    }
}

/// An incident that was kept, or counted in an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Incident {
    pub(crate) realtime_ns: i64,
    /// When the trigger was.
    pub(crate) trigger_realtime_ns: i64,
    /// Name of the receiver, of the table of threads, or of the path.
    #[serde(rename = "receiver")]
    pub(crate) subject: String,
    /// Path of the run that it is, or is counted in.
    pub(crate) run: String,
    /// Incidents of that run by now.
    pub(crate) count: u64,
    /// Why the last seconds were kept.
    pub(crate) reasons: String,
    /// The leading cause with its share and its remedy.
    pub(crate) words: String,
}

impl Incident {
    /// All of it that matters, in one line.
    pub(crate) fn line(&self) -> String {
        format!("{}: {}: {}", self.subject, self.reasons, self.words)
    }
}

/// Everything at one instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Figures {
    pub(crate) realtime_ns: i64,
    pub(crate) receivers: BTreeMap<String, ReceiverState>,
    pub(crate) threads: BTreeMap<String, ThreadsState>,
    pub(crate) paths: BTreeMap<String, PathState>,
    /// By CPU and kind.
    pub(crate) cpus: CpuTimes,
    /// The newest last.
    pub(crate) incidents: VecDeque<Incident>,
    pub(crate) cost: Cost,
}

/// What the program costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Cost {
    pub(crate) cpu_ns: u64,
    /// Of one CPU, lately.
    pub(crate) cpu_percent: f64,
    pub(crate) resident_bytes: u64,
    pub(crate) disk_bytes: u64,
    /// Frozen windows that wait to be written, and their memory.
    pub(crate) waiting_windows: u64,
    pub(crate) waiting_bytes: u64,
}

/// Everything, behind one lock that is held for moments.
#[derive(Default)]
pub(crate) struct Board {
    inner: Mutex<Inner>,
}

/// What the lock guards.
#[derive(Default)]
struct Inner {
    receivers: BTreeMap<String, ReceiverState>,
    threads: BTreeMap<String, ThreadsState>,
    paths: BTreeMap<String, PathState>,
    cpus: CpuTimes,
    asked: BTreeSet<String>,
    /// Of each receiver the incidents that somebody asked for and that wait to be written.
    asked_waiting: BTreeMap<String, u32>,
    kept: VecDeque<Instant>,
    incidents: VecDeque<Incident>,
    cost: Cost,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known of a receiver.
    pub(crate) fn receiver(&self, name: &str, change: impl FnOnce(&mut ReceiverState)) {
        change(self.lock().receivers.entry(name.to_owned()).or_default());
    }

    /// Changes what is known of a table of threads.
    pub(crate) fn threads(&self, name: &str, change: impl FnOnce(&mut ThreadsState)) {
        change(self.lock().threads.entry(name.to_owned()).or_default());
    }

    /// Changes what is known of a path.
    pub(crate) fn path(&self, name: &str, change: impl FnOnce(&mut PathState)) {
        change(self.lock().paths.entry(name.to_owned()).or_default());
    }

    /// Changes what is known of CPUs.
    pub(crate) fn cpus(&self, change: impl FnOnce(&mut CpuTimes)) {
        change(&mut self.lock().cpus);
    }

    /// Changes what became of triggers.
    pub(crate) fn outcomes(&self, subject: &Subject, change: impl FnOnce(&mut Outcomes)) {
        match subject {
            Subject::Receiver(name) => self.receiver(name, |state| change(&mut state.outcomes)),
            Subject::Threads(name) => self.threads(name, |state| change(&mut state.outcomes)),
            Subject::Path(name) => self.path(name, |state| change(&mut state.outcomes)),
        }
    }

    /// Names an incident as an example of its receiver's packets that triggered it.
    pub(crate) fn exemplify(&self, subject: &Subject, triggers: &[Trigger], exemplar: &Exemplar) {
        let Subject::Receiver(name) = subject else { return };
        self.receiver(name, |state| {
            for trigger in triggers {
                let histogram = match trigger.reason {
                    Reason::Late => &mut state.lateness,
                    Reason::Held => &mut state.delivery,
                    _ => continue,
                };
                histogram.exemplify(trigger.amount, exemplar.clone());
            }
        });
    }

    /// Leaves these receivers, tables of threads and paths. Counts of those that stay go on.
    pub(crate) fn retain(
        &self,
        receivers: &BTreeSet<&str>,
        threads: &BTreeSet<&str>,
        paths: &BTreeSet<&str>,
    ) {
        fn keep<T: Default>(states: &mut BTreeMap<String, T>, names: &BTreeSet<&str>) {
            states.retain(|name, _| names.contains(name.as_str()));
            for name in names {
                states.entry((*name).to_owned()).or_default();
            }
        }
        let mut inner = self.lock();
        keep(&mut inner.receivers, receivers);
        keep(&mut inner.threads, threads);
        keep(&mut inner.paths, paths);
    }

    /// Asks for an incident of a receiver, or of all that are watched now.
    ///
    /// # Errors
    /// There is no such receiver, nothing is recorded of it now, or too many incidents that were asked for wait to be written.
    pub(crate) fn ask(&self, receiver: Option<&str>) -> anyhow::Result<usize> {
        let mut inner = self.lock();
        let named = |name: &String| receiver.is_none_or(|asked| asked == name);
        if let Some(name) = receiver.filter(|name| !inner.receivers.contains_key(*name)) {
            return Err(failure(ExitCode::Usage, format!("no receiver is named `{name}`")));
        }
        let watched = inner.receivers.iter().filter(|(name, state)| state.watched && named(name));
        let names: Vec<String> = watched.map(|(name, _)| name.clone()).collect();
        if names.is_empty() {
            return Err(failure(ExitCode::Usage, "nothing is recorded now: `quaver watch status` says why"));
        }
        let may_wait = |name: &String| inner.asked_waiting.get(name).is_none_or(|count| *count < MOST_ASKED);
        let names: Vec<String> = names.into_iter().filter(may_wait).collect();
        if names.is_empty() {
            let why =
                format!("{MOST_ASKED} incidents that were asked for wait to be written: ask again then");
            return Err(failure(ExitCode::Usage, why));
        }
        let count = names.len();
        inner.asked.extend(names);
        Ok(count)
    }

    /// Counts an incident of a receiver that somebody asked for and that waits to be written (1), or no longer does (-1).
    pub(crate) fn asked_waits(&self, name: &str, change: i32) {
        let mut inner = self.lock();
        let count = inner.asked_waiting.entry(name.to_owned()).or_default();
        *count = count.saturating_add_signed(change);
    }

    /// Takes back that an incident would be kept in this hour.
    pub(crate) fn give_back(&self) {
        self.lock().kept.pop_back();
    }

    /// Whether somebody asked since the last time.
    pub(crate) fn take_asked(&self, name: &str) -> bool {
        self.lock().asked.remove(name)
    }

    /// Whether another incident may be kept in this hour. One that somebody asked for always is.
    pub(crate) fn may_keep(&self, asked: bool, an_hour: u32) -> bool {
        let mut inner = self.lock();
        while inner.kept.front().is_some_and(|at| at.elapsed() > HOUR) {
            inner.kept.pop_front();
        }
        if asked {
            return true;
        }
        let may = inner.kept.len() < an_hour as usize;
        if may {
            inner.kept.push_back(Instant::now());
        }
        may
    }

    /// Notes the cost.
    pub(crate) fn set_cost(&self, change: impl FnOnce(&mut Cost)) {
        change(&mut self.lock().cost);
    }

    /// Notes an incident, as of now: an answer later than this has it, and none before.
    pub(crate) fn tell(&self, incident: Incident) {
        let mut inner = self.lock();
        inner.incidents.push_back(Incident { realtime_ns: quaver_clock::realtime_ns(), ..incident });
        let surplus = inner.incidents.len().saturating_sub(RECENT);
        inner.incidents.drain(..surplus);
    }

    /// All as it is now.
    pub(crate) fn read(&self) -> Figures {
        let inner = self.lock();
        Figures {
            realtime_ns: quaver_clock::realtime_ns(),
            receivers: inner.receivers.clone(),
            threads: inner.threads.clone(),
            paths: inner.paths.clone(),
            cpus: inner.cpus.clone(),
            incidents: inner.incidents.clone(),
            cost: inner.cost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incidents_are_bounded_by_the_hour_except_those_that_somebody_asked_for() {
        let board = Board::default();
        let kept: Vec<bool> = (0..4).map(|_| board.may_keep(false, 2)).collect();
        assert_eq!(kept, [true, true, false, false]);
        assert!(board.may_keep(true, 2));
        board.give_back();
        assert_eq!((board.may_keep(false, 2), board.may_keep(false, 2)), (true, false));
    }

    #[test]
    fn asking_reaches_one_receiver_or_all_and_each_once() {
        let board = Board::default();
        board.retain(&["a", "b"].into(), &BTreeSet::new(), &BTreeSet::new());
        assert!(board.ask(None).unwrap_err().to_string().contains("nothing is recorded now"));
        ["a", "b"].into_iter().for_each(|name| board.receiver(name, |state| state.watched = true));
        assert_eq!(board.ask(Some("a")).unwrap(), 1);
        assert_eq!(
            (board.take_asked("a"), board.take_asked("a"), board.take_asked("b")),
            (true, false, false)
        );
        assert_eq!(board.ask(None).unwrap(), 2);
        assert!(board.take_asked("b"));
        assert!(board.ask(Some("c")).unwrap_err().to_string().contains("`c`"));
        (0..MOST_ASKED).for_each(|_| board.asked_waits("a", 1));
        assert!(board.ask(Some("a")).unwrap_err().to_string().contains("wait to be written"));
        assert_eq!(board.ask(None).unwrap(), 1, "the other one");
        board.asked_waits("a", -1);
        assert_eq!(board.ask(Some("a")).unwrap(), 1);
    }

    #[test]
    fn counts_of_a_receiver_that_stays_go_on() {
        let board = Board::default();
        board.receiver("a", |state| state.received = 7);
        board.receiver("b", |state| state.received = 8);
        board.retain(&["a", "c"].into(), &BTreeSet::new(), &BTreeSet::new());
        let receivers = board.read().receivers;
        assert_eq!(
            receivers.iter().map(|(name, state)| (name.as_str(), state.received)).collect::<Vec<_>>(),
            [("a", 7), ("c", 0)]
        );
    }
}
