use super::*;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

/// Carries a control connection until told to cut it.
struct Wire {
    at: SocketAddr,
    cut: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Wire {
    fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((V4, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let cut = Arc::new(AtomicBool::new(false));
        let shared = Arc::clone(&cut);
        let thread = std::thread::spawn(move || {
            let (client, _) = listener.accept().unwrap();
            let server = TcpStream::connect(server).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| carry(&client, &server, &shared));
                scope.spawn(|| carry(&server, &client, &shared));
            });
        });
        Self { at, cut, thread }
    }
}

fn carry(mut from: &TcpStream, mut to: &TcpStream, cut: &AtomicBool) {
    from.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    let mut octets = [0u8; 4_096];
    while !cut.load(Ordering::Relaxed) {
        match from.read(&mut octets) {
            Ok(0) => break,
            Ok(got) => to.write_all(&octets[..got]).unwrap_or_default(),
            Err(_) => {}
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

#[test]
fn a_server_that_vanishes_leaves_the_client_what_it_had() {
    let server = Served::at(V4);
    for (directions, rolling) in [
        (Directions::Down, false),
        (Directions::Up, true),
        (Directions::Up, false),
        (Directions::Both, false),
    ] {
        let wire = Wire::to(server.control);
        let packets = Some(if directions == Directions::Both { 100 } else { 100_000 });
        let options = ClientOptions { server: wire.at, directions, rolling, packets, ..server.client() };
        let cut = Arc::clone(&wire.cut);
        let (mut shown, mut ups) = (0, 0);
        let outcome = run_client(&options, &AtomicBool::new(false), &mut |progress| match progress {
            Progress::Samples { samples, direction } => {
                shown += samples.len();
                let second = directions != Directions::Both || direction == Direction::Down;
                cut.store(second, Ordering::Relaxed);
            }
            Progress::Started { direction: Direction::Up, .. } => {
                ups += 1;
                cut.store(directions == Directions::Up && !rolling, Ordering::Relaxed);
            }
            _ => {}
        })
        .unwrap();
        wire.thread.join().unwrap();
        let last = outcome.flows.last().unwrap();
        assert!(!last.complete && !outcome.is_complete());
        if directions == Directions::Both {
            // The second flow is short: it may have ended before it was cut, but its results have not come.
            assert_eq!((outcome.flows.len(), ups), (2, 1));
            assert_all(&outcome.flows[0], 100);
        }
        let Completion::ServerLost(what) = &outcome.completion else { panic!("{outcome:?}") };
        assert!(what.contains("closed the connection"), "{what}");
        assert_eq!(outcome.flows.iter().map(|flow| flow.rows).sum::<u64>(), shown as u64);
        if rolling || directions == Directions::Down {
            assert!(last.rows > 0);
        }
        server.until(|event| matches!(event, ServerEvent::BrokenOff { .. }));
        assert_serves(&server);
    }
}

#[test]
fn a_server_that_ends_says_so() {
    let server = Served::at(V4);
    for legacy in [false, true] {
        let server =
            if legacy { Served::with(ServerOptions { legacy, ..options(V4) }) } else { Served::at(V4) };
        let directions = Directions::Down;
        let options = ClientOptions {
            legacy,
            directions,
            destination_port: 0,
            packets: Some(30_000),
            ..server.client()
        };
        let stop = Arc::clone(&server.stop);
        let outcome = run_client(&options, &AtomicBool::new(false), &mut |progress| {
            if let Progress::Samples { .. } = progress {
                stop.store(true, Ordering::Relaxed);
            }
        });
        if legacy {
            assert!(matches!(outcome, Err(PathError::Nak { .. })), "after NAK nothing counts: {outcome:?}");
        } else {
            let outcome = outcome.unwrap();
            let Completion::ServerLost(what) = &outcome.completion else { panic!("{outcome:?}") };
            assert!(what.contains("the server ends"), "{what}");
            assert!(outcome.flows[0].rows > 0);
        }
        server.stop();
    }
    server.stop();
}

#[test]
fn a_client_that_vanishes_frees_its_place() {
    let server = Served::with(ServerOptions { legacy: true, ..options(V4) });
    for (directions, legacy) in
        [(Directions::Up, false), (Directions::Down, false), (Directions::Up, true), (Directions::Down, true)]
    {
        let wire = Wire::to(server.control);
        let destination_port = if directions == Directions::Up { server.test.port() } else { 0 };
        let options = ClientOptions {
            server: wire.at,
            legacy,
            directions,
            destination_port,
            packets: Some(30_000),
            ..server.client()
        };
        let cut = Arc::clone(&wire.cut);
        let mut watch = move |progress: Progress<'_>| {
            cut.fetch_or(matches!(progress, Progress::Started { .. }), Ordering::Relaxed);
        };
        let never = AtomicBool::new(false);
        let thread = std::thread::spawn(move || run_client(&options, &never, &mut watch));
        let gone = server.until(|event| matches!(event, ServerEvent::BrokenOff { .. }));
        assert!(gone.to_string().contains("closed the connection"), "{gone}");
        assert_serves(&server);
        let outcome = thread.join().unwrap().unwrap();
        assert!(!outcome.is_complete());
        wire.thread.join().unwrap();
    }
}
