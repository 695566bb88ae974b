//! Prefetchers in the machine: loads in a row, counted by hand in cycles; and the order stays exact (`exact_order.rs`).

mod listed;

use listed::{Listed, run};
use quaver_sim::config::Config;

/// Loads of lines so far apart, each after so many blocks of nine half cycles.
fn cost(prefetch: &str, stride: u64, work: usize) -> (u64, u64, u64) {
    let config = Config::from_toml(&format!("machine = 'paper'\n{prefetch}")).unwrap();
    let mut thread = Listed::default();
    for number in 0..100_u64 {
        thread.load(0x1000_0000 + (number * stride + 8) * 64);
        thread.work(work);
    }
    let core = &run(&config, vec![thread]).cores[0];
    let cycle_fs = 2 * 166_667;
    let stalls_fs = core.stalls.second_level_fs + core.stalls.memory_fs;
    assert_eq!(stalls_fs % cycle_fs, 0);
    (stalls_fs / cycle_fs, core.prefetches, core.prefetches_used)
}

const NEXT: &str = "prefetch.kind = 'next-line'\nprefetch.lines = 1";
const STRIDE: &str = "prefetch.kind = 'stride'\nprefetch.lines = 1";
/// What a load loses to memory, and to the second level: 2 cycles of each are no stall.
const MEMORY: u64 = 310;
const SECOND: u64 = 10;

#[test]
fn with_time_enough_all_but_the_first_come_from_the_second_level() {
    // 100 blocks of 4.5 cycles are more than memory takes.
    assert_eq!(cost("", 1, 100), (100 * MEMORY, 0, 0));
    assert_eq!(cost(NEXT, 1, 100), (MEMORY + 99 * SECOND, 100, 99));
    // The third load is the first that shows a stride; from the fourth on lines are there.
    assert_eq!(cost(STRIDE, 1, 100), (3 * MEMORY + 97 * SECOND, 98, 97));
    assert_eq!(cost(STRIDE, 5, 100), (3 * MEMORY + 97 * SECOND, 98, 97));
    assert_eq!(cost(NEXT, 5, 100), (100 * MEMORY, 100, 0), "the next line is of no use here");
}

#[test]
fn without_time_a_load_waits_for_the_rest_of_its_lines_way() {
    // The first waits for memory from 0 to 312; from 12 on the second's line is on its way, until 312. The second, at 312,
    // asks for the third's, which comes at 612. The third, at 324, waits until then, but the fourth's comes at 624.
    let third = 612 - 324 - 2;
    assert_eq!(cost(NEXT, 1, 0), (MEMORY + SECOND + 49 * (third + SECOND), 100, 99));
}
