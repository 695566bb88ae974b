//! Checks of the reader of recordings of synchronisation, for the ordinary tests and for fuzzers.

#![allow(unreachable_pub, reason = "fuzz/ uses it from another crate")]

use quaver_abi::segment::BYTE_ORDER;
use quaver_abi::sync::{
    CHUNK_MAGIC, PAGE_BYTES, SYNC_MAGIC, SYNC_VERSION, SyncChunkHeader, SyncRecord, SyncRingHeader,
    SyncSegmentHeader,
};
use quaver_sync_store::{SegmentReader, SyncMoment};
use std::path::Path;
use zerocopy::{FromZeros, IntoBytes};

/// Reads whatever the bytes are: it ends, in time order, with no more events than there are bytes for, and the
/// threads by themselves give the same events. Whether they were a recording.
pub fn recording(octets: &[u8]) -> bool {
    let Ok(segment) = SegmentReader::from_octets(octets.to_vec(), Path::new("memory")) else { return false };
    let mut by_thread = vec![0u64; segment.threads().len()];
    let mut latest = 0;
    for moment in segment.merge() {
        let moment = moment.expect("memory does not fail");
        assert!(moment.at_ns >= latest && moment.record.cycles != 0);
        latest = moment.at_ns;
        by_thread[moment.thread as usize] += 1;
    }
    let events: u64 = by_thread.iter().sum();
    assert!(events <= (octets.len() / size_of::<SyncRecord>()) as u64);
    for (thread, count) in by_thread.iter().enumerate() {
        let records = segment.records(thread).expect("memory does not fail");
        assert_eq!(records.len() as u64, *count);
        assert!(records.is_sorted_by_key(|record| record.cycles));
    }
    segment.is_silent().expect("memory does not fail");
    true
}

/// What is between two pages in one string of bytes.
const BETWEEN: &[u8] = b"\n----\n";

/// The same for the pages behind a header that is right: each is filled up with zeros. A fuzzer makes no header of 4096 bytes.
pub fn pages(octets: &[u8]) -> bool {
    let mut whole = made(&[]);
    let mut rest = octets;
    loop {
        let end = rest.windows(BETWEEN.len()).position(|window| window == BETWEEN);
        whole.extend(&rest[..end.unwrap_or(rest.len())]);
        whole.resize(whole.len().next_multiple_of(PAGE_BYTES), 0);
        match end {
            Some(end) => rest = &rest[end + BETWEEN.len()..],
            None => return recording(&whole),
        }
    }
}

/// All events of a recording.
#[allow(dead_code, reason = "for the tests")]
pub fn moments(octets: &[u8]) -> Vec<SyncMoment> {
    let segment = SegmentReader::from_octets(octets.to_vec(), Path::new("memory")).unwrap();
    segment.merge().collect::<Result<_, _>>().unwrap()
}

/// A recording of threads that each have these records, in chunks of a page; cycles are nanoseconds.
pub fn made(threads: &[Vec<SyncRecord>]) -> Vec<u8> {
    let mut header = SyncSegmentHeader::new_zeroed();
    header.magic = SYNC_MAGIC;
    header.version = SYNC_VERSION;
    header.byte_order = BYTE_ORDER;
    header.record_bytes = size_of::<SyncRecord>() as u32;
    header.page_bytes = PAGE_BYTES as u32;
    (header.first_cycles, header.first_monotonic_ns) = (1, 1);
    (header.last_cycles, header.last_monotonic_ns) = (1 << 40, 1 << 40);
    let mut octets = vec![0; PAGE_BYTES];
    for (number, records) in threads.iter().enumerate() {
        let mut records = records.as_slice();
        let mut sequence = 0;
        while sequence == 0 || !records.is_empty() {
            let start = octets.len();
            let chunk = SyncChunkHeader {
                magic: CHUNK_MAGIC,
                pages: 1,
                thread: number as u32,
                sequence,
                anchor_cycles: 1,
                anchor_monotonic_ns: 1,
                ..SyncChunkHeader::default()
            };
            octets.extend(chunk.as_bytes());
            if sequence == 0 {
                let ring = SyncRingHeader {
                    tid: 100 + number as u32,
                    creation: number as u32,
                    pthread: 7 * number as u64,
                    start_cycles: 1,
                    ..SyncRingHeader::default()
                };
                octets.extend(ring.as_bytes());
            }
            let room = (start + PAGE_BYTES - octets.len()) / size_of::<SyncRecord>();
            let (now, later) = records.split_at(records.len().min(room));
            now.iter().for_each(|record| octets.extend(record.as_bytes()));
            octets.resize(start + PAGE_BYTES, 0);
            (records, sequence) = (later, sequence + 1);
        }
    }
    header.pages_used = (octets.len() / PAGE_BYTES) as u64;
    header.pages_room = header.pages_used;
    octets[..PAGE_BYTES].copy_from_slice(header.as_bytes());
    octets
}
