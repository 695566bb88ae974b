//! Why the store could not do what was asked: the operation, its object and what to do.

use quaver_abi::segment::SegmentError;
use std::io;
use std::path::{Path, PathBuf};

/// An error of the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The device or the quota is full.
    #[error("{operation} {}: no space left there; free some, or put the run elsewhere", path.display())]
    NoSpace {
        /// What was tried.
        operation: &'static str,
        /// On which file.
        path: PathBuf,
    },
    /// The system refused.
    #[error("{operation} {}: {source}{}", path.display(), remedy(source))]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The path is not a run directory.
    #[error("open {}: not a run directory ({reason}); name a directory that a quaver verb made", path.display())]
    NotARun {
        /// Which path.
        path: PathBuf,
        /// What is missing.
        reason: &'static str,
    },
    /// No run has this name.
    #[error(
        "open {name}: neither a path nor the name or tag of a run below {}; `quaver runs` lists them",
        root.display()
    )]
    NoSuchRun {
        /// The name.
        name: String,
        /// Where runs were looked for.
        root: PathBuf,
    },
    /// The whole file system, or a directory in which too many others are no runs.
    #[error(
        "list {}: it is no place of runs, but a whole file system or a tree of other directories; name the directory of the runs",
        root.display()
    )]
    NoPlaceOfRuns {
        /// Where runs were looked for.
        root: PathBuf,
    },
    /// The verb cannot name a directory.
    #[error("make a run of verb {verb:?}: a verb has lower-case letters, digits and hyphens only")]
    Verb {
        /// The verb.
        verb: String,
    },
    /// A file of a later version of the tool.
    #[error(
        "read {}: format version {found}, but this program reads up to version {supported}; \
         use the version of quaver that wrote it, or a later one",
        path.display()
    )]
    NewerFormat {
        /// Which file.
        path: PathBuf,
        /// Version found.
        found: u64,
        /// Latest version known here.
        supported: u64,
    },
    /// A JSON file does not have the expected shape.
    #[error("read {}: {source}; the file is damaged, or was not written by quaver", path.display())]
    Json {
        /// Which file.
        path: PathBuf,
        /// What the parser said.
        source: serde_json::Error,
    },
    /// A run that came to its end, without a table that it stored then.
    #[error("open {}: it is missing, so nothing tells what was measured; copy the run whole", path.display())]
    Gone {
        /// Which file.
        path: PathBuf,
    },
    /// A raw segment that cannot be read.
    #[error("read segment {}: {source}; no record of it can be used", path.display())]
    Segment {
        /// Which file.
        path: PathBuf,
        /// What is wrong with its header.
        source: SegmentError,
    },
    /// A raw segment without as much as a header.
    #[error("read segment {}: the file is empty: recording ended before it began", path.display())]
    EmptySegment {
        /// Which file.
        path: PathBuf,
    },
    /// The Parquet library refused.
    #[error("{operation} {}: {source}", path.display())]
    Parquet {
        /// What was tried.
        operation: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the library said.
        source: parquet::errors::ParquetError,
    },
    /// A Parquet file of another shape.
    #[error("read {}: {reason}; the file is damaged, or was not written by quaver", path.display())]
    Shape {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A line of a text file that cannot be read.
    #[error("read {}, line {line}: {reason}", path.display())]
    Line {
        /// Which file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The run holds cycle counts that nothing turns into time.
    #[error("convert {}: fewer than two clock anchors that advance, so raw cycles cannot be turned into time", path.display())]
    NoAnchors {
        /// Which run or file.
        path: PathBuf,
    },
}

/// What to add to a plain I/O error.
fn remedy(source: &io::Error) -> &'static str {
    if lacks_descriptors(source) {
        return MORE_DESCRIPTORS;
    }
    match source.kind() {
        io::ErrorKind::PermissionDenied => "; check who owns it (a run made by root is read by root)",
        _ if is_no_such_file(source) => "; check the path",
        io::ErrorKind::ReadOnlyFilesystem => "; put the run elsewhere",
        _ => "",
    }
}

impl StoreError {
    /// Error of an I/O operation; a full device is told apart.
    pub fn io(operation: &'static str, path: impl AsRef<Path>, source: io::Error) -> Self {
        let path = path.as_ref().to_owned();
        if is_full(&source) {
            Self::NoSpace { operation, path }
        } else {
            Self::Io { operation, path, source }
        }
    }

    /// Error of the Parquet library; a full device is told apart.
    pub(crate) fn parquet(
        operation: &'static str,
        path: impl AsRef<Path>,
        source: parquet::errors::ParquetError,
    ) -> Self {
        let path = path.as_ref().to_owned();
        // What the system refused is no fault of the file; a damaged one asks for offsets that there are not.
        let refused =
            |error: &io::Error| error.raw_os_error().is_some() && error.kind() != io::ErrorKind::InvalidInput;
        match source {
            parquet::errors::ParquetError::External(inner)
                if inner
                    .downcast_ref::<io::Error>()
                    .is_some_and(|error| refused(error) || is_full(error)) =>
            {
                Self::io(operation, path, *inner.downcast().expect("it was one a line ago"))
            }
            source => Self::Parquet { operation, path, source },
        }
    }

    /// Whether the input is at fault (exit code 5), not the machine's resources (exit code 6).
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::NoSpace { .. } | Self::Verb { .. } => false,
            Self::Io { source, .. } => is_no_such_file(source),
            Self::Parquet { operation, .. } => *operation == "read",
            _ => true,
        }
    }
}

/// Remedy where [`lacks_descriptors`].
pub const MORE_DESCRIPTORS: &str = "; raise the limit of open files (ulimit -n)";

/// Whether this process, or the whole system, may open no further file (EMFILE, ENFILE).
pub fn lacks_descriptors(source: &io::Error) -> bool {
    matches!(source.raw_os_error(), Some(24 | 23))
}

/// Whether a path leads to no file: nothing is there, or a directory, or a loop of links.
pub fn is_no_such_file(source: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, IsADirectory, NotADirectory, NotFound};
    matches!(source.kind(), NotFound | NotADirectory | IsADirectory | InvalidFilename)
        || source.raw_os_error() == Some(40)
}

/// Whether a write failed since there was no room for it, on the device or within a quota.
pub fn is_full(source: &io::Error) -> bool {
    matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_device_is_said_so() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let error = StoreError::io("write", "/runs/x/manifest.json", full);
        assert_eq!(
            error.to_string(),
            "write /runs/x/manifest.json: no space left there; free some, or put the run elsewhere"
        );
        assert!(!error.is_bad_input());
        let full =
            parquet::errors::ParquetError::External(Box::new(io::Error::from(io::ErrorKind::StorageFull)));
        assert!(matches!(StoreError::parquet("write", "x", full), StoreError::NoSpace { .. }));
        let lacking = parquet::errors::ParquetError::External(Box::new(io::Error::from_raw_os_error(24)));
        let lacking = StoreError::parquet("read", "x", lacking);
        assert!(!lacking.is_bad_input() && lacking.to_string().ends_with("(ulimit -n)"), "{lacking}");
    }

    #[test]
    fn bad_input_is_told_from_the_machines_failures() {
        let path = || PathBuf::from("/runs/x/f");
        let io = |kind| StoreError::io("open", "/runs/x/f", io::Error::from(kind));
        assert!(io(io::ErrorKind::NotFound).is_bad_input());
        assert!(!io(io::ErrorKind::PermissionDenied).is_bad_input());
        assert!(!io(io::ErrorKind::QuotaExceeded).is_bad_input());
        // Not a directory, a directory, too long a name, a loop of links.
        for number in [20, 21, 36, 40] {
            let error = StoreError::io("open", "/runs/x/f", io::Error::from_raw_os_error(number));
            assert!(error.is_bad_input() && error.to_string().ends_with("; check the path"), "{error}");
        }
        let parquet = |operation| {
            StoreError::parquet(operation, "/runs/x/f", parquet::errors::ParquetError::EOF("cut".to_owned()))
        };
        assert!(parquet("read").is_bad_input() && !parquet("write").is_bad_input());
        assert!(StoreError::EmptySegment { path: path() }.is_bad_input());
        assert!(StoreError::NoAnchors { path: path() }.is_bad_input());
        assert!(!StoreError::Verb { verb: "../x".to_owned() }.is_bad_input());
    }

    #[test]
    fn a_refusal_of_the_system_says_what_to_do() {
        let ends = |kind, words: &str| {
            let error = StoreError::io("open", "/runs/x", io::Error::from(kind)).to_string();
            assert!(error.starts_with("open /runs/x: ") && error.ends_with(words), "{error}");
        };
        ends(io::ErrorKind::PermissionDenied, "; check who owns it (a run made by root is read by root)");
        ends(io::ErrorKind::NotFound, "; check the path");
        ends(io::ErrorKind::ReadOnlyFilesystem, "; put the run elsewhere");
        ends(io::ErrorKind::InvalidData, "invalid data");
    }
}
