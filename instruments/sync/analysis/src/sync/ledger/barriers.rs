//! Barriers: how long threads waited at each, who came last, and how long after the one before.

use super::Ledger;
use super::figures::{BarrierFigures, LastShare};
use super::lock::{KEPT, LISTED, places};
use super::spending::Spending;
use super::thread::Call;
use crate::sync::event::{SyncEvent, ThreadId};
use crate::sync::keys::{AddressMap, ObjectKey};
use quaver_abi::sync::SyncOutcome;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Barriers kept; those that come later are not counted.
const KEPT_BARRIERS: usize = 65_536;

#[derive(Debug, Default)]
struct Barrier {
    figures: BarrierFigures,
    /// Who has come to the round that is not full, and when.
    here: Vec<(ThreadId, u64)>,
    /// Who has not returned from a full round, and when the last of it came.
    leaving: Vec<(ThreadId, u64)>,
    threads: BTreeSet<ThreadId>,
    last: BTreeMap<ThreadId, LastShare>,
    sites: AddressMap<ObjectKey, u64>,
    /// Calls by which the last let the others go on, with the time that those had waited.
    last_sites: AddressMap<ObjectKey, u64>,
}

impl Barrier {
    /// The first of a round returns, so that all who wait have come.
    fn is_full(&mut self) {
        let mut round = std::mem::take(&mut self.here);
        round.sort_by_key(|(_, came_ns)| *came_ns);
        let Some((thread, last_ns)) = round.last().copied() else { return };
        self.figures.rounds += 1;
        self.leaving.extend(round.iter().map(|(thread, _)| (*thread, last_ns)));
        let before_ns = round.iter().rev().nth(1).map(|(_, came_ns)| *came_ns);
        if let Some(before_ns) =
            before_ns.filter(|_| self.last.len() < KEPT || self.last.contains_key(&thread))
        {
            let last = self.last.entry(thread).or_insert(LastShare { thread, ..LastShare::default() });
            last.rounds += 1;
            last.behind_ns += last_ns - before_ns;
            last.total_ns += round.iter().map(|(_, came_ns)| last_ns - came_ns).sum::<u64>();
        }
    }

    /// When the last of the thread's round came; none of a round that is not full.
    fn leaves(&mut self, thread: ThreadId) -> Option<u64> {
        let place = self.leaving.iter().position(|(one, _)| *one == thread)?;
        Some(self.leaving.swap_remove(place).1)
    }

    fn figures(self, key: ObjectKey) -> BarrierFigures {
        let mut last: Vec<LastShare> = self.last.into_values().collect();
        last.sort_by_key(|one| (Reverse(one.total_ns), Reverse(one.rounds), one.thread));
        last.truncate(LISTED);
        BarrierFigures {
            process: key.process,
            address: key.address,
            threads: self.threads.len() as u64,
            last,
            waiter_sites: places(self.sites),
            last_sites: places(self.last_sites),
            ..self.figures
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Barriers(AddressMap<ObjectKey, Barrier>);

impl Barriers {
    /// A thread comes.
    pub(super) fn comes(&mut self, key: ObjectKey, thread: ThreadId, now_ns: u64) {
        if self.0.len() < KEPT_BARRIERS || self.0.contains_key(&key) {
            self.0.entry(key).or_default().here.push((thread, now_ns));
        }
    }

    /// When the last of the round came that the thread waits in; none of a round that is not full.
    pub(super) fn all_came_ns(&self, key: ObjectKey, thread: ThreadId) -> Option<u64> {
        self.0.get(&key)?.leaving.iter().find(|(one, _)| *one == thread).map(|(_, all_came_ns)| *all_came_ns)
    }

    /// A thread lets all who wait go on, and came last: a barrier at which the last thread does not wait. Nothing where nobody waits.
    pub(super) fn completes(&mut self, key: ObjectKey, thread: ThreadId, site: ObjectKey, now_ns: u64) {
        let Some(one) = self.0.get_mut(&key) else { return };
        one.here.retain(|(other, _)| *other != thread);
        if one.here.is_empty() {
            return;
        }
        let waited_ns: u64 = one.here.iter().map(|(_, came_ns)| now_ns - came_ns).sum();
        if one.last_sites.len() < KEPT || one.last_sites.contains_key(&site) {
            *one.last_sites.entry(site).or_default() += waited_ns;
        }
        if one.threads.len() < KEPT {
            one.threads.insert(thread);
        }
        one.here.push((thread, now_ns));
        one.is_full();
        one.leaves(thread);
    }

    /// A wait is over. `passed`: the call returned since all had come; else the thread is gone, or the run is over.
    pub(super) fn ends(&mut self, call: &Call, thread: ThreadId, process: u16, passed: bool, now_ns: u64) {
        let Some(one) = self.0.get_mut(&call.object) else { return };
        let mut all_came_ns = one.leaves(thread);
        if all_came_ns.is_none() && passed {
            one.is_full();
            all_came_ns = one.leaves(thread);
        }
        one.here.retain(|(other, _)| *other != thread);
        let ns = now_ns.saturating_sub(call.entered_ns);
        one.figures.wait.add(ns);
        match all_came_ns {
            Some(all_came_ns) => {
                let for_last_ns = all_came_ns.saturating_sub(call.entered_ns).min(ns);
                one.figures.for_last_ns += for_last_ns;
                one.figures.after_ns += ns - for_last_ns;
            }
            None => one.figures.unfinished_ns += ns,
        }
        if one.threads.len() < KEPT {
            one.threads.insert(thread);
        }
        let site = ObjectKey { process, address: call.site };
        if one.sites.len() < KEPT || one.sites.contains_key(&site) {
            *one.sites.entry(site).or_default() += ns;
        }
    }

    /// Those that threads waited at for longest, at most `listed`.
    pub(super) fn figures(self, listed: usize) -> Vec<BarrierFigures> {
        let waited = self.0.into_iter().filter(|(_, one)| one.figures.wait.count > 0);
        let mut all: Vec<_> = waited.map(|(key, one)| one.figures(key)).collect();
        all.sort_by_key(|one| (Reverse(one.wait.total_ns), one.process, one.address));
        all.truncate(listed);
        all
    }
}

impl Ledger {
    /// A call of a barrier returns.
    pub(super) fn pass(&mut self, event: &SyncEvent, slot: u32) {
        let waits = |call: &mut Call| call.spending == Spending::Barrier;
        if let Some(call) = self.threads[slot as usize].call.take_if(waits) {
            let passed = matches!(event.outcome, SyncOutcome::Ok | SyncOutcome::Serial);
            self.barriers.ends(&call, event.thread, event.process, passed, self.now_ns);
        }
    }
}
