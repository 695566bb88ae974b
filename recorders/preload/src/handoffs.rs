//! What a creator hands over to the thread that it makes: one of a few hundred places, since nothing here allocates.

use crate::real::Routine;
use libc::c_void;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

/// How a thread came to be, as far as it is known.
#[derive(Clone, Copy, Default)]
pub(crate) struct Origin {
    /// Thread id of its creator.
    pub(crate) creator: u32,
    /// Number of the creation.
    pub(crate) creation: u32,
    /// Its start routine.
    pub(crate) routine: u64,
    /// Its stack is smaller than [`crate::stack::LEAST_STACK`].
    pub(crate) has_small_stack: bool,
    /// An address above all frames of the program in its stack; 0 where the stack is small.
    pub(crate) stack_top: usize,
}

const PLACES: usize = 512;

/// One thread's start, on its way to the thread.
pub(crate) struct Handoff {
    pub(crate) taken: AtomicU32,
    pub(crate) what: UnsafeCell<Option<(Routine, *mut c_void, Origin)>>,
}
// SAFETY: `what` belongs to the creator from its taking to `pthread_create`, then to the new thread until it
// gives the place back.
unsafe impl Sync for Handoff {}

static HANDOFFS: [Handoff; PLACES] =
    [const { Handoff { taken: AtomicU32::new(0), what: UnsafeCell::new(None) } }; PLACES];
static NEXT: AtomicU32 = AtomicU32::new(0);

/// In the child of a fork nobody else is left who could have handed something over.
pub(crate) fn forget_all() {
    for place in &HANDOFFS {
        place.taken.store(0, Ordering::Relaxed);
    }
}

pub(crate) fn take_place() -> Option<&'static Handoff> {
    for _ in 0..PLACES {
        let at = NEXT.fetch_add(1, Ordering::Relaxed) as usize % PLACES;
        if let Some(place) = HANDOFFS.get(at)
            && place.taken.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            return Some(place);
        }
    }
    None
}
