//! Causes that interrupt the running receiver.

use super::scene::*;
use crate::model::PacketRun;
use quaver_abi::record::{EventKind, EventRecord, OffCpu, Vector};

const FROM: i64 = START_NS + 50 * PERIOD_NS + 1_000;

/// `count` interruptions of `length` each, 400 ns apart, from [`FROM`]; made by `make(start, end)`.
fn storm(count: i64, length: i64, make: impl Fn(i64, i64) -> Vec<EventRecord>) -> PacketRun {
    let until = FROM + count * (length + 400) - 400;
    let mut run = run(&[(FROM, until)]);
    run.events = receiver_runs(120, &[]);
    for number in 0..count {
        let start = FROM + number * (length + 400);
        run.events.extend(make(start, start + length));
    }
    run.names.task = [(8, "hog".to_string())].into();
    run.events.push(thread(8, 120, 0, START_NS - 1_000, end(), OffCpu::Unknown));
    run
}

/// All late time must go to this cause.
fn only(source: &str, name: &str, run: &PacketRun) {
    let analysis = analyze(run);
    let rows = rows(&analysis);
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!((rows[0].0, rows[0].1), (source, name));
    assert_eq!(rows[0].2, analysis.summary.lateness.time_ns);
    assert_eq!(analysis.summary.unexplained.time_ns, 0);
    assert!(analysis.late.len() > 2);
}

#[test]
fn a_device_interrupt_by_name() {
    let mut run = storm(20, 2_600, |from, to| vec![event(EventKind::Irq, 1, from, to, 41, 0)]);
    run.names.irq = [(41, "virtio3-rx".to_string())].into();
    only("dev-irq", "irq 41 virtio3-rx", &run);
    let analysis = analyze(&run);
    // The first window begins 1 µs into the first interruption.
    assert_eq!(analysis.summary.causes[0].intervals, 20);
    assert_eq!(analysis.summary.causes[0].worst_ns, 20 * 3_000 - 400 + SERVICE_NS - 1_000);
    let body = analysis.summary.causes[0].time_ns
        - analysis.summary.causes[0].entry_exit_ns
        - analysis.summary.causes[0].catch_up_ns;
    assert_eq!(body, 20 * 2_600 - 1_000);
    assert_eq!(analysis.summary.causes[0].entry_exit_ns, 19 * 400 + SERVICE_NS);
}

#[test]
fn timers_by_function() {
    let make = |from: i64, to: i64| {
        vec![
            event(EventKind::Hrtimer, 1, from + 200, to - 200, 0, 0x10),
            vector(Vector::LocalTimer, 1, from, to),
        ]
    };
    let mut run = storm(20, 2_600, make);
    for (function, source, name) in [
        ("hrtimer_wakeup", "timers", "timer hrtimer_wakeup"),
        ("tick_nohz_handler", "tick", "scheduler tick"),
        ("watchdog_timer_fn", "softlockup", "timer watchdog_timer_fn"),
        ("sched_cfs_period_timer", "quota", "timer sched_cfs_period_timer"),
        ("dl_task_timer", "fair-server", "timer dl_task_timer"),
    ] {
        run.names.symbol = [(0x10, function.to_string())].into();
        only(source, name, &run);
    }
    run.events.retain(|event| event.kind != EventKind::Hrtimer as u8);
    only("timer-irq", "local timer interrupt", &run);
}

#[test]
fn cross_calls_by_function_and_sender() {
    let make = |from: i64, to: i64| {
        vec![
            event(EventKind::CrossCall, 1, from + 200, to - 200, 0, 0x20),
            vector(Vector::CallFunction, 1, from, to),
            event(EventKind::IpiSend, 0, from - 800, from - 800, 1, 0x20),
        ]
    };
    let mut run = storm(20, 2_600, make);
    for (function, source, name) in [
        ("flush_tlb_func", "tlb", "TLB shootdown from hog"),
        ("ipi_mb", "membarrier", "membarrier from hog"),
        ("ipi_sync_core", "membarrier", "membarrier from hog"),
        ("do_sync_core", "textpoke", "code patching from hog"),
        ("rcu_exp_handler", "rcu-exp", "expedited grace period from hog"),
        ("__rdmsr_on_cpu", "ipi-call", "function call __rdmsr_on_cpu from hog"),
    ] {
        run.names.symbol = [(0x20, function.to_string())].into();
        only(source, name, &run);
    }
    // Without the call's own record the sender's callback names it; without both it is a call of no name.
    run.names.symbol = [(0x20, "flush_tlb_func".to_string())].into();
    run.events.retain(|event| event.kind != EventKind::CrossCall as u8);
    only("tlb", "TLB shootdown from hog", &run);
    run.events.retain(|event| event.kind != EventKind::IpiSend as u8);
    only("ipi-call", "function call", &run);
}

#[test]
fn a_tlb_flush_point_names_the_call_around_it() {
    let run = storm(20, 2_600, |from, to| {
        vec![
            vector(Vector::CallFunctionSingle, 1, from, to),
            event(EventKind::TlbFlush, 1, from + 900, from + 900, 1, 33),
        ]
    });
    only("tlb", "TLB shootdown", &run);
}

#[test]
fn reschedule_interrupts_by_sender() {
    let run = storm(20, 2_600, |from, to| {
        vec![
            vector(Vector::Reschedule, 1, from, to),
            event(EventKind::IpiSend, 0, from - 700, from - 700, 1, 0),
            event(EventKind::IpiSend, 0, from - 600, from - 600, 3, 0),
        ]
    });
    only("ipi-resched", "reschedule interrupt from hog", &run);
}

#[test]
fn net_rx_of_another_flow_and_of_our_own() {
    let make = |from: i64, to: i64| vec![event(EventKind::Softirq, 1, from, to, 3, 0)];
    let mut run = storm(20, 2_600, make);
    only("net-rx", "NET_RX softirq of other traffic", &run);
    // The same softirqs, each of which put one of our packets into the socket on that CPU.
    run.packets.stack_cpu.fill(1);
    let enqueued = run.packets.layers.iter().position(|c| c.layer == crate::model::Layer::Enqueued);
    let column = enqueued.expect("the scene has it");
    for number in 0..20 {
        let row = 50 + number as usize;
        let stamp = FROM + number * 3_000 + 1_000;
        run.packets.layers[column].before_app_ns[row] = run.packets.app_ns[row] - stamp;
    }
    let analysis = analyze(&run);
    let own: Vec<_> = analysis.summary.causes.iter().map(|cause| cause.source.as_str()).collect();
    assert!(own.contains(&"own-packets"), "{own:?}");
    assert!(!own.contains(&"net-rx"), "{own:?}");
}

#[test]
fn softirqs_by_vector() {
    for (vector, source) in
        [(1, "timers"), (4, "softirq-other"), (6, "softirq-other"), (7, "sched-softirq"), (9, "rcu-cb")]
    {
        let run = storm(20, 2_600, |from, to| vec![event(EventKind::Softirq, 1, from, to, vector, 0)]);
        assert_eq!(analyze(&run).summary.causes[0].source, source);
    }
}

#[test]
fn the_innermost_interval_has_the_time() {
    let run = storm(1, 60_000, |from, to| {
        vec![
            event(EventKind::Softirq, 1, from, to, 7, 0),
            event(EventKind::Irq, 1, from + 10_000, from + 30_000, 41, 0),
            event(EventKind::Nmi, 1, from + 20_000, from + 25_000, 0, 0),
        ]
    });
    let analysis = analyze(&run);
    let body = |source: &str| {
        let cause = analysis.summary.causes.iter().find(|cause| cause.source == source);
        cause.map(|cause| cause.time_ns - cause.entry_exit_ns - cause.catch_up_ns)
    };
    assert_eq!(body("sched-softirq"), Some(39_000));
    assert_eq!(body("dev-irq"), Some(15_000));
    assert_eq!(body("nmi-wd"), Some(5_000));
}

#[test]
fn interruptions_of_another_cpu_do_not_matter() {
    let run = storm(20, 2_600, |from, to| vec![event(EventKind::Irq, 3, from, to, 41, 0)]);
    let analysis = analyze(&run);
    assert!(analysis.summary.causes.is_empty());
    assert_eq!(analysis.summary.unexplained.share, 1.0);
}

#[test]
fn entry_and_exit_have_a_cap() {
    let mut run =
        storm(1, 20_000, |from, to| vec![event(EventKind::Irq, 1, from + 5_000, to - 5_000, 41, 0)]);
    let edges = |run: &PacketRun| analyze(run).summary.causes[0].entry_exit_ns;
    assert_eq!(edges(&run), 1_000);
    run.circumstances.virtual_machine = true;
    assert_eq!(edges(&run), 3_000);
    assert!(analyze(&run).summary.unexplained.note.contains("hypervisor or hardware"));
}

#[test]
fn what_stood_beside_a_deleted_interruption_grows_by_the_cap_at_most() {
    let mut run = storm(1, 40_000, |from, to| {
        vec![
            event(EventKind::Irq, 1, from, from + 20_000, 41, 0),
            event(EventKind::Irq, 1, from + 20_000, to, 42, 0),
        ]
    });
    let time = |run: &PacketRun, name: &str| {
        analyze(run).summary.causes.iter().find(|cause| cause.name == name).map_or((0, 0, 0), |cause| {
            (cause.time_ns - cause.entry_exit_ns - cause.catch_up_ns, cause.entry_exit_ns, cause.catch_up_ns)
        })
    };
    let (body, edges, _) = time(&run, "irq 41");
    assert_eq!((body, edges), (19_000, 0));
    assert_eq!(time(&run, "irq 42").0, 20_000);
    run.events.retain(|event| event.id != 42);
    let (body, edges, _) = time(&run, "irq 41");
    assert_eq!((body, edges), (19_000, 500));
    assert_eq!(time(&run, "irq 42"), (0, 0, 0));
    let summary = analyze(&run).summary;
    assert_eq!(summary.causes.len(), 1);
    // And by the reading that it is taken to have displaced: one catch-up cap, twice the service time.
    assert!(summary.unexplained.time_ns >= 20_000 - 500 - 2 * SERVICE_NS);
}
