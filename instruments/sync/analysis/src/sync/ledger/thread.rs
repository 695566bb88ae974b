//! One thread: what it does now, what its time went into, and what it did lately.

use super::figures::{SoFar, ThreadTime};
use super::log::{Behind, Doing, Log, Piece, Root};
use super::spending::Spending;
use crate::sync::event::ThreadId;
use crate::sync::keys::ObjectKey;
use quaver_abi::record::SAMPLE_PERIOD_NS;

/// Where a thread is, as far as the kernel told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Place {
    /// Whoever does something runs.
    #[default]
    Running,
    Queued {
        cpu: u16,
    },
    /// It could go on, but for the quota of its control group.
    Throttled,
    Asleep,
}

/// A blocking call that has not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) spending: Spending,
    pub(super) object: ObjectKey,
    pub(super) site: u64,
    pub(super) entered_ns: u64,
    /// Place of its entry among all events.
    pub(super) order: u64,
    /// Who woke the thread since, as the kernel said.
    pub(super) woken_by: Option<ThreadId>,
    /// The latest call before it that woke others there found nobody.
    pub(super) after_unheard: bool,
}

/// Words remembered on which a thread was woken.
const KEPT_WORDS: usize = 16;

#[derive(Debug)]
pub(super) struct Thread {
    pub(super) id: ThreadId,
    pub(super) process: u16,
    first_ns: u64,
    /// Until here its time is booked.
    booked_ns: u64,
    pub(super) place: Place,
    /// Who has its CPU while it is queued, and how urgent that is.
    pub(super) behind: (ThreadId, Option<i16>),
    /// That one is of the program, too.
    pub(super) behind_own: bool,
    /// It gave its CPU away when it left that last.
    pub(super) yields: bool,
    /// Run queue behind threads of the program.
    crowded_ns: u64,
    /// Run queue behind threads of other programs.
    others_ns: u64,
    pub(super) call: Option<Call>,
    /// Lock that it tries to get, and since when.
    pub(super) row: Option<(ObjectKey, u64)>,
    /// Words on which it was woken, and when. It has neither waited nor woken others on them since.
    woken_on: Vec<(ObjectKey, u64)>,
    pub(super) ended: bool,
    /// Its latest sleep, in a call that has not returned, while others waited for these locks of its: since when and how long.
    pub(super) unnamed_sleeps: Vec<(ObjectKey, u64, u64)>,
    /// As the kernel numbers it: the smaller, the more urgent.
    pub(super) priority: Option<i16>,
    parts_ns: [u64; 11],
    /// Execution that samples stand for, and the part of it in loops that wait for others.
    sampled_ns: [u64; 2],
    /// The part of it that lay between samples further apart than two periods.
    unsampled_ns: u64,
    pub(super) log: Log,
}

impl Thread {
    pub(super) fn new(id: ThreadId, process: u16, at_ns: u64) -> Self {
        Self {
            id,
            process,
            first_ns: at_ns,
            booked_ns: at_ns,
            place: Place::Running,
            behind: (ThreadId(0), None),
            behind_own: false,
            yields: false,
            crowded_ns: 0,
            others_ns: 0,
            call: None,
            row: None,
            woken_on: Vec::new(),
            ended: false,
            unnamed_sleeps: Vec::new(),
            priority: None,
            parts_ns: [0; 11],
            sampled_ns: [0; 2],
            unsampled_ns: 0,
            log: Log::default(),
        }
    }

    fn spending(&self) -> Spending {
        match (self.place, self.call) {
            (Place::Queued { .. }, None) if self.yields => Spending::Spin,
            (Place::Queued { .. }, _) => Spending::RunQueue,
            (Place::Throttled, _) => Spending::Quota,
            (_, Some(call)) => call.spending,
            (Place::Running, None) => Spending::Execution,
            (Place::Asleep, None) => Spending::Sleep,
        }
    }

    /// What it does; none where it waits for a lock, which is told later by who had that.
    fn doing(&self) -> Option<Doing> {
        match (self.place, self.call) {
            (_, Some(call)) if call.spending == Spending::Lock => None,
            (Place::Queued { .. }, _) => Some(Doing::Queued { behind: self.behind.0 }),
            (Place::Throttled, _) => Some(Doing::Throttled),
            (_, Some(call)) => Some(Doing::Waited { object: call.object }),
            (Place::Running, None) => Some(Doing::Ran),
            (Place::Asleep, None) => Some(Doing::Slept { call: None }),
        }
    }

    /// Books its time until now. To be called before anything of it changes.
    pub(super) fn book(&mut self, now_ns: u64, needed_ns: u64) {
        let from_ns = self.booked_ns;
        if self.ended || now_ns <= from_ns {
            return;
        }
        self.parts_ns[self.spending() as usize] += now_ns - from_ns;
        if self.spending() == Spending::RunQueue {
            match self.behind {
                _ if self.behind_own => self.crowded_ns += now_ns - from_ns,
                // An idle CPU is about to switch to it, and nobody has taken it.
                (ThreadId(0), _) => {}
                _ => self.others_ns += now_ns - from_ns,
            }
        }
        self.booked_ns = now_ns;
        if let Some(doing) = self.doing() {
            let (thread, priority) = self.behind;
            let is_queued = matches!(doing, Doing::Queued { .. });
            let behind = is_queued.then_some(Behind { thread, priority, own: self.priority });
            let root = Root { thread: self.id, activity: doing.activity(), depth: 0, behind };
            self.log.push(Piece { from_ns, to_ns: now_ns, doing, root }, needed_ns);
        }
    }

    /// It was woken on a word.
    pub(super) fn was_woken_on(&mut self, word: ObjectKey, now_ns: u64) {
        if self.woken_on.len() >= KEPT_WORDS {
            self.woken_on.remove(0);
        }
        self.woken_on.push((word, now_ns));
    }

    /// It does something on this word: when it was woken on it, if this is the first that it does there since.
    pub(super) fn takes_up(&mut self, word: ObjectKey) -> Option<u64> {
        let found = self.woken_on.iter().position(|(one, _)| *one == word)?;
        Some(self.woken_on.remove(found).1)
    }

    /// What its time went into so far.
    pub(super) const fn so_far(&self) -> SoFar {
        SoFar { parts_ns: self.parts_ns, crowded_ns: self.crowded_ns, others_ns: self.others_ns }
    }

    /// Its first event.
    pub(super) const fn first_ns(&self) -> u64 {
        self.first_ns
    }

    /// Until when its time is booked.
    pub(super) const fn booked_ns(&self) -> u64 {
        self.booked_ns
    }

    /// What it ran in when its CPU was looked at. That stands for the execution since the sample before, however long: a timer that
    /// a hypervisor holds up misses periods, and it holds up loops with `pause` more often than others.
    pub(super) fn sample(&mut self, spins: bool, now_ns: u64) {
        if self.spending() != Spending::Execution {
            return;
        }
        let executed_ns = self.parts_ns[Spending::Execution as usize] + now_ns.saturating_sub(self.booked_ns);
        let [all_ns, spinning_ns] = &mut self.sampled_ns;
        let since_ns = executed_ns.saturating_sub(*all_ns);
        *spinning_ns += if spins { since_ns } else { 0 };
        self.unsampled_ns += beyond_a_period(since_ns);
        *all_ns = executed_ns.max(*all_ns);
    }

    /// Its time. Of execution, the part is spinning that samples found there.
    pub(super) fn time(&self) -> ThreadTime {
        let [
            execution_ns,
            lock_ns,
            condition_ns,
            semaphore_ns,
            barrier_ns,
            join_ns,
            futex_ns,
            sleep_ns,
            run_queue_ns,
            yielded_ns,
            quota_ns,
        ] = self.parts_ns;
        let [all, spinning] = self.sampled_ns.map(u128::from);
        let spin_ns = (u128::from(execution_ns) * spinning).checked_div(all).unwrap_or(0) as u64;
        let rest_ns = execution_ns.saturating_sub(self.sampled_ns[0]);
        let unsampled_ns = (all > 0).then(|| self.unsampled_ns + beyond_a_period(rest_ns));
        let execution_ns = execution_ns - spin_ns;
        ThreadTime {
            thread: self.id,
            process: self.process,
            first_ns: self.first_ns,
            last_ns: self.booked_ns,
            execution_ns,
            lock_ns,
            condition_ns,
            semaphore_ns,
            barrier_ns,
            join_ns,
            futex_ns,
            sleep_ns,
            run_queue_ns,
            spin_ns: spin_ns + yielded_ns,
            quota_ns,
            unsampled_ns,
        }
    }
}

/// How much of the execution between two samples no sample stands for, where one at least did not come.
const fn beyond_a_period(ns: u64) -> u64 {
    if ns > 2 * SAMPLE_PERIOD_NS { ns - SAMPLE_PERIOD_NS } else { 0 }
}
