//! Who held a CPU in the kernel while followed threads waited for it.

use super::{ALONE, Collected, finish, receiver, spec};
use crate::bpf::start;
use crate::trace::{Payload, TraceSpec};
use quaver_abi::record::{EventKind, EventRecord, OffCpu};
use quaver_testbed::inject::{kernel_work, schedule};
use quaver_testbed::privileged::privileged;
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// From here on the stack is of use; the programs have 50 us.
const LONG_NS: u64 = 60_000;
const ROUNDS: usize = 100;

/// A SCHED_FIFO thread on `cpu` that blocks until it receives a message: its number, its channel and its handle.
fn sleeper(cpu: u16) -> (u32, Sender<()>, JoinHandle<()>) {
    let (wake, woken): (Sender<()>, Receiver<()>) = channel();
    let (tell, told) = channel();
    let thread = std::thread::spawn(move || {
        schedule::bind(0, cpu).unwrap();
        schedule::fifo(0, 50).unwrap();
        tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
        while woken.recv().is_ok() {}
    });
    (told.recv().unwrap(), wake, thread)
}

/// When the followed threads that wait for the end of `run` were made runnable.
fn made_runnable<'a>(events: &'a [EventRecord], run: &EventRecord) -> Vec<&'a EventRecord> {
    let within = |wake: &&EventRecord| {
        wake.kind == EventKind::Wakeup as u8
            && wake.detail == 0
            && (run.start_ns..run.end_ns).contains(&wake.start_ns)
    };
    events.iter().filter(within).collect()
}

#[test]
fn the_stack_of_who_held_the_cpu_is_kept_whichever_of_those_who_waited_comes_first() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged("the_stack_of_who_held_the_cpu_is_kept_whichever_of_those_who_waited_comes_first") {
        return;
    }
    let before = rustix::thread::sched_getaffinity(None).unwrap();
    let cpus: Vec<u16> = (0..1024_u16).filter(|&cpu| before.is_set(usize::from(cpu))).collect();
    let (ours, theirs) = (cpus[0], cpus[cpus.len() - 1]);
    schedule::bind(0, ours).unwrap();
    let (first, wake_first, first_thread) = sleeper(theirs);
    let (second, wake_second, second_thread) = sleeper(theirs);
    let (_socket, port) = receiver();
    let tracer = start(&TraceSpec { threads: vec![first, second], ..spec(port, Payload::Opaque) }).unwrap();
    let hog = kernel_work::semaphores(theirs).unwrap();
    let hog_thread = loop {
        if let Some(thread) = schedule::find_thread(std::process::id(), "inject-kernel") {
            break thread;
        }
    };
    for _ in 0..ROUNDS {
        wake_first.send(()).unwrap();
        wake_second.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    drop((hog, wake_first, wake_second));
    first_thread.join().unwrap();
    second_thread.join().unwrap();
    let (Collected { events, .. }, _) = finish(tracer);
    rustix::thread::sched_setaffinity(None, &before).unwrap();

    let told = |run: &EventRecord| {
        let here = |frame: &&EventRecord| (frame.start_ns, frame.id) == (run.end_ns, hog_thread);
        events.iter().filter(|event| event.kind == EventKind::Frame as u8).any(|frame| here(&frame))
    };
    let mut held_up_both = 0;
    for run in &events {
        let gave_way = OffCpu::from_raw(run.detail) == OffCpu::Preempted;
        if run.kind != EventKind::Thread as u8 || run.id != hog_thread || !gave_way {
            continue;
        }
        let waiting = made_runnable(&events, run);
        let since_ns = waiting.iter().map(|wake| wake.start_ns).min().unwrap_or(run.end_ns);
        if run.end_ns - since_ns > LONG_NS {
            assert!(told(run), "no stack at the end of {run:?}, for which waited {waiting:?}");
            held_up_both +=
                usize::from(waiting.iter().map(|wake| wake.id).collect::<BTreeSet<_>>().len() == 2);
        }
    }
    assert!(held_up_both > 0, "the kernel's work never held up both");
}
