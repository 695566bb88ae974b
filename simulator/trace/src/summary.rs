//! What is in a trace, counted.

use crate::file::{ReadAt, TraceReader};
use crate::step::{Step, Steps, Sync, TraceError};
use serde::Serialize;

/// Steps of synchronisation, by what they do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SyncCounts {
    /// Threads started.
    pub creates: u64,
    /// Ends of threads waited for.
    pub joins: u64,
    /// Locks taken, but those for reading.
    pub locks: u64,
    /// Locks given back, but those for reading.
    pub unlocks: u64,
    /// Locks taken for reading.
    pub read_locks: u64,
    /// Locks given back that were taken for reading.
    pub read_unlocks: u64,
    /// Waits for conditions and semaphores.
    pub waits: u64,
    /// Of the waits: those that somebody ended. The others found what they waited for, timed out, or woke up for nothing.
    pub woken: u64,
    /// Signals and posts.
    pub signals: u64,
    /// Broadcasts.
    pub broadcasts: u64,
    /// Arrivals at barriers.
    pub barriers: u64,
}

impl SyncCounts {
    fn count(&mut self, sync: Sync) {
        let field = match sync {
            Sync::Create { .. } => &mut self.creates,
            Sync::Join { .. } => &mut self.joins,
            Sync::Lock { .. } => &mut self.locks,
            Sync::Unlock { .. } => &mut self.unlocks,
            Sync::ReadLock { .. } => &mut self.read_locks,
            Sync::ReadUnlock { .. } => &mut self.read_unlocks,
            Sync::Signal { .. } => &mut self.signals,
            Sync::Broadcast { .. } => &mut self.broadcasts,
            Sync::Barrier { .. } => &mut self.barriers,
            Sync::Wait { by, .. } => {
                self.woken += u64::from(by.is_some());
                &mut self.waits
            }
        };
        *field += 1;
    }

    /// All steps.
    pub fn all(&self) -> u64 {
        let &Self { creates, joins, locks, unlocks, read_locks, read_unlocks, waits, .. } = self;
        creates + joins + locks + unlocks + read_locks + read_unlocks + waits + self.told()
    }

    fn told(&self) -> u64 {
        self.signals + self.broadcasts + self.barriers
    }

    /// Those of both.
    pub fn and(&self, other: &Self) -> Self {
        Self {
            creates: self.creates + other.creates,
            joins: self.joins + other.joins,
            locks: self.locks + other.locks,
            unlocks: self.unlocks + other.unlocks,
            read_locks: self.read_locks + other.read_locks,
            read_unlocks: self.read_unlocks + other.read_unlocks,
            waits: self.waits + other.waits,
            woken: self.woken + other.woken,
            signals: self.signals + other.signals,
            broadcasts: self.broadcasts + other.broadcasts,
            barriers: self.barriers + other.barriers,
        }
    }
}

/// What a thread did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ThreadSummary {
    /// Its number.
    pub thread: u32,
    /// Blocks that it ran.
    pub blocks: u64,
    /// Instructions that it ran.
    pub instructions: u64,
    /// Its reads of memory.
    pub loads: u64,
    /// Its writes.
    pub stores: u64,
    /// Its steps of synchronisation.
    pub syncs: SyncCounts,
}

/// Reads all steps of a thread.
///
/// # Errors
/// When they cannot be read.
pub fn summary_of<R: ReadAt>(trace: &TraceReader<R>, thread: u32) -> Result<ThreadSummary, TraceError> {
    let (mut steps, mut accesses) = (trace.steps(thread), Vec::new());
    let mut summary = ThreadSummary { thread, ..ThreadSummary::default() };
    loop {
        match steps.step(&mut accesses)? {
            Step::Block { number } => {
                let block = trace.dictionary.blocks.get(number as usize);
                summary.blocks += 1;
                summary.instructions += block.map_or(0, |block| block.instructions.len() as u64);
                let stores = accesses.iter().filter(|access| access.write).count() as u64;
                summary.stores += stores;
                summary.loads += accesses.len() as u64 - stores;
            }
            Step::Sync(sync) => summary.syncs.count(sync),
            Step::End => return Ok(summary),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Block, Class, Instruction, Registers};
    use crate::file::{Facts, TraceWriter};
    use crate::step::{Access, Thread, Wakeup};

    #[test]
    fn counts_of_two_are_added_field_by_field_and_a_wake_up_is_no_step_of_its_own() {
        let one = SyncCounts {
            creates: 1,
            joins: 2,
            locks: 3,
            unlocks: 4,
            read_locks: 5,
            read_unlocks: 6,
            waits: 7,
            woken: 8,
            signals: 9,
            broadcasts: 10,
            barriers: 11,
        };
        assert_eq!(one.all(), 1 + 2 + 3 + 4 + 5 + 6 + 7 + 9 + 10 + 11);
        let three = SyncCounts {
            creates: 3,
            joins: 6,
            locks: 9,
            unlocks: 12,
            read_locks: 15,
            read_unlocks: 18,
            waits: 21,
            woken: 24,
            signals: 27,
            broadcasts: 30,
            barriers: 33,
        };
        assert_eq!(one.and(&one).and(&one), three);
    }

    #[test]
    fn everything_is_counted_once() {
        let mut writer = TraceWriter::new(Vec::new(), &Facts::default()).unwrap();
        let registers = Registers::default();
        let instruction = Instruction {
            octets: 3,
            class: Class::Integer,
            loads: true,
            stores: true,
            reads: registers,
            writes: registers,
        };
        let block = writer.define(Block { pc: 0x1000, instructions: vec![instruction; 3] });
        let access = |write| Access { address: 64, instruction: 0, octets: 8, write };
        writer.block(0, block, &[access(false), access(true)]).unwrap();
        writer.block(0, block, &[access(false)]).unwrap();
        let (object, wakeup) = (8, Wakeup(1));
        for sync in [
            Sync::Create { thread: Thread(1) },
            Sync::Lock { object },
            Sync::Wait { object: 16, mutex: object, by: Some(wakeup) },
            Sync::Wait { object: 16, mutex: object, by: None },
            Sync::Unlock { object },
            Sync::Barrier { object: 24, parties: 1 },
            Sync::Join { thread: Thread(1) },
        ] {
            writer.sync(0, sync);
        }
        writer.end(0);
        let trace = TraceReader::open(writer.finish().unwrap()).unwrap();
        let summary = summary_of(&trace, 0).unwrap();
        assert_eq!((summary.blocks, summary.instructions, summary.loads, summary.stores), (2, 6, 2, 1));
        let counts = summary.syncs;
        assert_eq!((counts.waits, counts.woken, counts.locks, counts.all()), (2, 1, 1, 7));
        assert_eq!(counts.and(&counts).all(), 14);
    }
}
