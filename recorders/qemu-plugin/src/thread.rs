//! A thread of the program: the steps of it that are not written yet.

use crate::output;
use crate::sync::Arrival;
use crate::translate::NO_NUMBER;
use quaver_abi::marks::Call;
use quaver_trace::file::{FRAME_OCTETS, PackedSteps};
use quaver_trace::frame::FrameWriter;
use quaver_trace::step::{Access, Sync, Thread};

/// A thread of the program, as far as it was not written yet.
pub(crate) struct Traced {
    /// Its number.
    pub(crate) thread: Thread,
    /// Calls of the thread library that it is inside of.
    pub(crate) open: Vec<Open>,
    /// Locks that it holds: what was not given back when the trace ends is given back there, so that nobody waits for it.
    pub(crate) held: Vec<HeldLock>,
    frame: FrameWriter,
    /// The block that runs.
    pub(crate) block: u32,
    pub(crate) accesses: Vec<Access>,
}

/// A call that was entered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    pub(crate) call: Call,
    pub(crate) object: u64,
    pub(crate) mutex: u64,
    pub(crate) arrival: Option<Arrival>,
    pub(crate) joined: Option<Thread>,
}

/// A lock that a thread holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldLock {
    pub(crate) object: u64,
    pub(crate) for_reading: bool,
}

impl Traced {
    pub(crate) fn new(thread: Thread) -> Self {
        Self {
            thread,
            open: Vec::new(),
            held: Vec::new(),
            frame: FrameWriter::default(),
            block: NO_NUMBER,
            accesses: Vec::new(),
        }
    }

    /// The block before is done.
    #[inline]
    pub(crate) fn leave_block(&mut self) {
        if self.block != NO_NUMBER {
            self.frame.block(self.block, &self.accesses);
            self.block = NO_NUMBER;
            self.accesses.clear();
            if self.frame.octets() >= FRAME_OCTETS {
                self.flush();
            }
        }
    }

    /// A block of one instruction that changes the first word of `object`.
    pub(crate) fn call_block(&mut self, number: u32, object: u64, writes: bool) {
        let read = Access { address: object, instruction: 0, octets: 4, write: false };
        let write = Access { write: true, ..read };
        let both = [read, write];
        self.frame.block(number, if writes { &both } else { &both[..1] });
    }

    pub(crate) fn sync(&mut self, sync: Sync) {
        self.frame.sync(sync);
    }

    fn flush(&mut self) {
        output::add(PackedSteps::of(self.thread.0, &mut self.frame));
    }

    /// The thread ends, or its trace does. It is in no block and no call any more.
    pub(crate) fn end(&mut self) {
        for HeldLock { object, for_reading } in std::mem::take(&mut self.held).into_iter().rev() {
            self.sync(if for_reading { Sync::ReadUnlock { object } } else { Sync::Unlock { object } });
        }
        self.frame.end();
        self.flush();
    }
}
