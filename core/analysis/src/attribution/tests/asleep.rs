//! A receiver that sleeps while packets wait: what it slept for has the time, whoever ran meanwhile.

use super::scene::*;
use crate::attribution::PacketAnalysis;
use crate::model::{PacketRun, PacketTable, Unread};
use quaver_abi::record::{
    EventKind, EventRecord, OffCpu, Sleep, SleepObject, Vector, WakeContext, Wakeup, served,
};

const LEFT: i64 = START_NS + 50 * PERIOD_NS + 1_000;
const WOKEN: i64 = LEFT + 200_000;
const BACK: i64 = WOKEN + 5_000;
const WORKER: u32 = 8;
const HOG: u32 = 9;

fn wakeup(thread: u32, at: i64, context: WakeContext, current: u32) -> EventRecord {
    let aux = Wakeup { current, cpu: 1, context, number: 0 }.to_aux();
    EventRecord { detail: 1, ..event(EventKind::Wakeup, 0, at, at, thread, aux) }
}

fn sleep(thread: u32, at: i64, object: SleepObject) -> EventRecord {
    let aux = Sleep { call: Some(1), object: 0 }.to_aux();
    EventRecord { detail: object as u8, ..event(EventKind::Sleep, 1, at, at, thread, aux) }
}

/// The receiver is off its CPU from `LEFT` to `BACK` while a hog runs there.
fn run_with(reason: OffCpu, events: &[EventRecord]) -> PacketRun {
    let mut run = run(&[(LEFT, BACK)]);
    run.receiver.blocking = true;
    run.events = receiver_runs(120, &[(LEFT, BACK, reason)]);
    run.events.push(thread(HOG, 120, 1, LEFT, BACK, OffCpu::Preempted));
    run.events.extend_from_slice(events);
    run.names.task = [(WORKER, "worker".to_string()), (HOG, "hog".to_string())].into();
    run
}

fn analyzed(reason: OffCpu, events: &[EventRecord]) -> PacketAnalysis {
    analyze(&run_with(reason, events))
}

/// Source, name and own time of each cause.
fn causes(analysis: &PacketAnalysis) -> Vec<(&str, &str, i64)> {
    rows(analysis)
        .into_iter()
        .map(|(source, name, time, edges, late, _)| (source, name, time - edges - late))
        .collect()
}

/// The sleep has its time, and the hog what it ran after the wake-up.
fn slept_for(source: &str, name: &str, reason: OffCpu, events: &[EventRecord]) {
    let analysis = analyzed(reason, events);
    let expected =
        [(source, name, WOKEN - reading(50)), ("cfs-preempt", "thread hog (normal)", BACK - WOKEN)];
    assert_eq!(causes(&analysis), expected);
}

#[test]
fn who_runs_beside_a_sleeper_is_not_blamed() {
    let timer = wakeup(RECEIVER, WOKEN, WakeContext::Timer, HOG);
    let task = wakeup(RECEIVER, WOKEN, WakeContext::Task, WORKER);
    let at = |object| sleep(RECEIVER, LEFT, object);
    slept_for("own-sleep", "sleep of the receiver itself", OffCpu::Blocked, &[at(SleepObject::Clock), timer]);
    for object in [SleepObject::Futex, SleepObject::Peer, SleepObject::Socket, SleepObject::Unknown] {
        let ran_out = [at(object), timer];
        slept_for("own-sleep", "timed wait of the receiver ran out", OffCpu::Blocked, &ran_out);
    }
    for object in [SleepObject::Peer, SleepObject::Unknown] {
        let name = "receiver waited for another thread or process (thread worker)";
        slept_for("peer-wait", name, OffCpu::Blocked, &[at(object), task]);
    }
    slept_for("own-sleep", "poll of the receiver timed out", OffCpu::Polling, &[timer]);
    slept_for("stopped", "receiver stopped by a signal", OffCpu::Stopped, &[task]);
    slept_for("frozen", "receiver frozen by its cgroup", OffCpu::Frozen, &[task]);
    slept_for("traced", "receiver held by ptrace from worker", OffCpu::Traced, &[task]);
    let pipe = [at(SleepObject::Pipe), task];
    slept_for("peer-wait", "receiver waited for a pipe (thread worker)", OffCpu::Blocked, &pipe);
    let disk = [at(SleepObject::File), timer];
    slept_for("disk", "wait for a disk or file system", OffCpu::Blocked, &disk);
    let served = [at(SleepObject::File), task];
    let name = "wait for a disk or file system, ended by thread worker";
    slept_for("disk", name, OffCpu::Blocked, &served);
    let answered = [at(SleepObject::Unknown), task];
    let name = "wait in the kernel, ended by thread worker";
    slept_for("kernel-wait", name, OffCpu::Uninterruptible, &answered);
}

#[test]
fn a_worker_of_io_uring_is_followed_to_the_disk_that_it_waits_for() {
    let given_ns = reading(50) + 20_000;
    let awaited = |comm: &str| {
        let mut run = run_with(OffCpu::Polling, &[wakeup(RECEIVER, WOKEN, WakeContext::Task, WORKER)]);
        run.names.task.insert(WORKER, comm.to_owned());
        run.events.push(thread(WORKER, 120, 0, LEFT, given_ns, OffCpu::Uninterruptible));
        run.events.push(sleep(WORKER, given_ns, SleepObject::File));
        run.events.push(wakeup(WORKER, WOKEN - 1_000, WakeContext::Interrupt, 0));
        run.events.push(thread(WORKER, 120, 0, WOKEN - 1_000, WOKEN + 500, OffCpu::Blocked));
        let analysis = analyze(&run);
        let asleep = |row: &(&str, &str, i64)| (row.0.to_owned(), row.2);
        let mut rows: Vec<_> = causes(&analysis).iter().map(asleep).collect();
        rows.retain(|row| row.0 != "cfs-preempt");
        rows
    };
    let disk_ns = WOKEN - 1_000 - given_ns;
    let rest_ns = WOKEN - reading(50) - disk_ns;
    let row = |source: &str, time_ns| (source.to_owned(), time_ns);
    assert_eq!(awaited("iou-wrk-17"), [row("disk", disk_ns), row("peer-wait", rest_ns)]);
    assert_eq!(
        awaited("writer"),
        [row("peer-wait", WOKEN - reading(50))],
        "its own thread serves others too"
    );
}

#[test]
fn an_interrupted_thread_is_no_waker() {
    // The timer's interrupt came while the hog ran.
    let pipe =
        [sleep(RECEIVER, LEFT, SleepObject::Pipe), wakeup(RECEIVER, WOKEN, WakeContext::Interrupt, HOG)];
    slept_for("peer-wait", "receiver waited for a pipe", OffCpu::Blocked, &pipe);
}

#[test]
fn a_sleep_for_the_stream_is_a_wake_up() {
    let stream = wakeup(RECEIVER, WOKEN, WakeContext::Stream, 0);
    for reason in [OffCpu::Receiving, OffCpu::Polling] {
        let analysis = analyzed(reason, &[stream]);
        assert_eq!(causes(&analysis), [("cfs-preempt", "thread hog (normal)", BACK - reading(50))]);
    }
}

#[test]
fn a_poll_that_began_behind_a_queued_packet_did_not_ask_for_it() {
    // A packet ends the first poll; the receiver reads nothing and polls again, until the next packet, and so on.
    let (first, again) = (reading(50) + 10_000, reading(50) + 15_000);
    let analyzed = |foreign: bool, reason: OffCpu| {
        let mut run = run(&[(LEFT, BACK)]);
        (run.receiver.blocking, run.receiver.foreign) = (true, foreign);
        run.events = receiver_runs(120, &[(LEFT, first, reason), (again, BACK, reason)]);
        run.events.push(wakeup(RECEIVER, LEFT + 3_000, WakeContext::Stream, 0));
        run.events.push(wakeup(RECEIVER, WOKEN, WakeContext::Stream, 0));
        run.events.push(thread(0, 120, 1, LEFT, first, OffCpu::Preempted));
        run.events.push(thread(0, 120, 1, again, BACK, OffCpu::Preempted));
        let analysis = analyze(&run);
        let slept =
            causes(&analysis).iter().find(|row| row.0 == "own-sleep").map(|row| (row.1.to_owned(), row.2));
        let woken = causes(&analysis).iter().find(|row| row.0 == "block-recv").map(|row| row.2);
        (slept, woken)
    };
    let name = "receiver slept while packets were in its socket".to_owned();
    assert_eq!(analyzed(true, OffCpu::Polling), (Some((name, BACK - again)), Some(first - reading(50))));
    let all = Some(BACK - again + first - reading(50));
    assert_eq!(analyzed(false, OffCpu::Polling), (None, all), "a sink of ours reads all there is");
    assert_eq!(analyzed(true, OffCpu::Receiving), (None, all), "what it asks for is there");
}

#[test]
fn a_poll_that_no_wake_up_ends_did_not_ask_for_the_packet_in_the_socket() {
    // A thread that the kernel hides had the CPU when the timer ended the poll, so that wake-up was not recorded.
    let analyzed = |recorded: bool| {
        let earlier = [wakeup(RECEIVER, START_NS - 1_000, WakeContext::Stream, 0)];
        let mut run = run_with(OffCpu::Polling, if recorded { &earlier } else { &[] });
        run.receiver.foreign = true;
        let analysis = analyze(&run);
        let first = causes(&analysis)[0];
        (first.0.to_owned(), first.1.to_owned(), first.2)
    };
    let row = |source: &str, name: &str| (source.to_owned(), name.to_owned(), BACK - reading(50));
    let slept = row("own-sleep", "receiver slept while packets were in its socket");
    assert_eq!(analyzed(true), slept);
    assert_eq!(analyzed(false), row("cfs-preempt", "thread hog (normal)"), "no wake-up of it is recorded");
}

#[test]
fn a_receive_call_that_takes_several_packets_waits_for_the_last() {
    let analyzed = |batched: bool, reason: OffCpu| {
        // It slept before the packets of the window came, has the first, and sleeps again.
        let mut run = run(&[(LEFT, BACK)]);
        (run.receiver.blocking, run.receiver.foreign) = (true, true);
        if batched {
            let stop = 50..=70;
            for row in stop.clone() {
                let read_ns = run.packets.app_ns[70];
                let moved = read_ns - run.packets.app_ns[row];
                run.packets.app_ns[row] = read_ns;
                run.packets.layers.iter_mut().for_each(|layer| layer.before_app_ns[row] += moved);
            }
        }
        let (first, again) = (reading(50) + 10_000, reading(50) + 15_000);
        run.events = receiver_runs(120, &[(LEFT, first, reason), (again, BACK, reason)]);
        run.events.push(wakeup(RECEIVER, first, WakeContext::Stream, 0));
        run.events.push(wakeup(RECEIVER, BACK, WakeContext::Stream, 0));
        let analysis = analyze(&run);
        causes(&analysis).iter().find(|row| row.0 == "own-sleep").map(|row| (row.1.to_owned(), row.2))
    };
    let name = "receive call waits for more packets (recvmmsg without MSG_WAITFORONE)".to_owned();
    assert_eq!(analyzed(true, OffCpu::Receiving), Some((name, BACK - reading(50) - 15_000)));
    assert_eq!(analyzed(false, OffCpu::Receiving), None);
}

#[test]
fn before_a_thread_began_the_reader_before_it_was_the_receiver() {
    const SECOND: u32 = 17;
    let born = reading(50) + 150_000;
    let slept = |woken: bool| {
        // The first thread waits for a disk and ends; the second, made by it, reads on.
        let mut run = run(&[(LEFT, BACK)]);
        run.receiver.threads.push(SECOND);
        run.events = vec![
            thread(RECEIVER, 120, 1, START_NS - 500_000, LEFT, OffCpu::Blocked),
            sleep(RECEIVER, LEFT, SleepObject::File),
            wakeup(RECEIVER, born - 1_000, WakeContext::Interrupt, 0),
            thread(RECEIVER, 120, 1, born - 1_000, born, OffCpu::Exited),
            thread(SECOND, 120, 1, born, end(), OffCpu::Unknown),
        ];
        run.events.extend(woken.then(|| wakeup(SECOND, born - 500, WakeContext::Task, RECEIVER)));
        causes(&analyze(&run)).iter().find(|row| row.0 == "disk").map(|row| row.2)
    };
    assert_eq!(slept(false), Some(born - 1_000 - reading(50)));
    assert_eq!(slept(true), None, "it was there before, and nothing tells what it did");
}

#[test]
fn what_the_stream_wakes_slept_for_it_in_whatever_call() {
    for object in [SleepObject::Peer, SleepObject::Unknown, SleepObject::Futex] {
        let woken = wakeup(RECEIVER, LEFT + 3_000, WakeContext::Stream, HOG);
        let mut run = run_with(OffCpu::Blocked, &[sleep(RECEIVER, LEFT, object), woken]);
        run.receiver.foreign = true;
        let holder =
            run.events.iter_mut().find(|event| event.kind == EventKind::Thread as u8 && event.id == HOG);
        holder.unwrap().id = 0;
        let analysis = analyze(&run);
        assert_eq!(causes(&analysis), [("block-recv", "blocking wake-up", BACK - reading(50))], "{object:?}");
    }
}

#[test]
fn a_foreign_sleep_without_a_record_is_for_packets_only_if_one_ends_it_at_once() {
    let woken_of = |foreign, at| {
        let mut run = run_with(OffCpu::Blocked, &[wakeup(RECEIVER, at, WakeContext::Unknown, 0)]);
        run.receiver.foreign = foreign;
        analyze(&run)
    };
    let ours = woken_of(false, WOKEN);
    assert_eq!(causes(&ours), [("cfs-preempt", "thread hog (normal)", BACK - reading(50))]);
    let woken = |at| woken_of(true, at);
    let hogs_ns = |analysis: &PacketAnalysis| {
        causes(analysis).iter().find(|row| row.0 == "cfs-preempt").map(|row| row.2)
    };
    let late = woken(WOKEN);
    assert_eq!(hogs_ns(&late), Some(BACK - WOKEN));
    assert!(late.summary.unexplained.time_ns > WOKEN - reading(50) - 5_000, "not the hog's");
    let prompt = woken(reading(50) + 40_000);
    assert_eq!(hogs_ns(&prompt), Some(BACK - reading(50)));
}

#[test]
fn a_lock_is_followed_to_what_its_holder_did() {
    // The worker holds the lock: it runs, is preempted by the hog, sleeps, and lets go.
    let cut = [reading(50) + 50_000, reading(50) + 90_000, reading(50) + 150_000];
    let mut events = vec![
        sleep(RECEIVER, LEFT, SleepObject::Futex),
        wakeup(RECEIVER, WOKEN, WakeContext::Task, WORKER),
        thread(WORKER, 120, 2, LEFT - 1_000, cut[0], OffCpu::Preempted),
        thread(HOG, 120, 2, cut[0], cut[1], OffCpu::Blocked),
        thread(WORKER, 120, 2, cut[1], cut[2], OffCpu::Blocked),
        sleep(WORKER, cut[2], SleepObject::Clock),
        wakeup(WORKER, WOKEN - 10_000, WakeContext::Timer, 0),
        thread(WORKER, 120, 2, WOKEN - 10_000, end(), OffCpu::Unknown),
    ];
    let analysis = analyzed(OffCpu::Blocked, &events);
    let ran = (cut[0] - reading(50)) + (cut[2] - cut[1]) + 10_000;
    assert_eq!(
        causes(&analysis),
        [
            ("lock", "lock or condition of thread worker, which ran", ran),
            ("lock", "lock or condition of thread worker, which waited while hog ran", cut[1] - cut[0]),
            ("lock", "lock or condition of thread worker, which slept", WOKEN - 10_000 - cut[2]),
            ("cfs-preempt", "thread hog (normal)", BACK - WOKEN),
        ]
    );
    // Nothing is recorded of the holder.
    events.truncate(2);
    let unknown = analyzed(OffCpu::Blocked, &events);
    assert_eq!(causes(&unknown)[0], ("lock", "lock or condition of thread worker", WOKEN - reading(50)));
}

#[test]
fn what_a_holder_did_from_lost_records_until_its_next_run_is_unknown() {
    let runs_again = WOKEN - 10_000;
    let mut run = run_with(
        OffCpu::Blocked,
        &[
            sleep(RECEIVER, LEFT, SleepObject::Futex),
            wakeup(RECEIVER, WOKEN, WakeContext::Task, WORKER),
            thread(WORKER, 120, 2, LEFT - 9_000, LEFT - 8_000, OffCpu::Blocked),
            sleep(WORKER, LEFT - 8_000, SleepObject::Clock),
            wakeup(WORKER, runs_again, WakeContext::Timer, 0),
            thread(WORKER, 120, 2, runs_again, end(), OffCpu::Unknown),
        ],
    );
    let slept = "lock or condition of thread worker, which slept";
    assert_eq!(causes(&analyze(&run))[0], ("lock", slept, runs_again - reading(50)));
    run.circumstances.holes = vec![(LEFT - 7_000, LEFT - 6_000)];
    let unknown = ("lock", "lock or condition of thread worker", runs_again - reading(50));
    assert_eq!(causes(&analyze(&run))[0], unknown);
}

#[test]
fn a_thread_that_is_joined_is_no_lock() {
    // The worker computes, waits for a lock of the helper, and ends; the receiver joins it.
    const HELPER: u32 = 4_007;
    let cut = [reading(50) + 50_000, WOKEN - 10_000];
    let ending = Wakeup { current: WORKER, cpu: 1, context: WakeContext::Task, number: Wakeup::ENDING };
    let events = [
        sleep(RECEIVER, LEFT, SleepObject::Futex),
        EventRecord { aux: ending.to_aux(), ..wakeup(RECEIVER, WOKEN, WakeContext::Task, WORKER) },
        thread(WORKER, 120, 2, LEFT - 1_000, cut[0], OffCpu::Blocked),
        sleep(WORKER, cut[0], SleepObject::Futex),
        wakeup(WORKER, cut[1], WakeContext::Task, HELPER),
        thread(WORKER, 120, 2, cut[1], end(), OffCpu::Exited),
        wakeup(HELPER, LEFT - 1_000, WakeContext::Task, 0),
        thread(HELPER, 120, 3, LEFT - 1_000, end(), OffCpu::Unknown),
    ];
    let analysis = analyzed(OffCpu::Blocked, &events);
    assert_eq!(
        causes(&analysis)[..2],
        [
            ("lock", "lock or condition of thread 4007, which ran", cut[1] - cut[0]),
            ("thread-end", "end of thread worker, which ran", cut[0] - reading(50) + 10_000),
        ]
    );
}

#[test]
fn a_wait_that_runs_out_and_begins_again_is_for_who_lets_go_in_the_end() {
    let cut = reading(50) + 80_000;
    let again = cut + 3_000;
    let at_word = |at, object: u64| EventRecord {
        aux: Sleep { call: Some(202), object }.to_aux(),
        ..sleep(RECEIVER, at, SleepObject::Futex)
    };
    let waits = |last: EventRecord, second: EventRecord| {
        let mut run = run_with(OffCpu::Blocked, &[]);
        run.events.retain(|event| event.id != RECEIVER);
        run.events
            .extend(receiver_runs(120, &[(LEFT, cut, OffCpu::Blocked), (again, BACK, OffCpu::Blocked)]));
        run.events.push(at_word(LEFT, 0x7f00_0000_1000));
        run.events.push(wakeup(RECEIVER, cut, WakeContext::Timer, HOG));
        run.events.push(second);
        run.events.push(last);
        run.events.push(thread(WORKER, 120, 2, LEFT - 1_000, end(), OffCpu::Unknown));
        run.events.push(wakeup(WORKER, LEFT - 1_000, WakeContext::Task, 0));
        let analysis = analyze(&run);
        causes(&analysis).iter().map(|row| (row.0.to_owned(), row.1.to_owned(), row.2)).collect::<Vec<_>>()
    };
    let row = |source: &str, name: &str, time| (source.to_owned(), name.to_owned(), time);
    let let_go = wakeup(RECEIVER, WOKEN, WakeContext::Task, WORKER);
    let whole = cut - reading(50) + WOKEN - again;
    let held = row("lock", "lock or condition of thread worker, which ran", whole);
    let (first, second) = (at_word(again, 0x7f00_0000_1000), at_word(again, 0x7f00_0000_1008));
    assert_eq!(waits(let_go, first)[0], held);
    assert_eq!(waits(let_go, second)[0], held, "the other word of a condition variable");
    let ran_out = "timed wait of the receiver ran out";
    let out = wakeup(RECEIVER, WOKEN, WakeContext::Timer, HOG);
    assert_eq!(waits(out, first)[0], row("own-sleep", ran_out, whole), "nobody let go");
    for elsewhere in [sleep(RECEIVER, again, SleepObject::Pipe), at_word(again, 0x7f00_0000_1030)] {
        let other = waits(let_go, elsewhere);
        assert!(
            other.contains(&row("own-sleep", ran_out, cut - reading(50))),
            "that is another wait: {other:?}"
        );
    }
}

#[test]
fn a_poll_beside_waiting_packets_that_somebody_ends_was_for_that_one() {
    let mut run = run(&[(LEFT, BACK)]);
    (run.receiver.blocking, run.receiver.foreign) = (true, true);
    let again = reading(50) + 20_000;
    run.events = receiver_runs(120, &[(again, BACK, OffCpu::Polling)]);
    run.events.push(wakeup(RECEIVER, WOKEN, WakeContext::Task, WORKER));
    run.names.task = [(WORKER, "worker".to_string())].into();
    let name = "receiver waited for another descriptor (thread worker)";
    assert!(causes(&analyze(&run)).contains(&("peer-wait", name, WOKEN - again)));
}

#[test]
fn what_a_receiver_did_from_lost_records_until_its_next_run_is_unknown() {
    let mut run = run_with(OffCpu::Blocked, &[sleep(RECEIVER, LEFT, SleepObject::Futex)]);
    // Of the lock by itself, of all, unexplained.
    let times_ns = |run: &PacketRun| {
        let analysis = analyze(run);
        let of_lock = causes(&analysis).iter().filter(|row| row.0 == "lock").map(|row| row.2).sum::<i64>();
        let of_all = rows(&analysis).iter().map(|row| row.2).sum::<i64>();
        let unexplained_ns = analysis.summary.unexplained.time_ns;
        (of_lock, of_all + unexplained_ns, unexplained_ns)
    };
    let (whole_ns, late_ns) = (BACK - reading(50), times_ns(&run).1);
    assert_eq!(times_ns(&run), (whole_ns, late_ns, 0));
    // It may have been woken then, and stopped by a signal.
    run.circumstances.holes = vec![(LEFT + 90_000, LEFT + 95_000)];
    let known_ns = LEFT + 90_000 - reading(50);
    let (lock_ns, all_ns, unexplained_ns) = times_ns(&run);
    assert_eq!((lock_ns, all_ns), (known_ns, late_ns));
    assert!(unexplained_ns >= BACK - LEFT - 90_000, "{unexplained_ns}");
    for elsewhere in [(START_NS, LEFT - 1), (BACK + 1, BACK + 9_000)] {
        run.circumstances.holes = vec![elsewhere];
        assert_eq!(times_ns(&run), (whole_ns, late_ns, 0), "{elsewhere:?}");
    }
}

#[test]
fn packets_that_nobody_reads_until_the_end_are_late_by_what_the_receiver_did() {
    let until_ns = reading(PACKETS) + 500_000;
    let last = *run(&[]).packets.app_ns.last().unwrap();
    let left = last + 2_000;
    let unread = |since_ns| Some(Unread { since_ns, until_ns, packets: 51 });
    let mut run = run(&[]);
    run.unread = unread(last + 9_500);
    run.events = vec![thread(RECEIVER, 120, 1, START_NS, left, OffCpu::Stopped)];
    run.events.push(thread(HOG, 120, 1, left, until_ns, OffCpu::Preempted));
    let analysis = analyze(&run);
    // The packet entered 1,500 ns after its schedule and is read 500 ns later.
    let late_ns = until_ns - (last + 10_000);
    assert_eq!(causes(&analysis), [("stopped", "receiver stopped by a signal", late_ns)]);
    let found = analysis.late[0];
    assert_eq!((found.row, found.seq, found.lateness_ns), (None, PACKETS as u64, late_ns));
    let summary = &analysis.summary;
    assert_eq!((summary.lateness.packets, summary.lateness.distribution.max_ns), (1, late_ns));
    assert_eq!(summary.duration_ns, until_ns - reading(0));
    // Whoever ran is not blamed where the receiver has no record, in a run without a packet too.
    run.events.remove(0);
    assert_eq!(causes(&analyze(&run)), []);
    run.packets = PacketTable::default();
    run.unread = unread(START_NS);
    let nothing = analyze(&run);
    assert_eq!((causes(&nothing), nothing.summary.unexplained.time_ns), (vec![], until_ns - START_NS));
    assert_eq!(nothing.summary.duration_ns, until_ns - START_NS);
    // A packet that is on its way when the run ends is not late.
    run.unread = unread(until_ns - 3_000);
    assert_eq!(analyze(&run).late, []);
}

#[test]
fn locks_that_wait_for_each_other_end() {
    let events = [
        sleep(RECEIVER, LEFT, SleepObject::Futex),
        wakeup(RECEIVER, WOKEN, WakeContext::Task, WORKER),
        thread(WORKER, 120, 2, LEFT - 2_000, LEFT - 1_000, OffCpu::Blocked),
        sleep(WORKER, LEFT - 1_000, SleepObject::Futex),
        wakeup(WORKER, WOKEN, WakeContext::Task, RECEIVER),
        thread(WORKER, 120, 2, WOKEN, end(), OffCpu::Unknown),
    ];
    let analysis = analyzed(OffCpu::Blocked, &events);
    let time: i64 = causes(&analysis).iter().filter(|row| row.0 == "lock").map(|row| row.2).sum();
    assert_eq!(time, WOKEN - reading(50));
}

#[test]
fn kernel_code_that_cannot_be_preempted_is_named_by_its_stack() {
    let woken = wakeup(RECEIVER, LEFT + 1_000, WakeContext::Stream, 0);
    let frame = |address: u64, depth| EventRecord {
        detail: depth,
        ..event(EventKind::Frame, 1, BACK, BACK, HOG, address)
    };
    let entered = |leaf: &str, entry: &str, detail: u8| {
        let mut run = run_with(OffCpu::Receiving, &[woken, frame(0x10, 0), frame(0x20, 1), frame(0x30, 2)]);
        run.receiver.realtime = true;
        run.circumstances.fair_server = true;
        run.events.iter_mut().filter(|event| event.id == RECEIVER).for_each(|run| {
            if run.kind == EventKind::Thread as u8 {
                run.aux = 49;
            }
        });
        let hog =
            run.events.iter_mut().find(|event| event.id == HOG && event.kind == EventKind::Thread as u8);
        let hog = hog.unwrap();
        hog.start_ns = (LEFT - 500) as u64;
        hog.detail = OffCpu::Preempted as u8 | detail;
        run.names.symbol = [(0x10, "__schedule"), (0x20, leaf), (0x30, entry)]
            .map(|(at, name)| (at, name.to_string()))
            .into();
        let analysis = analyze(&run);
        let first = causes(&analysis)[0];
        (first.0.to_string(), first.1.to_string())
    };
    let analyzed = |leaf: &str, detail: u8| entered(leaf, "asm_sysvec_reschedule_ipi", detail);
    let row = |source: &str, name: &str| (source.to_string(), name.to_string());
    let work = row("kernel-work", "kernel work zap_pte_range of thread hog");
    assert_eq!(analyzed("zap_pte_range", served::KNOWN), work);
    let wake_up = row("block-recv", "blocking wake-up");
    assert_eq!(analyzed("irqentry_exit_to_user_mode", served::KNOWN), wake_up, "it ran code of its own");
    let fault = row("kernel-work", "kernel work asm_exc_page_fault of thread hog");
    assert_eq!(entered("irqentry_exit_to_user_mode", "asm_exc_page_fault", served::KNOWN), fault);
    let server = row("fair-server", "fair server ran normal threads");
    assert_eq!(analyzed("zap_pte_range", served::BITS), server, "the kernel says so");
}

#[test]
fn a_sync_waits_for_a_disk_and_what_is_waited_for_gives_the_name() {
    let named = |innermost: &str, above: &str| {
        let frame = |address, depth| EventRecord {
            detail: depth,
            ..event(EventKind::Frame, 1, LEFT, LEFT, RECEIVER, address)
        };
        let events = [sleep(RECEIVER, LEFT, SleepObject::Unknown), frame(0x10, 0), frame(0x20, 1)];
        let mut run = run_with(OffCpu::Uninterruptible, &events);
        run.names.symbol = [(0x10, innermost.to_owned()), (0x20, above.to_owned())].into();
        let analysis = analyze(&run);
        let first = causes(&analysis)[0];
        (first.0.to_owned(), first.1.to_owned())
    };
    let row = |source: &str, name: &str| (source.to_owned(), name.to_owned());
    let disk = row("disk", "wait for a disk or file system in wb_wait_for_completion");
    assert_eq!(named("wb_wait_for_completion", "sync_inodes_sb"), disk);
    let flush = row("disk", "wait for a disk or file system in ext4_sync_fs");
    assert_eq!(named("wait_for_completion", "ext4_sync_fs"), flush);
    let moved = row("kernel-wait", "wait in the kernel in affine_move_task");
    assert_eq!(named("wait_for_completion", "affine_move_task"), moved);
    let child = row("peer-wait", "receiver waited for another process");
    assert_eq!(named("wait_for_completion", "kernel_clone"), child);
    let copied = row("kernel-wait", "lock of the kernel in rwsem_down_write_slowpath");
    assert_eq!(named("rwsem_down_write_slowpath", "kernel_clone"), copied);
}

#[test]
fn a_page_fault_that_sleeps_lasts_until_then_and_goes_on_after_a_sleep() {
    let no_call = Sleep { call: None, object: 0 }.to_aux();
    let (fault, first, back, again) =
        (reading(50) + 1_000, reading(50) + 30_000, reading(50) + 80_000, reading(50) + 90_000);
    let mut run = run(&[(LEFT, BACK)]);
    let slept = OffCpu::Uninterruptible;
    run.events = receiver_runs(120, &[(first, back, slept), (again, BACK, slept)]);
    run.events.push(event(EventKind::PageFault, 1, fault, fault, RECEIVER, 0));
    for at in [first, again] {
        run.events.push(EventRecord { aux: no_call, ..sleep(RECEIVER, at, SleepObject::Unknown) });
    }
    let faults =
        |run: &PacketRun| causes(&analyze(run)).iter().find(|row| row.0 == "faults").map_or(0, |row| row.2);
    assert_eq!(faults(&run), first - fault + again - back);
    // In a system call the sleep is that call's, and the fault takes the usual cost.
    run.events.retain(|event| event.kind != EventKind::Sleep as u8);
    run.events.push(sleep(RECEIVER, first, SleepObject::Unknown));
    assert_eq!(faults(&run), 1_000);
}

#[test]
fn a_timer_that_wakes_the_receiver_is_part_of_its_own_sleep() {
    const FUNCTION: u64 = 0x30;
    let slept = |woken: u32| {
        let mut events = vec![
            sleep(RECEIVER, LEFT, SleepObject::Clock),
            EventRecord { cpu: 1, ..wakeup(woken, WOKEN, WakeContext::Timer, HOG) },
            vector(Vector::LocalTimer, 1, WOKEN - 3_000, WOKEN + 4_000),
            event(EventKind::Hrtimer, 1, WOKEN - 2_000, WOKEN + 3_000, 0, FUNCTION),
        ];
        if woken != RECEIVER {
            events.push(wakeup(RECEIVER, WOKEN - 5_000, WakeContext::Task, WORKER));
        }
        let mut run = run_with(OffCpu::Blocked, &events);
        run.names.symbol = [(FUNCTION, "hrtimer_wakeup".to_owned())].into();
        let analysis = analyze(&run);
        ["own-sleep", "timers"]
            .map(|id| causes(&analysis).iter().filter(|row| row.0 == id).map(|row| row.2).sum::<i64>())
    };
    assert_eq!(slept(RECEIVER), [WOKEN + 4_000 - reading(50), 0]);
    assert_eq!(slept(WORKER), [WOKEN - 5_000 - reading(50), 7_000], "another's timer");
}
