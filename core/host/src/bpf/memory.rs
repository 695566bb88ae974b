//! A BPF array map in our address space, so that reading what the programs wrote needs no system call.

use quaver_abi::record::{EventRecord, StampRecord};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// All values of one map. `T` holds only integers, so that every bit pattern is a value.
pub struct Mapping<T> {
    base: NonNull<T>,
    count: usize,
    bytes: usize,
    values: PhantomData<T>,
}

// SAFETY: the mapping belongs to this value alone and is not tied to a thread; the programs that also write to
// it are ordered by the protocols of the methods below.
unsafe impl<T> Send for Mapping<T> {}

impl<T: zerocopy::FromBytes> Mapping<T> {
    /// Maps `count` values of the map behind `map`.
    pub fn new(map: BorrowedFd<'_>, count: usize) -> io::Result<Self> {
        let bytes = count * size_of::<T>();
        // SAFETY: a fresh shared mapping at an address of the kernel's choice overlaps nothing of ours.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { base, count, bytes, values: PhantomData })
    }

    /// Count of values.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Address of one value, which lies inside the mapping because the index wraps.
    pub fn at(&self, index: usize) -> *mut T {
        // SAFETY: the index is below `count`, and `count` values fit the mapping.
        unsafe { self.base.as_ptr().add(index % self.count) }
    }

    /// A copy of one value as it is now; fields may belong to different instants.
    pub fn copy(&self, index: usize) -> T {
        // SAFETY: inside the mapping, aligned (values are multiples of 8 bytes in a page-aligned mapping), and
        // every bit pattern is a value of `T`.
        unsafe { self.at(index).read_volatile() }
    }
}

impl<T> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `new`, and nothing borrowed from it outlives this value.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// The 64-bit word at `word`, which programs write at the same time.
///
/// # Safety
/// `word` lies inside a live [`Mapping`] and is aligned to 8 bytes.
pub unsafe fn shared_word<'a>(word: *mut u64) -> &'a AtomicU64 {
    // SAFETY: as promised by the caller; every access to the word from here is atomic.
    unsafe { AtomicU64::from_ptr(word) }
}

/// What became of the slot of one arrival.
pub(crate) enum Slot {
    /// Its record.
    Holds(StampRecord),
    /// A later arrival has it.
    Overwritten,
    /// Allotted but not written yet.
    NotYet,
}

impl Mapping<StampRecord> {
    /// The slot of an arrival, if it still holds that arrival after it was copied.
    pub(crate) fn slot(&self, arrival: u64) -> Slot {
        let index = (arrival - 1) as usize % self.count;
        // SAFETY: `arrival` is the first field of the record, inside the mapping and aligned to 8 bytes.
        let mark = unsafe { shared_word(self.at(index).cast()) };
        match mark.load(Ordering::Acquire) {
            found if found == arrival => {}
            found if found > arrival => return Slot::Overwritten,
            _ => return Slot::NotYet,
        }
        let record = self.copy(index);
        fence(Ordering::Acquire);
        if mark.load(Ordering::Relaxed) == arrival { Slot::Holds(record) } else { Slot::Overwritten }
    }
}

impl Mapping<EventRecord> {
    /// Takes the event at `index` and frees its slot, or none if it is not complete.
    pub(crate) fn take(&self, index: usize) -> Option<EventRecord> {
        // SAFETY: id, cpu, kind and detail are the last 8 bytes of the record's 32, aligned, in the mapping.
        let tail = unsafe { shared_word(self.at(index).cast::<u64>().add(3)) };
        if tail.load(Ordering::Acquire) == 0 {
            return None;
        }
        let record = self.copy(index);
        tail.store(0, Ordering::Release);
        Some(record)
    }
}
