//! Calls that wake others: signal, post, broadcast, unlock.

use super::event::SyncEvent;
use super::objects::{Signal, Unlock};
use super::observer::{Buffer, Message, Observer, Operation};
use super::protocol::Protocol;
use super::results::SyncClass;
use super::threads::{OpenWake, Release, Slot};
use quaver_abi::sync::{SyncKind, SyncOutcome, outcome_flags};

impl<O: Observer> Protocol<O> {
    /// s_e, b_e or u_e.
    pub(super) fn release(&mut self, event: &SyncEvent, slot: Slot, class: SyncClass) {
        let inside_wait = event.flags & outcome_flags::INSIDE_WAIT != 0;
        if !inside_wait {
            self.abandon_wake(slot);
        }
        let thread = self.threads.get(slot);
        let key = thread.key(event.object);
        let release = Release {
            thread: event.thread,
            cpu: event.cpu,
            call_site: event.call_site,
            at_ns: self.now_ns,
            order: self.order(),
            path: thread.path,
        };
        self.cores.figures.broadcasts += 1;
        self.observer.message(event.cpu, Message::Release);
        let mut used = false;
        match class {
            SyncClass::Signal => {
                let object = self.waits.get_or_add(key);
                object.signals.push(Signal { release, returned: None });
                if self.cores.are_limited() {
                    self.stamp_entries(event, false);
                }
            }
            SyncClass::Broadcast => {
                self.waits.get_or_add(key).broadcasts.push(release);
                used = self.mark_waiters(key, &release);
            }
            _ => self.unlock(event, slot, &release, inside_wait),
        }
        if !inside_wait {
            self.threads.get_mut(slot).wake = Some(OpenWake {
                class,
                is_post: event.kind == SyncKind::PostEntry,
                key,
                cpu: event.cpu,
                call_site: event.call_site,
                entered_ns: self.now_ns,
                order: release.order,
                used,
                is_futex: event.kind == SyncKind::FutexWakeEntry,
            });
        }
    }

    fn unlock(&mut self, event: &SyncEvent, slot: Slot, release: &Release, inside_wait: bool) {
        let key = self.threads.get(slot).key(event.object);
        let object = self.locks.get_or_add(key);
        let unlock = Unlock { release: *release, returned: inside_wait.then_some(release.order) };
        object.unlock = Some(unlock);
        match object.readers.iter().position(|reader| *reader == event.thread) {
            Some(reader) => {
                object.readers.swap_remove(reader);
            }
            None => object.write_unlock = Some(unlock),
        }
        if self.cores.are_limited() {
            self.stamp_entries(event, true);
        }
        if !self.relocks.is_empty()
            && let Some(relock) = self.relocks.get_mut(&(key.process, key.address as u32))
        {
            relock.last = Some(*release);
        }
        if inside_wait {
            self.locks.settle(key);
        }
    }

    /// What limited units do with a message: each stamps its entries of the object.
    fn stamp_entries(&mut self, event: &SyncEvent, lock: bool) {
        let (objects, buffer) =
            if lock { (&mut self.locks, Buffer::Lock) } else { (&mut self.waits, Buffer::Wait) };
        let key = super::keys::ObjectKey::of(event.process, event.object);
        let Some(object) = objects.get_mut(key) else { return };
        for waiter in &object.waiters {
            if let Some(wait) = &self.threads.get(waiter.slot).wait {
                self.observer.buffer(wait.cpu, buffer, Operation::ModifyTimestamp, wait.entry);
            }
        }
    }

    /// s_x, b_x or u_x.
    pub(super) fn released(&mut self, event: &SyncEvent, slot: Slot) {
        if event.flags & outcome_flags::INSIDE_WAIT != 0 {
            return;
        }
        let class = match event.kind {
            SyncKind::UnlockExit => Some(SyncClass::Unlock),
            SyncKind::SignalExit | SyncKind::PostExit => Some(SyncClass::Signal),
            SyncKind::BroadcastExit => Some(SyncClass::Broadcast),
            // The entry told.
            _ => None,
        };
        let fits = |wake: &mut OpenWake| {
            class.is_none_or(|class| wake.class == class) && wake.key.address == event.object
        };
        let Some(wake) = self.threads.get_mut(slot).wake.take_if(fits) else {
            self.counts.exits_alone += 1;
            return;
        };
        let woke = (event.kind == SyncKind::FutexWakeExit).then_some(event.detail);
        self.close(slot, &wake, woke);
        if event.outcome != SyncOutcome::Ok {
            self.counts.failed += 1;
        }
        self.settle_call(slot, wake.class, wake.key, wake.call_site, event.cpu, wake.entered_ns);
    }

    /// The call will not return: its exit was lost, or the thread ended.
    pub(super) fn abandon_wake(&mut self, slot: Slot) {
        let Some(wake) = self.threads.get_mut(slot).wake.take() else { return };
        self.counts.entries_alone += 1;
        self.close(slot, &wake, None);
    }

    /// The kernel wakes a thread on behalf of the one that `waker` is. A thread that does not wait for the word, as far as is known,
    /// began to wait before the recording: the wake is used up all the same.
    pub(super) fn wakes(&mut self, waker: Slot, woken: Option<Slot>) {
        let in_kernel = |wake: &OpenWake| wake.is_futex || wake.is_post;
        let Some(wake) = self.threads.get(waker).wake.filter(in_kernel) else { return };
        if self.wakes_by_another_word(waker, &wake, woken) {
            return;
        }
        let Some(object) = self.waits.get_mut(wake.key) else { return };
        let own = |signal: &&Signal| signal.release.order == wake.order;
        let Some(release) = object.signals.iter().find(own).map(|signal| signal.release) else { return };
        let wait = woken.and_then(|woken| self.threads.get_mut(woken).wait.as_mut());
        match wait.filter(|wait| wait.key == wake.key) {
            // Of two posts that woke it, somebody else took the first.
            Some(wait) => match wait.woken.replace(release) {
                Some(taken) if taken.order != release.order => {
                    object.signals.retain(|signal| signal.release.order != taken.order);
                }
                _ => {}
            },
            None => object.signals.retain(|signal| signal.release.order != wake.order),
        }
    }

    /// A futex call wakes a thread that waits on another word: that was moved to the word of the call, or the call has two words.
    fn wakes_by_another_word(&mut self, waker: Slot, wake: &OpenWake, woken: Option<Slot>) -> bool {
        let by = self.threads.get(waker);
        let release = Release {
            thread: by.id,
            cpu: wake.cpu,
            call_site: wake.call_site,
            at_ns: wake.entered_ns,
            order: wake.order,
            path: by.path,
        };
        let wait = woken.and_then(|woken| self.threads.get_mut(woken).wait.as_mut());
        let moved = wait.filter(|wait| wake.is_futex && wait.is_futex && wait.key != wake.key);
        let Some(wait) = moved else { return false };
        wait.woken = Some(release);
        if let Some(open) = &mut self.threads.get_mut(waker).wake {
            open.used = true;
        }
        true
    }

    /// From now on it reaches nobody who begins to wait. `woke`: how many it woke, where the kernel told.
    fn close(&mut self, slot: Slot, wake: &OpenWake, woke: Option<u32>) {
        let order = self.order();
        let id = self.threads.get(slot).id;
        let objects = if wake.class == SyncClass::Unlock { &mut self.locks } else { &mut self.waits };
        let Some(object) = objects.get_mut(wake.key) else { return };
        match wake.class {
            SyncClass::Signal => {
                let own = |signal: &Signal| signal.release.thread == id && signal.release.order == wake.order;
                let threads = &self.threads;
                let waits = object.waiters.iter().filter_map(|waiter| threads.get(waiter.slot).wait.as_ref());
                let taken: Vec<u64> = waits.filter_map(|wait| Some(wait.woken?.order)).collect();
                if let Some(index) = object.signals.iter().position(own) {
                    object.signals[index].returned = Some(order);
                    let mut dropped = object.drop_dead_signals();
                    let is_other = |one: &Signal| {
                        one.returned.is_some() && !own(one) && !taken.contains(&one.release.order)
                    };
                    let others = object.signals.iter().filter(|one| is_other(one)).count();
                    // As many are on their way as wait: it wakes nobody. Of a semaphore the oldest does not:
                    // somebody who found it above zero took that one.
                    let surplus = match others >= object.waiters.len() - taken.len() {
                        _ if woke == Some(0) => object.signals.iter().position(own),
                        _ if taken.contains(&wake.order) => None,
                        true if wake.is_post || woke.is_some() => object.signals.iter().position(is_other),
                        true => object.signals.iter().position(own),
                        false => None,
                    };
                    if let Some(index) = surplus {
                        object.signals.remove(index);
                        dropped += 1;
                    }
                    self.counts.signals_for_nobody += dropped;
                }
            }
            SyncClass::Broadcast => {
                object.broadcasts.retain(|one| one.order != wake.order);
                self.counts.broadcasts_for_nobody += u64::from(!wake.used);
            }
            _ => {
                for unlock in [&mut object.unlock, &mut object.write_unlock].into_iter().flatten() {
                    if unlock.release.order == wake.order {
                        unlock.returned = Some(order);
                    }
                }
            }
        }
        objects.settle(wake.key);
    }
}
