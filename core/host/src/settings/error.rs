//! What can go wrong while settings are changed.

use std::io;
use std::path::{Path, PathBuf};

/// Why a setting could not be changed or put back, or the journal not be kept.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// The kernel or the file system refused for want of privilege.
    #[error("{operation}: not permitted; run as root (sudo quaver ...)")]
    NotPermitted {
        /// What was tried, on what.
        operation: String,
    },
    /// The file system is mounted for reading only, as root's rights do not mend.
    #[error(
        "{operation}: {mount} is mounted read-only; run on the host if this is a container, or: {remedy}"
    )]
    ReadOnly {
        /// What was tried, on what.
        operation: String,
        /// Where that file system is mounted.
        mount: String,
        /// The command that mounts it for writing.
        remedy: String,
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
    /// The refusal of a file system that is mounted read-only. `path` is a file on it, `mounts` the text of
    /// `/proc/self/mounts`.
    pub(crate) fn read_only(operation: impl Into<String>, path: &str, mounts: &str) -> Self {
        let of = |mount: &&str| path.strip_prefix(*mount).is_some_and(|rest| rest.starts_with('/'));
        let places = mounts.lines().filter_map(|line| line.split_whitespace().nth(1));
        let mount = places.filter(of).max_by_key(|mount| mount.len()).unwrap_or("/").to_owned();
        let remedy = format!("sudo mount -o remount,rw {mount}");
        Self::ReadOnly { operation: operation.into(), mount, remedy }
    }

    /// Sorts what the system said about doing something to a file of the journal.
    pub(crate) fn at(what: &str, path: &Path, source: io::Error) -> Self {
        let operation = format!("{what} {}", path.display());
        if source.kind() != io::ErrorKind::ReadOnlyFilesystem {
            return Self::new(operation, source);
        }
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        Self::read_only(operation, &path.to_string_lossy(), &mounts)
    }

    /// Sorts what the system said about an operation.
    pub(crate) fn new(operation: impl Into<String>, source: io::Error) -> Self {
        let operation = operation.into();
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted { operation },
            _ => Self::Os { operation, source },
        }
    }
}
