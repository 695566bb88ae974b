//! What may be done to a simulation while it runs: other frequencies, kernel activity between two steps of a thread.
//!
//! The machine calls [`Hooks::event`] in the exact order of simulated time and carries out the [`Orders`] at once. Hooks are
//! a type of the machine, so that none ([`NoHooks`]) cost nothing.
//!
//! ```text
//! thread   … step ── Enters (lock, wait, …) ── Stops ──────────── Runs ── Leaves ─┬─ step …
//!                                                                                 └ Orders::kernel: KernelEnters,
//!                                                                                   its blocks, KernelLeaves, step …
//! woken late                              … Stops ── Runs ── WakesLate ── kernel ─┬─ Leaves, step …
//!                                                                                 └ Stops: what it wants is taken
//! ```

use crate::core::Performed;
use crate::error::SimulationError;
use crate::private::SecondLevel;
use crate::statistics::CoreCounts;
use quaver_trace::step::{Access, Step, Steps, Sync, Thread, TraceError};

/// Something that happened on a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The thread was started by another, and will run on this core; the first thread has no event of this kind.
    Created {
        /// The new thread.
        thread: Thread,
        /// Who started it.
        by: Thread,
    },
    /// The thread runs here from now on.
    Runs {
        /// The thread.
        thread: Thread,
        /// How long it could have run before, while another thread had the core, femtoseconds.
        queued_fs: u64,
    },
    /// The thread runs here no more: it waits, or another one has its turn.
    Stops {
        /// The thread.
        thread: Thread,
    },
    /// The thread enters a call that synchronises, such as `s_e`, `w_e`, `l_e`; its stores before are done.
    Enters {
        /// The thread.
        thread: Thread,
        /// The call.
        sync: Sync,
    },
    /// The thread was [woken late](Hooks::wakes_late) from the call in which it waits: what the kernel does first is to be
    /// ordered now. Then the thread asks for the lock that it needs, and leaves the call or stops again.
    WakesLate {
        /// The thread.
        thread: Thread,
    },
    /// The thread leaves the call, such as `s_x`, `w_x`, `l_x`.
    Leaves {
        /// The thread.
        thread: Thread,
        /// The call.
        sync: Sync,
        /// Who let it go on; none if it did not wait.
        by: Option<Thread>,
    },
    /// The thread has ended.
    Ended {
        /// The thread.
        thread: Thread,
    },
    /// The alarm that was asked for; between two steps, so up to a block later, or a wait for a line.
    Alarm {
        /// The thread that runs here; none if the core idles.
        thread: Option<Thread>,
    },
    /// Kernel activity that was ordered begins, `k_e`.
    KernelEnters {
        /// The thread that is held up; none if the core idles.
        thread: Option<Thread>,
    },
    /// It has ended, `k_x`.
    KernelLeaves {
        /// The thread that goes on; none if the core idles.
        thread: Option<Thread>,
    },
}

/// What a thread was woken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WokenFrom {
    /// A lock, which was given back.
    Lock,
    /// A wait that a signal ended.
    Signal,
    /// A wait that a broadcast ended.
    Broadcast,
    /// A barrier at which all are.
    Barrier,
}

/// A thread that another one has woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Woken<'a> {
    /// The thread.
    pub thread: Thread,
    /// From what.
    pub from: WokenFrom,
    /// The same number for all that one signal or broadcast wakes, or the last at a barrier, and another each time; 0 for
    /// locks.
    pub occasion: u64,
    /// All that are woken on this occasion, `thread` among them; of a lock `thread` alone.
    pub with: &'a [Thread],
}

/// Where and when an event happens, and what the core has done until then.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// Simulated time, femtoseconds.
    pub at_fs: u64,
    /// The core.
    pub core: usize,
    /// A cycle of the core now, femtoseconds.
    pub cycle_fs: u64,
    /// What the core did for threads.
    pub counts: &'a CoreCounts,
    /// What it did for kernel activity that was ordered.
    pub kernel_counts: &'a CoreCounts,
    /// Lines of the application that the kernel evicted from the core's second level; 0 where they are not counted.
    pub evicted_by_kernel: u64,
}

/// A new frequency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrequencyChange {
    /// The core.
    pub core: usize,
    /// Its frequency from its next step on, in GHz, above 0 and at most `chip.peak_frequency_ghz`.
    pub ghz: f64,
    /// How long it stands still for that, femtoseconds.
    pub stall_fs: u64,
}

/// What hooks want done, on the core of the event where nothing else is said.
#[derive(Debug)]
pub struct Orders<K> {
    /// Frequencies to change.
    pub frequencies: Vec<FrequencyChange>,
    /// When to call with [`Event::Alarm`], by core; it takes the place of an alarm that was not called yet. `u64::MAX`
    /// takes an alarm away.
    pub alarms: Vec<(usize, u64)>,
    /// Kernel activity to run before the thread's next step, also where the core idles. While one runs, the next waits.
    pub kernel: Vec<K>,
}

impl<K> Default for Orders<K> {
    fn default() -> Self {
        Self { frequencies: Vec::new(), alarms: Vec::new(), kernel: Vec::new() }
    }
}

impl<K> Orders<K> {
    /// Whether nothing is wanted.
    pub fn is_empty(&self) -> bool {
        self.frequencies.is_empty() && self.alarms.is_empty() && self.kernel.is_empty()
    }
}

/// What is done while the machine runs.
pub trait Hooks {
    /// Where the steps of kernel activity come from. They are blocks of the machine's dictionary (see
    /// `Machine::with_hooks`), then [`Step::End`].
    type Kernel: Steps;

    /// Whether the machine calls at all.
    const ACTIVE: bool = true;

    /// Whether [`Hooks::performed`] is called.
    const WATCHES: bool = false;

    /// An access to memory was carried out, in the order of each core's accesses; cores come in any order. Only where
    /// [`Hooks::WATCHES`] says so, which costs much time.
    fn performed(&mut self, access: Performed) {
        let _ = access;
    }

    /// Which second level the cores have.
    fn second_level(&self) -> SecondLevel {
        SecondLevel::default()
    }

    /// When the first alarm of this core is, femtoseconds; `u64::MAX` for none.
    fn first_alarm_fs(&self, core: usize) -> u64 {
        let _ = core;
        u64::MAX
    }

    /// How long this kernel activity takes before its first step, femtoseconds: time of which nothing else is known. Without a
    /// step it takes so long in all.
    fn passes_fs(kernel: &Self::Kernel) -> u64 {
        let _ = kernel;
        0
    }

    /// Whether the kernel has something else to do before a thread that was woken goes on. It is told while the step that
    /// wakes it is done, between [`Event::Enters`] and [`Event::Leaves`] of that.
    fn wakes_late(&mut self, woken: Woken<'_>) -> bool {
        let _ = woken;
        false
    }

    /// This happened. Calls come in the order of simulated time, at equal times in the order of cores.
    ///
    /// # Errors
    /// Whatever makes it senseless to go on.
    fn event(
        &mut self,
        moment: &Moment<'_>,
        event: Event,
        orders: &mut Orders<Self::Kernel>,
    ) -> Result<(), SimulationError>;
}

/// Nothing is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoHooks;

/// Kernel activity that there is none of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoKernel {}

impl Steps for NoKernel {
    fn append(&mut self, _: &mut Vec<Access>) -> Result<Step, TraceError> {
        match *self {}
    }
}

impl Hooks for NoHooks {
    type Kernel = NoKernel;
    const ACTIVE: bool = false;

    fn event(
        &mut self,
        _: &Moment<'_>,
        _: Event,
        _: &mut Orders<Self::Kernel>,
    ) -> Result<(), SimulationError> {
        Ok(())
    }
}
