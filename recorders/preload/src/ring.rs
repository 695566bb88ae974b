//! A thread's ring, and how a record gets into it: claim a slot, fill it, mark it.
//!
//! Only its own thread and that thread's signal handlers write to a ring. A slot is claimed by one instruction, so
//! that a handler in the middle of a record takes the next slot and leaves this one alone. Ownership of a chunk
//! never changes hands, and new chunks lie at higher addresses.

use crate::handoffs::Origin;
use crate::known_stacks::Stacks;
use crate::latest::{Latest, Progress};
use crate::samples::Samples;
use crate::{arch, code, generated, segment, start, system};
use quaver_abi::sync::{
    CHUNK_MAGIC, PAGE_BYTES, SyncChunkHeader, SyncKind, SyncRecord, SyncRingHeader, ring_flags,
};
use std::mem::offset_of;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence};

/// Cycles between two anchors of a thread: some 30 to 90 ms on the processors there are.
const ANCHOR_CYCLES: u64 = 1 << 27;
/// Pages of a thread's later chunks: getting one takes about a microsecond a page, and no single event should bear ten.
const MOST_PAGES: u32 = 4;
const RECORD_BYTES: usize = size_of::<SyncRecord>();

/// The calling thread's block, all zero when it begins. Atomics because signal handlers of the same thread use it
/// too; no other thread does.
#[repr(C)]
pub(crate) struct Thread {
    /// Address of the slot to be claimed next.
    next: AtomicUsize,
    /// First address behind the chunk.
    end: AtomicUsize,
    /// The ring's header.
    ring: AtomicPtr<Ring>,
    /// Cycle counter from which on the next record brings an anchor.
    next_anchor: AtomicU64,
    /// Number of the recording that this block belongs to; another one means that all else is void.
    recording: AtomicU32,
    /// Number of the ring.
    number: AtomicU32,
    /// Chunks so far.
    chunks: AtomicU32,
    /// Whether our own start routine runs this thread, and so will see it end.
    started_by_us: AtomicU32,
    /// Its samples of free locks.
    samples: Samples,
    /// Its latest failed try or wait on a condition.
    latest: Latest,
    /// Its stacks.
    stacks: Stacks,
}
const _: () = assert!(size_of::<Thread>() <= arch::THREAD_BYTES);

/// A ring's header as it is written: [`SyncRingHeader`], with counters that handlers may add to as well.
#[repr(C)]
pub(crate) struct Ring {
    facts: [u64; 6],
    /// See [`SyncRingHeader::lost`].
    pub(crate) lost: AtomicU64,
    /// See [`SyncRingHeader::free_locks`].
    pub(crate) free_locks: AtomicU64,
    /// See [`SyncRingHeader::free_unlocks`].
    pub(crate) free_unlocks: AtomicU64,
    /// See [`SyncRingHeader::busy_tries`].
    pub(crate) busy_tries: AtomicU64,
    /// See [`SyncRingHeader::free_semaphore_waits`].
    pub(crate) free_semaphore_waits: AtomicU64,
    /// See [`SyncRingHeader::quiet_posts`].
    pub(crate) quiet_posts: AtomicU64,
    /// See [`SyncRingHeader::free_read_locks`].
    pub(crate) free_read_locks: AtomicU64,
    rest: [u64; 3],
}
const _: () = {
    assert!(size_of::<Ring>() == size_of::<SyncRingHeader>());
    assert!(offset_of!(Ring, lost) == offset_of!(SyncRingHeader, lost));
    assert!(offset_of!(Ring, free_read_locks) == offset_of!(SyncRingHeader, free_read_locks));
};

/// Header of threads that found no room: its counts go nowhere.
static NOWHERE: Ring = Ring {
    facts: [0; 6],
    lost: AtomicU64::new(0),
    free_locks: AtomicU64::new(0),
    free_unlocks: AtomicU64::new(0),
    busy_tries: AtomicU64::new(0),
    free_semaphore_waits: AtomicU64::new(0),
    quiet_posts: AtomicU64::new(0),
    free_read_locks: AtomicU64::new(0),
    rest: [0; 3],
};

/// What a record says beside time and place.
#[derive(Clone, Copy)]
pub(crate) struct Event {
    pub(crate) kind: SyncKind,
    pub(crate) outcome: u8,
    pub(crate) object: u64,
    pub(crate) site: u64,
    pub(crate) detail: u32,
}

/// The calling thread, if it is recorded.
#[inline(always)]
pub(crate) fn current() -> Option<&'static Thread> {
    // SAFETY: the block lives as long as its thread and holds atomics only.
    let thread = unsafe { &*arch::thread_block().cast::<Thread>() };
    if thread.recording.load(Ordering::Relaxed) == start::recording() {
        return Some(thread);
    }
    begin(thread, None)
}

/// The calling thread, which our start routine runs.
pub(crate) fn started(origin: Origin) -> Option<&'static Thread> {
    // SAFETY: as above.
    let thread = unsafe { &*arch::thread_block().cast::<Thread>() };
    begin(thread, Some(origin))
}

#[cold]
#[inline(never)]
fn begin(thread: &'static Thread, origin: Option<Origin>) -> Option<&'static Thread> {
    if start::is_off() || system::is_jailed() {
        return None;
    }
    let errno = system::errno();
    let recording = start::ensure();
    if let Some(number) = recording {
        let held = system::HeldSignals::hold();
        if thread.recording.load(Ordering::Relaxed) != number {
            thread.make_ring(number, origin);
        }
        held.release();
    }
    system::set_errno(errno);
    recording.map(|_| thread)
}

impl Thread {
    /// Counters of the thread.
    #[inline(always)]
    pub(crate) fn ring(&self) -> &'static Ring {
        // SAFETY: set before the block was marked as belonging to the recording; lives as long as the process.
        unsafe { &*self.ring.load(Ordering::Relaxed) }
    }

    /// Its samples of free locks.
    #[inline(always)]
    pub(crate) fn samples(&self) -> &Samples {
        &self.samples
    }

    /// Whether our own start routine runs it.
    pub(crate) fn is_started_by_us(&self) -> bool {
        self.started_by_us.load(Ordering::Relaxed) != 0
    }

    /// Its latest failed try or wait on a condition.
    #[inline(always)]
    pub(crate) fn latest(&self) -> &Latest {
        &self.latest
    }

    /// Its stacks.
    pub(crate) fn stacks(&self) -> &Stacks {
        &self.stacks
    }

    /// How far it has come.
    pub(crate) fn progress(&self) -> Progress {
        let [locks, read] = [&self.ring().free_locks, &self.ring().free_read_locks];
        let free = locks.load(Ordering::Relaxed).wrapping_add(read.load(Ordering::Relaxed));
        Progress { next: self.next.load(Ordering::Relaxed), free }
    }

    /// Thread id, of a thread that has a ring.
    pub(crate) fn id(&self) -> u32 {
        self.ring().facts.first().map_or(0, |word| *word as u32)
    }

    fn make_ring(&self, recording: u32, origin: Option<Origin>) {
        self.next.store(0, Ordering::Relaxed);
        self.end.store(0, Ordering::Relaxed);
        self.chunks.store(0, Ordering::Relaxed);
        self.samples.begin();
        self.latest.begin();
        // SAFETY: takes nothing.
        let is_initial = system::thread_id() == unsafe { libc::getpid() } as u32;
        let initial_top = || if is_initial { code::initial_top() } else { 0 };
        generated::find();
        self.stacks.begin(origin.map_or_else(initial_top, |origin| origin.stack_top));
        self.ring.store((&raw const NOWHERE).cast_mut(), Ordering::Relaxed);
        self.started_by_us.store(u32::from(origin.is_some()), Ordering::Relaxed);
        if let Some(chunk) = segment::take_chunk(1) {
            self.number.store(segment::number_thread(), Ordering::Relaxed);
            // SAFETY: a new page of our own, of which the ring's header takes bytes 64 to 192.
            let ring = unsafe { chunk.add(size_of::<SyncChunkHeader>()) };
            self.describe(ring.cast::<SyncRingHeader>(), origin);
            self.ring.store(ring.cast::<Ring>(), Ordering::Relaxed);
            self.use_chunk(chunk, 1, size_of::<SyncRingHeader>(), system::anchor());
        } else {
            segment::count_lost_thread();
        }
        self.recording.store(recording, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let origin = origin.unwrap_or_default();
        // SAFETY: takes nothing.
        let myself = unsafe { libc::pthread_self() };
        self.put(Event {
            kind: SyncKind::ThreadStart,
            outcome: 0,
            object: myself as u64,
            site: origin.routine,
            detail: origin.creator,
        });
    }

    fn describe(&self, ring: *mut SyncRingHeader, origin: Option<Origin>) {
        let tid = system::thread_id();
        let name = system::thread_name();
        // SAFETY: the ring's header is our own zeroed memory.
        unsafe {
            let initial = tid == libc::getpid() as u32;
            let known = origin.unwrap_or_default();
            (*ring).tid = tid;
            (*ring).creator = known.creator;
            (*ring).creation = known.creation;
            (*ring).flags = if initial {
                ring_flags::INITIAL
            } else if origin.is_none() {
                ring_flags::FOUND
            } else {
                0
            };
            (*ring).pthread = libc::pthread_self() as u64;
            (*ring).start_cycles = arch::cycles();
            (*ring).start_routine = known.routine;
            (*ring).name = name;
        }
    }

    /// Makes a chunk the one to write to.
    fn use_chunk(&self, chunk: *mut u8, pages: u32, before_records: usize, anchor: (u64, i64)) {
        let header = chunk.cast::<SyncChunkHeader>();
        // SAFETY: a chunk of our own, zero so far; the magic goes last.
        unsafe {
            (*header).pages = pages;
            (*header).thread = self.number.load(Ordering::Relaxed);
            (*header).sequence = self.chunks.load(Ordering::Relaxed);
            (*header).anchor_cycles = anchor.0;
            (*header).anchor_monotonic_ns = anchor.1;
            (*(&raw mut (*header).magic).cast::<AtomicU32>()).store(CHUNK_MAGIC, Ordering::Release);
        }
        self.chunks.store(self.chunks.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.next_anchor.store(anchor.0.wrapping_add(ANCHOR_CYCLES), Ordering::Relaxed);
        let first = chunk as usize + size_of::<SyncChunkHeader>() + before_records;
        // With the end at 0 no handler can claim a slot between the two stores (they are held back anyway).
        self.end.store(0, Ordering::Relaxed);
        self.next.store(first, Ordering::Relaxed);
        self.end.store(chunk as usize + (pages as usize).wrapping_mul(PAGE_BYTES), Ordering::Relaxed);
    }

    /// Writes an event that happens now.
    #[inline(always)]
    pub(crate) fn put(&self, event: Event) {
        self.put_at(arch::cycles(), event);
    }

    /// Writes an event that happened at that count of cycles, on this CPU.
    #[inline(always)]
    pub(crate) fn put_at(&self, cycles: u64, event: Event) {
        self.put_as::<true>(cycles, event);
    }

    /// Writes what says more of another event, and is no event: where it finds no room, no record is lost.
    #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
    pub(crate) fn put_beside(&self, cycles: u64, event: Event) {
        self.put_as::<false>(cycles, event);
    }

    #[inline(always)]
    fn put_as<const COUNTED: bool>(&self, cycles: u64, event: Event) {
        let cpu = arch::cpu();
        loop {
            // The end first: a handler in between may move both to a new chunk, and then a slot of it that is
            // compared with the old end is given up, never one of another thread's taken.
            let end = self.end.load(Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
            let slot = arch::claim(&self.next, RECORD_BYTES);
            if slot < end {
                // SAFETY: inside a chunk of this thread, claimed by this call alone, aligned to words.
                unsafe { write(slot as *mut u64, cycles, cpu, event) };
                break;
            }
            if !self.refill(COUNTED) {
                return;
            }
        }
        if cycles.wrapping_sub(self.next_anchor.load(Ordering::Relaxed)) as i64 > 0 {
            self.put_anchor();
        }
    }

    #[cold]
    #[inline(never)]
    fn put_anchor(&self) {
        if system::is_jailed() {
            // Never again.
            self.next_anchor.store(arch::cycles().wrapping_add(i64::MAX as u64), Ordering::Relaxed);
            return;
        }
        self.name_again();
        let (cycles, monotonic_ns) = system::anchor();
        self.next_anchor.store(cycles.wrapping_add(ANCHOR_CYCLES), Ordering::Relaxed);
        segment::keep_anchor(cycles, monotonic_ns);
        // An anchor is worth no chunk, and no count of lost records.
        if self.next.load(Ordering::Relaxed) >= self.end.load(Ordering::Relaxed) {
            return;
        }
        let event =
            Event { kind: SyncKind::Anchor, outcome: 0, object: monotonic_ns as u64, site: 0, detail: 0 };
        self.put_at(cycles, event);
    }

    /// Gets another chunk; false where there is none. What is `counted` is lost then.
    #[cold]
    #[inline(never)]
    fn refill(&self, counted: bool) -> bool {
        let lose = || {
            if counted {
                arch::count(&self.ring().lost);
            }
        };
        let refused = segment::is_full() || system::is_jailed();
        if refused && self.next.load(Ordering::Relaxed) >= self.end.load(Ordering::Relaxed) {
            lose();
            return false;
        }
        let errno = system::errno();
        let held = system::HeldSignals::hold();
        // A handler may have got the chunk already, between our claim and here.
        let done = self.next.load(Ordering::Relaxed) < self.end.load(Ordering::Relaxed) || self.get_chunk();
        if !done {
            lose();
        }
        held.release();
        system::set_errno(errno);
        done
    }

    fn get_chunk(&self) -> bool {
        let so_far = self.chunks.load(Ordering::Relaxed);
        if so_far == 0 {
            return false;
        }
        let before_ns = system::monotonic_ns();
        let Some(chunk) = segment::take_chunk(u64::from(MOST_PAGES)) else { return false };
        let anchor = system::anchor();
        self.use_chunk(chunk, MOST_PAGES, 0, anchor);
        let event = Event {
            kind: SyncKind::Anchor,
            outcome: 0,
            object: anchor.1 as u64,
            site: 0,
            detail: u32::try_from(anchor.1.wrapping_sub(before_ns)).unwrap_or(u32::MAX),
        };
        self.put_at(anchor.0, event);
        true
    }

    /// Keeps the name that the thread has by now: many languages give it one after its start. The kernel may be asked.
    fn name_again(&self) {
        let header = self.ring.load(Ordering::Relaxed).cast::<SyncRingHeader>();
        if !std::ptr::eq(header.cast::<Ring>(), &raw const NOWHERE) {
            // SAFETY: the header of this thread's own ring.
            unsafe { (*header).name = system::thread_name() };
        }
    }

    /// The thread ends. Said twice (`pthread_exit` of the initial thread, then the end of the image), only the
    /// first counts.
    pub(crate) fn end(&self) {
        let header = self.ring.load(Ordering::Relaxed).cast::<SyncRingHeader>();
        // SAFETY: the header of this thread's own ring, or of none.
        if unsafe { (*header).flags } & ring_flags::ENDED != 0 {
            return;
        }
        // SAFETY: takes nothing.
        let myself = unsafe { libc::pthread_self() } as u64;
        self.put(Event { kind: SyncKind::ThreadExit, outcome: 0, object: myself, site: 0, detail: 0 });
        if std::ptr::eq(header.cast::<Ring>(), &raw const NOWHERE) {
            return;
        }
        if !system::is_jailed() {
            self.name_again();
        }
        // SAFETY: the header of this thread's own ring.
        unsafe {
            (*header).flags |= ring_flags::ENDED;
            (*header).end_cycles = arch::cycles();
        }
    }
}

/// Fills a slot, its mark last.
#[inline(always)]
unsafe fn write(slot: *mut u64, cycles: u64, cpu: u16, event: Event) {
    let last = u64::from(event.kind as u8)
        | u64::from(event.outcome) << 8
        | u64::from(cpu) << 16
        | u64::from(event.detail) << 32;
    // SAFETY: the caller claimed four words.
    unsafe {
        slot.add(1).write(event.object);
        slot.add(2).write(event.site);
        slot.add(3).write(last);
        (*slot.cast::<AtomicU64>()).store(cycles, Ordering::Release);
    }
}
const _: () = {
    assert!(offset_of!(SyncRecord, cycles) == 0 && offset_of!(SyncRecord, object) == 8);
    assert!(offset_of!(SyncRecord, call_site) == 16 && offset_of!(SyncRecord, kind) == 24);
    assert!(offset_of!(SyncRecord, outcome) == 25 && offset_of!(SyncRecord, cpu) == 26);
    assert!(offset_of!(SyncRecord, detail) == 28);
};
