//! Why there is no measurement and no reflector.

use std::io::{Error, ErrorKind};

/// A reflector could not be run, or a session not be begun. What comes over the network is never an error.
#[derive(Debug, thiserror::Error)]
pub enum StampError {
    /// What was asked for cannot be.
    #[error("{0}")]
    Options(String),
    /// The system refused.
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

impl StampError {
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
}
