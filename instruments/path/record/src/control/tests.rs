use super::*;
use std::net::{Ipv4Addr, TcpListener};

const LONG: Duration = Duration::from_secs(60);

/// A control connection with small buffers, and its peer's end.
fn connected() -> (Control, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (socket, _) = listener.accept().unwrap();
    socket2::SockRef::from(&socket).set_send_buffer_size(1 << 12).unwrap();
    socket2::SockRef::from(&peer).set_recv_buffer_size(1 << 12).unwrap();
    (Control::new(socket, Side::Server).unwrap(), peer)
}

#[test]
fn a_peer_that_vanishes_is_noticed_within_a_minute_and_a_half() {
    let (control, _peer) = connected();
    let socket = socket2::SockRef::from(&control.socket);
    let most = socket.tcp_keepalive_time().unwrap()
        + socket.tcp_keepalive_interval().unwrap() * socket.tcp_keepalive_retries().unwrap();
    assert!(most <= VANISHED && socket.keepalive().unwrap(), "{most:?} of silence");
    assert_eq!(socket.tcp_user_timeout().unwrap(), Some(VANISHED), "and with bytes under way");
}

#[test]
fn a_slow_reader_has_a_total_time_not_one_for_each_octet() {
    let (mut control, mut peer) = connected();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Some bytes at a time: progress each time, but all of it would take many seconds.
            while !over.load(Ordering::Relaxed) && peer.read(&mut [0u8; 1024]).is_ok() {
                std::thread::park_timeout(Duration::from_millis(1));
            }
        });
        let outcome = control.write_by(&vec![0; 8 << 20], Instant::now() + Duration::from_millis(400));
        over.store(true, Ordering::Relaxed);
        assert!(matches!(outcome, Err(ControlError::TimedOut)), "{outcome:?}");
        let after = control.say(Kind::End, Body::new(), LONG);
        assert!(matches!(after, Err(ControlError::Closed)), "nobody could tell it from the rest: {after:?}");
        drop(control);
    });
}

#[test]
fn time_to_write_grows_with_what_is_written() {
    let silence = Duration::from_secs(30);
    assert_eq!(patience(0, silence), silence);
    assert_eq!(patience(80_000, silence), Duration::from_secs(40));
    assert!(patience(u64::MAX, silence) > LONG, "no overflow");
}

#[test]
fn writing_ends_when_it_is_to_stop() {
    let (mut control, _peer) = connected();
    control.heed(Arc::new(AtomicBool::new(true)));
    let outcome = control.write_by(&vec![0; 16 << 20], Instant::now() + LONG);
    assert!(matches!(outcome, Err(ControlError::Stopped)), "{outcome:?}");
}

#[test]
fn a_flood_of_messages_is_understood_in_order_and_waits_with_the_kernel() {
    const MESSAGES: u64 = 100_000;
    let (mut control, mut peer) = connected();
    let writer = std::thread::spawn(move || {
        for number in 0..MESSAGES {
            let header = Header { kind: Kind::Stop, body_bytes: 0, number, coded: false, nonce: [0; 12] };
            peer.write_all(&header.to_octets()).unwrap();
        }
    });
    let never = AtomicBool::new(false);
    for _ in 0..MESSAGES {
        // A wrong number would be an error.
        let heard = control.hear(Instant::now() + LONG, &never).unwrap();
        assert!(matches!(heard, Incoming::Message(message) if message.kind() == Kind::Stop));
        assert!(control.input.len() <= 2 * MOST_INPUT + (1 << 14), "{}", control.input.len());
    }
    writer.join().unwrap();
    assert!(matches!(control.hear(Instant::now() + LONG, &never), Err(ControlError::Closed)));
}

#[test]
fn who_has_shown_no_code_is_shown_none() {
    let (mut control, _peer) = connected();
    assert!(control.may_show_codes(), "without a key there are none");
    control.authenticate(&Key::new(b"a key of more than 16 bytes").unwrap(), b"hello", b"challenge");
    assert!(!control.may_show_codes());
}

#[test]
fn another_port_of_a_link_local_address_is_at_the_same_interface() {
    let at = |interface, port| -> SocketAddr {
        std::net::SocketAddrV6::new("fe80::1".parse().unwrap(), port, 0, interface).into()
    };
    assert_eq!(at_port(at(3, 5), 7), at(3, 7));
    assert!(same_host(at(3, 5), at(3, 6)));
    assert!(!same_host(at(3, 5), at(4, 5)), "another interface, another host");
}
