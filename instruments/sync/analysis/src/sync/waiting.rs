//! Blocking calls: entries into the buffers, and who ended a wait.

use super::event::SyncEvent;
use super::keys::ObjectKey;
use super::objects::{Unlock, Waiter};
use super::observer::{Buffer, Message, Observer, Operation};
use super::protocol::Protocol;
use super::results::{OtherClass, SyncClass};
use super::threads::{OpenWait, Release, Slot, Waiting};
use quaver_abi::sync::{SyncKind, SyncOutcome};

/// Readers of a lock that are remembered while somebody waits for it.
const KEPT_READERS: usize = 64;

impl Waiting {
    /// In which buffer it is logged; none for joins, which need none.
    pub(super) const fn buffer(self) -> Option<Buffer> {
        match self {
            Self::Signal | Self::Barrier => Some(Buffer::Wait),
            Self::Lock | Self::ReadLock => Some(Buffer::Lock),
            Self::Join => None,
        }
    }
}

/// Who ended a wait, and what such a wait is.
struct Match {
    release: Release,
    class: SyncClass,
}

impl<O: Observer> Protocol<O> {
    /// w_e, l_e and their like.
    pub(super) fn enter(&mut self, event: &SyncEvent, slot: Slot, waiting: Waiting) {
        self.abandon_wait(slot);
        let order = self.order();
        let key = self.threads.get(slot).key(event.object);
        let entry = match waiting.buffer() {
            Some(buffer) => {
                let entry = self.cores.take(event.cpu, buffer);
                self.observer.buffer(event.cpu, buffer, Operation::Write, entry);
                entry
            }
            None => Some(0),
        };
        let mutex = if event.kind == SyncKind::WaitEntry { event.detail } else { 0 };
        let mut mark = None;
        if entry.is_some() && waiting != Waiting::Join {
            let objects = if waiting.is_lock() { &mut self.locks } else { &mut self.waits };
            let object = objects.get_or_add(key);
            object.waiters.push(Waiter { slot, order });
            // A broadcast that has begun may wake it too.
            mark = object.broadcasts.first().copied();
        }
        if let Some(waker) = mark.and_then(|release| self.threads.find(release.thread))
            && let Some(wake) = &mut self.threads.get_mut(waker).wake
        {
            wake.used = true;
        }
        if mutex != 0 {
            let release = Release {
                thread: event.thread,
                cpu: event.cpu,
                call_site: event.call_site,
                at_ns: self.now_ns,
                order,
                path: self.threads.get(slot).path,
            };
            let relock = self.relocks.entry((key.process, mutex)).or_default();
            relock.waiters += 1;
            relock.given = Some(Unlock { release, returned: None });
        }
        let state = self.state_of(slot);
        let now_ns = self.now_ns;
        let thread = self.threads.get_mut(slot);
        thread.timeline.begin(now_ns, state);
        thread.wait = Some(OpenWait {
            waiting,
            key,
            call_site: event.call_site,
            mutex,
            entered_ns: now_ns,
            order,
            cpu: event.cpu,
            entry,
            mark,
            woken: None,
            is_futex: event.kind == SyncKind::FutexWaitEntry,
        });
    }

    /// w_x, l_x and their like.
    pub(super) fn leave(&mut self, event: &SyncEvent, slot: Slot, waiting: Waiting) {
        let now_ns = self.now_ns;
        let thread = self.threads.get_mut(slot);
        let fits = |wait: &mut OpenWait| wait.waiting == waiting && wait.key.address == event.object;
        let Some(mut wait) = thread.wait.take_if(fits) else {
            self.counts.exits_alone += 1;
            return;
        };
        // Who called is found out at the end of a wait.
        wait.call_site = if event.call_site == 0 { wait.call_site } else { event.call_site };
        thread.waited_ns += now_ns - wait.entered_ns;
        let got = matches!(event.outcome, SyncOutcome::Ok | SyncOutcome::OwnerDied | SyncOutcome::Serial);
        self.count_outcome(event.outcome);
        if waiting == Waiting::Join {
            return self.leave_join(event, slot, &wait, got);
        }
        // Of a lock whose owner ended with it the kernel woke the waiter: no call of a thread did.
        let died = event.outcome == SyncOutcome::OwnerDied;
        let woken = got && !died;
        let found = if woken && wait.entry.is_some() { self.find_release(event, slot, &wait) } else { None };
        let relock = self.forget(slot, &wait);
        if wait.entry.is_some() {
            self.ask_units(event.cpu, &wait);
        }
        // Who arrives last at a barrier does not wait.
        let waited = found.as_ref().is_none_or(|found| found.class != SyncClass::Broadcast);
        if woken && waited {
            self.coverage.wake_ups += 1;
            self.coverage.matched += u64::from(found.is_some());
            self.coverage.overflowed += u64::from(wait.entry.is_none());
            self.coverage.without_waker += u64::from(wait.entry.is_some() && found.is_none());
        }
        match found {
            Some(found) if waited => self.settle(event, slot, &wait, &found.release, found.class, relock),
            Some(_) => self.settle_call(
                slot,
                SyncClass::Broadcast,
                wait.key,
                wait.call_site,
                event.cpu,
                wait.entered_ns,
            ),
            None => self.block(slot, wait.entered_ns),
        }
    }

    fn count_outcome(&mut self, outcome: SyncOutcome) {
        let count = match outcome {
            SyncOutcome::Ok | SyncOutcome::Serial => return,
            SyncOutcome::OwnerDied => &mut self.counts.owners_died,
            SyncOutcome::Timeout => &mut self.counts.timeouts,
            SyncOutcome::Interrupted => &mut self.counts.interrupted,
            SyncOutcome::Busy => &mut self.counts.busy,
            SyncOutcome::Deadlock | SyncOutcome::Failed | SyncOutcome::Cancelled => &mut self.counts.failed,
        };
        *count += 1;
    }

    fn find_release(&mut self, event: &SyncEvent, slot: Slot, wait: &OpenWait) -> Option<Match> {
        match wait.waiting {
            Waiting::Signal => {
                let object = self.waits.get_mut(wait.key)?;
                if let Some(release) = wait.woken {
                    object.signals.retain(|signal| signal.release.order != release.order);
                    return Some(Match { release, class: SyncClass::SignalWait });
                }
                let (release, broadcast) = object.take_signal(wait.order, wait.mark)?;
                let class = if broadcast { SyncClass::BroadcastWait } else { SyncClass::SignalWait };
                Some(Match { release, class })
            }
            Waiting::Barrier => self.find_arrival(slot, wait),
            Waiting::Lock | Waiting::ReadLock => {
                let reading = wait.waiting == Waiting::ReadLock;
                let object = self.locks.get_mut(wait.key)?;
                let mut release = object.unlock_since(wait.order, reading);
                if reading && !object.readers.contains(&event.thread) {
                    if object.readers.len() == KEPT_READERS {
                        object.readers.remove(0);
                    }
                    object.readers.push(event.thread);
                }
                // A wait on a condition gives its mutex back some time after its entry.
                let given = self.relocks.get(&(wait.key.process, wait.key.address as u32));
                if let Some(given) = given.and_then(|relock| relock.given)
                    && !reading
                    && given.reaches(wait.order)
                    && release.is_none_or(|release| release.order < given.release.order)
                {
                    release = Some(given.release);
                }
                Some(Match { release: release?, class: SyncClass::LockUnlock })
            }
            Waiting::Join => None,
        }
    }

    /// The last arrival at a barrier lets all through that had arrived when the first of them leaves.
    fn find_arrival(&mut self, slot: Slot, wait: &OpenWait) -> Option<Match> {
        if let Some(release) = wait.mark {
            return Some(Match { release, class: class_at_barrier(&release, wait) });
        }
        let object = self.waits.get_mut(wait.key)?;
        let threads = &mut self.threads;
        let is_new = |waiter: &&Waiter| {
            waiter.slot == slot || threads.get(waiter.slot).wait.is_some_and(|wait| wait.mark.is_none())
        };
        let last = *object.waiters.iter().rev().find(is_new)?;
        let arrived = threads.get(last.slot);
        let arrival = if last.slot == slot { wait } else { arrived.wait.as_ref()? };
        let release = Release {
            thread: arrived.id,
            cpu: arrival.cpu,
            call_site: arrival.call_site,
            at_ns: arrival.entered_ns,
            order: arrival.order,
            path: arrived.path,
        };
        for waiter in object.waiters.iter().filter(|waiter| waiter.slot != slot) {
            if let Some(wait) = &mut threads.get_mut(waiter.slot).wait {
                wait.mark.get_or_insert(release);
                if let Some(entry) = wait.entry {
                    self.observer.buffer(wait.cpu, Buffer::Wait, Operation::ModifyTimestamp, Some(entry));
                }
            }
        }
        self.cores.figures.broadcasts += 1;
        self.observer.message(release.cpu, Message::Release);
        Some(Match { release, class: class_at_barrier(&release, wait) })
    }

    fn leave_join(&mut self, event: &SyncEvent, slot: Slot, wait: &OpenWait, got: bool) {
        let child = got.then(|| self.threads.by_pthread(wait.key)).flatten();
        let ended = child.map(|child| self.threads.get(child)).filter(|child| child.ended);
        let Some(ended) = ended.map(|child| (child.last_ns, child.path, child.count_ns)) else {
            return self.block(slot, wait.entered_ns);
        };
        let (ended_ns, path, count_ns) = ended;
        let late_ns = self.settings.late_ns(self.since(ended_ns.max(wait.entered_ns)));
        let thread = self.threads.get_mut(slot);
        thread.count_ns = thread.count_ns.max(count_ns);
        if ended_ns > wait.entered_ns {
            thread.path = path;
            thread.path.hand_overs += 1;
        }
        if let Some(late_ns) = late_ns {
            self.lose(slot, event.cpu, OtherClass::Join, late_ns);
        }
        if let Some(child) = child.filter(|child| *child != slot) {
            self.joined(child);
        }
    }

    /// Looks the wait up in the buffer of the core where it began, from the core where it ended.
    fn ask_units(&mut self, cpu: u16, wait: &OpenWait) {
        let Some(buffer) = wait.waiting.buffer() else { return };
        let moved = cpu != wait.cpu;
        if moved {
            self.cores.figures.queries += 1;
            self.observer.buffer(cpu, buffer, Operation::LookUp, None);
            self.observer.message(cpu, Message::Query);
        }
        self.observer.buffer(wait.cpu, buffer, Operation::LookUp, wait.entry);
        if moved {
            self.observer.message(wait.cpu, Message::Answer);
        }
    }

    /// Takes a wait that has ended out of everything; returns the last release by somebody else of the mutex that
    /// it had to take again.
    fn forget(&mut self, slot: Slot, wait: &OpenWait) -> Option<Release> {
        if let (Some(buffer), Some(entry)) = (wait.waiting.buffer(), wait.entry) {
            self.cores.give(wait.cpu, buffer, entry);
            let objects = if wait.waiting.is_lock() { &mut self.locks } else { &mut self.waits };
            if let Some(object) = objects.get_mut(wait.key) {
                object.remove_waiter(slot);
                self.counts.signals_for_nobody += object.drop_dead_signals();
            }
            objects.settle(wait.key);
        }
        if wait.mutex == 0 {
            return None;
        }
        let name = (wait.key.process, wait.mutex);
        let order = self.order();
        let relock = self.relocks.get_mut(&name)?;
        relock.waiters -= 1;
        if let Some(given) = relock.given.as_mut().filter(|given| given.release.order == wait.order) {
            given.returned = Some(order);
        }
        let last = relock.last;
        if relock.waiters == 0 {
            self.relocks.remove(&name);
        }
        let own = self.threads.get(slot).id;
        last.filter(|release| release.thread != own)
    }

    /// The wait will not return: its exit was lost, or the thread ended.
    pub(super) fn abandon_wait(&mut self, slot: Slot) {
        let Some(wait) = self.threads.get_mut(slot).wait.take() else { return };
        self.counts.entries_alone += 1;
        self.forget(slot, &wait);
    }

    /// A wait that nobody is known to have ended.
    fn block(&mut self, slot: Slot, entered_ns: u64) {
        let now_ns = self.now_ns;
        self.threads.get_mut(slot).path.block(entered_ns, now_ns);
    }

    /// Marks all who wait on a condition by a broadcast; whether there was anybody.
    pub(super) fn mark_waiters(&mut self, key: ObjectKey, release: &Release) -> bool {
        let Some(object) = self.waits.get_mut(key) else { return false };
        let mut used = false;
        for waiter in &object.waiters {
            let Some(wait) = &mut self.threads.get_mut(waiter.slot).wait else { continue };
            // A broadcast from before the wait began yields to one since.
            if wait.mark.is_none_or(|mark| mark.order < wait.order) {
                wait.mark = Some(*release);
                used = true;
            }
            self.observer.buffer(wait.cpu, Buffer::Wait, Operation::ModifyTimestamp, wait.entry);
        }
        used
    }
}

impl Waiting {
    pub(super) const fn is_lock(self) -> bool {
        matches!(self, Self::Lock | Self::ReadLock)
    }
}

fn class_at_barrier(release: &Release, wait: &OpenWait) -> SyncClass {
    if release.order == wait.order { SyncClass::Broadcast } else { SyncClass::BroadcastWait }
}
