//! What is recorded around each call. Every function takes what the real one takes and, last, where it was called from.

/// Calls the library's own function with what the program passed; `or` stands for a library that has none.
macro_rules! library {
    ($function:ident($($argument:expr),* $(,)?) or $missing:expr) => {
        match $crate::real::$function() {
            // SAFETY: the real function with arguments that the program passed to it.
            Some(real) => unsafe { real($($argument),*) },
            None => $missing,
        }
    };
}

pub(crate) mod barrier;
#[cfg(target_env = "gnu")]
pub(crate) mod c11;
pub(crate) mod condition;
pub(crate) mod futex;
pub(crate) mod init;
pub(crate) mod lock;
pub(crate) mod mutex;
pub(crate) mod process;
pub(crate) mod read_write;
mod sample;
pub(crate) mod semaphore;
pub(crate) mod spin;
pub(crate) mod thread;

use crate::ring::{self, Event, Thread};
use crate::stack::{self, Caller};
use crate::{arch, real, system, waiters};
use libc::{c_int, c_void};
use quaver_abi::sync::{SyncKind, SyncOutcome, outcome_flags};
use std::sync::atomic::AtomicU32;

/// How a call ended, by the error number that it returned.
pub(crate) fn outcome_of(result: c_int) -> SyncOutcome {
    match result {
        0 => SyncOutcome::Ok,
        libc::EBUSY | libc::EAGAIN => SyncOutcome::Busy,
        libc::ETIMEDOUT => SyncOutcome::Timeout,
        libc::EINTR => SyncOutcome::Interrupted,
        libc::EOWNERDEAD => SyncOutcome::OwnerDied,
        libc::EDEADLK => SyncOutcome::Deadlock,
        libc::PTHREAD_BARRIER_SERIAL_THREAD => SyncOutcome::Serial,
        _ => SyncOutcome::Failed,
    }
}

/// How a call ended that returns -1 and sets `errno`.
pub(crate) fn outcome_by_errno(result: c_int) -> SyncOutcome {
    if result == 0 { SyncOutcome::Ok } else { outcome_of(system::errno()) }
}

/// A call that blocks, as it is recorded.
#[derive(Clone, Copy)]
pub(crate) struct Blocking {
    pub(crate) entry: SyncKind,
    pub(crate) exit: SyncKind,
    pub(crate) object: u64,
    pub(crate) caller: Caller,
    pub(crate) detail: u32,
    /// Flags of both records.
    pub(crate) flags: u8,
}

impl Blocking {
    pub(crate) fn entry(&self) -> Event {
        Event {
            kind: self.entry,
            outcome: self.flags,
            object: self.object,
            site: self.caller.site() as u64,
            detail: self.detail,
        }
    }

    pub(crate) fn exit(&self, outcome: SyncOutcome) -> Event {
        Event { kind: self.exit, outcome: self.flags | outcome as u8, ..self.entry() }
    }

    /// Records that it returns now, with the stack of a wait that was long.
    #[inline(always)]
    pub(crate) fn returns(&self, thread: &Thread, entered: u64, outcome: SyncOutcome) {
        let returned = arch::cycles();
        stack::waited(thread, self.caller, entered, returned);
        thread.put_at(returned, self.exit(outcome));
    }
}

/// What must be done if a thread is cancelled inside the call.
struct Pending {
    /// Room for the C library's own record of a cleanup: four words in glibc, three in musl.
    library: [usize; 8],
    call: Blocking,
    slot: Option<&'static AtomicU32>,
}

extern "C" fn cancelled(pending: *mut c_void) {
    // SAFETY: the address of a `Pending` in a frame that is about to be left.
    let pending = unsafe { &*pending.cast::<Pending>() };
    if let Some(thread) = ring::current() {
        thread.put(pending.call.exit(SyncOutcome::Cancelled));
    }
    if let Some(slot) = pending.slot {
        waiters::leave(slot);
    }
}

/// Records the entry, makes a call that may be left by cancellation, and records its end.
#[inline(always)]
pub(crate) fn cancellable(
    thread: &Thread,
    call: Blocking,
    slot: Option<&'static AtomicU32>,
    outcome: fn(c_int) -> SyncOutcome,
    make: impl FnOnce() -> c_int,
) -> c_int {
    cancellable_since(thread, arch::cycles(), call, slot, outcome, make)
}

/// The same of a call that began at that count of cycles.
#[inline(always)]
pub(crate) fn cancellable_since(
    thread: &Thread,
    entered: u64,
    call: Blocking,
    slot: Option<&'static AtomicU32>,
    outcome: fn(c_int) -> SyncOutcome,
    make: impl FnOnce() -> c_int,
) -> c_int {
    thread.put_at(entered, call.entry());
    let mut pending = Pending { library: [0; 8], call, slot };
    let pending_at = &raw mut pending;
    // SAFETY: the address of a field of a value that lives in this frame.
    let library = unsafe { &raw mut (*pending_at).library }.cast::<c_void>();
    if let Some(push) = real::cleanup_push() {
        // SAFETY: the library's room and what `cancelled` gets outlive the matching pop below.
        unsafe { push(library, cancelled, pending_at.cast()) };
    }
    let result = make();
    if let Some(pop) = real::cleanup_pop() {
        // SAFETY: pops what was pushed above, without running it.
        unsafe { pop(library, 0) };
    }
    call.returns(thread, entered, outcome(result));
    if let Some(slot) = slot {
        waiters::leave(slot);
    }
    result
}

/// Flags of a contended lock or unlock.
pub(crate) const CONTENDED: u8 = outcome_flags::CONTENDED;
