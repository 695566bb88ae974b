//! When the instructions of a block issue: worked out once for each block, since all is static but the caches.
//!
//! ```text
//! slots      0    1    2    3    4   …          a slot is a cycle over the issue width; one instruction issues in each
//!            add  load      use               a consumer waits for the latency of its producer
//! ```
//! Instructions issue in order, one in a slot; an access to memory keeps the only port busy for a cycle. Results that come
//! after the block's end are waited for in the blocks that follow.

use crate::config::Config;
use quaver_trace::block::{Block, Class, Dictionary, Instruction, Registers};

/// A register's number and a time in slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterSlot {
    /// The register.
    pub register: u8,
    /// Slots after the block's start (uses) or end (results).
    pub slot: u32,
}

/// The schedule of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockTiming {
    /// Slot in which each instruction issues.
    pub issue: Box<[u32]>,
    /// Accesses of each instruction that the schedule leaves room for.
    pub accesses: Box<[u8]>,
    /// Slots from the start of this block to the start of the next.
    pub length: u32,
    /// Registers read before the block wrote them, with their first use.
    pub uses: Box<[RegisterSlot]>,
    /// Registers whose value comes after the block's end.
    pub results: Box<[RegisterSlot]>,
    /// First and last first-level line of its code.
    pub code_lines: (u64, u64),
    /// Whether it ends with a jump, so that what follows is predicted.
    pub jumps: bool,
}

/// What is needed of a block each time it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    /// First and last first-level line of its code.
    pub(crate) code_lines: (u64, u64),
    /// Slots from the start of this block to the start of the next.
    pub(crate) length: u32,
    pub(crate) instructions: u16,
    /// Whether it ends with a jump.
    pub(crate) jumps: bool,
    /// Whether it is kernel code.
    pub(crate) kernel: bool,
    /// Where its registers begin, and how many are uses and results.
    registers: u32,
    uses: u8,
    results: u8,
}

/// An instruction, as an out-of-order core sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) reads: Registers,
    pub(crate) writes: Registers,
    /// From its operands, or from the data that it loads, to its result.
    pub(crate) cycles: u64,
    pub(crate) loads: bool,
    pub(crate) serialises: bool,
}

/// The schedules of all blocks, laid out for speed.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    heads: Vec<Head>,
    registers: Vec<RegisterSlot>,
    timings: Vec<BlockTiming>,
    /// Of out-of-order cores alone.
    flows: Vec<Box<[Flow]>>,
}

impl Blocks {
    pub(crate) fn new(dictionary: &Dictionary, config: &Config) -> Self {
        let mut blocks =
            Self { heads: Vec::new(), registers: Vec::new(), timings: Vec::new(), flows: Vec::new() };
        if config.core.pipeline == crate::config::Pipeline::OutOfOrder {
            let flows = |block: &Block| block.instructions.iter().map(|one| flow(one, config)).collect();
            blocks.flows = dictionary.blocks.iter().map(flows).collect();
        }
        for block in &dictionary.blocks {
            let timing = BlockTiming::new(block, config);
            blocks.heads.push(Head {
                code_lines: timing.code_lines,
                length: timing.length,
                instructions: timing.issue.len() as u16,
                jumps: timing.jumps,
                kernel: block.in_kernel(),
                registers: blocks.registers.len() as u32,
                uses: timing.uses.len() as u8,
                results: timing.results.len() as u8,
            });
            blocks.registers.extend(timing.uses.iter().chain(&timing.results));
            blocks.timings.push(timing);
        }
        blocks
    }

    #[inline]
    pub(crate) fn head(&self, number: u32) -> &Head {
        &self.heads[number as usize]
    }

    /// The block's instructions, in an out-of-order core.
    #[inline]
    pub(crate) fn flows(&self, number: u32) -> &[Flow] {
        self.flows.get(number as usize).map_or(&[], |flows| flows)
    }

    pub(crate) fn code_lines(&self, number: u32) -> (u64, u64) {
        self.head(number).code_lines
    }

    /// Registers read before the block wrote them, with their first use.
    #[inline]
    pub(crate) fn uses(&self, head: &Head) -> &[RegisterSlot] {
        let start = head.registers as usize;
        &self.registers[start..start + usize::from(head.uses)]
    }

    /// Registers whose value comes after the block's end.
    #[inline]
    pub(crate) fn results(&self, head: &Head) -> &[RegisterSlot] {
        let start = head.registers as usize + usize::from(head.uses);
        &self.registers[start..start + usize::from(head.results)]
    }

    /// Slot in which an instruction issues.
    pub(crate) fn slot(&self, number: u32, instruction: u16) -> u32 {
        let timing = &self.timings[number as usize];
        timing.issue.get(usize::from(instruction)).copied().unwrap_or(timing.length)
    }

    /// Accesses of an instruction that the schedule leaves room for.
    #[inline]
    pub(crate) fn room(&self, number: u32, instruction: u16) -> u8 {
        self.timings[number as usize].accesses.get(usize::from(instruction)).copied().unwrap_or(1)
    }
}

/// Slots, for a pipeline of this configuration.
struct Pipeline<'a> {
    config: &'a Config,
    ready: [u32; Registers::COUNT],
    first_use: [Option<u32>; Registers::COUNT],
    written: u64,
    next_slot: u32,
    port_free: u32,
}

impl BlockTiming {
    /// The schedule of this block.
    pub fn new(block: &Block, config: &Config) -> Self {
        let mut pipeline = Pipeline {
            config,
            ready: [0; Registers::COUNT],
            first_use: [None; Registers::COUNT],
            written: 0,
            next_slot: 0,
            port_free: 0,
        };
        let mut issue = Vec::with_capacity(block.instructions.len());
        let mut accesses = Vec::with_capacity(block.instructions.len());
        for instruction in &block.instructions {
            let ports = u8::from(instruction.loads) + u8::from(instruction.stores);
            issue.push(pipeline.issue(instruction, ports));
            accesses.push(ports);
        }
        let shift = config.l1.line_octets.trailing_zeros();
        let last_octet = block.pc + block.octets().max(1) - 1;
        Self {
            issue: issue.into(),
            accesses: accesses.into(),
            length: pipeline.next_slot,
            uses: pipeline.uses(),
            results: pipeline.results(),
            code_lines: (block.pc >> shift, last_octet >> shift),
            jumps: block.instructions.last().is_some_and(|last| last.class == Class::Branch),
        }
    }
}

impl Pipeline<'_> {
    fn issue(&mut self, instruction: &Instruction, ports: u8) -> u32 {
        let width = self.config.core.issue_width as u32;
        let mut slot = self.next_slot;
        for register in instruction.reads.iter() {
            slot = slot.max(self.ready[usize::from(register)]);
        }
        if ports > 0 {
            slot = slot.max(self.port_free);
            self.port_free = slot + u32::from(ports) * width;
        }
        for register in instruction.reads.iter().filter(|&register| self.written >> register & 1 == 0) {
            self.first_use[usize::from(register)].get_or_insert(slot);
        }
        let loaded = if instruction.loads { self.config.l1.hit_cycles as u32 } else { 0 };
        let worked = latency_cycles(instruction.class, self.config) as u32;
        let cycles = if only_loads(instruction) { loaded } else { loaded + worked };
        for register in instruction.writes.iter() {
            self.ready[usize::from(register)] = slot + cycles * width;
            self.written |= 1 << register;
        }
        self.next_slot =
            if instruction.class == Class::Serialising { slot + cycles * width } else { slot + 1 };
        slot
    }

    fn uses(&self) -> Box<[RegisterSlot]> {
        let each = self.first_use.iter().enumerate();
        each.filter_map(|(register, slot)| slot.map(|slot| RegisterSlot { register: register as u8, slot }))
            .collect()
    }

    fn results(&self) -> Box<[RegisterSlot]> {
        let late = self.ready.iter().enumerate().filter(|(_, ready)| **ready > self.next_slot);
        late.map(|(register, ready)| RegisterSlot { register: register as u8, slot: ready - self.next_slot })
            .collect()
    }
}

/// Whether it has its value from the cache as it is; a load that also computes does so afterwards.
fn only_loads(instruction: &Instruction) -> bool {
    instruction.loads && instruction.class == Class::Integer
}

fn flow(instruction: &Instruction, config: &Config) -> Flow {
    let worked = latency_cycles(instruction.class, config);
    Flow {
        reads: instruction.reads,
        writes: instruction.writes,
        cycles: if only_loads(instruction) { 0 } else { worked },
        loads: instruction.loads,
        serialises: instruction.class == Class::Serialising,
    }
}

fn latency_cycles(class: Class, config: &Config) -> u64 {
    let latency = &config.core.latency_cycles;
    match class {
        Class::Integer | Class::Branch => latency.integer,
        Class::Multiply => latency.multiply,
        Class::Divide => latency.divide,
        Class::Float => latency.float,
        Class::FloatMultiply => latency.float_multiply,
        Class::FloatDivide => latency.float_divide,
        Class::Serialising => latency.serialising,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(reads: &[u8], writes: &[u8]) -> Instruction {
        let set = |registers: &[u8]| {
            registers.iter().fold(Registers::default(), |set, &register| set.and(Registers::of(register)))
        };
        Instruction {
            octets: 4,
            class: Class::Integer,
            loads: false,
            stores: false,
            reads: set(reads),
            writes: set(writes),
        }
    }

    fn timing(instructions: Vec<Instruction>) -> BlockTiming {
        BlockTiming::new(&Block { pc: 0x1000, instructions }, &Config::default())
    }

    #[test]
    fn two_instructions_issue_in_a_cycle_where_nothing_is_in_the_way() {
        let timing = timing((0..8).map(|register| plain(&[], &[register])).collect());
        assert_eq!((timing.length, &*timing.issue), (8, &[0, 1, 2, 3, 4, 5, 6, 7][..]));
        assert_eq!(timing.code_lines, (0x80, 0x80));
        // The last one's value comes a cycle after its issue, half a cycle after the end.
        assert_eq!(&*timing.results, &[RegisterSlot { register: 7, slot: 1 }]);
    }

    #[test]
    fn a_chain_of_loads_takes_the_first_levels_latency_each() {
        let load = Instruction { loads: true, ..plain(&[0], &[0]) };
        let timing = timing(vec![load; 4]);
        assert_eq!(&*timing.issue, &[0, 4, 8, 12], "2 cycles of 2 slots each");
        assert_eq!(&*timing.uses, &[RegisterSlot { register: 0, slot: 0 }]);
        assert_eq!(&*timing.results, &[RegisterSlot { register: 0, slot: 3 }]);
    }

    #[test]
    fn the_memory_port_takes_one_access_a_cycle() {
        let load = |register| Instruction { loads: true, ..plain(&[8], &[register]) };
        let both = Instruction { loads: true, stores: true, ..plain(&[8], &[]) };
        assert_eq!(&*timing(vec![load(0), load(1), both, load(2)]).issue, &[0, 2, 4, 8]);
        let store = Instruction { stores: true, ..plain(&[0], &[]) };
        let divide = Instruction { class: Class::Divide, ..plain(&[], &[0]) };
        assert_eq!(&*timing(vec![divide, store]).issue, &[0, 40], "a store waits for its value");
    }
}
