//! What a matched wait and a finished call come to: their time, what was late of it, and why.

use super::event::SyncEvent;
use super::keys::{ObjectKey, SHARED_PROCESS};
use super::observer::{Observer, Timed, Wakeup};
use super::protocol::Protocol;
use super::results::{SyncClass, Wait};
use super::threads::{OpenWait, Release, Slot, Waiting};
use super::timeline::{Mutex, Whereabouts};
use quaver_abi::sync::CPU_UNKNOWN;

impl Wait {
    /// To be filled.
    pub(super) const fn nothing() -> Self {
        Self {
            class: SyncClass::SignalWait,
            process: 0,
            thread: super::event::ThreadId(0),
            waker: super::event::ThreadId(0),
            object: 0,
            call_site: 0,
            waker_call_site: 0,
            entered_ns: 0,
            released_ns: 0,
            ended_ns: 0,
            entered_cpu: CPU_UNKNOWN,
            waker_cpu: CPU_UNKNOWN,
            ended_cpu: CPU_UNKNOWN,
            case: 1,
            kernel_pairs: 0,
            pieces: Vec::new(),
        }
    }
}

impl<O: Observer> Protocol<O> {
    /// A wait was ended by `release`.
    pub(super) fn settle(
        &mut self,
        event: &SyncEvent,
        slot: Slot,
        wait: &OpenWait,
        release: &Release,
        class: SyncClass,
        relock: Option<Release>,
    ) {
        let now_ns = self.now_ns;
        let released_ns = release.at_ns.max(wait.entered_ns);
        let relock = relock.filter(|relock| relock.order > release.order.max(wait.order));
        self.take_path(slot, wait, release, relock.as_ref(), class);
        let last = relock.as_ref().unwrap_or(release);
        if last.thread != event.thread {
            let released_ns = last.at_ns.max(wait.entered_ns);
            self.observer.woken(&Wakeup {
                thread: event.thread,
                by: last.thread,
                released_ns,
                waited_ns: released_ns - wait.entered_ns,
                met: matches!(wait.waiting, Waiting::Barrier),
            });
        }
        let timeline = &self.threads.get(slot).timeline;
        let known = timeline.whereabouts != Whereabouts::Unknown;
        let others_first = timeline.others_first;
        let moved = wait.cpu != event.cpu && wait.cpu != CPU_UNKNOWN && event.cpu != CPU_UNKNOWN;
        let case = match (moved, others_first) {
            (true, _) => 3,
            (false, 0) => 1,
            (false, _) => 2,
        };
        self.counts.cases[case - 1] += 1;
        if let (true, Some(core)) = (moved, self.cores.get_mut(event.cpu)) {
            core.migrations += 1;
        }
        let took_ns = self.since(released_ns);
        self.books.timed(class, took_ns);
        self.observer.timed(&Timed {
            class,
            thread: event.thread,
            by: release.thread,
            release: release.order,
            took_ns,
            held_ns: last.at_ns.saturating_sub(released_ns),
        });
        let Some(late_ns) = self.settings.late_ns(took_ns) else { return };
        self.late(slot, class, wait.key, wait.call_site, event.cpu, late_ns);
        let mut pieces = std::mem::take(&mut self.scratch.pieces);
        let mutex = match relock {
            Some(relock) => Mutex::FreeAt(relock.at_ns),
            None if wait.mutex != 0 => Mutex::NotTold,
            None => Mutex::None,
        };
        // An address in another process has no name in this one.
        let waker = self.threads.find(release.thread).map(|waker| self.threads.get(waker).process);
        let is_foreign = wait.key.process == SHARED_PROCESS && waker != Some(event.process);
        let waker_call_site = if is_foreign { 0 } else { release.call_site };
        self.threads.get(slot).timeline.cut(released_ns, now_ns, mutex, &mut pieces);
        self.scratch = Wait {
            class,
            process: event.process,
            thread: event.thread,
            waker: release.thread,
            object: event.object,
            call_site: wait.call_site,
            waker_call_site,
            entered_ns: wait.entered_ns,
            released_ns,
            ended_ns: now_ns,
            entered_cpu: wait.cpu,
            waker_cpu: release.cpu,
            ended_cpu: event.cpu,
            case: case as u8,
            kernel_pairs: if known { others_first + 1 } else { 0 },
            pieces,
        };
        let run_queue_ns = self.books.pieces(&self.scratch);
        self.threads.get_mut(slot).run_queue_ns += run_queue_ns;
        self.books.show(&self.scratch);
        self.observer.late_wait(&self.scratch);
    }

    /// The critical path to the end of a wait leads through what came last: the release, or the mutex.
    fn take_path(
        &mut self,
        slot: Slot,
        wait: &OpenWait,
        release: &Release,
        relock: Option<&Release>,
        class: SyncClass,
    ) {
        let now_ns = self.now_ns;
        let last = relock.unwrap_or(release);
        let took_ns = self.since(last.at_ns.max(wait.entered_ns));
        let thread = self.threads.get_mut(slot);
        if last.order > wait.order {
            thread.path = last.path;
            thread.path.hand_overs += 1;
        }
        if let Some(late_ns) = self.settings.late_ns(took_ns) {
            thread.path.late(class, late_ns, now_ns);
        }
    }

    /// A call of signal, broadcast or unlock has returned; so has the last arrival at a barrier.
    pub(super) fn settle_call(
        &mut self,
        slot: Slot,
        class: SyncClass,
        key: ObjectKey,
        call_site: u64,
        cpu: u16,
        entered_ns: u64,
    ) {
        let now_ns = self.now_ns;
        let took_ns = now_ns - entered_ns;
        self.books.timed(class, took_ns);
        let thread = self.threads.get(slot).id;
        self.observer.timed(&Timed { class, thread, by: thread, release: 0, took_ns, held_ns: 0 });
        let Some(late_ns) = self.settings.late_ns(took_ns) else { return };
        self.late(slot, class, key, call_site, cpu, late_ns);
        let thread = self.threads.get_mut(slot);
        // A handler that signals inside a wait makes that wait longer, which counts already.
        if thread.wait.is_none() {
            thread.path.late(class, late_ns, now_ns);
        }
    }

    fn late(&mut self, slot: Slot, class: SyncClass, key: ObjectKey, call_site: u64, cpu: u16, late_ns: u64) {
        let thread = self.threads.get_mut(slot);
        let call_site = ObjectKey { address: call_site, process: thread.process };
        self.books.late(class, key, call_site, late_ns);
        thread.classes[class as usize].add(late_ns);
        thread.count_ns += late_ns;
        if let Some(core) = self.cores.get_mut(cpu) {
            core.classes[class as usize].add(late_ns);
        }
    }
}
