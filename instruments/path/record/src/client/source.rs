//! A source at the other host, started and ended from here, for a sink that is open already.

use super::open_way::OpenWay;
use super::{Test, extended};
use crate::auth::Key;
use crate::control;
use crate::control::{Control, ControlError, Incoming, LONGEST_WAIT, at_port};
use crate::error::PathError;
use crate::event::Progress;
use crate::message::{Body, Message};
use crate::options::ClientOptions;
use crate::source::{SourceRequest, SourceSummary};
use quaver_abi::wire::extension::{CookieElement, Kind, Refusal};
use quaver_host::route::RouteSocket;
use rustix::net::{SendFlags, send};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Where to ask for a source.
#[derive(Clone, Debug)]
pub struct SourceClient {
    /// The server's control port.
    pub server: SocketAddr,
    /// Pre-shared key. The server must have the same.
    pub key: Option<Key>,
    /// How long to wait in the server's queue; zero: do not wait.
    pub queue_patience: Duration,
    /// How long to wait for the connection, and for each answer.
    pub answer_timeout: Duration,
}

impl SourceClient {
    /// Index of the interface that this host's packets to the server leave by; the stream most likely comes in
    /// there. None where the kernel does not tell.
    pub fn interface(&self) -> Option<u32> {
        RouteSocket::open().and_then(|mut route| route.interface_towards(self.server.ip())).ok()
    }
}

/// A source at the other host. Dropping it ends the stream, as the server sees the control connection close.
pub struct RemoteSource {
    control: Control,
    cookie: CookieElement,
    patience: Duration,
    way: Option<OpenWay>,
    /// What the source said when it ended by itself.
    sent: Option<SourceSummary>,
    lost: Option<String>,
}

/// Asks a server for a stream to this host, through its queue if there is one. Nothing is sent to anybody before the
/// sink's socket has met the server ([`RemoteSource::meet`]). `watch` hears of the queue.
///
/// # Errors
/// When the server is not there, refuses, or knows nothing of sources.
pub fn request_source(
    client: &SourceClient,
    request: &SourceRequest,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Progress<'_>),
) -> Result<RemoteSource, PathError> {
    if request.dscp > 63 {
        return Err(PathError::Options("a DSCP is at most 63: give a smaller one".into()));
    }
    request.shape.profile().map_err(|error| PathError::Options(error.to_string()))?;
    let options = ClientOptions {
        key: client.key.clone(),
        queue_patience: client.queue_patience,
        answer_timeout: client.answer_timeout,
        ..ClientOptions::new(client.server)
    };
    let mut test = Test::connect(&options, stop, watch)?;
    extended::hello(&mut test)?;
    let cookies = extended::request_source(&mut test, request).map_err(without_sources)?;
    let [cookie] = cookies[..] else {
        return Err(test.protocol_error("accepted another number of flows"));
    };
    let (control, patience) = (test.control, options.answer_timeout);
    Ok(RemoteSource { control, cookie, patience, way: None, sent: None, lost: None })
}

/// A server that was made before sources were takes the request for nonsense.
fn without_sources(error: PathError) -> PathError {
    match error {
        PathError::Refused { server, refusal: Refusal::Malformed | Refusal::Unsupported, sentence } => {
            let sentence =
                format!("it does not send streams ({sentence}); bring it to the release of this program");
            PathError::Refused { server, refusal: Refusal::Unsupported, sentence }
        }
        other => other,
    }
}

impl RemoteSource {
    /// The server's control port.
    pub fn server(&self) -> SocketAddr {
        self.control.peer()
    }

    /// Address of this host that the server knows, at `port`. The sink's socket has to have it, as the server sends
    /// nowhere else.
    pub fn sink_address(&self, port: u16) -> SocketAddr {
        control::at_port(self.control.local(), port)
    }

    /// Where the stream will come from.
    ///
    /// # Errors
    /// When the server named an impossible port.
    pub fn sender(&self) -> Result<SocketAddr, PathError> {
        let port = u16::try_from(self.cookie.test_port.get()).ok().filter(|port| *port != 0);
        let port = port.ok_or_else(|| self.protocol_error("named an impossible test port"))?;
        Ok(at_port(self.server(), port))
    }

    /// Index of the interface that this host's packets to the server leave by; the stream most likely comes in
    /// there. None where the kernel does not tell.
    pub fn interface(&self) -> Option<u32> {
        RouteSocket::open().and_then(|mut route| route.interface_towards(self.server().ip())).ok()
    }

    /// Echoes the cookie from the sink's own `socket`, which is connected to [`Self::sender`], until the server has
    /// seen it. The address that the server saw.
    ///
    /// # Errors
    /// When the server never sees it, refuses or goes away, or `stop` is set.
    pub fn meet(&mut self, socket: impl AsFd, stop: &AtomicBool) -> Result<SocketAddr, PathError> {
        let waiting_for = "for the server to see the cookie on its test port";
        let echo = self.cookie.echo();
        let (end, mut again, mut wait) =
            (Instant::now() + self.patience, Instant::now(), extended::COOKIE_AGAIN);
        loop {
            let now = Instant::now();
            if now >= again {
                // Refusals of earlier ones (ICMP) are no reason to stop: the server's port may just be opening.
                let _ = send(&socket, &echo, SendFlags::DONTWAIT);
                again = now + wait;
                wait *= 2;
            }
            let until = end.min(again.max(now + Duration::from_millis(1))).min(now + LONGEST_WAIT);
            match self.control.hear(until, stop) {
                Ok(Incoming::Message(message)) if message.kind() == Kind::Ready => {
                    self.way = OpenWay::new(&socket, &self.cookie, now).ok();
                    let bad = |e| self.protocol_error(format!("sent {e}"));
                    return message.address().map_err(bad);
                }
                Ok(incoming) => return Err(self.unexpected(incoming, "answered the cookie with")),
                Err(ControlError::TimedOut) if now < end => {}
                Err(error) => return Err(error.into_error(self.server(), waiting_for, self.patience)),
            }
        }
    }

    /// Starts the stream: whoever receives it should be ready.
    ///
    /// # Errors
    /// When the server cannot send as asked, or goes away.
    pub fn start(&mut self, stop: &AtomicBool) -> Result<(), PathError> {
        let waiting_for = "for the stream to begin";
        let (server, patience) = (self.server(), self.patience);
        let failed = |error: ControlError| error.into_error(server, waiting_for, patience);
        self.control.say(Kind::Start, Body::new(), patience).map_err(failed)?;
        match self.control.hear(Instant::now() + patience, stop).map_err(failed)? {
            Incoming::Message(message) if message.kind() == Kind::Go => Ok(()),
            other => Err(self.unexpected(other, "answered START with")),
        }
    }

    /// Whether the stream has ended before it was told to, or the server has gone. Returns at once; asks nobody. Keeps the
    /// way of the stream open, so ask now and then.
    pub fn has_ended(&mut self) -> bool {
        self.way.iter_mut().for_each(|way| way.tick(Instant::now()));
        if self.sent.is_none() && self.lost.is_none() {
            match self.control.next() {
                Ok(None) => {}
                Ok(Some(incoming)) => self.take(incoming),
                Err(error) => self.lose(&error.to_string()),
            }
        }
        self.sent.is_some() || self.lost.is_some()
    }

    /// Ends the stream; what its source says of it, or a sentence that tells why it says nothing.
    ///
    /// # Errors
    /// When the server went away or broke off, then or before.
    pub fn finish(mut self) -> Result<SourceSummary, String> {
        let never = AtomicBool::new(false);
        if !self.has_ended()
            && let Err(error) = self.control.say(Kind::Stop, Body::new(), self.patience)
        {
            self.lose(&error.to_string());
        }
        let end = Instant::now() + self.patience;
        while self.sent.is_none() && self.lost.is_none() {
            match self.control.hear(end, &never) {
                Ok(incoming) => self.take(incoming),
                Err(error) => self.lose(&error.to_string()),
            }
        }
        if let Some(lost) = self.lost {
            return Err(lost);
        }
        // A server that does not hear it closes all the same.
        let _ = self.control.say(Kind::Bye, Body::new(), Duration::from_secs(2));
        Ok(self.sent.unwrap_or_default())
    }

    fn take(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Message(message) if message.kind() == Kind::Sent => match SourceSummary::read(&message)
            {
                Ok(summary) => self.sent = Some(summary),
                Err(error) => self.lose(&format!("sent {error}")),
            },
            Incoming::Message(message) if message.kind() == Kind::Refuse => {
                self.lose(&format!("ended the stream: {}", message.refusal().1));
            }
            Incoming::Message(message) => {
                self.lose(&format!("said {} while the stream ran", message.kind().name()));
            }
            Incoming::Workorder(_) => self.lose("fell back to workorders"),
        }
    }

    fn lose(&mut self, what: &str) {
        self.lost = Some(format!("{} {what}", self.server()));
    }

    fn protocol_error(&self, what: impl Into<String>) -> PathError {
        PathError::Protocol { peer: self.server(), what: what.into() }
    }

    fn unexpected(&self, incoming: Incoming, did: &str) -> PathError {
        match incoming {
            Incoming::Message(message) if message.kind() == Kind::Refuse => self.refused(&message),
            Incoming::Message(message) => self.protocol_error(format!("{did} {}", message.kind().name())),
            Incoming::Workorder(_) => self.protocol_error(format!("{did} a workorder")),
        }
    }

    fn refused(&self, message: &Message) -> PathError {
        let (server, (refusal, sentence)) = (self.server(), message.refusal());
        PathError::Refused { server, refusal, sentence }
    }
}

#[cfg(test)]
impl RemoteSource {
    /// Makes the echo wrong.
    pub(crate) fn spoil_cookie(&mut self) {
        self.cookie.cookie[0] ^= 1;
    }
}
