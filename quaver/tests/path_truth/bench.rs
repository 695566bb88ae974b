//! A server, and a relay in front of it.

use quaver_arrivals::path::Counts;
use quaver_arrivals::path::arrival::{Numbering, classify};
use quaver_path_flow::FlowSchedule;
use quaver_path_record::auth::Key;
use quaver_path_record::{
    ClientOptions, Directions, FlowOutcome, Progress, ServerEvent, ServerOptions, TestOutcome, run_client,
    serve,
};
use quaver_testbed::relay::script::Script;
use quaver_testbed::relay::{Keep, Relay, RelayOptions, Report};
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Packets each way.
pub(crate) const PACKETS: u64 = 200;
/// Time between two.
pub(crate) const PERIOD_NS: u64 = 300_000;

pub(crate) struct Bench {
    stop: Arc<AtomicBool>,
    server: Option<JoinHandle<()>>,
    relay: Cell<Option<Relay>>,
    control: SocketAddr,
    key: Option<Key>,
}

impl Bench {
    /// A server at the address, and a relay: beside it at other ports, or, with a key, at another address with the
    /// server's port of test packets.
    pub(crate) fn start(listen: IpAddr, script: Script, key: Option<Key>) -> Self {
        let options = ServerOptions {
            listen: vec![listen],
            control_port: 0,
            test_port: 0,
            key: key.clone(),
            ..ServerOptions::default()
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (told, listening) = mpsc::channel();
        let seen = Arc::clone(&stop);
        let server = std::thread::spawn(move || {
            let mut tell = |event| {
                if let ServerEvent::Listening { control, test } = event {
                    told.send((control, test)).unwrap();
                }
            };
            serve(options, &seen, &mut tell).unwrap();
        });
        let (server_control, server_test) = listening.recv().unwrap();
        let (listen, test_port) = match key {
            Some(_) => (Ipv4Addr::new(127, 0, 0, 2).into(), server_test.port()),
            None => (listen, 0),
        };
        let relay = Relay::start(RelayOptions {
            listen,
            control_port: 0,
            test_port,
            server_control: Some(server_control),
            server_test,
            script,
            keep: Keep::Memory,
        })
        .unwrap();
        let control = relay.control_address().unwrap();
        Self { stop, server: Some(server), relay: Cell::new(Some(relay)), control, key }
    }

    /// A short test of both ways through the relay.
    pub(crate) fn options(&self) -> ClientOptions {
        ClientOptions {
            directions: Directions::Both,
            packets: Some(PACKETS),
            schedule: FlowSchedule::every(PERIOD_NS),
            rtt_probes: 1,
            rtt_interval: Duration::from_millis(1),
            key: self.key.clone(),
            ..ClientOptions::new(self.control)
        }
    }

    /// Measures, and stops the relay.
    pub(crate) fn measure(
        &self,
        options: &ClientOptions,
        watch: &mut dyn FnMut(Progress<'_>, &Relay),
    ) -> (TestOutcome, Report) {
        let relay = self.relay.take().expect("a bench measures once");
        let stop = AtomicBool::new(false);
        let outcome = run_client(options, &stop, &mut |progress| watch(progress, &relay)).unwrap();
        (outcome, relay.stop().unwrap())
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(Err(_)) = self.server.take().map(JoinHandle::join) {
            assert!(std::thread::panicking(), "the server panicked");
        }
    }
}

/// What the analysis counts of a flow.
pub(crate) fn counted(flow: &FlowOutcome) -> Counts {
    classify(&flow.singletons, Numbering::Jitlat, flow.packets_sent()).counts
}
