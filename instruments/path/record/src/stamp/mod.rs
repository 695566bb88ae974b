//! STAMP, the Simple Two-way Active Measurement Protocol (RFC 8762, RFC 8972): [`reflect`] answers any conforming
//! sender, [`send_session`] measures to any conforming reflector.
//!
//! A reply is never larger than its request and goes only where the request came from; rates and sessions are
//! capped. What is served, and where we differ from the RFCs on purpose, is in `docs/protocol.md`.

mod directions;
mod event;
mod key;
mod loops;
mod memory;
mod numbers;
mod options;
mod outcome;
mod reflector;
mod reply;
mod request;
mod sender;
mod sessions;
mod socket;

pub use directions::{DirectionCounts, Evidence, Numbered};
pub use event::{ReflectorEvent, ReflectorTotals, Refusal};
pub use key::{LEAST_KEY_BYTES, Protection, StampKey, StampKeyTooShort};
pub use memory::StampMemory;
pub use options::{Caps, ReflectorOptions, Requests, SenderOptions, ZeroSsid};
pub use outcome::{Located, StampOutcome, StampPacket, StampProgress, StampReply};
pub use quaver_abi::wire::stamp::time::TimestampFormat;
pub use reflector::reflect;
pub use sender::send_session;
pub(crate) use {
    reflector::error_estimate,
    sender::send_agreed,
    socket::{LONGEST_WAIT, MOST_BYTES, StampSocket, count_hops},
};

#[cfg(test)]
mod tests;
