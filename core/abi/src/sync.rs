//! What the recorder of synchronisation (`quaver-preload`) writes: one record an event, one ring a thread, one
//! segment a process image.
//!
//! A segment is a file of pages of [`PAGE_BYTES`]. Page 0 is the [`SyncSegmentHeader`]; then come chunks of
//! whole pages, handed out in the order in which threads asked for them:
//!
//! ```text
//!  page 0            page 1                                   page 2
//!  +----------------+-------+--------+--------+-- ... --+------+-------+--------+-- ... --+---
//!  | segment header | chunk | ring   | record | records | rest | chunk | record | records | ...
//!  |                | head  | header |        |         |      | head  |        |         |
//!  +----------------+-------+--------+--------+-- ... --+------+-------+--------+-- ... --+---
//!                   0       64       192      224              0       64
//! ```
//!
//! A thread's first chunk holds its [`SyncRingHeader`] after the [`SyncChunkHeader`]. Records follow to the end of
//! the chunk; a slot whose `cycles` is zero has not been written (a signal handler's record may lie after one). `cycles` is stored last, so that a
//! process may end at any instant and every record that is marked is whole. A page that was handed out to a
//! thread that then died before it wrote its chunk's header is zero and is skipped.

use strum::{FromRepr, IntoStaticStr, VariantArray};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First eight bytes of a segment of the recorder.
pub const SYNC_MAGIC: [u8; 8] = *b"QUAVSYNC";
/// Version of the format that this code writes.
pub const SYNC_VERSION: u32 = 1;
/// Bytes of a page of the segment, whatever the machine's pages are.
pub const PAGE_BYTES: usize = 4096;
/// First four bytes of a chunk.
pub const CHUNK_MAGIC: u32 = u32::from_le_bytes(*b"QCHK");

/// One event of one thread: entry into or return from a call of the thread library.
///
/// ```text
///  0        8        16          24     25        26    28       32
///  +--------+--------+-----------+------+---------+-----+--------+
///  | cycles | object | call site | kind | outcome | cpu | detail |
///  +--------+--------+-----------+------+---------+-----+--------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SyncRecord {
    /// Raw cycle counter at the event. 0 marks a slot never written.
    pub cycles: u64,
    /// Address of the lock, condition, barrier or semaphore; the `pthread_t` for [`SyncKind::ThreadStart`],
    /// [`SyncKind::ThreadExit`] and joins; 0 for [`SyncKind::Create`] and [`SyncKind::CreateExit`], where the
    /// reader fills in the child's `pthread_t`;
    /// CLOCK_MONOTONIC nanoseconds for [`SyncKind::Anchor`]; see [`SyncKind::Stack`] and [`SyncKind::StackWords`] for those.
    pub object: u64,
    /// Address that the call returns to; the thread's start routine for [`SyncKind::Create`] and
    /// [`SyncKind::ThreadStart`].
    pub call_site: u64,
    /// [`SyncKind`].
    pub kind: u8,
    /// [`SyncOutcome`] in the low five bits, and [`outcome_flags`]. Entries carry flags only.
    pub outcome: u8,
    /// CPU that the event happened on; [`CPU_UNKNOWN`] where it could not be read.
    pub cpu: u16,
    /// Of lock, read-lock and unlock events: [`SyncObject`]. Of waits on a condition: low 32 bits of the mutex's
    /// address. Of [`SyncKind::Create`] and [`SyncKind::CreateExit`]: running number of the creation, from 1
    /// (the child's ring names it too). Of [`SyncKind::ThreadStart`]: thread id of the creator. Of barriers: 0.
    /// Of semaphores: 0. Of [`SyncKind::Anchor`]: nanoseconds that the recorder took to get the new chunk.
    pub detail: u32,
}
const _: () = assert!(size_of::<SyncRecord>() == 32);

/// Objects of one thread whose [initialisation](SyncKind::Initialised) is recorded.
pub const MOST_INITIALISED: u64 = 16_384;
/// Most words of a stack that are copied.
pub const STACK_WORDS: usize = 240;
/// Place of the frame pointer among the words of a stack ([`SyncKind::StackWords`]).
pub const STACK_FRAME: u8 = u8::MAX;
/// [`SyncRecord::cpu`] where the number is not known.
pub const CPU_UNKNOWN: u16 = u16::MAX;

impl SyncRecord {
    /// What happened; none for a number that this version does not know.
    pub const fn kind(&self) -> Option<SyncKind> {
        SyncKind::from_repr(self.kind)
    }

    /// How the call ended; of an entry, [`SyncOutcome::Ok`].
    pub fn outcome(&self) -> SyncOutcome {
        SyncOutcome::from_raw(self.outcome & outcome_flags::OUTCOME_MASK)
    }

    /// Whether the lock was held when it was asked for, or somebody waited when it was given back.
    pub const fn is_contended(&self) -> bool {
        self.outcome & outcome_flags::CONTENDED != 0
    }
}

/// What a [`SyncRecord`] tells. Numbers are part of the format: never reuse one.
///
/// Locks that were free when asked for and unlocks that nobody waited for are counted ([`SyncRingHeader`]) and but for a
/// sample not recorded, and so are posts of a semaphore that nobody waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, FromRepr, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
#[repr(u8)]
pub enum SyncKind {
    /// l_e: a mutex, or a read-write lock for writing, or a spin lock ([`SyncObject`] in detail), was asked for
    /// while it was held.
    LockEntry = 1,
    /// l_x: that call returned.
    LockExit = 2,
    /// u_e: a lock that others wait for is about to be given back. Also written inside a wait on a condition
    /// that gives back a mutex that others wait for ([`outcome_flags::INSIDE_WAIT`]).
    UnlockEntry = 3,
    /// u_x: that call returned.
    UnlockExit = 4,
    /// s_e: a condition is signalled.
    SignalEntry = 5,
    /// s_x: that call returned.
    SignalExit = 6,
    /// b_e: a condition is broadcast.
    BroadcastEntry = 7,
    /// b_x: that call returned.
    BroadcastExit = 8,
    /// w_e: a wait on a condition begins.
    WaitEntry = 9,
    /// w_x: it returned, its mutex taken again.
    WaitExit = 10,
    /// A thread is about to be created.
    Create = 11,
    /// The creation returned.
    CreateExit = 12,
    /// The new thread is about to enter its start routine. A thread that the recorder first sees in one of its
    /// calls (the initial thread too) has this as its first record, with detail 0.
    ThreadStart = 13,
    /// The thread has left its start routine, by return, `pthread_exit` or cancellation.
    ThreadExit = 14,
    /// Another thread's end is waited for.
    JoinEntry = 15,
    /// That call returned.
    JoinExit = 16,
    /// The thread arrived at a barrier.
    BarrierEntry = 17,
    /// It was let through.
    BarrierExit = 18,
    /// A read-write lock was asked for reading while it was held for writing.
    ReadLockEntry = 19,
    /// That call returned.
    ReadLockExit = 20,
    /// A semaphore that somebody waits for is about to be posted.
    PostEntry = 21,
    /// That call returned.
    PostExit = 22,
    /// A semaphore was asked for while it was at zero.
    SemWaitEntry = 23,
    /// That call returned.
    SemWaitExit = 24,
    /// The program itself asks the kernel to wait on a word (`FUTEX_WAIT`, `FUTEX_WAIT_BITSET` through `syscall`, as
    /// C++ atomics and Rust's locks do). Object: the word.
    FutexWaitEntry = 25,
    /// That call returned.
    FutexWaitExit = 26,
    /// The program itself asks the kernel to wake waiters of a word; detail: how many it may wake.
    FutexWakeEntry = 27,
    /// That call returned; detail: how many it woke.
    FutexWakeExit = 28,
    /// A lock was free and is held now, for reading if [`outcome_flags::FOR_READING`]. Only some are recorded. Detail: how many
    /// free locks of its thread it stands for; 0 if it is recorded only since others waited for it. A timed hold ends with
    /// [`Self::GivenBack`], or with [`Self::UnlockEntry`] where somebody waits; one that is [`outcome_flags::UNTIMED`] with the
    /// latter alone.
    Taken = 29,
    /// The lock of the thread's latest [`Self::Taken`] is about to be given back.
    GivenBack = 30,
    /// A lock, condition, semaphore or barrier was initialised; the first [`MOST_INITIALISED`] of a thread.
    Initialised = 31,
    /// A try found the lock held, the first of a row: the thread tries again until it gets the lock, and has no other event and gets no
    /// other lock meanwhile. Detail: [`SyncObject`].
    TryEntry = 32,
    /// A try of the row got the lock. Detail: how many had failed, at most [`u32::MAX`].
    TryExit = 33,
    /// Not an event: the stack of the thread's next event with the same call site, which waited long or woke somebody. Object: the
    /// stack pointer that the call returns with. Detail: number of the stack, whose words came with an earlier record.
    Stack = 34,
    /// Not an event: two words of a stack, in object and call site. Of a copy of at most [`STACK_WORDS`] words only those are kept that
    /// may be code, or point into the copy. Detail: number of the stack in the low half, then the place of each word from the stack
    /// pointer on, a byte each; [`STACK_FRAME`] is the frame pointer of the caller.
    StackWords = 35,
    /// Not an event: an anchor of the clock, at a new chunk and now and then.
    Anchor = 40,
}

impl SyncKind {
    /// Whether a thread that has such an event may wait from then on, so that no other wait of it is open.
    pub fn begins_wait(self) -> bool {
        matches!(
            self,
            Self::LockEntry
                | Self::ReadLockEntry
                | Self::WaitEntry
                | Self::SemWaitEntry
                | Self::FutexWaitEntry
                | Self::BarrierEntry
                | Self::JoinEntry
        )
    }

    /// Whether such an event ends what one that [begins a wait](Self::begins_wait) began.
    pub fn ends_wait(self) -> bool {
        matches!(
            self,
            Self::LockExit
                | Self::ReadLockExit
                | Self::WaitExit
                | Self::SemWaitExit
                | Self::FutexWaitExit
                | Self::BarrierExit
                | Self::JoinExit
        )
    }

    /// Whether such an event is a call's entry or return, or a step of a thread's life: no note about an object, no anchor.
    pub const fn is_call(self) -> bool {
        !matches!(
            self,
            Self::Taken
                | Self::GivenBack
                | Self::Initialised
                | Self::TryEntry
                | Self::TryExit
                | Self::Stack
                | Self::StackWords
                | Self::Anchor
        )
    }

    /// All of them, in the order of their numbers.
    pub const ALL: &'static [Self] = Self::VARIANTS;
}

/// How a call ended (low five bits of [`SyncRecord::outcome`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, FromRepr, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[repr(u8)]
pub enum SyncOutcome {
    /// It did what was asked (or has not ended: entries).
    Ok = 0,
    /// A try found the object taken (EBUSY, EAGAIN of a semaphore).
    Busy = 1,
    /// The time given was over (ETIMEDOUT).
    Timeout = 2,
    /// A signal handler ran (EINTR).
    Interrupted = 3,
    /// The lock was got, but its owner had died (EOWNERDEAD).
    OwnerDied = 4,
    /// The caller holds it already (EDEADLK).
    Deadlock = 5,
    /// Let through a barrier as its one serial thread.
    Serial = 6,
    /// Any other error.
    Failed = 7,
    /// The thread was cancelled inside the call, or left it by a jump.
    Cancelled = 8,
}

impl SyncOutcome {
    /// The outcome numbered `raw`; unknown numbers are `Failed`.
    pub fn from_raw(raw: u8) -> Self {
        Self::from_repr(raw).unwrap_or(Self::Failed)
    }
}

/// Bits of [`SyncRecord::outcome`] beside the outcome.
pub mod outcome_flags {
    /// The bits of the outcome itself.
    pub const OUTCOME_MASK: u8 = 0x1f;
    /// The unlock happens inside a wait on a condition, which gives its mutex back.
    pub const INSIDE_WAIT: u8 = 1 << 5;
    /// Of a wait on a condition: the thread had returned from a wait on it and got no lock since, so that it kept the mutex.
    pub const AGAIN: u8 = 1 << 5;
    /// A free lock was got whose end is recorded only if somebody waits then: its thread has another one that is timed.
    pub const UNTIMED: u8 = 1 << 5;
    /// A free lock was got for reading, or one that was held for reading is given back: others may have it, too.
    pub const FOR_READING: u8 = 1 << 6;
    /// The lock was held when it was asked for, or somebody waited when it was given back.
    pub const CONTENDED: u8 = 1 << 7;
}

/// Where in `detail` of a lock's entry the thread that had the lock then begins, 0 for not known; [`SyncObject`] lies below.
pub const OWNER_SHIFT: u32 = 8;

/// What kind of lock an event is about (`detail` of lock, read-lock and unlock events; of entries its low 8 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, FromRepr, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[repr(u32)]
pub enum SyncObject {
    /// `pthread_mutex_t`.
    Mutex = 1,
    /// `pthread_rwlock_t`.
    ReadWrite = 2,
    /// `pthread_spinlock_t`.
    Spin = 3,
}

/// How a process image ended ([`SyncSegmentHeader::ended`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, FromRepr)]
#[repr(u32)]
pub enum SyncEnd {
    /// Nothing was said: killed, crashed, replaced by `exec`, ended by a raw system call, or still running.
    Unsaid = 0,
    /// It returned from `main` or called `exit`.
    Exit = 1,
    /// It called `_exit` or `_Exit`.
    ImmediateExit = 2,
}

impl SyncEnd {
    /// The end numbered `raw`; unknown numbers are `Unsaid`.
    pub fn from_raw(raw: u32) -> Self {
        Self::from_repr(raw).unwrap_or(Self::Unsaid)
    }
}

/// Bytes of program path and arguments that fit into the header.
pub const TEXT_BYTES: usize = PAGE_BYTES - 144;

/// Page 0 of a segment.
///
/// ```text
///  0       8         12           16         20       24      28    32       36       40      44      48
///  +-------+---------+------------+----------+--------+-------+-----+--------+--------+-------+-------+
///  | magic | version | byte order | record   | page   | ended | pid | parent | exec   | exe   | argv  |
///  |       |         |            | bytes   | bytes |       |     |        | number | bytes| bytes|
///  +-------+---------+------------+----------+--------+-------+-----+--------+--------+-------+-------+
///  48          56           64            72           80           88          96         104        112
///  +-----------+------------+-------------+------------+------------+-----------+----------+----------+
///  | start     | created    | first       | first      | last       | last      | pages    | pages    |
///  | ticks     | realtime ns| anchor: cyc.| monotonic  | anchor: cyc| monotonic | used     | room     |
///  +-----------+------------+-------------+------------+------------+-----------+----------+----------+
///  112         120          128           136          144                                         4096
///  +-----------+------------+-------------+------------+---------------------------------------------+
///  | threads   | threads    | created     | zero       | path of the program, then its arguments,     |
///  |           | lost       | threads     |            | each ended by a zero byte                   |
///  +-----------+------------+-------------+------------+---------------------------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SyncSegmentHeader {
    /// [`SYNC_MAGIC`], stored last when the segment is made.
    pub magic: [u8; 8],
    /// [`SYNC_VERSION`].
    pub version: u32,
    /// [`crate::segment::BYTE_ORDER`].
    pub byte_order: u32,
    /// Bytes of a [`SyncRecord`].
    pub record_bytes: u32,
    /// [`PAGE_BYTES`].
    pub page_bytes: u32,
    /// [`SyncEnd`].
    pub ended: u32,
    /// Process id in its own namespace.
    pub pid: u32,
    /// Process id of the parent when recording began.
    pub parent: u32,
    /// How many images this process recorded before this one.
    pub exec_number: u32,
    /// Bytes of the program's path in `text`, its zero not counted.
    pub exe_bytes: u32,
    /// Bytes of all arguments in `text`, each with its zero, cut to what fits.
    pub argv_bytes: u32,
    /// When the process started, clock ticks since boot (field 22 of `/proc/PID/stat`); with `pid` it names the
    /// process for good. 0 where `/proc` is missing.
    pub start_ticks: u64,
    /// When the segment was made, CLOCK_REALTIME nanoseconds.
    pub created_realtime_ns: i64,
    /// Cycle counter at the first anchor.
    pub first_cycles: u64,
    /// CLOCK_MONOTONIC nanoseconds at the first anchor.
    pub first_monotonic_ns: i64,
    /// Cycle counter at the latest anchor; valid where the next field is not 0.
    pub last_cycles: u64,
    /// CLOCK_MONOTONIC nanoseconds at the latest anchor; 0 while it is being written, or where there is none yet.
    pub last_monotonic_ns: i64,
    /// Pages handed out, this one included. May exceed `pages_room`: what was asked for beyond was refused.
    pub pages_used: u64,
    /// Pages that the file has room for.
    pub pages_room: u64,
    /// Threads that got a ring.
    pub threads: u64,
    /// Threads that got none, since the segment was full; nothing that they did is known.
    pub threads_lost: u64,
    /// Calls of `pthread_create`.
    pub creations: u64,
    /// Zero.
    pub reserved: u64,
    /// Path and arguments.
    pub text: [u8; TEXT_BYTES],
}
const _: () = assert!(size_of::<SyncSegmentHeader>() == PAGE_BYTES);

/// Begins each chunk.
///
/// ```text
///  0       4       8        12         16           24             32     64
///  +-------+-------+--------+----------+------------+--------------+------+
///  | magic | pages | thread | sequence | anchor     | anchor       | zero |
///  |       |       |        |          | cycles     | monotonic ns |      |
///  +-------+-------+--------+----------+------------+--------------+------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SyncChunkHeader {
    /// [`CHUNK_MAGIC`], stored last.
    pub magic: u32,
    /// Pages of the chunk, this one included.
    pub pages: u32,
    /// Number of the thread's ring, from 0 in the order in which threads were first seen.
    pub thread: u32,
    /// Place of the chunk among the thread's, from 0.
    pub sequence: u32,
    /// Cycle counter when the chunk was begun.
    pub anchor_cycles: u64,
    /// CLOCK_MONOTONIC nanoseconds then.
    pub anchor_monotonic_ns: i64,
    /// Zero.
    pub reserved: [u64; 4],
}
const _: () = assert!(size_of::<SyncChunkHeader>() == 64);

/// What is known of one thread, in its first chunk after the [`SyncChunkHeader`].
///
/// ```text
///  0     4         8          12      16        24      32      40        48        56
///  +-----+---------+----------+-------+---------+-------+-------+---------+---------+
///  | tid | creator | creation | flags | pthread | start | end   | routine | records |
///  |     | tid     | number   |       | _t      | cycles| cycles|         | lost    |
///  +-----+---------+----------+-------+---------+-------+-------+---------+---------+
///  56      64        72      80       88        96       104       112      128
///  +-------+---------+-------+--------+---------+--------+---------+--------+
///  | free  | free    | tries | free   | quiet   | free   | zero    | name   |
///  | locks | unlocks | busy  | sem    | posts   | reads  |         |        |
///  +-------+---------+-------+--------+---------+--------+---------+--------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SyncRingHeader {
    /// Thread id, as the kernel numbers it in the process's namespace.
    pub tid: u32,
    /// Thread id of the creator; 0 where it is not known.
    pub creator: u32,
    /// The creator's [`SyncRecord::detail`] of [`SyncKind::Create`]; 0 where it is not known.
    pub creation: u32,
    /// [`ring_flags`].
    pub flags: u32,
    /// `pthread_self()` of the thread.
    pub pthread: u64,
    /// Cycle counter when the thread was first seen.
    pub start_cycles: u64,
    /// Cycle counter when it ended; 0 where its end was not seen.
    pub end_cycles: u64,
    /// Address of its start routine; 0 where it is not known.
    pub start_routine: u64,
    /// Records that found no room.
    pub lost: u64,
    /// Locks (mutex, write, spin; tries included) that were free when asked for.
    pub free_locks: u64,
    /// Unlocks that nobody waited for.
    pub free_unlocks: u64,
    /// Tries of a lock or semaphore that found it taken.
    pub busy_tries: u64,
    /// Waits on a semaphore that was above zero.
    pub free_semaphore_waits: u64,
    /// Posts of a semaphore that nobody waited for.
    pub quiet_posts: u64,
    /// Locks for reading that were free when asked for.
    pub free_read_locks: u64,
    /// Zero.
    pub reserved: u64,
    /// The name that the thread had last: at its end, or before. Zero-ended; zeros where it is not known.
    pub name: [u8; 16],
}
const _: () = assert!(size_of::<SyncRingHeader>() == 128);

/// Bits of [`SyncRingHeader::flags`].
pub mod ring_flags {
    /// The image's initial thread.
    pub const INITIAL: u32 = 1 << 0;
    /// The thread's end was seen.
    pub const ENDED: u32 = 1 << 1;
    /// First seen in a call, not at its start: made by a raw `clone`, or before recording began.
    pub const FOUND: u32 = 1 << 2;
}

/// Why bytes are not a segment of the recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncHeaderError {
    /// Shorter than a header.
    TooShort,
    /// Does not start with [`SYNC_MAGIC`].
    NotASegment,
    /// Written by a version that this one cannot read.
    Version(u32),
    /// Written on a machine of the other byte order.
    ByteOrder,
    /// Holds records or pages of another size.
    OtherSizes {
        /// Bytes of a record.
        record: u32,
        /// Bytes of a page.
        page: u32,
    },
}

impl core::fmt::Display for SyncHeaderError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::TooShort => {
                write!(f, "shorter than the header of a recording of synchronisation ({PAGE_BYTES} bytes)")
            }
            Self::NotASegment => write!(f, "not a recording of synchronisation"),
            Self::Version(v) => {
                write!(f, "recording of version {v}; this program reads version {SYNC_VERSION}")
            }
            Self::ByteOrder => write!(f, "recorded on a machine of the other byte order"),
            Self::OtherSizes { record, page } => {
                write!(f, "holds records of {record} bytes in pages of {page}; expected 32 in {PAGE_BYTES}")
            }
        }
    }
}

impl core::error::Error for SyncHeaderError {}

impl SyncSegmentHeader {
    /// Reads and checks the header.
    ///
    /// # Errors
    /// Says what the bytes are instead.
    pub fn check(octets: &[u8]) -> Result<Self, SyncHeaderError> {
        if octets.len() >= 8 && octets[..8] != SYNC_MAGIC {
            return Err(SyncHeaderError::NotASegment);
        }
        let page = octets.get(..PAGE_BYTES).ok_or(SyncHeaderError::TooShort)?;
        let header = Self::read_from_bytes(page).map_err(|_| SyncHeaderError::TooShort)?;
        if header.byte_order != crate::segment::BYTE_ORDER {
            return Err(SyncHeaderError::ByteOrder);
        }
        if header.version != SYNC_VERSION {
            return Err(SyncHeaderError::Version(header.version));
        }
        if header.record_bytes as usize != size_of::<SyncRecord>() || header.page_bytes as usize != PAGE_BYTES
        {
            return Err(SyncHeaderError::OtherSizes { record: header.record_bytes, page: header.page_bytes });
        }
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_apart() {
        let known = (0..=u8::MAX).filter(|raw| SyncKind::from_repr(*raw).is_some());
        assert_eq!(known.count(), SyncKind::ALL.len());
        assert_eq!(SyncOutcome::from_raw(31), SyncOutcome::Failed);
    }

    #[test]
    fn flags_do_not_hide_the_outcome() {
        let outcome = outcome_flags::CONTENDED | SyncOutcome::Timeout as u8;
        let record = SyncRecord { kind: 2, outcome, ..SyncRecord::default() };
        assert_eq!(record.kind(), Some(SyncKind::LockExit));
        assert_eq!((record.outcome(), record.is_contended()), (SyncOutcome::Timeout, true));
    }
}
