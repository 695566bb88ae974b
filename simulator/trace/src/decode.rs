//! Instructions of x86-64 from their octets: class, registers that they read and write, whether they load and store.

use crate::block::{Class, Instruction, Registers};
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction as Machine, InstructionInfoFactory, Mnemonic, OpAccess,
    Register, RflagsBits,
};

/// The flags' number in [`Registers`].
const FLAGS: u8 = 32;
/// Flags that instructions depend on; others that are counted among them are the x87 unit's own.
const FLAG_BITS: u32 = RflagsBits::OF
    | RflagsBits::SF
    | RflagsBits::ZF
    | RflagsBits::AF
    | RflagsBits::CF
    | RflagsBits::PF
    | RflagsBits::DF;
/// The number of all x87 and MMX registers together.
const STACK: u8 = 33;
/// The number of the first vector register.
const FIRST_VECTOR: u8 = 16;

/// An instruction, and what its accesses need to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The instruction.
    pub instruction: Instruction,
    /// Whether it reads and writes the same memory. Where it does so at once, QEMU tells one access.
    pub changes_memory: bool,
}

/// Decodes the instructions of blocks.
pub struct Decode {
    factory: InstructionInfoFactory,
}

impl Default for Decode {
    fn default() -> Self {
        Self { factory: InstructionInfoFactory::new() }
    }
}

impl Decode {
    /// The instruction of these bytes at `pc`. What is no instruction is taken as one that lets nothing pass.
    pub fn instruction(&mut self, octets: &[u8], pc: u64) -> Decoded {
        let machine = Decoder::with_ip(64, octets, pc, DecoderOptions::NONE).decode();
        let length = octets.len().clamp(1, 15) as u8;
        let mut instruction = Instruction {
            octets: length,
            class: class_of(&machine),
            loads: false,
            stores: false,
            reads: Registers::default(),
            writes: Registers::default(),
        };
        let mut changes_memory = false;
        let info = self.factory.info(&machine);
        for used in info.used_memory() {
            let (reads, writes) = reads_and_writes(used.access());
            instruction.loads |= reads;
            instruction.stores |= writes;
            changes_memory |= reads && writes;
        }
        for used in info.used_registers() {
            let Some(number) = number_of(used.register()) else { continue };
            let (reads, writes) = reads_and_writes(used.access());
            if reads {
                instruction.reads = instruction.reads.and(Registers::of(number));
            }
            if writes {
                instruction.writes = instruction.writes.and(Registers::of(number));
            }
        }
        if machine.fpu_stack_increment_info().writes_top() {
            instruction.reads = instruction.reads.and(Registers::of(STACK));
            instruction.writes = instruction.writes.and(Registers::of(STACK));
        }
        if machine.rflags_read() & FLAG_BITS != 0 {
            instruction.reads = instruction.reads.and(Registers::of(FLAGS));
        }
        if machine.rflags_modified() & FLAG_BITS != 0 {
            instruction.writes = instruction.writes.and(Registers::of(FLAGS));
        }
        Decoded { instruction, changes_memory }
    }
}

fn reads_and_writes(access: OpAccess) -> (bool, bool) {
    match access {
        OpAccess::Read | OpAccess::CondRead => (true, false),
        OpAccess::Write | OpAccess::CondWrite => (false, true),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
        OpAccess::None | OpAccess::NoMemAccess => (false, false),
    }
}

/// A register's number in [`Registers`]; none for those that are not told apart, such as the instruction pointer.
fn number_of(register: Register) -> Option<u8> {
    let whole = register.full_register();
    if whole.is_gpr64() {
        Some(whole.number() as u8)
    } else if whole.is_vector_register() {
        Some(FIRST_VECTOR + (whole.number() % 16) as u8)
    } else if whole.is_st() || whole.is_mm() {
        Some(STACK)
    } else {
        None
    }
}

fn class_of(machine: &Machine) -> Class {
    if machine.has_lock_prefix() || lets_nothing_pass(machine) {
        return Class::Serialising;
    }
    if machine.flow_control() != FlowControl::Next {
        return Class::Branch;
    }
    match machine.mnemonic() {
        Mnemonic::Mul | Mnemonic::Imul | Mnemonic::Mulx => Class::Multiply,
        Mnemonic::Div | Mnemonic::Idiv => Class::Divide,
        mnemonic if is_float(machine) => float_class(&format!("{mnemonic:?}")),
        _ => Class::Integer,
    }
}

/// System calls, fences, and exchanges with memory, which are locked without a prefix.
fn lets_nothing_pass(machine: &Machine) -> bool {
    match machine.mnemonic() {
        Mnemonic::Xchg => {
            (0..machine.op_count()).any(|operand| machine.op_kind(operand) == iced_x86::OpKind::Memory)
        }
        Mnemonic::INVALID
        | Mnemonic::Syscall
        | Mnemonic::Sysenter
        | Mnemonic::Sysexit
        | Mnemonic::Sysret
        | Mnemonic::Sysretq
        | Mnemonic::Mfence
        | Mnemonic::Lfence
        | Mnemonic::Sfence
        | Mnemonic::Cpuid
        | Mnemonic::Serialize
        | Mnemonic::Iretq
        | Mnemonic::Iretd
        | Mnemonic::Wrmsr
        | Mnemonic::Invlpg
        | Mnemonic::Hlt => true,
        _ => false,
    }
}

/// Whether it works on vector or x87 registers.
fn is_float(machine: &Machine) -> bool {
    (0..machine.op_count()).any(|operand| {
        machine.op_kind(operand) == iced_x86::OpKind::Register
            && number_of(machine.op_register(operand))
                .is_some_and(|number| (FIRST_VECTOR..FLAGS).contains(&number) || number == STACK)
    }) || format!("{:?}", machine.mnemonic()).starts_with('F')
}

/// By the name, as `Vfmadd231sd`: vectors of integers take as long as those of other numbers.
fn float_class(mnemonic: &str) -> Class {
    let name = mnemonic.strip_prefix('V').unwrap_or(mnemonic).to_ascii_lowercase();
    let moves = ["mov", "lddqu", "fld", "fst", "fist", "fild", "fxch"];
    if name.contains("div") || name.contains("sqrt") {
        Class::FloatDivide
    } else if ["mul", "madd", "msub", "dpp"].iter().any(|part| name.contains(part)) {
        Class::FloatMultiply
    } else if moves.iter().any(|start| name.starts_with(start)) && !name.starts_with("movmsk") {
        Class::Integer
    } else {
        Class::Float
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(octets: &[u8]) -> Decoded {
        Decode::default().instruction(octets, 0x40_1000)
    }

    fn set(numbers: &[u8]) -> Registers {
        numbers.iter().fold(Registers::default(), |set, &number| set.and(Registers::of(number)))
    }

    /// Bytes, class, loads, stores, reads, writes.
    type Case<'a> = (&'a [u8], Class, bool, bool, &'a [u8], &'a [u8]);

    #[test]
    fn instructions_are_what_the_manual_says() {
        const RAX: u8 = 0;
        const RCX: u8 = 1;
        const RDX: u8 = 2;
        const RSP: u8 = 4;
        const RDI: u8 = 7;
        let cases: [Case<'_>; 18] = [
            (&[0x48, 0x01, 0xc8], Class::Integer, false, false, &[RAX, RCX], &[RAX, FLAGS]), // add rax, rcx
            (&[0x31, 0xc0], Class::Integer, false, false, &[], &[RAX, FLAGS]),               // xor eax, eax
            (&[0x48, 0x8b, 0x07], Class::Integer, true, false, &[RDI], &[RAX]),              // mov rax, [rdi]
            (&[0x48, 0x89, 0x07], Class::Integer, false, true, &[RDI, RAX], &[]),            // mov [rdi], rax
            (&[0x48, 0x8d, 0x04, 0x0f], Class::Integer, false, false, &[RDI, RCX], &[RAX]), // lea rax, [rdi+rcx]
            (&[0x50], Class::Integer, false, true, &[RAX, RSP], &[RSP]),                    // push rax
            (&[0xc3], Class::Branch, true, false, &[RSP], &[RSP]),                          // ret
            (&[0x75, 0x02], Class::Branch, false, false, &[FLAGS], &[]),                    // jnz
            (&[0x48, 0xf7, 0xe1], Class::Multiply, false, false, &[RAX, RCX], &[RAX, RDX, FLAGS]), // mul rcx
            (&[0x48, 0xf7, 0xf1], Class::Divide, false, false, &[RAX, RCX, RDX], &[RAX, RDX, FLAGS]), // div rcx
            (&[0xf2, 0x0f, 0x58, 0xc1], Class::Float, false, false, &[16, 17], &[16]), // addsd xmm0, xmm1
            (&[0xf2, 0x0f, 0x59, 0xc1], Class::FloatMultiply, false, false, &[16, 17], &[16]), // mulsd
            (&[0xf2, 0x0f, 0x5e, 0xc1], Class::FloatDivide, false, false, &[16, 17], &[16]), // divsd
            (&[0x0f, 0x28, 0x07], Class::Integer, true, false, &[RDI], &[16]),         // movaps xmm0, [rdi]
            (&[0xd9, 0xc0], Class::Integer, false, false, &[STACK], &[STACK]),         // fld st(0)
            (&[0x0f, 0x05], Class::Serialising, false, false, &[], &[RCX, 11]),        // syscall
            (&[0x0f, 0xae, 0xf0], Class::Serialising, false, false, &[], &[]),         // mfence
            (&[0x0f, 0x1f, 0x00], Class::Integer, false, false, &[], &[]),             // nop [rax]
        ];
        for (octets, class, loads, stores, reads, writes) in cases {
            let found = of(octets).instruction;
            let wanted = Instruction {
                octets: octets.len() as u8,
                class,
                loads,
                stores,
                // What a `nop` names and what a system call does to flags is the decoder's business.
                reads: if class == Class::Serialising || octets[1..].starts_with(&[0x1f]) {
                    found.reads
                } else {
                    set(reads)
                },
                writes: if class == Class::Serialising { found.writes } else { set(writes) },
            };
            assert_eq!(found, wanted, "{octets:02x?}");
        }
    }

    #[test]
    fn what_changes_memory_at_once_is_known() {
        let locked = of(&[0xf0, 0x48, 0x0f, 0xc1, 0x07]); // lock xadd [rdi], rax
        assert!(locked.changes_memory && locked.instruction.loads && locked.instruction.stores);
        assert_eq!(locked.instruction.class, Class::Serialising);
        let exchange = of(&[0x48, 0x87, 0x07]); // xchg [rdi], rax
        assert!(exchange.changes_memory && exchange.instruction.class == Class::Serialising);
        assert_eq!(of(&[0x48, 0x91]).instruction.class, Class::Integer, "xchg of two registers");
        let copies = of(&[0xa4]); // movsb
        assert!(!copies.changes_memory && copies.instruction.loads && copies.instruction.stores);
    }

    #[test]
    fn what_is_no_instruction_is_one_that_lets_nothing_pass() {
        assert_eq!(of(&[0x06]).instruction.class, Class::Serialising);
        assert_eq!(of(&[]).instruction.octets, 1);
    }
}
