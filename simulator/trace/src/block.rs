//! Blocks of instructions: the static part of a trace.

use serde::{Deserialize, Serialize};
use strum::FromRepr;

/// Registers by number, a bit each: 0 to 15 general, 16 to 31 vector, 32 flags, 33 the x87 and MMX stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registers(pub u64);

impl Registers {
    /// How many registers are told apart.
    pub const COUNT: usize = 34;

    /// The set of one register.
    ///
    /// Panics unless `register` is below [`Registers::COUNT`].
    pub const fn of(register: u8) -> Self {
        assert!((register as usize) < Self::COUNT, "there is no such register");
        Self(1 << register)
    }

    /// Those of both sets.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The registers' numbers, least first.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let next = (left != 0).then(|| left.trailing_zeros() as u8)?;
            left &= left - 1;
            Some(next)
        })
    }
}

/// What an instruction keeps busy; the simulator gives each a latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, FromRepr)]
#[repr(u8)]
pub enum Class {
    /// Integer and logic, moves, address arithmetic.
    Integer = 0,
    /// Integer multiplication.
    Multiply = 1,
    /// Integer division.
    Divide = 2,
    /// Floating point and vector: addition, comparison, conversion, shuffles.
    Float = 3,
    /// Floating-point multiplication, fused or not.
    FloatMultiply = 4,
    /// Floating-point division and square root.
    FloatDivide = 5,
    /// A jump, call or return.
    Branch = 6,
    /// A system call, a fence, or another instruction that lets nothing pass.
    Serialising = 7,
}

/// One instruction of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instruction {
    /// Its length in memory, in bytes (1 to 15 on x86-64).
    pub octets: u8,
    /// What it keeps busy.
    pub class: Class,
    /// Whether it reads memory.
    pub loads: bool,
    /// Whether it writes memory.
    pub stores: bool,
    /// Registers that it reads, those of its addresses too.
    pub reads: Registers,
    /// Registers that it writes.
    pub writes: Registers,
}

/// Instructions that run one after the other, entered at the first only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Address of its first instruction. Bit 63 is set for kernel code.
    pub pc: u64,
    /// Its instructions in their order; at least one.
    pub instructions: Vec<Instruction>,
}

impl Block {
    /// Whether it is kernel code (bit 63 of its address).
    pub const fn in_kernel(&self) -> bool {
        self.pc >> 63 == 1
    }

    /// Its length in memory, in bytes.
    pub fn octets(&self) -> u64 {
        self.instructions.iter().map(|instruction| u64::from(instruction.octets)).sum()
    }
}

/// All blocks of a trace; a block's number is its place here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dictionary {
    /// The blocks, by number.
    pub blocks: Vec<Block>,
}
