//! Conservation, sentinels, numbers across their wrap, ends.

use super::*;

#[test]
fn all_that_is_sent_arrives_or_is_counted() {
    for octets in [12, 13, 80, 1_400, 9_000] {
        let spec = FlowSpec { packet_bytes: octets, ..spec(400, 100_000) };
        let (sent, received, packets) = run(&udp_pair(), &spec);
        assert_eq!((sent.end, received.end), (SendEnd::Acknowledged, ReceiveEnd::Sentinel));
        assert_eq!((sent.summary.packets, sent.summary.sent), (400, 400), "{:?}", sent.failed);
        assert_eq!(
            received.summary.received + received.summary.own_drops.unwrap(),
            400,
            "{octets} octets: {received:?}"
        );
        assert_eq!(
            (
                received.summary.duplicates,
                received.summary.invalid,
                received.summary.foreign,
                received.summary.unreadable
            ),
            (0, 0, 0, 0)
        );
        assert_eq!(numbers(&packets), (0..400).collect::<Vec<i32>>(), "loopback keeps the order");
        assert!(packets.iter().all(|packet| packet.singleton.flags == 0));
        assert!(sent.summary.sentinels >= 1 && received.summary.sentinels == 1);
    }
}

#[test]
fn what_our_own_buffer_drops_is_counted_apart() {
    let (sending, receiving) = udp_pair();
    let small = FlowSpec { receive_buffer_bytes: 1, end_timeout_ns: 2_000_000_000, ..spec(500, 20_000) };
    let flood = FlowSpec { sentinel_timeout_ns: 0, ..small.clone() };
    prepare_receive(&receiving, &small).unwrap();
    let (all_sent, wait_for_all) = std::sync::mpsc::sync_channel::<()>(1);
    let mut waited = false;
    let mut stall = move |_: &[Received]| {
        // The receiver stands still until all has been sent.
        if !std::mem::replace(&mut waited, true) {
            wait_for_all.recv().unwrap();
        }
    };
    let (sent, received) = std::thread::scope(|scope| {
        let receiver =
            scope.spawn(|| receive_flow(&receiving, &small, &mut stall, &AtomicBool::new(false)).unwrap());
        let sent = send_flow(&sending, &flood, &AtomicBool::new(false), &AtomicBool::new(false)).unwrap();
        all_sent.send(()).unwrap();
        (sent, receiver.join().unwrap())
    });
    assert_eq!(sent.end, SendEnd::Unacknowledged);
    let drops = received.summary.own_drops.unwrap();
    assert!(drops > 0, "{received:?}");
    assert_eq!(received.summary.received + received.summary.sentinels + drops, 500 + sent.summary.sentinels);
}

#[test]
fn numbers_go_on_across_their_wraps() {
    for first in [i32::MAX as u64 - 50, u64::from(u32::MAX) - 50, (1 << 40) + 7] {
        let spec = FlowSpec { first_sequence: first, ..spec(100, 50_000) };
        let (sent, received, packets) = run(&udp_pair(), &spec);
        assert_eq!(
            (
                sent.summary.sent,
                received.summary.received,
                received.summary.invalid,
                received.summary.duplicates
            ),
            (100, 100, 0, 0)
        );
        let modulus = u64::from(u32::MAX);
        let expected: Vec<i32> = (first..first + 100).map(|s| ((s % modulus) as u32) as i32).collect();
        assert_eq!(numbers(&packets), expected);
        assert!(!expected.contains(&SENTINEL));
    }
}

#[test]
fn sentinels_come_each_ten_periods_until_acknowledged() {
    let receiving = UdpSocket::bind(ANY_PORT).unwrap();
    let sending = udp_socket();
    sending.connect(receiving.local_addr().unwrap()).unwrap();
    let acknowledged = AtomicBool::new(false);
    let period_ns = 300_000;
    let (sent, times) = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let (mut buffer, mut times, mut sentinels) = ([0; 100], Vec::new(), 0);
            while sentinels < 4 {
                let (octets, _) = receiving.recv_from(&mut buffer).unwrap();
                assert_eq!(octets, 80, "sentinels are as long as packets");
                let packet = TestPacket::from_octets(&buffer[..octets]).unwrap();
                times.push(packet.tx_real_time_ns);
                sentinels += u64::from(packet.is_sentinel());
            }
            acknowledged.store(true, Ordering::Release);
            times
        });
        let sent = send_flow(&sending, &spec(3, period_ns), &acknowledged, &AtomicBool::new(false)).unwrap();
        (sent, receiver.join().unwrap())
    });
    assert_eq!((sent.end, sent.summary.packets), (SendEnd::Acknowledged, 3));
    assert_eq!(times.len(), 7);
    for pair in times[2..].windows(2) {
        // The wall clock may be slewed by 500 ppm against the clock of the deadlines.
        assert!(pair[1] - pair[0] >= period_ns as i64 * 10 * 999 / 1_000, "{times:?}");
    }
    receiving.set_nonblocking(true).unwrap();
    let mut late = 0;
    while receiving.recv_from(&mut [0; 100]).is_ok() {
        late += 1;
    }
    assert_eq!(sent.summary.sentinels, 4 + late, "none but those");
}

#[test]
fn an_acknowledgement_ends_the_sender_at_once() {
    let (sending, _receiving) = udp_pair();
    let spec = FlowSpec { packets: Some(u64::MAX), ..spec(0, 50_000) };
    let sent = send_flow(&sending, &spec, &AtomicBool::new(true), &AtomicBool::new(false)).unwrap();
    assert_eq!((sent.end, sent.summary.packets, sent.summary.sentinels), (SendEnd::Acknowledged, 0, 0));
}

#[test]
fn a_receiver_that_hears_no_sentinel_keeps_what_it_has() {
    let receiving = udp_socket();
    let sending = UdpSocket::bind(ANY_PORT).unwrap();
    for number in [0, 1, 4] {
        sending.send_to(&octets(number), receiving.local_address().unwrap()).unwrap();
    }
    let spec = FlowSpec { end_timeout_ns: 1_000_000, ..spec(5, 100_000) };
    let (received, packets) = receive_sent(&receiving, &spec);
    assert_eq!((received.end, received.summary.received), (ReceiveEnd::TimedOut, 3));
    assert_eq!(numbers(&packets), [0, 1, 4]);
}

#[test]
fn a_sentinel_ends_the_receiver_but_for_its_lingering() {
    let receiving = udp_socket();
    let (to, sending) = (receiving.local_address().unwrap(), UdpSocket::bind(ANY_PORT).unwrap());
    let send = |number| assert_eq!(sending.send_to(&octets(number), to).unwrap(), 80);
    [0, 1, SENTINEL, 2].into_iter().for_each(send);
    let (received, packets) = receive_sent(&receiving, &spec(5, 100_000));
    assert_eq!((received.end, numbers(&packets)), (ReceiveEnd::Sentinel, vec![0, 1]));
    let receiving = udp_socket();
    let to = receiving.local_address().unwrap();
    [0, 1, SENTINEL, 2]
        .into_iter()
        .for_each(|number| assert_eq!(sending.send_to(&octets(number), to).unwrap(), 80));
    let lingering = FlowSpec { linger_ns: 2_000_000, ..spec(5, 100_000) };
    let (received, packets) = receive_sent(&receiving, &lingering);
    assert_eq!((received.end, numbers(&packets)), (ReceiveEnd::Sentinel, vec![0, 1, 2]));
}

#[test]
fn a_stopped_flow_keeps_all_that_was_sent() {
    for packets in [Some(1_000_000), None] {
        let (sending, receiving) = udp_pair();
        let spec = FlowSpec { packets, ..spec(0, 50_000) };
        let (stop, mut seen) = (AtomicBool::new(false), 0);
        let mut watch = |batch: &[Received]| {
            seen += batch.len();
            stop.store(seen >= 300, Ordering::Relaxed);
        };
        let (sent, received, kept) = run_with(&sending, &receiving, &spec, &spec, &stop, &mut watch);
        let end = if packets.is_some() { SendEnd::Stopped } else { SendEnd::Acknowledged };
        assert_eq!((sent.end, received.end), (end, ReceiveEnd::Sentinel), "{packets:?}");
        assert!(sent.summary.packets >= 300 && sent.summary.packets < 1_000_000);
        assert_eq!(received.summary.received + received.summary.own_drops.unwrap(), sent.summary.packets);
        assert_eq!(kept.len() as u64, received.summary.received);
    }
}

#[test]
fn a_stopped_receiver_keeps_what_it_has() {
    let receiving = udp_socket();
    let sending = UdpSocket::bind(ANY_PORT).unwrap();
    for number in 0..10 {
        sending.send_to(&octets(number), receiving.local_address().unwrap()).unwrap();
    }
    let (stop, mut seen) = (AtomicBool::new(false), 0);
    let mut watch = |batch: &[Received]| {
        seen += batch.len();
        stop.store(seen == 10, Ordering::Relaxed);
    };
    let received = receive_flow(&receiving, &spec(1_000_000, 1_000_000_000), &mut watch, &stop).unwrap();
    assert_eq!((received.end, received.summary.received), (ReceiveEnd::Stopped, 10));
}

#[test]
fn padding_differs_from_packet_to_packet() {
    let receiving = UdpSocket::bind(ANY_PORT).unwrap();
    let sending = udp_socket();
    sending.connect(receiving.local_addr().unwrap()).unwrap();
    let spec = FlowSpec { sentinel_timeout_ns: 0, ..spec(150, 20_000) };
    send_flow(&sending, &spec, &AtomicBool::new(false), &AtomicBool::new(false)).unwrap();
    let mut paddings = std::collections::BTreeSet::new();
    for _ in 0..150 {
        let mut buffer = [0; 80];
        receiving.recv(&mut buffer).unwrap();
        paddings.insert(buffer[12..].to_vec());
    }
    assert_eq!(paddings.len(), 150);
}

#[test]
fn flows_that_cannot_be_are_refused() {
    let (sending, _receiving) = udp_pair();
    let no = AtomicBool::new(true);
    let refused =
        |socket: &TestSocket, spec: &FlowSpec| send_flow(socket, spec, &no, &no).unwrap_err().to_string();
    let short = refused(&sending, &FlowSpec { packet_bytes: 11, ..spec(1, 1_000) });
    assert!(short.contains("11 bytes") && short.contains("at least 12"), "{short}");
    let tagged = FlowSpec { packet_bytes: 19, session_tag: Some([0; 8]), ..spec(1, 1_000) };
    assert!(refused(&sending, &tagged).contains("at least 20"));
    assert!(refused(&sending, &FlowSpec { packet_bytes: 65_508, ..spec(1, 1_000) }).contains("65507"));
    assert!(refused(&sending, &spec(1, 99)).contains("too short"));
    assert!(
        refused(&sending, &FlowSpec { transport: Transport::Tcp, ..spec(1, 1_000) }).contains("transport")
    );
    assert!(refused(&udp_socket(), &spec(1, 1_000)).contains("no peer"));
    let taken = sending.local_address().unwrap();
    assert!(TestSocket::udp(taken, false).unwrap_err().to_string().contains("choose another port"));
}

#[test]
fn a_refused_destination_is_counted_and_the_flow_goes_on() {
    let (sending, receiving) = udp_pair();
    drop(receiving);
    let spec = FlowSpec { sentinel_timeout_ns: 0, ..spec(20, 100_000) };
    let sent = send_flow(&sending, &spec, &AtomicBool::new(false), &AtomicBool::new(false)).unwrap();
    assert_eq!((sent.summary.packets, sent.summary.sent), (20, 20), "{:?}", sent.failed);
    assert!(sent.refused > 0);
}

/// iperf3 issue 1741: a slow sender has a CPU to itself.
#[test]
fn a_slow_sender_leaves_its_cpu() {
    let slow = FlowSpec { pace: quaver_probe::source::Pace::Hybrid, ..spec(5, 200_000_000) };
    let (sent, ..) = run(&udp_pair(), &slow);
    assert_eq!(sent.summary.sent, 5);
    // 800 ms of waiting.
    assert!(sent.summary.cpu_ns < 80_000_000, "{} ns on the CPU", sent.summary.cpu_ns);
}
