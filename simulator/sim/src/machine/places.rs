//! Who runs on which core: threads that take turns, and kernel activity that was ordered.

use super::{Machine, slot_fs};
use crate::core::{Core, Doing};
use crate::error::SimulationError;
use crate::feed::Feed;
use crate::hooks::{Event, Hooks, Moment, Orders};
use crate::statistics::{CoreCounts, IntervalKind, ThreadTimes};
use quaver_trace::step::{Step, Steps, Sync, Thread};
use std::collections::VecDeque;

/// A thread that may run on a core from `ready_fs` on.
#[derive(Clone, Copy, Debug)]
struct Ready {
    ready_fs: u64,
    thread: usize,
    /// Time that kernel activity had taken on the core by then.
    kernel_fs: u64,
}

/// Kernel activity under way.
#[derive(Clone, Debug)]
pub(super) struct Kernel<K> {
    pub(super) feed: Feed<K>,
    since_fs: u64,
}

/// What happens on a core besides its own steps.
#[derive(Clone, Debug)]
pub(super) struct CoreContext<K> {
    pub(super) thread: Option<usize>,
    pub(super) kernel: Option<Kernel<K>>,
    /// When the hooks want to be called.
    pub(super) alarm_fs: u64,
    /// When the lines of the prefetch buffer come back.
    back_fs: u64,
    /// The thread that ran here last.
    last: Option<usize>,
    /// Time that kernel activity took.
    pub(super) kernel_fs: u64,
    /// The call in which the thread that runs here will wait.
    pub(super) entered: Option<Sync>,
    since_fs: u64,
    /// Since when the thread's turn lasts, and how much of the time since its start here the kernel took.
    held_fs: u64,
    /// What the core had done for threads when this one began to run.
    before: CoreCounts,
    /// Counts of threads while the kernel runs, and of the kernel while a thread does.
    other_counts: CoreCounts,
    /// Whether the hooks must be told that the thread runs.
    begins: bool,
    /// How long the thread had waited for its turn, without kernel activity.
    queued_fs: u64,
    queue: VecDeque<Ready>,
    ordered: VecDeque<K>,
}

impl<K> CoreContext<K> {
    pub(super) fn new(alarm_fs: u64) -> Self {
        Self {
            thread: None,
            kernel: None,
            alarm_fs,
            back_fs: u64::MAX,
            last: None,
            kernel_fs: 0,
            entered: None,
            since_fs: 0,
            held_fs: 0,
            before: CoreCounts::default(),
            other_counts: CoreCounts::default(),
            begins: false,
            queued_fs: 0,
            queue: VecDeque::new(),
            ordered: VecDeque::new(),
        }
    }

    /// When the running thread must let another one run: not before that one is ready.
    fn slice_end_fs(&self, quantum_fs: u64) -> u64 {
        let earliest = self.queue.iter().map(|ready| ready.ready_fs).min();
        earliest.map_or(u64::MAX, |ready_fs| ready_fs.max(self.since_fs + quantum_fs))
    }

    /// When no further step may be begun before somebody has looked.
    #[inline]
    pub(super) fn stop_fs(&self, quantum_fs: u64) -> u64 {
        if self.kernel.is_some() {
            return self.back_fs;
        }
        // The hooks are to be told, or kernel activity waits for the next step.
        if self.begins || !self.ordered.is_empty() {
            return 0;
        }
        self.slice_end_fs(quantum_fs).min(self.alarm_fs).min(self.back_fs)
    }

    /// Time that kernel activity has taken by now, that under way included.
    fn kernel_by_fs(&self, now_fs: u64) -> u64 {
        self.kernel_fs + self.kernel.as_ref().map_or(0, |kernel| now_fs.saturating_sub(kernel.since_fs))
    }

    /// What the core did for threads.
    pub(super) fn counts(&self, core: &Core) -> CoreCounts {
        if self.kernel.is_some() { self.other_counts } else { *core.counts() }
    }

    /// What it did for the kernel.
    pub(super) fn kernel_counts(&self, core: &Core) -> CoreCounts {
        if self.kernel.is_some() { *core.counts() } else { self.other_counts }
    }
}

impl<S: Steps, H: Hooks> Machine<S, H> {
    /// The first thread runs.
    pub(super) fn begin(&mut self) {
        self.ready(0, 0);
    }

    /// A core stands at one of its limits.
    pub(super) fn at_limit(&mut self, index: usize) -> Result<(), SimulationError> {
        let place = &self.places[index];
        if self.cores[index].doing() != Doing::Idles && !self.cores[index].between_steps() {
            return Ok(());
        }
        if place.back_fs <= self.now_fs && self.cores[index].doing() == Doing::Runs {
            self.places[index].back_fs = u64::MAX;
            self.bring_back(index);
            return Ok(());
        }
        if place.kernel.is_some() {
            return Ok(());
        }
        let thread = place.thread;
        if place.begins {
            return self.begins(index);
        }
        if place.alarm_fs <= self.now_fs {
            self.places[index].alarm_fs = u64::MAX;
            return self.call(index, Event::Alarm { thread: thread.map(|thread| Thread(thread as u32)) });
        }
        match thread {
            Some(thread) if place.slice_end_fs(self.quantum_fs) <= self.now_fs => self.preempt(index, thread),
            _ => Ok(()),
        }
    }

    /// The hooks are told that a thread runs, and what it comes back from.
    fn begins(&mut self, index: usize) -> Result<(), SimulationError> {
        self.places[index].begins = false;
        let Some(thread) = self.places[index].thread else { return Ok(()) };
        let id = Thread(thread as u32);
        let queued_fs = self.places[index].queued_fs;
        self.call(index, Event::Runs { thread: id, queued_fs })?;
        if !self.threads.is_late(id) {
            return self.leaves(index, id);
        }
        self.call(index, Event::WakesLate { thread: id })?;
        if self.places[index].ordered.is_empty() { self.asks_again(index) } else { Ok(()) }
    }

    /// The thread comes back from the call in which it waited, if it did.
    fn leaves(&mut self, index: usize, thread: Thread) -> Result<(), SimulationError> {
        match self.threads.take_entered(thread) {
            Some((sync, by)) => self.call(index, Event::Leaves { thread, sync, by }),
            None => Ok(()),
        }
    }

    /// A thread that was woken late, and that the kernel holds up no longer, asks for what it needs.
    fn asks_again(&mut self, index: usize) -> Result<(), SimulationError> {
        let late = self.places[index].thread.map(|thread| Thread(thread as u32));
        match late.filter(|thread| self.threads.is_late(*thread)) {
            Some(thread) if self.threads.ask_again(thread, self.now_fs) => self.leaves(index, thread),
            Some(_) => self.stop(index),
            None => Ok(()),
        }
    }

    /// The thread had its time; another one runs now.
    fn preempt(&mut self, index: usize, thread: usize) -> Result<(), SimulationError> {
        let kernel_fs = self.places[index].kernel_by_fs(self.now_fs);
        self.places[index].queue.push_back(Ready { ready_fs: self.now_fs, thread, kernel_fs });
        self.stop(index)
    }

    /// Threads may go on because of what `by` did.
    pub(super) fn wake(&mut self, by: Thread, woken: &[Thread]) -> Result<(), SimulationError> {
        let ready_fs = self.now_fs + self.remote_fs;
        let ended = std::mem::take(&mut self.threads.ended_waits);
        for wait in &ended {
            self.record.waited(by, wait);
            if woken.contains(&wait.thread) {
                self.record.woke(wait.thread, by, wait.kind, (self.now_fs, ready_fs));
            }
        }
        for thread in woken {
            self.threads.woken_by(*thread, by);
            self.ready(thread.0 as usize, ready_fs);
        }
        let created = ended.iter().filter(|wait| wait.kind == crate::statistics::WaitKind::Create);
        for wait in created {
            let index = wait.thread.0 as usize % self.cores.len();
            self.call(index, Event::Created { thread: wait.thread, by })?;
        }
        Ok(())
    }

    /// What cores and threads did until `end_fs`; what is under way when a run is left is part of it.
    pub(super) fn so_far(&self, end_fs: u64) -> (Vec<CoreCounts>, Vec<ThreadTimes>) {
        let mut threads = self.threads.times_by(end_fs);
        let each = self.cores.iter().zip(&self.places).map(|(core, place)| {
            let mut counts = place.counts(core);
            if let Some(thread) = place.thread {
                let kernel_fs = place.held_fs + place.kernel_by_fs(end_fs) - place.kernel_fs;
                let busy_fs = end_fs.saturating_sub(place.since_fs + kernel_fs);
                counts.busy_fs += busy_fs;
                threads[thread].ran(busy_fs, &counts, &place.before);
            }
            counts
        });
        (each.collect(), threads)
    }

    fn ready(&mut self, thread: usize, ready_fs: u64) {
        let index = thread % self.cores.len();
        let place = &mut self.places[index];
        let kernel_fs = place.kernel_by_fs(ready_fs);
        place.queue.push_back(Ready { ready_fs, thread, kernel_fs });
        if place.kernel.is_some() {
            return;
        }
        if place.thread.is_none() {
            return self.start_next(index);
        }
        if self.cores[index].now_fs() > place.slice_end_fs(self.quantum_fs) {
            self.go_back(index);
        }
    }

    /// The thread on this core does not run any more.
    pub(super) fn stop(&mut self, index: usize) -> Result<(), SimulationError> {
        let place = &mut self.places[index];
        let entered = place.entered.take();
        if let Some(thread) = place.thread.take() {
            let core = &mut self.cores[index];
            let busy_fs = (self.now_fs - place.since_fs).saturating_sub(place.held_fs);
            core.counts_mut().busy_fs += busy_fs;
            let (counts, times) = (core.counts(), &mut self.threads.times[thread]);
            times.ran(busy_fs, counts, &place.before);
            let what = IntervalKind::Runs { core: index as u32, thread: thread as u32 };
            self.record.interval(place.since_fs, self.now_fs, what);
            core.idle();
            let id = Thread(thread as u32);
            self.threads.enters(id, entered);
            self.call(index, Event::Stops { thread: id })?;
        }
        self.start_next(index);
        Ok(())
    }

    fn start_next(&mut self, index: usize) {
        let (place, now_fs) = (&mut self.places[index], self.now_fs);
        let first =
            place.queue.iter().enumerate().min_by_key(|(at, ready)| (ready.ready_fs.max(now_fs), *at));
        let Some((at, _)) = first else { return };
        let Some(next) = place.queue.remove(at) else { return };
        let start_fs = next.ready_fs.max(now_fs);
        if place.last.replace(next.thread).is_some_and(|last| last != next.thread) {
            self.chip.flush(index, now_fs);
        }
        place.thread = Some(next.thread);
        place.since_fs = start_fs;
        place.held_fs = 0;
        place.begins = H::ACTIVE;
        let kernel_fs = place.kernel_by_fs(start_fs).saturating_sub(next.kernel_fs);
        place.queued_fs = (start_fs - next.ready_fs).saturating_sub(kernel_fs);
        place.before = *self.cores[index].counts();
        self.threads.times[next.thread].queued_fs += start_fs - next.ready_fs;
        self.cores[index].switch(start_fs);
        self.going_on |= 1 << index;
    }

    /// Kernel activity that was ordered begins where it can.
    pub(super) fn start_kernel(&mut self, index: usize) -> Result<(), SimulationError> {
        let place = &mut self.places[index];
        let (core, now_fs) = (&mut self.cores[index], self.now_fs);
        let starts_later = core.doing() == Doing::Runs && core.now_fs() > now_fs;
        let may = matches!(core.doing(), Doing::Runs | Doing::Idles) && core.between_steps() && !starts_later;
        if place.kernel.is_some() || !may {
            return Ok(());
        }
        let Some(steps) = place.ordered.pop_front() else { return Ok(()) };
        // Its last step is on its way within that time.
        core.switch(now_fs + H::passes_fs(&steps).saturating_sub(core.way_fs()));
        place.kernel = Some(Kernel { feed: Feed::new(steps), since_fs: now_fs });
        place.back_fs = self.chip.cores[index].switch(true, now_fs);
        std::mem::swap(core.counts_mut(), &mut place.other_counts);
        let thread = place.thread.map(|thread| Thread(thread as u32));
        self.call(index, Event::KernelEnters { thread })
    }

    /// The kernel's steps came to one that is no block: nearly always the end.
    pub(super) fn kernel_special(&mut self, index: usize) -> Result<(), SimulationError> {
        if !self.stores_are_done(index) {
            return Ok(());
        }
        self.cores[index].sync_answered(self.now_fs);
        let place = &mut self.places[index];
        let ended = place.kernel.as_ref().is_some_and(|kernel| kernel.feed.last() == Some(Step::End));
        let Some(kernel) = place.kernel.take_if(|_| ended) else { return Ok(()) };
        let core = &mut self.cores[index];
        std::mem::swap(core.counts_mut(), &mut place.other_counts);
        let took_fs = self.now_fs - kernel.since_fs;
        place.kernel_fs += took_fs;
        place.held_fs += took_fs;
        self.record.interval(kernel.since_fs, self.now_fs, IntervalKind::Kernel { core: index as u32 });
        if let Some(thread) = place.thread {
            self.record.held_up(thread, took_fs);
        }
        core.switch(self.now_fs);
        // Kernel activity that follows at once belongs to the same epoch.
        if place.ordered.is_empty() {
            place.back_fs = self.chip.cores[index].switch(false, self.now_fs);
        }
        let thread = place.thread;
        if thread.is_none() {
            core.idle();
            self.start_next(index);
        }
        let thread = thread.map(|thread| Thread(thread as u32));
        self.call(index, Event::KernelLeaves { thread })?;
        let held_up = thread.is_some() && self.places[index].ordered.is_empty();
        if held_up { self.asks_again(index) } else { Ok(()) }
    }

    /// Tells the hooks, and does what they order.
    #[inline]
    pub(super) fn call(&mut self, index: usize, event: Event) -> Result<(), SimulationError> {
        if H::ACTIVE { self.call_hooks(index, event) } else { Ok(()) }
    }

    fn call_hooks(&mut self, index: usize, event: Event) -> Result<(), SimulationError> {
        let (core, place) = (&self.cores[index], &self.places[index]);
        let counts = place.counts(core);
        let kernel_counts = place.kernel_counts(core);
        let moment = Moment {
            at_fs: self.now_fs,
            core: index,
            cycle_fs: core.cycle_fs(),
            counts: &counts,
            kernel_counts: &kernel_counts,
            evicted_by_kernel: self.chip.cores[index].evicted_by_kernel(),
        };
        let mut orders = Orders::default();
        self.hooks.event(&moment, event, &mut orders)?;
        if orders.is_empty() {
            return Ok(());
        }
        for change in &orders.frequencies {
            self.come_back(change.core);
            self.cores[change.core].change_slot(slot_fs(change.ghz, self.width), change.stall_fs);
        }
        for (core, alarm_fs) in orders.alarms {
            self.places[core].alarm_fs = alarm_fs;
            if self.cores[core].now_fs() > alarm_fs {
                self.come_back(core);
            }
        }
        if !orders.kernel.is_empty() {
            // Where a thread was created, its core runs another and may be ahead.
            self.come_back(index);
        }
        self.places[index].ordered.extend(orders.kernel);
        self.going_on |= 1 << index;
        Ok(())
    }

    /// A core is changed from outside: it must not be ahead.
    fn come_back(&mut self, index: usize) {
        if self.cores[index].now_fs() >= self.now_fs && self.going_on >> index & 1 == 0 {
            self.go_back(index);
        }
        self.going_on |= 1 << index;
    }
}
