//! The thread library's own functions, found behind ours in the order of loading.

use libc::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// Which symbol is wanted where the library has several of one name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Its default.
    Default,
    /// Its default, but never that of glibc 2.2.5, which `dlsym` could give before glibc 2.34: its `pthread_cond_t` is another
    /// than that since 2.3.2.
    Version232,
}

macro_rules! real {
    ($($name:ident: $symbol:literal $wanted:ident fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// Addresses found so far.
        pub(crate) struct Real { $(pub(crate) $name: AtomicPtr<c_void>,)* }
        static REAL: Real = Real { $($name: AtomicPtr::new(std::ptr::null_mut()),)* };
        $(
            /// The real function; none where the library has none.
            #[inline(always)]
            pub(crate) fn $name() -> Option<unsafe extern "C-unwind" fn($($argument),*) $(-> $result)?> {
                let mut at = REAL.$name.load(Ordering::Relaxed);
                if at.is_null() {
                    at = find_into(&REAL.$name, $symbol, Wanted::$wanted);
                }
                // SAFETY: null becomes none; else the function of that name in the C library, which has this type.
                unsafe { std::mem::transmute::<*mut c_void, Option<unsafe extern "C-unwind" fn($($argument),*) $(-> $result)?>>(at) }
            }
        )*
        /// Looks all of them up, so that no hook has to.
        pub(crate) fn find_all() {
            $(find_into(&REAL.$name, $symbol, Wanted::$wanted);)*
        }
    };
}

/// Any object of the thread library: only its address is our business.
pub(crate) type Object = *mut c_void;
/// A time for a call to end at.
pub(crate) type Time = *const libc::timespec;
/// Start routine of a thread.
pub(crate) type Routine = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

real! {
    mutex_lock: c"pthread_mutex_lock" Default fn(Object) -> c_int;
    mutex_trylock: c"pthread_mutex_trylock" Default fn(Object) -> c_int;
    mutex_timedlock: c"pthread_mutex_timedlock" Default fn(Object, Time) -> c_int;
    mutex_clocklock: c"pthread_mutex_clocklock" Default fn(Object, c_int, Time) -> c_int;
    mutex_unlock: c"pthread_mutex_unlock" Default fn(Object) -> c_int;
    mutex_init: c"pthread_mutex_init" Default fn(Object, Object) -> c_int;
    cond_init: c"pthread_cond_init" Version232 fn(Object, Object) -> c_int;
    rwlock_init: c"pthread_rwlock_init" Default fn(Object, Object) -> c_int;
    spin_init: c"pthread_spin_init" Default fn(Object, c_int) -> c_int;
    mtx_init: c"mtx_init" Default fn(Object, c_int) -> c_int;
    cnd_init: c"cnd_init" Default fn(Object) -> c_int;
    cond_wait: c"pthread_cond_wait" Version232 fn(Object, Object) -> c_int;
    cond_timedwait: c"pthread_cond_timedwait" Version232 fn(Object, Object, Time) -> c_int;
    cond_clockwait: c"pthread_cond_clockwait" Default fn(Object, Object, c_int, Time) -> c_int;
    cond_signal: c"pthread_cond_signal" Version232 fn(Object) -> c_int;
    cond_broadcast: c"pthread_cond_broadcast" Version232 fn(Object) -> c_int;
    rwlock_rdlock: c"pthread_rwlock_rdlock" Default fn(Object) -> c_int;
    rwlock_tryrdlock: c"pthread_rwlock_tryrdlock" Default fn(Object) -> c_int;
    rwlock_timedrdlock: c"pthread_rwlock_timedrdlock" Default fn(Object, Time) -> c_int;
    rwlock_clockrdlock: c"pthread_rwlock_clockrdlock" Default fn(Object, c_int, Time) -> c_int;
    rwlock_wrlock: c"pthread_rwlock_wrlock" Default fn(Object) -> c_int;
    rwlock_trywrlock: c"pthread_rwlock_trywrlock" Default fn(Object) -> c_int;
    rwlock_timedwrlock: c"pthread_rwlock_timedwrlock" Default fn(Object, Time) -> c_int;
    rwlock_clockwrlock: c"pthread_rwlock_clockwrlock" Default fn(Object, c_int, Time) -> c_int;
    rwlock_unlock: c"pthread_rwlock_unlock" Default fn(Object) -> c_int;
    barrier_wait: c"pthread_barrier_wait" Default fn(Object) -> c_int;
    barrier_init: c"pthread_barrier_init" Default fn(Object, Object, libc::c_uint) -> c_int;
    spin_lock: c"pthread_spin_lock" Default fn(Object) -> c_int;
    spin_trylock: c"pthread_spin_trylock" Default fn(Object) -> c_int;
    spin_unlock: c"pthread_spin_unlock" Default fn(Object) -> c_int;
    sem_wait: c"sem_wait" Default fn(Object) -> c_int;
    sem_trywait: c"sem_trywait" Default fn(Object) -> c_int;
    sem_timedwait: c"sem_timedwait" Default fn(Object, Time) -> c_int;
    sem_clockwait: c"sem_clockwait" Default fn(Object, c_int, Time) -> c_int;
    sem_post: c"sem_post" Default fn(Object) -> c_int;
    sem_init: c"sem_init" Default fn(Object, c_int, libc::c_uint) -> c_int;
    testcancel: c"pthread_testcancel" Default fn();
    create: c"pthread_create" Default fn(*mut libc::pthread_t, Object, Routine, *mut c_void) -> c_int;
    exit_thread: c"pthread_exit" Default fn(*mut c_void) -> !;
    join: c"pthread_join" Default fn(libc::pthread_t, *mut *mut c_void) -> c_int;
    tryjoin: c"pthread_tryjoin_np" Default fn(libc::pthread_t, *mut *mut c_void) -> c_int;
    timedjoin: c"pthread_timedjoin_np" Default fn(libc::pthread_t, *mut *mut c_void, Time) -> c_int;
    clockjoin: c"pthread_clockjoin_np" Default fn(libc::pthread_t, *mut *mut c_void, c_int, Time) -> c_int;
    cleanup_push: c"_pthread_cleanup_push" Default fn(*mut c_void, extern "C" fn(*mut c_void), *mut c_void);
    cleanup_pop: c"_pthread_cleanup_pop" Default fn(*mut c_void, c_int);
    immediate_exit: c"_exit" Default fn(c_int) -> !;
    prctl: c"prctl" Default fn(c_int, usize, usize, usize, usize) -> c_int;
    setrlimit: c"setrlimit" Default fn(libc::c_uint, *const libc::rlimit) -> c_int;
    prlimit: c"prlimit" Default fn(libc::pid_t, libc::c_uint, *const libc::rlimit, *mut libc::rlimit) -> c_int;
    system_call: c"syscall" Default fn(usize, usize, usize, usize, usize, usize, usize) -> isize;
}

/// Set while a thread looks symbols up: `dlsym` may allocate, and an allocator may lock.
static FINDING: AtomicBool = AtomicBool::new(false);

#[cold]
#[inline(never)]
fn find_into(place: &AtomicPtr<c_void>, symbol: &std::ffi::CStr, wanted: Wanted) -> *mut c_void {
    if FINDING.swap(true, Ordering::Acquire) {
        // Asked by the allocator below `dlsym`, before there is a second thread, or by a second thread in the
        // few microseconds that the first look takes: what that one finds is all there is.
        return place.load(Ordering::Relaxed);
    }
    let found = find(symbol.as_ptr(), wanted);
    if !found.is_null() {
        place.store(found, Ordering::Relaxed);
    }
    FINDING.store(false, Ordering::Release);
    found
}

fn find(symbol: *const c_char, wanted: Wanted) -> *mut c_void {
    // SAFETY: the name is a C string. Whoever stands between us and the C library (a sanitizer, a checker of locks) comes first.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, symbol) };
    #[cfg(target_env = "gnu")]
    if wanted == Wanted::Version232 {
        // SAFETY: the names are C strings. Processors younger than 2.3.2 have no such versions.
        let (old, new) = unsafe {
            (
                libc::dlvsym(libc::RTLD_NEXT, symbol, c"GLIBC_2.2.5".as_ptr()),
                libc::dlvsym(libc::RTLD_NEXT, symbol, c"GLIBC_2.3.2".as_ptr()),
            )
        };
        if std::ptr::eq(next, old) && !new.is_null() {
            return new;
        }
    }
    let _ = wanted;
    next
}

/// Offset of the area that the kernel keeps the CPU number in, from the thread pointer on (glibc 2.35).
pub(crate) fn rseq_offset() -> Option<isize> {
    // SAFETY: the names are C strings.
    let (offset, size) = unsafe {
        (
            libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()),
            libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()),
        )
    };
    if offset.is_null() || size.is_null() {
        return None;
    }
    // SAFETY: glibc declares them `const ptrdiff_t` and `const unsigned int`; a size of 0 is "not in use".
    let (offset, size) = unsafe { (offset.cast::<isize>().read(), size.cast::<u32>().read()) };
    (size > 0 && offset != 0).then_some(offset)
}
