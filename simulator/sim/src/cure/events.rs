//! One event each: what it means to the thread library, the units and the controllers.

use super::hooks::{Cure, Later, SLEEP_PC};
use super::threads::ThreadState;
use super::threads::unit_id;
use super::translate::{SyncCall, handle};
use crate::frames::Ended;
use crate::hooks::{Moment, Woken, WokenFrom};
use crate::inject::{Draw, Occasion};
use quaver_abi::record::OffCpu;
use quaver_abi::sync::SyncKind;
use quaver_sync_analysis::sync::{KernelKind, KernelReason, SyncClass, ThreadId};
use quaver_trace::step::{Sync, Thread};

impl Cure {
    pub(super) fn created(&mut self, thread: u32, by: u32, moment: &Moment<'_>) {
        let index = thread as usize;
        while self.threads.len() <= index {
            self.threads.push(ThreadState::new(moment.at_fs, None, None));
        }
        self.threads[index] = ThreadState::new(moment.at_fs, Some(by), self.controller_of(Some(by)));
        self.units.registers().create(moment.core, unit_id(thread).0);
    }

    pub(super) fn runs(&mut self, thread: u32, queued_fs: u64, moment: &Moment<'_>) {
        let index = thread as usize;
        let core = &mut self.cores[moment.core];
        core.thread = Some(thread);
        core.idles_until(moment.at_fs);
        let next = unit_id(thread);
        let prev = ThreadId(0);
        let Some(state) = self.threads.get_mut(index) else { return };
        state.running = Some((moment.at_fs, *moment.counts));
        // The run without jitter has these turns as well.
        self.units.queued(next, queued_fs / 1_000_000);
        let (first, creator) = (!std::mem::replace(&mut state.started, true), state.creator);
        let wanted = state.controller.as_ref().map(quaver_dvfs::dvfs::Controller::point);
        if first {
            if creator.is_none() {
                self.units.registers().create(moment.core, next.0);
            }
            let detail = creator.map_or(0, |by| unit_id(by).0);
            let object = handle(Thread(thread));
            let told = SyncCall { kind: SyncKind::ThreadStart, object, detail, target: None };
            self.tell(moment.core, thread, told, moment.at_fs);
        }
        // The units must know the thread before they hear that it runs.
        self.kernel(
            moment.core,
            KernelKind::Switch { prev, next, prev_state: OffCpu::Blocked, priorities: None },
            moment.at_fs,
        );
        self.units.kernel_exit(moment.core, next, SLEEP_PC);
        if let Some(point) = wanted {
            self.want_point(moment.core, thread, point, moment.at_fs);
        }
    }

    pub(super) fn stops(&mut self, thread: u32, moment: &Moment<'_>) {
        self.account(thread, moment);
        let core = &mut self.cores[moment.core];
        core.thread = None;
        core.idle_since_fs = moment.at_fs;
        let (waits, told) = self.translator.stops(thread);
        for told in told.into_iter().flatten() {
            self.tell(moment.core, thread, told, moment.at_fs);
        }
        // Another thread of the program has its turn, as in the run without jitter: no preemption.
        let prev_state = OffCpu::Blocked;
        let prev = unit_id(thread);
        self.units.queued(prev, 0);
        let next = ThreadId(0);
        self.kernel(
            moment.core,
            KernelKind::Switch { prev, next, prev_state, priorities: None },
            moment.at_fs,
        );
        self.units.swap_out(prev, SLEEP_PC);
        if let Some(state) = self.threads.get_mut(thread as usize) {
            state.running = None;
            if waits {
                state.waits_since_fs = moment.at_fs;
            }
        }
    }

    pub(super) fn enters(&mut self, thread: u32, sync: Sync, moment: &Moment<'_>) {
        if let Sync::Create { .. } = sync {
            self.end_subframe(thread, Ended::AtCreate, None, moment);
        } else {
            // Whoever it wakes is told what it owes now.
            self.account(thread, moment);
        }
        if let (Sync::Unlock { .. }, Some(state)) = (sync, self.threads.get_mut(thread as usize)) {
            state.locks = state.locks.saturating_sub(1);
        }
        (self.wakes, self.wakes_at_fs) = (thread, moment.at_fs);
        if let Some(injection) = &mut self.injection {
            injection.enters(thread);
        }
        let mut woken = Vec::new();
        if let Some(told) = self.translator.enters(thread, sync, &mut woken) {
            self.tell(moment.core, thread, told, moment.at_fs);
            if let Sync::Broadcast { object, .. } = sync {
                for (waiter, told) in self.translator.woken_in_vain(object) {
                    let core = waiter as usize % self.cores.len();
                    told.into_iter().for_each(|told| self.tell(core, waiter, told, moment.at_fs));
                }
            }
        }
        for woken in woken {
            let look_fs = moment.at_fs + self.remote_fs + self.cycle_fs;
            let core = woken.thread as usize % self.cores.len();
            self.put_off(look_fs, core, Later::Look(woken));
        }
    }

    /// A thread is woken by the one that entered a call last. Whether the kernel has something else to do before it goes on.
    pub(super) fn wakes_late(&mut self, woken: Woken<'_>) -> bool {
        match woken.from {
            WokenFrom::Barrier => self.meeting.push(woken.thread.0),
            WokenFrom::Lock | WokenFrom::Signal | WokenFrom::Broadcast => self.passes_debt(woken.thread.0),
        }
        let Some(injection) = &mut self.injection else { return false };
        let (class, occasion) = match woken.from {
            WokenFrom::Lock => (SyncClass::LockUnlock, None),
            WokenFrom::Signal => (SyncClass::SignalWait, None),
            WokenFrom::Broadcast | WokenFrom::Barrier => {
                let broadcast = Occasion { number: woken.occasion, by: self.wakes, woken: woken.with };
                (SyncClass::BroadcastWait, Some(broadcast))
            }
        };
        let draw = injection.draw(woken.thread.0, class, occasion);
        self.injected.entry(class).or_default().add(&draw);
        if draw.duration_fs > 0 {
            self.held_up.insert(woken.thread.0, draw);
        }
        draw.duration_fs > 0
    }

    /// A thread runs that was woken late.
    pub(super) fn late(&mut self, thread: u32, moment: &Moment<'_>) {
        self.translator.late(thread);
        if let Some(draw) = self.held_up.remove(&thread) {
            self.inject(Some(thread), None, false, &draw, moment);
        }
    }

    pub(super) fn leaves(&mut self, thread: u32, sync: Sync, by: Option<Thread>, moment: &Moment<'_>) {
        self.all_met(moment.at_fs);
        if let (Sync::Lock { .. }, Some(state)) = (sync, self.threads.get_mut(thread as usize)) {
            state.locks += 1;
        }
        let (class, told) = self.translator.leaves(thread, sync);
        // Of waits it was decided when they ended.
        let wakes = class
            .filter(|class| matches!(class, SyncClass::Signal | SyncClass::Broadcast | SyncClass::Unlock));
        let draw = match (wakes, &mut self.injection) {
            (Some(class), Some(injection)) => {
                let draw = injection.draw(thread, class, None);
                self.injected.entry(class).or_default().add(&draw);
                draw
            }
            _ => Draw::default(),
        };
        if draw.duration_fs > 0 {
            self.inject(Some(thread), told, false, &draw, moment);
        } else if let Some(told) = told {
            self.tell(moment.core, thread, told, moment.at_fs);
        }
        if let Sync::Join { thread: ended } = sync {
            let since_fs = self.threads.get(thread as usize).map_or(0, |state| state.waits_since_fs);
            let waited_fs = if by.is_some() { moment.at_fs - since_fs.min(moment.at_fs) } else { 0 };
            self.end_subframe(thread, Ended::AtJoin, Some((ended.0, waited_fs)), moment);
        }
    }

    pub(super) fn ended(&mut self, thread: u32, moment: &Moment<'_>) {
        self.end_subframe(thread, Ended::AtExit, None, moment);
        let object = handle(Thread(thread));
        let told = SyncCall { kind: SyncKind::ThreadExit, object, detail: 0, target: None };
        self.tell(moment.core, thread, told, moment.at_fs);
        self.units.registers().clean(unit_id(thread).0);
        if let Some(state) = self.threads.get_mut(thread as usize) {
            state.ended = true;
        }
    }

    pub(super) fn alarm(&mut self, thread: Option<u32>, moment: &Moment<'_>) {
        let core = moment.core;
        self.cores[core].alarm_fs = u64::MAX;
        self.risen(thread, moment);
        let tick = match (thread, &mut self.injection) {
            (Some(_), Some(injection)) => injection.tick(core, moment.at_fs),
            (None, Some(injection)) => {
                injection.skip_ticks(core, moment.at_fs + 1);
                None
            }
            _ => None,
        };
        if let Some(draw) = tick {
            self.timer.add(&draw);
            if draw.duration_fs > 0 {
                self.inject(thread, None, true, &draw, moment);
            }
        }
        let Some(thread) = thread else { return };
        let due = self.threads.get(thread as usize).map(|state| state.subframes.due_fs(&self.config.frames));
        if due.is_some_and(|due_fs| due_fs <= moment.at_fs) {
            self.end_subframe(thread, Ended::InTime, None, moment);
        }
    }

    pub(super) fn kernel_enters(&mut self, thread: Option<u32>, moment: &Moment<'_>) {
        if let Some(thread) = thread {
            self.account(thread, moment);
        }
        let Some(ordered) = self.cores[moment.core].in_kernel.front().copied() else { return };
        self.activities.begins(moment);
        let kind = match ordered.thread {
            _ if ordered.timer => KernelKind::IrqEnter { timer: true },
            Some(thread) => KernelKind::Enter { thread: unit_id(thread), reason: KernelReason::Futex },
            None => return,
        };
        self.kernel(moment.core, kind, moment.at_fs);
    }

    pub(super) fn kernel_leaves(&mut self, thread: Option<u32>, moment: &Moment<'_>) {
        if let Some(thread) = thread {
            self.account(thread, moment);
        }
        let Some(left) = self.cores[moment.core].in_kernel.pop_front() else { return };
        self.activities.ends(left.class, moment);
        if left.timer {
            self.kernel(moment.core, KernelKind::IrqExit, moment.at_fs);
        } else {
            self.left_kernel(moment.core, left.thread, left.told, moment.at_fs);
        }
    }
}
