//! Threads of the kernel, and the CPUs that they may use.

use crate::root::{HostRoot, parse_cpu_list};
use crate::stat::Stat;
use std::time::Duration;

/// The thread that all others of the kernel come from.
pub const KTHREADD: u32 = 2;
/// Flag of a task whose affinity user space may not change (PF_NO_SETAFFINITY, linux/sched.h).
const BOUND: u64 = 0x0400_0000;
/// Flag of a thread of the kernel (PF_KTHREAD, linux/sched.h).
const OF_KERNEL: u64 = 0x0020_0000;
/// Ticks a second in `/proc/PID/stat` (USER_HZ, fixed by the ABI).
const TICKS: u64 = 100;

/// A thread of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelThread {
    /// Number.
    pub tid: u32,
    /// Name.
    pub name: String,
    /// Whether the kernel forbids to move it.
    pub bound: bool,
    /// Whether the kernel says that it is its own: another process may have this place in a namespace of processes.
    pub of_kernel: bool,
    /// CPUs that it may use.
    pub cpus: Vec<u16>,
    /// When it started, in ticks of 10 ms since the boot.
    pub start_ticks: u64,
}

/// Threads whose parent is kthreadd, and itself, by number.
pub fn kernel_threads(root: &HostRoot) -> Vec<KernelThread> {
    let tids = root.names("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
    let mut threads: Vec<KernelThread> = tids.filter_map(|tid| kernel_thread(root, tid)).collect();
    threads.sort_by_key(|thread| thread.tid);
    threads
}

/// Whether a thread is the kernel's own; none for one that has gone.
pub fn is_of_kernel(root: &HostRoot, tid: u32) -> Option<bool> {
    Some(Stat::read(root, &format!("proc/{tid}"))?.flags & OF_KERNEL != 0)
}

fn kernel_thread(root: &HostRoot, tid: u32) -> Option<KernelThread> {
    let stat = Stat::read(root, &format!("proc/{tid}"))?;
    if ![stat.parent, tid].contains(&KTHREADD) {
        return None;
    }
    let status = root.text(&format!("/proc/{tid}/status"))?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(KernelThread {
        tid,
        name: stat.name,
        bound: stat.flags & BOUND != 0,
        of_kernel: stat.flags & OF_KERNEL != 0,
        cpus: parse_cpu_list(list),
        start_ticks: stat.started_ticks,
    })
}

/// Threads born of kthreadd since `since_boot` that have exactly `cpus` and may be moved. None where process 2 is not
/// kthreadd, as in a namespace of processes.
pub(crate) fn born_since(root: &HostRoot, since_boot: Duration, cpus: &[u16]) -> Vec<KernelThread> {
    let mut threads = kernel_threads(root);
    if !threads.first().is_some_and(|first| first.tid == KTHREADD && first.of_kernel) {
        return Vec::new();
    }
    let first_tick = since_boot.as_millis() as u64 * TICKS / 1_000;
    threads.retain(|thread| {
        let born = thread.tid != KTHREADD && thread.start_ticks >= first_tick;
        born && thread.of_kernel && !thread.bound && thread.cpus == cpus
    });
    threads
}
