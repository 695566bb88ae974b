//! Peers that take more than they should: byte by byte from `docs/protocol.md`, with nothing of our own client.

use super::*;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};

const REFUSE: u32 = 3;
const REQUEST: u32 = 6;
const OFFSETS: u32 = 7;
const QUEUED: u32 = 8;
const ACCEPT: u32 = 9;
const READY: u32 = 10;
const START: u32 = 11;
const GO: u32 = 12;
const DONE: u32 = 13;
const SENT: u32 = 14;
const END: u32 = 16;
const STOP: u32 = 17;
const BYE: u32 = 18;
const UNBOUNDED: u64 = u64::MAX;
const UP: u8 = 1;
const DOWN: u8 = 2;
const UDP: u8 = 17;
const TCP: u8 = 6;
const WAIT: u8 = 2;
const RECORDED: u8 = 2;

/// A test to ask for.
#[derive(Clone, Copy)]
struct Ask {
    ways: u8,
    transport: u8,
    schedule: u8,
    flags: u8,
    packet_bytes: u32,
    packets: u64,
    period_ns: u64,
}

const ASK: Ask = Ask {
    ways: DOWN,
    transport: UDP,
    schedule: 0,
    flags: 0,
    packet_bytes: 80,
    packets: UNBOUNDED,
    period_ns: 1_000_000,
};

fn field(kind: u16, value: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &(value.len() as u16).to_be_bytes(), value].concat()
}

fn header(kind: u32, number: u64, body_bytes: usize) -> [u8; 40] {
    let mut octets = [0u8; 40];
    octets[3] = 8;
    octets[7] = 2;
    octets[8..12].copy_from_slice(&(body_bytes as u32).to_be_bytes());
    octets[12..16].copy_from_slice(&kind.to_be_bytes());
    octets[16..24].copy_from_slice(&number.to_be_bytes());
    octets
}

/// A peer that has the control connection.
struct Peer {
    control: TcpStream,
    said: u64,
}

/// What a server said.
struct Heard {
    kind: u32,
    coded: bool,
    body: Vec<u8>,
}

impl Heard {
    fn field(&self, wanted: u16) -> Option<&[u8]> {
        let mut rest = &self.body[..];
        while let [a, b, c, d, after @ ..] = rest {
            let (value, next) = after.split_at(u16::from_be_bytes([*c, *d]).into());
            if u16::from_be_bytes([*a, *b]) == wanted {
                return Some(value);
            }
            rest = next;
        }
        None
    }

    fn reason(&self) -> u32 {
        assert_eq!(self.kind, REFUSE);
        u32::from_be_bytes(self.field(0x8004).unwrap().try_into().unwrap())
    }
}

impl Peer {
    /// Says HELLO and hears CHALLENGE.
    fn greet(server: &Served, from: &str) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::new(from.parse().unwrap(), 0).into()).unwrap();
        socket.connect(&server.control.into()).unwrap();
        let control: TcpStream = socket.into();
        control.set_read_timeout(Some(LONG)).unwrap();
        let mut peer = Self { control, said: 0 };
        peer.say(1, &[]);
        assert_eq!(peer.hear().kind, 2);
        peer
    }

    fn say(&mut self, kind: u32, body: &[u8]) {
        let octets = [&header(kind, self.said, body.len())[..], body].concat();
        self.said += 1;
        self.control.write_all(&octets).unwrap();
    }

    fn hear(&mut self) -> Heard {
        let mut start = [0u8; 40];
        self.control.read_exact(&mut start).unwrap();
        assert_eq!(start[..8], [0, 0, 0, 8, 0, 0, 0, 2]);
        let number = |at: usize| u32::from_be_bytes(start[at..at + 4].try_into().unwrap());
        let mut body = vec![0; number(8) as usize];
        self.control.read_exact(&mut body).unwrap();
        Heard { kind: number(12), coded: start[27] & 1 == 1, body }
    }

    fn expect(&mut self, kind: u32) -> Heard {
        let heard = self.hear();
        let words = heard.field(5).map(String::from_utf8_lossy);
        assert_eq!(heard.kind, kind, "{words:?}");
        heard
    }

    /// The refusal, be there places in the queue before it or not: who had the turn may just be leaving.
    fn refused(&mut self) -> Heard {
        loop {
            let heard = self.hear();
            if heard.kind != QUEUED {
                assert_eq!(heard.kind, REFUSE);
                return heard;
            }
        }
    }

    fn ask(&mut self, ask: Ask) {
        let mut flow = vec![ask.ways, ask.transport, ask.schedule, ask.flags];
        flow.extend(ask.packet_bytes.to_be_bytes());
        flow.extend(ask.packets.to_be_bytes());
        flow.extend(ask.period_ns.to_be_bytes());
        flow.extend([0; 16]);
        self.say(REQUEST, &field(0x8007, &flow));
    }

    fn offsets(&mut self, first: u64, offsets_ns: &[u64]) {
        let octets: Vec<u8> = [first].iter().chain(offsets_ns).flat_map(|o| o.to_be_bytes()).collect();
        self.say(OFFSETS, &field(0x8011, &octets));
    }

    /// Takes ACCEPT and echoes its cookie by UDP; the socket and the session's tag.
    fn meet(&mut self, server: &Served) -> (UdpSocket, Vec<u8>) {
        let cookie = self.expect(ACCEPT).field(0x8008).unwrap().to_vec();
        let test = UdpSocket::bind((self.control.local_addr().unwrap().ip(), 0)).unwrap();
        test.connect(server.test).unwrap();
        test.send(&[b"QuavrCk\x01", &cookie[..24]].concat()).unwrap();
        self.expect(READY);
        (test, cookie[..8].to_vec())
    }

    /// The same by TCP.
    fn meet_by_tcp(&mut self, server: &Served) -> TcpStream {
        let cookie = self.expect(ACCEPT).field(0x8008).unwrap().to_vec();
        let test = echo_by_tcp(server, &cookie);
        self.expect(READY);
        test
    }
}

/// To the port that ACCEPT names: another than the server's own where somebody has that one by TCP.
fn echo_by_tcp(server: &Served, cookie: &[u8]) -> TcpStream {
    let port = u32::from_be_bytes(cookie[24..28].try_into().unwrap()) as u16;
    let mut test = TcpStream::connect((server.test.ip(), port)).unwrap();
    test.write_all(&[b"QuavrCk\x01", &cookie[..24]].concat()).unwrap();
    test
}

fn packet(number: i32, tag: &[u8]) -> Vec<u8> {
    let mut octets = vec![0x5a; 80];
    octets[..8].copy_from_slice(&1_000u64.to_be_bytes());
    octets[8..12].copy_from_slice(&number.to_be_bytes());
    octets[12..20].copy_from_slice(tag);
    octets
}

/// A server with one test at a time, and little patience.
fn strict(silence: Duration) -> ServerOptions {
    let mut options = options(V4);
    options.limits.tests_per_peer = 1;
    options.limits.budget.tests = 1;
    options.limits.silence = silence;
    options
}

fn is_hostile(event: &ServerEvent) -> bool {
    matches!(event, ServerEvent::Hostile { .. })
}

/// The honest one that finds the place free, or is refused at once.
fn assert_free(server: &Served) {
    let options = ClientOptions { queue_patience: Duration::ZERO, rtt_probes: 1, ..server.client() };
    let outcome = measure(&options).unwrap();
    assert!(outcome.is_complete(), "{outcome:?}");
}

#[test]
fn a_greedy_peer_has_its_share_and_waits_alone() {
    let mut options = options(V4);
    options.limits.budget.share_packets_per_second = 1_500;
    options.limits.budget.packets_per_second = 3_000;
    let server = Served::with(options);
    let mut greedy = Peer::greet(&server, "127.0.0.2");
    greedy.ask(ASK);
    let (test, _) = greedy.meet(&server);
    greedy.say(START, &[]);
    let mut more = Peer::greet(&server, "127.0.0.2");
    more.ask(Ask { flags: WAIT, ..ASK });
    let place = more.expect(QUEUED);
    assert_eq!(place.body[place.body.len() - 4..], [0, 0, 0, 1], "its place is told");
    // A recording tells what it needs only when it has come.
    let mut slow = Peer::greet(&server, "127.0.0.2");
    slow.ask(Ask { schedule: RECORDED, packets: 600, period_ns: 1_000_000_000, ..ASK });
    slow.offsets(0, &(0..600).collect::<Vec<u64>>());
    let refused = slow.refused();
    assert!(String::from_utf8_lossy(refused.field(5).unwrap()).contains("busiest second"));
    assert_free(&server);
    drop((greedy, test));
    more.expect(ACCEPT);
}

#[test]
fn a_flow_to_a_silent_peer_ends_with_its_time() {
    let mut options = strict(Duration::from_millis(300));
    options.limits.duration = Duration::from_millis(500);
    let server = Served::with(options);
    let mut peer = Peer::greet(&server, "127.0.0.1");
    peer.ask(ASK);
    let _test = peer.meet(&server);
    peer.say(START, &[]);
    server.until(|event| matches!(event, ServerEvent::Ended { .. }));
    let gone = server.until(|event| matches!(event, ServerEvent::BrokenOff { .. }));
    assert!(gone.to_string().contains("nothing for too long"), "{gone}");
    assert_free(&server);
}

#[test]
fn a_flood_of_messages_ends_its_session_and_nothing_else() {
    let server = Served::with(strict(LONG));
    for ways in [DOWN, UP] {
        let mut peer = Peer::greet(&server, "127.0.0.1");
        peer.ask(Ask { ways, packets: 1_000_000, ..ASK });
        let _test = peer.meet(&server);
        peer.say(START, &[]);
        server.until(|event| matches!(event, ServerEvent::Started { .. }));
        // As fast as it can, until the server has closed.
        let flood = std::thread::spawn(move || {
            for number in 3u64.. {
                if peer.control.write_all(&header(STOP, number, 0)).is_err() {
                    return;
                }
            }
        });
        let event = server.until(is_hostile);
        assert!(event.to_string().contains("spoke while its test ran"), "{event}");
        flood.join().unwrap();
        assert_free(&server);
    }
}

#[test]
fn who_does_not_take_its_results_holds_no_place() {
    let server = Served::with(strict(LONG));
    let mut peer = Peer::greet(&server, "127.0.0.1");
    peer.ask(Ask { ways: UP, packets: 10, ..ASK });
    let (test, tag) = peer.meet(&server);
    peer.say(START, &[]);
    peer.expect(GO);
    for number in [0, 1, 2, -1] {
        test.send(&packet(number, &tag)).unwrap();
    }
    server.until(|event| matches!(event, ServerEvent::Ended { packets: 3, .. }));
    // It never says SENT, and reads nothing.
    assert_free(&server);
    drop(peer);
}

/// A test both ways keeps its place while the results of its first flow are told; who leaves then gives it back.
#[test]
fn who_leaves_between_two_flows_gives_the_place_back() {
    let server = Served::with(strict(LONG));
    let mut peer = Peer::greet(&server, "127.0.0.1");
    peer.ask(Ask { ways: UP | DOWN, packets: 10, ..ASK });
    let (test, tag) = peer.meet(&server);
    peer.say(START, &[]);
    peer.expect(GO);
    test.send(&packet(-1, &tag)).unwrap();
    peer.expect(DONE);
    peer.say(SENT, &field(0x800d, &[0; 112]));
    peer.expect(END);
    peer.say(BYE, &[]);
    let gone = server.until(|event| matches!(event, ServerEvent::BrokenOff { .. }));
    assert!(gone.to_string().contains("left before its next flow"), "{gone}");
    assert_free(&server);
}

#[test]
fn a_sender_that_falls_silent_ends_its_flow_and_has_its_results() {
    let server = Served::with(strict(Duration::from_millis(250)));
    let mut peer = Peer::greet(&server, "127.0.0.1");
    peer.ask(Ask { ways: UP, packets: 1_000_000, ..ASK });
    let (test, tag) = peer.meet(&server);
    peer.say(START, &[]);
    peer.expect(GO);
    for number in 0..3 {
        test.send(&packet(number, &tag)).unwrap();
    }
    let counts = peer.expect(DONE).field(0x800e).unwrap().to_vec();
    assert_eq!(counts[..8], 3u64.to_be_bytes(), "received");
    assert_eq!(counts[88..], 0u64.to_be_bytes(), "the end was not seen");
}

#[test]
fn who_takes_nothing_of_a_tcp_flow_is_left() {
    let server = Served::with(strict(Duration::from_millis(250)));
    let mut peer = Peer::greet(&server, "127.0.0.1");
    peer.ask(Ask { transport: TCP, packet_bytes: 65_000, ..ASK });
    let _test = peer.meet_by_tcp(&server);
    peer.say(START, &[]);
    server.until(|event| matches!(event, ServerEvent::Ended { .. }));
    assert_free(&server);
}

#[test]
fn a_host_has_one_test_and_others_wait_for_it_only_once() {
    let server = Served::with(strict(LONG));
    let mut peer = Peer::greet(&server, "127.0.0.2");
    peer.ask(ASK);
    let _test = peer.meet(&server);
    let mut again = Peer::greet(&server, "127.0.0.2");
    again.ask(Ask { flags: WAIT, ..ASK });
    let refused = again.expect(REFUSE);
    assert_eq!(refused.reason(), 8, "BUSY");
    assert!(String::from_utf8_lossy(refused.field(5).unwrap()).contains("your host has 1 test"));
    let mut other = Peer::greet(&server, "127.0.0.3");
    other.ask(Ask { flags: WAIT, ..ASK });
    assert_eq!(other.expect(QUEUED).field(0x8009).unwrap(), [0, 0, 0, 1]);
    let mut waits = Peer::greet(&server, "127.0.0.3");
    waits.ask(Ask { flags: WAIT, ..ASK });
    assert_eq!(waits.expect(REFUSE).reason(), 8);
    drop(peer);
    other.expect(ACCEPT);
}

#[test]
fn a_recording_is_refused_before_it_is_read() {
    let mut options = strict(LONG);
    options.limits.kept_packets = 500;
    let server = Served::with(options);
    let recording = Ask { schedule: RECORDED, packets: 100, ..ASK };
    for (ask, reason) in [
        (Ask { packet_bytes: 65_508, ..recording }, 6),
        (Ask { packets: 501, ways: UP, ..recording }, 7),
        (Ask { packets: (1 << 20) + 1, ..recording }, 7),
    ] {
        // Not one offset is sent.
        let mut peer = Peer::greet(&server, "127.0.0.1");
        peer.ask(ask);
        assert_eq!(peer.expect(REFUSE).reason(), reason);
    }
    let mut first = Peer::greet(&server, "127.0.0.2");
    first.ask(ASK);
    first.expect(ACCEPT);
    let mut peer = Peer::greet(&server, "127.0.0.3");
    peer.ask(recording);
    assert_eq!(peer.expect(REFUSE).reason(), 8, "no place, so no room for it");
}

#[test]
fn a_recording_is_taken_while_its_test_waits() {
    let server = Served::with(strict(LONG));
    let mut first = Peer::greet(&server, "127.0.0.2");
    first.ask(ASK);
    first.expect(ACCEPT);
    let mut peer = Peer::greet(&server, "127.0.0.3");
    peer.ask(Ask { schedule: RECORDED, packets: 4, flags: WAIT, ..ASK });
    peer.expect(QUEUED);
    peer.offsets(0, &[0, 1_000]);
    peer.offsets(2, &[2_000]);
    drop(first);
    peer.offsets(3, &[3_000]);
    peer.expect(ACCEPT);
    drop(peer);
    let mut peer = Peer::greet(&server, "127.0.0.1");
    peer.ask(Ask { schedule: RECORDED, packets: 4, flags: WAIT, ..ASK });
    peer.offsets(0, &[0; 5]);
    assert_eq!(peer.refused().reason(), 2, "more than announced");
    let mut peer = Peer::greet(&server, "127.0.0.1");
    peer.ask(Ask { schedule: RECORDED, packets: 600_000, flags: WAIT, ..ASK });
    for part in 0..600 {
        peer.offsets(part * 1_000, &[0; 1_000]);
    }
    assert_eq!(peer.refused().reason(), 4, "the rate that only its offsets tell");
}

#[test]
fn rows_beyond_what_was_asked_for_end_the_session() {
    let server = Served::with(strict(LONG));
    let mut peer = Peer::greet(&server, "127.0.0.1");
    peer.ask(Ask { ways: UP, packets: 10, transport: TCP, ..ASK });
    let cookie = peer.expect(ACCEPT).field(0x8008).unwrap().to_vec();
    let mut test = echo_by_tcp(&server, &cookie);
    peer.expect(READY);
    peer.say(START, &[]);
    peer.expect(GO);
    // One packet and its copies, until the server has closed.
    let copies = packet(3, &cookie[..8]).repeat(1_013);
    while test.write_all(&copies).is_ok() {}
    let event = server.until(is_hostile);
    assert!(event.to_string().contains("more packets than it had asked for"), "{event}");
    assert_eq!(peer.expect(REFUSE).reason(), 2);
}

#[test]
fn a_server_with_a_key_shows_no_code_to_who_has_shown_none() {
    let mut options = ServerOptions { key: key("a key of more than 16 bytes"), ..strict(LONG) };
    options.limits.silence = Duration::from_millis(200);
    let server = Served::with(options);
    let mut garbage = header(REQUEST, 1, 0);
    garbage[15] = 99;
    let mut coded = header(REQUEST, 1, 32);
    coded[27] = 1;
    let wrong = [&coded[..], &[7; 32]].concat();
    let attempts: [&[u8]; 5] =
        [&garbage, &header(REQUEST, 1, 0), &header(REQUEST, 9, 0), &wrong, &[0, 0, 0, 7].repeat(10)];
    for said in attempts {
        let mut peer = Peer::greet(&server, "127.0.0.1");
        peer.control.write_all(said).unwrap();
        let refused = peer.expect(REFUSE);
        assert!(!refused.coded && refused.field(5).is_some(), "{said:?}");
    }
    let mut silent = Peer::greet(&server, "127.0.0.1");
    let refused = silent.expect(REFUSE);
    assert!(!refused.coded, "silence is no proof");
}

#[test]
fn a_server_with_a_key_tells_nobody_the_time_without_it() {
    let server =
        Served::with(ServerOptions { legacy: true, key: key("a key of more than 16 bytes"), ..strict(LONG) });
    let mut control = TcpStream::connect(server.control).unwrap();
    let mut probe = [0u8; 40];
    probe[3] = 7;
    control.write_all(&probe).unwrap();
    let mut answer = Vec::new();
    control.read_to_end(&mut answer).unwrap();
    assert_eq!(answer.len(), 40);
    assert_eq!(answer[3], 6, "NAK");
    assert_eq!(answer[16..24], 20_000_000u64.to_be_bytes(), "the default period, no T2");
}
