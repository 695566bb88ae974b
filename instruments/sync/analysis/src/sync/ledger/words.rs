//! Semaphores and futex words: who waited on them, and who woke those. Nobody records who holds such an object, nor whether it is a
//! lock at all.

use super::Ledger;
use super::figures::{WaiterShare, WakerShare, WordFigures, WordKind};
use super::lock::{KEPT, LISTED, places, ranked};
use super::spending::Spending;
use super::thread::{Call, Thread};
use crate::sync::event::{SyncEvent, ThreadId};
use crate::sync::keys::{AddressMap, ObjectKey};
use crate::sync::results::Sums;
use quaver_abi::sync::SyncOutcome;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Words kept; waits on those that come later are in the totals only.
const KEPT_WORDS: usize = 65_536;
/// A thread that waits again so soon after it was woken found nothing, or what it did took no longer.
const AT_ONCE_NS: u64 = 50_000;

/// A wait that is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordWait {
    pub(super) kind: WordKind,
    pub(super) object: ObjectKey,
    pub(super) thread: ThreadId,
    pub(super) site: ObjectKey,
    pub(super) ns: u64,
    /// How it ended; none of a wait that did not return.
    pub(super) outcome: Option<SyncOutcome>,
    /// Who woke the thread, as the kernel said.
    pub(super) woken_by: Option<ThreadId>,
}

#[derive(Debug, Default)]
struct Word {
    figures: WordFigures,
    waiters: BTreeMap<ThreadId, WaiterShare>,
    wakers: BTreeMap<ThreadId, WakerShare>,
    sites: AddressMap<ObjectKey, u64>,
}

impl Word {
    fn woken_by(&mut self, thread: ThreadId, ns: u64, is_certain: bool) {
        if self.wakers.len() >= KEPT && !self.wakers.contains_key(&thread) {
            return;
        }
        let new = WakerShare { thread, ..WakerShare::default() };
        let waker = self.wakers.entry(thread).or_insert(new);
        waker.wake_ups += 1;
        waker.certain += u64::from(is_certain);
        waker.total_ns += ns;
        self.figures.waker_unknown -= 1;
    }

    fn figures(self, key: ObjectKey) -> WordFigures {
        let threads = self.waiters.len() as u64;
        WordFigures {
            process: key.process,
            address: key.address,
            threads,
            waiters: ranked(self.waiters.into_values(), |one| one.total_ns),
            wakers: wakers(self.wakers),
            waiter_sites: places(self.sites),
            ..self.figures
        }
    }
}

/// The most wake-ups first: a wait may take no time at all.
fn wakers(all: BTreeMap<ThreadId, WakerShare>) -> Vec<WakerShare> {
    let mut all: Vec<WakerShare> = all.into_values().collect();
    all.sort_by_key(|one| (Reverse(one.total_ns), Reverse(one.wake_ups)));
    all.truncate(LISTED);
    all
}

#[derive(Debug, Default)]
pub(super) struct Words {
    all: AddressMap<ObjectKey, Word>,
    /// Waits on words that are not kept.
    others: Sums,
    /// The latest wait, if it ended by a wake-up of which the kernel did not say whose it was.
    latest: Option<WordWait>,
}

impl Words {
    /// A wait is over.
    pub(super) fn waited(&mut self, wait: WordWait) {
        self.latest = None;
        if self.all.len() >= KEPT_WORDS && !self.all.contains_key(&wait.object) {
            self.others.add(wait.ns);
            return;
        }
        let word = self.all.entry(wait.object).or_default();
        word.figures.kind = wait.kind;
        word.figures.wait.add(wait.ns);
        if word.waiters.len() < KEPT || word.waiters.contains_key(&wait.thread) {
            let new = WaiterShare { thread: wait.thread, ..WaiterShare::default() };
            let waiter = word.waiters.entry(wait.thread).or_insert(new);
            waiter.waits += 1;
            waiter.total_ns += wait.ns;
        }
        if word.sites.len() < KEPT || word.sites.contains_key(&wait.site) {
            *word.sites.entry(wait.site).or_default() += wait.ns;
        }
        match wait.outcome {
            Some(SyncOutcome::Ok) => {
                word.figures.woken += 1;
                word.figures.waker_unknown += 1;
                match wait.woken_by {
                    Some(thread) => word.woken_by(thread, wait.ns, true),
                    None => self.latest = Some(wait),
                }
            }
            Some(SyncOutcome::Busy) => word.figures.changed += 1,
            _ => word.figures.given_up += 1,
        }
    }

    /// By the order of calls, this thread ended the latest wait of that one.
    pub(super) fn ended_by(&mut self, thread: ThreadId, by: ThreadId) {
        let Some(wait) = self.latest.take_if(|wait| wait.thread == thread) else { return };
        if let Some(word) = self.all.get_mut(&wait.object) {
            word.woken_by(by, wait.ns, false);
        }
    }

    /// Somebody wakes at most so many. `passes_on`: a thread that was woken on the word itself, and has not waited on it since.
    pub(super) fn wakes(&mut self, key: ObjectKey, most: u32, passes_on: bool) {
        let Some(word) = self.all.get_mut(&key) else { return };
        let one = &mut word.figures;
        *if most > 1 { &mut one.wakes_all } else { &mut one.wakes_one } += 1;
        one.passed_on += u64::from(passes_on);
    }

    /// Most calls wake several: it is no lock, or one that wakes all.
    pub(super) fn wakes_more_at_once(&self, key: ObjectKey) -> bool {
        self.all.get(&key).is_some_and(|word| word.figures.wakes_all > word.figures.wakes_one)
    }

    /// A thread that was woken on the word waits on it again so much later, and has not woken anybody on it.
    pub(super) fn again(&mut self, key: ObjectKey, later_ns: u64) {
        if let Some(word) = self.all.get_mut(&key) {
            word.figures.again += 1;
            word.figures.again_at_once += u64::from(later_ns <= AT_ONCE_NS);
        }
    }

    /// So much of the waits on it had not ended when the run did.
    pub(super) fn unended(&mut self, key: ObjectKey, ns: u64) {
        if let Some(word) = self.all.get_mut(&key) {
            word.figures.unended_ns += ns;
        }
    }

    /// All waits together; the words that were waited on for longest, at most `listed`; and how many others there are.
    pub(super) fn figures(mut self, listed: usize) -> (Sums, Vec<WordFigures>, u64) {
        let mut wait = self.others;
        self.all.values().for_each(|word| wait.merge(&word.figures.wait));
        let ns = |word: &Word| word.figures.wait.total_ns;
        let mut order: Vec<(u64, ObjectKey)> = self.all.iter().map(|(key, word)| (ns(word), *key)).collect();
        order.sort_unstable_by_key(|(ns, key)| (Reverse(*ns), *key));
        let left_out = order.len().saturating_sub(listed) as u64;
        order.truncate(listed);
        let words = order.into_iter().filter_map(|(_, key)| Some(self.all.remove(&key)?.figures(key)));
        (wait, words.collect(), left_out)
    }
}

impl Ledger {
    pub(super) fn wait_on(&mut self, event: &SyncEvent, slot: u32, spending: Spending) {
        self.enter(event, slot, spending);
        let key = ObjectKey::of(event.process, event.object);
        let after_unheard = self.unheard.is_heard_of(key);
        self.begins_after(slot, after_unheard);
        if let Some(woken_ns) = self.threads[slot as usize].takes_up(key) {
            self.words.again(key, self.now_ns - woken_ns);
        }
    }

    pub(super) fn wake_on(&mut self, slot: u32, key: ObjectKey, most: u32) {
        let passes_on = self.threads[slot as usize].takes_up(key).is_some();
        self.words.wakes(key, most, passes_on);
    }

    pub(super) fn waited_on(&mut self, event: &SyncEvent, slot: u32, spending: Spending) {
        let call = self.threads[slot as usize].call.take_if(|call| call.spending == spending);
        let Some(call) = call else { return };
        if event.outcome == SyncOutcome::Ok {
            self.threads[slot as usize].was_woken_on(call.object, self.now_ns);
        }
        self.end_word(slot, &call, Some(event.outcome), self.now_ns);
    }

    /// A wait on a semaphore or a futex word is over.
    pub(super) fn end_word(&mut self, slot: u32, call: &Call, outcome: Option<SyncOutcome>, now_ns: u64) {
        let kind = match call.spending {
            Spending::Semaphore => WordKind::Semaphore,
            Spending::Futex => WordKind::FutexWord,
            _ => return,
        };
        self.leaves_word(slot, call, outcome, now_ns);
        let Thread { id: thread, process, .. } = self.threads[slot as usize];
        self.words.waited(WordWait {
            kind,
            object: call.object,
            thread,
            site: ObjectKey { process, address: call.site },
            ns: now_ns.saturating_sub(call.entered_ns),
            outcome,
            woken_by: call.woken_by,
        });
    }
}
