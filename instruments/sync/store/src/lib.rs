//! What the recorder of synchronisation leaves behind ([`quaver_abi::sync`]): read, put in time order, and packed.
//!
//! - [`SegmentReader::open`] reads a segment's facts and finds its chunks; records stay on disk.
//! - [`Segment::merge`] gives the events of all threads in time order, a few chunks at a time.
//! - [`pack`] writes them as a table of a few bytes an event; [`PackedReader::open`] gives the same events again.
//! - [`Tail`] follows a segment while its process writes it.
//! - [`trim`] cuts a segment to what is used.
//!
//! A segment may come from a process that was killed, or from anywhere: whatever it holds, reading it ends, stays
//! within a few chunks of memory for each thread that lives at a time, and never panics.
#![forbid(unsafe_code)]

mod cursor;
mod facts;
mod index;
mod merge;
mod pack;
mod source;
mod tail;

pub use facts::{SyncCounts, SyncEnding, SyncFacts, SyncThread};
pub use merge::{Merged, SyncMoment};
pub use pack::{Packed, PackedReader, Packing, TABLE as PACKED_TABLE, facts_path, pack};
pub use tail::Tail;

use facts::ScannedThreads;
use quaver_abi::record::AnchorRecord;
use quaver_abi::sync::{PAGE_BYTES, SyncHeaderError, SyncKind, SyncRecord};
use source::Source;
use std::io;
use std::path::{Path, PathBuf};

/// Why a recording of synchronisation cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SyncSegmentError {
    /// The system refused.
    #[error("{operation} {}: {source}", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Not a recording, or of a version that this program does not read.
    #[error("read {}: {source}; use the version of quaver that recorded it", path.display())]
    Header {
        /// Which file.
        path: PathBuf,
        /// What it is instead.
        source: SyncHeaderError,
    },
    /// Nothing ties its cycles to time.
    #[error("read {}: fewer than two clock anchors that advance, so its cycles cannot be turned into time; \
             the program was ended before recording had begun", path.display())]
    NoAnchors {
        /// Which file.
        path: PathBuf,
    },
    /// The packed table cannot be written or read.
    #[error(transparent)]
    Table(#[from] quaver_store::error::StoreError),
}

/// Opens segments.
#[derive(Debug)]
pub struct SegmentReader;

impl SegmentReader {
    /// Reads the facts of a segment and finds its chunks.
    ///
    /// # Errors
    /// The file cannot be read, is no recording, is of another version, or nothing ties its cycles to time.
    pub fn open(path: &Path) -> Result<Segment, SyncSegmentError> {
        Segment::read(Source::open(path)?)
    }

    /// The same for bytes in memory; `path` is for messages.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn from_octets(octets: Vec<u8>, path: &Path) -> Result<Segment, SyncSegmentError> {
        Segment::read(Source::memory(octets, path))
    }
}

/// A segment: the recording of one process image.
#[derive(Debug)]
pub struct Segment {
    source: Source,
    facts: SyncFacts,
    threads: Vec<SyncThread>,
    found: ScannedThreads,
    anchors: Vec<AnchorRecord>,
}

impl Segment {
    fn read(source: Source) -> Result<Self, SyncSegmentError> {
        let header = index::header(&source)?;
        let found = index::chunks(&source, &header)?;
        let anchors = index::anchors(&header, &found);
        let Some(timeline) = quaver_store::timeline::Timeline::new(&anchors) else {
            return Err(SyncSegmentError::NoAnchors { path: source.path().to_owned() });
        };
        let threads = facts::threads(&found, timeline);
        let facts = facts::of(&header, &anchors, &threads);
        Ok(Self { source, facts, threads, found, anchors })
    }

    /// What is known of the process image.
    pub fn facts(&self) -> &SyncFacts {
        &self.facts
    }

    /// Its threads, in the order in which they were first seen.
    pub fn threads(&self) -> &[SyncThread] {
        &self.threads
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        self.source.path()
    }

    /// The anchors that turn cycles into CLOCK_MONOTONIC, thinned out.
    pub fn anchors(&self) -> &[AnchorRecord] {
        &self.anchors
    }

    /// Takes these anchors (of the same machine's counter, in order) in place of its own, where they reach from
    /// before its first to after its last: somebody else's clockwork is better than the end of a killed process.
    pub fn use_anchors(&mut self, anchors: &[AnchorRecord]) {
        let covers = match (anchors.first(), anchors.last(), self.anchors.first(), self.anchors.last()) {
            (Some(first), Some(last), Some(ours), Some(ours_last)) => {
                first.cycles <= ours.cycles && last.cycles >= ours_last.cycles
            }
            _ => false,
        };
        if covers && quaver_store::timeline::Timeline::new(anchors).is_some() {
            self.anchors = anchors.to_vec();
        }
    }

    /// The records of one thread, in time order; none for a number that there is not.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn records(&self, thread: usize) -> Result<Vec<SyncRecord>, SyncSegmentError> {
        let mut cursor = cursor::Cursor::new(self.found.chunks(thread));
        let mut records = Vec::new();
        while let Some(record) = cursor.next(&self.source)? {
            records.push(record);
        }
        Ok(records)
    }

    /// The events of all threads in time order.
    pub fn merge(&self) -> Merged<'_> {
        Merged::new(&self.source, &self.found, &self.threads, &self.anchors)
    }

    /// Whether the image made no call that the recorder sees: its threads begin and end, and that is all. It may
    /// be a program without threads, or one that brings its own thread library.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn is_silent(&self) -> Result<bool, SyncSegmentError> {
        for (number, thread) in self.threads.iter().enumerate() {
            if thread.counts != SyncCounts::default() {
                return Ok(false);
            }
            let mut cursor = cursor::Cursor::new(self.found.chunks(number));
            while let Some(record) = cursor.next(&self.source)? {
                let quiet = matches!(
                    record.kind(),
                    Some(SyncKind::ThreadStart | SyncKind::ThreadExit | SyncKind::Anchor)
                );
                if !quiet {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// Cuts a segment to the pages that are used. Only once its process is gone: a process that still writes would be
/// ended by the kernel.
///
/// # Errors
/// The file cannot be read or cut, or is no recording.
pub fn trim(path: &Path) -> Result<(), SyncSegmentError> {
    let source = Source::open(path)?;
    let header = index::header(&source)?;
    let used = header.pages_used.min(header.pages_room).saturating_mul(PAGE_BYTES as u64);
    let octets = used.min(source.octets());
    let failed = |source| SyncSegmentError::Io { operation: "cut", path: path.to_owned(), source };
    let file = std::fs::OpenOptions::new().write(true).open(path).map_err(failed)?;
    file.set_len(octets).map_err(failed)
}
