//! Whoever watches the protocol at work: a timeline, or the hardware unit that counts its cycles.

use super::results::Wait;

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

/// Watches. Every method does nothing unless it is written.
pub trait Observer {
    /// A late wait, with its pieces.
    fn late_wait(&mut self, _wait: &Wait) {}
    /// An operation on a buffer of a core. `slot` is where it succeeded, none where it failed. Slots are told apart only
    /// where the buffers are limited.
    fn buffer(&mut self, _core: u16, _buffer: Buffer, _operation: Operation, _slot: Option<u8>) {}
    /// A message of a core's unit.
    fn message(&mut self, _core: u16, _message: Message) {}
}

impl Observer for () {}
