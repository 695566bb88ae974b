//! From recorded intervals to causes: which row of the catalogue an interrupt, a softirq or a thread is.
//!
//! What names an interval better (a timer callback inside a timer interrupt, say) only makes the name more
//! precise: where it was not recorded, the cause says so and is never another mechanism.

use super::causes::{CauseKey, Class, Detail};
use super::stack_signs::{StackSigns, function};
use super::timeline::{Timeline, end_of, start_of};
use crate::model::{Layer, MISSING, Names, PacketTable};
use quaver_abi::record::{EventKind, EventRecord, REFILLS_QUOTA, SAMPLING_TIMER, Vector};
use std::collections::BTreeMap;

/// How long before its arrival an interprocessor interrupt may have been sent.
const IPI_REACH_NS: i64 = 50_000;
/// How many sent interprocessor interrupts are looked at for one that arrived.
const IPI_LOOK_BACK: usize = 64;
/// How many packets, or events that name another, are looked at for one interval: a broken record as long as the
/// run must not make the analysis quadratic.
const LOOK_AHEAD: usize = 4096;
/// Where packets of others were not counted, a NET_RX run is the stream's own if it took no longer than this for each of
/// the stream's packets in it.
const OWN_PACKET_CAP_NS: i64 = 10_000;
/// What the record of a NET_RX run says of packets of others ([`EventKind::Softirq`]): there were none.
const NO_OTHERS: u64 = 1;

/// Timer that gives each control group its CPU quota of the next period.
const QUOTA_TIMER: &str = "sched_cfs_period_timer";

/// Names intervals.
pub(crate) struct Namer<'a> {
    pub(crate) timeline: &'a Timeline<'a>,
    pub(crate) names: &'a Names,
    /// Kernel stacks by instant and thread, innermost first.
    stacks: BTreeMap<(u64, u32), Vec<u64>>,
    signs: StackSigns,
    /// When timers that refill CPU quotas had run, ascending.
    refills_ns: Vec<i64>,
    own: Option<OwnPackets<'a>>,
}

struct OwnPackets<'a> {
    packets: &'a PacketTable,
    before_app_ns: &'a [i64],
}

impl<'a> Namer<'a> {
    pub(crate) fn new(
        timeline: &'a Timeline<'a>,
        names: &'a Names,
        packets: Option<&'a PacketTable>,
    ) -> Self {
        let own = packets.and_then(|packets| {
            let column = [Layer::Receive, Layer::Enqueued, Layer::KernelStamp, Layer::Ready]
                .into_iter()
                .find_map(|layer| packets.column(layer))?;
            Some(OwnPackets { packets, before_app_ns: &column.before_app_ns })
        });
        let refills_ns = refills_ns(timeline.events, names);
        let (stacks, signs) = (stacks(timeline.events), StackSigns::of(names));
        Self { timeline, names, stacks, signs, refills_ns, own }
    }

    /// When a timer that refills CPU quotas last had run between two instants.
    pub(crate) fn quota_refilled(&self, from_ns: i64, to_ns: i64) -> Option<i64> {
        let before = self.refills_ns.partition_point(|&ns| ns <= to_ns);
        self.refills_ns[..before].last().copied().filter(|&ns| ns >= from_ns)
    }

    /// The kernel stack of a thread that left its CPU at an instant, innermost first.
    pub(crate) fn frames(&self, instant_ns: u64, thread: u32) -> &[u64] {
        self.stacks.get(&(instant_ns, thread)).map_or(&[], Vec::as_slice)
    }

    /// The innermost function of a stack that waits for something of its own ([`StackSigns::leaf`]).
    pub(crate) fn leaf(&self, frames: &[u64]) -> u64 {
        self.signs.leaf(frames)
    }

    /// Whether a function of a stack has a sign, one of [`super::stack_signs`].
    pub(crate) fn shows(&self, frames: &[u64], sign: u8) -> bool {
        self.signs.any(frames, sign)
    }

    pub(crate) fn symbol(&self, address: u64) -> &str {
        self.names.symbol.get(&address).map_or("", |name| function(name))
    }

    /// The function that ran longest inside an interval, of the kinds asked for, with its `detail`.
    fn longest(&self, event: &EventRecord, kinds: &[EventKind]) -> Option<(u64, u8)> {
        let mut totals: [((u64, u8), i64); 8] = [((0, 0), 0); 8];
        let mut used = 0;
        for inner in self.timeline.namers(event.cpu, start_of(event), end_of(event)).take(LOOK_AHEAD) {
            if !EventKind::from_repr(inner.kind).is_some_and(|kind| kinds.contains(&kind)) {
                continue;
            }
            let time = end_of(inner).min(end_of(event)) - start_of(inner);
            let function = (inner.aux, inner.detail);
            match totals[..used].iter_mut().find(|total| total.0 == function) {
                Some(total) => total.1 += time,
                None if used < 8 => {
                    totals[used] = (function, time);
                    used += 1;
                }
                None => {}
            }
        }
        let best = totals[..used].iter().max_by_key(|total| (total.1, std::cmp::Reverse(total.0)))?;
        Some(best.0)
    }

    /// Cause of an interrupt, softirq or NMI.
    pub(crate) fn interruption(&self, event: &EventRecord) -> CauseKey {
        match EventKind::from_repr(event.kind) {
            Some(EventKind::Nmi) => CauseKey::new("nmi-wd", Detail::Function("NMI", event.aux)),
            Some(EventKind::Irq) => CauseKey::new("dev-irq", Detail::Irq(event.id)),
            Some(EventKind::Softirq) => self.softirq(event),
            _ => self.vector(event),
        }
    }

    fn vector(&self, event: &EventRecord) -> CauseKey {
        match Vector::from_repr(event.id) {
            Some(Vector::LocalTimer) => match self.longest(event, &[EventKind::Hrtimer]) {
                Some((function, SAMPLING_TIMER)) => {
                    CauseKey::new("tool", Detail::Function("timer", function))
                }
                Some((function, _)) => self.timer(function),
                None => CauseKey::plain("timer-irq", "local timer interrupt"),
            },
            Some(Vector::Reschedule) => {
                let sender = self.sender(event, true).map_or(0, |send| self.sending_thread(send));
                CauseKey::new("ipi-resched", Detail::Sent("reschedule interrupt", 0, sender))
            }
            Some(Vector::CallFunction | Vector::CallFunctionSingle) => self.cross_call(event),
            Some(Vector::IrqWork) => CauseKey::plain("irq_work", "irq_work"),
            Some(Vector::Thermal) => CauseKey::plain("thermal", "thermal interrupt"),
            Some(Vector::Threshold) => CauseKey::plain("mce", "machine-check threshold interrupt"),
            Some(Vector::DeferredError) => CauseKey::plain("mce", "deferred machine-check error"),
            Some(Vector::Spurious) => CauseKey::plain("vector-other", "spurious interrupt"),
            Some(Vector::ErrorApic) => CauseKey::plain("vector-other", "APIC error interrupt"),
            Some(Vector::Platform) => CauseKey::plain("vector-other", "platform interrupt"),
            None => CauseKey::plain("vector-other", "unknown system interrupt"),
        }
    }

    fn timer(&self, function: u64) -> CauseKey {
        match self.symbol(function) {
            "tick_nohz_handler" | "tick_sched_timer" | "tick_nohz_highres_handler" => {
                CauseKey::plain("tick", "scheduler tick")
            }
            "watchdog_timer_fn" => CauseKey::new("softlockup", Detail::Function("timer", function)),
            QUOTA_TIMER | "sched_cfs_slack_timer" => {
                CauseKey::new("quota", Detail::Function("timer", function))
            }
            "sched_rt_period_timer" => CauseKey::new("rt-throttle", Detail::Function("timer", function)),
            "dl_task_timer" | "dl_server_timer" => {
                CauseKey::new("fair-server", Detail::Function("timer", function))
            }
            "clocksource_watchdog" => CauseKey::new("cs-watchdog", Detail::Function("timer", function)),
            _ => CauseKey::new("timers", Detail::Function("timer", function)),
        }
    }

    fn cross_call(&self, event: &EventRecord) -> CauseKey {
        let send = self.sender(event, false);
        let thread = send.map_or(0, |send| self.sending_thread(send));
        let inside = self.longest(event, &[EventKind::CrossCall]).map(|(function, _)| function);
        let flushes = || {
            self.timeline
                .namers(event.cpu, start_of(event), end_of(event))
                .take(LOOK_AHEAD)
                .any(|inner| inner.kind == EventKind::TlbFlush as u8)
        };
        let function = match inside {
            Some(function) => function,
            None if flushes() => return CauseKey::new("tlb", Detail::Sent("TLB shootdown", 0, thread)),
            None => send.map_or(0, |send| send.aux),
        };
        let (id, what, function) = match self.symbol(function) {
            "flush_tlb_func" | "flush_tlb_func_remote" | "do_flush_tlb_all" | "do_kernel_range_flush" => {
                ("tlb", "TLB shootdown", 0)
            }
            "ipi_mb" | "ipi_sync_core" | "ipi_rseq" | "ipi_sync_rq_state" => ("membarrier", "membarrier", 0),
            "do_sync_core" => ("textpoke", "code patching", 0),
            "rcu_exp_handler" => ("rcu-exp", "expedited grace period", 0),
            "rps_trigger_softirq" => ("net-rx", "NET_RX from another CPU", 0),
            "clocksource_verify_percpu" => ("cs-watchdog", "function call", function),
            "generic_smp_call_function_single_interrupt" => ("ipi-call", "function call", 0),
            _ => ("ipi-call", "function call", function),
        };
        CauseKey::new(id, Detail::Sent(what, function, thread))
    }

    /// The nearest interprocessor interrupt sent before this one arrived, to this CPU and of this sort.
    fn sender(&self, event: &EventRecord, reschedule: bool) -> Option<&'a EventRecord> {
        let timeline = self.timeline;
        let arrived = start_of(event);
        let sends = &timeline.sends;
        let after = sends.partition_point(|&index| start_of(&timeline.events[index as usize]) <= arrived);
        sends[..after]
            .iter()
            .rev()
            .take(IPI_LOOK_BACK)
            .map(|&index| &timeline.events[index as usize])
            .take_while(|send| arrived - start_of(send) <= IPI_REACH_NS)
            .find(|send| {
                let here =
                    if send.detail == 1 { send.cpu != event.cpu } else { send.id == u32::from(event.cpu) };
                here && (send.aux == 0) == reschedule
            })
    }

    fn sending_thread(&self, send: &EventRecord) -> u32 {
        self.timeline.thread_at(send.cpu, start_of(send)).map_or(0, |thread| thread.id)
    }

    fn softirq(&self, event: &EventRecord) -> CauseKey {
        match event.id {
            0 => CauseKey::plain("softirq-other", "HI softirq"),
            1 => match self.longest(event, &[EventKind::Timer]) {
                Some((function, _)) => self.timer(function),
                None => CauseKey::plain("timers", "TIMER softirq"),
            },
            2 => CauseKey::plain("net-rx", "NET_TX softirq"),
            3 if self.is_own(event) => CauseKey::plain("own-packets", "NET_RX softirq of the stream"),
            3 if event.aux == NO_OTHERS => CauseKey::plain("net-rx", "NET_RX softirq, no packet received"),
            3 => CauseKey::plain("net-rx", "NET_RX softirq of other traffic"),
            4 => CauseKey::plain("softirq-other", "BLOCK softirq"),
            5 => CauseKey::plain("softirq-other", "IRQ_POLL softirq"),
            6 => CauseKey::plain("softirq-other", "TASKLET softirq"),
            7 => CauseKey::plain("sched-softirq", "SCHED softirq"),
            8 => CauseKey::plain("timers", "HRTIMER softirq"),
            9 => CauseKey::plain("rcu-cb", "RCU softirq"),
            _ => CauseKey::plain("softirq-other", "unknown softirq"),
        }
    }

    /// Whether a NET_RX run handled the stream's own packets: at least one, and none of others. Beside others, or where
    /// they were not counted, it may take [`OWN_PACKET_CAP_NS`] for each; a longer run had mostly other work.
    fn is_own(&self, event: &EventRecord) -> bool {
        let Some(own) = &self.own else { return false };
        let (from, to) = (start_of(event), end_of(event));
        let needed = match event.aux {
            NO_OTHERS => 1,
            _ => (to - from).div_euclid(OWN_PACKET_CAP_NS) as usize + 1,
        };
        let table = own.packets;
        // A packet reaches the application after the stack, so earlier rows cannot be of this run.
        let first = table.app_ns.partition_point(|&app_ns| app_ns < from);
        let app = table.app_ns.get(first..).unwrap_or_default();
        let before = own.before_app_ns.get(first..).unwrap_or_default();
        let cpus = table.stack_cpu.get(first..).unwrap_or_default();
        let rows = app.iter().zip(before).zip(cpus).take(LOOK_AHEAD);
        let mut found = 0;
        for ((&app_ns, &before), &stack_cpu) in rows {
            if before == MISSING || stack_cpu != event.cpu {
                continue;
            }
            let stamp = app_ns - before;
            if stamp > to {
                break;
            }
            found += usize::from(stamp >= from);
            if found >= needed {
                return true;
            }
        }
        false
    }

    /// Cause of a thread that held a CPU for the stretch `from..to`.
    pub(crate) fn thread(&self, event: &EventRecord, own_threads: &[u32]) -> CauseKey {
        let class = Class::of(event.aux);
        let comm = self.names.task.get(&event.id).map_or("", String::as_str);
        if own_threads.contains(&event.id) {
            return CauseKey::new("tool", Detail::Thread(event.id, class));
        }
        if comm.starts_with("kworker/") {
            let work = self.longest(event, &[EventKind::Work]).map_or(0, |(function, _)| function);
            let id = match self.symbol(work) {
                "vmstat_update" | "vmstat_shepherd" => "vmstat",
                "wb_workfn" => "writeback",
                _ if comm.starts_with("kworker/u") => "wq-unbound",
                _ => "wq-bound",
            };
            return CauseKey::new(id, Detail::Work(event.id, work));
        }
        CauseKey::new(thread_source(comm, class), Detail::Thread(event.id, class))
    }
}

/// When timers that refill the receiver's quota had run, ascending. Where none is known to be its own, all may be.
fn refills_ns(events: &[EventRecord], names: &Names) -> Vec<i64> {
    let refills = |event: &&EventRecord| {
        event.kind == EventKind::Hrtimer as u8
            && names.symbol.get(&event.aux).is_some_and(|name| name.starts_with(QUOTA_TIMER))
    };
    let own = |event: &&EventRecord| event.detail & REFILLS_QUOTA != 0;
    let mut refills_ns: Vec<i64> = events.iter().filter(refills).filter(own).map(end_of).collect();
    if refills_ns.is_empty() {
        refills_ns = events.iter().filter(refills).map(end_of).collect();
    }
    refills_ns.sort_unstable();
    refills_ns
}

fn stacks(events: &[EventRecord]) -> BTreeMap<(u64, u32), Vec<u64>> {
    let mut stacks: BTreeMap<(u64, u32), Vec<u64>> = BTreeMap::new();
    for frame in events.iter().filter(|event| event.kind == EventKind::Frame as u8) {
        let stack = stacks.entry((frame.start_ns, frame.id)).or_default();
        let depth = usize::from(frame.detail);
        if stack.len() <= depth {
            stack.resize(depth + 1, 0);
        }
        stack[depth] = frame.aux;
    }
    stacks
}

/// Row of the catalogue for a thread of this name.
fn thread_source(comm: &str, class: Class) -> &'static str {
    const PREFIXES: [(&str, &str); 24] = [
        ("migration/", "stopper"),
        ("ksoftirqd/", "ksoftirqd"),
        ("irq/", "irqthreads"),
        ("irqbalance", "irqbalance"),
        ("napi/", "net-rx"),
        ("ktimers/", "timers"),
        ("rcuc/", "rcu-cb"),
        ("rcuo", "rcu-cb"),
        ("rcub/", "rcu-cb"),
        ("rcu_", "kthreads"),
        ("kcompactd", "compaction"),
        ("khugepaged", "thp"),
        ("ksmd", "ksm"),
        ("kdamond", "damon"),
        ("kswapd", "reclaim/swap"),
        ("watchdog/", "softlockup"),
        ("cpuhp/", "stopper"),
        ("idle_inject/", "thermal"),
        ("kipmi", "firmware-pollers"),
        ("kthreadd", "kthreads"),
        ("kauditd", "audit"),
        ("khungtaskd", "kthreads"),
        ("jbd2/", "writeback"),
        ("oom_reaper", "kthreads"),
    ];
    let known = PREFIXES.iter().find(|(prefix, _)| comm.starts_with(prefix)).map(|(_, id)| *id);
    known.unwrap_or(match class {
        Class::Normal => "cfs-preempt",
        Class::Deadline | Class::RealTime(_) => "rt-thread",
    })
}

/// Every identifier that attribution can give to a cause.
#[cfg(test)]
pub(crate) const EMITTED: &[&str] = &[
    "nmi-wd",
    "dev-irq",
    "timer-irq",
    "ipi-resched",
    "irq_work",
    "thermal",
    "mce",
    "vector-other",
    "tick",
    "softlockup",
    "quota",
    "rt-throttle",
    "dl-budget",
    "fair-server",
    "cs-watchdog",
    "timers",
    "tlb",
    "membarrier",
    "textpoke",
    "rcu-exp",
    "ipi-call",
    "softirq-other",
    "net-rx",
    "own-packets",
    "sched-softirq",
    "rcu-cb",
    "tool",
    "vmstat",
    "writeback",
    "wq-unbound",
    "wq-bound",
    "stopper",
    "ksoftirqd",
    "irqthreads",
    "irqbalance",
    "kthreads",
    "compaction",
    "thp",
    "ksm",
    "damon",
    "reclaim/swap",
    "firmware-pollers",
    "audit",
    "cfs-preempt",
    "rt-thread",
    "source-late",
    "arrival-late",
    "migration",
    "block-recv",
    "cstate",
    "faults",
    "stopped",
    "frozen",
    "traced",
    "own-sleep",
    "lock",
    "thread-end",
    "peer-wait",
    "disk",
    "kernel-wait",
    "kernel-work",
    "own-code",
    "own-call",
    "steal",
    "outside",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_identifier_is_in_the_catalogue() {
        for id in EMITTED {
            assert!(crate::catalogue::source(id).is_some(), "{id}");
        }
        // The list itself is checked against the text of the folder: no identifier may be forgotten.
        let sources = [
            include_str!("naming.rs"),
            include_str!("waiting.rs"),
            include_str!("engine.rs"),
            include_str!("asleep.rs"),
            include_str!("own.rs"),
            include_str!("steal.rs"),
            include_str!("outside.rs"),
        ];
        for source in crate::catalogue::sources() {
            let quoted = format!("\"{}\"", source.id);
            let count: usize = sources.iter().map(|text| text.matches(&quoted).count()).sum();
            assert!(count == 0 || EMITTED.contains(&source.id.as_str()), "{} is not listed", source.id);
        }
    }

    #[test]
    fn threads_are_told_by_name_and_priority() {
        assert_eq!(thread_source("ksoftirqd/1", Class::Normal), "ksoftirqd");
        assert_eq!(thread_source("migration/0", Class::RealTime(99)), "stopper");
        assert_eq!(thread_source("stress-ng", Class::Normal), "cfs-preempt");
        assert_eq!(thread_source("hog", Class::RealTime(50)), "rt-thread");
        assert_eq!(Class::of(49), Class::RealTime(50));
        assert_eq!(Class::of(120), Class::Normal);
        assert_eq!(Class::of(u64::from(u32::MAX)), Class::Deadline);
    }
}
