//! Blocks in a file.
//!
//! ```text
//! block        pc (zigzag, from the end of the block before) │ instructions, varint │ instruction …
//! instruction  bytes, 1 byte │ class + 0x10 for a load + 0x20 for a store, 1 byte │ reads, varint │ writes, varint
//! ```

use crate::block::{Block, Class, Dictionary, Instruction, Registers};
use crate::varint::{Cursor, put, unzigzag, zigzag};

const LOADS: u8 = 0x10;
const STORES: u8 = 0x20;
/// Most instructions of a block; QEMU's have at most 512.
const MOST_INSTRUCTIONS: u64 = 4096;

/// Appends blocks; the first one's address is told from 0.
pub(crate) fn encode(blocks: &[Block]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut end: u64 = 0;
    for block in blocks {
        put(&mut out, zigzag(block.pc.wrapping_sub(end) as i64));
        put(&mut out, block.instructions.len() as u64);
        for instruction in &block.instructions {
            out.push(instruction.octets);
            let loads = if instruction.loads { LOADS } else { 0 };
            let stores = if instruction.stores { STORES } else { 0 };
            out.push(instruction.class as u8 | loads | stores);
            put(&mut out, instruction.reads.0);
            put(&mut out, instruction.writes.0);
        }
        end = block.pc.wrapping_add(block.octets());
    }
    out
}

/// The blocks of a frame, behind those that are known already.
pub(crate) fn decode(frame: &[u8], into: &mut Dictionary) -> Result<(), &'static str> {
    let mut cursor = Cursor::new(frame, 0);
    let mut end: u64 = 0;
    while !cursor.is_at_end() {
        let pc = end.wrapping_add(unzigzag(cursor.number()?) as u64);
        let count = cursor.bounded(MOST_INSTRUCTIONS, "a block has more instructions than any can have")?;
        let each = (0..count).map(|_| instruction(&mut cursor));
        let block = Block { pc, instructions: each.collect::<Result<_, _>>()? };
        if block.instructions.is_empty() {
            return Err("a block has no instructions");
        }
        end = pc.checked_add(block.octets()).ok_or("a block goes beyond the end of memory")?;
        into.blocks.push(block);
    }
    Ok(())
}

fn instruction(cursor: &mut Cursor<'_>) -> Result<Instruction, &'static str> {
    let octets = cursor.octet()?;
    if octets == 0 {
        return Err("an instruction has no bytes");
    }
    let kind = cursor.octet()?;
    let class = Class::from_repr(kind & 0x0f).ok_or("an instruction is of an unknown class")?;
    if kind & !(0x0f | LOADS | STORES) != 0 {
        return Err("an instruction is of an unknown class");
    }
    let most = (1 << Registers::COUNT) - 1;
    let registers = |cursor: &mut Cursor<'_>| {
        cursor.bounded(most, "an instruction names a register that there is not").map(Registers)
    };
    let reads = registers(cursor)?;
    let writes = registers(cursor)?;
    Ok(Instruction { octets, class, loads: kind & LOADS != 0, stores: kind & STORES != 0, reads, writes })
}
