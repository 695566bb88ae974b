//! `pthread_barrier_wait`.

use super::{Blocking, outcome_of};
use crate::real::Object;
use crate::ring;
use libc::c_int;
use quaver_abi::sync::SyncKind;

pub(crate) unsafe extern "C-unwind" fn wait(barrier: Object, site: usize) -> c_int {
    let make = || library!(barrier_wait(barrier) or libc::ENOSYS);
    let Some(thread) = ring::current() else { return make() };
    let call = Blocking {
        entry: SyncKind::BarrierEntry,
        exit: SyncKind::BarrierExit,
        object: barrier as u64,
        site: site as u64,
        detail: 0,
        flags: 0,
    };
    thread.put(call.entry());
    let result = make();
    thread.put(call.exit(outcome_of(result)));
    result
}
