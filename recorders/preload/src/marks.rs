//! Marks for a tracer that runs the program in an emulator, in the place of a recording: what each call is, right before and
//! right after it ([`quaver_abi::marks`]).
//!
//! Asked for by `QUAVER_SIM_MARKS` in the environment, from which it is taken at once: a program that this one starts runs on
//! the machine itself, where nobody listens.

use crate::{real, system};
use libc::{c_int, c_void};
use quaver_abi::marks::{MARK_CALL, MARKS_VARIABLE, Moment, word};
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use quaver_abi::marks::Call;

static ON: AtomicBool = AtomicBool::new(false);

/// What a call is about.
#[derive(Clone, Copy)]
pub(crate) struct Marked {
    call: Call,
    object: usize,
    other: usize,
}

impl Marked {
    pub(crate) fn new(call: Call, object: usize) -> Self {
        Self { call, object, other: 0 }
    }

    pub(crate) fn with(call: Call, object: usize, other: usize) -> Self {
        Self { call, object, other }
    }

    fn mark(self, moment: Moment, result: c_int) {
        say(word(moment, Some(self.call)), self.object, self.other, result);
    }
}

fn say(word: u64, object: usize, other: usize, result: c_int) {
    // SAFETY: no kernel has this call, so none does anything.
    unsafe { system::raw_system_call(MARK_CALL as usize, word as usize, object, other, result as usize) };
}

/// Begins if marks are asked for; whether they are. To be asked once, before there are threads.
pub(crate) fn begin() -> bool {
    // SAFETY: a C string; there is one thread, so nobody else looks at the environment.
    let asked = unsafe {
        !libc::getenv(MARKS_VARIABLE.as_ptr()).is_null() && libc::unsetenv(MARKS_VARIABLE.as_ptr()) == 0
    };
    if asked {
        let (from, to) = own_addresses();
        say(word(Moment::Begin, None), from, to, 0);
        ON.store(true, Ordering::Relaxed);
    }
    asked
}

/// Where this library lies: its first address, and that behind its last.
fn own_addresses() -> (usize, usize) {
    struct Search {
        inside: usize,
        found: (usize, usize),
    }
    unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
        // SAFETY: what the loader gives, and the search of the caller below.
        let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
        let mut extent = (usize::MAX, 0);
        for number in 0..usize::from(info.dlpi_phnum) {
            // SAFETY: there are so many headers.
            let header = unsafe { &*info.dlpi_phdr.add(number) };
            if header.p_type == libc::PT_LOAD {
                let start = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
                extent = (extent.0.min(start), extent.1.max(start.wrapping_add(header.p_memsz as usize)));
            }
        }
        let is_ours = (extent.0..extent.1).contains(&search.inside);
        if is_ours {
            search.found = extent;
        }
        c_int::from(is_ours)
    }
    let mut search = Search { inside: begin as fn() -> bool as usize, found: (0, 0) };
    // SAFETY: the search outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.found
}

/// Whether somebody listens.
#[inline(always)]
fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Makes a call that nobody records, and marks it where a tracer listens.
#[inline(always)]
pub(crate) fn around(what: Marked, make: impl FnOnce() -> c_int) -> c_int {
    if !is_on() {
        return make();
    }
    what.mark(Moment::Enter, 0);
    let result = make();
    what.mark(Moment::Leave, result);
    result
}

/// Room for the C library's record of a cleanup, and what its handler says.
struct Pending {
    library: [usize; 8],
    what: Marked,
}

extern "C" fn cancelled(pending: *mut c_void) {
    // SAFETY: the address of a `Pending` in a frame that is about to be left.
    unsafe { &*pending.cast::<Pending>() }.what.mark(Moment::Leave, libc::ECANCELED);
}

/// The same of a call that may be left by cancellation.
#[inline(always)]
pub(crate) fn around_cancellable(what: Marked, make: impl FnOnce() -> c_int) -> c_int {
    if !is_on() {
        return make();
    }
    let mut pending = Pending { library: [0; 8], what };
    let at = &raw mut pending;
    // SAFETY: the address of a field of a value that lives in this frame.
    let library = unsafe { &raw mut (*at).library }.cast::<c_void>();
    around(what, || {
        if let Some(push) = real::cleanup_push() {
            // SAFETY: the library's room and what `cancelled` gets outlive the matching pop below.
            unsafe { push(library, cancelled, at.cast()) };
        }
        let result = make();
        if let Some(pop) = real::cleanup_pop() {
            // SAFETY: pops what was pushed above, without running it.
            unsafe { pop(library, 0) };
        }
        result
    })
}

/// An object was made with this value.
#[inline(always)]
pub(crate) fn made(call: Call, object: usize, value: usize) {
    if is_on() {
        Marked::with(call, object, value).mark(Moment::Made, 0);
    }
}
