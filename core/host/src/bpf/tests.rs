//! Real packets over the loopback device, recorded by real programs.

mod held;
mod hidden;
mod ongoing;
mod sleeps;

use super::start;
use super::tracer::monotonic_ns;
use crate::trace::{Flow, Payload, TraceCounts, TraceSink, TraceSpec, Tracer};
use quaver_abi::record::{
    EventKind, EventRecord, KEY_UNKNOWN, NO_STACK, SAMPLING_TIMER, StampRecord, stamp_flags,
};
use quaver_abi::wire::stream::{MAGIC, StreamHeader};
use quaver_testbed::privileged::privileged;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use zerocopy::IntoBytes as _;
use zerocopy::byteorder::network_endian::{I64, U32, U64};

/// Descriptors are those of the whole process, so one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

#[derive(Default)]
struct Collected {
    stamps: Vec<StampRecord>,
    events: Vec<EventRecord>,
    stacks: BTreeMap<u32, Vec<u64>>,
}

impl TraceSink for Collected {
    fn stamp(&mut self, record: StampRecord) {
        self.stamps.push(record);
    }
    fn event(&mut self, record: EventRecord) {
        self.events.push(record);
    }
    fn stack(&mut self, number: u32, addresses: &[u64]) {
        self.stacks.insert(number, addresses.to_vec());
    }
}

fn receiver() -> (UdpSocket, u16) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = socket.local_addr().unwrap().port();
    (socket, port)
}

fn spec(port: u16, payload: Payload) -> TraceSpec {
    TraceSpec {
        flow: Some(Flow { address: Some(Ipv4Addr::LOCALHOST.into()), ports: vec![port], payload }),
        threads: vec![rustix::thread::gettid().as_raw_nonzero().get() as u32],
        observed_process: None,
        cpus: Vec::new(),
        stamp_capacity: 1 << 14,
        event_capacity: 1 << 16,
    }
}

fn ours(seq: u64) -> Vec<u8> {
    let header = StreamHeader {
        magic: MAGIC,
        stream_id: U32::new(1),
        seq: U64::new(seq),
        deadline_ns: I64::new(1),
        sent_ns: I64::new(2),
    };
    header.as_bytes().to_vec()
}

/// Sends each payload to the port and receives it again, where `socket` is given.
fn pass(port: u16, socket: Option<&UdpSocket>, payloads: impl Iterator<Item = Vec<u8>>) {
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut buffer = [0; 2048];
    for payload in payloads {
        sender.send_to(&payload, (Ipv4Addr::LOCALHOST, port)).unwrap();
        if let Some(socket) = socket {
            socket.recv(&mut buffer).unwrap();
        }
    }
}

fn finish(tracer: Box<dyn Tracer>) -> (Collected, TraceCounts) {
    let mut collected = Collected::default();
    let counts = tracer.finish(&mut collected).unwrap();
    (collected, counts)
}

/// Runs `packets` through a tracer for `payload`.
fn trace(payload: Payload, packets: impl Iterator<Item = Vec<u8>>) -> (Collected, TraceCounts) {
    let (socket, port) = receiver();
    let mut tracer = start(&spec(port, payload)).unwrap();
    tracer.attach_receiver(socket.as_fd()).unwrap();
    pass(port, Some(&socket), packets);
    finish(tracer)
}

/// Nothing keeps a program in the kernel: it frees what no descriptor and no socket holds (nothing is pinned),
/// a moment later.
fn nothing_is_left(socket: &UdpSocket) {
    let held = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| {
        let target = std::fs::read_link(entry.ok()?.path()).ok()?.to_string_lossy().into_owned();
        target.contains("bpf").then_some(target)
    });
    assert_eq!(held.collect::<Vec<_>>(), Vec::<String>::new());
    let mut length: libc::socklen_t = 0;
    // SAFETY: with a length of 0 the call writes nothing but the length: how long the socket's filter is.
    let result = unsafe {
        let to = std::ptr::null_mut();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_GET_FILTER, to, &raw mut length)
    };
    assert_eq!((result, length), (0, 0), "the socket keeps a filter");
}

fn in_order(record: &StampRecord) -> bool {
    // A layer may be missing where the kernel did not run the program for a packet.
    let present = [record.softirq_ns, record.receive_ns, record.enqueued_ns, record.ready_ns];
    present.iter().filter(|stamp| **stamp != 0).is_sorted()
}

#[test]
fn every_packet_is_stamped_in_order_and_joined_by_sequence() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged("every_packet_is_stamped_in_order_and_joined_by_sequence") {
        return;
    }
    let (collected, counts) = trace(Payload::Ours { offset: 0 }, (0..2_000).map(ours));
    assert_eq!(counts.packets_seen, 2_000);
    assert_eq!(counts.stamps_lost, 0);
    assert!(counts.drops.is_empty(), "{:?}", counts.drops);
    let keys: Vec<u64> = collected.stamps.iter().map(|record| record.key).collect();
    assert_eq!(keys, (0..2_000).collect::<Vec<_>>());
    for record in &collected.stamps {
        assert!(in_order(record) && record.enqueued_ns != 0 && record.ready_ns != 0, "{record:?}");
        assert_eq!((record.flags, record.payload_bytes), (stamp_flags::OURS, 32));
    }
    events_are_disjoint(&collected.events);
    assert!(collected.events.iter().any(|event| event.kind == EventKind::Softirq as u8));
}

/// On each CPU, intervals of one of these kinds never overlap, and none ends before it starts.
fn events_are_disjoint(events: &[EventRecord]) {
    let mut ends: BTreeMap<(u8, u16), u64> = BTreeMap::new();
    let disjoint =
        [EventKind::Thread, EventKind::Irq, EventKind::Softirq, EventKind::Vector, EventKind::IdleState];
    for event in events.iter().filter(|event| event.kind != EventKind::TaskName as u8) {
        assert!(event.start_ns != 0 && event.start_ns <= event.end_ns, "{event:?}");
        if disjoint.iter().any(|kind| *kind as u8 == event.kind) {
            let end = ends.entry((event.kind, event.cpu)).or_insert(0);
            assert!(event.start_ns >= *end, "{event:?} starts before {end}");
            *end = event.end_ns;
        }
    }
}

#[test]
fn a_header_behind_others_and_one_of_rtp_are_found() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged("a_header_behind_others_and_one_of_rtp_are_found") {
        return;
    }
    let behind = (0..50).map(|seq| [vec![0x80; 100], ours(seq)].concat());
    let (collected, _) = trace(Payload::Ours { offset: 100 }, behind);
    assert_eq!(collected.stamps.iter().map(|r| r.key).collect::<Vec<_>>(), (0..50).collect::<Vec<_>>());

    let rtp = |seq: u16| {
        [&[0x80, 98][..], &seq.to_be_bytes(), &(u32::from(seq) * 9).to_be_bytes(), &[0; 4]].concat()
    };
    let (collected, _) = trace(Payload::Rtp, (100..150).map(rtp));
    assert_eq!(collected.stamps.len(), 50);
    for (record, seq) in collected.stamps.iter().zip(100..) {
        assert_eq!((record.key, record.media_timestamp), (seq, seq as u32 * 9));
        assert_eq!(record.flags, stamp_flags::RTP);
    }
    let (collected, _) = trace(Payload::Opaque, (0..50).map(|length| vec![7; length]));
    assert_eq!(
        collected.stamps.iter().map(|r| r.payload_bytes).collect::<Vec<_>>(),
        (0..50).collect::<Vec<_>>()
    );
    assert!(
        collected.stamps.iter().all(|r| r.key == KEY_UNKNOWN && r.flags == 0 && r.ready_ns >= r.enqueued_ns)
    );
}

#[test]
fn what_a_full_socket_buffer_drops_is_counted_by_reason() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged("what_a_full_socket_buffer_drops_is_counted_by_reason") {
        return;
    }
    let (socket, port) = receiver();
    socket2::SockRef::from(&socket).set_recv_buffer_size(4096).unwrap();
    let mut tracer = start(&spec(port, Payload::Ours { offset: 0 })).unwrap();
    tracer.attach_receiver(socket.as_fd()).unwrap();
    pass(port, None, (0..200).map(ours));
    let (collected, counts) = finish(tracer);
    let queued = collected.stamps.iter().filter(|r| r.ready_ns != 0).count() as u64;
    let dropped = collected.stamps.iter().filter(|r| r.flags & stamp_flags::DROPPED != 0).count() as u64;
    assert!(queued > 0 && dropped > 0);
    assert_eq!((counts.packets_seen, queued + dropped), (200, 200));
    assert_eq!(counts.drops, BTreeMap::from([("SOCKET_RCVBUFF".to_owned(), dropped)]));
}

#[test]
fn what_memory_cannot_hold_is_counted() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged("what_memory_cannot_hold_is_counted") {
        return;
    }
    let (socket, port) = receiver();
    let small =
        TraceSpec { stamp_capacity: 64, event_capacity: 256, ..spec(port, Payload::Ours { offset: 0 }) };
    let mut tracer = start(&small).unwrap();
    tracer.attach_receiver(socket.as_fd()).unwrap();
    let mut early = Collected::default();
    pass(port, Some(&socket), (0..40).map(ours));
    tracer.drain(&mut early).unwrap();
    pass(port, Some(&socket), (40..1_000).map(ours));
    let (late, counts) = finish(tracer);
    let stamps = early.stamps.len() + late.stamps.len();
    assert_eq!(counts.packets_seen, 1_000);
    assert_eq!(counts.packets_seen, stamps as u64 + counts.stamps_lost);
    assert!(counts.stamps_lost > 0 && counts.events_lost > 0);
    assert_eq!(late.stamps.last().map(|record| record.key), Some(999), "the newest are kept");
}

#[test]
fn two_tracers_do_not_disturb_each_other_and_off_records_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged("two_tracers_do_not_disturb_each_other_and_off_records_nothing") {
        return;
    }
    let (socket, port) = receiver();
    let (other_socket, other_port) = receiver();
    let mut tracer = start(&spec(port, Payload::Ours { offset: 0 })).unwrap();
    let mut other = start(&spec(other_port, Payload::Ours { offset: 0 })).unwrap();
    tracer.attach_receiver(socket.as_fd()).unwrap();
    other.attach_receiver(other_socket.as_fd()).unwrap();
    pass(port, Some(&socket), (0..100).map(ours));
    pass(other_port, Some(&other_socket), (0..30).map(ours));
    tracer.set_recording(false).unwrap();
    pass(port, Some(&socket), (100..200).map(ours));
    tracer.set_recording(true).unwrap();
    pass(port, Some(&socket), (200..250).map(ours));
    let (collected, _) = finish(tracer);
    let keys: Vec<u64> = collected.stamps.iter().map(|record| record.key).collect();
    assert_eq!(keys, (0..100).chain(200..250).collect::<Vec<_>>());
    let (collected, counts) = finish(other);
    assert_eq!((collected.stamps.len(), counts.packets_seen), (30, 30));
    nothing_is_left(&socket);
    nothing_is_left(&other_socket);
}

#[test]
fn receive_calls_of_an_observed_process_end_its_packets() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged("receive_calls_of_an_observed_process_end_its_packets") {
        return;
    }
    let (socket, port) = receiver();
    let mut buffer = [0; 64];
    pass(port, None, (900..903).map(ours));
    let observing =
        TraceSpec { observed_process: Some(std::process::id()), ..spec(port, Payload::Ours { offset: 0 }) };
    let tracer = start(&observing).unwrap();
    pass(port, None, (0..20).map(ours));
    (0..3).for_each(|_| assert_eq!(socket.recv(&mut buffer).unwrap(), 32));
    socket.peek(&mut buffer).unwrap();
    (0..15).for_each(|_| assert_eq!(socket.recv(&mut buffer).unwrap(), 32));
    let (collected, counts) = finish(tracer);
    assert_eq!(counts.packets_seen, 20, "packets queued before recording are not counted");
    for (record, key) in collected.stamps.iter().zip(0..) {
        assert_eq!((record.key, record.user_ns != 0), (key, key < 15), "{record:?}");
        assert!(record.user_ns == 0 || record.user_ns >= record.ready_ns);
        assert_eq!(record.flags & stamp_flags::PEEKED != 0, key == 0);
    }
}

#[test]
fn a_packet_that_is_taken_first_in_a_recording_is_none_that_was_told_of_before() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged("a_packet_that_is_taken_first_in_a_recording_is_none_that_was_told_of_before") {
        return;
    }
    let (socket, port) = receiver();
    let mut buffer = [0; 64];
    let observing =
        TraceSpec { observed_process: Some(std::process::id()), ..spec(port, Payload::Ours { offset: 0 }) };
    let mut tracer = start(&observing).unwrap();
    pass(port, None, (0..4).map(ours));
    tracer.set_recording(false).unwrap();
    (0..4).for_each(|_| assert_eq!(socket.recv(&mut buffer).unwrap(), 32));
    pass(port, None, (4..7).map(ours));
    tracer.set_recording(true).unwrap();
    // Three are in the socket, of which no program was told.
    (4..7).for_each(|_| assert_eq!(socket.recv(&mut buffer).unwrap(), 32));
    pass(port, Some(&socket), (7..9).map(ours));
    let (collected, _) = finish(tracer);
    let read = |record: &StampRecord| (record.key, record.user_ns != 0);
    let expected = [(0, false), (1, false), (2, false), (3, false), (7, true), (8, true)];
    assert_eq!(collected.stamps.iter().map(read).collect::<Vec<_>>(), expected);
}

#[test]
fn packets_that_another_process_takes_from_a_shared_socket_are_told() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged("packets_that_another_process_takes_from_a_shared_socket_are_told") {
        return;
    }
    let (socket, port) = receiver();
    let mut buffer = [0; 64];
    let observing =
        TraceSpec { observed_process: Some(std::process::id()), ..spec(port, Payload::Ours { offset: 0 }) };
    let tracer = start(&observing).unwrap();
    pass(port, None, (0..20).map(ours));
    (0..3).for_each(|_| assert_eq!(socket.recv(&mut buffer).unwrap(), 32));
    let shared = std::os::fd::OwnedFd::from(socket.try_clone().unwrap());
    let mut other = std::process::Command::new("dd");
    let other = other.args(["bs=64", "count=5", "of=/dev/null", "status=none"]).stdin(shared);
    assert!(other.status().unwrap().success());
    (0..10).for_each(|_| assert_eq!(socket.recv(&mut buffer).unwrap(), 32));
    let (collected, _) = finish(tracer);
    for (record, key) in collected.stamps.iter().zip(0..) {
        let elsewhere = record.flags & stamp_flags::ELSEWHERE != 0;
        let expected = (key, (3..8).contains(&key), key < 3 || (8..18).contains(&key));
        assert_eq!((record.key, elsewhere, record.user_ns != 0), expected, "{record:?}");
    }
    assert_eq!(collected.stamps.len(), 20);
}

/// Computes for `time`, so that whoever looks sees this function.
#[inline(never)]
fn computes(time: Duration) -> u64 {
    let (start, mut turns) = (Instant::now(), 0u64);
    while start.elapsed() < time {
        turns = std::hint::black_box(turns + 1);
    }
    turns
}

#[test]
fn what_an_observed_thread_does_itself_is_recorded() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged("what_an_observed_thread_does_itself_is_recorded") {
        return;
    }
    let (_socket, port) = receiver();
    let observing = TraceSpec { observed_process: Some(std::process::id()), ..spec(port, Payload::Opaque) };
    let thread = observing.threads[0];
    let tracer = start(&observing).unwrap();
    assert_eq!(tracer.blind().iter().filter(|what| what.contains("stacks")).count(), 0);
    let from_ns = monotonic_ns();
    std::thread::sleep(Duration::from_millis(5));
    let between_ns = monotonic_ns();
    computes(Duration::from_millis(100));
    let until_ns = monotonic_ns();
    std::thread::sleep(Duration::from_millis(20));
    let (collected, _) = finish(tracer);
    let of = |kind: EventKind| collected.events.iter().filter(move |event| event.kind == kind as u8);
    // The timer of the samples is ours, also while the CPU idles. Nobody else takes samples here.
    for cpu in 0..1024 {
        let timers = || of(EventKind::Hrtimer).filter(move |timer| timer.cpu == cpu);
        let Some(first) = timers().find(|timer| timer.detail & SAMPLING_TIMER != 0) else { continue };
        let later = timers().filter(|timer| timer.aux == first.aux && timer.start_ns > first.start_ns);
        let others = later.filter(|timer| timer.detail & SAMPLING_TIMER == 0).count();
        assert_eq!(others, 0, "CPU {cpu}");
    }

    let calls: Vec<&EventRecord> =
        of(EventKind::SystemCall).filter(|call| call.start_ns >= from_ns).collect();
    // Records of one CPU are in order, not those of several.
    let slept = calls.iter().filter(|call| call.aux == libc::SYS_clock_nanosleep as u64);
    let sleep = slept.min_by_key(|call| call.start_ns).expect("it slept");
    assert_eq!(sleep.id, thread);
    assert!(sleep.end_ns <= between_ns && sleep.end_ns - sleep.start_ns >= 5_000_000, "{sleep:?}");
    assert!(calls.iter().all(|call| call.end_ns - call.start_ns >= 20_000), "{calls:?}");

    let here = computes as *const () as u64;
    let is_here = |address: &&u64| (here..here + 4096).contains(*address);
    let mut in_user_code = 0;
    for sample in of(EventKind::Sample).filter(|sample| (between_ns..until_ns).contains(&sample.start_ns)) {
        assert_eq!((sample.id, sample.start_ns), (thread, sample.end_ns));
        assert_eq!(
            sample.detail == 0,
            sample.aux as u32 == NO_STACK,
            "no kernel stack in user mode: {sample:?}"
        );
        let stack = collected.stacks.get(&((sample.aux >> 32) as u32));
        in_user_code += usize::from(stack.is_some_and(|stack| stack.iter().any(|one| is_here(&one))));
    }
    let runs = || of(EventKind::Thread).filter(|run| run.id == thread);
    let during = |run: &EventRecord| run.start_ns.max(between_ns)..run.end_ns.min(until_ns);
    let ran: u64 = runs().map(|run| during(run).end.saturating_sub(during(run).start)).sum();
    // The kernel looks once in 1.003 ms. Where the host held up its timer, it looked as often as the timer fired.
    let is_look = |timer: &&EventRecord| {
        let timer = *timer;
        timer.detail & SAMPLING_TIMER != 0
            && runs().any(|run| run.cpu == timer.cpu && during(run).contains(&timer.start_ns))
    };
    let mut looks_ns: Vec<_> = of(EventKind::Hrtimer).filter(is_look).map(|timer| timer.start_ns).collect();
    looks_ns.sort_unstable();
    let least_ns = looks_ns.windows(2).map(|pair| pair[1] - pair[0]).min().expect("it looked");
    assert!((501_500..1_504_500).contains(&least_ns), "{least_ns} ns between two looks");
    assert!(in_user_code >= looks_ns.len() / 2, "{in_user_code} of {} looks", looks_ns.len());
    assert!(in_user_code as u64 <= ran / 1_003_000 + 2, "{in_user_code} looks in {ran} ns");
}

/// Each CPU's steal records are disjoint, none says more than the time between its looks, and the host's count is the one
/// that the kernel reports.
#[test]
fn steal_fits_between_its_looks_and_agrees_with_the_kernel() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged("steal_fits_between_its_looks_and_agrees_with_the_kernel") {
        return;
    }
    let tracer = start(&TraceSpec { flow: None, ..spec(0, Payload::Opaque) }).unwrap();
    assert_eq!(tracer.blind().iter().find(|phrase| phrase.contains("steal")), None, "{:?}", tracer.blind());
    let until = std::time::Instant::now() + std::time::Duration::from_millis(300);
    while std::time::Instant::now() < until {}
    let (collected, counts) = finish(tracer);
    assert_eq!(counts.steal_disagreements, Vec::<String>::new());
    let mut reached: BTreeMap<u16, u64> = BTreeMap::new();
    for event in collected.events.iter().filter(|event| event.kind == EventKind::Steal as u8) {
        assert!(event.aux > 0 && event.aux <= event.end_ns - event.start_ns, "{event:?}");
        let end = reached.entry(event.cpu).or_insert(0);
        assert!(event.start_ns >= *end, "{event:?} starts before {end}");
        *end = event.end_ns;
    }
}
