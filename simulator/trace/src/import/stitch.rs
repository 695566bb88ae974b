//! From instructions one after the other to blocks: a block ends after a jump, where the next instruction is not the one
//! behind, and where it is long. The same instructions at the same place are the same block.

use super::{Imported, MOST_THREADS};
use crate::block::{Block, Class, Instruction, Registers};
use crate::file::{Facts, FileError, TraceWriter};
use crate::frame::MOST_ACCESSES;
use crate::step::{Access, Sync, Thread};
use std::collections::HashMap;
use std::io::Write;

/// Longest block that is made.
const MOST_INSTRUCTIONS: usize = 128;
/// Most steps of synchronisation of a thread without a block between them; they are kept in memory.
const MOST_SYNCS: u32 = 1 << 20;
/// Bytes of an access at most; longer ones are several.
const MOST_OCTETS: u64 = 64;

/// An instruction that ran, as far as a trace tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Execution {
    /// Its address.
    pub(super) pc: u64,
    /// Its length, 1 to 15.
    pub(super) octets: u8,
    /// What it keeps busy.
    pub(super) class: Class,
    /// Registers that it reads.
    pub(super) reads: Registers,
    /// Registers that it writes.
    pub(super) writes: Registers,
}

/// Why something cannot be taken in.
#[derive(Debug)]
pub(super) enum Refused {
    /// It cannot be true.
    Untrue(&'static str),
    /// It cannot be written.
    Write(FileError),
}

impl From<FileError> for Refused {
    fn from(error: FileError) -> Self {
        Self::Write(error)
    }
}

/// What a thread is running.
#[derive(Clone, Debug, Default)]
struct Running {
    pc: u64,
    instructions: Vec<Instruction>,
    accesses: Vec<Access>,
    /// Address behind the last instruction.
    next_pc: u64,
    syncs: u32,
}

/// Known blocks, by their address.
#[derive(Debug, Default)]
struct Known(HashMap<u64, Vec<Numbered>>);

/// A block's number and instructions.
type Numbered = (u32, Box<[Instruction]>);

/// Threads that run, on their way into a trace.
pub(super) struct Stitch<W: Write> {
    writer: TraceWriter<W>,
    known: Known,
    threads: Vec<Running>,
    /// Whether a trace tells its jumps only by where the next instruction is.
    jumps_by_place: bool,
    /// What was taken in so far.
    pub(super) imported: Imported,
}

impl<W: Write> Stitch<W> {
    pub(super) fn new(out: W, facts: &Facts) -> Result<Self, FileError> {
        let imported = Imported { lacks: facts.lacks.clone(), ..Imported::default() };
        let writer = TraceWriter::new(out, facts)?;
        Ok(Self { writer, known: Known::default(), threads: Vec::new(), jumps_by_place: false, imported })
    }

    /// For a trace that does not tell which instructions jump.
    pub(super) fn telling_jumps_by_place(mut self) -> Self {
        self.jumps_by_place = true;
        self
    }

    /// One more thread. The first one starts it where it is, for who did is not known.
    pub(super) fn start_thread(&mut self) -> Result<u32, Refused> {
        let number = self.threads.len();
        if number >= MOST_THREADS {
            return Err(Refused::Untrue("there are more than 4096 threads"));
        }
        self.threads.push(Running::default());
        if number > 0 {
            self.sync(0, Sync::Create { thread: Thread(number as u32) })?;
        }
        Ok(number as u32)
    }

    /// A thread ran an instruction; its accesses follow.
    pub(super) fn ran(&mut self, thread: u32, ran: Execution) -> Result<(), Refused> {
        if !(1..=15).contains(&ran.octets) {
            return Err(Refused::Untrue("an instruction has no bytes, or more than 15"));
        }
        let Some(next_pc) = ran.pc.checked_add(u64::from(ran.octets)) else {
            return Err(Refused::Untrue("an instruction goes beyond the end of memory"));
        };
        let running = &mut self.threads[thread as usize];
        if let Some(last) = running.instructions.last_mut() {
            let elsewhere = running.next_pc != ran.pc;
            if elsewhere && self.jumps_by_place {
                last.class = Class::Branch;
            }
            if elsewhere || last.class == Class::Branch || running.instructions.len() >= MOST_INSTRUCTIONS {
                self.flush(thread)?;
            }
        }
        let running = &mut self.threads[thread as usize];
        if running.instructions.is_empty() {
            running.pc = ran.pc;
        }
        let Execution { octets, class, reads, writes, .. } = ran;
        running.instructions.push(Instruction { octets, class, loads: false, stores: false, reads, writes });
        running.next_pc = next_pc;
        self.imported.instructions += 1;
        Ok(())
    }

    /// The address of the instruction that a thread ran last; none before the first.
    pub(super) fn last_pc(&self, thread: u32) -> Option<u64> {
        let running = &self.threads[thread as usize];
        running.instructions.last().map(|last| running.next_pc.wrapping_sub(u64::from(last.octets)))
    }

    /// The address behind the instruction that a thread ran last.
    pub(super) fn next_pc(&self, thread: u32) -> u64 {
        self.threads[thread as usize].next_pc
    }

    /// The instruction that a thread ran last read or wrote so many bytes.
    pub(super) fn accessed(
        &mut self,
        thread: u32,
        address: u64,
        octets: u64,
        write: bool,
    ) -> Result<(), Refused> {
        let mut done = 0;
        while done < octets {
            let part = (octets - done).min(MOST_OCTETS);
            if self.threads[thread as usize].accesses.len() >= MOST_ACCESSES {
                self.go_on(thread)?;
            }
            let running = &mut self.threads[thread as usize];
            let Some(last) = running.instructions.last_mut() else {
                return Err(Refused::Untrue("memory is accessed before the first instruction"));
            };
            last.loads |= !write;
            last.stores |= write;
            let instruction = running.instructions.len() as u16 - 1;
            let address = address.wrapping_add(done);
            running.accesses.push(Access { address, instruction, octets: part as u8, write });
            self.imported.accesses += 1;
            done += part;
        }
        Ok(())
    }

    /// The last instruction does more accesses than a block can have: it begins another one.
    fn go_on(&mut self, thread: u32) -> Result<(), Refused> {
        let running = &self.threads[thread as usize];
        let (last, next_pc) = (running.instructions.last().copied(), running.next_pc);
        self.flush(thread)?;
        if let Some(last) = last {
            let running = &mut self.threads[thread as usize];
            running.pc = next_pc.wrapping_sub(u64::from(last.octets));
            running.next_pc = next_pc;
            running.instructions.push(Instruction { loads: false, stores: false, ..last });
            self.imported.instructions += 1;
        }
        Ok(())
    }

    /// A thread synchronised with others.
    pub(super) fn sync(&mut self, thread: u32, sync: Sync) -> Result<(), Refused> {
        self.flush(thread)?;
        let running = &mut self.threads[thread as usize];
        running.syncs += 1;
        if running.syncs > MOST_SYNCS {
            return Err(Refused::Untrue(
                "more than a million steps of synchronisation have nothing between them",
            ));
        }
        self.writer.sync(thread, sync);
        self.imported.syncs += 1;
        Ok(())
    }

    /// Writes the block that a thread is in, as far as it came.
    fn flush(&mut self, thread: u32) -> Result<(), FileError> {
        let running = &mut self.threads[thread as usize];
        if running.instructions.is_empty() {
            return Ok(());
        }
        running.syncs = 0;
        let number = self.known.number(running.pc, &running.instructions, &mut self.writer);
        self.writer.block(thread, number, &running.accesses)?;
        running.instructions.clear();
        running.accesses.clear();
        Ok(())
    }

    /// All threads end, and with them the trace.
    pub(super) fn finish(mut self) -> Result<(W, Imported), FileError> {
        for thread in 0..self.threads.len() as u32 {
            self.flush(thread)?;
            self.writer.end(thread);
        }
        self.imported.threads = self.threads.len() as u32;
        Ok((self.writer.finish()?, self.imported))
    }
}

impl Known {
    fn number<W: Write>(
        &mut self,
        pc: u64,
        instructions: &[Instruction],
        writer: &mut TraceWriter<W>,
    ) -> u32 {
        let here = self.0.entry(pc).or_default();
        if let Some((number, _)) = here.iter().find(|(_, known)| **known == *instructions) {
            return *number;
        }
        let number = writer.define(Block { pc, instructions: instructions.to_vec() });
        here.push((number, instructions.into()));
        number
    }
}
