//! Runnable threads on one CPU, and the remedies against the tick that they bear out.

use super::scene::{RECEIVER, event, thread};
use crate::attribution::{Crowd, TicklessHost, bear_out, crowd};
use crate::catalogue;
use crate::model::Names;
use crate::summary::{CauseSummary, Remedy};
use quaver_abi::record::{EventKind, EventRecord, OffCpu};

fn woken(id: u32, at: i64, cpu: u16) -> EventRecord {
    event(EventKind::Wakeup, 0, at, at, id, (9 << 32) | u64::from(cpu))
}

/// The receiver alone on CPU 1, but for a sleep; another thread beside idle on CPU 2.
fn alone() -> Vec<EventRecord> {
    vec![
        thread(RECEIVER, 120, 1, 1_000, 5_000, OffCpu::Blocked),
        thread(0, 120, 1, 5_000, 8_000, OffCpu::Unknown),
        woken(RECEIVER, 7_500, 1),
        thread(RECEIVER, 120, 1, 8_000, 20_000, OffCpu::Unknown),
        thread(30, 120, 2, 1_000, 20_000, OffCpu::Preempted),
    ]
}

/// The receiver is woken to 2 µs of waiting and preempted once for 3 µs by thread 30.
fn crowded() -> Vec<EventRecord> {
    vec![
        thread(30, 120, 1, 1_000, 5_000, OffCpu::Blocked),
        woken(RECEIVER, 3_000, 1),
        thread(RECEIVER, 120, 1, 5_000, 10_000, OffCpu::Preempted),
        woken(30, 10_000, 1),
        thread(30, 120, 1, 10_000, 13_000, OffCpu::Blocked),
        thread(RECEIVER, 120, 1, 13_000, 20_000, OffCpu::Unknown),
    ]
}

#[test]
fn a_crowd_is_threads_that_ran_or_waited_for_one_cpu_at_the_same_time() {
    assert_eq!(crowd(&alone(), 1), Crowd { seen: true, seen_ns: 19_000, ..Crowd::default() });
    let threads = [(RECEIVER, 3_000), (30, 3_000)].into();
    assert_eq!(crowd(&crowded(), 1), Crowd { seen: true, crowded_ns: 3_000, seen_ns: 19_000, threads });
    assert_eq!(crowd(&crowded(), 2), Crowd::default(), "nothing was seen there");
    // A thread that gives the CPU up to another one in turn is no crowd, whoever comes next.
    let turns = [
        thread(RECEIVER, 120, 1, 1_000, 5_000, OffCpu::Blocked),
        thread(30, 120, 1, 5_000, 9_000, OffCpu::Blocked),
        woken(RECEIVER, 9_000, 1),
        thread(RECEIVER, 120, 1, 9_000, 12_000, OffCpu::Unknown),
    ];
    assert_eq!(crowd(&turns, 1).crowded_ns, 0);
}

#[test]
fn a_wake_up_while_another_thread_runs_is_a_crowd_from_there_on() {
    // The receiver ran and slept before, so that its wake-up is known to be one.
    let mut events = vec![thread(RECEIVER, 120, 1, 100, 500, OffCpu::Blocked)];
    events.extend(crowded());
    assert_eq!(crowd(&events, 1).crowded_ns, 2_000 + 3_000);
    // Woken to another CPU, where it runs.
    let elsewhere = [
        thread(RECEIVER, 120, 2, 100, 500, OffCpu::Blocked),
        thread(30, 120, 1, 1_000, 5_000, OffCpu::Blocked),
        woken(RECEIVER, 3_000, 2),
        thread(RECEIVER, 120, 2, 4_000, 5_000, OffCpu::Blocked),
    ];
    assert_eq!(crowd(&elsewhere, 1).crowded_ns, 0);
}

fn cause(source: &str) -> CauseSummary {
    let remedy = catalogue::source(source).unwrap().remedy.clone();
    CauseSummary {
        source: source.to_owned(),
        name: String::new(),
        class: catalogue::source(source).unwrap().class,
        time_ns: 1,
        entry_exit_ns: 0,
        catch_up_ns: 0,
        share: 1.0,
        packets: 1,
        intervals: 1,
        worst_ns: 1,
        example_seq: 0,
        remedy,
        threads: Vec::new(),
        functions: Vec::new(),
        inferred_ns: 0,
        stable_name: None,
    }
}

/// What remains of the catalogue's remedy.
fn left(source: &str, events: &[EventRecord], cpus: &[u16], host: (Option<bool>, &[u16])) -> Remedy {
    let mut causes = [cause(source)];
    let names = Names { task: [(30, "stress".to_owned())].into(), ..Names::default() };
    let host = TicklessHost { possible: host.0, cpus: host.1.to_vec() };
    bear_out(&mut causes, events, &names, cpus, &host);
    causes[0].remedy.clone()
}

fn remedy(setting: Option<&str>, boot: Option<&str>, known: Option<&str>) -> Remedy {
    Remedy {
        setting: setting.map(str::to_owned),
        boot: boot.map(str::to_owned),
        known: known.map(str::to_owned),
    }
}

const CROWDED: &str = "leave one runnable thread on CPU 1: thread 7, stress (30) were runnable beside others for 15.79 % of the recorded time";
const NEVER: &str = "the run never saw more than one runnable thread on CPU 1";
const COVERED: &str = "nohz_full covers CPU 1 already";

#[test]
fn one_runnable_thread_is_proposed_only_where_more_were_seen() {
    let possible = (Some(true), &[][..]);
    for source in ["tick", "timer-irq"] {
        assert_eq!(
            left(source, &crowded(), &[1], possible),
            remedy(Some(CROWDED), Some("nohz_full=1"), None)
        );
        assert_eq!(left(source, &alone(), &[1], possible), remedy(None, Some("nohz_full=1"), Some(NEVER)));
        let unseen = "the run did not record which threads ran on CPU 1";
        assert_eq!(left(source, &[], &[1], possible), remedy(None, Some("nohz_full=1"), Some(unseen)));
    }
}

#[test]
fn those_that_share_the_cpu_for_longest_are_named() {
    // Threads 2 to 6 preempt the receiver for a microsecond each, 30 for eight.
    let mut events = vec![thread(RECEIVER, 120, 1, 1_000, 2_000, OffCpu::Preempted)];
    for (at, id) in (2..=6).enumerate() {
        let from = 2_000 + 2_000 * at as i64;
        events.push(thread(id, 120, 1, from, from + 1_000, OffCpu::Blocked));
        events.push(thread(RECEIVER, 120, 1, from + 1_000, from + 2_000, OffCpu::Preempted));
    }
    events.push(thread(30, 120, 1, 12_000, 20_000, OffCpu::Blocked));
    let left = left("tick", &events, &[1], (Some(true), &[1])).setting.unwrap();
    assert!(left.contains(": thread 7, stress (30), thread 2 and 4 more were runnable"), "{left}");
}

#[test]
fn nohz_full_is_proposed_only_where_it_is_possible_and_not_yet_so() {
    let of = |possible, cpus: &[u16]| left("tick", &crowded(), &[1], (possible, cpus));
    assert_eq!(of(Some(true), &[2]), remedy(Some(CROWDED), Some("nohz_full=1"), None));
    assert_eq!(of(Some(true), &[1, 2]), remedy(Some(CROWDED), None, Some(COVERED)));
    let none = "this kernel has no nohz_full (CONFIG_NO_HZ_FULL)";
    // Without it the tick goes on, whoever leaves the CPU.
    assert_eq!(of(Some(false), &[]), remedy(None, None, Some(none)));
    let unknown = "the run did not record whether this kernel has nohz_full";
    assert_eq!(of(None, &[]), remedy(Some(CROWDED), None, Some(unknown)));
    // An older manifest that lists CPUs proves that the kernel can.
    assert_eq!(of(None, &[2]).boot.as_deref(), Some("nohz_full=1"));
    let both = left("tick", &alone(), &[1], (Some(true), &[1]));
    assert_eq!(both, remedy(None, None, Some(&format!("{NEVER}; {COVERED}"))));
}

#[test]
fn other_parts_of_a_remedy_stay_and_each_cpu_is_told_for_itself() {
    let rest = "set the affinity of each movable kernel thread away from <cpu>";
    let kthreads = left("kthreads", &crowded(), &[1], (Some(true), &[1]));
    assert_eq!(kthreads, remedy(Some(rest), Some("isolcpus=<cpu>"), Some(COVERED)));
    assert_eq!(left("rt-throttle", &[], &[1], (None, &[])), catalogue::source("rt-throttle").unwrap().remedy);
    let two = left("tick", &crowded(), &[1, 2], (Some(true), &[1]));
    assert_eq!((two.setting.as_deref(), two.boot.as_deref()), (Some(CROWDED), Some("nohz_full=2")));
    assert_eq!(
        two.known.as_deref(),
        Some("the run did not record which threads ran on CPU 2; nohz_full covers CPU 1 already")
    );
    let unpinned = left("tick", &crowded(), &[], (Some(true), &[]));
    assert_eq!(unpinned, remedy(None, None, Some("the measured thread was not pinned to a CPU")));
}
