//! The end of the image without destructors, and what the program restricts itself to: system calls, address space.

use crate::stack::Caller;
use crate::{real, segment, start, system};
use libc::{c_int, c_uint};
use quaver_abi::sync::SyncEnd;

/// RLIMIT_AS as the kernel has it; C libraries differ in the type of it.
const ADDRESS_SPACE: c_uint = 9;

pub(crate) unsafe extern "C-unwind" fn immediate_exit(status: c_int, _: Caller) -> ! {
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

/// `setrlimit`: the room that the recorder has reserved must not be what a limit on address space leaves no room beside.
pub(crate) unsafe extern "C-unwind" fn setrlimit(
    resource: c_uint,
    limit: *const libc::rlimit,
    _: Caller,
) -> c_int {
    // SAFETY: what the program hands over for the kernel to read.
    unsafe { make_room(resource, limit) };
    library!(setrlimit(resource, limit) or -1)
}

/// `prlimit`, of this process or of another one.
pub(crate) unsafe extern "C-unwind" fn prlimit(
    process: libc::pid_t,
    resource: c_uint,
    limit: *const libc::rlimit,
    before: *mut libc::rlimit,
    _: Caller,
) -> c_int {
    // SAFETY: takes nothing.
    if process == 0 || process == unsafe { libc::getpid() } {
        // SAFETY: as above.
        unsafe { make_room(resource, limit) };
    }
    library!(prlimit(process, resource, limit, before) or -1)
}

/// # Safety
/// `limit` is null or can be read.
unsafe fn make_room(resource: c_uint, limit: *const libc::rlimit) {
    if resource != ADDRESS_SPACE || limit.is_null() {
        return;
    }
    // SAFETY: as the caller says.
    let octets = unsafe { (*limit).rlim_cur };
    if octets != libc::RLIM_INFINITY {
        segment::limit_addresses(octets);
    }
}
