//! Processes that wait for each other's ends: a shell, `timeout`, `make`.

use super::record::Recorder;
use super::{Deed, Step};
use crate::sync::{SoFar, SyncEvent, ThreadId};
use quaver_abi::sync::CPU_UNKNOWN;

fn end_ns(step: &Step) -> u64 {
    step.at_ns + step.took_ns
}

impl Recorder {
    /// A call of the thread returns that waits for the end of a child or for a signal. A process below its own that ended in its sleep
    /// ended it.
    pub fn waited_for_child(&mut self, thread: ThreadId, at_ns: u64, blocked_ns: u64, so_far: SoFar) {
        let Some(&at) = self.by_id.get(&thread).filter(|_| !self.full) else { return };
        let Some((child, step)) = self.ended_below(self.threads[at].process, at_ns, blocked_ns) else {
            return;
        };
        let ended_ns = end_ns(&self.threads[child].sequence.steps[step]);
        self.spend(at, CPU_UNKNOWN, so_far);
        let slept_ns = self.threads[at].pending_slept_ns;
        // What follows the end is of the child's process or of the kernel, and stays as it was.
        let after_ns = (at_ns - ended_ns).min(slept_ns);
        let waited_ns = blocked_ns.min(slept_ns) - after_ns.min(blocked_ns);
        self.threads[at].pending_slept_ns = slept_ns - after_ns - waited_ns;
        let mark = self.mark(child, step);
        self.push(at, ended_ns - waited_ns.min(ended_ns), waited_ns, Deed::Await { mark, delay_ns: 0 });
        self.threads[at].pending_slept_ns = after_ns;
    }

    /// The latest step of a process below this one that had ended by then, if it came in the sleep.
    fn ended_below(&self, process: u16, at_ns: u64, blocked_ns: u64) -> Option<(usize, usize)> {
        let has_ended =
            |child: u16| self.lives.get(usize::from(child)).is_some_and(|life| life.last_ns <= at_ns);
        let threads = self.threads.iter().enumerate();
        let below = threads.filter(|(_, one)| self.is_below(one.process, process) && has_ended(one.process));
        let last = below.filter_map(|(at, one)| Some((end_ns(one.sequence.steps.last()?), at)));
        let (ended_ns, at) = last.filter(|(ended_ns, _)| *ended_ns <= at_ns).max()?;
        (ended_ns + blocked_ns >= at_ns).then(|| (at, self.threads[at].sequence.steps.len() - 1))
    }

    fn parent(&self, process: u16) -> Option<u16> {
        self.lives.get(usize::from(process))?.parent
    }

    fn is_below(&self, process: u16, above: u16) -> bool {
        let mut line = std::iter::successors(self.parent(process), |one| self.parent(*one));
        line.by_ref().take(self.lives.len()).any(|one| one == above)
    }

    /// The latest step of the thread that most likely made the process of this thread, its first one: the initial thread of its parent.
    pub(super) fn maker(&self, event: &SyncEvent) -> Option<(usize, usize)> {
        let is_first = self.threads.iter().filter(|one| one.process == event.process).count() == 1;
        let parent = self.parent(event.process).filter(|_| is_first)?;
        let maker = self.threads.iter().position(|one| one.process == parent)?;
        Some((maker, self.threads[maker].sequence.steps.len().checked_sub(1)?))
    }

    /// A process begins some time after the latest step of who made it.
    pub(super) fn start_process(&mut self, at: usize, now_ns: u64, (maker, step): (usize, usize)) {
        let from_ns = end_ns(&self.threads[maker].sequence.steps[step]).min(now_ns);
        let mark = self.mark(maker, step);
        self.push(at, from_ns, 0, Deed::Await { mark, delay_ns: 0 });
        self.threads[at].pending_slept_ns += now_ns - from_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Gains, LatestWakeup, Life};
    use super::Recorder;
    use crate::sync::{AnyEvent, KernelEvent, KernelKind, Ledger, Protocol, Settings, SyncEvent, ThreadId};
    use quaver_abi::record::OffCpu;
    use quaver_abi::sync::SyncKind::{self, *};

    const LOCK: u64 = 0x1000;
    const CALL: u16 = 61;

    fn feed(told: &[(u64, AnyEvent)], lives: Vec<Life>) -> Gains {
        let (mut ledger, mut recorder) = (Ledger::default(), Recorder::of(lives));
        let mut protocol = Protocol::with_observer(Settings::default(), LatestWakeup::default());
        for (_, event) in told {
            ledger.any(event);
            protocol.any(event);
            match event {
                AnyEvent::Sync(event) => {
                    let wakeup = protocol.observer_mut().take();
                    recorder.event(event, wakeup, ledger.so_far(event.thread));
                }
                AnyEvent::Kernel(KernelEvent {
                    at_ns,
                    kind: KernelKind::SystemCall { thread, blocked_ns, .. },
                    ..
                }) => recorder.waited_for_child(*thread, *at_ns, *blocked_ns, ledger.so_far(*thread)),
                AnyEvent::Kernel(_) => {}
            }
        }
        let mut trace = recorder.finish(ledger.kernel_seen());
        trace.gains(&[(1, LOCK)])
    }

    /// Thread 1 of process 0 makes process 1, whose threads 2 and 3 hold a lock in turns for 58 ms, and sleeps for 60 ms from the
    /// first ms on.
    fn history() -> Vec<(u64, AnyEvent)> {
        let mut told = Vec::new();
        let mut sync = |us: u64, process: u16, thread: u32, kind: SyncKind, object: u64| {
            let event = SyncEvent { process, ..SyncEvent::plain(us * 1_000, thread, kind, object) };
            told.push((us, AnyEvent::Sync(event)));
        };
        sync(0, 0, 1, ThreadStart, 1);
        sync(1_000, 1, 2, ThreadStart, 2);
        sync(1_000, 1, 2, Create, 0);
        sync(1_000, 1, 3, ThreadStart, 3);
        sync(1_001, 1, 2, Taken, LOCK);
        for round in 0..29 {
            let (owner, other) = if round % 2 == 0 { (2, 3) } else { (3, 2) };
            let from_us = 1_001 + round * 2_000;
            sync(from_us + 1, 1, other, LockEntry, LOCK);
            sync(from_us + 2_000, 1, owner, UnlockEntry, LOCK);
            sync(from_us + 2_000, 1, owner, UnlockExit, LOCK);
            sync(from_us + 2_000, 1, other, LockExit, LOCK);
        }
        sync(59_002, 1, 2, ThreadExit, 2);
        sync(59_003, 1, 3, ThreadExit, 3);
        sync(61_100, 0, 1, ThreadExit, 1);
        let mut kernel = |us: u64, kind| {
            told.push((us, AnyEvent::Kernel(KernelEvent { at_ns: us * 1_000, cpu: 1, kind })));
        };
        let switch = |prev, next, prev_state| KernelKind::Switch {
            prev: ThreadId(prev),
            next: ThreadId(next),
            prev_state,
            priorities: None,
        };
        kernel(500, switch(0, 1, OffCpu::Unknown));
        kernel(1_000, switch(1, 0, OffCpu::Blocked));
        kernel(61_000, switch(0, 1, OffCpu::Unknown));
        let blocked_ns = 60_000_000;
        let call = KernelKind::SystemCall {
            thread: ThreadId(1),
            blocked_ns,
            inside_ns: blocked_ns,
            number: CALL,
            only_waits: true,
        };
        kernel(61_000, call);
        told.sort_by_key(|one| one.0);
        told
    }

    #[test]
    fn a_process_that_waits_for_another_ends_sooner_if_that_one_does() {
        let lives =
            |parent| vec![Life { parent: None, last_ns: 61_100_000 }, Life { parent, last_ns: 59_003_000 }];
        let gain = |parent| {
            let gains = feed(&history(), lives(parent));
            assert_eq!(gains.reason, None, "{gains:?}");
            gains.of(1, LOCK).expect("it was asked for").hold_halved
        };
        // 29 ms less of 61.1.
        assert!((gain(Some(0)) - 0.475).abs() < 0.02, "{}", gain(Some(0)));
        // Who is not its parent did not wait for it.
        assert!(gain(None).abs() < 0.02, "{}", gain(None));
    }

    #[test]
    fn a_child_that_lives_on_ended_no_wait() {
        let lives =
            vec![Life { parent: None, last_ns: 61_100_000 }, Life { parent: Some(0), last_ns: 61_050_000 }];
        let gains = feed(&history(), lives);
        assert!(gains.of(1, LOCK).expect("it was asked for").hold_halved.abs() < 0.02, "{gains:?}");
    }
}
