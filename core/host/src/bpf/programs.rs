//! Which programs there are, what each is for, and what one does not see without it.

#[cfg(feature = "bpf")]
use crate::trace::{Flow, TraceSpec};
#[cfg(feature = "bpf")]
use std::net::IpAddr;

/// When a program is of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Always.
    Events,
    /// Threads are named.
    Threads,
    /// A flow is followed.
    Packets,
    /// A flow is followed that can come from a device with an interrupt.
    DevicePackets,
    /// A flow is followed to a socket of our own.
    OwnReceiver,
    /// A running process is observed.
    Observed,
    /// Threads of a running process are observed.
    ObservedThreads,
}

/// One program of `c/quaver.bpf.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Name in the object.
    pub(crate) name: &'static str,
    /// Tracepoint as the kernel's BTF names it; empty for the socket filter and the timer's program.
    pub(crate) tracepoint: &'static str,
    /// What one is blind to without it.
    pub(crate) sees: &'static str,
    used: Use,
}

const fn program(name: &'static str, tracepoint: &'static str, sees: &'static str, used: Use) -> Program {
    Program { name, tracepoint, sees, used }
}

/// Tracepoint without which a packet's `ready` stamp comes from the receiver's wake-up.
pub(crate) const READY: &str = "sk_data_ready";
/// Name of the socket filter.
pub(crate) const ENQUEUE: &str = "on_enqueue";
/// Name of the program that a timer runs.
pub(crate) const SAMPLE: &str = "on_sample";
/// What one is blind to without it.
pub(crate) const SAMPLED: &str = "stacks of the receiver";
/// Kernel function that the socket filter needs (Linux 6.2).
pub(crate) const CAST: &str = "bpf_cast_to_kern_ctx";
/// Kernel function through which the programs read the host's count of stolen time (Linux 6.2).
pub(crate) const READ_ONLY: &str = "bpf_rdonly_cast";
/// Kernel function that reads the cycle counter: the programs of a capture stamp by it where it is there
/// (`capture_cycles.bpf.c`, `capture_device.bpf.c`). The programs below take the kernel's clock.
pub const COUNTER: &str = "bpf_get_cpu_time_counter";

/// Every program.
pub(crate) const PROGRAMS: &[Program] = &[
    program("on_netif_receive_skb", "netif_receive_skb", "the receive layer", Use::Packets),
    program(ENQUEUE, "", "the enqueued layer", Use::OwnReceiver),
    program("on_sk_data_ready", READY, "the ready layer", Use::Packets),
    program("on_kfree_skb", "kfree_skb", "reasons of dropped packets", Use::Packets),
    program("on_softirq_raise", "softirq_raise", "the interrupt layer", Use::DevicePackets),
    program(
        "on_sock_recv_length",
        "sock_recv_length",
        "the application layer of another process",
        Use::Observed,
    ),
    program("on_sys_exit", "sys_exit", "the end of another process's receive calls", Use::Observed),
    program("on_sys_enter", "sys_enter", "system calls of another process", Use::ObservedThreads),
    program(SAMPLE, "", SAMPLED, Use::ObservedThreads),
    program("on_irq_entry", "irq_handler_entry", "device interrupts", Use::Events),
    program("on_irq_exit", "irq_handler_exit", "device interrupts", Use::Events),
    program("on_softirq_entry", "softirq_entry", "softirqs", Use::Events),
    program("on_softirq_exit", "softirq_exit", "softirqs", Use::Events),
    program("on_local_timer_entry", "local_timer_entry", "timer interrupts", Use::Events),
    program("on_local_timer_exit", "local_timer_exit", "timer interrupts", Use::Events),
    program("on_reschedule_entry", "reschedule_entry", "reschedule interrupts", Use::Events),
    program("on_reschedule_exit", "reschedule_exit", "reschedule interrupts", Use::Events),
    program("on_call_function_entry", "call_function_entry", "function-call interrupts", Use::Events),
    program("on_call_function_exit", "call_function_exit", "function-call interrupts", Use::Events),
    program(
        "on_call_function_single_entry",
        "call_function_single_entry",
        "single function-call interrupts",
        Use::Events,
    ),
    program(
        "on_call_function_single_exit",
        "call_function_single_exit",
        "single function-call interrupts",
        Use::Events,
    ),
    program("on_irq_work_entry", "irq_work_entry", "irq_work interrupts", Use::Events),
    program("on_irq_work_exit", "irq_work_exit", "irq_work interrupts", Use::Events),
    program("on_thermal_apic_entry", "thermal_apic_entry", "thermal interrupts", Use::Events),
    program("on_thermal_apic_exit", "thermal_apic_exit", "thermal interrupts", Use::Events),
    program(
        "on_threshold_apic_entry",
        "threshold_apic_entry",
        "machine-check threshold interrupts",
        Use::Events,
    ),
    program(
        "on_threshold_apic_exit",
        "threshold_apic_exit",
        "machine-check threshold interrupts",
        Use::Events,
    ),
    program(
        "on_deferred_error_apic_entry",
        "deferred_error_apic_entry",
        "deferred machine-check interrupts",
        Use::Events,
    ),
    program(
        "on_deferred_error_apic_exit",
        "deferred_error_apic_exit",
        "deferred machine-check interrupts",
        Use::Events,
    ),
    program("on_spurious_apic_entry", "spurious_apic_entry", "spurious interrupts", Use::Events),
    program("on_spurious_apic_exit", "spurious_apic_exit", "spurious interrupts", Use::Events),
    program("on_error_apic_entry", "error_apic_entry", "APIC error interrupts", Use::Events),
    program("on_error_apic_exit", "error_apic_exit", "APIC error interrupts", Use::Events),
    program("on_x86_platform_ipi_entry", "x86_platform_ipi_entry", "platform interrupts", Use::Events),
    program("on_x86_platform_ipi_exit", "x86_platform_ipi_exit", "platform interrupts", Use::Events),
    program("on_hrtimer_entry", "hrtimer_expire_entry", "high-resolution timers", Use::Events),
    program("on_hrtimer_exit", "hrtimer_expire_exit", "high-resolution timers", Use::Events),
    program("on_timer_entry", "timer_expire_entry", "timer-wheel timers", Use::Events),
    program("on_timer_exit", "timer_expire_exit", "timer-wheel timers", Use::Events),
    program("on_csd_entry", "csd_function_entry", "cross-call functions", Use::Events),
    program("on_csd_exit", "csd_function_exit", "cross-call functions", Use::Events),
    program("on_work_start", "workqueue_execute_start", "work items", Use::Events),
    program("on_work_end", "workqueue_execute_end", "work items", Use::Events),
    program("on_cpu_idle", "cpu_idle", "idle states", Use::Events),
    program("on_nmi", "nmi_handler", "non-maskable interrupts", Use::Events),
    program("on_tlb_flush", "tlb_flush", "TLB flushes", Use::Events),
    program("on_ipi_send_cpu", "ipi_send_cpu", "senders of interprocessor interrupts", Use::Events),
    program("on_ipi_send_mask", "ipi_send_cpumask", "senders of interprocessor interrupts", Use::Events),
    program("on_sched_switch", "sched_switch", "other threads", Use::Events),
    program("on_sched_waking", "sched_waking", "wake-ups", Use::Threads),
    program("on_sched_wakeup", "sched_wakeup", "wake-ups", Use::Threads),
    program("on_sched_wakeup_new", "sched_wakeup_new", "wake-ups of new threads", Use::Threads),
    program("on_migrate", "sched_migrate_task", "migrations", Use::Threads),
    program("on_page_fault_user", "page_fault_user", "page faults", Use::Threads),
    program("on_page_fault_kernel", "page_fault_kernel", "page faults in the kernel", Use::Threads),
];

#[cfg(feature = "bpf")]
impl Program {
    /// Whether `spec` asks for it.
    pub(crate) fn wanted(&self, spec: &TraceSpec) -> bool {
        match self.used {
            Use::Events => true,
            Use::Threads => !spec.threads.is_empty(),
            Use::Packets => spec.flow.is_some(),
            Use::DevicePackets => spec.flow.as_ref().is_some_and(|flow| !is_loopback(flow)),
            Use::OwnReceiver => spec.flow.is_some() && spec.observed_process.is_none(),
            Use::Observed => spec.flow.is_some() && spec.observed_process.is_some(),
            Use::ObservedThreads => spec.observed_process.is_some() && !spec.threads.is_empty(),
        }
    }
}

/// No interrupt belongs to packets to a loopback address, so the (costly) search for one is left out.
#[cfg(feature = "bpf")]
fn is_loopback(flow: &Flow) -> bool {
    flow.address.is_some_and(|address: IpAddr| address.is_loopback())
}
