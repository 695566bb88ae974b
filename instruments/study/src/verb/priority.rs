//! Being heard on a machine that others use as well.

use quaver_host::root::HostRoot;
use quaver_host::stat::Stat;

/// Gives this process as much of the CPUs as it may have, and says what was got. With autogroups the kernel divides a CPU
/// between sessions first, so that niceness weighs within a session only: a session of our own is made, and weighed. With a
/// terminal that is left alone, since its Ctrl-C reaches us through the session that we are in.
pub(super) fn raise() -> String {
    if let Err(error) = rustix::process::setpriority_process(None, -20) {
        return format!("normal priority ({error}): others on this machine disturb the sender; run as root");
    }
    let root = HostRoot::system();
    let grouped =
        root.text("/proc/sys/kernel/sched_autogroup_enabled").is_some_and(|text| text.trim() == "1");
    if !grouped {
        return "nice -20".to_owned();
    }
    let terminal = std::fs::File::open("/dev/tty").is_ok();
    // The session is 0 where its leader is not to be seen from this PID namespace, and in the kernel's own first one, which is why
    // getsid of a library that holds PIDs to be positive is not asked.
    let session = Stat::read(&root, "proc/self").map(|stat| stat.session);
    let leader = session == Some(rustix::process::getpid().as_raw_nonzero().get());
    if terminal || !(leader || rustix::process::setsid().is_ok()) {
        return "nice -20 within its session; on a busy machine, start it with `setsid -w` to weigh the session as well"
            .to_owned();
    }
    match std::fs::write("/proc/self/autogroup", "-20") {
        Ok(()) => "nice -20, in a session of its own of nice -20".to_owned(),
        Err(error) => format!("nice -20, in a session of its own (weighing it: {error})"),
    }
}
