//! The relay between real sockets.

use super::script::{Rule, Script};
use super::truth::{Reader, Truth};
use super::*;
use quaver_arrivals::path::direction::Direction;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Only so that a fault ends the test; nothing waits for it otherwise.
const AT_MOST: Duration = Duration::from_secs(20);

fn socket(address: IpAddr) -> UdpSocket {
    let socket = UdpSocket::bind((address, 0)).unwrap();
    socket.set_read_timeout(Some(AT_MOST)).unwrap();
    socket
}

fn packet(sequence: i32) -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let mut octets = (now.as_nanos() as i64).to_be_bytes().to_vec();
    octets.extend(sequence.to_be_bytes());
    octets.extend([0; 68]);
    octets
}

/// Sequence numbers up to the sentinel.
fn received(socket: &UdpSocket) -> (Vec<i32>, SocketAddr) {
    let mut room = [0; 2048];
    let mut numbers = Vec::new();
    loop {
        let (octets, from) = socket.recv_from(&mut room).unwrap();
        assert_eq!(octets, 80);
        match i32::from_be_bytes(room[8..12].try_into().unwrap()) {
            -1 => return (numbers, from),
            number => numbers.push(number),
        }
    }
}

fn relay(listen: IpAddr, server: &UdpSocket, script: Script) -> Relay {
    Relay::start(RelayOptions {
        listen,
        control_port: 0,
        test_port: 0,
        server_control: None,
        server_test: server.local_addr().unwrap(),
        script,
        keep: Keep::Memory,
    })
    .unwrap()
}

/// First copies, further copies, and how many came after a higher number, counted by the receiver.
fn counted(numbers: &[i32]) -> (u64, u64, u64) {
    let mut copies: BTreeMap<i32, u64> = BTreeMap::new();
    let (mut reordered, mut highest) = (0, -1);
    for number in numbers {
        let seen = copies.entry(*number).or_default();
        *seen += 1;
        reordered += u64::from(*seen == 1 && *number < highest);
        highest = highest.max(*number);
    }
    (copies.len() as u64, numbers.len() as u64 - copies.len() as u64, reordered)
}

fn both_ways(listen: IpAddr) {
    let up = vec![Rule::chance(0.1).dropped(), Rule::chance(0.1).held(3), Rule::chance(0.1).copied(2)];
    let down = vec![Rule::chance(0.3).dropped(), Rule::chance(0.2).copied(1)];
    let script = Script { seed: 5, up, down, ..Script::default() };
    let (client, server) = (socket(listen), socket(listen));
    let relay = relay(listen, &server, script);
    client.connect(relay.test_address()).unwrap();
    // So few that all fit into the buffer of a socket that nobody reads meanwhile.
    let count = 200;
    for number in (0..count).chain([-1]) {
        client.send(&packet(number)).unwrap();
    }
    let (at_server, from) = received(&server);
    for number in (0..count).chain([-1]) {
        server.send_to(&packet(number), from).unwrap();
    }
    let (at_client, _) = received(&client);
    let report = relay.stop().unwrap();
    assert_eq!((report.unread, report.refused), (0, 0));
    assert_eq!(report.clients, vec![client.local_addr().unwrap()]);
    for (direction, numbers) in [(Direction::Up, at_server), (Direction::Down, at_client)] {
        let truth = Truth::of(&report.records, 0, direction, &Reader::of(count as u64));
        let (unique, duplicates, reordered) = counted(&numbers);
        assert_eq!((truth.sent, truth.sent - truth.lost), (count as u64, unique), "{direction:?}");
        assert_eq!((truth.duplicates, truth.reordered), (duplicates, reordered), "{direction:?}");
        assert!(truth.lost > 10 && truth.duplicates > 10, "{truth:?}");
    }
    let totals = report.totals;
    assert_eq!((totals.up.sentinels, totals.down.sentinels, totals.up.waiting), (1, 1, 0));
    assert_ne!(totals.up.dropped, totals.down.dropped);
}

#[test]
fn both_ways_are_impaired_apart_and_the_log_says_what_arrives() {
    both_ways(Ipv4Addr::LOCALHOST.into());
}

#[test]
fn the_same_over_ipv6() {
    both_ways(Ipv6Addr::LOCALHOST.into());
}

#[test]
fn each_client_has_fates_of_its_own_that_do_not_depend_on_others() {
    let listen = Ipv4Addr::LOCALHOST.into();
    let server = socket(listen);
    let script = Script { seed: 9, up: vec![Rule::chance(0.5).dropped()], ..Script::default() };
    let relay = relay(listen, &server, script);
    let clients = [socket(listen), socket(listen)];
    for number in (0..100).chain([-1]) {
        for client in &clients {
            client.send_to(&packet(number), relay.test_address()).unwrap();
        }
    }
    let mut by_flow: BTreeMap<SocketAddr, Vec<i32>> = BTreeMap::new();
    let (mut room, mut ended) = ([0; 2048], 0);
    while ended < 2 {
        let (_, from) = server.recv_from(&mut room).unwrap();
        match i32::from_be_bytes(room[8..12].try_into().unwrap()) {
            -1 => ended += 1,
            number => by_flow.entry(from).or_default().push(number),
        }
    }
    let flows: Vec<&Vec<i32>> = by_flow.values().collect();
    assert_eq!(flows.len(), 2);
    assert_eq!(flows[0], flows[1]);
    assert_eq!(relay.stop().unwrap().clients.len(), 2);
}

#[test]
fn packets_on_hold_leave_at_the_time_out_without_any_traffic() {
    let listen = Ipv4Addr::LOCALHOST.into();
    let (client, server) = (socket(listen), socket(listen));
    let release_after = script::Span::from_ns(30_000_000);
    let script = Script { release_after, up: vec![Rule::packets([1]).held(5)], ..Script::default() };
    let relay = relay(listen, &server, script);
    let mut room = [0; 100];
    for number in 0..2 {
        client.send_to(&packet(number), relay.test_address()).unwrap();
        assert_eq!(server.recv(&mut room).unwrap(), 80);
        assert_eq!(room[8..12], number.to_be_bytes());
    }
    let report = relay.stop().unwrap();
    assert_eq!(report.records[1].left[0].released, log::Release::TimeOut);
    assert_eq!(report.totals.up.let_go, 1);
}

#[test]
fn the_log_is_a_line_of_json_for_each_datagram() {
    let listen = Ipv4Addr::LOCALHOST.into();
    let (client, server) = (socket(listen), socket(listen));
    let (mut lines, writer) = std::os::unix::net::UnixStream::pair().unwrap();
    let relay = Relay::start(RelayOptions {
        listen,
        control_port: 0,
        test_port: 0,
        server_control: None,
        server_test: server.local_addr().unwrap(),
        script: Script { up: vec![Rule::packets([1]).dropped()], ..Script::default() },
        keep: Keep::Lines(Box::new(writer)),
    })
    .unwrap();
    for number in [0, 1, 2, -1] {
        client.send_to(&packet(number), relay.test_address()).unwrap();
    }
    assert_eq!(received(&server).0, vec![0, 2]);
    assert!(relay.stop().unwrap().records.is_empty());
    let mut text = String::new();
    lines.read_to_string(&mut text).unwrap();
    let records: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let dropped: Vec<&serde_json::Value> = records.iter().map(|record| &record["dropped_by"]).collect();
    assert_eq!(
        dropped,
        vec![&serde_json::Value::Null, &0.into(), &serde_json::Value::Null, &serde_json::Value::Null]
    );
    assert_eq!((&records[0]["direction"], &records[2]["number"]), (&"up".into(), &2.into()));
    assert_eq!((&records[3]["class"], &records[2]["left"][0]["order"]), (&"sentinel".into(), &1.into()));
}

/// A relay with doors, and the server's listeners behind them: control, test.
fn with_doors(listen: IpAddr) -> (Relay, TcpListener, TcpListener) {
    let control = TcpListener::bind((listen, 0)).unwrap();
    let test = TcpListener::bind((listen, 0)).unwrap();
    let relay = Relay::start(RelayOptions {
        listen,
        control_port: 0,
        test_port: 0,
        server_control: Some(control.local_addr().unwrap()),
        server_test: test.local_addr().unwrap(),
        script: Script::default(),
        keep: Keep::Totals,
    })
    .unwrap();
    (relay, control, test)
}

#[test]
fn connections_are_forwarded_with_their_ends() {
    for listen in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
        let (relay, control, test) = with_doors(listen);
        for (address, listener) in [(relay.control_address().unwrap(), control), (relay.test_address(), test)]
        {
            let mut client = TcpStream::connect(address).unwrap();
            client.set_read_timeout(Some(AT_MOST)).unwrap();
            let (mut server, from) = listener.accept().unwrap();
            server.set_read_timeout(Some(AT_MOST)).unwrap();
            assert_eq!(from.ip(), listen);
            client.write_all(b"question").unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let mut text = String::new();
            server.read_to_string(&mut text).unwrap();
            assert_eq!(text, "question");
            server.write_all(b"the answer, after the question's end").unwrap();
            drop(server);
            text.clear();
            client.read_to_string(&mut text).unwrap();
            assert_eq!(text, "the answer, after the question's end");
        }
        relay.stop().unwrap();
    }
}

#[test]
fn connections_can_be_cut() {
    let (relay, control, _test) = with_doors(Ipv4Addr::LOCALHOST.into());
    let mut client = TcpStream::connect(relay.control_address().unwrap()).unwrap();
    client.write_all(b"x").unwrap();
    let (mut server, _) = control.accept().unwrap();
    let mut room = [0; 8];
    assert_eq!(server.read(&mut room).unwrap(), 1);
    relay.cut_connections();
    for stream in [&mut client, &mut server] {
        stream.set_read_timeout(Some(AT_MOST)).unwrap();
        assert!(matches!(stream.read(&mut room), Ok(0) | Err(_)));
    }
    relay.stop().unwrap();
}
