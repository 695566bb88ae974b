//! Marks: how the recorder tells a tracer, which runs the program in an emulator, what the program's threads do to each other.
//!
//! A mark is a system call of a number that no kernel has. The kernel refuses it (ENOSYS); the tracer sees its arguments:
//!
//! ```text
//! register  rax        rdi                     rsi      rdx                      r10
//! mark      MARK_CALL  moment + call * 0x100   object   mutex, value, parties    result (of Leave)
//! ```
//!
//! What runs between [`Moment::Enter`] and [`Moment::Leave`] is the thread library's, and its waiting depends on the machine
//! that traces: it is no part of the traced program.

use core::ffi::CStr;

/// System call number of marks: beyond all that any kernel has, without the bit that marks another calling convention.
pub const MARK_CALL: u64 = 0x0051_5653;

/// Environment variable that asks the recorder for marks instead of a recording.
pub const MARKS_VARIABLE: &CStr = c"QUAVER_SIM_MARKS";

/// Where a mark stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Moment {
    /// The program begins; `object` and the next argument are the first address of the recorder and that behind its last.
    Begin = 1,
    /// Right before a call.
    Enter = 2,
    /// Right after it.
    Leave = 3,
    /// The object was made, or made anew: the argument is its value or how many meet there.
    Made = 4,
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Call {
    /// Takes a mutex, a spin lock, or a read-write lock for writing; a try as well.
    Lock = 1,
    /// Takes a read-write lock for reading; a try as well.
    ReadLock = 2,
    /// Gives back any of them.
    Unlock = 3,
    /// Waits for a condition; the argument is its mutex.
    Wait = 4,
    /// Wakes one who waits for a condition.
    Signal = 5,
    /// Wakes all who do.
    Broadcast = 6,
    /// Meets others at a barrier.
    Barrier = 7,
    /// Takes one from a semaphore; a try as well.
    SemaphoreWait = 8,
    /// Gives one to a semaphore.
    Post = 9,
    /// Waits for the end of a thread; the object is its `pthread_t`.
    Join = 10,
}

/// All calls, by their numbers from 1 on.
const CALLS: [Call; 10] = [
    Call::Lock,
    Call::ReadLock,
    Call::Unlock,
    Call::Wait,
    Call::Signal,
    Call::Broadcast,
    Call::Barrier,
    Call::SemaphoreWait,
    Call::Post,
    Call::Join,
];

/// The first argument of a mark. [`Moment::Begin`] is of no call.
pub const fn word(moment: Moment, call: Option<Call>) -> u64 {
    let call = match call {
        Some(call) => call as u64,
        None => 0,
    };
    moment as u64 | call << 8
}

/// What [`word`] was made of; none where it was made of nothing that is known here.
pub fn of_word(word: u64) -> Option<(Moment, Option<Call>)> {
    let moment = match word & 0xff {
        1 => Moment::Begin,
        2 => Moment::Enter,
        3 => Moment::Leave,
        4 => Moment::Made,
        _ => return None,
    };
    match word >> 8 {
        0 if moment == Moment::Begin => Some((moment, None)),
        number => {
            let place = usize::try_from(number).ok()?.checked_sub(1)?;
            CALLS.get(place).map(|call| (moment, Some(*call)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_as_it_was_written() {
        assert_eq!(of_word(word(Moment::Begin, None)), Some((Moment::Begin, None)));
        for (place, call) in CALLS.into_iter().enumerate() {
            assert_eq!(call as usize, place + 1);
            for moment in [Moment::Enter, Moment::Leave, Moment::Made] {
                assert_eq!(of_word(word(moment, Some(call))), Some((moment, Some(call))));
            }
        }
        for foreign in [0, 5, 2, 0x0b02, u64::MAX, 0x0001_0002] {
            assert_eq!(of_word(foreign), None, "{foreign:#x}");
        }
    }
}
