//! The control connection: whole messages in and out, with deadlines, numbers and codes.

mod link;

pub(super) use link::with_interface;

use super::auth::{Key, MessageKey, SessionKeys};
use super::error::PathError;
use super::hosts::Side;
use super::message::{Body, Message};
use quaver_abi::wire::extension::{CODE_BYTES, ExtensionError, HEADER_BYTES, Header, Kind, NONCE_BYTES};
use quaver_abi::wire::jitlat::{self, Command, WORKORDER_BYTES, Workorder};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest wait without a look at the stop flag.
pub(super) const LONGEST_WAIT: Duration = Duration::from_millis(50);
/// Most bytes that wait to be understood; more stay with the kernel, so that the peer has to wait.
const MOST_INPUT: usize = 1 << 18;
/// Whoever takes fewer bytes a second than this is not waited for.
const LEAST_OCTETS_PER_SECOND: u64 = 8_000;
/// A peer that vanished without a word is noticed after so long, and as long after bytes that it did not confirm.
const VANISHED: Duration = Duration::from_secs(90);
/// Closing waits so long for the peer to have read everything.
const PARTING: Duration = Duration::from_secs(1);
/// And takes so many bytes from it meanwhile.
const MOST_PARTING_BYTES: usize = 1 << 16;

/// Why there is no message.
#[derive(Debug, thiserror::Error)]
pub(super) enum ControlError {
    #[error("closed the connection")]
    Closed,
    #[error("sent nothing for too long")]
    TimedOut,
    #[error("was left on request")]
    Stopped,
    #[error("sent {0}")]
    Extension(#[from] ExtensionError),
    #[error("sent what is no workorder: {0}")]
    Workorder(#[from] jitlat::DecodeError),
    #[error("sent message {got} where {expected} was due")]
    Number { expected: u64, got: u64 },
    #[error("sent a message without the right code of the key")]
    Code,
    #[error("cannot be reached: {0}")]
    Io(#[from] std::io::Error),
}

impl ControlError {
    /// Whether the peer, not the network, is to blame.
    pub(super) fn is_hostile(&self) -> bool {
        matches!(self, Self::Extension(_) | Self::Workorder(_) | Self::Number { .. } | Self::Code)
    }

    /// For a client that measured nothing yet.
    pub(super) fn into_error(
        self,
        peer: SocketAddr,
        waiting_for: &'static str,
        waited: Duration,
    ) -> PathError {
        match self {
            Self::Closed => PathError::Closed { peer, phase: waiting_for },
            Self::TimedOut => PathError::TimedOut { peer, seconds: waited.as_secs(), waiting_for },
            Self::Stopped => PathError::Interrupted,
            Self::Code => PathError::KeyWrong { server: peer },
            Self::Io(source) => PathError::os(format!("control connection with {peer}"), source),
            other => PathError::Protocol { peer, what: other.to_string() },
        }
    }
}

/// What a peer said.
#[derive(Debug)]
pub(super) enum Incoming {
    /// Jitlat.
    Workorder(Workorder),
    /// The extension.
    Message(Message),
}

/// A control connection.
pub(super) struct Control {
    socket: TcpStream,
    side: Side,
    peer: SocketAddr,
    local: SocketAddr,
    input: Vec<u8>,
    /// Bytes of `input` that have been understood.
    understood: usize,
    closed: bool,
    raw: bool,
    /// Nothing that the peer says matters any more.
    deaf: bool,
    /// A message went out in part: what is said now would be taken for its rest.
    cut: bool,
    keys: Option<SessionKeys>,
    /// The peer has shown a right code.
    proved: bool,
    stop: Option<Arc<AtomicBool>>,
    sent: u64,
    heard: u64,
}

/// How long so many bytes may take: `silence`, and their time at the least rate.
pub(super) fn patience(octets: u64, silence: Duration) -> Duration {
    silence + Duration::from_millis(octets.saturating_mul(1_000) / LEAST_OCTETS_PER_SECOND)
}

/// This host's address at another port; a link-local one keeps its interface.
pub(super) fn at_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

/// Whether two addresses are of one host: link-local ones also of one interface.
pub(super) fn same_host(a: SocketAddr, b: SocketAddr) -> bool {
    at_port(a, 0) == at_port(b, 0)
}

impl Control {
    /// `side` is this end's.
    ///
    /// # Errors
    /// When an option is refused, or the connection has ended already.
    pub(super) fn new(socket: TcpStream, side: Side) -> std::io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        keep_alive(&socket);
        let (peer, local) = (socket.peer_addr()?, with_interface(socket.local_addr()?));
        Ok(Self {
            socket,
            side,
            peer,
            local,
            input: Vec::new(),
            understood: 0,
            closed: false,
            raw: false,
            deaf: false,
            cut: false,
            keys: None,
            proved: false,
            stop: None,
            sent: 0,
            heard: 0,
        })
    }

    /// Writing ends, too, when this is set.
    pub(super) fn heed(&mut self, stop: Arc<AtomicBool>) {
        self.stop = Some(stop);
    }

    /// Listens no more, whatever comes.
    pub(super) fn deafen(&mut self) {
        self.deaf = true;
    }

    /// Whether a message may bear our code: a peer that has shown none would get material to guess the key from.
    pub(super) fn may_show_codes(&self) -> bool {
        self.keys.is_none() || self.proved
    }

    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }

    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    /// From now on messages bear codes.
    pub(super) fn authenticate(&mut self, key: &Key, hello: &[u8], challenge: &[u8]) {
        self.keys = Some(SessionKeys::derive(key, hello, challenge));
    }

    pub(super) fn keys(&self) -> Option<&SessionKeys> {
        self.keys.as_ref()
    }

    /// Whether messages may still come: not when bytes of samples follow, and not when nobody listens.
    pub(super) fn is_listening(&self) -> bool {
        !self.raw && !self.deaf
    }

    /// Waits until there is something to read, `wake` is readable, or the time is over.
    pub(super) fn wait(&self, wake: Option<BorrowedFd<'_>>, longest: Duration) {
        if self.is_listening() && self.has_whole() {
            return;
        }
        let longest = Timespec { tv_sec: longest.as_secs() as i64, tv_nsec: longest.subsec_nanos().into() };
        let mut waited = Vec::with_capacity(2);
        if !self.closed && self.is_listening() {
            waited.push(PollFd::new(&self.socket, PollFlags::IN));
        }
        if let Some(wake) = &wake {
            waited.push(PollFd::new(wake, PollFlags::IN));
        }
        // Whatever it says, the caller tries again and hears of it there.
        let _ = poll(&mut waited, Some(&longest));
    }

    /// The next whole message, if it is there already.
    ///
    /// # Errors
    /// When the peer has closed, or says what is no message.
    pub(super) fn next(&mut self) -> Result<Option<Incoming>, ControlError> {
        if let Some(incoming) = self.understand()? {
            return Ok(Some(incoming));
        }
        if self.closed {
            return Err(ControlError::Closed);
        }
        self.read()?;
        match self.understand()? {
            None if self.closed => Err(ControlError::Closed),
            incoming => Ok(incoming),
        }
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// As [`Control::next`], and when `end` has come or `stop` is set.
    pub(super) fn hear(&mut self, end: Instant, stop: &AtomicBool) -> Result<Incoming, ControlError> {
        loop {
            if let Some(incoming) = self.next()? {
                return Ok(incoming);
            }
            if stop.load(Ordering::Relaxed) {
                return Err(ControlError::Stopped);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ControlError::TimedOut);
            }
            self.wait(None, left.min(LONGEST_WAIT));
        }
    }

    fn wait_for_octets(&self, longest: Duration) {
        let mut waited = [PollFd::new(&self.socket, PollFlags::IN)];
        let longest = Timespec { tv_sec: 0, tv_nsec: longest.min(LONGEST_WAIT).subsec_nanos().into() };
        let _ = poll(&mut waited, Some(&longest));
    }

    /// Bytes that follow a SAMPLES workorder, as they come; none when the peer has closed.
    ///
    /// # Errors
    /// When nothing comes for `silence`, or `stop` is set.
    pub(super) fn raw(
        &mut self,
        silence: Duration,
        stop: &AtomicBool,
    ) -> Result<Option<Vec<u8>>, ControlError> {
        self.raw = true;
        let end = Instant::now() + silence;
        loop {
            if self.pending().is_empty() && !self.closed {
                self.read()?;
            }
            let pending = self.pending().len();
            if pending > 0 {
                return Ok(Some(self.take(pending)));
            }
            if self.closed {
                return Ok(None);
            }
            if stop.load(Ordering::Relaxed) {
                return Err(ControlError::Stopped);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ControlError::TimedOut);
            }
            self.wait_for_octets(left);
        }
    }

    fn read(&mut self) -> Result<(), ControlError> {
        // Moved only when most of it is understood: a flood of small messages must not cost a copy each.
        if self.understood >= self.input.len() / 2 {
            self.input.drain(..self.understood);
            self.understood = 0;
        }
        let mut octets = [0u8; 1 << 14];
        while self.pending().len() < MOST_INPUT {
            match self.socket.read(&mut octets) {
                Ok(0) => {
                    self.closed = true;
                    break;
                }
                Ok(got) => self.input.extend_from_slice(&octets[..got]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::ConnectionReset => {
                    self.closed = true;
                    break;
                }
                Err(e) => {
                    self.closed = true;
                    return Err(e.into());
                }
            }
        }
        Ok(())
    }

    /// What has come and was not understood yet.
    fn pending(&self) -> &[u8] {
        &self.input[self.understood..]
    }

    fn take(&mut self, octets: usize) -> Vec<u8> {
        let taken = self.pending()[..octets].to_vec();
        self.understood += octets;
        taken
    }

    /// Whether there is something to understand without reading more: a message, or what is none.
    fn has_whole(&self) -> bool {
        let Some(start) = self.pending().first_chunk::<HEADER_BYTES>() else { return false };
        let body_bytes = Header::from_octets(start).map_or(0, |header| header.body_bytes as usize);
        self.pending().len() >= HEADER_BYTES + body_bytes
    }

    fn understand(&mut self) -> Result<Option<Incoming>, ControlError> {
        let Some(start) = self.pending().first_chunk::<HEADER_BYTES>().filter(|_| !self.raw) else {
            return Ok(None);
        };
        if !start.starts_with(&(Command::Extend as u32).to_be_bytes()) {
            let workorder = Workorder::from_octets(start)?;
            self.understood += WORKORDER_BYTES;
            self.raw = workorder.command == Command::Samples;
            return Ok(Some(Incoming::Workorder(workorder)));
        }
        let header = Header::from_octets(start)?;
        let whole = HEADER_BYTES + header.body_bytes as usize;
        if self.pending().len() < whole {
            return Ok(None);
        }
        let octets = self.take(whole);
        self.open(&header, octets).map(|message| Some(Incoming::Message(message)))
    }

    /// Checks number and code.
    fn open(&mut self, header: &Header, mut octets: Vec<u8>) -> Result<Message, ControlError> {
        if header.number != self.heard {
            return Err(ControlError::Number { expected: self.heard, got: header.number });
        }
        self.heard += 1;
        if let Some(keys) = &self.keys {
            let key = self.incoming_key(keys);
            let code_at = octets.len() - if header.coded { CODE_BYTES } else { 0 };
            let (start, rest) = octets.split_at(HEADER_BYTES);
            let right = header.coded && {
                let (body, code) = rest.split_at(code_at - HEADER_BYTES);
                key.verify(header.number, start, body, code)
            };
            if !right {
                // A server that could not verify our code cannot make one either; all that this may do is end.
                let may_refuse = self.side == Side::Client && header.kind == Kind::Refuse && !header.coded;
                return if may_refuse { Ok(Message::new(*header, octets)) } else { Err(ControlError::Code) };
            }
            self.proved = true;
            octets.truncate(code_at);
        } else if header.coded {
            return Err(ControlError::Code);
        }
        Ok(Message::new(*header, octets))
    }

    fn incoming_key<'a>(&self, keys: &'a SessionKeys) -> &'a MessageKey {
        if self.side == Side::Client { &keys.server } else { &keys.client }
    }

    /// Says HELLO; its bytes, for the keys.
    ///
    /// # Errors
    /// As [`Control::write`].
    pub(super) fn say_hello(
        &mut self,
        nonce: [u8; NONCE_BYTES],
        silence: Duration,
    ) -> Result<Vec<u8>, ControlError> {
        let header = Header { kind: Kind::Hello, body_bytes: 0, number: self.sent, coded: false, nonce };
        self.sent += 1;
        let octets = header.to_octets().to_vec();
        self.write(&octets, silence)?;
        Ok(octets)
    }

    /// Says a message; its bytes.
    ///
    /// # Errors
    /// As [`Control::write`].
    pub(super) fn say(&mut self, kind: Kind, body: Body, silence: Duration) -> Result<Vec<u8>, ControlError> {
        let octets = self.compose(kind, body);
        self.write(&octets, silence)?;
        Ok(octets)
    }

    /// Says a message, all of it before `end`.
    ///
    /// # Errors
    /// As [`Control::write`].
    pub(super) fn say_by(&mut self, kind: Kind, body: Body, end: Instant) -> Result<(), ControlError> {
        let octets = self.compose(kind, body);
        self.write_by(&octets, end)
    }

    fn compose(&mut self, kind: Kind, body: Body) -> Vec<u8> {
        let mut body = body.into_octets();
        let coded = self.keys.is_some();
        let body_bytes = (body.len() + if coded { CODE_BYTES } else { 0 }) as u32;
        let header = Header { kind, body_bytes, number: self.sent, coded, nonce: [0; NONCE_BYTES] };
        let start = header.to_octets();
        if let Some(keys) = &self.keys {
            let key = if self.side == Side::Client { &keys.client } else { &keys.server };
            let code = key.code(self.sent, &start, &body);
            body.extend_from_slice(&code);
        }
        self.sent += 1;
        [&start[..], &body].concat()
    }

    /// Says REFUSE without a code: a peer that has not shown a right one is shown none.
    pub(super) fn say_uncoded_refusal(&mut self, body: Body, silence: Duration) {
        self.keys = None;
        let _ = self.say(Kind::Refuse, body, silence);
    }

    /// Says a workorder.
    ///
    /// # Errors
    /// As [`Control::write`].
    pub(super) fn say_workorder(
        &mut self,
        workorder: &Workorder,
        silence: Duration,
    ) -> Result<(), ControlError> {
        self.write(&workorder.to_octets(), silence)
    }

    /// Writes all bytes within `silence` and their time at the least rate.
    ///
    /// # Errors
    /// When the peer does not take them in that time, or is gone, or the flag that is heeded is set meanwhile.
    pub(super) fn write(&mut self, octets: &[u8], silence: Duration) -> Result<(), ControlError> {
        self.write_by(octets, Instant::now() + patience(octets.len() as u64, silence))
    }

    /// Writes all bytes before `end`.
    ///
    /// # Errors
    /// As [`Control::write`].
    pub(super) fn write_by(&mut self, octets: &[u8], end: Instant) -> Result<(), ControlError> {
        if self.cut {
            return Err(ControlError::Closed);
        }
        let outcome = self.write_all(octets, end);
        self.cut = outcome.is_err();
        outcome
    }

    fn write_all(&mut self, mut octets: &[u8], end: Instant) -> Result<(), ControlError> {
        while !octets.is_empty() {
            match self.socket.write(octets) {
                Ok(0) => return Err(ControlError::Closed),
                Ok(taken) => octets = &octets[taken..],
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    if self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                        return Err(ControlError::Stopped);
                    }
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(ControlError::TimedOut);
                    }
                    let mut waited = [PollFd::new(&self.socket, PollFlags::OUT)];
                    let left = left.min(LONGEST_WAIT);
                    let longest = Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
                    let _ = poll(&mut waited, Some(&longest));
                }
                Err(e) if matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                    return Err(ControlError::Closed);
                }
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// Closes this end, and waits a little for the other, so that what was said last is not lost to bytes that
    /// nobody read.
    pub(super) fn part(mut self) {
        if self.closed || self.socket.shutdown(Shutdown::Write).is_err() {
            return;
        }
        let end = Instant::now() + PARTING;
        let (mut taken, mut octets) = (0, [0u8; 4096]);
        while taken < MOST_PARTING_BYTES {
            match self.socket.read(&mut octets) {
                Ok(0) => return,
                Ok(got) => taken += got,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return;
                    }
                    self.wait_for_octets(left);
                }
                Err(_) => return,
            }
        }
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The peer is asked for a sign of life after a minute, three times; so also one that vanished with bytes of ours
/// under way is noticed in time. The price is one empty segment a minute while a long test runs.
fn keep_alive(socket: &TcpStream) {
    let times = socket2::TcpKeepalive::new()
        .with_time(Duration::from_secs(60))
        .with_interval(Duration::from_secs(10))
        .with_retries(3);
    // Without it, the time-outs of the test find out later.
    let socket = socket2::SockRef::from(socket);
    let _ = socket.set_tcp_keepalive(&times).and_then(|()| socket.set_tcp_user_timeout(Some(VANISHED)));
}

#[cfg(test)]
mod tests;
