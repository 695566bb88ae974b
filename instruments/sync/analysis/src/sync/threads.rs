//! The thread list: what each thread is doing, and what its time has gone into so far.

use super::event::ThreadId;
use super::keys::{AddressMap, ObjectKey};
use super::results::{Sums, SyncClass, ThreadFigures};
use super::timeline::ThreadTimeline;
use std::collections::VecDeque;

/// Place of a thread in the list. Taken again when the thread is retired.
pub(super) type Slot = u32;

/// Ended threads that nobody has joined are kept up to this number.
const KEPT_ENDED: usize = 4_096;

/// What the longest chain of events up to a point consists of; execution is the rest of the time since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) classes_ns: [u64; 6],
    pub(super) other_ns: u64,
    pub(super) blocked_ns: u64,
    /// Sleep outside of calls of the library.
    pub(super) slept_ns: u64,
    /// In loops that wait for others, by samples.
    pub(super) spun_ns: u64,
    pub(super) hand_overs: u64,
    /// Everything before is accounted for: parts never overlap.
    pub(super) accounted_ns: u64,
    /// Execution before that.
    pub(super) executed_ns: u64,
}

impl Path {
    /// Books lost time that ended at `now_ns`, as far as it is not booked yet.
    pub(super) fn lose(&mut self, lost_ns: u64, now_ns: u64) {
        self.other_ns += self.account(lost_ns, now_ns);
    }

    /// Books lost time that ended before `now_ns`, and lies before or between what is booked already: it was taken for
    /// sleep, or where no switch was seen for execution, until now.
    pub(super) fn lose_earlier(&mut self, lost_ns: u64, now_ns: u64) {
        self.account(0, now_ns);
        let of_sleep_ns = lost_ns.min(self.slept_ns);
        self.slept_ns -= of_sleep_ns;
        let of_execution_ns = (lost_ns - of_sleep_ns).min(self.executed_ns);
        self.executed_ns -= of_execution_ns;
        self.other_ns += of_sleep_ns + of_execution_ns;
    }

    /// Books sleep that ended at `now_ns`, as far as it is not booked yet.
    pub(super) fn sleep(&mut self, slept_ns: u64, now_ns: u64) {
        self.slept_ns += self.account(slept_ns, now_ns);
    }

    /// Books a sample in a loop that waits for others: the time since the one before, as far as it is not booked yet.
    pub(super) fn spin(&mut self, period_ns: u64, now_ns: u64) {
        self.spun_ns += self.account(period_ns, now_ns);
    }

    /// Accounts for the time up to `now_ns`, the last of which is not execution; how much there was of that.
    fn account(&mut self, last_ns: u64, now_ns: u64) -> u64 {
        let open_ns = now_ns.saturating_sub(self.accounted_ns);
        let last_ns = last_ns.min(open_ns);
        self.executed_ns += open_ns - last_ns;
        self.accounted_ns = now_ns;
        last_ns
    }

    /// Books a wait from `entered_ns` to `now_ns` that nobody is known to have ended.
    pub(super) fn block(&mut self, entered_ns: u64, now_ns: u64) {
        self.blocked_ns += self.account(now_ns - entered_ns, now_ns);
    }

    /// Books a late operation that ended at `now_ns`.
    pub(super) fn late(&mut self, class: SyncClass, late_ns: u64, now_ns: u64) {
        self.classes_ns[class as usize] += self.account(late_ns, now_ns);
    }
}

/// An entry into signal, broadcast, post or unlock, as waiters remember it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Release {
    pub(super) thread: ThreadId,
    pub(super) cpu: u16,
    pub(super) call_site: u64,
    pub(super) at_ns: u64,
    /// Place among all events of the library.
    pub(super) order: u64,
    pub(super) path: Path,
}

/// What a blocking call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// A condition, semaphore or futex word: signals are tokens.
    Signal,
    Barrier,
    Lock,
    ReadLock,
    Join,
}

/// A blocking call that has not returned.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenWait {
    pub(super) waiting: Waiting,
    pub(super) key: ObjectKey,
    pub(super) call_site: u64,
    /// Low half of the address of the mutex to be taken again; 0 for none.
    pub(super) mutex: u32,
    pub(super) entered_ns: u64,
    pub(super) order: u64,
    pub(super) cpu: u16,
    /// Where it stands in the buffer of its core; none where the buffer was full.
    pub(super) entry: Option<u8>,
    /// The broadcast that woke it.
    pub(super) mark: Option<Release>,
    /// The latest post, or wake of its futex, in which the kernel was seen to wake it.
    pub(super) woken: Option<Release>,
    /// It waits in a futex call of its own.
    pub(super) is_futex: bool,
}

/// A call that wakes others and has not returned.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenWake {
    pub(super) class: SyncClass,
    pub(super) is_post: bool,
    pub(super) key: ObjectKey,
    pub(super) cpu: u16,
    pub(super) call_site: u64,
    pub(super) entered_ns: u64,
    pub(super) order: u64,
    /// It woke somebody, as far as is known.
    pub(super) used: bool,
    /// It is a system call: what the kernel wakes meanwhile, it wakes by this word.
    pub(super) is_futex: bool,
}

/// A call of create that has not returned.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenCreate {
    pub(super) at_ns: u64,
    pub(super) path: Path,
    pub(super) count_ns: u64,
    /// The child has started.
    pub(super) started: bool,
}

/// One thread.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    pub(super) id: ThreadId,
    pub(super) process: u16,
    pub(super) pthread: Option<u64>,
    pub(super) first_ns: u64,
    /// Last event of the library, or end of lost time.
    pub(super) last_ns: u64,
    pub(super) wait: Option<OpenWait>,
    pub(super) wake: Option<OpenWake>,
    pub(super) create: Option<OpenCreate>,
    pub(super) ended: bool,
    /// Among those that can run.
    pub(super) counted: bool,
    pub(super) path: Path,
    pub(super) count_ns: u64,
    pub(super) waited_ns: u64,
    pub(super) run_queue_ns: u64,
    pub(super) classes: [Sums; 6],
    pub(super) other: Sums,
    pub(super) timeline: ThreadTimeline,
}

impl Thread {
    fn new(id: ThreadId, process: u16, at_ns: u64, timeline: ThreadTimeline) -> Self {
        Self {
            id,
            process,
            pthread: None,
            first_ns: at_ns,
            last_ns: at_ns,
            wait: None,
            wake: None,
            create: None,
            ended: false,
            counted: false,
            path: Path { accounted_ns: at_ns, ..Path::default() },
            count_ns: 0,
            waited_ns: 0,
            run_queue_ns: 0,
            classes: [Sums::default(); 6],
            other: Sums::default(),
            timeline,
        }
    }

    pub(super) fn key(&self, address: u64) -> ObjectKey {
        ObjectKey::of(self.process, address)
    }

    /// Inside a call of the library, where lost time is the call's.
    pub(super) fn is_in_call(&self) -> bool {
        self.wait.is_some() || self.wake.is_some()
    }

    /// Counts time lost outside the six classes; the path is another matter.
    pub(super) fn count_lost(&mut self, lost_ns: u64) {
        self.other.add(lost_ns);
        self.count_ns += lost_ns;
    }

    /// All that it lost itself.
    pub(super) fn lost_ns(&self) -> u64 {
        self.late().total_ns + self.other.total_ns
    }

    fn late(&self) -> Sums {
        let mut late = Sums::default();
        self.classes.iter().for_each(|sums| late.merge(sums));
        late
    }

    fn figures(&self) -> ThreadFigures {
        ThreadFigures {
            thread: self.id,
            process: self.process,
            first_ns: self.first_ns,
            last_ns: self.last_ns,
            waited_ns: self.waited_ns,
            late: self.late(),
            classes: self.classes,
            other: self.other,
            run_queue_ns: self.run_queue_ns,
            count_ns: self.count_ns,
        }
    }
}

/// Sums over threads that are no longer in the list.
#[derive(Clone, Debug, Default)]
pub(super) struct Retired {
    pub(super) listed: Vec<ThreadFigures>,
    pub(super) late_ns: u64,
    pub(super) other_ns: u64,
    /// Sum of sync jitter over all jitter, of threads with either.
    pub(super) shares: f64,
    pub(super) with_share: u64,
    pub(super) last: Option<(u64, ThreadId, Path)>,
}

impl Retired {
    fn add(&mut self, thread: &Thread, listed: usize) {
        let figures = thread.figures();
        let (late_ns, other_ns) = (figures.late.total_ns, figures.other.total_ns);
        self.late_ns += late_ns;
        self.other_ns += other_ns;
        if late_ns + other_ns > 0 {
            self.shares += late_ns as f64 / (late_ns + other_ns) as f64;
            self.with_share += 1;
        }
        if self.last.is_none_or(|(last_ns, ..)| thread.last_ns > last_ns) {
            self.last = Some((thread.last_ns, thread.id, thread.path));
        }
        self.listed.push(figures);
        if self.listed.len() >= 2 * listed.max(64) {
            self.rank(listed);
        }
    }

    /// The worst first, no more than `listed`.
    pub(super) fn rank(&mut self, listed: usize) {
        self.listed
            .sort_by_key(|one| (std::cmp::Reverse(one.late.total_ns), one.thread, one.process, one.first_ns));
        self.listed.truncate(listed);
    }
}

/// All threads.
#[derive(Debug, Default)]
pub(super) struct Threads {
    slots: Vec<Thread>,
    free: Vec<Slot>,
    by_id: AddressMap<ThreadId, Slot>,
    by_pthread: AddressMap<ObjectKey, Slot>,
    ended: VecDeque<(Slot, ThreadId)>,
    /// The one asked for last; threads do many things in a row.
    recent: Option<(ThreadId, Slot)>,
    pub(super) retired: Retired,
    pub(super) seen: u64,
    pub(super) without_end: u64,
    /// Creations whose thread has not started yet, by `pthread_t`.
    pub(super) created: AddressMap<ObjectKey, OpenCreate>,
}

impl Threads {
    pub(super) fn find(&mut self, id: ThreadId) -> Option<Slot> {
        if let Some((recent, slot)) = self.recent
            && recent == id
        {
            return Some(slot);
        }
        let slot = *self.by_id.get(&id)?;
        self.recent = Some((id, slot));
        Some(slot)
    }

    pub(super) fn get(&self, slot: Slot) -> &Thread {
        &self.slots[slot as usize]
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> &mut Thread {
        &mut self.slots[slot as usize]
    }

    pub(super) fn by_pthread(&self, key: ObjectKey) -> Option<Slot> {
        self.by_pthread.get(&key).copied()
    }

    pub(super) fn add(&mut self, id: ThreadId, process: u16, at_ns: u64) -> Slot {
        self.seen += 1;
        let slot = match self.free.pop() {
            Some(slot) => {
                // The log's memory is used again.
                let timeline = std::mem::take(&mut self.slots[slot as usize].timeline).emptied();
                self.slots[slot as usize] = Thread::new(id, process, at_ns, timeline);
                slot
            }
            None => {
                self.slots.push(Thread::new(id, process, at_ns, ThreadTimeline::default()));
                (self.slots.len() - 1) as Slot
            }
        };
        self.by_id.insert(id, slot);
        self.recent = Some((id, slot));
        slot
    }

    pub(super) fn name(&mut self, slot: Slot, pthread: u64) {
        let thread = &mut self.slots[slot as usize];
        thread.pthread = Some(pthread);
        self.by_pthread.insert(thread.key(pthread), slot);
    }

    /// Notes that the thread ended; who must go now, since too many have ended without being joined.
    pub(super) fn end(&mut self, slot: Slot) -> Option<Slot> {
        let thread = &mut self.slots[slot as usize];
        thread.ended = true;
        self.ended.push_back((slot, thread.id));
        if self.ended.len() <= KEPT_ENDED {
            return None;
        }
        let (slot, id) = self.ended.pop_front()?;
        let thread = &self.slots[slot as usize];
        (thread.ended && thread.id == id && self.by_id.get(&id) == Some(&slot)).then_some(slot)
    }

    /// Takes the thread out of the list.
    pub(super) fn retire(&mut self, slot: Slot, listed: usize) {
        let thread = &self.slots[slot as usize];
        self.without_end += u64::from(!thread.ended);
        self.retired.add(thread, listed);
        let (id, pthread) = (thread.id, thread.pthread.map(|pthread| thread.key(pthread)));
        if self.by_id.get(&id) == Some(&slot) {
            self.by_id.remove(&id);
        }
        if let Some(key) = pthread
            && self.by_pthread.get(&key) == Some(&slot)
        {
            self.by_pthread.remove(&key);
        }
        self.recent = None;
        self.free.push(slot);
    }

    /// Retires all, in the order of their numbers.
    pub(super) fn retire_all(&mut self, listed: usize) {
        let mut left: Vec<(ThreadId, Slot)> = self.by_id.iter().map(|(id, slot)| (*id, *slot)).collect();
        left.sort_unstable();
        for (_, slot) in left {
            self.retire(slot, listed);
        }
        self.retired.rank(listed);
    }
}
