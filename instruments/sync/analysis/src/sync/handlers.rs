//! Interrupts and softirqs that hold up a thread which runs its own code: other jitter (the paper's C.2.4).

use super::cores::Handler;
use super::observer::{Buffer, Observer, Operation};
use super::protocol::Protocol;
use super::results::OtherClass;
use super::threads::Slot;
use super::timeline::Whereabouts;

/// Handlers of one CPU that lie in each other; more mean that their ends were lost.
const MOST_NESTED: usize = 8;

impl<O: Observer> Protocol<O> {
    /// A handler begins on this CPU.
    pub(super) fn handler_begins(&mut self, cpu: u16, soft: bool, timer: bool) {
        self.book_handler(cpu);
        let holds_up = self.running_on(cpu).is_some_and(|slot| self.can_be_held_up(slot));
        let entry = if holds_up { self.cores.take(cpu, Buffer::Wait) } else { None };
        if holds_up {
            self.observer.buffer(cpu, Buffer::Wait, Operation::Write, entry);
        }
        let class = if timer { OtherClass::Timer } else { OtherClass::Interrupt };
        let Some(core) = self.cores.get_mut(cpu) else { return };
        core.handlers.open.push(Handler { soft, class, entry, lost_ns: 0 });
        if core.handlers.open.len() > MOST_NESTED {
            let oldest = core.handlers.open.remove(0);
            self.close_handler(cpu, oldest);
        }
    }

    /// The innermost handler of its kind ends, and with it those inside whose ends were lost.
    pub(super) fn handler_ends(&mut self, cpu: u16, soft: bool) {
        self.book_handler(cpu);
        let Some(core) = self.cores.get_mut(cpu) else { return };
        let Some(place) = core.handlers.open.iter().rposition(|one| one.soft == soft) else { return };
        self.close_handlers(cpu, place);
    }

    /// The CPU goes to another thread, which none does inside a handler: whatever is open has lost its end.
    pub(super) fn handlers_end(&mut self, cpu: u16) {
        self.book_handler(cpu);
        self.close_handlers(cpu, 0);
    }

    fn close_handlers(&mut self, cpu: u16, from: usize) {
        while let Some(core) = self.cores.get_mut(cpu)
            && core.handlers.open.len() > from
            && let Some(last) = core.handlers.open.pop()
        {
            self.close_handler(cpu, last);
        }
    }

    /// The thread that has this CPU, as far as it is in the list.
    fn running_on(&mut self, cpu: u16) -> Option<Slot> {
        let current = self.cores.get_mut(cpu)?.current?;
        let slot = self.threads.find(current)?;
        let whereabouts = self.threads.get(slot).timeline.whereabouts;
        (whereabouts == Whereabouts::Running { cpu }).then_some(slot)
    }

    /// Inside a call of the library an interrupt makes that call longer, and is a cause there. A stay in the kernel
    /// for an interrupt counts by itself.
    fn can_be_held_up(&self, slot: Slot) -> bool {
        use super::event::KernelReason::{Interrupt, Timer};
        let thread = self.threads.get(slot);
        let told = thread.timeline.kernel.is_some_and(|stay| matches!(stay.reason, Timer | Interrupt));
        !thread.is_in_call() && !thread.ended && !told
    }

    /// Books the time since the last change to the innermost handler.
    fn book_handler(&mut self, cpu: u16) {
        let now_ns = self.now_ns;
        let Some(core) = self.cores.get_mut(cpu) else { return };
        let since_ns = std::mem::replace(&mut core.handlers.booked_ns, now_ns);
        if core.handlers.open.last().is_none_or(|handler| handler.entry.is_none()) {
            return;
        }
        let Some(slot) = self.running_on(cpu).filter(|slot| self.can_be_held_up(*slot)) else { return };
        let thread = self.threads.get_mut(slot);
        // Recorder and kernel look at the clock in turns: what the library has told of until then is its own.
        let lost_ns = now_ns.saturating_sub(since_ns.max(thread.last_ns));
        thread.path.lose(lost_ns, now_ns);
        thread.last_ns = now_ns;
        if let Some(core) = self.cores.get_mut(cpu)
            && let Some(handler) = core.handlers.open.last_mut()
        {
            handler.lost_ns += lost_ns;
        }
    }

    /// Its time is complete.
    fn close_handler(&mut self, cpu: u16, handler: Handler) {
        let Some(entry) = handler.entry else { return };
        self.cores.give(cpu, Buffer::Wait, entry);
        self.observer.buffer(cpu, Buffer::Wait, Operation::LookUp, Some(entry));
        if let Some(slot) = self.running_on(cpu).filter(|_| handler.lost_ns > 0) {
            self.books.lost(handler.class, handler.lost_ns);
            self.threads.get_mut(slot).count_lost(handler.lost_ns);
            if let Some(core) = self.cores.get_mut(cpu) {
                core.other.add(handler.lost_ns);
            }
        }
    }
}
