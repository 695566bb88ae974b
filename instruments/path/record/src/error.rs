//! Why there is no measurement.

use quaver_path_flow::FlowError;
use std::io::{Error, ErrorKind};
use std::net::SocketAddr;

/// A path could not be measured, or a server not be run. A test that began and broke off is no error but a
/// [`super::TestOutcome`] that says so.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// Nobody there.
    #[error("connect to {server}: {source}{remedy}")]
    Connect {
        /// Who was called.
        server: SocketAddr,
        /// What the system said.
        source: Error,
        /// What to do, with its own leading punctuation.
        remedy: &'static str,
    },
    /// The server knows only the document.
    #[error(
        "{server} does not know Quaver's extension of Jitlat ({answer}); if it is a Jitlat server, measure with \
         `quaver jitlat`, or start `quaver serve` there"
    )]
    LegacyServer {
        /// Who.
        server: SocketAddr,
        /// What it did.
        answer: &'static str,
    },
    /// The server answered NAK.
    #[error(
        "{server} refused the test (NAK); if it is `quaver serve`, its log says why: it serves Jitlat only with \
         --legacy and within its caps"
    )]
    Nak {
        /// Who.
        server: SocketAddr,
    },
    /// The server speaks other versions of the extension.
    #[error(
        "{server} speaks version {least} to {most} of Quaver's extension, this program version {ours}: bring both to the same release"
    )]
    Version {
        /// Who.
        server: SocketAddr,
        /// Least version there.
        least: u32,
        /// Most version there.
        most: u32,
        /// Version here.
        ours: u32,
    },
    /// The server refused, with a reason.
    #[error("{server} refused: {sentence}")]
    Refused {
        /// Who.
        server: SocketAddr,
        /// Which reason; see `quaver_abi::wire::extension::Refusal`.
        refusal: quaver_abi::wire::extension::Refusal,
        /// Its words.
        sentence: String,
    },
    /// The server wants a key and there is none here.
    #[error("{server} serves only peers with its key: give the same key here")]
    KeyWanted {
        /// Who.
        server: SocketAddr,
    },
    /// A key was given and the server has none.
    #[error(
        "{server} has no key, so it cannot show that it is the right server: start it with the key, or measure without"
    )]
    KeyNotHad {
        /// Who.
        server: SocketAddr,
    },
    /// The keys differ, or somebody changed a message on its way.
    #[error("{server}: wrong HMAC: keys differ; use the same key on both ends")]
    KeyWrong {
        /// Who.
        server: SocketAddr,
    },
    /// A message that the protocol does not allow.
    #[error("{peer} {what}")]
    Protocol {
        /// Who.
        peer: SocketAddr,
        /// What it did, as a verb phrase.
        what: String,
    },
    /// Silence.
    #[error("{peer} did not answer within {seconds} s {waiting_for}; on slow paths wait longer (--timeout)")]
    TimedOut {
        /// Who.
        peer: SocketAddr,
        /// For how long.
        seconds: u64,
        /// What was waited for.
        waiting_for: &'static str,
    },
    /// The connection ended before anything was measured.
    #[error("{peer} closed the connection {phase}")]
    Closed {
        /// Who.
        peer: SocketAddr,
        /// When.
        phase: &'static str,
    },
    /// Stopped by the user before anything was measured.
    #[error("interrupted before the test started")]
    Interrupted,
    /// What was asked for cannot be.
    #[error("{0}")]
    Options(String),
    /// Test packets could not be sent or received.
    #[error(transparent)]
    Flow(#[from] FlowError),
    /// Anything else that the system said.
    #[error("{operation}: {source}{remedy}")]
    Os {
        /// What was tried, on what.
        operation: String,
        /// What the system said.
        source: Error,
        /// What to do, with its own leading punctuation; may be empty.
        remedy: &'static str,
    },
}

impl PathError {
    pub(super) fn os(operation: impl Into<String>, source: impl Into<Error>) -> Self {
        let (operation, source) = (operation.into(), source.into());
        let remedy = match source.kind() {
            ErrorKind::PermissionDenied => "; choose a port from 1024, or run with CAP_NET_BIND_SERVICE",
            ErrorKind::AddrInUse => "; choose another port, or end the program that holds it",
            ErrorKind::AddrNotAvailable => "; choose an address of this host (ip address)",
            ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable => "; see the routes (ip route)",
            _ => "",
        };
        Self::Os { operation, source, remedy }
    }

    pub(super) fn connect(server: SocketAddr, source: Error) -> Self {
        let link_local =
            matches!(server, SocketAddr::V6(at) if at.ip().is_unicast_link_local() && at.scope_id() == 0);
        let remedy = match source.kind() {
            ErrorKind::InvalidInput if link_local => "; name the interface too, as in fe80::1%eth0",
            ErrorKind::ConnectionRefused => "; start `quaver serve` there, or give its port",
            ErrorKind::PermissionDenied => "; see the firewall of this host, and its security module",
            ErrorKind::TimedOut | ErrorKind::WouldBlock => "; check that firewalls pass TCP to this port",
            ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable => "; see the routes (ip route)",
            _ => "",
        };
        Self::Connect { server, source, remedy }
    }
}
