//! What the server lends a control connection, and how that may end.

use super::link::LinkError;
use crate::event::ServerEvent;
use crate::limits::Demand;
use crate::options::ServerOptions;
use quaver_abi::wire::owamp::{RequestSession, accept};
use std::sync::atomic::AtomicBool;

/// Room in the server's budget; dropping it gives it back.
pub(crate) type Place = Box<dyn Send>;

/// Why a session cannot be: an Accept value and a sentence for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) accept: u8,
    pub(crate) sentence: String,
}

/// What the server lends a control connection.
pub(crate) struct Host<'a> {
    pub(crate) options: &'a ServerOptions,
    pub(crate) stop: &'a AtomicBool,
    /// Gives a test its place in the budget.
    pub(crate) admit: &'a dyn Fn(Demand) -> Result<Place, Refused>,
    pub(crate) tell: &'a dyn Fn(ServerEvent),
}

/// Why a connection ends other than in order.
pub(super) enum Break {
    Link(LinkError),
    Hostile(String),
    Lost(String),
}

impl From<LinkError> for Break {
    fn from(error: LinkError) -> Self {
        Self::Link(error)
    }
}

/// The DSCP that a request wants its packets to have.
pub(super) fn dscp(asked: &RequestSession) -> u8 {
    (asked.type_p.get() >> 24) as u8 & 63
}

pub(super) fn unsupported(sentence: String) -> Refused {
    Refused { accept: accept::NOT_SUPPORTED, sentence }
}

pub(super) fn internal(error: &dyn std::error::Error) -> Refused {
    Refused { accept: accept::INTERNAL, sentence: error.to_string() }
}
