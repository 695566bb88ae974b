//! TWAMP-Control: our client, a client in bytes of the RFC's figures, and such as ask for what they may not have.

use super::*;
use crate::error::PathError;
use crate::owamp::send_twamp;
use crate::stamp::{SenderOptions, StampOutcome};
use std::io::{Read, Write};
use std::net::TcpStream;

/// A server of TWAMP-Control, and its port.
fn server(limits: Limits, at: IpAddr) -> (Served, SocketAddr) {
    let server = Served::with(ServerOptions { twamp_port: Some(0), limits, ..options(at) });
    let listening = server.until(|event| matches!(event, ServerEvent::ListeningFor { .. }));
    let ServerEvent::ListeningFor { control, .. } = listening else { panic!("{listening:?}") };
    (server, control)
}

fn send(control: SocketAddr, packets: u64) -> Result<StampOutcome, PathError> {
    let asked = SenderOptions {
        count: Some(packets),
        period_ns: 2_000_000,
        packet_bytes: Some(80),
        loss_timeout_ns: 200_000_000,
        ..SenderOptions::new(control)
    };
    send_twamp(&asked, LONG, &AtomicBool::new(false), &mut |_| {})
}

#[test]
fn each_packet_is_reflected_with_its_hops_and_the_server_counts() {
    for at in [V4, V6] {
        let (server, control) = server(options(at).limits, at);
        let outcome = send(control, 50).unwrap();
        assert_eq!((outcome.sent, outcome.answered, outcome.other_length, outcome.flagged), (50, 50, 0, 0));
        for (packet, number) in outcome.packets.iter().zip(0u32..) {
            let reply = packet.reply.expect("answered");
            assert_eq!(reply.reflector_sequence, number);
            assert_eq!((reply.forward_ttl, reply.backward_ttl), (255, Some(255)));
        }
        let ended = server.until(|event| matches!(event, ServerEvent::Ended { .. }));
        assert!(matches!(ended, ServerEvent::Ended { packets: 50, .. }), "{ended:?}");
    }
}

/// A client in bytes.
pub(super) struct Raw(TcpStream);

impl Raw {
    pub(super) fn new(control: SocketAddr) -> Self {
        let socket = TcpStream::connect(control).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        Self(socket)
    }

    pub(super) fn hear<const N: usize>(&mut self) -> [u8; N] {
        let mut octets = [0; N];
        self.0.read_exact(&mut octets).unwrap();
        octets
    }

    pub(super) fn say(&mut self, octets: &[u8]) {
        self.0.write_all(octets).unwrap();
    }

    /// Up to Server-Start.
    pub(super) fn met(control: SocketAddr) -> Self {
        let mut raw = Self::new(control);
        let greeting: [u8; 64] = raw.hear();
        assert_eq!(greeting[12..16], [0, 0, 0, 1], "unauthenticated mode alone");
        assert_eq!(greeting[48..52], [0, 0, 4, 0], "1024 rounds");
        let mut choice = [0; 164];
        choice[3] = 1;
        raw.say(&choice);
        let start: [u8; 48] = raw.hear();
        assert_eq!(start[15], 0);
        raw
    }

    /// Whether the server closed, with nothing more to say.
    pub(super) fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0; 1]), Ok(0) | Err(_))
    }
}

/// Request-TW-Session for packets of 41 bytes from this port of 127.0.0.1.
fn request(port: u16) -> [u8; 112] {
    let mut octets = [0; 112];
    (octets[0], octets[1]) = (5, 4);
    octets[12..14].copy_from_slice(&port.to_be_bytes());
    octets[67] = 27;
    octets
}

#[test]
fn a_client_in_bytes_of_the_figures_gets_its_packets_back() {
    let (server, control) = server(options(V4).limits, V4);
    let mut raw = Raw::met(control);
    let socket = UdpSocket::bind((V4, 0)).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    raw.say(&request(socket.local_addr().unwrap().port()));
    let accept: [u8; 48] = raw.hear();
    assert_eq!(accept[0], 0);
    let reflector = (V4, u16::from_be_bytes([accept[2], accept[3]]));
    let mut start = [0; 32];
    start[0] = 2;
    raw.say(&start);
    let ack: [u8; 32] = raw.hear();
    assert_eq!(ack, [0; 32]);
    // Of 14 bytes too: who holds the control connection has shown its address.
    for (length, number) in [(41, 7u8), (14, 8), (1_400, 9)] {
        let mut packet = vec![0x55; length];
        packet[..14].copy_from_slice(&[0, 0, 0, number, 1, 2, 3, 4, 5, 6, 7, 8, 0x81, 0x23]);
        socket.send_to(&packet, reflector).unwrap();
        let mut reply = [0; 2_000];
        let (octets, _) = socket.recv_from(&mut reply).unwrap();
        assert_eq!(octets, length.max(41));
        assert_eq!(reply[..4], [0, 0, 0, number - 7], "its own count");
        assert_eq!(reply[24..38], packet[..14], "number, time and error of ours");
        assert_eq!(reply[14..16], [0, 0]);
        assert_eq!(reply[40], 64, "the TTL that this socket has");
    }
    // Somebody else's packet is not reflected, nor one that is too short.
    let other = UdpSocket::bind((V4, 0)).unwrap();
    other.send_to(&[0; 41], reflector).unwrap();
    socket.send_to(&[0; 13], reflector).unwrap();
    let mut stop = [0; 32];
    (stop[0], stop[7]) = (3, 1);
    raw.say(&stop);
    let ended = server.until(|event| matches!(event, ServerEvent::Ended { .. }));
    assert!(matches!(ended, ServerEvent::Ended { packets: 3, .. }), "{ended:?}");
}

#[test]
fn what_a_client_may_not_have_is_refused_and_the_next_request_is_heard() {
    let (server, control) = server(Limits { tests_per_peer: 2, ..options(V4).limits }, V4);
    let mut raw = Raw::met(control);
    let mut refused = |change: &dyn Fn(&mut [u8; 112]), value: u8, words: &str| {
        let mut asked = request(40_000);
        change(&mut asked);
        raw.say(&asked);
        let accept: [u8; 48] = raw.hear();
        assert_eq!(accept[0], value, "{words}");
        let event = server.until(|event| matches!(event, ServerEvent::Refused { .. }));
        assert!(event.to_string().contains(words), "{event}");
    };
    refused(&|asked| asked[16..20].copy_from_slice(&[192, 0, 2, 1]), 3, "other addresses");
    refused(&|asked| asked[32..36].copy_from_slice(&[192, 0, 2, 1]), 3, "other addresses");
    refused(&|asked| asked[1] = 6, 3, "another version of IP");
    refused(&|asked| asked[12..14].copy_from_slice(&[0, 53]), 3, "below 1024");
    refused(&|asked| asked[64..68].copy_from_slice(&[0xff; 4]), 4, "bytes; at most");
    refused(&|asked| asked[84] = 0x40, 3, "no DSCP");
    for _ in 0..2 {
        raw.say(&request(40_000));
        assert_eq!(raw.hear::<48>()[0], 0);
    }
    raw.say(&request(40_000));
    assert_eq!(raw.hear::<48>()[0], 5, "two tests are what one peer may have");
    // Places are given back with the connection.
    drop(raw);
    server.until(|event| matches!(event, ServerEvent::Closed { .. }));
    assert_eq!(send(control, 5).unwrap().answered, 5);
}

#[test]
fn a_client_that_wants_a_key_is_refused_and_so_is_nonsense() {
    let (server, control) = server(options(V4).limits, V4);
    let mut raw = Raw::new(control);
    let _: [u8; 64] = raw.hear();
    let mut choice = [0; 164];
    choice[3] = 4;
    raw.say(&choice);
    assert_eq!(raw.hear::<48>()[15], 3, "not supported");
    assert!(raw.is_closed());
    server.until(|event| event.to_string().contains("chose mode 4"));
    for first in [0, 1, 4, 6, 255] {
        let mut raw = Raw::met(control);
        let mut command = [0; 16];
        command[0] = first;
        raw.say(&command);
        assert!(raw.is_closed());
        server.until(|event| matches!(event, ServerEvent::Hostile { .. }));
    }
    assert_eq!(send(control, 5).unwrap().answered, 5);
}

#[test]
fn above_its_rate_a_session_gets_no_more_replies() {
    let (server, control) = server(Limits { reflected_packets_per_second: 10, ..options(V4).limits }, V4);
    let outcome = send(control, 300).unwrap();
    // A second's worth at once, and as many as are due while it sends: all only of a host that needs half a minute.
    assert!((10..300).contains(&outcome.answered), "{}", outcome.answered);
    let event = server.until(|event| matches!(event, ServerEvent::Refused { .. }));
    assert!(event.to_string().contains("above the rate"), "{event}");
}

/// A server that says these bytes, one batch for each message of the client.
pub(super) fn scripted(answers: Vec<Vec<u8>>) -> SocketAddr {
    let listener = TcpListener::bind((V4, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        for (number, answer) in answers.iter().enumerate() {
            if number > 0 {
                let _ = socket.read(&mut [0; 512]);
            }
            let _ = socket.write_all(answer);
        }
        // What the client still says is read, so that nothing takes our last words away.
        let _ = socket.shutdown(std::net::Shutdown::Write);
        while socket.read(&mut [0; 512]).is_ok_and(|octets| octets > 0) {}
    });
    at
}

fn words(outcome: Result<StampOutcome, PathError>) -> String {
    outcome.map(|outcome| outcome.answered).unwrap_err().to_string()
}

#[test]
fn a_server_that_refuses_is_told_with_its_reason() {
    let greeting = |modes: u8| {
        let mut octets = vec![0; 64];
        octets[15] = modes;
        octets
    };
    let start = |accept: u8| {
        let mut octets = vec![0; 48];
        octets[15] = accept;
        octets
    };
    let accept = |accept: u8| {
        let mut octets = vec![0; 48];
        octets[0] = accept;
        octets
    };
    for (answers, wanted) in [
        (vec![greeting(0)], "serves no client"),
        (vec![greeting(6)], "unauthenticated mode alone"),
        (vec![greeting(64)], "does it speak OWAMP or TWAMP"),
        (vec![greeting(1), start(2)], "because of an internal error"),
        (vec![greeting(1), start(0), accept(5)], "its limits do not allow it now"),
        (vec![greeting(1), start(0), accept(77)], "with a reason that the RFC does not know"),
        (vec![greeting(1)[..20].to_vec()], "closed the connection"),
    ] {
        let sentence = words(send(scripted(answers), 5));
        assert!(sentence.contains(wanted), "{sentence}");
    }
}

#[test]
fn a_stop_is_heard_while_a_dead_host_is_called() {
    // TEST-NET-1 (RFC 5737) answers nobody; a host without a route to it fails at once.
    let stop = AtomicBool::new(false);
    let dead = SocketAddr::from(([192, 0, 2, 1], 862));
    let began = Instant::now();
    let outcome = std::thread::scope(|scope| {
        let call = scope.spawn(|| {
            run_client(
                &ClientOptions { answer_timeout: LONG, ..ClientOptions::new(dead) },
                &stop,
                &mut |_| {},
            )
        });
        std::thread::sleep(Duration::from_millis(200));
        stop.store(true, Ordering::Relaxed);
        call.join().unwrap()
    });
    assert!(matches!(outcome, Err(PathError::Interrupted | PathError::Connect { .. })));
    assert!(began.elapsed() < LONG / 2);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    #[test]
    fn any_packet_is_reflected_no_larger_than_it_must(request in proptest::collection::vec(proptest::num::u8::ANY, 14..600)) {
        let mut reply = Vec::new();
        crate::owamp::compose(&request, 64, 1_700_000_000_000_000_000, 3, &mut reply);
        proptest::prop_assert_eq!(reply.len(), request.len().max(41));
        proptest::prop_assert_eq!(&reply[24..38], &request[..14]);
        if request.len() > 44 {
            proptest::prop_assert_eq!(&reply[44..], &request[44..]);
        }
    }
}

#[test]
fn a_session_without_end_lasts_until_it_is_stopped_and_another_follows_on_its_connection() {
    let (_server, control) = server(options(V4).limits, V4);
    let (stop, answered) = (AtomicBool::new(false), AtomicU16::new(0));
    let asked = SenderOptions {
        count: None,
        period_ns: 2_000_000,
        packet_bytes: Some(80),
        keep_packets: false,
        ..SenderOptions::new(control)
    };
    let outcome = send_twamp(&asked, LONG, &stop, &mut |progress| {
        if let crate::stamp::StampProgress::Answered { .. } = progress
            && answered.fetch_add(1, Ordering::Relaxed) == 100
        {
            stop.store(true, Ordering::Relaxed);
        }
    });
    assert!(outcome.unwrap().answered > 100);
    let mut raw = Raw::met(control);
    for _ in 0..2 {
        raw.say(&request(40_000));
        assert_eq!(raw.hear::<48>()[0], 0);
        for command in [2, 3] {
            let mut octets = [0; 32];
            (octets[0], octets[7]) = (command, 1);
            raw.say(&octets);
            if command == 2 {
                assert_eq!(raw.hear::<32>(), [0; 32]);
            }
        }
    }
}
