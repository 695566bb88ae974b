//! Traces made for tests: no program was traced for them.

#![allow(dead_code, reason = "each test takes its part")]

use quaver_trace::block::{Block, Class, Instruction, Registers};
use quaver_trace::file::{Facts, TraceWriter};
use quaver_trace::step::{Access, Sync, Thread, Wakeup};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

type Writer = TraceWriter<BufWriter<File>>;

/// Threads of [`baton`].
const THREADS: u32 = 4;
/// Turns of each.
const TURNS: u64 = 50;
/// Blocks of each turn.
const BLOCKS: u64 = 20;
/// Instructions of a block.
const INSTRUCTIONS: u64 = 20;
/// Instructions of all threads of [`baton`].
pub(super) const BATON_INSTRUCTIONS: u64 = THREADS as u64 * TURNS * BLOCKS * INSTRUCTIONS;

fn begin(path: &Path, program: &[&str]) -> Writer {
    let facts = Facts {
        program: program.iter().map(|word| (*word).to_owned()).collect(),
        tool: "a test".to_owned(),
        architecture: "x86-64".to_owned(),
        ..Facts::default()
    };
    TraceWriter::new(BufWriter::new(File::create(path).unwrap()), &facts).unwrap()
}

/// A block of [`INSTRUCTIONS`] instructions that loads at its second and stores at its fourth, and jumps at its end.
fn block(pc: u64) -> Block {
    let plain = Instruction {
        octets: 4,
        class: Class::Integer,
        loads: false,
        stores: false,
        reads: Registers::of(1),
        writes: Registers::of(2),
    };
    let mut instructions = vec![plain; INSTRUCTIONS as usize];
    instructions[1].loads = true;
    instructions[3].stores = true;
    instructions[INSTRUCTIONS as usize - 1].class = Class::Branch;
    Block { pc, instructions }
}

fn access(instruction: u16, address: u64) -> Access {
    Access { address, instruction, octets: 8, write: instruction == 3 }
}

/// Threads that work in turns: each waits for the signal of the one before it, works on memory of its own and on a line that
/// all share, and signals the next.
pub(super) fn baton(path: &Path) {
    let mut writer = begin(path, &["./baton", "--threads", "4"]);
    let number = writer.define(block(0x40_1000));
    let (lock, condition) = (0x60_0000, 0x60_0040);
    (1..THREADS).for_each(|thread| writer.sync(0, Sync::Create { thread: Thread(thread) }));
    // The occasion that lets turn `turn` of a thread begin; the very first needs none.
    let occasion = |turn: u64, thread: u32| Wakeup(turn * u64::from(THREADS) + u64::from(thread));
    for thread in 0..THREADS {
        for turn in 0..TURNS {
            writer.sync(thread, Sync::Lock { object: lock });
            if (turn, thread) != (0, 0) {
                let by = Some(occasion(turn, thread));
                writer.sync(thread, Sync::Wait { object: condition, mutex: lock, by });
            }
            writer.sync(thread, Sync::Unlock { object: lock });
            for step in 0..BLOCKS {
                let own = 0x1000_0000 * (u64::from(thread) + 1) + (turn * BLOCKS + step) * 64;
                let accesses = [access(1, own), access(3, 0x60_0080)];
                writer.block(thread, number, &accesses).unwrap();
            }
            let next = if thread + 1 < THREADS { occasion(turn, thread + 1) } else { occasion(turn + 1, 0) };
            writer.sync(thread, Sync::Signal { object: condition, wakeup: next });
        }
    }
    (1..THREADS).for_each(|thread| writer.sync(0, Sync::Join { thread: Thread(thread) }));
    (0..THREADS).for_each(|thread| writer.end(thread));
    writer.finish().unwrap();
}

/// Threads that meet at a barrier after each block of work, so many times.
pub(super) fn meetings(path: &Path, threads: u32, rounds: u64) {
    let mut writer = begin(path, &["./meetings"]);
    let number = writer.define(block(0x40_1000));
    (1..threads).for_each(|thread| writer.sync(0, Sync::Create { thread: Thread(thread) }));
    for thread in 0..threads {
        for round in 0..rounds {
            let own = 0x1000_0000 * (u64::from(thread) + 1) + (round % 64) * 64;
            writer.block(thread, number, &[access(1, own), access(3, own)]).unwrap();
            writer.sync(thread, Sync::Barrier { object: 0x60_0000, parties: threads });
        }
    }
    (0..threads).for_each(|thread| writer.end(thread));
    writer.finish().unwrap();
}

/// One thread that runs the same block so many times.
pub(super) fn spinning(path: &Path, steps: u64) {
    let mut writer = begin(path, &["./spinning"]);
    let mut instructions = block(0x40_1000).instructions;
    instructions.iter_mut().for_each(|one| (one.loads, one.stores) = (false, false));
    let number = writer.define(Block { pc: 0x40_1000, instructions });
    (0..steps).for_each(|_| writer.block(0, number, &[]).unwrap());
    writer.end(0);
    writer.finish().unwrap();
}

/// Threads whose accesses go where nothing is to be foreseen, so that their trace is long.
pub(super) fn scattered(path: &Path, threads: u32, steps: u64) {
    const ACCESSES: usize = 300;
    let mut writer = begin(path, &["./scattered"]);
    let number = writer.define(block(0x40_1000));
    (1..threads).for_each(|thread| writer.sync(0, Sync::Create { thread: Thread(thread) }));
    let mut random = 1_u64;
    for _ in 0..steps {
        for thread in 0..threads {
            let accesses: Vec<Access> = (0..ACCESSES)
                .map(|_| {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    // Aligned, so that no access is in two lines.
                    access(1, (random >> 17) & !63)
                })
                .collect();
            writer.block(thread, number, &accesses).unwrap();
        }
    }
    (0..threads).for_each(|thread| writer.end(thread));
    writer.finish().unwrap();
}

/// Thread 0 waits for the end of thread 1, which waits for a lock of thread 0.
pub(super) fn stuck(path: &Path) {
    let mut writer = begin(path, &["./stuck"]);
    let number = writer.define(block(0x40_1000));
    let accesses = [access(1, 0x1000), access(3, 0x2000)];
    writer.block(0, number, &accesses).unwrap();
    writer.sync(0, Sync::Lock { object: 0x40 });
    writer.sync(0, Sync::Create { thread: Thread(1) });
    writer.sync(0, Sync::Join { thread: Thread(1) });
    writer.sync(1, Sync::Lock { object: 0x40 });
    (0..2).for_each(|thread| writer.end(thread));
    writer.finish().unwrap();
}
