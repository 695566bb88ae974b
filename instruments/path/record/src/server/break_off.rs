//! Why a session is broken off, and what the log and the peer are told of it.

use crate::control::ControlError;
use crate::event::ServerEvent;
use crate::limits::No;
use quaver_abi::wire::extension::{ExtensionError, Refusal, VERSION};
use quaver_path_flow::FlowError;
use std::net::SocketAddr;

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

impl Break {
    /// What the log says of it, and what the peer is told, if anything.
    pub(super) fn words(self, peer: SocketAddr, extended: bool) -> (ServerEvent, Option<No>) {
        match self {
            Self::No((refusal, sentence)) => {
                (ServerEvent::Refused { peer, reason: sentence.clone() }, Some((refusal, sentence)))
            }
            Self::Hostile(what) => {
                (ServerEvent::Hostile { peer, what: what.clone() }, Some((Refusal::Malformed, what)))
            }
            // Silence is answered with silence, but for the extension's reason.
            Self::Lost(what) => {
                let answer = extended.then(|| (Refusal::Timeout, what.clone()));
                (ServerEvent::BrokenOff { peer, reason: what }, answer)
            }
            // The system's words name addresses and paths of this host, which are no stranger's business.
            Self::Failed(what) => {
                let answer = String::from("the server's system failed; its log says how");
                (ServerEvent::BrokenOff { peer, reason: what }, Some((Refusal::Failed, answer)))
            }
            Self::Ending => {
                let what = String::from("the server ends");
                (ServerEvent::BrokenOff { peer, reason: what.clone() }, Some((Refusal::Ending, what)))
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_words_are_for_the_log_alone() {
        let error = FlowError::Os {
            operation: "bind the test socket to UDP 10.1.2.3:2667".into(),
            source: std::io::Error::from_raw_os_error(libc::EADDRINUSE),
            remedy: "",
        };
        let peer = ([192, 0, 2, 1], 5).into();
        let (event, answer) = Break::from(error).words(peer, true);
        assert!(event.to_string().contains("10.1.2.3:2667"), "{event}");
        let (refusal, sentence) = answer.unwrap();
        assert_eq!(refusal, Refusal::Failed);
        assert!(!sentence.contains(|c: char| c.is_ascii_digit()), "{sentence}");
    }
}
