use super::*;
use crate::control::{Control, ControlError, Incoming};
use crate::message::Body;
use quaver_abi::wire::extension::Kind;
use std::io::Write;
use std::net::{TcpListener, TcpStream};

const RIGHT: &str = "a key of more than 16 bytes";

fn server() -> Served {
    Served::with(ServerOptions { key: key(RIGHT), ..options(V4) })
}

#[test]
fn the_right_key_measures_both_ways_and_a_wrong_one_nothing() {
    let server = server();
    for transport in [Transport::Udp, Transport::Tcp] {
        let directions = Directions::Both;
        let options = ClientOptions { key: key(RIGHT), transport, directions, ..server.client() };
        let outcome = measure(&options).unwrap();
        assert!(outcome.is_complete(), "{outcome:?}");
        outcome.flows.iter().for_each(|flow| assert_all(flow, 100));
    }
    let wrong = ClientOptions { key: key("a key of more than 16 octetz"), ..server.client() };
    assert!(matches!(measure(&wrong), Err(PathError::KeyWrong { .. })));
    let refused = server.until(|event| matches!(event, ServerEvent::Refused { .. }));
    assert!(refused.to_string().contains("key"), "{refused}");
    assert!(matches!(measure(&server.client()), Err(PathError::KeyWanted { .. })));
    let right = ClientOptions { key: key(RIGHT), ..server.client() };
    assert!(measure(&right).unwrap().is_complete(), "the next one is served");
}

#[test]
fn a_server_without_the_key_is_not_believed() {
    let server = Served::at(V4);
    let options = ClientOptions { key: key(RIGHT), ..server.client() };
    assert!(matches!(measure(&options), Err(PathError::KeyNotHad { .. })));
}

/// Both ends of a control connection, with the bytes of the first between a spy's hands.
fn connected() -> (Control, TcpStream, TcpListener) {
    let listener = TcpListener::bind((V4, 0)).unwrap();
    let spy = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (socket, _) = listener.accept().unwrap();
    (Control::new(socket, Side::Server).unwrap(), spy, listener)
}

/// Bytes of messages as a client with the key would write them.
fn written(messages: usize, hello: &[u8]) -> Vec<Vec<u8>> {
    let listener = TcpListener::bind((V4, 0)).unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut client = Control::new(socket, Side::Client).unwrap();
    client.authenticate(&Key::new(RIGHT.as_bytes()).unwrap(), hello, b"challenge");
    let say = |_| client.say(Kind::Stop, Body::new().u32(0x8009, 7), LONG).unwrap();
    (0..messages).map(say).collect()
}

fn heard(messages: &[&[u8]], hello: &[u8]) -> Vec<Result<Kind, ControlError>> {
    let (mut server, mut spy, _listener) = connected();
    server.authenticate(&Key::new(RIGHT.as_bytes()).unwrap(), hello, b"challenge");
    let mut all = Vec::new();
    for octets in messages {
        spy.write_all(octets).unwrap();
        let end = Instant::now() + LONG;
        all.push(match server.hear(end, &AtomicBool::new(false)) {
            Ok(Incoming::Message(message)) => Ok(message.kind()),
            Ok(Incoming::Workorder(order)) => panic!("{order:?}"),
            Err(error) => Err(error),
        });
    }
    all
}

#[test]
fn messages_pass_once_in_their_order_in_their_session_and_unchanged() {
    let messages = written(2, b"hello");
    let (first, second) = (&messages[0][..], &messages[1][..]);
    assert!(matches!(heard(&[first, second], b"hello")[..], [Ok(Kind::Stop), Ok(Kind::Stop)]));
    let again = heard(&[first, first], b"hello");
    assert!(matches!(again[..], [Ok(_), Err(ControlError::Number { expected: 1, got: 0 })]), "{again:?}");
    let early = heard(&[second], b"hello");
    assert!(matches!(early[..], [Err(ControlError::Number { expected: 0, got: 1 })]), "{early:?}");
    let mut renumbered = second.to_vec();
    renumbered[23] = 0;
    assert!(matches!(heard(&[&renumbered], b"hello")[..], [Err(ControlError::Code)]));
    assert!(matches!(heard(&[first], b"hellp")[..], [Err(ControlError::Code)]), "another session");
    for place in 40..first.len() {
        let mut changed = first.to_vec();
        changed[place] ^= 1;
        assert!(matches!(heard(&[&changed], b"hello")[..], [Err(ControlError::Code)]), "byte {place}");
    }
    let mut uncoded = first[..first.len() - 32].to_vec();
    uncoded[11] -= 32;
    uncoded[27] = 0;
    assert!(matches!(heard(&[&uncoded], b"hello")[..], [Err(ControlError::Code)]), "no code at all");
}

#[test]
fn a_servers_message_is_no_clients_message() {
    let (mut server, _spy, _listener) = connected();
    server.authenticate(&Key::new(RIGHT.as_bytes()).unwrap(), b"hello", b"challenge");
    let octets = server.say(Kind::Stop, Body::new(), LONG).unwrap();
    assert!(matches!(heard(&[&octets], b"hello")[..], [Err(ControlError::Code)]), "reflected");
}
