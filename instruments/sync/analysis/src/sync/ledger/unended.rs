//! Waits that had not ended when the run did, and processes of which no thread was left to end one.

use super::figures::{Standstill, UnendedWait};
use super::thread::Place;
use super::{Ledger, ObjectKey};
use crate::sync::event::SyncEvent;
use crate::sync::keys::SHARED_ADDRESS;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Words remembered on which a call woke nobody.
const KEPT_UNHEARD: usize = 65_536;

/// Futex words on which a call woke nobody, and no wait has begun since.
#[derive(Debug, Default)]
pub(super) struct Unheard(BTreeSet<ObjectKey>);

impl Unheard {
    /// A call woke nobody.
    pub(super) fn add(&mut self, key: ObjectKey) {
        if self.0.len() < KEPT_UNHEARD {
            self.0.insert(key);
        }
    }

    /// A wait begins; whether such a call came just before.
    pub(super) fn is_heard_of(&mut self, key: ObjectKey) -> bool {
        self.0.remove(&key)
    }
}

/// By process: threads that ended while they did not wait.
#[derive(Debug, Default)]
pub(super) struct Leavers {
    /// When the latest of them ended, and whether no other thread ended later.
    latest: BTreeMap<u16, (u64, bool)>,
    exited: BTreeSet<u16>,
}

impl Leavers {
    /// Since when no thread that ended could have ended a wait; none if such a thread ended the process.
    fn stood_since_ns(&self, process: u16) -> Option<u64> {
        let (at_ns, is_last) = self.latest.get(&process).copied().unwrap_or_default();
        (!is_last || !self.exited.contains(&process)).then_some(at_ns)
    }
}

impl Ledger {
    /// The process said that a thread of its own ended it.
    pub fn exited(&mut self, process: u16) {
        self.leavers.exited.insert(process);
    }

    /// A thread ends.
    pub(super) fn leaves(&mut self, slot: u32, event: &SyncEvent) {
        let latest = self.leavers.latest.entry(event.process).or_default();
        latest.1 = self.threads[slot as usize].call.is_none();
        if latest.1 {
            latest.0 = event.at_ns;
        }
    }

    /// The wait that this thread begins follows a call that woke nobody.
    pub(super) fn begins_after(&mut self, slot: u32, after_unheard: bool) {
        if let Some(call) = &mut self.threads[slot as usize].call {
            call.after_unheard = after_unheard;
        }
    }

    /// The waits, at most `listed`; and the processes that stood still. `ends_ns` as in [`Ledger::finish`].
    pub(super) fn unended(&mut self, listed: usize, ends_ns: &[u64]) -> (Vec<UnendedWait>, Vec<Standstill>) {
        let mut waits = Vec::new();
        // Since when all threads of a process have waited; none where one did not.
        let mut stood: BTreeMap<u16, (u64, Option<u64>)> = BTreeMap::new();
        for slot in 0..self.threads.len() as u32 {
            let thread = &self.threads[slot as usize];
            if thread.ended {
                continue;
            }
            let (count, since_ns) = stood.entry(thread.process).or_insert((0, Some(0)));
            *count += 1;
            // A thread that has its CPU, or waits for that, was woken.
            let asleep = !self.kernel_seen || thread.place == Place::Asleep;
            let Some(call) = thread.call.filter(|_| asleep) else {
                *since_ns = None;
                continue;
            };
            // Another process may end it.
            let is_own = call.object.address & SHARED_ADDRESS == 0;
            *since_ns = since_ns.filter(|_| is_own).map(|since_ns| since_ns.max(call.entered_ns));
            waits.push(UnendedWait {
                thread: thread.id,
                process: thread.process,
                waits_for: call.spending,
                address: call.object.address,
                call_site: call.site,
                total_ns: self.seen_until_ns(slot, ends_ns).saturating_sub(call.entered_ns),
                after_unheard: call.after_unheard,
            });
        }
        waits.sort_by_key(|wait| (Reverse(wait.total_ns), wait.thread));
        waits.truncate(listed);
        let stood_still = stood.into_iter().filter_map(|(process, (threads, since_ns))| {
            let end_ns = ends_ns.get(usize::from(process)).copied().filter(|end_ns| *end_ns > 0)?;
            let since_ns = since_ns?.max(self.leavers.stood_since_ns(process)?);
            Some(Standstill { process, threads, total_ns: end_ns.saturating_sub(since_ns) })
        });
        (waits, stood_still.collect())
    }
}
