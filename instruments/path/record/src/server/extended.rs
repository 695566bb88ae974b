//! The extension: challenge, cookies, flows, samples.

use super::break_off::Break;
use super::lobby::Waiting;
use super::recording::{MOST_OFFSETS, Recording};
use super::roaming::Follower;
use super::session::Session;
use super::turns::Turn;
use crate::auth::random;
use crate::clocks::{ClockEstimate, PairKeeper};
use crate::control::Incoming;
use crate::drive;
use crate::event::ServerEvent;
use crate::limits::{Demand, FlowRequest, No};
use crate::message::{Body, Message};
use crate::outcome::{Moved, Protocol};
use crate::sending::Sending;
use quaver_abi::wire::extension::{
    CookieElement, FlowElement, Kind, LimitsElement, Refusal, TimeElement, VERSION, field,
};
use quaver_abi::wire::jitlat::{PROTO_TCP, PROTO_UDP};
use quaver_arrivals::path::direction::Direction;
use quaver_clock::{monotonic_ns, realtime_ns};
use quaver_path_flow::{
    FlowSchedule, FlowSpec, LEAST_PACKET_BYTES, SESSION_TAG_BYTES, TestListener, TestSocket, Transport,
};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

mod down;
mod source;
mod up;

pub(super) use down::give_up_after;

/// A flow gets so many times the silence without any progress: an outage shorter than that is something to measure.
/// What is longer ends the control connection as well.
const PATIENCE: u32 = 4;

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
    let mut test = Test::read(&request)?;
    test.admit(session)?;
    session.recording = test.recorded.map(Recording::new);
    let turn = session.turn(test.demand(session), test.wait)?;
    test.hear_recording(session, &turn)?;
    test.run(session, turn)?;
    farewell(session)
}

/// BYE.
fn farewell(session: &mut Session<'_>) -> Result<(), Break> {
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
    /// Without its offsets, until they have come.
    schedule: FlowSchedule,
    /// How many offsets are to come.
    recorded: Option<u64>,
    dscp: u8,
    rolling: bool,
    wait: bool,
    departures: bool,
    /// As the client wishes; none from one that knows nothing of it.
    sending: Option<Sending>,
}

impl Test {
    fn read(request: &Message) -> Result<Self, Break> {
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
        let known =
            FlowElement::ROLLING | FlowElement::WAIT | FlowElement::RANDOM_START | FlowElement::DEPARTURES;
        let dscp = u8::try_from(asked.dscp.get()).ok().filter(|dscp| *dscp < 64).ok_or_else(impossible)?;
        let (packets, period_ns) = (asked.packets.get(), asked.period_ns.get());
        if asked.flags & !known != 0 || asked.reserved.get() != 0 || packets == 0 || period_ns == 0 {
            return Err(impossible());
        }
        let packets = Some(packets).filter(|packets| *packets != FlowElement::UNBOUNDED);
        let (seed, mut recorded) = (asked.seed.get(), None);
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
                recorded = Some(count);
                FlowSchedule::Recorded { offsets_ns: [].into() }
            }
            _ => return Err(impossible()),
        };
        Ok(Self {
            directions,
            transport,
            packet_bytes: asked.packet_bytes.get(),
            packets,
            schedule,
            recorded,
            dscp,
            rolling: asked.flags & FlowElement::ROLLING != 0,
            wait: asked.flags & FlowElement::WAIT != 0,
            departures: asked.flags & FlowElement::DEPARTURES != 0,
            sending: request.sending()?,
        })
    }

    /// Takes what has not come of the offsets meanwhile; then the caps that only they can tell of.
    fn hear_recording(&mut self, session: &mut Session<'_>, turn: &Turn) -> Result<(), Break> {
        let Some(mut recording) = session.recording.take() else { return Ok(()) };
        while !recording.is_whole() {
            match session.hear()? {
                Incoming::Message(message) if message.kind() == Kind::Offsets => recording.take(&message)?,
                _ => return Err(Break::Hostile("did not send the offsets of its recording".into())),
            }
        }
        self.schedule = FlowSchedule::Recorded { offsets_ns: recording.into_offsets()?.into() };
        self.admit(session)?;
        if !turn.change(self.demand(session)) {
            let sentence = "your recording's busiest second needs more than is free now; try again later";
            return Err(Break::No((Refusal::Busy, sentence.into())));
        }
        Ok(())
    }

    /// What the test needs of the server's budget, whose directions go one after the other.
    fn demand(&self, session: &Session<'_>) -> Demand {
        let Self { packet_bytes, packets, rolling, .. } = *self;
        let received_here = self.directions.contains(&Direction::Up);
        let schedule = &self.schedule;
        session.limits().demand(&FlowRequest { packet_bytes, packets, schedule, rolling, received_here })
    }

    /// Caps, for each way.
    fn admit(&self, session: &Session<'_>) -> Result<(), No> {
        let keyed = session.shared.options.key.is_some();
        let least = if keyed { LEAST_PACKET_BYTES + 24 } else { LEAST_PACKET_BYTES };
        let Self { packet_bytes, packets, rolling, .. } = *self;
        if packet_bytes < least {
            return Err((Refusal::Size, format!("packets of {packet_bytes} bytes; at least {least} here")));
        }
        for direction in &self.directions {
            let received_here = *direction == Direction::Up;
            let schedule = &self.schedule;
            session.limits().admit(&FlowRequest {
                packet_bytes,
                packets,
                schedule,
                rolling,
                received_here,
            })?;
        }
        Ok(())
    }

    fn run(&self, session: &mut Session<'_>, turn: Turn) -> Result<(), Break> {
        let mut meeting = Meeting::new(session, self.transport)?;
        let mut turn = Some(turn);
        let cookies: Vec<CookieElement> = self.directions.iter().map(|_| meeting.cookie()).collect();
        let body = Body::new().clock(ClockEstimate::now());
        let body = self.sending.iter().fold(body, |body, sending| body.sending(*sending));
        let body = cookies.iter().fold(body, |body, cookie| body.element(field::COOKIE, cookie));
        let mut pairs = PairKeeper::new();
        session.control.say(Kind::Accept, body, session.silence())?;
        for (number, (direction, cookie)) in self.directions.iter().zip(&cookies).enumerate() {
            let last = number + 1 == self.directions.len();
            let spec = self.spec(session, cookie)?;
            let socket = meeting.meet(session, cookie)?;
            socket.set_dscp(self.dscp)?;
            if !matches!(session.hear()?, Incoming::Message(message) if message.kind() == Kind::Start) {
                return Err(Break::Hostile("did not answer READY with START".into()));
            }
            session.started(Protocol::Extended(VERSION), *direction, self.words());
            if last {
                // The next test may need the port.
                meeting.close();
            }
            let turn = if last { turn.take() } else { None };
            let follower = Arc::new(Follower::of(&socket)?);
            let _following = follow(session, &follower, cookie);
            let mut flow = Flow {
                socket: &socket,
                spec: &spec,
                pairs: &mut pairs,
                departures: self.departures,
                follower: &follower,
                turn,
            };
            match direction {
                Direction::Up => up::run(session, &mut flow, self.rolling)?,
                Direction::Down => down::run(session, &mut flow)?,
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
            pace: session.shared.options.pace,
            thread: session.shared.options.thread.clone(),
            dscp: Some(self.dscp),
            accept_from: drive::accept_from(self.transport, session.peer_ip()),
            end_timeout_ns: u64::try_from(session.silence().as_nanos()).unwrap_or(u64::MAX),
            sentinel_timeout_ns: u64::try_from(session.silence().as_nanos() / 2).unwrap_or(u64::MAX),
            ..FlowSpec::new(self.packet_bytes, self.packets, self.schedule.clone())
        };
        let spec = self.sending.map_or(spec.clone(), |sending| sending.apply(spec));
        spec.check().map_err(|e| Break::No((Refusal::Size, e.to_string())))?;
        Ok(spec)
    }

    fn words(&self) -> String {
        let packets = self.packets.map_or_else(|| "packets until stopped".into(), |n| format!("{n} packets"));
        let by = if self.transport == Transport::Udp { "UDP" } else { "TCP" };
        format!(
            "{packets} of {} bytes, {} ns apart, by {by}",
            self.packet_bytes,
            self.schedule.mean_period_ns()
        )
    }
}

/// A flow whose packets are about to go.
struct Flow<'a> {
    socket: &'a TestSocket,
    spec: &'a FlowSpec,
    pairs: &'a mut PairKeeper,
    /// Whether the peer wants to know when each packet of ours departed.
    departures: bool,
    /// Knows whether the peer moved.
    follower: &'a Follower,
    /// If no other flow of this test follows.
    turn: Option<Turn>,
}

impl Flow<'_> {
    /// The packets have gone: others may measure while the rest is told, unless another flow follows.
    fn packets_are_over(&mut self) {
        self.turn = None;
    }
}

/// Leads a flow of datagrams to its client until the guard goes.
fn follow<'a>(
    session: &Session<'a>,
    follower: &Arc<Follower>,
    cookie: &CookieElement,
) -> Option<Waiting<'a>> {
    let (shared, peer) = (session.shared, session.peer());
    let by_udp = follower.transport() == Transport::Udp;
    by_udp.then(|| shared.expectations.follow(peer, cookie.echo(), Arc::clone(follower)))
}

/// Says in the log where the client of a flow is now, if it moved.
fn tell_moved(session: &Session<'_>, follower: &Follower) -> Option<Moved> {
    let moved = follower.moved();
    if let Some(Moved { times, to, .. }) = moved {
        session.tell(ServerEvent::Moved { peer: session.peer(), to, times });
    }
    moved
}

/// How long a flow may be without any progress: longer than its packets are apart.
fn patience(session: &Session<'_>, spec: &FlowSpec) -> Duration {
    let apart_ns = match &spec.schedule {
        FlowSchedule::Recorded { offsets_ns } => {
            let first_ns = offsets_ns.first().copied().unwrap_or(0);
            let gaps = offsets_ns.windows(2).map(|two| two[1].saturating_sub(two[0]));
            gaps.max().unwrap_or(0).max(first_ns)
        }
        // Of Poisson's gaps one in e^20 is longer.
        steady => steady.mean_period_ns().saturating_mul(20),
    };
    session.silence().saturating_mul(PATIENCE).saturating_add(Duration::from_nanos(apart_ns))
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
        let listener =
            TestListener::bind(session.here(port)).or_else(|_| TestListener::bind(session.here(0)))?;
        let port = listener.local_address()?.port();
        Ok(Self { listener: Some(listener), port })
    }

    /// Listens no more.
    fn close(&mut self) {
        self.listener = None;
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
                let waiting = shared.expectations.add(session.peer(), cookie.echo(), to);
                session.datagram(waiting, &arriving)?
            }
        };
        let body = Body::new().address(socket.peer_address()?);
        session.control.say(Kind::Ready, body, session.silence())?;
        Ok(socket)
    }
}

/// The last message of a flow.
fn say_end(session: &mut Session<'_>, flow: &mut Flow<'_>, rows: u64) -> Result<(), Break> {
    flow.pairs.read();
    let pairs = flow.pairs.pairs();
    let body = Body::new().u64(field::ROWS, rows).clock(ClockEstimate::now()).clock_pairs(pairs);
    let body = body.moved(tell_moved(session, flow.follower));
    session.control.say(Kind::End, body, session.silence())?;
    Ok(())
}
