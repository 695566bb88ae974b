//! Why a source or a sink could not be set up.

use super::thread::SettingRefused;
use std::io::{Error, ErrorKind};

/// Setting up failed; nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The kernel refused for want of privilege.
    #[error("{operation}: not permitted; {remedy}")]
    NotPermitted {
        /// What was tried, on what.
        operation: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The kernel, or the interface, lacks it.
    #[error("{operation}: not supported here; {remedy}")]
    NotSupported {
        /// What was tried, on what.
        operation: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A setting of the thread that the caller required.
    #[error(transparent)]
    Thread(#[from] SettingRefused),
    /// Anything else.
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

impl ProbeError {
    pub(super) fn os(operation: impl Into<String>, source: impl Into<Error>) -> Self {
        let (operation, source) = (operation.into(), source.into());
        match source.kind() {
            ErrorKind::PermissionDenied => Self::NotPermitted {
                operation,
                remedy: "run as root, or choose a port from 1024 and an address that is not filtered",
            },
            ErrorKind::AddrInUse => Self::Os {
                operation,
                source,
                remedy: "; choose another port, or end the program that holds it",
            },
            ErrorKind::AddrNotAvailable => {
                Self::Os { operation, source, remedy: "; choose an address of this host (ip address)" }
            }
            ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable => {
                Self::Os { operation, source, remedy: "; see the routes (ip route), or name the interface" }
            }
            _ => Self::Os { operation, source, remedy: "" },
        }
    }
}
