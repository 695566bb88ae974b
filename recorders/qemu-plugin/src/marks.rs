//! Steps of synchronisation, from the recorder's marks.
//!
//! A call of the thread library counts as one instruction of the program, which changes the first word of what it is about: for
//! the others a lock's line moves as it does in the machine, and the traces of one program are the same however long its threads
//! waited for each other while they were traced.

use crate::sync::Matching;
use crate::thread::{HeldLock, Open, Traced};
use crate::translate;
use quaver_abi::marks::{Call, Moment};
use quaver_trace::block::{Class, Instruction, Registers};
use quaver_trace::step::{Sync, Thread, Wakeup};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Bytes between the addresses of two calls' blocks.
const CALL_OCTETS: u64 = 16;
/// The register of a function's first argument.
const FIRST_ARGUMENT: u8 = 7;

/// What all threads share.
#[derive(Default)]
pub(crate) struct Marks {
    matching: Mutex<Matching>,
    /// First address of the recorder.
    recorder: AtomicU64,
}

static MARKS: OnceLock<Marks> = OnceLock::new();

/// Blocks of calls: defined when they are first used.
static CALL_BLOCKS: Mutex<[Option<u32>; 11]> = Mutex::new([None; 11]);

impl Marks {
    pub(crate) fn get() -> &'static Self {
        MARKS.get_or_init(Self::default)
    }

    fn matching(&self) -> MutexGuard<'_, Matching> {
        self.matching.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The recorder lies there, and the program begins.
    pub(crate) fn begin(&self, from: u64, to: u64) {
        self.recorder.store(from, Ordering::Relaxed);
        translate::recorder_is(from..to);
    }

    /// A thread was made, of which this will be the `pthread_t`.
    pub(crate) fn thread_made(&self, pthread: u64, thread: Thread) {
        self.matching().thread_made(pthread, thread);
    }

    /// An object was made with this value.
    pub(crate) fn made(&self, call: Call, object: u64, value: u64) {
        match call {
            Call::Barrier => self.matching().barrier_made(object, value as u32),
            Call::Post => self.matching().semaphore_made(object, value),
            _ => {}
        }
    }

    /// A thread enters a call.
    pub(crate) fn enter(&self, traced: &mut Traced, call: Call, object: u64, other: u64) {
        let mut open = Open { call, object, mutex: other, arrival: None, joined: None };
        let thread = traced.thread;
        match call {
            Call::Wait => self.matching().waits(object, thread),
            Call::Signal | Call::Broadcast => {
                let all = call == Call::Broadcast;
                let wakeup = self.matching().signals(object, thread, all);
                self.put(traced, open, wake(all, object, wakeup));
            }
            Call::Post => {
                let wakeup = self.matching().posts(object);
                self.put(traced, open, wake(false, object, wakeup));
            }
            Call::Barrier => open.arrival = self.matching().arrives(object),
            Call::Join => open.joined = self.matching().thread_of(object),
            Call::Lock | Call::ReadLock | Call::Unlock | Call::SemaphoreWait => {}
        }
        traced.open.push(open);
    }

    /// It comes back from the call that it entered last.
    pub(crate) fn leave(&self, traced: &mut Traced, call: Call, result: i32) {
        let Some(place) = traced.open.iter().rposition(|open| open.call == call) else { return };
        let open = traced.open.remove(place);
        let object = open.object;
        match call {
            Call::Lock | Call::ReadLock if matches!(result, 0 | libc::EOWNERDEAD) => {
                let for_reading = call == Call::ReadLock;
                traced.held.push(HeldLock { object, for_reading });
                let sync = if for_reading { Sync::ReadLock { object } } else { Sync::Lock { object } };
                self.put(traced, open, sync);
            }
            Call::Unlock if result == 0 => self.unlock(traced, open),
            Call::Wait => self.waited(traced, open, result),
            Call::Signal | Call::Broadcast => self.matching().signalled(object, traced.thread),
            Call::SemaphoreWait if result == 0 => {
                let by = self.matching().took(object);
                self.put(traced, open, Sync::Wait { object, mutex: 0, by });
            }
            Call::Barrier if matches!(result, 0 | libc::PTHREAD_BARRIER_SERIAL_THREAD) => {
                self.met(traced, open)
            }
            Call::Join if result == 0 => {
                if let Some(thread) = open.joined {
                    self.put(traced, open, Sync::Join { thread });
                }
            }
            _ => {}
        }
    }

    fn unlock(&self, traced: &mut Traced, open: Open) {
        let object = open.object;
        // What it does not hold is not its to give back: a replay would refuse it.
        let Some(place) = traced.held.iter().rposition(|held| held.object == object) else { return };
        let HeldLock { for_reading, .. } = traced.held.remove(place);
        self.put(
            traced,
            open,
            if for_reading { Sync::ReadUnlock { object } } else { Sync::Unlock { object } },
        );
    }

    fn waited(&self, traced: &mut Traced, open: Open, result: i32) {
        let (object, mutex) = (open.object, open.mutex);
        let by = self.matching().waited(object, traced.thread, result == 0);
        // Another result says that it did not wait at all.
        let gave_back = matches!(result, 0 | libc::ETIMEDOUT | libc::ECANCELED | libc::EOWNERDEAD);
        if gave_back && traced.held.iter().any(|held| held.object == mutex) {
            self.put(traced, open, Sync::Wait { object, mutex, by });
        }
    }

    fn met(&self, traced: &mut Traced, open: Open) {
        // While the trace stops, some may not have come there in it; a replay would wait for them for ever.
        let Some(arrival) = open.arrival else { return };
        let met = self.matching().met(arrival);
        if met {
            self.put(traced, open, Sync::Barrier { object: open.object, parties: arrival.parties });
        }
    }

    /// The thread's trace ends inside calls: what surely happened is kept.
    pub(crate) fn leave_open(&self, traced: &mut Traced) {
        for open in std::mem::take(&mut traced.open) {
            if open.call == Call::Barrier {
                self.met(traced, open);
            }
        }
    }

    /// Puts a step and the call's instruction: what takes is done before the instruction, what gives after it.
    fn put(&self, traced: &mut Traced, open: Open, sync: Sync) {
        let block = self.block_of(open.call);
        let takes = matches!(open.call, Call::Lock | Call::ReadLock | Call::SemaphoreWait);
        if takes {
            traced.sync(sync);
        }
        if let Some(block) = block {
            traced.call_block(block, open.object, open.call != Call::Join);
        }
        if !takes {
            traced.sync(sync);
        }
    }

    fn block_of(&self, call: Call) -> Option<u32> {
        let mut blocks = CALL_BLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
        let place = blocks.get_mut(call as usize)?;
        if place.is_none() {
            let joins = call == Call::Join;
            let instruction = Instruction {
                octets: 4,
                class: if joins { Class::Integer } else { Class::Serialising },
                loads: true,
                stores: !joins,
                reads: Registers::of(FIRST_ARGUMENT),
                writes: Registers::of(0),
            };
            let start = self.recorder.load(Ordering::Relaxed);
            *place = translate::define_call(start, call as u64 * CALL_OCTETS, instruction);
        }
        *place
    }
}

fn wake(all: bool, object: u64, wakeup: Wakeup) -> Sync {
    if all { Sync::Broadcast { object, wakeup } } else { Sync::Signal { object, wakeup } }
}

/// Takes in a mark of a thread.
pub(crate) fn take_in(traced: &mut Traced, moment: Moment, call: Call, object: u64, other: u64, result: i32) {
    let marks = Marks::get();
    match moment {
        Moment::Enter => marks.enter(traced, call, object, other),
        Moment::Leave => marks.leave(traced, call, result),
        Moment::Made => marks.made(call, object, other),
        Moment::Begin => {}
    }
}
