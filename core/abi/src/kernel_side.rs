//! What the kernel did to the threads of one program: its futex system calls, who woke whom, who ran where. Written by the
//! kernel side of `quaver sync`, read beside the program's own records.

use crate::segment::{Record, RecordKind};
use strum::FromRepr;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// One happening in the kernel. What `value`, `thread`, `other`, `detail` and `operand` mean is that of the kind
/// ([`KernelSideKind`]).
///
/// ```text
///  0        8        16       20      24       28    30     31
///  +--------+--------+--------+-------+--------+-----+------+--------+
///  | at ns  | value  | thread | other | operand| cpu | kind | detail |
///  +--------+--------+--------+-------+--------+-----+------+--------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct KernelSideRecord {
    /// When, CLOCK_MONOTONIC nanoseconds.
    pub at_ns: u64,
    /// Wide operand of the kind.
    pub value: u64,
    /// Thread that it happened to, as the first process namespace numbers it.
    pub thread: u32,
    /// Second thread.
    pub other: u32,
    /// Narrow operand of the kind.
    pub operand: u32,
    /// CPU that it happened on.
    pub cpu: u16,
    /// [`KernelSideKind`]; 0 marks a slot never written.
    pub kind: u8,
    /// Smallest operand of the kind.
    pub detail: u8,
}
const _: () = assert!(size_of::<KernelSideRecord>() == 32);

impl Record for KernelSideRecord {
    const KIND: RecordKind = RecordKind::KernelSide;
    const MARK_OFFSET: usize = core::mem::offset_of!(Self, kind);
    fn is_written(&self) -> bool {
        self.kind != 0
    }
}

/// What a [`KernelSideRecord`] tells. Numbers are part of the segment format: never reuse one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, FromRepr)]
#[repr(u8)]
pub enum KernelSideKind {
    /// A futex system call begins. value: address. operand: the operation with its flags (linux/futex.h), or for
    /// `futex_waitv` and later calls the system call's number + 0x10000. The rest is [`KernelSideRecord::futex_call`]'s.
    FutexEnter = 1,
    /// It ends. value: its result, a negative error number included.
    FutexExit = 2,
    /// A CPU goes from one thread to another. thread: who leaves (0: idle). other: who comes. detail: [`crate::record::OffCpu`].
    /// operand: priority of who leaves << 16 | of who comes.
    Switch = 3,
    /// Somebody begins to wake a thread. thread: who is woken. operand: CPU where it ran last. detail: [`WakingContext`].
    /// other: the waker, 0 unless the context is that of a task. value: of an interrupt its number (0x10000 + vector for the
    /// local timer, 0x20000 where it came from another CPU), of a softirq its number, where these are known.
    Waking = 4,
    /// A thread was made runnable. thread: who. operand: CPU whose run queue it is in. Who woke it is in [`Self::Waking`]:
    /// another CPU may finish the work.
    Wakeup = 5,
    /// A thread moved. thread: who. other: from CPU. operand: to CPU.
    Migrate = 6,
    /// Handler of a device interrupt begins. operand: its number, 0x10000 + vector for the local timer.
    IrqEnter = 7,
    /// It ends.
    IrqExit = 8,
    /// A softirq begins. operand: its number.
    SoftirqEnter = 9,
    /// It ends.
    SoftirqExit = 10,
    /// A CPU goes into an idle state. operand: its number.
    IdleEnter = 11,
    /// It comes out of it.
    IdleExit = 12,
    /// A thread made another one. thread: who. other: the new one. value: the new one's process.
    Fork = 13,
    /// A thread ended. thread: who.
    Exit = 14,
    /// A system call that does not concern futexes returns and took longer than was asked for. value: how long,
    /// nanoseconds. The rest is [`KernelSideRecord::system_call`]'s.
    SystemCall = 15,
    /// A CPU ran slower until now. value: for how long, nanoseconds. operand: share of its speed that it lost, in
    /// thousandths. detail: [`SlowReason`].
    Slow = 16,
    /// A function of the thread library was entered at which a probe stands. value: its first argument. other: the low half of
    /// the second. operand: [`crate::sync::SyncKind`].
    FunctionEnter = 17,
    /// It returned. value: its result. operand: as above.
    FunctionExit = 18,
    /// A followed thread had a CPU when that was looked at, every [`crate::record::SAMPLE_PERIOD_NS`]. thread: who. value: address of
    /// its next instruction; 0 in the kernel. detail: 1 in sched_yield.
    Sample = 19,
}

/// What a CPU was doing when it began to wake a thread. An NMI wakes nobody: it leaves that to an interrupt of its own
/// (`irq_work`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, FromRepr)]
#[repr(u8)]
pub enum WakingContext {
    /// Nobody told.
    Unknown = 0,
    /// It ran the current thread, in user space or for it in the kernel.
    Task = 1,
    /// It handled an interrupt. The current thread has nothing to do with it.
    Interrupt = 2,
    /// It handled a softirq, within whatever thread was current.
    Softirq = 3,
}

impl WakingContext {
    /// The context numbered `raw`; unknown for a number that this version does not know.
    pub fn from_raw(raw: u8) -> Self {
        Self::from_repr(raw).unwrap_or(Self::Unknown)
    }
}

/// Why a CPU ran slower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum SlowReason {
    /// The hypervisor gave it to others.
    Stolen = 1,
    /// It throttled itself, being too hot; what that costs is the user's word.
    Throttled = 2,
    /// Its frequency was below the one that it is sold with.
    Frequency = 3,
}

/// What a [`KernelSideKind::SystemCall`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemCall {
    /// Its number, that of the machine's own table.
    pub number: u16,
    /// From entry to return, nanoseconds.
    pub inside_ns: u64,
    /// Of which the thread slept, nanoseconds, up to 2⁴⁸ − 1. Being off the CPU while it could run is not sleep.
    pub blocked_ns: u64,
    /// All that the call is for is to wait: sleep, poll, select, accept, pause, wait for a child or a signal.
    pub only_waits: bool,
}

impl KernelSideRecord {
    /// The system call that it tells of; none of other kinds.
    ///
    /// ```text
    ///  value: inside_ns   other: low 32 bits of blocked_ns   operand: blocked_ns >> 32, number (16 bits each)
    /// ```
    pub fn system_call(&self) -> Option<SystemCall> {
        let wanted = self.kind == KernelSideKind::SystemCall as u8;
        wanted.then(|| SystemCall {
            number: self.operand as u16,
            inside_ns: self.value,
            blocked_ns: u64::from(self.operand >> 16) << 32 | u64::from(self.other),
            only_waits: self.detail & 1 != 0,
        })
    }
}

/// What a [`KernelSideKind::FutexEnter`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FutexEntry {
    /// What is asked for.
    pub operation: FutexOperation,
    /// How many threads it may wake; 127 stands for that many and more. The value compared where the caller is not known.
    pub count: u32,
    /// Address that the call returns to; 0 where nobody told.
    pub call_site: u64,
}

/// Bit of `detail`: the record tells who calls.
const SITE_TOLD: u8 = 0x80;
/// Bits of `operand` that hold the operation; those above hold the high part of the call's address.
const OPERATION_BITS: u32 = 17;

impl KernelSideRecord {
    /// The entry of a futex call that it tells of. Meaningless for other kinds.
    ///
    /// ```text
    ///  detail: 0x80 | count   other: low 32 bits of the call site   operand: call site >> 32 (15 bits), operation (17 bits)
    ///  detail: 0              other: count or value compared        operand: operation
    /// ```
    pub const fn futex_call(&self) -> FutexEntry {
        let operation = FutexOperation::of_operand(self.operand & ((1 << OPERATION_BITS) - 1));
        if self.detail & SITE_TOLD == 0 {
            return FutexEntry { operation, count: self.other, call_site: 0 };
        }
        let call_site = ((self.operand >> OPERATION_BITS) as u64) << 32 | self.other as u64;
        FutexEntry { operation, count: (self.detail & !SITE_TOLD) as u32, call_site }
    }
}

/// What a futex system call asks for (linux/futex.h), without the flags that do not change who waits or wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FutexOperation {
    /// FUTEX_WAIT.
    Wait,
    /// FUTEX_WAIT_BITSET: what the C library uses for condition variables, barriers and semaphores.
    WaitBitset,
    /// FUTEX_WAKE.
    Wake,
    /// FUTEX_WAKE_BITSET.
    WakeBitset,
    /// FUTEX_REQUEUE and FUTEX_CMP_REQUEUE.
    Requeue,
    /// FUTEX_WAKE_OP.
    WakeOp,
    /// FUTEX_LOCK_PI, FUTEX_LOCK_PI2 and FUTEX_WAIT_REQUEUE_PI, which all wait.
    LockPi,
    /// FUTEX_UNLOCK_PI, FUTEX_TRYLOCK_PI and FUTEX_CMP_REQUEUE_PI, which do not.
    OtherPi,
    /// `futex_waitv` or `futex_wait`, system calls of their own.
    WaitCall,
    /// `futex_wake` or `futex_requeue`, system calls of their own.
    WakeCall,
    /// None of these.
    Other,
}

impl FutexOperation {
    /// The operation that a [`KernelSideKind::FutexEnter`] carries in `operand`.
    pub const fn of_operand(operand: u32) -> Self {
        match operand {
            // 449 futex_waitv, 454 futex_wake, 455 futex_wait, 456 futex_requeue: the same on every architecture.
            0x101c1 | 0x101c7 => return Self::WaitCall,
            0x101c6 | 0x101c8 => return Self::WakeCall,
            _ => {}
        }
        // FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME say nothing of what is done.
        match operand & !(128 | 256) {
            0 => Self::Wait,
            1 => Self::Wake,
            3 | 4 => Self::Requeue,
            5 => Self::WakeOp,
            6 | 11 | 13 => Self::LockPi,
            7 | 8 | 12 => Self::OtherPi,
            9 => Self::WaitBitset,
            10 => Self::WakeBitset,
            _ => Self::Other,
        }
    }

    /// Whether the caller sleeps.
    pub const fn waits(self) -> bool {
        matches!(self, Self::Wait | Self::WaitBitset | Self::LockPi | Self::WaitCall)
    }

    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wait => "FUTEX_WAIT",
            Self::WaitBitset => "FUTEX_WAIT_BITSET",
            Self::Wake => "FUTEX_WAKE",
            Self::WakeBitset => "FUTEX_WAKE_BITSET",
            Self::Requeue => "FUTEX_REQUEUE",
            Self::WakeOp => "FUTEX_WAKE_OP",
            Self::LockPi => "FUTEX_LOCK_PI",
            Self::OtherPi => "other PI operations",
            Self::WaitCall => "futex_wait",
            Self::WakeCall => "futex_wake",
            Self::Other => "other operations",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_do_not_change_what_a_futex_call_does() {
        for flags in [0, 128, 256, 384] {
            assert_eq!(FutexOperation::of_operand(flags), FutexOperation::Wait);
            assert_eq!(FutexOperation::of_operand(9 | flags), FutexOperation::WaitBitset);
            assert_eq!(FutexOperation::of_operand(1 | flags), FutexOperation::Wake);
        }
        assert!(FutexOperation::of_operand(0x10000 + 449).waits());
        assert!(!FutexOperation::of_operand(0x10000 + 454).waits());
        assert_eq!(FutexOperation::of_operand(99), FutexOperation::Other);
    }

    #[test]
    fn a_futex_call_tells_who_makes_it_where_that_is_known() {
        let kind = KernelSideKind::FutexEnter as u8;
        let old = KernelSideRecord { kind, operand: 129, other: u32::MAX, ..Default::default() };
        let want = FutexEntry { operation: FutexOperation::Wake, count: u32::MAX, call_site: 0 };
        assert_eq!(old.futex_call(), want);
        let call_site = 0x7fff_1234_5678_u64;
        let operand = 0x101c6 | ((call_site >> 32) as u32) << 17;
        let new = KernelSideRecord {
            kind,
            operand,
            other: call_site as u32,
            detail: 0x80 | 127,
            ..Default::default()
        };
        assert_eq!(
            new.futex_call(),
            FutexEntry { operation: FutexOperation::WakeCall, count: 127, call_site }
        );
    }

    #[test]
    fn a_system_call_is_taken_apart() {
        let kind = KernelSideKind::SystemCall as u8;
        let (other, operand) = (0xdead_beef, 0x0003_00e6);
        let record = KernelSideRecord { kind, value: 20_000_000_000, other, operand, ..Default::default() };
        let call = SystemCall {
            number: 230,
            inside_ns: 20_000_000_000,
            blocked_ns: 0x3_dead_beef,
            only_waits: false,
        };
        assert_eq!(record.system_call(), Some(call));
        let waits = KernelSideRecord { detail: 1, ..record };
        assert_eq!(waits.system_call(), Some(SystemCall { only_waits: true, ..call }));
        assert_eq!(KernelSideRecord::default().system_call(), None);
    }

    #[test]
    fn kinds_keep_their_numbers() {
        for raw in 0..=u8::MAX {
            if let Some(kind) = KernelSideKind::from_repr(raw) {
                assert_eq!(kind as u8, raw);
            }
        }
        assert_eq!(KernelSideKind::from_repr(0), None);
    }
}
