use super::*;
use quaver_abi::wire::jitlat::{Command, Singleton, WORKORDER_BYTES, Workorder};
use quaver_path_flow::TestSocket;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};

fn server() -> Served {
    Served::with(ServerOptions { legacy: true, ..options(V4) })
}

/// A port that was free a moment ago, below those that the system gives away by itself, so that no other test takes it.
fn free_port() -> u16 {
    let first = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
    let first: u16 = first.split_whitespace().next().unwrap().parse().unwrap();
    let free = |port: &u16| UdpSocket::bind((V4, *port)).is_ok() && TcpListener::bind((V4, *port)).is_ok();
    (1_024..first.max(10_000)).rev().filter(|port| port % 16 == 0).find(free).expect("some port is free")
}

fn client(server: &Served, directions: Directions) -> ClientOptions {
    let destination_port = if directions == Directions::Up { server.test.port() } else { 0 };
    ClientOptions { legacy: true, directions, destination_port, ..server.client() }
}

#[test]
fn jitlat_measures_both_ways_by_udp_and_tcp() {
    let server = server();
    for directions in [Directions::Up, Directions::Down] {
        for transport in [Transport::Udp, Transport::Tcp] {
            let options = ClientOptions { transport, ..client(&server, directions) };
            let outcome = measure(&options).unwrap();
            assert!(outcome.is_complete(), "{directions:?} {transport:?}: {outcome:?}");
            assert_eq!((outcome.protocol, outcome.rtt_probes.len()), (Protocol::Legacy, 5));
            let flow = &outcome.flows[0];
            assert_all(flow, 100);
            if directions == Directions::Up {
                assert_eq!((flow.receiver, flow.destination), (None, server.test));
            }
        }
    }
}

/// `-d` of the document (4.3.2): test packets may go to any port that is free at the receiver.
#[test]
fn a_peer_of_the_document_names_the_port_that_receives() {
    let server = server();
    for transport in [Transport::Udp, Transport::Tcp] {
        let destination_port = free_port();
        let options = ClientOptions { transport, destination_port, ..client(&server, Directions::Up) };
        let outcome = measure(&options).unwrap();
        assert!(outcome.is_complete(), "{transport:?}: {outcome:?}");
        assert_all(&outcome.flows[0], 100);
        assert_eq!(outcome.flows[0].destination, SocketAddr::new(V4, destination_port));
    }
}

/// Not even where its owner would share it, as the server shares its own test port.
#[test]
fn a_port_that_somebody_has_is_not_taken() {
    let server = server();
    let somebody = TestSocket::udp((V4, 0).into(), true).unwrap();
    let listener = TcpListener::bind((V4, 0)).unwrap();
    let control = server.control.port();
    for (transport, destination_port) in [
        (Transport::Udp, somebody.local_address().unwrap().port()),
        (Transport::Tcp, listener.local_addr().unwrap().port()),
        (Transport::Tcp, control),
    ] {
        let options = ClientOptions { transport, destination_port, ..client(&server, Directions::Up) };
        assert!(sentence(measure(&options)).contains("NAK"));
        let broken = server.until(|event| matches!(event, ServerEvent::BrokenOff { .. }));
        assert!(broken.to_string().contains(&format!(":{destination_port}")), "{broken}");
    }
    assert!(measure(&client(&server, Directions::Up)).unwrap().is_complete());
}

#[test]
fn no_low_port_sends() {
    let server = server();
    let mut control = TcpStream::connect(server.control).unwrap();
    control.set_read_timeout(Some(LONG)).unwrap();
    let order = Workorder { src_port: 1_023, dst_port: 5_000, ..Workorder::new(Command::SendMe) };
    control.write_all(&order.to_octets()).unwrap();
    assert_eq!(read_workorder(&mut control).command, Command::Nak);
    let refused = server.until(|event| matches!(event, ServerEvent::Refused { .. }));
    assert!(refused.to_string().contains("from port 1023"), "{refused}");
}

/// A null source port is filled in by the sender's system (4.3.2), which need not tell the receiver.
#[test]
fn a_sender_with_a_null_source_port_is_known_by_its_first_packet() {
    let server = server();
    let (socket, other) = (UdpSocket::bind((V4, 0)).unwrap(), UdpSocket::bind((V4, 0)).unwrap());
    let elsewhere = UdpSocket::bind(("127.0.0.2", 0)).unwrap();
    let mut control = TcpStream::connect(server.control).unwrap();
    control.set_read_timeout(Some(LONG)).unwrap();
    let order = Workorder {
        npkts: 3,
        pktlen: 12,
        period_ns: 1_000_000,
        src_port: 0,
        dst_port: server.test.port(),
        ..Workorder::new(Command::Sending)
    };
    control.write_all(&order.to_octets()).unwrap();
    assert_eq!(read_workorder(&mut control).command, Command::Ack);
    let packet = |number: i32| [&[0, 0, 0, 0, 0, 0, 0, 9][..], &number.to_be_bytes()].concat();
    elsewhere.send_to(&packet(1), server.test).unwrap();
    socket.send_to(&packet(0), server.test).unwrap();
    server.until(|event| matches!(event, ServerEvent::Started { .. }));
    other.send_to(&packet(1), server.test).unwrap();
    elsewhere.send_to(&packet(1), server.test).unwrap();
    for number in [2, -1] {
        socket.send_to(&packet(number), server.test).unwrap();
    }
    assert_eq!(read_workorder(&mut control).command, Command::Samples);
    let mut rows = Vec::new();
    control.read_to_end(&mut rows).unwrap();
    let rows: Vec<_> = Singleton::all_in(&rows).0.map(|row| (row.tx_seq, row.flags)).collect();
    assert_eq!(rows, [(0, 0), (2, 0)], "of that port alone");
}

/// Nobody can look for open ports through a server: a refused connection is told no sooner than a silent one.
#[test]
fn a_refused_test_connection_is_told_as_late_as_an_unanswered_one() {
    let silence = Duration::from_millis(600);
    let mut options = ServerOptions { legacy: true, ..options(V4) };
    options.limits.silence = silence;
    let server = Served::with(options);
    let mut control = TcpStream::connect(server.control).unwrap();
    control.set_read_timeout(Some(LONG)).unwrap();
    let closed = TcpListener::bind((V4, 0)).unwrap().local_addr().unwrap().port();
    let order = Workorder { proto: 6, npkts: 5, dst_port: closed, ..Workorder::new(Command::SendMe) };
    control.write_all(&order.to_octets()).unwrap();
    let mut answer = read_workorder(&mut control);
    assert_eq!(answer.command, Command::Sending);
    answer.command = Command::Ack;
    let since = Instant::now();
    control.write_all(&answer.to_octets()).unwrap();
    let impatient = ClientOptions { queue_patience: Duration::ZERO, legacy: false, ..server.client() };
    let mut rest = Vec::new();
    control.read_to_end(&mut rest).unwrap();
    assert!(since.elapsed() >= silence, "{:?}", since.elapsed());
    assert_eq!(rest, b"", "nor does it say how");
    let event = server.until(|event| matches!(event, ServerEvent::BrokenOff { .. }));
    assert!(event.to_string().ends_with("does not take the test connection"), "{event}");
    assert!(measure(&impatient).unwrap().is_complete());
}

#[test]
fn client_and_server_on_one_host_share_the_port() {
    let server = server();
    for transport in [Transport::Udp, Transport::Tcp] {
        let destination_port = server.test.port();
        let options = ClientOptions { transport, destination_port, ..client(&server, Directions::Down) };
        let outcome = measure(&options).unwrap();
        assert!(outcome.is_complete(), "{outcome:?}");
    }
}

/// A server of the document that knows nothing of us: written here from its sections 4.2 to 4.3.4 alone.
#[test]
fn a_server_of_the_document_understands_our_client() {
    let listener = TcpListener::bind((V4, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let test = UdpSocket::bind((V4, 0)).unwrap();
    let test_port = test.local_addr().unwrap().port();
    let thread = std::thread::spawn(move || {
        let (mut control, _) = listener.accept().unwrap();
        let mut octets = [0u8; 40];
        loop {
            control.read_exact(&mut octets).unwrap();
            if octets[3] != 7 {
                break;
            }
            octets[16..24].copy_from_slice(&1_000i64.to_be_bytes());
            control.write_all(&octets).unwrap();
        }
        assert_eq!(octets[..4], [0, 0, 0, 2], "SENDING");
        assert_eq!(octets[4..8], [0, 0, 0, 30], "npkts");
        assert_ne!(octets[32..34], [0, 0], "the sender has filled in its port");
        assert_eq!(octets[24..32], [127, 0, 0, 1, 127, 0, 0, 1]);
        octets[3] = 5;
        control.write_all(&octets).unwrap();
        let mut rows = Vec::new();
        loop {
            let mut packet = [0u8; 200];
            let (got, from) = test.recv_from(&mut packet).unwrap();
            assert_eq!(got, 80);
            assert_eq!(from.port(), u16::from_be_bytes([octets[32], octets[33]]));
            if packet[8..12] == [255; 4] {
                break;
            }
            rows.extend_from_slice(&packet[..12]);
            rows.extend_from_slice(&7i64.to_be_bytes());
            rows.extend_from_slice(&[0; 4]);
        }
        octets[3] = 4;
        control.write_all(&octets).unwrap();
        control.write_all(&rows).unwrap();
    });
    let options = ClientOptions {
        legacy: true,
        packets: Some(30),
        destination_port: test_port,
        rtt_probes: 2,
        rtt_interval: Duration::from_millis(5),
        schedule: FlowSchedule::every(1_000_000),
        ..ClientOptions::new(at)
    };
    let outcome = measure(&options).unwrap();
    thread.join().unwrap();
    assert!(outcome.is_complete(), "{outcome:?}");
    assert_all(&outcome.flows[0], 30);
    assert!(outcome.flows[0].singletons.iter().all(|singleton| singleton.rx_real_time_ns == 7));
    assert!(outcome.rtt_probes.iter().all(|probe| probe.t2_ns == 1_000));
}

fn read_workorder(control: &mut TcpStream) -> Workorder {
    let mut octets = [0u8; WORKORDER_BYTES];
    control.read_exact(&mut octets).unwrap();
    Workorder::from_octets(&octets).unwrap()
}

/// A client of the document, written here from its sections alone; and one that lies about addresses.
#[test]
fn packets_go_to_the_control_connections_address_whatever_the_workorder_says() {
    let server = server();
    let elsewhere = UdpSocket::bind(("127.0.0.2", 0)).unwrap();
    let port = elsewhere.local_addr().unwrap().port();
    let here = UdpSocket::bind((V4, port)).unwrap();
    here.set_read_timeout(Some(LONG)).unwrap();
    let mut control = TcpStream::connect(server.control).unwrap();
    control.set_read_timeout(Some(LONG)).unwrap();
    let order = Workorder {
        npkts: 20,
        period_ns: 1_000_000,
        dst_ip: Ipv4Addr::new(127, 0, 0, 2),
        src_ip: Ipv4Addr::new(192, 0, 2, 1),
        dst_port: port,
        ..Workorder::new(Command::SendMe)
    };
    control.write_all(&order.to_octets()).unwrap();
    let mut answer = read_workorder(&mut control);
    assert_eq!(answer.command, Command::Sending);
    assert_ne!(answer.src_port, 0, "the sender has filled in its port");
    assert_eq!((answer.src_ip, answer.dst_ip), (Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST), "and the truth");
    answer.command = Command::Ack;
    control.write_all(&answer.to_octets()).unwrap();
    let mut numbers = Vec::new();
    loop {
        let mut packet = [0u8; 200];
        let (got, from) = here.recv_from(&mut packet).unwrap();
        assert_eq!((got, from.port()), (80, answer.src_port));
        let number = i32::from_be_bytes([packet[8], packet[9], packet[10], packet[11]]);
        if number == -1 {
            break;
        }
        numbers.push(number);
    }
    assert_eq!(numbers, (0..20).collect::<Vec<i32>>());
    control.write_all(&answer.to_octets()).unwrap();
    drop(control);
    server.until(|event| matches!(event, ServerEvent::Closed { .. }));
    elsewhere.set_nonblocking(true).unwrap();
    assert!(elsewhere.recv_from(&mut [0u8; 200]).is_err(), "not one packet");
}

#[test]
fn a_client_of_the_document_gets_its_samples() {
    let server = server();
    let socket = UdpSocket::bind((V4, 0)).unwrap();
    let mut control = TcpStream::connect(server.control).unwrap();
    control.set_read_timeout(Some(LONG)).unwrap();
    let order = Workorder {
        npkts: 3,
        pktlen: 12,
        period_ns: 1_000_000,
        src_port: socket.local_addr().unwrap().port(),
        dst_port: server.test.port(),
        ..Workorder::new(Command::Sending)
    };
    control.write_all(&order.to_octets()).unwrap();
    assert_eq!(read_workorder(&mut control).command, Command::Ack);
    for number in [0i32, 2, 2, -1] {
        let packet = [&[0, 0, 0, 0, 0, 0, 0, 9][..], &number.to_be_bytes()].concat();
        socket.send_to(&packet, server.test).unwrap();
    }
    assert_eq!(read_workorder(&mut control).command, Command::Samples);
    let mut rows = Vec::new();
    control.read_to_end(&mut rows).unwrap();
    let (rows, rest) = Singleton::all_in(&rows);
    let rows: Vec<_> = rows.map(|row| (row.tx_real_time_ns, row.tx_seq, row.flags)).collect();
    assert_eq!((rows.as_slice(), rest), (&[(9, 0, 0), (9, 2, 0), (9, 2, 1)][..], &[][..]));
}

#[test]
fn without_legacy_the_answer_is_nak() {
    let server = Served::at(V4);
    let said = sentence(measure(&client(&server, Directions::Up)));
    assert!(said.contains("NAK") && said.contains("--legacy"), "{said}");
    let refused = server.until(|event| matches!(event, ServerEvent::Refused { .. }));
    assert!(refused.to_string().contains("--legacy was not given"), "{refused}");
}

#[test]
fn with_a_key_there_is_no_legacy() {
    let server = Served::with(ServerOptions { legacy: true, key: key("0123456789abcdef"), ..options(V4) });
    let said = sentence(measure(&client(&server, Directions::Up)));
    assert!(said.contains("NAK"), "{said}");
}

#[test]
fn legacy_has_its_own_caps() {
    let mut options = ServerOptions { legacy: true, ..options(V4) };
    options.limits.legacy = LegacyLimits {
        packets_per_second: 1_000,
        bits_per_second: 1_000_000,
        duration: Duration::from_secs(5),
        packet_bytes: 200,
        least_port: 1_024,
    };
    let server = Served::with(options);
    let client = client(&server, Directions::Up);
    for (options, word) in [
        (ClientOptions { schedule: FlowSchedule::every(100_000), ..client.clone() }, "packets/s"),
        (ClientOptions { packets: Some(2_501), ..client.clone() }, "at most 5 s"),
        (ClientOptions { packet_bytes: 201, ..client.clone() }, "exceed the limit of 200"),
        (ClientOptions { destination_port: 1_023, ..client.clone() }, "below 1024"),
    ] {
        assert!(sentence(measure(&options)).contains("NAK"));
        let refused = server.until(|event| matches!(event, ServerEvent::Refused { .. }));
        assert!(refused.to_string().contains(word), "{refused}");
    }
    assert!(measure(&client).unwrap().is_complete());
}

#[test]
fn the_extensions_client_tells_of_jitlat_where_the_server_knows_nothing_else() {
    for nak in [true, false] {
        let listener = TcpListener::bind((V4, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let (mut control, _) = listener.accept().unwrap();
            let mut octets = [0u8; 40];
            control.read_exact(&mut octets).unwrap();
            assert_eq!(octets[..4], [0, 0, 0, 8]);
            if nak {
                octets[3] = 6;
                control.write_all(&octets).unwrap();
            }
        });
        let said = sentence(measure(&ClientOptions::new(at)));
        thread.join().unwrap();
        let did = if nak { "it answered NAK" } else { "it closed the connection" };
        assert!(said.contains("does not know Quaver's extension") && said.contains(did), "{said}");
        assert!(said.contains("quaver jitlat"), "{said}");
    }
}

#[test]
fn an_interrupted_jitlat_keeps_what_it_had() {
    let server = server();
    for directions in [Directions::Up, Directions::Down] {
        let options = ClientOptions { packets: Some(30_000), ..client(&server, directions) };
        let stop = AtomicBool::new(false);
        let outcome = run_client(&options, &stop, &mut |progress| match progress {
            Progress::Started { .. } if directions == Directions::Up => stop.store(true, Ordering::Relaxed),
            Progress::Samples { .. } => stop.store(true, Ordering::Relaxed),
            _ => {}
        })
        .unwrap();
        assert_eq!(outcome.completion, Completion::Interrupted, "{outcome:?}");
        assert!(!outcome.flows[0].complete);
    }
    assert!(measure(&client(&server, Directions::Up)).unwrap().is_complete());
}
