//! Reading a tracer that goes on recording.

use super::*;

/// Sends packets to an address, where they are read one by one if there is a reader.
fn send(to: (Ipv4Addr, u16), numbers: std::ops::Range<u64>, reader: Option<&UdpSocket>) {
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for number in numbers {
        sender.send_to(&ours(number), to).unwrap();
        if let Some(socket) = reader {
            socket.recv(&mut [0; 200]).unwrap();
        }
    }
}

#[test]
fn a_packet_whose_reading_was_not_seen_holds_others_up_for_a_second_at_most_where_order_is_expected() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged(
        "a_packet_whose_reading_was_not_seen_holds_others_up_for_a_second_at_most_where_order_is_expected",
    ) {
        return;
    }
    let (read, port) = receiver();
    // A socket of the same port that is never read stands for readings that nobody saw.
    let elsewhere = Ipv4Addr::new(127, 0, 0, 2);
    let _unread = UdpSocket::bind((elsewhere, port)).unwrap();
    let flow = Flow { address: None, ports: vec![port], payload: Payload::Ours { offset: 0 } };
    let observing = TraceSpec {
        flow: Some(flow),
        observed_process: Some(std::process::id()),
        ..spec(port, Payload::Ours { offset: 0 })
    };
    let mut tracer = start(&observing).unwrap();
    send((elsewhere, port), 0..1, None);
    send((Ipv4Addr::LOCALHOST, port), 1..21, Some(&read));
    std::thread::sleep(Duration::from_millis(1_100));
    let mut seen = Collected::default();
    tracer.drain(&mut seen).unwrap();
    assert_eq!(seen.stamps.len(), 0, "it may still be read");
    tracer.expect_order();
    tracer.drain(&mut seen).unwrap();
    let keys: Vec<u64> = seen.stamps.iter().map(|stamp| stamp.key).collect();
    assert_eq!(keys, (0..21).collect::<Vec<_>>());
    assert!(seen.stamps[0].user_ns == 0 && seen.stamps[1..].iter().all(|stamp| stamp.user_ns != 0));
    // One that is read in its turn waits for that, however long.
    send((Ipv4Addr::LOCALHOST, port), 21..22, None);
    std::thread::sleep(Duration::from_millis(1_100));
    tracer.drain(&mut seen).unwrap();
    assert_eq!(seen.stamps.len(), 21);
    drop(tracer);
}

#[test]
fn packets_in_flight_are_handed_over_as_they_are_and_come_again() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged("packets_in_flight_are_handed_over_as_they_are_and_come_again") {
        return;
    }
    let (read, port) = receiver();
    let observing =
        TraceSpec { observed_process: Some(std::process::id()), ..spec(port, Payload::Ours { offset: 0 }) };
    let mut tracer = start(&observing).unwrap();
    send((Ipv4Addr::LOCALHOST, port), 0..10, Some(&read));
    send((Ipv4Addr::LOCALHOST, port), 10..15, None);
    let (mut done, mut flying) = (Collected::default(), Collected::default());
    tracer.drain(&mut done).unwrap();
    let keys = |seen: &Collected| seen.stamps.iter().map(|stamp| stamp.key).collect::<Vec<_>>();
    assert_eq!(keys(&done), (0..10).collect::<Vec<_>>());
    tracer.in_flight(&mut flying);
    assert_eq!(keys(&flying), (10..15).collect::<Vec<_>>());
    assert!(flying.stamps.iter().all(|stamp| stamp.ready_ns != 0 && stamp.user_ns == 0));
    (0..5).for_each(|_| assert!(read.recv(&mut [0; 200]).is_ok()));
    tracer.drain(&mut done).unwrap();
    assert_eq!(keys(&done), (0..15).collect::<Vec<_>>());
    assert!(done.stamps.iter().all(|stamp| stamp.user_ns != 0));
    let (rest, counts) = finish(tracer);
    assert_eq!((rest.stamps.len(), counts.packets_seen, counts.stamps_lost), (0, 15, 0));
}

#[test]
fn a_snapshot_shows_what_is_open_and_takes_nothing_away() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    if !privileged("a_snapshot_shows_what_is_open_and_takes_nothing_away") {
        return;
    }
    let (socket, port) = receiver();
    let mut tracer = start(&spec(port, Payload::Ours { offset: 0 })).unwrap();
    send((Ipv4Addr::LOCALHOST, port), 0..50, Some(&socket));
    // A thread that had its CPU before recording began is known from its next switch on.
    std::thread::sleep(Duration::from_millis(1));
    let mut open = Collected::default();
    let counts = tracer.snapshot(&mut open).unwrap();
    let now_ns = monotonic_ns();
    assert_eq!((open.stamps.len(), counts.packets_seen), (0, 50));
    let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let runs: Vec<_> =
        open.events.iter().filter(|event| event.kind == EventKind::Thread as u8 && event.id == own).collect();
    assert_eq!(runs.len(), 1, "this thread runs now: {:?}", open.events);
    assert!(runs[0].start_ns < runs[0].end_ns && runs[0].end_ns <= now_ns);
    let (seen, counts) = finish(tracer);
    assert_eq!((seen.stamps.len(), counts.packets_seen), (50, 50));
    assert!(
        seen.events.iter().any(|event| event.start_ns == runs[0].start_ns && event.end_ns > runs[0].end_ns)
    );
}
