//! OWAMP (RFC 4656) and TWAMP (RFC 5357) with their control connections, in unauthenticated mode: a client of each for
//! any server, and a server of both for any client.
//!
//! The control connection shows that the peer's address is its own. Test packets go there and nowhere else. What is
//! served, and where we differ from the RFCs on purpose, is in `docs/protocol.md`.

mod client;
mod greeting;
mod host;
mod link;
mod one_way;
mod records;
mod reflect;
mod schedule;
mod server;
mod twamp;

pub(crate) use client::{check, measure};
pub(crate) use host::{Host, Place, Refused};
#[cfg(test)]
pub(crate) use reflect::compose;
pub(crate) use server::{Dialect, run};
pub use twamp::send_twamp;
