//! `pthread_mutex_*`.

use super::lock::{self, Lock};
use crate::real::{Object, Time};
use crate::stack::Caller;
use libc::c_int;
use quaver_abi::sync::SyncObject;

fn of(mutex: Object, caller: Caller) -> Lock {
    Lock::exclusive(mutex as usize, caller, SyncObject::Mutex)
}

/// The real try. Missing means that the symbols are being looked up just now, by the one thread there is, whose
/// allocator wants to lock: it may go on.
#[inline(always)]
fn attempt(mutex: Object) -> c_int {
    library!(mutex_trylock(mutex) or 0)
}

pub(crate) unsafe extern "C-unwind" fn lock(mutex: Object, caller: Caller) -> c_int {
    let wait = move || library!(mutex_lock(mutex) or 0);
    lock::lock(of(mutex, caller), move || attempt(mutex), wait)
}

pub(crate) unsafe extern "C-unwind" fn trylock(mutex: Object, caller: Caller) -> c_int {
    lock::try_lock(of(mutex, caller), || attempt(mutex))
}

pub(crate) unsafe extern "C-unwind" fn timedlock(mutex: Object, until: Time, caller: Caller) -> c_int {
    let wait = move || library!(mutex_timedlock(mutex, until) or libc::ENOSYS);
    lock::lock(of(mutex, caller), move || attempt(mutex), wait)
}

pub(crate) unsafe extern "C-unwind" fn clocklock(
    mutex: Object,
    clock: c_int,
    until: Time,
    caller: Caller,
) -> c_int {
    let wait = move || library!(mutex_clocklock(mutex, clock, until) or libc::ENOSYS);
    // The real call refuses other clocks even where the lock is free.
    if clock != libc::CLOCK_REALTIME && clock != libc::CLOCK_MONOTONIC {
        return wait();
    }
    lock::lock(of(mutex, caller), move || attempt(mutex), wait)
}

pub(crate) unsafe extern "C-unwind" fn unlock(mutex: Object, caller: Caller) -> c_int {
    lock::unlock(of(mutex, caller), move || library!(mutex_unlock(mutex) or 0))
}
