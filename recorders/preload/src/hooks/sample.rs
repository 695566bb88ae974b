//! Records of the locks that are sampled ([`crate::samples`]).

use super::lock::Lock;
use crate::ring::{Event, Thread};
use crate::shared;
use quaver_abi::sync::{SyncKind, SyncObject, outcome_flags};

/// Records that a free lock was taken. It is timed unless another one is, or its thread may have it several times over.
#[cold]
#[inline(never)]
pub(super) fn take(thread: &Thread, lock: Lock) {
    let detail = thread.samples().draw();
    if !lock.for_reading && !shared::is_recursive(lock.address, lock.object) {
        thread.samples().begin_time(lock.address);
    }
    let outcome = if lock.for_reading { outcome_flags::FOR_READING } else { 0 };
    thread.put(Event {
        kind: SyncKind::Taken,
        outcome,
        object: lock.address as u64,
        site: lock.site as u64,
        detail,
    });
}

/// Records that the lock which is timed is about to be given back.
#[cold]
#[inline(never)]
pub(super) fn give_back(thread: &Thread, address: usize, site: usize, object: SyncObject) {
    thread.samples().end_time();
    let (kind, detail) = (SyncKind::GivenBack, object as u32);
    thread.put(Event { kind, outcome: 0, object: address as u64, site: site as u64, detail });
}
