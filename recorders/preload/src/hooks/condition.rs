//! `pthread_cond_*`.

use super::{Blocking, cancellable, lock, outcome_of};
use crate::marks::{self, Call, Marked};
use crate::real::{Object, Time};
use crate::stack::{self, Caller};
use crate::{arch, ring};
use libc::c_int;
use quaver_abi::sync::{SyncKind, outcome_flags};

#[inline(always)]
fn wait_by(condition: Object, mutex: Object, caller: Caller, make: impl FnOnce() -> c_int) -> c_int {
    let Some(thread) = ring::current() else {
        let what = Marked::with(Call::Wait, condition as usize, mutex as usize);
        return marks::around_cancellable(what, make);
    };
    let again = thread.latest().is(condition as usize, thread.progress());
    lock::given_back_inside_wait(thread, mutex as usize, caller);
    let call = Blocking {
        entry: SyncKind::WaitEntry,
        exit: SyncKind::WaitExit,
        object: condition as u64,
        caller,
        detail: mutex as usize as u32,
        flags: if again { outcome_flags::AGAIN } else { 0 },
    };
    let result = cancellable(thread, call, None, outcome_of, make);
    if result == 0 {
        thread.latest().set(condition as usize, 0, thread.progress());
    }
    result
}

pub(crate) unsafe extern "C-unwind" fn wait(condition: Object, mutex: Object, caller: Caller) -> c_int {
    wait_by(condition, mutex, caller, || library!(cond_wait(condition, mutex) or libc::ENOSYS))
}

pub(crate) unsafe extern "C-unwind" fn timedwait(
    condition: Object,
    mutex: Object,
    until: Time,
    caller: Caller,
) -> c_int {
    wait_by(condition, mutex, caller, || library!(cond_timedwait(condition, mutex, until) or libc::ENOSYS))
}

pub(crate) unsafe extern "C-unwind" fn clockwait(
    condition: Object,
    mutex: Object,
    clock: c_int,
    until: Time,
    caller: Caller,
) -> c_int {
    wait_by(
        condition,
        mutex,
        caller,
        || library!(cond_clockwait(condition, mutex, clock, until) or libc::ENOSYS),
    )
}

#[inline(always)]
fn wake_by(
    entry: SyncKind,
    exit: SyncKind,
    condition: Object,
    caller: Caller,
    make: impl FnOnce() -> c_int,
) -> c_int {
    let Some(thread) = ring::current() else {
        let call = if entry == SyncKind::SignalEntry { Call::Signal } else { Call::Broadcast };
        return marks::around(Marked::new(call, condition as usize), make);
    };
    let call = Blocking { entry, exit, object: condition as u64, caller, detail: 0, flags: 0 };
    let entered = arch::cycles();
    thread.put_at(entered, call.entry());
    let result = make();
    let returned = arch::cycles();
    stack::woke(thread, caller, entered, returned);
    thread.put_at(returned, call.exit(outcome_of(result)));
    result
}

pub(crate) unsafe extern "C-unwind" fn signal(condition: Object, caller: Caller) -> c_int {
    wake_by(
        SyncKind::SignalEntry,
        SyncKind::SignalExit,
        condition,
        caller,
        || library!(cond_signal(condition) or libc::ENOSYS),
    )
}

pub(crate) unsafe extern "C-unwind" fn broadcast(condition: Object, caller: Caller) -> c_int {
    wake_by(
        SyncKind::BroadcastEntry,
        SyncKind::BroadcastExit,
        condition,
        caller,
        || library!(cond_broadcast(condition) or libc::ENOSYS),
    )
}
