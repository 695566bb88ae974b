//! The protocol: which event is whose business, and the lives of threads.

use super::books::Books;
use super::cores::Cores;
use super::event::{AnyEvent, SyncEvent, ThreadId};
use super::keys::AddressMap;
use super::objects::{Objects, Unlock};
use super::observer::Observer;
use super::results::{Counts, Coverage, OtherClass, SyncClass, Wait};
use super::settings::Settings;
use super::threads::{OpenCreate, Release, Slot, Threads, Waiting};
use super::timeline::Whereabouts;
use quaver_abi::sync::{SyncKind, SyncOutcome};

/// Creations kept whose thread has not been seen; more than that were lost.
const KEPT_CREATIONS: usize = 65_536;

/// A mutex that waits on conditions will have to take again.
#[derive(Debug, Default)]
pub(super) struct Relock {
    pub(super) waiters: u32,
    /// The latest unlock by anybody.
    pub(super) last: Option<Release>,
    /// The latest wait that gives it back, until that returns.
    pub(super) given: Option<Unlock>,
}

/// The units of all cores and what they have found so far.
#[derive(Debug)]
pub struct Protocol<O: Observer = ()> {
    pub(super) settings: Settings,
    pub(super) observer: O,
    pub(super) counts: Counts,
    pub(super) coverage: Coverage,
    pub(super) from_ns: Option<u64>,
    pub(super) now_ns: u64,
    /// Of the next event: see [`Self::excuse`].
    excused_ns: u64,
    pub(super) threads: Threads,
    /// Conditions, semaphores, futex words and barriers.
    pub(super) waits: Objects,
    pub(super) locks: Objects,
    /// By process image and the low half of the mutex's address, which is all that a wait names.
    pub(super) relocks: AddressMap<(u16, u32), Relock>,
    pub(super) cores: Cores,
    pub(super) books: Books,
    pub(super) runnable: u32,
    pub(super) most_runnable: u32,
    pub(super) crowded_ns: u64,
    /// Filled anew for each late wait, so that none takes memory.
    pub(super) scratch: Wait,
}

impl Protocol {
    /// Nothing has happened yet.
    pub fn new(settings: Settings) -> Self {
        Self::with_observer(settings, ())
    }
}

impl<O: Observer> Protocol<O> {
    /// Nothing has happened yet; `observer` sees what will.
    pub fn with_observer(settings: Settings, observer: O) -> Self {
        Self {
            settings,
            observer,
            counts: Counts::default(),
            coverage: Coverage::default(),
            from_ns: None,
            now_ns: 0,
            excused_ns: 0,
            threads: Threads::default(),
            waits: Objects::default(),
            locks: Objects::default(),
            relocks: AddressMap::default(),
            cores: Cores::new(settings.buffer_entries),
            books: Books::new(settings.shown_waits),
            runnable: 0,
            most_runnable: 0,
            crowded_ns: 0,
            scratch: Wait::nothing(),
        }
    }

    /// Takes the next event of either side.
    pub fn any(&mut self, event: &AnyEvent) {
        match event {
            AnyEvent::Sync(event) => self.event(event),
            AnyEvent::Kernel(event) => self.kernel(event),
        }
    }

    /// So many records were lost by the recorder.
    pub fn lost(&mut self, records: u64) {
        self.counts.lost_records += records;
    }

    /// The thread's counter by the fork/join rule: time lost in its frame so far. None of a thread that was not seen
    /// or has been joined.
    pub fn count_ns(&mut self, thread: ThreadId) -> Option<u64> {
        let slot = self.threads.find(thread)?;
        Some(self.threads.get(slot).count_ns)
    }

    /// What the thread itself has lost so far, in the six classes and outside them. None of a thread that was not seen or
    /// has been joined.
    pub fn lost_ns(&mut self, thread: ThreadId) -> Option<u64> {
        let slot = self.threads.find(thread)?;
        Some(self.threads.get(slot).lost_ns())
    }

    /// How many operations of the thread in the six classes were late so far, 0 of a thread that was not seen or has been joined.
    pub fn late_operations(&mut self, thread: ThreadId) -> u64 {
        let Some(slot) = self.threads.find(thread) else { return 0 };
        self.threads.get(slot).classes.iter().map(|class| class.count).sum()
    }

    /// The thread of the next event could have run for so long before it, nanoseconds, and waited for its CPU. That is no lateness
    /// where threads of the program take turns in any case.
    pub fn excuse(&mut self, queued_ns: u64) {
        self.excused_ns = queued_ns;
    }

    /// Time since `from_ns`, without what is excused, nanoseconds.
    pub(super) fn since(&self, from_ns: u64) -> u64 {
        self.now_ns.saturating_sub(from_ns).saturating_sub(self.excused_ns)
    }

    /// Who watches.
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// Who watches, to be told something.
    pub fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }

    /// Takes the next event of the thread library. Events come in time order, both sides together; one that is
    /// earlier than the one before counts as of its time.
    pub fn event(&mut self, event: &SyncEvent) {
        self.advance(event.at_ns);
        if event.kind == SyncKind::Initialised {
            return;
        }
        self.counts.events += 1;
        if !event.kind.is_call() {
            return;
        }
        let slot = self.thread_of(event);
        self.threads.get_mut(slot).last_ns = self.now_ns;
        if let Some(core) = self.cores.get_mut(event.cpu) {
            core.last = Some(event.thread);
        }
        match event.kind {
            SyncKind::LockEntry => self.enter(event, slot, Waiting::Lock),
            SyncKind::ReadLockEntry => self.enter(event, slot, Waiting::ReadLock),
            SyncKind::WaitEntry | SyncKind::SemWaitEntry | SyncKind::FutexWaitEntry => {
                self.enter(event, slot, Waiting::Signal);
            }
            SyncKind::BarrierEntry => self.enter(event, slot, Waiting::Barrier),
            SyncKind::JoinEntry => self.enter(event, slot, Waiting::Join),
            SyncKind::LockExit => self.leave(event, slot, Waiting::Lock),
            SyncKind::ReadLockExit => self.leave(event, slot, Waiting::ReadLock),
            SyncKind::WaitExit | SyncKind::SemWaitExit | SyncKind::FutexWaitExit => {
                self.leave(event, slot, Waiting::Signal);
            }
            SyncKind::BarrierExit => self.leave(event, slot, Waiting::Barrier),
            SyncKind::JoinExit => self.leave(event, slot, Waiting::Join),
            SyncKind::UnlockEntry => self.release(event, slot, SyncClass::Unlock),
            SyncKind::SignalEntry | SyncKind::PostEntry => self.release(event, slot, SyncClass::Signal),
            SyncKind::BroadcastEntry => self.release(event, slot, SyncClass::Broadcast),
            SyncKind::FutexWakeEntry if event.detail == 1 => self.release(event, slot, SyncClass::Signal),
            SyncKind::FutexWakeEntry => self.release(event, slot, SyncClass::Broadcast),
            SyncKind::UnlockExit
            | SyncKind::SignalExit
            | SyncKind::PostExit
            | SyncKind::BroadcastExit
            | SyncKind::FutexWakeExit => self.released(event, slot),
            SyncKind::Create => self.create(slot),
            SyncKind::CreateExit => self.created(event, slot),
            SyncKind::ThreadStart => self.start(event, slot),
            SyncKind::ThreadExit => self.end(slot),
            // No calls.
            SyncKind::Anchor
            | SyncKind::Taken
            | SyncKind::GivenBack
            | SyncKind::Initialised
            | SyncKind::TryEntry
            | SyncKind::TryExit
            | SyncKind::Stack
            | SyncKind::StackWords => {}
        }
        self.recount(slot);
        self.excused_ns = 0;
    }

    pub(super) fn advance(&mut self, at_ns: u64) {
        self.from_ns.get_or_insert(at_ns);
        if at_ns < self.now_ns {
            self.counts.out_of_order += 1;
            return;
        }
        if self.settings.cpus.is_some_and(|cpus| self.runnable > cpus) {
            self.crowded_ns += at_ns - self.now_ns;
        }
        self.now_ns = at_ns;
    }

    /// Place of the newest event among those of the library.
    pub(super) fn order(&self) -> u64 {
        self.counts.events
    }

    /// Whether the thread can run, counted anew.
    pub(super) fn recount(&mut self, slot: Slot) {
        let thread = self.threads.get_mut(slot);
        let runnable = !thread.ended
            && match thread.timeline.whereabouts {
                Whereabouts::Unknown => thread.wait.is_none(),
                Whereabouts::Running { .. } | Whereabouts::Queued { .. } => true,
                Whereabouts::Asleep => false,
            };
        if runnable != thread.counted {
            thread.counted = runnable;
            self.runnable = if runnable { self.runnable + 1 } else { self.runnable - 1 };
            self.most_runnable = self.most_runnable.max(self.runnable);
        }
    }

    fn thread_of(&mut self, event: &SyncEvent) -> Slot {
        let Some(slot) = self.threads.find(event.thread) else {
            return self.threads.add(event.thread, event.process, self.now_ns);
        };
        let old = self.threads.get(slot);
        if old.process == event.process && event.kind != SyncKind::ThreadStart {
            return slot;
        }
        // The number was given again, or the process replaced itself by another program, and its time goes on.
        let goes_on = !old.ended && old.process != event.process;
        let (path, count_ns) = (old.path, old.count_ns);
        self.retire(slot);
        let slot = self.threads.add(event.thread, event.process, self.now_ns);
        if goes_on {
            let new = self.threads.get_mut(slot);
            (new.path, new.count_ns) = (path, count_ns);
        }
        slot
    }

    fn retire(&mut self, slot: Slot) {
        self.abandon(slot);
        let thread = self.threads.get_mut(slot);
        if thread.counted {
            thread.counted = false;
            self.runnable -= 1;
        }
        if let Whereabouts::Queued { cpu, .. } = thread.timeline.whereabouts
            && let Some(core) = self.cores.get_mut(cpu)
        {
            core.queued.retain(|queued| *queued != slot);
        }
        self.threads.retire(slot, self.settings.listed);
    }

    fn create(&mut self, slot: Slot) {
        let thread = self.threads.get_mut(slot);
        thread.create = Some(OpenCreate {
            at_ns: self.now_ns,
            path: thread.path,
            count_ns: thread.count_ns,
            started: false,
        });
    }

    fn created(&mut self, event: &SyncEvent, slot: Slot) {
        let thread = self.threads.get_mut(slot);
        let key = thread.key(event.object);
        let Some(create) = thread.create.take() else {
            self.counts.exits_alone += 1;
            return;
        };
        if !create.started && event.outcome == SyncOutcome::Ok {
            if self.threads.created.len() >= KEPT_CREATIONS {
                self.threads.created.clear();
            }
            self.threads.created.insert(key, create);
        }
    }

    fn start(&mut self, event: &SyncEvent, slot: Slot) {
        self.threads.name(slot, event.object);
        let key = self.threads.get(slot).key(event.object);
        let creator = (event.detail != 0).then(|| self.threads.find(ThreadId(event.detail))).flatten();
        let create = self.threads.created.remove(&key).or_else(|| {
            let open = self.threads.get_mut(creator?).create.as_mut().filter(|create| !create.started)?;
            open.started = true;
            Some(*open)
        });
        let Some(create) = create else { return };
        let late_ns = self.settings.late_ns(self.since(create.at_ns));
        let thread = self.threads.get_mut(slot);
        (thread.path, thread.count_ns) = (create.path, create.count_ns);
        thread.path.hand_overs += 1;
        if let Some(late_ns) = late_ns {
            self.lose(slot, event.cpu, OtherClass::Start, late_ns);
        }
    }

    fn end(&mut self, slot: Slot) {
        self.abandon(slot);
        if let Some(old) = self.threads.end(slot)
            && old != slot
        {
            self.retire(old);
        }
    }

    /// The thread does something else: what it was doing will not return.
    fn abandon(&mut self, slot: Slot) {
        self.abandon_wait(slot);
        self.abandon_wake(slot);
    }

    /// Books time lost outside the six classes.
    pub(super) fn lose(&mut self, slot: Slot, cpu: u16, class: OtherClass, lost_ns: u64) {
        self.books.lost(class, lost_ns);
        let now_ns = self.now_ns;
        let thread = self.threads.get_mut(slot);
        thread.count_lost(lost_ns);
        thread.last_ns = now_ns;
        match class {
            // Interrupts and preemption since it slept are booked already.
            OtherClass::SystemCall => thread.path.lose_earlier(lost_ns, now_ns),
            _ => thread.path.lose(lost_ns, now_ns),
        }
        if let Some(core) = self.cores.get_mut(cpu) {
            core.other.add(lost_ns);
        }
    }

    /// A child was joined: it is not asked for any more.
    pub(super) fn joined(&mut self, child: Slot) {
        self.retire(child);
    }
}
