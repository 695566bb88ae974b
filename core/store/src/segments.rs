//! Reading raw segments, also those that a killed run left behind: the tail is zero bytes that were reserved,
//! the last record may be cut in half.

use crate::error::StoreError;
use quaver_abi::segment::{Record, SegmentHeader};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use zerocopy::IntoBytes;

/// Records read at a time.
const CHUNK: usize = 8192;

/// Iterates over the written records of a segment, in the order in which they were written; ends before the
/// first record that was never written, or at the end of the file.
#[derive(Debug)]
pub struct SegmentReader<R> {
    file: File,
    path: PathBuf,
    header: SegmentHeader,
    chunk: Vec<R>,
    filled: usize,
    next: usize,
    ended: bool,
}

impl<R: Record> SegmentReader<R> {
    /// Opens a segment that should hold records of type `R`. The header's capacity is not trusted: the length
    /// of the file counts.
    ///
    /// # Errors
    /// The file cannot be read, is empty, or is not a segment of this kind.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let mut file = File::open(path).map_err(|e| StoreError::io("open", path, e))?;
        let mut octets = [0; size_of::<SegmentHeader>()];
        let got = fill(&mut file, &mut octets).map_err(|e| StoreError::io("read", path, e))?;
        if got == 0 {
            return Err(StoreError::EmptySegment { path: path.to_owned() });
        }
        let header = SegmentHeader::check::<R>(&octets[..got])
            .map_err(|source| StoreError::Segment { path: path.to_owned(), source })?;
        Ok(Self { file, path: path.to_owned(), header, chunk: Vec::new(), filled: 0, next: 0, ended: false })
    }

    /// The segment's header.
    pub fn header(&self) -> &SegmentHeader {
        &self.header
    }

    /// Upper bound of the records to come, from the length of the file.
    pub fn at_most(&self) -> usize {
        let octets = self.file.metadata().map_or(0, |m| m.len());
        (octets.saturating_sub(size_of::<SegmentHeader>() as u64) / size_of::<R>() as u64) as usize
    }

    fn refill(&mut self) -> Result<(), StoreError> {
        if self.chunk.is_empty() {
            self.chunk.resize_with(CHUNK, R::new_zeroed);
        }
        let got = fill(&mut self.file, self.chunk.as_mut_bytes())
            .map_err(|e| StoreError::io("read", &self.path, e))?;
        self.filled = got / size_of::<R>();
        self.next = 0;
        self.ended = self.filled == 0;
        Ok(())
    }
}

impl<R: Record> Iterator for SegmentReader<R> {
    type Item = Result<R, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.filled
            && !self.ended
            && let Err(error) = self.refill()
        {
            self.ended = true;
            return Some(Err(error));
        }
        if self.ended {
            return None;
        }
        let record = self.chunk[self.next];
        if !record.is_written() {
            self.ended = true;
            return None;
        }
        self.next += 1;
        Some(Ok(record))
    }
}

/// All written records of a segment.
///
/// # Errors
/// As [`SegmentReader::open`], and where reading breaks off.
pub fn read_all<R: Record>(path: &Path) -> Result<Vec<R>, StoreError> {
    SegmentReader::open(path)?.collect()
}

/// As [`read_all`], but a file that is absent or empty holds no records: an instrument that was not asked for,
/// or that was killed before it began.
///
/// # Errors
/// As [`read_all`] otherwise.
pub fn read_if_any<R: Record>(path: &Path) -> Result<Vec<R>, StoreError> {
    open_if_any(path)?.map_or_else(|| Ok(Vec::new()), Iterator::collect)
}

/// As [`SegmentReader::open`], but none for a file that is absent or empty.
///
/// # Errors
/// As [`SegmentReader::open`] otherwise.
pub fn open_if_any<R: Record>(path: &Path) -> Result<Option<SegmentReader<R>>, StoreError> {
    match SegmentReader::open(path) {
        Ok(reader) => Ok(Some(reader)),
        Err(StoreError::EmptySegment { .. }) => Ok(None),
        Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads until `octets` is full or the file ends; how many bytes were read.
fn fill(file: &mut File, octets: &mut [u8]) -> std::io::Result<usize> {
    let mut got = 0;
    while got < octets.len() {
        match file.read(&mut octets[got..]) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}
