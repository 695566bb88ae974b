//! Who called the caller: a copy of the stack above a call that waited long or woke somebody. Only words are kept that may be code or
//! point into the copy, since nothing else is needed to find the frames later, by the unwinding tables of the program's files.
//!
//! Reading never faults: the page of the stack pointer is in use, and further pages are read only in a stack whose top is known.
//! Nothing is asked of the kernel. A thread keeps what it wrote last, and a stack that it has written is named by its number.

use crate::ring::{Event, Thread};
use crate::{code, generated};
use quaver_abi::sync::{STACK_FRAME, STACK_WORDS, SyncKind};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Cycles of a wait from which on its stack is kept: some 5 to 8 µs on the processors there are.
const LATE_CYCLES: u64 = 1 << 14;
/// Cycles of a call that may wake somebody from which on it asked the kernel: less takes no system call anywhere.
const ASKED_CYCLES: u64 = 1 << 9;
/// Words of one stack that are kept.
const MOST_KEPT: usize = 64;
/// Below a stack's top so much belongs to the stack.
const SURELY_STACK: usize = 64 << 10;
/// Stacks that are known to be smaller than this have no top.
pub(crate) const LEAST_STACK: usize = 2 * SURELY_STACK;
const LEAST_PAGE: usize = 4096;
/// No code lies below, and no address of a program above.
const ADDRESSES: Range<usize> = 1 << 16..1 << 47;
const WORD: usize = size_of::<usize>();

/// Where a call came from: filled by the entries in `exports`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Caller {
    /// x86-64: where the return address lies. arm64: the return address.
    at: usize,
    /// What the frame pointer's register held.
    frame: usize,
}

impl Caller {
    /// The address that the call returns to.
    #[inline(always)]
    pub(crate) fn site(self) -> usize {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the entry of the hook took it from its stack pointer, and the call has not returned.
        unsafe {
            (self.at as *const usize).read_volatile()
        }
        #[cfg(not(target_arch = "x86_64"))]
        self.at
    }
}

/// Keeps the stack of a wait from `entered` to `returned` if it was long. To be followed by the record of its return.
#[inline(always)]
pub(crate) fn waited(thread: &Thread, caller: Caller, entered: u64, returned: u64) {
    if returned.wrapping_sub(entered) >= LATE_CYCLES {
        keep(thread, caller, returned);
    }
}

/// Keeps the stack of a call that asked the kernel to wake somebody, as its length shows. Readers sort by cycles, so that it comes
/// before the record of its entry, which was written already: the thread that was woken may end the image.
#[inline(always)]
pub(crate) fn woke(thread: &Thread, caller: Caller, entered: u64, returned: u64) {
    if returned.wrapping_sub(entered) >= ASKED_CYCLES {
        keep(thread, caller, entered.wrapping_sub(1));
    }
}

/// On other machines no stack is copied: return addresses may be signed there.
#[cfg(not(all(target_arch = "x86_64", target_env = "gnu")))]
pub(crate) fn keep(_: &Thread, _: Caller, _: u64) {}

/// Keeps the stack of a call, for its next record after `cycles`.
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
#[cold]
#[inline(never)]
pub(crate) fn keep(thread: &Thread, caller: Caller, cycles: u64) {
    if !code::is_known() {
        return;
    }
    let from = caller.at.wrapping_add(WORD);
    let copied = from..from.wrapping_add(STACK_WORDS.wrapping_mul(WORD));
    // Where the caller keeps something else there, that says nothing.
    let frame = if copied.contains(&caller.frame) { caller.frame } else { 0 };
    let copy = copy(thread, copied);
    let Some((number, is_new)) = thread.stacks().number(copy.hash(caller.site(), from, frame)) else {
        return;
    };
    let plain = Event { kind: SyncKind::StackWords, outcome: 0, object: 0, site: 0, detail: number };
    if is_new {
        let frame = (STACK_FRAME, frame);
        let mut left = copy.words();
        let mut first = frame;
        loop {
            let (second, rest) = match left.split_first() {
                Some((second, rest)) => (*second, rest),
                None => (frame, left),
            };
            let places = u32::from(first.0) << 16 | u32::from(second.0) << 24;
            let (object, site) = (first.1 as u64, second.1 as u64);
            thread.put_beside(cycles, Event { object, site, detail: number | places, ..plain });
            let Some((next, rest)) = rest.split_first() else { break };
            (first, left) = (*next, rest);
        }
    }
    let (object, site) = (from as u64, caller.site() as u64);
    thread.put_beside(cycles, Event { kind: SyncKind::Stack, object, site, ..plain });
}

/// Words of a stack with their places.
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
struct StackCopy {
    kept: [(u8, usize); MOST_KEPT],
    count: usize,
}

#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
impl StackCopy {
    fn words(&self) -> &[(u8, usize)] {
        self.kept.get(..self.count).unwrap_or_default()
    }

    /// Never 0 in its upper bits.
    fn hash(&self, site: usize, from: usize, frame: usize) -> u64 {
        let mix =
            |hash: u64, word: usize| (hash ^ word as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let whole = [site, from, frame].into_iter().fold(1, mix);
        self.words().iter().fold(whole, |hash, (place, word)| mix(mix(hash, *word), usize::from(*place)))
            | 1 << 63
    }
}

#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
fn copy(thread: &Thread, Range { start: from, end: most }: Range<usize>) -> StackCopy {
    // That of the return address.
    let page_end = (from.wrapping_sub(1) | (LEAST_PAGE - 1)).wrapping_add(1);
    let top = thread.stacks().top.load(Ordering::Relaxed) & !(WORD - 1);
    let is_own = top.wrapping_sub(from) < SURELY_STACK;
    let end = if is_own { most.min(top) } else { most.min(page_end) };
    let mut copy = StackCopy { kept: [(0, 0); MOST_KEPT], count: 0 };
    for place in 0..end.saturating_sub(from) / WORD {
        // SAFETY: aligned as each return address is, in a page that is in use or in the thread's own stack. Other threads may write
        // there, hence volatile: any value will do.
        let word = unsafe { (from as *const usize).wrapping_add(place).read_volatile() };
        let is_kept = ADDRESSES.contains(&word)
            && ((from..most).contains(&word) || generated::holds(word) || code::holds(word));
        if !is_kept {
            continue;
        }
        let Some(slot) = copy.kept.get_mut(copy.count) else { break };
        *slot = (place as u8, word);
        copy.count = copy.count.wrapping_add(1);
    }
    copy
}
