//! Why a flow could not be sent or received at all.

use std::io::{Error, ErrorKind};

/// A flow that could not be set up or carried on. What had been measured by then is in the report where there is
/// one; losses and time-outs are results, not errors.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    /// The test packet is too short for what it has to carry.
    #[error(
        "test packets of {packet_bytes} bytes: give at least {least} (12, with a session tag 20, with a key 36)"
    )]
    TooShort {
        /// Bytes asked for.
        packet_bytes: u32,
        /// Least bytes for this flow.
        least: u32,
    },
    /// The test packet is longer than the transport carries.
    #[error("test packets of {packet_bytes} bytes: give at most {most}")]
    TooLong {
        /// Bytes asked for.
        packet_bytes: u32,
        /// Most bytes for the transport.
        most: u32,
    },
    /// The schedule has no packets or a period of zero.
    #[error("schedule of the test packets: {0}")]
    Schedule(&'static str),
    /// The socket is not of the flow's transport, or lacks a peer to send to.
    #[error("test socket: {0}")]
    WrongSocket(&'static str),
    /// The kernel refused for want of privilege.
    #[error("{operation}: not permitted; {remedy}")]
    NotPermitted {
        /// What was tried, on what.
        operation: String,
        /// What to do.
        remedy: &'static str,
    },
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

impl FlowError {
    pub(super) fn os(operation: impl Into<String>, source: impl Into<Error>) -> Self {
        let (operation, source) = (operation.into(), source.into());
        let remedy = match source.kind() {
            ErrorKind::PermissionDenied => {
                return Self::NotPermitted {
                    operation,
                    remedy: "run as root, or choose a port from 1024 and an address that is not filtered",
                };
            }
            ErrorKind::AddrInUse => "; choose another port, or end the program that holds it",
            ErrorKind::AddrNotAvailable => "; choose an address of this host (ip address)",
            ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable => "; see the routes (ip route)",
            ErrorKind::ConnectionRefused => "; start the receiver first, or open its port in the firewall",
            _ => "",
        };
        Self::Os { operation, source, remedy }
    }
}
