//! Libraries, read.

use super::{About, Activity, EpochFacts, KernelEpoch, LONGEST_NAME, MAGIC, MOST_BLOCKS, VERSION};
use crate::block::Dictionary;
use crate::container::{
    self, FileError, IndexEntry, KIND_BLOCKS, KIND_FACTS, KIND_STEPS, ReadAt, damaged, unpack,
};
use crate::dictionary;
use crate::frame::FrameReader;
use crate::step::Step;
use crate::varint::Cursor;
use std::collections::VecDeque;
use std::sync::Arc;

/// A library to be read.
#[derive(Clone, Debug)]
pub struct EpochReader<R> {
    source: Arc<R>,
    /// Where it came from.
    pub facts: EpochFacts,
    /// Its blocks.
    pub dictionary: Arc<Dictionary>,
    frames: Arc<[IndexEntry]>,
    /// Whether its end is missing, so that epochs may be missing too.
    pub cut_short: bool,
    /// Its length in bytes.
    pub octets: u64,
}

impl<R: ReadAt> EpochReader<R> {
    /// Reads all but the epochs.
    ///
    /// # Errors
    /// When it is no library, of another version, or damaged in what is read here.
    pub fn open(source: R) -> Result<Self, FileError> {
        let octets = source.length().map_err(container::io_error("read"))?;
        let (index, cut_short) = container::entries(&source, MAGIC, VERSION, "a library of kernel activity")?;
        let (mut facts, mut dictionary, mut frames) = (None, Dictionary::default(), Vec::new());
        for entry in &index {
            let damaged = |reason: &str| damaged(entry, reason);
            match entry.frame.kind.get() {
                KIND_FACTS => {
                    let read = serde_json::from_slice(&unpack(&source, entry)?);
                    facts = Some(read.map_err(|error| damaged(&error.to_string()))?);
                }
                KIND_BLOCKS => {
                    dictionary::decode(&unpack(&source, entry)?, &mut dictionary).map_err(damaged)?;
                }
                KIND_STEPS => frames.push(*entry),
                _ => return Err(damaged("it has a frame of an unknown kind")),
            }
        }
        let facts = facts.ok_or_else(|| FileError::Foreign("it does not say where it came from".into()))?;
        let (source, dictionary) = (Arc::new(source), Arc::new(dictionary));
        Ok(Self { source, facts, dictionary, frames: frames.into(), cut_short, octets })
    }

    /// How many epochs there are, as the frames say.
    pub fn count(&self) -> u64 {
        self.frames.iter().map(|entry| entry.frame.steps.get()).sum()
    }

    /// The epochs, one after the other. After an error there are no more.
    pub fn epochs(&self) -> EpochsOf<R> {
        let blocks = &self.dictionary.blocks;
        let instructions: Arc<[u16]> = blocks.iter().map(|block| block.instructions.len() as u16).collect();
        EpochsOf {
            source: Arc::clone(&self.source),
            frames: Arc::clone(&self.frames),
            next: 0,
            heads: VecDeque::new(),
            reader: FrameReader::new(Arc::clone(&instructions)),
            instructions,
            failed: false,
        }
    }
}

/// The epochs of a library.
#[derive(Clone, Debug)]
pub struct EpochsOf<R> {
    source: Arc<R>,
    frames: Arc<[IndexEntry]>,
    next: usize,
    /// Of the frame that is read: what is known of its epochs, and how many instructions each says to have.
    heads: VecDeque<(About, u64)>,
    reader: FrameReader,
    instructions: Arc<[u16]>,
    failed: bool,
}

impl<R: ReadAt> Iterator for EpochsOf<R> {
    type Item = Result<KernelEpoch, FileError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let read = self.read().transpose();
        self.failed = matches!(read, Some(Err(_)));
        read
    }
}

impl<R: ReadAt> EpochsOf<R> {
    fn read(&mut self) -> Result<Option<KernelEpoch>, FileError> {
        while self.heads.is_empty() {
            let Some(entry) = self.frames.get(self.next).copied() else { return Ok(None) };
            self.next += 1;
            self.open(&entry)?;
        }
        let Some((about, instructions)) = self.heads.pop_front() else { return Ok(None) };
        let (left, entry) = (self.heads.len(), self.frames[self.next - 1]);
        let place = entry.frame.steps.get().saturating_sub(left as u64 + 1);
        let said = |reason: &str| damaged(&entry, &format!("epoch {place}: {reason}"));
        let epoch = self.epoch(about).map_err(said)?;
        if epoch.instructions != instructions {
            return Err(said("its blocks have another number of instructions than it says"));
        }
        if left == 0 && !matches!(self.reader.step(&mut Vec::new()), Ok(None)) {
            return Err(damaged(&entry, "it has more blocks than those of its epochs"));
        }
        Ok(Some(epoch))
    }

    fn open(&mut self, entry: &IndexEntry) -> Result<(), FileError> {
        let raw = unpack(&*self.source, entry)?;
        let (heads, end) = heads(&raw).map_err(|reason| damaged(entry, reason))?;
        if heads.len() as u64 != entry.frame.steps.get() {
            return Err(damaged(entry, "it has another number of epochs than it says"));
        }
        self.heads = heads;
        self.reader.open(raw[end..].to_vec()).map_err(|reason| damaged(entry, reason))
    }

    fn epoch(&mut self, about: About) -> Result<KernelEpoch, &'static str> {
        let mut epoch = KernelEpoch { about, instructions: 0, blocks: Vec::new(), accesses: Vec::new() };
        loop {
            match self.reader.step(&mut epoch.accesses)? {
                Some(Step::Block { number }) if epoch.blocks.len() < MOST_BLOCKS => {
                    let end = u32::try_from(epoch.accesses.len()).map_err(|_| "it has too many accesses")?;
                    epoch.instructions +=
                        u64::from(self.instructions.get(number as usize).copied().unwrap_or(0));
                    epoch.blocks.push((number, end));
                }
                Some(Step::Block { .. }) => return Err("it has more blocks than any can have"),
                Some(Step::End) if epoch.blocks.is_empty() => return Err("it has no blocks"),
                Some(Step::End) => return Ok(epoch),
                Some(Step::Sync(_)) => return Err("it has a step of synchronisation"),
                None => return Err("it has no end"),
            }
        }
    }
}

type Heads = VecDeque<(About, u64)>;

/// What is known of the epochs of a frame, and where their blocks begin.
fn heads(raw: &[u8]) -> Result<(Heads, usize), &'static str> {
    let mut cursor = Cursor::new(raw, 0);
    let length = cursor.bounded(raw.len() as u64, "its heads are longer than the frame")? as usize;
    let mut inside = Cursor::new(cursor.take(length)?, 0);
    let mut heads = VecDeque::new();
    while !inside.is_at_end() {
        heads.push_back(head(&mut inside)?);
    }
    Ok((heads, cursor.at()))
}

fn head(cursor: &mut Cursor<'_>) -> Result<(About, u64), &'static str> {
    let class = cursor.octet()?;
    let number = cursor.bounded(u64::from(u32::MAX), "an epoch is of too great a number")? as u32;
    let activity = Activity::of(class, number).ok_or("an epoch is of an unknown class")?;
    let flags = cursor.octet()?;
    let processor = cursor.bounded(u64::from(u16::MAX), "an epoch is of too great a processor")? as u32;
    let instructions = cursor.number()?;
    let length = usize::from(cursor.octet()?);
    if length > LONGEST_NAME {
        return Err("the name of a task is too long");
    }
    let task = std::str::from_utf8(cursor.take(length)?).map_err(|_| "the name of a task is no text")?;
    let about = About {
        activity,
        task: task.into(),
        processor,
        bottom_half: false,
        from_idle: false,
        switched: false,
        cut: false,
    };
    Ok((about.with_flags(flags).ok_or("an epoch has an unknown flag")?, instructions))
}
