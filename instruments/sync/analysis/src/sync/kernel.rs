//! The kernel's side: where threads are, and what holds up those that were woken.

use super::event::{KernelEvent, KernelKind, KernelReason, ThreadId};
use super::observer::{Buffer, Observer, Operation};
use super::protocol::Protocol;
use super::results::{Cause, OtherClass};
use super::threads::Slot;
use super::timeline::{InKernel, WaitState, Whereabouts};
use quaver_abi::record::{OffCpu, SAMPLE_PERIOD_NS};

const IDLE: ThreadId = ThreadId(0);

impl<O: Observer> Protocol<O> {
    /// Takes the next event of the kernel or the machine.
    pub fn kernel(&mut self, event: &KernelEvent) {
        self.advance(event.at_ns);
        self.counts.kernel_events += 1;
        let cpu = event.cpu;
        match event.kind {
            KernelKind::Switch { prev, next, prev_state, .. } => self.switch(cpu, prev, next, prev_state),
            KernelKind::Waking { thread, by_current, .. } => self.waking(by_current.then_some(cpu), thread),
            KernelKind::Wakeup { thread, target_cpu } => self.woken(thread, target_cpu),
            KernelKind::Migrate { thread, to, .. } => self.migrate(thread, to),
            KernelKind::Enter { thread, reason } => self.enter_kernel(cpu, thread, reason),
            KernelKind::Exit { thread } => self.leave_kernel(cpu, thread),
            KernelKind::Slow { duration_ns, lost_permille } => self.slow(cpu, duration_ns, lost_permille),
            KernelKind::BusDelay { thread, lost_ns } => {
                if let Some(slot) = self.threads.find(thread) {
                    self.lose_outside_calls(slot, cpu, OtherClass::Bus, lost_ns);
                }
            }
            KernelKind::SystemCall { only_waits: true, .. } => {}
            KernelKind::Sample { thread, spins: true, .. } => {
                let slot = self.threads.find(thread);
                let now_ns = self.now_ns;
                if let Some(thread) = slot.map(|slot| self.threads.get_mut(slot))
                    && !thread.is_in_call()
                    && !thread.ended
                {
                    thread.path.spin(SAMPLE_PERIOD_NS, now_ns);
                }
            }
            KernelKind::SystemCall { thread, blocked_ns, .. } => self.system_call(cpu, thread, blocked_ns),
            _ => self.core_state(cpu, event.kind),
        }
    }

    fn core_state(&mut self, cpu: u16, kind: KernelKind) {
        match kind {
            KernelKind::IrqEnter { timer } => self.handler_begins(cpu, false, timer),
            KernelKind::IrqExit => self.handler_ends(cpu, false),
            KernelKind::SoftirqEnter { timer } => self.handler_begins(cpu, true, timer),
            KernelKind::SoftirqExit => self.handler_ends(cpu, true),
            _ => {}
        }
        let Some(core) = self.cores.get_mut(cpu) else { return };
        match kind {
            KernelKind::IrqEnter { .. } => core.irqs = core.irqs.saturating_add(1),
            KernelKind::IrqExit => core.irqs = core.irqs.saturating_sub(1),
            KernelKind::SoftirqEnter { .. } => core.softirqs = core.softirqs.saturating_add(1),
            KernelKind::SoftirqExit => core.softirqs = core.softirqs.saturating_sub(1),
            KernelKind::IdleEnter => core.idles = Some(true),
            KernelKind::IdleExit => core.idles = Some(false),
            _ => {}
        }
        self.refresh(cpu);
    }

    /// How a thread is now, as a wait sees it.
    pub(super) fn state_of(&mut self, slot: Slot) -> WaitState {
        let timeline = &self.threads.get(slot).timeline;
        let in_kernel = timeline.kernel.is_some();
        let (cpu, queued) = match timeline.whereabouts {
            Whereabouts::Unknown => return WaitState::Unknown,
            Whereabouts::Asleep => return WaitState::Asleep,
            Whereabouts::Running { cpu } => (cpu, None),
            Whereabouts::Queued { cpu, switches } => (cpu, Some(switches)),
        };
        let moved = timeline.moved;
        let Some(core) = self.cores.get_mut(cpu) else { return WaitState::Unknown };
        let cause = match queued {
            _ if core.irqs > 0 || core.softirqs > 0 => Cause::Interrupt,
            None if in_kernel => Cause::KernelNotSwitched,
            None => Cause::Running,
            Some(_) if moved => Cause::Migrated,
            Some(switches) => match (core.current, core.switches > switches) {
                (None, _) | (Some(IDLE), true) => Cause::Unexplained,
                (Some(IDLE), false) if core.idles == Some(false) => Cause::KernelNotSwitched,
                (Some(IDLE), false) => Cause::IdleExit,
                (Some(_), true) => Cause::OtherThreadFirst,
                (Some(_), false) if core.kernel_ns.is_some() => Cause::KernelNotSwitched,
                (Some(_), false) => Cause::RunQueue,
            },
        };
        WaitState::Known(cause)
    }

    /// Writes down how the thread is now, where it waits.
    fn note(&mut self, slot: Slot) {
        if self.threads.get(slot).wait.is_none() {
            return;
        }
        let state = self.state_of(slot);
        let now_ns = self.now_ns;
        self.threads.get_mut(slot).timeline.change(now_ns, state);
    }

    /// Something changed on this CPU: so it did for who runs and who could run there.
    fn refresh(&mut self, cpu: u16) {
        let Some(core) = self.cores.get_mut(cpu) else { return };
        let current = core.current;
        let queued = std::mem::take(&mut core.queued);
        queued.iter().for_each(|slot| self.note(*slot));
        if let Some(core) = self.cores.get_mut(cpu) {
            core.queued = queued;
        }
        let current = current.filter(|current| *current != IDLE).and_then(|id| self.threads.find(id));
        if let Some(slot) = current
            && matches!(self.threads.get(slot).timeline.whereabouts, Whereabouts::Running { cpu: on } if on == cpu)
        {
            self.note(slot);
        }
    }

    fn unqueue(&mut self, slot: Slot) {
        if let Whereabouts::Queued { cpu, .. } = self.threads.get(slot).timeline.whereabouts
            && let Some(core) = self.cores.get_mut(cpu)
        {
            core.queued.retain(|queued| *queued != slot);
        }
    }

    /// Puts the thread into the run queue of a CPU.
    fn queue(&mut self, slot: Slot, cpu: u16, switches_ago: u64) {
        self.unqueue(slot);
        let Some(core) = self.cores.get_mut(cpu) else { return };
        core.queued.push(slot);
        let switches = core.switches - switches_ago;
        self.threads.get_mut(slot).timeline.whereabouts = Whereabouts::Queued { cpu, switches };
    }

    fn switch(&mut self, cpu: u16, prev: ThreadId, next: ThreadId, prev_state: OffCpu) {
        let now_ns = self.now_ns;
        self.handlers_end(cpu);
        let prev = if prev == IDLE { None } else { self.threads.find(prev) };
        let next_slot = if next == IDLE { None } else { self.threads.find(next) };
        let Some(core) = self.cores.get_mut(cpu) else { return };
        core.switches += 1;
        core.current = Some(next);
        core.kernel_ns = None;
        let passed_over = core.queued.iter().copied().filter(|queued| Some(*queued) != next_slot);
        if next != IDLE {
            for slot in passed_over {
                self.threads.get_mut(slot).timeline.others_first += 1;
            }
        }
        if let Some(slot) = prev.filter(|prev| Some(*prev) != next_slot) {
            self.switch_out(slot, cpu, prev_state);
        }
        if let Some(slot) = next_slot {
            self.switch_in(slot, cpu, now_ns);
        }
        self.refresh(cpu);
    }

    fn switch_out(&mut self, slot: Slot, cpu: u16, state: OffCpu) {
        let now_ns = self.now_ns;
        // Who is throttled stands in no queue.
        if state.could_go_on() && state != OffCpu::Throttled {
            // Whoever comes was switched to after it became a thread that waits for the CPU.
            self.queue(slot, cpu, 1);
        } else {
            self.unqueue(slot);
            self.threads.get_mut(slot).timeline.whereabouts = Whereabouts::Asleep;
        }
        let thread = self.threads.get_mut(slot);
        let in_call = thread.is_in_call();
        let timeline = &mut thread.timeline;
        timeline.asleep_ns = (!state.could_go_on() && !in_call).then_some(now_ns);
        timeline.yielded_ns = (state == OffCpu::Yielded && !in_call).then_some(now_ns);
        match timeline.kernel {
            Some(_) => timeline.off_ns = Some(now_ns),
            None if state == OffCpu::Preempted && !in_call => timeline.preempted_ns = Some(now_ns),
            None => {}
        }
        self.note(slot);
        self.recount(slot);
    }

    fn switch_in(&mut self, slot: Slot, cpu: u16, now_ns: u64) {
        self.unqueue(slot);
        let timeline = &mut self.threads.get_mut(slot).timeline;
        timeline.whereabouts = Whereabouts::Running { cpu };
        timeline.moved = false;
        let off_ns = timeline.off_ns.take();
        let preempted_ns = timeline.preempted_ns.take();
        let asleep_ns = timeline.asleep_ns.take();
        let yielded_ns = timeline.yielded_ns.take();
        if let (Some(stay), Some(off_ns)) = (&mut timeline.kernel, off_ns) {
            stay.off_ns += now_ns - off_ns;
        }
        let kernel_ns = timeline.kernel.map(|stay| stay.since_ns);
        if let Some(core) = self.cores.get_mut(cpu) {
            core.kernel_ns = kernel_ns;
        }
        let thread = self.threads.get_mut(slot);
        if let Some(since_ns) = asleep_ns.filter(|_| !thread.is_in_call() && !thread.ended) {
            thread.path.sleep(now_ns - since_ns.max(thread.last_ns), now_ns);
        }
        if let Some(since_ns) = yielded_ns.filter(|_| !thread.is_in_call() && !thread.ended) {
            thread.path.spin(now_ns - since_ns.max(thread.last_ns), now_ns);
        }
        if let Some(since_ns) = preempted_ns {
            // What the library has told of since is its own, if the two clocks are a little apart.
            let since_ns = since_ns.max(self.threads.get(slot).last_ns);
            self.lose_outside_calls(slot, cpu, OtherClass::Preemption, now_ns - since_ns);
        }
        self.recount(slot);
    }

    /// `waker`: the CPU whose current thread wakes; none where no thread does.
    fn waking(&mut self, waker: Option<u16>, thread: ThreadId) {
        let slot = self.threads.find(thread);
        let by = waker.and_then(|cpu| self.cores.get_mut(cpu)).and_then(|core| core.current);
        if let Some(by) = by.and_then(|by| self.threads.find(by)) {
            self.wakes(by, slot);
        }
        let Some(slot) = slot else { return };
        let kernel_ns = waker.and_then(|cpu| self.cores.get_mut(cpu)).and_then(|core| core.kernel_ns);
        let now_ns = self.now_ns;
        let thread = self.threads.get_mut(slot);
        if thread.wait.is_none() || thread.timeline.whereabouts != Whereabouts::Asleep {
            return;
        }
        if let Some(kernel_ns) = kernel_ns {
            thread.timeline.woken_from(kernel_ns);
        }
        thread.timeline.change(now_ns, WaitState::Waking);
    }

    fn woken(&mut self, thread: ThreadId, target_cpu: u16) {
        let Some(slot) = self.threads.find(thread) else { return };
        let whereabouts = self.threads.get(slot).timeline.whereabouts;
        if matches!(whereabouts, Whereabouts::Running { .. } | Whereabouts::Queued { .. }) {
            return;
        }
        if whereabouts == Whereabouts::Asleep {
            self.waking(None, thread);
        }
        let timeline = &mut self.threads.get_mut(slot).timeline;
        timeline.moved = false;
        timeline.others_first = 0;
        self.queue(slot, target_cpu, 0);
        self.note(slot);
        self.recount(slot);
    }

    fn migrate(&mut self, thread: ThreadId, to: u16) {
        let Some(slot) = self.threads.find(thread) else { return };
        if matches!(self.threads.get(slot).timeline.whereabouts, Whereabouts::Queued { .. }) {
            self.queue(slot, to, 0);
            self.threads.get_mut(slot).timeline.moved = true;
            self.note(slot);
        }
    }

    fn enter_kernel(&mut self, cpu: u16, thread: ThreadId, reason: KernelReason) {
        let now_ns = self.now_ns;
        if let Some(core) = self.cores.get_mut(cpu)
            && core.current.is_none_or(|current| current == thread)
        {
            core.kernel_ns = Some(now_ns);
        }
        if let Some(slot) = self.threads.find(thread) {
            let logged = reason != KernelReason::Futex && !self.threads.get(slot).is_in_call();
            let entry = if logged { self.cores.take(cpu, Buffer::Wait) } else { None };
            if logged {
                self.observer.buffer(cpu, Buffer::Wait, Operation::Write, entry);
            }
            let stay =
                InKernel { since_ns: now_ns, reason, off_ns: 0, entry: entry.map(|entry| (cpu, entry)) };
            let old = self.threads.get_mut(slot).timeline.kernel.replace(stay);
            if let Some((core, entry)) = old.and_then(|old| old.entry) {
                self.cores.give(core, Buffer::Wait, entry);
            }
            self.note(slot);
        }
        self.refresh(cpu);
    }

    fn leave_kernel(&mut self, cpu: u16, thread: ThreadId) {
        if let Some(core) = self.cores.get_mut(cpu)
            && core.current.is_none_or(|current| current == thread)
        {
            core.kernel_ns = None;
        }
        if let Some(slot) = self.threads.find(thread) {
            let stay = self.threads.get_mut(slot).timeline.kernel.take();
            self.note(slot);
            if let Some(stay) = stay {
                self.leave_stay(slot, cpu, stay);
            }
        }
        self.refresh(cpu);
    }

    /// A system call that is told of at its end is logged and looked up at once.
    fn system_call(&mut self, cpu: u16, thread: ThreadId, blocked_ns: u64) {
        let Some(slot) = self.threads.find(thread).filter(|slot| !self.threads.get(*slot).is_in_call())
        else {
            return;
        };
        let entry = self.cores.take(cpu, Buffer::Wait);
        self.observer.buffer(cpu, Buffer::Wait, Operation::Write, entry);
        let stay = InKernel {
            since_ns: self.now_ns,
            reason: KernelReason::SystemCall,
            off_ns: blocked_ns,
            entry: entry.map(|entry| (cpu, entry)),
        };
        self.leave_stay(slot, cpu, stay);
    }

    /// Time lost by something else than synchronisation (the paper's C.2.4).
    fn leave_stay(&mut self, slot: Slot, cpu: u16, stay: InKernel) {
        let Some((core, entry)) = stay.entry else { return };
        self.cores.give(core, Buffer::Wait, entry);
        self.observer.buffer(core, Buffer::Wait, Operation::LookUp, Some(entry));
        let inside_ns = self.now_ns - stay.since_ns;
        let (class, lost_ns) = match stay.reason {
            KernelReason::Futex => return,
            KernelReason::Timer => (OtherClass::Timer, inside_ns),
            KernelReason::Interrupt => (OtherClass::Interrupt, inside_ns),
            KernelReason::SystemCall if stay.off_ns > self.settings.system_call_threshold_ns => {
                (OtherClass::SystemCall, stay.off_ns)
            }
            KernelReason::SystemCall => return,
        };
        self.lose_outside_calls(slot, cpu, class, lost_ns);
    }

    fn slow(&mut self, cpu: u16, duration_ns: u64, lost_permille: u16) {
        let Some(core) = self.cores.get_mut(cpu) else { return };
        let Some(who) = core.current.or(core.last).filter(|who| *who != IDLE) else { return };
        let lost_ns = u128::from(duration_ns) * u128::from(lost_permille.min(1_000)) / 1_000;
        if let Some(slot) = self.threads.find(who) {
            self.lose_outside_calls(slot, cpu, OtherClass::SlowCpu, lost_ns as u64);
        }
    }

    /// Inside a call of the library lost time makes the call longer, which counts there.
    fn lose_outside_calls(&mut self, slot: Slot, cpu: u16, class: OtherClass, lost_ns: u64) {
        let thread = self.threads.get(slot);
        if !thread.is_in_call() && !thread.ended && lost_ns > 0 {
            self.lose(slot, cpu, class, lost_ns);
        }
    }
}
