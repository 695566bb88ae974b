//! `mtx_*`, `cnd_*` and `thrd_*` of C11. In glibc they are the calls of POSIX on the same objects, with other numbers
//! for how they end; but they call them inside the library, where nobody can come between. So they are made of our own.

use super::{condition, mutex, thread};
use crate::real::{Object, Time};
use crate::stack::Caller;
use libc::{c_int, c_void};

const SUCCESS: c_int = 0;
const BUSY: c_int = 1;
pub(super) const ERROR: c_int = 2;
const NO_MEMORY: c_int = 3;
const TIMED_OUT: c_int = 4;

/// What C11 calls the result of a call of POSIX.
fn named(result: c_int) -> c_int {
    match result {
        0 => SUCCESS,
        libc::EBUSY => BUSY,
        libc::ENOMEM => NO_MEMORY,
        libc::ETIMEDOUT => TIMED_OUT,
        _ => ERROR,
    }
}

pub(crate) unsafe extern "C-unwind" fn mtx_lock(mutex: Object, caller: Caller) -> c_int {
    // SAFETY: what the program passed; here and below, a `mtx_t` is a `pthread_mutex_t`, and so on.
    named(unsafe { mutex::lock(mutex, caller) })
}

pub(crate) unsafe extern "C-unwind" fn mtx_trylock(mutex: Object, caller: Caller) -> c_int {
    // SAFETY: as above.
    named(unsafe { mutex::trylock(mutex, caller) })
}

pub(crate) unsafe extern "C-unwind" fn mtx_timedlock(mutex: Object, until: Time, caller: Caller) -> c_int {
    // SAFETY: as above.
    named(unsafe { mutex::timedlock(mutex, until, caller) })
}

pub(crate) unsafe extern "C-unwind" fn mtx_unlock(mutex: Object, caller: Caller) -> c_int {
    // SAFETY: as above.
    named(unsafe { mutex::unlock(mutex, caller) })
}

pub(crate) unsafe extern "C-unwind" fn cnd_wait(condition: Object, mutex: Object, caller: Caller) -> c_int {
    // SAFETY: as above.
    named(unsafe { condition::wait(condition, mutex, caller) })
}

pub(crate) unsafe extern "C-unwind" fn cnd_timedwait(
    condition: Object,
    mutex: Object,
    until: Time,
    caller: Caller,
) -> c_int {
    // SAFETY: as above.
    named(unsafe { condition::timedwait(condition, mutex, until, caller) })
}

pub(crate) unsafe extern "C-unwind" fn cnd_signal(condition: Object, caller: Caller) -> c_int {
    // SAFETY: as above.
    named(unsafe { condition::signal(condition, caller) })
}

pub(crate) unsafe extern "C-unwind" fn cnd_broadcast(condition: Object, caller: Caller) -> c_int {
    // SAFETY: as above.
    named(unsafe { condition::broadcast(condition, caller) })
}

/// The start routine returns an `int`: the lower half of what one of POSIX returns, and all that [`thrd_join`] looks at.
pub(crate) unsafe extern "C-unwind" fn thrd_create(
    into: *mut libc::pthread_t,
    routine: crate::real::Routine,
    argument: *mut c_void,
    caller: Caller,
) -> c_int {
    // SAFETY: as above; both kinds of routine take an address and return in the same register.
    named(unsafe { thread::create(into, std::ptr::null_mut(), routine, argument, caller) })
}

pub(crate) unsafe extern "C-unwind" fn thrd_join(
    child: libc::pthread_t,
    result: *mut c_int,
    caller: Caller,
) -> c_int {
    let mut value = std::ptr::null_mut();
    // SAFETY: as above; the value is ours.
    let ended = unsafe { thread::join(child, &raw mut value, caller) };
    if ended == 0 && !result.is_null() {
        // SAFETY: where the program wants it.
        unsafe { result.write(value as usize as c_int) };
    }
    named(ended)
}
