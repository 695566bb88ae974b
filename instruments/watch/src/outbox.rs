//! Frozen windows that wait to be written: of each receiver or table of threads the worst one, and all that somebody asked for.

use crate::board::{Board, Subject};
use crate::frozen::FrozenWindow;
use crate::judge::{Reason, Trigger};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

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

/// A window that waits.
struct Entry<T> {
    subject: Subject,
    triggers: Vec<Trigger>,
    window: T,
}

/// Those that wait, in the order in which they are written.
struct Waiting<T>(VecDeque<Entry<T>>);

impl<T> Waiting<T> {
    /// Puts a window behind the others. Where one of the same receiver or table waits that nobody asked for, only the worse of
    /// the two goes on waiting. The answer is the triggers of the other one.
    fn put(&mut self, entry: Entry<T>) -> Option<Vec<Trigger>> {
        let is_rival = |other: &&mut Entry<T>| other.subject == entry.subject && !is_asked(&other.triggers);
        let rival = self.0.iter_mut().find(is_rival).filter(|_| !is_asked(&entry.triggers));
        match rival {
            None => {
                self.0.push_back(entry);
                None
            }
            Some(rival) if weight(&entry.triggers) > weight(&rival.triggers) => {
                Some(std::mem::replace(rival, entry).triggers)
            }
            Some(_) => Some(entry.triggers),
        }
    }
}

/// What the lock guards.
struct Inner {
    waiting: Waiting<FrozenWindow>,
    ended: bool,
}

/// The windows that wait, between those who watch and the one who writes.
pub(crate) struct Outbox {
    board: Arc<Board>,
    inner: Mutex<Inner>,
    changed: Condvar,
}

impl Outbox {
    /// An empty one; what is let go is counted on the board.
    pub(crate) fn new(board: Arc<Board>) -> Self {
        let inner = Inner { waiting: Waiting(VecDeque::new()), ended: false };
        Self { board, inner: Mutex::new(inner), changed: Condvar::new() }
    }

    /// Hands over a window, which may let another one go.
    pub(crate) fn put(&self, window: FrozenWindow) {
        let (subject, triggers) = (window.subject(), window.triggers().to_vec());
        if is_asked(&triggers) {
            self.board.asked_waits(subject.name(), 1);
        }
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let let_go = inner.waiting.put(Entry { subject: subject.clone(), triggers, window });
        drop(inner);
        self.changed.notify_one();
        let Some(let_go) = let_go else { return };
        let (name, words) = (subject.name(), Trigger::words(&let_go));
        quaver_instrument::tell!(
            "quaver watch: {name}: a trigger was not kept, for a worse one waits to be written: {words}"
        );
        self.board.give_back();
        self.board.outcomes(&subject, |outcomes| outcomes.suppressed += 1);
    }

    /// Takes the window that is next, as soon as there is one; none where none waits and the end was asked for.
    pub(crate) fn take(&self) -> Option<FrozenWindow> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let is_idle = |inner: &mut Inner| inner.waiting.0.is_empty() && !inner.ended;
        let mut inner = self.changed.wait_while(inner, is_idle).unwrap_or_else(PoisonError::into_inner);
        let entry = inner.waiting.0.pop_front()?;
        drop(inner);
        if is_asked(&entry.triggers) {
            self.board.asked_waits(entry.subject.name(), -1);
        }
        Some(entry.window)
    }

    /// Nothing more comes.
    pub(crate) fn end(&self) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trigger(reason: Reason, amount: u64) -> Trigger {
        Trigger { reason, at_ns: 1, amount }
    }

    /// What waits after windows of receivers with these triggers were put, and what was let go.
    fn put(windows: &[(&str, Trigger)]) -> (Vec<usize>, Vec<Trigger>) {
        let mut waiting = Waiting(VecDeque::new());
        let let_go = windows.iter().enumerate().filter_map(|(window, (name, trigger))| {
            let subject = Subject::Receiver((*name).to_owned());
            waiting.put(Entry { subject, triggers: vec![*trigger], window })
        });
        let let_go = let_go.flatten().collect();
        (waiting.0.into_iter().map(|entry| entry.window).collect(), let_go)
    }

    #[test]
    fn the_worst_of_each_receiver_waits_and_a_blip_does_not_keep_out_a_stop() {
        let (blip, stop) = (trigger(Reason::Held, 100), trigger(Reason::Held, 4_000));
        let late = trigger(Reason::Late, 50);
        assert_eq!(
            put(&[("a", blip), ("b", late), ("a", stop), ("a", late)]),
            (vec![2, 1], vec![blip, late])
        );
        let losses = [trigger(Reason::Losses, 5), trigger(Reason::Losses, 9)];
        assert_eq!(put(&[("a", losses[0]), ("a", losses[1])]), (vec![1], vec![losses[0]]));
    }

    #[test]
    fn what_somebody_asked_for_always_waits() {
        let (asked, stop) = (trigger(Reason::Asked, 0), trigger(Reason::Held, 4_000));
        let all = [("a", stop), ("a", asked), ("a", asked), ("a", stop)];
        assert_eq!(put(&all), (vec![0, 1, 2], vec![stop]));
    }
}
