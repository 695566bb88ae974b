//! What can go wrong while settings are changed.

use std::io;
use std::path::PathBuf;

/// Why a setting could not be changed or put back, or the journal not be kept.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// The kernel or the file system refused for want of privilege.
    #[error("{operation}: not permitted; run as root (sudo quaver ...)")]
    NotPermitted {
        /// What was tried, on what.
        operation: String,
    },
    /// Another process of Quaver changes settings now.
    #[error("{holder} is changing settings of this machine; wait until it has ended, or end it")]
    Busy {
        /// Verb and process of the other, such as `quaver capture (process 4711)`.
        holder: String,
    },
    /// The setting, or the thing that it belongs to, does not exist (any more).
    #[error("{knob} is not there: {reason}")]
    Vanished {
        /// The setting.
        knob: String,
        /// What exactly is missing.
        reason: String,
    },
    /// The kernel does not let this setting be changed, or not to this value.
    #[error("{knob} cannot be set to {value:?}: {reason}")]
    Refused {
        /// The setting.
        knob: String,
        /// The value.
        value: String,
        /// Why, as far as it is known.
        reason: String,
    },
    /// The value is not the one that was written: somebody else changed it since.
    #[error(
        "{knob} was set to {ours:?} by an earlier run and is {found:?} now: somebody else changed it, so it is left alone \
         (--force changes it all the same)"
    )]
    Foreign {
        /// The setting.
        knob: String,
        /// What we wrote.
        ours: String,
        /// What is there.
        found: String,
    },
    /// The journal cannot be trusted or read.
    #[error("{}: {reason}", path.display())]
    BadJournal {
        /// The journal.
        path: PathBuf,
        /// What is wrong with it and what to do.
        reason: String,
    },
    /// Anything else that the system said.
    #[error("{operation}: {source}")]
    Os {
        /// What was tried, on what.
        operation: String,
        /// What the system said.
        source: io::Error,
    },
}

impl TuneError {
    /// Sorts what the system said about an operation.
    pub(crate) fn new(operation: impl Into<String>, source: io::Error) -> Self {
        let operation = operation.into();
        match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::NotPermitted { operation }
            }
            _ => Self::Os { operation, source },
        }
    }
}
