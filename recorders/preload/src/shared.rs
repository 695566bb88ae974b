//! Objects that several processes use. Who waits for them in another process is not in our [`crate::waiters`], so that all that gives
//! them back is recorded.
//!
//! Whether an object is shared stands in the object itself: glibc's layout, the same on x86-64 and arm64 since 2.21
//! (`struct_mutex.h`, `struct_rwlock.h`, `struct new_sem`). Other C libraries are not asked.

use quaver_abi::sync::SyncObject;
use std::sync::atomic::{AtomicU32, Ordering};

/// PTHREAD_MUTEX_PSHARED_BIT in `__kind`.
const SHARED_MUTEX: u32 = 128;
const MUTEX_KIND_OFFSET: usize = 16;
/// The type in `__kind`, and PTHREAD_MUTEX_RECURSIVE_NP.
const MUTEX_TYPE: u32 = 3;
const RECURSIVE: u32 = 1;
const READ_WRITE_SHARED_OFFSET: usize = 28;
const SEMAPHORE_SHARED_OFFSET: usize = 8;

/// Whether a lock, which its holder is about to give back, belongs to several processes.
#[inline(always)]
pub(crate) fn is_lock(address: usize, object: SyncObject) -> bool {
    match object {
        SyncObject::Mutex => word(address, MUTEX_KIND_OFFSET) & SHARED_MUTEX != 0,
        SyncObject::ReadWrite => word(address, READ_WRITE_SHARED_OFFSET) != 0,
        SyncObject::Spin => false,
    }
}

/// Whether a thread may have a lock several times over.
pub(crate) fn is_recursive(address: usize, object: SyncObject) -> bool {
    let is = |kind: u32| kind & MUTEX_TYPE == RECURSIVE;
    object == SyncObject::Mutex && is(word(address, MUTEX_KIND_OFFSET))
}

/// Whether a semaphore, which is about to be posted, belongs to several processes.
#[inline(always)]
pub(crate) fn is_semaphore(address: usize) -> bool {
    word(address, SEMAPHORE_SHARED_OFFSET) != 0
}

#[inline(always)]
fn word(address: usize, offset: usize) -> u32 {
    if !cfg!(target_env = "gnu") || address == 0 || !address.is_multiple_of(align_of::<AtomicU32>()) {
        return 0;
    }
    // SAFETY: an object that the program passes to the thread library, which reads the same word; longer than that offset.
    unsafe { (*((address.wrapping_add(offset)) as *const AtomicU32)).load(Ordering::Relaxed) }
}
