//! `pthread_barrier_wait`, and how many meet there.

use super::init::note;
use super::{Blocking, outcome_of};
use crate::marks::{self, Call, Marked};
use crate::real::Object;
use crate::stack::Caller;
use crate::{arch, ring};
use libc::{c_int, c_uint};
use quaver_abi::sync::SyncKind;

pub(crate) unsafe extern "C-unwind" fn wait(barrier: Object, caller: Caller) -> c_int {
    let make = || library!(barrier_wait(barrier) or libc::ENOSYS);
    let Some(thread) = ring::current() else {
        return marks::around(Marked::new(Call::Barrier, barrier as usize), make);
    };
    let call = Blocking {
        entry: SyncKind::BarrierEntry,
        exit: SyncKind::BarrierExit,
        object: barrier as u64,
        caller,
        detail: 0,
        flags: 0,
    };
    let entered = arch::cycles();
    thread.put_at(entered, call.entry());
    let result = make();
    call.returns(thread, entered, outcome_of(result));
    result
}

pub(crate) unsafe extern "C-unwind" fn init(
    barrier: Object,
    attributes: Object,
    parties: c_uint,
    caller: Caller,
) -> c_int {
    let result = library!(barrier_init(barrier, attributes, parties) or libc::ENOSYS);
    if result == 0 {
        marks::made(Call::Barrier, barrier as usize, parties as usize);
    }
    note(result, barrier, caller)
}
