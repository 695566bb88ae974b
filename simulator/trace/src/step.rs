//! Steps of a thread: the dynamic part of a trace.

use serde::{Deserialize, Serialize};

/// One access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// Virtual address of its first byte.
    pub address: u64,
    /// Number of the instruction in its block.
    pub instruction: u16,
    /// How many bytes; 1 to 64, longer ones are several accesses.
    pub octets: u8,
    /// Whether it writes.
    pub write: bool,
}

/// A thread of the traced program, numbered in the order of creation; 0 is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Thread(pub u32);

/// An occasion that other threads can refer to: the signal, broadcast or post of this number in the whole trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Wakeup(pub u64);

/// What a thread did to others, or waited for. `object` is the address of the lock, condition, barrier or semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sync {
    /// Started a thread.
    Create {
        /// The new thread.
        thread: Thread,
    },
    /// Waited for the end of a thread.
    Join {
        /// The thread that ends.
        thread: Thread,
    },
    /// Took a mutex, waiting where it was held. A try that failed is no step.
    Lock {
        /// The mutex.
        object: u64,
    },
    /// Gave a mutex back.
    Unlock {
        /// The mutex.
        object: u64,
    },
    /// Took a lock together with other readers.
    ReadLock {
        /// The lock.
        object: u64,
    },
    /// Gave back what [`Sync::ReadLock`] took.
    ReadUnlock {
        /// The lock.
        object: u64,
    },
    /// Woke one waiter of a condition, or posted to a semaphore.
    Signal {
        /// The condition or semaphore.
        object: u64,
        /// This occasion.
        wakeup: Wakeup,
    },
    /// Woke all waiters of a condition.
    Broadcast {
        /// The condition.
        object: u64,
        /// This occasion.
        wakeup: Wakeup,
    },
    /// Waited for a condition or semaphore. The mutex of a condition is given back before and taken again after it.
    Wait {
        /// The condition or semaphore.
        object: u64,
        /// The condition's mutex; 0 for a semaphore.
        mutex: u64,
        /// What ended the wait; none where it timed out or woke up for nothing, which costs no simulated time.
        by: Option<Wakeup>,
    },
    /// Met the others at a barrier.
    Barrier {
        /// The barrier.
        object: u64,
        /// How many meet there, at least 1.
        parties: u32,
    },
}

/// What a thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// It runs a block; the accesses are told beside it.
    Block {
        /// The block's number in the [dictionary](crate::block::Dictionary).
        number: u32,
    },
    /// It synchronises with others.
    Sync(Sync),
    /// It ends.
    End,
}

/// Where the steps of a thread come from.
pub trait Steps {
    /// The next step; the accesses of a block, in their order, come behind those that are in `accesses`: for who reads many steps
    /// at once. After [`Step::End`] it is asked no more.
    ///
    /// # Errors
    /// The trace cannot be read, or cannot be true.
    fn append(&mut self, accesses: &mut Vec<Access>) -> Result<Step, TraceError>;

    /// As [`append`](Self::append), but the accesses replace those that are in `accesses`.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    #[inline]
    fn step(&mut self, accesses: &mut Vec<Access>) -> Result<Step, TraceError> {
        accesses.clear();
        self.append(accesses)
    }
}

/// A trace that cannot be true.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("thread {thread}, step {step}: {reason}")]
pub struct TraceError {
    /// The thread whose steps are wrong.
    pub thread: u32,
    /// How many of its steps were read before.
    pub step: u64,
    /// What is wrong.
    pub reason: String,
}
