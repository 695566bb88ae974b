//! Traces of ChampSim: a record an instruction, as `input_instr` of its `inc/trace_instruction.h` lies in memory.
//!
//! ```text
//! 0    8       9      10             12           16                     32                64
//! ip   branch  taken  2 registers    4 registers  2 addresses            4 addresses
//!                     written        read         written                read              0: none
//! ```
//! All numbers are little-endian. Registers are numbered as Pin does: 6 is the stack pointer, 25 the flags, 26 the
//! instruction pointer, by the same file. The others depend on Pin's version; here 3 to 18 are taken for general ones and all
//! else for vector ones, so that distinct registers stay distinct as far as there are places.
//!
//! Lengths of instructions and sizes of accesses are not told. An instruction that does not jump is as long as it is far to the
//! next one, where that is 1 to 15 bytes, and keeps the length that was seen first; else it is 4 bytes long. An access is one byte, which
//! touches the line that was recorded and no other.

use super::stitch::{Execution, Refused, Stitch};
use super::{ImportError, Imported, InputPosition, Source, facts};
use crate::block::{Class, Registers};
use std::collections::HashMap;
use std::io::Write;
use zerocopy::byteorder::little_endian::U64;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Record {
    ip: U64,
    is_branch: u8,
    taken: u8,
    written_registers: [u8; 2],
    read_registers: [u8; 4],
    written: [U64; 2],
    read: [U64; 4],
}

const _: () = assert!(size_of::<Record>() == 64);

const STACK_POINTER: u8 = 6;
const FLAGS: u8 = 25;
const INSTRUCTION_POINTER: u8 = 26;
const USUAL_OCTETS: u8 = 4;
/// Each input is a program with memory of its own: it differs from this bit of its addresses on.
const PROGRAM_SHIFT: u32 = 48;

const LACKS: [&str; 4] = [
    "how threads wait for each other: each input is a program by itself",
    "sizes of accesses: each is one byte",
    "lengths of instructions that were never seen to go on behind themselves: 4 bytes",
    "what instructions compute: all but jumps are integer ones",
];

pub(super) fn import<W: Write>(mut sources: Vec<Source<'_>>, out: W) -> Result<(W, Imported), ImportError> {
    let lacks: Vec<String> = LACKS.iter().map(ToString::to_string).collect();
    let mut stitch = Stitch::new(out, &facts(&sources[0].name, "ChampSim", "unknown", &lacks))?;
    // All run side by side from the start.
    for source in &sources {
        stitch.start_thread().map_err(|refused| told(source, 0, refused))?;
    }
    for (thread, source) in sources.iter_mut().enumerate() {
        Program { thread: thread as u32, lengths: HashMap::new() }.import(source, &mut stitch)?;
    }
    Ok(stitch.finish()?)
}

fn told(source: &Source<'_>, at: u64, refused: Refused) -> ImportError {
    match refused {
        Refused::Untrue(reason) => source.damaged(InputPosition::Octet(at), reason),
        Refused::Write(error) => error.into(),
    }
}

struct Program {
    thread: u32,
    lengths: HashMap<u64, u8>,
}

impl Program {
    fn import<W: Write>(
        mut self,
        source: &mut Source<'_>,
        stitch: &mut Stitch<W>,
    ) -> Result<(), ImportError> {
        let mut at = 0;
        let Some(mut record) = next(source, at)? else {
            return Err(source.damaged(InputPosition::Octet(0), "it is empty"));
        };
        loop {
            let following = next(source, at + size_of::<Record>() as u64)?;
            self.take_in(&record, following.as_ref(), stitch).map_err(|refused| told(source, at, refused))?;
            let Some(following) = following else { return Ok(()) };
            record = following;
            at += size_of::<Record>() as u64;
        }
    }

    fn take_in<W: Write>(
        &mut self,
        record: &Record,
        following: Option<&Record>,
        stitch: &mut Stitch<W>,
    ) -> Result<(), Refused> {
        if record.is_branch > 1 || record.taken > 1 {
            return Err(Refused::Untrue("it is told by neither 0 nor 1 whether an instruction jumps"));
        }
        let ip = record.ip.get();
        if ip >> PROGRAM_SHIFT != 0 {
            return Err(Refused::Untrue("an instruction is at no address of a program"));
        }
        let follows = following.filter(|_| record.is_branch == 0 || record.taken == 0);
        let far = follows.map_or(0, |following| following.ip.get().wrapping_sub(ip));
        let seen = (1..=15).contains(&far).then_some(far as u8);
        let octets = match (self.lengths.get(&ip), seen) {
            (Some(octets), _) => *octets,
            (None, Some(octets)) => *self.lengths.entry(ip).or_insert(octets),
            (None, None) => USUAL_OCTETS,
        };
        let place = u64::from(self.thread) << PROGRAM_SHIFT;
        let class = if record.is_branch == 1 { Class::Branch } else { Class::Integer };
        let (reads, writes) = (registers(&record.read_registers), registers(&record.written_registers));
        stitch.ran(self.thread, Execution { pc: ip | place, octets, class, reads, writes })?;
        for (addresses, write) in [(&record.read[..], false), (&record.written[..], true)] {
            for address in addresses.iter().map(|address| address.get()).filter(|address| *address != 0) {
                stitch.accessed(self.thread, address ^ place, 1, write)?;
            }
        }
        Ok(())
    }
}

fn next(source: &mut Source<'_>, at: u64) -> Result<Option<Record>, ImportError> {
    let mut record = Record::new_zeroed();
    let there = source.fill(record.as_mut_bytes(), at)?;
    Ok(there.then_some(record))
}

fn registers(numbers: &[u8]) -> Registers {
    let set = |set: Registers, number: &u8| match *number {
        0 | INSTRUCTION_POINTER => set,
        FLAGS => set.and(Registers::of(32)),
        // The stack pointer's number is ours, 4, for it is theirs less 2.
        3..=18 => set.and(Registers::of((*number - 2) % 16)),
        _ => set.and(Registers::of(16 + number % 16)),
    };
    numbers.iter().fold(Registers::default(), set)
}

const _: () = assert!((STACK_POINTER - 2) % 16 == 4);
