//! What the kernel did to a thread while it waited, and how a wait is cut into pieces by it.

use super::results::{Cause, WaitPiece};

/// Changes of state kept of one wait; of longer ones the oldest are forgotten and their time is unexplained.
const KEPT: usize = 256;

/// Where a thread is, as far as the kernel told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Whereabouts {
    #[default]
    Unknown,
    Running {
        cpu: u16,
    },
    Asleep,
    /// Runnable on this CPU, and since this many switches of it.
    Queued {
        cpu: u16,
        switches: u64,
    },
}

/// State of a waiting thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitState {
    /// Not told.
    Unknown,
    /// Waits in the kernel.
    Asleep,
    /// The waker's kernel is at work to wake it.
    Waking,
    /// Runs or could run; the cause says how.
    Known(Cause),
}

/// The mutex that a wait has to take again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutex {
    /// There is none.
    None,
    /// Nobody is known to have given it back after the release.
    NotTold,
    /// Somebody gave it back last at this time.
    FreeAt(u64),
}

/// The kernel's side of one thread.
#[derive(Clone, Debug, Default)]
pub(super) struct ThreadTimeline {
    pub(super) whereabouts: Whereabouts,
    /// Between k_e and k_x, since when and whether for a futex.
    pub(super) kernel: Option<InKernel>,
    /// The runnable thread was moved and has not run since.
    pub(super) moved: bool,
    /// Off the CPU since, outside every call, though it could run.
    pub(super) preempted_ns: Option<u64>,
    /// Asleep since, outside every call of the library.
    pub(super) asleep_ns: Option<u64>,
    /// Without the CPU that it gave away since, outside every call of the library.
    pub(super) yielded_ns: Option<u64>,
    /// Off the CPU since, during a system call.
    pub(super) off_ns: Option<u64>,
    /// Others that its CPU switched to while it was runnable, since it was woken last.
    pub(super) others_first: u32,
    log: Vec<(u64, WaitState)>,
}

/// A stay in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InKernel {
    pub(super) since_ns: u64,
    pub(super) reason: super::event::KernelReason,
    /// Time off the CPU during it so far.
    pub(super) off_ns: u64,
    /// Where it stands in the wait buffer of which core.
    pub(super) entry: Option<(u16, u8)>,
}

impl ThreadTimeline {
    /// As new, but with the memory of its log.
    pub(super) fn emptied(mut self) -> Self {
        self.log.clear();
        Self { log: self.log, ..Self::default() }
    }

    /// A wait begins.
    pub(super) fn begin(&mut self, at_ns: u64, state: WaitState) {
        self.log.clear();
        self.log.push((at_ns, state));
    }

    /// The state is another one from now on.
    pub(super) fn change(&mut self, at_ns: u64, state: WaitState) {
        if self.log.last().is_some_and(|(_, last)| *last == state) {
            return;
        }
        if self.log.len() == KEPT {
            self.log.drain(..KEPT / 2);
        }
        self.log.push((at_ns, state));
    }

    /// The waker went into the kernel at `at_ns` to wake it: what is left of its sleep was the kernel's.
    pub(super) fn woken_from(&mut self, at_ns: u64) {
        if let Some((since_ns, WaitState::Asleep)) = self.log.last().copied() {
            self.change(at_ns.max(since_ns), WaitState::Waking);
        }
    }

    /// Cuts the time from `from_ns` to `to_ns` by the states. Pieces are in time order, not empty, and cover the
    /// time exactly.
    pub(super) fn cut(&self, from_ns: u64, to_ns: u64, mutex: Mutex, into: &mut Vec<WaitPiece>) {
        into.clear();
        let mut at_ns = from_ns;
        let mut woken = false;
        let first = self.log.first().map_or(to_ns, |(since_ns, _)| *since_ns);
        let mut put = |at_ns: &mut u64, end_ns: u64, state: WaitState, woken: bool| {
            let end_ns = end_ns.min(to_ns);
            if end_ns <= *at_ns {
                return;
            }
            let (held, rest) = match state {
                WaitState::Known(cause) => (cause, cause),
                WaitState::Waking => (Cause::KernelNotSwitched, Cause::KernelNotSwitched),
                WaitState::Unknown => (Cause::MutexHeld, Cause::Unexplained),
                // Asleep again after it ran: it waits for the mutex.
                WaitState::Asleep if woken => (Cause::MutexHeld, Cause::WakerLate),
                WaitState::Asleep => (Cause::WakerLate, Cause::WakerLate),
            };
            let held_until_ns = match (mutex, state) {
                (Mutex::FreeAt(free_ns), _) => free_ns,
                (Mutex::NotTold, WaitState::Asleep) => end_ns,
                _ => 0,
            };
            let split_ns = held_until_ns.clamp(*at_ns, end_ns);
            push(into, *at_ns, split_ns, held);
            push(into, split_ns, end_ns, rest);
            *at_ns = end_ns;
        };
        put(&mut at_ns, first, WaitState::Unknown, false);
        for (index, (_, state)) in self.log.iter().enumerate() {
            let end_ns = self.log.get(index + 1).map_or(to_ns, |(next_ns, _)| *next_ns);
            put(&mut at_ns, end_ns, *state, woken);
            woken |= end_ns > from_ns && matches!(state, WaitState::Known(_));
        }
    }
}

fn push(into: &mut Vec<WaitPiece>, start_ns: u64, end_ns: u64, cause: Cause) {
    if start_ns >= end_ns {
        return;
    }
    match into.last_mut() {
        Some(last) if last.cause == cause => last.end_ns = end_ns,
        _ => into.push(WaitPiece { start_ns, end_ns, cause }),
    }
}
