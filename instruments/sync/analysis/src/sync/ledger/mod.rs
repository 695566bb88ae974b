//! The ledger of contention: what all waiting for locks consists of, beside the paper's six classes, which count only what
//! follows a release.
//!
//! A wait for a lock is cut at each unlock of it. Until an unlock the unlocking thread was the owner; what it did meanwhile is
//! in its log. docs/methodology/sync.md has the rules.

mod barriers;
mod conditions;
mod figures;
mod lock;
mod log;
mod owners;
mod readers;
mod spending;
mod thread;
mod unended;
mod word_locks;
mod words;

#[cfg(test)]
mod tests;

pub use figures::{
    Activity, BarrierFigures, CallShare, ConditionFigures, Contention, LastShare, LockFigures, PATTERN_SHARE,
    PairShare, Pattern, PlaceShare, RootShare, SoFar, Standstill, ThreadShare, ThreadTime, UnendedWait,
    WaiterShare, WakerShare, WordFigures, WordKind, WordUse,
};
pub use spending::Spending;

use super::event::{AnyEvent, KernelEvent, KernelKind, SyncEvent, ThreadId};
use super::keys::{AddressMap, ObjectKey};
use super::results::Sums;
use barriers::Barriers;
use conditions::Conditions;
use lock::{HoldEnd, Holder, Lock, Readers, Waiter};
use log::Piece;
use quaver_abi::record::OffCpu;
use quaver_abi::sync::{CPU_UNKNOWN, OWNER_SHIFT, SyncKind, SyncOutcome, outcome_flags};
use readers::SingleHolds;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use thread::{Call, Place, Thread};
use unended::Unheard;
use words::Words;

/// Locks kept; those that come later are in the totals only.
const KEPT_LOCKS: usize = 65_536;
/// Threads that the ledger lists.
const LISTED_THREADS: usize = 4_096;

#[derive(Debug, Default)]
struct Cpu {
    current: ThreadId,
    priority: Option<i16>,
    queued: Vec<u32>,
}

/// Takes the events of both sides in time order, as the protocol does.
#[derive(Debug, Default)]
pub struct Ledger {
    now_ns: u64,
    order: u64,
    kernel_seen: bool,
    threads: Vec<Thread>,
    by_id: AddressMap<ThreadId, u32>,
    cpus: Vec<Cpu>,
    locks: AddressMap<ObjectKey, Lock>,
    /// Locks by the low half of their address, which is all that a wait on a condition names.
    by_half: AddressMap<(u16, u32), ObjectKey>,
    /// Waits for locks that have not returned, by their beginning.
    open: BTreeSet<(u64, u32)>,
    /// Waits for locks that are not kept.
    others: Sums,
    conditions: Conditions,
    barriers: Barriers,
    words: Words,
    unheard: Unheard,
    leavers: unended::Leavers,
    /// Futex words, as if each were a lock.
    word_locks: AddressMap<ObjectKey, Lock>,
    /// The same as if each were a barrier.
    word_rounds: Barriers,
    single_holds: SingleHolds,
}

impl Ledger {
    /// Takes the next event. One that is earlier than the one before counts as of its time.
    pub fn any(&mut self, event: &AnyEvent) {
        match event {
            AnyEvent::Sync(event) => self.event(event),
            AnyEvent::Kernel(event) => self.kernel(event),
        }
    }

    /// What the time of a thread went into until its latest event.
    pub fn so_far(&self, thread: ThreadId) -> SoFar {
        self.by_id.get(&thread).map(|slot| self.threads[*slot as usize].so_far()).unwrap_or_default()
    }

    /// The kernel's side was seen until now.
    pub const fn kernel_seen(&self) -> bool {
        self.kernel_seen
    }

    fn event(&mut self, event: &SyncEvent) {
        self.now_ns = self.now_ns.max(event.at_ns);
        self.order += 1;
        if event.kind == SyncKind::Anchor {
            return;
        }
        let slot = self.slot_of(event);
        self.book(slot);
        let key = ObjectKey::of(event.process, event.object);
        // Who called is found out at the end of a wait.
        if event.kind.ends_wait()
            && let Some(call) = &mut self.threads[slot as usize].call
            && call.object == key
            && event.call_site != 0
        {
            call.site = event.call_site;
        }
        match event.kind {
            SyncKind::LockEntry | SyncKind::ReadLockEntry => self.ask(event, slot, key),
            SyncKind::LockExit | SyncKind::ReadLockExit => self.got(event, slot, key),
            SyncKind::UnlockEntry => self.give_back(event, slot, key),
            SyncKind::UnlockExit => {
                let lock = self.locks.get_mut(&key).and_then(|lock| lock.given_back.as_mut());
                if let Some(last) = lock.filter(|last| last.by == event.thread) {
                    last.returned = true;
                }
            }
            SyncKind::Taken => self.take_free(event, key),
            SyncKind::GivenBack => {
                if let Some(lock) = self.locks.get_mut(&key) {
                    lock.end_hold(event.thread, self.now_ns);
                }
            }
            SyncKind::TryEntry => self.threads[slot as usize].row = Some((key, self.now_ns)),
            SyncKind::TryExit => self.end_row(event, slot, key),
            SyncKind::WaitEntry => {
                self.enter(event, slot, Spending::Condition);
                let after_unheard = self.conditions.begins(key, event.thread);
                self.begins_after(slot, after_unheard);
            }
            SyncKind::SemWaitEntry => self.wait_on(event, slot, Spending::Semaphore),
            SyncKind::BarrierEntry => {
                self.enter(event, slot, Spending::Barrier);
                self.barriers.comes(key, event.thread, self.now_ns);
            }
            SyncKind::JoinEntry => self.enter(event, slot, Spending::Join),
            SyncKind::FutexWaitEntry => {
                self.wait_on(event, slot, Spending::Futex);
                self.asks_word(event, slot);
            }
            SyncKind::FutexWakeEntry => {
                self.wake_on(slot, key, event.detail);
                self.gives_word_back(event, slot);
            }
            SyncKind::FutexWakeExit => {
                self.gave_word_back(event);
                if event.detail == 0 {
                    self.unheard.add(key);
                }
            }
            SyncKind::PostEntry => self.wake_on(slot, key, 1),
            SyncKind::SignalEntry | SyncKind::BroadcastEntry => self.conditions.woken_by(key, event.kind),
            SyncKind::WaitExit => {
                let waits = |call: &mut Call| call.spending == Spending::Condition;
                if let Some(call) = self.threads[slot as usize].call.take_if(waits) {
                    let ns = self.now_ns - call.entered_ns;
                    self.conditions.ends(&call, event.thread, event.process, Some(event), ns);
                }
                self.took_again(event);
            }
            SyncKind::SemWaitExit => self.waited_on(event, slot, Spending::Semaphore),
            SyncKind::BarrierExit => self.pass(event, slot),
            SyncKind::JoinExit => {
                self.threads[slot as usize].call.take_if(|call| call.spending == Spending::Join);
            }
            SyncKind::FutexWaitExit => self.waited_on(event, slot, Spending::Futex),
            SyncKind::ThreadExit => {
                self.leaves(slot, event);
                self.abandon(slot);
                self.unqueue(slot);
                self.threads[slot as usize].ended = true;
            }
            _ => {}
        }
    }

    fn slot_of(&mut self, event: &SyncEvent) -> u32 {
        if let Some(&slot) = self.by_id.get(&event.thread) {
            let old = &self.threads[slot as usize];
            if !old.ended && old.process == event.process && event.kind != SyncKind::ThreadStart {
                return slot;
            }
            self.book(slot);
            self.abandon(slot);
            self.unqueue(slot);
            self.threads[slot as usize].ended = true;
        }
        let slot = self.threads.len() as u32;
        self.threads.push(Thread::new(event.thread, event.process, self.now_ns));
        self.by_id.insert(event.thread, slot);
        slot
    }

    /// What happened before is needed by nobody.
    fn needed_ns(&self) -> u64 {
        needed_ns(&self.open, self.now_ns)
    }

    fn book(&mut self, slot: u32) {
        let needed_ns = self.needed_ns();
        self.threads[slot as usize].book(self.now_ns, needed_ns);
    }

    fn enter(&mut self, event: &SyncEvent, slot: u32, spending: Spending) {
        self.abandon(slot);
        let (now_ns, order) = (self.now_ns, self.order);
        self.threads[slot as usize].call = Some(Call {
            spending,
            object: ObjectKey::of(event.process, event.object),
            site: event.call_site,
            entered_ns: now_ns,
            order,
            woken_by: None,
            after_unheard: false,
        });
    }

    /// The call that was open will not return.
    fn abandon(&mut self, slot: u32) {
        let Some(call) = self.threads[slot as usize].call.take() else { return };
        self.give_up(slot, &call, self.now_ns);
    }

    /// A wait that is open is over at this time, and got nothing.
    fn give_up(&mut self, slot: u32, call: &Call, now_ns: u64) {
        match call.spending {
            Spending::Lock => self.end_wait(slot, call, false, now_ns),
            Spending::Condition => {
                let Thread { id, process, .. } = self.threads[slot as usize];
                self.conditions.ends(call, id, process, None, now_ns.saturating_sub(call.entered_ns));
            }
            Spending::Barrier => {
                let Thread { id, process, .. } = self.threads[slot as usize];
                self.barriers.ends(call, id, process, false, now_ns);
            }
            _ => self.end_word(slot, call, None, now_ns),
        }
    }

    /// By the order of calls, the one thread ended the latest wait of the other. What the kernel said of it comes first.
    pub fn ended_by(&mut self, thread: ThreadId, by: ThreadId) {
        self.words.ended_by(thread, by);
        self.conditions.ended_by(thread, by);
    }

    /// A row of tries has got the lock.
    fn end_row(&mut self, event: &SyncEvent, slot: u32, key: ObjectKey) {
        let Some((_, since_ns)) = self.threads[slot as usize].row.take_if(|(object, _)| *object == key)
        else {
            return;
        };
        if self.locks.len() >= KEPT_LOCKS && !self.locks.contains_key(&key) {
            return;
        }
        self.locks.entry(key).or_default().tried(self.now_ns - since_ns, event.detail.into());
    }

    fn ask(&mut self, event: &SyncEvent, slot: u32, key: ObjectKey) {
        self.enter(event, slot, Spending::Lock);
        if self.locks.len() >= KEPT_LOCKS && !self.locks.contains_key(&key) {
            return;
        }
        let (now_ns, order) = (self.now_ns, self.order);
        self.by_half.insert((key.process, key.address as u32), key);
        let lock = self.locks.entry(key).or_default();
        lock.count_queue(now_ns);
        let released = lock.given_back.is_some_and(|last| !last.returned);
        let reads = event.kind == SyncKind::ReadLockEntry;
        let found = Some(ThreadId(event.detail >> OWNER_SHIFT)).filter(|owner| owner.0 != 0);
        let booked_ns = now_ns;
        let (owners, readers) = (Vec::new(), Readers::default());
        lock.waiters.push(Waiter {
            slot,
            order,
            entered_ns: now_ns,
            found,
            booked_ns,
            reads,
            released,
            owners,
            readers,
        });
        self.open.insert((now_ns, slot));
    }

    /// A sample of the locks that are free when asked for.
    fn take_free(&mut self, event: &SyncEvent, key: ObjectKey) {
        if self.locks.len() >= KEPT_LOCKS && !self.locks.contains_key(&key) {
            return;
        }
        self.by_half.insert((key.process, key.address as u32), key);
        self.locks.entry(key).or_default().free(event.detail.into());
        // Of several readers none is the owner.
        if event.flags & outcome_flags::FOR_READING != 0 {
            self.locks.entry(key).or_default().begins_to_read(event.thread, self.now_ns);
        } else {
            let is_timed = event.flags & outcome_flags::UNTIMED == 0;
            let end = if is_timed { HoldEnd::Recorded } else { HoldEnd::Uncertain };
            self.hold(key, event.thread, Some(self.order), end);
        }
    }

    fn got(&mut self, event: &SyncEvent, slot: u32, key: ObjectKey) {
        let fits = |call: &mut Call| call.spending == Spending::Lock && call.object == key;
        let Some(call) = self.threads[slot as usize].call.take_if(fits) else { return };
        let got = matches!(event.outcome, SyncOutcome::Ok | SyncOutcome::OwnerDied);
        if event.outcome == SyncOutcome::OwnerDied {
            self.owner_died(key);
        }
        self.end_wait(slot, &call, got, self.now_ns);
        if got && event.kind == SyncKind::LockExit {
            self.hold(key, event.thread, Some(call.order), HoldEnd::Usual);
        } else if let Some(lock) = self.locks.get_mut(&key).filter(|_| got) {
            lock.begins_to_read(event.thread, self.now_ns);
        }
    }

    fn hold(&mut self, key: ObjectKey, thread: ThreadId, asked: Option<u64>, end: HoldEnd) {
        let since_ns = self.now_ns;
        if let Some(lock) = self.locks.get_mut(&key) {
            lock.holder = Some(Holder { thread, since_ns, asked, end });
        }
    }

    /// A wait on a condition has returned with its mutex.
    fn took_again(&mut self, event: &SyncEvent) {
        if let Some(key) = self.by_half.get(&(event.process, event.detail)).copied()
            && event.detail != 0
        {
            self.hold(key, event.thread, None, HoldEnd::Usual);
        }
    }

    /// A wait for a lock is over: what no unlock has booked is its last part.
    fn end_wait(&mut self, slot: u32, call: &Call, got: bool, now_ns: u64) {
        self.settle_readers(call.object, slot);
        let process = self.threads[slot as usize].process;
        let Some(lock) = self.locks.get_mut(&call.object) else {
            self.open.remove(&(call.entered_ns, slot));
            self.others.add(now_ns - call.entered_ns);
            return;
        };
        lock.count_queue(now_ns);
        let place = lock.waiters.iter().position(|waiter| waiter.slot == slot);
        let Some(waiter) = place.map(|place| lock.waiters.swap_remove(place)) else {
            self.open.remove(&(call.entered_ns, slot));
            return;
        };
        let rest_ns = now_ns - waiter.booked_ns;
        let mut from_ns = waiter.booked_ns;
        let owner = if got { None } else { self.owner_of(call.object, &waiter) };
        if let Some(owner) = owner {
            self.kept_to_the_end(call.object, &waiter, owner, now_ns);
            from_ns = now_ns;
        }
        // Not before: what its owner did since it began to wait was needed until here.
        self.open.remove(&(call.entered_ns, slot));
        let needed_ns = self.needed_ns();
        let Some(lock) = self.locks.get_mut(&call.object) else { return };
        if got && waiter.released {
            lock.hand_over(rest_ns);
            lock.handed_to_waiter(rest_ns);
        } else if owner.is_none() {
            lock.owner_unknown(rest_ns);
        }
        lock.waited(ObjectKey { process, address: call.site }, now_ns - call.entered_ns, got);
        let thread = &mut self.threads[slot as usize];
        let rest = Piece::on_its_way(call.object, thread.id, from_ns, now_ns);
        rest.into_iter().for_each(|piece| thread.log.push(piece, needed_ns));
    }

    fn cpu(&mut self, cpu: u16) -> Option<&mut Cpu> {
        if cpu == CPU_UNKNOWN {
            return None;
        }
        let index = usize::from(cpu);
        if index >= self.cpus.len() {
            self.cpus.resize_with(index + 1, Cpu::default);
        }
        self.cpus.get_mut(index)
    }

    fn kernel(&mut self, event: &KernelEvent) {
        self.now_ns = self.now_ns.max(event.at_ns);
        match event.kind {
            KernelKind::Switch { prev, next, prev_state, priorities } => {
                self.kernel_seen = true;
                if let Some(slot) = self.find(prev) {
                    self.book(slot);
                    self.threads[slot as usize].priority = priorities.map(|(prev, _)| prev);
                    self.unqueue(slot);
                    self.threads[slot as usize].place = Place::Asleep;
                    self.threads[slot as usize].yields = prev_state == OffCpu::Yielded;
                    if prev_state == OffCpu::Throttled {
                        self.threads[slot as usize].place = Place::Throttled;
                    } else if prev_state.could_go_on() && prev != next {
                        self.queue(slot, event.cpu);
                    }
                }
                if let Some(slot) = self.find(next) {
                    self.book(slot);
                    self.threads[slot as usize].priority = priorities.map(|(_, next)| next);
                    self.unqueue(slot);
                    self.threads[slot as usize].place = Place::Running;
                }
                self.turn(event.cpu, next, priorities.map(|(_, next)| next));
            }
            KernelKind::Waking { thread, by: Some(by), .. } => {
                let call = self.find(thread).and_then(|slot| self.threads[slot as usize].call.as_mut());
                if let Some(call) = call {
                    call.woken_by = Some(by);
                }
            }
            KernelKind::Wakeup { thread, target_cpu } => {
                let Some(slot) = self.find(thread) else { return };
                if self.threads[slot as usize].place == Place::Asleep {
                    self.book(slot);
                    self.queue(slot, target_cpu);
                }
            }
            KernelKind::Migrate { thread, to, .. } => {
                let Some(slot) = self.find(thread) else { return };
                if matches!(self.threads[slot as usize].place, Place::Queued { .. }) {
                    self.book(slot);
                    self.queue(slot, to);
                }
            }
            KernelKind::SystemCall { thread, number, inside_ns, .. } => {
                let Some(slot) = self.find(thread) else { return };
                let from_ns = self.now_ns.saturating_sub(inside_ns);
                self.threads[slot as usize].log.slept_in(number, from_ns);
                self.name_sleeps(slot, number, from_ns);
            }
            KernelKind::Sample { thread, spins, .. } => {
                if let Some(slot) = self.find(thread) {
                    self.threads[slot as usize].sample(spins, self.now_ns);
                }
            }
            _ => {}
        }
    }

    /// The thread, unless it has ended.
    fn find(&self, thread: ThreadId) -> Option<u32> {
        let slot = *self.by_id.get(&thread)?;
        (!self.threads[slot as usize].ended).then_some(slot)
    }

    fn queue(&mut self, slot: u32, on: u16) {
        self.unqueue(slot);
        let Some(cpu) = self.cpu(on) else { return };
        cpu.queued.push(slot);
        let behind = (cpu.current, cpu.priority);
        let behind_own = self.by_id.contains_key(&behind.0);
        let thread = &mut self.threads[slot as usize];
        (thread.place, thread.behind) = (Place::Queued { cpu: on }, behind);
        thread.behind_own = behind_own;
    }

    fn unqueue(&mut self, slot: u32) {
        if let Place::Queued { cpu } = self.threads[slot as usize].place
            && let Some(cpu) = self.cpu(cpu)
        {
            cpu.queued.retain(|queued| *queued != slot);
        }
    }

    /// A CPU goes to a thread, and all who wait for the CPU wait for that one.
    fn turn(&mut self, on: u16, current: ThreadId, priority: Option<i16>) {
        let Some(cpu) = self.cpu(on) else { return };
        (cpu.current, cpu.priority) = (current, priority);
        let queued = std::mem::take(&mut cpu.queued);
        for slot in &queued {
            self.book(*slot);
            self.threads[*slot as usize].behind = (current, priority);
            self.threads[*slot as usize].behind_own = self.by_id.contains_key(&current);
        }
        if let Some(cpu) = self.cpu(on) {
            cpu.queued = queued;
        }
    }

    /// What was found. `listed`: how many locks are shown. `ends_ns`: an instant until which each process image lasted at least, and
    /// from which on nothing of it was lost; 0 where there is none.
    pub fn finish(mut self, listed: usize, ends_ns: &[u64]) -> Contention {
        self.find_deadlocks(ends_ns);
        let (unended, standstills) = self.unended(listed, ends_ns);
        for slot in 0..self.threads.len() as u32 {
            self.break_off(slot, ends_ns);
        }
        let mut wait = self.others;
        self.locks.values().for_each(|lock| wait.merge(lock.waits()));
        let mut tried = Sums::default();
        self.locks.values().for_each(|lock| tried.merge(lock.rows()));
        let mut ranked: Vec<(u64, ObjectKey)> =
            self.locks.iter().map(|(key, lock)| (lock.sought_ns(), *key)).collect();
        ranked.sort_unstable_by_key(|(ns, key)| (Reverse(*ns), *key));
        let left_out = ranked.iter().skip(listed).filter(|(ns, _)| *ns > 0).count() as u64;
        ranked.truncate(listed);
        let locks = ranked.into_iter().filter_map(|(_, key)| Some(self.locks.remove(&key)?.figures(key)));
        let locks = locks.collect();
        let crowded_ns = self.threads.iter().map(|thread| thread.so_far().crowded_ns).sum();
        let others_ns = self.threads.iter().map(|thread| thread.so_far().others_ns).sum();
        let mut threads: Vec<ThreadTime> = self.threads.iter().map(Thread::time).collect();
        threads.sort_by_key(|one| (one.first_ns, one.thread));
        threads.truncate(LISTED_THREADS);
        let (word_wait, words, words_left_out) = self.words.figures(listed);
        let keys = words.iter().map(|word| ObjectKey { process: word.process, address: word.address });
        let given_back = keys.filter_map(|key| Some(self.word_locks.remove(&key)?.figures(key)));
        let given_back = given_back.filter(|one| one.held_ns > 0).collect();
        Contention {
            kernel_seen: self.kernel_seen,
            wait,
            tried,
            conditions: self.conditions.figures(listed),
            barriers: self.barriers.figures(listed),
            crowded_ns,
            others_ns,
            locks,
            locks_left_out: left_out,
            word_wait,
            words,
            words_left_out,
            given_back,
            word_rounds: self.word_rounds.figures(listed),
            unended,
            standstills,
            threads,
        }
    }

    /// A wait that is open at the end counts as far as anything was seen of it.
    fn break_off(&mut self, slot: u32, ends_ns: &[u64]) {
        if let Some(call) = self.threads[slot as usize].call {
            self.settle_readers(call.object, slot);
        }
        let needed_ns = self.needed_ns();
        let end_ns = self.seen_until_ns(slot, ends_ns);
        let thread = &mut self.threads[slot as usize];
        let Some(call) = thread.call.take_if(|call| call.spending != Spending::Join) else { return };
        let locks = if call.spending == Spending::Futex { &self.word_locks } else { &self.locks };
        let waiters = locks.get(&call.object).map_or(&[][..], |lock| &lock.waiters);
        let waiter = waiters.iter().find(|waiter| waiter.slot == slot);
        let seen_ns = waiter.map_or(0, |waiter| waiter.booked_ns).max(end_ns);
        thread.call = Some(call);
        thread.book(seen_ns, needed_ns);
        // Until then it waits, maybe for itself.
        self.give_up(slot, &call, seen_ns);
        self.words.unended(call.object, seen_ns.saturating_sub(call.entered_ns));
        self.threads[slot as usize].call = None;
    }
}

/// What happened before is needed by nobody.
fn needed_ns(open: &BTreeSet<(u64, u32)>, now_ns: u64) -> u64 {
    open.first().map_or(now_ns, |(entered_ns, _)| *entered_ns)
}
