//! The tracefs tier on the running kernel. Needs root; asserts order, nesting and cleanliness, never durations.

#[path = "../../../testbed/src/privileged.rs"]
#[allow(unreachable_pub, reason = "it is a module of the testbed, which imports this crate")]
mod privileged;

use privileged::privileged;
use quaver_abi::record::{EventKind, EventRecord, OffCpu, StampRecord, Vector};
use quaver_host::names::function_names;
use quaver_host::root::HostRoot;
use quaver_host::trace::{TraceCounts, TraceError, TraceSink, TraceSpec, Tracer};
use quaver_host::tracefs::instance::Instance;
use quaver_host::tracefs::{TracefsTracer, open_tracefs, probe, remove_stale_instances};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

#[derive(Default)]
struct Kept(Vec<EventRecord>);

impl TraceSink for Kept {
    fn stamp(&mut self, record: StampRecord) {
        panic!("tracefs stamps no packets, but here is one: {record:?}");
    }

    fn event(&mut self, record: EventRecord) {
        self.0.push(record);
    }
}

fn spec(threads: Vec<u32>) -> TraceSpec {
    TraceSpec {
        flow: None,
        threads,
        observed_process: None,
        cpus: Vec::new(),
        stamp_capacity: 0,
        event_capacity: 100_000,
    }
}

fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn instances() -> Vec<String> {
    let (root, _) = open_tracefs().unwrap();
    root.names("instances").unwrap()
}

/// Mounts of tracefs and debugfs. Others may come and go meanwhile: tests beside this one mount namespaces.
fn trace_mounts() -> Vec<String> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let kind = |line: &str| line.split(' ').nth(2).map(str::to_owned);
    let ours = |line: &&str| matches!(kind(line).as_deref(), Some("tracefs" | "debugfs"));
    mounts.lines().filter(ours).map(str::to_owned).collect()
}

/// Two threads that wake each other so often.
fn ping_pong(turns: usize) {
    let (to_other, from_us) = mpsc::sync_channel(0);
    let (to_us, from_other) = mpsc::sync_channel(0);
    let other = std::thread::Builder::new().name("qv-pong".to_owned());
    let other = other.spawn(move || from_us.iter().try_for_each(|turn: usize| to_us.send(turn))).unwrap();
    for turn in 0..turns {
        to_other.send(turn).unwrap();
        assert_eq!(from_other.recv(), Ok(turn));
    }
    drop(to_other);
    other.join().unwrap().unwrap();
}

/// Touches fresh pages, each of which faults.
fn touch_pages(count: usize) {
    let mut memory: Vec<u8> = Vec::with_capacity(count * 4096);
    memory.resize(count * 4096, 1);
    std::hint::black_box(&memory);
}

fn of(records: &[EventRecord], kind: EventKind) -> impl Iterator<Item = &EventRecord> {
    records.iter().filter(move |record| record.kind == kind as u8)
}

fn timed(records: &[EventRecord]) -> impl Iterator<Item = &EventRecord> {
    records.iter().filter(|record| record.kind != EventKind::TaskName as u8)
}

fn finish(tracer: TracefsTracer, kept: &mut Kept) -> TraceCounts {
    Box::new(tracer).finish(kept).unwrap()
}

/// Every interval ends after it began; on each CPU ends are in order; threads follow each other without a hole but for
/// those that were cut because the switch away from them was not recorded, which come back; what interrupts nests.
///
/// Some machines record nothing while a certain task is current (an idle task, a thread of process 1): such a task is cut
/// each time, so none of its turns ever ends for a known reason. A task that is cut now and heard then was lost by us.
/// Returns how many turns were cut.
fn check_shape(records: &[EventRecord]) -> u64 {
    let (mut cut, mut heard) = (Vec::new(), BTreeSet::new());
    let mut by_cpu: BTreeMap<u16, Vec<&EventRecord>> = BTreeMap::new();
    for record in timed(records) {
        assert!(record.start_ns <= record.end_ns, "{record:?}");
        by_cpu.entry(record.cpu).or_default().push(record);
    }
    let nesting = [EventKind::Irq, EventKind::Vector, EventKind::Softirq, EventKind::CrossCall];
    for (cpu, records) in by_cpu {
        assert!(records.is_sorted_by_key(|r| r.end_ns), "ends are out of order on CPU {cpu}");
        let threads: Vec<_> = records.iter().filter(|r| r.kind == EventKind::Thread as u8).collect();
        for pair in threads.windows(2) {
            if pair[0].detail == OffCpu::Unknown as u8 {
                cut.push((cpu, pair[0].id));
                assert!(pair[0].end_ns <= pair[1].start_ns, "threads overlap: {pair:?}");
                continue;
            }
            heard.insert((cpu, pair[0].id));
            assert_eq!(pair[0].end_ns, pair[1].start_ns, "{pair:?}");
            assert_eq!(pair[0].aux >> 32, u64::from(pair[1].id), "the next thread is another: {pair:?}");
        }
        let mut open: Vec<&EventRecord> = Vec::new();
        // Innermost intervals end first, so walk back from the end.
        for record in records.iter().rev().filter(|r| nesting.iter().any(|kind| *kind as u8 == r.kind)) {
            while open.last().is_some_and(|outer| outer.start_ns >= record.end_ns) {
                open.pop();
            }
            if let Some(outer) = open.last() {
                assert!(outer.start_ns <= record.start_ns, "{record:?} is not inside {outer:?}");
            }
            open.push(record);
        }
    }
    let lost: Vec<_> = cut.iter().filter(|turn| heard.contains(turn)).collect();
    assert!(lost.is_empty(), "CPU and thread of turns whose ends were lost: {lost:?}");
    cut.len() as u64
}

#[test]
fn records_what_the_machine_did_and_leaves_nothing() {
    if !privileged("records_what_the_machine_did_and_leaves_nothing") {
        return;
    }
    let mounts = trace_mounts();
    let us = thread_id();
    let mut tracer = TracefsTracer::start(&spec(vec![us])).unwrap();
    let name = tracer.instance_name().to_owned();
    assert!(instances().contains(&name));
    let mut kept = Kept::default();
    let began_ns = now_ns();
    ping_pong(500);
    tracer.drain(&mut kept).unwrap();
    touch_pages(300);
    std::thread::sleep(Duration::from_millis(30));
    tracer.drain(&mut kept).unwrap();
    ping_pong(500);
    let ended_ns = now_ns();
    tracer.set_recording(false).unwrap();
    tracer.drain(&mut kept).unwrap();
    let unpaired = tracer.unpaired();
    let counts = finish(tracer, &mut kept);
    let records = &kept.0;
    let cut_turns = check_shape(records);
    println!("{} records, {unpaired:?}", records.len());
    assert_eq!(counts.events_lost, 0);
    // Every entry and exit without its other half is accounted for: a turn was cut since its thread is never heard, or it
    // was under way when recording began, or work moved to another CPU.
    assert_eq!(unpaired.switches, cut_turns, "{unpaired:?}");
    assert_eq!((unpaired.exits, unpaired.entries), (0, 0), "{unpaired:?}");

    assert!(of(records, EventKind::Wakeup).all(|r| r.id == us));
    let woken = of(records, EventKind::Wakeup).filter(|r| r.detail == 0).count();
    assert!(woken >= 500, "we blocked in each of 1000 turns or nearly so, and were woken {woken} times");
    assert!(of(records, EventKind::PageFault).all(|r| r.id == us));
    let ours: Vec<_> = of(records, EventKind::Thread).filter(|r| r.id == us).collect();
    assert!(ours.len() >= 500);
    assert!(ours.iter().all(|r| matches!(r.aux as u32, 0..140 | 0x8000_0000)), "priorities");
    let timers = of(records, EventKind::Vector).filter(|r| r.id == Vector::LocalTimer as u32).count();
    assert!(timers > 0, "the timer that ended our sleep");
    let functions: BTreeSet<u64> = of(records, EventKind::Hrtimer).map(|r| r.aux).collect();
    let named = function_names(&HostRoot::system(), &functions).unwrap();
    assert!(!functions.is_empty() && functions.iter().eq(named.keys()), "{functions:x?} are {named:x?}");
    // Page faults are ours alone, so they lie where we were: the trace's clock is converted to ours.
    let fault_times = of(records, EventKind::PageFault).map(|r| r.start_ns);
    let inside = fault_times.filter(|t| (began_ns..ended_ns).contains(t)).count();
    assert!(inside >= 100, "fresh pages fault; {inside} did");
    let names: Vec<_> = of(records, EventKind::TaskName)
        .map(|r| [r.start_ns.to_le_bytes(), r.end_ns.to_le_bytes()].concat())
        .collect();
    assert!(names.iter().any(|n| n.starts_with(b"qv-pong\0")), "the other thread's name");
    assert!(!instances().contains(&name));
    assert_eq!(trace_mounts(), mounts);
}

#[test]
fn switched_off_records_nothing() {
    if !privileged("switched_off_records_nothing") {
        return;
    }
    let mut tracer = TracefsTracer::start(&spec(vec![thread_id()])).unwrap();
    let mut kept = Kept::default();
    touch_pages(200);
    tracer.set_recording(false).unwrap();
    let off_ns = now_ns();
    touch_pages(200);
    ping_pong(100);
    let on_ns = now_ns();
    tracer.set_recording(true).unwrap();
    touch_pages(200);
    ping_pong(100);
    finish(tracer, &mut kept);
    let within: Vec<_> = timed(&kept.0).filter(|r| r.start_ns < on_ns && r.end_ns > off_ns).collect();
    assert!(within.is_empty(), "nothing spans or lies in the pause, but {within:?}");
    assert!(timed(&kept.0).any(|r| r.end_ns <= off_ns));
    assert!(timed(&kept.0).any(|r| r.start_ns >= on_ns));
}

#[test]
fn a_small_ring_overflows_and_says_so() {
    if !privileged("a_small_ring_overflows_and_says_so") {
        return;
    }
    let small = TraceSpec { event_capacity: 1, ..spec(vec![thread_id()]) };
    let tracer = TracefsTracer::start(&small).unwrap();
    let mut kept = Kept::default();
    touch_pages(20_000);
    ping_pong(2_000);
    let counts = finish(tracer, &mut kept);
    assert!(counts.events_lost > 0);
    assert!(!kept.0.is_empty());
    assert!(timed(&kept.0).all(|r| r.start_ns <= r.end_ns));
}

#[test]
fn only_the_chosen_cpus_are_recorded() {
    if !privileged("only_the_chosen_cpus_are_recorded") {
        return;
    }
    let one = TraceSpec { cpus: vec![0], ..spec(vec![]) };
    let tracer = TracefsTracer::start(&one).unwrap();
    assert!(tracer.blind().iter().any(|line| line.contains("other CPUs")));
    let mut kept = Kept::default();
    ping_pong(500);
    std::thread::sleep(Duration::from_millis(20));
    finish(tracer, &mut kept);
    assert!(!kept.0.is_empty() && kept.0.iter().all(|r| r.cpu == 0));
    let absent = TraceSpec { cpus: vec![9_999], ..spec(vec![]) };
    let refused = TracefsTracer::start(&absent).map(|_| ()).unwrap_err();
    assert!(matches!(&refused, TraceError::NotSupported { .. }), "{refused}");
    assert!(refused.to_string().contains("CPU 9999"), "{refused}");
}

#[test]
fn leftovers_of_dead_processes_are_removed_and_others_kept() {
    if !privileged("leftovers_of_dead_processes_are_removed_and_others_kept") {
        return;
    }
    let mut child = Command::new("true").spawn().unwrap();
    let dead = child.id();
    child.wait().unwrap();
    let (root, _) = open_tracefs().unwrap();
    let ours = Instance::create(&root).unwrap();
    let stale = format!("quaver-{dead}-0badcafe");
    root.make_dir(&format!("instances/{stale}")).unwrap();
    // A trace that another test starts may find it before us; it is gone either way.
    remove_stale_instances(&root).unwrap();
    assert!(!instances().contains(&stale));
    assert!(instances().contains(&ours.name().to_owned()));
    let name = ours.name().to_owned();
    drop(ours);
    assert!(!instances().contains(&name));
}

#[test]
fn the_survey_names_what_it_found() {
    if !privileged("the_survey_names_what_it_found") {
        return;
    }
    let survey = probe().unwrap();
    assert!(survey.clock.is_some() && survey.pages);
    assert!(survey.present.contains(&"sched:sched_switch".to_owned()), "{survey:?}");
    for missing in survey.missing.keys() {
        assert!(!survey.present.contains(missing));
    }
}
