//! What the host was like before and after a measurement, as far as it bears on the naming of causes.

use quaver_analysis::model::Circumstances;
use quaver_host::counters::PathCounters;
use quaver_host::facts::{FairServer, HostFacts, SchedulingFacts};
use quaver_host::quota::QuotaReading;
use quaver_host::root::HostRoot;
use quaver_view::Cell;
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
            holes: Vec::new(),
        }
    }

    /// Datagrams with a wrong checksum that came to this namespace between the readings. A socket counts its own among its drops,
    /// though its buffer had room.
    pub fn checksum_errors(&self, later: &Self) -> u64 {
        later.network.since(&self.network).checksum_errors()
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

/// What the kernel takes from a thread that runs under SCHED_FIFO and never sleeps, as its settings say; none where it
/// takes nothing.
pub fn taken_from_spinner(scheduling: &SchedulingFacts) -> Option<String> {
    if scheduling.rt_throttling() {
        let (runtime_us, period_us) = scheduling.rt_runtime_us.zip(scheduling.rt_period_us)?;
        return Some(format!(
            "real-time throttling stops it for {} of each {}",
            Cell::Duration((period_us - runtime_us) * 1_000),
            Cell::Duration(period_us * 1_000)
        ));
    }
    let held = |ns: u64| Cell::Duration(i64::try_from(ns).unwrap_or(i64::MAX));
    match scheduling.fair_server {
        FairServer::Absent | FairServer::Share { runtime_ns: 0, .. } => None,
        FairServer::Share { runtime_ns, period_ns } => Some(format!(
            "the fair server stops it for up to {} of each {} while other threads wait for its CPU",
            held(runtime_ns),
            held(period_ns)
        )),
        FairServer::Present => Some(
            "the fair server stops it while other threads wait for its CPU; for how long, debugfs tells, which is not \
             mounted here (mount -t debugfs none /sys/kernel/debug)"
                .to_owned(),
        ),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spinner_loses_what_this_kernels_settings_say_and_no_number_that_nobody_read() {
        let with = |fair_server| SchedulingFacts { fair_server, ..SchedulingFacts::default() };
        let share = with(FairServer::Share { runtime_ns: 30_000_000, period_ns: 500_000_000 });
        let told = taken_from_spinner(&share).unwrap();
        assert!(told.contains("30.0 ms of each 500"), "{told}");
        let unknown = taken_from_spinner(&with(FairServer::Present)).unwrap();
        assert!(unknown.contains("debugfs") && !unknown.contains(" ms"), "{unknown}");
        assert_eq!(taken_from_spinner(&with(FairServer::Share { runtime_ns: 0, period_ns: 1 })), None);
        assert_eq!(taken_from_spinner(&with(FairServer::Absent)), None);
        let throttled = SchedulingFacts {
            rt_runtime_us: Some(900_000),
            rt_period_us: Some(1_000_000),
            ..with(FairServer::Absent)
        };
        let told = taken_from_spinner(&throttled).unwrap();
        assert!(told.contains("100 ms of each"), "{told}");
    }
}
