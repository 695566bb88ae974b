//! Records of the locks that are sampled ([`crate::samples`]).

use crate::ring::{Event, Thread};
use crate::{shared, shared_pages};
use quaver_abi::sync::{SyncKind, SyncObject, outcome_flags};

/// Records that a free lock was taken: as a sample where one is due, else since others wait for it. It is timed unless another one
/// is. That its thread has it once more is no event.
#[cold]
#[inline(never)]
pub(super) fn take(
    thread: &Thread,
    address: usize,
    site: usize,
    (object, for_reading): (SyncObject, bool),
    is_due: bool,
) {
    if object == SyncObject::Spin {
        shared_pages::find(address);
    }
    // Drawn in any case, so that what is left out is as likely a sample as the rest.
    let detail = if is_due { thread.samples().draw() } else { 0 };
    if object == SyncObject::Mutex && shared::is_held_again(address) {
        return;
    }
    let is_timed = !for_reading && thread.samples().begin_time(address);
    let outcome = match (for_reading, is_timed) {
        (true, _) => outcome_flags::FOR_READING,
        (false, true) => 0,
        (false, false) => outcome_flags::UNTIMED,
    };
    thread.put(Event { kind: SyncKind::Taken, outcome, object: address as u64, site: site as u64, detail });
}

/// Records that the lock which is timed is about to be given back.
#[cold]
#[inline(never)]
pub(super) fn give_back(thread: &Thread, address: usize, site: usize, object: SyncObject) {
    thread.samples().end_time();
    let (kind, detail) = (SyncKind::GivenBack, object as u32);
    thread.put(Event { kind, outcome: 0, object: address as u64, site: site as u64, detail });
}
