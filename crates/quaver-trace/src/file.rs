//! Trace files: frames with an index at the end. A file without its end is read up to its last whole frame.
//!
//! ```text
//! offset 0      4      8      12     16     20     24
//! file   "QTRACE\r\n"  version  0                            then frames, of which the last is the index, then the end
//! frame  kind   thread steps         raw    stored │ `stored` octets, zstd with a checksum; `raw` after unpacking
//! end    offset of index "QTRCEND\n"
//! ```
//! All numbers are little-endian. Frames of one thread come in the order of its steps; those of different threads are mixed.

use crate::block::{Block, Dictionary};
use crate::dictionary;
use crate::frame::{FrameReader, FrameWriter};
use crate::step::{Access, Step, Steps, Sync, TraceError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;
use thiserror::Error;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The version that is written here, and the only one that is read.
pub const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"QTRACE\r\n";
const END_MAGIC: [u8; 8] = *b"QTRCEND\n";
/// Octets of steps in a frame before it is packed, about.
pub const FRAME_OCTETS: usize = 1 << 20;
/// No frame unpacks to more.
const MOST_RAW: u32 = 1 << 26;
/// No trace has more threads.
const MOST_THREADS: u32 = 1 << 16;
const LEVEL: i32 = 6;

const KIND_FACTS: u32 = 1;
const KIND_BLOCKS: u32 = 2;
const KIND_STEPS: u32 = 3;
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
struct FrameHeader {
    kind: U32,
    thread: U32,
    steps: U64,
    raw: U32,
    stored: U32,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct IndexEntry {
    offset: U64,
    frame: FrameHeader,
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

/// Where a trace came from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The traced program and its arguments; none for a whole system.
    pub program: Vec<String>,
    /// Who wrote the trace, with its version.
    pub tool: String,
    /// The instruction set, such as `x86-64`.
    pub architecture: String,
    /// What the trace cannot say, in words (`which registers an instruction uses`): of those that were made of other tools'.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
}

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
    #[error("the trace is damaged at octet {offset}: {reason}")]
    Damaged {
        /// Where its frame begins.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
}

fn io_error(operation: &'static str) -> impl Fn(io::Error) -> FileError {
    move |source| FileError::Io { operation, source }
}

/// Steps of a thread, packed by whoever ran it: packing takes longer than writing, and threads do it side by side.
#[derive(Clone, Debug)]
pub struct PackedSteps {
    thread: u32,
    steps: u64,
    raw: u32,
    stored: Vec<u8>,
}

impl PackedSteps {
    /// The steps in `frame`, which begins anew. None where there are none.
    ///
    /// # Errors
    /// When packing fails for want of memory.
    pub fn of(thread: u32, frame: &mut FrameWriter) -> Result<Option<Self>, FileError> {
        if frame.steps() == 0 {
            return Ok(None);
        }
        let (raw, steps) = frame.take();
        let stored = pack(&raw).map_err(io_error("pack a frame of"))?;
        Ok(Some(Self { thread, steps, raw: raw.len() as u32, stored }))
    }
}

/// Writes a trace.
pub struct TraceWriter<W: Write> {
    out: W,
    offset: u64,
    index: Vec<IndexEntry>,
    blocks: u32,
    /// Blocks that are not written yet; they are written before any step that may name them.
    new_blocks: Vec<Block>,
    threads: Vec<FrameWriter>,
}

impl<W: Write> TraceWriter<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn new(mut out: W, facts: &Facts) -> Result<Self, FileError> {
        let header = FileHeader { magic: MAGIC, version: VERSION.into(), zero: 0.into() };
        out.write_all(header.as_bytes()).map_err(io_error("write"))?;
        let mut writer = Self {
            out,
            offset: size_of::<FileHeader>() as u64,
            index: Vec::new(),
            blocks: 0,
            new_blocks: Vec::new(),
            threads: Vec::new(),
        };
        let facts = serde_json::to_vec(facts).map_err(|e| FileError::Foreign(e.to_string()))?;
        writer.frame(KIND_FACTS, 0, 0, &facts)?;
        Ok(writer)
    }

    /// Takes in a block; its number is given back.
    pub fn define(&mut self, block: Block) -> u32 {
        self.new_blocks.push(block);
        self.blocks += 1;
        self.blocks - 1
    }

    fn thread(&mut self, thread: u32) -> &mut FrameWriter {
        let thread = thread as usize;
        if thread >= self.threads.len() {
            self.threads.resize_with(thread + 1, FrameWriter::default);
        }
        &mut self.threads[thread]
    }

    /// A thread ran a block.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn block(&mut self, thread: u32, number: u32, accesses: &[Access]) -> Result<(), FileError> {
        let writer = self.thread(thread);
        writer.block(number, accesses);
        if writer.octets() >= FRAME_OCTETS { self.flush(thread) } else { Ok(()) }
    }

    /// A thread synchronised with others.
    pub fn sync(&mut self, thread: u32, sync: Sync) {
        self.thread(thread).sync(sync);
    }

    /// A thread ended.
    pub fn end(&mut self, thread: u32) {
        self.thread(thread).end();
    }

    /// Appends steps that were packed elsewhere: behind all earlier ones of their thread, and after the blocks that they name
    /// were [defined](Self::define). A thread's steps come all this way or none.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn add(&mut self, packed: &PackedSteps) -> Result<(), FileError> {
        self.write_blocks()?;
        let PackedSteps { thread, steps, raw, stored } = packed;
        self.stored((KIND_STEPS, *thread, *steps, *raw), stored)
    }

    fn write_blocks(&mut self) -> Result<(), FileError> {
        if self.new_blocks.is_empty() {
            return Ok(());
        }
        let blocks = std::mem::take(&mut self.new_blocks);
        self.frame(KIND_BLOCKS, 0, blocks.len() as u64, &dictionary::encode(&blocks))
    }

    fn flush(&mut self, thread: u32) -> Result<(), FileError> {
        match PackedSteps::of(thread, self.thread(thread))? {
            Some(packed) => self.add(&packed),
            None => Ok(()),
        }
    }

    fn frame(&mut self, kind: u32, thread: u32, steps: u64, raw: &[u8]) -> Result<(), FileError> {
        let stored = pack(raw).map_err(io_error("pack a frame of"))?;
        self.stored((kind, thread, steps, raw.len() as u32), &stored)
    }

    fn stored(
        &mut self,
        (kind, thread, steps, raw): (u32, u32, u64, u32),
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

    /// Writes what is left, the index and the end.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn finish(mut self) -> Result<W, FileError> {
        for thread in 0..self.threads.len() as u32 {
            self.flush(thread)?;
        }
        self.write_blocks()?;
        let end = FileEnd { index: self.offset.into(), magic: END_MAGIC };
        let entries: Vec<u8> = self.index.iter().flat_map(|entry| entry.as_bytes().to_vec()).collect();
        self.frame(KIND_INDEX, 0, 0, &entries)?;
        self.out.write_all(end.as_bytes()).map_err(io_error("write"))?;
        self.out.flush().map_err(io_error("write"))?;
        Ok(self.out)
    }
}

fn pack(raw: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL)?;
    encoder.include_checksum(true)?;
    encoder.set_pledged_src_size(Some(raw.len() as u64))?;
    encoder.write_all(raw)?;
    encoder.finish()
}

/// Something of which any part can be read. Octets in memory are; a file becomes so where the tool opens it, for there is no
/// contact with the system here.
pub trait ReadAt {
    /// Its length in octets.
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

/// A trace to be read.
#[derive(Clone, Debug)]
pub struct TraceReader<R> {
    source: Arc<R>,
    /// Where it came from.
    pub facts: Facts,
    /// Its blocks.
    pub dictionary: Arc<Dictionary>,
    instructions: Arc<[u16]>,
    frames: BTreeMap<u32, Arc<[IndexEntry]>>,
    /// Whether its end is missing, so that steps may be missing too.
    pub cut_short: bool,
    /// Its length in octets.
    pub octets: u64,
}

impl<R: ReadAt> TraceReader<R> {
    /// Reads all but the steps.
    ///
    /// # Errors
    /// When it is no trace, of another version, or damaged in what is read here.
    pub fn open(source: R) -> Result<Self, FileError> {
        let octets = source.length().map_err(io_error("read"))?;
        let header: FileHeader =
            fixed(&source, 0)?.ok_or_else(|| FileError::Foreign("it is too short".into()))?;
        if header.magic != MAGIC {
            return Err(FileError::Foreign("it does not begin as one".into()));
        }
        if header.version.get() != VERSION {
            let version = header.version;
            return Err(FileError::Foreign(format!(
                "it is of version {version}, and {VERSION} is understood"
            )));
        }
        let whole = index(&source, octets)?;
        let cut_short = whole.is_none();
        let index = match whole {
            Some(index) => index,
            None => scan(&source, octets)?,
        };
        let mut reader = Self {
            source: Arc::new(source),
            facts: Facts::default(),
            dictionary: Arc::default(),
            instructions: Arc::default(),
            frames: BTreeMap::new(),
            cut_short,
            octets,
        };
        reader.take_in(&index)?;
        Ok(reader)
    }

    fn take_in(&mut self, index: &[IndexEntry]) -> Result<(), FileError> {
        let mut dictionary = Dictionary::default();
        let mut frames: BTreeMap<u32, Vec<IndexEntry>> = BTreeMap::new();
        for entry in index {
            let damaged = |reason: &str| damaged(entry, reason);
            match entry.frame.kind.get() {
                KIND_FACTS => {
                    let facts = unpack(&*self.source, entry)?;
                    self.facts = serde_json::from_slice(&facts).map_err(|e| damaged(&e.to_string()))?;
                }
                KIND_BLOCKS => {
                    dictionary::decode(&unpack(&*self.source, entry)?, &mut dictionary).map_err(damaged)?;
                }
                KIND_STEPS if entry.frame.thread.get() < MOST_THREADS => {
                    frames.entry(entry.frame.thread.get()).or_default().push(*entry);
                }
                _ => return Err(damaged("it has a frame of an unknown kind")),
            }
        }
        self.instructions = dictionary.blocks.iter().map(|block| block.instructions.len() as u16).collect();
        self.dictionary = Arc::new(dictionary);
        self.frames = frames.into_iter().map(|(thread, entries)| (thread, entries.into())).collect();
        Ok(())
    }

    /// Threads with steps here, by number.
    pub fn threads(&self) -> impl Iterator<Item = u32> {
        self.frames.keys().copied()
    }

    /// Steps of all threads, as the frames say.
    pub fn step_count(&self) -> u64 {
        self.frames.values().flat_map(|frames| frames.iter()).map(|entry| entry.frame.steps.get()).sum()
    }

    /// The steps of a thread, one after the other.
    pub fn steps(&self, thread: u32) -> ThreadSteps<R> {
        ThreadSteps {
            source: Arc::clone(&self.source),
            thread,
            frames: self.frames.get(&thread).cloned().unwrap_or_default(),
            next: 0,
            reader: FrameReader::new(Arc::clone(&self.instructions)),
            read: 0,
            ended: false,
            cut_short: self.cut_short,
        }
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

fn damaged(entry: &IndexEntry, reason: &str) -> FileError {
    FileError::Damaged { offset: entry.offset.get(), reason: reason.to_owned() }
}

fn unpack<R: ReadAt + ?Sized>(source: &R, entry: &IndexEntry) -> Result<Vec<u8>, FileError> {
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

/// The steps of a thread of a trace.
#[derive(Clone, Debug)]
pub struct ThreadSteps<R> {
    source: Arc<R>,
    thread: u32,
    frames: Arc<[IndexEntry]>,
    next: usize,
    reader: FrameReader,
    read: u64,
    ended: bool,
    cut_short: bool,
}

impl<R: ReadAt> ThreadSteps<R> {
    fn error(&self, reason: impl ToString) -> TraceError {
        TraceError { thread: self.thread, step: self.read, reason: reason.to_string() }
    }
}

impl<R: ReadAt> Steps for ThreadSteps<R> {
    #[inline]
    fn step(&mut self, accesses: &mut Vec<Access>) -> Result<Step, TraceError> {
        accesses.clear();
        self.append(accesses)
    }

    #[inline]
    fn append(&mut self, accesses: &mut Vec<Access>) -> Result<Step, TraceError> {
        loop {
            if self.next > 0 {
                match self.reader.step(accesses) {
                    Ok(Some(step)) => {
                        self.read += 1;
                        self.ended = step == Step::End;
                        return Ok(step);
                    }
                    Ok(None) => {}
                    Err(reason) => return Err(self.error(reason)),
                }
            }
            let Some(entry) = self.frames.get(self.next) else {
                // A thread of a whole trace says that it ends; one that was cut short ends where its steps do.
                let whole = self.ended || self.cut_short;
                return if whole { Ok(Step::End) } else { Err(self.error("its steps end without its end")) };
            };
            self.next += 1;
            let frame = unpack(&*self.source, entry).map_err(|e| self.error(e))?;
            self.reader.open(frame).map_err(|reason| self.error(reason))?;
        }
    }
}
