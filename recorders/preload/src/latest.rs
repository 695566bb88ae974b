//! What a thread did last, so that the next call can tell whether it did nothing else since: a row of failed tries of one lock, or
//! a return from a wait on a condition that is waited for again.
//!
//! Each recorded event moves the place of the next record, and each lock that is got free is counted. While neither changes, the
//! thread has got no lock.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A thread's latest failed try or wait, all zero when it begins.
#[repr(C)]
pub(crate) struct Latest {
    /// Address of the lock or the condition; 0 for none.
    object: AtomicUsize,
    /// Failed tries in a row.
    failed: AtomicU64,
    /// Place of the record after it.
    next: AtomicUsize,
    /// Free locks that the thread had got until then.
    free: AtomicU64,
}

/// How far a thread has come: equal at two times if it recorded nothing and got no lock between them.
#[derive(Clone, Copy)]
pub(crate) struct Progress {
    /// Where its next record goes.
    pub(crate) next: usize,
    /// Free locks that it has got.
    pub(crate) free: u64,
}

impl Latest {
    /// A new recording of the thread.
    pub(crate) fn begin(&self) {
        self.object.store(0, Ordering::Relaxed);
    }

    /// Whether the latest was of this object, whatever came after.
    #[inline(always)]
    pub(crate) fn was(&self, object: usize) -> bool {
        self.object.load(Ordering::Relaxed) == object
    }

    /// Whether it was of this object, and the thread has come no further since.
    pub(crate) fn is(&self, object: usize, now: Progress) -> bool {
        self.was(object)
            && self.next.load(Ordering::Relaxed) == now.next
            && self.free.load(Ordering::Relaxed) == now.free
    }

    /// From now on it is of this object, after so many failed tries.
    pub(crate) fn set(&self, object: usize, failed: u64, now: Progress) {
        self.failed.store(failed, Ordering::Relaxed);
        self.next.store(now.next, Ordering::Relaxed);
        self.free.store(now.free, Ordering::Relaxed);
        self.object.store(object, Ordering::Relaxed);
    }

    /// One more failed try in the row.
    pub(crate) fn fail_again(&self) {
        self.failed.store(self.failed.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// The row is over; how many tries failed.
    pub(crate) fn end(&self) -> u64 {
        self.object.store(0, Ordering::Relaxed);
        self.failed.load(Ordering::Relaxed)
    }
}
