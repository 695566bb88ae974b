//! A session: what one peer may say, when, and what it gets.

use super::Shared;
use super::break_off::Break;
use super::door::party;
use super::lobby::Waiting;
use super::recording::Recording;
use super::turns::{Entry, Turn};
use crate::control::{Control, Incoming, LONGEST_WAIT, at_port, same_host};
use crate::event::ServerEvent;
use crate::limits::{Demand, Limits};
use crate::message::Body;
use crate::outcome::Protocol;
use quaver_abi::wire::extension::{COOKIE_BYTES, Kind, Refusal, VERSION};
use quaver_abi::wire::jitlat::{Command, Workorder};
use quaver_arrivals::path::direction::Direction;
use quaver_path_flow::{TestListener, TestSocket};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

/// A test connection has so long to say its cookie; another one may be waiting behind it.
const ECHO_PATIENCE: Duration = Duration::from_secs(10);

/// A session and all that it may use.
pub(super) struct Session<'a> {
    pub(super) shared: &'a Shared,
    pub(super) control: Control,
    pub(super) test_port: u16,
    events: &'a Sender<ServerEvent>,
    /// When the test must have begun, until it has; time in the queue does not count.
    setup_ends: Option<Instant>,
    pub(super) probes: u32,
    /// Whether the peer speaks the extension.
    pub(super) extended: bool,
    /// Offsets that the peer may send while it waits.
    pub(super) recording: Option<Recording>,
}

impl<'a> Session<'a> {
    /// One that begins now.
    pub(super) fn new(
        shared: &'a Shared,
        control: Control,
        test_port: u16,
        events: &'a Sender<ServerEvent>,
    ) -> Self {
        let setup_ends = Some(Instant::now() + shared.options.limits.setup);
        Self { shared, control, test_port, events, setup_ends, probes: 0, extended: false, recording: None }
    }

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

    /// This host, as the peer sees it, at another port.
    pub(super) fn here(&self, port: u16) -> SocketAddr {
        at_port(self.control.local(), port)
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

    pub(super) fn count_probe(&mut self) -> Result<(), Break> {
        self.probes += 1;
        let most = self.limits().probes;
        if self.probes > most {
            return Err(Break::No((Refusal::Count, format!("more than {most} round-trip probes"))));
        }
        Ok(())
    }

    /// Waits for this session's turn.
    pub(super) fn turn(&mut self, demand: Demand, wait: bool) -> Result<Turn, Break> {
        let ticket = match self.shared.turns.enter(party(self.peer_ip()), demand, wait) {
            Entry::Now(turn) => return Ok(turn),
            Entry::Wait(ticket) => ticket,
            Entry::Enough => {
                let most = self.limits().tests_per_peer;
                let tests = if most == 1 { "test" } else { "tests" };
                let sentence = format!(
                    "your host has {most} {tests} under way or in the queue already, and no more are allowed; \
                     try again when one is over"
                );
                return Err(Break::No((Refusal::Busy, sentence)));
            }
            Entry::TooMuch => {
                let share = self.limits().budget.share();
                let sentence = format!(
                    "one peer has at most {} packets/s, {} bytes/s and {} samples here",
                    share.packets_per_second, share.bytes_per_second, share.rows
                );
                return Err(Break::No((Refusal::Rate, sentence)));
            }
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

    /// Waits a moment in which the peer has nothing to say but the offsets of its recording.
    pub(super) fn idle(&mut self, longest: Option<Duration>) -> Result<(), Break> {
        if self.shared.stop.load(Ordering::Relaxed) {
            return Err(Break::Ending);
        }
        self.control.wait(None, longest.unwrap_or(LONGEST_WAIT));
        match self.control.next()? {
            None => Ok(()),
            Some(Incoming::Message(message)) if matches!(message.kind(), Kind::Stop | Kind::Bye) => {
                let began = self.setup_ends.is_none();
                let when = if began { "left before its next flow" } else { "left before its test began" };
                Err(Break::Lost(when.into()))
            }
            Some(Incoming::Message(message)) if message.kind() == Kind::Offsets => {
                let recording = self.recording.as_mut().filter(|recording| !recording.is_whole());
                let unasked = || Break::Hostile("sent offsets that nobody waits for".into());
                recording.ok_or_else(unasked)?.take(&message)
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
                    let socket = TestSocket::udp(self.here(self.test_port), true)?;
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
        let (peer, end) = (self.peer(), Instant::now() + self.silence());
        loop {
            let stop = &self.shared.stop;
            let came = listener.accept(Duration::from_millis(20), stop, |from| same_host(from, peer))?;
            match (came, echo) {
                (Some(socket), None) => return Ok(socket),
                (Some(socket), Some(echo)) if self.says(&socket, echo)? => return Ok(socket),
                _ => self.wait_for_arrival(end, Duration::ZERO)?,
            }
        }
    }

    /// Whether the first bytes of a test connection are the echo. No more of it is taken: the flow follows.
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

    pub(super) fn wait_for_arrival(&mut self, end: Instant, longest: Duration) -> Result<(), Break> {
        if Instant::now() >= end {
            let sentence = "nothing of this test came to the test port in time: check that firewalls pass it";
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
    pub(super) fn end(mut self, outcome: Result<(), Break>) {
        let peer = self.peer();
        let (event, answer) = match outcome {
            Ok(()) => (ServerEvent::Closed { peer }, None),
            Err(broken) => broken.words(peer, self.extended),
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
        let uncoded = refusal == Refusal::Key || !self.control.may_show_codes();
        if uncoded || (refusal == Refusal::Version && !self.extended) {
            self.control.say_uncoded_refusal(body, PATIENCE);
        } else if self.extended {
            let _ = self.control.say(Kind::Refuse, body, PATIENCE);
        } else {
            let _ = self.control.say_workorder(&Workorder::new(Command::Nak), PATIENCE);
        }
    }
}
