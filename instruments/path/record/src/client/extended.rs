//! The extension, version 1.

use super::{Test, is_udp, probes, tcp_source, udp_socket};
use crate::auth::random;
use crate::control::{ControlError, Incoming, LONGEST_WAIT, at_port};
use crate::error::PathError;
use crate::event::Progress;
use crate::message::{Body, Message};
use crate::options::{ClientOptions, Directions};
use crate::outcome::{Completion, FlowOutcome, Protocol};
use crate::source::SourceRequest;
use quaver_abi::wire::extension::{CookieElement, ExtensionError, FlowElement, Kind, VERSION, field};
use quaver_abi::wire::jitlat::{Command, PROTO_TCP, PROTO_UDP};
use quaver_arrivals::path::direction::Direction;
use quaver_path_flow::{
    FlowSchedule, FlowSpec, LEAST_PACKET_BYTES, SESSION_TAG_BYTES, SenderSummary, TestSocket, Transport,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

mod down;
mod up;

/// Offsets of a recording in one message.
const MOST_OFFSETS: usize = 8_000;
/// First wait before a cookie is said again; doubles each time, as on slow paths answers take seconds.
pub(super) const COOKIE_AGAIN: Duration = Duration::from_millis(250);

pub(super) fn run(test: &mut Test<'_>) -> Result<Completion, PathError> {
    hello(test)?;
    probes::run(test, true)?;
    let cookies = request(test)?;
    let directions: &[Direction] = match test.options.directions {
        Directions::Up => &[Direction::Up],
        Directions::Down => &[Direction::Down],
        Directions::Both | Directions::AtOnce => &[Direction::Up, Direction::Down],
    };
    if cookies.len() != directions.len() {
        return Err(test.protocol_error("accepted another number of flows"));
    }
    for (direction, cookie) in directions.iter().zip(&cookies) {
        let outcome = match direction {
            Direction::Up => up::run(test, cookie),
            Direction::Down => down::run(test, cookie),
        };
        let lost = match outcome {
            Ok(lost) => lost,
            // What the flows before measured is worth keeping.
            Err(error) if !test.flows.is_empty() => Some(error.to_string()),
            Err(error) => return Err(error),
        };
        if let Some(lost) = lost {
            return Ok(Completion::ServerLost(lost));
        }
        if test.stop.load(Ordering::Relaxed) {
            break;
        }
    }
    let stopped = test.stop.load(Ordering::Relaxed);
    // A server that does not hear it closes all the same.
    let _ = test.control.say(Kind::Bye, Body::new(), Duration::from_secs(2));
    // A test without an end can only be stopped: that is its end.
    let interrupted = stopped && (test.options.packets.is_some() || test.flows.len() < directions.len());
    Ok(if interrupted { Completion::Interrupted } else { Completion::Complete })
}

/// HELLO and CHALLENGE.
pub(super) fn hello(test: &mut Test<'_>) -> Result<(), PathError> {
    let (patience, end, server) = (test.patience(), test.answer_due(), test.server());
    let hello = test
        .control
        .say_hello(random(), patience)
        .map_err(|e| test.failed(e, "when it was to answer HELLO"))?;
    let answer = match test.control.hear(end, test.stop) {
        Ok(Incoming::Message(message)) => message,
        Ok(Incoming::Workorder(answer)) if answer.command == Command::Nak => {
            return Err(PathError::LegacyServer { server, answer: "it answered NAK" });
        }
        Ok(Incoming::Workorder(_)) => {
            return Err(PathError::LegacyServer { server, answer: "it answered with a workorder" });
        }
        Err(ControlError::Closed) => {
            return Err(PathError::LegacyServer { server, answer: "it closed the connection" });
        }
        Err(ControlError::TimedOut) => {
            return Err(PathError::LegacyServer { server, answer: "it did not answer" });
        }
        Err(ControlError::Extension(ExtensionError::Version(theirs))) => {
            return Err(PathError::Version { server, least: theirs, most: theirs, ours: VERSION });
        }
        Err(error) => return Err(test.failed(error, "when it was to answer HELLO")),
    };
    let bad = |e: ExtensionError| PathError::Protocol { peer: server, what: format!("sent {e}") };
    if answer.kind() == Kind::Refuse {
        return Err(match answer.versions() {
            Ok((least, most)) if !(least..=most).contains(&VERSION) => {
                PathError::Version { server, least, most, ours: VERSION }
            }
            _ => probes::refused(test, answer.refusal()),
        });
    }
    if answer.kind() != Kind::Challenge {
        return Err(test.protocol_error(format!("answered HELLO with {}", answer.kind().name())));
    }
    answer.check(&[field::VERSIONS, field::NONCE, field::KEY_WANTED]).map_err(bad)?;
    let key_wanted = answer.element::<[u8; 1]>(field::KEY_WANTED).map_err(bad)? != [0];
    match (&test.options.key, key_wanted) {
        (None, false) => {}
        (None, true) => return Err(PathError::KeyWanted { server }),
        (Some(_), false) => return Err(PathError::KeyNotHad { server }),
        (Some(key), true) => {
            if answer.fields().find(field::NONCE).map_err(bad)?.len() < 16 {
                return Err(test.protocol_error("sent a short nonce"));
            }
            test.control.authenticate(key, &hello, answer.octets());
        }
    }
    test.protocol = Protocol::Extended(VERSION);
    Ok(())
}

const ANSWER_TO_REQUEST: &str = "for the answer to REQUEST";

fn ask(test: &mut Test<'_>, kind: Kind, body: Body) -> Result<(), PathError> {
    let patience = test.patience();
    test.control.say(kind, body, patience).map(|_| ()).map_err(|e| test.failed(e, ANSWER_TO_REQUEST))
}

/// SOURCE to ACCEPT, through the queue if there is one.
pub(super) fn request_source(
    test: &mut Test<'_>,
    request: &SourceRequest,
) -> Result<Vec<CookieElement>, PathError> {
    let element = request.element(!test.options.queue_patience.is_zero());
    ask(test, Kind::Source, Body::new().element(field::SOURCE, &element))?;
    acceptance(test)
}

/// REQUEST to ACCEPT, through the queue if there is one.
fn request(test: &mut Test<'_>) -> Result<Vec<CookieElement>, PathError> {
    let options = test.options;
    let body = Body::new().element(field::FLOW, &flow_element(options)).sending(test.sending());
    ask(test, Kind::Request, body)?;
    if let FlowSchedule::Recorded { offsets_ns } = &options.schedule {
        let most = packets(options).min(offsets_ns.len() as u64) as usize;
        for (chunk, offsets) in offsets_ns[..most].chunks(MOST_OFFSETS).enumerate() {
            ask(test, Kind::Offsets, Body::new().offsets((chunk * MOST_OFFSETS) as u64, offsets))?;
        }
    }
    acceptance(test)
}

/// The answer to what was asked for.
fn acceptance(test: &mut Test<'_>) -> Result<Vec<CookieElement>, PathError> {
    let mut end = test.answer_due();
    let gives_up = Instant::now() + test.options.queue_patience + test.patience();
    loop {
        let message = hear_until(test, end.min(gives_up), ANSWER_TO_REQUEST)?;
        match message.kind() {
            Kind::Queued => {
                let place = message.u32(field::PLACE).unwrap_or(0);
                (test.watch)(Progress::Queued { place });
                end = gives_up;
            }
            Kind::Accept => {
                let bad = |e: ExtensionError| test.protocol_error(format!("sent {e}"));
                message.check(&[field::COOKIE]).map_err(bad)?;
                let sends_so = message.sending().map_err(bad)?.is_some();
                test.server_clock.before = message.clock();
                test.server_sends_so = sends_so;
                let cookies = message.elements(field::COOKIE);
                return cookies.map_err(|e| test.protocol_error(format!("sent {e}")));
            }
            other => return Err(test.protocol_error(format!("answered REQUEST with {}", other.name()))),
        }
    }
}

fn packets(options: &ClientOptions) -> u64 {
    let recorded = match &options.schedule {
        FlowSchedule::Recorded { offsets_ns } => Some(offsets_ns.len() as u64),
        _ => None,
    };
    match (options.packets, recorded) {
        (Some(packets), Some(recorded)) => packets.min(recorded),
        (packets, recorded) => packets.or(recorded).unwrap_or(FlowElement::UNBOUNDED),
    }
}

fn flow_element(options: &ClientOptions) -> FlowElement {
    let (schedule, period_ns, seed, start) = match &options.schedule {
        FlowSchedule::Periodic { period_ns, random_start } => {
            let start = if random_start.is_some() { FlowElement::RANDOM_START } else { 0 };
            (FlowElement::PERIODIC, *period_ns, random_start.unwrap_or(0), start)
        }
        FlowSchedule::Poisson { mean_ns, seed } => (FlowElement::POISSON, *mean_ns, *seed, 0),
        recorded => (FlowElement::RECORDED, recorded.mean_period_ns().max(1), 0, 0),
    };
    let rolling = if options.rolling { FlowElement::ROLLING } else { 0 };
    let wait = if options.queue_patience.is_zero() { 0 } else { FlowElement::WAIT };
    let proto = if options.transport == Transport::Udp { PROTO_UDP } else { PROTO_TCP };
    // Of a flow that keeps nothing there is nothing to hold them against.
    let told = options.directions != Directions::Up && options.transport == Transport::Udp;
    let departures = if told && !options.rolling { FlowElement::DEPARTURES } else { 0 };
    FlowElement {
        directions: match options.directions {
            Directions::Up => FlowElement::UP,
            Directions::Down => FlowElement::DOWN,
            Directions::Both | Directions::AtOnce => FlowElement::UP | FlowElement::DOWN,
        },
        transport: proto as u8,
        schedule,
        flags: rolling | wait | start | departures,
        packet_bytes: options.packet_bytes.into(),
        packets: packets(options).into(),
        period_ns: period_ns.into(),
        seed: seed.into(),
        dscp: u32::from(options.dscp).into(),
        reserved: 0.into(),
    }
}

/// The next message of the extension; a refusal is an error.
fn hear_until(test: &mut Test<'_>, end: Instant, waiting_for: &'static str) -> Result<Message, PathError> {
    match test.control.hear(end, test.stop).map_err(|e| test.failed(e, waiting_for))? {
        Incoming::Message(message) if message.kind() == Kind::Refuse => {
            Err(probes::refused(test, message.refusal()))
        }
        Incoming::Message(message) => Ok(message),
        Incoming::Workorder(_) => Err(test.protocol_error("fell back to workorders")),
    }
}

/// Echoes the cookie on the test port until the server has seen it: the socket of the flow. On its way through a
/// translator of addresses, this opens the way for both directions; so also where the server saw it come from.
pub(super) fn meet(
    test: &mut Test<'_>,
    cookie: &CookieElement,
) -> Result<(TestSocket, SocketAddr), PathError> {
    let waiting_for = "for the server to see the cookie on its test port";
    let Ok(port) = u16::try_from(cookie.test_port.get()) else {
        return Err(test.protocol_error("named an impossible test port"));
    };
    let to = at_port(test.server(), port);
    let socket = if is_udp(test) {
        let socket = udp_socket(test)?;
        socket.connect(to)?;
        socket
    } else {
        TestSocket::tcp(to, tcp_source(test), test.patience())?
    };
    let (end, mut again, mut wait) = (test.answer_due(), Instant::now(), COOKIE_AGAIN);
    let mut said = false;
    loop {
        let now = Instant::now();
        if now >= again && (is_udp(test) || !said) {
            // Refusals of earlier ones (ICMP) are no reason to stop: the server's port may just be opening.
            said = socket.socket().send(&cookie.echo()).is_ok() || said;
            again = now + wait;
            wait *= 2;
        }
        let until = end.min(again.max(now + Duration::from_millis(1))).min(now + LONGEST_WAIT);
        match test.control.hear(until, test.stop) {
            Ok(Incoming::Message(message)) if message.kind() == Kind::Ready => {
                let seen = message.address().map_err(|e| test.protocol_error(format!("sent {e}")))?;
                return Ok((socket, seen));
            }
            Ok(Incoming::Message(message)) if message.kind() == Kind::Refuse => {
                return Err(probes::refused(test, message.refusal()));
            }
            Ok(_) => return Err(test.protocol_error("answered the cookie with something else than READY")),
            Err(ControlError::TimedOut) if now < end => {}
            Err(error) => return Err(test.failed(error, waiting_for)),
        }
    }
}

/// The flow's packets, as both ends agreed on them.
fn spec(test: &Test<'_>, cookie: &CookieElement) -> FlowSpec {
    let tagged = test.options.packet_bytes >= LEAST_PACKET_BYTES + SESSION_TAG_BYTES;
    let key = test.control.keys().map(|keys| Arc::new(keys.packets(&cookie.tag)) as _);
    let packets = Some(packets(test.options)).filter(|packets| *packets != FlowElement::UNBOUNDED);
    let dscp = Some(test.options.dscp);
    FlowSpec { session_tag: tagged.then_some(cookie.tag), key, packets, dscp, ..test.spec() }
}

/// Whether the sender got through its schedule or its time. Where it does not say so: a recording ends with its last offset, whatever was missed of it.
fn all_sent(spec: &FlowSpec, sender: &SenderSummary) -> bool {
    if let Some(sending) = sender.sending {
        // Only a stop ends a flow without an end.
        return sending.finished || (spec.packets.is_none() && spec.lasting_ns.is_none());
    }
    let recorded = matches!(spec.schedule, FlowSchedule::Recorded { .. });
    let used = sender.packets + if recorded { sender.misses } else { 0 };
    spec.packets.is_none_or(|packets| used >= packets)
}

/// What a server says after its last sample.
fn take_end(test: &mut Test<'_>, flow: &mut FlowOutcome, end: &Message) -> Option<String> {
    test.server_clock.after = end.clock();
    flow.moved = end.moved();
    let mut pairs = end.clock_pairs();
    // The second flow's pairs begin with those of the first.
    if pairs.len() >= test.server_clock.pairs.len() {
        std::mem::swap(&mut test.server_clock.pairs, &mut pairs);
    }
    match (end.u64(field::ROWS), flow.direction) {
        (Ok(rows), Direction::Up) if rows != flow.rows => {
            Some(format!("announced {rows} samples and sent {}", flow.rows))
        }
        (Ok(_), _) => None,
        (Err(error), _) => Some(format!("sent {error}")),
    }
}
