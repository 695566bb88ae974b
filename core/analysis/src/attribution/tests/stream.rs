//! Lateness that the packet brought along: source, stack, network.

use super::scene::*;
use crate::model::{Layer, LayerColumn, PacketRun};
use quaver_abi::record::{EventKind, OffCpu};

/// Delays `layers` and the reading of packet 50 by 8 µs, less than makes the next one wait.
fn delay_of_one(layers: &[Layer]) -> PacketRun {
    let delay = 8_000;
    let mut run = run(&[]);
    let row = 50;
    run.packets.app_ns[row] += delay;
    for column in &mut run.packets.layers {
        if !layers.contains(&column.layer) {
            column.before_app_ns[row] += delay;
        }
    }
    run.events = receiver_runs(120, &[]);
    run
}

#[test]
fn a_late_source_is_named_as_such() {
    let mut run = delay_of_one(&[Layer::Source, Layer::Enqueued]);
    assert_eq!(rows(&analyze(&run)), [("source-late", "source late", 8_000, 0, 0, 1)]);
    // A thread ran on its CPU while it was due.
    let due = reading(50) - 2_000;
    run.events.push(thread(SOURCE, 120, 0, START_NS - 1_000, due - 50, OffCpu::Preempted));
    run.events.push(thread(8, 120, 0, due - 50, due + 7_900, OffCpu::Blocked));
    run.events.push(thread(SOURCE, 120, 0, due + 7_900, end(), OffCpu::Unknown));
    run.names.task = [(8, "hog".to_string())].into();
    let analysis = analyze(&run);
    assert_eq!(
        rows(&analysis),
        [
            ("source-late", "source late: thread hog (normal) ran on its CPU", 7_800, 0, 0, 1),
            ("source-late", "source late", 200, 0, 0, 0),
        ]
    );
    let remedies = |run: &mut PacketRun, foreign: bool, blocking: bool| {
        let source = run.source.as_mut().unwrap();
        (source.foreign, source.blocking) = (foreign, blocking);
        let causes = analyze(run).summary.causes;
        causes.into_iter().map(|cause| cause.remedy.setting.unwrap_or_default()).collect::<Vec<_>>()
    };
    let of_others = [
        "real-time priority or a CPU of its own for the sender",
        "look at the sender's own work: no record shows what kept it",
    ];
    assert_eq!(remedies(&mut run, true, true), of_others);
    // One that spins on its CPU already can do no more against what nothing shows.
    let other_cpu = "--source-cpu with a CPU where that thread does not run";
    assert_eq!(remedies(&mut run, false, false), [other_cpu, ""]);
    assert_eq!(remedies(&mut run, false, true)[1], "--pace spin: the source sleeps between its packets");
    assert_eq!(analysis.summary.causes[0].stable_name(), "source late: hog (normal) ran on its CPU");
    // Two threads of one process are one cause, here as on the receiver's CPU.
    run.events.retain(|event| event.id != 8);
    run.events.push(thread(8, 120, 0, due - 50, due + 2_000, OffCpu::Blocked));
    run.events.push(thread(9, 120, 0, due + 2_000, due + 7_900, OffCpu::Blocked));
    run.names.task = [(8, "rustc".to_string()), (9, "opt".to_string())].into();
    run.names.process = [(8, 8), (9, 8)].into();
    let analysis = analyze(&run);
    let cause = &analysis.summary.causes[0];
    assert_eq!(
        (&*cause.name, cause.time_ns),
        ("source late: rustc, 2 threads (normal) ran on its CPU", 7_800)
    );
    assert_eq!(cause.stable_name(), "source late: rustc (normal) ran on its CPU");
    let threads: Vec<_> = cause.threads.iter().map(|one| (&*one.name, one.time_ns)).collect();
    assert_eq!(threads, [("thread opt (normal)", 5_900), ("thread rustc (normal)", 1_900)]);
}

#[test]
fn the_stack_was_kept_waiting_on_its_cpu() {
    let mut run = delay_of_one(&[Layer::Enqueued]);
    let sent = reading(50) - 1_900;
    run.events.push(event(EventKind::Irq, 0, sent + 300, sent + 7_700, 12, 0));
    let analysis = analyze(&run);
    // The typical 1400 ns from send to socket come first or last; the delay lies in what is beyond them.
    let cause = &analysis.summary.causes[0];
    assert_eq!((cause.source.as_str(), cause.name.as_str()), ("dev-irq", "irq 12"));
    assert_eq!(cause.time_ns + analysis.summary.unexplained.time_ns, 8_000);
    assert_eq!(analysis.summary.stages[1].excess_share, 1.0);
    assert_eq!(cause.time_ns - cause.entry_exit_ns, 6_300);
}

/// Packet 50 is 8 µs late, and not before it was about to enter the queue. The receiver is told of each packet 200 ns before it is
/// read, and of packet 50 this long before.
fn told_before(packet_50_ns: i64) -> PacketRun {
    let mut run = delay_of_one(&[]);
    let mut before_app_ns = vec![200; run.packets.len()];
    before_app_ns[50] = packet_50_ns;
    run.packets.layers.push(LayerColumn { layer: Layer::Ready, before_app_ns });
    let enqueued = reading(50) - 500;
    run.events.push(event(EventKind::Irq, 0, enqueued + 50, enqueued + 8_000, 12, 0));
    run.events.push(event(EventKind::Irq, 1, enqueued + 250, enqueued + 7_950, 13, 0));
    run
}

#[test]
fn a_stop_before_the_receiver_is_told_is_the_stacks() {
    let analysis = analyze(&told_before(200));
    let first = &analysis.summary.causes[0];
    assert_eq!((first.name.as_str(), first.time_ns - first.entry_exit_ns), ("irq 12", 7_700));
    assert_eq!(analysis.summary.causes.len(), 1, "{:?}", analysis.summary.causes);
}

#[test]
fn a_packet_that_is_read_before_the_receiver_is_told_was_in_the_queue() {
    let analysis = analyze(&told_before(-100));
    let first = &analysis.summary.causes[0];
    assert_eq!((first.name.as_str(), first.time_ns - first.entry_exit_ns), ("irq 13", 7_500));
    assert_eq!(analysis.summary.causes.len(), 1, "{:?}", analysis.summary.causes);
}

#[test]
fn a_foreign_stream_has_a_fitted_schedule() {
    let mut run = delay_of_one(&[Layer::Enqueued]);
    run.source = None;
    run.period_ns = None;
    for column in &mut run.packets.layers {
        if column.layer == Layer::Source {
            column.layer = Layer::Receive;
            column.before_app_ns = vec![600; run.packets.app_ns.len()];
        }
    }
    run.packets.layers.retain(|column| column.layer != Layer::Schedule);
    let analysis = analyze(&run);
    assert!(analysis.summary.period_learned);
    assert!((analysis.summary.period_ns - 10_000.0).abs() < 1.0, "{}", analysis.summary.period_ns);
    let rows = rows(&analysis);
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].0, rows[0].1), ("arrival-late", "late on arrival at this host"));
    assert!((rows[0].2 - 8_000).abs() <= 2, "{rows:?}");
}

#[test]
fn a_sender_of_this_host_is_late_and_not_the_network() {
    let mut run = delay_of_one(&[Layer::Enqueued]);
    run.period_ns = None;
    for column in &mut run.packets.layers {
        if column.layer == Layer::Source {
            column.layer = Layer::Receive;
            column.before_app_ns = vec![600; run.packets.app_ns.len()];
        }
    }
    run.packets.layers.retain(|column| column.layer != Layer::Schedule);
    // Another thread had the sender's CPU when the packet was due.
    let due = reading(50) - 600;
    run.events.push(thread(SOURCE, 120, 0, START_NS - 1_000, due - 50, OffCpu::Preempted));
    run.events.push(thread(8, 120, 0, due - 50, due + 7_900, OffCpu::Blocked));
    run.events.push(thread(SOURCE, 120, 0, due + 7_900, end(), OffCpu::Unknown));
    run.names.task = [(8, "hog".to_string())].into();
    let analysis = analyze(&run);
    let rows = rows(&analysis);
    assert_eq!((rows[0].0, rows[0].1), ("source-late", "source late: thread hog (normal) ran on its CPU"));
    assert!(rows.iter().all(|row| row.0 == "source-late"), "{rows:?}");
    assert!((rows[0].2 - 7_900).abs() <= 110, "{rows:?}");
}

#[test]
fn a_drifting_clock_of_another_host_makes_nothing_late() {
    let mut run = run(&[]);
    run.source = None;
    for column in &mut run.packets.layers {
        // The sender's clock loses 1 µs a packet, 100 ppm would be 1 ns.
        if column.layer != Layer::Enqueued {
            column.before_app_ns.iter_mut().zip(0..).for_each(|(before, number)| *before += number * 1_000);
        }
    }
    let analysis = analyze(&run);
    assert!(analysis.late.is_empty(), "{:?}", analysis.summary.lateness);
    assert_eq!(analysis.summary.lateness.distribution.max_ns, 0);
    // The source was 3 µs late with packet 50, and 4 more were lost on the way.
    run.packets.app_ns[50] += 7_000;
    for (column, delay) in run.packets.layers.iter_mut().zip([7_000, 4_000, 0]) {
        column.before_app_ns[50] += delay;
    }
    assert_eq!(
        rows(&analyze(&run)),
        [("source-late", "source late", 3_000, 0, 0, 0)],
        "the scene has no kernel stamp before the socket, so the rest stays unexplained"
    );
    assert_eq!(analyze(&run).summary.unexplained.time_ns, 4_000);
}

#[test]
fn layers_and_losses_are_counted() {
    let mut run = delay_of_one(&[Layer::Source, Layer::Enqueued]);
    run.counts.sent = Some(PACKETS as u64 + 3);
    run.counts.socket_dropped = Some(2);
    let summary = analyze(&run).summary;
    assert_eq!(summary.losses.socket_buffer, Some(2));
    assert_eq!(summary.losses.unaccounted, 1);
    let layers: Vec<_> = summary.layers.iter().map(|layer| (layer.layer, layer.delta_t.max_ns)).collect();
    assert_eq!(
        layers,
        [
            (Layer::Schedule, 10_000),
            (Layer::Source, 18_000),
            (Layer::Enqueued, 18_000),
            (Layer::Application, 18_000),
        ]
    );
    assert_eq!(summary.stages[0].excess_ns, 8_000);
    assert_eq!(summary.stages[0].excess_share, 1.0);
}

#[test]
fn an_empty_run_gives_an_empty_summary() {
    let analysis = analyze(&PacketRun::default());
    assert!(analysis.late.is_empty() && analysis.summary.layers.is_empty());
    assert_eq!(analysis.summary.lateness.packets, 0);
}
