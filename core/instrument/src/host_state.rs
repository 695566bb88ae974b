//! What the host was like before and after a measurement, as far as it bears on the naming of causes.

use quaver_analysis::model::Circumstances;
use quaver_host::counters::PathCounters;
use quaver_host::facts::{FairServer, HostFacts};
use quaver_host::quota::QuotaReading;
use quaver_host::root::HostRoot;
use std::collections::BTreeSet;

/// Nanoseconds of one tick of `/proc/stat` (USER_HZ is 100 on every Linux).
const STAT_TICK_NS: u64 = 10_000_000;

/// Counters that are read before and after.
pub struct HostState {
    steal_ticks: u64,
    quota: QuotaReading,
    network: PathCounters,
}

impl HostState {
    /// Reads them; the quota is that over `thread`, the network that of the calling thread's namespace.
    pub fn read(thread: Option<u32>) -> Self {
        let root = HostRoot::system();
        Self {
            steal_ticks: HostFacts::read(&root).hypervisor.steal_ticks.unwrap_or(0),
            quota: QuotaReading::read(&root, thread),
            network: PathCounters::read(&root),
        }
    }

    /// The facts for the naming of causes, given a later reading.
    pub fn circumstances(&self, later: &Self, host: &HostFacts, traced_cpus: Vec<u16>) -> Circumstances {
        let quota = later.quota.since(&self.quota);
        let scheduling = &host.scheduling;
        Circumstances {
            virtual_machine: host.hypervisor.present,
            quota_stops: quota.levels.iter().map(|level| level.throttled_periods).max().unwrap_or(0),
            fair_server: match scheduling.fair_server {
                FairServer::Absent => false,
                FairServer::Present => true,
                FairServer::Share { runtime_ns, .. } => runtime_ns > 0,
            },
            rt_throttling: scheduling.rt_throttling(),
            steal_ns: later.steal_ticks.saturating_sub(self.steal_ticks) * STAT_TICK_NS,
            edge_cost: None,
            own_threads: vec![quaver_probe::thread::thread_id()],
            traced_cpus,
            blind: Vec::new(),
        }
    }

    /// Packets that the ring of `interface` dropped between the readings; none if it is not known.
    pub fn ring_drops(&self, later: &Self, interface: &str) -> Option<u64> {
        let counters = later.network.since(&self.network);
        let device = counters.interfaces.get(interface)?;
        Some(device.rx_dropped + device.rx_fifo_errors)
    }
}

/// CPUs that this process may use, ascending.
pub fn allowed_cpus() -> anyhow::Result<Vec<u16>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu as u16).collect())
}

/// Moves the calling thread (and those that it starts) off `busy` CPUs, as far as there are others.
pub fn keep_off(busy: &BTreeSet<u16>) -> anyhow::Result<()> {
    let allowed = allowed_cpus()?;
    let mut free = rustix::thread::CpuSet::new();
    for cpu in allowed.iter().filter(|cpu| !busy.contains(cpu)) {
        free.set(usize::from(*cpu));
    }
    if free.count() > 0 {
        rustix::thread::sched_setaffinity(None, &free)?;
    }
    Ok(())
}
