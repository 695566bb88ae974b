//! Scheduling of threads by number: affinity and policy.

use std::io;

/// Binds a thread (0: the calling one) to one CPU.
pub fn bind(thread: u32, cpu: u16) -> io::Result<()> {
    // SAFETY: an all-zero cpu_set_t is a valid empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: CPU_SET bounds-checks the index against the set.
    unsafe { libc::CPU_SET(usize::from(cpu), &mut set) };
    // SAFETY: the pointer and size describe `set`, which outlives the call.
    let result = unsafe { libc::sched_setaffinity(thread as libc::pid_t, size_of_val(&set), &set) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Puts a thread (0: the calling one) under SCHED_FIFO.
pub fn fifo(thread: u32, priority: u8) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: libc::c_int::from(priority) };
    // SAFETY: the parameter outlives the call.
    let result = unsafe { libc::sched_setscheduler(thread as libc::pid_t, libc::SCHED_FIFO, &parameter) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives a thread of normal priority this niceness (-20, the heaviest, to 19).
pub fn nice(thread: u32, niceness: i8) -> io::Result<()> {
    // SAFETY: the call takes no pointers.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, thread, libc::c_int::from(niceness)) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives this process, and what it starts, the greatest weight among threads of normal priority. With autogroups, the kernel
/// weighs sessions before it weighs threads, so the process gets a session of its own. With a terminal it keeps its session,
/// through which Ctrl-C comes.
///
/// # Errors
/// The process is not root's.
pub fn before_others() -> io::Result<()> {
    nice(0, -20)?;
    let group = std::path::Path::new("/proc/self/autogroup");
    if !group.exists() || std::fs::File::open("/dev/tty").is_ok() {
        return Ok(());
    }
    // SAFETY: both calls take numbers and return numbers.
    let leads = unsafe { libc::setsid() != -1 || libc::getsid(0) == libc::getpid() };
    if leads { std::fs::write(group, "-20") } else { Ok(()) }
}

/// The thread of process `pid` that carries this name.
pub fn find_thread(pid: u32, name: &str) -> Option<u32> {
    for entry in std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let comm = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if comm.trim_end() == name {
            return entry.file_name().to_str()?.parse().ok();
        }
    }
    None
}
