//! `pthread_rwlock_*`.

use super::lock::{self, Lock};
use crate::real::{Object, Time};
use crate::stack::Caller;
use libc::c_int;
use quaver_abi::sync::SyncObject;

fn writing(object: Object, caller: Caller) -> Lock {
    Lock::exclusive(object as usize, caller, SyncObject::ReadWrite)
}

fn reading(object: Object, caller: Caller) -> Lock {
    Lock { for_reading: true, ..writing(object, caller) }
}

#[inline(always)]
fn try_read(object: Object) -> c_int {
    library!(rwlock_tryrdlock(object) or libc::ENOSYS)
}

#[inline(always)]
fn try_write(object: Object) -> c_int {
    library!(rwlock_trywrlock(object) or libc::ENOSYS)
}

macro_rules! blocking {
    ($name:ident, $real:ident, $lock:ident, $attempt:ident, ($($argument:ident: $type:ty),*)) => {
        pub(crate) unsafe extern "C-unwind" fn $name(object: Object, $($argument: $type,)* caller: Caller) -> c_int {
            let wait = move || library!($real(object, $($argument),*) or libc::ENOSYS);
            lock::lock($lock(object, caller), move || $attempt(object), wait)
        }
    };
}

blocking!(rdlock, rwlock_rdlock, reading, try_read, ());
blocking!(timedrdlock, rwlock_timedrdlock, reading, try_read, (until: Time));
blocking!(clockrdlock, rwlock_clockrdlock, reading, try_read, (clock: c_int, until: Time));
blocking!(wrlock, rwlock_wrlock, writing, try_write, ());
blocking!(timedwrlock, rwlock_timedwrlock, writing, try_write, (until: Time));
blocking!(clockwrlock, rwlock_clockwrlock, writing, try_write, (clock: c_int, until: Time));

pub(crate) unsafe extern "C-unwind" fn tryrdlock(object: Object, caller: Caller) -> c_int {
    lock::try_lock(reading(object, caller), || try_read(object))
}

pub(crate) unsafe extern "C-unwind" fn trywrlock(object: Object, caller: Caller) -> c_int {
    lock::try_lock(writing(object, caller), || try_write(object))
}

pub(crate) unsafe extern "C-unwind" fn unlock(object: Object, caller: Caller) -> c_int {
    let give_back = move || library!(rwlock_unlock(object) or libc::ENOSYS);
    lock::unlock(writing(object, caller), give_back)
}
