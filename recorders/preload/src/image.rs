//! The ends of an image: its constructor and destructor, and the child of a fork.

use crate::{ring, start};
use quaver_abi::sync::SyncEnd;

extern "C" fn construct() {
    if start::ensure().is_some() {
        let _ = ring::current();
        // SAFETY: a function that may run in the child of a fork: it makes system calls only.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    }
}

extern "C" fn destruct() {
    if start::is_recording()
        && let Some(thread) = ring::current()
    {
        thread.end();
    }
    start::end(SyncEnd::Exit);
}

unsafe extern "C" fn in_child() {
    if start::leave_parent() {
        let _ = ring::current();
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCT: extern "C" fn() = construct;
#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCT: extern "C" fn() = destruct;
