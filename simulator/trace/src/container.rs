//! Files of frames with an index at the end: what traces of programs and libraries of kernel activity have in common.

use std::io::{self, Write};
use thiserror::Error;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const END_MAGIC: [u8; 8] = *b"QTRCEND\n";
/// Bytes in a frame before it is packed, about.
pub const FRAME_OCTETS: usize = 1 << 20;
/// No frame unpacks to more.
const MOST_RAW: u32 = 1 << 26;
const LEVEL: i32 = 6;

pub(crate) const KIND_FACTS: u32 = 1;
pub(crate) const KIND_BLOCKS: u32 = 2;
pub(crate) const KIND_STEPS: u32 = 3;
const KIND_INDEX: u32 = 4;

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FileHeader {
    magic: [u8; 8],
    version: U32,
    zero: U32,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct FrameHeader {
    pub(crate) kind: U32,
    pub(crate) thread: U32,
    pub(crate) steps: U64,
    raw: U32,
    stored: U32,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct IndexEntry {
    pub(crate) offset: U64,
    pub(crate) frame: FrameHeader,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FileEnd {
    index: U64,
    magic: [u8; 8],
}

const _: () = assert!(size_of::<FileHeader>() == 16);
const _: () = assert!(size_of::<FrameHeader>() == 24);
const _: () = assert!(size_of::<IndexEntry>() == 32);
const _: () = assert!(size_of::<FileEnd>() == 16);

/// A trace file that cannot be written or read.
#[derive(Debug, Error)]
pub enum FileError {
    /// The system refused.
    #[error("{operation} the trace: {source}")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// It is no trace, or of another version.
    #[error("this is no trace that can be read here: {0}")]
    Foreign(String),
    /// A frame is wrong.
    #[error("the trace is damaged at byte {offset}: {reason}")]
    Damaged {
        /// Where its frame begins.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
}

pub(crate) fn io_error(operation: &'static str) -> impl Fn(io::Error) -> FileError {
    move |source| FileError::Io { operation, source }
}

/// A frame's kind, thread, steps, and bytes after unpacking.
pub(crate) type Told = (u32, u32, u64, u32);

/// Writes frames, then the index and the end.
#[derive(Debug)]
pub(crate) struct Frames<W: Write> {
    out: W,
    offset: u64,
    index: Vec<IndexEntry>,
}

impl<W: Write> Frames<W> {
    /// Begins a file of this kind.
    pub(crate) fn new(mut out: W, magic: [u8; 8], version: u32) -> Result<Self, FileError> {
        let header = FileHeader { magic, version: version.into(), zero: 0.into() };
        out.write_all(header.as_bytes()).map_err(io_error("write"))?;
        Ok(Self { out, offset: size_of::<FileHeader>() as u64, index: Vec::new() })
    }

    /// Packs a frame and writes it.
    pub(crate) fn frame(&mut self, kind: u32, thread: u32, steps: u64, raw: &[u8]) -> Result<(), FileError> {
        let stored = pack(raw)?;
        self.stored((kind, thread, steps, raw.len() as u32), &stored)
    }

    /// Writes a frame that was packed.
    pub(crate) fn stored(
        &mut self,
        (kind, thread, steps, raw): Told,
        stored: &[u8],
    ) -> Result<(), FileError> {
        let frame = FrameHeader {
            kind: kind.into(),
            thread: thread.into(),
            steps: steps.into(),
            raw: raw.into(),
            stored: (stored.len() as u32).into(),
        };
        self.out.write_all(frame.as_bytes()).map_err(io_error("write"))?;
        self.out.write_all(stored).map_err(io_error("write"))?;
        self.index.push(IndexEntry { offset: self.offset.into(), frame });
        self.offset += (size_of::<FrameHeader>() + stored.len()) as u64;
        Ok(())
    }

    /// Bytes so far.
    pub(crate) fn octets(&self) -> u64 {
        self.offset
    }

    /// Writes the index and the end.
    pub(crate) fn finish(mut self) -> Result<W, FileError> {
        let end = FileEnd { index: self.offset.into(), magic: END_MAGIC };
        let entries: Vec<u8> = self.index.iter().flat_map(|entry| entry.as_bytes().to_vec()).collect();
        self.frame(KIND_INDEX, 0, 0, &entries)?;
        self.out.write_all(end.as_bytes()).map_err(io_error("write"))?;
        self.out.flush().map_err(io_error("write"))?;
        Ok(self.out)
    }
}

/// Packs a frame.
pub(crate) fn pack(raw: &[u8]) -> Result<Vec<u8>, FileError> {
    let packed = || {
        let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL)?;
        encoder.include_checksum(true)?;
        encoder.set_pledged_src_size(Some(raw.len() as u64))?;
        encoder.write_all(raw)?;
        encoder.finish()
    };
    packed().map_err(io_error("pack a frame of"))
}

/// Something of which any part can be read. Bytes in memory are; a file becomes so where the tool opens it, for there is no
/// contact with the system here.
pub trait ReadAt {
    /// Its length in bytes.
    fn length(&self) -> io::Result<u64>;
    /// Fills `buffer` from this offset on.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

impl ReadAt for [u8] {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).ok();
        let part = start.and_then(|start| self.get(start..)?.get(..buffer.len()));
        buffer.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl ReadAt for Vec<u8> {
    fn length(&self) -> io::Result<u64> {
        self.as_slice().length()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.as_slice().read_at(offset, buffer)
    }
}
/// The frames of a file of this kind, as its index tells them, and whether its end is missing: then those that are whole.
pub(crate) fn entries<R: ReadAt>(
    source: &R,
    magic: [u8; 8],
    version: u32,
    what: &str,
) -> Result<(Vec<IndexEntry>, bool), FileError> {
    let octets = source.length().map_err(io_error("read"))?;
    let header: FileHeader = fixed(source, 0)?.ok_or_else(|| FileError::Foreign("it is too short".into()))?;
    if header.magic != magic {
        return Err(FileError::Foreign(format!("it does not begin as {what}")));
    }
    if header.version.get() != version {
        let found = header.version;
        return Err(FileError::Foreign(format!("it is of version {found}, and {version} is understood")));
    }
    match index(source, octets)? {
        Some(index) => Ok((index, false)),
        None => Ok((scan(source, octets)?, true)),
    }
}

fn fixed<T: FromBytes + Copy, R: ReadAt + ?Sized>(source: &R, offset: u64) -> Result<Option<T>, FileError> {
    let mut octets = vec![0; size_of::<T>()];
    match source.read_at(offset, &mut octets) {
        Ok(()) => Ok(T::read_from_bytes(&octets).ok()),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(e) => Err(io_error("read")(e)),
    }
}

/// The index that the end points to; none where there is no end.
fn index<R: ReadAt>(source: &R, octets: u64) -> Result<Option<Vec<IndexEntry>>, FileError> {
    let Some(at) = octets.checked_sub(size_of::<FileEnd>() as u64) else { return Ok(None) };
    let end: Option<FileEnd> = fixed(source, at)?;
    let Some(end) = end.filter(|end| end.magic == END_MAGIC) else { return Ok(None) };
    let offset = end.index.get();
    let Some(frame) = fixed::<FrameHeader, _>(source, offset)?.filter(|frame| frame.kind.get() == KIND_INDEX)
    else {
        return Err(FileError::Damaged { offset, reason: "the index is not where the end says".into() });
    };
    let entry = IndexEntry { offset: end.index, frame };
    let raw = unpack(source, &entry)?;
    if !raw.len().is_multiple_of(size_of::<IndexEntry>()) {
        return Err(damaged(&entry, "the index ends in the middle of an entry"));
    }
    let entries = raw.chunks_exact(size_of::<IndexEntry>());
    Ok(Some(entries.filter_map(|entry| IndexEntry::read_from_bytes(entry).ok()).collect()))
}

/// All whole frames, one after the other from the start.
fn scan<R: ReadAt>(source: &R, octets: u64) -> Result<Vec<IndexEntry>, FileError> {
    let mut offset = size_of::<FileHeader>() as u64;
    let mut entries = Vec::new();
    while let Some(frame) = fixed::<FrameHeader, _>(source, offset)? {
        let next = offset + size_of::<FrameHeader>() as u64 + u64::from(frame.stored.get());
        if next > octets || frame.kind.get() == KIND_INDEX {
            break;
        }
        entries.push(IndexEntry { offset: offset.into(), frame });
        offset = next;
    }
    Ok(entries)
}

pub(crate) fn damaged(entry: &IndexEntry, reason: &str) -> FileError {
    FileError::Damaged { offset: entry.offset.get(), reason: reason.to_owned() }
}

/// What a frame unpacks to.
pub(crate) fn unpack<R: ReadAt + ?Sized>(source: &R, entry: &IndexEntry) -> Result<Vec<u8>, FileError> {
    let raw = entry.frame.raw.get();
    let stored = u64::from(entry.frame.stored.get());
    let length = source.length().map_err(io_error("read"))?;
    let start = entry.offset.get().checked_add(size_of::<FrameHeader>() as u64);
    let Some(start) = start.filter(|start| start.checked_add(stored).is_some_and(|end| end <= length)) else {
        return Err(damaged(entry, "it is longer than the file"));
    };
    if raw > MOST_RAW {
        return Err(damaged(entry, "it unpacks to more than any frame"));
    }
    let mut packed = vec![0; stored as usize];
    source.read_at(start, &mut packed).map_err(io_error("read"))?;
    let unpacked =
        zstd::bulk::decompress(&packed, raw as usize).map_err(|e| damaged(entry, &e.to_string()))?;
    if unpacked.len() != raw as usize {
        return Err(damaged(entry, "it unpacks to another length than it says"));
    }
    Ok(unpacked)
}
