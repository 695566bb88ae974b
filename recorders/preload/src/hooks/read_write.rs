//! `pthread_rwlock_*`.

use super::lock::{self, Lock};
use crate::real::{Object, Time};
use libc::c_int;
use quaver_abi::sync::SyncObject;

fn writing(object: Object, site: usize) -> Lock {
    Lock::exclusive(object as usize, site, SyncObject::ReadWrite)
}

fn reading(object: Object, site: usize) -> Lock {
    Lock { for_reading: true, ..writing(object, site) }
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
        pub(crate) unsafe extern "C-unwind" fn $name(object: Object, $($argument: $type,)* site: usize) -> c_int {
            let wait = move || library!($real(object, $($argument),*) or libc::ENOSYS);
            lock::lock($lock(object, site), move || $attempt(object), wait)
        }
    };
}

blocking!(rdlock, rwlock_rdlock, reading, try_read, ());
blocking!(timedrdlock, rwlock_timedrdlock, reading, try_read, (until: Time));
blocking!(clockrdlock, rwlock_clockrdlock, reading, try_read, (clock: c_int, until: Time));
blocking!(wrlock, rwlock_wrlock, writing, try_write, ());
blocking!(timedwrlock, rwlock_timedwrlock, writing, try_write, (until: Time));
blocking!(clockwrlock, rwlock_clockwrlock, writing, try_write, (clock: c_int, until: Time));

pub(crate) unsafe extern "C-unwind" fn tryrdlock(object: Object, site: usize) -> c_int {
    lock::try_lock(reading(object, site), || try_read(object))
}

pub(crate) unsafe extern "C-unwind" fn trywrlock(object: Object, site: usize) -> c_int {
    lock::try_lock(writing(object, site), || try_write(object))
}

pub(crate) unsafe extern "C-unwind" fn unlock(object: Object, site: usize) -> c_int {
    let give_back = move || library!(rwlock_unlock(object) or libc::ENOSYS);
    lock::unlock(writing(object, site), give_back)
}
