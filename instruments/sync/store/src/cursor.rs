//! The records of one thread in time order, a few chunks in memory.

use super::SyncSegmentError;
use super::facts::ChunkAt;
use super::source::Source;
use quaver_abi::sync::{PAGE_BYTES, SyncChunkHeader, SyncRecord, SyncRingHeader};
use std::collections::VecDeque;
use zerocopy::FromBytes;

/// Records that are kept in hand before one is given out. A thread writes nearly in order: the entry of an unlock
/// is stamped before the call and written after it, and a signal handler's records lie in between. What comes
/// late comes a few records late.
const IN_HAND: usize = 512;
const RECORD_BYTES: usize = size_of::<SyncRecord>();

#[derive(Debug)]
pub(super) struct Cursor<'a> {
    chunks: std::slice::Iter<'a, ChunkAt>,
    in_hand: VecDeque<SyncRecord>,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(chunks: &'a [ChunkAt]) -> Self {
        Self { chunks: chunks.iter(), in_hand: VecDeque::new() }
    }

    /// The next record, earliest first.
    pub(super) fn next(&mut self, source: &Source) -> Result<Option<SyncRecord>, SyncSegmentError> {
        while self.in_hand.len() < IN_HAND {
            let Some(chunk) = self.chunks.next() else { break };
            self.load(source, *chunk)?;
        }
        Ok(self.in_hand.pop_front())
    }

    fn load(&mut self, source: &Source, chunk: ChunkAt) -> Result<(), SyncSegmentError> {
        let headers =
            size_of::<SyncChunkHeader>() + if chunk.first { size_of::<SyncRingHeader>() } else { 0 };
        let mut octets = vec![0; chunk.pages as usize * PAGE_BYTES - headers];
        let at = chunk.page.saturating_mul(PAGE_BYTES as u64).saturating_add(headers as u64);
        let count = source.read_at(at, &mut octets)?;
        let records = octets[..count].chunks_exact(RECORD_BYTES);
        let records = records.filter_map(|octets| SyncRecord::read_from_bytes(octets).ok());
        let mut latest = self.in_hand.back().map_or(0, |record| record.cycles);
        let mut in_order = true;
        self.in_hand.extend(records.filter(|record| record.cycles != 0).inspect(|record| {
            in_order &= record.cycles >= latest;
            latest = record.cycles;
        }));
        if !in_order {
            self.in_hand.make_contiguous().sort_by_key(|record| record.cycles);
        }
        Ok(())
    }
}
