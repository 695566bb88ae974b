//! The end of the image without destructors.

use crate::{real, start};
use libc::c_int;
use quaver_abi::sync::SyncEnd;

pub(crate) unsafe extern "C-unwind" fn immediate_exit(status: c_int, _site: usize) -> ! {
    start::end(SyncEnd::ImmediateExit);
    if let Some(real) = real::immediate_exit() {
        // SAFETY: takes a number and does not return.
        unsafe { real(status) }
    }
    // SAFETY: no C library lacks `_exit`; were it so, this ends the process as well.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    loop {
        std::hint::spin_loop();
    }
}
