//! What an event tells of threads: why one left its CPU, what it slept at, and what woke it.

use strum::{FromRepr, IntoStaticStr};

/// Why a thread left the CPU at the end of its [`super::EventKind::Thread`] interval (`detail`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromRepr, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[repr(u8)]
pub enum OffCpu {
    /// The interval was still open when recording ended, or the reason was not seen.
    #[default]
    Unknown = 0,
    /// Still runnable: preempted; or throttled, or it gave its CPU away, where that was not told apart.
    Preempted = 1,
    /// Asleep, until what it waits for or a signal; or blocked for a reason that was not told apart.
    Blocked = 2,
    /// Gone.
    Exited = 3,
    /// Asleep in the kernel where no signal wakes it (TASK_UNINTERRUPTIBLE): disk, memory, locks of the kernel.
    Uninterruptible = 4,
    /// Stopped by a signal (SIGSTOP, SIGTSTP).
    Stopped = 5,
    /// Held by a tracer (ptrace).
    Traced = 6,
    /// Frozen, by its cgroup or by a system that suspends.
    Frozen = 7,
    /// Parked (kernel threads).
    Parked = 8,
    /// Asleep in a receive call on a socket of the followed flow.
    Receiving = 9,
    /// Asleep in poll, select, epoll or io_uring: what wakes it tells what it waited for.
    Polling = 10,
    /// Still runnable: it gave its CPU away in sched_yield. Recorded by `quaver sync`.
    Yielded = 11,
    /// Still runnable: the CPU quota of its cgroup is used up.
    Throttled = 12,
}

impl OffCpu {
    /// The reason in a thread's `detail`; unknown numbers are `Unknown`.
    pub fn from_raw(detail: u8) -> Self {
        Self::from_repr(detail & !served::BITS).unwrap_or(Self::Unknown)
    }

    /// Whether it is not runnable: it waits for something, or is held by somebody.
    pub const fn waits(self) -> bool {
        !matches!(self, Self::Unknown | Self::Exited) && !self.could_go_on()
    }

    /// Whether it is still runnable.
    pub const fn could_go_on(self) -> bool {
        matches!(self, Self::Preempted | Self::Yielded | Self::Throttled)
    }
}

/// Highest bits of a thread interval's `detail`: whether the fair server ran it before real-time threads.
pub mod served {
    /// The kernel tells.
    pub const KNOWN: u8 = 1 << 6;
    /// It was served.
    pub const BY_FAIR_SERVER: u8 = 1 << 7;
    /// Both.
    pub const BITS: u8 = KNOWN | BY_FAIR_SERVER;
}

/// `aux` of a [`super::EventKind::Wakeup`].
///
/// ```text
///  0            16        20       32             64
///  +------------+---------+--------+--------------+
///  | target CPU | context | number | thread       |
///  +------------+---------+--------+--------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wakeup {
    /// Thread that was current where the wake-up was made: the waker only in [`WakeContext::Task`].
    pub current: u32,
    /// CPU that it is to run on, as known then.
    pub cpu: u16,
    /// What made it.
    pub context: WakeContext,
    /// Number of the interrupt, softirq or system vector, at most 4095. In [`WakeContext::Task`]: [`Self::ENDING`].
    pub number: u16,
}

/// From which context a wake-up came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromRepr)]
#[repr(u8)]
pub enum WakeContext {
    /// Not recorded.
    Unknown = 0,
    /// A thread, in its own system call or fault.
    Task = 1,
    /// A device's interrupt handler.
    Interrupt = 2,
    /// A softirq.
    Softirq = 3,
    /// A system vector.
    Vector = 4,
    /// A high-resolution timer, or the timer interrupt.
    Timer = 5,
    /// A packet of the followed flow that entered its socket.
    Stream = 6,
}

impl Wakeup {
    /// The waker was at its end (`exit`). Of older records the number is 0, so that this is not known.
    pub const ENDING: u16 = 1;

    /// Whether a thread made it by its own end.
    pub fn by_an_end(self) -> bool {
        self.context == WakeContext::Task && self.number == Self::ENDING
    }

    /// Reads `aux`.
    pub fn from_aux(aux: u64) -> Self {
        let context = WakeContext::from_repr((aux >> 16 & 0xf) as u8).unwrap_or(WakeContext::Unknown);
        Self { current: (aux >> 32) as u32, cpu: aux as u16, context, number: (aux >> 20 & 0xfff) as u16 }
    }

    /// As `aux` holds it.
    pub const fn to_aux(self) -> u64 {
        (self.current as u64) << 32
            | (self.number as u64 & 0xfff) << 20
            | (self.context as u64) << 16
            | self.cpu as u64
    }
}

/// `aux` of a [`super::EventKind::Sleep`].
///
/// ```text
///  0             16                                64
///  +-------------+---------------------------------+
///  | system call | object                          |
///  +-------------+---------------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleep {
    /// Number of the system call, none outside of one (a page fault, a signal).
    pub call: Option<u16>,
    /// Low 48 bits of what the object is known by: address of a futex word, inode of a file; 0 where nothing is.
    pub object: u64,
}

impl Sleep {
    /// Bit of `detail`: the kernel counts the sleep as waiting for a disk (`in_iowait`).
    pub const FOR_DISK: u8 = 1 << 7;
    /// The system call of one that was in none.
    const NO_CALL: u16 = u16::MAX;

    /// Reads `aux`.
    pub const fn from_aux(aux: u64) -> Self {
        let call = if aux as u16 == Self::NO_CALL { None } else { Some(aux as u16) };
        Self { call, object: aux >> 16 }
    }

    /// As `aux` holds it.
    pub const fn to_aux(self) -> u64 {
        let call = match self.call {
            Some(call) => call,
            None => Self::NO_CALL,
        };
        self.object << 16 | call as u64
    }
}

/// What a followed thread sleeps at (`detail` of [`super::EventKind::Sleep`], without [`Sleep::FOR_DISK`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromRepr, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[repr(u8)]
pub enum SleepObject {
    /// Nothing that is known.
    Unknown = 0,
    /// A futex: a lock, a condition, a semaphore.
    Futex = 1,
    /// A socket, not of the followed flow.
    Socket = 2,
    /// A pipe.
    Pipe = 3,
    /// A file, a directory or a block device.
    File = 4,
    /// A terminal or another character device.
    Device = 5,
    /// A timer's descriptor.
    TimerFd = 6,
    /// Another descriptor without a file (eventfd, signalfd).
    Anonymous = 7,
    /// An instant: nanosleep.
    Clock = 8,
    /// The end of another process.
    Child = 9,
    /// What another thread or process does: a signal, a lock on a file, a semaphore or a queue of the kernel.
    Peer = 10,
}

impl SleepObject {
    /// The object in a sleep's `detail`; unknown numbers are `Unknown`.
    pub fn from_raw(detail: u8) -> Self {
        Self::from_repr(detail & !Sleep::FOR_DISK).unwrap_or(Self::Unknown)
    }
}
