//! The client: asks a server for a test, measures, and brings home what both ends know.

mod both;
mod extended;
mod legacy;
mod open_way;
mod probes;
mod source;

use quaver_arrivals::path::clocks::RttProbe;
use quaver_arrivals::path::direction::Direction;
pub use source::{RemoteSource, SourceClient, request_source};

use super::clocks::{self, PairKeeper};
use super::control::{Control, ControlError, at_port};
use super::dial::dial;
use super::drive;
use super::error::PathError;
use super::event::Progress;
use super::hosts::Side;
use super::options::{ClientOptions, Directions};
use super::outcome::{Completion, FlowOutcome, HostClocks, Protocol, TestOutcome};
use super::owamp;
use super::sending::Sending;
use quaver_clock::realtime_ns;
use quaver_path_flow::{FlowSpec, LEAST_PACKET_BYTES, LatePolicy, Received, TestSocket, Transport};
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Measures the path to a server. `watch` hears how it gets on, on the calling thread. With `stop` set the test ends
/// early, and what was measured by then is the outcome.
///
/// A test that began and broke off (the server went away, the user stopped it) is an outcome whose completion says
/// so, not an error.
///
/// # Errors
/// When nothing was measured: the server is not there, refused, or speaks something else. In legacy Jitlat also when
/// it said NAK, after which nothing counts (section 4.3.2).
pub fn run_client(
    options: &ClientOptions,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Progress<'_>),
) -> Result<TestOutcome, PathError> {
    check(options)?;
    match options.directions {
        Directions::AtOnce => both::run(options, stop, watch),
        _ => measure(options, stop, watch),
    }
}

/// The worse of two ends.
fn worst(one: Completion, other: Completion) -> Completion {
    match (one, other) {
        (Completion::ServerLost(why), _) | (_, Completion::ServerLost(why)) => Completion::ServerLost(why),
        (Completion::Interrupted, _) | (_, Completion::Interrupted) => Completion::Interrupted,
        (Completion::Complete, Completion::Complete) => Completion::Complete,
    }
}

/// Measures in one session.
fn measure(
    options: &ClientOptions,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Progress<'_>),
) -> Result<TestOutcome, PathError> {
    if options.owamp {
        return owamp::measure(options, stop, watch);
    }
    let mut test = Test::connect(options, stop, watch)?;
    let completion = if options.legacy { legacy::run(&mut test)? } else { extended::run(&mut test)? };
    Ok(test.finish(completion))
}

fn check(options: &ClientOptions) -> Result<(), PathError> {
    let wrong = |what: &str| Err(PathError::Options(what.to_owned()));
    if options.packet_bytes < LEAST_PACKET_BYTES {
        return wrong("test packets have at least 12 bytes: give a greater length");
    }
    if options.key.is_some() && options.packet_bytes < LEAST_PACKET_BYTES + 24 {
        return wrong("with a key, test packets have at least 36 bytes: give a greater length");
    }
    if options.dscp > 63 {
        return wrong("a DSCP is at most 63: give a smaller one");
    }
    if options.packets == Some(0) {
        return wrong("a test has at least one packet: give a greater number");
    }
    let up = options.directions != Directions::Down;
    if options.packets.is_none() && up && !options.rolling {
        return wrong(
            "a test upwards without end keeps no samples: give a number of packets, or a rolling test",
        );
    }
    if options.directions == Directions::AtOnce && options.source_port != 0 {
        return wrong("two flows at the same time cannot come from one port: leave out the source port");
    }
    match (options.legacy, options.owamp) {
        (true, _) => legacy::check(options),
        (_, true) => owamp::check(options),
        _ => Ok(()),
    }
}

/// A test under way.
struct Test<'a> {
    options: &'a ClientOptions,
    stop: &'a AtomicBool,
    watch: &'a mut dyn FnMut(Progress<'_>),
    control: Control,
    protocol: Protocol,
    started_ns: i64,
    rtt_probes: Vec<RttProbe>,
    flows: Vec<FlowOutcome>,
    pairs: PairKeeper,
    client_clock: HostClocks,
    server_clock: HostClocks,
    /// Whether the server sends as it was asked to; one of an earlier version skips late packets and knows no time.
    server_sends_so: bool,
}

impl<'a> Test<'a> {
    fn connect(
        options: &'a ClientOptions,
        stop: &'a AtomicBool,
        watch: &'a mut dyn FnMut(Progress<'_>),
    ) -> Result<Self, PathError> {
        let control = connect(options.server, options.answer_timeout, stop)?;
        watch(Progress::Connected { server: control.peer(), client: control.local() });
        let client_clock = HostClocks { before: clocks::ClockEstimate::now(), ..HostClocks::default() };
        Ok(Self {
            options,
            stop,
            watch,
            control,
            protocol: Protocol::Legacy,
            started_ns: realtime_ns(),
            rtt_probes: Vec::new(),
            flows: Vec::new(),
            pairs: PairKeeper::new(),
            client_clock,
            server_clock: HostClocks::default(),
            server_sends_so: false,
        })
    }

    fn server(&self) -> SocketAddr {
        self.control.peer()
    }

    fn patience(&self) -> Duration {
        self.options.answer_timeout
    }

    fn answer_due(&self) -> Instant {
        Instant::now() + self.options.answer_timeout
    }

    /// The error of a control connection that failed before anything was measured.
    fn failed(&self, error: ControlError, waiting_for: &'static str) -> PathError {
        error.into_error(self.server(), waiting_for, self.patience())
    }

    fn protocol_error(&self, what: impl Into<String>) -> PathError {
        PathError::Protocol { peer: self.server(), what: what.into() }
    }

    /// What both ways of a flow have in common on this end.
    fn spec(&self) -> FlowSpec {
        let options = self.options;
        let patience_ns = u64::try_from(options.answer_timeout.as_nanos()).unwrap_or(u64::MAX);
        let spec = FlowSpec {
            transport: options.transport,
            stamps: options.stamps,
            pace: options.pace,
            thread: options.thread.clone(),
            accept_from: drive::accept_from(options.transport, self.server().ip()),
            end_timeout_ns: patience_ns,
            sentinel_timeout_ns: patience_ns / 2,
            segments: options.segments,
            ..FlowSpec::new(options.packet_bytes, options.packets, options.schedule.clone())
        };
        self.sending().apply(spec)
    }

    /// How each end is to send.
    fn sending(&self) -> Sending {
        let options = self.options;
        Sending {
            late: options.late.unwrap_or(LatePolicy::usual(&options.schedule)),
            lasting_ns: options.lasting.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            train: options.train,
        }
    }

    /// The record of a flow that begins.
    fn begin(&mut self, direction: Direction, socket: &TestSocket) -> Result<FlowOutcome, PathError> {
        let (here, there) = (socket.local_address()?, socket.peer_address()?);
        let (source, destination) = match direction {
            Direction::Up => (here, there),
            Direction::Down => (there, here),
        };
        if self.flows.is_empty() {
            self.started_ns = realtime_ns();
        }
        (self.watch)(Progress::Started { direction, source, destination });
        Ok(self.options.flow(direction, source, destination))
    }

    /// Puts the record of a flow to the others, as far as it went.
    fn end(&mut self, flow: FlowOutcome) {
        (self.watch)(Progress::Ended { direction: flow.direction });
        self.flows.push(flow);
    }

    fn finish(mut self, completion: Completion) -> TestOutcome {
        self.pairs.read();
        self.client_clock.after = clocks::ClockEstimate::now();
        self.client_clock.pairs = self.pairs.pairs().to_vec();
        let mut clock_steps = clocks::steps(Side::Client, &self.client_clock.pairs);
        clock_steps.extend(clocks::steps(Side::Server, &self.server_clock.pairs));
        TestOutcome {
            protocol: self.protocol,
            server: self.control.peer(),
            client: self.control.local(),
            started_ns: self.started_ns,
            rtt_probes: self.rtt_probes,
            flows: self.flows,
            client_clock: self.client_clock,
            server_clock: self.server_clock,
            clock_steps,
            completion,
        }
    }
}

fn connect(server: SocketAddr, patience: Duration, stop: &AtomicBool) -> Result<Control, PathError> {
    Control::new(dial(server, patience, stop)?, Side::Client).map_err(|e| PathError::connect(server, e))
}

/// Takes samples of a flow, and shows them.
fn take(flow: &mut FlowOutcome, samples: &[Received], keep: bool, watch: &mut dyn FnMut(Progress<'_>)) {
    if keep {
        flow.singletons.extend(samples.iter().map(|received| received.singleton));
    }
    flow.rows += samples.len() as u64;
    watch(Progress::Samples { direction: flow.direction, samples });
}

/// A socket for test packets at the address of the control connection.
fn udp_socket(test: &Test<'_>) -> Result<TestSocket, PathError> {
    let here = at_port(test.control.local(), test.options.source_port);
    Ok(TestSocket::udp(here, false)?)
}

/// Where a TCP test connection is to come from, if the user said so.
fn tcp_source(test: &Test<'_>) -> Option<SocketAddr> {
    let port = test.options.source_port;
    (port != 0).then(|| at_port(test.control.local(), port))
}

fn is_udp(test: &Test<'_>) -> bool {
    test.options.transport == Transport::Udp
}
