//! What the receiver did itself: its code and its system calls, by function, and what is not its own.

use super::scene::{RECEIVER, SERVICE_NS, SOURCE, START_NS, analyze, event, table, thread, vector};
use crate::model::{Actor, Layer, LayerColumn, Names, PacketRun};
use crate::summary::{CauseSummary, FunctionShare};
use quaver_abi::record::{
    EventKind, EventRecord, NO_STACK, OffCpu, REFILLS_QUOTA, SAMPLE_PERIOD_NS, SAMPLING_TIMER, Vector,
};

const PERIOD: i64 = SAMPLE_PERIOD_NS as i64;
const LONG: i64 = 500_000;
/// Late time of the first packet that meets a stop of that length.
const FIRST: i64 = LONG - 1_000 + SERVICE_NS;
const WRITE: u64 = 1;
/// Packets each 100 µs for 400 ms.
const SPACING: i64 = 100_000;
const COUNT: i64 = 4_000;

/// When a packet of the stream is read if nothing stops the receiver.
fn due(number: i64) -> i64 {
    START_NS + number * SPACING + 2_000
}

fn end() -> i64 {
    due(COUNT) + 20_000_000
}

/// The receiver holds its CPU all the time, as a program of others, and does not receive in `stops`.
fn stopped(stops: &[(i64, i64)]) -> PacketRun {
    let mut app_ns: Vec<i64> = Vec::new();
    let mut stops = stops.iter().peekable();
    for number in 0..COUNT {
        let at = due(number).max(app_ns.last().map_or(i64::MIN, |last| last + SERVICE_NS));
        while stops.next_if(|(_, until)| *until <= at).is_some() {}
        let stop = stops.peek().filter(|(from, _)| *from <= at);
        app_ns.push(stop.map_or(at, |(_, until)| until + SERVICE_NS));
    }
    let before = |after_schedule: i64| {
        app_ns.iter().zip(0..).map(|(app, number)| app - due(number) + 2_000 - after_schedule).collect()
    };
    let layers = vec![
        LayerColumn { layer: Layer::Schedule, before_app_ns: before(0) },
        LayerColumn { layer: Layer::Enqueued, before_app_ns: before(1_500) },
    ];
    PacketRun {
        period_ns: Some(SPACING as f64),
        packets: table(app_ns, layers),
        receiver: Actor { threads: vec![RECEIVER], cpu: Some(1), foreign: true, ..Actor::default() },
        source: Some(Actor { threads: vec![SOURCE], cpu: Some(0), ..Actor::default() }),
        events: vec![thread(RECEIVER, 120, 1, START_NS - 500_000, end(), OffCpu::Unknown)],
        names: names(),
        ..PacketRun::default()
    }
}

/// Where the receiver of [`busy`] begins not to receive.
pub(super) fn from() -> i64 {
    due(100) - 1_000
}

pub(super) fn busy(length: i64) -> PacketRun {
    stopped(&[(from(), from() + length)])
}

/// Time of a cause in the late windows that it is part of, without what queued up behind it.
pub(super) fn body(cause: &CauseSummary) -> i64 {
    cause.time_ns - cause.entry_exit_ns - cause.catch_up_ns
}

fn names() -> Names {
    let stack = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Names {
        call: [(WRITE, "write".to_owned())].into(),
        stack: [
            (1, stack(&["compress", "main"])),
            (2, stack(&["read_clock", "compress", "main"])),
            (3, stack(&["copy_page", "sys_write"])),
            (4, stack(&["finish_task_switch.isra.0", "schedule"])),
        ]
        .into(),
        ..Names::default()
    }
}

/// A sample of the receiver in the interrupt of its timer.
pub(super) fn sample(at: i64, kernel: u32, user: u32) -> [EventRecord; 2] {
    let stacks = u64::from(kernel) | u64::from(user) << 32;
    let taken = event(EventKind::Sample, 1, at, at, RECEIVER, stacks);
    let detail = u8::from(kernel != NO_STACK);
    [vector(Vector::LocalTimer, 1, at - 2_000, at + 1_000), EventRecord { detail, ..taken }]
}

/// When samples of a stretch are due.
pub(super) fn dues(from: i64, until: i64) -> impl Iterator<Item = i64> + Clone {
    (0..)
        .map(|number| START_NS + number * PERIOD)
        .skip_while(move |at| *at < from)
        .take_while(move |at| *at < until)
}

pub(super) fn call(from: i64, until: i64) -> EventRecord {
    event(EventKind::SystemCall, 1, from, until, RECEIVER, WRITE)
}

pub(super) fn found<'a>(causes: &'a [CauseSummary], source: &str) -> Option<&'a CauseSummary> {
    causes.iter().find(|cause| cause.source == source)
}

#[test]
fn time_on_its_cpu_is_code_or_a_long_call() {
    let mut run = busy(LONG);
    run.events.push(call(from() + 100_000, from() + 300_000));
    run.events.push(EventRecord { id: SOURCE, ..call(from(), from() + LONG) });
    let analysis = analyze(&run);
    let causes = &analysis.summary.causes;
    let write = found(causes, "own-call").unwrap();
    assert_eq!((write.name.as_str(), write.time_ns), ("system call write of the receiver", 200_000));
    let code = found(causes, "own-code").unwrap();
    assert_eq!(code.name, "code of the receiver");
    assert_eq!(body(code), FIRST - 200_000);
    assert_eq!((code.inferred_ns, write.inferred_ns), (body(code), 200_000));
    assert_eq!(analysis.summary.unexplained.time_ns, 0);
    run.names = Names::default();
    let unnamed = &analyze(&run).summary.causes;
    assert_eq!(found(unnamed, "own-call").unwrap().name, "system call 1 of the receiver");
}

#[test]
fn a_call_in_which_the_receiver_slept_is_as_long_as_it_ran_in_it() {
    let slept = |woken: i64| {
        let mut run = busy(LONG);
        run.events.retain(|event| event.id != RECEIVER);
        run.events.push(thread(RECEIVER, 120, 1, START_NS - 500_000, from() - 5_000, OffCpu::Blocked));
        run.events.push(thread(RECEIVER, 120, 1, woken, end(), OffCpu::Unknown));
        run.events.push(call(from() - 6_000, from() + 300_000));
        let analysis = analyze(&run);
        found(&analysis.summary.causes, "own-call").map(|call| call.time_ns)
    };
    assert_eq!(slept(from() + 290_000), None, "it returned 10 µs after its wake-up");
    assert_eq!(slept(from() + 200_000), Some(100_000));
}

#[test]
fn our_own_sink_does_nothing_but_receive() {
    let mut run = busy(LONG);
    run.receiver.foreign = false;
    run.events.push(call(from() + 100_000, from() + 300_000));
    let analysis = analyze(&run);
    assert!(analysis.summary.causes.iter().all(|cause| !cause.source.starts_with("own-c")));
    assert!(analysis.summary.unexplained.time_ns >= LONG);
}

#[test]
fn what_others_did_meanwhile_is_not_its_own() {
    let mut run = busy(LONG);
    let (left, back) = (from() + 50_000, from() + 150_000);
    run.events = vec![
        thread(RECEIVER, 120, 1, START_NS - 500_000, left, OffCpu::Preempted),
        thread(9, 120, 1, left, back, OffCpu::Blocked),
        thread(RECEIVER, 120, 1, back, end(), OffCpu::Unknown),
        event(EventKind::Softirq, 1, from() + 200_000, from() + 230_000, 3, 0),
    ];
    let summary = analyze(&run).summary;
    let [own, other, softirq] =
        ["own-code", "cfs-preempt", "net-rx"].map(|source| found(&summary.causes, source).unwrap());
    assert_eq!((body(other), body(softirq)), (100_000, 30_000));
    assert_eq!(body(own) + other.time_ns + softirq.time_ns, FIRST);
}

#[test]
fn functions_are_those_of_samples_in_late_windows() {
    let length = 8 * PERIOD;
    let mut run = busy(length);
    run.circumstances.virtual_machine = true;
    // Three of four stacks end in the clock, all pass through one function. Elsewhere none does.
    for (number, at) in (0..).zip(dues(START_NS, end())) {
        let late = (from()..from() + length).contains(&at);
        run.events.extend(sample(at, NO_STACK, if late && number % 4 != 0 { 2 } else { 1 }));
    }
    let inside = (0..).zip(dues(START_NS, end())).filter(|(_, at)| (from()..from() + length).contains(at));
    let in_clock = inside.clone().filter(|(n, _)| n % 4 != 0).count() as u64;
    let all = inside.count() as u64;
    let summary = analyze(&run).summary;
    let own = found(&summary.causes, "own-code").unwrap();
    let clock = in_clock as f64 / all as f64;
    assert_eq!(own.name, format!("code of the receiver: read_clock {:.0} %", clock * 100.0));
    let share = |name: &str, samples: u64, itself: u64| FunctionShare {
        name: name.to_owned(),
        share: samples as f64 / all as f64,
        itself: itself as f64 / all as f64,
        samples,
    };
    assert_eq!(
        own.functions,
        [share("read_clock", in_clock, in_clock), share("compress", all, all - in_clock)]
    );
    assert_eq!(own.inferred_ns, 0);
    assert!(own.time_ns > length * 9 / 10);
}

#[test]
fn the_leading_function_is_the_innermost_on_half_of_the_stacks() {
    let length = 9 * PERIOD;
    let mut run = busy(length);
    for (number, at) in (0..).zip(dues(from(), from() + length)) {
        // A third in the clock, a third in a call that is short, a third in the function itself.
        let (kernel, user) = [(NO_STACK, 1), (NO_STACK, 2), (3, 1)][number % 3];
        run.events.extend(sample(at, kernel, user));
    }
    let summary = analyze(&run).summary;
    let own = found(&summary.causes, "own-code").unwrap();
    assert_eq!(own.name, "code of the receiver: compress 100 %");
    assert_eq!(own.functions[0].samples, 9);
    assert_eq!(own.functions.iter().map(|one| one.itself).sum::<f64>().round(), 1.0);
}

#[test]
fn the_kernels_work_in_calls_without_a_record_is_the_functions_that_called() {
    let length = 8 * PERIOD;
    let mut run = busy(length);
    let stack = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    run.names.stack = [
        (1, stack(&["do_syscall_64", "entry_SYSCALL_64_after_hwframe"])),
        (2, stack(&["do_sched_yield", "do_syscall_64", "entry_SYSCALL_64_after_hwframe"])),
        (3, stack(&["sched_yield", "spin", "main"])),
    ]
    .into();
    for (number, at) in (0..).zip(dues(from(), from() + length)) {
        run.events.extend(sample(at, [1, 1, 2, NO_STACK][number % 4], 3));
    }
    let summary = analyze(&run).summary;
    let own = found(&summary.causes, "own-code").unwrap();
    let names: Vec<&str> = own.functions.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(own.name, "code of the receiver: sched_yield 100 %");
    assert_eq!(names, ["sched_yield", "do_syscall_64", "do_sched_yield"]);
}

#[test]
fn a_function_that_never_runs_itself_does_not_lead() {
    let length = 8 * PERIOD;
    let mut run = busy(length);
    let stack = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    run.names.stack =
        [(1, stack(&["scale", "main"])), (2, stack(&["filter", "main"])), (3, stack(&["mix", "main"]))]
            .into();
    for (number, at) in (0..).zip(dues(from(), from() + length)) {
        run.events.extend(sample(at, NO_STACK, [1, 2, 3, 3][number % 4]));
    }
    let summary = analyze(&run).summary;
    let own = found(&summary.causes, "own-code").unwrap();
    let names: Vec<&str> = own.functions.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(
        (own.name.as_str(), names),
        ("code of the receiver: mix 50 %", vec!["mix", "filter", "scale"])
    );
}

#[test]
fn a_sample_that_comes_late_names_no_function() {
    let length = 8 * PERIOD;
    let mut run = busy(length);
    for (number, at) in (0..).zip(dues(from() + PERIOD, from() + length)) {
        // The kernel let no interrupt in when this one was due.
        run.events.extend(if number == 3 { sample(at + 60_000, 3, 1) } else { sample(at, NO_STACK, 2) });
    }
    let summary = analyze(&run).summary;
    let own = found(&summary.causes, "own-code").unwrap();
    assert_eq!((own.name.as_str(), own.functions[0].samples), ("code of the receiver: read_clock 100 %", 6));
}

#[test]
fn a_stop_of_the_whole_cpu_is_not_its_code() {
    // The timer fires late, when the CPU comes back: no code is silent for so long.
    let length = 5 * PERIOD;
    let mut run = busy(length);
    run.circumstances.virtual_machine = true;
    for at in dues(START_NS, end()).filter(|at| !(from()..from() + length).contains(at)) {
        run.events.extend(sample(at, NO_STACK, 1));
    }
    run.events.extend(sample(from() + length - 10_000, NO_STACK, 1));
    let summary = analyze(&run).summary;
    assert!(summary.unexplained.time_ns >= length - PERIOD, "{summary:?}");
    assert!(found(&summary.causes, "own-code").is_none_or(|own| own.time_ns < PERIOD), "{summary:?}");
}

#[test]
fn short_stops_are_told_from_code_by_samples_that_come_late() {
    let stops: Vec<(i64, i64)> =
        (1..300).map(|n| due(13 * n) - 1_000).map(|from| (from, from + 80_000)).collect();
    for of_host in [false, true] {
        let mut run = stopped(&stops);
        run.circumstances.virtual_machine = true;
        for at in dues(START_NS, end()) {
            let stop = stops.iter().find(|(from, until)| (*from..*until).contains(&at));
            let at = stop.filter(|_| of_host).map_or(at, |(_, until)| until - 100);
            run.events.extend(sample(at, NO_STACK, 1));
        }
        let summary = analyze(&run).summary;
        let own_ns = found(&summary.causes, "own-code").map_or(0, |own| own.time_ns);
        let (all_ns, unexplained_ns) = (summary.lateness.time_ns, summary.unexplained.time_ns);
        let (right_ns, wrong_ns) = if of_host { (unexplained_ns, own_ns) } else { (own_ns, unexplained_ns) };
        assert!(right_ns > all_ns * 9 / 10 && wrong_ns == 0, "{own_ns} and {unexplained_ns} of {all_ns}");
    }
}

#[test]
fn nothing_is_believed_of_a_virtual_machine_without_samples() {
    let mut run = busy(LONG);
    run.circumstances.virtual_machine = true;
    run.events.push(call(from() + 100_000, from() + 300_000));
    let summary = analyze(&run).summary;
    assert!(found(&summary.causes, "own-code").is_none());
    assert_eq!(found(&summary.causes, "own-call").unwrap().time_ns, 200_000);
    assert!(summary.unexplained.time_ns >= LONG - 200_000);
}

#[test]
fn the_timer_of_the_samples_is_ours() {
    let mut run = busy(LONG);
    let at = from() + 100_000;
    run.names.symbol.insert(77, "perf_swevent_hrtimer".to_owned());
    run.events.push(vector(Vector::LocalTimer, 1, at, at + 10_000));
    let timer = event(EventKind::Hrtimer, 1, at + 1_000, at + 4_000, 0, 77);
    run.events.push(EventRecord { detail: SAMPLING_TIMER, ..timer });
    let tool = |run: &PacketRun| found(&analyze(run).summary.causes, "tool").map(|cause| cause.name.clone());
    assert_eq!(tool(&run).as_deref(), Some("timer perf_swevent_hrtimer"));
    // A profiler of others has its own timers in the same interrupt.
    run.events.push(event(EventKind::Hrtimer, 1, at + 4_000, at + 8_000, 0, 77));
    assert_eq!(tool(&run), None);
    let summary = analyze(&run).summary;
    assert_eq!(found(&summary.causes, "timers").unwrap().name, "timer perf_swevent_hrtimer");
}

#[test]
fn a_loop_of_short_calls_is_code_also_where_a_sample_interrupts_one() {
    // The timer's interrupt makes the call that it meets 25 us long, and so recorded: 6 us are the call's own.
    let meets =
        |at: i64| [call(at - 8_000, at + 17_000), vector(Vector::LocalTimer, 1, at - 2_000, at + 17_000)];
    let stops: Vec<(i64, i64)> =
        (0..10).map(|n| due(100 + 300 * n)).map(|at| (at, at + 4 * PERIOD)).collect();
    let mut run = stopped(&stops);
    run.circumstances.virtual_machine = true;
    for (from, until) in stops {
        for at in dues(from + 20_000, until) {
            run.events.push(sample(at, 3, NO_STACK)[1]);
            run.events.extend(meets(at));
        }
    }
    let causes = analyze(&run).summary.causes;
    let code = found(&causes, "own-code").map_or(0, body);
    assert!(code > 10 * 3 * PERIOD, "{causes:?}");
    assert!(found(&causes, "own-call").is_none(), "{causes:?}");
}

#[test]
fn a_window_in_which_each_sample_meets_the_receiver_is_its_own() {
    // Calls of 18 us one after the other are not recorded, but those that a sample makes longer. So all samples are in calls.
    let longer = |at: i64| call(at - 8_000, at + 21_000);
    let stops: Vec<(i64, i64)> =
        (0..10).map(|n| due(100 + 300 * n)).map(|at| (at, at + 4 * PERIOD)).collect();
    let own = |missed: i64| {
        let mut run = stopped(&stops);
        run.circumstances.virtual_machine = true;
        for (from, until) in &stops {
            for at in dues(from + 20_000, *until).filter(|at| (at - from) / PERIOD != missed) {
                run.events.extend(sample(at, 3, NO_STACK));
                run.events.push(longer(at));
            }
        }
        let causes = analyze(&run).summary.causes;
        found(&causes, "own-code").map_or(0, body)
    };
    assert!(own(9) > 10 * 3 * PERIOD);
    assert_eq!(own(2), 0, "what ran at one of the due times is not known");
}

#[test]
fn a_call_that_no_punctual_sample_shows_is_unexplained_and_told() {
    // Calls of 400 us, which a host may have stretched: their samples come late, when the CPU is back.
    let stops: Vec<(i64, i64)> =
        (1..40).map(|n| due(90 * n) - 1_000).map(|from| (from, from + 400_000)).collect();
    for of_host in [false, true] {
        let mut run = stopped(&stops);
        run.circumstances.virtual_machine = true;
        run.events.extend(stops.iter().map(|(from, until)| call(from - 500, until + 500)));
        for at in dues(START_NS, end()) {
            let stop = stops.iter().find(|(from, until)| (*from..*until).contains(&at));
            let at = stop.filter(|_| of_host).map_or(at, |(_, until)| until - 100);
            run.events.extend(sample(at, 3, NO_STACK));
        }
        let summary = analyze(&run).summary;
        let own_ns = found(&summary.causes, "own-call").map_or(0, |own| own.time_ns);
        let (all_ns, in_call_ns) = (summary.lateness.time_ns, summary.unexplained.in_call_ns);
        let (right_ns, wrong_ns) = if of_host { (in_call_ns, own_ns) } else { (own_ns, in_call_ns) };
        assert!(right_ns > all_ns / 2 && wrong_ns == 0, "{own_ns} and {in_call_ns} of {all_ns}");
        let told = summary.unexplained.note.contains("lies in system calls of the receiver");
        assert_eq!(told, of_host, "{}", summary.unexplained.note);
    }
}

#[test]
fn samples_at_the_end_of_a_switch_of_threads_show_no_work() {
    let stops: Vec<(i64, i64)> =
        (1..40).map(|n| due(90 * n) - 1_000).map(|from| (from, from + 400_000)).collect();
    let mut run = stopped(&stops);
    run.circumstances.virtual_machine = true;
    run.events.extend(stops.iter().map(|(from, until)| call(from - 500, until + 500)));
    run.events.extend(dues(START_NS, end()).flat_map(|at| sample(at, 4, NO_STACK)));
    let summary = analyze(&run).summary;
    assert!(found(&summary.causes, "own-call").is_none(), "{summary:?}");
    assert!(summary.unexplained.in_call_ns > summary.lateness.time_ns / 2);
}

#[test]
fn a_call_that_is_silent_for_longer_than_a_program_can_be_is_none() {
    let length = 5 * PERIOD;
    let mut run = busy(length);
    run.circumstances.virtual_machine = true;
    run.events.push(call(from() + 1_000, from() + length));
    let outside = |at: &i64| !(from()..from() + length).contains(at);
    for met in [true, false] {
        let mut run = run.clone();
        for at in dues(START_NS, end()).filter(outside) {
            // The timer runs although it meets another thread each time.
            let timer = event(EventKind::Hrtimer, 1, at - 1_000, at, 0, 77);
            run.events.push(EventRecord { detail: SAMPLING_TIMER, ..timer });
            run.events.extend(sample(at, NO_STACK, 1).into_iter().filter(|_| met));
        }
        let summary = analyze(&run).summary;
        assert!(found(&summary.causes, "own-call").is_none(), "{summary:?}");
        assert!(summary.unexplained.in_call_ns >= length - PERIOD, "{summary:?}");
    }
}

#[test]
fn a_throttled_receiver_waits_for_its_quota_until_the_last_refill() {
    let length = 6_000_000;
    let mut run = busy(length);
    let (left, back) = (from() + 1_000, from() + length);
    run.circumstances.quota_stops = 1;
    run.names.symbol.insert(5, "sched_cfs_period_timer".to_owned());
    let refill = |at: i64| event(EventKind::Hrtimer, 0, at - 2_000, at, 0, 5);
    run.events = vec![
        thread(RECEIVER, 120, 1, START_NS - 500_000, left, OffCpu::Throttled),
        // Nobody idles while the quota is used up: another thread has the CPU all the time.
        thread(9, 120, 1, left, back, OffCpu::Blocked),
        thread(RECEIVER, 120, 1, back, end(), OffCpu::Unknown),
    ];
    let shares = |run: &PacketRun| {
        let causes = analyze(run).summary.causes;
        ["quota", "cfs-preempt"].map(|source| found(&causes, source).map_or(0, body))
    };
    assert_eq!(shares(&run), [back - left, 0]);
    run.events.extend([refill(left + 1_000_000), refill(left + 5_000_000)]);
    assert_eq!(shares(&run), [5_000_000, back - left - 5_000_000]);
    // The timer of its own group is known: that of another does not count.
    let known = run.events.iter_mut().find(|event| event.kind == EventKind::Hrtimer as u8);
    known.unwrap().detail = REFILLS_QUOTA;
    assert_eq!(shares(&run), [1_000_000, back - left - 1_000_000]);
}
