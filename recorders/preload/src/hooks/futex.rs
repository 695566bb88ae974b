//! Futexes that a program uses itself, through the C library's `syscall`: C++ atomics, Rust's locks.

use super::{Blocking, outcome_by_errno};
use crate::stack::{self, Caller};
use crate::{arch, ring, system};
use quaver_abi::sync::{SyncKind, SyncOutcome};

/// What the C library's `syscall` does where the kernel says an error.
pub(crate) unsafe extern "C-unwind" fn failed(result: isize) -> isize {
    system::set_errno(result.unsigned_abs() as i32);
    -1
}

/// `syscall(SYS_futex, word, operation, value, time, word2, value3)`.
pub(crate) unsafe extern "C-unwind" fn futex(
    number: usize,
    word: usize,
    operation: usize,
    value: usize,
    time: usize,
    word2: usize,
    value3: usize,
    caller: Caller,
) -> isize {
    let make = || library!(system_call(number, word, operation, value, time, word2, value3) or -1);
    let kinds = match operation as i32 & libc::FUTEX_CMD_MASK {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => (SyncKind::FutexWaitEntry, SyncKind::FutexWaitExit),
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => (SyncKind::FutexWakeEntry, SyncKind::FutexWakeExit),
        _ => return make(),
    };
    let Some(thread) = ring::current() else { return make() };
    let wakes = kinds.0 == SyncKind::FutexWakeEntry;
    let mut call = Blocking {
        entry: kinds.0,
        exit: kinds.1,
        object: word as u64,
        caller,
        detail: if wakes { value as u32 } else { 0 },
        flags: 0,
    };
    let entered = arch::cycles();
    thread.put_at(entered, call.entry());
    let result = make();
    let outcome = if result >= 0 { SyncOutcome::Ok } else { outcome_by_errno(-1) };
    if !wakes {
        call.returns(thread, entered, outcome);
        return result;
    }
    let returned = arch::cycles();
    if result > 0 {
        stack::woke(thread, caller, entered, returned);
    }
    call.detail = u32::try_from(result).unwrap_or(0);
    thread.put_at(returned, call.exit(outcome));
    result
}
