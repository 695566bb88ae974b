//! What the protocol is fed with: events of the thread library, of the kernel, and of the machine, in time order.

use quaver_abi::kernel_side::{KernelSideKind, KernelSideRecord, WakingContext};
use quaver_abi::record::OffCpu;
use quaver_abi::sync::{SyncKind, SyncOutcome, SyncRecord, outcome_flags};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Numbers of interrupts from here on are vectors of the local timer.
const LOCAL_TIMER: u32 = 0x10000;
/// TIMER_SOFTIRQ and HRTIMER_SOFTIRQ (include/linux/interrupt.h).
const TIMER_SOFTIRQS: [u32; 2] = [1, 8];

/// Number of a thread, as the kernel has it in the namespace that all events of one analysis share.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct ThreadId(pub u32);

/// Entry into or return from a call of the thread library. The fields mean what those of [`SyncRecord`] do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncEvent {
    /// When, CLOCK_MONOTONIC nanoseconds.
    pub at_ns: u64,
    /// Address of the lock, condition, semaphore or barrier; `pthread_t` of creations, starts, ends and joins.
    pub object: u64,
    /// Address that the call returns to.
    pub call_site: u64,
    /// Who called.
    pub thread: ThreadId,
    /// As in the record.
    pub detail: u32,
    /// CPU that the caller was on; [`quaver_abi::sync::CPU_UNKNOWN`] where it is not known.
    pub cpu: u16,
    /// Number of the process image among those analysed together. Equal addresses of two images are two objects.
    pub process: u16,
    /// What happened.
    pub kind: SyncKind,
    /// How the call ended; of an entry, [`SyncOutcome::Ok`].
    pub outcome: SyncOutcome,
    /// [`outcome_flags`].
    pub flags: u8,
}
const _: () = assert!(size_of::<SyncEvent>() == 40);

impl SyncEvent {
    /// One that went well, with nothing else to say.
    #[cfg(test)]
    pub(crate) fn plain(at_ns: u64, thread: u32, kind: SyncKind, object: u64) -> Self {
        Self {
            at_ns,
            object,
            call_site: 0,
            thread: ThreadId(thread),
            detail: 0,
            cpu: 0,
            process: 0,
            kind,
            outcome: SyncOutcome::Ok,
            flags: 0,
        }
    }

    /// A recorder's record on the common time line; none for a kind that this version does not know.
    pub fn from_record(record: &SyncRecord, at_ns: u64, thread: ThreadId, process: u16) -> Option<Self> {
        Some(Self {
            at_ns,
            object: record.object,
            call_site: record.call_site,
            thread,
            detail: record.detail,
            cpu: record.cpu,
            process,
            kind: record.kind()?,
            outcome: record.outcome(),
            flags: record.outcome & !outcome_flags::OUTCOME_MASK,
        })
    }
}

/// Why a thread went into the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelReason {
    /// A futex system call: waiting or waking.
    Futex,
    /// The timer interrupt.
    Timer,
    /// Another interrupt.
    Interrupt,
    /// Any other system call.
    SystemCall,
}

/// One thing that the kernel or the machine did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelEvent {
    /// When, CLOCK_MONOTONIC nanoseconds.
    pub at_ns: u64,
    /// CPU that it happened on.
    pub cpu: u16,
    /// What.
    pub kind: KernelKind,
}

/// What the kernel or the machine did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelKind {
    /// k_e: the thread went into the kernel.
    Enter {
        /// Who.
        thread: ThreadId,
        /// Why.
        reason: KernelReason,
    },
    /// k_x: it is about to run in user space again.
    Exit {
        /// Who.
        thread: ThreadId,
    },
    /// The CPU goes from one thread to another; 0 is the idle task.
    Switch {
        /// Who leaves.
        prev: ThreadId,
        /// Who comes.
        next: ThreadId,
        /// In which state the one leaves.
        prev_state: OffCpu,
        /// How urgent the two are as the kernel numbers it (the smaller, the more urgent), where that is known.
        priorities: Option<(i16, i16)>,
    },
    /// Somebody begins to wake the thread.
    Waking {
        /// Who is woken.
        thread: ThreadId,
        /// The current thread of the CPU does it, as far as is known; else an interrupt or a softirq within it.
        by_current: bool,
        /// Which thread does it, where the kernel recorded that.
        by: Option<ThreadId>,
    },
    /// The thread was made runnable.
    Wakeup {
        /// Who.
        thread: ThreadId,
        /// In whose run queue it stands.
        target_cpu: u16,
    },
    /// The thread was moved.
    Migrate {
        /// Who.
        thread: ThreadId,
        /// From which CPU.
        from: u16,
        /// To which.
        to: u16,
    },
    /// Handler of an interrupt begins.
    IrqEnter {
        /// It is the local timer's.
        timer: bool,
    },
    /// It ends.
    IrqExit,
    /// A softirq begins.
    SoftirqEnter {
        /// It runs timers that have expired.
        timer: bool,
    },
    /// It ends.
    SoftirqExit,
    /// The CPU goes into an idle state.
    IdleEnter,
    /// It comes out of it.
    IdleExit,
    /// A system call that does not concern futexes returns. Where its entry is told, too, that is [`KernelKind::Enter`] and
    /// [`KernelKind::Exit`] instead.
    SystemCall {
        /// Whose.
        thread: ThreadId,
        /// How long the thread slept in it, nanoseconds. Time off the CPU in which it could run is not among it: that
        /// is preemption.
        blocked_ns: u64,
        /// How long the thread was in it, nanoseconds.
        inside_ns: u64,
        /// Its number in the machine's table.
        number: u16,
        /// All that it is for is to wait, so that it loses no time.
        only_waits: bool,
    },
    /// The CPU ran slower until now: throttling, a lower frequency.
    Slow {
        /// For how long.
        duration_ns: u64,
        /// Share of the full speed that it lost, in thousandths, up to 1,000. The user sets what an event costs.
        lost_permille: u16,
    },
    /// A sample: the thread has the CPU.
    Sample {
        /// Who.
        thread: ThreadId,
        /// Address of its next instruction; 0 in the kernel.
        address: u64,
        /// That is in a loop that waits for others. Of an address in user space the record does not say so.
        spins: bool,
    },
    /// Messages of the thread were late on the bus.
    BusDelay {
        /// Whose.
        thread: ThreadId,
        /// By how much together.
        lost_ns: u64,
    },
}

impl KernelEvent {
    /// A record of the kernel side; none for kinds that the protocol has no use for.
    pub fn from_record(record: &KernelSideRecord) -> Option<Self> {
        let thread = ThreadId(record.thread);
        let kind = match KernelSideKind::from_repr(record.kind)? {
            KernelSideKind::FutexEnter => KernelKind::Enter { thread, reason: KernelReason::Futex },
            KernelSideKind::FutexExit => KernelKind::Exit { thread },
            KernelSideKind::Switch => KernelKind::Switch {
                prev: thread,
                next: ThreadId(record.other),
                prev_state: OffCpu::from_raw(record.detail),
                priorities: (record.operand != 0)
                    .then_some(((record.operand >> 16) as i16, record.operand as i16)),
            },
            KernelSideKind::Waking => {
                let context = WakingContext::from_raw(record.detail);
                // Recordings of earlier versions do not tell.
                let by_current = matches!(context, WakingContext::Task | WakingContext::Unknown);
                let by = (record.other != 0).then_some(ThreadId(record.other));
                KernelKind::Waking { thread, by_current, by }
            }
            KernelSideKind::Wakeup => KernelKind::Wakeup { thread, target_cpu: record.operand as u16 },
            KernelSideKind::Migrate => {
                KernelKind::Migrate { thread, from: record.other as u16, to: record.operand as u16 }
            }
            KernelSideKind::IrqEnter => KernelKind::IrqEnter { timer: record.operand >= LOCAL_TIMER },
            KernelSideKind::IrqExit => KernelKind::IrqExit,
            KernelSideKind::SoftirqEnter => {
                KernelKind::SoftirqEnter { timer: TIMER_SOFTIRQS.contains(&record.operand) }
            }
            KernelSideKind::SoftirqExit => KernelKind::SoftirqExit,
            KernelSideKind::IdleEnter => KernelKind::IdleEnter,
            KernelSideKind::IdleExit => KernelKind::IdleExit,
            KernelSideKind::SystemCall => {
                let call = record.system_call()?;
                KernelKind::SystemCall {
                    thread,
                    blocked_ns: call.blocked_ns,
                    inside_ns: call.inside_ns,
                    number: call.number,
                    only_waits: call.only_waits,
                }
            }
            KernelSideKind::Slow => KernelKind::Slow {
                duration_ns: record.value,
                lost_permille: record.operand.min(1_000) as u16,
            },
            KernelSideKind::Sample => {
                KernelKind::Sample { thread, address: record.value, spins: record.detail != 0 }
            }
            KernelSideKind::Fork
            | KernelSideKind::Exit
            | KernelSideKind::FunctionEnter
            | KernelSideKind::FunctionExit => return None,
        };
        Some(Self { at_ns: record.at_ns, cpu: record.cpu, kind })
    }
}

/// An event of either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnyEvent {
    /// Of the thread library.
    Sync(SyncEvent),
    /// Of the kernel or the machine.
    Kernel(KernelEvent),
}
