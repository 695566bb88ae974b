//! Flows over TCP.

use super::*;
use std::io::Write;

#[test]
fn a_stream_is_cut_into_the_packets_that_were_sent() {
    for octets in [12, 81, 1_461, 100_000] {
        let spec = FlowSpec { transport: Transport::Tcp, packet_bytes: octets, ..spec(300, 100_000) };
        let (sent, received, packets) = run(&tcp_pair(), &spec);
        assert_eq!((sent.end, received.end), (SendEnd::Acknowledged, ReceiveEnd::Sentinel));
        assert_eq!((sent.summary.packets, sent.summary.sent, received.summary.received), (300, 300, 300));
        assert_eq!((received.summary.duplicates, received.summary.invalid), (0, 0));
        assert_eq!(numbers(&packets), (0..300).collect::<Vec<i32>>());
        for packet in &packets {
            assert!(packet.singleton.tx_real_time_ns <= packet.singleton.rx_real_time_ns, "{packet:?}");
        }
    }
}

#[test]
fn a_closed_connection_ends_both_sides_and_keeps_all() {
    let (sending, receiving) = tcp_pair();
    let endless = FlowSpec { transport: Transport::Tcp, packets: None, ..spec(0, 50_000) };
    let sent = std::thread::scope(|scope| {
        let sender =
            scope.spawn(|| send_flow(&sending, &endless, &AtomicBool::new(false), &AtomicBool::new(false)));
        let (stop, mut seen) = (AtomicBool::new(false), 0);
        let mut watch = |batch: &[Received]| {
            seen += batch.len();
            stop.store(seen >= 100, Ordering::Relaxed);
        };
        let received = receive_flow(&receiving, &endless, &mut watch, &stop).unwrap();
        assert_eq!(received.end, ReceiveEnd::Stopped);
        assert!(received.summary.received >= 100);
        drop(receiving);
        sender.join().unwrap().unwrap()
    });
    assert_eq!(sent.end, SendEnd::Closed);
    assert!(sent.summary.packets >= 100);
}

#[test]
fn a_record_cut_off_by_the_end_is_no_packet() {
    let listener = TestListener::bind(ANY_PORT.into()).unwrap();
    let mut sending = std::net::TcpStream::connect(listener.local_address().unwrap()).unwrap();
    let receiving =
        listener.accept(Duration::from_secs(10), &AtomicBool::new(false), |_| true).unwrap().unwrap();
    let mut stream = [octets(0), octets(1), octets(1), octets(9)].concat();
    stream.truncate(4 * 80 - 1);
    // In pieces that no packet's end falls together with.
    for piece in stream.chunks(7) {
        sending.write_all(piece).unwrap();
    }
    drop(sending);
    let spec = FlowSpec { transport: Transport::Tcp, ..spec(5, 100_000) };
    let (received, packets) = receive_sent(&receiving, &spec);
    assert_eq!(
        (received.end, numbers(&packets), received.summary.duplicates),
        (ReceiveEnd::Closed, vec![0, 1, 1], 1)
    );
}

#[test]
fn a_full_connection_can_be_stopped() {
    let (sending, receiving) = tcp_pair();
    let flood = FlowSpec {
        transport: Transport::Tcp,
        packet_bytes: 1 << 20,
        packets: None,
        sentinel_timeout_ns: 0,
        ..spec(0, 1_000)
    };
    let stop = AtomicBool::new(false);
    let sent = std::thread::scope(|scope| {
        let sender = scope.spawn(|| send_flow(&sending, &flood, &AtomicBool::new(false), &stop));
        // Nobody reads: in the end the connection takes no more.
        let mut queued = 0;
        loop {
            std::thread::sleep(Duration::from_millis(20));
            let now = unread_octets(&receiving);
            if now == queued && now > 0 {
                break;
            }
            queued = now;
        }
        stop.store(true, Ordering::Relaxed);
        sender.join().unwrap().unwrap()
    });
    assert!(matches!(sent.end, SendEnd::Closed | SendEnd::Unacknowledged), "{:?}", sent.end);
}

fn unread_octets(socket: &TestSocket) -> u64 {
    rustix::io::ioctl_fionread(socket).unwrap()
}

#[test]
fn the_listener_admits_only_whom_it_is_told_to() {
    let listener = TestListener::bind(ANY_PORT.into()).unwrap();
    let to = listener.local_address().unwrap();
    let (first, second) =
        (std::net::TcpStream::connect(to).unwrap(), std::net::TcpStream::connect(to).unwrap());
    let admitted: SocketAddr = second.local_addr().unwrap();
    let no = AtomicBool::new(false);
    let accepted = listener.accept(Duration::from_secs(10), &no, |peer| peer == admitted).unwrap().unwrap();
    assert_eq!(accepted.peer_address().unwrap(), admitted);
    assert!(listener.accept(Duration::from_millis(1), &no, |_| true).unwrap().is_none());
    assert!(listener.accept(Duration::from_secs(60), &AtomicBool::new(true), |_| true).unwrap().is_none());
    drop(first);
}

#[test]
fn segments_are_seen_below_the_transport() {
    // For a second, in which the receiver's eyes open on a busy machine too.
    let spec = FlowSpec { transport: Transport::Tcp, ..spec(200, 5_000_000) };
    let (sent, received, _) = run(&tcp_pair(), &spec);
    let (sent, received) = (sent.segments.unwrap(), received.segments.unwrap());
    let octets = 80 * 200;
    let counters = sent.counters.unwrap();
    assert!(counters.segments_sent > 0, "{counters:?}");
    let (Some(left), Some(came)) = (sent.seen, received.seen) else {
        quaver_testbed::privileged::skip(
            "segments_are_seen_below_the_transport",
            quaver_testbed::privileged::Lack::Root,
        );
        assert!(sent.remark.unwrap().contains("CAP_NET_RAW"));
        return;
    };
    for seen in [left, came] {
        assert!(seen.unique_octets.is_multiple_of(80), "{seen:?}");
        // On a busy machine TCP may send the last packet again, to be sure of it.
        let again = seen.retransmitted + seen.duplicate;
        assert_eq!((seen.segments, seen.reordered), (seen.in_order + again, 0), "{seen:?}");
        assert!(seen.octets - seen.unique_octets >= 80 * again, "{seen:?}");
        assert_eq!((seen.holes, seen.missing_octets), (0, 0));
        let (first_ns, last_ns) = seen.seen_ns.unwrap();
        assert!(first_ns < last_ns);
    }
    // The receiver's eyes may open only after the first packets.
    assert!(
        left.unique_octets >= octets && (1..=left.unique_octets).contains(&came.unique_octets),
        "{came:?}"
    );
    assert!(left.seen_ns.unwrap().0 <= came.seen_ns.unwrap().0, "one clock");
    assert!(left.retransmitted >= counters.retransmitted.into(), "{left:?} {counters:?}");
    assert_eq!((sent.unseen, received.unseen), (0, 0));
}

#[test]
fn a_listener_keeps_its_time_however_many_others_call() {
    let listener = TestListener::bind(ANY_PORT.into()).unwrap();
    let at = listener.local_address().unwrap();
    let since = std::time::Instant::now();
    let mut caller = std::net::TcpStream::connect(at).unwrap();
    // Whoever is turned away is followed by the next one at once.
    let next = |_| {
        assert!(since.elapsed() < Duration::from_secs(30), "it never ends");
        caller = std::net::TcpStream::connect(at).unwrap();
        false
    };
    let came = listener.accept(Duration::from_millis(100), &AtomicBool::new(false), next).unwrap();
    assert!(came.is_none());
}
