//! `pthread_mutex_*`.

use super::lock::{self, Lock};
use crate::real::{Object, Time};
use libc::c_int;
use quaver_abi::sync::SyncObject;

fn of(mutex: Object, site: usize) -> Lock {
    Lock::exclusive(mutex as usize, site, SyncObject::Mutex)
}

/// The real try. Missing means that the symbols are being looked up just now, by the one thread there is, whose
/// allocator wants to lock: it may go on.
#[inline(always)]
fn attempt(mutex: Object) -> c_int {
    library!(mutex_trylock(mutex) or 0)
}

pub(crate) unsafe extern "C-unwind" fn lock(mutex: Object, site: usize) -> c_int {
    let wait = move || library!(mutex_lock(mutex) or 0);
    lock::lock(of(mutex, site), move || attempt(mutex), wait)
}

pub(crate) unsafe extern "C-unwind" fn trylock(mutex: Object, site: usize) -> c_int {
    lock::try_lock(of(mutex, site), || attempt(mutex))
}

pub(crate) unsafe extern "C-unwind" fn timedlock(mutex: Object, until: Time, site: usize) -> c_int {
    let wait = move || library!(mutex_timedlock(mutex, until) or libc::ENOSYS);
    lock::lock(of(mutex, site), move || attempt(mutex), wait)
}

pub(crate) unsafe extern "C-unwind" fn clocklock(
    mutex: Object,
    clock: c_int,
    until: Time,
    site: usize,
) -> c_int {
    let wait = move || library!(mutex_clocklock(mutex, clock, until) or libc::ENOSYS);
    // The real call refuses other clocks even where the lock is free.
    if clock != libc::CLOCK_REALTIME && clock != libc::CLOCK_MONOTONIC {
        return wait();
    }
    lock::lock(of(mutex, site), move || attempt(mutex), wait)
}

pub(crate) unsafe extern "C-unwind" fn unlock(mutex: Object, site: usize) -> c_int {
    lock::unlock(of(mutex, site), move || library!(mutex_unlock(mutex) or 0))
}
