//! A session: what one peer may say, when, and what it gets.

use super::lobby::Waiting;
use super::turns::{Entry, Turn};
use super::{Shared, extended, legacy};
use crate::clock::realtime_ns;
use crate::path::control::{Control, ControlError, Incoming, LONGEST_WAIT};
use crate::path::event::ServerEvent;
use crate::path::flow::{FlowError, TestListener, TestSocket};
use crate::path::limits::{Limits, No};
use crate::path::message::Body;
use crate::path::outcome::{Direction, Protocol};
use quaver_abi::wire::extension::{COOKIE_BYTES, ExtensionError, Kind, Refusal, VERSION};
use quaver_abi::wire::jitlat::{Command, Workorder};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

/// A test connection has so long to say its cookie; another one may be waiting behind it.
const ECHO_PATIENCE: Duration = Duration::from_secs(10);

/// Why a session ends other than in order.
#[derive(Debug)]
pub(super) enum Break {
    /// The peer asked for what it may not have.
    No(No),
    /// The peer said what is no message, or not now.
    Hostile(String),
    /// The peer went away, or fell silent.
    Lost(String),
    /// The system failed.
    Failed(String),
    /// The server ends.
    Ending,
}

impl From<No> for Break {
    fn from(no: No) -> Self {
        Self::No(no)
    }
}

impl From<ControlError> for Break {
    fn from(error: ControlError) -> Self {
        match error {
            ControlError::Code => Self::No((Refusal::Key, "the key is missing or wrong".into())),
            ControlError::Extension(ExtensionError::Version(version)) => Self::No((
                Refusal::Version,
                format!("version {version} of the extension; here is version {VERSION}"),
            )),
            ControlError::Stopped => Self::Ending,
            error if error.is_hostile() => Self::Hostile(error.to_string()),
            error => Self::Lost(error.to_string()),
        }
    }
}

impl From<ExtensionError> for Break {
    fn from(error: ExtensionError) -> Self {
        Self::Hostile(format!("sent {error}"))
    }
}

impl From<FlowError> for Break {
    fn from(error: FlowError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// A session and all that it may use.
pub(super) struct Session<'a> {
    pub(super) shared: &'a Shared,
    pub(super) control: Control,
    pub(super) test_port: u16,
    events: &'a Sender<ServerEvent>,
    /// When the test must have begun, until it has; time in the queue does not count.
    setup_ends: Option<Instant>,
    probes: u32,
    /// Whether the peer speaks the extension.
    pub(super) extended: bool,
}

/// Runs a session to its end.
pub(super) fn run(shared: &Shared, control: Control, test_port: u16, events: &Sender<ServerEvent>) {
    let setup_ends = Some(Instant::now() + shared.options.limits.setup);
    let mut session = Session { shared, control, test_port, events, setup_ends, probes: 0, extended: false };
    let outcome = session.serve();
    session.end(outcome);
}

impl Session<'_> {
    pub(super) fn limits(&self) -> &Limits {
        &self.shared.options.limits
    }

    pub(super) fn silence(&self) -> Duration {
        self.limits().silence
    }

    pub(super) fn peer(&self) -> SocketAddr {
        self.control.peer()
    }

    /// The peer as it stands at the test port.
    pub(super) fn peer_ip(&self) -> IpAddr {
        self.peer().ip()
    }

    pub(super) fn tell(&self, event: ServerEvent) {
        // The log lives as long as the server.
        let _ = self.events.send(event);
        self.shared.wake();
    }

    /// The next message, not while packets flow.
    pub(super) fn hear(&mut self) -> Result<Incoming, Break> {
        let end = Instant::now() + self.silence();
        let end = self.setup_ends.map_or(end, |setup_ends| end.min(setup_ends));
        Ok(self.control.hear(end, &self.shared.stop)?)
    }

    fn serve(&mut self) -> Result<(), Break> {
        loop {
            match self.hear()? {
                Incoming::Workorder(workorder) => match workorder.command {
                    Command::RttProbe => self.probe(workorder)?,
                    Command::SendMe | Command::Sending => return legacy::serve(self, workorder),
                    other => return Err(Break::Hostile(format!("began with {}", other.name()))),
                },
                Incoming::Message(message) if message.kind() == Kind::Hello && self.probes == 0 => {
                    self.extended = true;
                    return extended::serve(self, &message);
                }
                Incoming::Message(message) => {
                    return Err(Break::Hostile(format!("began with {}", message.kind().name())));
                }
            }
        }
    }

    /// Answers a round-trip probe (Jitlat, annex A.2).
    fn probe(&mut self, mut workorder: Workorder) -> Result<(), Break> {
        workorder.set_t2_ns(realtime_ns());
        self.count_probe()?;
        Ok(self.control.say_workorder(&workorder, self.silence())?)
    }

    pub(super) fn count_probe(&mut self) -> Result<(), Break> {
        self.probes += 1;
        let most = self.limits().probes;
        if self.probes > most {
            return Err(Break::No((Refusal::Count, format!("more than {most} round-trip probes"))));
        }
        Ok(())
    }

    /// Waits for this session's turn.
    pub(super) fn turn(&mut self, wait: bool) -> Result<Turn, Break> {
        let ticket = match self.shared.turns.enter(wait) {
            Entry::Now(turn) => return Ok(turn),
            Entry::Wait(ticket) => ticket,
            Entry::Full => {
                let sentence = "other tests are under way; try again later";
                return Err(Break::No((Refusal::Busy, sentence.into())));
            }
        };
        let (since, mut told) = (Instant::now(), 0);
        loop {
            if let Some(turn) = ticket.turn() {
                self.setup_ends = self.setup_ends.map(|ends| ends + since.elapsed());
                return Ok(turn);
            }
            let place = ticket.place();
            if place != told {
                told = place;
                self.tell(ServerEvent::Queued { peer: self.peer(), place });
                if self.extended {
                    let body = Body::new().u32(quaver_abi::wire::extension::field::PLACE, place);
                    self.control.say(Kind::Queued, body, self.silence())?;
                }
            }
            if since.elapsed() >= self.limits().queue_wait {
                let sentence = "the tests before did not end in time; try again later";
                return Err(Break::No((Refusal::Busy, sentence.into())));
            }
            self.idle(None)?;
        }
    }

    /// Waits a moment in which the peer has nothing to say.
    fn idle(&mut self, longest: Option<Duration>) -> Result<(), Break> {
        if self.shared.stop.load(Ordering::Relaxed) {
            return Err(Break::Ending);
        }
        self.control.wait(None, longest.unwrap_or(LONGEST_WAIT));
        match self.control.next()? {
            None => Ok(()),
            Some(Incoming::Message(message)) if matches!(message.kind(), Kind::Stop | Kind::Bye) => {
                Err(Break::Lost("left before its test began".into()))
            }
            Some(_) => Err(Break::Hostile("spoke when it was to wait".into())),
        }
    }

    /// Waits for the peer at the UDP test port: a socket connected to where it came from.
    pub(super) fn datagram(
        &mut self,
        _waiting: Waiting<'_>,
        arriving: &Receiver<SocketAddr>,
    ) -> Result<TestSocket, Break> {
        self.shared.wake();
        let end = Instant::now() + self.silence();
        loop {
            match arriving.try_recv() {
                Ok(peer) => {
                    let here = SocketAddr::new(self.control.local().ip(), self.test_port);
                    let socket = TestSocket::udp(here, true)?;
                    socket.connect(peer)?;
                    return Ok(socket);
                }
                Err(TryRecvError::Disconnected) => return Err(Break::Ending),
                Err(TryRecvError::Empty) => self.wait_for_arrival(end, Duration::from_millis(5))?,
            }
        }
    }

    /// Waits for a test connection of the peer's host; with an echo to be said first, for one that says it.
    pub(super) fn connection(
        &mut self,
        listener: &TestListener,
        echo: Option<&[u8; COOKIE_BYTES]>,
    ) -> Result<TestSocket, Break> {
        let (peer, end) = (self.peer_ip(), Instant::now() + self.silence());
        loop {
            let stop = &self.shared.stop;
            let came = listener.accept(Duration::from_millis(20), stop, |from| from.ip() == peer)?;
            match (came, echo) {
                (Some(socket), None) => return Ok(socket),
                (Some(socket), Some(echo)) if self.says(&socket, echo)? => return Ok(socket),
                _ => self.wait_for_arrival(end, Duration::ZERO)?,
            }
        }
    }

    /// Whether the first octets of a test connection are the echo. No more of it is taken: the flow follows.
    fn says(&mut self, socket: &TestSocket, echo: &[u8; COOKIE_BYTES]) -> Result<bool, Break> {
        let end = Instant::now() + self.silence().min(ECHO_PATIENCE);
        let (mut said, mut octets) = (Vec::with_capacity(COOKIE_BYTES), [0u8; COOKIE_BYTES]);
        while said.len() < COOKIE_BYTES {
            match recv(socket, &mut octets[..COOKIE_BYTES - said.len()], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Ok(false),
                Ok((got, _)) => said.extend_from_slice(&octets[..got]),
                Err(Errno::AGAIN | Errno::INTR) if Instant::now() < end => {
                    self.idle(Some(Duration::from_millis(5)))?;
                }
                Err(_) => return Ok(false),
            }
        }
        Ok(said == echo)
    }

    fn wait_for_arrival(&mut self, end: Instant, longest: Duration) -> Result<(), Break> {
        if Instant::now() >= end {
            let sentence =
                "nothing of this test came to the test port in time: see that a firewall lets it through";
            return Err(Break::No((Refusal::Cookie, sentence.into())));
        }
        self.idle(Some(longest))
    }

    pub(super) fn started(&mut self, protocol: Protocol, direction: Direction, flow: String) {
        self.setup_ends = None;
        self.tell(ServerEvent::Started { peer: self.peer(), protocol, direction, flow });
    }

    pub(super) fn ended(&self, direction: Direction, packets: u64) {
        self.tell(ServerEvent::Ended { peer: self.peer(), direction, packets });
    }

    /// Tells peer and log how it ended, and closes.
    fn end(mut self, outcome: Result<(), Break>) {
        let peer = self.peer();
        let (event, answer) = match outcome {
            Ok(()) => (ServerEvent::Closed { peer }, None),
            Err(Break::No((refusal, sentence))) => {
                (ServerEvent::Refused { peer, reason: sentence.clone() }, Some((refusal, sentence)))
            }
            Err(Break::Hostile(what)) => {
                (ServerEvent::Hostile { peer, what: what.clone() }, Some((Refusal::Malformed, what)))
            }
            // Silence is answered with silence, but for the extension's reason.
            Err(Break::Lost(what)) => {
                let answer = self.extended.then(|| (Refusal::Timeout, what.clone()));
                (ServerEvent::BrokenOff { peer, reason: what }, answer)
            }
            Err(Break::Failed(what)) => {
                (ServerEvent::BrokenOff { peer, reason: what.clone() }, Some((Refusal::Failed, what)))
            }
            Err(Break::Ending) => {
                let what = String::from("the server ends");
                (ServerEvent::BrokenOff { peer, reason: what.clone() }, Some((Refusal::Ending, what)))
            }
        };
        self.tell(event);
        if let Some((refusal, sentence)) = answer {
            self.refuse(refusal, &sentence);
        }
        self.control.part();
    }

    fn refuse(&mut self, refusal: Refusal, sentence: &str) {
        // A refusal that cannot be written is of no use to anybody.
        const PATIENCE: Duration = Duration::from_secs(2);
        let body = Body::new().refusal(refusal, sentence).versions(VERSION, VERSION);
        if refusal == Refusal::Key || (refusal == Refusal::Version && !self.extended) {
            self.control.say_uncoded_refusal(body, PATIENCE);
        } else if self.extended {
            let _ = self.control.say(Kind::Refuse, body, PATIENCE);
        } else {
            let _ = self.control.say_workorder(&Workorder::new(Command::Nak), PATIENCE);
        }
    }
}
