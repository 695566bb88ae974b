//! Switches that no trace point tells of: a kernel can hide threads.

use super::{ALONE, Collected, finish, receiver, spec};
use crate::bpf::kernel_types;
use crate::bpf::tracer::{BpfTracer, monotonic_ns};
use crate::trace::{Payload, Tracer as _};
use quaver_abi::record::{EventKind, EventRecord};
use quaver_testbed::privileged::privileged;
use std::time::Duration;

/// A number that no thread has.
const HIDDEN: u32 = 1 << 22;
/// How long it had the CPU.
const HELD_NS: u64 = 3_000_000;

/// Has the state of this thread's CPU say that the CPU was given to another thread than the one that runs, a while before it
/// came. This is what it says after a switch between both that was not seen.
fn hide_a_switch(tracer: &BpfTracer) {
    let cpu = rustix::thread::sched_getcpu();
    let state = tracer.cpus.at(cpu);
    // SAFETY: inside the mapping and aligned. The programs write these fields on this CPU, which this thread does not leave.
    unsafe {
        let thread_ns = std::ptr::addr_of_mut!((*state).thread_ns);
        thread_ns.write_volatile(thread_ns.read_volatile() - HELD_NS);
        std::ptr::addr_of_mut!((*state).thread_id).write_volatile(HIDDEN);
    }
}

#[test]
fn the_time_of_a_thread_that_is_hidden_is_not_its_successors() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged("the_time_of_a_thread_that_is_hidden_is_not_its_successors") {
        return;
    }
    let before = rustix::thread::sched_getaffinity(None).unwrap();
    let mut here = rustix::thread::CpuSet::new();
    here.set(rustix::thread::sched_getcpu());
    rustix::thread::sched_setaffinity(None, &here).unwrap();
    let (_socket, port) = receiver();
    let mut tracer =
        Box::new(BpfTracer::prepare(&spec(port, Payload::Opaque), kernel_types().unwrap()).unwrap());
    tracer.set_recording(true).unwrap();
    // A switch to this thread comes first, so that the programs know who runs.
    std::thread::sleep(Duration::from_millis(1));
    let came_ns = monotonic_ns();
    hide_a_switch(&tracer);
    let stayed_ns = monotonic_ns() - came_ns;
    std::thread::sleep(Duration::from_millis(1));
    let (Collected { mut events, .. }, _) = finish(tracer);
    rustix::thread::sched_setaffinity(None, &before).unwrap();
    let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    events.retain(|event| event.kind == EventKind::Thread as u8);
    let hidden: Vec<&EventRecord> = events.iter().filter(|event| event.id == HIDDEN).collect();
    let [hidden] = hidden[..] else { panic!("{} records of the hidden thread", hidden.len()) };
    let next = events.iter().find(|event| event.id == thread && event.start_ns == hidden.end_ns);
    let next = next.expect("this thread came when the hidden one left");
    assert_eq!(hidden.cpu, next.cpu);
    assert_eq!((hidden.aux >> 32) as u32, thread, "whom it gave way to");
    let held_ns = hidden.end_ns - hidden.start_ns;
    // This thread stayed on after its arrival, and a host or an interrupt may have held it up there. The scheduler notes an arrival
    // by its own clock, a little before or after the trace point.
    let most_ns = HELD_NS + HELD_NS / 10 + stayed_ns;
    assert!(
        (HELD_NS - HELD_NS / 10..most_ns).contains(&held_ns),
        "{held_ns} ns, {stayed_ns} ns of them here"
    );
}
