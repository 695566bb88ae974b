//! How both ends meet: Greeting, Set-Up-Response, Server-Start.

use super::host::Break;
use super::link::{Link, LinkError};
use crate::auth::random;
use crate::dial::dial;
use crate::error::PathError;
use quaver_abi::wire::extension::Refusal;
use quaver_abi::wire::owamp::{
    Greeting, MODE_UNAUTHENTICATED, MODES_WITH_KEY, RequestSession, ServerStart, SetUpResponse, Start,
    accept, command,
};
use quaver_abi::wire::stamp::time::TimestampFormat;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

/// Rounds of the key's derivation that a server has to name (RFC 4656, section 3.1), though we derive none.
const LEAST_COUNT: u32 = 1_024;

/// A client's connection that has been greeted.
pub(super) struct Client<'a> {
    pub(super) link: Link,
    patience: Duration,
    pub(super) stop: &'a AtomicBool,
}

impl<'a> Client<'a> {
    /// Calls a server and agrees on unauthenticated mode.
    pub(super) fn meet(
        server: SocketAddr,
        patience: Duration,
        stop: &'a AtomicBool,
    ) -> Result<Self, PathError> {
        let socket = dial(server, patience, stop)?;
        let link = Link::new(socket).map_err(|e| PathError::connect(server, e))?;
        let mut client = Self { link, patience, stop };
        let greeting: Greeting = client.hear("with its greeting")?;
        match greeting.modes.get() {
            0 => return Err(client.refused("it serves no client at this address".to_owned())),
            modes if modes & MODE_UNAUTHENTICATED == 0 => {
                let sentence = if modes & MODES_WITH_KEY == 0 {
                    format!(
                        "its modes are {modes:#x}, of which the RFC knows none: does it speak OWAMP or TWAMP?"
                    )
                } else {
                    "it serves only clients with a key, and Quaver speaks the unauthenticated mode alone: allow \
                     \"open\" mode there"
                        .to_owned()
                };
                return Err(client.refused(sentence));
            }
            _ => {}
        }
        let mut choice = SetUpResponse::new_zeroed();
        choice.mode = MODE_UNAUTHENTICATED.into();
        client.say(&choice)?;
        let start: ServerStart = client.hear("with Server-Start")?;
        client.check(start.accept, "the connection")?;
        Ok(client)
    }

    pub(super) fn hear<T: FromBytes + IntoBytes>(&mut self, what: &'static str) -> Result<T, PathError> {
        let heard = self.link.hear(Instant::now() + self.patience, self.stop);
        heard.map_err(|error| error.of_client(self.link.peer, self.patience, what))
    }

    pub(super) fn say<T: IntoBytes + Immutable>(&mut self, message: &T) -> Result<(), PathError> {
        self.write(message.as_bytes())
    }

    pub(super) fn read(&mut self, octets: &mut [u8]) -> Result<(), PathError> {
        let read = self.link.read(octets, Instant::now() + self.patience, self.stop);
        read.map_err(|error| error.of_client(self.link.peer, self.patience, "with the records"))
    }

    pub(super) fn write(&mut self, octets: &[u8]) -> Result<(), PathError> {
        let said = self.link.write(octets, Instant::now() + self.patience, self.stop);
        said.map_err(|error| error.of_client(self.link.peer, self.patience, "when it was spoken to"))
    }

    /// What a server did that breaks a session off.
    pub(super) fn protocol(&self, broken: Break) -> PathError {
        match broken {
            Break::Link(error) => error.of_client(self.link.peer, self.patience, "with Stop-Sessions"),
            Break::Hostile(what) | Break::Lost(what) => PathError::Protocol { peer: self.link.peer, what },
        }
    }

    /// Lets the sessions begin.
    pub(super) fn start(&mut self) -> Result<(), PathError> {
        let mut start = Start::new_zeroed();
        start.command_or_accept = command::START_SESSIONS;
        self.say(&start)?;
        let answer: Start = self.hear("with Start-Ack")?;
        self.check(answer.command_or_accept, "to start the session")
    }

    /// Whether the server accepted `what`.
    pub(super) fn check(&self, value: u8, what: &str) -> Result<(), PathError> {
        match value {
            accept::OK => Ok(()),
            value => Err(self.refused(format!("{what}, {}", accept::words(value)))),
        }
    }

    pub(super) fn refused(&self, sentence: String) -> PathError {
        PathError::Refused { server: self.link.peer, refusal: Refusal::Unsupported, sentence }
    }
}

/// What a session between two addresses is asked for with.
pub(super) fn request(command: u8, sender: SocketAddr, receiver: SocketAddr, dscp: u8) -> RequestSession {
    let mut asked = RequestSession::new_zeroed();
    asked.command = command;
    asked.ip_version = super::link::ip_version(sender.ip());
    (asked.sender_port, asked.receiver_port) = (sender.port().into(), receiver.port().into());
    asked.sender_address = super::link::address_octets(sender.ip());
    asked.receiver_address = super::link::address_octets(receiver.ip());
    asked.type_p = (u32::from(dscp & 63) << 24).into();
    asked
}

/// Greets a client. Gives the mode that it chose.
pub(super) fn greet(
    link: &mut Link,
    patience: Duration,
    stop: &AtomicBool,
    since_ns: i64,
) -> Result<u32, LinkError> {
    let mut greeting = Greeting::new_zeroed();
    greeting.modes = MODE_UNAUTHENTICATED.into();
    (greeting.challenge, greeting.salt) = (random(), random());
    greeting.count = LEAST_COUNT.into();
    link.say(&greeting, Instant::now() + patience, stop)?;
    let choice: SetUpResponse = link.hear(Instant::now() + patience, stop)?;
    let mut start = ServerStart::new_zeroed();
    let mode = choice.mode.get();
    start.accept = if mode == MODE_UNAUTHENTICATED { accept::OK } else { accept::NOT_SUPPORTED };
    start.start_time = TimestampFormat::Ntp.encode(since_ns).into();
    // A client that wants no mode closes, and waits for no answer.
    if mode != 0 {
        link.say(&start, Instant::now() + patience, stop)?;
    }
    Ok(mode)
}
