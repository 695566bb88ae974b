//! Facts of the host that a reader of a run needs to judge and repeat it. Read only; each fact that the
//! machine does not show is `None` and never a zero.

use super::root::HostRoot;
use serde::{Deserialize, Serialize};

/// All facts, as the manifest keeps them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    /// The kernel.
    pub kernel: KernelFacts,
    /// Processors, their power saving and their isolation.
    pub cpu: CpuFacts,
    /// The hypervisor below us.
    pub hypervisor: HypervisorFacts,
    /// Clocks.
    pub clock: ClockFacts,
    /// The scheduler and what else may take a CPU away.
    pub scheduling: SchedulingFacts,
    /// Memory.
    pub memory: MemoryFacts,
    /// The network stack as a whole; one interface is [`super::interface::InterfaceFacts`].
    pub network: NetworkFacts,
}

/// The kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelFacts {
    /// `uname -n`: the host's own name. Runs of earlier programs lack it.
    #[serde(default)]
    pub hostname: Option<String>,
    /// `uname -r`.
    pub release: Option<String>,
    /// `/proc/version`, which names the compiler and the preemption model.
    pub version: Option<String>,
    /// Boot options.
    pub cmdline: Option<String>,
    /// Whether this is a PREEMPT_RT kernel.
    pub realtime: bool,
    /// Whether the kernel carries BTF, which the BPF tier needs.
    pub btf: bool,
    /// Kernel lockdown: `none`, `integrity` or `confidentiality`.
    pub lockdown: Option<String>,
}

impl KernelFacts {
    /// Major and minor number of the release.
    pub fn number(&self) -> Option<(u32, u32)> {
        let mut parts = self.release.as_deref()?.split(|letter: char| !letter.is_ascii_digit());
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }
}

/// One idle state of a processor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleState {
    /// Name, such as `C6`.
    pub name: String,
    /// Time that leaving the state takes, as the driver declares it, in microseconds.
    pub exit_latency_us: Option<u64>,
    /// Whether it is off on every CPU that has it.
    pub disabled: bool,
}

/// Processors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuFacts {
    /// Model name.
    pub model: Option<String>,
    /// Online CPUs.
    pub online: Vec<u16>,
    /// CPUs that `isolcpus=` keeps the scheduler away from.
    pub isolated: Vec<u16>,
    /// CPUs that `nohz_full=` spares the tick.
    pub nohz_full: Vec<u16>,
    /// Whether the kernel can spare CPUs the tick (CONFIG_NO_HZ_FULL); none if nothing tells.
    #[serde(default)]
    pub nohz_full_possible: Option<bool>,
    /// Whether two threads share a core.
    pub smt_active: Option<bool>,
    /// NUMA nodes.
    pub numa_nodes: usize,
    /// Frequency governors in use, without repeats; empty where there is no frequency scaling.
    pub governors: Vec<String>,
    /// Frequency driver.
    pub frequency_driver: Option<String>,
    /// Driver of the idle states.
    pub idle_driver: Option<String>,
    /// Governor that picks an idle state.
    pub idle_governor: Option<String>,
    /// Idle states of the first online CPU.
    pub idle_states: Vec<IdleState>,
}

/// The hypervisor below us.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HypervisorFacts {
    /// Whether the processor says that a hypervisor runs it (CPUID leaf 1, ECX bit 31).
    pub present: bool,
    /// Its maker or product as DMI, `/sys/hypervisor` or the clock sources tell.
    pub name: Option<String>,
    /// Time that the hypervisor took from all CPUs since boot, in clock ticks of `/proc/stat`
    /// (10 ms each on all usual kernels). Always 0 where the hypervisor does not report it.
    pub steal_ticks: Option<u64>,
}

/// Clocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockFacts {
    /// Clock source in use.
    pub source: Option<String>,
    /// Clock sources that could be used.
    pub available: Vec<String>,
    /// Time-stamp counter flags of the first CPU: `constant_tsc`, `nonstop_tsc`, `rdtscp` and so on.
    pub tsc_flags: Vec<String>,
}

impl ClockFacts {
    /// Whether the time-stamp counter runs at one rate in every power state.
    pub fn tsc_invariant(&self) -> bool {
        ["constant_tsc", "nonstop_tsc"].iter().all(|wanted| self.tsc_flags.iter().any(|flag| flag == wanted))
    }
}

/// The kernel's server that gives starving ordinary threads a share of a CPU that a real-time thread holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FairServer {
    /// The kernel is older than 6.12, or its version is not known.
    #[default]
    Absent,
    /// The kernel has it, and debugfs is not here to tell its share (by default 50 ms of each second).
    Present,
    /// As debugfs tells for the first CPU.
    Share {
        /// Time given in each period, in nanoseconds; 0: off.
        runtime_ns: u64,
        /// Period, in nanoseconds.
        period_ns: u64,
    },
}

/// The scheduler and what else may take a CPU away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedulingFacts {
    /// Time that real-time threads may use in each period, in microseconds; -1: no limit.
    pub rt_runtime_us: Option<i64>,
    /// Period of that limit, in microseconds.
    pub rt_period_us: Option<i64>,
    /// Whether the kernel has real-time groups (CONFIG_RT_GROUP_SCHED); none if nothing tells.
    #[serde(default)]
    pub rt_groups: Option<bool>,
    /// The fair server.
    pub fair_server: FairServer,
    /// Whether idle CPUs hand their timers to busy ones.
    pub timer_migration: Option<bool>,
    /// Whether the scheduler groups threads by terminal session.
    pub autogroup: Option<bool>,
    /// Whether pages are unmapped to learn which node uses them.
    pub numa_balancing: Option<bool>,
    /// Hard-lockup detector, which uses a performance counter's NMI.
    pub nmi_watchdog: Option<bool>,
    /// Soft-lockup detector, a timer and a stop-class work item each few seconds on each CPU.
    pub soft_watchdog: Option<bool>,
    /// Process ids of `irqbalance`.
    pub irqbalance_pids: Vec<u32>,
}

impl SchedulingFacts {
    /// Whether a real-time thread that never sleeps is stopped for the rest of each period. Since Linux 6.12
    /// (which brought the fair server) only kernels with real-time groups still do so.
    pub fn rt_throttling(&self) -> bool {
        let limited = self.rt_runtime_us.zip(self.rt_period_us);
        let limited = limited.is_some_and(|(runtime, period)| runtime >= 0 && runtime < period);
        limited && (self.fair_server == FairServer::Absent || self.rt_groups == Some(true))
    }
}

/// Memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryFacts {
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub transparent_hugepages: Option<String>,
    /// How hard a page fault tries to make a huge page.
    pub hugepage_defrag: Option<String>,
    /// Whether same-page merging runs.
    pub same_page_merging: Option<bool>,
}

/// The network stack as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkFacts {
    /// Largest receive buffer that an unprivileged socket may ask for, in bytes.
    pub rmem_max_bytes: Option<u64>,
    /// Receive buffer of a socket that asks for none, in bytes.
    pub rmem_default_bytes: Option<u64>,
    /// Time that poll() and epoll_wait() spin on the device, in microseconds.
    pub busy_poll_us: Option<u64>,
    /// Time that a receive call spins on the device, in microseconds.
    pub busy_read_us: Option<u64>,
    /// Packets that one NET_RX softirq may take.
    pub budget: Option<u64>,
    /// Time that one NET_RX softirq may take, in microseconds.
    pub budget_us: Option<u64>,
    /// Packets that may wait in the per-CPU backlog (loopback, veth and RPS use it).
    pub max_backlog: Option<u64>,
    /// Queueing discipline that new interfaces get.
    pub default_qdisc: Option<String>,
}

impl HostFacts {
    /// Reads all of them. Takes some milliseconds; does not belong into a hot path.
    pub fn read(root: &HostRoot) -> Self {
        let cpuinfo = root.text("proc/cpuinfo").unwrap_or_default();
        let kernel = kernel(root);
        let scheduling = scheduling(root, &kernel);
        let clock = clock(root, &cpuinfo);
        Self {
            cpu: cpu(root, &cpuinfo),
            hypervisor: hypervisor(root, &cpuinfo, &clock),
            memory: memory(root),
            network: network(root),
            kernel,
            clock,
            scheduling,
        }
    }
}

/// Model name of the first CPU, alone.
pub fn cpu_model(root: &HostRoot) -> Option<String> {
    cpuinfo_field(&root.text("proc/cpuinfo")?, "model name")
}

fn kernel(root: &HostRoot) -> KernelFacts {
    let version = root.text("proc/version");
    let realtime = root.switch("sys/kernel/realtime").unwrap_or(false)
        || version.as_deref().is_some_and(|text| text.contains("PREEMPT_RT"));
    KernelFacts {
        hostname: root.text("proc/sys/kernel/hostname"),
        release: root.text("proc/sys/kernel/osrelease"),
        cmdline: root.text("proc/cmdline"),
        realtime,
        btf: root.exists("sys/kernel/btf/vmlinux"),
        lockdown: root.text("sys/kernel/security/lockdown").and_then(|text| chosen(&text)),
        version,
    }
}

fn cpu(root: &HostRoot, cpuinfo: &str) -> CpuFacts {
    let base = "sys/devices/system/cpu";
    let online = root.cpu_list(&format!("{base}/online"));
    let mut governors: Vec<String> = online
        .iter()
        .filter_map(|cpu| root.text(&format!("{base}/cpu{cpu}/cpufreq/scaling_governor")))
        .collect();
    governors.sort();
    governors.dedup();
    let first = online.first().copied().unwrap_or(0);
    let nodes = root.names("sys/devices/system/node");
    CpuFacts {
        model: cpuinfo_field(cpuinfo, "model name"),
        isolated: root.cpu_list(&format!("{base}/isolated")),
        nohz_full: root.cpu_list(&format!("{base}/nohz_full")),
        // Only a kernel with it has the file.
        nohz_full_possible: root
            .exists(&format!("{base}/online"))
            .then(|| root.exists(&format!("{base}/nohz_full"))),
        smt_active: root.switch(&format!("{base}/smt/active")),
        numa_nodes: nodes.iter().filter(|name| numbered(name, "node").is_some()).count().max(1),
        governors,
        frequency_driver: root.text(&format!("{base}/cpu{first}/cpufreq/scaling_driver")),
        idle_driver: root.text(&format!("{base}/cpuidle/current_driver")).filter(|name| name != "none"),
        idle_governor: root
            .text(&format!("{base}/cpuidle/current_governor"))
            .or_else(|| root.text(&format!("{base}/cpuidle/current_governor_ro"))),
        idle_states: idle_states(root, &online, first),
        online,
    }
}

fn idle_states(root: &HostRoot, online: &[u16], first: u16) -> Vec<IdleState> {
    let folder = |cpu: u16, state: u32| format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}");
    let mut numbers: Vec<u32> = root
        .names(&format!("sys/devices/system/cpu/cpu{first}/cpuidle"))
        .iter()
        .filter_map(|name| numbered(name, "state"))
        .collect();
    numbers.sort_unstable();
    numbers
        .into_iter()
        .map(|state| IdleState {
            name: root.text(&format!("{}/name", folder(first, state))).unwrap_or_default(),
            exit_latency_us: root.value(&format!("{}/latency", folder(first, state))),
            disabled: online
                .iter()
                .filter_map(|&cpu| root.switch(&format!("{}/disable", folder(cpu, state))))
                .all(|disabled| disabled),
        })
        .collect()
}

fn hypervisor(root: &HostRoot, cpuinfo: &str, clock: &ClockFacts) -> HypervisorFacts {
    let flagged = cpuinfo_field(cpuinfo, "flags")
        .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"));
    let kind = root.text("sys/hypervisor/type");
    let present = flagged || kind.is_some();
    let by_dmi = || {
        let parts: Vec<String> = ["sys_vendor", "product_name"]
            .iter()
            .filter_map(|name| root.text(&format!("sys/class/dmi/id/{name}")))
            .filter(|text| !text.is_empty())
            .collect();
        (!parts.is_empty()).then(|| parts.join(" "))
    };
    let by_clock = || {
        [("kvm-clock", "KVM"), ("xen", "Xen"), ("hyperv_clocksource_tsc_page", "Hyper-V")]
            .iter()
            .find(|(source, _)| clock.available.iter().any(|known| known == source))
            .map(|(_, name)| (*name).to_owned())
    };
    let name = if present { kind.or_else(by_dmi).or_else(by_clock) } else { None };
    HypervisorFacts { present, name, steal_ticks: steal_ticks(&root.text("proc/stat").unwrap_or_default()) }
}

/// Column "steal" of the first line of `/proc/stat` (proc(5)).
fn steal_ticks(stat: &str) -> Option<u64> {
    stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().nth(7)?.parse().ok()
}

fn clock(root: &HostRoot, cpuinfo: &str) -> ClockFacts {
    let base = "sys/devices/system/clocksource/clocksource0";
    let flags = cpuinfo_field(cpuinfo, "flags").unwrap_or_default();
    ClockFacts {
        source: root.text(&format!("{base}/current_clocksource")),
        available: root
            .text(&format!("{base}/available_clocksource"))
            .map(|text| text.split_whitespace().map(str::to_owned).collect())
            .unwrap_or_default(),
        tsc_flags: flags
            .split_whitespace()
            .filter(|flag| flag.contains("tsc") && *flag != "tsc_deadline_timer")
            .map(str::to_owned)
            .collect(),
    }
}

fn scheduling(root: &HostRoot, kernel: &KernelFacts) -> SchedulingFacts {
    SchedulingFacts {
        rt_runtime_us: root.value("proc/sys/kernel/sched_rt_runtime_us"),
        rt_period_us: root.value("proc/sys/kernel/sched_rt_period_us"),
        rt_groups: rt_groups(root, kernel),
        fair_server: fair_server(root, kernel),
        timer_migration: root.switch("proc/sys/kernel/timer_migration"),
        autogroup: root.switch("proc/sys/kernel/sched_autogroup_enabled"),
        numa_balancing: root.switch("proc/sys/kernel/numa_balancing"),
        nmi_watchdog: root.switch("proc/sys/kernel/nmi_watchdog"),
        soft_watchdog: root.switch("proc/sys/kernel/soft_watchdog"),
        irqbalance_pids: processes_named(root, "irqbalance"),
    }
}

/// From the file that each group of version 1 then has, else from the kernel's configuration.
fn rt_groups(root: &HostRoot, kernel: &KernelFacts) -> Option<bool> {
    if ["cpu", "cpu,cpuacct"]
        .iter()
        .any(|name| root.exists(&format!("sys/fs/cgroup/{name}/cpu.rt_runtime_us")))
    {
        return Some(true);
    }
    let configuration = root.text(&format!("boot/config-{}", kernel.release.as_deref()?))?;
    Some(configuration.lines().any(|line| line == "CONFIG_RT_GROUP_SCHED=y"))
}

fn fair_server(root: &HostRoot, kernel: &KernelFacts) -> FairServer {
    let base = "sys/kernel/debug/sched/fair_server/cpu0";
    let runtime_ns = root.value(&format!("{base}/runtime"));
    match (runtime_ns, root.value(&format!("{base}/period"))) {
        (Some(runtime_ns), Some(period_ns)) => FairServer::Share { runtime_ns, period_ns },
        _ if kernel.number().is_some_and(|number| number >= (6, 12)) => FairServer::Present,
        _ => FairServer::Absent,
    }
}

fn memory(root: &HostRoot) -> MemoryFacts {
    let base = "sys/kernel/mm/transparent_hugepage";
    MemoryFacts {
        transparent_hugepages: root.text(&format!("{base}/enabled")).and_then(|text| chosen(&text)),
        hugepage_defrag: root.text(&format!("{base}/defrag")).and_then(|text| chosen(&text)),
        same_page_merging: root.value::<u32>("sys/kernel/mm/ksm/run").map(|run| run == 1),
    }
}

fn network(root: &HostRoot) -> NetworkFacts {
    NetworkFacts {
        rmem_max_bytes: root.value("proc/sys/net/core/rmem_max"),
        rmem_default_bytes: root.value("proc/sys/net/core/rmem_default"),
        busy_poll_us: root.value("proc/sys/net/core/busy_poll"),
        busy_read_us: root.value("proc/sys/net/core/busy_read"),
        budget: root.value("proc/sys/net/core/netdev_budget"),
        budget_us: root.value("proc/sys/net/core/netdev_budget_usecs"),
        max_backlog: root.value("proc/sys/net/core/netdev_max_backlog"),
        default_qdisc: root.text("proc/sys/net/core/default_qdisc"),
    }
}

/// Process ids whose command name is exactly this.
pub fn processes_named(root: &HostRoot, name: &str) -> Vec<u32> {
    let mut pids: Vec<u32> = root.names("proc").iter().filter_map(|entry| entry.parse().ok()).collect();
    pids.sort_unstable();
    pids.retain(|pid| root.text(&format!("proc/{pid}/comm")).as_deref() == Some(name));
    pids
}

/// The word in brackets of a file such as `always [madvise] never`.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn cpuinfo_field(cpuinfo: &str, name: &str) -> Option<String> {
    cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

fn numbered(name: &str, prefix: &str) -> Option<u32> {
    name.strip_prefix(prefix)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeHost;
    use super::*;

    #[test]
    fn an_empty_root_gives_no_facts_and_no_panic() {
        let host = FakeHost::empty();
        let facts = HostFacts::read(&host.root());
        assert_eq!(facts.kernel.release, None);
        assert_eq!(facts.scheduling.rt_runtime_us, None);
        assert!(!facts.hypervisor.present && facts.cpu.online.is_empty());
        assert_eq!(facts.scheduling.fair_server, FairServer::Absent);
    }

    #[test]
    fn a_tuned_server_is_read_in_full() {
        let host = FakeHost::bare_metal();
        let facts = HostFacts::read(&host.root());
        assert_eq!(facts.kernel.number(), Some((6, 1)));
        assert_eq!(facts.cpu.online, vec![0, 1, 2, 3]);
        assert_eq!((facts.cpu.isolated, facts.cpu.nohz_full), (vec![2, 3], vec![2, 3]));
        assert_eq!(facts.cpu.governors, vec!["performance"]);
        assert_eq!(facts.cpu.idle_states.len(), 2);
        assert_eq!(facts.cpu.idle_states[1].exit_latency_us, Some(133));
        assert!(facts.clock.tsc_invariant() && !facts.hypervisor.present);
        assert_eq!(facts.memory.transparent_hugepages.as_deref(), Some("never"));
        assert_eq!(facts.scheduling.fair_server, FairServer::Absent);
    }

    #[test]
    fn a_virtual_machine_is_seen_without_dmi() {
        let host = FakeHost::virtual_machine();
        let facts = HostFacts::read(&host.root());
        assert!(facts.hypervisor.present);
        assert_eq!(facts.hypervisor.name.as_deref(), Some("KVM"));
        assert_eq!(facts.hypervisor.steal_ticks, Some(46));
        assert_eq!(facts.scheduling.fair_server, FairServer::Present);
        assert_eq!(facts.scheduling.irqbalance_pids, vec![77]);
    }

    #[test]
    fn new_kernels_throttle_only_with_real_time_groups() {
        let host = FakeHost::virtual_machine();
        let throttles = || HostFacts::read(&host.root()).scheduling.rt_throttling();
        assert!(!throttles());
        host.file("boot/config-6.18.44-cloud", "CONFIG_RT_GROUP_SCHED=y");
        assert!(throttles());
        host.file("proc/sys/kernel/sched_rt_runtime_us", "-1");
        assert!(!throttles());
        host.files(&[
            ("proc/sys/kernel/sched_rt_runtime_us", "950000"),
            ("proc/sys/kernel/osrelease", "6.1.0"),
        ]);
        assert!(throttles());
    }

    #[test]
    fn a_manifest_keeps_them_all() {
        let facts = HostFacts::read(&FakeHost::bare_metal().root());
        let text = serde_json::to_string(&facts).expect("serialises");
        assert_eq!(serde_json::from_str::<HostFacts>(&text).expect("parses"), facts);
    }
}
