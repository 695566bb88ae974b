//! Futex words as locks and as barriers. Whoever wakes a waiter of a lock had it until then. Whoever wakes all who wait at a barrier
//! came last. The ledger keeps both books of each word: what the word is, only the names of those who wait on it say.

use super::lock::{GivenBack, HoldEnd, Holder, KeptOut, Readers, Waiter};
use super::spending::Spending;
use super::thread::Call;
use super::{KEPT_LOCKS, Ledger, ObjectKey};
use crate::sync::event::SyncEvent;
use quaver_abi::sync::SyncOutcome;

/// A call that may wake so many wakes all: the kernel's side counts no further.
const ALL: u32 = 127;

impl Ledger {
    /// A thread begins to wait on a futex word.
    pub(super) fn asks_word(&mut self, event: &SyncEvent, slot: u32) {
        let (now_ns, order) = (self.now_ns, self.order);
        let key = ObjectKey::of(event.process, event.object);
        self.word_rounds.comes(key, event.thread, now_ns);
        let has_room = self.word_locks.len() < KEPT_LOCKS || self.word_locks.contains_key(&key);
        if !has_room || self.words.wakes_more_at_once(key) {
            return;
        }
        let lock = self.word_locks.entry(key).or_default();
        lock.count_queue(now_ns);
        lock.found_taken_ns.get_or_insert(now_ns);
        // Who asks for it has not got it.
        lock.holder.take_if(|holder| holder.thread == event.thread);
        lock.waiters.push(Waiter {
            slot,
            order,
            entered_ns: now_ns,
            found: None,
            booked_ns: now_ns,
            reads: false,
            released: lock.given_back.is_some_and(|last| !last.returned),
            owners: Vec::new(),
            readers: Readers::default(),
        });
        self.open.insert((now_ns, slot));
    }

    /// A thread begins to wake others on the word: if that is a lock, all who wait for it waited for this thread until now.
    pub(super) fn gives_word_back(&mut self, event: &SyncEvent, slot: u32) {
        let now_ns = self.now_ns;
        let key = ObjectKey::of(event.process, event.object);
        let site = ObjectKey { process: event.process, address: event.call_site };
        if event.detail >= ALL {
            self.word_rounds.completes(key, event.thread, site, now_ns);
        }
        let Some(lock) = self.word_locks.get_mut(&key) else { return };
        lock.count_queue(now_ns);
        let holder = lock.end_hold(event.thread, now_ns);
        let before = lock.given_back.replace(GivenBack { by: event.thread, returned: false });
        // Somebody who came, or came again, found it taken by this thread: else this would not wake anybody.
        let found_taken_ns = lock.found_taken_ns.take().unwrap_or(now_ns);
        let since_ns = holder.map_or(found_taken_ns, |holder| holder.since_ns);
        let mut waiters = std::mem::take(&mut lock.waiters);
        for waiter in waiters.iter_mut().filter(|waiter| waiter.slot != slot) {
            let from_ns = waiter.booked_ns;
            let got_ns = since_ns.clamp(from_ns, now_ns);
            let late = holder.and_then(|holder| holder.asked).is_some_and(|asked| asked > waiter.order);
            let free = holder.is_none() && waiter.released && before.is_some();
            let overtakes = waiter.is_passed_again(event.thread) || late || free;
            let until = KeptOut { key, from_ns, got_ns, to_ns: now_ns, site: Some(site), overtakes };
            // The waiter's own log has it as a wait on the word.
            until.cut(lock, &self.threads, waiter.slot, slot);
            (waiter.booked_ns, waiter.released) = (now_ns, true);
        }
        lock.waiters = waiters;
    }

    /// The call that wakes others has returned.
    pub(super) fn gave_word_back(&mut self, event: &SyncEvent) {
        let key = ObjectKey::of(event.process, event.object);
        let lock = self.word_locks.get_mut(&key).and_then(|lock| lock.given_back.as_mut());
        if let Some(last) = lock.filter(|last| last.by == event.thread) {
            last.returned = true;
        }
    }

    /// A wait on a word ends. A woken thread has the lock until it waits for that word again.
    pub(super) fn leaves_word(&mut self, slot: u32, call: &Call, outcome: Option<SyncOutcome>, now_ns: u64) {
        if call.spending != Spending::Futex {
            return;
        }
        let (thread, process) = (self.threads[slot as usize].id, self.threads[slot as usize].process);
        self.word_rounds.ends(call, thread, process, false, now_ns);
        self.open.remove(&(call.entered_ns, slot));
        let Some(lock) = self.word_locks.get_mut(&call.object) else { return };
        lock.count_queue(now_ns);
        let place = lock.waiters.iter().position(|waiter| waiter.slot == slot);
        let Some(waiter) = place.map(|place| lock.waiters.swap_remove(place)) else { return };
        let woken = outcome == Some(SyncOutcome::Ok);
        let rest_ns = now_ns.saturating_sub(waiter.booked_ns);
        if woken && waiter.released {
            lock.hand_over(rest_ns);
            lock.handed_to_waiter(rest_ns);
        } else {
            lock.owner_unknown(rest_ns);
        }
        let site = ObjectKey { process, address: call.site };
        lock.waited(site, now_ns.saturating_sub(call.entered_ns), woken);
        if woken {
            let (since_ns, asked) = (now_ns, Some(call.order));
            lock.holder = Some(Holder { thread, since_ns, asked, end: HoldEnd::Usual });
        }
    }
}
