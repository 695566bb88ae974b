//! Which addresses lie in files that the loader has loaded, and where the initial thread's stack ends.

use libc::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// Files remembered: more are asked for each time.
const FILES: usize = 16;
/// First address and the one behind the last; 0 until it is known.
static KNOWN: [(AtomicUsize, AtomicUsize); FILES] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; FILES];
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Pages that lay in no file when they were asked for last, each in one place: most are of the heap and of the environment.
static MISSED: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];

/// `struct dl_find_object` of glibc, with room to spare.
#[repr(C)]
struct Found {
    flags: u64,
    start: usize,
    end: usize,
    rest: [usize; 13],
}

/// `_dl_find_object` (glibc 2.35); null where there is none.
static FIND: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Where the initial thread's stack ends; 0 where that is not known.
static STACK_END: AtomicUsize = AtomicUsize::new(0);

/// Looks both up, once and before there are threads: that may allocate.
pub(crate) fn find() {
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) };
    FIND.store(found, Ordering::Relaxed);
    // SAFETY: the name is a C string.
    let end = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_stack_end".as_ptr()) };
    if !end.is_null() {
        // SAFETY: glibc's loader declares it `void *`.
        STACK_END.store(unsafe { end.cast::<usize>().read() }, Ordering::Relaxed);
    }
}

/// Whether the C library can tell.
pub(crate) fn is_known() -> bool {
    !FIND.load(Ordering::Relaxed).is_null()
}

/// Whether an address lies in a file. The C library answers without a lock, in signal handlers too.
pub(crate) fn holds(address: usize) -> bool {
    let is_within = |(start, end): &(AtomicUsize, AtomicUsize)| {
        address < end.load(Ordering::Acquire) && address >= start.load(Ordering::Relaxed)
    };
    if KNOWN.iter().take_while(|(_, end)| end.load(Ordering::Relaxed) != 0).any(is_within) {
        return true;
    }
    let page = address >> 12;
    let missed = MISSED.get(page % MISSED.len());
    if missed.is_some_and(|missed| missed.load(Ordering::Relaxed) == page) {
        return false;
    }
    let mut found = Found { flags: 0, start: 0, end: 0, rest: [0; 13] };
    // SAFETY: null becomes none; else the function of that name, which has this type. It takes any address, and fills a structure
    // that is no larger than ours.
    let missing = unsafe {
        let find = std::mem::transmute::<
            *mut c_void,
            Option<unsafe extern "C" fn(*mut c_void, *mut Found) -> c_int>,
        >(FIND.load(Ordering::Relaxed));
        find.is_none_or(|find| find(address as *mut c_void, &raw mut found) != 0)
    };
    if missing {
        if let Some(missed) = missed {
            missed.store(page, Ordering::Relaxed);
        }
        return false;
    }
    if COUNT.load(Ordering::Relaxed) < FILES as u32
        && let Some((start, end)) = KNOWN.get(COUNT.fetch_add(1, Ordering::Relaxed) as usize)
    {
        start.store(found.start, Ordering::Relaxed);
        end.store(found.end, Ordering::Release);
    }
    true
}

/// An address above all frames of the initial thread's own stack; 0 where that is not known.
pub(crate) fn initial_top() -> usize {
    STACK_END.load(Ordering::Relaxed)
}
