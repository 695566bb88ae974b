//! The end of the image without destructors, and the program's restriction of its own system calls.

use crate::{real, start, system};
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

/// `prctl`, whose arguments all fit into registers. Once the program has asked for a filter of system calls, nothing of ours may ask
/// the kernel: what the filter does with a call that it does not know may be to kill the process.
pub(crate) unsafe extern "C-unwind" fn prctl(
    option: c_int,
    second: usize,
    third: usize,
    fourth: usize,
    fifth: usize,
    _site: usize,
) -> c_int {
    if option == libc::PR_SET_SECCOMP {
        system::jail();
    }
    library!(prctl(option, second, third, fourth, fifth) or -1)
}

/// The program makes the system call `seccomp` by itself. Operations after the filter's only ask.
pub(crate) extern "C" fn restricts_itself(operation: u32) {
    if operation <= libc::SECCOMP_SET_MODE_FILTER {
        system::jail();
    }
}
