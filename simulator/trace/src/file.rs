//! Trace files: frames with an index at the end. A file without its end is read up to its last whole frame.
//!
//! ```text
//! offset 0      4      8      12     16     20     24
//! file   "QTRACE\r\n"  version  0                            then frames, of which the last is the index, then the end
//! frame  kind   thread steps         raw    stored │ `stored` bytes, zstd with a checksum; `raw` after unpacking
//! end    offset of index "QTRCEND\n"
//! ```
//! All numbers are little-endian. Frames of one thread come in the order of its steps; those of different threads are mixed.

use crate::block::{Block, Dictionary};
use crate::container::{
    self, Frames, IndexEntry, KIND_BLOCKS, KIND_FACTS, KIND_STEPS, damaged, io_error, unpack,
};
use crate::dictionary;
use crate::frame::{FrameReader, FrameWriter};
use crate::step::{Access, Step, Steps, Sync, TraceError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

pub use crate::container::{FRAME_OCTETS, FileError, ReadAt};

/// The version that is written here, and the only one that is read.
pub const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"QTRACE\r\n";
/// No trace has more threads.
const MOST_THREADS: u32 = 1 << 16;

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
        let stored = container::pack(&raw)?;
        Ok(Some(Self { thread, steps, raw: raw.len() as u32, stored }))
    }
}

/// Writes a trace.
pub struct TraceWriter<W: Write> {
    frames: Frames<W>,
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
    pub fn new(out: W, facts: &Facts) -> Result<Self, FileError> {
        let mut frames = Frames::new(out, MAGIC, VERSION)?;
        let facts = serde_json::to_vec(facts).map_err(|e| FileError::Foreign(e.to_string()))?;
        frames.frame(KIND_FACTS, 0, 0, &facts)?;
        Ok(Self { frames, blocks: 0, new_blocks: Vec::new(), threads: Vec::new() })
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
        self.frames.stored((KIND_STEPS, *thread, *steps, *raw), stored)
    }

    fn write_blocks(&mut self) -> Result<(), FileError> {
        if self.new_blocks.is_empty() {
            return Ok(());
        }
        let blocks = std::mem::take(&mut self.new_blocks);
        self.frames.frame(KIND_BLOCKS, 0, blocks.len() as u64, &dictionary::encode(&blocks))
    }

    fn flush(&mut self, thread: u32) -> Result<(), FileError> {
        match PackedSteps::of(thread, self.thread(thread))? {
            Some(packed) => self.add(&packed),
            None => Ok(()),
        }
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
        self.frames.finish()
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
    /// Its length in bytes.
    pub octets: u64,
}

impl<R: ReadAt> TraceReader<R> {
    /// Reads all but the steps.
    ///
    /// # Errors
    /// When it is no trace, of another version, or damaged in what is read here.
    pub fn open(source: R) -> Result<Self, FileError> {
        let octets = source.length().map_err(io_error("read"))?;
        let (index, cut_short) = container::entries(&source, MAGIC, VERSION, "one")?;
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
                KIND_STEPS => return Err(damaged("it has steps of a thread whose number none can have")),
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
            reader: None,
            instructions: Arc::clone(&self.instructions),
            read: 0,
            ended: false,
            cut_short: self.cut_short,
        }
    }
}

/// The steps of a thread of a trace.
#[derive(Clone, Debug)]
pub struct ThreadSteps<R> {
    source: Arc<R>,
    thread: u32,
    frames: Arc<[IndexEntry]>,
    next: usize,
    /// From the first frame on: a trace may name threads without any.
    reader: Option<FrameReader>,
    instructions: Arc<[u16]>,
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
    fn append(&mut self, accesses: &mut Vec<Access>) -> Result<Step, TraceError> {
        loop {
            if let Some(reader) = &mut self.reader {
                match reader.step(accesses) {
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
            let reader = self.reader.get_or_insert_with(|| FrameReader::new(Arc::clone(&self.instructions)));
            reader.open(frame).map_err(|reason| self.error(reason))?;
        }
    }
}
