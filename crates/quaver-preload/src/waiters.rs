//! Who waits for what: an unlock is recorded only where somebody waits, and must not touch the lock once it is
//! given back. A lock's address picks one of a few thousand counts; two locks that share one only make some
//! unlocks recorded that nobody waited for.

use std::sync::atomic::{AtomicU32, Ordering};

const SLOTS_LOG2: u32 = 12;

static SLOTS: [AtomicU32; 1 << SLOTS_LOG2] = [const { AtomicU32::new(0) }; 1 << SLOTS_LOG2];

/// The count of those who wait for the object at `address`.
#[inline(always)]
pub(crate) fn of(address: usize) -> &'static AtomicU32 {
    let mixed = ((address >> 3) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // SAFETY: the top SLOTS_LOG2 bits number a slot that exists.
    unsafe { SLOTS.get_unchecked((mixed >> (64 - SLOTS_LOG2)) as usize) }
}

/// Whether somebody waits.
#[inline(always)]
pub(crate) fn any(slot: &AtomicU32) -> bool {
    slot.load(Ordering::Relaxed) != 0
}

/// One more waits. Ordered before the look at the lock that follows, as the unlock's look is after its unlock.
#[inline(always)]
pub(crate) fn enter(slot: &AtomicU32) {
    slot.fetch_add(1, Ordering::SeqCst);
}

/// One waits no longer.
#[inline(always)]
pub(crate) fn leave(slot: &AtomicU32) {
    slot.fetch_sub(1, Ordering::Release);
}

/// In the child of a fork only the thread that forked is left, and it waits for nothing.
pub(crate) fn forget_all() {
    for slot in &SLOTS {
        slot.store(0, Ordering::Relaxed);
    }
}
