//! The threads that are alive, and who may touch which.
//!
//! ```text
//! phase   free ──> running <──> in a callback of a system call      its own host thread
//!                     │  ^              │
//!                     │  └── waiting <──┘      (inside the system call)
//!                     v         v
//!                    taken, then ended, for good: by itself once it sees that the trace stops, or, while it waits, by whoever ends the trace
//! ```
//! QEMU numbers the threads that are alive and uses numbers again; the trace numbers all that ever were, in the order of their
//! creation.

use crate::accesses::{self, Accessing};
use crate::marks::Marks;
use crate::output::{Progress, Tracer};
use crate::pace::{self, Asleep, Futex};
use crate::thread::Traced;
use crate::translate::{NO_NUMBER, TranslatedBlock};
use quaver_trace::step::Thread;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Most threads at a time.
const MOST: usize = 4096;

const FREE: u8 = 0;
const RUNNING: u8 = 1;
const BUSY: u8 = 2;
const WAITING: u8 = 3;
const TAKEN: u8 = 4;
const ENDED: u8 = 5;

/// Whether anything is traced: from the recorder's first mark until the trace stops.
static TRACING: AtomicBool = AtomicBool::new(false);
static STOPPING: AtomicBool = AtomicBool::new(false);
static CREATED: AtomicU32 = AtomicU32::new(0);
/// How far the slowest thread was that ran, when somebody looked last: there begins who did not run before.
static SLOWEST: AtomicU64 = AtomicU64::new(0);
/// QEMU's highest number of a thread so far.
static HIGHEST: AtomicU32 = AtomicU32::new(0);
/// Instructions of threads that ended.
static ENDED_INSTRUCTIONS: AtomicU64 = AtomicU64::new(0);

/// The threads of a program.
pub(crate) const TRACER: Tracer = Tracer { stop, is_written: take_waiting, progress };

/// A place for a thread of the program.
pub(crate) struct Slot {
    phase: AtomicU8,
    instructions: AtomicU64,
    /// How far it is, in instructions, on the clock that all threads that run share.
    pace: AtomicU64,
    asleep: Asleep,
    thread: UnsafeCell<Option<Box<Traced>>>,
}

// SAFETY: `thread` belongs to whoever brought `phase` to where it is: the thread's own host thread while it is running or busy,
// and for good whoever made it taken.
unsafe impl Sync for Slot {}

static SLOTS: [Slot; MOST] = [const {
    Slot {
        phase: AtomicU8::new(FREE),
        instructions: AtomicU64::new(0),
        pace: AtomicU64::new(0),
        asleep: Asleep::new(),
        thread: UnsafeCell::new(None),
    }
}; MOST];

impl Slot {
    fn take(&self, from: u8, to: u8) -> bool {
        self.phase.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// The thread, for its own host thread, while it runs.
    #[allow(clippy::mut_from_ref, reason = "the phase says whose it is")]
    #[inline(always)]
    fn running(&self) -> Option<&mut Traced> {
        if self.phase.load(Ordering::Relaxed) != RUNNING && !self.take(WAITING, RUNNING) {
            return None;
        }
        // SAFETY: it is running, so it is the calling host thread's.
        unsafe { (*self.thread.get()).as_deref_mut() }
    }

    /// The same for a callback of a system call, during which nobody else may take it.
    #[allow(clippy::mut_from_ref, reason = "the phase says whose it is")]
    fn busy(&self) -> Option<&mut Traced> {
        if !self.take(RUNNING, BUSY) && !self.take(WAITING, BUSY) {
            return None;
        }
        // SAFETY: it is busy, so it is the calling host thread's.
        unsafe { (*self.thread.get()).as_deref_mut() }
    }

    /// Ends the thread's trace and frees its memory, then lets others see that. It was taken by the caller, or is busy.
    fn finish(&self, then: u8) {
        // SAFETY: the caller brought it there, so it is the caller's.
        let thread = unsafe { (*self.thread.get()).take() };
        if let Some(mut thread) = thread {
            thread.leave_block();
            Marks::get().leave_open(&mut thread);
            thread.end();
        }
        self.phase.store(then, Ordering::Release);
    }
}

fn slot(number: u32) -> Option<&'static Slot> {
    SLOTS.get(number as usize)
}

/// A thread begins; its number. `number` is QEMU's.
pub(crate) fn begin(number: u32) -> Thread {
    let thread = Thread(CREATED.fetch_add(1, Ordering::Relaxed));
    if let Some(slot) = slot(number)
        && !STOPPING.load(Ordering::SeqCst)
        && slot.phase.load(Ordering::Acquire) == FREE
    {
        // SAFETY: a free slot is its new thread's alone, which does not run yet.
        unsafe { *slot.thread.get() = Some(Box::new(Traced::new(thread))) };
        slot.instructions.store(0, Ordering::Relaxed);
        slot.pace.store(SLOWEST.load(Ordering::Relaxed), Ordering::Relaxed);
        HIGHEST.fetch_max(number, Ordering::Relaxed);
        slot.phase.store(RUNNING, Ordering::Release);
    }
    thread
}

/// A thread ends.
pub(crate) fn end(number: u32) {
    let Some(slot) = slot(number) else { return };
    if slot.take(RUNNING, BUSY) || slot.take(WAITING, BUSY) {
        ENDED_INSTRUCTIONS.fetch_add(slot.instructions.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        slot.finish(FREE);
    }
}

/// A block runs.
#[inline]
pub(crate) fn ran(number: u32, ran: &TranslatedBlock) {
    let Some(slot) = slot(number) else { return };
    let Some(thread) = slot.running() else { return };
    thread.leave_block();
    if !TRACING.load(Ordering::Relaxed) {
        if STOPPING.load(Ordering::Relaxed) && slot.take(RUNNING, TAKEN) {
            slot.finish(ENDED);
        }
        return;
    }
    // Also what is not traced: who spins in a call of the thread library goes on, too.
    let before = slot.pace.load(Ordering::Relaxed);
    let now = before + u64::from(ran.instructions);
    slot.pace.store(now, Ordering::Relaxed);
    if thread.open.is_empty() && !ran.recorders.load(Ordering::Relaxed) {
        thread.block = ran.number();
        let so_far = slot.instructions.load(Ordering::Relaxed);
        slot.instructions.store(so_far + u64::from(ran.instructions), Ordering::Relaxed);
    }
    if before / pace::LOOK != now / pace::LOOK {
        SLOWEST.fetch_max(slowest(number).map_or(now, |others| others.min(now)), Ordering::Relaxed);
        pace::keep(now, || slowest(number));
    }
}

/// Slots that were ever used.
fn used() -> impl Iterator<Item = (usize, &'static Slot)> {
    SLOTS.iter().take(HIGHEST.load(Ordering::Relaxed) as usize + 1).enumerate()
}

/// How far the slowest thread is that runs, other than this one; none where no other does, and once nothing is traced.
fn slowest(number: u32) -> Option<u64> {
    let runs = |slot: &Slot| match slot.phase.load(Ordering::Relaxed) {
        RUNNING | BUSY => true,
        WAITING => slot.asleep.is_woken(),
        _ => false,
    };
    let run = used().filter(|(other, slot)| *other != number as usize && runs(slot));
    let slowest = run.map(|(_, slot)| slot.pace.load(Ordering::Relaxed)).min();
    slowest.filter(|_| TRACING.load(Ordering::Relaxed))
}

/// An instruction of the block that runs reads or writes memory.
#[inline]
pub(crate) fn accessed(number: u32, address: u64, octets: u8, write: bool, what: Accessing) {
    let Some(slot) = slot(number) else { return };
    let Some(thread) = slot.running() else { return };
    if thread.block != NO_NUMBER {
        accesses::take_in(&mut thread.accesses, 0, address, octets, write, what);
    }
}

/// Does something with a thread inside a callback of a system call; nothing once its trace has stopped.
pub(crate) fn with(number: u32, does: impl FnOnce(&mut Traced)) {
    let Some(slot) = slot(number) else { return };
    if let Some(thread) = slot.busy() {
        thread.leave_block();
        if TRACING.load(Ordering::Relaxed) {
            does(thread);
        }
        slot.phase.store(RUNNING, Ordering::Release);
    }
}

/// The thread goes into the system: until it comes back it may be taken over.
pub(crate) fn wait(number: u32) {
    if let Some(slot) = slot(number) {
        slot.take(RUNNING, WAITING);
    }
}

/// The thread is about to wait at a futex, or to wake who waits there.
pub(crate) fn futex(number: u32, call: Futex) {
    match call {
        Futex::Waits { address } => {
            if let Some(slot) = slot(number) {
                slot.asleep.begin(address);
            }
        }
        Futex::Wakes { address, most } => {
            let runs = |place: usize| {
                SLOTS[place].pace.fetch_max(SLOWEST.load(Ordering::Relaxed), Ordering::Relaxed);
            };
            Asleep::wake(used().map(|(place, slot)| (place, &slot.asleep)), address, most, runs);
        }
    }
}

/// It comes back.
pub(crate) fn come_back(number: u32) {
    if let Some(slot) = slot(number) {
        // While it waited the others went on: it does not have to be waited for until it has done as much.
        slot.pace.fetch_max(SLOWEST.load(Ordering::Relaxed), Ordering::Relaxed);
        slot.asleep.end(used().map(|(_, slot)| &slot.asleep));
        slot.take(WAITING, RUNNING);
    }
}

/// From now on there is something to trace.
pub(crate) fn start() {
    if !STOPPING.load(Ordering::SeqCst) {
        TRACING.store(true, Ordering::SeqCst);
    }
}

/// The trace stops: each thread ends its own when it runs its next block.
pub(crate) fn stop() {
    STOPPING.store(true, Ordering::SeqCst);
    TRACING.store(false, Ordering::SeqCst);
}

/// Takes over the thread that the calling host thread runs, which runs no more.
pub(crate) fn take_own(number: u32) {
    if let Some(slot) = slot(number)
        && (slot.take(RUNNING, TAKEN) || slot.take(WAITING, TAKEN))
    {
        slot.finish(ENDED);
    }
}

/// Takes over the threads that wait in the system; whether all have ended.
pub(crate) fn take_waiting() -> bool {
    let mut all = true;
    for slot in &SLOTS {
        if slot.take(WAITING, TAKEN) {
            slot.finish(ENDED);
        }
        all &= matches!(slot.phase.load(Ordering::Acquire), FREE | ENDED);
    }
    all
}

/// Takes over all threads. To be called once no callback of a block or access can run any more.
pub(crate) fn take_all() {
    stop();
    for slot in &SLOTS {
        loop {
            if slot.take(RUNNING, TAKEN) || slot.take(WAITING, TAKEN) {
                slot.finish(ENDED);
            }
            if matches!(slot.phase.load(Ordering::Acquire), FREE | ENDED) {
                break;
            }
            // Somebody is inside a callback, or ends the thread's trace: neither takes long.
            std::thread::yield_now();
        }
    }
}

/// In the child of a fork nothing is traced: it has no other threads, and the file is its parent's.
pub(crate) fn forget() {
    stop();
    for slot in &SLOTS {
        slot.phase.store(ENDED, Ordering::Relaxed);
    }
}

/// Instructions and threads so far.
fn progress() -> Progress {
    let running: u64 = SLOTS.iter().map(|slot| slot.instructions.load(Ordering::Relaxed)).sum();
    let instructions = running + ENDED_INSTRUCTIONS.load(Ordering::Relaxed);
    Progress { instructions, count: u64::from(CREATED.load(Ordering::Relaxed)), traced_ns: 0 }
}
