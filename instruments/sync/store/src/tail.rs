//! A recording read while its process writes it.

use super::SyncSegmentError;
use super::index::chunk;
use super::source::Source;
use quaver_abi::sync::{PAGE_BYTES, SyncChunkHeader, SyncRecord, SyncRingHeader, SyncSegmentHeader};
use std::collections::{HashMap, VecDeque};
use std::mem::offset_of;
use std::path::Path;
use zerocopy::FromBytes;

const RECORD_BYTES: u64 = size_of::<SyncRecord>() as u64;
/// Records of a ring that are read at once.
const BLOCK: usize = 32;
/// Looks at a slot that stays empty before later ones, until it is given up: a signal handler that never returned left it.
const PATIENCE: u32 = 64;
/// Pages handed out to threads that have not written them yet, which are looked at again.
const MOST_PENDING: usize = 1_024;
/// Creations remembered of which the child is known.
const MOST_CHILDREN: usize = 65_536;

/// Follows the recording of one process image. Reading never waits, and nothing is asked of the process.
#[derive(Debug)]
pub struct Tail {
    source: Source,
    header: SyncSegmentHeader,
    /// Pages before this one were looked at.
    looked: u64,
    /// Of these, those without a chunk so far.
    pending: VecDeque<u64>,
    rings: Vec<Ring>,
    by_number: HashMap<u32, usize>,
    /// By number of the creation: thread id and `pthread_t` of the child.
    children: HashMap<u32, (u32, u64)>,
    holes: u64,
}

#[derive(Debug, Default)]
struct Ring {
    tid: u32,
    /// Next slot and end of the chunk that is read, bytes.
    at: u64,
    end: u64,
    /// Chunks after it: first slot, end.
    coming: VecDeque<(u64, u64)>,
    waited: u32,
}

impl Tail {
    /// Begins to follow a recording; none while its process has not made it ready.
    ///
    /// # Errors
    /// The file cannot be read, or is of another version.
    pub fn open(path: &Path) -> Result<Option<Self>, SyncSegmentError> {
        let source = Source::open(path)?;
        let mut page = vec![0; PAGE_BYTES];
        let count = source.read_at(0, &mut page)?;
        if count < PAGE_BYTES || page[..8].iter().all(|octet| *octet == 0) {
            return Ok(None);
        }
        let header = super::index::header(&source)?;
        Ok(Some(Self {
            source,
            header,
            looked: 1,
            pending: VecDeque::new(),
            rings: Vec::new(),
            by_number: HashMap::new(),
            children: HashMap::new(),
            holes: 0,
        }))
    }

    /// Number of the process.
    pub fn pid(&self) -> u32 {
        self.header.pid
    }

    /// Slots that were given up.
    pub fn holes(&self) -> u64 {
        self.holes
    }

    /// Thread id and `pthread_t` of the child of a creation, once it has been seen.
    pub fn child(&self, creation: u32) -> Option<(u32, u64)> {
        self.children.get(&creation).copied()
    }

    /// Gives what was written since, a thread after the other, each in its own order: `sink` gets the thread id and the record.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn poll(&mut self, sink: &mut dyn FnMut(u32, SyncRecord)) -> Result<(), SyncSegmentError> {
        self.find_chunks()?;
        let mut block = [0; BLOCK * RECORD_BYTES as usize];
        for ring in &mut self.rings {
            while ring.read(&self.source, &mut block, &mut self.holes, sink)? {}
        }
        Ok(())
    }

    fn find_chunks(&mut self) -> Result<(), SyncSegmentError> {
        let mut word = [0; 8];
        self.source.read_at(offset_of!(SyncSegmentHeader, pages_used) as u64, &mut word)?;
        let used = u64::from_ne_bytes(word).min(self.header.pages_room);
        for _ in 0..self.pending.len() {
            let Some(page) = self.pending.pop_front() else { break };
            if !self.take(page)? {
                self.pending.push_back(page);
            }
        }
        while self.looked < used {
            let page = self.looked;
            self.looked += 1;
            if !self.take(page)? {
                self.pending.push_back(page);
            }
        }
        while self.pending.len() > MOST_PENDING {
            self.pending.pop_front();
        }
        Ok(())
    }

    /// Whether a chunk begins at that page; if so, it is read from now on.
    fn take(&mut self, page: u64) -> Result<bool, SyncSegmentError> {
        let mut octets = [0; size_of::<SyncChunkHeader>() + size_of::<SyncRingHeader>()];
        let start = page * PAGE_BYTES as u64;
        self.source.read_at(start, &mut octets)?;
        let Some((chunk, ring)) = chunk(&octets) else { return Ok(false) };
        let end = page + u64::from(chunk.pages);
        self.looked = self.looked.max(end);
        self.pending.retain(|other| *other < page || *other >= end);
        let rings = &mut self.rings;
        let index = *self.by_number.entry(chunk.thread).or_insert_with(|| {
            rings.push(Ring::default());
            rings.len() - 1
        });
        let state = &mut self.rings[index];
        let mut first = start + size_of::<SyncChunkHeader>() as u64;
        if let Some(ring) = ring {
            first += size_of::<SyncRingHeader>() as u64;
            state.tid = ring.tid;
            if ring.creation != 0 && self.children.len() < MOST_CHILDREN {
                self.children.insert(ring.creation, (ring.tid, ring.pthread));
            }
        }
        state.coming.push_back((first, end * PAGE_BYTES as u64));
        Ok(true)
    }
}

impl Ring {
    /// Reads a block; whether there may be more.
    fn read(
        &mut self,
        source: &Source,
        block: &mut [u8],
        holes: &mut u64,
        sink: &mut dyn FnMut(u32, SyncRecord),
    ) -> Result<bool, SyncSegmentError> {
        if self.at >= self.end {
            let Some((first, end)) = self.coming.pop_front() else { return Ok(false) };
            (self.at, self.end) = (first, end);
        }
        let room = ((self.end - self.at) as usize).min(block.len());
        let count = source.read_at(self.at, &mut block[..room])?;
        let slots = block[..count].chunks_exact(RECORD_BYTES as usize);
        let records: Vec<SyncRecord> =
            slots.filter_map(|octets| SyncRecord::read_from_bytes(octets).ok()).collect();
        for (place, record) in records.iter().enumerate() {
            if is_written(record) {
                sink(self.tid, *record);
                self.waited = 0;
            } else {
                let later = records[place..].iter().any(is_written);
                if !later && self.coming.is_empty() {
                    return Ok(false);
                }
                // The thread has gone on, so either it is about to mark this one, or nobody ever will.
                self.waited += 1;
                if self.waited < PATIENCE {
                    return Ok(false);
                }
                *holes += 1;
            }
            self.at += RECORD_BYTES;
        }
        Ok(!records.is_empty())
    }
}

/// `cycles` is stored last, the kind before it; both must be there.
fn is_written(record: &SyncRecord) -> bool {
    record.cycles != 0 && record.kind != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_abi::segment::BYTE_ORDER;
    use quaver_abi::sync::{CHUNK_MAGIC, SYNC_MAGIC, SYNC_VERSION, SyncKind};
    use std::os::unix::fs::FileExt;
    use zerocopy::IntoBytes;

    /// A recording as a process would write it, step by step.
    struct Writer {
        file: std::fs::File,
        path: std::path::PathBuf,
        _place: tempfile::TempDir,
    }

    impl Writer {
        fn new() -> Self {
            let place = tempfile::tempdir().unwrap();
            let path = place.path().join("sync-1-0.seg");
            let file = std::fs::File::create_new(&path).unwrap();
            file.set_len(64 * PAGE_BYTES as u64).unwrap();
            Self { file, path, _place: place }
        }

        fn header(&self, pages_used: u64) {
            let mut header = SyncSegmentHeader::read_from_bytes(&[0; PAGE_BYTES]).unwrap();
            header.magic = SYNC_MAGIC;
            header.version = SYNC_VERSION;
            header.byte_order = BYTE_ORDER;
            header.record_bytes = RECORD_BYTES as u32;
            header.page_bytes = PAGE_BYTES as u32;
            (header.pid, header.pages_used, header.pages_room) = (77, pages_used, 64);
            self.file.write_all_at(header.as_bytes(), 0).unwrap();
        }

        fn chunk(&self, page: u64, thread: u32, sequence: u32, pages: u32) {
            let at = page * PAGE_BYTES as u64;
            if sequence == 0 {
                let tid = 100 + thread;
                let ring = SyncRingHeader { tid, creation: thread, ..SyncRingHeader::default() };
                self.file.write_all_at(ring.as_bytes(), at + 64).unwrap();
            }
            let magic = CHUNK_MAGIC;
            let header = SyncChunkHeader { magic, pages, thread, sequence, ..SyncChunkHeader::default() };
            self.file.write_all_at(header.as_bytes(), at).unwrap();
        }

        fn record(&self, page: u64, before: u64, slot: u64, cycles: u64) {
            let record = SyncRecord { cycles, kind: SyncKind::LockEntry as u8, ..SyncRecord::default() };
            let at = page * PAGE_BYTES as u64 + before + slot * RECORD_BYTES;
            self.file.write_all_at(record.as_bytes(), at).unwrap();
        }
    }

    fn new(tail: &mut Tail) -> Vec<(u32, u64)> {
        let mut seen = Vec::new();
        tail.poll(&mut |tid, record| seen.push((tid, record.cycles))).unwrap();
        seen
    }

    #[test]
    fn what_is_written_is_seen_once_and_in_order() {
        let writer = Writer::new();
        assert!(Tail::open(&writer.path).unwrap().is_none(), "not ready");
        writer.header(1);
        let mut tail = Tail::open(&writer.path).unwrap().unwrap();
        assert_eq!((tail.pid(), new(&mut tail)), (77, vec![]));
        // A page was handed out and is not begun; the next one is.
        writer.header(3);
        writer.chunk(2, 1, 0, 1);
        writer.record(2, 192, 0, 10);
        assert_eq!(new(&mut tail), [(101, 10)]);
        assert_eq!(tail.child(1), Some((101, 0)));
        writer.chunk(1, 0, 0, 1);
        (0..122).for_each(|slot| writer.record(1, 192, slot, 20 + slot));
        assert_eq!(new(&mut tail).len(), 122);
        assert_eq!(new(&mut tail), []);
        // The full ring goes on in a larger chunk.
        writer.header(7);
        writer.chunk(3, 0, 1, 4);
        (0..510).for_each(|slot| writer.record(3, 64, slot, 1_000 + slot));
        let seen = new(&mut tail);
        assert_eq!((seen.len(), seen[0], seen[509]), (510, (100, 1_000), (100, 1_509)));
        assert_eq!((new(&mut tail), tail.holes()), (vec![], 0));
    }

    #[test]
    fn a_slot_that_comes_late_is_waited_for_and_one_that_never_comes_is_given_up() {
        let writer = Writer::new();
        writer.header(2);
        writer.chunk(1, 0, 0, 1);
        let mut tail = Tail::open(&writer.path).unwrap().unwrap();
        writer.record(1, 192, 1, 2);
        assert_eq!(new(&mut tail), []);
        writer.record(1, 192, 0, 1);
        assert_eq!(new(&mut tail), [(100, 1), (100, 2)]);
        writer.record(1, 192, 3, 4);
        let seen: Vec<_> = (0..2 * PATIENCE).flat_map(|_| new(&mut tail)).collect();
        assert_eq!((seen, tail.holes()), (vec![(100, 4)], 1));
    }
}
