//! Creation, end and join of threads.
//!
//! The new thread runs our start routine, which runs the program's and sees its end: by return, `pthread_exit` or
//! cancellation. What it must know is handed over in one of a few hundred places, since nothing here allocates; with
//! all of them taken (threads created faster than they begin) the thread starts as the program said and is found
//! at its first call.

use super::{Blocking, cancellable, outcome_of};
use crate::handoffs::{Handoff, Origin, take_place};
use crate::marks::{self, Call, Marked};
use crate::real::{self, Object, Routine, Time};
use crate::ring::{self, Event};
use crate::stack::{Caller, LEAST_STACK};
use crate::{arch, segment};
use libc::{c_int, c_void};
use quaver_abi::sync::{SyncKind, SyncOutcome};
use std::sync::atomic::Ordering;

/// Where `pthread_cleanup_push` keeps its record in the new thread's first frame.
struct Ending {
    library: [usize; 8],
}

extern "C" fn ended(_: *mut c_void) {
    if let Some(thread) = ring::current() {
        thread.end();
    }
}

extern "C-unwind" fn run(place: *mut c_void) -> *mut c_void {
    // SAFETY: the place that the creator filled for this thread.
    let handoff = unsafe { &*place.cast::<Handoff>() };
    // SAFETY: ours until it is given back below.
    let what = unsafe { (*handoff.what.get()).take() };
    handoff.taken.store(0, Ordering::Release);
    let Some((routine, argument, mut origin)) = what else { return std::ptr::null_mut() };
    if !origin.has_small_stack {
        origin.stack_top = (&raw const origin).addr();
    }
    let _ = ring::started(origin);
    let mut ending = Ending { library: [0; 8] };
    let at = (&raw mut ending.library).cast::<c_void>();
    if let Some(push) = real::cleanup_push() {
        // SAFETY: `ending` outlives the matching pop below.
        unsafe { push(at, ended, at) };
    }
    let result = routine(argument);
    if let Some(pop) = real::cleanup_pop() {
        // SAFETY: pops what was pushed above, without running it.
        unsafe { pop(at, 0) };
    }
    ended(std::ptr::null_mut());
    result
}

/// Whether a thread with these attributes may have a stack smaller than [`LEAST_STACK`].
fn has_small_stack(attributes: Object) -> bool {
    let mut octets = 0;
    // SAFETY: what the program passed for a thread of it; the number is ours.
    !attributes.is_null()
        && (unsafe { libc::pthread_attr_getstacksize(attributes.cast(), &raw mut octets) } != 0
            || octets < LEAST_STACK)
}

pub(crate) unsafe extern "C-unwind" fn create(
    into: *mut libc::pthread_t,
    attributes: Object,
    routine: Routine,
    argument: *mut c_void,
    caller: Caller,
) -> c_int {
    let as_it_came = || library!(create(into, attributes, routine, argument) or libc::EAGAIN);
    let Some(thread) = ring::current() else { return as_it_came() };
    let creation = segment::number_creation();
    let event = Event {
        kind: SyncKind::Create,
        outcome: 0,
        object: 0,
        site: routine as usize as u64,
        detail: creation,
    };
    thread.put(event);
    let result = match take_place() {
        Some(place) => {
            let origin = Origin {
                creator: thread.id(),
                creation,
                routine: routine as usize as u64,
                has_small_stack: has_small_stack(attributes),
                stack_top: 0,
            };
            // SAFETY: the place is ours until the new thread has begun.
            unsafe { *place.what.get() = Some((routine, argument, origin)) };
            let at = std::ptr::from_ref(place).cast_mut().cast::<c_void>();
            let result = library!(create(into, attributes, run, at) or libc::EAGAIN);
            if result != 0 {
                place.taken.store(0, Ordering::Release);
            }
            result
        }
        None => as_it_came(),
    };
    // What the library put into `*into` is not read: the new thread may have freed that memory by now.
    let outcome = outcome_of(result) as u8;
    thread.put(Event {
        kind: SyncKind::CreateExit,
        outcome,
        object: 0,
        site: caller.site() as u64,
        detail: creation,
    });
    result
}

pub(crate) unsafe extern "C-unwind" fn exit(value: *mut c_void, _: Caller) -> ! {
    if let Some(thread) = ring::current()
        && !thread.is_started_by_us()
    {
        thread.end();
    }
    if let Some(real) = real::exit_thread() {
        // SAFETY: what the program passed; it does not return.
        unsafe { real(value) }
    }
    loop {
        // SAFETY: no C library lacks `pthread_exit`; a thread that cannot end sleeps.
        unsafe { libc::pause() };
    }
}

fn join_call(child: libc::pthread_t, caller: Caller) -> Blocking {
    Blocking {
        entry: SyncKind::JoinEntry,
        exit: SyncKind::JoinExit,
        // A number in glibc, an address in musl.
        object: child as usize as u64,
        caller,
        detail: 0,
        flags: 0,
    }
}

#[inline(always)]
fn join_by(child: libc::pthread_t, caller: Caller, make: impl FnOnce() -> c_int) -> c_int {
    let Some(thread) = ring::current() else {
        return marks::around_cancellable(Marked::new(Call::Join, child as usize), make);
    };
    cancellable(thread, join_call(child, caller), None, outcome_of, make)
}

pub(crate) unsafe extern "C-unwind" fn join(
    child: libc::pthread_t,
    value: *mut *mut c_void,
    caller: Caller,
) -> c_int {
    join_by(child, caller, || library!(join(child, value) or libc::ENOSYS))
}

pub(crate) unsafe extern "C-unwind" fn timedjoin(
    child: libc::pthread_t,
    value: *mut *mut c_void,
    until: Time,
    caller: Caller,
) -> c_int {
    join_by(child, caller, || library!(timedjoin(child, value, until) or libc::ENOSYS))
}

pub(crate) unsafe extern "C-unwind" fn clockjoin(
    child: libc::pthread_t,
    value: *mut *mut c_void,
    clock: c_int,
    until: Time,
    caller: Caller,
) -> c_int {
    join_by(child, caller, || library!(clockjoin(child, value, clock, until) or libc::ENOSYS))
}

/// A try that finds the thread running is counted; one that joins is recorded.
pub(crate) unsafe extern "C-unwind" fn tryjoin(
    child: libc::pthread_t,
    value: *mut *mut c_void,
    caller: Caller,
) -> c_int {
    let make = || library!(tryjoin(child, value) or libc::ENOSYS);
    let Some(thread) = ring::current() else {
        return marks::around(Marked::new(Call::Join, child as usize), make);
    };
    let entered = arch::cycles();
    let result = make();
    let call = join_call(child, caller);
    match result {
        libc::EBUSY => arch::count(&thread.ring().busy_tries),
        _ => {
            thread.put_at(entered, call.entry());
            thread.put(call.exit(if result == 0 { SyncOutcome::Ok } else { outcome_of(result) }));
        }
    }
    result
}
