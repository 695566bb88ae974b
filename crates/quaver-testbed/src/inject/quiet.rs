//! A CPU without the rest of the machine: every thread that may be moved is moved off it, and back when dropped.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Threads that were moved, with the CPUs that they had.
pub struct QuietCpu {
    moved: Vec<(Pid, CpuSet)>,
}

impl QuietCpu {
    /// Moves all threads of the system off `cpu` that can be moved and have another CPU to go to. Threads of the
    /// kernel that belong to the CPU stay, and what they do there is part of every measurement.
    pub fn make(cpu: u16) -> Self {
        let mut quiet = Self { moved: Vec::new() };
        for thread in all_threads() {
            let Ok(before) = sched_getaffinity(Some(thread)) else { continue };
            let mut after = before;
            after.unset(usize::from(cpu));
            if before.is_set(usize::from(cpu))
                && after.count() > 0
                && sched_setaffinity(Some(thread), &after).is_ok()
            {
                quiet.moved.push((thread, before));
            }
        }
        quiet
    }

    /// Threads moved.
    pub fn moved(&self) -> usize {
        self.moved.len()
    }
}

impl Drop for QuietCpu {
    fn drop(&mut self) {
        for (thread, before) in &self.moved {
            // Threads that ended meanwhile need nothing. Children that they started keep the narrower set.
            let _ = sched_setaffinity(Some(*thread), before);
        }
    }
}

fn all_threads() -> Vec<Pid> {
    let numbers = |folder: &str| -> Vec<i32> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    };
    let processes = numbers("/proc").into_iter();
    let threads = processes.flat_map(|process| numbers(&format!("/proc/{process}/task")));
    threads.filter_map(Pid::from_raw).collect()
}
