//! Who waits for what: an unlock is recorded only where somebody waits, and must not touch the lock once it is
//! given back. A lock's address picks one of a thousand counts, few enough to stay in the first cache; two locks that
//! share one only make some unlocks recorded that nobody waited for.

use crate::arch;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const SLOTS_LOG2: u32 = 10;

static SLOTS: [AtomicU32; 1 << SLOTS_LOG2] = [const { AtomicU32::new(0) }; 1 << SLOTS_LOG2];

/// Newcomers of a slot that are remembered: as many as may come while a thread that gives a lock back is off its CPU between
/// that and its second look.
const REMEMBERED: usize = 16;

/// When the latest of each slot came: the low 48 bits of the count of cycles, above the low 16 of its number. Those who give back
/// only such need it who somebody came to meanwhile.
static CAME_AT: [[AtomicU64; REMEMBERED]; 1 << SLOTS_LOG2] =
    [const { [const { AtomicU64::new(0) }; REMEMBERED] }; 1 << SLOTS_LOG2];

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

/// One more waits. Ordered before the look at the lock that follows, as the unlock's look is after its unlock.
#[inline(always)]
pub(crate) fn enter(slot: &AtomicU32) {
    let number = slot.fetch_add(CAME | 1, Ordering::SeqCst) >> 16;
    // Counted already: whoever did not see it coming gave the lock back before this instant.
    if let Some(place) = place(slot, number) {
        place.store(arch::cycles_after() << 16 | u64::from(number), Ordering::SeqCst);
    }
}

/// When the first one came who was not there at that look, in cycles; now if none of them has told yet, for then none has looked at
/// the lock. Of more than are remembered it is the first of these.
#[inline(always)]
pub(crate) fn first_since(slot: &AtomicU32, look: u32) -> u64 {
    let now = arch::cycles();
    let came = (slot.load(Ordering::Acquire) >> 16).wrapping_sub(look >> 16) & 0xffff;
    let numbers = (came.saturating_sub(REMEMBERED as u32)..came).map(|after| after.wrapping_add(look >> 16));
    let ago = numbers.filter_map(|number| {
        let told = place(slot, number)?.load(Ordering::Acquire);
        let ago = now.wrapping_sub(told >> 16) & (u64::MAX >> 16);
        // Another one has taken the place, or has yet to. One that seems to be of the future came after our look at the clock.
        (told != 0 && told & 0xffff == u64::from(number & 0xffff) && ago < 1 << 47).then_some(ago)
    });
    now.wrapping_sub(ago.max().unwrap_or(0))
}

fn place(slot: &AtomicU32, number: u32) -> Option<&'static AtomicU64> {
    let from_first = std::ptr::from_ref(slot).addr().wrapping_sub(SLOTS.as_ptr().addr());
    CAME_AT.get(from_first / size_of::<AtomicU32>())?.get(number as usize % REMEMBERED)
}

/// One waits no longer.
#[inline(always)]
pub(crate) fn leave(slot: &AtomicU32) {
    slot.fetch_sub(1, Ordering::Release);
}

/// In the child of a fork only the thread that forked is left, and it waits for nothing.
pub(crate) fn forget_all() {
    for slot in &SLOTS {
        // Numbers go on, so that no time of before the fork has one of after it.
        slot.fetch_and(!(CAME - 1), Ordering::Relaxed);
    }
}
