//! What an interrupt, a softirq or a thread is called, row by row, and which record names it.

use super::scene::{event, thread, vector};
use crate::attribution::causes::{CauseKey, CauseTable};
use crate::attribution::naming::Namer;
use crate::attribution::timeline::Timeline;
use crate::model::{Layer, LayerColumn, MISSING, Names, PacketTable};
use quaver_abi::record::{EventKind, EventRecord, OffCpu, Vector};

/// Interval of every test here, on CPU 1.
const FROM: i64 = 1_000_000;
const TO: i64 = 1_020_000;

fn names(symbol: &str) -> Names {
    let task = [(8, "hog"), (9, "kworker/u9:1+flush"), (11, "kworker/1:0-mm")];
    Names {
        symbol: [(1, symbol.to_owned()), (2, "other_function".to_owned())].into(),
        task: task.map(|(id, comm)| (id, comm.to_owned())).into(),
        ..Names::default()
    }
}

/// Identifier and name of what `make` makes of the first event.
fn called(
    events: &[EventRecord],
    names: &Names,
    packets: Option<&PacketTable>,
    make: impl Fn(&Namer<'_>, &EventRecord) -> CauseKey,
) -> (String, String) {
    let timeline = Timeline::new(events);
    let namer = Namer::new(&timeline, names, packets);
    let mut table = CauseTable::default();
    table.intern(make(&namer, &events[0]), names);
    let cause = table.rank(1, None).0.remove(0);
    (cause.source, cause.name)
}

fn interruption(events: &[EventRecord], names: &Names) -> (String, String) {
    called(events, names, None, |namer, event| namer.interruption(event))
}

fn is(found: (String, String), id: &str, name: &str) {
    assert_eq!((found.0.as_str(), found.1.as_str()), (id, name));
}

#[test]
fn system_vectors() {
    for (which, id, name) in [
        (Vector::LocalTimer, "timer-irq", "local timer interrupt"),
        (Vector::Reschedule, "ipi-resched", "reschedule interrupt"),
        (Vector::CallFunction, "ipi-call", "function call"),
        (Vector::CallFunctionSingle, "ipi-call", "function call"),
        (Vector::IrqWork, "irq_work", "irq_work"),
        (Vector::Thermal, "thermal", "thermal interrupt"),
        (Vector::Threshold, "mce", "machine-check threshold interrupt"),
        (Vector::DeferredError, "mce", "deferred machine-check error"),
        (Vector::Spurious, "vector-other", "spurious interrupt"),
        (Vector::ErrorApic, "vector-other", "APIC error interrupt"),
        (Vector::Platform, "vector-other", "platform interrupt"),
    ] {
        is(interruption(&[vector(which, 1, FROM, TO)], &Names::default()), id, name);
    }
    let unknown = event(EventKind::Vector, 1, FROM, TO, 99, 0);
    is(interruption(&[unknown], &Names::default()), "vector-other", "unknown system interrupt");
    is(interruption(&[event(EventKind::Irq, 1, FROM, TO, 41, 0)], &Names::default()), "dev-irq", "irq 41");
    is(interruption(&[event(EventKind::Nmi, 1, FROM, TO, 0, 2)], &names("")), "nmi-wd", "NMI other_function");
}

#[test]
fn softirqs() {
    for (number, id, name) in [
        (0, "softirq-other", "HI softirq"),
        (1, "timers", "TIMER softirq"),
        (2, "net-rx", "NET_TX softirq"),
        (3, "net-rx", "NET_RX softirq of other traffic"),
        (4, "softirq-other", "BLOCK softirq"),
        (5, "softirq-other", "IRQ_POLL softirq"),
        (6, "softirq-other", "TASKLET softirq"),
        (7, "sched-softirq", "SCHED softirq"),
        (8, "timers", "HRTIMER softirq"),
        (9, "rcu-cb", "RCU softirq"),
        (10, "softirq-other", "unknown softirq"),
    ] {
        is(interruption(&[event(EventKind::Softirq, 1, FROM, TO, number, 0)], &Names::default()), id, name);
    }
}

#[test]
fn timers_are_named_by_their_function() {
    for (function, id, name) in [
        ("tick_nohz_handler", "tick", "scheduler tick"),
        ("tick_sched_timer", "tick", "scheduler tick"),
        ("tick_nohz_highres_handler.isra.0", "tick", "scheduler tick"),
        ("watchdog_timer_fn", "softlockup", "timer watchdog_timer_fn"),
        ("sched_cfs_period_timer", "quota", "timer sched_cfs_period_timer"),
        ("sched_cfs_slack_timer", "quota", "timer sched_cfs_slack_timer"),
        ("sched_rt_period_timer", "rt-throttle", "timer sched_rt_period_timer"),
        ("dl_task_timer", "fair-server", "timer dl_task_timer"),
        ("dl_server_timer", "fair-server", "timer dl_server_timer"),
        ("clocksource_watchdog", "cs-watchdog", "timer clocksource_watchdog"),
        ("hrtimer_wakeup", "timers", "timer hrtimer_wakeup"),
    ] {
        let inside = |kind| event(kind, 1, FROM + 100, TO - 100, 0, 1);
        let interrupt = vector(Vector::LocalTimer, 1, FROM, TO);
        is(interruption(&[interrupt, inside(EventKind::Hrtimer)], &names(function)), id, name);
        let softirq = event(EventKind::Softirq, 1, FROM, TO, 1, 0);
        is(interruption(&[softirq, inside(EventKind::Timer)], &names(function)), id, name);
        // A function of the other kind of timer says nothing.
        is(interruption(&[softirq, inside(EventKind::Hrtimer)], &names(function)), "timers", "TIMER softirq");
    }
}

#[test]
fn calls_from_other_cpus_are_named_by_their_function() {
    for (function, id, name) in [
        ("flush_tlb_func", "tlb", "TLB shootdown"),
        ("flush_tlb_func_remote", "tlb", "TLB shootdown"),
        ("do_flush_tlb_all", "tlb", "TLB shootdown"),
        ("do_kernel_range_flush", "tlb", "TLB shootdown"),
        ("ipi_mb", "membarrier", "membarrier"),
        ("ipi_sync_core", "membarrier", "membarrier"),
        ("ipi_rseq", "membarrier", "membarrier"),
        ("ipi_sync_rq_state", "membarrier", "membarrier"),
        ("do_sync_core", "textpoke", "code patching"),
        ("rcu_exp_handler", "rcu-exp", "expedited grace period"),
        ("rps_trigger_softirq", "net-rx", "NET_RX from another CPU"),
        ("clocksource_verify_percpu", "cs-watchdog", "function call clocksource_verify_percpu"),
        ("generic_smp_call_function_single_interrupt", "ipi-call", "function call"),
        ("__rdmsr_on_cpu", "ipi-call", "function call __rdmsr_on_cpu"),
    ] {
        let call = vector(Vector::CallFunctionSingle, 1, FROM, TO);
        let inside = event(EventKind::CrossCall, 1, FROM + 100, TO - 100, 0, 1);
        is(interruption(&[call, inside], &names(function)), id, name);
    }
}

#[test]
fn the_function_that_ran_longest_names_it() {
    let interrupt = vector(Vector::LocalTimer, 1, FROM, TO);
    let timer =
        |from: i64, to: i64, function| event(EventKind::Hrtimer, 1, FROM + from, FROM + to, 0, function);
    let named = |inside: &[EventRecord]| {
        let events: Vec<EventRecord> = [&[interrupt], inside].concat();
        interruption(&events, &names("first_function")).1
    };
    assert_eq!(named(&[timer(0, 500, 1), timer(600, 1_101, 2)]), "timer other_function");
    assert_eq!(named(&[timer(0, 500, 1), timer(600, 1_000, 2)]), "timer first_function");
    // Its runs are added up; those of equal time leave the lower address.
    assert_eq!(named(&[timer(0, 500, 1), timer(600, 900, 2), timer(950, 1_200, 2)]), "timer other_function");
    assert_eq!(named(&[timer(0, 500, 2), timer(600, 1_100, 1)]), "timer first_function");
    // Only what runs inside counts: before, behind, on another CPU it is another's, and a long one is cut at the end.
    assert_eq!(named(&[timer(-900, -1, 2), timer(0, 10, 1)]), "timer first_function");
    assert_eq!(named(&[timer(20_000, 29_000, 2), timer(0, 10, 1)]), "timer first_function");
    let elsewhere = EventRecord { cpu: 2, ..timer(0, 9_000, 2) };
    assert_eq!(named(&[elsewhere, timer(0, 10, 1)]), "timer first_function");
    assert_eq!(named(&[timer(19_900, 90_000, 2), timer(0, 101, 1)]), "timer first_function");
}

#[test]
fn a_sent_interrupt_is_the_nearest_of_its_sort_to_this_cpu() {
    let call = vector(Vector::CallFunction, 1, FROM, TO);
    let hog = thread(8, 120, 0, FROM - 100_000, FROM + 100_000, OffCpu::Unknown);
    let sent = |before: i64, target: u32, function: u64| {
        event(EventKind::IpiSend, 0, FROM - before, FROM - before, target, function)
    };
    let named = |sends: &[EventRecord]| {
        let events: Vec<EventRecord> = [&[call, hog], sends].concat();
        interruption(&events, &names("ipi_mb")).1
    };
    assert_eq!(named(&[sent(700, 1, 1)]), "membarrier from hog");
    assert_eq!(named(&[sent(0, 1, 1)]), "membarrier from hog");
    assert_eq!(named(&[sent(-1, 1, 1)]), "function call", "sent after it came");
    assert_eq!(named(&[sent(50_000, 1, 1)]), "membarrier from hog");
    assert_eq!(named(&[sent(50_001, 1, 1)]), "function call", "too long before");
    assert_eq!(named(&[sent(900, 1, 1), sent(700, 1, 2)]), "function call other_function from hog");
    assert_eq!(named(&[sent(900, 1, 1), sent(700, 2, 2)]), "membarrier from hog", "to another CPU");
    assert_eq!(named(&[sent(900, 1, 1), sent(700, 1, 0)]), "membarrier from hog", "a reschedule request");
    let to_many = |cpu: u16| EventRecord { detail: 1, cpu, ..sent(700, 3, 1) };
    assert_eq!(named(&[to_many(0)]), "membarrier from hog");
    assert_eq!(named(&[to_many(1)]), "function call", "to many, not to itself");
    // Of a reschedule request the function is none, and it is the only one that counts.
    let request = vector(Vector::Reschedule, 1, FROM, TO);
    let requested = |sends: &[EventRecord]| {
        let events: Vec<EventRecord> = [&[request, hog], sends].concat();
        interruption(&events, &names("ipi_mb")).1
    };
    assert_eq!(requested(&[sent(700, 1, 1)]), "reschedule interrupt");
    assert_eq!(requested(&[sent(700, 1, 0)]), "reschedule interrupt from hog");
    // 64 are looked at.
    let others = |count: i64| (1..=count).map(|n| sent(n, 2, 1)).chain([sent(700, 1, 1)]).collect::<Vec<_>>();
    assert_eq!(named(&others(63)), "membarrier from hog");
    assert_eq!(named(&others(64)), "function call");
}

#[test]
fn kernel_threads_are_named_by_what_they_do() {
    for (comm, id) in [
        ("migration/1", "stopper"),
        ("ksoftirqd/1", "ksoftirqd"),
        ("irq/41-card", "irqthreads"),
        ("irqbalance", "irqbalance"),
        ("napi/eth0-5", "net-rx"),
        ("ktimers/1", "timers"),
        ("rcuc/1", "rcu-cb"),
        ("rcuop/1", "rcu-cb"),
        ("rcub/0", "rcu-cb"),
        ("rcu_preempt", "kthreads"),
        ("kcompactd0", "compaction"),
        ("khugepaged", "thp"),
        ("ksmd", "ksm"),
        ("kdamond.0", "damon"),
        ("kswapd0", "reclaim/swap"),
        ("watchdog/1", "softlockup"),
        ("cpuhp/1", "stopper"),
        ("idle_inject/1", "thermal"),
        ("kipmi0", "firmware-pollers"),
        ("kthreadd", "kthreads"),
        ("kauditd", "audit"),
        ("khungtaskd", "kthreads"),
        ("jbd2/vda-8", "writeback"),
        ("oom_reaper", "kthreads"),
        ("hog", "cfs-preempt"),
    ] {
        let names = Names { task: [(8, comm.to_owned())].into(), ..Names::default() };
        let held = [thread(8, 120, 1, FROM, TO, OffCpu::Blocked)];
        let named = called(&held, &names, None, |namer, event| namer.thread(event, &[]));
        is(named, id, &format!("thread {comm} (normal)"));
        is(
            called(&held, &names, None, |namer, event| namer.thread(event, &[3, 8])),
            "tool",
            &format!("thread {comm} (normal)"),
        );
    }
    for (thread_id, function, id, name) in [
        (11, "vmstat_update", "vmstat", "thread kworker/1:0 (vmstat_update)"),
        (11, "vmstat_shepherd", "vmstat", "thread kworker/1:0 (vmstat_shepherd)"),
        (9, "wb_workfn", "writeback", "thread kworker/u9:1 (wb_workfn)"),
        (9, "some_work", "wq-unbound", "thread kworker/u9:1 (some_work)"),
        (11, "some_work", "wq-bound", "thread kworker/1:0 (some_work)"),
    ] {
        let held = [
            thread(thread_id, 120, 1, FROM, TO, OffCpu::Blocked),
            event(EventKind::Work, 1, FROM + 1, TO - 1, thread_id, 1),
        ];
        is(called(&held, &names(function), None, |namer, event| namer.thread(event, &[])), id, name);
    }
    let deadline = thread(8, u64::from(u32::MAX), 1, FROM, TO, OffCpu::Blocked);
    let named = called(&[deadline], &names(""), None, |namer, event| namer.thread(event, &[]));
    is(named, "rt-thread", "thread hog (deadline)");
    let unknown = thread(77, 0, 1, FROM, TO, OffCpu::Blocked);
    let named = called(&[unknown], &names(""), None, |namer, event| namer.thread(event, &[]));
    is(named, "rt-thread", "thread 77 (fifo 99)");
}

#[test]
fn a_softirq_is_the_streams_own_with_a_packet_for_each_ten_microseconds() {
    // 20 µs and less than 30 need three packets that entered the socket inside, on its CPU.
    let own = |stamps: &[i64], cpu: u16, length: i64, counted: u64| {
        let app_ns: Vec<i64> = (0..stamps.len() as i64).map(|n| TO + 50_000 + n).collect();
        let before = |(stamp, app): (&i64, &i64)| if *stamp == 0 { MISSING } else { app - (FROM + stamp) };
        let packets = PacketTable {
            seq: (0..stamps.len() as u64).collect(),
            app_cpu: vec![1; stamps.len()],
            stack_cpu: vec![cpu; stamps.len()],
            layers: vec![LayerColumn {
                layer: Layer::Enqueued,
                before_app_ns: stamps.iter().zip(&app_ns).map(before).collect(),
            }],
            app_ns,
        };
        let run = [event(EventKind::Softirq, 1, FROM, FROM + length, 3, counted)];
        let (id, name) =
            called(&run, &Names::default(), Some(&packets), |namer, event| namer.interruption(event));
        let nothing = counted == 1 && id != "own-packets";
        assert_eq!(name == "NET_RX softirq, no packet received", nothing);
        assert_eq!(name == "NET_RX softirq of the stream", id == "own-packets");
        id == "own-packets"
    };
    assert!(own(&[5, 6, 7], 1, 20_000, 0));
    assert!(!own(&[5, 6], 1, 20_000, 0));
    assert!(own(&[5, 6], 1, 19_999, 0));
    assert!(!own(&[5, 6, 7], 2, 20_000, 0), "another CPU's");
    assert!(own(&[-5, 6, 7, 20_000], 1, 20_000, 0), "the first is earlier, the last at its end");
    assert!(!own(&[-5, 6, 7, 20_001], 1, 20_000, 0));
    assert!(own(&[0, 6, 7, 8], 1, 20_000, 0), "one without a stamp");
    assert!(!own(&[0, 6, 7], 1, 20_000, 0));
    assert!(!own(&[], 1, 5, 0));
    // Where packets of others are counted (from 1 on), a run without any is the stream's however long it was.
    assert!(own(&[5], 1, 300_000, 1) && own(&[5, 6], 1, 20_000, 1));
    assert!(!own(&[5, 6], 1, 20_000, 2) && own(&[5, 6], 1, 19_999, 2));
    assert!(!own(&[], 1, 5_000, 1) && !own(&[5], 0, 5_000, 1));
}
