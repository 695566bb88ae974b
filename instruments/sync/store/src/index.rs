//! Finding the chunks of a segment, and the anchors of its clock.

use super::SyncSegmentError;
use super::facts::{ChunkAt, ScannedThreads};
use super::source::Source;
use quaver_abi::record::AnchorRecord;
use quaver_abi::sync::{CHUNK_MAGIC, PAGE_BYTES, SyncChunkHeader, SyncRingHeader, SyncSegmentHeader};
use zerocopy::FromBytes;

/// Most pages of a chunk that is believed: the recorder's own have 4.
const MOST_PAGES: u32 = 256;
/// Pages without a chunk in a row after which nothing more is looked for. Threads that were killed at a bad moment
/// leave 4 each.
const MOST_EMPTY: u64 = 1 << 16;
/// Anchors nearer than this to the one before tell more of their own noise than of the clock, nanoseconds.
const SPACING_NS: i64 = 5_000_000;

pub(super) fn header(source: &Source) -> Result<SyncSegmentHeader, SyncSegmentError> {
    let mut page = vec![0; PAGE_BYTES];
    let count = source.read_at(0, &mut page)?;
    SyncSegmentHeader::check(&page[..count])
        .map_err(|error| SyncSegmentError::Header { path: source.path().to_owned(), source: error })
}

pub(super) fn chunks(
    source: &Source,
    header: &SyncSegmentHeader,
) -> Result<ScannedThreads, SyncSegmentError> {
    let pages = source.octets().div_ceil(PAGE_BYTES as u64);
    let end = header.pages_used.min(header.pages_room).min(pages);
    let mut found = ScannedThreads::default();
    let mut octets = [0; size_of::<SyncChunkHeader>() + size_of::<SyncRingHeader>()];
    let (mut page, mut empty) = (1, 0);
    while page < end && empty < MOST_EMPTY {
        octets.fill(0);
        source.read_at(page * PAGE_BYTES as u64, &mut octets)?;
        match chunk(&octets) {
            Some((chunk, ring)) => {
                found.add(ChunkAt { page, pages: chunk.pages, first: chunk.sequence == 0 }, &chunk, ring);
                page += u64::from(chunk.pages);
                empty = 0;
            }
            None => {
                page += 1;
                empty += 1;
            }
        }
    }
    Ok(found)
}

pub(super) fn chunk(octets: &[u8]) -> Option<(SyncChunkHeader, Option<SyncRingHeader>)> {
    let (chunk, rest) = SyncChunkHeader::read_from_prefix(octets).ok()?;
    if chunk.magic != CHUNK_MAGIC || !(1..=MOST_PAGES).contains(&chunk.pages) {
        return None;
    }
    let ring = (chunk.sequence == 0).then(|| SyncRingHeader::read_from_prefix(rest).ok()).flatten();
    Some((chunk, ring.map(|(ring, _)| ring)))
}

/// The anchors of header and chunks in order, not nearer to each other than is good for them.
pub(super) fn anchors(header: &SyncSegmentHeader, found: &ScannedThreads) -> Vec<AnchorRecord> {
    let anchor =
        |(cycles, monotonic_ns): (u64, i64)| AnchorRecord { cycles, monotonic_ns, ..AnchorRecord::default() };
    let ends =
        [(header.first_cycles, header.first_monotonic_ns), (header.last_cycles, header.last_monotonic_ns)];
    let mut all: Vec<(u64, i64)> = ends.into_iter().chain(found.anchors()).collect();
    all.retain(|(cycles, ns)| *cycles != 0 && *ns > 0);
    all.sort_unstable();
    all.dedup();
    let mut kept: Vec<(u64, i64)> = Vec::new();
    for next in all {
        match (kept.len(), kept.last().copied()) {
            (0 | 1, _) => kept.push(next),
            // Too near to the last: takes its place, so that the latest anchor always stays.
            (count, Some(last)) => {
                let before = kept[count - 2];
                if last.1.saturating_sub(before.1) < SPACING_NS {
                    kept.pop();
                }
                kept.push(next);
            }
            (_, None) => {}
        }
    }
    // The last pair is what instants after it go by: it must not be a near one either.
    if let [.., _, before, last] = kept.as_slice()
        && last.1.saturating_sub(before.1) < SPACING_NS
    {
        kept.swap_remove(kept.len() - 2);
    }
    kept.into_iter().map(anchor).collect()
}
