//! Settings of the host that are known to make packets or threads late.

use super::{Area, Check, Finding, HostView};
use crate::facts::FairServer;

/// The table, what hurts most and most often first.
pub(super) const CHECKS: &[Check] = &[
    setting(
        "virtual-machine",
        "hypervisor",
        "the hypervisor takes the CPU away; this kernel sees how much where steal is counted, and the rest stays unexplained (\"hypervisor or hardware\")",
        virtual_machine,
    ),
    setting(
        "cpu-quota",
        "CPU quota of this control group",
        "when the quota is spent, all threads of the group stop until the next period, often for tens of milliseconds",
        cpu_quota,
    ),
    setting(
        "rt-throttling",
        "real-time throttling",
        "a spinning SCHED_FIFO sink is stopped for the rest of each period (50 ms of each second by default)",
        rt_throttling,
    ),
    setting(
        "fair-server",
        "fair server",
        "since Linux 6.12 a spinning SCHED_FIFO thread loses up to 50 ms of each second when an ordinary thread waits on its CPU",
        fair_server,
    ),
    setting(
        "isolation",
        "CPUs kept free for the receiver",
        "on a shared CPU any runnable thread, timer or work item may run first",
        isolation,
    ),
    setting(
        "irqbalance",
        "irqbalance",
        "it moves device interrupts between CPUs every ten seconds, also onto the receiver's",
        irqbalance,
    ),
    setting(
        "governor",
        "frequency governor",
        "after idling, the first packets are handled at a low frequency until the governor has reacted",
        governor,
    ),
    setting(
        "idle-states",
        "idle states",
        "leaving a deep idle state takes its exit latency before the interrupt of a packet can be handled",
        idle_states,
    ),
    setting(
        "hyperthreads",
        "hardware threads",
        "a busy sibling takes half of the core, and no tracepoint shows it",
        hyperthreads,
    ),
    setting(
        "clock-source",
        "clock source",
        "a clock that is no time-stamp counter costs a microsecond a reading; a marked-unstable counter jumps",
        clock_source,
    ),
    setting(
        "coalescing",
        "interrupt coalescing",
        "the device holds packets back to interrupt less often; adaptive coalescing changes that delay with the load",
        coalescing,
    ),
    setting(
        "receive-buffer",
        "largest receive buffer",
        "a receiver that is late loses packets when the socket buffer is full",
        receive_buffer,
    ),
    setting(
        "autogroup",
        "scheduler autogroup",
        "an ordinary receiver competes by terminal session, so that its nice value means little",
        |view| switch(view.facts.scheduling.autogroup, "sched_autogroup_enabled", "0"),
    ),
    setting(
        "timer-migration",
        "timer migration",
        "with it off, a timer that was once armed on an isolated CPU stays there",
        timer_migration,
    ),
    setting(
        "numa-balancing",
        "automatic NUMA balancing",
        "it unmaps pages to learn who uses them: each touch afterwards is a page fault",
        |view| switch(view.facts.scheduling.numa_balancing, "numa_balancing", "0"),
    ),
    setting(
        "nmi-watchdog",
        "hard-lockup watchdog",
        "a performance counter interrupts each CPU by NMI, which nothing can defer",
        |view| switch(view.facts.scheduling.nmi_watchdog, "nmi_watchdog", "0"),
    ),
    setting(
        "transparent-hugepages",
        "transparent huge pages",
        "a page fault may stop to make a huge page, and khugepaged stops the program to merge pages",
        transparent_hugepages,
    ),
    setting(
        "same-page-merging",
        "same-page merging",
        "merged pages fault when written to, and ksmd scans memory",
        |view| match view.facts.memory.same_page_merging {
            None => Finding::not_applicable("this kernel has none"),
            Some(false) => Finding::good("off"),
            Some(true) => Finding::hurts("on", "echo 0 | sudo tee /sys/kernel/mm/ksm/run"),
        },
    ),
];

const fn setting(
    id: &'static str,
    title: &'static str,
    why: &'static str,
    probe: fn(&HostView) -> Finding,
) -> Check {
    Check { id, area: Area::Setting, title, why, probe }
}

/// A `kernel.*` setting that is good when off.
fn switch(value: Option<bool>, name: &str, off: &str) -> Finding {
    match value {
        None => Finding::not_applicable(format!("this kernel has no kernel.{name}")),
        Some(false) => Finding::good(format!("kernel.{name} is off")),
        Some(true) => {
            Finding::hurts(format!("kernel.{name} is on"), format!("sudo sysctl kernel.{name}={off}"))
        }
    }
}

fn virtual_machine(view: &HostView) -> Finding {
    let hypervisor = &view.facts.hypervisor;
    if !hypervisor.present {
        return if view.facts.cpu.model.is_some() {
            Finding::good("none")
        } else {
            Finding::not_applicable("the processor is not described")
        };
    }
    let name = hypervisor.name.as_deref().unwrap_or("of unknown make");
    let steal = match hypervisor.steal_ticks {
        Some(0) => "; it reports no stolen time, which may mean that it does not report".to_owned(),
        Some(ticks) => format!("; it took {} ms since boot by its own account", ticks.saturating_mul(10)),
        None => String::new(),
    };
    Finding::hurts(
        format!("{name}{steal}"),
        "measure on the bare machine, or give the guest dedicated, pinned CPUs and compare",
    )
}

fn cpu_quota(view: &HostView) -> Finding {
    if view.quota.levels.is_empty() {
        return Finding::not_applicable("no CPU controller is visible");
    }
    let limited: Vec<String> = view
        .quota
        .levels
        .iter()
        .filter_map(|level| {
            let quota_us = level.quota_us?;
            let period_us = level.period_us.unwrap_or(100_000);
            Some(format!(
                "{}: {quota_us} us of each {period_us} us, stopped in {} of {} periods",
                level.directory, level.throttled_periods, level.periods
            ))
        })
        .collect();
    if limited.is_empty() {
        return Finding::good("no limit in this group or above");
    }
    Finding::hurts(
        limited.join("; "),
        "systemctl set-property UNIT CPUQuota=  (version 1: echo -1 > GROUP/cpu.cfs_quota_us)",
    )
}

fn rt_throttling(view: &HostView) -> Finding {
    let scheduling = &view.facts.scheduling;
    let (Some(runtime_us), Some(period_us)) = (scheduling.rt_runtime_us, scheduling.rt_period_us) else {
        return Finding::not_applicable("the kernel shows no limit");
    };
    if runtime_us < 0 || runtime_us >= period_us {
        return Finding::good("real-time threads have no limit");
    }
    let evidence = format!("real-time threads get {runtime_us} us of each {period_us} us");
    if !scheduling.rt_throttling() {
        return Finding::good(format!(
            "{evidence}, but this kernel no longer enforces it; see the fair server"
        ));
    }
    Finding::hurts(
        evidence,
        "sudo sysctl kernel.sched_rt_runtime_us=-1  (only with a housekeeping CPU left free)",
    )
}

fn fair_server(view: &HostView) -> Finding {
    match view.facts.scheduling.fair_server {
        FairServer::Absent => Finding::not_applicable("this kernel has none"),
        FairServer::Share { runtime_ns: 0, .. } => Finding::good("off on CPU 0"),
        FairServer::Share { runtime_ns, period_ns } => Finding::hurts(
            format!("{} ms of each {} ms on CPU 0", runtime_ns / 1_000_000, period_ns / 1_000_000),
            "echo 0 | sudo tee /sys/kernel/debug/sched/fair_server/cpu*/runtime",
        ),
        FairServer::Present => Finding::hurts(
            "this kernel has it (50 ms of each second unless changed; debugfs is not here to tell)",
            "keep ordinary threads off the sink's CPU; or sudo mount -t debugfs none /sys/kernel/debug and \
             echo 0 | sudo tee /sys/kernel/debug/sched/fair_server/cpu*/runtime",
        ),
    }
}

fn isolation(view: &HostView) -> Finding {
    let cpu = &view.facts.cpu;
    if cpu.online.is_empty() {
        return Finding::not_applicable("the kernel lists no CPUs");
    }
    if cpu.isolated.is_empty() && cpu.nohz_full.is_empty() {
        if cpu.online.len() < 2 {
            return Finding::hurts("one CPU only", "use a machine with at least two CPUs");
        }
        let last = cpu.online[cpu.online.len() - 1];
        let tickless = match cpu.nohz_full_possible {
            Some(false) => String::new(),
            _ => format!(" nohz_full={last}"),
        };
        return Finding::hurts(
            format!("{} CPUs, none isolated", cpu.online.len()),
            format!("boot with isolcpus=managed_irq,domain,{last}{tickless} rcu_nocbs={last}"),
        );
    }
    if cpu.nohz_full.is_empty() {
        return Finding::good(format!(
            "isolated: {:?}; the tick still runs there (nohz_full is not set)",
            cpu.isolated
        ));
    }
    Finding::good(format!("isolated: {:?}, without tick: {:?}", cpu.isolated, cpu.nohz_full))
}

fn irqbalance(view: &HostView) -> Finding {
    match view.facts.scheduling.irqbalance_pids.first() {
        None if view.facts.kernel.release.is_none() => Finding::not_applicable("processes are not shown"),
        None => Finding::good("not running"),
        Some(pid) => Finding::hurts(format!("running as process {pid}"), "sudo systemctl stop irqbalance"),
    }
}

fn governor(view: &HostView) -> Finding {
    let governors = &view.facts.cpu.governors;
    if governors.is_empty() {
        return Finding::not_applicable("no frequency scaling here (or the hypervisor hides it)");
    }
    if governors.iter().all(|governor| governor == "performance") {
        return Finding::good("performance on every CPU");
    }
    Finding::hurts(
        governors.join(", "),
        "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    )
}

/// Exit latency from which an idle state counts as deep, in microseconds: about one packet of the paper's
/// stream (7.41 us).
const DEEP_US: u64 = 8;

fn idle_states(view: &HostView) -> Finding {
    let cpu = &view.facts.cpu;
    if cpu.idle_driver.as_deref() == Some("haltpoll") {
        return Finding::not_applicable(
            "a guest only halts; how deep the CPU sleeps is up to the hypervisor",
        );
    }
    if cpu.idle_states.is_empty() {
        return Finding::not_applicable("no idle states are listed (or the hypervisor hides them)");
    }
    let deep: Vec<String> = cpu
        .idle_states
        .iter()
        .filter(|state| !state.disabled)
        .filter_map(|state| Some((state, state.exit_latency_us.filter(|latency| *latency >= DEEP_US)?)))
        .map(|(state, latency_us)| format!("{} ({latency_us} us)", state.name))
        .collect();
    if deep.is_empty() {
        return Finding::good("no enabled state takes long to leave");
    }
    Finding::hurts(
        format!("enabled: {}", deep.join(", ")),
        "hold /dev/cpu_dma_latency at 0 while measuring, or sudo cpupower idle-set --disable-by-latency 8",
    )
}

fn hyperthreads(view: &HostView) -> Finding {
    match view.facts.cpu.smt_active {
        None => Finding::not_applicable("the kernel does not tell"),
        Some(false) => Finding::good("one thread a core"),
        Some(true) => Finding::hurts(
            "two threads share each core",
            "keep the sibling of the sink's CPU idle, or echo off | sudo tee /sys/devices/system/cpu/smt/control",
        ),
    }
}

fn clock_source(view: &HostView) -> Finding {
    let clock = &view.facts.clock;
    let Some(source) = clock.source.as_deref() else {
        return Finding::not_applicable("the kernel does not tell");
    };
    if source == "tsc" {
        return Finding::good("tsc");
    }
    if clock.available.iter().any(|available| available == "tsc") {
        return Finding::hurts(
            format!("{source}, although tsc is available"),
            "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource",
        );
    }
    if clock.tsc_flags.is_empty() {
        return Finding::not_applicable(format!("{source}, and the processor lists no time-stamp counter"));
    }
    Finding::hurts(
        format!("{source}; the kernel does not offer tsc, most likely because it found it unstable"),
        "look for \"tsc\" in the kernel log; boot with tsc=reliable only if the machine's maker says so",
    )
}

fn coalescing(view: &HostView) -> Finding {
    let known: Vec<_> =
        view.interfaces.iter().filter_map(|interface| Some((interface, interface.coalescing?))).collect();
    if known.is_empty() {
        return Finding::not_applicable("no interface here tells its coalescing");
    }
    let delayed: Vec<_> = known.iter().filter(|(_, held)| held.adaptive_rx || held.rx_us > 0).collect();
    let Some((first, _)) = delayed.first() else {
        return Finding::good("no interface holds packets back by time");
    };
    let evidence: Vec<String> = delayed
        .iter()
        .map(|(interface, held)| {
            let adaptive = if held.adaptive_rx { ", adaptive" } else { "" };
            format!("{}: rx-usecs {}{adaptive}", interface.name, held.rx_us)
        })
        .collect();
    Finding::hurts(evidence.join("; "), format!("sudo ethtool -C {} adaptive-rx off rx-usecs 0", first.name))
}

/// A receive buffer that holds 20 ms of the paper's stream: 135,000 packets/s at about 2.3 kB of memory each.
const WANTED_BUFFER_BYTES: u64 = 6 << 20;

fn receive_buffer(view: &HostView) -> Finding {
    let Some(bytes) = view.facts.network.rmem_max_bytes else {
        return Finding::not_applicable("net.core.rmem_max is not shown");
    };
    let evidence = format!("net.core.rmem_max is {bytes} bytes");
    if bytes >= WANTED_BUFFER_BYTES {
        return Finding::good(evidence);
    }
    if view.rights.hardware_stamps.allowed {
        return Finding::good(format!("{evidence}; with CAP_NET_ADMIN a sink of ours goes beyond it"));
    }
    Finding::hurts(evidence, "sudo sysctl net.core.rmem_max=67108864")
}

/// Whether it helps without isolated CPUs is disputed, so that nothing is said of it there.
fn timer_migration(view: &HostView) -> Finding {
    match view.facts.scheduling.timer_migration {
        None => Finding::not_applicable("this kernel has no kernel.timer_migration"),
        _ if view.facts.cpu.isolated.is_empty() && view.facts.cpu.nohz_full.is_empty() => {
            Finding::not_applicable("it matters for isolated CPUs, and there are none")
        }
        Some(true) => Finding::good("kernel.timer_migration is on"),
        Some(false) => {
            Finding::hurts("kernel.timer_migration is off", "sudo sysctl kernel.timer_migration=1")
        }
    }
}

fn transparent_hugepages(view: &HostView) -> Finding {
    match view.facts.memory.transparent_hugepages.as_deref() {
        None => Finding::not_applicable("this kernel has none"),
        Some("always") => {
            Finding::hurts("always", "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled")
        }
        Some(mode) => Finding::good(mode),
    }
}
