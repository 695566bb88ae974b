//! OWAMP-Control: our client, a client in bytes of the RFC's figures, and such as ask for what they may not have.

use super::twamp::{Raw, scripted};
use super::*;
use quaver_abi::wire::stamp::time::TimestampFormat::Ntp;

/// A server of OWAMP-Control, and its port.
fn server(limits: Limits, at: IpAddr) -> (Served, SocketAddr) {
    let server = Served::with(ServerOptions { owamp_port: Some(0), limits, ..options(at) });
    let listening = server.until(|event| matches!(event, ServerEvent::ListeningFor { .. }));
    let ServerEvent::ListeningFor { control, .. } = listening else { panic!("{listening:?}") };
    (server, control)
}

fn client(control: SocketAddr, directions: Directions) -> ClientOptions {
    ClientOptions {
        owamp: true,
        directions,
        packets: Some(50),
        packet_bytes: 40,
        schedule: FlowSchedule::every(2_000_000),
        answer_timeout: LONG,
        ..ClientOptions::new(control)
    }
}

#[test]
fn each_way_and_both_at_once_give_every_packet_once() {
    let (_server, control) = server(options(V6).limits, V6);
    for (directions, flows) in [(Directions::Up, 1), (Directions::Down, 1), (Directions::AtOnce, 2)] {
        let outcome = measure(&client(control, directions)).unwrap();
        assert_eq!((outcome.protocol, outcome.flows.len()), (Protocol::Owamp, flows));
        assert!(outcome.is_complete(), "{outcome:?}");
        for flow in &outcome.flows {
            assert_all(flow, 50);
            // One clock on both ends.
            let delays = flow.singletons.iter().map(|row| row.rx_real_time_ns - row.tx_real_time_ns);
            assert!(!outcome.clock_steps.is_empty() || delays.min() > Some(0));
        }
    }
}

#[test]
fn random_gaps_are_those_of_the_sessions_name_at_either_end() {
    let (_server, control) = server(options(V4).limits, V4);
    for directions in [Directions::Up, Directions::Down] {
        let schedule = FlowSchedule::Poisson { mean_ns: 2_000_000, seed: 0 };
        let outcome = measure(&ClientOptions { schedule, ..client(control, directions) }).unwrap();
        assert_all(&outcome.flows[0], 50);
    }
}

/// owamp's #40: of 10,000 packets 908 came.
#[test]
fn of_ten_thousand_packets_at_a_high_rate_all_come() {
    let (_server, control) = server(options(V4).limits, V4);
    for directions in [Directions::Up, Directions::Down] {
        let schedule = FlowSchedule::every(100_000);
        let packets = Some(10_000);
        let outcome = measure(&ClientOptions { packets, schedule, ..client(control, directions) }).unwrap();
        assert_all(&outcome.flows[0], 10_000);
    }
}

#[test]
fn who_stops_keeps_what_came() {
    let (_server, control) = server(options(V4).limits, V4);
    for directions in [Directions::Up, Directions::Down] {
        let stop = AtomicBool::new(false);
        let asked = ClientOptions { packets: Some(1_000_000), ..client(control, directions) };
        let began = AtomicBool::new(false);
        let outcome = std::thread::scope(|scope| {
            let run = scope.spawn(|| {
                run_client(&asked, &stop, &mut |progress| {
                    began.fetch_or(matches!(progress, Progress::Started { .. }), Ordering::Relaxed);
                })
            });
            while !began.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(600));
            stop.store(true, Ordering::Relaxed);
            run.join().unwrap().unwrap()
        });
        assert_eq!(outcome.completion, Completion::Interrupted);
        let flow = &outcome.flows[0];
        let sent = flow.packets_sent().unwrap();
        assert!(flow.rows > 0 && flow.rows <= sent && sent < 1_000_000, "{sent}");
    }
}

/// Request-Session for packets of 14 bytes, 1 ms apart.
fn request(sends: bool, port: u16, packets: u32) -> Vec<u8> {
    let mut octets = vec![0; 112 + 16 + 16];
    (octets[0], octets[1]) = (1, 4);
    octets[if sends { 2 } else { 3 }] = 1;
    octets[7] = 1;
    octets[8..12].copy_from_slice(&packets.to_be_bytes());
    let at = if sends { 14 } else { 12 };
    octets[at..at + 2].copy_from_slice(&port.to_be_bytes());
    octets[48..64].copy_from_slice(&[0x5d; 16]);
    // owamp's #72: a clock without NTP is an hour ahead, and the session begins all the same.
    let hour_ahead = quaver_clock::realtime_ns() + 3_600_000_000_000;
    octets[68..76].copy_from_slice(&Ntp.encode(hour_ahead).to_be_bytes());
    octets[79] = 1;
    // One slot: literal, 1 ms.
    octets[112] = 1;
    octets[120..128].copy_from_slice(&4_294_967_u64.to_be_bytes());
    octets
}

fn start(raw: &mut Raw) {
    let mut octets = [0; 32];
    octets[0] = 2;
    raw.say(&octets);
    assert_eq!(raw.hear::<32>(), [0; 32]);
}

/// Stop-Sessions of one session, with one skip range.
fn stop(sid: &[u8], next_seqno: u32, skip: (u32, u32)) -> Vec<u8> {
    let mut octets = vec![0; 16];
    (octets[0], octets[7]) = (3, 1);
    octets.extend_from_slice(sid);
    for number in [next_seqno, 1, skip.0, skip.1] {
        octets.extend(number.to_be_bytes());
    }
    octets.extend([0; 16]);
    octets
}

#[test]
fn a_client_in_bytes_of_the_figures_sends_and_fetches_its_records() {
    let (server, control) = server(options(V4).limits, V4);
    let mut raw = Raw::met(control);
    let socket = UdpSocket::bind((V4, 0)).unwrap();
    raw.say(&request(false, socket.local_addr().unwrap().port(), 6));
    let accept: [u8; 48] = raw.hear();
    assert_eq!(accept[0], 0);
    let sid = &accept[4..20];
    start(&mut raw);
    // owamp's #66: stamps that lie 267 ms ahead of the receiver's clock are a delay below zero, not an error.
    let sent_ns = quaver_clock::realtime_ns() + 3_267_000_000;
    let there = (V4, u16::from_be_bytes([accept[2], accept[3]]));
    for number in [0u8, 2, 2] {
        let mut packet = [0; 14];
        packet[3] = number;
        packet[4..12].copy_from_slice(&Ntp.encode(sent_ns).to_be_bytes());
        packet[12..].copy_from_slice(&[0x12, 0x34]);
        socket.send_to(&packet, there).unwrap();
    }
    // Packets are taken by another thread.
    std::thread::sleep(Duration::from_millis(300));
    raw.say(&stop(sid, 5, (3, 3)));
    let stopped: [u8; 32] = raw.hear();
    assert_eq!((stopped[0], stopped[1], &stopped[4..8]), (3, 0, &[0; 4][..]));
    let mut fetch = [0; 48];
    fetch[0] = 4;
    fetch[12..16].copy_from_slice(&[0xff; 4]);
    fetch[16..32].copy_from_slice(sid);
    raw.say(&fetch);
    let ack: [u8; 32] = raw.hear();
    // Accepted, finished, 5 as the next, one skip range, five records.
    assert_eq!(ack[..16], [0, 1, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 5]);
    let echoed: [u8; 144] = raw.hear();
    assert_eq!((echoed[7], &echoed[14..16], &echoed[48..64]), (1, &accept[2..4], sid));
    let skips: [u8; 32] = raw.hear();
    assert_eq!(skips[..8], [0, 0, 0, 3, 0, 0, 0, 3]);
    let records: [u8; 144] = raw.hear();
    let records: Vec<&[u8]> = records.chunks(25).take(5).collect();
    let numbers: Vec<u8> = records.iter().map(|record| record[3]).collect();
    assert_eq!(numbers, [0, 1, 2, 2, 4], "lost ones where they are missed, copies too, skipped ones not");
    for (record, number) in records.iter().zip(&numbers) {
        let received = u64::from_be_bytes(record[16..24].try_into().unwrap());
        assert_eq!((received == 0, record[24]), (matches!(number, 1 | 4), 255));
        if received != 0 {
            assert_eq!(record[4..6], [0x12, 0x34]);
            let delay_ns = Ntp.decode(received, sent_ns) - sent_ns;
            assert!((-3_267_000_000..0).contains(&delay_ns), "{delay_ns}");
        }
    }
    drop(raw);
    server.until(|event| matches!(event, ServerEvent::Ended { packets: 3, .. }));
}

#[test]
fn a_server_sends_in_bytes_of_the_figures() {
    let (_server, control) = server(options(V4).limits, V4);
    let mut raw = Raw::met(control);
    let socket = UdpSocket::bind((V4, 0)).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    raw.say(&request(true, socket.local_addr().unwrap().port(), 3));
    let accept: [u8; 48] = raw.hear();
    assert_eq!(accept[0], 0);
    start(&mut raw);
    for number in 0..3 {
        let mut packet = [0; 99];
        let (octets, from) = socket.recv_from(&mut packet).unwrap();
        assert_eq!((octets, from.port()), (14, u16::from_be_bytes([accept[2], accept[3]])));
        assert_eq!(packet[..4], [0, 0, 0, number]);
        assert_ne!(packet[13], 0, "a multiplier of 0 is no estimate");
    }
    let mut stop = [0; 32];
    stop[0] = 3;
    raw.say(&stop);
    let stopped: [u8; 64] = raw.hear();
    assert_eq!((stopped[0], stopped[7], &stopped[16..32]), (3, 1, &[0x5d; 16][..]));
    assert_eq!(stopped[32..40], [0, 0, 0, 3, 0, 0, 0, 0]);
}

#[test]
fn what_a_client_may_not_have_is_refused_and_the_next_request_is_heard() {
    let (server, control) = server(options(V4).limits, V4);
    let mut raw = Raw::met(control);
    let mut refused = |sends: bool, change: &dyn Fn(&mut Vec<u8>), value: u8, words: &str| {
        let mut asked = request(sends, 40_000, 5);
        change(&mut asked);
        raw.say(&asked);
        let accept: [u8; 48] = raw.hear();
        assert_eq!(accept[0], value, "{words}");
        let event = server.until(|event| matches!(event, ServerEvent::Refused { .. }));
        assert!(event.to_string().contains(words), "{event}");
    };
    // Packets to somebody else, to a service, too fast, too large, too many.
    refused(true, &|asked| asked[32..36].copy_from_slice(&[192, 0, 2, 1]), 3, "other addresses");
    refused(true, &|asked| asked[14..16].copy_from_slice(&[0, 53]), 3, "below 1024");
    refused(
        true,
        &|asked| asked[120..128].copy_from_slice(&40_000u64.to_be_bytes()),
        4,
        "packets/s; at most 10000",
    );
    refused(
        true,
        &|asked| asked[64..68].copy_from_slice(&1_459u32.to_be_bytes()),
        4,
        "exceed the limit of 1472",
    );
    refused(false, &|asked| asked[8..12].copy_from_slice(&[0xff; 4]), 4, "packets; 1 to");
    refused(false, &|asked| asked[8..12].copy_from_slice(&[0; 4]), 4, "packets; 1 to");
    refused(false, &|asked| asked[2] = 1, 3, "neither only sends nor only receives");
    refused(false, &|asked| asked[112] = 2, 3, "unknown type");
    refused(false, &|asked| asked[120..128].copy_from_slice(&[0xff; 8]), 4, "at most 90000 s");
    raw.say(&request(false, 40_000, 5));
    assert_eq!(raw.hear::<48>()[0], 0);
}

#[test]
fn nonsense_closes_the_connection_and_others_are_served() {
    let (server, control) = server(options(V4).limits, V4);
    let mut first = vec![0; 112];
    (first[0], first[1]) = (1, 4);
    first[4..8].copy_from_slice(&1_025u32.to_be_bytes());
    let unasked = stop(&[1; 16], 1, (0, 0));
    for said in [first, unasked, [2; 32].to_vec(), [5; 112].to_vec(), [0; 16].to_vec()] {
        let mut raw = Raw::met(control);
        raw.say(&said);
        assert!(raw.is_closed());
        server.until(|event| matches!(event, ServerEvent::Hostile { .. }));
    }
    // Of a session that runs: ranges that overlap would be walked again and again.
    let mut raw = Raw::met(control);
    raw.say(&request(false, 40_000, 5));
    let accept: [u8; 48] = raw.hear();
    start(&mut raw);
    raw.say(&stop(&accept[4..20], 5, (3, 2)));
    assert!(raw.is_closed());
    server.until(|event| event.to_string().contains("overlap or run backwards"));
    assert!(measure(&client(control, Directions::Up)).unwrap().is_complete());
}

#[test]
fn a_server_that_lies_is_told_and_takes_no_memory() {
    let (mut greeting, mut accept, mut ack) = (vec![0; 64], vec![0; 48], vec![0; 32]);
    greeting[15] = 1;
    // A port where nobody listens.
    accept[2..4].copy_from_slice(&[0x9c, 0x40]);
    let mut stopped = vec![0; 32];
    stopped[0] = 3;
    let stopped_many = {
        let mut octets = stopped.clone();
        octets[4..8].fill(0xff);
        octets
    };
    ack[12..16].fill(0xff);
    let met = || vec![greeting.clone(), vec![0; 48], accept.clone(), vec![0; 32]];
    for (more, wanted) in [
        (vec![stopped_many], "stopped 4294967295 sessions of 1"),
        (vec![[stopped.clone(), ack.clone()].concat()], "announced 4294967295 records of 50 packets"),
        (vec![[9; 32].to_vec()], "sent command 9"),
    ] {
        let control = scripted([met(), more].concat());
        let outcome = measure(&client(control, Directions::Up)).unwrap();
        let Completion::ServerLost(sentence) = &outcome.completion else { panic!("{outcome:?}") };
        assert!(sentence.contains(wanted), "{sentence}");
    }
}

#[test]
fn what_owamp_has_not_is_refused_before_anybody_is_called() {
    let nobody = client(SocketAddr::from(([127, 0, 0, 1], 1)), Directions::Up);
    for (asked, words) in [
        (ClientOptions { transport: Transport::Tcp, ..nobody.clone() }, "by UDP alone"),
        (ClientOptions { packets: None, rolling: true, ..nobody.clone() }, "number of packets"),
        (ClientOptions { packet_bytes: 13, ..nobody.clone() }, "at least 14 bytes"),
        (
            ClientOptions {
                schedule: FlowSchedule::Recorded { offsets_ns: [1, 2].into() },
                ..nobody.clone()
            },
            "not by a recording",
        ),
    ] {
        let sentence = sentence(measure(&asked));
        assert!(sentence.contains(words), "{sentence}");
    }
}

#[test]
fn any_bytes_after_the_greeting_leave_the_server_serving() {
    use proptest::prelude::*;
    use proptest::test_runner::{Config, TestRunner};
    let (_server, control) = server(options(V4).limits, V4);
    let commands = (0u8..6, 0u8..8, proptest::collection::vec(any::<u8>(), 0..400));
    let mut runner = TestRunner::new(Config { cases: 48, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&commands, |(command, ip, rest)| {
        let mut raw = Raw::met(control);
        raw.say(&[&[command, ip][..], &rest].concat());
        Ok(())
    });
    outcome.unwrap();
    assert!(measure(&client(control, Directions::Down)).unwrap().is_complete());
}
