//! A server's side of a control connection, whichever protocol.

use super::greeting::greet;
use super::host::{Break, Host, Place, Refused, dscp, internal, unsupported};
use super::link::{LOOK, Link, LinkError, address_octets, interval_ns, ip_version};
use super::one_way::{self, MOST_SLOTS, OneWay};
use super::reflect::{Counts, LEAST_PORT, Reflector};
use crate::auth::random;
use crate::control::at_port;
use crate::event::ServerEvent;
use crate::limits::{Demand, Limits};
use crate::outcome::Protocol;
use quaver_abi::wire::owamp::{
    AcceptSession, BLOCK_BYTES, FetchSession, LEAST_TEST_BYTES, RequestSession, Slot, Start, StopSessions,
    accept, command,
};
use quaver_arrivals::path::direction::Direction;
use quaver_clock::realtime_ns;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// A reflector whose peer is silent for so long ends (RFC 5357, section 3.1: REFWAIT).
const REFLECTOR_WAIT: Duration = Duration::from_secs(900);

/// How often one connection may ask for records: each time costs a walk over them.
const MOST_FETCHES: u32 = 64;

/// Which of the two protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Owamp,
    Twamp,
}

impl Dialect {
    /// Name of its control protocol.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Owamp => "OWAMP-Control",
            Self::Twamp => "TWAMP-Control",
        }
    }
}

/// Serves a connection to its end, and tells how it ended.
pub(crate) fn run(host: &Host<'_>, socket: TcpStream, peer: SocketAddr, dialect: Dialect) {
    let ended = match Link::new(socket) {
        Ok(link) => Connection { host, link, dialect, since_ns: realtime_ns() }.serve(),
        Err(error) => Err(Break::Link(LinkError::Os(error))),
    };
    let lost = |reason: &str| ServerEvent::BrokenOff { peer, reason: reason.to_owned() };
    (host.tell)(match ended {
        Ok(()) | Err(Break::Link(LinkError::Closed)) => ServerEvent::Closed { peer },
        Err(Break::Link(LinkError::Stopped)) => lost("the server ends"),
        Err(Break::Link(LinkError::TimedOut)) => lost("fell silent"),
        Err(Break::Link(LinkError::Os(error))) => lost(&error.to_string()),
        Err(Break::Lost(reason)) => lost(&reason),
        Err(Break::Hostile(what)) => ServerEvent::Hostile { peer, what },
    });
}

struct Connection<'a> {
    host: &'a Host<'a>,
    link: Link,
    dialect: Dialect,
    since_ns: i64,
}

/// A two-way session that was accepted.
struct TwoWay {
    reflector: Reflector,
    timeout: Duration,
    counts: Counts,
    _place: Place,
}

impl Connection<'_> {
    fn limits(&self) -> &Limits {
        &self.host.options.limits
    }

    fn due(&self) -> Instant {
        Instant::now() + self.limits().silence
    }

    fn serve(&mut self) -> Result<(), Break> {
        let (silence, stop) = (self.limits().silence, self.host.stop);
        let mode = greet(&mut self.link, silence, stop, self.since_ns)?;
        if mode != quaver_abi::wire::owamp::MODE_UNAUTHENTICATED {
            let reason = format!("chose mode {mode}, and only the unauthenticated mode is served");
            (self.host.tell)(ServerEvent::Refused { peer: self.link.peer, reason });
            return Ok(());
        }
        match self.dialect {
            Dialect::Twamp => self.two_way(),
            Dialect::Owamp => self.one_way(),
        }
    }

    fn one_way(&mut self) -> Result<(), Break> {
        let (mut sessions, mut kept, mut fetches) = (Vec::new(), Vec::new(), 0);
        loop {
            let block = self.command()?;
            match block[0] {
                command::REQUEST_SESSION => {
                    let asked: RequestSession = self.rest(block)?;
                    match self.one_way_session(asked)? {
                        Ok((session, port)) => {
                            self.answer(Ok(port), session.sid)?;
                            sessions.push(session);
                        }
                        Err(refused) => self.answer(Err(refused), [0; 16])?,
                    }
                }
                command::START_SESSIONS if !sessions.is_empty() => {
                    let _: Start = self.rest(block)?;
                    self.acknowledge()?;
                    sessions
                        .iter()
                        .for_each(|session: &OneWay| (self.host.tell)(session.started(&self.link)));
                    kept.extend(one_way::run(self.host, &mut self.link, std::mem::take(&mut sessions))?);
                }
                command::FETCH_SESSION if fetches < MOST_FETCHES => {
                    fetches += 1;
                    let asked: FetchSession = self.rest(block)?;
                    one_way::fetch(self.host, &mut self.link, &asked, &kept)?;
                }
                // None is under way: those that were only asked for are forgotten.
                command::STOP_SESSIONS => {
                    let due = self.due();
                    one_way::hear_stopped(&mut self.link, block, sessions.len(), due, self.host.stop)?;
                    sessions.clear();
                }
                other => {
                    return Err(Break::Hostile(format!(
                        "sent command {other}, which has no place in OWAMP-Control here"
                    )));
                }
            }
        }
    }

    /// Reads the schedule of a request, and accepts or refuses it.
    fn one_way_session(
        &mut self,
        mut asked: RequestSession,
    ) -> Result<Result<(OneWay, u16), Refused>, Break> {
        let count = asked.slots.get();
        if count > MOST_SLOTS {
            return Err(Break::Hostile(format!(
                "asked for a schedule of {count} slots; at most {MOST_SLOTS} here"
            )));
        }
        let mut slots = vec![Slot::new_zeroed(); count as usize];
        let mut hmac = [0; BLOCK_BYTES];
        let (due, stop) = (self.due(), self.host.stop);
        self.link.read(slots.as_mut_bytes(), due, stop)?;
        self.link.read(&mut hmac, due, stop)?;
        let accepted = self.check(&asked).and_then(|packet_bytes| {
            let sid = random();
            let mut session = OneWay::accept(self.host, &self.link, asked, slots, packet_bytes, sid)?;
            let port = session.port().map_err(|error| internal(&error))?;
            let ours = if asked.conf_sender == 1 { &mut asked.sender_port } else { &mut asked.receiver_port };
            *ours = port.into();
            asked.sid = session.sid;
            session.asked = asked;
            Ok((session, port))
        });
        Ok(accepted)
    }

    /// The first block of the next command; none when the peer has closed.
    fn command(&mut self) -> Result<[u8; BLOCK_BYTES], Break> {
        let mut block = [0; BLOCK_BYTES];
        let end = Instant::now() + self.limits().setup;
        self.link.read(&mut block, end, self.host.stop)?;
        Ok(block)
    }

    /// The rest of a message that begins with this block.
    fn rest<T: FromBytes + zerocopy::IntoBytes>(&mut self, block: [u8; BLOCK_BYTES]) -> Result<T, Break> {
        let mut message = T::new_zeroed();
        let octets = message.as_mut_bytes();
        octets[..BLOCK_BYTES].copy_from_slice(&block);
        let (end, stop) = (self.due(), self.host.stop);
        self.link.read(&mut octets[BLOCK_BYTES..], end, stop)?;
        Ok(message)
    }

    fn say<T: zerocopy::IntoBytes + zerocopy::Immutable>(&mut self, message: &T) -> Result<(), Break> {
        let end = self.due();
        Ok(self.link.say(message, end, self.host.stop)?)
    }

    fn two_way(&mut self) -> Result<(), Break> {
        let mut sessions = Vec::new();
        loop {
            let block = self.command()?;
            match block[0] {
                command::REQUEST_TW_SESSION => {
                    let asked: RequestSession = self.rest(block)?;
                    let answer = self.two_way_session(&asked).map(|(session, port)| {
                        sessions.push(session);
                        port
                    });
                    self.answer(answer, random())?;
                    if asked.slots.get() > 0 {
                        return Err(Break::Hostile("asked for a two-way session with a schedule".into()));
                    }
                }
                command::START_SESSIONS => {
                    let _: Start = self.rest(block)?;
                    self.acknowledge()?;
                    self.reflect(&std::mem::take(&mut sessions))?;
                }
                // None is under way: those that were only asked for are forgotten.
                command::STOP_SESSIONS => {
                    let _: Start = self.rest(block)?;
                    sessions.clear();
                }
                other => {
                    return Err(Break::Hostile(format!("sent command {other}, which TWAMP-Control has not")));
                }
            }
        }
    }

    /// Answers a request with the port, or with the reason for none, which goes to the log as well.
    fn answer(&mut self, answer: Result<u16, Refused>, sid: [u8; 16]) -> Result<(), Break> {
        let mut message = AcceptSession::new_zeroed();
        match answer {
            Ok(port) => (message.port, message.sid) = (port.into(), sid),
            Err(Refused { accept, sentence }) => {
                message.accept = accept;
                (self.host.tell)(ServerEvent::Refused { peer: self.link.peer, reason: sentence });
            }
        }
        self.say(&message)
    }

    fn acknowledge(&mut self) -> Result<(), Break> {
        let mut answer = Start::new_zeroed();
        answer.command_or_accept = accept::OK;
        self.say(&answer)
    }

    fn two_way_session(&self, asked: &RequestSession) -> Result<(TwoWay, u16), Refused> {
        let packet_bytes = self.check(asked)?;
        if asked.sender_port.get() < LEAST_PORT {
            return Err(unsupported(format!(
                "test packets from port {}, below {LEAST_PORT}",
                asked.sender_port
            )));
        }
        let per_second = self.limits().reflected_packets_per_second;
        let place = (self.host.admit)(Demand::of(per_second, packet_bytes, 0))?;
        let peer = at_port(self.link.peer, asked.sender_port.get());
        let here = at_port(self.link.local, asked.receiver_port.get());
        let opened = Reflector::open(here, peer, dscp(asked), per_second)
            .and_then(|reflector| Ok((reflector.port()?, reflector)));
        let (port, reflector) = opened.map_err(|error| internal(&error))?;
        let timeout = Duration::from_nanos(interval_ns(asked.timeout.get())).min(self.limits().silence);
        let flow =
            format!("reflects packets of {packet_bytes} bytes from {peer}, at most {per_second} a second");
        let (protocol, direction) = (Protocol::Twamp, Direction::Up);
        (self.host.tell)(ServerEvent::Started { peer: self.link.peer, protocol, direction, flow });
        Ok((TwoWay { reflector, timeout, counts: Counts::default(), _place: place }, port))
    }

    /// What must hold of any request. Gives the length of a test packet.
    fn check(&self, asked: &RequestSession) -> Result<u32, Refused> {
        let (here, there) = (self.link.local.ip(), self.link.peer.ip());
        if asked.ip_version & 15 != ip_version(there) {
            return Err(unsupported(
                "test packets of another version of IP than the control connection's".into(),
            ));
        }
        let (ours, theirs) = match (asked.command, asked.conf_receiver) {
            (command::REQUEST_SESSION, 0) => (asked.sender_address, asked.receiver_address),
            _ => (asked.receiver_address, asked.sender_address),
        };
        let is = |octets: [u8; 16], address| octets == [0; 16] || octets == address_octets(address);
        // Whoever holds the control connection has shown that its address is its own; no other has.
        if !is(theirs, there) || !is(ours, here) {
            return Err(unsupported(
                "test packets between other addresses than the control connection's".into(),
            ));
        }
        if asked.type_p.get() >> 30 != 0 {
            return Err(unsupported("a Type-P descriptor that is no DSCP".into()));
        }
        let packet_bytes = asked.padding.get().saturating_add(LEAST_TEST_BYTES as u32);
        let most = self.limits().packet_bytes;
        if packet_bytes > most {
            let sentence = format!("packets of {packet_bytes} bytes; at most {most} here");
            return Err(Refused { accept: accept::PERMANENT_LIMIT, sentence });
        }
        Ok(packet_bytes)
    }

    /// Reflects until the peer stops the sessions, and for their time-out after that.
    fn reflect(&mut self, sessions: &[TwoWay]) -> Result<(), Break> {
        let over = AtomicBool::new(false);
        let outcome = std::thread::scope(|scope| {
            for session in sessions {
                let (reflector, counts, over) = (&session.reflector, &session.counts, &over);
                let work = move || reflector.run(over, counts);
                let thread = std::thread::Builder::new().name("quaver-reflect".into()).stack_size(1 << 19);
                if let Err(error) = thread.spawn_scoped(scope, work) {
                    over.store(true, Ordering::Relaxed);
                    return Err(Break::Lost(format!("no thread for its reflector: {error}")));
                }
            }
            let outcome = self.until_stopped(sessions);
            if outcome.is_ok() {
                let longest = sessions.iter().map(|session| session.timeout).max().unwrap_or_default();
                let end = Instant::now() + longest;
                while Instant::now() < end && !self.host.stop.load(Ordering::Relaxed) {
                    std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
                }
            }
            over.store(true, Ordering::Relaxed);
            outcome
        });
        for session in sessions {
            let packets = session.counts.reflected.load(Ordering::Relaxed);
            (self.host.tell)(ServerEvent::Ended { peer: self.link.peer, direction: Direction::Up, packets });
            let refused = session.counts.refused.load(Ordering::Relaxed);
            if refused > 0 {
                let reason = format!("{refused} packets, above the rate of a session or too short");
                (self.host.tell)(ServerEvent::Refused { peer: self.link.peer, reason });
            }
        }
        outcome
    }

    fn until_stopped(&mut self, sessions: &[TwoWay]) -> Result<(), Break> {
        let count = |session: &TwoWay| session.counts.reflected.load(Ordering::Relaxed);
        let (mut reflected, mut heard) = (0, Instant::now());
        let end = Instant::now() + self.limits().duration;
        while !self.link.wait(LOOK) {
            let now = Instant::now();
            let all: u64 = sessions.iter().map(count).sum();
            if all != reflected {
                (reflected, heard) = (all, now);
            }
            if self.host.stop.load(Ordering::Relaxed) {
                return Err(Break::Link(LinkError::Stopped));
            }
            if now >= end || now - heard >= REFLECTOR_WAIT {
                return Err(Break::Lost("its sessions lasted too long, or nothing came".into()));
            }
        }
        let mut message = [0; 2 * BLOCK_BYTES];
        let end = self.due();
        self.link.read(&mut message, end, self.host.stop)?;
        match StopSessions::read_from_prefix(&message) {
            Ok((stop, _)) if stop.command == command::STOP_SESSIONS => Ok(()),
            _ => Err(Break::Hostile(format!("sent command {} while its test ran", message[0]))),
        }
    }
}
