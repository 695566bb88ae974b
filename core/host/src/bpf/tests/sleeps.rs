//! What a followed thread waits for, and what wakes it, as real programs see it.

use super::{ALONE, Collected, finish, receiver, spec};
use crate::bpf::start;
use crate::trace::{Payload, TraceSpec};
use quaver_abi::record::{EventKind, EventRecord, OffCpu, Sleep, SleepObject, WakeContext, Wakeup};
use quaver_testbed::privileged::privileged;
use std::io::{Read as _, Write as _};
use std::net::UdpSocket;
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::time::Duration;

/// Longer than any sleep that is not meant.
const PAUSE: Duration = Duration::from_millis(30);

/// A followed thread's waits in the order of their begin.
struct Waits {
    events: Vec<EventRecord>,
    thread: u32,
}

impl Waits {
    fn of(&self, kind: EventKind) -> impl Iterator<Item = &EventRecord> {
        self.events.iter().filter(move |event| event.kind == kind as u8 && event.id == self.thread)
    }

    /// What it left its CPU for and came back from, for each sleep of at least half a pause.
    fn sleeps(&self) -> Vec<[&EventRecord; 2]> {
        let runs: Vec<&EventRecord> = self.of(EventKind::Thread).collect();
        let long =
            |pair: &&[&EventRecord]| u128::from(pair[1].start_ns - pair[0].end_ns) >= PAUSE.as_nanos() / 2;
        runs.windows(2).filter(long).map(|pair| [pair[0], pair[1]]).collect()
    }

    /// What ended these sleeps.
    fn wakes(&self) -> Vec<Wakeup> {
        let wake = |pair: [&EventRecord; 2]| {
            self.of(EventKind::Wakeup).find(|wake| wake.start_ns >= pair[0].end_ns && wake.detail == 1)
        };
        // One that is preempted for as long is not woken.
        let sleeps =
            self.sleeps().into_iter().filter(|pair| OffCpu::from_raw(pair[0].detail) == OffCpu::Blocked);
        sleeps.filter_map(wake).map(|wake| Wakeup::from_aux(wake.aux)).collect()
    }

    /// Why it left its CPU for each of these sleeps, at what, and what woke it.
    fn long(&self) -> Vec<(OffCpu, SleepObject, WakeContext)> {
        self.sleeps()
            .into_iter()
            .map(|pair| {
                let left = pair[0].end_ns;
                let sleep = self.of(EventKind::Sleep).find(|sleep| sleep.start_ns == left);
                let wake = self.of(EventKind::Wakeup).find(|wake| wake.start_ns >= left && wake.detail == 1);
                (
                    OffCpu::from_raw(pair[0].detail),
                    sleep.map_or(SleepObject::Unknown, |sleep| SleepObject::from_raw(sleep.detail)),
                    wake.map_or(WakeContext::Unknown, |wake| Wakeup::from_aux(wake.aux).context),
                )
            })
            .collect()
    }
}

/// Records a thread that runs `body` while this one runs `meanwhile`.
fn record(
    socket: &UdpSocket,
    body: impl FnOnce(&UdpSocket) + Send + 'static,
    meanwhile: impl FnOnce(u16),
) -> Waits {
    let port = socket.local_addr().unwrap().port();
    let (ready, go) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (sender, receiver) = std::sync::mpsc::channel();
    let their_socket = socket.try_clone().unwrap();
    let (their_ready, their_go) = (ready.clone(), go.clone());
    let thread = std::thread::spawn(move || {
        sender.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
        their_ready.wait();
        their_go.wait();
        body(&their_socket);
    });
    let id = receiver.recv().unwrap();
    ready.wait();
    let tracer = start(&TraceSpec { threads: vec![id], ..spec(port, Payload::Opaque) }).unwrap();
    std::thread::sleep(PAUSE);
    go.wait();
    meanwhile(port);
    thread.join().unwrap();
    let (Collected { mut events, .. }, _) = finish(tracer);
    events.sort_by_key(|event| event.start_ns);
    Waits { events, thread: id }
}

#[test]
fn what_a_thread_waits_for_and_what_wakes_it_is_recorded() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged("what_a_thread_waits_for_and_what_wakes_it_is_recorded") {
        return;
    }
    let (socket, _) = receiver();
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    let pair = Arc::new((Mutex::new(false), Condvar::new()));
    let theirs = pair.clone();
    let body = move |socket: &UdpSocket| {
        let mut buffer = [0; 64];
        std::thread::sleep(PAUSE);
        socket.recv(&mut buffer).unwrap();
        let mut watched = [rustix::event::PollFd::new(socket, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut watched, None).unwrap();
        reader.read_exact(&mut buffer[..1]).unwrap();
        let (open, opened) = &*theirs;
        let _open = opened.wait_while(open.lock().unwrap(), |open| !*open).unwrap();
    };
    let waits = record(&socket, body, |port| {
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        std::thread::sleep(PAUSE * 2);
        sender.send_to(b"one", ("127.0.0.1", port)).unwrap();
        std::thread::sleep(PAUSE);
        sender.send_to(b"two", ("127.0.0.1", port)).unwrap();
        std::thread::sleep(PAUSE);
        writer.write_all(b"3").unwrap();
        std::thread::sleep(PAUSE);
        *pair.0.lock().unwrap() = true;
        pair.1.notify_one();
    });
    let long = waits.long();
    let nothing = SleepObject::Unknown;
    let expected = [
        (OffCpu::Blocked, SleepObject::Futex, WakeContext::Task),
        (OffCpu::Blocked, SleepObject::Clock, WakeContext::Timer),
        (OffCpu::Receiving, nothing, WakeContext::Stream),
        (OffCpu::Polling, nothing, WakeContext::Stream),
        (OffCpu::Blocked, SleepObject::Pipe, WakeContext::Task),
        (OffCpu::Blocked, SleepObject::Futex, WakeContext::Task),
    ];
    // The first is the barrier that it waited at as recording began, where that was seen.
    assert_eq!(long[long.len().saturating_sub(5)..], expected[1..], "{long:?}");
    let calls: Vec<Option<u16>> =
        waits.of(EventKind::Sleep).map(|sleep| Sleep::from_aux(sleep.aux).call).collect();
    let known = |call: libc::c_long| calls.contains(&Some(call as u16));
    assert!(known(libc::SYS_clock_nanosleep) && known(libc::SYS_read) && known(libc::SYS_futex), "{calls:?}");
}

#[test]
fn a_wait_for_the_end_of_a_thread_is_told_from_one_for_a_lock() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged("a_wait_for_the_end_of_a_thread_is_told_from_one_for_a_lock") {
        return;
    }
    let (socket, _) = receiver();
    // The thread that lets go of the lock ends at once, too.
    let pair = Arc::new((Mutex::new(false), Condvar::new()));
    let theirs = pair.clone();
    let body = move |_: &UdpSocket| {
        let (open, opened) = &*theirs;
        drop(opened.wait_while(open.lock().unwrap(), |open| !*open).unwrap());
        std::thread::spawn(|| std::thread::sleep(PAUSE)).join().unwrap();
    };
    let waits = record(&socket, body, |_| {
        let lets_go = std::thread::spawn(move || {
            std::thread::sleep(PAUSE);
            *pair.0.lock().unwrap() = true;
            pair.1.notify_one();
        });
        lets_go.join().unwrap();
    });
    let woken: Vec<bool> = waits.wakes().iter().map(|wake| wake.by_an_end()).collect();
    assert_eq!(woken[woken.len().saturating_sub(2)..], [false, true]);
}

#[test]
fn a_wait_for_another_process_is_none_for_its_first_argument() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged("a_wait_for_another_process_is_none_for_its_first_argument") {
        return;
    }
    let (socket, _) = receiver();
    let file = tempfile::NamedTempFile::new().unwrap();
    let theirs = file.reopen().unwrap();
    let exclusive = rustix::fs::FlockOperation::LockExclusive;
    rustix::fs::flock(&file, exclusive).unwrap();
    // A lock on a file is no wait for its disk.
    let body = move |_: &UdpSocket| rustix::fs::flock(&theirs, exclusive).unwrap();
    let waits = record(&socket, body, |_| {
        std::thread::sleep(PAUSE);
        rustix::fs::flock(&file, rustix::fs::FlockOperation::Unlock).unwrap();
    });
    let long = waits.long();
    assert_eq!(long.last(), Some(&(OffCpu::Blocked, SleepObject::Peer, WakeContext::Task)), "{long:?}");
}

#[test]
fn an_argument_that_is_no_descriptor_names_no_file() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged("an_argument_that_is_no_descriptor_names_no_file") {
        return;
    }
    const GLOBAL: libc::c_long = 1;
    let (socket, _) = receiver();
    // It sleeps until all CPUs went through a grace period. Its command is the number of standard output.
    let body = |_: &UdpSocket| {
        // SAFETY: the call takes three integers, and touches no memory of ours.
        let done = unsafe { libc::syscall(libc::SYS_membarrier, GLOBAL, 0, 0) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    };
    let waits = record(&socket, body, |_| {});
    let slept = waits.of(EventKind::Sleep).filter(|sleep| {
        Sleep::from_aux(sleep.aux).call.is_some_and(|call| libc::c_long::from(call) == libc::SYS_membarrier)
    });
    let objects: Vec<SleepObject> = slept.map(|sleep| SleepObject::from_raw(sleep.detail)).collect();
    assert!(!objects.is_empty(), "membarrier did not sleep");
    assert!(objects.iter().all(|object| *object == SleepObject::Unknown), "{objects:?}");
}
