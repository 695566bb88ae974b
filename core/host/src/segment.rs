//! Writers of raw segments: preallocated memory of a file for the hot paths, buffered appends for the others.
//!
//! [`SegmentWriter`] maps the file, so a record is in the kernel's page cache as soon as it is written: a
//! `kill -9` loses none. [`SegmentAppender`] hands records to the kernel at each [`SegmentAppender::flush`].
//! Reading back is the store's business.

use quaver_abi::segment::{Record, SegmentHeader};
use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::marker::PhantomData;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};
use zerocopy::IntoBytes;

const HEADER_BYTES: usize = size_of::<SegmentHeader>();
/// Capacity in the header of a segment that grows: readers go by the length of the file.
pub const UNLIMITED: u64 = u64::MAX;

const RESERVE: &str = "reserve space for";

/// A segment could not be made, written or finished.
#[derive(Debug, thiserror::Error)]
#[error("{operation} segment {}: {source}{remedy}", path.display())]
pub struct SegmentWriteError {
    /// What was tried.
    pub operation: &'static str,
    /// On which file.
    pub path: PathBuf,
    /// What the system said.
    pub source: std::io::Error,
    /// What to do, with its own leading punctuation; may be empty.
    pub remedy: &'static str,
}

impl SegmentWriteError {
    fn new(operation: &'static str, path: &Path, source: impl Into<std::io::Error>) -> Self {
        let source = source.into();
        let remedy = match source.raw_os_error() {
            // Only a reservation depends on the requested length of the run.
            Some(libc::ENOSPC | libc::EDQUOT) if operation == RESERVE => {
                "; free space there, or ask for a shorter run"
            }
            Some(libc::ENOSPC | libc::EDQUOT) => "; free space there",
            Some(libc::EFBIG) => "; ask for a shorter run",
            Some(libc::ENOMEM) | Some(libc::EAGAIN) => {
                "; ask for a shorter run, or raise the memory-lock limit (ulimit -l)"
            }
            Some(libc::EEXIST) => "; choose another run directory",
            _ => "",
        };
        Self { operation, path: path.to_owned(), source, remedy }
    }
}

/// What a finished segment holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentSummary {
    /// Its file.
    pub path: PathBuf,
    /// Records in it.
    pub written: u64,
    /// Records that found no room.
    pub lost: u64,
}

/// How far a writer has come, for other threads to read at any time.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct SegmentProgress {
    written: AtomicU64,
    lost: AtomicU64,
}

impl SegmentProgress {
    /// Records written so far.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Records that found no room so far.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// Writes records into the preallocated, mapped memory of a segment file. For hot paths: [`Self::push`] neither
/// allocates nor calls the kernel, and takes about 3 ns (`examples/segment_cost.rs`).
///
/// On a disk file system the kernel's writeback (after half a minute, or by a `sync`) protects pages again that
/// it has written out, and the next store to such a page faults: some hundreds in 1.6 million records with a
/// `sync` each 4 s. A path on tmpfs has none, and no disk traffic beside the measurement; it survives a kill of
/// the process too, but not a loss of power.
#[derive(Debug)]
pub struct SegmentWriter<R: Record> {
    next: *mut R,
    end: *mut R,
    /// Records written and lost, kept here so that the hot path only stores to the shared line.
    written: u64,
    lost: u64,
    progress: Arc<SegmentProgress>,
    map: Mapping,
    file: File,
    path: PathBuf,
    capacity: u64,
}

// SAFETY: the pointers lead into the mapping that this value owns and that no other value writes to.
unsafe impl<R: Record + Send> Send for SegmentWriter<R> {}

#[derive(Debug)]
struct Mapping {
    base: *mut core::ffi::c_void,
    octets: usize,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and bytes are those of a successful mmap, and the owner of the pointers into it ends
        // with it. An error could only mean that they are not, which the constructor rules out.
        let _ = unsafe { munmap(self.base, self.octets) };
    }
}

impl<R: Record> SegmentWriter<R> {
    /// Makes the file `path`, which must not exist, with room for `capacity` records; reserves its blocks and
    /// touches its pages, so that the first pass over them takes no fault.
    ///
    /// # Errors
    /// Names the step that failed and the file, which is removed again.
    pub fn create(path: &Path, capacity: u64) -> Result<Self, SegmentWriteError> {
        const {
            assert!(size_of::<R>().is_multiple_of(8) && align_of::<R>() <= 8, "records are written by words");
            assert!(R::MARK_OFFSET < size_of::<R>());
        }
        let file = create_file(path)?;
        Self::create_in(file, path, capacity).inspect_err(|_| {
            let _ = std::fs::remove_file(path);
        })
    }

    fn create_in(file: File, path: &Path, capacity: u64) -> Result<Self, SegmentWriteError> {
        let fail = |operation, source| SegmentWriteError::new(operation, path, source);
        let octets = usize::try_from(capacity)
            .ok()
            .and_then(|records| records.checked_mul(size_of::<R>()))
            .and_then(|octets| octets.checked_add(HEADER_BYTES))
            .filter(|octets| i64::try_from(*octets).is_ok())
            .ok_or_else(|| fail("size", std::io::Error::from_raw_os_error(libc::EFBIG)))?;
        reserve(&file, octets as u64).map_err(|e| fail(RESERVE, e))?;
        write_header::<R>(&file, capacity).map_err(|e| fail("write header of", e))?;
        // SAFETY: a new mapping at an address of the kernel's choice; it aliases no Rust object.
        let base = unsafe {
            mmap(
                std::ptr::null_mut(),
                octets,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
                &file,
                0,
            )
        }
        .map_err(|e| fail("map", e.into()))?;
        let map = Mapping { base, octets };
        make_writable(&map);
        // SAFETY: the mapping holds the header and `capacity` records after it; HEADER_BYTES keeps alignment.
        let (next, end) = unsafe {
            let first = base.cast::<u8>().add(HEADER_BYTES).cast::<R>();
            (first, first.add(capacity as usize))
        };
        let progress = Arc::default();
        Ok(Self { next, end, written: 0, lost: 0, progress, map, file, path: path.to_owned(), capacity })
    }

    /// Writes one record; false, and counted as lost, if the segment is full. The record's written mark must be
    /// set, or a reader stops there. The mark is stored last: a record cut off half-way does not count.
    #[inline(always)]
    pub fn push(&mut self, record: R) -> bool {
        if self.next == self.end {
            self.lost += 1;
            self.progress.lost.store(self.lost, Ordering::Relaxed);
            return false;
        }
        let mark = R::MARK_OFFSET / 8;
        let words = size_of::<R>() / 8;
        // SAFETY: `next` lies before `end`, so a whole record fits; records are whole words without padding
        // (IntoBytes), aligned to words as the header is 64 bytes long and the mapping is page-aligned.
        unsafe {
            let from = (&raw const record).cast::<u64>();
            let to = self.next.cast::<u64>();
            std::ptr::copy_nonoverlapping(from, to, mark);
            std::ptr::copy_nonoverlapping(from.add(mark + 1), to.add(mark + 1), words - mark - 1);
            compiler_fence(Ordering::Release);
            to.add(mark).write_volatile(from.add(mark).read());
            self.next = self.next.add(1);
        }
        self.written += 1;
        self.progress.written.store(self.written, Ordering::Release);
        true
    }

    /// Records written.
    pub fn len(&self) -> u64 {
        self.written
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.written == 0
    }

    /// Records that found no room.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Records that the segment has room for.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Handle for other threads to watch how far this writer has come.
    pub fn progress(&self) -> Arc<SegmentProgress> {
        Arc::clone(&self.progress)
    }

    /// Cuts the file to the records written and brings it to the disk.
    ///
    /// # Errors
    /// Names the step that failed; what was written stays in the file.
    pub fn finish(self) -> Result<SegmentSummary, SegmentWriteError> {
        let Self { map, file, path, written, lost, .. } = self;
        drop(map);
        finish_file::<R>(&file, &path, written)?;
        Ok(SegmentSummary { path, written, lost })
    }
}

/// Appends records to a segment that grows. For threads off the hot path: it calls the kernel.
#[derive(Debug)]
pub struct SegmentAppender<R: Record> {
    out: BufWriter<File>,
    path: PathBuf,
    written: u64,
    progress: Arc<SegmentProgress>,
    records: PhantomData<R>,
}

impl<R: Record> SegmentAppender<R> {
    /// Makes the file `path`, which must not exist.
    ///
    /// # Errors
    /// Names the step that failed and the file.
    pub fn create(path: &Path) -> Result<Self, SegmentWriteError> {
        let file = create_file(path)?;
        let fail = |e| SegmentWriteError::new("write header of", path, e);
        write_header::<R>(&file, UNLIMITED).map_err(fail)?;
        let mut file = file;
        std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(HEADER_BYTES as u64)).map_err(fail)?;
        let out = BufWriter::with_capacity(256 * 1024, file);
        Ok(Self { out, path: path.to_owned(), written: 0, progress: Arc::default(), records: PhantomData })
    }

    /// Appends one record, whose written mark must be set.
    ///
    /// # Errors
    /// When the kernel refuses the bytes.
    pub fn append(&mut self, record: &R) -> Result<(), SegmentWriteError> {
        self.out
            .write_all(record.as_bytes())
            .map_err(|e| SegmentWriteError::new("write to", &self.path, e))?;
        self.written += 1;
        self.progress.written.store(self.written, Ordering::Release);
        Ok(())
    }

    /// Hands everything appended to the kernel; from then on a kill of this process loses none of it.
    ///
    /// # Errors
    /// When the kernel refuses the bytes.
    pub fn flush(&mut self) -> Result<(), SegmentWriteError> {
        self.out.flush().map_err(|e| SegmentWriteError::new("write to", &self.path, e))
    }

    /// Records appended.
    pub fn len(&self) -> u64 {
        self.written
    }

    /// Whether nothing was appended.
    pub fn is_empty(&self) -> bool {
        self.written == 0
    }

    /// Handle for other threads to watch how far this writer has come.
    pub fn progress(&self) -> Arc<SegmentProgress> {
        Arc::clone(&self.progress)
    }

    /// Writes out what is left, the count of records into the header, and brings the file to the disk.
    ///
    /// # Errors
    /// Names the step that failed; what was written stays in the file.
    pub fn finish(self) -> Result<SegmentSummary, SegmentWriteError> {
        let Self { out, path, written, .. } = self;
        let file = out.into_inner().map_err(|e| SegmentWriteError::new("write to", &path, e.into_error()))?;
        finish_file::<R>(&file, &path, written)?;
        Ok(SegmentSummary { path, written, lost: 0 })
    }
}

fn create_file(path: &Path) -> Result<File, SegmentWriteError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|e| SegmentWriteError::new("create", path, e))
}

/// Reserves real blocks: with a sparse file, a full disk would be a SIGBUS in the hot loop.
fn reserve(file: &File, octets: u64) -> std::io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, octets) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::OPNOTSUPP) | Err(rustix::io::Errno::NOSYS) => {
            let zeros = vec![0u8; 1 << 20];
            let mut at = 0;
            while at < octets {
                let part = zeros.len().min((octets - at) as usize);
                file.write_all_at(&zeros[..part], at)?;
                at += part as u64;
            }
            Ok(())
        }
        Err(e) => Err(e.into()),
    }
}

fn write_header<R: Record>(file: &File, capacity: u64) -> std::io::Result<()> {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let created_ns = now.tv_sec * 1_000_000_000 + now.tv_nsec;
    file.write_all_at(SegmentHeader::new::<R>(capacity, created_ns).as_bytes(), 0)
}

/// Makes every page of the mapping present and writable. Reading faults of `MAP_POPULATE` leave shared pages
/// write-protected, so the first store to each would still fault.
fn make_writable(map: &Mapping) {
    // SAFETY: the range is that of the mapping; populating changes no contents.
    let populated = unsafe { madvise(map.base, map.octets, Advice::LinuxPopulateWrite) };
    if populated.is_ok() {
        return;
    }
    // Kernels before 5.14: store to each page what it holds.
    let mut at = 0;
    while at < map.octets {
        // SAFETY: `at` lies inside the mapping, which nothing else reads or writes yet.
        unsafe {
            let octet = map.base.cast::<u8>().add(at);
            octet.write_volatile(octet.read_volatile());
        }
        at += 4096;
    }
}

fn finish_file<R: Record>(file: &File, path: &Path, written: u64) -> Result<(), SegmentWriteError> {
    let fail = |operation, source| SegmentWriteError::new(operation, path, source);
    let octets = HEADER_BYTES as u64 + written * size_of::<R>() as u64;
    ftruncate(file, octets).map_err(|e| fail("truncate", e.into()))?;
    let at = std::mem::offset_of!(SegmentHeader, capacity) as u64;
    file.write_all_at(&written.to_ne_bytes(), at).map_err(|e| fail("write header of", e))?;
    file.sync_data().map_err(|e| fail("sync", e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_abi::record::{EventRecord, GapRecord, PacketRecord};

    fn gap(index: u64) -> GapRecord {
        GapRecord { index, before_cycles: 1, after_cycles: index + 2, ..GapRecord::default() }
    }

    fn records<R: Record>(octets: &[u8]) -> Vec<R> {
        let header = SegmentHeader::check::<R>(octets).unwrap();
        let body = &octets[HEADER_BYTES..];
        assert_eq!(header.record_bytes as usize, size_of::<R>());
        body.chunks_exact(size_of::<R>()).map(|c| R::read_from_bytes(c).unwrap()).collect()
    }

    #[test]
    fn writes_counts_and_truncates() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gaps.seg");
        let mut writer = SegmentWriter::<GapRecord>::create(&path, 1_000).unwrap();
        let progress = writer.progress();
        for index in 0..700 {
            assert!(writer.push(gap(index)));
        }
        assert_eq!((writer.len(), progress.written(), progress.lost()), (700, 700, 0));
        let summary = writer.finish().unwrap();
        assert_eq!(summary, SegmentSummary { path: path.clone(), written: 700, lost: 0 });
        let octets = std::fs::read(&path).unwrap();
        assert_eq!(octets.len(), 64 + 700 * 32);
        let read = records::<GapRecord>(&octets);
        assert!(read.iter().enumerate().all(|(at, r)| *r == gap(at as u64)));
        assert_eq!(SegmentHeader::check::<GapRecord>(&octets).unwrap().capacity, 700);
    }

    #[test]
    fn full_segment_counts_what_it_loses() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("full.seg");
        let mut writer = SegmentWriter::<GapRecord>::create(&path, 3).unwrap();
        let taken = (0..10).filter(|i| writer.push(gap(*i))).count();
        assert_eq!((taken, writer.len(), writer.lost()), (3, 3, 7));
        assert_eq!(writer.finish().unwrap().lost, 7);
    }

    #[test]
    fn what_was_written_is_in_the_file_without_a_finish() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("killed.seg");
        let mut writer = SegmentWriter::<PacketRecord>::create(&path, 100).unwrap();
        for key in 0..5 {
            writer.push(PacketRecord { key, app_cycles: 77, media_timestamp: 9, ..PacketRecord::default() });
        }
        std::mem::forget(writer);
        let read = records::<PacketRecord>(&std::fs::read(&path).unwrap());
        assert_eq!(read.len(), 100);
        assert_eq!(read.iter().take_while(|r| r.is_written()).count(), 5);
        assert!(read[..5].iter().enumerate().all(|(at, r)| r.key == at as u64 && r.media_timestamp == 9));
    }

    #[test]
    fn kill_loses_no_record() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("killed.seg");
        let mut writer = SegmentWriter::<GapRecord>::create(&path, 1_000_000).unwrap();
        // SAFETY: the child only stores to its shared mapping and kills itself: nothing that needs a lock.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "{}", std::io::Error::last_os_error());
        if child == 0 {
            for index in 0..54_321 {
                writer.push(gap(index));
            }
            // SAFETY: both calls take numbers only.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
        let mut status = 0;
        // SAFETY: `status` is a valid out-pointer, and the child is ours.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL);
        let read = records::<GapRecord>(&std::fs::read(&path).unwrap());
        assert_eq!(read.iter().take_while(|r| r.is_written()).count(), 54_321);
        assert!(read[..54_321].iter().enumerate().all(|(at, r)| *r == gap(at as u64)));
    }

    #[test]
    fn appends_without_a_limit_and_is_readable_after_each_flush() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.seg");
        let mut appender = SegmentAppender::<EventRecord>::create(&path).unwrap();
        let event = |n: u64| EventRecord { start_ns: n, end_ns: n + 1, kind: 2, ..EventRecord::default() };
        for n in 0..20_000 {
            appender.append(&event(n)).unwrap();
        }
        appender.flush().unwrap();
        assert_eq!(records::<EventRecord>(&std::fs::read(&path).unwrap()).len(), 20_000);
        appender.append(&event(20_000)).unwrap();
        assert_eq!(appender.progress().written(), 20_001);
        assert_eq!(appender.finish().unwrap().written, 20_001);
        let read = records::<EventRecord>(&std::fs::read(&path).unwrap());
        assert!(read.iter().enumerate().all(|(at, r)| *r == event(at as u64)) && read.len() == 20_001);
    }

    #[test]
    fn refuses_an_existing_file_and_an_impossible_size() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("there.seg");
        std::fs::write(&path, b"mine").unwrap();
        let error = SegmentWriter::<GapRecord>::create(&path, 3).unwrap_err();
        assert!(error.to_string().contains("create segment") && error.to_string().contains("there.seg"));
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
        let huge = dir.path().join("huge.seg");
        assert!(SegmentWriter::<GapRecord>::create(&huge, u64::MAX / 2).is_err());
        assert!(SegmentWriter::<GapRecord>::create(&huge, 1 << 45).is_err());
        assert!(!huge.exists());
    }
}
