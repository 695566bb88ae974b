use super::*;
use crate::SendOptions;
use crate::profile::{Profile, ProfileName};
use crate::schedule::Schedule;
use crate::source::{Source, SourceOptions, SourceOutcome, SourceReport, StreamLength};
use quaver_abi::record::{GapPlace, KEY_UNKNOWN, SendRecord, packet_flags};
use quaver_abi::segment::{Record, SegmentHeader};
use quaver_abi::wire::rtp::RtpHeader;
use quaver_clock::{Counter, nominal_scale};
use quaver_host::netns::Lab;
use quaver_testbed::privileged::privileged;
use quaver_testbed::privileged::{Lack, skip};
use rustix::time::{ClockId, clock_gettime};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use zerocopy::IntoBytes;

const MOST_WAIT: Duration = Duration::from_secs(20);

/// Records of a finished segment.
fn records<R: Record>(segment: SegmentWriter<R>) -> Vec<R> {
    let summary = segment.finish().unwrap();
    let octets = std::fs::read(summary.path).unwrap();
    SegmentHeader::check::<R>(&octets).unwrap();
    octets[size_of::<SegmentHeader>()..]
        .chunks_exact(size_of::<R>())
        .map(|record| R::read_from_bytes(record).unwrap())
        .collect()
}

/// Everything that one stream left.
struct Stream {
    sent: Vec<SendRecord>,
    received: Vec<PacketRecord>,
    source: SourceReport,
    sink: SinkReport,
}

/// Opens both ends (each maybe elsewhere), runs the stream, waits until every packet that was sent is accounted
/// for at the sink, and ends both.
fn run(sink: Sink, source: Source, packets: u64) -> Stream {
    let directory = TempDir::new().unwrap();
    let sink =
        sink.prepare(SegmentWriter::create(&directory.path().join("packets"), packets * 2).unwrap()).unwrap();
    let source =
        source.prepare(SegmentWriter::create(&directory.path().join("sends"), packets * 2).unwrap()).unwrap();
    assert!(sink.tid() > 0 && source.tid() > 0 && sink.tid() != source.tid());
    let (sink, source) = (sink.go(), source.go());
    let SourceOutcome { report: source, segment: sends } = source.join().unwrap();
    let end = Instant::now() + MOST_WAIT;
    while sink.live().received() < source.sent && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    let SinkOutcome { report: sink, segment, .. } = sink.join().unwrap();
    Stream { sent: records(sends), received: records(segment), source, sink }
}

fn every_ns(period_ns: u64) -> Schedule {
    Schedule::every(period_ns, 1).unwrap()
}

fn plain(period_ns: u64) -> Profile {
    Profile::plain(200, every_ns(period_ns)).unwrap()
}

fn source_options(to: SocketAddr, profile: Profile, packets: u64) -> SourceOptions {
    let length = StreamLength::Packets(packets);
    let pace = crate::source::Pace::Sleep;
    SourceOptions { stream_id: 77, pace, ..SourceOptions::new(to, profile, length, Counter::Hardware) }
}

fn sink_options(bind: impl Into<SocketAddr>) -> SinkOptions {
    SinkOptions { stream_id: Some(77), ..SinkOptions::new(bind.into(), Counter::Hardware) }
}

/// A stream over loopback.
fn over_loopback(options: SinkOptions, profile: Profile, packets: u64) -> Stream {
    let sink = Sink::open(options).unwrap();
    let source = Source::open(source_options(sink.local_address(), profile, packets)).unwrap();
    run(sink, source, packets)
}

/// Each packet exactly once, in order, and both ends agree.
fn assert_complete(stream: &Stream, packets: u64) {
    assert_eq!((stream.source.packets, stream.source.sent), (packets, packets));
    assert!(stream.source.failed.is_empty(), "{:?}", stream.source.failed);
    let keys: Vec<u64> = stream.received.iter().map(|record| record.key).collect();
    assert_eq!(keys, (0..packets).collect::<Vec<u64>>());
    let sequence: Vec<u64> = stream.sent.iter().map(|record| record.seq).collect();
    assert_eq!(sequence, keys);
    for (sent, received) in stream.sent.iter().zip(&stream.received) {
        assert_eq!(received.deadline_ns, sent.deadline_ns);
        assert!(received.sent_ns >= sent.deadline_ns && sent.after_cycles > sent.before_cycles);
        assert!(received.app_cycles > sent.before_cycles, "counters of both ends are one clock");
        assert!(received.flags & packet_flags::OURS != 0);
    }
    assert_eq!((stream.sink.received, stream.sink.ours), (packets, packets));
    assert_eq!((stream.sink.unread, stream.sink.truncated, stream.sink.errors), (0, 0, 0));
    assert_eq!(stream.sink.receive_drops.unwrap_or(0), 0);
}

const LOOPBACK: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

#[test]
fn each_receive_mode_gets_every_packet_once_and_in_order() {
    for receive in [Receive::Poll, Receive::Block, Receive::Epoll, Receive::BusyPoll] {
        for kernel_stamps in [false, true] {
            let options = SinkOptions { receive, kernel_stamps, ..sink_options(LOOPBACK) };
            if receive == Receive::BusyPoll
                && matches!(Sink::open(options.clone()), Err(ProbeError::NotPermitted { .. }))
            {
                skip(&format!("{} mode", receive.name()), Lack::Root);
                continue;
            }
            let stream = over_loopback(options, plain(500_000), 200);
            assert_complete(&stream, 200);
            for record in &stream.received {
                assert_eq!((record.payload_bytes, record.kernel_realtime_ns != 0), (200, kernel_stamps));
            }
        }
    }
}

#[test]
fn kernel_stamps_are_on_the_wall_clock_before_the_application() {
    let before = clock_gettime(ClockId::Realtime);
    let options = SinkOptions { kernel_stamps: true, receive: Receive::Block, ..sink_options(LOOPBACK) };
    let stream = over_loopback(options, plain(200_000), 50);
    let after = clock_gettime(ClockId::Realtime);
    let ns = |time: rustix::time::Timespec| time.tv_sec * 1_000_000_000 + time.tv_nsec;
    for pair in stream.received.windows(2) {
        assert!(pair[0].kernel_realtime_ns <= pair[1].kernel_realtime_ns);
    }
    for record in &stream.received {
        assert!((ns(before)..=ns(after)).contains(&record.kernel_realtime_ns));
    }
}

#[test]
fn deadlines_lie_on_the_grid_and_skipped_slots_are_counted() {
    // Far faster than anything sends: slots must be missed, none may be sent in a burst before its time.
    let profile = plain(700);
    let stream = over_loopback(sink_options(LOOPBACK), profile.clone(), 2_000);
    let schedule = profile.schedule();
    let mut last_slot = None;
    let mut skipped = 0;
    for record in &stream.sent {
        let offset = record.deadline_ns - stream.source.start_ns;
        let slot = schedule.first_after(offset) - 1;
        assert_eq!(schedule.offset_ns(slot), offset, "on the grid");
        assert!(last_slot.is_none_or(|last| slot > last), "each slot is used once");
        skipped += slot - last_slot.map_or(0, |last| last + 1);
        last_slot = Some(slot);
    }
    assert_eq!(stream.source.misses, skipped);
    assert!(skipped > 0);
    assert_eq!(stream.sent.len(), 2_000);
}

#[test]
fn catching_up_uses_every_slot() {
    let sink = Sink::open(sink_options(LOOPBACK)).unwrap();
    let options = SourceOptions { catch_up: true, ..source_options(sink.local_address(), plain(700), 2_000) };
    let stream = run(sink, Source::open(options).unwrap(), 2_000);
    assert_eq!(stream.source.misses, 0);
    for (index, record) in (0..).zip(&stream.sent) {
        assert_eq!(record.deadline_ns, stream.source.start_ns + index * 700);
    }
}

#[test]
fn ipv6_and_multicast() {
    assert_complete(&over_loopback(sink_options((Ipv6Addr::LOCALHOST, 0)), plain(200_000), 100), 100);
    const LOOPBACK_INDEX: u32 = 1;
    // An administratively scoped group (RFC 2365).
    let group = Ipv4Addr::new(239, 255, 77, 1);
    let options = SinkOptions { multicast_interface: Some(LOOPBACK_INDEX), ..sink_options((group, 0)) };
    let sink = Sink::open(options).unwrap();
    let to = (group, sink.local_address().port()).into();
    let source = Source::open(to_group(to, LOOPBACK_INDEX)).unwrap();
    assert_complete(&run(sink, source, 100), 100);
}

fn to_group(to: SocketAddr, interface: u32) -> SourceOptions {
    let socket =
        SendOptions { multicast_interface: Some(interface), ttl: Some(1), dscp: Some(46), bind: None };
    SourceOptions { socket, ..source_options(to, plain(200_000), 100) }
}

#[test]
fn profiles_arrive_with_their_headers() {
    for name in ProfileName::ALL {
        let mut profile = Profile::named(name);
        profile.schedule = every_ns(100_000);
        let payload = Payload::Ours { offset: profile.header_offset() as u16 };
        let options = SinkOptions { payload, ..sink_options(LOOPBACK) };
        let stream = over_loopback(options, profile.clone(), 50);
        assert_complete(&stream, 50);
        let is_rtp = profile.header_offset() > 0;
        for record in &stream.received {
            assert_eq!(record.payload_bytes as usize, profile.payload_bytes());
            assert_eq!(record.flags & packet_flags::RTP != 0, is_rtp);
        }
    }
}

/// Sends `packets` to a sink with these options and returns what it made of them.
fn receive_foreign(options: SinkOptions, packets: &[&[u8]]) -> (Vec<PacketRecord>, SinkReport) {
    let directory = TempDir::new().unwrap();
    let sink = Sink::open(options).unwrap();
    let to = sink.local_address();
    let sink =
        sink.prepare(SegmentWriter::create(&directory.path().join("packets"), 16).unwrap()).unwrap().go();
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for packet in packets {
        sender.send_to(packet, to).unwrap();
    }
    let end = Instant::now() + MOST_WAIT;
    while sink.live().received() < packets.len() as u64 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    let outcome = sink.join().unwrap();
    (records(outcome.segment), outcome.report)
}

#[test]
fn foreign_packets_are_received_and_not_taken_for_ours() {
    let mut rtp = [0u8; 100];
    rtp[..12].copy_from_slice(RtpHeader::new(96, false, 4_711, 90_000, 1).as_bytes());
    let packets: [&[u8]; 3] = [&rtp, b"noise", b""];
    let of_rtp = SinkOptions { payload: Payload::Rtp, ..sink_options(LOOPBACK) };
    let (records, report) = receive_foreign(of_rtp, &packets);
    let seen: Vec<_> = records.iter().map(|r| (r.key, r.media_timestamp, r.payload_bytes)).collect();
    assert_eq!(seen, [(4_711, 90_000, 100), (KEY_UNKNOWN, 0, 5), (KEY_UNKNOWN, 0, 0)]);
    assert_eq!((report.received, report.ours), (3, 0));
    let (records, report) = receive_foreign(sink_options(LOOPBACK), &packets);
    assert!(records.iter().all(|record| record.key == KEY_UNKNOWN && record.flags == 0));
    assert_eq!((report.received, report.ours), (3, 0));
}

/// Time that a thread of this process has had a CPU: the first number of `schedstat`, nanoseconds.
fn ran_ns(tid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

fn wait_until(is_so: impl Fn() -> bool) {
    let end = Instant::now() + MOST_WAIT;
    while !is_so() {
        assert!(Instant::now() < end, "waited in vain");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Stands still for 3 ms of its own accord, once a packet has come.
fn stand_still(received: u64) {
    thread_local!(static STOOD: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
    if received == 1 && !STOOD.replace(true) {
        let until = Instant::now() + Duration::from_millis(3);
        while Instant::now() < until {}
    }
}

#[test]
fn a_polling_sink_records_its_long_turns_and_where_it_was() {
    let directory = TempDir::new().unwrap();
    let options = SinkOptions { disturb: Some(stand_still), ..sink_options(LOOPBACK) };
    let counter = options.counter;
    let mut sink = Sink::open(options).unwrap();
    let to = sink.local_address();
    sink.record_turns(SegmentWriter::create(&directory.path().join("turns"), 4_096).unwrap());
    let packets = SegmentWriter::create(&directory.path().join("packets"), 16).unwrap();
    let sink = sink.prepare(packets).unwrap();
    let (tid, before_ns) = (sink.tid(), ran_ns(sink.tid()));
    let sink = sink.go();
    // The usual turn is learned from the first thousand.
    wait_until(|| ran_ns(tid) >= before_ns + 50_000_000);
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().send_to(b"one", to).unwrap();
    wait_until(|| sink.live().received() == 1);
    let before_ns = ran_ns(tid);
    wait_until(|| ran_ns(tid) >= before_ns + 50_000_000);
    let outcome = sink.join().unwrap();
    let turns = records(outcome.turns.unwrap());
    let scale = nominal_scale(counter);
    let stood = turns.iter().filter(|turn| scale.ns(turn.after_cycles - turn.before_cycles) >= 3_000_000);
    let stood: Vec<_> = stood.filter(|turn| turn.place() == Some(GapPlace::UserCode)).collect();
    assert!(!stood.is_empty(), "{turns:?}");
    // Turns of one loop follow each other.
    assert!(turns.windows(2).all(|pair| pair[0].after_cycles <= pair[1].before_cycles));
    assert!(turns.iter().all(|turn| turn.place().is_some() && turn.after_cycles > turn.before_cycles));
}

#[test]
fn long_packets_are_cut_and_marked() {
    let options = SinkOptions { payload_capacity: 64, ..sink_options(LOOPBACK) };
    for kernel_stamps in [false, true] {
        let (records, report) = receive_foreign(
            SinkOptions { kernel_stamps, ..options.clone() },
            &[&[1u8; 64], &[1u8; 65], &[1u8; 1_000]],
        );
        let seen: Vec<_> =
            records.iter().map(|r| (r.payload_bytes, r.flags & packet_flags::TRUNCATED != 0)).collect();
        assert_eq!(seen, [(64, false), (65, true), (1_000, true)]);
        assert_eq!(report.truncated, 2);
    }
}

#[test]
fn packets_without_room_are_counted_as_unrecorded() {
    let directory = TempDir::new().unwrap();
    let sink = Sink::open(sink_options(LOOPBACK)).unwrap();
    let source = Source::open(source_options(sink.local_address(), plain(100_000), 20)).unwrap();
    let sink =
        sink.prepare(SegmentWriter::create(&directory.path().join("packets"), 5).unwrap()).unwrap().go();
    let sends = SegmentWriter::create(&directory.path().join("sends"), 20).unwrap();
    let sent = source.prepare(sends).unwrap().go().join().unwrap().report.sent;
    let end = Instant::now() + MOST_WAIT;
    while sink.live().received() < sent && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    let outcome = sink.join().unwrap();
    assert_eq!((outcome.report.received, outcome.report.unrecorded), (20, 15));
    assert_eq!(records(outcome.segment).len(), 5);
}

#[test]
fn no_packet_finds_the_port_closed_while_a_sink_is_renewed_and_the_port_stays_its_own() {
    use std::sync::atomic::{AtomicBool, Ordering};
    for host in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
        let options = SinkOptions { bind: (host, 0).into(), ..sink_options(LOOPBACK) };
        let mut sink = Sink::open(options.clone()).unwrap();
        let (address, ended) = (sink.local_address(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                let socket = UdpSocket::bind((host, 0)).unwrap();
                socket.connect(address).unwrap();
                let mut refused = 0;
                while !ended.load(Ordering::Relaxed) {
                    // Refused where a packet before found the port closed.
                    refused += u32::from(socket.send(&[0xd5; 16]).is_err());
                    std::thread::yield_now();
                }
                refused
            });
            for _ in 0..100 {
                sink = sink.renew(options.clone()).unwrap();
                // The new one has the packets, and nobody else gets them.
                let mut came = false;
                sink.look(|packet| {
                    came = packet.is_some();
                    !came
                })
                .unwrap();
                let other = Sink::open(SinkOptions { bind: address, ..options.clone() });
                assert!(matches!(other, Err(ProbeError::Os { .. })));
            }
            ended.store(true, Ordering::Relaxed);
            assert_eq!(sender.join().unwrap(), 0);
        });
    }
}

#[test]
fn our_own_losses_are_told_from_the_networks() {
    let options = SinkOptions { receive_buffer_bytes: 4_096, kernel_stamps: true, ..sink_options(LOOPBACK) };
    let directory = TempDir::new().unwrap();
    let sink = Sink::open(options).unwrap();
    let source = Source::open(source_options(sink.local_address(), plain(1_000), 2_000)).unwrap();
    // The source ends before the sink starts: what the buffer cannot hold is dropped at the socket.
    let sends = SegmentWriter::create(&directory.path().join("sends"), 2_000).unwrap();
    let sent = source.prepare(sends).unwrap().go().join().unwrap().report.sent;
    let sink =
        sink.prepare(SegmentWriter::create(&directory.path().join("packets"), 2_000).unwrap()).unwrap().go();
    wait_until(|| sink.live().received() > 0);
    let SinkOutcome { report, segment, .. } = sink.join().unwrap();
    let drops = u64::from(report.receive_drops.unwrap());
    assert!(drops > 0 && report.received > 0);
    assert_eq!(report.received + drops + report.unread, sent);
    assert_eq!(records(segment).len() as u64, report.received);
}

#[test]
fn a_stop_ends_every_mode_at_once() {
    for receive in [Receive::Poll, Receive::Block, Receive::Epoll, Receive::BusyPoll] {
        for kernel_stamps in [false, true] {
            let directory = TempDir::new().unwrap();
            let options = SinkOptions { receive, kernel_stamps, ..sink_options(LOOPBACK) };
            let sink = match Sink::open(options) {
                Err(ProbeError::NotPermitted { .. }) if receive == Receive::BusyPoll => continue,
                outcome => outcome.unwrap(),
            };
            let segment = SegmentWriter::create(&directory.path().join("packets"), 5).unwrap();
            let sink = sink.prepare(segment).unwrap().go();
            std::thread::sleep(Duration::from_millis(20));
            assert!(!sink.is_finished());
            let outcome = sink.join().unwrap();
            assert_eq!((outcome.report.received, outcome.report.errors), (0, 0), "{}", receive.name());
        }
    }
}

#[test]
fn a_prepared_sink_that_is_dropped_ends_its_thread() {
    let directory = TempDir::new().unwrap();
    let sink = Sink::open(sink_options(LOOPBACK)).unwrap();
    let sink = sink.prepare(SegmentWriter::create(&directory.path().join("packets"), 5).unwrap()).unwrap();
    let task = format!("/proc/self/task/{}", sink.tid());
    assert!(std::path::Path::new(&task).exists());
    drop(sink);
    let end = Instant::now() + MOST_WAIT;
    while std::path::Path::new(&task).exists() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!std::path::Path::new(&task).exists());
}

#[test]
fn a_disturbance_runs_on_the_sinks_thread() {
    use std::sync::atomic::{AtomicU64, Ordering};
    static LAST: AtomicU64 = AtomicU64::new(0);
    let options = SinkOptions {
        disturb: Some(|received| LAST.store(received, Ordering::Relaxed)),
        receive: Receive::Block,
        ..sink_options(LOOPBACK)
    };
    assert_complete(&over_loopback(options, plain(100_000), 50), 50);
    assert_eq!(LAST.load(Ordering::Relaxed), 50);
}

#[test]
fn across_two_namespaces_every_packet_arrives() {
    let name = "across_two_namespaces_every_packet_arrives";
    if !privileged(name) {
        return;
    }
    let lab = Lab::create().unwrap();
    let mut addresses: Vec<(std::net::IpAddr, std::net::IpAddr)> =
        vec![(lab.source.ipv4.into(), lab.sink.ipv4.into())];
    addresses.extend(lab.source.ipv6.zip(lab.sink.ipv6).map(|(from, to)| (from.into(), to.into())));
    for (from, to) in addresses {
        let mut profile = Profile::named(ProfileName::St2022_6);
        profile.schedule = every_ns(100_000);
        let payload = Payload::Ours { offset: profile.header_offset() as u16 };
        let bind: SocketAddr = (to, 0).into();
        let sink =
            lab.sink.within(|| Sink::open(SinkOptions { payload, ..sink_options(bind) })).unwrap().unwrap();
        let mut options = source_options(sink.local_address(), profile, 300);
        options.socket.bind = Some((from, 0).into());
        let source = lab.source.within(|| Source::open(options)).unwrap().unwrap();
        assert_complete(&run(sink, source, 300), 300);
    }
    // Groups of link-local scope (RFC 5771, RFC 4291).
    let groups: [std::net::IpAddr; 2] =
        [Ipv4Addr::new(224, 0, 0, 177).into(), Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0x77, 1).into()];
    for group in groups.into_iter().take(if lab.sink.ipv6.is_some() { 2 } else { 1 }) {
        let multicast_interface = Some(lab.sink.interface_index);
        let options = SinkOptions { multicast_interface, ..sink_options((group, 0)) };
        let sink = lab.sink.within(|| Sink::open(options)).unwrap().unwrap();
        let options = to_group((group, sink.local_address().port()).into(), lab.source.interface_index);
        let source = lab.source.within(|| Source::open(options)).unwrap().unwrap();
        assert_complete(&run(sink, source, 100), 100);
    }
}
