//! Which tracepoints are recorded, and what their records say.
//!
//! The table below is the only place that knows tracepoints by name. A tracepoint that a kernel lacks, or whose
//! format lacks a field that we need, is reported and done without.

use super::format::{EventFormat, Field};
use quaver_abi::record::{EventKind, OffCpu, Vector};
use std::collections::BTreeSet;

/// A tracepoint that we know how to read.
#[derive(Debug)]
pub struct Tracepoint {
    /// Folder under `events/`.
    pub group: &'static str,
    /// Folder in the group.
    pub name: &'static str,
    /// What we are blind to without it, as a noun phrase.
    pub class: &'static str,
    /// Some machines rightly lack it: not worth a remark.
    pub optional: bool,
    /// Which threads' records are wanted.
    pub scope: Scope,
    shape: Shape,
    fields: &'static [&'static str],
}

/// Which threads' records are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All.
    Machine,
    /// Those whose `pid` field is a followed thread.
    Subject,
    /// Those taken while a followed thread is current.
    Current,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Fields: the key, which is also the id.
    EnterById(EventKind),
    /// Fields: the key and a function address.
    EnterFunction(EventKind),
    Exit(EventKind),
    EnterVector(Vector),
    ExitVector(Vector),
    WorkStart,
    WorkEnd,
    Switch,
    Wakeup {
        detail: u8,
    },
    Migrate,
    PageFault {
        kernel: bool,
    },
    IpiOne,
    IpiMany,
    TlbFlush,
    SoftirqRaise,
    Idle,
    Nmi,
}

/// What a record tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// An interval begins. `key` finds its end.
    Enter {
        /// Kind of the interval.
        kind: EventKind,
        /// [`quaver_abi::record::EventRecord::id`].
        id: u32,
        /// [`quaver_abi::record::EventRecord::aux`].
        aux: u64,
        /// What the entry and the exit have in common.
        key: u64,
    },
    /// An interval ends.
    Exit {
        /// Kind of the interval.
        kind: EventKind,
        /// What the entry and the exit have in common.
        key: u64,
    },
    /// The current thread begins a work item.
    WorkStart {
        /// Function address.
        function: u64,
    },
    /// The current thread ends its work item.
    WorkEnd,
    /// The CPU goes from one thread to another.
    Switch {
        /// Leaves.
        previous: Side,
        /// Why.
        reason: OffCpu,
        /// Comes.
        next: Side,
    },
    /// An NMI handler has just ended.
    Nmi {
        /// Handler address.
        handler: u64,
        /// How long it ran.
        duration_ns: u64,
    },
    /// Something without a length.
    Point {
        /// Kind of the point.
        kind: EventKind,
        /// [`quaver_abi::record::EventRecord::id`].
        id: u32,
        /// [`quaver_abi::record::EventRecord::aux`].
        aux: u64,
        /// [`quaver_abi::record::EventRecord::detail`].
        detail: u8,
    },
}

/// One of the two threads of a context switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// Thread; 0 is idle.
    pub thread: u32,
    /// Priority as the kernel prints it; negative for deadline and stop classes.
    pub priority: i32,
    /// Name, zero-padded.
    pub comm: [u8; 16],
}

const fn machine(
    group: &'static str,
    name: &'static str,
    class: &'static str,
    shape: Shape,
    fields: &'static [&'static str],
) -> Tracepoint {
    Tracepoint { group, name, class, optional: false, scope: Scope::Machine, shape, fields }
}

const fn vector(name: &'static str, optional: bool, shape: Shape) -> Tracepoint {
    let (group, class) = ("irq_vectors", "interrupts of the CPU's own vectors (timer, IPIs)");
    Tracepoint { group, name, class, optional, scope: Scope::Machine, shape, fields: &[] }
}

const fn scoped(
    group: &'static str,
    name: &'static str,
    class: &'static str,
    scope: Scope,
    shape: Shape,
    fields: &'static [&'static str],
) -> Tracepoint {
    Tracepoint { group, name, class, optional: false, scope, shape, fields }
}

const IRQ: &str = "device interrupts";
const SOFTIRQ: &str = "softirqs";
const WAKEUP: &str = "wake-ups of the followed threads";
const FAULT: &str = "page faults of the followed threads";
const HRTIMER: &str = "high-resolution timer callbacks";
const TIMER: &str = "timer-wheel callbacks";
const WORK: &str = "work items in kworkers";
const CROSS_CALL: &str = "functions called across CPUs";
const IPI: &str = "senders of interprocessor interrupts";
const SWITCH_FIELDS: &[&str] =
    &["prev_pid", "prev_prio", "prev_comm", "prev_state", "next_pid", "next_prio", "next_comm"];

/// Every tracepoint that we read.
pub static TRACEPOINTS: &[Tracepoint] = &[
    machine("irq", "irq_handler_entry", IRQ, Shape::EnterById(EventKind::Irq), &["irq"]),
    machine("irq", "irq_handler_exit", IRQ, Shape::Exit(EventKind::Irq), &["irq"]),
    machine("irq", "softirq_entry", SOFTIRQ, Shape::EnterById(EventKind::Softirq), &["vec"]),
    machine("irq", "softirq_exit", SOFTIRQ, Shape::Exit(EventKind::Softirq), &["vec"]),
    machine("irq", "softirq_raise", SOFTIRQ, Shape::SoftirqRaise, &["vec"]),
    vector("local_timer_entry", false, Shape::EnterVector(Vector::LocalTimer)),
    vector("local_timer_exit", false, Shape::ExitVector(Vector::LocalTimer)),
    vector("reschedule_entry", false, Shape::EnterVector(Vector::Reschedule)),
    vector("reschedule_exit", false, Shape::ExitVector(Vector::Reschedule)),
    vector("call_function_entry", false, Shape::EnterVector(Vector::CallFunction)),
    vector("call_function_exit", false, Shape::ExitVector(Vector::CallFunction)),
    vector("call_function_single_entry", false, Shape::EnterVector(Vector::CallFunctionSingle)),
    vector("call_function_single_exit", false, Shape::ExitVector(Vector::CallFunctionSingle)),
    vector("irq_work_entry", true, Shape::EnterVector(Vector::IrqWork)),
    vector("irq_work_exit", true, Shape::ExitVector(Vector::IrqWork)),
    vector("thermal_apic_entry", true, Shape::EnterVector(Vector::Thermal)),
    vector("thermal_apic_exit", true, Shape::ExitVector(Vector::Thermal)),
    vector("threshold_apic_entry", true, Shape::EnterVector(Vector::Threshold)),
    vector("threshold_apic_exit", true, Shape::ExitVector(Vector::Threshold)),
    vector("deferred_error_apic_entry", true, Shape::EnterVector(Vector::DeferredError)),
    vector("deferred_error_apic_exit", true, Shape::ExitVector(Vector::DeferredError)),
    vector("spurious_apic_entry", true, Shape::EnterVector(Vector::Spurious)),
    vector("spurious_apic_exit", true, Shape::ExitVector(Vector::Spurious)),
    vector("error_apic_entry", true, Shape::EnterVector(Vector::ErrorApic)),
    vector("error_apic_exit", true, Shape::ExitVector(Vector::ErrorApic)),
    vector("x86_platform_ipi_entry", true, Shape::EnterVector(Vector::Platform)),
    vector("x86_platform_ipi_exit", true, Shape::ExitVector(Vector::Platform)),
    machine("sched", "sched_switch", "other threads on the CPU", Shape::Switch, SWITCH_FIELDS),
    scoped("sched", "sched_wakeup", WAKEUP, Scope::Subject, Shape::Wakeup { detail: 0 }, WAKEUP_FIELDS),
    scoped("sched", "sched_wakeup_new", WAKEUP, Scope::Subject, Shape::Wakeup { detail: 2 }, WAKEUP_FIELDS),
    scoped("sched", "sched_waking", WAKEUP, Scope::Subject, Shape::Wakeup { detail: 1 }, WAKEUP_FIELDS),
    scoped(
        "sched",
        "sched_migrate_task",
        "migrations of the followed threads",
        Scope::Subject,
        Shape::Migrate,
        &["pid", "orig_cpu", "dest_cpu"],
    ),
    scoped(
        "exceptions",
        "page_fault_user",
        FAULT,
        Scope::Current,
        Shape::PageFault { kernel: false },
        &["address"],
    ),
    scoped(
        "exceptions",
        "page_fault_kernel",
        FAULT,
        Scope::Current,
        Shape::PageFault { kernel: true },
        &["address"],
    ),
    machine(
        "timer",
        "hrtimer_expire_entry",
        HRTIMER,
        Shape::EnterFunction(EventKind::Hrtimer),
        &["hrtimer", "function"],
    ),
    machine("timer", "hrtimer_expire_exit", HRTIMER, Shape::Exit(EventKind::Hrtimer), &["hrtimer"]),
    machine(
        "timer",
        "timer_expire_entry",
        TIMER,
        Shape::EnterFunction(EventKind::Timer),
        &["timer", "function"],
    ),
    machine("timer", "timer_expire_exit", TIMER, Shape::Exit(EventKind::Timer), &["timer"]),
    machine("workqueue", "workqueue_execute_start", WORK, Shape::WorkStart, &["function"]),
    machine("workqueue", "workqueue_execute_end", WORK, Shape::WorkEnd, &[]),
    machine(
        "csd",
        "csd_function_entry",
        CROSS_CALL,
        Shape::EnterFunction(EventKind::CrossCall),
        &["csd", "func"],
    ),
    machine("csd", "csd_function_exit", CROSS_CALL, Shape::Exit(EventKind::CrossCall), &["csd"]),
    machine("ipi", "ipi_send_cpu", IPI, Shape::IpiOne, &["cpu", "callback"]),
    machine("ipi", "ipi_send_cpumask", IPI, Shape::IpiMany, &["cpumask", "callback"]),
    machine("tlb", "tlb_flush", "TLB flushes", Shape::TlbFlush, &["reason", "pages"]),
    machine("power", "cpu_idle", "idle states", Shape::Idle, &["state"]),
    machine("nmi", "nmi_handler", "NMI handlers", Shape::Nmi, &["handler", "delta_ns"]),
];
const WAKEUP_FIELDS: &[&str] = &["pid", "target_cpu"];

/// A tracepoint whose format this kernel has told us.
#[derive(Clone, Debug)]
pub struct Reader {
    shape: Shape,
    scope: Scope,
    current: Field,
    fields: Vec<Field>,
}

impl Reader {
    /// Binds a tracepoint to its format; the name of the field that is missing otherwise.
    pub fn bind(tracepoint: &Tracepoint, format: &EventFormat) -> Result<Self, &'static str> {
        let find = |name: &'static str| format.field(name).cloned().ok_or(name);
        let fields = tracepoint.fields.iter().map(|name| find(name)).collect::<Result<_, _>>()?;
        Ok(Self { shape: tracepoint.shape, scope: tracepoint.scope, current: find("common_pid")?, fields })
    }

    /// The thread that was current and what happened; none where the record is cut short or its thread is not
    /// among the followed ones.
    pub fn read(&self, record: &[u8], followed: &BTreeSet<u32>) -> Option<(u32, Happening)> {
        let current = self.current.number(record)? as u32;
        let number = |index: usize| self.fields.get(index)?.number(record);
        match self.scope {
            Scope::Machine => {}
            Scope::Subject => followed.get(&(number(0)? as u32)).map(|_| ())?,
            Scope::Current => followed.get(&current).map(|_| ())?,
        }
        let point = |kind, id, aux, detail| Happening::Point { kind, id, aux, detail };
        let what = match self.shape {
            Shape::EnterById(kind) => {
                Happening::Enter { kind, id: number(0)? as u32, aux: 0, key: number(0)? }
            }
            Shape::EnterFunction(kind) => Happening::Enter { kind, id: 0, aux: number(1)?, key: number(0)? },
            Shape::Exit(kind) => Happening::Exit { kind, key: number(0)? },
            Shape::EnterVector(vector) => {
                let key = vector as u64;
                Happening::Enter { kind: EventKind::Vector, id: vector as u32, aux: 0, key }
            }
            Shape::ExitVector(vector) => Happening::Exit { kind: EventKind::Vector, key: vector as u64 },
            Shape::WorkStart => Happening::WorkStart { function: number(0)? },
            Shape::WorkEnd => Happening::WorkEnd,
            Shape::Switch => self.switch(record)?,
            Shape::Wakeup { detail } => {
                let aux = pair(current, number(1)? as u32);
                point(EventKind::Wakeup, number(0)? as u32, aux, detail)
            }
            Shape::Migrate => {
                let aux = pair(number(1)? as u32, number(2)? as u32);
                point(EventKind::Migrate, number(0)? as u32, aux, 0)
            }
            Shape::PageFault { kernel } => point(EventKind::PageFault, current, number(0)?, u8::from(kernel)),
            Shape::IpiOne => point(EventKind::IpiSend, number(0)? as u32, number(1)?, 0),
            Shape::IpiMany => {
                let (id, detail) = targets(self.fields.first()?.octets(record)?);
                point(EventKind::IpiSend, id, number(1)?, detail)
            }
            Shape::TlbFlush => point(EventKind::TlbFlush, number(0)? as u32, number(1)?, 0),
            Shape::SoftirqRaise => point(EventKind::SoftirqRaise, number(0)? as u32, 0, 0),
            Shape::Idle => idle(number(0)? as u32),
            Shape::Nmi => {
                Happening::Nmi { handler: number(0)?, duration_ns: (number(1)? as i64).max(0) as u64 }
            }
        };
        Some((current, what))
    }

    fn switch(&self, record: &[u8]) -> Option<Happening> {
        let side = |from: usize, comm: usize| {
            let number = |index: usize| self.fields.get(index)?.number(record);
            let name = self.fields.get(comm)?.octets(record)?;
            let length = name.iter().position(|octet| *octet == 0).unwrap_or(name.len()).min(16);
            let mut octets = [0; 16];
            octets[..length].copy_from_slice(&name[..length]);
            Some(Side { thread: number(from)? as u32, priority: number(from + 1)? as i32, comm: octets })
        };
        let reason = off_cpu(self.fields.get(3)?.number(record)?);
        Some(Happening::Switch { previous: side(0, 2)?, reason, next: side(4, 6)? })
    }
}

/// `prev_state` of sched_switch: 0 or only the "preempted" bit above the reported ones is runnable
/// (include/trace/events/sched.h, `__trace_sched_switch_state`; include/linux/sched.h, `TASK_REPORT`).
fn off_cpu(state: u64) -> OffCpu {
    const EXITED: u64 = 0x10 | 0x20;
    const REPORTED: u64 = 0xff;
    match state & REPORTED {
        0 => OffCpu::Preempted,
        bits if bits & EXITED != 0 => OffCpu::Exited,
        bits if bits & 0x2 != 0 => OffCpu::Uninterruptible,
        bits if bits & 0x4 != 0 => OffCpu::Stopped,
        bits if bits & 0x8 != 0 => OffCpu::Traced,
        bits if bits & 0x40 != 0 => OffCpu::Parked,
        _ => OffCpu::Blocked,
    }
}

/// `cpu_idle`: a state, or all ones where one ends (include/trace/events/power.h, `PWR_EVENT_EXIT`).
fn idle(state: u32) -> Happening {
    let kind = EventKind::IdleState;
    match state {
        u32::MAX => Happening::Exit { kind, key: 0 },
        id => Happening::Enter { kind, id, aux: 0, key: 0 },
    }
}

/// The only CPU of a mask with detail 0, or the count of its CPUs with detail 1.
fn targets(mask: &[u8]) -> (u32, u8) {
    let count: u32 = mask.iter().map(|octet| octet.count_ones()).sum();
    match mask.iter().position(|octet| *octet != 0) {
        Some(octet) if count == 1 => (octet as u32 * 8 + mask[octet].trailing_zeros(), 0),
        _ => (count, 1),
    }
}

const fn pair(high: u32, low: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

/// The kernel's filter for a tracepoint, so that other threads' records are never written; none where all are
/// wanted or the list is too long for the kernel (then [`Reader::read`] alone sorts them out).
pub fn filter(scope: Scope, followed: &BTreeSet<u32>) -> Option<String> {
    let field = match scope {
        Scope::Machine => return None,
        Scope::Subject => "pid",
        Scope::Current => "common_pid",
    };
    let terms: Vec<String> = followed.iter().map(|thread| format!("{field}=={thread}")).collect();
    let text = terms.join("||");
    (text.len() < 2048).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_to_leave_a_cpu() {
        assert_eq!(off_cpu(0), OffCpu::Preempted);
        assert_eq!(off_cpu(0x100), OffCpu::Preempted);
        assert_eq!(off_cpu(1), OffCpu::Blocked);
        assert_eq!(off_cpu(0x80), OffCpu::Blocked);
        assert_eq!(off_cpu(0x2), OffCpu::Uninterruptible);
        assert_eq!(off_cpu(0x4), OffCpu::Stopped);
        assert_eq!(off_cpu(0x8), OffCpu::Traced);
        assert_eq!(off_cpu(0x40), OffCpu::Parked);
        assert_eq!(off_cpu(0x10), OffCpu::Exited);
        assert_eq!(off_cpu(0x20), OffCpu::Exited);
    }

    #[test]
    fn masks_of_one_and_of_many() {
        assert_eq!(targets(&[0, 4, 0]), (10, 0));
        assert_eq!(targets(&[3, 4]), (3, 1));
        assert_eq!(targets(&[0, 0]), (0, 1));
    }

    #[test]
    fn filters_name_the_followed_threads() {
        let followed = BTreeSet::from([7, 9]);
        assert_eq!(filter(Scope::Machine, &followed), None);
        assert_eq!(filter(Scope::Subject, &followed).as_deref(), Some("pid==7||pid==9"));
        assert_eq!(filter(Scope::Current, &followed).as_deref(), Some("common_pid==7||common_pid==9"));
        assert_eq!(filter(Scope::Subject, &(0..1000).collect()), None);
    }

    #[test]
    fn every_tracepoint_is_named_once() {
        let names: BTreeSet<_> = TRACEPOINTS.iter().map(|t| (t.group, t.name)).collect();
        assert_eq!(names.len(), TRACEPOINTS.len());
    }
}
