//! Whole tests in one process, over loopback; control ports are chosen by the system.

mod below;
mod broken;
mod extended;
mod greedy;
mod hostile;
mod keys;
mod legacy;
mod owamp;
mod queue;
mod roaming;
mod scope;
mod sending;
mod source;
mod twamp;

use super::auth::Key;
use super::*;
use quaver_arrivals::path::direction::Direction;
use quaver_path_flow::{FlowSchedule, Transport};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
/// Longer than anything here takes on a busy host; a test that waits so long has failed.
const LONG: Duration = Duration::from_secs(60);

/// A server in a thread of its own.
struct Served {
    control: SocketAddr,
    test: SocketAddr,
    stop: Arc<AtomicBool>,
    events: Receiver<ServerEvent>,
    thread: Option<JoinHandle<Result<(), PathError>>>,
}

fn options(at: IpAddr) -> ServerOptions {
    // All tests of this host come from one address.
    let limits = Limits { hellos_per_minute: 10_000, tests_per_peer: 8, ..Limits::default() };
    let test_port = free_test_port(at);
    ServerOptions { listen: vec![at], control_port: 0, test_port, limits, ..ServerOptions::default() }
}

/// A number that is free by UDP and by TCP. Of those that the system gives to nobody by itself, and each once: a number
/// that it chose for UDP may be some connection's by TCP, and the server then names another in ACCEPT.
fn free_test_port(at: IpAddr) -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(20_000);
    loop {
        let port = NEXT.fetch_add(1, Ordering::Relaxed);
        assert!(port < 32_768, "no number is free");
        if UdpSocket::bind((at, port)).is_ok() && TcpListener::bind((at, port)).is_ok() {
            return port;
        }
    }
}

impl Served {
    fn at(at: IpAddr) -> Self {
        Self::with(options(at))
    }

    fn with(options: ServerOptions) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let shared = Arc::clone(&stop);
        let (to, events) = channel();
        let thread = std::thread::spawn(move || {
            let mut tell = |event| {
                let _ = to.send(event);
            };
            serve(options, &shared, &mut tell)
        });
        let first = events.recv_timeout(LONG).expect("the server says where it listens");
        let ServerEvent::Listening { control, test } = first else { panic!("{first:?}") };
        Self { control, test, stop, events, thread: Some(thread) }
    }

    /// Waits for an event.
    fn until(&self, wanted: impl Fn(&ServerEvent) -> bool) -> ServerEvent {
        let end = Instant::now() + LONG;
        let mut seen = Vec::new();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let event = self.events.recv_timeout(left).unwrap_or_else(|e| panic!("{e}, but {seen:?}"));
            if wanted(&event) {
                return event;
            }
            seen.push(event);
        }
    }

    fn client(&self) -> ClientOptions {
        ClientOptions {
            packets: Some(100),
            schedule: FlowSchedule::every(2_000_000),
            rtt_interval: Duration::from_millis(5),
            answer_timeout: LONG,
            ..ClientOptions::new(self.control)
        }
    }

    fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server does not panic").expect("it served");
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.stop.store(true, Ordering::Relaxed);
        } else {
            self.end();
        }
    }
}

fn measure(options: &ClientOptions) -> Result<TestOutcome, PathError> {
    run_client(options, &AtomicBool::new(false), &mut |_| {})
}

fn sentence(outcome: Result<TestOutcome, PathError>) -> String {
    match outcome {
        Ok(outcome) => panic!("measured: {outcome:?}"),
        Err(error) => error.to_string(),
    }
}

/// All packets once, in any order, none flagged.
fn assert_all(flow: &FlowOutcome, packets: usize) {
    let numbers: BTreeSet<i32> = flow.singletons.iter().map(|singleton| singleton.tx_seq).collect();
    assert_eq!(numbers.len(), packets, "{flow:?}");
    assert_eq!(numbers.last().copied(), Some(packets as i32 - 1));
    assert_eq!((flow.singletons.len(), flow.rows), (packets, packets as u64));
    assert!(flow.singletons.iter().all(|singleton| singleton.flags == 0));
    assert!(flow.complete);
}

/// A key for tests.
fn key(text: &str) -> Option<Key> {
    Some(Key::new(text.as_bytes()).unwrap())
}

/// An honest test through this server works.
fn assert_serves(server: &Served) {
    let outcome = measure(&ClientOptions { packets: Some(10), rtt_probes: 1, ..server.client() }).unwrap();
    assert!(outcome.is_complete(), "{outcome:?}");
    assert_all(&outcome.flows[0], 10);
    // Other events may be too many to be told.
    server.until(|event| matches!(event, ServerEvent::Ended { .. }));
}
