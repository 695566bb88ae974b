//! `sem_*`. Errors come by `errno`, which recording leaves alone.

use super::{Blocking, CONTENDED, cancellable_since, outcome_by_errno};
use crate::marks::{self, Call, Marked};
use crate::real::{self, Object, Time};
use crate::stack::{self, Caller};
use crate::{arch, ring, shared, system, waiters};
use libc::{c_int, c_uint};
use quaver_abi::sync::SyncKind;

fn missing() -> c_int {
    system::set_errno(libc::ENOSYS);
    -1
}

#[inline(always)]
fn attempt(semaphore: Object) -> c_int {
    library!(sem_trywait(semaphore) or missing())
}

#[inline(always)]
fn wait_by(semaphore: Object, caller: Caller, make: impl FnOnce() -> c_int) -> c_int {
    let Some(thread) = ring::current() else {
        return marks::around_cancellable(Marked::new(Call::SemaphoreWait, semaphore as usize), make);
    };
    let errno = system::errno();
    // A wait acts on a pending cancellation even where it need not wait; a try does not.
    if let Some(testcancel) = real::testcancel() {
        // SAFETY: nothing is held that would have to be undone.
        unsafe { testcancel() };
    }
    if attempt(semaphore) == 0 {
        arch::count(&thread.ring().free_semaphore_waits);
        return 0;
    }
    let slot = waiters::of(semaphore as usize);
    // Before the look that finds it at zero, as with locks.
    let entered = arch::cycles();
    waiters::enter(slot);
    if attempt(semaphore) == 0 {
        waiters::leave(slot);
        system::set_errno(errno);
        arch::count(&thread.ring().free_semaphore_waits);
        return 0;
    }
    system::set_errno(errno);
    let call = Blocking {
        entry: SyncKind::SemWaitEntry,
        exit: SyncKind::SemWaitExit,
        object: semaphore as u64,
        caller,
        detail: 0,
        flags: CONTENDED,
    };
    cancellable_since(thread, entered, call, Some(slot), outcome_by_errno, make)
}

pub(crate) unsafe extern "C-unwind" fn wait(semaphore: Object, caller: Caller) -> c_int {
    wait_by(semaphore, caller, || library!(sem_wait(semaphore) or missing()))
}

pub(crate) unsafe extern "C-unwind" fn timedwait(semaphore: Object, until: Time, caller: Caller) -> c_int {
    wait_by(semaphore, caller, || library!(sem_timedwait(semaphore, until) or missing()))
}

pub(crate) unsafe extern "C-unwind" fn clockwait(
    semaphore: Object,
    clock: c_int,
    until: Time,
    caller: Caller,
) -> c_int {
    let make = || library!(sem_clockwait(semaphore, clock, until) or missing());
    // The real call refuses other clocks even where it need not wait.
    if clock != libc::CLOCK_REALTIME && clock != libc::CLOCK_MONOTONIC {
        return make();
    }
    wait_by(semaphore, caller, make)
}

pub(crate) unsafe extern "C-unwind" fn trywait(semaphore: Object, _caller: Caller) -> c_int {
    let Some(thread) = ring::current() else {
        return marks::around(Marked::new(Call::SemaphoreWait, semaphore as usize), || attempt(semaphore));
    };
    let result = attempt(semaphore);
    if result == 0 {
        arch::count(&thread.ring().free_semaphore_waits);
    } else if system::errno() == libc::EAGAIN {
        arch::count(&thread.ring().busy_tries);
    }
    result
}

pub(crate) unsafe extern "C-unwind" fn post(semaphore: Object, caller: Caller) -> c_int {
    let make = || library!(sem_post(semaphore) or missing());
    let Some(thread) = ring::current() else {
        return marks::around(Marked::new(Call::Post, semaphore as usize), make);
    };
    let slot = waiters::of(semaphore as usize);
    let call = Blocking {
        entry: SyncKind::PostEntry,
        exit: SyncKind::PostExit,
        object: semaphore as u64,
        caller,
        detail: 0,
        flags: CONTENDED,
    };
    // As with unlocks, what nobody waits for is not stamped.
    let first_look = waiters::look(slot);
    if waiters::is_waited_for(first_look) || shared::is_semaphore(semaphore as usize) {
        let entered = arch::cycles();
        thread.put_at(entered, call.entry());
        let result = make();
        let returned = arch::cycles_after();
        stack::woke(thread, caller, entered, returned);
        thread.put_at(returned, call.exit(outcome_by_errno(result)));
        return result;
    }
    let result = make();
    if waiters::came_since(slot, first_look) {
        thread.put_at(waiters::first_since(slot, first_look), call.entry());
        thread.put_at(arch::cycles_after(), call.exit(outcome_by_errno(result)));
    } else if result == 0 {
        arch::count(&thread.ring().quiet_posts);
    }
    result
}

pub(crate) unsafe extern "C-unwind" fn init(
    semaphore: Object,
    shared: c_int,
    value: c_uint,
    caller: Caller,
) -> c_int {
    let result = library!(sem_init(semaphore, shared, value) or missing());
    if result == 0 {
        marks::made(Call::Post, semaphore as usize, value as usize);
    }
    super::init::note(result, semaphore, caller)
}
