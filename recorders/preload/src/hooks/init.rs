//! Where objects are initialised. Those on the heap have no other name.

use crate::real::Object;
use crate::ring::{self, Event};
use crate::shared_pages;
use crate::stack::Caller;
use libc::c_int;
use quaver_abi::sync::SyncKind;

/// Records that the object is ready. `failed`: what the call returned.
pub(super) fn note(failed: c_int, object: Object, caller: Caller) -> c_int {
    if failed == 0
        && let Some(thread) = ring::current().filter(|thread| thread.samples().may_initialise())
    {
        let kind = SyncKind::Initialised;
        thread.put(Event { kind, outcome: 0, object: object as u64, site: caller.site() as u64, detail: 0 });
    }
    failed
}

pub(crate) unsafe extern "C-unwind" fn mutex(mutex: Object, attributes: Object, caller: Caller) -> c_int {
    // Missing: the allocator below `dlsym` begins just now. Its own memory is zero, which is a mutex that is ready.
    note(library!(mutex_init(mutex, attributes) or 0), mutex, caller)
}

pub(crate) unsafe extern "C-unwind" fn condition(
    condition: Object,
    attributes: Object,
    caller: Caller,
) -> c_int {
    note(library!(cond_init(condition, attributes) or libc::ENOSYS), condition, caller)
}

pub(crate) unsafe extern "C-unwind" fn read_write(lock: Object, attributes: Object, caller: Caller) -> c_int {
    note(library!(rwlock_init(lock, attributes) or libc::ENOSYS), lock, caller)
}

pub(crate) unsafe extern "C-unwind" fn spin(lock: Object, shared: c_int, caller: Caller) -> c_int {
    shared_pages::learn(lock as usize, shared == libc::PTHREAD_PROCESS_SHARED);
    note(library!(spin_init(lock, shared) or libc::ENOSYS), lock, caller)
}

#[cfg(target_env = "gnu")]
pub(crate) unsafe extern "C-unwind" fn mtx(mutex: Object, kind: c_int, caller: Caller) -> c_int {
    note(library!(mtx_init(mutex, kind) or super::c11::ERROR), mutex, caller)
}

#[cfg(target_env = "gnu")]
pub(crate) unsafe extern "C-unwind" fn cnd(condition: Object, caller: Caller) -> c_int {
    note(library!(cnd_init(condition) or super::c11::ERROR), condition, caller)
}
