use super::*;
use crate::control::{Control, Incoming};
use crate::message::{Body, Message};
use proptest::prelude::*;
use quaver_abi::wire::extension::{
    CookieElement, ExtensionError, FlowElement, Header, Kind, Refusal, VERSION, field,
};
use quaver_abi::wire::jitlat::{Command, Workorder};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};

/// A server that is impatient with those who fall silent.
fn impatient(silence: Duration) -> Served {
    let mut options = ServerOptions { legacy: true, ..options(V4) };
    options.limits.silence = silence;
    Served::with(options)
}

fn hello() -> Header {
    Header { kind: Kind::Hello, body_bytes: 0, number: 0, coded: false, nonce: [1; 12] }
}

/// What a server answers to these bytes before it closes.
fn answer(server: &Served, octets: &[u8]) -> Vec<u8> {
    let mut control = TcpStream::connect(server.control).unwrap();
    control.set_read_timeout(Some(LONG)).unwrap();
    // A server that has heard enough may close before all is written.
    let _ = control.write_all(octets).and_then(|()| control.shutdown(Shutdown::Write));
    let mut answer = Vec::new();
    let _ = control.read_to_end(&mut answer);
    answer
}

fn is_nak(answer: &[u8]) -> bool {
    answer.len() == 40 && answer[..4] == [0, 0, 0, 6]
}

#[test]
fn bad_messages_get_nak_or_silence_and_a_line_in_the_log() {
    let server = impatient(LONG);
    let order = |change: &dyn Fn(&mut Workorder)| {
        let mut order = Workorder {
            npkts: 5,
            src_port: 9_999,
            dst_port: server.test.port(),
            ..Workorder::new(Command::Sending)
        };
        change(&mut order);
        order.to_octets().to_vec()
    };
    let mut unknown = order(&|_| {});
    unknown[3] = 9;
    let naks: [(&str, Vec<u8>); 13] = [
        ("an unknown command", unknown),
        ("command 0", vec![0; 40]),
        ("all bits", vec![255; 40]),
        ("text", b"GET / HTTP/1.1\r\nHost: example.invalid\r\n\r\n".to_vec()),
        ("SENT", order(&|order| order.command = Command::Sent)),
        ("SAMPLES", order(&|order| order.command = Command::Samples)),
        ("ACK first", order(&|order| order.command = Command::Ack)),
        ("NAK first", order(&|order| order.command = Command::Nak)),
        ("no packets", order(&|order| order.npkts = 0)),
        ("no period", order(&|order| order.period_ns = 0)),
        ("too short", order(&|order| order.pktlen = 11)),
        ("neither UDP nor TCP", order(&|order| order.proto = 1)),
        ("oversized", order(&|order| order.pktlen = u32::MAX)),
    ];
    for (name, octets) in naks {
        assert!(is_nak(&answer(&server, &octets)), "{name}");
        let event =
            server.until(|event| matches!(event, ServerEvent::Hostile { .. } | ServerEvent::Refused { .. }));
        assert!(event.to_string().contains("127.0.0.1"), "{name}: {event}");
    }
    for octets in [&b""[..], &[0], &[0; 39], &order(&|_| {})[..20]] {
        assert_eq!(answer(&server, octets), b"", "truncated: silence");
        server.until(|event| matches!(event, ServerEvent::BrokenOff { .. }));
    }
    assert_serves(&server);
}

/// The refusal at the end of what a server said.
fn refusal(answer: &[u8]) -> Option<(Refusal, String, Message)> {
    let mut rest = answer;
    let mut last = None;
    while let Some(start) = rest.first_chunk() {
        let header = Header::from_octets(start).ok()?;
        let whole = 40 + header.body_bytes as usize;
        last = Some(Message::new(header, rest.get(..whole)?.to_vec()));
        rest = &rest[whole..];
    }
    let message = last.filter(|message| message.kind() == Kind::Refuse)?;
    let (refusal, sentence) = message.refusal();
    Some((refusal, sentence, message))
}

fn message(kind: Kind, number: u64, body: Body) -> Vec<u8> {
    let body = body.into_octets();
    let header = Header { kind, body_bytes: body.len() as u32, number, coded: false, nonce: [0; 12] };
    [&header.to_octets()[..], &body].concat()
}

fn request(change: impl Fn(&mut FlowElement)) -> Body {
    let mut flow = FlowElement {
        directions: FlowElement::DOWN,
        transport: 17,
        schedule: FlowElement::PERIODIC,
        flags: 0,
        packet_bytes: 80.into(),
        packets: 10.into(),
        period_ns: 1_000_000.into(),
        seed: 0.into(),
        dscp: 0.into(),
        reserved: 0.into(),
    };
    change(&mut flow);
    Body::new().element(field::FLOW, &flow)
}

#[test]
fn bad_messages_of_the_extension_are_refused_with_a_sentence() {
    let server = impatient(LONG);
    let after_hello = |octets: Vec<u8>| [&hello().to_octets()[..], &octets].concat();
    let asked = |change: &dyn Fn(&mut FlowElement)| message(Kind::Request, 1, request(change));
    let mut long = message(Kind::Time, 1, Body::new());
    long[8] = 1;
    let mut reserved = message(Kind::Time, 1, Body::new());
    reserved[39] = 1;
    let cases: Vec<(&str, Vec<u8>, Refusal)> = vec![
        ("HELLO again", hello().to_octets().to_vec(), Refusal::Malformed),
        ("out of order", message(Kind::Start, 1, Body::new()), Refusal::Malformed),
        ("wrong number", message(Kind::Time, 5, Body::new()), Refusal::Malformed),
        ("a server's message", message(Kind::Accept, 1, Body::new()), Refusal::Malformed),
        ("too long", long, Refusal::Malformed),
        ("reserved", reserved, Refusal::Malformed),
        ("a workorder", Workorder::new(Command::SendMe).to_octets().to_vec(), Refusal::Malformed),
        ("no field", message(Kind::Time, 1, Body::new()), Refusal::Malformed),
        ("short field", message(Kind::Time, 1, Body::new().field(field::TIME, &[0; 31])), Refusal::Malformed),
        ("unknown field", message(Kind::Request, 1, request(|_| {}).field(0x8fff, b"")), Refusal::Malformed),
        ("cut field", message(Kind::Time, 1, Body::new()), Refusal::Malformed),
        ("no way", asked(&|flow| flow.directions = 0), Refusal::Malformed),
        ("three ways", asked(&|flow| flow.directions = 4), Refusal::Malformed),
        ("ICMP", asked(&|flow| flow.transport = 1), Refusal::Malformed),
        ("no packets", asked(&|flow| flow.packets = 0.into()), Refusal::Malformed),
        ("no period", asked(&|flow| flow.period_ns = 0.into()), Refusal::Malformed),
        ("DSCP", asked(&|flow| flow.dscp = 64.into()), Refusal::Malformed),
        ("flags", asked(&|flow| flow.flags = 128), Refusal::Malformed),
        ("schedule", asked(&|flow| flow.schedule = 3), Refusal::Malformed),
        ("short packets", asked(&|flow| flow.packet_bytes = 11.into()), Refusal::Size),
        ("long packets", asked(&|flow| flow.packet_bytes = 65_508.into()), Refusal::Size),
        ("rate", asked(&|flow| flow.period_ns = 1.into()), Refusal::Rate),
        (
            "a huge recording",
            asked(&|flow| {
                flow.schedule = FlowElement::RECORDED;
                flow.packets = (u64::MAX - 1).into();
            }),
            Refusal::Count,
        ),
    ];
    for (name, octets, expected) in cases {
        let said = answer(&server, &after_hello(octets));
        let (refusal, sentence, _) = refusal(&said).unwrap_or_else(|| panic!("{name}: {said:?}"));
        assert_eq!(refusal, expected, "{name}: {sentence}");
        assert!(sentence.len() > 5, "{name}: {sentence}");
    }
    assert_serves(&server);
}

#[test]
fn another_version_is_refused_with_ours() {
    let server = Served::at(V4);
    let mut octets = hello().to_octets();
    octets[7] = 1;
    let (refusal, sentence, message) = refusal(&answer(&server, &octets)).unwrap();
    assert_eq!(refusal, Refusal::Version);
    assert_eq!(message.versions(), Ok((VERSION, VERSION)));
    assert!(sentence.contains("version 1 ") && sentence.contains("version 2"), "{sentence}");
}

#[test]
fn silence_is_ended_in_time() {
    let server = impatient(Duration::from_millis(200));
    assert_eq!(Vec::<u8>::new(), {
        let mut control = TcpStream::connect(server.control).unwrap();
        control.set_read_timeout(Some(LONG)).unwrap();
        let mut said = Vec::new();
        let _ = control.read_to_end(&mut said);
        said
    });
    server.until(|event| matches!(event, ServerEvent::BrokenOff { .. }));
}

/// A client that says what it should up to ACCEPT.
fn accepted(server: &Served) -> (Control, CookieElement) {
    let socket = TcpStream::connect(server.control).unwrap();
    let mut control = Control::new(socket, Side::Client).unwrap();
    control.say_hello([3; 12], LONG).unwrap();
    assert_eq!(next(&mut control).kind(), Kind::Challenge);
    control.say(Kind::Request, request(|flow| flow.packets = 50.into()), LONG).unwrap();
    let accept = next(&mut control);
    assert_eq!(accept.kind(), Kind::Accept);
    let cookie = accept.element(field::COOKIE).unwrap();
    (control, cookie)
}

fn next(control: &mut Control) -> Message {
    match control.hear(Instant::now() + LONG, &AtomicBool::new(false)).unwrap() {
        Incoming::Message(message) => message,
        Incoming::Workorder(order) => panic!("{order:?}"),
    }
}

fn assert_silent(socket: &UdpSocket) {
    socket.set_nonblocking(true).unwrap();
    let got = socket.recv_from(&mut [0u8; 2_000]);
    assert!(got.is_err(), "a packet came: {got:?}");
}

#[test]
fn without_the_echo_of_the_cookie_not_one_packet_is_sent() {
    let server = impatient(Duration::from_millis(400));
    let (mut control, cookie) = accepted(&server);
    let here = UdpSocket::bind((V4, 0)).unwrap();
    let elsewhere = UdpSocket::bind(("127.0.0.2", 0)).unwrap();
    let mut wrong = cookie;
    wrong.cookie[15] ^= 1;
    here.send_to(&wrong.echo(), server.test).unwrap();
    here.send_to(&cookie.echo()[..31], server.test).unwrap();
    here.send_to(&[&cookie.echo()[..], &[0]].concat(), server.test).unwrap();
    here.send_to(b"", server.test).unwrap();
    elsewhere.send_to(&cookie.echo(), server.test).unwrap();
    let refused = next(&mut control);
    assert_eq!((refused.kind(), refused.refusal().0), (Kind::Refuse, Refusal::Cookie));
    let event = server.until(|event| matches!(event, ServerEvent::Refused { .. }));
    assert!(event.to_string().contains("test port"), "{event}");
    assert_silent(&here);
    assert_silent(&elsewhere);
}

#[test]
fn with_the_echo_packets_go_there_and_only_after_start() {
    let server = Served::at(V4);
    let (mut control, cookie) = accepted(&server);
    let here = UdpSocket::bind((V4, 0)).unwrap();
    here.send_to(&cookie.echo(), server.test).unwrap();
    let ready = next(&mut control);
    assert_eq!((ready.kind(), ready.address()), (Kind::Ready, Ok(here.local_addr().unwrap())));
    assert_silent(&here);
    here.set_nonblocking(false).unwrap();
    here.set_read_timeout(Some(LONG)).unwrap();
    control.say(Kind::Start, Body::new(), LONG).unwrap();
    let mut packet = [0u8; 100];
    assert_eq!(here.recv_from(&mut packet).unwrap(), (80, server.test));
    assert_eq!(packet[12..20], cookie.tag);
}

#[test]
fn whoever_speaks_while_the_test_runs_ends_it() {
    let server = Served::at(V4);
    let (mut control, cookie) = accepted(&server);
    let here = UdpSocket::bind((V4, 0)).unwrap();
    here.send_to(&cookie.echo(), server.test).unwrap();
    assert_eq!(next(&mut control).kind(), Kind::Ready);
    control.say(Kind::Start, Body::new(), LONG).unwrap();
    control.say(Kind::Request, request(|_| {}), LONG).unwrap();
    let refused = next(&mut control);
    assert_eq!((refused.kind(), refused.refusal().0), (Kind::Refuse, Refusal::Malformed));
    server.until(|event| matches!(event, ServerEvent::Hostile { .. }));
    assert_serves(&server);
}

#[test]
fn a_servers_words_cannot_hurt_the_terminal() {
    let body = Body::new().refusal(Refusal::Busy, "a\u{1b}[2Jb\r\n\u{7f}c");
    let octets = message(Kind::Refuse, 0, body);
    let header = Header::from_octets(octets.first_chunk().unwrap()).unwrap();
    assert_eq!(Message::new(header, octets).refusal(), (Refusal::Busy, "a[2Jbc".into()));
    // Override, isolate, mark, zero width, line separator, byte order mark.
    let turned = Body::new()
        .refusal(Refusal::Busy, "a\u{202e}b\u{2066}c\u{200f}d\u{200b}e\u{2028}f\u{feff}é 中\u{61c}");
    let octets = message(Kind::Refuse, 0, turned);
    let header = Header::from_octets(octets.first_chunk().unwrap()).unwrap();
    assert_eq!(Message::new(header, octets).refusal().1, "abcdefé 中");
    let long = Body::new().refusal(Refusal::Busy, &"ä".repeat(300));
    let octets = message(Kind::Refuse, 0, long);
    let header = Header::from_octets(octets.first_chunk().unwrap()).unwrap();
    assert_eq!(Message::new(header, octets).refusal().1, "ä".repeat(200));
}

#[test]
fn who_comes_too_often_or_holds_too_much_is_turned_away() {
    let mut options = options(V4);
    options.limits.sessions_per_peer = 2;
    options.limits.hellos_per_minute = 5;
    let server = Served::with(options);
    let held: Vec<TcpStream> = (0..2).map(|_| TcpStream::connect(server.control).unwrap()).collect();
    for word in ["2 sessions already", "2 sessions already", "2 sessions already", "5 connections a minute"] {
        let mut more = TcpStream::connect(server.control).unwrap();
        let _ = more.read_to_end(&mut Vec::new());
        let event = server.until(|event| matches!(event, ServerEvent::TurnedAway { .. }));
        assert!(event.to_string().contains(word), "{event}");
    }
    drop(held);
}

fn connect_from(from: &str, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(from.parse().expect("an address"), 0).into())?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

#[test]
fn a_thousand_hostile_connections_take_nothing_from_a_running_test() {
    let server = Served::at(V4);
    let options = ClientOptions { packets: Some(1_000), directions: Directions::Both, ..server.client() };
    let honest = std::thread::spawn(move || measure(&options));
    server.until(|event| matches!(event, ServerEvent::Started { .. }));
    let soup: Vec<u8> = (0..400u32).map(|at| (at * 37 % 251) as u8).collect();
    let mut held = Vec::new();
    for number in 0..1_000 {
        let Ok(mut hostile) = connect_from("127.0.0.2", server.control) else { continue };
        // Some speak, some are silent; those that were turned away cannot be written to.
        let _ = hostile.write_all(&soup[..number % 400]);
        held.push(hostile);
    }
    assert!(held.len() > 900, "{}", held.len());
    let outcome = honest.join().unwrap().unwrap();
    assert!(outcome.is_complete(), "{outcome:?}");
    outcome.flows.iter().for_each(|flow| assert_all(flow, 1_000));
    assert_serves(&server);
    drop(held);
}

#[test]
fn octet_soup_leaves_the_server_alive() {
    let server = impatient(LONG);
    let starts = [
        Vec::new(),
        hello().to_octets().to_vec(),
        [&hello().to_octets()[..], &message(Kind::Request, 1, request(|_| {}))].concat(),
        Workorder::new(Command::SendMe).to_octets().to_vec(),
        Workorder::rtt_probe(5).to_octets().to_vec(),
    ];
    let config = ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() };
    let soup = (0..starts.len(), proptest::collection::vec(any::<u8>(), 0..300));
    proptest!(config, |((start, soup) in soup)| {
        let said = answer(&server, &[&starts[start][..], &soup].concat());
        prop_assert!(said.len() < 4_096, "answers are short");
    });
    assert_serves(&server);
}

proptest! {
    #[test]
    fn no_octets_make_a_message_panic(octets in proptest::collection::vec(any::<u8>(), 0..400)) {
        let header = Header { kind: Kind::End, body_bytes: octets.len() as u32, number: 0, coded: false, nonce: [0; 12] };
        let message = Message::new(header, [&header.to_octets()[..], &octets].concat());
        let _ = (message.check(&[]), message.refusal(), message.samples(), message.offsets(), message.address());
        let _ = (message.clock(), message.clock_pairs(), message.sender(), message.receiver(), message.versions());
        let _: Result<Vec<CookieElement>, ExtensionError> = message.elements(field::COOKIE);
    }
}
