//! Causes at the level of threads: who ran while the receiver could have.

use super::scene::*;
use quaver_abi::record::{EventKind, EventRecord, OffCpu, Vector, WakeContext, Wakeup};

/// Stop of 205 µs that begins 1 µs before packet 50 would be read. Packets 50 to 69 wait; those less than 5 µs
/// late in the end are not late. The first window is 204.3 µs, and 300 ns of it are the way back to reading.
const LEFT: i64 = START_NS + 50 * PERIOD_NS + 1_000;
const BACK: i64 = LEFT + 205_000;

fn stopped(holder: &[EventRecord], reason: OffCpu, priority: u64) -> crate::model::PacketRun {
    let mut run = run(&[(LEFT, BACK)]);
    run.events = receiver_runs(priority, &[(LEFT, BACK, reason)]);
    run.events.extend_from_slice(holder);
    run.names.task = [(8, "hog".to_string()), (RECEIVER, "sink".to_string())].into();
    run
}

/// What a stop that is wholly explained by one cause must give.
fn whole(source: &str, name: &str, run: &crate::model::PacketRun) {
    let analysis = analyze(run);
    let late = analysis.late.len() as i64;
    assert!(late >= 20, "{late}");
    let (first, queued) = (BACK + SERVICE_NS - reading(50), (late - 1) * SERVICE_NS);
    assert_eq!(rows(&analysis), [(source, name, first + queued, SERVICE_NS, queued, late as u64)]);
    assert_eq!(analysis.summary.unexplained.time_ns, 0);
    assert_eq!(analysis.summary.causes[0].worst_ns, first);
    assert_eq!(analysis.summary.causes[0].example_seq, 50);
    assert_eq!(analysis.summary.causes[0].intervals, 1);
    assert_eq!(analysis.summary.causes[0].share, 1.0);
}

#[test]
fn nothing_happened_and_nothing_is_named() {
    let mut quiet = run(&[]);
    quiet.events = receiver_runs(120, &[]);
    quiet.events.push(event(EventKind::Irq, 1, reading(9), reading(9) + 800, 30, 0));
    let analysis = analyze(&quiet);
    assert!(analysis.late.is_empty() && analysis.summary.causes.is_empty());
    assert_eq!(analysis.summary.unexplained.share, 0.0);
    assert_eq!(analysis.summary.lateness.distribution.max_ns, 0);
    assert_eq!(analysis.summary.lateness.typical_path_ns, 2_000);
}

#[test]
fn a_fifo_thread_ran() {
    let hog = thread(8, 49, 1, LEFT, BACK, OffCpu::Blocked);
    whole("rt-thread", "thread hog (fifo 50)", &stopped(&[hog], OffCpu::Preempted, 120));
}

#[test]
fn a_thread_that_the_kernel_hides_ran() {
    // Neither the wake-up nor the switch away from it was seen: only that the receiver came next.
    let next = (u64::from(RECEIVER)) << 32;
    let hog = EventRecord { aux: next | 120, ..thread(8, 120, 1, LEFT, BACK, OffCpu::Unknown) };
    whole("cfs-preempt", "thread hog (normal)", &stopped(&[hog], OffCpu::Receiving, 120));
    let mut run = stopped(&[hog], OffCpu::Receiving, 49);
    (run.receiver.realtime, run.circumstances.fair_server) = (true, true);
    whole("kernel-work", "kernel work of thread hog", &run);
    let hog = EventRecord { aux: next | 9, ..hog };
    let mut run = stopped(&[hog], OffCpu::Receiving, 49);
    run.receiver.realtime = true;
    whole("rt-thread", "thread hog (fifo 90)", &run);
}

#[test]
fn a_thread_of_the_same_priority_ran() {
    let hog = thread(8, 120, 1, LEFT, BACK, OffCpu::Preempted);
    whole("cfs-preempt", "thread hog (normal)", &stopped(&[hog], OffCpu::Preempted, 120));
    let hog = thread(8, 49, 1, LEFT, BACK, OffCpu::Preempted);
    let mut run = stopped(&[hog], OffCpu::Preempted, 49);
    run.receiver.realtime = true;
    whole("rt-thread", "thread hog (fifo 50)", &run);
}

#[test]
fn our_own_thread_ran() {
    let mut run = stopped(&[thread(8, 120, 1, LEFT, BACK, OffCpu::Blocked)], OffCpu::Preempted, 120);
    run.circumstances.own_threads = vec![8];
    whole("tool", "thread hog (normal)", &run);
}

#[test]
fn kernel_threads_are_told_by_name() {
    let hog = thread(8, 120, 1, LEFT, BACK, OffCpu::Blocked);
    let mut run = stopped(&[hog], OffCpu::Preempted, 120);
    run.names.task.insert(8, "ksoftirqd/1".to_string());
    whole("ksoftirqd", "thread ksoftirqd/1 (normal)", &run);
    run.names.task.insert(8, "kworker/1:1-events".to_string());
    run.events.push(event(EventKind::Work, 1, LEFT + 500, BACK - 500, 8, 0xabc));
    run.names.symbol.insert(0xabc, "vmstat_update".to_string());
    whole("vmstat", "thread kworker/1:1 (vmstat_update)", &run);
    run.names.symbol.insert(0xabc, "do_something".to_string());
    whole("wq-bound", "thread kworker/1:1 (do_something)", &run);
}

#[test]
fn real_time_throttling_leaves_the_cpu_idle() {
    let mut run = stopped(&[thread(0, 120, 1, LEFT, BACK, OffCpu::Preempted)], OffCpu::Preempted, 49);
    run.receiver.realtime = true;
    run.circumstances.rt_throttling = true;
    whole("rt-throttle", "real-time throttling", &run);
    run.circumstances.fair_server = true;
    whole("rt-throttle", "real-time throttling", &run);
}

#[test]
fn a_wake_up_that_is_late_to_reach_a_halted_cpu_is_no_throttling() {
    let back = LEFT + 1_400_000;
    let by_source = |at: i64, cpu, detail| EventRecord {
        detail,
        aux: Wakeup { current: SOURCE, cpu: 1, context: WakeContext::Stream, number: 0 }.to_aux(),
        ..event(EventKind::Wakeup, cpu, at, at, RECEIVER, 0)
    };
    let queued_at = |queued_ns: i64, idles_on: bool| {
        let mut run = run(&[(LEFT, back)]);
        (run.receiver.realtime, run.receiver.blocking) = (true, true);
        run.circumstances.rt_throttling = true;
        run.events = receiver_runs(49, &[(LEFT, back, OffCpu::Receiving)]);
        run.events.extend([
            thread(0, 120, 1, LEFT, back, OffCpu::Preempted),
            event(EventKind::IdleState, 1, LEFT, queued_ns - 1_000, 1, 0),
            by_source(LEFT + 1_000, 0, 1),
            vector(Vector::CallFunctionSingle, 1, queued_ns - 500, queued_ns + 500),
            by_source(queued_ns, 1, 0),
        ]);
        let again = event(EventKind::IdleState, 1, queued_ns + 1_000, back - 1_000, 1, 0);
        run.events.extend(idles_on.then_some(again));
        let analysis = analyze(&run);
        let sources = analysis.summary.causes.iter().filter(|cause| cause.time_ns > 10_000);
        sources.map(|cause| (cause.source.clone(), cause.time_ns / 1_000_000)).collect::<Vec<_>>()
    };
    // The host runs the halted CPU late.
    assert_eq!(queued_at(back - 3_000, false), [("cstate".to_owned(), 1)]);
    // It stood in the queue of a CPU that went idle all the same, or that was held up on its way out of idle.
    assert_eq!(queued_at(LEFT + 5_000, true), [("rt-throttle".to_owned(), 1)]);
    assert_eq!(queued_at(LEFT + 5_000, false), [("block-recv".to_owned(), 1)]);
}

#[test]
fn a_normal_thread_before_a_real_time_one() {
    let mut run = stopped(&[thread(8, 120, 1, LEFT, BACK, OffCpu::Preempted)], OffCpu::Preempted, 49);
    run.receiver.realtime = true;
    run.circumstances.rt_throttling = true;
    whole("rt-throttle", "real-time throttling", &run);
    run.circumstances.fair_server = true;
    whole("fair-server", "fair server ran normal threads", &run);
}

#[test]
fn a_quota_leaves_the_cpu_idle() {
    let mut run = stopped(&[thread(0, 120, 1, LEFT, BACK, OffCpu::Preempted)], OffCpu::Preempted, 120);
    run.circumstances.quota_stops = 3;
    whole("quota", "CPU quota of the receiver's cgroup used up", &run);
}

#[test]
fn an_idle_cpu_without_a_limit_in_force_explains_nothing() {
    let run = stopped(&[thread(0, 120, 1, LEFT, BACK, OffCpu::Preempted)], OffCpu::Preempted, 120);
    let analysis = analyze(&run);
    assert!(analysis.summary.causes.is_empty());
    assert_eq!(analysis.summary.unexplained.share, 1.0);
    assert_eq!(analysis.summary.unexplained.packets, analysis.late.len() as u64);
}

#[test]
fn a_thread_that_was_not_recorded_leaves_its_time_unexplained() {
    let run = stopped(&[], OffCpu::Preempted, 120);
    let analysis = analyze(&run);
    assert!(analysis.summary.causes.is_empty());
    assert_eq!(analysis.summary.unexplained.example_seq, Some(50));
}

#[test]
fn a_migration_is_the_stopper_and_the_way_to_the_other_cpu() {
    let moved = LEFT + 80_000;
    let mut run = run(&[(LEFT, BACK)]);
    let after = run.packets.app_ns.iter().position(|&app| app > BACK).expect("packets after the stop");
    run.packets.app_cpu[after..].fill(2);
    run.events = vec![
        thread(RECEIVER, 120, 1, START_NS - 1_000, LEFT, OffCpu::Preempted),
        thread(9, 0, 1, LEFT, moved + 500, OffCpu::Blocked),
        event(EventKind::Migrate, 1, moved, moved, RECEIVER, 1 << 32 | 2),
        thread(0, 120, 2, START_NS - 1_000, BACK, OffCpu::Preempted),
        event(EventKind::Vector, 2, BACK - 2_000, BACK - 1_000, 2, 0),
        thread(RECEIVER, 120, 2, BACK, end(), OffCpu::Unknown),
    ];
    run.names.task = [(9, "migration/1".to_string())].into();
    let analysis = analyze(&run);
    assert_eq!(analysis.summary.unexplained.time_ns, 0);
    assert_eq!(analysis.summary.causes.len(), 1);
    assert_eq!(analysis.summary.causes[0].source, "migration");
    // Busy with another thread, the new CPU makes it wait: without the move it would not have stood there.
    run.events[3] = thread(8, 120, 2, START_NS - 1_000, BACK, OffCpu::Preempted);
    let busy = analyze(&run);
    assert_eq!(busy.summary.causes.len(), 1);
    assert_eq!(busy.summary.causes[0].source, "migration");
    // A softirq there delays the thread that runs, not the one that waits behind it.
    run.events.push(event(EventKind::Softirq, 2, BACK - 8_000, BACK - 5_000, 3, 0));
    assert_eq!(analyze(&run).summary.causes.len(), 1);
    // Not moved after all, it waits for the thread that took its CPU.
    let mut stayed = run.clone();
    stayed.events = vec![
        thread(RECEIVER, 120, 1, START_NS - 1_000, LEFT, OffCpu::Preempted),
        thread(8, 120, 1, LEFT, BACK, OffCpu::Preempted),
        thread(RECEIVER, 120, 1, BACK, end(), OffCpu::Unknown),
    ];
    assert_eq!(analyze(&stayed).summary.causes[0].source, "cfs-preempt");
}

/// Thread 8 preempts the receiver on CPU 1 and runs until `freed`; 80 µs after that the receiver is moved to CPU 2,
/// where thread 10 runs, and waits until [`BACK`].
fn preempted_then_moved(freed: i64) -> crate::model::PacketRun {
    let moved = LEFT + 80_000;
    let mut run = run(&[(LEFT, BACK)]);
    let after = run.packets.app_ns.iter().position(|&app| app > BACK).expect("packets after the stop");
    run.packets.app_cpu[after..].fill(2);
    let leaves = u64::from(8_u32) << 32 | 120;
    run.events = vec![
        thread(RECEIVER, leaves, 1, START_NS - 1_000, LEFT, OffCpu::Preempted),
        thread(8, 120, 1, LEFT, freed, OffCpu::Blocked),
        thread(0, 120, 1, freed, end(), OffCpu::Unknown),
        event(EventKind::Migrate, 1, moved, moved, RECEIVER, 1 << 32 | 2),
        thread(10, 120, 2, START_NS - 1_000, BACK, OffCpu::Preempted),
        thread(RECEIVER, 120, 2, BACK, end(), OffCpu::Unknown),
    ];
    run.names.task = [(8, "hog".to_string()), (10, "other".to_string())].into();
    run
}

#[test]
fn a_move_costs_nothing_while_the_preemptor_would_have_run_anyway() {
    let mut run = preempted_then_moved(BACK + 1_000);
    let only_the_hog = |run: &crate::model::PacketRun| {
        let analysis = analyze(run);
        assert_eq!(analysis.summary.unexplained.time_ns, 0);
        assert_eq!(analysis.summary.causes.len(), 1);
        assert_eq!(analysis.summary.causes[0].source, "cfs-preempt");
        assert_eq!(analysis.summary.causes[0].name, "thread hog (normal)");
    };
    only_the_hog(&run);
    // Nor does what interrupts the new CPU; what prolongs the preemptor's run does.
    run.events.push(event(EventKind::Softirq, 2, BACK - 8_000, BACK - 5_000, 9, 0));
    only_the_hog(&run);
    run.events.push(event(EventKind::Softirq, 1, BACK - 8_000, BACK - 5_000, 9, 0));
    let analysis = analyze(&run);
    assert!(rows(&analysis).iter().any(|row| (row.0, row.2) == ("rcu-cb", 3_000)), "{:?}", rows(&analysis));
}

#[test]
fn the_move_costs_what_comes_after_the_preemptor_left() {
    let freed = LEFT + 120_000;
    let run = preempted_then_moved(freed);
    let analysis = analyze(&run);
    assert_eq!(analysis.summary.unexplained.time_ns, 0);
    let pieces = analysis.pieces_of(&analysis.late[0]);
    let of = |source: &str| -> Vec<(i64, i64)> {
        let named = |cause: u32| analysis.summary.causes[cause as usize].source == source;
        pieces
            .iter()
            .filter(|piece| piece.cause.is_some_and(named) && piece.part == crate::attribution::Part::Body)
            .map(|piece| (piece.start_ns, piece.end_ns))
            .collect()
    };
    assert_eq!(of("cfs-preempt"), [(reading(50), freed)], "though it was moved 40 µs before");
    assert_eq!(of("migration"), [(freed, BACK)], "its own CPU was free, and it waited on another");
}

#[test]
fn preempted_again_where_it_ran_after_a_move_is_no_move() {
    // Moved to CPU 2 and at once at work there; 1 ms later another thread takes that CPU.
    let mut run = run(&[(LEFT, BACK)]);
    run.packets.app_cpu.fill(2);
    let moved = START_NS - 400_000;
    run.events = vec![
        thread(RECEIVER, 120, 1, START_NS - 500_000, moved, OffCpu::Preempted),
        event(EventKind::Migrate, 1, moved, moved, RECEIVER, 1 << 32 | 2),
        thread(RECEIVER, u64::from(8_u32) << 32 | 120, 2, moved, LEFT, OffCpu::Preempted),
        thread(8, 120, 2, LEFT, BACK, OffCpu::Preempted),
        thread(0, 120, 1, moved, end(), OffCpu::Unknown),
        thread(RECEIVER, 120, 2, BACK, end(), OffCpu::Unknown),
    ];
    run.names.task = [(8, "hog".to_string())].into();
    whole("cfs-preempt", "thread hog (normal)", &run);
}

#[test]
fn a_blocking_receiver_is_woken_late() {
    let wake = reading(60) - 1_000;
    let mut run = run(&[(wake, wake + 26_000)]);
    run.receiver.blocking = true;
    run.events = receiver_runs(120, &[(reading(59) + 200, wake + 26_000, OffCpu::Blocked)]);
    run.events.push(thread(0, 120, 1, reading(59) + 200, wake + 26_000, OffCpu::Preempted));
    run.events.push(event(EventKind::Wakeup, 0, wake, wake, RECEIVER, 1));
    run.events.push(event(EventKind::IdleState, 1, reading(59) + 900, wake + 16_000, 2, 0));
    let analysis = analyze(&run);
    let rows = rows(&analysis);
    assert_eq!(rows[0], ("cstate", "idle exit", 15_000 + 2 * SERVICE_NS, 0, 2 * SERVICE_NS, 3));
    // 10 µs after the idle state and 300 ns back to reading. Two packets queued behind the larger cause.
    assert_eq!((rows[1].0, rows[1].2), ("block-recv", 10_000 + SERVICE_NS));
    assert_eq!(
        rows[1].2 + rows[0].2 + analysis.summary.unexplained.time_ns,
        analysis.summary.lateness.time_ns
    );
    assert_eq!(rows[1].3, SERVICE_NS);
    assert_eq!(analysis.summary.unexplained.time_ns, 0);
}

#[test]
fn polling_is_no_idle_exit() {
    // As above, but the CPU polls (state 0) for 9 of the 26 µs, then is in state 1 for 5, and polls again for 2.
    let wake = reading(60) - 1_000;
    let mut run = run(&[(wake, wake + 26_000)]);
    run.receiver.blocking = true;
    run.events = receiver_runs(120, &[(reading(59) + 200, wake + 26_000, OffCpu::Blocked)]);
    run.events.push(thread(0, 120, 1, reading(59) + 200, wake + 26_000, OffCpu::Preempted));
    run.events.push(event(EventKind::Wakeup, 0, wake, wake, RECEIVER, 1));
    for (from, until, state) in [(0, 9_000, 0), (9_000, 14_000, 1), (14_000, 16_000, 0)] {
        run.events.push(event(EventKind::IdleState, 1, wake + from, wake + until, state, 0));
    }
    let analysis = analyze(&run);
    // The window begins 1 µs into the wait: 8 µs of polling, 2 more and 10 without a state are the wake-up's, with
    // 300 ns back to reading, and so are the two packets that queued.
    assert_eq!(
        rows(&analysis),
        [
            ("block-recv", "blocking wake-up", 20_000 + 3 * SERVICE_NS, SERVICE_NS, 2 * SERVICE_NS, 3),
            ("cstate", "idle exit", 5_000, 0, 0, 0),
        ]
    );
    assert_eq!(analysis.summary.unexplained.time_ns, 0);
}

#[test]
fn a_packet_in_the_socket_of_a_sleeping_receiver_waits_for_a_wake_up_that_was_not_recorded() {
    let sleeps = |blocking: bool, holder: u32| {
        let mut run = run(&[(LEFT, BACK)]);
        run.receiver.blocking = blocking;
        run.events = receiver_runs(120, &[(LEFT, BACK, OffCpu::Blocked)]);
        run.events.push(thread(holder, 120, 1, LEFT, BACK, OffCpu::Blocked));
        run.names.task = [(8, "hog".to_string())].into();
        run
    };
    whole("cfs-preempt", "thread hog (normal)", &sleeps(true, 8));
    whole("block-recv", "blocking wake-up", &sleeps(true, 0));
    // A receiver that polls its socket and sleeps between is not woken by a packet: its sleep is its own.
    let polls = analyze(&sleeps(false, 8));
    assert!(polls.summary.causes.is_empty());
    assert_eq!(polls.summary.unexplained.share, 1.0);
    // Without a stamp of the socket nothing says that a packet was there.
    let mut unstamped = sleeps(true, 8);
    unstamped.packets.layers.retain(|column| column.layer == crate::model::Layer::Schedule);
    let unstamped = analyze(&unstamped);
    assert!(unstamped.summary.causes.is_empty());
    assert_eq!(unstamped.summary.unexplained.share, 1.0);
}

#[test]
fn sleep_is_not_a_delay() {
    // No stamp says that the packet was there, and nobody woke the receiver: others may run as they like.
    let mut run = run(&[(LEFT, BACK)]);
    run.packets.layers.retain(|column| column.layer == crate::model::Layer::Schedule);
    run.events = receiver_runs(120, &[(LEFT, BACK, OffCpu::Blocked)]);
    run.events.push(thread(8, 120, 1, LEFT, BACK, OffCpu::Blocked));
    run.events.push(event(EventKind::Wakeup, 0, BACK - 4_000, BACK - 4_000, RECEIVER, 1));
    let analysis = analyze(&run);
    let rows = rows(&analysis);
    assert_eq!((rows[0].0, rows[0].2 - rows[0].3 - rows[0].4), ("cfs-preempt", 4_000));
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].3, 500 + SERVICE_NS, "entry up to the cap, exit to the reading");
}

#[test]
fn faults_of_the_receiver_have_their_learned_cost() {
    let from = reading(50) - 500;
    let mut run = run(&[(from, from + 30_000)]);
    run.events = receiver_runs(120, &[]);
    for number in 0..50 {
        let at = from + number * 600;
        run.events.push(event(EventKind::PageFault, 1, at, at, RECEIVER, 0x7000 + number as u64));
    }
    let analysis = analyze(&run);
    let rows = rows(&analysis);
    let late = rows[0].5 as i64;
    assert_eq!(
        rows,
        [(
            "faults",
            "page faults of the receiver",
            29_500 + late * SERVICE_NS,
            0,
            late * SERVICE_NS,
            late as u64
        )]
    );
    assert_eq!(
        analysis.summary.unexplained.time_ns, 0,
        "no entry or exit, but the reading pushed behind them"
    );
}
