//! Writes a thread of a trace as ChampSim reads it, to standard output: for comparisons of simulators.
//! usage: champsim TRACE THREAD

use quaver_trace::armour;
use quaver_trace::block::{Class, Instruction, Registers};
use quaver_trace::file::TraceReader;
use quaver_trace::step::{Access, Step, Steps};
use std::io::{BufWriter, Write};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [path, thread] = &words[..] else { return Err("usage: champsim TRACE THREAD".into()) };
    let octets = std::fs::read(path)?;
    let octets = if path.ends_with(".txt") { armour::decode(&octets)? } else { octets };
    let trace = TraceReader::open(octets)?;
    let mut steps = trace.steps(thread.parse()?);
    let mut out = BufWriter::new(std::io::stdout().lock());
    let (mut accesses, mut before) = (Vec::new(), None::<(u64, [u8; 64])>);
    loop {
        let number = match steps.step(&mut accesses)? {
            Step::Block { number } => number,
            Step::Sync(_) => continue,
            Step::End => break,
        };
        let block = &trace.dictionary.blocks[number as usize];
        // Whether a jump was taken is known when the next block is.
        if let Some((behind, mut jump)) = before.take() {
            jump[9] = u8::from(block.pc != behind);
            out.write_all(&jump)?;
        }
        let mut pc = block.pc;
        for (index, instruction) in block.instructions.iter().enumerate() {
            let own = accesses.iter().filter(|access| usize::from(access.instruction) == index);
            let record = record(pc, instruction, own);
            pc += u64::from(instruction.octets);
            if instruction.class == Class::Branch {
                before = Some((pc, record));
            } else {
                out.write_all(&record)?;
            }
        }
    }
    if let Some((_, jump)) = before {
        out.write_all(&jump)?;
    }
    Ok(out.flush()?)
}

/// A record of 64 bytes. All jumps are conditional ones: they read flags and the instruction pointer and write the latter.
fn record<'a>(pc: u64, instruction: &Instruction, accesses: impl Iterator<Item = &'a Access>) -> [u8; 64] {
    let mut record = [0; 64];
    record[..8].copy_from_slice(&pc.to_le_bytes());
    let jumps = instruction.class == Class::Branch;
    record[8] = u8::from(jumps);
    let own = |set: Registers| set.iter().map(number);
    let special = |register: u8| jumps.then_some(register);
    let written = special(26).into_iter().chain(own(instruction.writes));
    record[10..12].iter_mut().zip(written).for_each(|(place, register)| *place = register);
    let read = special(26).into_iter().chain(special(25)).chain(own(instruction.reads));
    record[12..16].iter_mut().zip(read).for_each(|(place, register)| *place = register);
    let (mut writes, mut reads) = (16..32, 32..64);
    for access in accesses {
        let places = if access.write { &mut writes } else { &mut reads };
        if let Some(place) = places.by_ref().step_by(8).next() {
            record[place..place + 8].copy_from_slice(&access.address.to_le_bytes());
            places.start = place + 8;
        }
    }
    record
}

/// ChampSim's number of a register: `quaver sim import` has the way back.
fn number(register: u8) -> u8 {
    match register {
        0 => 18,
        1..=15 => register + 2,
        32 => 25,
        16..=31 => register + 16,
        _ => 60,
    }
}
