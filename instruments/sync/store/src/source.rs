//! Where a segment's bytes come from.

use super::SyncSegmentError;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

#[derive(Debug)]
enum Octets {
    File(File, u64),
    Memory(Vec<u8>),
}

/// A segment's bytes, read at any place.
#[derive(Debug)]
pub(super) struct Source {
    octets: Octets,
    path: PathBuf,
}

impl Source {
    pub(super) fn open(path: &Path) -> Result<Self, SyncSegmentError> {
        let failed = |source| SyncSegmentError::Io { operation: "open", path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let octets = file.metadata().map_err(failed)?.len();
        Ok(Self { octets: Octets::File(file, octets), path: path.to_owned() })
    }

    pub(super) fn memory(octets: Vec<u8>, path: &Path) -> Self {
        Self { octets: Octets::Memory(octets), path: path.to_owned() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Length.
    pub(super) fn octets(&self) -> u64 {
        match &self.octets {
            Octets::File(_, octets) => *octets,
            Octets::Memory(octets) => octets.len() as u64,
        }
    }

    /// Fills `into` from `at` on, as far as there are bytes; how many there were.
    pub(super) fn read_at(&self, at: u64, into: &mut [u8]) -> Result<usize, SyncSegmentError> {
        match &self.octets {
            Octets::Memory(octets) => {
                let from = usize::try_from(at).unwrap_or(usize::MAX).min(octets.len());
                let count = into.len().min(octets.len() - from);
                into[..count].copy_from_slice(&octets[from..from + count]);
                Ok(count)
            }
            Octets::File(file, _) => {
                let mut count = 0;
                while count < into.len() {
                    match file.read_at(&mut into[count..], at.saturating_add(count as u64)) {
                        Ok(0) => break,
                        Ok(more) => count += more,
                        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                        Err(source) => {
                            let path = self.path.clone();
                            return Err(SyncSegmentError::Io { operation: "read", path, source });
                        }
                    }
                }
                Ok(count)
            }
        }
    }
}
