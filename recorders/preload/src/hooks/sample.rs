//! Records of the locks that are sampled ([`crate::samples`]).

use crate::ring::{Event, Thread};
use crate::shared;
use quaver_abi::sync::{SyncKind, SyncObject, outcome_flags};

/// Records that a free lock was taken. It is timed unless another one is, or its thread may have it several times over.
#[cold]
#[inline(never)]
pub(super) fn take(thread: &Thread, address: usize, site: usize, object: SyncObject, for_reading: bool) {
    let detail = thread.samples().draw();
    if !for_reading && !shared::is_recursive(address, object) {
        thread.samples().begin_time(address);
    }
    let outcome = if for_reading { outcome_flags::FOR_READING } else { 0 };
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
