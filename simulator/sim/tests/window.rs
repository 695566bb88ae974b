//! The out-of-order core on traces that are counted by hand, in half cycles: it is two wide.

mod listed;

use listed::{Listed, access};
use quaver_sim::config::Config;
use quaver_sim::machine::Machine;
use quaver_sim::statistics::Results;
use quaver_trace::block::{Block, Class, Dictionary, Instruction, Registers};

/// `load r1, [r0]`, `load r1, [r1]`, `multiply r1, r1`, a plain one, a jump that reads r1.
const LOAD: u32 = 0;
const CHASE: u32 = 1;
const MULTIPLY: u32 = 2;
const PLAIN: u32 = 3;
const JUMP: u32 = 4;

fn dictionary() -> Dictionary {
    let plain = Instruction {
        octets: 1,
        class: Class::Integer,
        loads: false,
        stores: false,
        reads: Registers::default(),
        writes: Registers::default(),
    };
    let from = |register| Instruction { reads: Registers::of(register), writes: Registers::of(1), ..plain };
    let all = [
        Instruction { loads: true, ..from(0) },
        Instruction { loads: true, ..from(1) },
        Instruction { class: Class::Multiply, ..from(1) },
        plain,
        Instruction { class: Class::Branch, reads: Registers::of(1), ..plain },
    ];
    let block =
        |(number, instruction)| Block { pc: 0x40_0000 + number as u64, instructions: vec![instruction] };
    Dictionary { blocks: all.into_iter().enumerate().map(block).collect() }
}

/// Blocks, each load of a line of its own.
fn thread(blocks: &[u32]) -> Listed {
    let mut thread = Listed::default();
    for (number, &block) in blocks.iter().enumerate() {
        let loads = block == LOAD || block == CHASE;
        let accesses =
            if loads { vec![access(0x1000_0000 + (number as u64 + 8) * 64, 0, false)] } else { vec![] };
        thread.block(block, accesses);
    }
    thread
}

fn run(text: &str, thread: Listed) -> Results {
    let text = format!("machine = 'paper'\ncore.pipeline = 'out-of-order'\n{text}");
    let config = Config::from_toml(&text).unwrap();
    let mut machine = Machine::new(&config, &dictionary(), vec![thread]);
    assert!(machine.run(u64::MAX).unwrap());
    let results = machine.results();
    let core = &results.cores[0];
    let slot_fs = results.cycle_fs / config.core.issue_width;
    assert_eq!(core.busy_fs, core.issue_slots * slot_fs + core.stalls.total_fs(), "time adds up");
    results
}

const HALF_FS: u64 = 166_667;

/// Half cycles from the first dispatch, after the code was fetched, until the last instruction has retired.
fn halves(text: &str, thread: Listed) -> u64 {
    let results = run(text, thread);
    assert_eq!(results.duration_fs % HALF_FS, 0);
    // The fetch: 12 and 300 cycles; the end is at the directory after 12.
    results.duration_fs / HALF_FS - (312 + 12) * 2
}

/// A load from memory: 12 and 300 cycles.
const MEMORY: u64 = 312 * 2;

#[test]
fn loads_that_do_not_need_each_other_wait_at_the_same_time() {
    assert_eq!(halves("", thread(&[LOAD; 1])), MEMORY);
    assert_eq!(halves("", thread(&[LOAD; 8])), 7 + MEMORY, "dispatched half a cycle apart");
    assert_eq!(halves("core.load_misses = 1", thread(&[LOAD; 8])), 8 * MEMORY, "one at a time");
    // Two at a time: the third leaves when the first is here.
    assert_eq!(halves("core.load_misses = 2", thread(&[LOAD; 4])), 1 + 2 * MEMORY);
}

#[test]
fn loads_that_need_each_other_wait_one_after_the_other() {
    assert_eq!(halves("", thread(&[CHASE; 8])), 8 * MEMORY);
    // Two chains of one: the second load is no part of the first's chain.
    assert_eq!(halves("", thread(&[CHASE, LOAD, CHASE])), 1 + 2 * MEMORY);
}

#[test]
fn an_instruction_is_dispatched_when_the_one_before_by_the_buffers_size_has_retired() {
    // Of eight loads four fit: the fifth is dispatched when the first is here, and so on.
    assert_eq!(halves("core.rob_entries = 4", thread(&[LOAD; 8])), 3 + 2 * MEMORY);
    let results = run("core.rob_entries = 4", thread(&[LOAD; 8]));
    // Four are dispatched in two cycles, then it waits for the first; at the end the last one is waited for after a half.
    let stalls_fs = [MEMORY - 4, MEMORY - 1].iter().sum::<u64>() * HALF_FS;
    assert_eq!(results.cores[0].stalls.memory_fs, stalls_fs);
    // 128 entries hold one load and what follows; the 129th waits.
    let mut blocks = vec![LOAD];
    blocks.extend([PLAIN; 300]);
    assert_eq!(
        halves("", thread(&blocks)),
        MEMORY + 300 - 127 + 1,
        "plain ones end a cycle after their dispatch"
    );
    assert_eq!(halves("core.rob_entries = 1024", thread(&blocks)), MEMORY, "all of them fit");
}

#[test]
fn a_chain_of_results_bounds_what_a_full_buffer_can_dispatch() {
    // A multiplication takes three cycles; dispatch is a half each, so only the end waits.
    assert_eq!(halves("", thread(&[MULTIPLY; 100])), 100 * 6);
    let results = run("", thread(&[MULTIPLY; 100]));
    assert_eq!(results.cores[0].stalls.operands_fs, (100 * 6 - 100) * HALF_FS);
    let wide = run("core.issue_width = 4", thread(&[PLAIN; 400]));
    assert_eq!(wide.cores[0].issue_slots, 400);
    // A slot of four to a cycle is 83,333 fs; the last one ends a cycle, which is four slots, after its dispatch.
    assert_eq!(wide.duration_fs, ((312 + 12) * 4 + 399 + 4) * 83_333);
}

#[test]
fn a_wrong_prediction_costs_the_way_to_the_jump_and_the_front_end() {
    // The load, the jump a cycle after its data, four cycles to fill the front end, and the plain one's own cycle.
    let blocks = [LOAD, JUMP, PLAIN];
    assert_eq!(halves("", thread(&blocks)), MEMORY + 2 + 8 + 2);
    let results = run("", thread(&blocks));
    assert_eq!((results.cores[0].jumps, results.cores[0].mispredicted), (1, 1));
    assert_eq!(results.cores[0].stalls.mispredicted_fs, (MEMORY + 2 + 8 - 2) * HALF_FS);
    // Where the jump needs no load it is known at once: dispatched at 1, executed at 3, filled at 11, dispatched and done.
    let plain = [PLAIN, JUMP, PLAIN];
    assert_eq!(halves("", thread(&plain)), 3 + 8 + 2);
}

#[test]
fn a_second_load_of_a_line_that_is_on_its_way_comes_with_it() {
    let mut both = Listed::default();
    both.block(LOAD, vec![access(0x1000_0000, 0, false)]);
    both.block(LOAD, vec![access(0x1000_0008, 0, false)]);
    both.block(CHASE, vec![access(0x1000_0020, 0, false)]);
    // The third needs the second: it looks at the line's other half in L2, 12 cycles after the data of the second.
    assert_eq!(halves("", both), MEMORY + 24);
}
