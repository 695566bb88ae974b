//! Whoever watches the protocol at work: a timeline, or the hardware unit that counts its cycles.

use super::event::ThreadId;
use super::results::{SyncClass, Wait};

/// The buffers of a core's unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Buffer {
    /// Waits on conditions, semaphores and barriers; other jitter.
    Wait,
    /// Locks.
    Lock,
}

/// What is done to a buffer. Each operation looks serially from the first slot on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Write into the first free slot.
    Write,
    /// Store the time of a signal, broadcast or unlock.
    ModifyTimestamp,
    /// Find and clear.
    LookUp,
}

/// What units tell each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// s_e, b_e or u_e, to all other units.
    Release,
    /// Who has the entry of a thread that woke here? To all other units.
    Query,
    /// Its time.
    Answer,
}

/// A wait that another thread has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wakeup {
    /// Who waited.
    pub thread: ThreadId,
    /// Who ended the wait, or gave back the mutex that it needed then.
    pub by: ThreadId,
    /// When that was, nanoseconds.
    pub released_ns: u64,
    /// How long it had waited by then, nanoseconds.
    pub waited_ns: u64,
    /// All have met at a barrier, where `by` came last.
    pub met: bool,
}

/// An operation of the six classes that has ended, late or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Its class.
    pub class: SyncClass,
    /// Who did it.
    pub thread: ThreadId,
    /// Who ended the wait; of signals, broadcasts and unlocks `thread`.
    pub by: ThreadId,
    /// The same number for all waits that one release has ended, and another for each release; of other operations 0.
    pub release: u64,
    /// T, nanoseconds.
    pub took_ns: u64,
    /// The part of T in which others held the mutex that the wait has to take again, nanoseconds.
    pub held_ns: u64,
}

/// Watches. Every method does nothing unless it is written.
pub trait Observer {
    /// A late wait, with its pieces.
    fn late_wait(&mut self, _wait: &Wait) {}
    /// A wait that another thread has ended, late or not; joins are not among them.
    fn woken(&mut self, _wakeup: &Wakeup) {}
    /// An operation of the six classes has ended.
    fn timed(&mut self, _timed: &Timed) {}
    /// An operation on a buffer of a core. `slot` is where it succeeded, none where it failed. Slots are told apart only
    /// where the buffers are limited.
    fn buffer(&mut self, _core: u16, _buffer: Buffer, _operation: Operation, _slot: Option<u8>) {}
    /// A message of a core's unit.
    fn message(&mut self, _core: u16, _message: Message) {}
}

impl Observer for () {}
