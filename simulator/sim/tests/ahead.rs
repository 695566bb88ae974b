//! Cores that run ahead and go back give what cores give that never do: random programs that fight for few lines, run with
//! windows of all lengths. A window of a femtosecond lets no core be ahead at all.

mod listed;

use listed::Listed;
use quaver_sim::config::Config;
use quaver_sim::machine::Machine;
use quaver_sim::statistics::Results;
use quaver_trace::block::{Block, Class, Dictionary, Instruction, Registers};
use quaver_trace::step::{Access, Sync, Thread};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

const BLOCKS: u64 = 96;

/// Blocks of all kinds of instructions, over more code than small caches hold; some lie in a line with the next.
fn dictionary(random: &mut Pcg64Mcg) -> Dictionary {
    let block = |number: u64| {
        let instructions = (0..random.next_u64() % 12 + 1).map(|_| {
            let word = random.next_u64();
            let register = |shift: u64| Registers::of((word >> shift) as u8 % 34);
            Instruction {
                octets: (word >> 40) as u8 % 8 + 1,
                class: Class::from_repr((word >> 50) as u8 & 7)
                    .filter(|class| *class != Class::Serialising)
                    .unwrap_or(Class::Integer),
                loads: word & 3 == 0,
                stores: word >> 2 & 7 == 0,
                reads: register(8).and(register(16)),
                writes: register(24),
            }
        });
        Block { pc: 0x40_0000 + number * (24 + number % 5 * 64), instructions: instructions.collect() }
    };
    Dictionary { blocks: (0..BLOCKS).map(block).collect() }
}

/// Accesses of a block: mostly as many as its instructions have, now and then more, now and then over the end of a line.
fn accesses(block: &Block, thread: u64, random: &mut Pcg64Mcg) -> Vec<Access> {
    let mut all = Vec::new();
    for (number, instruction) in block.instructions.iter().enumerate() {
        for write in [false, true] {
            let does = if write { instruction.stores } else { instruction.loads };
            let word = random.next_u64();
            let times = if word & 63 == 0 { 3 } else { 1 };
            for time in 0..if does { times } else { 0 } {
                let shared = word >> 6 & 7 == 0;
                let base = if shared { 0x1000_0000 } else { 0x2000_0000 + thread * 0x1_0000 };
                let lines = if shared { 12 } else { 200 };
                let address = base + (word >> 16) % lines * 32 + (word >> 32) % 32 + time * 40;
                all.push(Access { address, instruction: number as u16, octets: 8, write });
            }
        }
    }
    all
}

fn program(threads: u32, seed: u64) -> (Dictionary, Vec<Listed>) {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let dictionary = dictionary(&mut random);
    let mut program: Vec<Listed> = vec![Listed::default(); threads as usize];
    (1..threads).for_each(|child| program[0].sync(Sync::Create { thread: Thread(child) }));
    for _ in 0..4 {
        for (id, thread) in program.iter_mut().enumerate() {
            let mut number = random.next_u64() % BLOCKS;
            for _ in 0..400 {
                let word = random.next_u64();
                number = if word & 7 == 0 { word >> 8 } else { number + (word >> 3 & 1) } % BLOCKS;
                let block = &dictionary.blocks[number as usize];
                thread.block(number as u32, accesses(block, id as u64, &mut random));
                if word >> 40 & 127 == 0 {
                    thread.sync(Sync::Lock { object: 8 });
                    thread.block(0, accesses(&dictionary.blocks[0], 0, &mut random));
                    thread.sync(Sync::Unlock { object: 8 });
                }
            }
            thread.sync(Sync::Barrier { object: 16, parties: threads });
        }
    }
    (dictionary, program)
}

fn run(text: &str, threads: u32, seed: u64, window_fs: u64) -> (Results, u64) {
    let (dictionary, program) = program(threads, seed);
    let config = Config::from_toml(text).unwrap();
    let mut machine =
        Machine::new(&config, &dictionary, program).with_window_fs(window_fs).with_intervals(10_000);
    assert!(machine.run(u64::MAX).unwrap());
    (machine.results(), machine.went_back())
}

#[test]
fn whoever_is_ahead_goes_back_where_it_matters() {
    let mut went_back = 0;
    for (text, threads, seeds) in [
        ("", 16, 2),
        ("machine = 'paper'", 16, 2),
        ("chip.cores = 6\nl1.kib = 1\nl2.kib = 8\nprefetch.kind = 'next-line'\nprefetch.lines = 4", 6, 4),
        ("chip.cores = 6\nl1.kib = 1\nl2.kib = 8\nprefetch.kind = 'stride'", 6, 4),
        (
            "core.pipeline = 'out-of-order'\nl1.kib = 1\nl2.kib = 8\ncore.rob_entries = 24\nprefetch.kind = 'next-line'",
            9,
            4,
        ),
        ("core.pipeline = 'out-of-order'\nchip.cores = 3\nchip.quantum_us = 1\ncore.load_misses = 2", 7, 4),
        ("chip.cores = 6\nl1.kib = 1\nl2.kib = 8\ndirectory.entries = 64", 6, 4),
        ("chip.cores = 3\nl1.kib = 1\nl1.ways = 4\nl2.kib = 4\nchip.quantum_us = 1", 9, 4),
        (
            "chip.cores = 5\nl1.ways = 1\nmemory = 'ddr3'\ndirectory.entries = 512\nchip.remote_cycles = 0",
            7,
            8,
        ),
    ] {
        for seed in 0..seeds {
            let (whole, times) = run(text, threads, seed, u64::MAX);
            went_back += times;
            for window_fs in [1, 1_000_000, 40_000_000] {
                let (cut, _) = run(text, threads, seed, window_fs);
                assert_eq!(cut, whole, "windows of {window_fs} fs, seed {seed}, {text:?}");
            }
        }
    }
    assert!(went_back > 1000, "it was tried: {went_back}");
}

#[test]
fn a_run_that_is_cut_has_a_path_to_where_it_is() {
    let (dictionary, program) = program(16, 11);
    let config = Config::default();
    let mut machine = Machine::new(&config, &dictionary, program);
    let (mut cuts, remote_fs) = (0, config.chip.remote_cycles * 333_334);
    while !machine.run(1).unwrap() {
        let (path, now_fs) = (machine.results().critical_path, machine.now_fs());
        // A thread that was woken just now has its wake-up on the way.
        let length_fs = path.total_fs();
        assert!(length_fs >= now_fs && length_fs <= now_fs + remote_fs, "{length_fs} at {now_fs}: {path:?}");
        cuts += 1;
    }
    assert!(cuts > 1, "{cuts}");
    let results = machine.results();
    assert_eq!(results.critical_path.total_fs(), results.duration_fs);
}

#[test]
fn time_adds_up_on_every_core_and_on_the_critical_path() {
    for text in
        ["", "chip.cores = 3\nchip.quantum_us = 1", "core.pipeline = 'out-of-order'", "machine = 'paper'"]
    {
        let (results, _) = run(text, 8, 7, u64::MAX);
        for (core, stack) in results.stacks.iter().enumerate() {
            assert_eq!(stack.total_fs(), results.duration_fs, "core {core}, {text:?}: {stack:?}");
        }
        assert_eq!(results.critical_path.total_fs(), results.duration_fs, "{text:?}");
        let instructions: u64 = results.threads.iter().map(|thread| thread.instructions).sum();
        assert_eq!(instructions, results.instructions());
        for (number, times) in results.threads.iter().enumerate() {
            assert_eq!(times.waited_for_fs.iter().sum::<u64>(), times.waited_fs);
            let lived_fs = times.end_fs - times.start_fs;
            assert!(
                times.busy_fs + times.waited_fs + times.queued_fs <= lived_fs,
                "thread {number}: {times:?}"
            );
        }
        assert_eq!(results.intervals_dropped, 0);
    }
}
