//! What an access costs, exactly: chains of loads, each of which needs the one before.

mod listed;

use listed::{CODE, Listed, access, run};
use quaver_sim::config::Config;
use quaver_trace::step::{Sync, Thread};

/// Lines of the second level's set that the code lies in are left out, so that code and data never meet.
fn lines(octets: u64, stride: u64) -> Vec<u64> {
    let set = |address: u64| address / 64 % 1024;
    let all = (0..octets / stride).map(|line| 0x1000_0000 + line * stride);
    all.filter(|address| set(*address) != set(CODE)).collect()
}

/// Cycles of each load in a pass over the lines, once they have been passed over twice.
fn cycles_a_load(octets: u64, stride: u64) -> f64 {
    let lines = lines(octets, stride);
    let passes = |count: usize| {
        let mut thread = Listed::default();
        for _ in 0..count {
            lines.iter().for_each(|line| thread.load(*line));
        }
        run(&Config::paper(), vec![thread]).cycles()
    };
    (passes(4) - passes(3)) as f64 / lines.len() as f64
}

#[test]
fn plateaus_and_knees_lie_where_table_2_puts_them() {
    for (kib, stride, cycles) in [
        (1, 32, 2.0),
        (16, 32, 2.0),
        (32, 32, 2.0),
        (64, 32, 12.0),
        (128, 64, 12.0),
        (256, 64, 12.0),
        (512, 64, 312.0),
        (1024, 64, 312.0),
    ] {
        assert_eq!(cycles_a_load(kib * 1024, stride), cycles, "{kib} KiB, a line each {stride} bytes");
    }
}

#[test]
fn as_many_lines_of_one_set_as_ways_stay_and_one_more_pushes_each_other_out() {
    let same_set = |sets: u64, line: u64, count: u64| {
        let thread = |passes: usize| {
            let mut thread = Listed::default();
            (0..passes).for_each(|_| (1..=count).for_each(|way| thread.load(way * sets * line + 0x80)));
            run(&Config::paper(), vec![thread]).cycles()
        };
        (thread(9) - thread(8)) / count
    };
    assert_eq!((same_set(512, 32, 2), same_set(512, 32, 3)), (2, 12), "two ways of the first level");
    assert_eq!((same_set(1024, 64, 4), same_set(1024, 64, 5)), (12, 312), "four ways of the second level");
}

#[test]
fn a_line_of_another_core_takes_thirty_cycles_more_than_a_look_into_the_own_cache() {
    let read_after = |count: u64, written: bool| {
        let lines: Vec<u64> = (0..count).map(|line| 0x1000_0000 + (line + 8) * 64).collect();
        let meet = Sync::Barrier { object: 8, parties: 2 };
        let (mut reader, mut other) = (Listed::default(), Listed::default());
        reader.sync(Sync::Create { thread: Thread(1) });
        for line in &lines {
            if written { other.store(*line) } else { other.load(*line) }
        }
        other.sync(meet);
        reader.load(0x2000_0000);
        reader.sync(meet);
        lines.iter().for_each(|line| reader.load(*line));
        let results = run(&Config::paper(), vec![reader, other]);
        assert_eq!(results.cores[0].from_remote, count);
        results.cores[0].stalls.remote_fs / results.cycle_fs
    };
    // 12 and 30 cycles, of which the 2 that any load takes are no stall.
    assert_eq!(read_after(100, false), 100 * (12 + 30 - 2), "read by the other");
    assert_eq!(read_after(100, true), 100 * (12 + 30 - 2), "written by the other");
}

#[test]
fn memory_may_be_given_in_nanoseconds() {
    let config = Config::from_toml("machine = 'paper'\nmemory.latency = '200 ns'").unwrap();
    let of = |count: u64| {
        let mut thread = Listed::default();
        (0..count).for_each(|line| thread.load(0x1000_0000 + (line + 8) * 64));
        run(&config, vec![thread]).duration_fs
    };
    let each_fs = (of(600) - of(500)) / 100;
    let cycle_fs = 2 * 166_667;
    assert_eq!(each_fs, 12 * cycle_fs + 200_000_000);
}

#[test]
fn dram_with_closed_pages_takes_what_its_timings_add_up_to() {
    let config = Config::from_toml("machine = 'paper'\nmemory = 'ddr3'").unwrap();
    let of = |count: u64, stride: u64| {
        let mut thread = Listed::default();
        (0..count).for_each(|line| thread.load(0x1000_0000 + (line * stride + 8) * 64));
        run(&config, vec![thread]).duration_fs
    };
    let cycle_fs = 2 * 166_667;
    // 16 lines on is the same bank: its row has been closed long before the next load comes.
    for stride in [1, 2, 16] {
        let each_fs = (of(600, stride) - of(500, stride)) / 100;
        assert_eq!(each_fs, 12 * cycle_fs + (20 + 27 + 6 + 20) * 1_000_000, "each {stride} lines");
    }
    // Nine stores, each in a block of its own and so half a cycle apart: the ninth waits for the first's place.
    let mut thread = Listed::default();
    (0..9).for_each(|line| thread.store(0x1000_0000 + (line * 16 + 16) * 64));
    let results = run(&config, vec![thread]);
    let stall_fs = results.cores[0].stalls.store_buffer_fs;
    assert_eq!(stall_fs, (12 - 4) * cycle_fs + 73_000_000, "eight stores came before it");
}

#[test]
fn stores_go_on_their_way_until_the_buffer_is_full() {
    let of = |count: u64| {
        let mut thread = Listed::default();
        thread.store(0x1000_0000 + 8 * 64);
        thread.work(200);
        (0..count).for_each(|line| thread.store(0x1000_0000 + (line + 20) * 64));
        run(&Config::paper(), vec![thread]).cores[0].stalls
    };
    assert_eq!(of(8).store_buffer_fs, 0, "eight fit");
    assert!(of(9).store_buffer_fs > 0, "the ninth waits for the first");
}

#[test]
fn an_access_over_the_end_of_a_line_looks_twice() {
    let mut thread = Listed::default();
    thread.load(0x1000_003c);
    let results = run(&Config::paper(), vec![thread]);
    assert_eq!(
        (results.cores[0].loads, results.cores[0].from_memory),
        (2, 3),
        "two lines of data, one of code"
    );
    assert_eq!(access(1, 0, false).octets, 8);
}
