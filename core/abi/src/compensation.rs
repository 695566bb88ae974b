//! What `quaver sync --compensate` decided at the end of each subframe, and what it was told: enough to decide again.

use crate::segment::{Record, RecordKind};
use strum::FromRepr;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// One subframe of one thread, or one wake-up.
///
/// Of [`CompensationWhy::Woken`]: `end_ns` is when the wait was ended and `begin_ns` when it began; `own_ns`, `blocked_ns` and
/// `lost_ns` are those of the woken thread's subframe so far, `paced_fs`, `unpaced_fs` and `stalled_fs` the same three of the
/// waker's, all in nanoseconds; `other` is the waker, and `point` 1 at a barrier, else 0.
///
/// ```text
///  0        8          16       24         32        40         48        56         64
///  +--------+----------+--------+----------+---------+----------+---------+----------+-----------+
///  | end ns | begin ns | own ns | blocked  | lost ns | paced fs | unpaced | stalled  | length fs |
///  |        |          |        | ns       |         |          | fs      | fs       |           |
///  +--------+----------+--------+----------+---------+----------+---------+----------+-----------+
///  72       80         88       92      96       100   102   103    104
///  +--------+----------+--------+-------+--------+-----+-----+------+
///  | ratio  | owed fs  | thread | other | point  | cpu | why | zero |
///  +--------+----------+--------+-------+--------+-----+-----+------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CompensationRecord {
    /// When it ended, CLOCK_MONOTONIC nanoseconds. 0 marks a slot never written.
    pub end_ns: u64,
    /// When it began.
    pub begin_ns: u64,
    /// The thread's own work, nanoseconds.
    pub own_ns: u64,
    /// Waiting for others, nanoseconds.
    pub blocked_ns: u64,
    /// Lost, nanoseconds.
    pub lost_ns: u64,
    /// Work that the clock paced, femtoseconds, as the controller was told.
    pub paced_fs: u64,
    /// Work that it did not.
    pub unpaced_fs: u64,
    /// Standing still to change the frequency.
    pub stalled_fs: u64,
    /// Length that the controller was told.
    pub length_fs: u64,
    /// Mean frequency over that at rest, as IEEE 754 bits: a record compares byte by byte.
    pub ratio_bits: u64,
    /// What the thread owes after it, femtoseconds.
    pub owed_fs: i64,
    /// Thread.
    pub thread: u32,
    /// Thread that it joined, or, of [`CompensationWhy::Began`], that made it; 0: none.
    pub other: u32,
    /// Point of the next subframe: place in the table of the run's facts.
    pub point: u32,
    /// CPU that the thread was last seen on.
    pub cpu: u16,
    /// [`CompensationWhy`].
    pub why: u8,
    /// Zero.
    pub reserved: u8,
}
const _: () = assert!(size_of::<CompensationRecord>() == 104);

/// Why a subframe ended. Numbers are part of the format: never reuse one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromRepr)]
#[repr(u8)]
pub enum CompensationWhy {
    /// None ended: the thread began.
    Began = 1,
    /// Its time was over.
    InTime = 2,
    /// The thread created another.
    AtCreate = 3,
    /// The thread joined another.
    AtJoin = 4,
    /// The thread ended.
    AtExit = 5,
    /// None ended: another thread ended a wait of this one, and what it owes passed on.
    Woken = 6,
}

impl Record for CompensationRecord {
    const KIND: RecordKind = RecordKind::Compensation;
    fn is_written(&self) -> bool {
        self.end_ns != 0
    }
}
