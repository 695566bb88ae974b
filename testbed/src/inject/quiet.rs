//! A CPU without the rest of the machine: every thread that may be moved is moved off it, and what the kernel does for
//! others there is sent elsewhere or put off; all is put back when dropped.

use super::setting::Setting;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Where the kernel takes the CPUs of work that belongs to none.
const UNBOUND_WORK: [&str; 2] =
    ["/sys/devices/virtual/workqueue/cpumask", "/sys/devices/virtual/workqueue/writeback/cpumask"];
/// How often, in seconds, each CPU folds its memory statistics.
const STATISTICS: &str = "/proc/sys/vm/stat_interval";
/// Longer than any case lasts.
const PUT_OFF_S: &str = "600";

/// Threads that were moved, with the CPUs that they had, and settings that were changed.
pub struct QuietCpu {
    moved: Vec<(Pid, CpuSet)>,
    settings: Vec<Setting>,
}

impl QuietCpu {
    /// Moves all threads of the system off `cpu` that can be moved and have another CPU to go to. Work that belongs to
    /// no CPU goes elsewhere, written pages go to disk now, statistics are put off, each where the kernel lets it be
    /// set. Threads of the kernel that belong to the CPU stay, and what they do there is part of every measurement.
    pub fn make(cpu: u16) -> Self {
        let mut quiet = Self { moved: Vec::new(), settings: Vec::new() };
        rustix::fs::sync();
        for file in UNBOUND_WORK {
            // Masks of more than 64 CPUs have commas and are left as they are.
            let others = std::fs::read_to_string(file)
                .ok()
                .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
                .map(|mask| mask & !(1_u64.checked_shl(u32::from(cpu)).unwrap_or(0)))
                .filter(|mask| *mask != 0);
            if let Some(others) = others {
                quiet.change(file, &format!("{others:x}"));
            }
        }
        quiet.change(STATISTICS, PUT_OFF_S);
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

    fn change(&mut self, file: &str, value: &str) {
        // A kernel without the setting, or one that refuses it, is measured as it is.
        if let Ok(setting) = Setting::keep(file)
            && setting.set(value).is_ok()
        {
            self.settings.push(setting);
        }
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
