//! `pthread_spin_*`.

use super::lock::{self, Lock};
use crate::real::Object;
use crate::stack::Caller;
use libc::c_int;
use quaver_abi::sync::SyncObject;

fn of(object: Object, caller: Caller) -> Lock {
    Lock::exclusive(object as usize, caller, SyncObject::Spin)
}

#[inline(always)]
fn attempt(object: Object) -> c_int {
    library!(spin_trylock(object) or libc::ENOSYS)
}

pub(crate) unsafe extern "C-unwind" fn lock(object: Object, caller: Caller) -> c_int {
    let wait = move || library!(spin_lock(object) or libc::ENOSYS);
    lock::lock(of(object, caller), move || attempt(object), wait)
}

pub(crate) unsafe extern "C-unwind" fn trylock(object: Object, caller: Caller) -> c_int {
    lock::try_lock(of(object, caller), || attempt(object))
}

pub(crate) unsafe extern "C-unwind" fn unlock(object: Object, caller: Caller) -> c_int {
    lock::unlock(of(object, caller), move || library!(spin_unlock(object) or libc::ENOSYS))
}
