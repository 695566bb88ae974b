//! A translator of addresses that forgets a flow: its client's datagrams come from another port from then on.

use super::*;
use quaver_abi::wire::stream::StreamHeader;
use std::io::{ErrorKind, copy};
use std::net::TcpStream;

/// Where clients find the translator.
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3));

/// What the translator has passed when it forgets the flow.
#[derive(Clone, Copy)]
struct Forgets {
    up: usize,
    down: usize,
}

fn socket(at: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(at).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// Passes one connection, and datagrams until `stop`.
fn translate(server: &Served, forgets: Forgets, stop: &Arc<AtomicBool>) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind((HERE, 0)).unwrap();
    let (control, test, stop) = (server.control, server.test, Arc::clone(stop));
    let inside = socket((HERE, test.port()).into());
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let client = listener.accept().unwrap().0;
        let to = TcpStream::connect(control).unwrap();
        let (mut from_client, mut to_server) = (client.try_clone().unwrap(), to.try_clone().unwrap());
        std::thread::spawn(move || copy(&mut from_client, &mut to_server));
        let _ = copy(&mut &to, &mut &client);
    });
    let thread = std::thread::spawn(move || {
        let mut outside = vec![socket((V4, 0).into())];
        let (mut client, mut passed, mut octets) = (None, [0; 2], [0; 2_000]);
        while !stop.load(Ordering::Relaxed) {
            let Some(last) = outside.last() else { return };
            let up = inside.recv_from(&mut octets).map(|(length, from)| {
                client = Some(from);
                last.send_to(&octets[..length], test).unwrap();
                passed[0] += 1;
            });
            let down = last.recv(&mut octets).map(|length| {
                client.map(|client| inside.send_to(&octets[..length], client).unwrap());
                passed[1] += 1;
            });
            let idle = [&up, &down].map(|way| matches!(way, Err(e) if e.kind() == ErrorKind::WouldBlock));
            if outside.len() == 1 && (passed[0] >= forgets.up || passed[1] >= forgets.down) {
                // The first one stays open and unread: a translator drops without a word.
                outside.push(socket((V4, 0).into()));
            }
            if idle == [true; 2] {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    });
    (at, thread)
}

/// A flow whose translator forgets it.
fn through(directions: Directions, packets: u64, forgets: Forgets) -> FlowOutcome {
    let server = Served::at(V4);
    let stop = Arc::new(AtomicBool::new(false));
    let (at, thread) = translate(&server, forgets, &stop);
    let options = ClientOptions {
        directions,
        packets: Some(packets),
        schedule: FlowSchedule::every(20_000_000),
        server: at,
        ..server.client()
    };
    let mut outcome = measure(&options).unwrap();
    let moved = server.until(|event| matches!(event, ServerEvent::Moved { times: 1, .. }));
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    let flow = outcome.flows.remove(0);
    assert!(outcome.is_complete(), "{outcome:?}");
    let to = flow.moved.map(|moved| moved.to);
    assert!(matches!(moved, ServerEvent::Moved { to: port, .. } if Some(port) == to), "{moved:?}, {flow:?}");
    flow
}

#[test]
fn a_receiver_follows_its_client_and_counts_what_came_before() {
    let flow = through(Directions::Up, 100, Forgets { up: 30, down: usize::MAX });
    let moved = flow.moved.unwrap();
    assert_eq!(moved.times, 1);
    assert!(moved.uncounted >= 1);
    assert_eq!(flow.rows + moved.uncounted, 100, "{moved:?}");
}

#[test]
fn a_sender_follows_its_client_within_two_seconds() {
    let flow = through(Directions::Down, 200, Forgets { up: usize::MAX, down: 30 });
    let last = flow.singletons.last().map(|last| last.tx_seq);
    assert_eq!((last, flow.moved.map(|moved| moved.times)), (Some(199), Some(1)));
    assert!((90..200).contains(&flow.rows), "{} packets", flow.rows);
}

#[test]
fn a_source_follows_its_sink_and_says_where_to() {
    let server = Served::at(V4);
    let stop = Arc::new(AtomicBool::new(false));
    let (at, thread) = translate(&server, Forgets { up: usize::MAX, down: 20 }, &stop);
    let never = AtomicBool::new(false);
    let client = SourceClient { server: at, key: None, queue_patience: Duration::ZERO, answer_timeout: LONG };
    let shape = StreamShape::Plain { payload_bytes: 100, period: (20_000_000, 1) };
    let request = SourceRequest { shape, packets: Some(150), ..source::request() };
    let mut source = request_source(&client, &request, &never, &mut |_| {}).unwrap();
    let sink = UdpSocket::bind(source.sink_address(0)).unwrap();
    sink.connect(source.sender().unwrap()).unwrap();
    source.meet(&sink, &never).unwrap();
    source.start(&never).unwrap();
    let end = Instant::now() + LONG;
    while !source.has_ended() {
        assert!(Instant::now() < end, "it says that it has ended");
        std::thread::sleep(Duration::from_millis(1));
    }
    let summary = source.finish().unwrap();
    let (mut arrived, mut octets) = (Vec::new(), [0; 2_000]);
    sink.set_nonblocking(true).unwrap();
    while let Ok(length) = sink.recv(&mut octets) {
        arrived.push(StreamHeader::read(&octets[..length]).unwrap().seq.get());
    }
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    let moved = summary.moved.unwrap();
    let told = server.until(|event| matches!(event, ServerEvent::Moved { .. }));
    assert!(matches!(told, ServerEvent::Moved { to, times: 1, .. } if to == moved.to), "{told:?}, {moved:?}");
    assert_eq!((moved.times, arrived.last()), (1, Some(&149)));
    assert!((30..150).contains(&arrived.len()), "{} packets", arrived.len());
}
