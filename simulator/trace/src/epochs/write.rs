//! Libraries, written.

use super::{About, EpochFacts, LONGEST_NAME, MAGIC, VERSION};
use crate::block::Block;
use crate::container::{FRAME_OCTETS, FileError, Frames, KIND_BLOCKS, KIND_FACTS, KIND_STEPS};
use crate::dictionary;
use crate::frame::FrameWriter;
use crate::step::Access;
use crate::varint::put;
use std::io::Write;

/// Writes a library.
pub struct EpochWriter<W: Write> {
    frames: Frames<W>,
    /// Instructions of each block.
    blocks: Vec<u32>,
    /// Blocks that are not written yet; they are written before any epoch that may name them.
    new_blocks: Vec<Block>,
    heads: Vec<u8>,
    steps: FrameWriter,
    epochs: u64,
}

impl<W: Write> EpochWriter<W> {
    /// Begins a library.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn new(out: W, facts: &EpochFacts) -> Result<Self, FileError> {
        let mut frames = Frames::new(out, MAGIC, VERSION)?;
        let facts = serde_json::to_vec(facts).map_err(|e| FileError::Foreign(e.to_string()))?;
        frames.frame(KIND_FACTS, 0, 0, &facts)?;
        Ok(Self {
            frames,
            blocks: Vec::new(),
            new_blocks: Vec::new(),
            heads: Vec::new(),
            steps: FrameWriter::default(),
            epochs: 0,
        })
    }

    /// Takes in a block; its number is given back.
    pub fn define(&mut self, block: Block) -> u32 {
        self.blocks.push(block.instructions.len() as u32);
        self.new_blocks.push(block);
        self.blocks.len() as u32 - 1
    }

    /// Appends an epoch of these blocks, which were [defined](Self::define), each with its accesses. One without blocks is left
    /// out.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn add<'a>(
        &mut self,
        about: &About,
        steps: impl Iterator<Item = (u32, &'a [Access])>,
    ) -> Result<(), FileError> {
        let (mut instructions, mut any) = (0, false);
        for (number, accesses) in steps {
            self.steps.block(number, accesses);
            instructions += u64::from(self.blocks.get(number as usize).copied().unwrap_or(0));
            any = true;
        }
        if !any {
            return Ok(());
        }
        self.steps.end();
        let (class, number) = about.activity.numbers();
        let end =
            (0..=LONGEST_NAME.min(about.task.len())).rev().find(|end| about.task.is_char_boundary(*end));
        let name = &about.task.as_bytes()[..end.unwrap_or(0)];
        self.heads.push(class);
        put(&mut self.heads, u64::from(number));
        self.heads.push(about.flags());
        put(&mut self.heads, u64::from(about.processor));
        put(&mut self.heads, instructions);
        self.heads.push(name.len() as u8);
        self.heads.extend_from_slice(name);
        self.epochs += 1;
        if self.heads.len() + self.steps.octets() >= FRAME_OCTETS { self.flush() } else { Ok(()) }
    }

    /// Bytes that were written so far.
    pub fn octets(&self) -> u64 {
        self.frames.octets()
    }

    fn flush(&mut self) -> Result<(), FileError> {
        if !self.new_blocks.is_empty() {
            let blocks = std::mem::take(&mut self.new_blocks);
            let count = blocks.len() as u64;
            self.frames.frame(KIND_BLOCKS, 0, count, &dictionary::encode(&blocks))?;
        }
        let epochs = std::mem::take(&mut self.epochs);
        if epochs == 0 {
            return Ok(());
        }
        let mut raw = Vec::with_capacity(self.heads.len() + self.steps.octets() + 20);
        put(&mut raw, self.heads.len() as u64);
        raw.append(&mut self.heads);
        raw.append(&mut self.steps.take().0);
        self.frames.frame(KIND_STEPS, 0, epochs, &raw)
    }

    /// Writes what is left, the index and the end.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn finish(mut self) -> Result<W, FileError> {
        self.flush()?;
        self.frames.finish()
    }
}
