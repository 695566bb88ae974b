//! The extension: challenge, cookies, flows, samples.

use super::session::{Break, Session};
use super::source;
use crate::clock::{monotonic_ns, realtime_ns};
use crate::path::auth::random;
use crate::path::clocks::{ClockEstimate, PairKeeper};
use crate::path::control::Incoming;
use crate::path::drive;
use crate::path::flow::{
    FlowSchedule, FlowSpec, LEAST_PACKET_BYTES, SESSION_TAG_BYTES, TestListener, TestSocket, Transport,
};
use crate::path::limits::{Asked, No};
use crate::path::message::{Body, Message};
use crate::path::outcome::{Direction, Protocol};
use quaver_abi::wire::extension::{
    CookieElement, FlowElement, Kind, LimitsElement, Refusal, TimeElement, VERSION, field,
};
use quaver_abi::wire::jitlat::{PROTO_TCP, PROTO_UDP};
use std::sync::Arc;
use std::sync::mpsc::channel;

mod down;
mod up;

/// Most offsets of a recorded schedule that a server takes (8 octets each).
const MOST_OFFSETS: u64 = 1 << 20;

/// Serves a peer that has said HELLO.
pub(super) fn serve(session: &mut Session<'_>, hello: &Message) -> Result<(), Break> {
    challenge(session, hello)?;
    let request = loop {
        let Incoming::Message(message) = session.hear()? else {
            return Err(Break::Hostile("fell back to workorders".into()));
        };
        match message.kind() {
            Kind::Time => answer_time(session, &message)?,
            Kind::Request => break message,
            Kind::Source => return source::run(session, &message),
            Kind::Bye => return Ok(()),
            other => return Err(Break::Hostile(format!("said {} before its REQUEST", other.name()))),
        }
    };
    let test = Test::read(session, &request)?;
    test.admit(session)?;
    let _turn = session.turn(test.wait)?;
    test.run(session)?;
    farewell(session)
}

/// BYE.
pub(super) fn farewell(session: &mut Session<'_>) -> Result<(), Break> {
    match session.hear() {
        Ok(Incoming::Message(message)) if message.kind() == Kind::Bye => Ok(()),
        Ok(_) => Err(Break::Hostile("did not end with BYE".into())),
        // It has everything; how it leaves is its own affair.
        Err(_) => Ok(()),
    }
}

fn challenge(session: &mut Session<'_>, hello: &Message) -> Result<(), Break> {
    let key = session.shared.options.key.clone();
    let limits = session.limits();
    let element = LimitsElement {
        packets_per_second: limits.packets_per_second.into(),
        bits_per_second: limits.bits_per_second.into(),
        duration_ns: u64::try_from(limits.duration.as_nanos()).unwrap_or(u64::MAX).into(),
        kept_packets: limits.kept_packets.into(),
        rolling_packets_per_second: limits.rolling_packets_per_second.into(),
        packet_bytes: limits.packet_bytes.into(),
        reserved: 0.into(),
    };
    let body = Body::new()
        .versions(VERSION, VERSION)
        .field(field::NONCE, &random::<32>())
        .field(field::KEY_WANTED, &[u8::from(key.is_some())])
        .element(field::LIMITS, &element);
    let challenge = session.control.say(Kind::Challenge, body, session.silence())?;
    if let Some(key) = key {
        session.control.authenticate(&key, hello.octets(), &challenge);
    }
    Ok(())
}

fn answer_time(session: &mut Session<'_>, message: &Message) -> Result<(), Break> {
    let (server_realtime_ns, server_monotonic_ns) = (realtime_ns().into(), monotonic_ns().into());
    session.count_probe()?;
    message.check(&[field::TIME])?;
    let asked: TimeElement = message.element(field::TIME)?;
    let answer = TimeElement { server_realtime_ns, server_monotonic_ns, ..asked };
    let body = Body::new().element(field::TIME, &answer);
    session.control.say(Kind::TimeReply, body, session.silence())?;
    Ok(())
}

/// A test that a peer asks for.
struct Test {
    directions: Vec<Direction>,
    transport: Transport,
    packet_bytes: u32,
    packets: Option<u64>,
    schedule: FlowSchedule,
    dscp: u8,
    rolling: bool,
    wait: bool,
}

impl Test {
    fn read(session: &mut Session<'_>, request: &Message) -> Result<Self, Break> {
        request.check(&[field::FLOW])?;
        let asked: FlowElement = request.element(field::FLOW)?;
        let impossible = || Break::Hostile("sent an impossible REQUEST".into());
        let transport = match u32::from(asked.transport) {
            PROTO_UDP => Transport::Udp,
            PROTO_TCP => Transport::Tcp,
            _ => return Err(impossible()),
        };
        let directions = match asked.directions {
            FlowElement::UP => vec![Direction::Up],
            FlowElement::DOWN => vec![Direction::Down],
            3 => vec![Direction::Up, Direction::Down],
            _ => return Err(impossible()),
        };
        let known = FlowElement::ROLLING | FlowElement::WAIT | FlowElement::RANDOM_START;
        let dscp = u8::try_from(asked.dscp.get()).ok().filter(|dscp| *dscp < 64).ok_or_else(impossible)?;
        let (packets, period_ns) = (asked.packets.get(), asked.period_ns.get());
        if asked.flags & !known != 0 || asked.reserved.get() != 0 || packets == 0 || period_ns == 0 {
            return Err(impossible());
        }
        let packets = Some(packets).filter(|packets| *packets != FlowElement::UNBOUNDED);
        let seed = asked.seed.get();
        let schedule = match asked.schedule {
            FlowElement::PERIODIC => {
                let random = asked.flags & FlowElement::RANDOM_START != 0;
                FlowSchedule::Periodic { period_ns, random_start: random.then_some(seed) }
            }
            FlowElement::POISSON => FlowSchedule::Poisson { mean_ns: period_ns, seed },
            FlowElement::RECORDED => {
                let count = packets.filter(|count| *count <= MOST_OFFSETS).ok_or_else(|| {
                    let sentence = format!("a recording without end or of more than {MOST_OFFSETS} packets");
                    Break::No((Refusal::Count, sentence))
                })?;
                FlowSchedule::Recorded { offsets_ns: offsets(session, count)?.into() }
            }
            _ => return Err(impossible()),
        };
        Ok(Self {
            directions,
            transport,
            packet_bytes: asked.packet_bytes.get(),
            packets,
            schedule,
            dscp,
            rolling: asked.flags & FlowElement::ROLLING != 0,
            wait: asked.flags & FlowElement::WAIT != 0,
        })
    }

    /// Caps, for each way.
    fn admit(&self, session: &Session<'_>) -> Result<(), No> {
        let keyed = session.shared.options.key.is_some();
        let least = if keyed { LEAST_PACKET_BYTES + 24 } else { LEAST_PACKET_BYTES };
        let Self { packet_bytes, packets, rolling, .. } = *self;
        if packet_bytes < least {
            return Err((Refusal::Size, format!("packets of {packet_bytes} octets; at least {least} here")));
        }
        for direction in &self.directions {
            let received_here = *direction == Direction::Up;
            let schedule = &self.schedule;
            session.limits().admit(&Asked { packet_bytes, packets, schedule, rolling, received_here })?;
        }
        Ok(())
    }

    fn run(&self, session: &mut Session<'_>) -> Result<(), Break> {
        let meeting = Meeting::new(session, self.transport)?;
        let cookies: Vec<CookieElement> = self.directions.iter().map(|_| meeting.cookie()).collect();
        let body = Body::new().clock(ClockEstimate::now());
        let body = cookies.iter().fold(body, |body, cookie| body.element(field::COOKIE, cookie));
        let mut pairs = PairKeeper::new();
        session.control.say(Kind::Accept, body, session.silence())?;
        for (direction, cookie) in self.directions.iter().zip(&cookies) {
            let spec = self.spec(session, cookie)?;
            let socket = meeting.meet(session, cookie)?;
            socket.set_dscp(self.dscp)?;
            if !matches!(session.hear()?, Incoming::Message(message) if message.kind() == Kind::Start) {
                return Err(Break::Hostile("did not answer READY with START".into()));
            }
            session.started(Protocol::Extended(VERSION), *direction, self.words());
            match direction {
                Direction::Up => up::run(session, &socket, &spec, self.rolling, &mut pairs)?,
                Direction::Down => down::run(session, &socket, &spec, &mut pairs)?,
            }
        }
        Ok(())
    }

    fn spec(&self, session: &Session<'_>, cookie: &CookieElement) -> Result<FlowSpec, Break> {
        let tagged = self.packet_bytes >= LEAST_PACKET_BYTES + SESSION_TAG_BYTES;
        let key = session.control.keys().map(|keys| Arc::new(keys.packets(&cookie.tag)) as _);
        let spec = FlowSpec {
            transport: self.transport,
            session_tag: tagged.then_some(cookie.tag),
            key,
            stamps: session.shared.options.stamps,
            accept_from: drive::accept_from(self.transport, session.peer_ip()),
            end_timeout_ns: u64::try_from(session.silence().as_nanos()).unwrap_or(u64::MAX),
            sentinel_timeout_ns: u64::try_from(session.silence().as_nanos() / 2).unwrap_or(u64::MAX),
            segments: false,
            ..FlowSpec::new(self.packet_bytes, self.packets, self.schedule.clone())
        };
        spec.check().map_err(|e| Break::No((Refusal::Size, e.to_string())))?;
        Ok(spec)
    }

    fn words(&self) -> String {
        let packets = self.packets.map_or_else(|| "packets until stopped".into(), |n| format!("{n} packets"));
        let by = if self.transport == Transport::Udp { "UDP" } else { "TCP" };
        format!(
            "{packets} of {} octets, {} ns apart, by {by}",
            self.packet_bytes,
            self.schedule.mean_period_ns()
        )
    }
}

/// Offsets of a recorded schedule, as many as announced.
fn offsets(session: &mut Session<'_>, count: u64) -> Result<Vec<u64>, Break> {
    let mut all = Vec::new();
    while (all.len() as u64) < count {
        let Incoming::Message(message) = session.hear()? else {
            return Err(Break::Hostile("fell back to workorders".into()));
        };
        if message.kind() != Kind::Offsets {
            return Err(Break::Hostile("did not send the offsets of its recording".into()));
        }
        let (first, offsets) = message.offsets()?;
        if first != all.len() as u64 || offsets.is_empty() || first + offsets.len() as u64 > count {
            return Err(Break::Hostile("sent offsets out of their order".into()));
        }
        all.extend(offsets);
    }
    if !all.is_sorted() {
        return Err(Break::Hostile("sent offsets that decrease".into()));
    }
    Ok(all)
}

/// Where client and server meet for a flow.
pub(super) struct Meeting {
    /// By TCP: listens while the test is set up and runs, not before.
    listener: Option<TestListener>,
    port: u16,
}

impl Meeting {
    /// At the test port; for TCP at another one if a test beside this has it.
    pub(super) fn new(session: &Session<'_>, transport: Transport) -> Result<Self, Break> {
        let port = session.test_port;
        if transport == Transport::Udp {
            return Ok(Self { listener: None, port });
        }
        let here = session.control.local().ip();
        let listener =
            TestListener::bind((here, port).into()).or_else(|_| TestListener::bind((here, 0).into()))?;
        let port = listener.local_address()?.port();
        Ok(Self { listener: Some(listener), port })
    }

    pub(super) fn cookie(&self) -> CookieElement {
        CookieElement { tag: random(), cookie: random(), test_port: u32::from(self.port).into() }
    }

    /// Waits for the cookie on the test port, and tells the peer where it came from. The socket's peer is there.
    pub(super) fn meet(
        &self,
        session: &mut Session<'_>,
        cookie: &CookieElement,
    ) -> Result<TestSocket, Break> {
        let (to, arriving) = channel();
        let shared = session.shared;
        let socket = match &self.listener {
            Some(listener) => session.connection(listener, Some(&cookie.echo()))?,
            None => {
                let waiting = shared.expectations.add(session.peer_ip(), cookie.echo(), to);
                session.datagram(waiting, &arriving)?
            }
        };
        let body = Body::new().address(socket.peer_address()?);
        session.control.say(Kind::Ready, body, session.silence())?;
        Ok(socket)
    }
}

/// The last message of a flow.
fn say_end(session: &mut Session<'_>, rows: u64, pairs: &mut PairKeeper) -> Result<(), Break> {
    pairs.read();
    let body = Body::new().u64(field::ROWS, rows).clock(ClockEstimate::now()).clock_pairs(pairs.pairs());
    session.control.say(Kind::End, body, session.silence())?;
    Ok(())
}
