//! Frozen windows that wait to be written: all of them while there is room; then of each receiver or table of threads the worst one,
//! and all that somebody asked for.

use crate::board::{Board, Subject};
use crate::frozen::FrozenWindow;
use crate::judge::{Reason, Trigger};
use quaver_store::utc::rfc3339_utc_ms;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A window that takes longer to be written is said.
const SLOW: Duration = Duration::from_secs(10);

/// How bad a window is: its longest time in nanoseconds, then the packets lost.
fn weight(triggers: &[Trigger]) -> (u64, u64) {
    let worst = |lost: bool| {
        let of_kind = triggers.iter().filter(|trigger| (trigger.reason == Reason::Losses) == lost);
        of_kind.map(|trigger| trigger.amount).max().unwrap_or(0)
    };
    (worst(false), worst(true))
}

/// Whether somebody asked for a window.
pub(crate) fn is_asked(triggers: &[Trigger]) -> bool {
    triggers.iter().any(|trigger| trigger.reason == Reason::Asked)
}

/// What is said of a window that is lost.
#[derive(Clone)]
struct Label {
    subject: Subject,
    triggers: Vec<Trigger>,
    triggered_realtime_ns: i64,
}

/// A window that waits.
struct Entry<T> {
    label: Label,
    bytes: u64,
    window: T,
}

/// Those that wait, in the order in which they are written.
struct Waiting<T>(VecDeque<Entry<T>>);

impl<T> Waiting<T> {
    fn bytes(&self) -> u64 {
        self.0.iter().map(|entry| entry.bytes).sum()
    }

    /// Puts a window behind the others. While they take more than `most` bytes, the least bad goes of which a worse one of the same
    /// receiver or table waits and that nobody asked for. The answer is those that went.
    fn put(&mut self, entry: Entry<T>, most: u64) -> Vec<Label> {
        self.0.push_back(entry);
        let mut gone = Vec::new();
        while self.bytes() > most {
            let rank = |place: usize| (weight(&self.0[place].label.triggers), self.0.len() - place);
            let is_free = |place: &usize| !is_asked(&self.0[*place].label.triggers);
            let has_worse = |place: &usize| {
                let is_worse = |other: usize| {
                    self.0[other].label.subject == self.0[*place].label.subject && rank(other) > rank(*place)
                };
                (0..self.0.len()).filter(is_free).any(is_worse)
            };
            let least = (0..self.0.len()).filter(is_free).filter(has_worse).min_by_key(|place| rank(*place));
            let Some(entry) = least.and_then(|place| self.0.remove(place)) else { break };
            gone.push(entry.label);
        }
        gone
    }
}

/// What is being written.
struct InHand {
    label: Label,
    since: Instant,
    /// It was said that this takes long.
    said: bool,
    /// None where the kernel does not count it.
    writer: Option<WriterTime>,
}

/// Time of the thread that writes, as the kernel counts it (proc(5), `schedstat`).
struct WriterTime {
    thread: i32,
    ran_ns: u64,
    waited_ns: u64,
}

impl WriterTime {
    fn of(thread: i32) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
        let mut counts = text.split_whitespace().map_while(|count| count.parse().ok());
        Some(Self { thread, ran_ns: counts.next()?, waited_ns: counts.next()? })
    }

    /// What has taken `all` since, for people.
    fn words(&self, all: Duration) -> Option<String> {
        let now = Self::of(self.thread)?;
        let ran = Duration::from_nanos(now.ran_ns.saturating_sub(self.ran_ns));
        let waited = Duration::from_nanos(now.waited_ns.saturating_sub(self.waited_ns));
        Some(slow_words(ran, waited, all.saturating_sub(ran + waited)))
    }
}

/// Where the time of a slow incident went, and what to do about the largest part.
fn slow_words(ran: Duration, waited: Duration, slept: Duration) -> String {
    let remedy = match ran.max(waited).max(slept) {
        most if most == slept => "see whether the disk of `directory` is slow",
        most if most == ran => "a shorter `window` has less to analyse",
        _ => "other programs have the CPUs",
    };
    let [ran, waited, slept] = [ran, waited, slept].map(|time| time.as_secs_f64());
    format!("it ran for {ran:.1} s, waited for a CPU for {waited:.1} s and slept for {slept:.1} s: {remedy}")
}

/// What the lock guards.
struct Inner {
    waiting: Waiting<FrozenWindow>,
    most_bytes: u64,
    in_hand: Option<InHand>,
    ended: bool,
}

/// The windows that wait, between those who watch and the one who writes.
pub(crate) struct Outbox {
    board: Arc<Board>,
    inner: Mutex<Inner>,
    changed: Condvar,
}

impl Outbox {
    /// An empty one, for windows of `most_bytes` together; what is let go is counted on the board.
    pub(crate) fn new(board: Arc<Board>, most_bytes: u64) -> Self {
        let inner = Inner { waiting: Waiting(VecDeque::new()), most_bytes, in_hand: None, ended: false };
        Self { board, inner: Mutex::new(inner), changed: Condvar::new() }
    }

    /// Changes a part of it, and publishes what then waits.
    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = change(&mut inner);
        let waiting = (inner.waiting.0.len() as u64, inner.waiting.bytes());
        drop(inner);
        self.board.set_cost(|cost| (cost.waiting_windows, cost.waiting_bytes) = waiting);
        answer
    }

    /// Takes another bound.
    pub(crate) fn set_most(&self, most_bytes: u64) {
        self.change(|inner| inner.most_bytes = most_bytes);
    }

    /// Hands over a window, which may let others go.
    pub(crate) fn put(&self, window: FrozenWindow) {
        let label = Label {
            subject: window.subject(),
            triggers: window.triggers().to_vec(),
            triggered_realtime_ns: window.triggered_realtime_ns(),
        };
        if is_asked(&label.triggers) {
            self.board.asked_waits(label.subject.name(), 1);
        }
        let bytes = window.bytes();
        let gone = self.change(|inner| inner.waiting.put(Entry { label, bytes, window }, inner.most_bytes));
        self.changed.notify_one();
        for label in gone {
            self.lose(&label, "limits.waiting_mib holds no more windows that wait to be written");
            self.board.give_back();
        }
    }

    fn lose(&self, label: &Label, why: &str) {
        let (name, at) = (label.subject.name(), rfc3339_utc_ms(label.triggered_realtime_ns));
        let words = Trigger::words(&label.triggers);
        quaver_instrument::tell!("quaver watch: {name}: the incident of {at} is lost: {why}: {words}");
        self.board.outcomes(&label.subject, |outcomes| outcomes.lost += 1);
    }

    /// Takes the window that is next, as soon as there is one; none where none waits and the end was asked for.
    pub(crate) fn take(&self) -> Option<FrozenWindow> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.in_hand = None;
        let is_idle = |inner: &mut Inner| inner.waiting.0.is_empty() && !inner.ended;
        drop(self.changed.wait_while(inner, is_idle).unwrap_or_else(PoisonError::into_inner));
        let entry = self.change(|inner| {
            let entry = inner.waiting.0.pop_front()?;
            let writer = WriterTime::of(rustix::thread::gettid().as_raw_nonzero().get());
            let label = entry.label.clone();
            inner.in_hand = Some(InHand { label, since: Instant::now(), said: false, writer });
            Some(entry)
        })?;
        if is_asked(&entry.label.triggers) {
            self.board.asked_waits(entry.label.subject.name(), -1);
        }
        Some(entry.window)
    }

    /// Says once of each window that it takes long to be written.
    pub(crate) fn look(&self) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let count = inner.waiting.0.len();
        let Some(hand) = &mut inner.in_hand else { return };
        if hand.since.elapsed() > SLOW && !std::mem::replace(&mut hand.said, true) {
            let (name, slow) = (hand.label.subject.name(), SLOW.as_secs());
            let writer = hand.writer.as_ref().and_then(|writer| writer.words(hand.since.elapsed()));
            let words = writer.map_or_else(String::new, |words| format!(" ({words})"));
            quaver_instrument::tell!(
                "quaver watch: {name}: writing an incident takes more than {slow} s{words}. \
                 Watching goes on, and {count} windows wait"
            );
        }
    }

    /// Nothing more comes.
    pub(crate) fn end(&self) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
        self.changed.notify_all();
    }

    /// Lets all go that is not written, and says of each that it is lost. The answer is their number.
    pub(crate) fn give_up(&self, why: &str) -> usize {
        let labels = self.change(|inner| {
            let in_hand = inner.in_hand.take().map(|hand| hand.label);
            let waiting = inner.waiting.0.drain(..).map(|entry| entry.label);
            in_hand.into_iter().chain(waiting).collect::<Vec<_>>()
        });
        labels.iter().for_each(|label| self.lose(label, why));
        labels.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trigger(reason: Reason, amount: u64) -> Trigger {
        Trigger::new(reason, 1, amount)
    }

    /// What waits after windows of receivers with these triggers were put, each of one byte, and what was let go.
    fn put(windows: &[(&str, Trigger)], most: u64) -> (Vec<usize>, Vec<Trigger>) {
        let mut waiting = Waiting(VecDeque::new());
        let gone = windows.iter().enumerate().flat_map(|(window, (name, trigger))| {
            let subject = Subject::Receiver((*name).to_owned());
            let label = Label { subject, triggers: vec![*trigger], triggered_realtime_ns: 0 };
            waiting.put(Entry { label, bytes: 1, window }, most)
        });
        let gone = gone.flat_map(|label| label.triggers).collect();
        (waiting.0.into_iter().map(|entry| entry.window).collect(), gone)
    }

    #[test]
    fn all_wait_while_there_is_room_and_then_the_worst_of_each_receiver_does() {
        let (blip, stop) = (trigger(Reason::Held, 100), trigger(Reason::Held, 4_000));
        let late = trigger(Reason::Late, 50);
        let all = [("a", blip), ("b", late), ("a", stop), ("a", late)];
        assert_eq!(put(&all, 4), (vec![0, 1, 2, 3], vec![]));
        assert_eq!(put(&all, 3), (vec![0, 1, 2], vec![late]));
        assert_eq!(put(&all, 0), (vec![1, 2], vec![blip, late]), "a blip does not keep out a stop");
        let losses = [trigger(Reason::Losses, 5), trigger(Reason::Losses, 9)];
        assert_eq!(put(&[("a", losses[0]), ("a", losses[1])], 1), (vec![1], vec![losses[0]]));
        assert_eq!(put(&[("a", late), ("a", late)], 1), (vec![0], vec![late]), "of equals the first");
    }

    #[test]
    fn a_slow_incident_names_what_it_waited_for() {
        let words = |ms: [u64; 3]| {
            let [ran, waited, slept] = ms.map(Duration::from_millis);
            slow_words(ran, waited, slept)
        };
        let slept = "it ran for 0.2 s, waited for a CPU for 0.1 s and slept for 9.7 s: see whether the disk of `directory` is slow";
        assert_eq!(words([200, 100, 9_700]), slept);
        assert!(words([9_000, 600, 400]).ends_with("a shorter `window` has less to analyse"));
        assert!(words([3_000, 6_000, 1_000]).ends_with("other programs have the CPUs"));
    }

    #[test]
    fn what_somebody_asked_for_always_waits() {
        let (asked, stop) = (trigger(Reason::Asked, 0), trigger(Reason::Held, 4_000));
        let all = [("a", stop), ("a", asked), ("a", asked), ("a", stop)];
        assert_eq!(put(&all, 0), (vec![0, 1, 2], vec![stop]));
    }
}
