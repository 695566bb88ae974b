//! Why a capture could not be begun or went wrong.

use std::io;

/// The line that gives the program all that capturing can use without being root.
pub const CAPTURE_SETCAP: &str = quaver_host::capabilities::SETCAP;

/// Why a capture could not be begun or went wrong.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// A right is missing.
    #[error("{operation}: not permitted; run as root, or give the program the right once: {CAPTURE_SETCAP}")]
    NotPermitted {
        /// What was tried, on what.
        operation: String,
    },
    /// The kernel, the interface or this machine cannot do it.
    #[error("{operation}: not supported here; {remedy}")]
    NotSupported {
        /// What was tried, on what.
        operation: String,
        /// What to do about it.
        remedy: String,
    },
    /// No interface has this name.
    #[error("there is no interface {name} here; there are {there}, and `any` for all")]
    NoInterface {
        /// The name.
        name: String,
        /// Those that there are.
        there: String,
    },
    /// The filter does not compile.
    #[error("filter `{expression}`: {why} (the language is that of tcpdump: man pcap-filter)")]
    Filter {
        /// The filter.
        expression: String,
        /// What libpcap says.
        why: String,
    },
    /// What was asked for makes no sense.
    #[error("{0}")]
    Options(String),
    /// The system refused anything else.
    #[error("{operation}: {source}")]
    Os {
        /// What was tried, on what.
        operation: String,
        /// What the system said.
        source: io::Error,
    },
}

impl CaptureError {
    /// An error of the system, judged by its kind.
    pub(crate) fn os(operation: impl Into<String>, source: impl Into<io::Error>) -> Self {
        let (operation, source) = (operation.into(), source.into());
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted { operation },
            _ => Self::Os { operation, source },
        }
    }
}
