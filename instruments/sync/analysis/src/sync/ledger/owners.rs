//! Who gives a lock back, who has one that nobody has given back yet, and threads that wait for each other in a circle.

use super::figures::PairShare;
use super::lock::{GivenBack, HoldEnd, Holder, KeptOut, ReaderHold, Waiter};
use super::log::Doing;
use super::readers::WaitOf;
use super::spending::Spending;
use super::{Ledger, ObjectKey};
use crate::sync::event::SyncEvent;
use crate::sync::keys::SHARED_ADDRESS;
use quaver_abi::sync::{SyncObject, outcome_flags};

impl Ledger {
    /// Whoever gives a lock back has been its owner; all who wait for it waited for this owner until now. A reader keeps out no
    /// other reader.
    pub(super) fn give_back(&mut self, event: &SyncEvent, slot: u32, key: ObjectKey) {
        let by_reader = event.flags & outcome_flags::FOR_READING != 0;
        if !by_reader {
            self.settle_all_readers(key);
        }
        let (now_ns, needed_ns) = (self.now_ns, self.needed_ns());
        let Some(lock) = self.locks.get_mut(&key) else { return };
        lock.count_queue(now_ns);
        let reads_since_ns = lock.ends_reading(event.thread).unwrap_or(0);
        let holder = lock.end_hold(event.thread, now_ns);
        let returned = event.flags & outcome_flags::INSIDE_WAIT != 0;
        let before = lock.given_back.replace(GivenBack { by: event.thread, returned });
        let exclusive = event.detail != SyncObject::ReadWrite as u32;
        let site = ObjectKey { process: event.process, address: event.call_site };
        let mut waiters = std::mem::take(&mut lock.waiters);
        // Where a writer that waits goes first, a reader that asks after it waits for the readers that the writer waits for.
        let first_writer = waiters.iter().filter(|waiter| !waiter.reads).map(|waiter| waiter.order).min();
        let behind_writer =
            |waiter: &Waiter| !waiter.released && first_writer.is_some_and(|asked| asked < waiter.order);
        let kept_out = |waiter: &&mut Waiter| {
            waiter.slot != slot && (!(by_reader && waiter.reads) || behind_writer(waiter))
        };
        for waiter in waiters.iter_mut().filter(kept_out) {
            // Until the owner had it, it was on its way to the owner.
            let from_ns = waiter.booked_ns;
            let got_ns = holder.map_or(from_ns, |holder| holder.since_ns.clamp(from_ns, now_ns));
            let late = holder.and_then(|holder| holder.asked).is_some_and(|asked| asked > waiter.order);
            let free = holder.is_none() && waiter.released && before.is_some();
            let again = waiter.is_passed_again(event.thread);
            if by_reader {
                let from_ns = reads_since_ns.max(waiter.booked_ns);
                waiter.readers.add(ReaderHold { slot, from_ns, to_ns: now_ns, site, again });
                let wait = WaitOf { key, slot: waiter.slot };
                waiter.readers.fold(self.single_holds, wait, &lock.reading, &self.threads);
                waiter.released = !waiter.reads;
                continue;
            }
            let overtakes = again || exclusive && (late || free);
            let until = KeptOut { key, from_ns, got_ns, to_ns: now_ns, site: Some(site), overtakes };
            until.book(lock, &mut self.threads, waiter.slot, slot, needed_ns);
            (waiter.booked_ns, waiter.released) = (now_ns, true);
        }
        lock.waiters = waiters;
    }

    /// Who has a lock that this thread waits for, where that is certain: a thread that got it since then, for the end of that is
    /// recorded, or while its hold is timed; else the thread that had it when the waiter came, until anybody gives it back.
    pub(super) fn owner_of(&self, key: ObjectKey, waiter: &Waiter) -> Option<u32> {
        let is_certain =
            |holder: &Holder| holder.end == HoldEnd::Recorded || holder.since_ns > waiter.entered_ns;
        let holder = self.locks.get(&key)?.holder.filter(is_certain).map(|holder| holder.thread);
        let thread = holder.or(waiter.found.filter(|_| waiter.is_untouched()))?;
        // A child of a fork has its parent's locks as they were then, and of the threads that had them none.
        let process = self.threads[waiter.slot as usize].process;
        let is_shared = key.address & SHARED_ADDRESS != 0;
        let was_there = |slot: u32| {
            let thread = &self.threads[slot as usize];
            thread.first_ns() <= waiter.entered_ns && (is_shared || thread.process == process)
        };
        let known = self.by_id.get(&thread).copied().filter(|slot| was_there(*slot));
        // Another thread of the same number may have come since, or another program.
        let before = |slot: &u32| self.threads[*slot as usize].id == thread && was_there(*slot);
        known.or_else(|| (0..self.threads.len() as u32).rev().find(before))
    }

    /// Whom the thread waits for and which lock that is, where both are certain.
    fn waits_for(&self, slot: u32) -> Option<(u32, ObjectKey)> {
        let call = self.threads[slot as usize].call.filter(|call| call.spending == Spending::Lock)?;
        let waiter = self.locks.get(&call.object)?.waiters.iter().find(|waiter| waiter.slot == slot)?;
        Some((self.owner_of(call.object, waiter)?, call.object))
    }

    /// Until when a thread was there, and in the call that it is in.
    pub(super) fn seen_until_ns(&self, slot: u32, ends_ns: &[u64]) -> u64 {
        let thread = &self.threads[slot as usize];
        let end_ns = ends_ns.get(usize::from(thread.process)).copied().filter(|_| !thread.ended);
        // Who came to a round of a barrier waited until all had come.
        let all_came_ns = thread.call.and_then(|call| match call.spending {
            Spending::Barrier => self.barriers.all_came_ns(call.object, thread.id),
            Spending::Futex => self.word_rounds.all_came_ns(call.object, thread.id),
            _ => None,
        });
        thread.booked_ns().max(end_ns.unwrap_or(0)).max(all_came_ns.unwrap_or(0))
    }

    /// Marks the locks of threads that wait for each other in a circle.
    pub(super) fn find_deadlocks(&mut self, ends_ns: &[u64]) {
        for slot in 0..self.threads.len() as u32 {
            let Some((owner, key)) = self.waits_for(slot) else { continue };
            let mut last = owner;
            for _ in 0..self.open.len() {
                match self.waits_for(last) {
                    Some((next, _)) if last != slot => last = next,
                    _ => break,
                }
            }
            let (waiter, owner) = (self.threads[slot as usize].id, self.threads[owner as usize].id);
            let until_ns = self.seen_until_ns(slot, ends_ns);
            let since_ns = self.threads[slot as usize].call.map_or(until_ns, |call| call.entered_ns);
            if let Some(lock) = self.locks.get_mut(&key).filter(|_| last == slot) {
                let total_ns = until_ns.saturating_sub(since_ns);
                lock.deadlock = Some(PairShare { waiter, owner, holds: 1, total_ns });
            }
        }
    }

    /// The owner ended without giving the lock back.
    pub(super) fn owner_died(&mut self, key: ObjectKey) {
        let now_ns = self.now_ns;
        self.settle_all_readers(key);
        let Some(lock) = self.locks.get_mut(&key) else { return };
        let mut waiters = std::mem::take(&mut lock.waiters);
        for waiter in &mut waiters {
            match self.owner_of(key, waiter) {
                Some(owner) => self.kept_to_the_end(key, waiter, owner, now_ns),
                None => self.locks.entry(key).or_default().owner_unknown(now_ns - waiter.booked_ns),
            }
            (waiter.booked_ns, waiter.released) = (now_ns, false);
        }
        let lock = self.locks.entry(key).or_default();
        (lock.waiters, lock.holder) = (waiters, None);
    }

    /// The rest of a wait, in which this owner did not give the lock back.
    pub(super) fn kept_to_the_end(&mut self, key: ObjectKey, waiter: &Waiter, owner: u32, now_ns: u64) {
        self.book(owner);
        let needed_ns = self.needed_ns();
        let Some(lock) = self.locks.get_mut(&key) else { return };
        let from_ns = waiter.booked_ns;
        let id = self.threads[owner as usize].id;
        let holder = lock.holder.filter(|holder| holder.thread == id);
        let got_ns = holder.map_or(from_ns, |holder| holder.since_ns.clamp(from_ns, now_ns));
        let until = KeptOut { key, from_ns, got_ns, to_ns: now_ns, site: None, overtakes: false };
        until.book(lock, &mut self.threads, waiter.slot, owner, needed_ns);
        let owns = &mut self.threads[owner as usize];
        let mut asleep = None;
        owns.log.cut(id, got_ns, now_ns, |piece| {
            asleep = Some(piece).filter(|piece| piece.doing == Doing::Slept { call: None });
        });
        owns.unnamed_sleeps.extend(asleep.map(|piece| (key, piece.from_ns, piece.to_ns - piece.from_ns)));
    }

    /// A system call of this thread has returned: sleeps in it that others waited through have a name now.
    pub(super) fn name_sleeps(&mut self, slot: u32, call: u16, from_ns: u64) {
        let mut sleeps = std::mem::take(&mut self.threads[slot as usize].unnamed_sleeps);
        for (key, since_ns, ns) in sleeps.drain(..) {
            if let Some(lock) = self.locks.get_mut(&key).filter(|_| since_ns >= from_ns) {
                lock.name_sleep(call, ns);
            }
        }
        self.threads[slot as usize].unnamed_sleeps = sleeps;
    }
}
