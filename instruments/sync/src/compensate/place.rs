//! Where the one who looks runs: beside the program's CPUs where there is room, and what that costs.

use super::pilot::Where;
use quaver_host::root::HostRoot;
use quaver_host::stat::Stat;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::collections::BTreeMap;

/// Between two looks at where threads are.
const PERIOD_NS: u64 = 10_000_000;

/// Keeps the calling thread off the program's CPUs.
#[derive(Debug)]
pub(super) struct Placement {
    root: HostRoot,
    /// CPUs that the program may use; empty where they are not known.
    programs: Vec<u16>,
    /// It has a CPU of its own.
    aside: bool,
    pinned: Option<u16>,
    looked_ns: u64,
    pub(super) looks: u64,
    pub(super) looks_beside: u64,
}

impl Placement {
    /// Goes to CPUs that the program may not use, where there are any that we may.
    pub(super) fn take() -> Self {
        let root = HostRoot::system();
        let programs = quaver_instrument::host_state::allowed_cpus().unwrap_or_default();
        let online = root.cpu_list("/sys/devices/system/cpu/online");
        let others = online.iter().copied().filter(|cpu| !programs.contains(cpu));
        let aside = may_run_on(others);
        Self { root, programs, aside, pinned: None, looked_ns: 0, looks: 0, looks_beside: 0 }
    }

    /// Looks where the program's threads are, now and then, and gets out of their way.
    pub(super) fn look(&mut self, threads: &mut BTreeMap<u32, Where>, now_ns: u64) {
        self.looks += 1;
        let here = sched_getcpu() as u16;
        let busy = |cpu: u16, threads: &BTreeMap<u32, Where>| {
            threads.values().any(|place| !place.waits && place.cpu == cpu)
        };
        let beside = !self.aside && busy(here, threads);
        self.looks_beside += u64::from(beside);
        if now_ns.saturating_sub(self.looked_ns) < PERIOD_NS {
            return;
        }
        self.looked_ns = now_ns;
        for (thread, place) in threads.iter_mut().filter(|(_, place)| !place.waits) {
            if now_ns.saturating_sub(place.seen_ns) >= PERIOD_NS {
                place.seen_ns = now_ns;
                place.cpu = processor(&self.root, *thread).unwrap_or(place.cpu);
            }
        }
        if self.aside || !busy(here, threads) {
            return;
        }
        let free = self.programs.iter().copied().find(|cpu| !busy(*cpu, threads));
        match free {
            Some(cpu) if may_run_on([cpu].into_iter()) => self.pinned = Some(cpu),
            // All are busy: the scheduler may choose.
            None if self.pinned.take().is_some() => {
                may_run_on(self.programs.iter().copied());
            }
            _ => {}
        }
    }
}

/// Lets the calling thread run on these CPUs only; whether it may.
fn may_run_on(cpus: impl Iterator<Item = u16>) -> bool {
    let mut set = CpuSet::new();
    cpus.filter(|cpu| usize::from(*cpu) < CpuSet::MAX_CPU).for_each(|cpu| set.set(usize::from(cpu)));
    if set.count() == 0 {
        return false;
    }
    let Ok(before) = sched_getaffinity(None) else { return false };
    // A container's bounds make fewer of them, or none, without a word.
    let moved = sched_setaffinity(None, &set).is_ok()
        && sched_getaffinity(None)
            .is_ok_and(|now| (0..CpuSet::MAX_CPU).all(|cpu| !now.is_set(cpu) || set.is_set(cpu)));
    if !moved {
        let _ = sched_setaffinity(None, &before);
    }
    moved
}

/// CPU that a thread is on, as the kernel says.
fn processor(root: &HostRoot, thread: u32) -> Option<u16> {
    Stat::read(root, &format!("proc/{thread}"))?.cpu
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_thread_is_on_a_cpu() {
        let cpus = quaver_instrument::host_state::allowed_cpus().unwrap();
        let here = processor(&HostRoot::system(), quaver_probe::thread::thread_id()).unwrap();
        assert!(cpus.contains(&here), "{here} of {cpus:?}");
        assert_eq!(processor(&HostRoot::system(), 0), None);
    }
}
