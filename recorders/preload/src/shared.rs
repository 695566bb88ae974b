//! Objects that several processes use. Who waits for them in another process is not in our [`crate::waiters`], so that all that gives
//! them back is recorded.
//!
//! Whether an object is shared stands in the object itself: glibc's layout, the same on x86-64 and arm64 since 2.21
//! (`struct_mutex.h`, `struct_rwlock.h`, `struct new_sem`). Other C libraries are not asked. Of spin locks see [`shared_pages`].

use crate::shared_pages;
use quaver_abi::sync::{OWNER_SHIFT, SyncObject};
use std::sync::atomic::{AtomicU32, Ordering};

/// PTHREAD_MUTEX_PSHARED_BIT in `__kind`.
const SHARED_MUTEX: u32 = 128;
const MUTEX_KIND_OFFSET: usize = 16;
/// How often its owner has a recursive mutex.
const MUTEX_COUNT_OFFSET: usize = 4;
/// The type in `__kind`, and PTHREAD_MUTEX_RECURSIVE_NP.
const MUTEX_TYPE: u32 = 3;
const RECURSIVE: u32 = 1;
/// The thread that has a mutex.
const MUTEX_OWNER_OFFSET: usize = 8;
const READ_WRITE_SHARED_OFFSET: usize = 28;
/// The thread that has it for writing, 0 while readers have it.
const READ_WRITE_WRITER_OFFSET: usize = 24;
const SEMAPHORE_SHARED_OFFSET: usize = 8;

/// Whether a lock, which its holder is about to give back, belongs to several processes.
#[inline(always)]
pub(crate) fn is_lock(address: usize, object: SyncObject) -> bool {
    match object {
        SyncObject::Mutex => word(address, MUTEX_KIND_OFFSET) & SHARED_MUTEX != 0,
        SyncObject::ReadWrite => word(address, READ_WRITE_SHARED_OFFSET) != 0,
        SyncObject::Spin => shared_pages::has(address),
    }
}

/// Whether a mutex is of a kind that several processes use, or that a thread may have several times over. Few others are among them
/// (adaptive ones, of which a bit is the same).
#[inline(always)]
pub(crate) fn is_special_mutex(address: usize) -> bool {
    word(address, MUTEX_KIND_OFFSET) & (SHARED_MUTEX | RECURSIVE) != 0
}

/// Whether the thread that holds a mutex has it more than once.
pub(crate) fn is_held_again(address: usize) -> bool {
    word(address, MUTEX_KIND_OFFSET) & MUTEX_TYPE == RECURSIVE && word(address, MUTEX_COUNT_OFFSET) > 1
}

/// Whether a read-write lock that somebody holds is held for writing. Other C libraries are not asked: there it is.
#[inline(always)]
pub(crate) fn is_written(address: usize) -> bool {
    !cfg!(target_env = "gnu") || word(address, READ_WRITE_WRITER_OFFSET) != 0
}

/// The thread that has a lock of this kind at the moment, 0 where none does or that is not known. A read-write lock names its writer.
pub(crate) fn owner(address: usize, object: SyncObject) -> u32 {
    let owner = match object {
        SyncObject::Mutex => word(address, MUTEX_OWNER_OFFSET),
        SyncObject::ReadWrite => word(address, READ_WRITE_WRITER_OFFSET),
        SyncObject::Spin => 0,
    };
    if owner < 1 << (u32::BITS - OWNER_SHIFT) { owner } else { 0 }
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
