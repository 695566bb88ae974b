//! Locks of all kinds: a try tells whether the lock is free, and only a contended one is recorded.
//!
//! Before a waiter looks at the lock for the second time it is counted in [`waiters`]; whoever gives the lock back
//! looks there before and after. So each contended lock that is got has an unlock record (spin locks excepted, whose
//! unlock orders nothing on x86). Waits on conditions take their mutex again inside the C library; of these its own
//! mark in the mutex tells.

use super::{Blocking, CONTENDED, outcome_of, sample};
use crate::marks::{self, Call, Marked};
use crate::ring::{self, Event, Ring};
use crate::stack::{self, Caller};
use crate::{arch, shared, shared_pages, waiters};
use libc::c_int;
use quaver_abi::sync::{OWNER_SHIFT, SyncKind, SyncObject, SyncOutcome, outcome_flags};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A mutex of glibc that somebody may wait for.
const MAY_WAIT: u32 = 2;

/// A lock as it is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Lock {
    pub(crate) address: usize,
    pub(crate) caller: Caller,
    pub(crate) object: SyncObject,
    pub(crate) for_reading: bool,
}

impl Lock {
    pub(crate) fn exclusive(address: usize, caller: Caller, object: SyncObject) -> Self {
        Self { address, caller, object, for_reading: false }
    }

    /// Whether the C library itself has noted that somebody may wait: who takes a mutex again inside a wait on a
    /// condition is not among those that come through [`lock`]. In glibc the first word of a mutex is then 2 (of a
    /// robust or inheriting one it holds its owner, and nothing is seen). To be asked by the holder.
    #[inline(always)]
    fn is_marked(self) -> bool {
        cfg!(target_env = "gnu")
            && self.object == SyncObject::Mutex
            && self.address != 0
            && self.address.is_multiple_of(align_of::<AtomicU32>())
            // SAFETY: a mutex that its holder is about to give back begins with that word, aligned as just seen.
            && unsafe { (*(self.address as *const AtomicU32)).load(Ordering::Relaxed) } == MAY_WAIT
    }

    /// Whether other processes may wait for it.
    #[inline(always)]
    fn is_shared(self) -> bool {
        shared::is_lock(self.address, self.object)
    }

    /// What must be known of it before its holder gives it back; after that it may be freed.
    #[inline(always)]
    fn as_held(self) -> Self {
        let for_reading = self.object == SyncObject::ReadWrite && !shared::is_written(self.address);
        Self { for_reading, ..self }
    }

    fn kind(self) -> (SyncObject, bool) {
        (self.object, self.for_reading)
    }

    fn free_count(self, ring: &Ring) -> &AtomicU64 {
        if self.for_reading { &ring.free_read_locks } else { &ring.free_locks }
    }

    /// It was free, and the thread has it.
    #[inline(always)]
    fn was_free(self, thread: &ring::Thread) {
        arch::count(self.free_count(thread.ring()));
        let is_due = thread.samples().are_due();
        if is_due || waiters::any(waiters::of(self.address)) {
            sample::take(thread, self.address, self.caller.site(), self.kind(), is_due);
        }
    }

    /// What a tracer is told of it.
    fn marked(self) -> Marked {
        Marked::new(if self.for_reading { Call::ReadLock } else { Call::Lock }, self.address)
    }

    fn call(self) -> Blocking {
        let (entry, exit) = if self.for_reading {
            (SyncKind::ReadLockEntry, SyncKind::ReadLockExit)
        } else {
            (SyncKind::LockEntry, SyncKind::LockExit)
        };
        Blocking {
            entry,
            exit,
            object: self.address as u64,
            caller: self.caller,
            detail: self.object as u32,
            flags: CONTENDED,
        }
    }
}

/// Locks: `attempt` is the library's try, `wait` the call that was made. A free lock costs little more than the try: all
/// else is out of the way.
#[inline(always)]
pub(crate) fn lock(lock: Lock, attempt: impl Fn() -> c_int, wait: impl FnOnce() -> c_int) -> c_int {
    let Some(thread) = ring::current() else { return not_recorded(lock.marked(), wait) };
    let found = attempt();
    if found == 0 {
        lock.was_free(thread);
        return 0;
    }
    // In registers: as a whole it would be written to memory, at the cost of those who find the lock free.
    not_free(thread, found, lock.address, lock.caller, lock.kind(), attempt, wait)
}

/// The call as it came, marked where a tracer listens.
#[cold]
#[inline(never)]
fn not_recorded(what: Marked, make: impl FnOnce() -> c_int) -> c_int {
    marks::around(what, make)
}

#[cold]
#[inline(never)]
fn not_free(
    thread: &'static ring::Thread,
    found: c_int,
    address: usize,
    caller: Caller,
    (object, for_reading): (SyncObject, bool),
    attempt: impl Fn() -> c_int,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    let lock = Lock { address, caller, object, for_reading };
    match found {
        libc::EOWNERDEAD => {
            lock.was_free(thread);
            return libc::EOWNERDEAD;
        }
        libc::EBUSY => {}
        // The C library has no try.
        libc::ENOSYS => return wait(),
        // Misuse, or a limit. Not asked again: a try that fails may leave the thread with a ceiling's priority, and the next succeeds.
        refused => return refused,
    }
    if object == SyncObject::Spin {
        shared_pages::find(address);
    }
    let slot = waiters::of(lock.address);
    // Before the look that finds the lock taken: whoever gives it back after that does so after this instant.
    let entered = arch::cycles();
    waiters::enter(slot);
    let result = match attempt() {
        got @ (0 | libc::EOWNERDEAD) => {
            lock.was_free(thread);
            got
        }
        _ => {
            let call = lock.call();
            let owner = shared::owner(lock.address, lock.object) << OWNER_SHIFT;
            thread.put_at(entered, Event { detail: call.detail | owner, ..call.entry() });
            let result = wait();
            call.returns(thread, entered, outcome_of(result));
            result
        }
    };
    waiters::leave(slot);
    result
}

/// Tries to lock.
#[inline(always)]
pub(crate) fn try_lock(lock: Lock, attempt: impl FnOnce() -> c_int) -> c_int {
    let Some(thread) = ring::current() else { return marks::around(lock.marked(), attempt) };
    let result = attempt();
    match result {
        0 | libc::EOWNERDEAD => {
            if thread.latest().was(lock.address) {
                row_ends(thread, lock.address, lock.caller.site());
            }
            lock.was_free(thread);
        }
        libc::EBUSY => failed_again(thread, lock.address, lock.caller.site(), lock.object),
        _ => {}
    }
    result
}

/// One more try has failed: the first of a row, or another one.
#[cold]
#[inline(never)]
fn failed_again(thread: &ring::Thread, address: usize, site: usize, object: SyncObject) {
    arch::count(&thread.ring().busy_tries);
    if thread.latest().is(address, thread.progress()) {
        return thread.latest().fail_again();
    }
    let (object, detail) = (address as u64, object as u32);
    thread.put(Event { kind: SyncKind::TryEntry, outcome: 0, object, site: site as u64, detail });
    thread.latest().set(address, 1, thread.progress());
}

/// A row of tries may end with this one, which got the lock.
#[cold]
#[inline(never)]
fn row_ends(thread: &ring::Thread, address: usize, site: usize) {
    let is_row = thread.latest().is(address, thread.progress());
    let detail = u32::try_from(thread.latest().end()).unwrap_or(u32::MAX);
    if is_row {
        let (object, site) = (address as u64, site as u64);
        thread.put(Event { kind: SyncKind::TryExit, outcome: 0, object, site, detail });
    }
}

/// Gives back a lock. One that nobody waits for is not even stamped, for reading the counter takes longer than all else here.
#[inline(always)]
pub(crate) fn unlock(lock: Lock, give_back: impl FnOnce() -> c_int) -> c_int {
    let Some(thread) = ring::current() else {
        return not_recorded(Marked::new(Call::Unlock, lock.address), give_back);
    };
    let slot = waiters::of(lock.address);
    let first_look = waiters::look(slot);
    // Before the lock itself is touched, which may take long: the call has begun.
    if waiters::is_waited_for(first_look) {
        return give_back_to_waiter(thread, lock.address, lock.caller, lock.object, give_back);
    }
    let lock = lock.as_held();
    let is_special = lock.object == SyncObject::Mutex && shared::is_special_mutex(lock.address);
    let is_shared = (is_special || lock.object != SyncObject::Mutex) && lock.is_shared();
    if lock.is_marked() || is_shared {
        return give_back_to_waiter(thread, lock.address, lock.caller, lock.object, give_back);
    }
    if is_special && shared::is_held_again(lock.address) {
        return give_back_one_of_several(thread, give_back);
    }
    if thread.samples().time(lock.address) {
        sample::give_back(thread, lock.address, lock.caller.site(), lock.object);
    }
    let result = give_back();
    if waiters::came_since(slot, first_look) {
        let since = waiters::first_since(slot, first_look);
        given_back_to_newcomer(thread, since, lock.address, lock.caller, lock.kind(), result);
    } else if result == 0 {
        arch::count(&thread.ring().free_unlocks);
    }
    result
}

fn unlock_call(lock: Lock) -> Blocking {
    let reading = if lock.for_reading { outcome_flags::FOR_READING } else { 0 };
    let flags = CONTENDED | reading;
    Blocking { entry: SyncKind::UnlockEntry, exit: SyncKind::UnlockExit, flags, ..lock.call() }
}

/// The thread still has it, and nobody else gets it.
#[cold]
#[inline(never)]
fn give_back_one_of_several(thread: &'static ring::Thread, give_back: impl FnOnce() -> c_int) -> c_int {
    let result = give_back();
    if result == 0 {
        arch::count(&thread.ring().free_unlocks);
    }
    result
}

/// Gives back a lock that somebody waits for, or may wait for.
#[cold]
#[inline(never)]
fn give_back_to_waiter(
    thread: &'static ring::Thread,
    address: usize,
    caller: Caller,
    object: SyncObject,
    give_back: impl FnOnce() -> c_int,
) -> c_int {
    let entered = arch::cycles();
    if object == SyncObject::Mutex && shared::is_held_again(address) {
        return give_back_one_of_several(thread, give_back);
    }
    let call = unlock_call(Lock::exclusive(address, caller, object).as_held());
    // The unlock itself ends a hold that is timed.
    if thread.samples().time(address) {
        thread.samples().end_time();
    }
    let result = give_back();
    let returned = arch::cycles_after();
    stack::keep(thread, caller, entered);
    thread.put_at(entered, call.entry());
    thread.put_at(returned, call.exit(outcome_of(result)));
    result
}

/// Somebody came while the lock was given back. Nobody stamped the entry of that, which was before the newcomer's own. It is
/// recorded as of when the first of them came, which is where that one's lateness begins in any case.
#[cold]
#[inline(never)]
fn given_back_to_newcomer(
    thread: &'static ring::Thread,
    since: u64,
    address: usize,
    caller: Caller,
    (object, for_reading): (SyncObject, bool),
    result: c_int,
) {
    let call = unlock_call(Lock { address, caller, object, for_reading });
    let returned = arch::cycles_after();
    stack::keep(thread, caller, since);
    thread.put_at(since, call.entry());
    thread.put_at(returned, call.exit(outcome_of(result)));
}

/// Records that a mutex is given back inside a wait on a condition, if somebody waits for it.
#[inline(always)]
pub(crate) fn given_back_inside_wait(thread: &ring::Thread, mutex: usize, caller: Caller) {
    let lock = Lock::exclusive(mutex, caller, SyncObject::Mutex);
    let is_timed = thread.samples().time(mutex);
    if waiters::any(waiters::of(mutex)) || lock.is_shared() {
        if is_timed {
            thread.samples().end_time();
        }
        let flags = CONTENDED | outcome_flags::INSIDE_WAIT;
        let call = Blocking { flags, ..unlock_call(lock) };
        let now = arch::cycles();
        stack::keep(thread, caller, now);
        thread.put_at(now, call.entry());
        thread.put_at(now, call.exit(SyncOutcome::Ok));
    } else if is_timed {
        sample::give_back(thread, mutex, caller.site(), SyncObject::Mutex);
    }
}
