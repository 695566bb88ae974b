//! The ring of blocks that kernel and program share (TPACKET_V3).
//!
//! The kernel fills a block with packets and hands it over when it is full or old; whoever has it may change it, and
//! hands it back. Blocks go round in order, so each side knows which is next. A block's head:
//!
//! ```text
//!   0         4              8         12        16            20        24
//!  +---------+--------------+---------+---------+-------------+---------+
//!  | version | private data | status  | packets | first       | bytes  |
//!  +---------+--------------+---------+---------+-------------+---------+
//!  24                 32                              48
//!  +------------------+-------------------------------+
//!  | sequence number  | time of first and last packet |
//!  +------------------+-------------------------------+
//! ```
//!
//! In the other version of the ring (TPACKET_V2) each packet has a frame of its own, which the kernel hands over at once.
//! To all but this file that is a block of one packet; its status stands first.

use super::frame::{
    Frame, LinkKind, decode, decode_alone, decode_unchanged, next_in_block, time_ns_alone, time_ns_in_block,
};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const STATUS_AT: usize = 8;
const PACKETS_AT: usize = 12;
const FIRST_AT: usize = 16;
/// The block is the program's.
const STATUS_USER: u32 = 1;

/// What the kernel hands over at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandOver {
    /// Blocks of packets (TPACKET_V3).
    Blocks,
    /// Each packet (TPACKET_V2).
    Packets,
}

/// How far a block of the ring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It has no packets.
    Empty,
    /// The kernel has put packets into it, and still has it.
    Begun,
    /// It is the program's.
    HandedOver,
}

/// The mapped memory.
pub(super) struct RingMemory {
    base: NonNull<u8>,
    block_bytes: usize,
    /// Of each block: whether there is a `Block` of it.
    held: Vec<AtomicBool>,
    link: LinkKind,
    hand_over: HandOver,
}

// SAFETY: the memory is not tied to a thread. A block is touched only by the one holder of its `Block`, and its status
// word only atomically.
unsafe impl Send for RingMemory {}
// SAFETY: as above.
unsafe impl Sync for RingMemory {}

impl RingMemory {
    /// Maps the ring of a packet socket that has been given one of `blocks` times `block_bytes`.
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        block_bytes: usize,
        blocks: usize,
        link: LinkKind,
        hand_over: HandOver,
    ) -> io::Result<Self> {
        // SAFETY: a fresh shared mapping at an address of the kernel's choice overlaps nothing of ours.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                block_bytes * blocks,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(io::Error::last_os_error)?;
        let held = (0..blocks).map(|_| AtomicBool::new(false)).collect();
        Ok(Self { base, block_bytes, held, link, hand_over })
    }

    pub(super) fn blocks(&self) -> usize {
        self.held.len()
    }

    /// Where the block begins, in bytes.
    fn place(&self, block: usize) -> usize {
        (block % self.held.len()) * self.block_bytes
    }

    fn status(&self, block: usize) -> &AtomicU32 {
        let at = self.place(block) + if self.hand_over == HandOver::Blocks { STATUS_AT } else { 0 };
        // SAFETY: the block lies inside the mapping, its status is aligned to 4 bytes (blocks are whole pages, frames a
        // power of two), and it is accessed atomically only.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    /// The block, if the kernel has handed it over and nobody has it.
    pub(super) fn take(self: &Arc<Self>, block: usize) -> Option<Block> {
        let held = &self.held[block % self.held.len()];
        // A block that somebody has still bears the mark of the handing over, so `held` is looked at first; it is cleared
        // after the mark.
        if held.load(Ordering::Acquire) || self.status(block).load(Ordering::Acquire) & STATUS_USER == 0 {
            return None;
        }
        let free = held.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        free.then(|| Block { memory: Arc::clone(self), index: block, given: 0, next_at: self.first(block) })
    }

    /// How far a block is that has not been dropped. Only the thread that drops blocks may ask: no other one writes in them.
    pub(super) fn progress(&self, block: usize) -> Progress {
        let held = self.held[block % self.held.len()].load(Ordering::Acquire);
        if held || self.status(block).load(Ordering::Acquire) & STATUS_USER != 0 {
            return Progress::HandedOver;
        }
        if self.hand_over == HandOver::Packets {
            return Progress::Empty;
        }
        let at = self.place(block) + PACKETS_AT;
        // SAFETY: inside the mapping and aligned to 4 bytes; the kernel counts each packet here as it takes its room, and we
        // clear it before we give the block back.
        let packets = unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(at).cast()) };
        if packets.load(Ordering::Acquire) > 0 { Progress::Begun } else { Progress::Empty }
    }

    /// Packets in a block that the kernel has handed over.
    fn packets(&self, block: usize) -> u32 {
        if self.hand_over == HandOver::Packets { 1 } else { self.word(block, PACKETS_AT) }
    }

    /// Where the first packet of such a block is.
    fn first(&self, block: usize) -> usize {
        if self.hand_over == HandOver::Packets { 0 } else { self.word(block, FIRST_AT) as usize }
    }

    fn word(&self, block: usize, at: usize) -> u32 {
        let at = self.place(block) + at;
        // SAFETY: inside the mapping and aligned to 4 bytes; the kernel wrote it before it handed the block over.
        unsafe { self.base.as_ptr().add(at).cast::<u32>().read_volatile() }
    }
}

impl Drop for RingMemory {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `map`; nothing borrowed from it outlives this value.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.block_bytes * self.held.len()) };
    }
}

/// A block that is ours until it is dropped, which gives it back to the kernel.
pub struct Block {
    memory: Arc<RingMemory>,
    index: usize,
    /// Packets that were handed over.
    given: u32,
    /// Where the next one is.
    next_at: usize,
}

impl Block {
    fn octets(&mut self) -> &mut [u8] {
        let at = self.memory.place(self.index);
        // SAFETY: the block lies inside the mapping, and it is this value's alone: the kernel leaves it to us until its
        // status says otherwise, and `held` keeps others of this process off, its status word included.
        unsafe { std::slice::from_raw_parts_mut(self.memory.base.as_ptr().add(at), self.memory.block_bytes) }
    }

    /// The stamp of the packet that comes next; none behind the last.
    pub fn next_time_ns(&self) -> Option<i64> {
        let block = self.shared();
        if self.given >= self.packets() {
            return None;
        }
        match self.memory.hand_over {
            HandOver::Blocks => time_ns_in_block(block, self.next_at),
            HandOver::Packets => time_ns_alone(block),
        }
    }

    /// Packets that it holds.
    pub fn packets(&self) -> u32 {
        self.memory.packets(self.index)
    }

    /// The next packet. None behind the last, and where the block does not hold what it claims, which a kernel never does.
    pub fn next_frame(&mut self) -> Option<Frame<'_>> {
        let (packets, link, at) = (self.packets(), self.memory.link, self.next_at);
        if self.given >= packets {
            return None;
        }
        if self.memory.hand_over == HandOver::Packets {
            self.given = packets;
            return decode_alone(self.octets(), link);
        }
        let next = next_in_block(self.octets(), at);
        // Where it cannot be read, there is no way to those behind it.
        self.given = next.map_or(packets, |_| self.given + 1);
        self.next_at += next.unwrap_or(0);
        decode(self.octets(), at, link)
    }

    /// The packet that has this frame of its own, with nothing put back in it yet.
    pub(super) fn look(&self) -> Option<Frame<'_>> {
        if self.memory.hand_over == HandOver::Packets { decode_unchanged(self.shared()) } else { None }
    }

    fn shared(&self) -> &[u8] {
        let at = self.memory.place(self.index);
        // SAFETY: as in `octets`; nobody changes the block while `self` is borrowed.
        unsafe { std::slice::from_raw_parts(self.memory.base.as_ptr().add(at), self.memory.block_bytes) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.memory.hand_over == HandOver::Blocks {
            // The kernel does so only when it opens the block, which may be long after (`RingMemory::progress`).
            self.octets()[PACKETS_AT..PACKETS_AT + 4].fill(0);
        }
        self.memory.status(self.index).store(0, Ordering::Release);
        self.memory.held[self.index % self.memory.held.len()].store(false, Ordering::Release);
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Block").field("index", &self.index).field("packets", &self.packets()).finish()
    }
}

impl std::fmt::Debug for RingMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RingMemory")
            .field("block_bytes", &self.block_bytes)
            .field("blocks", &self.blocks())
            .finish()
    }
}
