//! Conditions: how long threads waited, who woke them, how often who was woken waited again at once, and what nobody heard.

use super::figures::{ConditionFigures, WordKind};
use super::thread::Call;
use super::words::{WordWait, Words};
use crate::sync::event::{SyncEvent, ThreadId};
use crate::sync::keys::{AddressMap, ObjectKey};
use quaver_abi::sync::{SyncKind, SyncOutcome, outcome_flags};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Conditions kept; those that come later are not counted.
const KEPT: usize = 65_536;

#[derive(Debug, Default)]
struct Condition {
    figures: ConditionFigures,
    /// Who waits, and whether somebody had woken nobody before that.
    waiting: BTreeMap<ThreadId, bool>,
    /// Somebody woke nobody, and no wait has begun since.
    unheard: bool,
}

#[derive(Debug, Default)]
pub(super) struct Conditions {
    all: AddressMap<ObjectKey, Condition>,
    /// Their waits, one by one.
    waits: Words,
}

impl Conditions {
    fn of(&mut self, key: ObjectKey) -> Option<&mut Condition> {
        let has_room = self.all.len() < KEPT || self.all.contains_key(&key);
        has_room.then(|| self.all.entry(key).or_default())
    }

    /// A wait begins; whether somebody had woken nobody just before.
    pub(super) fn begins(&mut self, key: ObjectKey, thread: ThreadId) -> bool {
        let Some(one) = self.of(key) else { return false };
        let after_unheard = std::mem::take(&mut one.unheard);
        one.waiting.insert(thread, after_unheard);
        after_unheard
    }

    /// A wait is over: by this return, or the thread is gone.
    pub(super) fn ends(
        &mut self,
        call: &Call,
        thread: ThreadId,
        process: u16,
        event: Option<&SyncEvent>,
        ns: u64,
    ) {
        let key = call.object;
        let Some(one) = self.of(key) else { return };
        let after_unheard = one.waiting.remove(&thread).unwrap_or(false);
        let outcome = event.map(|event| event.outcome);
        one.figures.woken += u64::from(outcome == Some(SyncOutcome::Ok));
        one.figures.again += u64::from(event.is_some_and(|event| event.flags & outcome_flags::AGAIN != 0));
        if outcome == Some(SyncOutcome::Timeout) {
            one.figures.timed_out.add(ns);
            if after_unheard {
                one.figures.unheard_before.add(ns);
            }
        }
        let site = ObjectKey { process, address: call.site };
        let kind = WordKind::default();
        self.waits.waited(WordWait { kind, object: key, thread, site, ns, outcome, woken_by: call.woken_by });
    }

    /// Somebody wakes its waiters.
    pub(super) fn woken_by(&mut self, key: ObjectKey, kind: SyncKind) {
        let Some(one) = self.of(key) else { return };
        if kind == SyncKind::BroadcastEntry {
            one.figures.broadcasts += 1;
        } else {
            one.figures.signals += 1;
        }
        if one.waiting.is_empty() {
            one.figures.unheard += 1;
            one.unheard = true;
        }
    }

    /// By the order of calls, this thread ended the latest wait of that one.
    pub(super) fn ended_by(&mut self, thread: ThreadId, by: ThreadId) {
        self.waits.ended_by(thread, by);
    }

    /// Those that threads waited for, the longest first. `listed`: at most so many.
    pub(super) fn figures(mut self, listed: usize) -> Vec<ConditionFigures> {
        let (_, waits, _) = self.waits.figures(usize::MAX);
        let named = waits.into_iter().filter_map(|word| {
            let key = ObjectKey { process: word.process, address: word.address };
            Some(ConditionFigures {
                process: word.process,
                address: word.address,
                wait: word.wait,
                threads: word.threads,
                wakers: word.wakers,
                waker_unknown: word.waker_unknown,
                waiter_sites: word.waiter_sites,
                ..self.all.remove(&key)?.figures
            })
        });
        let mut all: Vec<_> = named.collect();
        all.sort_by_key(|one| (Reverse(one.wait.total_ns), one.process, one.address));
        all.truncate(listed);
        all
    }
}
