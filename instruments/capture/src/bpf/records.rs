//! The ring buffer that the programs write, read through shared memory without a system call.
//!
//! ```text
//! page 0        page 1           then the data, mapped twice in a row so that no record is cut by the end
//! +----------+  +----------+  +--------------------------------+--------------------------------+
//! | consumed |  | produced |  | header 8, record 48, header... | the same again                 |
//! +----------+  +----------+  +--------------------------------+--------------------------------+
//! header: length 4 (bit 31: being written, bit 30: discarded), offset 4
//! ```
//! (Linux, kernel/bpf/ringbuf.c.)

use quaver_host::bpf::memory::{Mapping, shared_word};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use zerocopy::{FromBytes, Immutable, KnownLayout};

/// One packet's stamps below the packet socket. Times of 0 are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct LayerRecord {
    /// The kernel's stamp, CLOCK_REALTIME nanoseconds: the key.
    pub(crate) kernel_ns: u64,
    /// The interface's stamp, nanoseconds of its own clock.
    pub(crate) hardware_ns: u64,
    /// The XDP program's, CLOCK_MONOTONIC nanoseconds or cycles (`XDP_IN_CYCLES`).
    pub(crate) xdp: u64,
    /// The TC program's, CLOCK_MONOTONIC nanoseconds or cycles (`TC_IN_CYCLES`).
    pub(crate) tc: u64,
    /// Bytes of the packet.
    pub(crate) length: u32,
    /// Index of its interface.
    pub(crate) interface: u32,
    /// See below.
    pub(crate) flags: u32,
    /// Zero.
    pub(crate) reserved: u32,
}
const _: () = assert!(size_of::<LayerRecord>() == 48);

/// The XDP program's stamp is the processor's counter.
pub(crate) const XDP_IN_CYCLES: u32 = 1;
/// The TC program's stamp is the processor's counter.
pub(crate) const TC_IN_CYCLES: u32 = 2;

const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const HEADER_BYTES: usize = 8;

/// The reader's end of records of one kind.
pub(crate) struct Records<R = LayerRecord> {
    consumer: Area,
    producer: Area,
    data_at: usize,
    data_bytes: usize,
    lost: Mapping<u64>,
    records: PhantomData<R>,
}

/// A mapped piece of the ring buffer.
struct Area {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is not tied to a thread; what both sides change is accessed atomically.
unsafe impl Send for Area {}

impl Area {
    fn map(map: BorrowedFd<'_>, bytes: usize, protection: i32, offset: usize) -> io::Result<Self> {
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        // SAFETY: a fresh shared mapping at an address of the kernel's choice overlaps nothing of ours.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, map.as_raw_fd(), offset)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { base, bytes })
    }

    /// The first word.
    fn position(&self) -> &AtomicU64 {
        // SAFETY: the first 8 bytes of a mapped page; they are accessed atomically only.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().cast()) }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `map`; nothing borrowed from it outlives this value.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

impl<R: FromBytes + Immutable + KnownLayout> Records<R> {
    /// Maps the ring buffer (with its size in bytes) and the count of what had no room in it.
    pub(super) fn map(ring: (BorrowedFd<'_>, u32), lost: (BorrowedFd<'_>, u32)) -> io::Result<Self> {
        // SAFETY: takes no pointers.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page = usize::try_from(page).map_err(io::Error::other)?;
        let data_bytes = ring.1 as usize;
        let consumer = Area::map(ring.0, page, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        let producer = Area::map(ring.0, page + 2 * data_bytes, libc::PROT_READ, page)?;
        Ok(Self {
            consumer,
            producer,
            data_at: page,
            data_bytes,
            lost: Mapping::new(lost.0, 1)?,
            records: PhantomData,
        })
    }

    /// Hands over complete records in order, at most so many, discarded ones among them; how many they were.
    pub(crate) fn drain(&mut self, most: usize, mut take: impl FnMut(&R)) -> usize {
        let mut at = self.consumer.position().load(Ordering::Relaxed);
        let mut taken = 0;
        loop {
            let end = self.producer.position().load(Ordering::Acquire);
            let before = at;
            while at < end && taken < most {
                let Some((length, record)) = self.at(at) else { break };
                if let Some(record) = record {
                    take(&record);
                }
                taken += 1;
                at += (HEADER_BYTES + length).next_multiple_of(8) as u64;
                // The room is free again for the programs.
                self.consumer.position().store(at, Ordering::Release);
            }
            if at == before {
                return taken;
            }
        }
    }

    /// Whether half of the room or more holds records that nobody has taken.
    pub(crate) fn is_half_full(&self) -> bool {
        let consumed = self.consumer.position().load(Ordering::Relaxed);
        let produced = self.producer.position().load(Ordering::Acquire);
        produced.wrapping_sub(consumed) >= self.data_bytes as u64 / 2
    }

    /// Length and value of the record at a position; none while it is being written. Discarded ones have no value.
    fn at(&self, position: u64) -> Option<(usize, Option<R>)> {
        let offset = self.data_at + (position as usize & (self.data_bytes - 1));
        // SAFETY: the offset lies in the first copy of the data, a multiple of 8; the header is accessed atomically.
        let header = unsafe { AtomicU32::from_ptr(self.producer.base.as_ptr().add(offset).cast()) };
        let word = header.load(Ordering::Acquire);
        if word & BUSY != 0 {
            return None;
        }
        let length = (word & !DISCARDED) as usize;
        if word & DISCARDED != 0 || length != size_of::<R>() {
            return Some((length, None));
        }
        // SAFETY: the record lies behind its header, the second copy of the data included; it is aligned to 8 bytes,
        // complete, and not written again before it is consumed. Every bit pattern is a value (`FromBytes`).
        let record = unsafe { self.producer.base.as_ptr().add(offset + HEADER_BYTES).cast::<R>().read() };
        Some((length, Some(record)))
    }

    /// Records for which there was no room so far.
    pub(crate) fn lost(&self) -> u64 {
        // SAFETY: the only value of the mapping, aligned to 8 bytes.
        unsafe { shared_word(self.lost.at(0)) }.load(Ordering::Relaxed)
    }
}
