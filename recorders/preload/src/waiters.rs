//! Who waits for what: an unlock is recorded only where somebody waits, and must not touch the lock once it is
//! given back. A lock's address picks one of a thousand counts, few enough to stay in the first cache; two locks that
//! share one only make some unlocks recorded that nobody waited for.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const SLOTS_LOG2: u32 = 10;

static SLOTS: [AtomicU32; 1 << SLOTS_LOG2] = [const { AtomicU32::new(0) }; 1 << SLOTS_LOG2];

/// When the last of them came, in cycles: of those who give back only such need it who somebody came to meanwhile.
static CAME_AT: [AtomicU64; 1 << SLOTS_LOG2] = [const { AtomicU64::new(0) }; 1 << SLOTS_LOG2];

/// The count of those who wait for the object at `address`.
#[inline(always)]
pub(crate) fn of(address: usize) -> &'static AtomicU32 {
    let mixed = ((address >> 3) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // SAFETY: the top SLOTS_LOG2 bits number a slot that exists.
    unsafe { SLOTS.get_unchecked((mixed >> (64 - SLOTS_LOG2)) as usize) }
}

/// How many wait is in the low half; the high half counts who ever came, and may wrap.
const CAME: u32 = 1 << 16;

/// Whether somebody waits.
#[inline(always)]
pub(crate) fn any(slot: &AtomicU32) -> bool {
    is_waited_for(look(slot))
}

/// What a call that wakes sees before it does.
#[inline(always)]
pub(crate) fn look(slot: &AtomicU32) -> u32 {
    slot.load(Ordering::Relaxed)
}

/// Whether somebody waited at that look.
#[inline(always)]
pub(crate) fn is_waited_for(look: u32) -> bool {
    look & (CAME - 1) != 0
}

/// Whether somebody came since that look: also one who came, was woken and went between the two.
#[inline(always)]
pub(crate) fn came_since(slot: &AtomicU32, look: u32) -> bool {
    slot.load(Ordering::Relaxed) != look
}

/// One more waits, since that count of cycles. Ordered before the look at the lock that follows, as the unlock's look is
/// after its unlock.
#[inline(always)]
pub(crate) fn enter(slot: &AtomicU32, cycles: u64) {
    if let Some(at) = came_at(slot) {
        at.store(cycles, Ordering::Relaxed);
    }
    slot.fetch_add(CAME | 1, Ordering::SeqCst);
}

/// When the one came who was not there at a look before: its entry, in cycles.
#[inline(always)]
pub(crate) fn newcomer_since(slot: &AtomicU32) -> u64 {
    let _ = slot.load(Ordering::Acquire);
    came_at(slot).map_or(0, |at| at.load(Ordering::Relaxed))
}

fn came_at(slot: &AtomicU32) -> Option<&'static AtomicU64> {
    let from_first = std::ptr::from_ref(slot).addr().wrapping_sub(SLOTS.as_ptr().addr());
    CAME_AT.get(from_first / size_of::<AtomicU32>())
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
