//! Sources at the server, for a sink of the client's host.

use super::*;
use quaver_abi::wire::extension::Refusal;
use quaver_abi::wire::stream::StreamHeader;
use quaver_probe::profile::ProfileName;
use quaver_probe::source::Pace;
use std::net::UdpSocket;

fn client(server: &Served) -> SourceClient {
    SourceClient { server: server.control, key: None, queue_patience: Duration::ZERO, answer_timeout: LONG }
}

pub(super) fn request() -> SourceRequest {
    SourceRequest {
        shape: StreamShape::Plain { payload_bytes: 100, period: (500_000, 1) },
        packets: Some(200),
        duration: Duration::from_secs(60),
        pace: Pace::Sleep,
        catch_up: false,
        dscp: 0,
        stream_id: 77,
    }
}

fn ask(client: &SourceClient, request: &SourceRequest) -> Result<RemoteSource, PathError> {
    request_source(client, request, &AtomicBool::new(false), &mut |_| {})
}

/// Met and started; the sink's socket.
fn start(client: &SourceClient, request: &SourceRequest) -> (RemoteSource, UdpSocket) {
    let never = AtomicBool::new(false);
    let mut source = ask(client, request).unwrap();
    let sink = UdpSocket::bind(source.sink_address(0)).unwrap();
    sink.connect(source.sender().unwrap()).unwrap();
    sink.set_read_timeout(Some(LONG)).unwrap();
    let seen = source.meet(&sink, &never).unwrap();
    assert_eq!(seen, sink.local_addr().unwrap(), "no translator in between");
    source.start(&never).unwrap();
    (source, sink)
}

/// Numbers of the packets that are in the sink's socket or come until `most` are there.
fn numbers(sink: &UdpSocket, header_at: usize, most: usize) -> Vec<u64> {
    let mut octets = [0u8; 2_048];
    (0..most)
        .map(|_| {
            let got = sink.recv(&mut octets).unwrap();
            let header = StreamHeader::read(&octets[header_at..got]).expect("a source's packet");
            assert_eq!(header.stream_id.get(), 77);
            assert!(header.sent_ns.get() >= header.deadline_ns.get(), "never early");
            header.seq.get()
        })
        .collect()
}

#[test]
fn every_packet_comes_and_the_source_says_how_it_kept_its_schedule() {
    for at in [V4, V6] {
        let server = Served::at(at);
        let (mut source, sink) = start(&client(&server), &request());
        assert_eq!(numbers(&sink, 0, 200), (0..200).collect::<Vec<_>>());
        let end = Instant::now() + LONG;
        while !source.has_ended() {
            assert!(Instant::now() < end, "it says that it has ended");
            std::thread::sleep(Duration::from_millis(1));
        }
        let summary = source.finish().unwrap();
        let sender = summary.sender;
        assert_eq!((sender.packets, sender.sent, summary.failed, summary.refused), (200, 200, 0, 0));
        let slots = (sender.packets + sender.misses - 1) * 500_000;
        assert!(summary.lasted_ns <= slots && summary.lasted_ns >= 199 * 500_000, "{summary:?}");
        assert!(summary.late <= 200 && summary.drift_ppm.is_some());
        assert!(sender.lateness.smallest_ns <= sender.lateness.quantiles_ns[0]);
        server.until(|event| matches!(event, ServerEvent::Ended { packets: 200, .. }));
        server.until(|event| matches!(event, ServerEvent::Closed { .. }));
        server.stop();
    }
}

#[test]
fn a_profile_has_its_own_size_and_headers() {
    let server = Served::at(V4);
    let shape = StreamShape::Named(ProfileName::G711);
    let (source, sink) = start(&client(&server), &SourceRequest { shape, packets: Some(3), ..request() });
    assert_eq!(numbers(&sink, 12, 3), [0, 1, 2]);
    assert_eq!(source.finish().unwrap().sender.sent, 3);
    server.stop();
}

#[test]
fn a_stop_ends_the_stream_and_all_that_was_sent_is_told() {
    let server = Served::at(V4);
    let (mut source, sink) = start(&client(&server), &SourceRequest { packets: None, ..request() });
    let first = numbers(&sink, 0, 50);
    assert!(!source.has_ended());
    let sent = source.finish().unwrap().sender.sent;
    assert!(sent >= 50, "{sent}");
    let rest = numbers(&sink, 0, sent as usize - 50);
    assert_eq!([first, rest].concat(), (0..sent).collect::<Vec<_>>(), "sent = received");
    server.until(|event| matches!(event, ServerEvent::Ended { packets, .. } if *packets == sent));
    server.until(|event| matches!(event, ServerEvent::Closed { .. }));
    server.stop();
}

#[test]
fn its_time_ends_a_stream() {
    let server = Served::at(V4);
    let duration = Duration::from_millis(50);
    let (mut source, _sink) =
        start(&client(&server), &SourceRequest { packets: None, duration, ..request() });
    let end = Instant::now() + LONG;
    while !source.has_ended() {
        assert!(Instant::now() < end, "it ends");
        std::thread::sleep(Duration::from_millis(1));
    }
    let sender = source.finish().unwrap().sender;
    assert_eq!(sender.packets + sender.misses, 100, "slots in 50 ms");
    server.stop();
}

#[test]
fn a_client_that_goes_ends_its_stream() {
    let server = Served::at(V4);
    let (source, sink) = start(&client(&server), &SourceRequest { packets: None, ..request() });
    numbers(&sink, 0, 5);
    drop(source);
    server.until(|event| matches!(event, ServerEvent::Ended { .. }));
    server.until(|event| matches!(event, ServerEvent::BrokenOff { .. }));
    assert_serves(&server);
    server.stop();
}

#[test]
fn a_server_that_ends_says_so_and_the_client_keeps_what_came() {
    let server = Served::at(V4);
    let (mut source, sink) = start(&client(&server), &SourceRequest { packets: None, ..request() });
    numbers(&sink, 0, 5);
    server.stop();
    let end = Instant::now() + LONG;
    while !source.has_ended() {
        assert!(Instant::now() < end, "it is seen");
        std::thread::sleep(Duration::from_millis(1));
    }
    let lost = source.finish().unwrap_err();
    assert!(lost.contains("the server ends"), "{lost}");
}

#[test]
fn with_a_key_only_its_holder_gets_a_stream() {
    let key = Key::new(b"sixteen bytes!!!").unwrap();
    let server = Served::with(ServerOptions { key: Some(key.clone()), ..options(V4) });
    let open = client(&server);
    let refused = |key: Option<Key>| match ask(&SourceClient { key, ..open.clone() }, &request()) {
        Err(error) => error,
        Ok(_) => panic!("let in"),
    };
    assert!(matches!(refused(None), PathError::KeyWanted { .. }));
    let other = Key::new(b"another sixteen!").unwrap();
    assert!(matches!(refused(Some(other)), PathError::KeyWrong { .. }));
    let (source, sink) = start(&SourceClient { key: Some(key), ..open }, &request());
    numbers(&sink, 0, 200);
    assert_eq!(source.finish().unwrap().sender.sent, 200);
    server.stop();
}

#[test]
fn what_is_above_a_cap_is_refused_with_the_cap() {
    let mut options = options(V4);
    options.limits.packets_per_second = 2_000;
    options.limits.budget.tests = 1;
    options.limits.duration = Duration::from_secs(60);
    let server = Served::with(options);
    let client = client(&server);
    let refusal = |request: SourceRequest| match ask(&client, &request) {
        Err(PathError::Refused { refusal, sentence, .. }) => {
            assert!(sentence.contains("at most"), "{sentence}");
            refusal
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("let in: {request:?}"),
    };
    let fast = StreamShape::Plain { payload_bytes: 100, period: (499_000, 1) };
    assert_eq!(refusal(SourceRequest { shape: fast, ..request() }), Refusal::Rate);
    assert_eq!(refusal(SourceRequest { duration: Duration::from_secs(61), ..request() }), Refusal::Duration);
    let (source, _sink) = start(&client, &request());
    match ask(&client, &request()) {
        Err(PathError::Refused { refusal: Refusal::Busy, .. }) => {}
        other => panic!("a second one at a time: {:?}", other.err()),
    }
    drop(source);
    server.stop();
}

#[test]
fn nobody_gets_a_packet_without_the_cookie_from_the_sinks_own_socket() {
    let mut options = options(V4);
    options.limits.silence = Duration::from_millis(300);
    let server = Served::with(options);
    let never = AtomicBool::new(false);
    let mut source = ask(&client(&server), &request()).unwrap();
    let sink = UdpSocket::bind((V4, 0)).unwrap();
    sink.connect(source.sender().unwrap()).unwrap();
    sink.set_nonblocking(true).unwrap();
    // START without the cookie.
    assert!(source.start(&never).is_err());
    server.until(|event| matches!(event, ServerEvent::Hostile { .. }));
    // Silence: no cookie at all.
    let source = ask(&client(&server), &request()).unwrap();
    server
        .until(|event| matches!(event, ServerEvent::Refused { reason, .. } if reason.contains("test port")));
    drop(source);
    // Other bytes are no cookie.
    let mut source = ask(&client(&server), &request()).unwrap();
    source.spoil_cookie();
    let error = source.meet(&sink, &never).unwrap_err();
    assert!(matches!(error, PathError::Refused { refusal: Refusal::Cookie, .. }), "{error}");
    assert!(sink.recv(&mut [0; 64]).is_err(), "not a byte came");
    assert_serves(&server);
    server.stop();
}

#[test]
fn impossible_requests_are_answered_with_a_refusal() {
    let server = Served::at(V4);
    let shape = StreamShape::Plain { payload_bytes: 31, period: (1_000_000, 1) };
    assert!(matches!(
        ask(&client(&server), &SourceRequest { shape, ..request() }),
        Err(PathError::Options(_))
    ));
    let nothing = SourceRequest { packets: Some(0), ..request() };
    match ask(&client(&server), &nothing) {
        Err(PathError::Refused { refusal: Refusal::Unsupported, sentence, .. }) => {
            assert!(sentence.contains("sent an impossible SOURCE"), "{sentence}");
        }
        other => panic!("{:?}", other.err()),
    }
    server.until(|event| matches!(event, ServerEvent::Hostile { .. }));
    assert_serves(&server);
    server.stop();
}
